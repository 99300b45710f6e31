"""A sink that calls an async function with batches: by size and by time, several at once, again where they fail.

async def store(batch: list[Order]) -> None:
    await database.insert_many(batch)

orders.sink_to(AsyncSink(store, max_batch_size=500, max_time_in_buffer="1 s"))
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import anyio

from streamline._core.time import Duration, TimerHandle, sleep, to_millis
from streamline._core.waiting import Latch
from streamline.abc import Batch, Sink, SinkContext, SinkWriter
from streamline.connectors.builder import Builder
from streamline.errors import StreamlineError, ValidationException

__all__ = ("AsyncSink", "AsyncSinkError")

T = TypeVar("T")

#: Takes a batch; gives nothing, or what of it has to be sent again.
Submit = Callable[[list[Any]], Awaitable[Iterable[Any] | None] | Iterable[Any] | None]


class AsyncSinkError(StreamlineError):
    """A batch was not taken, however often it was sent. The error of the last attempt is its cause.

    Attributes:
        batch: what was not taken.
    """

    def __init__(self, message: str, batch: list[Any]) -> None:
        super().__init__(message)
        self.batch = batch


@dataclass(frozen=True)
class _Settings:
    function: Submit
    batch_size: int
    batch_bytes: int | None
    size_of: Callable[[Any], int] | None
    in_flight: int
    buffered: int
    time_in_buffer: int
    timeout: int
    attempts: int
    retry_delay: int
    max_retry_delay: int
    retry_on: tuple[type[BaseException], ...]


class AsyncSink(Sink[T], Generic[T]):
    """Calls a function with batches of records. At least once: all is sent and answered before a checkpoint.

    Args:
        function: takes a list of records, async or not. It gives None, or those of the records that were not taken and
            are to be sent again. One that raises is called again with the same batch.
        max_batch_size: records of a batch.
        max_time_in_buffer: after that long a batch is sent though it is not full (timedelta, text or ms).
        max_in_flight_requests: calls at once, of each subtask. With 1 the order of records is kept, unless some of them
            are sent again.
        max_buffered_requests: records that wait or are on their way; `write` waits beyond (back-pressure).
        max_batch_bytes, size_of: bytes of a batch, by a function of a record.
        request_timeout: how long one call may take.
        max_attempts: how often a batch is sent before the job fails.
        retry_delay, max_retry_delay: pause before the second attempt, doubled for each further one up to the maximum.
        retry_on: exceptions after which it is sent again; others fail the job at once.

    Raises:
        ValidationException: a limit is not positive, or they do not fit together.
    """

    def __init__(
        self,
        function: Submit,
        *,
        max_batch_size: int = 500,
        max_time_in_buffer: Duration = 5_000,
        max_in_flight_requests: int = 1,
        max_buffered_requests: int = 10_000,
        max_batch_bytes: int | None = None,
        size_of: Callable[[T], int] | None = None,
        request_timeout: Duration = 180_000,
        max_attempts: int = 3,
        retry_delay: Duration = 100,
        max_retry_delay: Duration = 10_000,
        retry_on: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    ) -> None:
        if not callable(function):
            raise ValidationException(f"an AsyncSink calls a function with lists of records; {function!r} is none")
        if (max_batch_bytes is None) != (size_of is None):
            raise ValidationException("max_batch_bytes and size_of belong together: give both or none")
        self._settings = _Settings(
            function,
            max_batch_size,
            max_batch_bytes,
            size_of,
            max_in_flight_requests,
            max_buffered_requests,
            to_millis(max_time_in_buffer, "max_time_in_buffer"),
            to_millis(request_timeout, "request_timeout"),
            max_attempts,
            to_millis(retry_delay, "retry_delay"),
            to_millis(max_retry_delay, "max_retry_delay"),
            retry_on if isinstance(retry_on, tuple) else (retry_on,),
        )
        for name in ("batch_size", "batch_bytes", "in_flight", "buffered", "time_in_buffer", "timeout", "attempts"):
            limit = getattr(self._settings, name)
            if limit is not None and limit <= 0:
                raise ValidationException(f"{name} of an AsyncSink has to be positive, not {limit}")
        if max_buffered_requests < max_batch_size:
            raise ValidationException(
                f"a batch of {max_batch_size} records cannot gather where {max_buffered_requests} may wait: raise "
                "max_buffered_requests, or lower max_batch_size"
            )

    @staticmethod
    def builder() -> Builder[AsyncSink[Any]]:
        """The same by setters: `set_function`, `set_max_batch_size`, …, `build`."""
        return Builder(AsyncSink)

    def writer(self) -> SinkWriter[T]:
        return _Batching(self._settings)


class _Batching(SinkWriter[Any]):
    """Gathers records, and has at most so many calls under way. Every call is a task of the job's."""

    def __init__(self, settings: _Settings) -> None:
        self._settings: Final = settings
        self._waiting: deque[Any] = deque()
        self._bytes = 0
        self._calls = 0
        #: Records that are on their way.
        self._sent = 0
        #: What waits is sent, full batch or not.
        self._hurry = False
        self._alarm: TimerHandle | None = None
        self._progress = Latch()
        #: What has failed for good: the job is about to fail with it.
        self._error: Exception | None = None

    async def open(self, ctx: SinkContext) -> None:
        self._ctx = ctx
        self._records = ctx.metrics.counter("numRecordsSend")
        self._failures = ctx.metrics.counter("numRecordsSendErrors")
        ctx.metrics.gauge("requestsInFlight", lambda: self._calls)
        ctx.metrics.gauge("recordsBuffered", lambda: len(self._waiting))

    async def write(self, batch: Batch) -> None:
        settings = self._settings
        for value in batch.values:
            if len(self._waiting) + self._sent >= settings.buffered:
                await self._until(lambda: len(self._waiting) + self._sent < settings.buffered)
            self._waiting.append(value)
            if settings.size_of is not None:
                self._bytes += settings.size_of(value)
            if len(self._waiting) >= settings.batch_size or self._bytes_are_enough():
                self._send()
        if self._waiting and self._alarm is None:
            self._alarm = self._ctx.clock.call_at(self._ctx.clock.now() + settings.time_in_buffer, self._ring)

    async def flush(self, end_of_input: bool = False) -> None:
        self._hurry = True
        self._send()
        await self._until(lambda: not self._waiting and not self._calls)
        self._hurry = False

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    async def _until(self, condition: Callable[[], bool]) -> None:
        self._send()
        while self._error is None and not condition():
            self._progress.clear()
            await self._progress.wait()
        if self._error is not None:
            raise self._error

    # -- sending -------------------------------------------------------------------------------------------------

    def _bytes_are_enough(self) -> bool:
        limit = self._settings.batch_bytes
        return limit is not None and self._bytes >= limit

    def _ring(self) -> None:
        """Something has waited for long enough."""
        self._alarm = None
        self._hurry = True
        self._send()

    def _send(self) -> None:
        """Begin the calls that may be begun now."""
        settings = self._settings
        full_up = len(self._waiting) + self._sent >= settings.buffered
        while self._waiting and self._calls < settings.in_flight:
            if not (self._hurry or full_up or len(self._waiting) >= settings.batch_size or self._bytes_are_enough()):
                return
            batch = self._next()
            self._calls += 1
            self._sent += len(batch)
            self._ctx.spawn(partial(self._deliver, batch), "request")
        if not self._waiting:
            self._hurry = False
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    def _next(self) -> list[Any]:
        settings, waiting = self._settings, self._waiting
        if settings.size_of is None or settings.batch_bytes is None:
            return [waiting.popleft() for _ in range(min(settings.batch_size, len(waiting)))]
        batch: list[Any] = []
        total = 0
        while waiting and len(batch) < settings.batch_size:
            size = settings.size_of(waiting[0])
            if batch and total + size > settings.batch_bytes:
                break
            batch.append(waiting.popleft())
            total += size
        self._bytes -= total
        return batch

    async def _deliver(self, batch: list[Any]) -> None:
        """Call the function until all of a batch is taken."""
        size, attempt, delay = len(batch), 1, self._settings.retry_delay
        try:
            while batch := await self._attempt(batch, attempt):
                self._failures.inc(len(batch))
                await sleep(self._ctx.clock, delay)
                attempt, delay = attempt + 1, min(2 * delay, self._settings.max_retry_delay)
        except Exception as e:
            self._error = e  # no checkpoint passes any more
            self._progress.set()
            raise
        self._records.inc(size)
        self._calls -= 1
        self._sent -= size
        self._progress.set()
        self._send()

    async def _attempt(self, batch: list[Any], attempt: int) -> list[Any]:
        """Call the function once; gives what has to be sent again.

        Raises:
            AsyncSinkError: that was the last attempt.
        """
        settings = self._settings
        error: BaseException | None = None
        try:
            left = list(await self._call(batch) or ())
            if not left:
                return left
            reason = f"{len(left)} of its records were not taken"
        except settings.retry_on as e:
            error, left, reason = e, batch, f"{type(e).__name__}: {e}"
        except Exception as e:
            e.add_note(f"in the function of an AsyncSink, for a batch of {len(batch)} that begins with {batch[0]!r}")
            raise
        if attempt >= settings.attempts:
            raise AsyncSinkError(
                f"a batch of {len(batch)} records was not taken in {attempt} attempts; the last: {reason}. It begins "
                f"with {batch[0]!r}",
                left,
            ) from error
        return left

    async def _call(self, batch: list[Any]) -> Iterable[Any] | None:
        clock, timeout = self._ctx.clock, self._settings.timeout
        scope = anyio.CancelScope()
        alarm = clock.call_at(clock.now() + timeout, scope.cancel)
        result: Any = None
        try:
            with scope:
                # A list of its own: the function may do with it what it likes.
                result = self._settings.function(list(batch))
                if inspect.isawaitable(result):
                    result = await result
        finally:
            alarm.cancel()
        if scope.cancelled_caught:
            raise TimeoutError(f"no answer within {timeout} ms")
        return result  # type: ignore[no-any-return]
