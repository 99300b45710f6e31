"""Joins of rows whose times are close to each other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, final

from streamline._core.declare import StateSpec
from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline._operators.state_types import dict_of, list_of, tuple_of
from streamline.abc import PAUSE_EVERY, OperatorContext, Output, TwoInputOperator

__all__ = ("IntervalJoin",)

_LIMIT = 1024


@final
class IntervalJoin(TwoInputOperator):
    """Send pairs of rows of which left time - right time is within two bounds.

    Changelog: insert-only in and out. State: rows of both sides until the watermark says that nothing can match them
    any more. Rows of an outer side that had no match are sent with NULLs when they leave the state, or at once where
    they come too late to be kept. Watermarks: held back by the size of the bounds, as rows leave with times that lie so
    far behind. Order: as rows come.
    """

    name = "IntervalJoin"
    state: ClassVar[Mapping[str, StateSpec]] = {"left": StateSpec(), "right": StateSpec(), "timers": StateSpec()}

    def __init__(
        self,
        read: tuple[MakeFunction, MakeFunction],
        matches: MakeFunction | None,
        rows: tuple[Any, Any],
        widths: tuple[int, int],
        bounds: tuple[int, int],
        outer: tuple[bool, bool],
        null_safe: tuple[bool, ...],
        processing: bool = False,
    ) -> None:
        """
        Args:
            read: give `read(batch)` of each side: (time in ms, key, row) triples.
            matches: gives `matches(left, right)`, None where the times and keys are all there is.
            rows: Python types of the rows.
            widths: columns of each side.
            bounds: of left time - right time, ms, both included.
            outer: which sides keep rows without a match.
            null_safe: whether NULLs are equal, for each part of the key.
            processing: times are those of the clock.
        """
        self._make = read, matches
        self._types = rows
        self._nulls = ((None,) * widths[0], (None,) * widths[1])
        lower, upper = bounds
        # How far the other side's rows may lie before and behind a row's own time.
        self._before = (upper, -lower)
        self._behind = (-lower, upper)
        self._cleanup = (upper - lower) // 2
        self._outer = outer
        self._null_safe = null_safe
        self._processing = processing

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._now = ctx.clock.now
        (left, right), matches = self._make
        self._read: tuple[Callable[[Batch], list[Any]], ...] = (left(self._now), right(self._now))
        self._matches: Callable[[Any, Any], bool] | None = None if matches is None else matches(self._now)
        self._caches = tuple(
            ctx.store.table(name, StateSpec(type=dict_of(int, list_of(tuple_of(row, bool))), copy=deepcopy))
            for name, row in zip(("left", "right"), self._types)
        )
        self._timers = ctx.store.table("timers", StateSpec(type=list[int], copy=list.copy))
        self._expired: list[dict[Any, int]] = [{}, {}]
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        self._due: list[tuple[int, int, Any]] = []
        self._order = 0
        self._alarm: int | None = None
        for n, (key, times) in enumerate(list(self._timers.data.items())):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            for time in times:
                if time:
                    self._arm(time, key)

    def _arm(self, time: int, key: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (time, self._order, key))
        if self._processing and (self._alarm is None or time < self._alarm):
            self._alarm = time
            self._ctx.schedule(time, self._on_clock)

    def _operator_time(self) -> int:
        return self._now() if self._processing else self._watermark

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await self._rows_came(0, batch, out)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await self._rows_came(1, batch, out)

    async def _rows_came(self, side: int, batch: Batch, out: Output) -> None:
        """Rows of a side (0 left, 1 right) are joined with the rows of the other side that are kept."""
        result: list[Any] = []
        now = self._operator_time()
        for first, key, row in self._read[side](batch):
            time = now if self._processing else first
            self._row_came(side, time, key, row, now, result)
            if len(result) >= _LIMIT:
                await out.send(Batch(result))
                result = []
        await out.send(Batch(result))

    def _row_came(self, side: int, time: int, key: Any, row: Any, now: int, result: list[Any]) -> None:
        other = 1 - side
        low, high = time - self._before[side], time + self._behind[side]
        emitted = False
        if self._may_match(key):
            caches = self._caches[other].data
            cache = caches.get(key)
            expired = self._expired[other].get(key, MIN_TIMESTAMP)
            if cache is not None and expired < high:
                expired = self._expiration(now, self._before[side])
                self._expired[other][key] = expired
                emitted = self._join_with(side, row, cache, low, high, expired, result)
                if cache:
                    caches[key] = cache
                else:
                    del caches[key]
            if now < high:
                self._keep(side, time, key, row, emitted)
                return
        if not emitted and self._outer[side]:
            result.append(self._padded(side, row))

    def _may_match(self, key: Any) -> bool:
        """Whether the key can be equal to another."""
        safe = self._null_safe
        if not safe:
            return True
        if len(safe) == 1:
            return safe[0] or key is not None
        return all(s or k is not None for s, k in zip(safe, key))

    def _join_with(
        self, side: int, row: Any, cache: dict[int, list[Any]], low: int, high: int, expired: int, result: list[Any]
    ) -> bool:
        other = 1 - side
        emitted = False
        matches = self._matches
        for time in list(cache):
            entries = cache[time]
            if low <= time <= high:
                for i, (kept, known) in enumerate(entries):
                    left, right = (row, kept) if side == 0 else (kept, row)
                    if matches is None or matches(left, right):
                        result.append(left + right)
                        emitted = True
                        if not known:
                            entries[i] = (kept, True)
            if time <= expired:
                self._leave(other, entries, result)
                del cache[time]
        return emitted

    def _leave(self, side: int, entries: list[Any], result: list[Any]) -> None:
        """Rows leave the state: those of an outer side without a match are sent."""
        if self._outer[side]:
            result += [self._padded(side, row) for row, known in entries if not known]

    def _padded(self, side: int, row: Any) -> Any:
        return row + self._nulls[1] if side == 0 else self._nulls[0] + row

    def _keep(self, side: int, time: int, key: Any, row: Any, emitted: bool) -> None:
        caches = self._caches[side].data
        cache = caches.get(key)
        if cache is None:
            cache = {}
        cache.setdefault(time, []).append((row, emitted))
        caches[key] = cache
        timers = self._timers.data.get(key) or [0, 0]
        if not timers[side]:
            self._register(side, time, key, timers)

    def _register(self, side: int, time: int, key: Any, timers: list[int]) -> None:
        timers[side] = time + self._behind[side] + self._cleanup + 1
        self._timers.data[key] = timers
        self._arm(timers[side], key)

    @staticmethod
    def _expiration(now: int, size: int) -> int:
        return now if now == MAX_TIMESTAMP else now - size - 1

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        if not self._processing:
            await self._clean(watermark, out)
        if watermark == MAX_TIMESTAMP or self._processing:
            return watermark
        return watermark - max(*self._before, 0)

    async def _on_clock(self, now: int, out: Output) -> None:
        self._alarm = None
        await self._clean(self._now(), out)
        if self._due and self._alarm is None:
            self._alarm = self._due[0][0]
            self._ctx.schedule(self._alarm, self._on_clock)

    async def _clean(self, now: int, out: Output) -> None:
        result: list[Any] = []
        due, looks = self._due, 0
        while due and due[0][0] <= now:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
            time, _, key = heapq.heappop(due)
            timers = self._timers.data.get(key)
            if timers is None:
                continue
            for side in (0, 1):
                if timers[side] == time:
                    self._remove_expired(side, key, now, timers, result)
            if len(result) >= _LIMIT:
                await out.send(Batch(result))
                result = []
        await out.send(Batch(result))

    def _remove_expired(self, side: int, key: Any, now: int, timers: list[int], result: list[Any]) -> None:
        expired = self._expiration(now, self._behind[side])
        self._expired[side][key] = expired
        caches = self._caches[side].data
        cache = caches.get(key) or {}
        earliest: int | None = None
        for time in list(cache):
            if time <= expired:
                self._leave(side, cache.pop(time), result)
            elif earliest is None or time < earliest:
                earliest = time
        timers[side] = 0
        if earliest is not None:
            caches[key] = cache
            self._register(side, earliest, key, timers)
            return
        caches.pop(key, None)
        self._expired[side].pop(key, None)
        if any(timers):
            self._timers.data[key] = timers
        else:
            self._timers.data.pop(key, None)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]
