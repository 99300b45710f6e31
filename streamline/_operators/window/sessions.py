"""Event-time sessions that combine their records as they come and fire once, at their end: the fast form.

State is the open sessions of every key, in order of time. When they end is kept in a heap beside the state; a session
that has grown is looked at again when the end it had at first is due. So a record costs no timer.

Where a key has only one session, that is all there is of the key, and the garbage collector does not look at sessions:
keys that come and go by the thousand do not make it go over the whole heap again and again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

import msgspec

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

__all__ = ("SessionWindows",)


class Session(msgspec.Struct, gc=False):
    """One session of a key. Nobody else holds it, so no cycle of references goes through it: the garbage collector need
    not know it.

    Attributes:
        start, end: where it begins and ends, ms.
        accumulator: what its records have come to.
        due: the end that is in the heap.
    """

    start: int
    end: int
    accumulator: Any
    due: int


#: What a key has: one session, or several in order of time.
Sessions: TypeAlias = Session | list[Session]


def _copy(sessions: Sessions) -> Sessions:
    """An independent copy of what a key has."""
    if type(sessions) is list:
        return [_copy_one(s) for s in sessions]
    return _copy_one(sessions)  # type: ignore[arg-type]


def _copy_one(session: Session) -> Session:
    return Session(session.start, session.end, copy_value(session.accumulator), session.due)


@final
class SessionWindows(Operator):
    """Sessions by event time, with an accumulator for each.

    Changelog: insert-only in and out. State: the open sessions per key. Watermarks: passed on behind the results of the
    sessions they close. A record is late where it touches no open session and its own would be closed: it goes to the
    late output, else it is dropped and counted. Timestamps: a result has the session's last one. Order: by end.
    """

    name = "window"
    state = {"sessions": StateSpec(copy=_copy)}

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
        self._keys.expect(ctx.store)
        self._table = ctx.store.table("sessions", self.state["sessions"])
        data = self._table.data
        for n, key in enumerate(list(data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            sessions = data[key]
            for session in sessions if type(sessions) is list else (sessions,):
                heapq.heappush(self._heap, (session.due, next(self._sequence), key))
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        await self._incremental.life.open(ctx, True)
        if self._call is not None:
            await self._call.open(ctx, self._sides, True)

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
                several = type(sessions) is list
                session = sessions[-1] if several else sessions
                if session.start <= time <= session.end:
                    session.accumulator = add(value, session.accumulator)
                    if end > session.end:
                        session.end = end
                    data[key] = sessions
                    continue
                if time < session.start:
                    parts = sessions if several else [sessions]
                    if self._insert(key, parts, time, end, value, watermark):
                        data[key] = parts if len(parts) > 1 else parts[0]
                    else:
                        late.append(i)
                    continue
            if end - 1 <= watermark:
                late.append(i)
                continue
            session = Session(time, end, value if create is None else add(value, create()), end)
            if sessions is None:
                data[key] = session
            elif several:
                sessions.append(session)
                data[key] = sessions
            else:
                data[key] = [sessions, session]
            heapq.heappush(self._heap, (end, next(self._sequence), key))
        return late

    def _insert(self, key: Any, sessions: list[Session], time: int, end: int, value: Any, watermark: int) -> bool:
        """A record before the last session: it may begin one, or join several; False where it is late."""
        create, add, merge = self._incremental.create, self._incremental.add, self._incremental.merge
        first = next(i for i, s in enumerate(sessions) if s.end >= time)
        stop = first
        while stop < len(sessions) and sessions[stop].start <= end:
            stop += 1
        if first == stop:
            if end - 1 <= watermark:
                return False
            sessions.insert(first, Session(time, end, value if create is None else add(value, create()), end))
            heapq.heappush(self._heap, (end, next(self._sequence), key))
            return True
        merged = sessions[first]
        accumulator = merged.accumulator
        for other in sessions[first + 1 : stop]:
            accumulator = merge(accumulator, other.accumulator)
            merged.end = max(merged.end, other.end)
        merged.start = min(merged.start, time)
        merged.end = max(merged.end, end)
        merged.accumulator = add(value, accumulator)
        del sessions[first + 1 : stop]
        return True

    # -- results -------------------------------------------------------------------------------------------------

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        heap, table, held = self._heap, self._table, self._held
        result, call = self._incremental.result, self._call
        looks = 0
        while heap and heap[0][0] - 1 <= watermark:
            looks += 1
            if call is not None or looks % PAUSE_EVERY == 0:
                await out.pause()
            due, _, key = heapq.heappop(heap)
            data = table.data
            sessions: Sessions | None = data.get(key)
            if sessions is None:  # all of its were merged into others, which have been sent
                continue
            at = 0
            if type(sessions) is list:
                at = next((i for i, s in enumerate(sessions) if s.due == due), 0)
                session = sessions[at]
            else:
                session = sessions  # type: ignore[assignment]
            if session.due != due:  # it was merged into another one
                continue
            if session.end != due:
                session.due = session.end
                data[key] = sessions
                heapq.heappush(heap, (session.end, next(self._sequence), key))
                continue
            if type(sessions) is list:
                del sessions[at]
                data[key] = sessions if len(sessions) > 1 else sessions[0]
            else:
                del data[key]
            value = session.accumulator if result is None else result(session.accumulator)
            if call is not None:
                self._store.key = key
                window = TimeWindow(session.start, due)
                await call.fire(key, window, (value,), due - 1, held, out)
                call.clear(window)
            elif held.add_one(value, due - 1):
                await held.flush(out)
        await held.flush(out)
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._incremental.life.snapshot(barrier)
        if self._call is not None:
            await self._call.life.snapshot(barrier)

    async def close(self) -> None:
        await self._incremental.life.close()
        if self._call is not None:
            await self._call.life.close()
