"""CASE and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import common_type, union_type
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, bind_call, cast, register
from streamline.table.expr.signature import illegal_null, is_null_literal

__all__ = ("CASE",)


def _typed(expr: Expr, type_: DataType) -> Expr:
    return Literal(None, type_.null()) if is_null_literal(expr) else cast(expr, type_)


class Case(ScalarFunction):
    """CASE WHEN c THEN r … ELSE e END: operands c1, r1, c2, r2, …, e."""

    name = "CASE"
    strict = False

    def text(self, call: Call) -> str:
        *pairs, otherwise = call.operands
        whens = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(pairs[::2], pairs[1::2]))
        return f"CASE {whens} ELSE {otherwise} END"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        *pairs, otherwise = operands
        conditions, results = pairs[::2], [*pairs[1::2], otherwise]
        for condition in conditions:
            if condition.type.root not in ("BOOLEAN", "NULL"):
                raise ValidationException(
                    f"Expected a boolean type after WHEN, but {condition} is {condition.type.null()}."
                )
        if all(is_null_literal(r) for r in results):
            raise ValidationException("ELSE clause or at least one THEN clause must be non-NULL")
        common = union_type(r.type for r in results)
        if common is None:
            raise ValidationException(
                "Illegal mixing of types in CASE or COALESCE statement: "
                + ", ".join(str(r.type.null()) for r in results)
            )
        typed = [_typed(r, common) for r in results]
        bound: list[Expr] = []
        for condition, result in zip(conditions, typed):
            bound += [_typed(condition, t.BOOLEAN), result]
        return Call(self, (*bound, typed[-1]), common)

    def emit(self, call: Call, em: Emitter) -> str:
        *pairs, otherwise = call.operands
        text = ""
        for condition, result in zip(pairs[::2], pairs[1::2]):
            with em.scope():
                tested = em.assume(condition)
                text += f"{em.value(result)} if {tested} else "
        return f"({text}{em.value(otherwise)})"


class Coalesce(ScalarFunction):
    """The first operand that is not NULL."""

    strict = False

    def __init__(self, name: str, count: int | None = None) -> None:
        self.name = name
        self._count = count

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<COMMON>, <COMMON>{'' if self._count else ', …'})",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands or (self._count and len(operands) != self._count):
            raise self.wrong_count(str(self._count or "at least 1"))
        common = common_type(o.type for o in operands)
        if common is None or common.root == "NULL":
            raise self.cannot_apply(operands)
        # What stands behind an operand that is never NULL is never reached.
        stop = next((i for i, o in enumerate(operands) if not o.type.nullable), len(operands) - 1)
        used = [_typed(o, common) for o in operands[: stop + 1] if not is_null_literal(o)]
        nullable = all(o.type.nullable for o in used)
        if len(used) == 1:
            return used[0]
        return Call(self, tuple(used), common.with_nullable(nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        text = ""
        for operand in call.operands[:-1]:
            if not em.can_be_null(operand):
                return f"({text}{em.value(operand)})"
            with em.scope():
                tested = em.assume_not_null(operand)
                text += f"{em.value(operand)} if {tested} else "
        return f"({text}{em.value(call.operands[-1])})"


class NullIf(ScalarFunction):
    """NULL where both are equal, else the first: a CASE."""

    name = "NULLIF"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 2:
            raise self.wrong_count("2")
        a, b = operands
        return bind_call("CASE", (bind_call("=", (a, b)), Literal(None, t.NULL), a))


class If(ScalarFunction):
    """IF(condition, then, otherwise): a CASE."""

    name = "IF"

    def supported(self) -> Sequence[str]:
        return ("IF(<BOOLEAN>, <COMMON>, <COMMON>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 3:
            raise self.wrong_count("3")
        condition, then, otherwise = operands
        if any(map(is_null_literal, operands)):
            raise illegal_null(self.name)
        common = common_type((then.type, otherwise.type))
        if common is not None and common.is_temporal and union_type((then.type, otherwise.type)) is None:
            common = None
        if condition.type.root != "BOOLEAN" or common is None or common.root == "NULL":
            raise self.cannot_apply(operands)
        nullable = common.nullable or condition.type.nullable
        results = [_typed(x, common) for x in (then, otherwise)]
        return Call(CASE, (_typed(condition, t.BOOLEAN), *results), common.with_nullable(nullable))


class Extreme(ScalarFunction):
    """GREATEST and LEAST: NULL where any operand is."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self._python = python

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<COMPARABLE_TYPE>, …)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            raise self.wrong_count("at least 1")
        common = common_type(o.type for o in operands)
        if common is None or common.root in ("NULL", "ARRAY", "MAP", "MULTISET", "ROW"):
            raise self.cannot_apply(operands)
        return Call(self, tuple(_typed(o, common) for o in operands), common)

    def emit(self, call: Call, em: Emitter) -> str:
        if len(call.operands) == 1:
            return em.value(call.operands[0])
        return f"{self._python}({', '.join(map(em.value, call.operands))})"


CASE = register(Case())
register(Coalesce("COALESCE"))
register(Coalesce("IFNULL", 2))
register(NullIf())
register(If())
register(Extreme("GREATEST", "max"))
register(Extreme("LEAST", "min"))
