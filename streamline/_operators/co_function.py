"""Functions of two streams: map, flat_map and process, keyed or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

from streamline._operators.calls import Style, style
from streamline._operators.contexts import ProcessContext, TimeDomain
from streamline._operators.function import FunctionLife, instance, method_of
from streamline._operators.invoke import Invoker
from streamline._operators.keyed_calls import with_context
from streamline._operators.keys import Keys
from streamline._operators.results import Sides
from streamline.abc import Barrier, Batch, OperatorContext, Output, Timer, TwoInputOperator

__all__ = ("CoFunction", "CoMode")

CoMode: TypeAlias = Literal["map", "flat_map", "process_element"]
Selectors: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@final
class CoFunction(TwoInputOperator):
    """One function with a method for each of two inputs, or a function for each.

    Changelog: none. State: the function's own; where both inputs are keyed it belongs to the key, and so do timers.
    Watermarks: the smaller one is passed on, behind the results of timers. Timestamps: a result has its record's.
    Order: kept within each input (per key), none between them.
    """

    name = "co"
    fresh_context = True

    def __init__(
        self, functions: tuple[Any, ...], mode: CoMode, selectors: Selectors | None = None, event_time: str = "yes"
    ) -> None:
        """`functions` is one object with methods such as `map1` and `map2`, or two callables."""
        copies = tuple(instance(f) for f in functions)
        self._lives = [FunctionLife(f) for f in copies]
        self._function = copies[0]
        self._calls = [method_of(copies[i if len(copies) == 2 else 0], f"{mode}{i + 1}") for i in (0, 1)]
        self._styles: list[Style] = [style(c) for c in self._calls]
        self._mode = mode
        self._keys = None if selectors is None else (Keys(selectors[0]), Keys(selectors[1]))
        self._event_time = event_time
        self._wrapped = [
            (c, None) if mode == "process_element" else with_context(c, s, mode)
            for c, s in zip(self._calls, self._styles)
        ]
        self._ctx: OperatorContext
        self._records: list[Invoker] = []
        self._contexts: list[ProcessContext] = []
        self._timers: Invoker | None = None
        self._timer_context: ProcessContext

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        sides = Sides()
        keyed = self._keys is not None
        store = ctx.store if keyed else None
        for keys in self._keys or ():
            keys.expect(ctx.store)
        self._contexts = [ProcessContext(ctx, store, sides, self._event_time) for _ in self._calls]
        self._records = [
            Invoker(call, context, sides, kinds, call_style)
            for (call, kinds), context, call_style in zip(self._wrapped, self._contexts, self._styles)
        ]
        on_timer = getattr(self._function, "on_timer", None)
        if keyed and on_timer is not None:
            self._timer_context = ProcessContext(ctx, store, sides, self._event_time)
            self._timers = Invoker(on_timer, self._timer_context, sides)
        for life in self._lives:
            await life.open(ctx, keyed)

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await self._records[0].batch(batch, None if self._keys is None else self._keys[0].of(batch.values), out)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await self._records[1].batch(batch, None if self._keys is None else self._keys[1].of(batch.values), out)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._timer_context.domain = TimeDomain.EVENT_TIME
            if self._timers.timer(timer.timestamp, timer.timestamp):
                await self._timers.after_timer(out)

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._timer_context.domain = TimeDomain.PROCESSING_TIME
            if self._timers.timer(timer.timestamp, None):
                await self._timers.after_timer(out)
            self._ctx.wake()  # so that the results of all timers of this instant leave as one batch

    async def on_wake(self, out: Output) -> None:
        if self._timers is not None:
            await self._timers.flush(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        await self.on_wake(out)
        for context in self._contexts:
            context.timer_service().watermark = watermark
        return watermark

    async def on_end(self, out: Output) -> None:
        await self.on_wake(out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self.on_wake(out)
        for life in self._lives:
            await life.snapshot(barrier)

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        for life in self._lives:
            await life.notify("notify_checkpoint_complete", checkpoint_id)

    async def on_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for life in self._lives:
            await life.notify("notify_checkpoint_aborted", checkpoint_id)

    async def close(self) -> None:
        for life in self._lives:
            await life.close()
