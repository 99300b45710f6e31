"""Pieces of source and typing that several families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline._core.types import DataType
from streamline.table.expr.coercion import integer_range
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.entry import without_guards
from streamline.table.expr.guards import not_null
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.runtime import numbers

__all__ = (
    "WRAP",
    "bounds_of",
    "decimal_result",
    "first_type",
    "integer_result",
    "literal_value",
    "not_null",
    "same_as",
)

WRAP: Final[dict[str, Callable[[int], int]]] = {
    "TINYINT": numbers.wrap8,
    "SMALLINT": numbers.wrap16,
    "INT": numbers.wrap32,
    "BIGINT": numbers.wrap64,
}


def bounds_of(expr: Expr) -> tuple[int, int]:
    """Smallest and largest value that an expression of an integer type can have."""
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return expr.value, expr.value
    if isinstance(expr, Call):
        known = expr.function.bounds(expr)
        if known is not None:
            return known
    return integer_range(expr.type.root)


def integer_result(em: Emitter, root: str, text: str) -> str:
    """The integer that `text` gives, wrapped where it does not fit the type.

    A comparison with both ends costs about half of what masking costs, and results hardly ever need the wrap. Whether
    the operands are in their bounds is only asked where the result is not.
    """
    low, high = integer_range(root)
    x = em.temp()
    trusting = without_guards(text)
    beyond = em.call(WRAP[root], x if trusting == text else text)
    return f"({x} if {low} <= ({x} := {trusting}) <= {high} else {beyond})"


def decimal_result(em: Emitter, type_: DataType, text: str, name: str) -> str:
    """The decimal that `text` gives, rounded half up to the type's scale, NULL where it has too many digits."""
    unit = em.constant(numbers.decimal_unit(type_.scale), "unit")
    limit = em.constant(numbers.decimal_limit(type_.precision, type_.scale), "limit")
    return not_null(em, type_, em.call(numbers.decimal_fit, text, unit, limit), name, True)


def literal_value(expr: Expr) -> Any:
    """The value of a literal, None for all else."""
    return expr.value if isinstance(expr, Literal) else None


def first_type(types: Sequence[DataType]) -> DataType:
    """The result has the type of the first operand."""
    return types[0].materialized()


def same_as(index: int) -> Callable[[Sequence[DataType]], DataType]:
    """The result has the type of that operand."""
    return lambda types: types[index].materialized()
