"""JSON: of tables by their schema, of streams by a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from streamline._core.types import Field
from streamline.connectors.formats.base import FormatFactory, RowDecoder, RowEncoder
from streamline.connectors.formats.json.decode import JsonRowDecoder
from streamline.connectors.formats.json.encode import JsonRowEncoder
from streamline.connectors.formats.json.options import OPTIONS, JsonOptions
from streamline.connectors.formats.json.rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from streamline.connectors.formats.json.schema import JsonDeserializationSchema, JsonSerializationSchema
from streamline.connectors.options import Options

__all__ = (
    "JsonDeserializationSchema",
    "JsonFormatFactory",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
)


class JsonFormatFactory(FormatFactory):
    """The format `json` of tables."""

    identifier: ClassVar[str] = "json"
    options = OPTIONS

    def decoder(self, options: Options, fields: Sequence[Field], extras: Sequence[str] = ()) -> RowDecoder:
        return JsonRowDecoder(JsonOptions.of(options), fields, extras)

    def encoder(self, options: Options, fields: Sequence[Field]) -> RowEncoder:
        return JsonRowEncoder(JsonOptions.of(options), fields)
