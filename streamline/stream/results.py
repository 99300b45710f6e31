"""What a running job gives to the program that runs it."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from streamline._core.time import perf_counter, yield_now
from streamline._operators.collect import Handover
from streamline._runtime.execute import Job

__all__ = ("CollectedResults",)

T = TypeVar("T")

#: Seconds for which a reader takes results one after the other before it yields to the loop.
_TIME_SLICE: Final = 0.005


class CollectedResults(AsyncIterator[T], Generic[T]):
    """Records of a stream, as the job makes them.

    The job starts with the first record that is asked for, or where it is entered as a context manager; leaving that
    cancels the job. Its tasks belong to the job, so any task may read, and close it.
    """

    def __init__(self, launch: Callable[[], Awaitable[Job]], handover: Handover, limit: int | None = None) -> None:
        self._launch = launch
        self._handover = handover
        self._left = limit
        self._job: Job | None = None
        self._end: asyncio.Task[Any] | None = None
        self._run: Iterator[T] = iter(())
        self._closed = False
        self._starting = asyncio.Lock()
        #: When the reader last let others have the loop (perf_counter seconds).
        self._yielded = 0.0

    @property
    def job(self) -> Job | None:
        """The job, once it runs."""
        return self._job

    def __aiter__(self) -> CollectedResults[T]:
        return self

    async def __anext__(self) -> T:
        if self._left is not None and self._left <= 0:
            await self.aclose()
            raise StopAsyncIteration
        value = await self._next()
        if self._left is not None:
            self._left -= 1  # not before it is there: who stops waiting for it may ask again
        return value

    async def _next(self) -> T:
        for value in self._run:
            return value
        handover = self._handover
        while not self._closed:
            await self._start()
            if perf_counter() - self._yielded >= _TIME_SLICE:
                # While results are there nothing here waits, and a reader would hold the loop for as long.
                await yield_now()
                self._yielded = perf_counter()
            run = handover.take()
            if run is not None:
                self._run = iter(run)
                return next(self._run)
            assert self._end is not None
            if self._end.done():
                self._closed = True
                assert self._job is not None
                await self._job.wait()  # raises where it has failed
                break
            await handover.wait()
        raise StopAsyncIteration

    async def _start(self) -> None:
        if self._end is not None:
            return
        async with self._starting:  # two tasks may read
            if self._end is None:
                job = self._job = await self._launch()
                self._end = asyncio.get_running_loop().create_task(job.over(), name=f"end of {job.name}")
                self._end.add_done_callback(partial(_ended, self._handover))

    async def aclose(self) -> None:
        """Stop reading and cancel the job; returns when nothing of it is left."""
        self._closed = True
        self._run = iter(())
        self._handover.close()
        if self._job is not None:
            try:
                await self._job.cancel()
            finally:
                end = self._end
                if end is not None and not end.done():
                    with contextlib.suppress(Exception):
                        await end

    close = aclose

    async def __aenter__(self) -> CollectedResults[T]:
        if not self._closed:
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        job, end = self._job, self._end
        if self._closed or job is None or end is None or end.done() or end.get_loop().is_closed():
            return
        warnings.warn(
            f"the results of job {job.name!r} were dropped before their end, so the job is cancelled: read them in "
            "`async with ….execute_and_collect() as results`, or call `await results.aclose()`",
            ResourceWarning,
            source=self,
            stacklevel=1,
        )
        self._handover.close()
        end.get_loop().call_soon_threadsafe(job.cancel_nowait)


def _ended(handover: Handover, task: asyncio.Task[Any]) -> None:
    """The job is over: the reader sees how when it has read everything."""
    if not task.cancelled():
        task.exception()
    handover.wake()
