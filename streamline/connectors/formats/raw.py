"""The format `raw` of tables: one column is the whole value."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from streamline._core.types import DataType, Field
from streamline.connectors.formats.base import (
    DeserializationException,
    FormatFactory,
    RowDecoder,
    RowEncoder,
    excerpt,
)
from streamline.connectors.options import Options, choice, text
from streamline.errors import ValidationException

__all__ = ("RawFormatFactory",)

_CHARSET: Final = text("charset", "UTF-8")
_ENDIANNESS: Final = choice("endianness", ("big-endian", "little-endian"), "big-endian")
_STRUCTS: Final = {
    "BOOLEAN": "?",
    "TINYINT": "b",
    "SMALLINT": "h",
    "INT": "i",
    "BIGINT": "q",
    "FLOAT": "f",
    "DOUBLE": "d",
}


class RawFormatFactory(FormatFactory):
    """See the module."""

    identifier: ClassVar[str] = "raw"
    options = (_CHARSET, _ENDIANNESS)

    def decoder(self, options: Options, fields: Sequence[Field], extras: Sequence[str] = ()) -> RowDecoder:
        if not fields:  # nothing of the value is asked for
            return _RawDecoder(None, lambda value: value, extras)
        field = _only(fields)
        return _RawDecoder(field, _codec(field.type, options)[0], extras)

    def encoder(self, options: Options, fields: Sequence[Field]) -> RowEncoder:
        return _RawEncoder(_codec(_only(fields).type, options)[1])


def _only(fields: Sequence[Field]) -> Field:
    if len(fields) != 1:
        names = ", ".join(f"`{f.name}` {f.type}" for f in fields)
        raise ValidationException(
            f"The 'raw' format only supports single physical column. However the columns are: {names}"
        )
    return fields[0]


def _codec(type_: DataType, options: Options) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """How a value of the type is read and written."""
    if type_.is_binary:
        return bytes, bytes
    if type_.is_character:
        charset = options.get(_CHARSET)
        try:
            codecs.lookup(charset)
        except LookupError:
            raise ValidationException(f"Unsupported 'raw.charset' name: {charset}.") from None
        return lambda value: value.decode(charset), lambda value: value.encode(charset)
    if type_.root in _STRUCTS:
        form = struct.Struct(("<" if options.get(_ENDIANNESS) == "little-endian" else ">") + _STRUCTS[type_.root])
        return lambda value: form.unpack(value)[0], form.pack
    raise ValidationException(f"The 'raw' format doesn't supports '{type_}' as column type.")


class _RawDecoder:
    """See `RowDecoder`."""

    ignore_errors: Final = False

    def __init__(self, field: Field | None, read: Callable[[bytes], Any], extras: Sequence[str]) -> None:
        self.sources: Final[Mapping[str, str]] = {} if field is None else {field.name: "r.value"}
        self.namespace: Final[Mapping[str, Any]] = {}
        self._field = field
        self._read = read
        self._class: Any = type("RawRow", (), {"__slots__": ("value", *extras)})

    def decode(self, values: Sequence[bytes]) -> list[Any]:
        return list(map(self._row, values))

    def empty(self) -> Any:
        row = self._class()
        row.value = None
        return row

    def decode_one(self, value: bytes) -> Any:
        try:
            return self._row(value)
        except (struct.error, ValueError) as e:
            assert self._field is not None
            name, kind = self._field.name, self._field.type.summary(short=True)
            reason = f"column '{name}' is {kind}, but the value is {excerpt(value, 60)!r}: {e}"
            raise DeserializationException(reason, value=value, column=name) from None

    def _row(self, value: bytes) -> Any:
        row = self._class()
        row.value = self._read(value)
        return row


class _RawEncoder:
    """See `RowEncoder`. NULL is a record without a value."""

    template: Final = "({0},)"
    namespace: Final[Mapping[str, Any]] = {}

    def __init__(self, write: Callable[[Any], bytes]) -> None:
        self._write = write

    def encode(self, row: tuple[Any]) -> bytes | None:
        return None if row[0] is None else self._write(row[0])
