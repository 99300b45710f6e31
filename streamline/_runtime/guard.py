"""What tasks end with: an error is seen, and nothing ends one in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from streamline._runtime.task import note
from streamline.errors import StreamlineError

__all__ = ("apart", "leaves", "whole")

T = TypeVar("T")


async def apart(function: Callable[[], Awaitable[T]]) -> T:
    """Await it in a task of its own, so that a cancellation of this one waits for the worker threads it uses."""
    found: list[T] = []
    errors: list[Exception] = []

    async def run() -> None:
        try:
            found.append(await function())
        except Exception as e:
            errors.append(e)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
    if errors:
        raise errors[0]
    return found[0]


async def whole(function: Callable[[], Awaitable[None]], where: str) -> None:
    """Await it. What would end a task or a reader of results in silence becomes an error.

    Raises:
        StreamlineError: it was cancelled, and nobody cancels the job: records would be missing from a job that seems to
            have finished.
        RuntimeError: it raised StopAsyncIteration.
    """
    current = asyncio.current_task()
    try:
        await function()
    except asyncio.CancelledError as e:
        if current is None or current.cancelling():
            raise
        error: Exception = StreamlineError(
            "a function raised CancelledError though nobody has cancelled the job: it may have awaited a task or a "
            "future that was cancelled; catch that in the function"
        )
        note(error, where)
        raise error from e
    except StopAsyncIteration as e:
        error = RuntimeError("a function raised StopAsyncIteration")
        for text in (*getattr(e, "__notes__", ()), where):
            note(error, text)
        raise error from e


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors of a group and of the groups in it."""
    found: list[BaseException] = []
    for e in group.exceptions:
        found.extend(leaves(e) if isinstance(e, BaseExceptionGroup) else [e])
    return found
