"""INTERSECT and EXCEPT as joins, with ALL as counting.

a INTERSECT b      ->  Distinct(SemiJoin[all columns IS NOT DISTINCT FROM](a, b))
a EXCEPT ALL b     ->  each row as often as it is more often in a than in b
"""

from __future__ import annotations

from streamline._core import types as t
from streamline.table import build
from streamline.table.expr.aggregates import bind_aggregate
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import Expr, InputRef, Literal
from streamline.table.expr.registry import bind_call
from streamline.table.logical import (
    Correlate,
    Distinct,
    Filter,
    Join,
    Project,
    Rel,
    RowSchema,
    SetOperation,
    TableFunctionCall,
    Union,
)
from streamline.table.rules.rule import Context

__all__ = ("set_operation",)

_BIGINT = t.BIGINT.not_null()


def set_operation(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, SetOperation):
        return None
    return _counted(rel) if rel.all else _joined(rel)


def _joined(rel: SetOperation) -> Rel:
    left, right = rel.all_inputs
    width = len(left.schema)
    tests = [
        bind_call("IS NOT DISTINCT FROM", (left.schema.ref(i), InputRef(i + width, f.type, f.name)))
        for i, f in enumerate(right.schema)
    ]
    condition = and_(*tests) if len(tests) > 1 else tests[0]
    return Distinct(Join(left, right, "SEMI" if rel.kind == "INTERSECT" else "ANTI", condition))


def _counted(rel: SetOperation) -> Rel:
    left, right = rel.all_inputs
    width = len(rel.schema)
    except_ = rel.kind == "EXCEPT"
    marks = (
        [[Literal(1, _BIGINT)], [Literal(-1, _BIGINT)]]
        if except_
        else [
            [Literal(1, _BIGINT.null()), Literal(None, _BIGINT.null())],
            [Literal(None, _BIGINT.null()), Literal(1, _BIGINT.null())],
        ]
    )
    names = [*rel.schema.names, *(f"$m{i}" for i in range(len(marks[0])))]
    union = Union(
        tuple(Project(side, (*side.schema.refs(), *mark), tuple(names)) for side, mark in zip((left, right), marks))
    )
    keys = [(union.schema.ref(i), rel.schema.names[i]) for i in range(width)]
    function = "SUM" if except_ else "COUNT"
    calls = [(bind_aggregate(function, (union.schema.ref(width + i),)), f"$n{i}") for i in range(len(marks[0]))]
    counted = build.aggregate(union, keys, calls)
    counts = [counted.schema.ref(width + i) for i in range(len(calls))]
    if except_:
        condition = bind_call(">", (counts[0], Literal(0, _BIGINT)))
        times: Expr = counts[0]
    else:
        condition = and_(*(bind_call(">=", (c, Literal(1, _BIGINT))) for c in counts))
        times = bind_call("CASE", (bind_call(">", (counts[0], counts[1])), counts[1], counts[0]))
    filtered = Filter(counted, condition)
    call = TableFunctionCall("$REPLICATE_ROWS", (times,), RowSchema(()))
    replicated = Correlate(filtered, call)
    return Project(replicated, tuple(replicated.schema.ref(i) for i in range(width)), rel.schema.names)
