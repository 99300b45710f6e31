"""Joins within windows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, final

from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import OperatorContext, Output, TwoInputOperator

__all__ = ("WindowJoin",)

#: Pairs that are sent at once, and rows that are looked at in one go.
_LIMIT: Final = 256


@final
class WindowJoin(TwoInputOperator):
    """Send the pairs of a window when event time has reached its end.

    Changelog: insert-only in and out. State: the rows of both sides by window and key. Rows of a window that has been
    sent are dropped and counted. Watermarks: the smaller of both, passed on behind the pairs. Order: by window.
    """

    name = "WindowJoin"
    state: ClassVar[Mapping[str, StateSpec]] = {
        "left": StateSpec(namespaced=True),
        "right": StateSpec(namespaced=True),
    }

    def __init__(
        self,
        assign: tuple[MakeFunction, MakeFunction],
        join: MakeFunction,
        specs: tuple[StateSpec, StateSpec],
        instant: Callable[[int], int] | None = None,
    ) -> None:
        """
        Args:
            assign: give `assign(batch, windows, watermark, opened) -> late` for each side.
            join: gives `join(left, right, limit)`, which yields batches, some of them empty.
            specs: of the rows of a key, for each side.
            instant: epoch ms of a window's end, where ends are local times.
        """
        self._make = (*assign, join)
        self._specs = specs
        self._instant = instant or (lambda end: end)

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        self._left: Callable[..., int] = self._make[0](now)
        self._right: Callable[..., int] = self._make[1](now)
        self._join: Callable[..., Iterator[Batch]] = self._make[2](now)
        self._left_rows = ctx.store.table("left", self._specs[0])
        self._right_rows = ctx.store.table("right", self._specs[1])
        self._late = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        self._ends: list[tuple[int, int]] = []
        for end in {*self._left_rows.data, *self._right_rows.data}:
            heapq.heappush(self._ends, (self._instant(end), end))

    def _take(self, assign: Callable[..., int], batch: Batch, rows: Any) -> None:
        opened: list[int] = []
        late = assign(batch, rows, self._watermark, opened)
        for end in opened:
            heapq.heappush(self._ends, (self._instant(end), end))
        if late:
            self._late.inc(late)

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        self._take(self._left, batch, self._left_rows.data)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        self._take(self._right, batch, self._right_rows.data)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        ends = self._ends
        while ends and ends[0][0] - 1 <= watermark:
            end = heapq.heappop(ends)[1]
            left = self._left_rows.data.pop(end, None)
            right = self._right_rows.data.pop(end, None)
            if left is None and right is None:
                continue  # both sides had opened it
            for batch in self._join(left or {}, right or {}, _LIMIT):
                await out.send(batch)
                await out.pause()  # for those that are empty
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]
