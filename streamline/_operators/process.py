"""Process functions: records and timers, with context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from streamline._operators.contexts import ProcessContext, TimeDomain
from streamline._operators.function import FunctionOperator
from streamline._operators.invoke import Invoker
from streamline._operators.keys import Keys
from streamline._operators.results import Sides
from streamline.abc import Barrier, Batch, OperatorContext, Output, Timer

__all__ = ("KeyedProcess", "Process")


@final
class Process(FunctionOperator):
    """A ProcessFunction, or a callable of (value, context), on a stream without a key.

    Changelog: none. State: operator state only, of the function's own. Watermarks: passed on. Timestamps: a result has
    its record's. Order: kept.
    """

    name = "process"

    def __init__(self, function: Any, event_time: str = "yes") -> None:
        super().__init__(function, "process_element")
        self._event_time = event_time
        self._invoker: Invoker
        self._context: ProcessContext

    async def open(self, ctx: OperatorContext) -> None:
        sides = Sides()
        self._context = ProcessContext(ctx, None, sides, self._event_time)
        self._invoker = Invoker(self._call, self._context, sides)
        await super().open(ctx)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._invoker.batch(batch, None, out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._context.timer_service().watermark = watermark
        return watermark


@final
class KeyedProcess(FunctionOperator):
    """A KeyedProcessFunction, or a callable of (value, context), on a keyed stream.

    Changelog: none. State: what the function declares, and its timers. Watermarks: passed on behind the results of the
    timers they fire. Timestamps: a result has its record's or its event-time timer's. Order: kept per key.
    """

    name = "process"
    keyed = True

    def __init__(self, function: Any, selector: Callable[[Any], Any], event_time: str = "yes") -> None:
        super().__init__(function, "process_element")
        self._event_time = event_time
        self._keys = Keys(selector)
        self._records: Invoker
        self._timers: Invoker | None = None
        self._timer_context: ProcessContext

    async def open(self, ctx: OperatorContext) -> None:
        sides = Sides()
        self._records = Invoker(self._call, ProcessContext(ctx, ctx.store, sides, self._event_time), sides)
        self._keys.expect(ctx.store)
        on_timer = getattr(self._function, "on_timer", None)
        if on_timer is not None:
            self._timer_context = ProcessContext(ctx, ctx.store, sides, self._event_time)
            self._timers = Invoker(on_timer, self._timer_context, sides)
        await super().open(ctx)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._records.batch(batch, self._keys.of(batch.values), out)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._timer_context.domain = TimeDomain.EVENT_TIME
            if self._timers.timer(timer.timestamp, timer.timestamp):
                await self._timers.after_timer(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._timers is not None:
            await self._timers.flush(out)
        return watermark

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._timer_context.domain = TimeDomain.PROCESSING_TIME
            if self._timers.timer(timer.timestamp, None):
                await self._timers.after_timer(out)
            self._ctx.wake()  # so that the results of all timers of this instant leave as one batch

    async def on_wake(self, out: Output) -> None:
        if self._timers is not None:
            await self._timers.flush(out)

    async def on_end(self, out: Output) -> None:
        await self.on_wake(out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        if self._timers is not None:
            await self._timers.flush(out)
        await super().on_barrier(barrier, out)
