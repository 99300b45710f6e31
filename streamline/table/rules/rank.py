"""A limit on a row number is a Top-N, which keeps no more rows than it has to.

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) WHERE rn <= 3
->  Rank[k, v DESC, 1..3](t)
"""

from __future__ import annotations

from dataclasses import replace

from streamline._core import types as t
from streamline.errors import TableException
from streamline.table import build
from streamline.table.expr.functions.logic import conjuncts
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from streamline.table.logical import Filter, Over, Project, Rel, Sort, Values
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
    name = over.calls[0].call.name
    if last is None and first > 1:
        raise TableException(
            "Rank end is not specified. Currently rank only support TopN, which means the rank end must be specified: "
            f"compare {over.names[0]} with an upper bound, as in {over.names[0]} <= 10"
        )
    if last is None:
        return None
    if name != "ROW_NUMBER":
        raise TableException(
            f"{name}() on streaming table is not supported currently; use ROW_NUMBER(), and a second sort key where "
            "ties matter"
        )
    if last <= 0:
        raise TableException(f"Rank end should not less than zero, but now is {last}")
    if last < first:
        return Values(over.schema, ())
    window = context.traits.window(over.input)
    call = over.calls[0]
    end = None
    if window is not None and window.start in call.partition and window.end in call.partition:
        end = window.end
    if first == last:
        # There is only one place, so the number is no column that changes: the rows are told apart by the others.
        ranked = Rank(over.input, call.partition, call.order, first, last, None, window_end=end)
        number = Literal(first, t.BIGINT.not_null())
        exprs: tuple[Expr, ...] = (*ranked.schema.refs(), number)
        return build.filter_(Project(ranked, exprs, over.schema.names), all_of(rest))
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
    if rel.limit is None and rel.offset:
        raise TableException(
            "FETCH is missed, which on streaming table is not supported currently: give OFFSET a LIMIT as well"
        )
    if isinstance(rel.input, Project) and context.traits.changes(rel.input):
        # Updates of columns that are projected away move rows too: the projection comes after.
        inner = rel.input
        columns = [inner.exprs[k.column] for k in rel.keys]
        if all(isinstance(c, InputRef) for c in columns):
            keys = tuple(replace(k, column=c.index) for k, c in zip(rel.keys, columns) if isinstance(c, InputRef))
            return Project(Sort(inner.input, keys, rel.offset, rel.limit), inner.exprs, inner.names)
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
