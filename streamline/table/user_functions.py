"""Functions of the user inside of plans: their calls as bound expressions, and the values they take and give.

Users see Python's own values; expressions and operators see the inner form. The conversion is part of the call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from streamline._core import types as t
from streamline._core.changes import Row
from streamline._core.types import DataType, Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.conversions import Converter, converter_in, converter_out
from streamline.table.expr.coercion import common_type, sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.nodes import AggCall, Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast
from streamline.table.logical import Correlate, Rel, RowSchema, TableFunctionCall
from streamline.table.udf import UserDefinedFunction, UserFunction

__all__ = (
    "BoundAggregate",
    "BoundTableFunction",
    "UserScalar",
    "array_of_rows",
    "bind_scalar",
    "bind_table_function",
    "bind_user_aggregate",
    "flatten_rows",
    "user_functions_of",
)


def _fitted(function: UserFunction, operands: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operands, converted to the declared types where there are any.

    Raises:
        ValidationException: another number of them, or one that cannot be converted without loss.
    """
    function.check_arity(len(operands))
    if function.argument_types is None:
        return tuple(_typed(function, o) for o in operands)
    return tuple(_cast(function, o, x, i) for i, (o, x) in enumerate(zip(operands, function.argument_types)))


def _typed(function: UserFunction, operand: Expr) -> Expr:
    if operand.type.root == "NULL":
        raise ValidationException(
            f"Illegal use of 'NULL' as an argument of {function.name}: write CAST(NULL AS <type>) to give it a type."
        )
    return operand


def _cast(function: UserFunction, operand: Expr, wanted: DataType, position: int) -> Expr:
    if operand.type.root == "NULL":
        return Literal(None, wanted.null())
    common = common_type((operand.type, wanted))
    fits = operand.type.same_type(wanted) or (common is not None and common.same_type(wanted))
    if not fits and not (operand.type.is_composite and wanted.is_composite) and wanted.root != "RAW":
        raise ValidationException(
            f"Cannot apply '{function.name}' to arguments of type "
            f"'{function.name}(... <{sql_text(operand.type)}> ...)': argument {position + 1} has to be "
            f"{wanted.summary(True)}"
        )
    return operand if not fits else cast(operand, wanted)


# -- scalar functions ----------------------------------------------------------------------------------------------


class UserScalar(ScalarFunction):
    """A user's function of one row, as the registry's functions are.

    Attributes:
        user: the function.
        waits: whether it is a coroutine function.
    """

    is_user_defined = True

    strict = False
    total = False
    foldable = False

    def __init__(self, user: UserFunction) -> None:
        self.name = user.name
        self.user = user
        # A function with a life is called where it is opened, once for each row, and not wherever its result is used.
        self.deterministic = user.deterministic and not isinstance(user.implementation, UserDefinedFunction)
        self.waits = user.kind == "async scalar"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        return Call(self, _fitted(self.user, operands), self.user.result_type)

    def emit(self, call: Call, em: Emitter) -> str:
        if self.waits:
            raise TableException(
                f"{self.name} is an async function; it can be called in SELECT and WHERE over an insert-only table, "
                "not here"
            )
        arguments = [converted(em, o.type, em.value(o)) for o in call.operands]
        function = em.cached(("user", self.user), lambda: self.user.function, "user")
        value = f"{function}({', '.join(arguments)})"
        read = converter_in(call.type, None, self.name)
        return value if read is None else f"{em.cached(('read', self.user), lambda: read, 'read')}({value})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserScalar) and other.user is self.user

    def __hash__(self) -> int:
        return hash(self.user)


def converted(em: Emitter, type_: DataType, source: str) -> str:
    """Source of the Python value of an inner one, in generated code."""
    write = converter_out(type_)
    if write is None:
        return source
    return f"{em.cached(('write', type_.null().materialized()), lambda: write, 'write')}({source})"


def bind_scalar(function: UserFunction, operands: Sequence[Expr]) -> Expr:
    """A call of a user's scalar function.

    Raises:
        ValidationException: the operands do not fit.
    """
    return UserScalar(function).bind(operands)


def user_functions_of(exprs: Iterable[Expr]) -> list[UserFunction]:
    """The user's functions that expressions call, each once."""
    found: dict[int, UserFunction] = {}
    stack = list(exprs)
    while stack:
        e = stack.pop()
        if isinstance(e, Call):
            stack += e.operands
            if isinstance(e.function, UserScalar):
                found[id(e.function.user)] = e.function.user
    return list(found.values())


# -- aggregates ----------------------------------------------------------------------------------------------------


def _converters(types: Sequence[DataType]) -> list[Converter | None]:
    return [converter_out(x) for x in types]


def _outside(values: Sequence[Any], converters: Sequence[Converter | None]) -> list[Any]:
    return [v if c is None else c(v) for v, c in zip(values, converters)]


class BoundAggregate:
    """A user's aggregate function for arguments of given types; what it takes and gives is in inner form.

    `retract` and `merge` are there where the function has them.
    """

    def __init__(self, user: UserFunction, types: Sequence[DataType], result: DataType) -> None:
        self.user = user
        self._types, self._result = tuple(types), result
        function = user.implementation
        self.create_accumulator: Callable[[], Any] = function.create_accumulator
        self.accumulate = self._taking(function.accumulate, types)
        retract = getattr(function, "retract", None)
        if retract is not None:
            self.retract = self._taking(retract, types)
        merge = getattr(function, "merge", None)
        if merge is not None:
            self.merge = merge
        self.get_value = self._giving(result)

    def copy_for_subtask(self) -> tuple[BoundAggregate, Any]:
        """The same with a function object of its own."""
        function = copy.copy(self.user.implementation)
        return BoundAggregate(replace(self.user, implementation=function), self._types, self._result), function

    def _taking(self, method: Callable[..., Any], types: Sequence[DataType]) -> Callable[..., Any]:
        converters = _converters(types)
        if not any(converters):
            return method

        def taking(accumulator: Any, *values: Any) -> None:
            method(accumulator, *_outside(values, converters))

        return taking

    def _giving(self, result: DataType) -> Callable[[Any], Any]:
        function = self.user.implementation
        if self.user.kind == "table aggregate":
            read = _row_reader(self.user)
            return lambda accumulator: [read(row) for row in function.emit_value(accumulator) or ()]
        convert = converter_in(result, None, self.user.name)
        get_value: Callable[[Any], Any] = function.get_value
        return get_value if convert is None else lambda accumulator: convert(get_value(accumulator))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundAggregate) and other.user is self.user

    def __hash__(self) -> int:
        return hash(self.user)


def bind_user_aggregate(
    function: UserFunction, args: Sequence[Expr], distinct: bool = False, condition: Expr | None = None
) -> AggCall:
    """A call of a user's aggregate function.

    Raises:
        ValidationException: the arguments do not fit.
    """
    fitted = _fitted(function, args)
    adapter = BoundAggregate(function, [a.type for a in fitted], function.result_type)
    return AggCall(function.name, fitted, function.result_type, distinct, condition, udaf=adapter)


def _row_reader(user: UserFunction) -> Callable[[Any], Any]:
    """What makes an inner row of a Row, a tuple, or (one column) a value."""
    row = user.result_type
    if len(row.fields) == 1 and row.root == "ROW":
        only = converter_in(row.fields[0].type, None, user.name)

        def read_value(value: Any) -> Any:
            if isinstance(value, (tuple, Row)):
                (value,) = value
            return (value if only is None else only(value),)

        return read_value
    read = converter_in(row, None, user.name)
    assert read is not None
    return read


def array_of_rows(function: UserFunction, args: Sequence[Expr]) -> AggCall:
    """A table aggregate function as an aggregate that gives its rows as an array."""
    fitted = _fitted(function, args)
    result = t.array(function.result_type.not_null()).not_null()
    adapter = BoundAggregate(function, [a.type for a in fitted], result)
    return AggCall(function.name, fitted, result, udaf=adapter)


def flatten_rows(rel: Rel, keys: int, call: AggCall, names: Sequence[str]) -> Rel:
    """Keys, and the rows in the array behind them as columns."""
    array = rel.schema.ref(keys)
    assert call.type.element is not None
    fields = call.type.element.fields
    if names and len(names) != len(fields):
        raise ValidationException(
            f"{len(names)} names ({', '.join(names)}) for the {len(fields)} columns of {call.name}"
        )
    shown = tuple(Field(n, f.type) for n, f in zip(names or [f.name for f in fields], fields))
    flat = Correlate(rel, TableFunctionCall("UNNEST", (array,), RowSchema(shown)))
    kept = [i for i in range(len(flat.schema)) if i != keys]
    return build.project(flat, [flat.schema.ref(i) for i in kept], [flat.schema.names[i] for i in kept])


# -- table functions -----------------------------------------------------------------------------------------------


class BoundTableFunction:
    """A user's table function for arguments of given types: called with inner values, it gives inner rows (tuples)."""

    def __init__(self, user: UserFunction, types: Sequence[DataType]) -> None:
        self.user = user
        self._types = tuple(types)
        self._converters = _converters(types)
        self._plain = not any(self._converters)
        self._read = _row_reader(user)

    def copy_for_subtask(self) -> tuple[BoundTableFunction, Any]:
        """The same with a function object of its own."""
        function = copy.copy(self.user.implementation)
        return BoundTableFunction(replace(self.user, implementation=function), self._types), function

    def __call__(self, *values: Any) -> list[Any]:
        arguments = values if self._plain else _outside(values, self._converters)
        rows = self.user.function(*arguments)
        if rows is None:
            return []
        read = self._read
        if isinstance(rows, (str, bytes, Row)) or (isinstance(rows, tuple) and not _holds_rows(rows)):
            rows = [rows]
        return [read(row) for row in rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundTableFunction) and other.user is self.user

    def __hash__(self) -> int:
        return hash(self.user)


def _holds_rows(values: tuple[Any, ...]) -> bool:
    """Whether a tuple that a function has returned is a sequence of rows, and not a row."""
    return bool(values) and isinstance(values[0], (tuple, list, Row))


def bind_table_function(function: UserFunction, args: Sequence[Expr]) -> TableFunctionCall:
    """A call of a user's table function.

    Raises:
        ValidationException: the arguments do not fit.
    """
    fitted = _fitted(function, args)
    adapter = BoundTableFunction(function, [a.type for a in fitted])
    schema = RowSchema(tuple(function.result_type.fields))
    return TableFunctionCall(function.name, fitted, schema, adapter)
