"""Group windows that send results before or after their end: early firing, late firing, allowed lateness."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, final

from streamline._core.changes import RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import PAUSE_EVERY, Operator, OperatorContext, Output

__all__ = ("EmittingWindows",)

#: Rows that are sent at once.
_LIMIT: Final = 1024


@final
class EmittingWindows(Operator):
    """Send the result of a window and group each time it fires, where it has changed since.

    Before its end a window fires each `early` ms of processing time from its first row on (0: with every row), at its
    end once, and until `lateness` ms later with late rows likewise (`late`; None: with every row). Rows that come after
    that are dropped and counted.
    Changelog: any in; out +I for the first result, then -U (where asked for) and +U. State: a table of groups and one
    of what was sent for each window. Watermarks: passed on behind the results. Order: by window.
    """

    name = "GroupWindowAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {
        "windows": StateSpec(namespaced=True),
        "sent": StateSpec(namespaced=True),
    }

    def __init__(
        self,
        assign: MakeFunction,
        fire: MakeFunction,
        spec: StateSpec,
        row: Any,
        *,
        instant: Callable[[int], int] | None,
        early: int | None,
        late: int | None,
        lateness: int,
        emit_before: bool,
    ) -> None:
        """
        Args:
            assign: gives `assign(batch, windows, watermark, opened, now, touched) -> late`.
            fire: gives `fire(end, window, limit)`, which yields batches.
            spec: of a group's state, namespaced.
            row: Python type of a result.
            instant: epoch ms of a window's end, where ends are local times.
            early, late, lateness: milliseconds, see above.
            emit_before: whether -U is sent.
        """
        self._make = assign, fire
        self._spec = spec
        self._row = row
        self._instant = instant or (lambda end: end)
        self._early = early
        self._late_delay = late
        self._lateness = lateness
        self._emit_before = emit_before

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._now = ctx.clock.now
        self._assign: Callable[..., int] = self._make[0](self._now)
        self._fire: Callable[..., Iterator[Batch]] = self._make[1](self._now)
        self._windows = ctx.store.table("windows", self._spec)
        self._sent = ctx.store.table("sent", StateSpec(type=self._row, namespaced=True))
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        self._ends: list[tuple[int, int]] = []
        self._expiring: list[tuple[int, int]] = []
        self._timers: list[tuple[int, int, _Key]] = []
        self._waiting: set[tuple[int, Any]] = set()
        self._alarm: int | None = None
        for end in list(self._windows.data):
            self._opened(end)
            for n, key in enumerate(list(self._windows.data[end])):
                if n % PAUSE_EVERY == 0:
                    await ctx.pause()
                self._touch(end, key)

    def _opened(self, end: int) -> None:
        heapq.heappush(self._ends, (self._instant(end), end))
        heapq.heappush(self._expiring, (self._instant(end) + self._lateness, end))

    def _touch(self, end: int, key: Any) -> bool:
        """A row came: whether the window fires at once; else a timer is set where it fires by time."""
        past = self._instant(end) - 1 <= self._watermark
        delay = (self._late_delay or 0) if past else self._early
        if delay == 0:
            return True
        if delay is not None and (end, key) not in self._waiting:
            self._waiting.add((end, key))
            self._arm(self._now() + delay, end, key)
        return False

    def _arm(self, when: int, end: int, key: Any) -> None:
        heapq.heappush(self._timers, (when, end, _Key(key)))
        if self._alarm is None or when < self._alarm:
            self._alarm = when
            self._ctx.schedule(when, self._on_clock)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        for i in range(len(batch)):
            touched: list[tuple[int, Any]] = []
            opened: list[int] = []
            row = batch.slice(i, i + 1)
            late = self._assign(row, self._windows.data, self._watermark, opened, self._now, touched.append)
            for end in opened:
                self._opened(end)
            if late:
                self._dropped.inc(late)
            changes = _Changes()
            for end, key in touched:
                if self._touch(end, key):
                    self._emit(end, key, changes)
            await changes.send(out)

    def _emit(self, end: int, key: Any, changes: _Changes) -> None:
        window = self._windows.data.get(end)
        state = None if window is None else window.get(key)
        rows = [] if state is None else [r for b in self._fire(end, {key: state}, 1) for r in b.values]
        row = rows[0] if rows else None
        sent = self._sent.data.get(end)
        if sent is None:
            sent = self._sent.data[end] = {}
        before = sent.get(key)
        if row == before:
            return
        if before is None:
            changes.add(row, RowKind.INSERT)
        elif row is None:
            changes.add(before, RowKind.DELETE)
        else:
            if self._emit_before:
                changes.add(before, RowKind.UPDATE_BEFORE)
            changes.add(row, RowKind.UPDATE_AFTER)
        if row is None:
            del sent[key]
        else:
            sent[key] = row

    async def _on_clock(self, now: int, out: Output) -> None:
        self._alarm = None
        changes = _Changes()
        now = self._now()
        looks = 0
        while self._timers and self._timers[0][0] <= now:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                changes = await changes.send_many(out)
                await out.pause()
            when, end, boxed = heapq.heappop(self._timers)
            key = boxed.value
            window = self._windows.data.get(end)
            if window is None or key not in window:
                self._waiting.discard((end, key))
                continue
            past = self._instant(end) - 1 <= self._watermark
            delay = self._late_delay if past else self._early
            if not delay:
                self._waiting.discard((end, key))
                continue
            self._emit(end, key, changes)
            heapq.heappush(self._timers, (when + delay, end, boxed))
        if self._timers:
            self._alarm = self._timers[0][0]
            self._ctx.schedule(self._alarm, self._on_clock)
        await changes.send(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        while self._ends and self._ends[0][0] - 1 <= watermark:
            end = heapq.heappop(self._ends)[1]
            changes = _Changes()
            for n, key in enumerate(list(self._windows.data.get(end) or ())):
                if n % PAUSE_EVERY == 0:
                    changes = await changes.send_many(out)
                    await out.pause()
                self._emit(end, key, changes)
            await changes.send(out)
        while self._expiring and self._expiring[0][0] - 1 <= watermark:
            end = heapq.heappop(self._expiring)[1]
            window, sent = self._windows.data.pop(end, None) or {}, self._sent.data.pop(end, None) or {}
            for n, key in enumerate(list(window)):
                # One by one, so that no large table has to be freed in one go.
                del window[key]
                sent.pop(key, None)
                self._waiting.discard((end, key))
                if n % PAUSE_EVERY == 0:
                    await out.pause()
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]


class _Key:
    """A key in a heap: no key is smaller than another."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: object) -> bool:
        return False


class _Changes:
    """Rows with kinds, to be sent together."""

    __slots__ = ("kinds", "rows")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.kinds: list[RowKind] = []

    def add(self, row: Any, kind: RowKind) -> None:
        self.rows.append(row)
        self.kinds.append(kind)

    async def send_many(self, out: Output) -> _Changes:
        """Send them where they are many; gives those to go on with."""
        if len(self.rows) < _LIMIT:
            return self
        await self.send(out)
        return _Changes()

    async def send(self, out: Output) -> None:
        if self.rows:
            await out.send(Batch(self.rows, None, self.kinds))
