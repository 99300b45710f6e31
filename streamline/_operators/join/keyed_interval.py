"""Interval join of two keyed streams by a function."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, final

from streamline._core.failure import note_value
from streamline._operators.calls import Kinds, style
from streamline._operators.contexts import ProcessContext
from streamline._operators.function import FunctionLife, instance, method_of
from streamline._operators.keys import Keys
from streamline._operators.results import Held, Sides, expand
from streamline._operators.window.assign import timestamp_of
from streamline.abc import (
    PAUSE_EVERY,
    Barrier,
    Batch,
    Counter,
    KeyedStore,
    OperatorContext,
    Output,
    StateSpec,
    StateTable,
    TwoInputOperator,
)

__all__ = ("IntervalJoinContext", "KeyedIntervalJoin")

_TIME: Final = itemgetter(0)


class IntervalJoinContext(ProcessContext):
    """The context of a ProcessJoinFunction."""

    __slots__ = ("left_timestamp", "right_timestamp")

    left_timestamp: int
    right_timestamp: int

    def get_left_timestamp(self) -> int:
        """Event time of the left record, epoch ms."""
        return self.left_timestamp

    def get_right_timestamp(self) -> int:
        """Event time of the right record, epoch ms."""
        return self.right_timestamp

    def get_timestamp(self) -> int:
        """Event time of the result: the later of both, epoch ms."""
        return max(self.left_timestamp, self.right_timestamp)


@final
class KeyedIntervalJoin(TwoInputOperator):
    """Pairs of a left and a right record of one key whose times are near: lower <= right - left <= upper.

    Changelog: insert-only. State: the records of both sides, in order of time, until the watermark has passed the last
    time at which one can find a partner. A record below the watermark is late: it goes to its side's late output, else
    it is dropped and counted. Watermarks: the smaller one is passed on. Timestamps: the later of both.
    """

    name = "interval_join"
    fresh_context = True
    state = {
        "left": StateSpec(kind="list"),
        "right": StateSpec(kind="list"),
        #: By time (rounded up, so that many records share one): keys with records that expire by then, and of which
        #: sides (1, 2, or 3 for both).
        "expiry": StateSpec(namespaced=True),
    }

    def __init__(
        self,
        function: Any,
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        lower: int,
        upper: int,
        late_tags: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """`lower` and `upper` (ms) are both inclusive."""
        self._function = instance(function)
        self._call = method_of(self._function, "process_element")
        self._style = style(self._call)
        self._kinds = Kinds((list,))
        self._life = FunctionLife(self._function)
        self._keys = (Keys(selectors[0]), Keys(selectors[1]))
        #: By side: partners of a record at t are at t + from .. t + to.
        self._range = ((lower, upper), (-upper, -lower))
        self._late_tags = late_tags
        self._grain = max(1, (upper - lower) // 4)
        self._sides = Sides()
        self._held = Held(self._sides)
        self._full = False
        self._store: KeyedStore
        self._tables: tuple[StateTable, StateTable]
        self._expiry: StateTable
        self._due: list[int] = []
        self._context: IntervalJoinContext
        self._dropped: Counter

    async def open(self, ctx: OperatorContext) -> None:
        self._store = ctx.store
        for keys in self._keys:
            keys.expect(ctx.store)
        self._tables = (ctx.store.table("left", self.state["left"]), ctx.store.table("right", self.state["right"]))
        self._expiry = ctx.store.table("expiry", self.state["expiry"])
        self._due = sorted(self._expiry.data)
        self._context = IntervalJoinContext(ctx, ctx.store, self._sides, "yes", keyed=False)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        await self._life.open(ctx, True)

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await self._on_side(0, batch, out)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await self._on_side(1, batch, out)

    async def _on_side(self, side: int, batch: Batch, out: Output) -> None:
        values, keys, store = batch.values, self._keys[side].of(batch.values), self._store
        own, other, expiry = self._tables[side].data, self._tables[1 - side].data, self._expiry.data
        first, last = self._range[side]
        stay = max(last, 0)
        other_stay = max(self._range[1 - side][1], 0)
        watermark, grain = store.timers.current_watermark, self._grain
        oldest = watermark - other_stay + 1
        late: list[int] = []
        for i, (value, key, stamp) in enumerate(zip(values, keys, batch.timestamps or repeat(None))):
            store.key = key
            try:
                time = timestamp_of(stamp) if stamp is None else stamp
                if time < watermark:
                    late.append(i)
                    continue
                entries = own.get(key)
                if entries is None:
                    own[key] = [(time, value)]
                else:
                    if entries[-1][0] <= time:
                        entries.append((time, value))
                    else:
                        insort(entries, (time, value), key=_TIME)
                    own[key] = entries
                due = time + stay
                due += -due % grain
                bucket = expiry.get(due)
                if bucket is None:
                    expiry[due] = {}
                    bucket = expiry[due]
                    heapq.heappush(self._due, due)
                bucket[key] = bucket.get(key, 0) | (side + 1)
                partners = other.get(key)
                if partners:
                    # A partner that has expired by the watermark counts as gone, whether it was removed or not.
                    start, end = time + first, time + last
                    if start < oldest:
                        start = oldest
                    # Streams are about in order: mostly the newest are all in the range, or none is.
                    hi = len(partners) if partners[-1][0] <= end else bisect_right(partners, end, key=_TIME)
                    lo = 0 if partners[0][0] >= start else bisect_left(partners, start, 0, hi, key=_TIME)
                    for partner_time, partner in partners[lo:hi]:
                        if side == 0:
                            later = self._pair(value, time, partner, partner_time)
                        else:
                            later = self._pair(partner, partner_time, value, time)
                        if later is not None:
                            await self._await(later, out)
                    if self._full:
                        self._full = False
                        await self._held.flush(out)
                    elif hi - lo > PAUSE_EVERY:
                        await out.pause()
            except Exception as e:
                note_value(e, value)
                note_value(e, key, "key")
                raise
        if late:
            tag = self._late_tags[side]
            if tag is None:
                self._dropped.inc(len(late))
            else:
                await out.side(tag, batch.take(late))
        await self._held.flush(out)

    def _pair(self, left: Any, left_time: int, right: Any, right_time: int) -> Any:
        """Call the function; gives what has to be awaited, None where its results are there."""
        context = self._context
        context.left_timestamp, context.right_timestamp = left_time, right_time
        timestamp = context.current_timestamp = left_time if left_time > right_time else right_time
        result = self._call(left, right, context)
        if result is None:
            return None
        kind, kinds = type(result), self._kinds
        if kind in kinds.several:
            self._full |= self._held.add(list(result), timestamp)
        elif kind in kinds.plain:
            self._full |= self._held.add_one(result, timestamp)
        else:
            kinds.learn({kind})
            if kind in kinds.awaitable or kind in kinds.stream:
                return result
            self._full |= self._held.add(list(result) if kind in kinds.several else (result,), timestamp)
        return None

    async def _await(self, result: Any, out: Output) -> None:
        timestamp = self._context.current_timestamp
        async for run in expand(result, self._kinds):
            self._held.add(run, timestamp)
        await self._held.flush(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        due, expiry = self._due, self._expiry.data
        gone = 0
        while due and due[0] <= watermark:
            time = heapq.heappop(due)
            for key, sides in list(expiry[time].items()):
                for side in (0, 1):
                    if sides & (side + 1):
                        self._forget(side, key, time)
                gone += 1
                if gone % PAUSE_EVERY == 0:
                    await out.pause()
            del expiry[time]
        return watermark

    def _forget(self, side: int, key: Any, time: int) -> None:
        """Remove the records of a key that expire by a time."""
        data = self._tables[side].data
        entries = data.get(key)
        if entries is None:
            return
        last = time - max(self._range[side][1], 0)
        gone = len(entries) if entries[-1][0] <= last else bisect_right(entries, last, key=_TIME)
        if gone == len(entries):
            del data[key]
        elif gone:
            data[key] = entries[gone:]

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._life.snapshot(barrier)

    async def close(self) -> None:
        await self._life.close()
