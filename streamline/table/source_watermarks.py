"""The WATERMARK of a table, made by its source: each split (a Kafka partition) has one of its own.

Made behind the source, where splits have met, it would follow the split that is ahead, and the records of all others
would be late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline._core.elements import MIN_TIMESTAMP, Batch
from streamline._core.watermarks import NoWatermarks, Tracker, WatermarkStrategy
from streamline._operators.calc import MakeFunction
from streamline.table.logical import WatermarkSpec

__all__ = ("RowWatermarks",)


class RowWatermarks(WatermarkStrategy[Any]):
    """A strategy whose watermarks are an expression over the rows, computed by generated code batch by batch."""

    __slots__ = ("_make", "_on_event")

    def __init__(self, make: MakeFunction, spec: WatermarkSpec) -> None:
        """
        Args:
            make: gives `cuts(batch, watermark)` where `spec.on_event`, else `newest(batch)`.
            spec: when watermarks are emitted.
        """
        super().__init__(NoWatermarks, "a watermark for each row")
        self._make = make
        self._on_event = spec.on_event
        self.emit_on_event = spec.on_event
        self.idle_timeout = spec.idle_timeout or None
        if spec.alignment is not None:
            self.alignment_group, self.alignment_max_drift, self.alignment_interval = spec.alignment

    def tracker(self, now: Callable[[], int]) -> Tracker:
        """The strategy at work, for one split."""
        return _RowTracker(self._make(now), self._on_event)


class _RowTracker:
    """Watermarks of one split."""

    __slots__ = ("_function", "_newest", "_on_event", "emitted")

    by_records_only: Final = True

    def __init__(self, function: Callable[..., Any], on_event: bool) -> None:
        self._function = function
        self._on_event = on_event
        self._newest = MIN_TIMESTAMP
        self.emitted = MIN_TIMESTAMP

    @property
    def reached(self) -> int:
        return max(self._newest, self.emitted)

    def resume(self, emitted: int, reached: int) -> None:
        self.emitted = emitted
        self._newest = max(self._newest, reached)

    def stamp(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> Sequence[int | None] | None:
        return timestamps  # event time is a column of the row

    def observe(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> list[tuple[int, int]]:
        if not values:
            return []
        batch = Batch(values, timestamps)
        if self._on_event:
            cuts: list[tuple[int, int]] = self._function(batch, self.emitted)
            if cuts:
                self.emitted = cuts[-1][1]
            return cuts
        newest = self._function(batch)
        if newest is not None and newest > self._newest:
            self._newest = newest
        return []

    def advance(self) -> int | None:
        if self._newest <= self.emitted:
            return None
        self.emitted = self._newest
        return self.emitted
