"""CSV: of tables by their schema, of streams by a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from streamline._core.types import Field
from streamline.connectors.formats.base import FormatFactory, RowDecoder, RowEncoder
from streamline.connectors.formats.csv.decode import CsvRowDecoder
from streamline.connectors.formats.csv.dialect import CsvDialect
from streamline.connectors.formats.csv.encode import CsvRowEncoder
from streamline.connectors.formats.csv.options import OPTIONS, CsvOptions
from streamline.connectors.formats.csv.schema import CsvDeserializationSchema, CsvSerializationSchema
from streamline.connectors.options import Options

__all__ = ("CsvDeserializationSchema", "CsvDialect", "CsvFormatFactory", "CsvSerializationSchema")


class CsvFormatFactory(FormatFactory):
    """The format `csv` of tables."""

    identifier: ClassVar[str] = "csv"
    options = OPTIONS

    def decoder(self, options: Options, fields: Sequence[Field], extras: Sequence[str] = ()) -> RowDecoder:
        return CsvRowDecoder(CsvOptions.of(options), fields, extras)

    def encoder(self, options: Options, fields: Sequence[Field]) -> RowEncoder:
        return CsvRowEncoder(CsvOptions.of(options), fields)
