"""Sorting and deduplication by event time: rows wait for the watermark."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, final

from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import PAUSE_EVERY, Operator, OperatorContext, Output

__all__ = ("FirstByTime", "TemporalSort")

#: Rows that are sent at once.
_LIMIT: Final = 1024


@final
class TemporalSort(Operator):
    """Send rows in the order of their event time, as the watermark passes them.

    Changelog: insert-only in and out. State: the rows that wait. Rows whose time has been sent are dropped and counted.
    Watermarks: passed on behind the rows. Order: by event time, then by the further keys, then as rows came.
    """

    name = "TemporalSort"
    state: ClassVar[Mapping[str, StateSpec]] = {"rows": StateSpec(namespaced=True)}

    def __init__(self, make: MakeFunction, spec: StateSpec, sort: Callable[[list[Any]], None] | None) -> None:
        """
        Args:
            make: gives `read(batch)`: (event time in ms, row) pairs.
            spec: of the rows of one time, namespaced.
            sort: puts the rows of one time in order; None: as they came.
        """
        self._make = make
        self._spec = spec
        self._sort = sort

    async def open(self, ctx: OperatorContext) -> None:
        self._read: Callable[[Batch], list[tuple[int, Any]]] = self._make(ctx.clock.now)
        self._rows = ctx.store.table("rows", self._spec)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("sent", StateSpec(int))
        self._sent = min(self._marks, default=MIN_TIMESTAMP)
        self._times = sorted(self._rows.data)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data, sent, times, late = self._rows.data, self._sent, self._times, 0
        for time, row in self._read(batch):
            if time <= sent:
                late += 1
                continue
            rows = data.get(time)
            if rows is None:
                heapq.heappush(times, time)
                data[time] = {(): [row]}
            else:
                waiting = rows[()]
                waiting.append(row)
                rows[()] = waiting
        if late:
            self._dropped.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        times, data, looks = self._times, self._rows.data, 0
        rows: list[Any] = []
        while times and times[0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
                data = self._rows.data
            self._sent = heapq.heappop(times)
            some = data.pop(self._sent)[()]
            if self._sort is not None:
                some = list(some)
                self._sort(some)
            rows += some
            while len(rows) >= _LIMIT:
                await out.send(Batch(rows[:_LIMIT]))
                rows, data = rows[_LIMIT:], self._rows.data
        await out.send(Batch(rows))
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._sent]


@final
class FirstByTime(Operator):
    """Send the row of each key with the smallest event time, once the watermark says that none can come before it.

    Changelog: insert-only in and out. State: for each key its first row so far, then that it was sent. Rows that come
    behind the watermark are dropped and counted. Watermarks: passed on behind the rows. Order: by event time.
    """

    name = "Deduplicate"
    state: ClassVar[Mapping[str, StateSpec]] = {"first": StateSpec()}

    def __init__(self, make: MakeFunction, spec: StateSpec) -> None:
        """
        Args:
            make: gives `read(batch)`: (event time in ms, key, row) triples.
            spec: of a key: (time, row), or (time, None) after it was sent.
        """
        self._make = make
        self._spec = spec

    async def open(self, ctx: OperatorContext) -> None:
        self._read: Callable[[Batch], list[tuple[int, Any, Any]]] = self._make(ctx.clock.now)
        self._first = ctx.store.table("first", self._spec)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        self._watermark = MIN_TIMESTAMP
        self._due: list[tuple[int, int, Any]] = []
        self._order = 0
        for n, key in enumerate(list(self._first.data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            time, row = self._first.data[key]
            if row is not None:
                self._arm(time, key)

    def _arm(self, time: int, key: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (time, self._order, key))

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data, watermark, late = self._first.data, self._watermark, 0
        for time, key, row in self._read(batch):
            if time < watermark:
                late += 1
                continue
            found = data.get(key)
            if found is None or (found[1] is not None and time < found[0]):
                data[key] = (time, row)
                self._arm(time, key)
        if late:
            self._dropped.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        rows: list[Any] = []
        due, data, looks = self._due, self._first.data, 0
        while due and due[0][0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
                data = self._first.data
            time, _, key = heapq.heappop(due)
            found = data.get(key)
            if found is not None and found[1] is not None and found[0] == time:
                rows.append(found[1])
                data[key] = (time, None)
                if len(rows) >= _LIMIT:
                    await out.send(Batch(rows))
                    rows, data = [], self._first.data
        await out.send(Batch(rows))
        return watermark
