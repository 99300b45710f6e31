"""What tasks begin and end with: an error is seen, and nothing ends one in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar, final

import anyio
import anyio.abc

from streamline._runtime.task import note
from streamline.errors import StreamlineError

__all__ = ("Exit", "Starter", "apart", "leaves", "whole")

T = TypeVar("T")


class Exit(Exception):
    """A function wants the program to end. Out of a task this would stop the loop with everything in it half done."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        #: A SystemExit or KeyboardInterrupt: whoever waits for the job is given it.
        self.error: Final = error


@final
class Starter:
    """Starts tasks of a group, and closes what never began.

    A task that is cancelled before its first step leaves a coroutine that nobody has awaited; Python warns of those.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, Coroutine[Any, Any, None]] = {}

    def start(self, group: anyio.abc.TaskGroup, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run it as a task of the group."""
        key, waiting = object(), self._waiting

        async def run() -> None:
            del waiting[key]
            await function()

        def begin() -> Coroutine[Any, Any, None]:
            waiting[key] = coroutine = run()
            return coroutine

        group.start_soon(begin, name=name)

    def close(self) -> None:
        """The group has ended."""
        for coroutine in self._waiting.values():
            coroutine.close()
        self._waiting.clear()


async def apart(function: Callable[[], Awaitable[T]], where: str) -> T:
    """Await it in a task of its own, so that a cancellation of this one waits for the worker threads it uses."""
    found: list[T] = []
    errors: list[Exception] = []

    async def find() -> None:
        found.append(await function())

    async def run() -> None:
        try:
            await whole(find, where)
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
        RuntimeError: it raised StopAsyncIteration or GeneratorExit.
        Exit: it raised SystemExit or KeyboardInterrupt.
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
    except (SystemExit, KeyboardInterrupt) as e:
        if isinstance(e, KeyboardInterrupt) and current is not None and current.cancelling():
            raise  # somebody at the keyboard does not want to wait for the end that is under way
        note(e, where)
        raise Exit(e) from e
    except (StopAsyncIteration, GeneratorExit) as e:
        if isinstance(e, GeneratorExit) and _current() is not current:
            raise  # nobody's function: the task is thrown away with its loop
        error = RuntimeError(f"a function raised {type(e).__name__}")
        for text in (*getattr(e, "__notes__", ()), where):
            note(error, text)
        raise error from e


def _current() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors of a group and of the groups in it."""
    found: list[BaseException] = []
    for e in group.exceptions:
        found.extend(leaves(e) if isinstance(e, BaseExceptionGroup) else [e])
    return found
