"""Typed scalar expressions: nodes, the functions they call, and the Python source they become."""

from __future__ import annotations

from streamline.table.expr import functions

__all__ = ("functions",)
