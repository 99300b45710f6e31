"""The built-in scalar functions, one family a module; importing this package makes them known to the registry."""

from __future__ import annotations

from streamline.table.expr.functions import (
    arithmetic,
    cast,
    collection,
    comparison,
    conditional,
    hash,
    json,
    logic,
    misc,
    numeric,
    objects,
    regexp,
    string,
    temporal,
)

__all__ = (
    "arithmetic",
    "cast",
    "collection",
    "comparison",
    "conditional",
    "hash",
    "json",
    "logic",
    "misc",
    "numeric",
    "objects",
    "regexp",
    "string",
    "temporal",
)
