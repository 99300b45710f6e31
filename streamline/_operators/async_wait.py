"""Requests that overlap: an async function called for many records at a time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, final

import anyio

from streamline._core.failure import note_value
from streamline._core.waiting import Latch
from streamline._operators.async_queue import Border, Ordered, Request, RequestQueue, Unordered
from streamline._operators.async_retry import AsyncRetryStrategy
from streamline._operators.function import FunctionOperator, finish
from streamline.abc import Barrier, Batch, OperatorContext, Output, StateSpec
from streamline.errors import ValidationException

__all__ = ("AsyncWait",)


_STATE: Final = StateSpec(list[Any])


@final
class AsyncWait(FunctionOperator):
    """Calls an async function for every record, up to `capacity` at a time.

    Changelog: none. State: the records whose results were not handed on; they are asked for again after a restore.
    Watermarks: a result stays behind the watermark that its record came behind, and before the next. Timestamps: a
    result has its record's. Order: as asked for: that of the records, or (between two watermarks) as answers come.
    """

    name = "async"

    def __init__(
        self, function: Any, timeout: int, capacity: int, ordered: bool, retry: AsyncRetryStrategy | None = None
    ) -> None:
        """`timeout` (ms, 0: none) is for all attempts together."""
        super().__init__(function, "async_invoke")
        if self._style in ("generator", "async generator"):
            raise ValidationException(
                f"the function of async I/O is an `async def` that returns, no generator: {function!r}"
            )
        self._timeout = timeout
        self._capacity = capacity
        self._requests: RequestQueue = Ordered() if ordered else Unordered()
        self._retry = retry
        self._in_flight = 0
        self._changed = Latch()
        self._waiting = False
        self._ending = Latch()
        self._kept: list[Any] = []

    async def open(self, ctx: OperatorContext) -> None:
        await super().open(ctx)
        self._kept = ctx.operator_store.list_state("in-flight", _STATE)
        again = list(self._kept)
        self._kept.clear()
        for value, timestamp in again:
            self._begin(value, timestamp)

    # -- records -------------------------------------------------------------------------------------------------

    async def on_batch(self, batch: Batch, out: Output) -> None:
        timestamps = batch.timestamps
        for i, value in enumerate(batch.values):
            while self._in_flight >= self._capacity:
                await self._wait(out)
            self._begin(value, None if timestamps is None else timestamps[i])

    def _begin(self, value: Any, timestamp: int | None) -> None:
        request = Request(value, timestamp)
        self._requests.add(request)
        self._in_flight += 1
        self._ctx.spawn(partial(self._ask, request), "request")

    async def _wait(self, out: Output) -> None:
        """Wait until a request has ended, and hand on what can be."""
        self._changed.clear()
        self._waiting = True
        try:
            await self._changed.wait()
        finally:
            self._waiting = False
        await self._hand_on(out)

    async def on_wake(self, out: Output) -> None:
        await self._hand_on(out)

    async def _hand_on(self, out: Output) -> None:
        """Everything that is done and may go."""
        for item in self._requests.take():
            if isinstance(item, Border):
                if item.watermark is not None:
                    await out.watermark(item.watermark)
                if item.idle is not None:
                    await out.idle(item.idle)
                continue
            values = [r for request in item for r in request.results]
            timestamps = [request.timestamp for request in item for _ in request.results]
            none = timestamps.count(None) == len(timestamps)
            await out.send(Batch(values, None if none else timestamps))

    # -- one request ---------------------------------------------------------------------------------------------

    async def _ask(self, request: Request) -> None:
        clock = self._ctx.clock
        try:
            with anyio.CancelScope() as scope:
                alarm = clock.call_at(clock.now() + self._timeout, scope.cancel) if self._timeout > 0 else None
                try:
                    request.results = await self._attempts(request.value)
                finally:
                    if alarm is not None:
                        alarm.cancel()
            if scope.cancelled_caught:
                request.results = await self._timed_out(request.value)
        except Exception as e:
            note_value(e, request.value)
            raise
        self._requests.done(request)
        self._in_flight -= 1
        if self._waiting:
            self._changed.set()
        else:
            self._ctx.wake()

    async def _attempts(self, value: Any) -> list[Any]:
        """Ask, and ask again as long as the strategy says so."""
        retry, attempt = self._retry, 1
        if retry is None:
            return _listed(await finish(self._call(value)))
        predicate = retry.get_retry_predicate()
        bad_result, bad_error = predicate.result_predicate(), predicate.exception_predicate()
        last = False
        while True:
            may = not last and retry.can_retry(attempt)
            try:
                results = _listed(await finish(self._call(value)))
            except Exception as e:
                if not may or bad_error is None or not bad_error(e):
                    raise
            else:
                if not may or bad_result is None or not bad_result(results):
                    return results
            if self._ending.is_set():
                last = True  # the input has ended: one more attempt at once, whatever comes of it
            else:
                last = await self._pause(retry.get_backoff_time_millis(attempt))
            attempt += 1

    async def _pause(self, millis: int) -> bool:
        """Wait before the next attempt; whether the input has ended meanwhile."""
        clock = self._ctx.clock
        with anyio.CancelScope() as scope:
            alarm = clock.call_at(clock.now() + max(0, millis), scope.cancel)
            try:
                await self._ending.wait()
            finally:
                alarm.cancel()
        return not scope.cancelled_caught

    async def _timed_out(self, value: Any) -> list[Any]:
        handler = getattr(self._function, "timeout", None)
        if handler is None or not hasattr(self._function, "async_invoke"):
            raise TimeoutError(f"Async function call has timed out after {self._timeout} ms.")
        return _listed(await finish(handler(value)))

    # -- borders -------------------------------------------------------------------------------------------------

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if not self._requests:
            return watermark
        self._requests.add_border(Border(watermark, None))
        return None

    async def on_idle(self, idle: bool, out: Output) -> bool | None:
        if not self._requests:
            return idle
        self._requests.add_border(Border(None, idle))
        return None

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await super().on_barrier(barrier, out)
        self._kept[:] = [[r.value, r.timestamp] for r in self._requests.open()]

    async def on_end(self, out: Output) -> None:
        self._ending.set()
        await self._hand_on(out)
        while self._requests:
            await self._wait(out)


def _listed(result: Any) -> list[Any]:
    """What a request gives: None is nothing, a list is many records, anything else is one."""
    if result is None:
        return []
    return result if type(result) is list else [result]
