"""Aggregates over tumbling, hopping and cumulating windows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, final

from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("WindowAggregate",)

#: Results that are sent at once.
_LIMIT: Final = 1024


@final
class WindowAggregate(Operator):
    """Send the results of a window when event time (or the clock) has reached its end.

    Changelog: any in; out +I, one for each group of a window. Rows of a window that has been sent are late: dropped and
    counted. State: one table a window, one entry a group. Watermarks: passed on behind the results. Order: by window.
    """

    name = "WindowAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"windows": StateSpec(namespaced=True)}

    def __init__(
        self,
        assign: MakeFunction,
        fire: MakeFunction,
        spec: StateSpec,
        instant: Callable[[int], int] | None = None,
        processing: bool = False,
    ) -> None:
        """
        Args:
            assign: gives `assign(batch, windows, watermark, opened, now) -> late`.
            fire: gives `fire(end, window, limit)`, which yields batches, some of them empty, and takes groups out of
                the window as they are sent.
            spec: of a group's state, namespaced.
            instant: epoch ms of a window's end, where ends are local times.
            processing: windows go by the clock.
        """
        self._make = assign, fire
        self._spec = spec
        self._instant = instant
        self._processing = processing

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._now = ctx.clock.now
        self._assign: Callable[..., int] = self._make[0](self._now)
        self._fire: Callable[..., Iterator[Batch]] = self._make[1](self._now)
        self._windows = ctx.store.table("windows", self._spec)
        self._late = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        self._ends: list[tuple[int, int]] = []
        self._alarm: int | None = None
        self._opened(self._windows.data)

    def _opened(self, ends: Any) -> None:
        instant = self._instant
        for end in ends:
            heapq.heappush(self._ends, (end if instant is None else instant(end), end))
        if self._processing and self._ends and (self._alarm is None or self._ends[0][0] < self._alarm):
            self._alarm = self._ends[0][0]
            self._ctx.schedule(self._alarm, self._on_clock)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        opened: list[int] = []
        mark = self._now() - 1 if self._processing else self._watermark
        late = self._assign(batch, self._windows.data, mark, opened, self._now)
        if opened:
            self._opened(opened)
        if late:
            self._late.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if not self._processing:
            self._watermark = watermark
            await self._fire_until(watermark, out)
        return watermark

    async def _on_clock(self, now: int, out: Output) -> None:
        self._alarm = None
        await self._fire_until(self._now() - 1, out)
        self._opened(())

    async def _fire_until(self, mark: int, out: Output) -> None:
        ends = self._ends
        while ends and ends[0][0] - 1 <= mark:
            end = heapq.heappop(ends)[1]
            window = self._windows.data.get(end)
            if window is None:
                continue
            for batch in self._fire(end, window, _LIMIT):
                await out.send(batch)
                await out.pause()  # for those that are empty
            del self._windows.data[end]

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]
