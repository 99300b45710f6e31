"""Batch mode: the records of every key together, in order of their timestamps; event time that is closed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from streamline._core.elements import MAX_TIMESTAMP
from streamline._operators.keys import Keys
from streamline.abc import PAUSE_EVERY, Batch, Operator, Output

__all__ = ("BatchSort", "HoldWatermarks")

#: Records in one batch.
_RUN = 1024


@final
class HoldWatermarks(Operator):
    """Lets records pass, and of all watermarks the last one: in batch mode event time is closed once, at the end.

    Changelog, timestamps and order: kept. State: none. Watermarks: the final one.
    """

    name = "hold watermarks"

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await out.send(batch)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        return watermark if watermark == MAX_TIMESTAMP else None


@final
class BatchSort(Operator):
    """Holds everything back until event time is closed, then sends it key by key.

    Changelog: passed on. State: none; batch jobs take no checkpoints. Watermarks: the last one is passed on behind the
    records. Order: keys as they came, records of a key by timestamp, those of one time as they came.
    """

    name = "sort"

    def __init__(self, selector: Callable[[Any], Any]) -> None:
        self._keys = Keys(selector)
        self._by_key: dict[Any, list[tuple[int, Any, Any]]] = {}
        self._stamped = False

    async def on_batch(self, batch: Batch, out: Output) -> None:
        by_key, kinds = self._by_key, batch.kinds
        timestamps = batch.timestamps
        self._stamped |= timestamps is not None
        for i, (key, value) in enumerate(zip(self._keys.of(batch.values), batch.values)):
            timestamp = None if timestamps is None else timestamps[i]
            entry = (-MAX_TIMESTAMP if timestamp is None else timestamp, value, None if kinds is None else kinds[i])
            found = by_key.get(key)
            if found is None:
                by_key[key] = [entry]
            else:
                found.append(entry)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if watermark < MAX_TIMESTAMP:
            return None  # the records before it are still held back: passed on it would make them late
        await self._send(out)
        return watermark

    async def on_end(self, out: Output) -> None:
        await self._send(out)

    async def _send(self, out: Output) -> None:
        by_key, self._by_key = self._by_key, {}
        held: list[tuple[int, Any, Any]] = []
        for n, entries in enumerate(by_key.values()):
            if n % PAUSE_EVERY == 0:
                await out.pause()
            if self._stamped:
                entries.sort(key=lambda e: e[0])
            start = 0
            while len(held) + len(entries) - start >= _RUN:
                stop = start + _RUN - len(held)
                held += entries[start:stop]
                await out.send(self._batch(held))
                held, start = [], stop
            held += entries[start:]
        await out.send(self._batch(held))

    def _batch(self, entries: list[tuple[int, Any, Any]]) -> Batch:
        timestamps = [None if t == -MAX_TIMESTAMP else t for t, _, _ in entries] if self._stamped else None
        kinds = [k for _, _, k in entries]
        return Batch([v for _, v, _ in entries], timestamps, None if None in kinds else kinds)
