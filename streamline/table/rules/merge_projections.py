"""Project(Project(x)) becomes one projection.

SELECT a + 1 AS b FROM (SELECT x * 2 AS a FROM t)     ->  Project[x * 2 + 1](t)
"""

from __future__ import annotations

from collections import Counter

from streamline.table.expr.nodes import Expr, InputRef, is_deterministic, rewrite, walk
from streamline.table.logical import Project, Rel
from streamline.table.rules.rule import Context

__all__ = ("compose", "may_inline", "merge_projections")

#: Inlined expressions may not grow beyond this many nodes.
_LIMIT = 400


def merge_projections(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Project):
        return None
    inner = rel.input
    if not may_inline(rel.exprs, inner.exprs):
        return None
    return Project(inner.input, tuple(compose(e, inner.exprs) for e in rel.exprs), rel.names)


def compose(expr: Expr, below: tuple[Expr, ...]) -> Expr:
    """The expression with its columns replaced by what they are computed from."""
    return rewrite(expr, lambda e: below[e.index] if isinstance(e, InputRef) else None)


def may_inline(exprs: tuple[Expr, ...], below: tuple[Expr, ...]) -> bool:
    """Whether nothing is computed twice that must be computed once, and nothing grows without bound."""
    uses = Counter(n.index for e in exprs for n in walk(e) if isinstance(n, InputRef))
    size = 0
    for i, n in uses.items():
        inner = below[i]
        if isinstance(inner, InputRef):
            continue
        if n > 1 and (not is_deterministic(inner) or is_costly(inner)):
            return False
        size += n * sum(1 for _ in walk(inner))
    return size <= _LIMIT


def is_costly(expr: Expr) -> bool:
    """Whether the expression calls a function of the user."""
    return any(getattr(getattr(n, "function", None), "is_user_defined", False) for n in walk(expr))
