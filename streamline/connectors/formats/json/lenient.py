"""JSON to rows token by token, by Flink's rules for values that are not exactly of the declared type.

Slow and seldom: only values that the fast way has refused come here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from streamline._core.types import INTEGER_BITS, DataType, Field
from streamline.connectors.formats.base import DeserializationException, excerpt
from streamline.connectors.formats.json.options import JsonOptions
from streamline.connectors.formats.numbers import fit_decimal, to_float32
from streamline.connectors.formats.times import parse_date, parse_time, parse_timestamp

__all__ = ("LenientDecoder", "map_value_type")

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_STRING: Final = msgspec.json.Decoder(str)
_ANY: Final = msgspec.json.Decoder()
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: What Java's Double.parseDouble takes besides numbers.
_SPECIAL: Final = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"}


class _Misfit(Exception):
    """A token that is no value of its column: the path below the column, and what is wrong."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


class LenientDecoder:
    """Decodes one value after the other.

    Args:
        options: of the format.
        fields: names and types.
        make: builds a row of its values in the inner form.
    """

    def __init__(self, options: JsonOptions, fields: Sequence[Field], make: Callable[[Sequence[Any]], Any]) -> None:
        self._options = options
        self._fields = fields
        self._make = make

    def decode(self, value: bytes) -> Any:
        """The row, or None for the JSON value null.

        Raises:
            DeserializationException: naming the column.
        """
        try:
            if value.strip() == b"null":
                return None
            return self._make(self._row(value, self._fields))
        except _Misfit as e:
            raise self._error(value, str(e), e.path or None) from None

    def _error(self, value: bytes, reason: str, column: str | None) -> DeserializationException:
        return DeserializationException(
            f"Failed to deserialize JSON '{excerpt(value)}': {reason}. "
            "Set 'json.ignore-parse-errors' = 'true' to skip and count such records.",
            value=value,
            column=column,
        )

    def _row(self, token: bytes, fields: Sequence[Field], path: str = "") -> list[Any]:
        try:
            members = _OBJECT.decode(token)
        except msgspec.ValidationError:
            what = f"column '{path}' is a ROW, but" if path else "a row is expected, but"
            raise _Misfit(f"{what} the value is {excerpt(token, 60)}, no JSON object", path) from None
        except msgspec.DecodeError as e:
            raise _Misfit(f"it is no JSON: {_plain(e)}" if token else "it is empty", path) from None
        values = []
        for f in fields:
            inner = f"{path}.{f.name}" if path else f.name
            if f.name in members:
                values.append(self._value(bytes(members[f.name]), f.type, inner))
            elif self._options.fail_on_missing_field:
                raise _Misfit(f"column '{inner}' is missing", inner)
            else:
                values.append(None)
        return values

    def _value(self, token: bytes, type_: DataType, path: str) -> Any:
        if token == b"null":
            return None
        try:
            return self._not_null(token, type_, path)
        except (LookupError, ValueError, ArithmeticError, msgspec.MsgspecError) as e:
            detail = f" ({e})" if type_.is_temporal else ""
            text = type_.summary(short=True)
            raise _Misfit(f"column '{path}' is {text}, but the value is {excerpt(token, 60)}{detail}", path) from None

    def _not_null(self, token: bytes, type_: DataType, path: str) -> Any:
        match type_.root:
            case "BOOLEAN":
                # Flink takes any other text for false; here it is an error.
                return {"true": True, "false": False}[_scalar(token).strip().lower()]
            case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
                return _integer(token, INTEGER_BITS[type_.root])
            case "INTERVAL_YEAR_MONTH":
                return _integer(token, 32)
            case "INTERVAL_DAY_TIME":
                return _integer(token, 64)
            case "FLOAT":
                return to_float32(_float(token))
            case "DOUBLE":
                return _float(token)
            case "DECIMAL":
                return fit_decimal(Decimal(_number(token)), type_.precision, type_.scale)
            case "CHAR" | "VARCHAR":
                return _text(token)
            case "BINARY" | "VARBINARY":
                return base64.b64decode(_STRING.decode(token), validate=True)
            case "DATE":
                return parse_date(_STRING.decode(token))
            case "TIME":
                return parse_time(_STRING.decode(token))
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                utc, unit = type_.root == "TIMESTAMP_LTZ", 10 ** (9 - type_.precision)
                return parse_timestamp(_STRING.decode(token), self._options.separator, utc, unit)
            case "ARRAY":
                assert type_.element is not None
                return [
                    self._value(bytes(e), type_.element, f"{path}[{i}]") for i, e in enumerate(_ARRAY.decode(token))
                ]
            case "MAP" | "MULTISET":
                of_value = map_value_type(type_)
                return {k: self._value(bytes(v), of_value, f"{path}[{k!r}]") for k, v in _OBJECT.decode(token).items()}
        return tuple(self._row(token, type_.fields, path))


def map_value_type(type_: DataType) -> DataType:
    """The type of the values of a MAP, of the counts of a MULTISET."""
    if type_.root == "MULTISET":
        return DataType("INT")
    assert type_.element is not None
    return type_.element


def _plain(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def _scalar(token: bytes) -> str:
    """The text of a string, number or boolean."""
    if token[:1] in (b"{", b"["):
        raise ValueError("no scalar")
    return _STRING.decode(token) if token[:1] == b'"' else token.decode()


def _text(token: bytes) -> str:
    """Any JSON value as text; objects and arrays without blanks."""
    return msgspec.json.encode(_ANY.decode(token)).decode() if token[:1] in (b"{", b"[") else _scalar(token)


def _integer(token: bytes, bits: int) -> int:
    text = _scalar(token).strip()
    if _INTEGER.fullmatch(text):
        value = int(text)
    elif token[:1] != b'"' and bits >= 32:
        number = Decimal(_number(token))  # 3.7 is 3, as getIntValue has it
        if number.adjusted() > 20:
            raise ValueError("out of range, and 1e999999999 would take all memory as an int")
        value = int(number)
    else:
        raise ValueError("no integer")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError("out of range")
    return value


def _float(token: bytes) -> float:
    text = _scalar(token).strip()
    return float(_SPECIAL.get(text) or _number(token))


def _number(token: bytes) -> str:
    text = _scalar(token).strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return text
