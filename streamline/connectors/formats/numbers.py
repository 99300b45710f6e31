"""Numbers that Python has no type of its own for: decimals of a scale, 32-bit floats."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

__all__ = ("fit_decimal", "short_float32", "to_float32")

_FLOAT: Final = struct.Struct("<f")


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """The value with exactly `scale` digits, rounded half up; None where it has more than `precision` digits."""
    if not value.is_finite() or value.adjusted() >= precision:
        return Decimal(0).scaleb(-scale) if not value and value.is_finite() else None
    with localcontext() as context:
        context.prec = max(precision, scale) + 2
        fitted = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return fitted if len(fitted.as_tuple().digits) <= max(precision, scale) else None


def to_float32(value: float) -> float:
    """The nearest 32-bit float; beyond its range infinity."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def short_float32(value: float) -> float:
    """The float whose text is the shortest that still names this 32-bit float: 1.1, not 1.100000023841858."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if to_float32(short) == value:
            return short
    return float(f"{value:.9g}")
