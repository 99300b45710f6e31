"""Time bounds in a join condition: `b.ts BETWEEN a.ts - INTERVAL '1' HOUR AND a.ts` makes it an interval join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from streamline.table.logical import Join, RowSchema

__all__ = ("Bounds", "interval_bounds")


@dataclass(frozen=True, slots=True)
class Bounds:
    """left time - right time lies within `lower` and `upper` ms, both included.

    Attributes:
        left, right: the time attributes, each a position on its own side.
        rest: what is left of the condition.
        keys: the keys without equalities of times.
    """

    left: int
    right: int
    lower: int
    upper: int
    keys: tuple[tuple[int, int, bool], ...]
    rest: tuple[Expr, ...]


_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def interval_bounds(join: Join, keys: Sequence[tuple[int, int, bool]], rest: Sequence[Expr]) -> Bounds | None:
    """The time bounds of a join's condition, None where it is not bounded from both sides."""
    if join.kind in ("SEMI", "ANTI"):
        return None
    left, right = join.left.schema, join.right.schema
    width = len(left)
    times: tuple[int, int] | None = None
    lower: list[int] = []
    upper: list[int] = []
    kept: list[Expr] = []
    kept_keys: list[tuple[int, int, bool]] = []
    for a, b, safe in keys:
        if _same_time(left, a, right, b) and times in (None, (a, b)):
            times = (a, b)
            lower.append(0)
            upper.append(0)
        else:
            kept_keys.append((a, b, safe))
    for part in rest:
        found = [_comparison(c, left, right, width) for c in _parts(part)]
        columns = {f[0] for f in found if f is not None}
        if None in found or len(columns) != 1 or times not in (None, *columns):
            kept.append(part)
            continue
        (times,) = columns
        for bound in found:
            assert bound is not None
            lower += [bound[1]] if bound[1] is not None else []
            upper += [bound[2]] if bound[2] is not None else []
    if times is None or not lower or not upper:
        return None
    return Bounds(times[0], times[1], max(lower), min(upper), tuple(kept_keys), tuple(kept))


def _same_time(left: RowSchema, a: int, right: RowSchema, b: int) -> bool:
    kind = left[a].type.time_attribute
    return kind is not None and kind == right[b].type.time_attribute


def _parts(condition: Expr) -> list[Expr]:
    """BETWEEN as its two comparisons."""
    if isinstance(condition, Call) and condition.function.name == "BETWEEN ASYMMETRIC":
        x, low, high = condition.operands
        return [Compared(">=", x, low), Compared("<=", x, high)]  # type: ignore[list-item]
    return [condition]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that stands for a part of BETWEEN."""

    name: str
    a: Expr
    b: Expr


def _comparison(
    condition: Expr | Compared, left: RowSchema, right: RowSchema, width: int
) -> tuple[tuple[int, int], int | None, int | None] | None:
    """The times that a condition compares, and the lower and upper bound of their difference."""
    if isinstance(condition, Compared):
        name, a, b = condition.name, condition.a, condition.b
    elif isinstance(condition, Call) and condition.function.name in _SWAPPED and len(condition.operands) == 2:
        name, (a, b) = condition.function.name, condition.operands
    else:
        return None
    x, y = _shifted(a), _shifted(b)
    if x is None or y is None or (x[0] < width) == (y[0] < width):
        return None
    if x[0] >= width:
        x, y, name = y, x, _SWAPPED[name]
    if not _same_time(left, x[0], right, y[0] - width):
        return None
    # x + shift op y + shift: the difference of the times against that of the shifts.
    c = y[1] - x[1]
    columns = (x[0], y[0] - width)
    match name:
        case "<":
            return columns, None, c - 1
        case "<=":
            return columns, None, c
        case ">":
            return columns, c + 1, None
        case ">=":
            return columns, c, None
    return columns, c, c


def _shifted(expr: Expr) -> tuple[int, int] | None:
    """A column and milliseconds that are added to it, None for another expression."""
    if isinstance(expr, InputRef):
        return expr.index, 0
    if not isinstance(expr, Call):
        return None
    if expr.function.name == "CAST" and expr.operands[0].type.root == expr.type.root:
        return _shifted(expr.operands[0])
    if expr.function.name not in ("+", "-") or len(expr.operands) != 2:
        return None
    a, b = expr.operands
    if isinstance(a, Literal) and expr.function.name == "+":
        a, b = b, a
    if not isinstance(b, Literal) or b.type.root != "INTERVAL_DAY_TIME" or b.value is None:
        return None
    inner = _shifted(a)
    sign = 1 if expr.function.name == "+" else -1
    return None if inner is None else (inner[0], inner[1] + sign * int(b.value))
