"""Which records a window forgets before or after its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from streamline._core.time import Duration, to_millis
from streamline.errors import ValidationException

__all__ = ("CountEvictor", "DeltaEvictor", "Evictor", "EvictorContext", "TimeEvictor", "TimestampedValue")


class TimestampedValue(msgspec.Struct, frozen=True):
    """A record in a window with its event time (epoch ms; None where it has none)."""

    value: Any
    timestamp: int | None = None


class EvictorContext(Protocol):
    """What an evictor sees."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""
        ...

    def get_current_watermark(self) -> int:
        """Epoch milliseconds."""
        ...


class Evictor:
    """Removes records from a window: it deletes them from the list that it is given."""

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """Before the window's function; `elements` are in order of arrival, `size` is their number."""

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """After the window's function."""


class _BeforeOrAfter(Evictor):
    """An evictor that does the same before or after."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        if not self._after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        if self._after:
            self._evict(elements)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        raise NotImplementedError


class CountEvictor(_BeforeOrAfter):
    """Keeps the last records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if max_count < 0:
            raise ValidationException(f"CountEvictor cannot keep {max_count} records")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keep the last `max_count` records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class TimeEvictor(_BeforeOrAfter):
    """Keeps records that are not older than the newest by more than a duration."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Keep records with a timestamp above the newest minus `window_size` (timedelta, text or ms)."""
        return TimeEvictor(to_millis(window_size, "window_size"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements or elements[0].timestamp is None:
            return
        newest = max(e.timestamp for e in elements if e.timestamp is not None)
        cutoff = newest - self._window_size
        elements[:] = [e for e in elements if e.timestamp is None or e.timestamp > cutoff]


class DeltaEvictor(_BeforeOrAfter):
    """Keeps records that are near the last one."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta_function = delta_function

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Keep records whose distance `delta_function(record, last record)` is below `threshold`."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last, distance = elements[-1].value, self._delta_function
            elements[:] = [e for e in elements if distance(e.value, last) < self._threshold]
