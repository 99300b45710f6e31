"""Groups that are single rows need no aggregate.

    SELECT id, SUM(v) FROM t GROUP BY id   where id is the primary key of t   ->  Project[id, v](t)

Changes then pass as they are: an update of the row is an update of its group.
"""

from __future__ import annotations

from streamline.table.expr.nodes import AggCall, Expr
from streamline.table.expr.registry import cast
from streamline.table.logical import Aggregate, Distinct, Project, Rel
from streamline.table.rules.rule import Context

__all__ = ("unique_groups",)


def unique_groups(rel: Rel, context: Context) -> Rel | None:
    if isinstance(rel, Distinct):
        return rel.input if any(k for k in context.traits.keys(rel.input)) else None
    if not isinstance(rel, Aggregate) or rel.window is not None or rel.sets or not all(map(_is_value, rel.calls)):
        return None
    if context.traits.window(rel.input) is not None:
        return None
    if not any(k and k <= set(rel.keys) for k in context.traits.keys(rel.input)):
        return None
    exprs: list[Expr] = [rel.input.schema.ref(k) for k in rel.keys]
    exprs += [cast(c.args[0], c.type) for c in rel.calls]
    return Project(rel.input, tuple(exprs), rel.names)


def _is_value(call: AggCall) -> bool:
    """Whether the aggregate of a single row is its argument."""
    plain = call.udaf is None and not call.distinct and call.filter is None
    return plain and call.name in ("SUM", "MIN", "MAX")
