"""Functions of the user: classes to derive from, and the decorators that make them known to SQL and the Table API."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from streamline._core import types as t
from streamline._core.typeinfo import returned
from streamline._core.types import DataType, Field
from streamline.abc import MetricGroup, OperatorContext
from streamline.errors import ValidationException
from streamline.table.data_types import type_of
from streamline.table.expression import Expression
from streamline.table.expressions import call

__all__ = (
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserDefinedFunction",
    "UserFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
)

Kind: TypeAlias = Literal["scalar", "async scalar", "table", "aggregate", "table aggregate"]


class FunctionContext:
    """What a function learns about where it runs, in `open`."""

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx

    def get_metric_group(self) -> MetricGroup:
        """Metrics of this subtask."""
        return self._ctx.metrics

    get_metrics_group = get_metric_group

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A global job parameter."""
        parameters: Mapping[str, str] = self._ctx.job_parameters
        return parameters.get(key, default_value)

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""
        return self._ctx.subtask_index

    def get_number_of_parallel_subtasks(self) -> int:
        """How many there are."""
        return self._ctx.parallelism


class UserDefinedFunction:
    """Base of the function classes."""

    def open(self, function_context: FunctionContext) -> Any:
        """Called once before the first row."""

    def close(self) -> Any:
        """Called once at the end, also after a failure."""

    def is_deterministic(self) -> bool:
        """Whether equal arguments always give the same result."""
        return True


class ScalarFunction(UserDefinedFunction, ABC):
    """One value for each row."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """The result for one row's arguments; NULL is None."""


class AsyncScalarFunction(UserDefinedFunction, ABC):
    """One value for each row, awaited; several rows are under way at once, their order is kept."""

    @abstractmethod
    async def eval(self, *args: Any) -> Any:
        """The result for one row's arguments; NULL is None."""


class TableFunction(UserDefinedFunction, ABC):
    """Any number of rows for each row."""

    @abstractmethod
    def eval(self, *args: Any) -> Iterable[Any] | None:
        """Yields or returns rows: Rows or tuples, plain values where there is one column."""


class _Accumulating(UserDefinedFunction, ABC):
    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    @abstractmethod
    def accumulate(self, accumulator: Any, *args: Any) -> None:
        """Take in a row; the accumulator is changed in place."""


class AggregateFunction(_Accumulating):
    """One value for each group. Also define `retract(accumulator, *args)` for input that changes, and
    `merge(accumulator, accumulators)` for session windows."""

    @abstractmethod
    def get_value(self, accumulator: Any) -> Any:
        """The result."""

    def get_result_type(self) -> DataType | None:
        """The type of the result, where `udaf` is given none."""
        return None

    def get_accumulator_type(self) -> DataType | None:
        """The type of the accumulator, where `udaf` is given none."""
        return None


class TableAggregateFunction(_Accumulating):
    """Any number of rows for each group."""

    @abstractmethod
    def emit_value(self, accumulator: Any) -> Iterable[Any]:
        """Yields the rows."""

    def get_result_type(self) -> DataType | None:
        """The type of the rows, where `udtaf` is given none."""
        return None

    def get_accumulator_type(self) -> DataType | None:
        """The type of the accumulator, where `udtaf` is given none."""
        return None


_METHOD: Final[dict[Kind, str]] = {
    "scalar": "eval",
    "async scalar": "eval",
    "table": "eval",
    "aggregate": "accumulate",
    "table aggregate": "accumulate",
}


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function with its types: what `udf` and its kin give. Call it with expressions to get one.

    Attributes:
        kind: which of the function classes it is.
        name: for messages and explain.
        implementation: the function object, or a plain callable.
        argument_types: what arguments are converted to; None: they come as they are.
        result_type: of the value; of the row for functions that give rows.
        accumulator_type: of aggregates, or None.
        deterministic: whether equal arguments always give the same result.
    """

    kind: Kind
    name: str
    implementation: Any
    argument_types: tuple[DataType, ...] | None
    result_type: DataType
    accumulator_type: DataType | None = None
    deterministic: bool = True

    def __call__(self, *args: Any) -> Expression:
        """A call of the function, in an expression."""
        return call(self, *args)

    @property
    def function(self) -> Callable[..., Any]:
        """What is called for each row."""
        found = getattr(self.implementation, _METHOD[self.kind], None)
        return self.implementation if found is None else found  # type: ignore[no-any-return]

    def check_arity(self, count: int) -> None:
        """Refuse a number of arguments that the function does not take.

        Raises:
            ValidationException: with the function's signature.
        """
        if self.argument_types is not None:
            if len(self.argument_types) == count:
                return
            shown = ", ".join(x.summary(True) for x in self.argument_types)
            raise ValidationException(
                f"Invalid number of arguments to function '{self.name}'. Was expecting {len(self.argument_types)} "
                f"arguments: {self.name}({shown})"
            )
        skip = 1 if self.kind in ("aggregate", "table aggregate") else 0
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*range(count + skip))
        except TypeError as e:
            raise ValidationException(
                f"Invalid number of arguments to function '{self.name}{signature}': {count} given; {e}"
            ) from None

    def named(self, name: str) -> UserFunction:
        """The same function under another name."""
        return replace(self, name=name)


def _types(given: Any) -> tuple[DataType, ...] | None:
    if given is None:
        return None
    many = given if isinstance(given, (list, tuple)) else [given]
    return tuple(type_of(x, "an argument type") for x in many)


def _name_of(f: Any, name: str | None) -> str:
    return name or getattr(f, "__name__", None) or type(f).__name__


def _prepared(f: Any, base: type, what: str) -> Any:
    """An instance where a class was given."""
    if inspect.isclass(f):
        if not issubclass(f, base):
            raise ValidationException(f"{f.__name__} is no {base.__name__}, which {what} takes")
        return f()
    if not callable(f) and not isinstance(f, base):
        raise ValidationException(f"{what} takes a function or a {base.__name__}, not {f!r}")
    return f


def _pandas(func_type: str | None, what: str) -> None:
    if func_type not in (None, "general"):
        raise ValidationException(
            f"{what}: func_type={func_type!r} is not supported; functions get plain values, one row at a time"
        )


def _deterministic(f: Any, given: bool | None) -> bool:
    own = f.is_deterministic() if isinstance(f, UserDefinedFunction) else True
    if given is not None and isinstance(f, UserDefinedFunction) and given != own:
        raise ValidationException(f"Inconsistent deterministic: {given} and {own}")
    return own if given is None else given


def _result_type(given: Any, function: Callable[..., Any], name: str, keyword: str = "result_type") -> DataType:
    if given is not None:
        return type_of(given, f"the result type of {name}")
    hint = returned(function)
    if hint is None:
        raise ValidationException(
            f"the result type of function {name} is not known: give {keyword}=, or annotate what it returns"
        )
    return type_of(hint, f"the result type of {name}")


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str | None = None,
    udf_type: str | None = None,
) -> Any:
    """Make a scalar function of a callable, of a `ScalarFunction`, or of an `AsyncScalarFunction`; also a decorator.

    Args:
        f: the function; a coroutine function is awaited.
        input_types: a type or a list of types that arguments are converted to; None: they come as they are.
        result_type: type of the result: a `DataTypes.…()`, SQL text or a Python type; None: the return annotation's.
        deterministic: whether equal arguments always give the same result (default: yes).
        name: for messages; None: the function's own.
        func_type, udf_type: "general" only.

    Raises:
        ValidationException: if it is no function, or its result type is not known.
    """
    _pandas(func_type or udf_type, "udf")
    if f is None:
        return functools.partial(
            udf, input_types=input_types, result_type=result_type, deterministic=deterministic, name=name
        )
    if inspect.isclass(f) and issubclass(f, AsyncScalarFunction):
        f = f()
    made = f if isinstance(f, AsyncScalarFunction) else _prepared(f, ScalarFunction, "udf")
    called = made.eval if isinstance(made, (ScalarFunction, AsyncScalarFunction)) else made
    waits = inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))  # noqa: B004
    shown = _name_of(f, name)
    return UserFunction(
        "async scalar" if waits else "scalar",
        shown,
        made,
        _types(input_types),
        _result_type(result_type, called, shown),
        None,
        _deterministic(made, deterministic),
    )


def _row_type(given: Any, name: str) -> DataType:
    """The row that a list of column types, or a type, describes."""
    if isinstance(given, (list, tuple)):
        return t.row(*(Field(f"f{i}", type_of(x, f"a result type of {name}")) for i, x in enumerate(given)))
    found = type_of(given, f"the result type of {name}")
    return found if found.is_composite else t.row(Field("f0", found))


def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    result_type: Any = None,
) -> Any:
    """Make a table function of a callable (a generator, say) or of a `TableFunction`; also a decorator.

    Args:
        f: the function.
        input_types: as of `udf`.
        result_types: a type, a list of types (one a column), or a ROW type; None: the annotation of what it yields.
        deterministic: as of `udf`.
        name: as of `udf`.
        result_type: another name of `result_types`.
    """
    types = result_types if result_types is not None else result_type
    if f is None:
        return functools.partial(
            udtf, input_types=input_types, result_types=types, deterministic=deterministic, name=name
        )
    made = _prepared(f, TableFunction, "udtf")
    shown = _name_of(f, name)
    if types is None:
        types = returned(made.eval if isinstance(made, TableFunction) else made, elements=True)
    if types is None:
        raise ValidationException(
            f"the result types of function {shown} are not known: give result_types=, or annotate what it yields"
        )
    return UserFunction(
        "table", shown, made, _types(input_types), _row_type(types, shown), None, _deterministic(made, deterministic)
    )


def _aggregate(
    kind: Literal["aggregate", "table aggregate"],
    f: Any,
    input_types: Any,
    result_type: Any,
    accumulator_type: Any,
    deterministic: bool | None,
    name: str | None,
) -> UserFunction:
    base = AggregateFunction if kind == "aggregate" else TableAggregateFunction
    given_object = f() if inspect.isclass(f) else f
    if not isinstance(given_object, base):
        word = "udaf" if kind == "aggregate" else "udtaf"
        raise ValidationException(f"{word} takes a {base.__name__}, not {given_object!r}")
    made: Any = given_object
    shown = _name_of(f, name)
    given = result_type if result_type is not None else made.get_result_type()
    accumulator = accumulator_type if accumulator_type is not None else made.get_accumulator_type()
    if kind == "aggregate":
        result = _result_type(given, made.get_value, shown)
    else:
        given = given if given is not None else returned(made.emit_value, elements=True)
        if given is None:
            raise ValidationException(f"the result type of function {shown} is not known: give result_type=")
        result = _row_type(given, shown)
    held = None if accumulator is None else type_of(accumulator, f"the accumulator type of {shown}")
    return UserFunction(kind, shown, made, _types(input_types), result, held, _deterministic(made, deterministic))


def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make an aggregate function of an `AggregateFunction`; also a decorator of its class.

    Args:
        f: the object or class.
        input_types: as of `udf`.
        result_type: type of the result; None: what the object or the annotation of `get_value` says.
        accumulator_type: type of the accumulator, or None.
        deterministic: as of `udf`.
        name: as of `udf`.
        func_type: "general" only.
    """
    _pandas(func_type, "udaf")
    if f is None:
        return functools.partial(
            udaf,
            input_types=input_types,
            result_type=result_type,
            accumulator_type=accumulator_type,
            deterministic=deterministic,
            name=name,
        )
    return _aggregate("aggregate", f, input_types, result_type, accumulator_type, deterministic, name)


def udtaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make a table aggregate function of a `TableAggregateFunction`; also a decorator of its class.

    The arguments are those of `udaf`; `result_type` is the type of a row.
    """
    _pandas(func_type, "udtaf")
    if f is None:
        return functools.partial(
            udtaf,
            input_types=input_types,
            result_type=result_type,
            accumulator_type=accumulator_type,
            deterministic=deterministic,
            name=name,
        )
    return _aggregate("table aggregate", f, input_types, result_type, accumulator_type, deterministic, name)


def as_user_function(given: Any, name: str | None = None) -> UserFunction:
    """The function that a registration or a call names: made with `udf` and its kin, or an object of a class.

    Raises:
        ValidationException: if it is no function, or one whose types are not known.
    """
    if isinstance(given, UserFunction):
        return given
    kinds: Sequence[tuple[type, Callable[..., Any]]] = (
        (AggregateFunction, udaf),
        (TableAggregateFunction, udtaf),
        (TableFunction, udtf),
    )
    for base, make in kinds:
        if isinstance(given, base) or (inspect.isclass(given) and issubclass(given, base)):
            found: UserFunction = make(given, name=name)
            return found
    made: UserFunction = udf(given, name=name)
    return made
