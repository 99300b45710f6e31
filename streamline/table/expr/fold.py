"""Constant folding: what does not depend on a row is computed once, at planning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import StreamlineError, ValidationException
from streamline.table.codegen.expressions import compile_scalar
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Call, Expr, Literal, is_deterministic
from streamline.table.expr.registry import bind_call, lookup

__all__ = ("evaluate", "fold")

#: Types whose values are immutable and can be compared: those that a literal may have.
_SCALARS: Final = frozenset(
    (*t.NUMERICS, "BOOLEAN", "CHAR", "VARCHAR", "BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
) | {"INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}

_TRUE: Final = Literal(True, t.BOOLEAN.not_null())
_FALSE: Final = Literal(False, t.BOOLEAN.not_null())


def evaluate(expr: Expr, context: EvalContext | None = None) -> Any:
    """The value of an expression without columns, in inner form.

    Raises:
        ValidationException: if it cannot be computed, such as `1 / 0`.
    """
    try:
        return compile_scalar(expr, context)(())
    except StreamlineError as e:
        raise ValidationException(f"The constant expression {expr} cannot be computed: {e}") from e
    except (ArithmeticError, ValueError) as e:
        raise ValidationException(f"The constant expression {expr} cannot be computed: {e}") from e


def fold(expr: Expr, context: EvalContext | None = None) -> Expr:
    """The expression with its constant parts computed, and conditions that are settled by types left out.

    A part that cannot be computed stays: it fails when a row reaches it, which may never be.

    Raises:
        ValidationException: if a constant is divided by zero.
    """
    if not isinstance(expr, Call):
        return expr
    operands = tuple(fold(o, context) for o in expr.operands)
    if operands != expr.operands:
        expr = replace(expr, operands=operands)
    simpler = _simplified(expr)
    if simpler is not expr:
        return _retyped(fold(simpler, context), expr.type)
    if not _constant(expr):
        return expr
    if expr.function.name == "/" and _is_zero(expr.operands[1]):
        raise ValidationException(f"The constant expression {expr} cannot be computed: Division by zero")
    try:
        value = evaluate(expr, context)
    except ValidationException:
        return expr
    return Literal(value, expr.type.null() if value is None else expr.type)


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is not None and expr.value == 0


def _retyped(expr: Expr, type_: DataType) -> Expr:
    """The expression with the nullability that it had before it was simplified: it is part of the query's schema."""
    if not type_.nullable or expr.type.nullable:
        return expr
    if isinstance(expr, Literal):
        return Literal(expr.value, expr.type.null())
    cast = lookup("CAST")
    assert cast is not None
    return Call(cast, (expr,), expr.type.null())


def _constant(expr: Call) -> bool:
    function = expr.function
    return (
        function.deterministic
        and function.foldable
        and expr.type.root in _SCALARS
        and all(isinstance(o, Literal) or (_foldable(o)) for o in expr.operands)
    )


def _foldable(operand: Expr) -> bool:
    """Whether an operand is a constant array, map or row, which stays a call."""
    if isinstance(operand, Literal):
        return True
    if not isinstance(operand, Call) or operand.type.root in _SCALARS:
        return False
    function = operand.function
    return function.deterministic and function.foldable and all(map(_foldable, operand.operands))


def _simplified(expr: Call) -> Expr:
    name, operands = expr.function.name, expr.operands
    if name in ("AND", "OR"):
        return _logical(expr)
    if name == "CASE":
        return _case(expr)
    if name in ("IS NULL", "IS NOT NULL") and not operands[0].type.nullable and is_deterministic(operands[0]):
        return _FALSE if name == "IS NULL" else _TRUE
    if name in ("=", "<=", ">=", "<>", "<", ">") and operands[0] == operands[1]:
        return _with_itself(expr)
    return expr


def _logical(expr: Call) -> Expr:
    """`x AND TRUE` is `x`, `x AND FALSE` is FALSE."""
    decides = expr.function.name == "OR"
    kept: list[Expr] = []
    for operand in expr.operands:
        if isinstance(operand, Literal) and operand.value is decides:
            return _TRUE if decides else _FALSE
        if not (isinstance(operand, Literal) and operand.value is (not decides)):
            kept.append(operand)
    if len(kept) == len(expr.operands):
        return expr
    if not kept:
        return _FALSE if decides else _TRUE
    return kept[0] if len(kept) == 1 else bind_call(expr.function.name, kept)


def _case(expr: Call) -> Expr:
    """Branches that are never or always taken."""
    *pairs, otherwise = expr.operands
    kept: list[Expr] = []
    for condition, result in zip(pairs[::2], pairs[1::2]):
        if isinstance(condition, Literal):
            if condition.value is True:
                otherwise = result
                break
            continue
        kept += [condition, result]
    if len(kept) == len(pairs):
        return expr
    if not kept:
        return otherwise
    return Call(expr.function, (*kept, otherwise), expr.type)


def _with_itself(expr: Call) -> Expr:
    """`x = x` is TRUE, or NULL where x is; so NaN is equal to itself, as it is for Flink."""
    operand = expr.operands[0]
    if isinstance(operand, Literal) or not is_deterministic(operand) or not expr.function.never_null(expr):
        return expr
    answer = _TRUE if expr.function.name in ("=", "<=", ">=") else _FALSE
    if not operand.type.nullable:
        return answer
    return bind_call("CASE", (bind_call("IS NOT NULL", (operand,)), answer, Literal(None, t.BOOLEAN)))
