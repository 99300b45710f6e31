"""Integers that wrap, 32-bit floats, decimals of fixed scale: arithmetic as the JVM and Flink do it."""

from __future__ import annotations

import math
import struct
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Final

from streamline.errors import TableException

__all__ = (
    "decimal_add",
    "decimal_divide",
    "decimal_fit",
    "decimal_limit",
    "decimal_multiply",
    "decimal_negate",
    "decimal_remainder",
    "decimal_subtract",
    "decimal_unit",
    "float32",
    "float_divide",
    "int_divide",
    "int_remainder",
    "wrap8",
    "wrap16",
    "wrap32",
    "wrap64",
)

# Wide enough for every intermediate result of two operands of 38 digits.
_EXACT: Final = Context(prec=120, rounding=ROUND_HALF_UP)
# Flink divides to 38 significant digits and rounds to the result's scale after that.
_QUOTIENT: Final = Context(prec=38, rounding=ROUND_HALF_UP)

#: Sum and difference of decimals, exact; the scale is the greater of the two.
decimal_add = _EXACT.add
decimal_subtract = _EXACT.subtract
#: The negative of a decimal; zero stays without a sign, as DECIMAL has no -0.
decimal_negate = _EXACT.minus

_multiply_add = _EXACT.fma
_ZERO: Final = Decimal(0)


def decimal_multiply(a: Decimal, b: Decimal) -> Decimal:
    """The exact product."""
    # A product of zero and a negative number is -0; adding zero takes the sign off, at no cost.
    return _multiply_add(a, b, _ZERO)


def decimal_unit(scale: int) -> Decimal:
    """One unit of the last digit of a scale, the argument of `quantize`."""
    return Decimal(1).scaleb(-scale)


def decimal_limit(precision: int, scale: int) -> Decimal:
    """The smallest positive number that needs more digits than DECIMAL(precision, scale) has."""
    return Decimal(1).scaleb(precision - scale)


def decimal_fit(value: Decimal, unit: Decimal, limit: Decimal) -> Decimal | None:
    """The number rounded half up to the unit's scale, None where it has too many digits."""
    if not -limit < value < limit:
        return None
    value = _EXACT.quantize(value, unit)
    if not value:
        return value.copy_abs()
    return value if -limit < value < limit else None


def decimal_divide(a: Decimal, b: Decimal, unit: Decimal, limit: Decimal) -> Decimal | None:
    """Quotient of a fixed scale, None where it has too many digits.

    Raises:
        TableException: if the divisor is zero.
    """
    if not b:
        raise TableException("Division by zero")
    return decimal_fit(_QUOTIENT.divide(a, b), unit, limit)


def decimal_remainder(a: Decimal, b: Decimal, unit: Decimal, limit: Decimal) -> Decimal | None:
    """Remainder with the sign of the dividend, of a fixed scale.

    Raises:
        TableException: if the divisor is zero.
    """
    if not b:
        raise TableException("Division by zero")
    return decimal_fit(_EXACT.remainder(a, b), unit, limit)


def decimal_truncate(value: Decimal, unit: Decimal) -> Decimal:
    """The number cut toward zero to the unit's scale."""
    return _EXACT.plus(value.quantize(unit, ROUND_DOWN, _EXACT))


def wrap8(x: int) -> int:
    """The low 8 bits as a signed integer."""
    return ((x + 0x80) & 0xFF) - 0x80


def wrap16(x: int) -> int:
    """The low 16 bits as a signed integer."""
    return ((x + 0x8000) & 0xFFFF) - 0x8000


def wrap32(x: int) -> int:
    """The low 32 bits as a signed integer."""
    return ((x + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap64(x: int) -> int:
    """The low 64 bits as a signed integer."""
    return ((x + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def int_divide(a: int, b: int) -> int:
    """Quotient cut toward zero.

    Raises:
        TableException: if the divisor is zero.
    """
    if not b:
        raise TableException("Division by zero: / by zero")
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def int_remainder(a: int, b: int) -> int:
    """Remainder with the sign of the dividend.

    Raises:
        TableException: if the divisor is zero.
    """
    if not b:
        raise TableException("Division by zero: / by zero")
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


_FLOAT32: Final = struct.Struct("f")


def float32(x: float) -> float:
    """The nearest 32-bit float."""
    try:
        return float(_FLOAT32.unpack(_FLOAT32.pack(x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def float_divide(a: float, b: float) -> float:
    """Quotient by IEEE 754: dividing by zero gives an infinity or NaN."""
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    except OverflowError:
        return float(a) / float(b)
