"""CSV of streams: values of a Python class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from streamline.connectors.formats.base import (
    DeserializationException,
    DeserializationSchema,
    SerializationSchema,
    excerpt,
)
from streamline.connectors.formats.csv.dialect import CsvDialect, MalformedRecord
from streamline.connectors.formats.csv.objects import Shape, fields_writer, shape_of
from streamline.errors import ValidationException

__all__ = ("CsvDeserializationSchema", "CsvSerializationSchema")

T = TypeVar("T")


class CsvDeserializationSchema(DeserializationSchema[T], Generic[T]):
    """Reads CSV as values of a class: a msgspec Struct, dataclass, NamedTuple, TypedDict, a tuple type or `dict`.

    Texts are converted to the types of the fields. An empty text is None where the field may be None and no text, the
    default where it has one.

    Args:
        type_: the class.
        header: files begin with a line of column names, and columns are found by name; others are left out.
        columns: names of the columns in their order, where there is no header; by default the fields of the class.
        delimiter, quote, escape: single characters; None for no quotes, no escapes.
        comments: lines that begin with `#` are left out.
        trim: blanks around fields without quotes do not count.
        null_literal: a text that stands for None.
        ignore_parse_errors: skip and count what cannot be read instead of failing the job.

    Raises:
        ValidationException: CSV cannot be read as this type, or the arguments do not fit together.
    """

    def __init__(
        self,
        type_: type[T] | Any,
        *,
        header: bool = False,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        quote: str | None = '"',
        escape: str | None = None,
        comments: bool = False,
        trim: bool = False,
        null_literal: str | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        if header and columns is not None:
            raise ValidationException("the columns of CSV are named by a header or by `columns`: give one of them")
        self._type = type_
        self.ignore_parse_errors = ignore_parse_errors
        #: Whether a file begins with the names of its columns.
        self.header: Final = header
        #: How records are cut out of a file.
        self.dialect: Final = CsvDialect(delimiter, quote, escape, comments, trim)
        self._null = null_literal
        self._shape: Final = shape_of(type_)
        names = self._shape.names if columns is None else tuple(columns)
        if names is None and not header:
            raise ValidationException(
                f"{_name(type_)} does not say which columns the CSV has: give columns=[…], or header=True if files "
                "begin with their names"
            )
        self._columns = names
        self._plain = None if header else self._decoder(names)

    def decoder(self, header: Sequence[str] | None, where: str = "") -> CsvDecoder[T]:
        """What decodes the records of a file with these columns; None: those of the schema.

        Raises:
            DeserializationException: a column that the class needs is not among them.
        """
        if header is None:
            return self._decoder(self._columns)
        try:
            return self._decoder(tuple(header))
        except ValidationException as e:
            raise DeserializationException(str(e), where=where) from None

    def _decoder(self, columns: tuple[str, ...] | None) -> CsvDecoder[T]:
        return CsvDecoder(self._type, self._shape, columns, self.dialect, self._null)

    def deserialize(self, message: bytes) -> T | None:
        if self._plain is None:
            raise ValidationException("a CSV header belongs to files; single records have none: leave header=True out")
        return self._plain.decode_one(message)

    def get_produced_type(self) -> Any:
        return self._type


class CsvDecoder(Generic[T]):
    """Decodes records whose columns are known."""

    def __init__(
        self, type_: Any, shape: Shape, columns: tuple[str, ...] | None, dialect: CsvDialect, null: str | None
    ) -> None:
        self._type = type_
        self._dialect = dialect
        self._build, self._columns = shape.builder(columns, null)
        self._many = list[type_]

    def decode(self, records: Sequence[bytes]) -> list[T]:
        """Values of records, fast; whatever it raises, `decode_one` judges the records one by one."""
        dialect = self._dialect
        if not dialect.is_plain:
            raise ValueError("only the other way reads this dialect")
        texts = [r.decode().rstrip("\r\n") for r in records]
        if "" in texts or (dialect.comments and any(t.startswith("#") for t in texts)):
            raise ValueError("empty lines and comments are no records")
        rows = list(map(self._build, dialect.reader(texts)))
        if len(rows) != len(records):
            raise ValueError("an open quote has joined records")
        return msgspec.convert(rows, self._many, strict=False)

    def decode_one(self, record: bytes) -> T | None:
        """The value of a record, None for an empty line or comment.

        Raises:
            DeserializationException: it cannot be read; names the column.
        """
        try:
            text = record.decode().rstrip("\r\n")
        except UnicodeDecodeError as e:
            raise self._error(record, f"it is no UTF-8: {e.reason} at byte {e.start}", None) from None
        if not text or self._dialect.is_comment(text):
            return None
        try:
            fields = self._dialect.split(text)
        except MalformedRecord as e:
            known = self._columns is not None and e.position < len(self._columns)
            column = self._columns[e.position] if known and self._columns is not None else None
            raise self._error(record, f"field {e.position + 1}: {e}", column) from None
        try:
            return msgspec.convert(self._build(fields), self._type, strict=False)  # type: ignore[no-any-return]
        except MalformedRecord as e:
            raise self._error(record, str(e), None) from None
        except Exception as e:  # ValidationError, and what a class's __post_init__ raises
            reason, _, path = str(e).partition(" - at `")
            column = path.rstrip("`").removeprefix("$").removeprefix(".") or None
            if column is not None and column.startswith("[") and self._columns is not None:
                column = self._columns[int(column[1:-1])]
            raise self._error(record, f"column '{column}': {reason}" if column else reason, column) from None

    def _error(self, record: bytes, reason: str, column: str | None) -> DeserializationException:
        return DeserializationException(
            f"Failed to deserialize CSV '{excerpt(record)}' as {_name(self._type)}: {reason}. "
            "`CsvDeserializationSchema(…, ignore_parse_errors=True)` skips and counts such records.",
            value=record,
            column=column,
        )


class CsvSerializationSchema(SerializationSchema[Any]):
    """Writes values as CSV: Structs, dataclasses, NamedTuples, dicts, tuples, rows; anything else is one field.

    Args:
        type_: the class, where a header is to be written or the columns are to be those of the class; or
        columns: names of the attributes or keys to be written, in their order.
        header: files begin with a line of the column names.
        delimiter, quote, escape: single characters; None for no quotes, no escapes.
        null_literal: the text of None.
        array_delimiter: between the elements of a list.

    Raises:
        ValidationException: a header is asked for, and nothing says what the columns are.
    """

    def __init__(
        self,
        type_: Any = None,
        *,
        columns: Sequence[str] | None = None,
        header: bool = False,
        delimiter: str = ",",
        quote: str | None = '"',
        escape: str | None = None,
        null_literal: str = "",
        array_delimiter: str = ";",
    ) -> None:
        self._dialect = CsvDialect(delimiter, quote, escape)
        names = tuple(columns) if columns is not None else None if type_ is None else shape_of(type_).names
        if header and names is None:
            raise ValidationException("a CSV header needs to know the columns: give the class, or columns=[…]")
        #: The first line of a file, without its end; None where there is none.
        self.header: Final = self._dialect.join(names).encode() if header and names is not None else None
        self._fields: Callable[[Any], list[str]] = fields_writer(names, null_literal, array_delimiter)

    def serialize(self, element: Any) -> bytes | None:
        return None if element is None else self._dialect.join(self._fields(element)).encode()


def _name(type_: Any) -> str:
    return getattr(type_, "__name__", None) or str(type_)
