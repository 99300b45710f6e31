"""Calls of async functions become nodes of their own, one after the other; what needs no answer is filtered before.

SELECT a, ask(b + 1) AS c FROM t WHERE a > 1 AND ask(a) = 2
  ->  Project[a, f3](AsyncCall[ask(f2) AS f3](Project[a, b, b + 1 AS f2](Filter[f2 = 2](AsyncCall[ask(a) AS f2](...)))))

A call within CASE or AND is made whatever the other operands are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamline.table import build
from streamline.table.expr.functions.logic import conjuncts
from streamline.table.expr.nodes import Call, Expr, InputRef, input_refs, rewrite
from streamline.table.logical import Filter, Project, Rel
from streamline.table.optimized import AsyncCall
from streamline.table.rules.join_conditions import all_of

__all__ = ("await_calls",)


def await_calls(rel: Rel) -> Rel:
    """The plan in which projections and filters call no async function."""
    match rel:
        case Project(input=Filter(input=below, condition=condition), exprs=exprs, names=names):
            new = _split(below, conjuncts(condition), exprs, names)
        case Filter(input=below, condition=condition):
            new = _split(below, conjuncts(condition), below.schema.refs(), below.schema.names)
        case Project(input=below, exprs=exprs, names=names):
            new = _split(below, (), exprs, names)
        case _:
            new = rel
    new = rel if new is None else new
    return new.with_inputs([await_calls(i) for i in new.inputs])


def _split(rel: Rel, conditions: Sequence[Expr], exprs: Sequence[Expr], names: Sequence[str]) -> Rel | None:
    """The input with filter and projection; None where nothing has to be awaited."""
    later = [c for c in conditions if _innermost(c) is not None]
    if not later and not any(map(_innermost, exprs)):
        return None
    if len(later) < len(conditions):
        rel = Filter(rel, all_of(c for c in conditions if _innermost(c) is None))
    needed = sorted(set().union(*map(input_refs, (*later, *exprs))))
    rel = build.project(rel, [rel.schema.ref(i) for i in needed], [rel.schema.names[i] for i in needed])
    place = {old: new for new, old in enumerate(needed)}
    left = [_moved(e, place) for e in (*later, *exprs)]
    if later:
        rel, left = _answered(rel, left, len(later))
        rel, left = Filter(rel, all_of(left[: len(later)])), left[len(later) :]
    rel, left = _answered(rel, left, len(left))
    return Project(rel, tuple(left), tuple(names))


def _moved(expr: Expr, place: dict[int, int]) -> Expr:
    return rewrite(expr, lambda e: replace(e, index=place[e.index]) if isinstance(e, InputRef) else None)


def _answered(rel: Rel, exprs: list[Expr], count: int) -> tuple[Rel, list[Expr]]:
    """The input with the answers to the calls in the first expressions as columns; all expressions read them there."""
    while call := next(filter(None, map(_innermost, exprs[:count])), None):
        width = len(rel.schema)
        computed = [o for o in call.operands if not isinstance(o, InputRef)]
        names = [*rel.schema.names, *(f"f{width + i}" for i in range(len(computed)))]
        rel = build.project(rel, [*rel.schema.refs(), *computed], build.unique_names(names))
        places = iter(range(width, width + len(computed)))
        operands = [o if isinstance(o, InputRef) else rel.schema.ref(next(places)) for o in call.operands]
        names = [*rel.schema.names, f"f{len(rel.schema)}"]
        rel = AsyncCall(rel, Call(call.function, tuple(operands), call.type), build.unique_names(names)[-1])
        exprs = [_replaced(e, call, rel.schema.ref(len(rel.schema) - 1)) for e in exprs]
    return rel, exprs


def _replaced(expr: Expr, call: Call, answer: Expr) -> Expr:
    same = call.function.deterministic
    return rewrite(expr, lambda e: answer if e is call or (same and e == call) else None)


def _innermost(expr: Expr) -> Call | None:
    """A call of an async function whose operands have none."""
    if not isinstance(expr, Call):
        return None
    for operand in expr.operands:
        found = _innermost(operand)
        if found is not None:
            return found
    return expr if getattr(expr.function, "waits", False) else None
