"""The operator that calls a user's async function for the rows of an insert-only table."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from streamline._operators.async_retry import AsyncRetryStrategy, FixedDelayRetryStrategy
from streamline._operators.async_wait import AsyncWait
from streamline.abc import Operator
from streamline.table.conversions import converter_in, converter_out
from streamline.table.expr.nodes import Call, InputRef
from streamline.table.function_life import with_life
from streamline.table.planner_config import AsyncOptions
from streamline.table.udf import UserDefinedFunction
from streamline.table.user_functions import UserScalar

__all__ = ("async_calls",)


def async_calls(call: Call, options: AsyncOptions) -> Operator:
    """An operator that adds the function's answer to every row (a tuple).

    A call that raises is made again as the options say; then, or when it takes too long, the job fails.
    """
    assert isinstance(call.function, UserScalar)
    user = call.function.user
    function = copy.copy(user.implementation)
    called = replace(user, implementation=function).function
    read = converter_in(call.type, None, user.name)
    places = [(o.index, converter_out(o.type)) for o in call.operands if isinstance(o, InputRef)]

    async def ask(row: tuple[Any, ...]) -> tuple[Any, ...]:
        answer = await called(*[row[i] if write is None else write(row[i]) for i, write in places])
        return (*row, answer if read is None else read(answer))

    retry: AsyncRetryStrategy | None = None
    if options.retries:
        retry = FixedDelayRetryStrategy(options.retries, max(1, options.delay), None, lambda error: True)
    operator = AsyncWait(ask, options.timeout, options.capacity, options.ordered, retry)
    return with_life(operator, [function]) if isinstance(function, UserDefinedFunction) else operator
