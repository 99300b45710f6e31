"""Formats of records: bytes to values and back."""

from __future__ import annotations

from streamline.connectors.formats.base import (
    DeserializationException,
    DeserializationSchema,
    SerializationSchema,
)
from streamline.connectors.formats.csv import CsvDeserializationSchema, CsvSerializationSchema
from streamline.connectors.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
)
from streamline.connectors.formats.text import BytesSchema, SimpleStringSchema

__all__ = (
    "BytesSchema",
    "CsvDeserializationSchema",
    "CsvSerializationSchema",
    "DeserializationException",
    "DeserializationSchema",
    "JsonDeserializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
    "SerializationSchema",
    "SimpleStringSchema",
)
