"""Event-time sessions that combine their records as they come and fire once, at their end: the fast form.

State is the open sessions of every key, in order of time. When they end is kept in a heap beside the state; a session
that has grown is looked at again when the end it had at first is due. So a record costs no timer.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

from streamline._core.copying import copy_value
from streamline._core.failure import note_position, note_value
from streamline._operators.keys import Keys
from streamline._operators.results import Held, Sides
from streamline._operators.window.assign import timestamp_of
from streamline._operators.window.call import WindowCall
from streamline._operators.window.incremental import Incremental
from streamline._operators.window.types import TimeWindow
from streamline.abc import Barrier, Batch, Counter, KeyedStore, Operator, OperatorContext, Output, StateSpec, StateTable

__all__ = ("SessionWindows",)

#: Fields of a session: where it begins and ends (ms), its accumulator, and the end that is in the heap.
_START: Final = 0
_END: Final = 1
_ACCUMULATOR: Final = 2
_DUE: Final = 3


@final
class SessionWindows(Operator):
    """Sessions by event time, with an accumulator for each.

    Changelog: insert-only in and out. State: the open sessions per key. Watermarks: passed on behind the results of the
    sessions they close. A record is late where it touches no open session and its own would be closed: it goes to the
    late output, else it is dropped and counted. Timestamps: a result has the session's last one. Order: by end.
    """

    name = "window"
    state = {"sessions": StateSpec(copy=copy_value)}

    def __init__(
        self,
        selector: Callable[[Any], Any],
        gap: int | Callable[[Any], int],
        incremental: Incremental,
        call: WindowCall | None = None,
        late_tag: str | None = None,
    ) -> None:
        """`gap` is in ms, or gives them for a record."""
        self._keys = Keys(selector)
        self._gap = gap
        self._incremental = incremental
        self._call = call
        self._late_tag = late_tag
        self._heap: list[tuple[int, int, Any]] = []
        self._sequence = itertools.count()
        self._sides = Sides()
        self._held = Held(self._sides)
        self._table: StateTable
        self._store: KeyedStore
        self._dropped: Counter

    async def open(self, ctx: OperatorContext) -> None:
        self._store = ctx.store
        data = self._table_data(ctx)
        for key in list(data):
            sessions = data[key]
            for session in sessions:
                session[_DUE] = session[_END]
                self._heap.append((session[_END], next(self._sequence), key))
            data[key] = sessions
        heapq.heapify(self._heap)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        await self._incremental.life.open(ctx, True)
        if self._call is not None:
            await self._call.open(ctx, self._sides, True)

    def _table_data(self, ctx: OperatorContext) -> Any:
        self._table = ctx.store.table("sessions", self.state["sessions"])
        return self._table.data

    # -- records -------------------------------------------------------------------------------------------------

    async def on_batch(self, batch: Batch, out: Output) -> None:
        values = batch.values
        keys = self._keys.of(values)
        rest = iter(values)
        try:
            late = self._add(keys, batch.timestamps or itertools.repeat(None), rest)
        except Exception as e:
            i = note_position(e, values, rest)
            note_value(e, keys[i], "key")
            raise
        if late:
            if self._late_tag is None:
                self._dropped.inc(len(late))
            else:
                await out.side(self._late_tag, batch.take(late))

    def _add(self, keys: Sequence[Any], timestamps: Iterable[int | None], values: Iterable[Any]) -> list[int]:
        """Put records into sessions; gives the positions of late ones."""
        data, watermark, gap = self._table.data, self._store.timers.current_watermark, self._gap
        create, add = self._incremental.create, self._incremental.add
        fixed = gap if isinstance(gap, int) else 0
        late: list[int] = []
        i = -1
        for key, time, value in zip(keys, timestamps, values):
            i += 1
            time = timestamp_of(time) if time is None else time
            end = time + (fixed or gap(value))  # type: ignore[operator]
            sessions = data.get(key)
            if sessions is not None:
                last = sessions[-1]
                if last[_START] <= time <= last[_END]:
                    if end > last[_END]:
                        last[_END] = end
                    last[_ACCUMULATOR] = add(value, last[_ACCUMULATOR])
                    data[key] = sessions
                    continue
                if time < last[_START]:
                    if self._insert(key, sessions, time, end, value, watermark):
                        data[key] = sessions
                    else:
                        late.append(i)
                    continue
            if end - 1 <= watermark:
                late.append(i)
                continue
            session = [time, end, value if create is None else add(value, create()), end]
            heapq.heappush(self._heap, (end, next(self._sequence), key))
            if sessions is None:
                data[key] = [session]
            else:
                sessions.append(session)
                data[key] = sessions
        return late

    def _insert(self, key: Any, sessions: list[list[Any]], time: int, end: int, value: Any, watermark: int) -> bool:
        """A record before the last session: it may begin one, or join several; False where it is late."""
        create, add, merge = self._incremental.create, self._incremental.add, self._incremental.merge
        first = next(i for i, s in enumerate(sessions) if s[_END] >= time)
        stop = first
        while stop < len(sessions) and sessions[stop][_START] <= end:
            stop += 1
        if first == stop:
            if end - 1 <= watermark:
                return False
            sessions.insert(first, [time, end, value if create is None else add(value, create()), end])
            heapq.heappush(self._heap, (end, next(self._sequence), key))
            return True
        merged = sessions[first]
        for other in sessions[first + 1 : stop]:
            merged[_ACCUMULATOR] = merge(merged[_ACCUMULATOR], other[_ACCUMULATOR])
            merged[_END] = max(merged[_END], other[_END])
        merged[_START] = min(merged[_START], time)
        merged[_END] = max(merged[_END], end)
        merged[_ACCUMULATOR] = add(value, merged[_ACCUMULATOR])
        del sessions[first + 1 : stop]
        return True

    # -- results -------------------------------------------------------------------------------------------------

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        heap, data, result = self._heap, self._table.data, self._incremental.result
        while heap and heap[0][0] - 1 <= watermark:
            due, _, key = heapq.heappop(heap)
            sessions = data.get(key, ())
            session = next((s for s in sessions if s[_DUE] == due), None)
            if session is None:  # it was merged into another one
                continue
            if session[_END] != due:
                session[_DUE] = session[_END]
                data[key] = sessions
                heapq.heappush(heap, (session[_END], next(self._sequence), key))
                continue
            sessions.remove(session)
            if sessions:
                data[key] = sessions
            else:
                del data[key]
            value = session[_ACCUMULATOR] if result is None else result(session[_ACCUMULATOR])
            if self._call is not None:
                self._store.key = key
                window = TimeWindow(session[_START], due)
                await self._call.fire(key, window, (value,), due - 1, self._held, out)
                self._call.clear(window)
            elif self._held.add((value,), due - 1):
                await self._held.flush(out)
        await self._held.flush(out)
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._incremental.life.snapshot(barrier)
        if self._call is not None:
            await self._call.life.snapshot(barrier)

    async def close(self) -> None:
        await self._incremental.life.close()
        if self._call is not None:
            await self._call.life.close()
