"""Literals of SQL: their types, and the checks that text of a kind must pass."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

from streamline._core import types as t
from streamline.errors import ValidationException
from streamline.table.expr.coercion import MAX_PRECISION, integer_range
from streamline.table.expr.nodes import Expr, Literal
from streamline.table.expr.runtime import temporal
from streamline.table.expr.runtime.strings import utf16_length

__all__ = (
    "boolean_literal",
    "bytes_literal",
    "date_literal",
    "int_literal",
    "interval_literal",
    "null_literal",
    "number_literal",
    "text_literal",
    "time_literal",
    "timestamp_literal",
)


def null_literal() -> Literal:
    """A bare NULL."""
    return Literal(None, t.NULL)


def boolean_literal(value: bool) -> Literal:
    """TRUE or FALSE."""
    return Literal(value, t.BOOLEAN.not_null())


def int_literal(value: int) -> Literal:
    """An integer: INT where it fits, else BIGINT."""
    low, high = integer_range("INT")
    return Literal(value, (t.INT if low <= value <= high else t.BIGINT).not_null())


def number_literal(text: str, negative: bool = False) -> Literal:
    """A number as written: digits are INT or BIGINT, with a point DECIMAL, with an exponent DOUBLE.

    Raises:
        ValidationException: if it is out of range: the digits of a DECIMAL must make a BIGINT.
    """
    shown = f"{'-' if negative else ''}{text}"
    try:
        number = Decimal(shown)
    except InvalidOperation:
        raise ValidationException(f"Numeric literal '{shown}' is not a number") from None
    if "e" in text.lower():
        double = float(shown)
        if not math.isfinite(double):
            raise ValidationException(f"Numeric literal '{shown}' out of range")
        return Literal(double, t.DOUBLE.not_null())
    whole, _, fraction = text.partition(".")
    low, high = integer_range("BIGINT")
    if not low <= number.scaleb(len(fraction)) <= high:
        raise ValidationException(f"Numeric literal '{shown}' out of range")
    if not fraction:
        return int_literal(int(number))
    precision = min(len(whole) + len(fraction), MAX_PRECISION)
    return Literal(number, t.decimal(precision, min(len(fraction), precision)).not_null())


def text_literal(text: str) -> Literal:
    """A character string: CHAR of its length."""
    return Literal(text, t.char(utf16_length(text)).not_null())


def bytes_literal(data: bytes) -> Literal:
    """A binary string: BINARY of its length."""
    return Literal(data, t.binary(len(data)).not_null())


def interval_literal(amount: int, year_month: bool) -> Literal:
    """An interval of months or milliseconds."""
    type_ = t.interval_year_month() if year_month else t.interval_day_time()
    return Literal(amount, type_.not_null())


_DATE: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?", re.ASCII)


def _day(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    return temporal.parse_date(text) if match is not None else None


def _clock(text: str) -> tuple[int, int] | None:
    """Nanoseconds of the day and number of digits after the seconds."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(g) for g in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (match[4] or "")[:9]
    return ((hour * 60 + minute) * 60 + second) * temporal.SECOND + int(fraction.ljust(9, "0")), len(fraction)


def date_literal(text: str) -> Expr:
    """DATE '…'.

    Raises:
        ValidationException: if the text is no date.
    """
    day = _day(text)
    if day is None:
        raise ValidationException(f"Illegal DATE literal '{text}': not in format 'yyyy-MM-dd'")
    return Literal(day, t.DATE.not_null())


def time_literal(text: str) -> Expr:
    """TIME '…'.

    Raises:
        ValidationException: if the text is no time of day.
    """
    clock = _clock(text.strip())
    if clock is None:
        raise ValidationException(f"Illegal TIME literal '{text}': not in format 'HH:mm:ss'")
    nanos, digits = clock
    return Literal(nanos // temporal.MS, t.time(min(digits, 3)).not_null())


def timestamp_literal(text: str) -> Expr:
    """TIMESTAMP '…'; its precision is the number of digits written after the seconds; a date alone is its midnight.

    Raises:
        ValidationException: if the text is no timestamp.
    """
    date, blank, rest = text.lstrip().partition(" ")
    day = _day(date)
    clock = _clock(rest.strip()) if blank else (0, 0)
    if day is None or clock is None:
        raise ValidationException(f"Illegal TIMESTAMP literal '{text}': not in format 'yyyy-MM-dd HH:mm:ss'")
    nanos, digits = clock
    return Literal(day * temporal.DAY + nanos, t.timestamp(digits).not_null())


#: Makers of literals that are written as a keyword and a text.
TEMPORAL_LITERALS: Final[dict[str, Callable[[str], Expr]]] = {
    "DATE": date_literal,
    "TIME": time_literal,
    "TIMESTAMP": timestamp_literal,
}
