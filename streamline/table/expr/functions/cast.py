"""CAST and TRY_CAST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core.types import DataType
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions import conversions
from streamline.table.expr.functions.support import not_null
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, register
from streamline.table.expr.runtime.casts import attempt
from streamline.table.expr.signature import is_null_literal

__all__ = ("Cast",)


class Cast(ScalarFunction):
    """Conversion to a type, which is the type of the call; given to `bind` as its only option."""

    def __init__(self, name: str, lenient: bool) -> None:
        self.name = name
        self._lenient = lenient
        self.total = False

    def text(self, call: Call) -> str:
        return f"{self.name}({call.operands[0]} AS {call.type.null()})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        target: DataType = options[0]
        if is_null_literal(operand):
            return Literal(None, target.null())
        conversions.check(operand.type, target)
        nullable = operand.type.nullable or self._lenient
        return Call(self, (operand,), target.with_nullable(nullable))

    def never_null(self, call: Call) -> bool:
        # What may fail gives NULL instead where the session asks for the legacy behaviour.
        source, target = call.operands[0].type, call.type
        return not (self._lenient or conversions.may_be_null(source, target) or conversions.may_fail(source, target))

    def bounds(self, call: Call) -> tuple[int, int] | None:
        return conversions.bounds(call)

    def emit(self, call: Call, em: Emitter) -> str:
        (operand,) = call.operands
        lenient = self._lenient or em.context.legacy_cast
        source, target = operand.type, call.type
        if lenient and conversions.may_fail(source, target):
            convert = conversions.function(source, target, em.context)
            return em.call(attempt, em.cached(("cast", source, target), lambda: convert, "cast"), em.value(operand))
        text = conversions.write(em, source, target, em.value(operand))
        fallible = not self._lenient and conversions.may_be_null(source, target)
        return not_null(em, target, text, f"CAST({sql_text(source)} AS {sql_text(target)})", fallible)


register(Cast("CAST", False))
register(Cast("TRY_CAST", True))
