"""The built-in scalar functions, one family a module; importing this package makes them known to the registry."""

from __future__ import annotations

from streamline.table.expr.functions import (
    arithmetic,
    cast,
    comparison,
    conditional,
    logic,
    string,
)

__all__ = ("arithmetic", "cast", "comparison", "conditional", "logic", "string")
