"""What belongs to no family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core import types as t
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import literal_value
from streamline.table.expr.nodes import Call, Expr
from streamline.table.expr.registry import ScalarFunction, register

__all__ = ()


class TypeOf(ScalarFunction):
    """TYPEOF(x[, serializable]): the type as text."""

    name = "TYPEOF"
    strict = False

    def supported(self) -> Sequence[str]:
        return ("TYPEOF(<ANY>)", "TYPEOF(<ANY>, <BOOLEAN LITERAL>)")

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not 1 <= len(operands) <= 2:
            raise self.wrong_count("1 or 2")
        if len(operands) == 2 and not isinstance(literal_value(operands[1]), bool):
            raise self.cannot_apply(operands)
        return Call(self, tuple(operands), t.STRING)

    def emit(self, call: Call, em: Emitter) -> str:
        serializable = len(call.operands) > 1 and literal_value(call.operands[1])
        return repr(call.operands[0].type.materialized().summary(short=not serializable))


class CurrentDatabase(ScalarFunction):
    """CURRENT_DATABASE(): the database in force when the query is planned."""

    name = "CURRENT_DATABASE"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if operands:
            raise self.wrong_count("0")
        return Call(self, (), t.STRING.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        return repr(em.context.database)


register(TypeOf())
register(CurrentDatabase())
