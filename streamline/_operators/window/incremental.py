"""How a window combines its records as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamline._core.copying import copy_value
from streamline._operators.calls import style
from streamline._operators.function import FunctionLife, instance, method_of
from streamline.errors import StreamlineError, ValidationException

__all__ = ("Incremental", "aggregating", "reducing")


@dataclass(slots=True)
class Incremental:
    """An accumulator for each window.

    Attributes:
        create: a new accumulator; None: the first record is it.
        add: (record, accumulator) to accumulator.
        result: accumulator to result; None: it is the result itself.
        merge: two accumulators to one, for windows that merge.
        life: opening and closing of the function.
    """

    create: Callable[[], Any] | None
    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any] | None
    merge: Callable[[Any, Any], Any]
    life: FunctionLife

    def result_of(self, accumulator: Any) -> Any:
        """The result so far; independent of the accumulator where the window may go on."""
        result = self.result
        if result is None:
            return copy_value(accumulator)
        found = result(accumulator)
        return copy_value(found) if found is accumulator else found


def aggregating(function: Any) -> Incremental:
    """From an AggregateFunction: create_accumulator, add, get_result, merge.

    Raises:
        ValidationException: one of its methods is async.
    """
    function = instance(function)
    for method in ("create_accumulator", "add", "get_result", "merge"):
        if style(getattr(function, method)) != "sync":
            raise ValidationException(
                f"{type(function).__name__}.{method} is async or yields; its methods return at once. "
                "Await in a map before the window, or in the window function behind the aggregate"
            )
    create, get_result = function.create_accumulator, function.get_result

    def result(accumulator: Any) -> Any:
        if accumulator is None and create() is not None:
            raise StreamlineError(
                f"the accumulator of {type(function).__name__} became None: is there a `return` missing?"
            )
        return get_result(accumulator)

    return Incremental(create, function.add, result, function.merge, FunctionLife(function))


def reducing(function: Any) -> Incremental:
    """From a ReduceFunction or a callable of (value, value).

    Raises:
        ValidationException: it is async.
    """
    function = instance(function)
    call = method_of(function, "reduce")
    if style(call) != "sync":
        raise ValidationException(
            f"{function!r} is async or yields; a window's ReduceFunction returns at once. "
            "Await in a map before the window, or in the window function behind it"
        )
    return Incremental(None, lambda value, before: call(before, value), None, call, FunctionLife(function))
