"""The life of users' functions inside of operators: each subtask has objects of its own, opened and closed once.

Generated code refers to a function by a name in its namespace. When a subtask makes its own instance of the code, the
function objects in the namespace are replaced by copies (`own`); the operator opens those copies after itself, and
closes them before.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MethodType
from typing import Any

from streamline.abc import Operator, OperatorContext
from streamline.table.udf import FunctionContext, UserDefinedFunction

__all__ = ("alive", "has_life", "own", "with_life")

#: Function objects that were made for the operator that is being opened.
_MADE: ContextVar[list[UserDefinedFunction] | None] = ContextVar("made", default=None)


def has_life(value: Any) -> bool:
    """Whether a value in a namespace is, or holds, a user's function object."""
    if isinstance(value, MethodType):
        return isinstance(value.__self__, UserDefinedFunction)
    return hasattr(value, "copy_for_subtask")


def own(value: Any) -> Any:
    """A subtask's own instance of a value in a namespace."""
    made = _MADE.get()
    if isinstance(value, MethodType) and isinstance(value.__self__, UserDefinedFunction):
        function = copy.copy(value.__self__)
        if made is not None:
            made.append(function)
        return MethodType(value.__func__, function)
    if hasattr(value, "copy_for_subtask"):
        another, function = value.copy_for_subtask()
        if made is not None and isinstance(function, UserDefinedFunction):
            made.append(function)
        return another
    return value


def _namespaces(value: Any) -> list[Mapping[str, Any]]:
    """The namespaces of generated functions that an operator's constructor is given."""
    found: list[Mapping[str, Any]] = []
    if isinstance(value, functools.partial):
        for part in (*value.args, *value.keywords.values()):
            found += _namespaces(part)
    elif isinstance(value, MethodType) and hasattr(value.__self__, "namespace"):
        found.append(value.__self__.namespace)
    elif isinstance(value, (tuple, list)):
        for part in value:
            found += _namespaces(part)
    return found


def alive(make: Callable[[], Operator]) -> Callable[[], Operator]:
    """The same factory of operators, whose operators open and close the function objects in their generated code."""
    if not any(has_life(v) for namespace in _namespaces(make) for v in namespace.values()):
        return make

    def made() -> Operator:
        return with_life(make(), [])

    return made


def with_life(operator: Operator, functions: list[UserDefinedFunction]) -> Operator:
    """The operator, which opens the functions (and those that are made for it) after itself, and closes them before."""
    open_operator, close_operator = operator.open, operator.close
    opened: list[UserDefinedFunction] = []

    async def open_all(ctx: OperatorContext) -> None:
        token = _MADE.set(functions)
        try:
            await open_operator(ctx)
        finally:
            _MADE.reset(token)
        for function in functions:
            opened.append(function)
            result = function.open(FunctionContext(ctx))
            if inspect.isawaitable(result):
                await result

    async def close_all() -> None:
        try:
            while opened:
                result = opened.pop().close()
                if inspect.isawaitable(result):
                    await result
        finally:
            await close_operator()

    # The operator stays what it is (its class tells the runtime how to drive it); only its life is longer by this.
    operator.open = open_all  # type: ignore[method-assign]
    operator.close = close_all  # type: ignore[method-assign]
    return operator
