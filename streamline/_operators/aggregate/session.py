"""Session windows: groups of rows with no gap between them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, Final, final

from streamline._core.changes import RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import PAUSE_EVERY, Operator, OperatorContext, Output

__all__ = ("SessionWindows",)

_LIMIT: Final = 1024
_KINDS: Final = tuple(RowKind)


@final
class SessionWindows(Operator):
    """Send the results (or the rows) of a session when event time has passed its end.

    Changelog: any in; out +I, rows with their own kinds where rows are sent. A row that neither extends a session nor
    lies ahead of the watermark is late: dropped and counted. State: the open sessions of each key. Watermarks: passed
    on behind the results. Order: by end of session.
    """

    name = "SessionWindow"
    state: ClassVar[Mapping[str, StateSpec]] = {"sessions": StateSpec()}

    def __init__(
        self,
        assign: MakeFunction,
        fire: MakeFunction,
        spec: StateSpec,
        instant: Callable[[int], int] | None = None,
        processing: bool = False,
        kinds: bool = False,
    ) -> None:
        """
        Args:
            assign: gives `assign(batch, data, watermark, opened, now) -> late`.
            fire: gives `fire(session) -> rows`, or (row, kind) pairs where `kinds`.
            spec: of a key's sessions.
            instant: epoch ms of a session's end, where ends are local times.
            processing: sessions go by the clock.
            kinds: rows are sent with their kinds.
        """
        self._make = assign, fire
        self._spec = spec
        self._instant = instant or (lambda end: end)
        self._processing = processing
        self._kinds = kinds

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._now = ctx.clock.now
        self._assign: Callable[..., int] = self._make[0](self._now)
        self._fire: Callable[[Any], list[Any]] = self._make[1](self._now)
        self._sessions = ctx.store.table("sessions", self._spec)
        self._late = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        #: When keys are to be looked at, one entry a key that counts: the one that `_looks` has too.
        self._due: list[tuple[int, int, Any]] = []
        self._looks: dict[Any, int] = {}
        self._order = itertools.count()
        self._alarm: int | None = None
        data = self._sessions.data
        for n, key in enumerate(list(data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            self._opened([(s[1], key) for s in data[key]])

    def _opened(self, opened: list[tuple[int, Any]]) -> None:
        looks = self._looks
        for end, key in opened:
            instant = self._instant(end)
            before = looks.get(key)
            if before is None or instant < before:
                looks[key] = instant
                heapq.heappush(self._due, (instant, next(self._order), key))
        if self._processing and self._due and (self._alarm is None or self._due[0][0] < self._alarm):
            self._alarm = self._due[0][0]
            self._ctx.schedule(self._alarm, self._on_clock)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        opened: list[tuple[int, Any]] = []
        mark = self._now() - 1 if self._processing else self._watermark
        late = self._assign(batch, self._sessions.data, mark, opened, self._now)
        if opened:
            self._opened(opened)
        if late:
            self._late.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if not self._processing:
            self._watermark = watermark
            await self._fire_until(watermark, out)
        return watermark

    async def _on_clock(self, now: int, out: Output) -> None:
        self._alarm = None
        await self._fire_until(self._now() - 1, out)
        self._opened([])

    async def _fire_until(self, mark: int, out: Output) -> None:
        rows: list[Any] = []
        due, data, looks = self._due, self._sessions.data, 0
        while due and due[0][0] - 1 <= mark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
                data = self._sessions.data
            instant, _, key = heapq.heappop(due)
            if self._looks.get(key) != instant:
                continue
            del self._looks[key]
            sessions = data.get(key)
            if sessions is None:
                continue
            ended = [s for s in sessions if self._instant(s[1]) - 1 <= mark]
            left = [s for s in sessions if self._instant(s[1]) - 1 > mark]
            for session in ended:
                rows += self._fire(session)
            if left:
                # A session that has grown since it was put here comes back at its new end.
                data[key] = left
                self._opened([(min(s[1] for s in left), key)])
            else:
                del data[key]
            if len(rows) >= _LIMIT:
                await self._send(rows, out)
                rows, data = [], self._sessions.data
        await self._send(rows, out)

    async def _send(self, rows: list[Any], out: Output) -> None:
        for start in range(0, len(rows), _LIMIT):
            some = rows[start : start + _LIMIT]
            if self._kinds:
                await out.send(Batch([r for r, _ in some], None, [_KINDS[k] for _, k in some]))
            else:
                await out.send(Batch(some))

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]


def copy_sessions(sessions: Any) -> Any:
    """An independent copy of a key's sessions."""
    return deepcopy(sessions)
