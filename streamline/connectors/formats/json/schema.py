"""JSON of streams: values of a Python class, through msgspec."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from streamline.connectors.formats.base import (
    DeserializationException,
    DeserializationSchema,
    SerializationSchema,
    excerpt,
)
from streamline.errors import ValidationException

__all__ = ("JsonDeserializationSchema", "JsonSerializationSchema")

T = TypeVar("T")


class JsonDeserializationSchema(DeserializationSchema[T], Generic[T]):
    """Reads JSON as values of a class: a msgspec Struct, dataclass, NamedTuple, TypedDict, or `dict` for any object.

    Args:
        type_: the class.
        ignore_parse_errors: skip and count what cannot be read instead of failing the job.
        strict: False lets msgspec convert, e.g. the text "12" to an int.

    Raises:
        ValidationException: JSON cannot be read as this type.
    """

    def __init__(self, type_: type[T] | Any, *, ignore_parse_errors: bool = False, strict: bool = True) -> None:
        self._type = type_
        self.ignore_parse_errors = ignore_parse_errors
        try:
            self._decode = msgspec.json.Decoder(type_, strict=strict).decode
        except TypeError as e:
            raise ValidationException(f"JSON cannot be read as {type_!r}: {e}") from None
        #: For the batches of a source: decodes, or raises whatever msgspec does.
        self.decode_fast = self._decode

    def deserialize(self, message: bytes) -> T | None:
        try:
            return self._decode(message)  # type: ignore[no-any-return]
        except Exception as e:  # ValidationError, DecodeError, and what a class's __post_init__ raises
            raise self._error(message, e) from None

    def get_produced_type(self) -> Any:
        return self._type

    def _error(self, message: bytes, error: Exception) -> DeserializationException:
        text = str(error)
        column = None
        if isinstance(error, msgspec.ValidationError):
            reason, _, path = text.partition(" - at `")
            column = path.rstrip("`").removeprefix("$").removeprefix(".") or None
            text = f"field '{column}': {reason}" if column else reason
        elif not message:
            text = "it is empty"
        elif isinstance(error, msgspec.DecodeError):
            text = f"it is no JSON: {text.removeprefix('JSON is malformed: ')}"
        return DeserializationException(
            f"Failed to deserialize JSON '{excerpt(message)}' as {_name(self._type)}: {text}. "
            "`JsonDeserializationSchema(…, ignore_parse_errors=True)` skips and counts such records.",
            value=message,
            column=column,
        )


def _name(type_: Any) -> str:
    return getattr(type_, "__name__", None) or str(type_)


class JsonSerializationSchema(SerializationSchema[Any]):
    """Writes what msgspec can write as JSON: Structs, dataclasses, dicts, rows with names, …; None is a tombstone."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_encode_other).encode

    def serialize(self, element: Any) -> bytes | None:
        return None if element is None else self._encode(element)


def _encode_other(value: Any) -> Any:
    as_dict = getattr(value, "as_dict", None)  # a Row
    if callable(as_dict):
        return as_dict()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r}")
