"""Whether a condition cannot be TRUE for a row whose columns of one side are NULL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streamline.table.expr.nodes import Expr, InputRef, Literal

__all__ = ("rejects_null",)

#: Functions that are NULL where an operand is.
_STRICT: Final = frozenset(
    ("=", "<>", "<", "<=", ">", ">=", "BETWEEN ASYMMETRIC", "LIKE", "NOT", "+", "-", "*", "/", "%", "CAST")
)


def rejects_null(condition: Expr, is_null: Callable[[int], bool]) -> bool:
    """Whether a row is never kept by the condition where the columns that `is_null` names are NULL.

    `b.x > 3` rejects rows without a b; `b.x IS NULL` and `b.x > 3 OR a.y` keep some of them.
    """
    if isinstance(condition, Literal):
        return condition.value is not True
    if isinstance(condition, InputRef):
        return is_null(condition.index)
    name, operands = condition.function.name, condition.operands
    match name:
        case "AND":
            return any(rejects_null(o, is_null) for o in operands)
        case "OR":
            return all(rejects_null(o, is_null) for o in operands)
        case "IS TRUE" | "IS FALSE" | "IS NOT NULL":
            return null(operands[0], is_null)
        case "CASE":
            *pairs, otherwise = operands
            # A branch whose test is not TRUE is not taken.
            taken = [v for c, v in zip(pairs[::2], pairs[1::2]) if not rejects_null(c, is_null)]
            return all(rejects_null(v, is_null) for v in (*taken, otherwise))
        case _:
            return null(condition, is_null)


def null(expr: Expr, is_null: Callable[[int], bool]) -> bool:
    """Whether the expression is NULL for such a row."""
    if isinstance(expr, InputRef):
        return is_null(expr.index)
    if isinstance(expr, Literal):
        return expr.value is None
    if expr.function.name in ("AND", "OR"):
        return all(null(o, is_null) for o in expr.operands)
    return expr.function.name in _STRICT and any(null(o, is_null) for o in expr.operands)
