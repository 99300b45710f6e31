"""Lookup joins: which tables can be looked up, and by which column."""

from __future__ import annotations

from streamline.table import logical as L
from streamline.table.expr.nodes import Call, Expr, InputRef, input_refs

__all__ = ("lookup_key", "lookup_table")


def lookup_table(rel: L.Rel) -> L.Scan | None:
    """The table on the right of a lookup join, None where it cannot be looked up."""
    return rel if isinstance(rel, L.Scan) and rel.lookup is not None else None


def lookup_key(condition: Expr, width: int) -> tuple[int, Expr] | None:
    """The right column (from 0) that an equality compares with something of the left side."""
    if not isinstance(condition, Call) or condition.function.name != "=":
        return None
    for a, b in (condition.operands, condition.operands[::-1]):
        if isinstance(a, InputRef) and a.index >= width and all(i < width for i in input_refs(b)):
            return a.index - width, b
    return None
