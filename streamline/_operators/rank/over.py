"""OVER aggregates: every row gets the result of the rows before it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, final

from streamline._core.changes import RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline._operators.state_types import dict_of, list_of
from streamline.abc import PAUSE_EVERY, Operator, OperatorContext, Output

__all__ = ("OrderedOver", "OverByArrival", "OverByTime")


@final
class OverByTime(Operator):
    """Send each row with its results when the watermark has passed its event time.

    Changelog: insert-only in and out. State: for each key the rows that wait and the accumulators, with `keep` until no
    frame can reach back to them. Rows at or before the watermark (`by_key`: at or before the time of the key that was
    sent last, while its state is there) are dropped and counted. Watermarks: passed on behind the rows. Order: by event
    time, rows of one time as they came.
    """

    name = "OverAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"waiting": StateSpec(), "frames": StateSpec(), "ends": StateSpec()}

    def __init__(
        self, read: MakeFunction, fire: MakeFunction, new: MakeFunction, row: Any, by_key: bool, keep: int | None = None
    ) -> None:
        """
        Args:
            read: gives `read(batch)`: (event time in ms, key, row) triples.
            fire: gives `fire(time, rows, state) -> rows`.
            new: gives `new()`, the state of a new key.
            row: Python type of a row.
            by_key: how lateness is judged, see above.
            keep: how far (ms) frames reach back in time; None where they reach back to the first row, or by rows.
        """
        self._make = read, fire, new
        self._row = row
        self._by_key = by_key
        self._keep = keep

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        self._read: Callable[[Batch], list[tuple[int, Any, Any]]] = self._make[0](now)
        self._fire: Callable[[int, list[Any], list[Any]], list[Any]] = self._make[1](now)
        self._new: Callable[[], list[Any]] = self._make[2](now)
        rows = dict_of(int, list_of(self._row))
        self._waiting = ctx.store.table("waiting", StateSpec(type=rows, copy=deepcopy))
        self._frames = ctx.store.table("frames", StateSpec(type=list[Any], copy=deepcopy))
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        self._due: list[tuple[int, int, Any]] = []
        self._order = 0
        self._until = ctx.store.table("ends", StateSpec(type=int))
        self._ends = [(end, i, key) for i, (key, end) in enumerate(self._until.data.items())]
        heapq.heapify(self._ends)
        for n, key in enumerate(list(self._waiting.data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            for time in self._waiting.data[key]:
                self._arm(time, key)

    def _arm(self, time: int, key: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (time, self._order, key))

    async def on_batch(self, batch: Batch, out: Output) -> None:
        waiting, frames, late = self._waiting.data, self._frames.data, 0
        for time, key, row in self._read(batch):
            if self._by_key:
                frame = frames.get(key)
                if frame is not None and time <= frame[0]:
                    late += 1
                    continue
            elif time <= self._watermark:
                late += 1
                continue
            times = waiting.get(key)
            if times is None:
                times = {}
            rows = times.get(time)
            if rows is None:
                times[time] = [row]
                self._arm(time, key)
                if self._keep is not None:
                    self._extend(time, key, self._keep)
            else:
                rows.append(row)
            waiting[key] = times
        if late:
            self._dropped.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        due, looks = self._due, 0
        result: list[Any] = []
        waiting, frames = self._waiting.data, self._frames.data
        while due and due[0][0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
                waiting, frames = self._waiting.data, self._frames.data
            time, _, key = heapq.heappop(due)
            times = waiting[key]
            rows = times.pop(time)
            if times:
                waiting[key] = times
            else:
                del waiting[key]
            frame = frames.get(key)
            if frame is None:
                frame = self._new()
            result += self._fire(time, rows, frame)
            frames[key] = frame
            if len(result) >= 1024:
                await out.send(Batch(result))
                result = []
                waiting, frames = self._waiting.data, self._frames.data
        await self._forget(watermark, out)
        await out.send(Batch(result))
        return watermark

    def _extend(self, time: int, key: Any, keep: int) -> None:
        """The state of a key is kept half as long again as it is needed, so that this is not written for each row."""
        until = self._until.data
        end = until.get(key)
        if end is None or end < time + keep + 1:
            until[key] = end = time + keep * 3 // 2 + 1
            self._order += 1
            heapq.heappush(self._ends, (end, self._order, key))

    async def _forget(self, watermark: int, out: Output) -> None:
        """State that no frame can reach any more goes."""
        ends, until, frames, looks = self._ends, self._until.data, self._frames.data, 0
        while ends and ends[0][0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
                until, frames = self._until.data, self._frames.data
            end, _, key = heapq.heappop(ends)
            if until.get(key) == end:
                del until[key]
                frames.pop(key, None)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]


@final
class OverByArrival(Operator):
    """Send each row with its results as it comes: OVER ordered by processing time.

    Changelog: insert-only in and out. State: the accumulators of each key. Watermarks: passed on. Order: kept.
    """

    name = "OverAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"frames": StateSpec()}

    def __init__(self, read: MakeFunction, fire: MakeFunction, new: MakeFunction) -> None:
        """`read` gives (anything, key, row) triples; `fire` and `new` as of `OverByTime`."""
        self._make = read, fire, new

    async def open(self, ctx: OperatorContext) -> None:
        self._now = ctx.clock.now
        self._read: Callable[[Batch], list[tuple[int, Any, Any]]] = self._make[0](self._now)
        self._fire: Callable[[int, list[Any], list[Any]], list[Any]] = self._make[1](self._now)
        self._new: Callable[[], list[Any]] = self._make[2](self._now)
        self._frames = ctx.store.table("frames", StateSpec(type=list[Any], copy=deepcopy))

    async def on_batch(self, batch: Batch, out: Output) -> None:
        now, frames = self._now(), self._frames.data
        result: list[Any] = []
        for _, key, row in self._read(batch):
            frame = frames.get(key)
            if frame is None:
                frame = self._new()
            result += self._fire(now, [row], frame)
            frames[key] = frame
        await out.send(Batch(result))


@final
class OrderedOver(Operator):
    """Send each row with its results at once, and correct those of rows behind it: OVER ordered by another column.

    Changelog: any in; out the kind of the row that came for the row itself, -U and +U for those behind it, -D for one
    that was taken back. State: all rows of each key. Each change costs time in proportion to the rows of its key.
    Watermarks: passed on.
    """

    name = "OverAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"rows": StateSpec()}

    def __init__(
        self, read: MakeFunction, results: MakeFunction, position: MakeFunction, row: Any, emit_before: bool
    ) -> None:
        """
        Args:
            read: gives `read(batch)`: (kind, key, row) triples.
            results: gives `results(rows)`, one tuple a row.
            position: gives `position(rows, row)`: the index where a row goes.
            row: Python type of a row.
            emit_before: whether -U is sent.
        """
        self._make = read, results, position
        self._row = row
        self._emit_before = emit_before

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        self._read: Callable[[Batch], list[tuple[RowKind, Any, Any]]] = self._make[0](now)
        self._results: Callable[[list[Any]], list[Any]] = self._make[1](now)
        self._position: Callable[[list[Any], Any], int] = self._make[2](now)
        self._rows = ctx.store.table("rows", StateSpec(type=list_of(self._row), copy=list.copy))

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data = self._rows.data
        values: list[Any] = []
        kinds: list[RowKind] = []

        def send(row: Any, kind: RowKind) -> None:
            values.append(row)
            kinds.append(kind)

        for kind, key, row in self._read(batch):
            rows = data.get(key)
            if rows is None:
                rows = []
            before = self._results(rows)
            if kind.is_retraction:
                if row not in rows:
                    continue
                at = rows.index(row)
                send(row + before[at], RowKind.DELETE)
                del rows[at], before[at]
            else:
                at = self._position(rows, row)
                rows.insert(at, row)
            after = self._results(rows)
            skip = at if not kind.is_retraction else -1
            if skip >= 0:
                before.insert(at, None)
            for i, (old, new) in enumerate(zip(before, after)):
                if i == skip:
                    send(row + new, kind)
                elif old != new:
                    if self._emit_before:
                        send(rows[i] + old, RowKind.UPDATE_BEFORE)
                    send(rows[i] + new, RowKind.UPDATE_AFTER)
            if rows:
                data[key] = rows
            else:
                data.pop(key, None)
        await out.send(Batch(values, None, kinds))
