"""Scalar functions: how a call is checked and typed, printed, and turned into Python source.

Operators, CASE, CAST and field access are functions like any other. Each family has a module in `functions/`, which
registers what it defines; `lookup` finds a function by name and `bind_call` applies it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.nodes import Call, Expr, Literal

__all__ = (
    "ScalarFunction",
    "bind_call",
    "cast",
    "function_names",
    "lookup",
    "register",
    "unknown_function",
)


class ScalarFunction:
    """A scalar function.

    Attributes:
        name: upper-case name.
        deterministic: whether equal operands always give equal results.
        foldable: whether a deterministic call over constants may be computed at planning.
        strict: whether the result is NULL where any operand is NULL, so that the generator writes the guard and `emit`
            sees operands that are not NULL.
        total: whether a strict function is NULL in no other case (`never_null` says it of one call).
    """

    name: str
    deterministic: bool = True
    foldable: bool = True
    strict: bool = True
    total: bool = True

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        """A typed call over operands of fitting types, with implicit casts inserted.

        Raises:
            ValidationException: if the function cannot be applied to these operands.
        """
        raise NotImplementedError

    def emit(self, call: Call, em: Emitter) -> str:
        """Source of the value of the call."""
        raise NotImplementedError

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        """Source that is truthy exactly where the call is TRUE; None: the generator derives it from `emit`."""
        return None

    def emit_false(self, call: Call, em: Emitter) -> str | None:
        """Source that is truthy exactly where the call is FALSE; None: the generator derives it from `emit`."""
        return None

    def never_null(self, call: Call) -> bool:
        """Whether a call of a strict function is NULL only where an operand is."""
        return self.total

    def bounds(self, call: Call) -> tuple[int, int] | None:
        """Smallest and largest integer the call can give, where that is known better than from the type."""
        return None

    def text(self, call: Call) -> str:
        """The call as `explain` prints it."""
        return f"{self.name}({', '.join(map(str, call.operands))})"

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    # -- messages ------------------------------------------------------------------------------------------------

    forms: ClassVar[tuple[str, ...]] = ()

    def call_text(self, types: Iterable[DataType]) -> str:
        """The call with types for operands, as error messages show it."""
        return f"{self.name}({', '.join(f'<{sql_text(x)}>' for x in types)})"

    def supported(self) -> Sequence[str]:
        """The forms in which the function can be called, for error messages."""
        return self.forms

    def cannot_apply(self, operands: Sequence[Expr]) -> ValidationException:
        """The error that says that the function does not take operands of these types."""
        shown = self.call_text([o.type for o in operands])
        text = f"Cannot apply '{self.name}' to arguments of type '{shown}'."
        if self.supported():
            text += " Supported form(s): " + " | ".join(f"'{form}'" for form in self.supported())
        return ValidationException(text)

    def wrong_count(self, expected: str) -> ValidationException:
        """The error that says how many operands the function takes."""
        return ValidationException(
            f"Invalid number of arguments to function '{self.name}'. Was expecting {expected} arguments"
        )


_FUNCTIONS: Final[dict[str, ScalarFunction]] = {}


def register(function: ScalarFunction, *aliases: str) -> ScalarFunction:
    """Make a function known by its name and further ones."""
    for name in (function.name, *aliases):
        if name in _FUNCTIONS:
            raise ValueError(f"function {name} is defined twice")
        _FUNCTIONS[name] = function
    return function


def lookup(name: str) -> ScalarFunction | None:
    """The built-in scalar function of that name, in any case of letters, or None."""
    return _FUNCTIONS.get(name.upper())


def function_names() -> tuple[str, ...]:
    """Names of all built-in scalar functions, operators included."""
    return tuple(sorted(_FUNCTIONS))


def unknown_function(name: str, operands: Sequence[Expr] = (), known: Iterable[str] = ()) -> ValidationException:
    """The error for a function that is not there, with the nearest name that is.

    Args:
        name: the name as written.
        operands: what it was called with.
        known: names to suggest besides the built-in scalar functions (aggregates, functions of the user).
    """
    text = f"No match found for function signature {name}({', '.join(_family(o) for o in operands)})"
    names = {n.upper(): n for n in (*_FUNCTIONS, *known) if n[:1].isalpha()}
    near = difflib.get_close_matches(name.upper(), names, n=1, cutoff=0.6)
    if near:
        text += f". Did you mean {names[near[0]]}?"
    return ValidationException(text)


def _family(operand: Expr) -> str:
    type_ = operand.type
    if type_.is_numeric:
        return "<NUMERIC>"
    if type_.is_character:
        return "<CHARACTER>"
    if type_.is_interval:
        return "<INTERVAL>"
    return f"<{sql_text(type_)}>"


def bind_call(name: str, operands: Sequence[Expr], options: Sequence[Any] = ()) -> Expr:
    """Apply a built-in function by name.

    Raises:
        ValidationException: if there is no such function, or it cannot be applied to these operands.
    """
    function = lookup(name)
    if function is None:
        raise unknown_function(name, operands)
    return function.bind(operands, tuple(options))


def cast(expr: Expr, type_: DataType) -> Expr:
    """The expression converted to a type, itself where it has that type; nullability stays that of the operand."""
    if expr.type.same_type(type_):
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(None, type_.null().materialized())
    return Call(_FUNCTIONS["CAST"], (expr,), type_.materialized().with_nullable(expr.type.nullable))
