"""GROUP BY over bundles of input: one change for each group of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, final

from streamline._core.changes import RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("MiniBatchGroup",)

#: Rows of a bundle that are worked off in one go.
_RUN: Final = 256
#: Groups whose changes are sent at once.
_LIMIT: Final = 1024


@final
class MiniBatchGroup(Operator):
    """As `GroupAggregate`, but rows wait until there are enough of them or the oldest has waited long enough.

    Changelog: any in; out as of `GroupAggregate`, without what happened within a bundle. State: one entry a group; rows
    that wait are worked off before a barrier and before a watermark passes. Order: groups as they came into a bundle.
    """

    name = "GroupAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"groups": StateSpec()}

    def __init__(
        self, make: MakeFunction, spec: StateSpec, keys: int, emit_before: bool, latency: int, size: int
    ) -> None:
        """
        Args:
            make: gives `group(batch, data) -> Batch`, which sends -U.
            spec: of a group's state.
            keys: how many columns of a result are the group's key.
            emit_before: whether -U leaves.
            latency: milliseconds that a row waits at most.
            size: rows that wait at most.
        """
        self._make = make
        self._spec = spec
        self._keys = keys
        self._emit_before = emit_before
        self._latency = latency
        self._size = size

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._group: Callable[[Batch, Any], Batch] = self._make(ctx.clock.now)
        self._groups = ctx.store.table("groups", self._spec)
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._kinds: list[RowKind] = []
        self._due: int | None = None

    async def on_batch(self, batch: Batch, out: Output) -> None:
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + self._size - len(self._values))
            part = batch.slice(start, stop)
            start = stop
            if not self._values and self._due is None:
                self._due = self._ctx.clock.now() + self._latency
                self._ctx.schedule(self._due, self._on_clock)
            n = len(part)
            self._values += part.values
            self._timestamps += part.timestamps or [None] * n
            self._kinds += part.kinds or [RowKind.INSERT] * n
            if len(self._values) >= self._size:
                await self._flush(out)

    async def _on_clock(self, now: int, out: Output) -> None:
        self._due = None
        await self._flush(out)

    async def _flush(self, out: Output) -> None:
        if not self._values:
            return
        bundle = Batch(self._values, self._timestamps, self._kinds)
        self._values, self._timestamps, self._kinds = [], [], []
        spans: dict[Any, list[Any]] = {}
        for start in range(0, len(bundle), _RUN):
            self._extend(spans, self._group(bundle.slice(start, start + _RUN), self._groups.data))
            await out.pause()
        changed = list(spans.values())
        for start in range(0, len(changed), _LIMIT):
            await out.send(self._changes(changed[start : start + _LIMIT]))

    def _extend(self, spans: dict[Any, list[Any]], changes: Batch) -> None:
        """For each group its first row before and its last row after."""
        n = self._keys
        assert changes.kinds is not None
        for row, kind in zip(changes.values, changes.kinds):
            span = spans.get(row[:n])
            if span is None:
                span = spans[row[:n]] = [None if kind is RowKind.INSERT else row, None]
            span[1] = None if kind.is_retraction else row

    def _changes(self, spans: Sequence[Sequence[Any]]) -> Batch:
        values: list[Any] = []
        kinds: list[RowKind] = []
        for before, after in spans:
            if before == after:
                continue
            if before is not None and (self._emit_before or after is None):
                values.append(before)
                kinds.append(RowKind.DELETE if after is None else RowKind.UPDATE_BEFORE)
            if after is not None:
                values.append(after)
                kinds.append(RowKind.INSERT if before is None else RowKind.UPDATE_AFTER)
        return Batch(values, None, kinds)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        await self._flush(out)
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._flush(out)

    async def on_end(self, out: Output) -> None:
        await self._flush(out)
