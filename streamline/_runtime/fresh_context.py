"""A coroutine in a copy of the context variables, without a task for it."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any

__all__ = ("in_fresh_context",)


@types.coroutine
def in_fresh_context(coroutine: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Await a coroutine in a copy of the context: what it sets is gone afterwards.

    Tasks live as long as the job. What a function sets for each record, such as the span of a trace, would otherwise
    grow on top of what it set for the record before.
    """
    run = copy_context().run
    try:
        waits_for = run(coroutine.send, None)
        while True:
            try:
                value = yield waits_for
            except GeneratorExit:
                run(coroutine.close)
                raise
            except BaseException as e:
                waits_for = run(coroutine.throw, e)
            else:
                waits_for = run(coroutine.send, value)
    except StopIteration:
        return
