"""Values of a stream to the bytes of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline.connectors.formats import JsonSerializationSchema
from streamline.connectors.formats.base import SerializationSchema
from streamline.connectors.formats.csv import CsvSerializationSchema
from streamline.errors import ValidationException

__all__ = ("Encoder", "RecordEncoder")


class Encoder:
    """How values are written, by PyFlink's name and two more. Any `SerializationSchema` and any function of a value
    that gives bytes or text is an encoder too; each record is followed by a line end.
    """

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Callable[[Any], bytes]:
        """`str` of each value."""
        return lambda value: str(value).encode(charset_name)

    @staticmethod
    def json_lines() -> SerializationSchema[Any]:
        """A line of JSON for each value."""
        return JsonSerializationSchema()

    @staticmethod
    def csv(type_: Any = None, **options: Any) -> SerializationSchema[Any]:
        """A record of CSV for each value; see `CsvSerializationSchema`."""
        return CsvSerializationSchema(type_, **options)


class RecordEncoder:
    """An encoder at work.

    Args:
        encoder: see `Encoder`.

    Attributes:
        header: what every file begins with, None for nothing.
        suffix: how names of such files usually end.

    Raises:
        ValidationException: it is no encoder.
    """

    def __init__(self, encoder: Any) -> None:
        self.header: Final[bytes | None] = getattr(encoder, "header", None)
        self.suffix: Final = (
            ".jsonl"
            if isinstance(encoder, JsonSerializationSchema)
            else ".csv"
            if isinstance(encoder, CsvSerializationSchema)
            else ""
        )
        if isinstance(encoder, SerializationSchema):
            self._encode: Callable[[Any], Any] = encoder.serialize
        elif callable(encoder) and (encoder is str or not isinstance(encoder, type)):
            self._encode = encoder
        else:
            raise ValidationException(
                "an encoder is a SerializationSchema or a function of a value that gives bytes or text, "
                f"not {encoder!r}"
            )

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each value; what is encoded as None is left out. An error names its value."""
        rest = iter(values)
        try:
            found = list(map(self._encode, rest))
        except Exception as e:
            e.add_note(f"while it was encoded: {values[len(values) - sum(1 for _ in rest) - 1]!r}")
            raise
        if set(map(type, found)) == {bytes}:
            return found
        return [r.encode() if isinstance(r, str) else bytes(r) for r in found if r is not None]
