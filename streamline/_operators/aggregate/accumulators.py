"""What aggregates do that is more than a line of generated code.

Accumulators are plain lists and dictionaries, so that they can be encoded; the functions here change them in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from streamline.errors import TableException

__all__ = (
    "first_of",
    "forget",
    "join_text",
    "least",
    "percentile",
    "remember",
    "single_value",
    "take_first",
    "truncate_to_int",
    "welford_add",
    "welford_remove",
)


def remember(counts: dict[Any, int], value: Any) -> bool:
    """Count a value; whether it is new."""
    n = counts.get(value, 0) + 1
    if n:
        counts[value] = n
    else:
        del counts[value]
    return n == 1


def forget(counts: dict[Any, int], value: Any) -> bool:
    """Count a value down; whether it is gone. One that is not there is counted below zero, as Flink does."""
    n = counts.get(value, 0) - 1
    if n:
        counts[value] = n
    else:
        del counts[value]
    return n == 0


def least(counts: dict[Any, int]) -> Any:
    """The smallest value, None where there is none."""
    return min((v for v, n in counts.items() if n > 0), default=None)


def greatest(counts: dict[Any, int]) -> Any:
    """The largest value, None where there is none."""
    return max((v for v, n in counts.items() if n > 0), default=None)


def take_first(values: list[Any], missing: list[Any], value: Any) -> None:
    """Remove the first occurrence of a value; one that is not there yet cancels a later one."""
    try:
        values.remove(value)
    except ValueError:
        missing.append(value)


def put(values: list[Any], missing: list[Any], value: Any) -> None:
    """Append a value, unless its removal came before it."""
    if missing and value in missing:
        missing.remove(value)
    else:
        values.append(value)


def merge_counts(counts: dict[Any, int], other: dict[Any, int]) -> None:
    """Add the counts of another group."""
    for value, n in other.items():
        total = counts.get(value, 0) + n
        if total:
            counts[value] = total
        else:
            counts.pop(value, None)


def first_of(values: list[Any]) -> Any:
    """The first value, None where there is none."""
    return values[0] if values else None


def last_of(values: list[Any]) -> Any:
    """The last value, None where there is none."""
    return values[-1] if values else None


def join_text(values: list[str], separator: str) -> str | None:
    """The values with the separator between them, None where there are none."""
    return separator.join(values) if values else None


def single_value(count: int, value: Any) -> Any:
    """The value of a scalar sub-query.

    Raises:
        TableException: it has more than one row.
    """
    if count > 1:
        raise TableException(
            "SingleValueAggFunction received more than one element: a scalar sub-query may give one row"
        )
    return value if count == 1 else None


def welford_add(acc: list[Any], value: Any) -> None:
    """Add to [count, mean, sum of squared differences]."""
    value = float(value)
    acc[0] += 1
    delta = value - acc[1]
    acc[1] += delta / acc[0]
    acc[2] += delta * (value - acc[1])


def welford_remove(acc: list[Any], value: Any) -> None:
    """Take away from [count, mean, sum of squared differences]."""
    value = float(value)
    if acc[0] <= 1:
        acc[:] = [acc[0] - 1, 0.0, 0.0]
        return
    before = acc[1]
    acc[0] -= 1
    acc[1] = (before * (acc[0] + 1) - value) / acc[0]
    acc[2] -= (value - before) * (value - acc[1])


def welford_merge(a: list[Any], b: list[Any]) -> list[Any]:
    """[count, mean, sum of squared differences] of two groups together."""
    n = a[0] + b[0]
    if not n:
        return [0, 0.0, 0.0]
    delta = b[1] - a[1]
    return [n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n]


def variance(acc: list[Any], sample: bool, root: bool) -> float | None:
    """VAR_POP, VAR_SAMP, STDDEV_POP or STDDEV_SAMP; None of too few values."""
    n = acc[0] - 1 if sample else acc[0]
    if n <= 0:
        return None
    result = max(float(acc[2]) / n, 0.0)
    return math.sqrt(result) if root else result


def truncate_to_int(value: float | None, bits: int) -> int | None:
    """The number without its fraction, made an integer of so many bits as the JVM does it.

    What is beyond 32 bits (64 for a long) is the end of that range; a shorter integer is cut from it.
    """
    if value is None:
        return None
    if value != value:
        return 0
    limit = 1 << (max(bits, 32) - 1)
    whole = (limit - 1 if value > 0 else -limit) if math.isinf(value) else max(-limit, min(limit - 1, int(value)))
    half = 1 << (bits - 1)
    return (whole + half) % (2 * half) - half


def percentile(counts: dict[Any, int], fractions: Any) -> Any:
    """The value at a fraction (or a list of values at fractions) of the ordered values, interpolated."""
    if not counts:
        return None
    ordered = sorted((v, n) for v, n in counts.items() if n > 0)
    if not ordered:
        return None
    if isinstance(fractions, (list, tuple)):
        return [_at(ordered, f) for f in fractions]
    return None if fractions is None else _at(ordered, fractions)


def _at(ordered: Iterable[tuple[Any, int]], fraction: Any) -> float:
    ordered = list(ordered)
    total = sum(n for _, n in ordered)
    position = (total - 1) * float(fraction)
    low, high = math.floor(position), math.ceil(position)
    lower = _nth(ordered, low)
    if low == high:
        return lower
    upper = _nth(ordered, high)
    if lower == upper:
        return lower
    return (high - position) * lower + (position - low) * upper


def _nth(ordered: list[tuple[Any, int]], position: int) -> float:
    seen = 0
    for value, n in ordered:
        seen += n
        if position < seen:
            return float(value)
    return float(ordered[-1][0])


def float_key(value: float) -> Any:
    """A key for a float: NaNs are one group, 0.0 and -0.0 two."""
    if value != value:
        return "NaN"
    if value == 0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def hashable(value: Any) -> Any:
    """A key for an array, map, multiset or row."""
    if isinstance(value, list):
        return ("a", *map(hashable, value))
    if isinstance(value, dict):
        return ("m", *sorted(((hashable(k), hashable(v)) for k, v in value.items()), key=repr))
    if isinstance(value, tuple):
        return tuple(map(hashable, value))
    if isinstance(value, float):
        return float_key(value)
    if isinstance(value, Decimal):
        return value
    return value


def weigh(counts: dict[Any, int], value: Any, weight: Any) -> None:
    """Count a value several times; a weight below zero takes it away."""
    if weight is None:
        return
    n = counts.get(value, 0) + int(weight)
    if n:
        counts[value] = n
    else:
        counts.pop(value, None)


def to_decimal(value: float | None, scale: int) -> Decimal | None:
    """A float as a decimal of the scale, rounded half up."""
    if value is None:
        return None
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
