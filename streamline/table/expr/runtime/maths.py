"""Mathematical functions with the JVM's answers outside of their domain: NaN and infinities, not errors."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Final

from streamline.errors import TableException
from streamline.table.expr.runtime.numbers import wrap32, wrap64

__all__ = (
    "JavaRandom",
    "binary_text",
    "decimal_round",
    "double_ceil",
    "double_floor",
    "double_round",
    "double_truncate",
    "hex_text",
    "int_round",
    "int_truncate",
)

_CONTEXT: Final = Context(prec=400, rounding=ROUND_HALF_UP)


def double_ceil(x: float) -> float:
    """The smallest whole number not below x."""
    return math.copysign(float(math.ceil(x)), x) if math.isfinite(x) else x


def double_floor(x: float) -> float:
    """The greatest whole number not above x."""
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def double_round(x: float, places: int) -> float:
    """Rounded half away from zero, judged by the shortest decimal digits of x."""
    if not math.isfinite(x) or (places >= 0 and abs(x) >= 1 << 53) or places > 400:
        return x
    # Adding zero takes the sign off a zero.
    return float(Decimal(repr(float(x))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _CONTEXT)) + 0.0


def double_truncate(x: float, places: int) -> float:
    """Cut toward zero."""
    if not math.isfinite(x) or (places >= 0 and abs(x) >= 1 << 53) or places > 400:
        return x
    return float(Decimal(repr(float(x))).quantize(Decimal(1).scaleb(-places), ROUND_DOWN, _CONTEXT)) + 0.0


def int_round(x: int, places: int) -> int:
    """Rounded half away from zero at a place left of the point; `places` above zero change nothing."""
    if places >= 0:
        return x
    unit = int(10**-places)
    rounded = (abs(x) + unit // 2) // unit * unit
    return rounded if x >= 0 else -rounded


def int_truncate(x: int, places: int) -> int:
    """Cut toward zero at a place left of the point."""
    if places >= 0:
        return x
    unit = int(10**-places)
    cut = abs(x) // unit * unit
    return cut if x >= 0 else -cut


def decimal_round(x: Decimal, places: int, unit: Decimal) -> Decimal:
    """Rounded half away from zero to so many places, in the scale of `unit`."""
    rounded = x.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _CONTEXT)
    return _CONTEXT.plus(rounded.quantize(unit, ROUND_HALF_UP, _CONTEXT))


def decimal_cut(x: Decimal, places: int, unit: Decimal) -> Decimal:
    """Cut toward zero to so many places, in the scale of `unit`."""
    cut = x.quantize(Decimal(1).scaleb(-places), ROUND_DOWN, _CONTEXT)
    return _CONTEXT.plus(cut.quantize(unit, ROUND_DOWN, _CONTEXT))


_ONE: Final = Decimal(1)


def decimal_ceil(x: Decimal) -> Decimal:
    """The smallest whole number not below x, of scale 0."""
    return _CONTEXT.plus(x.quantize(_ONE, ROUND_CEILING, _CONTEXT))


def decimal_floor(x: Decimal) -> Decimal:
    """The greatest whole number not above x, of scale 0."""
    return x.quantize(_ONE, ROUND_FLOOR, _CONTEXT)


def decimal_sign(x: Decimal, unit: Decimal) -> Decimal:
    """-1, 0 or 1, in the scale of `unit`."""
    return Decimal((x > 0) - (x < 0)).quantize(unit, ROUND_DOWN, _CONTEXT)


def double_sign(x: float) -> float:
    """-1.0, 0.0 or 1.0; NaN stays."""
    return math.copysign(1.0, x) if x else x


def exponential(x: float) -> float:
    """e to the power of x."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def power(x: float, y: float) -> float:
    """x to the power of y, by the JVM's rules at the edges."""
    if y != y or x != x:
        return 1.0 if y == 0 else math.nan
    if abs(x) == 1 and math.isinf(y):
        return math.nan
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        if x == 0:
            return -math.inf if math.copysign(1, x) < 0 and y % 2 == 1 else math.inf
        return math.nan


def root(x: float) -> float:
    """The square root, NaN below zero."""
    return math.sqrt(x) if x >= 0 else math.nan


def natural_log(x: float) -> float:
    """The natural logarithm, -Infinity at zero, NaN below."""
    if x > 0:
        return math.log(x)
    return -math.inf if x == 0 else math.nan


def log_10(x: float) -> float:
    """The logarithm to base 10."""
    if x > 0:
        return math.log10(x)
    return -math.inf if x == 0 else math.nan


def log_2(x: float) -> float:
    """The logarithm to base 2."""
    return natural_log(x) / math.log(2.0)


def log_of(base: float, x: float) -> float:
    """The logarithm of x to a base."""
    below = natural_log(base)
    if below == 0:
        above = natural_log(x)
        return math.nan if above == 0 or above != above else math.copysign(math.inf, above)
    return natural_log(x) / below


def hyperbolic_sine(x: float) -> float:
    """The hyperbolic sine."""
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def hyperbolic_cosine(x: float) -> float:
    """The hyperbolic cosine."""
    try:
        return math.cosh(x)
    except OverflowError:
        return math.inf


def _finite(function: str, x: float) -> float:
    return float(getattr(math, function)(x)) if math.isfinite(x) else math.nan


def sine(x: float) -> float:
    """The sine, NaN of infinities."""
    return _finite("sin", x)


def cosine(x: float) -> float:
    """The cosine, NaN of infinities."""
    return _finite("cos", x)


def tangent(x: float) -> float:
    """The tangent, NaN of infinities."""
    return _finite("tan", x)


def cotangent(x: float) -> float:
    """One through the tangent, Infinity at zero."""
    below = tangent(x)
    return 1.0 / below if below else math.copysign(math.inf, below)


def arc_sine(x: float) -> float:
    """The arc sine, NaN outside of -1 to 1."""
    return math.asin(x) if -1 <= x <= 1 else math.nan


def arc_cosine(x: float) -> float:
    """The arc cosine, NaN outside of -1 to 1."""
    return math.acos(x) if -1 <= x <= 1 else math.nan


def binary_text(x: int) -> str:
    """Binary digits; of a negative number those of its 64 bits."""
    return format(x & 0xFFFFFFFFFFFFFFFF, "b")


def hex_text(x: int) -> str:
    """Hexadecimal digits; of a negative number those of its 64 bits."""
    return format(x & 0xFFFFFFFFFFFFFFFF, "X")


class JavaRandom:
    """The JVM's linear congruential generator: equal seeds give the sequences that Flink gives."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (wrap64(seed) ^ 0x5DEECE66D) & 0xFFFFFFFFFFFF

    def _next(self, bits: int) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
        return self._state >> (48 - bits)

    def double(self) -> float:
        """The next number from 0.0 to below 1.0."""
        high = self._next(26) << 27
        return float(high + self._next(27)) / float(1 << 53)

    def integer(self, bound: int) -> int:
        """The next integer from 0 to below `bound`.

        Raises:
            TableException: if the bound is not positive.
        """
        if bound <= 0:
            raise TableException(f"RAND_INTEGER needs a bound above 0, but was given {bound}.")
        if bound & (bound - 1) == 0:
            return wrap32((bound * self._next(31)) >> 31)
        while True:
            bits = self._next(31)
            value = bits % bound
            if bits - value + bound - 1 < 1 << 31:
                return value


def seeded_double(seed: int) -> float:
    """The first number of a fresh generator."""
    return JavaRandom(seed).double()


def seeded_integer(seed: int, bound: int) -> int:
    """The first integer of a fresh generator."""
    return JavaRandom(seed).integer(bound)
