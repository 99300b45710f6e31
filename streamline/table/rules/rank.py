"""A limit on a row number is a Top-N, which keeps no more rows than it has to.

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) WHERE rn <= 3
->  Rank[k, v DESC, 1..3](t)
"""

from __future__ import annotations

from streamline.errors import TableException
from streamline.table import build
from streamline.table.expr.functions.logic import conjuncts
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from streamline.table.logical import Filter, Over, Rel, Sort, Values
from streamline.table.optimized import Rank, SortLimit, TemporalSort
from streamline.table.rules.join_conditions import all_of
from streamline.table.rules.rule import Context

__all__ = ("rank", "sort")

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def rank(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Over):
        return None
    over = rel.input
    width = len(over.input.schema)
    if len(over.calls) != 1 or over.calls[0].call.name not in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
        return None
    first, last = 1, None
    rest: list[Expr] = []
    for part in conjuncts(rel.condition):
        bounds = _bounds(part, width)
        if bounds is None:
            rest.append(part)
            continue
        low, high = bounds
        first = first if low is None else max(first, low)
        last = high if last is None else last if high is None else min(last, high)
    if last is None:
        return None
    name = over.calls[0].call.name
    if name != "ROW_NUMBER":
        raise TableException(
            f"{name}() on streaming table is not supported currently; use ROW_NUMBER(), and a second sort key where "
            "ties matter"
        )
    if last < first:
        return Values(over.schema, ())
    window = context.traits.window(over.input)
    call = over.calls[0]
    end = None
    if window is not None and window.start in call.partition and window.end in call.partition:
        end = window.end
    node = Rank(over.input, call.partition, call.order, first, last, over.names[0], window_end=end)
    return build.filter_(node, all_of(rest))


def _bounds(condition: Expr, column: int) -> tuple[int | None, int | None] | None:
    """The places between which the row number is by a condition, None where it is no such condition."""
    if not isinstance(condition, Call):
        return None
    name, operands = condition.function.name, condition.operands
    if name.startswith("BETWEEN ASYMMETRIC") and _is_number(operands[0], column):
        low, high = _literal(operands[1]), _literal(operands[2])
        return (low, high) if low is not None and high is not None else None
    if name not in _SWAPPED or len(operands) != 2:
        return None
    a, b = operands
    if _is_number(b, column):
        a, b, name = b, a, _SWAPPED[name]
    value = _literal(b)
    if not _is_number(a, column) or value is None:
        return None
    return {
        "<": (None, value - 1),
        "<=": (None, value),
        ">": (value + 1, None),
        ">=": (value, None),
        "=": (value, value),
    }[name]


def _is_number(expr: Expr, column: int) -> bool:
    if isinstance(expr, Call) and expr.function.name == "CAST":
        return _is_number(expr.operands[0], column)
    return isinstance(expr, InputRef) and expr.index == column


def _literal(expr: Expr) -> int | None:
    if isinstance(expr, Call) and expr.function.name == "CAST":
        return _literal(expr.operands[0])
    return int(expr.value) if isinstance(expr, Literal) and expr.type.is_integer and expr.value is not None else None


def sort(rel: Rel, context: Context) -> Rel | None:
    """ORDER BY: with a limit a Top-N without partitions, by time as time goes on, else impossible."""
    if not isinstance(rel, Sort):
        return None
    if rel.limit == 0:
        return Values(rel.schema, ())
    if rel.limit is not None or not rel.keys:
        return SortLimit(rel.input, rel.keys, rel.offset, rel.limit)
    first = rel.keys[0]
    if rel.schema[first.column].type.time_attribute is None or rel.offset:
        raise TableException(
            "Sort on a non-time-attribute field is not supported. Sort by a time attribute first, ascending, or add "
            "LIMIT"
        )
    if not first.ascending:
        raise TableException("Primary sort order of a streaming table must be ascending on time.")
    return TemporalSort(rel.input, rel.keys)
