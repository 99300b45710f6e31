"""Files: a source that reads or follows them, and a sink that writes each record once."""

from __future__ import annotations

from streamline.connectors.files.chunks import FileChangedError
from streamline.connectors.files.encoding import Encoder
from streamline.connectors.files.policy import BucketAssigner, BucketContext, OutputFileConfig, RollingPolicy
from streamline.connectors.files.sink import FileSink
from streamline.connectors.files.source import FileSource, StreamFormat
from streamline.connectors.formats import (
    BytesSchema,
    DeserializationException,
    DeserializationSchema,
    JsonDeserializationSchema,
    JsonSerializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from streamline.connectors.formats.csv import CsvDeserializationSchema, CsvSerializationSchema

__all__ = (
    "BucketAssigner",
    "BucketContext",
    "BytesSchema",
    "CsvDeserializationSchema",
    "CsvSerializationSchema",
    "DeserializationException",
    "DeserializationSchema",
    "Encoder",
    "FileChangedError",
    "FileSink",
    "FileSource",
    "JsonDeserializationSchema",
    "JsonSerializationSchema",
    "OutputFileConfig",
    "RollingPolicy",
    "SerializationSchema",
    "SimpleStringSchema",
    "StreamFormat",
)
