"""AND, OR, NOT and the tests of truth: three-valued logic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, register
from streamline.table.expr.signature import illegal_null, is_null_literal

__all__ = ("and_", "conjuncts", "disjuncts", "not_", "or_")


class _Logical(ScalarFunction):
    """AND or OR over any number of operands."""

    strict = False

    def __init__(self, name: str, decides: bool) -> None:
        self.name = name
        self._decides = decides  # the value that settles the result: False for AND, True for OR

    def supported(self) -> Sequence[str]:
        return (f"<BOOLEAN> {self.name} <BOOLEAN>",)

    def call_text(self, types: Iterable[DataType]) -> str:
        return f" {self.name} ".join(f"<{sql_text(x)}>" for x in types)

    def text(self, call: Call) -> str:
        return "(" + f" {self.name} ".join(map(str, call.operands)) + ")"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        flat: list[Expr] = []
        for operand in operands:
            if isinstance(operand, Call) and operand.function is self:
                flat.extend(operand.operands)
            elif is_null_literal(operand):
                raise illegal_null()
            elif operand.type.root != "BOOLEAN":
                raise self.cannot_apply(operands)
            else:
                flat.append(operand)
        return Call(self, tuple(flat), t.BOOLEAN.with_nullable(any(o.type.nullable for o in flat)))

    def emit(self, call: Call, em: Emitter) -> str:
        # Operands are evaluated from left to right, and no further than needed: `b <> 0 AND a / b > 1` is safe.
        word = f" {self.name.lower()} "
        if len({em.null_sources(o) for o in call.operands}) == 1:
            # All are NULL together: `x > 1 AND x < 5`.
            return em.strict(call.operands, lambda *sources: f"({word.join(sources)})")
        # Python's own operator is right as long as what stands before it is not NULL.
        nullable = [em.can_be_null(o) for o in call.operands]
        first = nullable.index(True)
        plain, rest = call.operands[:first], call.operands[first:]
        if len(rest) > 1:
            names = [em.temp() for _ in rest]
            decided = " or ".join(f"({n} := {em.value(o)}) is {self._decides}" for n, o in zip(names, rest))
            unknown = " or ".join(f"{n} is None" for n, null in zip(names, nullable[first:]) if null)
            last = f"({self._decides} if {decided} else None if {unknown} else {not self._decides})"
        else:
            last = em.value(rest[0])
        return f"({word.join((*map(em.value, plain), last))})"

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        if self._decides:
            return "(" + " or ".join(map(em.true, call.operands)) + ")"
        return "(" + " and ".join(_chained(call.operands, em)) + ")"

    def emit_false(self, call: Call, em: Emitter) -> str | None:
        word = " and " if self._decides else " or "
        return "(" + word.join(map(em.false, call.operands)) + ")"


def _chained(operands: Sequence[Expr], em: Emitter) -> Iterator[str]:
    """Conditions that all hold; `x >= 1 AND x <= 5` becomes one chain of comparisons."""
    skip = False
    for here, after in zip(operands, (*operands[1:], None)):
        if skip:
            skip = False
            continue
        chain = _range_test(here, after, em) if after is not None else None
        skip = chain is not None
        yield chain or em.assume(here)


def _range_test(lower: Expr, upper: Expr, em: Emitter) -> str | None:
    if not (isinstance(lower, Call) and isinstance(upper, Call)):
        return None
    if lower.function.name not in (">", ">=") or upper.function.name not in ("<", "<="):
        return None
    value, low = lower.operands
    same, high = upper.operands
    if value != same or not (isinstance(low, Literal) and isinstance(high, Literal)):
        return None
    if low.value is None or high.value is None or value.type.root == "BOOLEAN":
        return None
    first = "<" if lower.function.name == ">" else "<="
    guard = [em.assume_not_null(value)] if em.can_be_null(value) else []
    return " and ".join((*guard, f"{em.value(low)} {first} {em.value(value)} {upper.function.name} {em.value(high)}"))


class Not(ScalarFunction):
    """NOT: NULL stays NULL."""

    name = "NOT"

    def supported(self) -> Sequence[str]:
        return ("NOT<BOOLEAN>",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        if is_null_literal(operand):
            raise illegal_null()
        if operand.type.root != "BOOLEAN":
            raise self.cannot_apply(operands)
        return Call(self, (operand,), t.BOOLEAN.with_nullable(operand.type.nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        return f"(not {em.value(call.operands[0])})"

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        return em.false(call.operands[0])

    def emit_false(self, call: Call, em: Emitter) -> str | None:
        return em.true(call.operands[0])


class IsTruth(ScalarFunction):
    """IS [NOT] TRUE, IS [NOT] FALSE: never NULL."""

    strict = False

    def __init__(self, name: str, wanted: bool, negated: bool) -> None:
        self.name = name
        self._wanted = wanted
        self._negated = negated

    def supported(self) -> Sequence[str]:
        return (f"<BOOLEAN> {self.name}",)

    def text(self, call: Call) -> str:
        return f"{call.operands[0]} {self.name}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        if is_null_literal(operand):
            raise illegal_null()
        if operand.type.root != "BOOLEAN":
            raise self.cannot_apply(operands)
        return Call(self, (operand,), t.BOOLEAN.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        (operand,) = call.operands
        source = f"({em.value(operand)} is {self._wanted})"
        return f"(not {source})" if self._negated else source

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        (operand,) = call.operands
        if self._negated:
            return f"(not {em.true(operand) if self._wanted else em.false(operand)})"
        return em.assume(operand) if self._wanted else em.false(operand)


AND = register(_Logical("AND", False))
OR = register(_Logical("OR", True))
NOT = register(Not())
for _wanted in (True, False):
    for _negated in (True, False):
        _text = f"IS {'NOT ' if _negated else ''}{str(_wanted).upper()}"
        register(IsTruth(_text, _wanted, _negated))


def and_(*conditions: Expr) -> Expr:
    """Conjunction; of one condition, that condition; of none, TRUE."""
    if not conditions:
        return Literal(True, t.BOOLEAN.not_null())
    return conditions[0] if len(conditions) == 1 else AND.bind(conditions)


def or_(*conditions: Expr) -> Expr:
    """Disjunction; of one condition, that condition; of none, FALSE."""
    if not conditions:
        return Literal(False, t.BOOLEAN.not_null())
    return conditions[0] if len(conditions) == 1 else OR.bind(conditions)


def not_(condition: Expr) -> Expr:
    """Negation."""
    return NOT.bind((condition,))


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """The conditions of which this one is the conjunction."""
    if condition is None:
        return ()
    return condition.operands if isinstance(condition, Call) and condition.function is AND else (condition,)


def disjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions of which this one is the disjunction."""
    return condition.operands if isinstance(condition, Call) and condition.function is OR else (condition,)
