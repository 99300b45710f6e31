"""Joins with the version of a table that was valid at a row's time, and with what a table holds now."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, final

from streamline._core.declare import StateSpec, TtlSpec
from streamline._core.elements import MIN_TIMESTAMP, Batch
from streamline._operators.calc import MakeFunction
from streamline._operators.state_types import list_of, optional, tuple_of
from streamline.abc import PAUSE_EVERY, LookupReader, Operator, OperatorContext, Output, TwoInputOperator

__all__ = ("LookupJoin", "TemporalJoin")

_LIMIT = 1024


@final
class TemporalJoin(TwoInputOperator):
    """Send each left row with the right row of its key that was valid at its time, once both watermarks have passed it.

    Changelog: insert-only on the left, any with a key on the right; out insert-only. State: left rows that wait; for
    each key the versions of the right side from the last one at the watermark on. A left row that is so late that its
    version is gone has none (`numLateProbes` counts late rows, `numLateVersions` versions that come late: results that
    went out are not changed, rows to come see them). Watermarks: the smaller of both, passed on behind the rows. Order:
    of the left side.
    """

    name = "TemporalJoin"
    state: ClassVar[Mapping[str, StateSpec]] = {"left": StateSpec(), "right": StateSpec()}

    def __init__(
        self,
        read: tuple[MakeFunction, MakeFunction],
        matches: MakeFunction | None,
        rows: tuple[Any, Any],
        width: int,
        outer: bool,
        ttl: TtlSpec | None = None,
    ) -> None:
        """
        Args:
            read: give `read(batch)`: (time in ms, key, row) of the left side, (time in ms, kind, key, row) of the
                right one.
            matches: gives `matches(left, right)`, None where the key is all there is.
            rows: Python types of the rows.
            width: columns of the right side.
            outer: left rows without a version are sent with NULLs.
            ttl: how long the versions of a key are kept that nobody asks for or updates.
        """
        self._make = read, matches
        self._ttl = None if ttl is None else replace(ttl, refresh_on_read=True)
        self._types = rows
        self._nulls = (None,) * width
        self._outer = outer

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        (left, right), matches = self._make
        self._read_left: Callable[[Batch], list[Any]] = left(now)
        self._read_right: Callable[[Batch], list[Any]] = right(now)
        self._matches: Callable[[Any, Any], bool] | None = None if matches is None else matches(now)
        left_type, right_type = self._types
        self._left = ctx.store.table("left", StateSpec(type=list_of(tuple_of(int, left_type)), copy=list.copy))
        versions = list_of(tuple_of(int, optional(right_type)))
        self._right = ctx.store.table("right", StateSpec(type=versions, copy=deepcopy, ttl=self._ttl))
        self._late = ctx.metrics.counter("numLateProbes"), ctx.metrics.counter("numLateVersions")
        self._watermark = MIN_TIMESTAMP
        self._due: list[tuple[int, int, Any]] = []
        self._timers: dict[Any, int] = {}
        self._order = 0
        for n, key in enumerate(list(self._left.data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            self._arm(min(time for time, _ in self._left.data[key]), key)

    def _arm(self, time: int, key: Any) -> None:
        known = self._timers.get(key)
        if known is None or time < known:
            self._timers[key] = time
            self._order += 1
            heapq.heappush(self._due, (time, self._order, key))

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        data, watermark, late = self._left.data, self._watermark, 0
        for time, key, row in self._read_left(batch):
            late += time <= watermark
            rows = data.get(key)
            if rows is None:
                rows = []
            rows.append((time, row))
            data[key] = rows
            self._arm(time, key)
        if late:
            self._late[0].inc(late)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        data, watermark, late = self._right.data, self._watermark, 0
        for time, kind, key, row in self._read_right(batch):
            late += time <= watermark
            versions = data.get(key)
            if versions is None:
                versions = []
            entry = (time, None if kind.is_retraction else row)
            at = bisect.bisect_left(versions, time, key=_time)
            if at < len(versions) and versions[at][0] == time:
                versions[at] = entry
            else:
                versions.insert(at, entry)
            data[key] = versions
            self._arm(time, key)
        if late:
            self._late[1].inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self._watermark = watermark
        due, looks = self._due, 0
        result: list[Any] = []
        while due and due[0][0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
            time, _, key = heapq.heappop(due)
            if self._timers.get(key) != time:
                continue
            del self._timers[key]
            result = await self._join(key, watermark, result, out)
        await out.send(Batch(result))
        return watermark

    async def _join(self, key: Any, watermark: int, result: list[Any], out: Output) -> list[Any]:
        """Join the rows of a key that the watermark has passed; gives the results that were not sent yet."""
        rows = self._left.data.get(key) or []
        versions = self._right.data.get(key) or []
        waiting: list[Any] = []
        for n, (time, row) in enumerate(rows, 1):
            if n % PAUSE_EVERY == 0:
                await out.pause()
            if len(result) >= _LIMIT:
                await out.send(Batch(result))
                result = []
            if time > watermark:
                waiting.append((time, row))
                continue
            at = bisect.bisect_right(versions, time, key=_time)
            version = versions[at - 1][1] if at else None
            if version is not None and (self._matches is None or self._matches(row, version)):
                result.append(row + version)
            elif self._outer:
                result.append(row + self._nulls)
        if waiting:
            self._left.data[key] = waiting
            self._arm(min(time for time, _ in waiting), key)
        elif rows:
            del self._left.data[key]
        # What is older than the version valid now is asked for by no row that is on time.
        valid = bisect.bisect_right(versions, watermark, key=_time) - 1
        if valid > 0:
            del versions[:valid]
            self._right.data[key] = versions
        return result


def _time(version: tuple[int, Any]) -> int:
    return version[0]


@final
class LookupJoin(Operator):
    """Send each row with the rows that a table holds for its key at this moment.

    Changelog: any, kinds are kept. State: none. Watermarks: passed on. Order: kept.
    """

    name = "LookupJoin"

    def __init__(
        self,
        read: MakeFunction,
        convert: MakeFunction,
        matches: MakeFunction | None,
        reader: Callable[[], LookupReader],
        width: int,
        outer: bool,
    ) -> None:
        """
        Args:
            read: gives `read(batch)`: (kind, key or None, row) triples.
            convert: gives the function from a batch of the table's records to a batch of rows.
            matches: gives `matches(left, right)`, None where the key is all there is.
            reader: makes the reader of the table.
            width: columns of the table.
            outer: rows without a match are sent with NULLs.
        """
        self._make = read, convert, matches, reader
        self._nulls = (None,) * width
        self._outer = outer

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        read, convert, matches, reader = self._make
        self._read: Callable[[Batch], list[Any]] = read(now)
        self._convert: Callable[[Batch], Batch] = convert(now)
        self._matches: Callable[[Any, Any], bool] | None = None if matches is None else matches(now)
        self._reader: LookupReader = reader()
        await self._reader.open()

    async def on_batch(self, batch: Batch, out: Output) -> None:
        rows = self._read(batch)
        keys = list(dict.fromkeys(key for _, key, _ in rows if key is not None))
        found = dict(zip(keys, await self._reader.lookup(keys))) if keys else {}
        known = {key: self._convert(Batch(records)).values for key, records in found.items()}
        values: list[Any] = []
        kinds: list[Any] = []
        matches = self._matches
        for kind, key, row in rows:
            others = known.get(key, ()) if key is not None else ()
            pairs = [row + o for o in others if matches is None or matches(row, o)]
            if not pairs and self._outer:
                pairs = [row + self._nulls]
            values += pairs
            kinds += [kind] * len(pairs)
        await out.send(Batch(values, None, None if batch.kinds is None else kinds))

    async def close(self) -> None:
        reader = getattr(self, "_reader", None)
        if reader is not None:
            await reader.close()
