"""A filter moves below a projection and joins the filter that is there, so that both are one loop.

    SELECT * FROM (SELECT a + 1 AS b FROM t WHERE c) WHERE b > 2  ->  Project[a + 1](Filter[c AND a + 1 > 2](t))

A condition is evaluated after those that were below it, so none sees rows that it was guarded from.
"""

from __future__ import annotations

from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import is_deterministic
from streamline.table.logical import Filter, Project, Rel
from streamline.table.rules.merge_projections import compose, may_inline
from streamline.table.rules.rule import Context

__all__ = ("merge_filters", "push_filter_through_projection")


def push_filter_through_projection(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Project):
        return None
    inner = rel.input
    if not may_inline((rel.condition,), inner.exprs) or not all(map(is_deterministic, inner.exprs)):
        return None
    return Project(Filter(inner.input, compose(rel.condition, inner.exprs)), inner.exprs, inner.names)


def merge_filters(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Filter):
        return None
    return Filter(rel.input.input, and_(rel.input.condition, rel.condition))
