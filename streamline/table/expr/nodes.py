"""Bound expressions: immutable, typed, with names resolved once and for all.

Values of literals are in the inner form of `_core.types`. Nothing here knows SQL text or Python source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from streamline._core.types import DataType

if TYPE_CHECKING:
    from streamline.table.expr.registry import ScalarFunction

__all__ = ("AggCall", "Call", "Expr", "InputRef", "Literal", "input_refs", "is_deterministic", "rewrite", "walk")


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is in inner form, None is NULL."""

    value: Any
    type: DataType

    def __str__(self) -> str:
        return "null" if self.value is None else repr(self.value) if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True, slots=True)
class InputRef:
    """Column `index` of the input row."""

    index: int
    type: DataType
    name: str = ""

    def __str__(self) -> str:
        return self.name or f"${self.index}"


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function applied to operands; `type` is its result type for just these operands.

    Operators, CASE, CAST, field access and user functions are calls like any other. What a function needs to know
    beyond its operands (the target of a CAST is `type`; a time unit, a JSON path mode) stands in `options`.
    """

    function: ScalarFunction
    operands: tuple[Expr, ...]
    type: DataType
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.function.text(self)


Expr: TypeAlias = Literal | InputRef | Call


@dataclass(frozen=True, slots=True)
class AggCall:
    """An aggregate over a group: what the aggregation nodes hold.

    Attributes:
        name: upper-case name of the aggregate (COUNT, SUM, ...); COUNT(*) is COUNT without arguments.
        args: expressions over the aggregation's input, InputRefs after planning.
        type: result type.
        distinct: whether equal arguments count once.
        filter: FILTER (WHERE ...) condition over the input, or None.
        options: what the aggregate needs beyond its arguments (separator of LISTAGG, ordering, ...).
        udaf: the user's aggregate function object, None for built-in ones.
    """

    name: str
    args: tuple[Expr, ...]
    type: DataType
    distinct: bool = False
    filter: Expr | None = None
    options: tuple[Any, ...] = ()
    udaf: Any = None

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.args)) or ("*" if self.name == "COUNT" else "")
        text = f"{self.name}({'DISTINCT ' if self.distinct else ''}{inner})"
        return text if self.filter is None else f"{text} FILTER {self.filter}"


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, parents first."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.operands))


def rewrite(expr: Expr, replace_node: Callable[[Expr], Expr | None]) -> Expr:
    """A copy in which every node for which `replace_node` gives something else is replaced (parents first)."""
    new = replace_node(expr)
    if new is not None:
        return new
    if isinstance(expr, Call):
        operands = tuple(rewrite(o, replace_node) for o in expr.operands)
        return expr if operands == expr.operands else replace(expr, operands=operands)
    return expr


def input_refs(expr: Expr) -> set[int]:
    """Indices of the input columns that the expression reads."""
    return {n.index for n in walk(expr) if isinstance(n, InputRef)}


def is_deterministic(expr: Expr) -> bool:
    """Whether equal inputs always give equal results, so that it may be folded, moved or evaluated twice."""
    return all(n.function.deterministic for n in walk(expr) if isinstance(n, Call))
