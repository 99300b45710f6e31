"""A sink that calls a function with many records at a time: one INSERT a second instead of one a record.

stream.sink_to(BatchingSink(insert_many, max_batch_size=500, max_batch_delay="1 s"))
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, final

from streamline._core.time import Duration, to_millis
from streamline.abc import Batch, Sink, SinkContext, SinkWriter
from streamline.errors import ValidationException

__all__ = ("BatchingSink",)

T = TypeVar("T")


@final
class BatchingSink(Sink[T], Generic[T]):
    """Calls an async (or plain) function with a list of records, by number or by time, whichever comes first.

    At least once: all that came before a checkpoint was handed over when it completes; after a restart the function
    sees what came later again. While a call is under way no other begins, and the stream waits: that is the
    back-pressure. An error of the function fails the job.

    Args:
        function: takes a list of records, not empty.
        max_batch_size: records in one call at most.
        max_batch_delay: how long a record waits at most (timedelta, text or ms); None: until there are enough, or a
            checkpoint or the end of the input.

    Raises:
        ValidationException: the function is none, or a number is not positive.
    """

    def __init__(
        self,
        function: Callable[[list[T]], Awaitable[Any] | Any],
        max_batch_size: int = 500,
        max_batch_delay: Duration | None = "1 s",
    ) -> None:
        if not callable(function):
            raise ValidationException(f"BatchingSink needs a function of a list of records, not {function!r}")
        if max_batch_size <= 0:
            raise ValidationException(f"max_batch_size has to be positive, not {max_batch_size}")
        delay = None if max_batch_delay is None else to_millis(max_batch_delay, "max_batch_delay")
        if delay is not None and delay <= 0:
            raise ValidationException(f"max_batch_delay has to be positive, not {max_batch_delay!r}")
        self._function = function
        self._size = max_batch_size
        self._delay = delay

    def writer(self) -> SinkWriter[T]:
        return _Writer(self._function, self._size, self._delay)


class _Writer(SinkWriter[T]):
    def __init__(self, function: Callable[[list[T]], Any], size: int, delay: int | None) -> None:
        self._function = function
        self._size = size
        self._delay = delay
        self._waiting: list[T] = []
        self._since = 0
        self._scheduled = False
        self._ctx: SinkContext

    async def open(self, ctx: SinkContext) -> None:
        self._ctx = ctx

    async def write(self, batch: Batch) -> None:
        if not self._waiting:
            self._since = self._ctx.clock.now()
        self._waiting.extend(batch.values)
        while len(self._waiting) >= self._size:
            await self._call(self._size)
        if self._waiting and self._delay is not None and not self._scheduled:
            self._scheduled = True
            self._ctx.schedule(self._since + self._delay, self._on_time)

    async def _on_time(self) -> None:
        self._scheduled = False
        if not self._waiting or self._delay is None:
            return
        due = self._since + self._delay
        if self._ctx.clock.now() >= due:
            await self._call(len(self._waiting))
        else:
            self._scheduled = True
            self._ctx.schedule(due, self._on_time)

    async def _call(self, count: int) -> None:
        records, self._waiting = self._waiting[:count], self._waiting[count:]
        self._since = self._ctx.clock.now()
        result = self._function(records)
        if inspect.isawaitable(result):
            await result

    async def flush(self, end_of_input: bool = False) -> None:
        while self._waiting:
            await self._call(min(self._size, len(self._waiting)))

    async def close(self) -> None:
        self._waiting = []
