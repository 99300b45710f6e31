"""Conversions between values of different types, from and to text as Flink writes and reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from streamline.errors import TableException
from streamline.table.expr.runtime.numbers import decimal_fit, float32, wrap64

__all__ = (
    "attempt",
    "double_text",
    "double_to_int",
    "float_text",
    "text_to_boolean",
    "text_to_decimal",
    "text_to_double",
    "text_to_integer",
)


def attempt(convert: Callable[[Any], Any], value: Any) -> Any:
    """The converted value, None where the conversion fails: TRY_CAST."""
    try:
        return convert(value)
    except (TableException, ArithmeticError, ValueError):
        return None


# -- numbers as text ---------------------------------------------------------------------------------------------


def _java_text(digits: str) -> str:
    """Shortest digits (as `repr` gives them) in the notation of the JVM: 1.0E21, 1.0E-7, 123.0."""
    if digits in ("inf", "-inf", "nan"):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[digits]
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    mantissa, _, exponent = digits.partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    both = whole + fraction
    stripped = both.lstrip("0")
    point -= len(both) - len(stripped)
    stripped = stripped.rstrip("0")
    if not stripped:
        return sign + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{stripped}"
        return f"{sign}{stripped[:point].ljust(point, '0')}.{stripped[point:] or '0'}"
    return f"{sign}{stripped[0]}.{stripped[1:] or '0'}E{point - 1}"


def _large(x: float, bits: int) -> str | None:
    """Digits of a whole number with more bits than the significand has, as the JVM chooses them.

    It writes such a number exactly, less the digits that the missing bits make meaningless, where shortest digits
    would be fewer. None for all other numbers.
    """
    if not math.isfinite(x) or not 1 << bits < abs(x) < 1 << 63 or x != int(x):
        return None
    whole = abs(int(x))
    missing = whole.bit_length() - 2 - bits
    drop = len(str(1 << missing)) - 1 if missing > 1 else 0
    unit = 10**drop
    return f"{'-' if x < 0 else ''}{(whole + unit // 2) // unit * unit}.0"


_TINY: Final = 1e-321


def double_text(x: float) -> str:
    """A DOUBLE as text."""
    shortest = f"{x:.1e}" if 0 < abs(x) < _TINY else repr(float(x))  # two digits at least, and so the nearest two
    return _java_text(_large(x, 53) or shortest)


def float_text(x: float) -> str:
    """A FLOAT as text: the fewest digits that give the same 32-bit number."""
    if not math.isfinite(x):
        return _java_text(repr(float(x)))
    large = _large(x, 24)
    if large is not None:
        return _java_text(large)
    for digits in range(1, 10):
        text = f"{x:.{digits - 1}e}"
        if float32(float(text)) == x:
            break
    return _java_text(text)


def decimal_text(x: Decimal) -> str:
    """A DECIMAL as text, never in scientific notation."""
    return f"{x:f}"


# -- text as numbers ---------------------------------------------------------------------------------------------

_TRUE: Final = frozenset(("t", "true", "y", "yes", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "0"))


def text_to_boolean(text: str) -> bool:
    """A BOOLEAN read from text.

    Raises:
        TableException: if it is none.
    """
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise TableException(f"Cannot parse '{text}' as BOOLEAN.")


_INTEGER: Final = re.compile(r"[+-]?\d+(?:\.\d*)?|[+-]?\.\d+", re.ASCII)


def text_to_integer(text: str, low: int, high: int) -> int:
    """An integer read from text; digits after a point are dropped.

    Raises:
        TableException: if it is none, or out of range.
    """
    word = text.strip(" ")
    if _INTEGER.fullmatch(word) is None:
        raise TableException(f"For input string: '{text}'. Invalid character found.")
    whole = word.partition(".")[0]
    value = int(whole) if whole.strip("+-") else 0
    if not low <= value <= high:
        raise TableException(f"For input string: '{text}'. Overflow.")
    return value


_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)


def text_to_double(text: str) -> float:
    """A DOUBLE read from text.

    Raises:
        TableException: if it is none.
    """
    word = text.strip()
    if _DOUBLE.fullmatch(word) is None:
        raise TableException(f"For input string: '{text}'. Invalid character found.")
    return float(word if word[-1] in "Ny" else word.rstrip("fFdD"))


# The shorter reader takes one stray character after the digits for the end of the number, as Flink's does.
_SHORT_DECIMAL: Final = re.compile(
    r"[ \n\t]*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d*)[^\d]?|[^\d.])?[ \n\t]*", re.ASCII
)


def text_to_decimal(text: str, precision: int, unit: Decimal, limit: Decimal) -> Decimal:
    """A DECIMAL read from text, rounded half up.

    Raises:
        TableException: if it is none, or has too many digits before the point.
    """
    value: Decimal | None = None
    if precision <= 18 and len(text.encode()) <= 18:
        match = _SHORT_DECIMAL.fullmatch(text)
        if match is not None and text.strip(" \n\t") not in ("", "+", "-"):
            sign, whole, fraction, exponent = match.groups()
            digits = (whole or "") + (fraction or "")
            power = int(exponent) if exponent and exponent.strip("+-") else 0
            value = Decimal(f"{sign}{digits or '0'}").scaleb(power - len(fraction or ""))
    else:
        try:
            value = Decimal(text.strip(" \n\t").replace("_", "x"))
        except InvalidOperation:
            value = None
        value = value if value is not None and value.is_finite() else None
    if value is None:
        raise TableException(f"For input string: '{text}'. Invalid character found.")
    fitted = decimal_fit(value, unit, limit)
    if fitted is None:
        raise TableException(f"For input string: '{text}'. Overflow.")
    return fitted


# -- numbers as numbers ------------------------------------------------------------------------------------------


def double_to_int(x: float, low: int, high: int) -> int:
    """A DOUBLE cut toward zero; out of range the nearest end of it, NaN is 0."""
    if x != x:
        return 0
    if low <= x <= high:
        return int(x)
    return low if x < 0 else high


def decimal_to_int(x: Decimal) -> int:
    """A DECIMAL cut toward zero, in the low 64 bits."""
    return wrap64(int(x))


def double_to_decimal(x: float, unit: Decimal, limit: Decimal) -> Decimal | None:
    """A DOUBLE as DECIMAL, rounded half up, None where it has too many digits.

    Raises:
        TableException: for NaN and infinities.
    """
    if not math.isfinite(x):
        raise TableException(f"Cannot convert {double_text(x)} to DECIMAL.")
    return decimal_fit(Decimal(repr(x)), unit, limit)


# -- lengths -----------------------------------------------------------------------------------------------------


def pad_text(text: str, length: int) -> str:
    """CHAR(length): cut, or filled with blanks."""
    return text[:length].ljust(length)


def pad_bytes(data: bytes, length: int) -> bytes:
    """BINARY(length): cut, or filled with zeros."""
    return data[:length].ljust(length, b"\0")


def bytes_to_text(data: bytes) -> str:
    """UTF-8 bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def boolean_text(x: bool) -> str:
    """A BOOLEAN as text."""
    return "TRUE" if x else "FALSE"


def is_double(text: str) -> bool:
    """Whether a text can be read as DOUBLE."""
    return _DOUBLE.fullmatch(text.strip()) is not None
