"""Tumbling and sliding event-time windows that combine their records as they come and fire once: the fast form.

State is a table for each window, `{end: {key: accumulator}}`. There is no timer per key: a window that the watermark
has passed is taken out as a whole, and its results leave as batches.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, MutableMapping, Sequence
from itertools import repeat
from typing import Any, Final, final

from streamline._core.copying import copy_value
from streamline._core.failure import note_position, note_value
from streamline._operators.keys import Keys
from streamline._operators.results import Held, Sides
from streamline._operators.window.assign import timestamp_of
from streamline._operators.window.call import WindowCall
from streamline._operators.window.incremental import Incremental
from streamline._operators.window.types import TimeWindow
from streamline.abc import (
    PAUSE_EVERY,
    Barrier,
    Batch,
    Counter,
    KeyedStore,
    Operator,
    OperatorContext,
    Output,
    StateSpec,
    StateTable,
)

__all__ = ("AlignedWindows",)

_ABSENT: Final = object()
#: Results in one batch.
_RUN: Final = 1024


@final
class AlignedWindows(Operator):
    """Event-time windows of one size at regular distances, with an accumulator per key.

    Changelog: insert-only in and out. State: an accumulator, or the records, per key and open window. Watermarks:
    passed on behind the results of the windows they close. A record whose windows are all closed is late: it goes to
    the late output, else it is dropped and counted. Timestamps: a result has the window's last one. Order: windows by
    end, keys as they came.
    """

    name = "window"
    state = {
        "windows": StateSpec(namespaced=True, copy=copy_value),
        "elements": StateSpec(namespaced=True, kind="list"),
    }

    def __init__(
        self,
        selector: Callable[[Any], Any],
        size: int,
        slide: int,
        offset: int,
        incremental: Incremental | None,
        call: WindowCall | None = None,
        late_tag: str | None = None,
    ) -> None:
        """Without `incremental` the records themselves are kept, for `call`."""
        self._keys = Keys(selector)
        self._size = size
        self._slide = slide
        self._offset = offset
        self._incremental = incremental
        self._call = call
        self._late_tag = late_tag
        self._ends: list[int] = []
        self._sides = Sides()
        self._held = Held(self._sides)
        self._table: StateTable
        self._store: KeyedStore
        self._dropped: Counter

    async def open(self, ctx: OperatorContext) -> None:
        self._store = ctx.store
        self._keys.expect(ctx.store)
        name = "elements" if self._incremental is None else "windows"
        self._table = ctx.store.table(name, self.state[name])
        self._ends = sorted(self._table.data)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        if self._incremental is not None:
            await self._incremental.life.open(ctx, True)
        if self._call is not None:
            await self._call.open(ctx, self._sides, False)

    # -- records -------------------------------------------------------------------------------------------------

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if batch.timestamps is None or None in batch.timestamps:
            self._refuse(batch)
        timestamps: Any = batch.timestamps
        values, keys = batch.values, self._keys.of(batch.values)
        slide, offset, size = self._slide, self._offset, self._size
        first, last = min(timestamps), max(timestamps)
        first -= (first - offset) % slide
        last -= (last - offset) % slide
        watermark = self._store.timers.current_watermark
        if first + size - 1 <= watermark:
            batch, keys = await self._on_time(batch, keys, watermark, out)
            if not batch.values:
                return
            values, timestamps = batch.values, batch.timestamps
        starts: list[int] | None = None
        if first != last:
            starts = [t - (t - offset) % slide for t in timestamps]
        for shift in range(0, size, slide):
            # The windows of a record begin at its start, one slide before it, two slides before it, …
            if starts is None:
                end = first + size - shift
                if end - 1 > watermark:
                    self._add(repeat(self._window(end)), keys, values)
            else:
                by_start = {s: self._window(s + size - shift) for s in set(starts) if s + size - shift - 1 > watermark}
                if len(by_start) == len(set(starts)):
                    self._add(map(by_start.__getitem__, starts), keys, values)
                else:
                    open_ones = [i for i, s in enumerate(starts) if s in by_start]
                    tables = [by_start[starts[i]] for i in open_ones]
                    self._add(iter(tables), [keys[i] for i in open_ones], [values[i] for i in open_ones])

    @staticmethod
    def _refuse(batch: Batch) -> None:
        for value, timestamp in zip(batch.values, batch.timestamps or repeat(None)):
            try:
                timestamp_of(timestamp)
            except Exception as e:
                note_value(e, value)
                raise

    def _window(self, end: int) -> MutableMapping[Any, Any]:
        windows = self._table.data
        found = windows.get(end)
        if found is None:
            windows[end] = {}
            found = windows[end]
            heapq.heappush(self._ends, end)
        return found  # type: ignore[no-any-return]

    def _add(self, tables: Any, keys: Sequence[Any], values: Sequence[Any]) -> None:
        rest = iter(values)
        if self._incremental is None:
            for table, key, value in zip(tables, keys, rest):
                found = table.get(key)
                if found is None:
                    table[key] = [value]
                else:
                    found.append(value)
                    table[key] = found
            return
        create, add = self._incremental.create, self._incremental.add
        try:
            if create is None:
                for table, key, value in zip(tables, keys, rest):
                    before = table.get(key, _ABSENT)
                    table[key] = value if before is _ABSENT else add(value, before)
            else:
                for table, key, value in zip(tables, keys, rest):
                    before = table.get(key, _ABSENT)
                    table[key] = add(value, create() if before is _ABSENT else before)
        except Exception as e:
            i = note_position(e, values, rest)
            note_value(e, keys[i], "key")
            raise

    async def _on_time(self, batch: Batch, keys: list[Any], watermark: int, out: Output) -> tuple[Batch, list[Any]]:
        """The records of which at least one window is still open; the others are late."""
        size, slide, offset = self._size, self._slide, self._offset
        timestamps: Any = batch.timestamps
        late = [t - (t - offset) % slide + size - 1 <= watermark for t in timestamps]
        if True not in late:
            return batch, keys
        dropped = batch.take([i for i, is_late in enumerate(late) if is_late])
        if self._late_tag is None:
            self._dropped.inc(len(dropped))
        else:
            await out.side(self._late_tag, dropped)
        kept = [i for i, is_late in enumerate(late) if not is_late]
        return batch.take(kept), [keys[i] for i in kept]

    # -- results -------------------------------------------------------------------------------------------------

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        ends = self._ends
        while ends and ends[0] - 1 <= watermark:
            end = heapq.heappop(ends)
            if end in self._table.data:
                await self._close(end, out)
        return watermark

    async def _close(self, end: int, out: Output) -> None:
        accumulators = self._table.data[end]
        result = None if self._incremental is None else self._incremental.result
        if self._call is not None:
            window = TimeWindow(end - self._size, end)
            for key, accumulator in list(accumulators.items()):
                self._store.key = key
                if self._incremental is None:
                    elements = accumulator
                else:
                    elements = (accumulator if result is None else result(accumulator),)
                await self._call.fire(key, window, elements, end - 1, self._held, out)
                self._call.clear(window)
                await out.pause()
            await self._held.flush(out)
        else:
            keys = list(accumulators)
            pop = accumulators.pop
            for start in range(0, len(keys), _RUN):
                # Taken out as they are sent, so that no large table has to be freed in one go.
                run = [pop(key) for key in keys[start : start + _RUN]]
                if result is not None:
                    for i in range(0, len(run), PAUSE_EVERY):
                        run[i : i + PAUSE_EVERY] = map(result, run[i : i + PAUSE_EVERY])
                        await out.pause()
                await out.send(Batch(run, [end - 1] * len(run)))
        del self._table.data[end]

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        if self._incremental is not None:
            await self._incremental.life.snapshot(barrier)
        if self._call is not None:
            await self._call.life.snapshot(barrier)

    async def close(self) -> None:
        if self._incremental is not None:
            await self._incremental.life.close()
        if self._call is not None:
            await self._call.life.close()
