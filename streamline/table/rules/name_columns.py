"""Names given above an aggregate become the aggregate's own, as messages and EXPLAIN show them.

SELECT k, COUNT(*) AS n FROM t GROUP BY k  ->  Aggregate[COUNT(*) AS n]
"""

from __future__ import annotations

from dataclasses import replace

from streamline.table import build
from streamline.table.expr.nodes import InputRef
from streamline.table.logical import Aggregate, Project, Rel
from streamline.table.optimized import WindowAggregate
from streamline.table.rules.rule import Context

__all__ = ("name_columns",)


def name_columns(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, (Aggregate, WindowAggregate)):
        return None
    inner = rel.input
    names = list(inner.names)
    for e, name in zip(rel.exprs, rel.names):
        if isinstance(e, InputRef) and e.index >= len(inner.keys):
            names[e.index] = name
    renamed = replace(inner, names=build.unique_names(names))
    exprs = [renamed.schema.ref(e.index) if isinstance(e, InputRef) else e for e in rel.exprs]
    result = build.project(renamed, exprs, rel.names)
    return None if result == rel else result
