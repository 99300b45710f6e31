"""Whether a plan needs watermarks: where nobody looks at event time, none are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamline.table import physical as P
from streamline.table.expr.nodes import Call, Expr, walk

__all__ = ("needs_watermarks",)


def needs_watermarks(node: P.Node) -> bool:
    """Whether an operator of the plan waits for event time, or the records that leave carry it."""
    if isinstance(node, P.Sink) and node.sink.shape.timestamp is not None:
        return True
    if isinstance(node, (P.WindowAggregate, P.GroupWindowAggregate)) and not node.node.processing:
        return True
    if isinstance(node, P.EVENT_TIME):
        return True
    if isinstance(node, P.Deduplicate) and node.schema[node.time].type.is_rowtime:
        return True
    if isinstance(node, P.Match) and node.input.schema[node.node.order[0].column].type.is_rowtime:
        return True
    if isinstance(node, P.IntervalJoin) and not node.processing:
        return True
    if isinstance(node, P.OverAggregate) and node.schema[node.node.calls[0].order[0].column].type.is_rowtime:
        return True
    if any(map(_reads_watermark, _expressions(node))):
        return True
    return any(map(needs_watermarks, node.inputs))


def _expressions(node: Any) -> Iterator[Expr]:
    if isinstance(node, P.Calc):
        yield from node.exprs
        if node.condition is not None:
            yield node.condition


def _reads_watermark(expr: Expr) -> bool:
    return any(isinstance(e, Call) and e.function.name == "CURRENT_WATERMARK" for e in walk(expr))
