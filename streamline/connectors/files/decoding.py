"""Records of a file to values of a stream or rows of a table, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from streamline.abc import Counter
from streamline.connectors.files.chunks import Chunk, OpenFile
from streamline.connectors.formats import JsonDeserializationSchema
from streamline.connectors.formats.base import DeserializationException, DeserializationSchema, RowDecoder
from streamline.connectors.formats.csv import CsvDeserializationSchema, CsvDialect
from streamline.errors import ValidationException

__all__ = ("FileFormat", "RecordDecoder", "decoded", "format_of", "rows_format")


class RecordDecoder(Protocol):
    """Decodes the records of one file."""

    def decode(self, records: Sequence[bytes]) -> list[Any]:
        """A value for each, fast. Any exception: decode them one by one to find the culprit."""
        ...

    def decode_one(self, record: bytes) -> Any:
        """The value, or None for none; raises what is wrong with it."""
        ...


class FileFormat:
    """How files become values.

    Attributes:
        dialect: how records are cut out of CSV; None: records are lines.
        header: files begin with a line of column names.
        ignore_errors: records that cannot be read are skipped and counted.
        output_type: of the values, where it is known.
        decoder: gives the decoder of a file that has been opened.
    """

    def __init__(
        self,
        decoder: Callable[[OpenFile], RecordDecoder],
        *,
        dialect: CsvDialect | None = None,
        header: bool = False,
        ignore_errors: bool = False,
        output_type: Any = None,
    ) -> None:
        self.decoder: Final = decoder
        self.dialect: Final = dialect
        self.header: Final = header
        self.ignore_errors: Final = ignore_errors
        self.output_type: Final = output_type


def decoded(
    decoder: RecordDecoder, path: str, chunk: Chunk, limit: int, ignore_errors: bool, errors: Counter
) -> tuple[list[Any], int]:
    """Values of the first records of a chunk, and how many of its records they account for.

    Where a record is wrong, those before it are given out; it raises only if it is the first.
    """
    records = chunk.records if len(chunk.records) <= limit else chunk.records[:limit]
    try:
        return decoder.decode(records), len(records)
    except Exception:  # the other way finds out which one it is and what is wrong with it
        pass
    values: list[Any] = []
    for i, record in enumerate(records):
        try:
            value = decoder.decode_one(record)
        except Exception as e:
            if ignore_errors:
                errors.inc()
                continue
            if values:
                return values, i
            where = _place(path, chunk, i)
            if isinstance(e, DeserializationException):
                raise e.at(where) from e.__cause__
            e.add_note(f"in the deserializer, at {where}")
            raise
        if value is not None:
            values.append(value)
    return values, len(records)


def _place(path: str, chunk: Chunk, i: int) -> str:
    before = chunk.records[:i]
    line = chunk.line + 1 + i + sum(r.count(b"\n") for r in before)
    return f"{path}, line {line}, byte {chunk.offset + sum(map(len, before)) + i}"


# -- streams -------------------------------------------------------------------------------------------------------


def format_of(schema: Any) -> FileFormat:
    """The format of a `DeserializationSchema` or a function of a record's bytes.

    Raises:
        ValidationException: it is neither.
    """
    if isinstance(schema, CsvDeserializationSchema):
        return _csv_format(schema)
    if isinstance(schema, DeserializationSchema):
        blank = isinstance(schema, JsonDeserializationSchema)
        lines = _Lines(schema.deserialize, getattr(schema, "decode_fast", None), skip_blank=blank)
        return FileFormat(
            lambda _: lines, ignore_errors=schema.ignore_parse_errors, output_type=schema.get_produced_type()
        )
    if callable(schema) and not isinstance(schema, type):
        returned = getattr(schema, "__annotations__", {}).get("return")
        function = _Lines(schema, None, skip_blank=False)
        return FileFormat(lambda _: function, output_type=None if isinstance(returned, str) else returned)
    raise ValidationException(
        f"a DeserializationSchema or a function of a record's bytes is needed, not {schema!r}: e.g. "
        "JsonDeserializationSchema(Click), CsvDeserializationSchema(Click, header=True), SimpleStringSchema()"
    )


def _csv_format(schema: CsvDeserializationSchema[Any]) -> FileFormat:
    def decoder(file: OpenFile) -> RecordDecoder:
        if not schema.header:
            return schema.decoder(None)
        where = f"the header of {file.path}"
        try:
            header = schema.dialect.split((file.header or b"").decode().rstrip("\r\n"))
        except ValueError as e:
            raise DeserializationException(f"it cannot be read: {e}", where=where) from None
        return schema.decoder(header, where)

    return FileFormat(
        decoder,
        dialect=schema.dialect,
        header=schema.header,
        ignore_errors=schema.ignore_parse_errors,
        output_type=schema.get_produced_type(),
    )


class _Lines:
    """Lines by a function; the carriage return of `\\r\\n` is no part of them."""

    def __init__(self, one: Callable[[bytes], Any], fast: Callable[[bytes], Any] | None, *, skip_blank: bool) -> None:
        self._one = one
        self._fast = fast or one
        self._skip_blank = skip_blank

    def decode(self, records: Sequence[bytes]) -> list[Any]:
        values = list(map(self._fast, [r[:-1] if r[-1:] == b"\r" else r for r in records]))
        if None in values:
            return [v for v in values if v is not None]
        return values

    def decode_one(self, record: bytes) -> Any:
        if self._skip_blank and not record.strip():
            return None
        return self._one(record.removesuffix(b"\r"))


# -- tables --------------------------------------------------------------------------------------------------------


def rows_format(
    decoder: RowDecoder, *, keep_blank: bool, constants: Callable[[OpenFile], Mapping[str, Any]] | None
) -> FileFormat:
    """The format of the rows of a table.

    Args:
        decoder: of the format.
        keep_blank: an empty line is a row.
        constants: what the rows of a file get besides: attributes and values.
    """

    def of_file(file: OpenFile) -> RecordDecoder:
        return _Rows(decoder, keep_blank, constants(file) if constants is not None else {})

    return FileFormat(of_file, dialect=getattr(decoder, "dialect", None), ignore_errors=decoder.ignore_errors)


class _Rows:
    def __init__(self, decoder: RowDecoder, keep_blank: bool, constants: Mapping[str, Any]) -> None:
        self._decoder = decoder
        self._keep_blank = keep_blank
        self._constants = list(constants.items())

    def decode(self, records: Sequence[bytes]) -> list[Any]:
        if self._keep_blank:
            records = [r[:-1] if r[-1:] == b"\r" else r for r in records]
        return self._filled(self._decoder.decode(records))

    def decode_one(self, record: bytes) -> Any:
        if self._keep_blank:
            record = record.removesuffix(b"\r")
        elif not record.strip():
            return None
        row = self._decoder.decode_one(record)
        if row is not None:
            self._filled([row])
        return row

    def _filled(self, rows: list[Any]) -> list[Any]:
        for name, value in self._constants:
            for row in rows:
                setattr(row, name, value)
        return rows
