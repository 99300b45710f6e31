"""Conditions move to where they decide most: below a join, or into its condition.

    SELECT * FROM a, b WHERE a.k = b.k AND a.v > 1  ->  Join[a.k = b.k](Filter[v > 1](a), b)

Sides of an equality that are no plain columns are computed below, so that rows can be found by them.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamline._core import types as t
from streamline.table import build
from streamline.table.expr.functions.logic import and_, conjuncts
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal, input_refs, is_deterministic, rewrite
from streamline.table.expr.registry import bind_call
from streamline.table.logical import Filter, Join, JoinKind, Project, Rel
from streamline.table.rules.null_rejection import rejects_null
from streamline.table.rules.rule import Context

__all__ = ("compute_join_keys", "push_filter_into_join", "push_join_condition")

TRUE = Literal(True, t.BOOLEAN.not_null())


def all_of(conditions: Iterable[Expr]) -> Expr:
    """The conjunction, TRUE of none."""
    parts = list(conditions)
    return and_(*parts) if len(parts) > 1 else parts[0] if parts else TRUE


def moved(expr: Expr, by: int) -> Expr:
    """The expression over a row in which its columns stand elsewhere."""
    return rewrite(expr, lambda e: InputRef(e.index + by, e.type, e.name) if isinstance(e, InputRef) else None)


def _sides(condition: Expr, width: int) -> str:
    """Which columns a condition reads: "left", "right", "both", or "none"."""
    refs = input_refs(condition)
    left, right = any(i < width for i in refs), any(i >= width for i in refs)
    return "both" if left and right else "left" if left else "right" if right else "none"


def push_filter_into_join(rel: Rel, context: Context) -> Rel | None:
    """Conditions above a join, as far as they may go below its outer sides."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Join):
        return None
    join = rel.input
    width = len(join.left.schema)
    kind = narrowed(join.kind, rel.condition, width)
    if kind != join.kind:
        return Filter(Join(join.left, join.right, kind, join.condition, join.state_ttl), rel.condition)
    left, right, into, stay = [], [], [], []
    for c in conjuncts(rel.condition):
        sides = _sides(c, width)
        if not is_deterministic(c):
            stay.append(c)
        elif join.kind in ("SEMI", "ANTI") or (sides == "left" and join.kind in ("INNER", "LEFT")):
            left.append(c)
        elif sides == "right" and join.kind in ("INNER", "RIGHT"):
            right.append(c)
        elif join.kind == "INNER" and sides == "both":
            into.append(c)
        else:
            stay.append(c)
    if not left and not right and not into:
        return None
    made: Rel = Join(
        build.filter_(join.left, all_of(left)),
        build.filter_(join.right, moved(all_of(right), -width)),
        join.kind,
        all_of([*(c for c in conjuncts(join.condition) if c != TRUE), *into]),
        join.state_ttl,
    )
    return build.filter_(made, all_of(stay))


def narrowed(kind: JoinKind, condition: Expr, width: int) -> JoinKind:
    """The kind of a join below a filter: what it pads with NULL and the filter drops is not made."""
    if kind not in ("LEFT", "RIGHT", "FULL"):
        return kind
    parts = conjuncts(condition)
    keeps_left = kind != "RIGHT" and not any(rejects_null(c, lambda i: i >= width) for c in parts)
    keeps_right = kind != "LEFT" and not any(rejects_null(c, lambda i: i < width) for c in parts)
    return "FULL" if keeps_left and keeps_right else "LEFT" if keeps_left else "RIGHT" if keeps_right else "INNER"


def push_join_condition(rel: Rel, context: Context) -> Rel | None:
    """Conditions of ON that read one side only."""
    if not isinstance(rel, Join):
        return None
    width = len(rel.left.schema)
    left, right, stay = [], [], []
    for c in conjuncts(rel.condition):
        sides = _sides(c, width)
        if sides == "left" and rel.kind in ("INNER", "RIGHT", "SEMI") and is_deterministic(c):
            left.append(c)
        elif sides == "right" and rel.kind in ("INNER", "LEFT", "SEMI", "ANTI") and is_deterministic(c):
            right.append(c)
        else:
            stay.append(c)
    if not left and not right:
        return None
    return Join(
        build.filter_(rel.left, all_of(left)),
        build.filter_(rel.right, moved(all_of(right), -width)),
        rel.kind,
        all_of(stay),
        rel.state_ttl,
    )


#: Positions that stand for columns which are added on the left and on the right.
_LEFT, _RIGHT = 10_000_000, 20_000_000


def compute_join_keys(rel: Rel, context: Context) -> Rel | None:
    """`a.x + 1 = b.y`: the left side gets a column for it."""
    if not isinstance(rel, Join):
        return None
    width, right_width = len(rel.left.schema), len(rel.right.schema)
    left: list[Expr] = []
    right: list[Expr] = []

    def column(expr: Expr, added: list[Expr], base: int, by: int) -> Expr:
        inner = moved(expr, by)
        if isinstance(inner, InputRef):
            return expr
        if inner not in added:
            added.append(inner)
        return InputRef(base + added.index(inner), inner.type)

    conditions: list[Expr] = []
    for c in conjuncts(rel.condition):
        if isinstance(c, Call) and c.function.name in EQUALITIES and is_deterministic(c):
            a, b = c.operands
            if (_sides(a, width), _sides(b, width)) == ("right", "left"):
                a, b = b, a
            if (_sides(a, width), _sides(b, width)) == ("left", "right"):
                operands = (column(a, left, _LEFT, 0), column(b, right, _RIGHT, -width))
                conditions.append(bind_call(c.function.name, operands))
                continue
        conditions.append(c)
    if not left and not right:
        return None
    grown = len(left)

    def place(e: Expr) -> Expr | None:
        if not isinstance(e, InputRef) or e.index < width:
            return None
        if e.index >= _RIGHT:
            return InputRef(e.index - _RIGHT + width + grown + right_width, e.type, e.name)
        if e.index >= _LEFT:
            return InputRef(e.index - _LEFT + width, e.type, e.name)
        return InputRef(e.index + grown, e.type, e.name)

    made = Join(
        _widened(rel.left, left),
        _widened(rel.right, right),
        rel.kind,
        all_of(rewrite(c, place) for c in conditions),
        rel.state_ttl,
    )
    kept = [*range(width)]
    if rel.kind not in ("SEMI", "ANTI"):
        kept += range(width + grown, width + grown + right_width)
    return Project(made, tuple(made.schema.ref(i) for i in kept), tuple(made.schema.names[i] for i in kept))


#: Comparisons by which rows can be found.
EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def _widened(rel: Rel, exprs: list[Expr]) -> Rel:
    if not exprs:
        return rel
    names = [*rel.schema.names, *(f"$k{i}" for i in range(len(exprs)))]
    return Project(rel, (*rel.schema.refs(), *exprs), tuple(names))
