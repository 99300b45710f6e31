"""Rows as the connector `print` shows them: Java's texts of values, so that output can be compared with Flink's."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from streamline._core.types import DataType
from streamline.connectors.formats.numbers import short_float32
from streamline.connectors.formats.times import date_text, timestamp_text

__all__ = ("text_of",)

Text = Callable[[Any], str]


def text_of(type_: DataType) -> Text:
    """Makes the text of a value of a type in the inner form; NULL is `null`."""
    text = _not_null(type_)
    return lambda v: "null" if v is None else text(v)


def _not_null(type_: DataType) -> Text:
    match type_.root:
        case "BOOLEAN":
            return lambda v: "true" if v else "false"
        case "FLOAT":
            return lambda v: _java_float(short_float32(v) if math.isfinite(v) else v)
        case "DOUBLE":
            return _java_float
        case "DECIMAL":
            return _java_decimal
        case "DATE":
            return date_text
        case "TIME":
            return lambda v: _clock(v // 1000, v % 1000 * 1_000_000, True)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            utc = type_.root == "TIMESTAMP_LTZ"
            return lambda v: _timestamp(v, utc)
        case "INTERVAL_DAY_TIME":
            return _duration
        case "INTERVAL_YEAR_MONTH":
            return _period
        case "BINARY" | "VARBINARY":
            return lambda v: "[" + ", ".join(str(b - 256 if b > 127 else b) for b in v) + "]"
        case "ARRAY":
            assert type_.element is not None
            of_element = text_of(type_.element)
            return lambda v: "[" + ", ".join(map(of_element, v)) + "]"
        case "MAP" | "MULTISET":
            key = type_.key if type_.root == "MAP" else type_.element
            value = type_.element if type_.root == "MAP" else DataType("INT")
            assert key is not None and value is not None
            of_key, of_value = text_of(key), text_of(value)
            return lambda v: "{" + ", ".join(f"{of_key(k)}={of_value(e)}" for k, e in v.items()) + "}"
        case "ROW" | "STRUCTURED":
            of_fields = [text_of(f.type) for f in type_.fields]
            return lambda v: "+I[" + ", ".join(f(e) for f, e in zip(of_fields, v)) + "]"
    return str


def _java_float(value: float) -> str:
    """Double.toString: scientific below 0.001 and from ten million."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0.0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    first, rest = digits[0], "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def _java_decimal(value: Decimal) -> str:
    """BigDecimal.toString."""
    return str(value)


def _fraction(nanos: int) -> str:
    """In threes, as java.time has it."""
    if not nanos:
        return ""
    for digits in (3, 6):
        if nanos % 10 ** (9 - digits) == 0:
            return f".{nanos // 10 ** (9 - digits):0{digits}}"
    return f".{nanos:09}"


def _clock(seconds: int, nanos: int, short: bool) -> str:
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if short and seconds % 60 == 0 and not nanos:
        return text
    return f"{text}:{seconds % 60:02}{_fraction(nanos)}"


def _timestamp(nanos: int, utc: bool) -> str:
    seconds, rest = divmod(nanos, 1_000_000_000)
    date = timestamp_text(seconds * 1_000_000_000, "T")[:-9]
    clock = _clock(seconds % 86400, rest, short=not utc)
    return f"{date}T{clock}{'Z' if utc else ''}"


def _duration(millis: int) -> str:
    """Duration.toString: PT1H2M3.5S."""
    if not millis:
        return "PT0S"
    sign = -1 if millis < 0 else 1
    seconds, rest = divmod(abs(millis), 1000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = "PT" + (f"{sign * hours}H" if hours else "") + (f"{sign * minutes}M" if minutes else "")
    if seconds or rest:
        text += f"{'-' if sign < 0 else ''}{seconds}" + (f".{rest:03}".rstrip("0") if rest else "") + "S"
    return text


def _period(months: int) -> str:
    """Period.toString: P1Y2M."""
    sign = -1 if months < 0 else 1
    years, rest = divmod(abs(months), 12)
    if not months:
        return "P0D"
    return "P" + (f"{sign * years}Y" if years else "") + (f"{sign * rest}M" if rest else "")
