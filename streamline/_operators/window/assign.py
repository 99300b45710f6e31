"""Which windows a record belongs to."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from streamline._core.time import Duration, to_millis
from streamline._operators.runtime_context import RuntimeContext
from streamline._operators.window.trigger import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, Trigger
from streamline._operators.window.types import GLOBAL_WINDOW, TimeWindow, Window, merge_overlapping
from streamline.errors import StreamlineError, ValidationException

__all__ = (
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "MergeCallback",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "WindowAssignerContext",
    "WindowStagger",
)

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class WindowAssignerContext(Protocol):
    """What an assigner sees."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""
        ...

    def get_runtime_context(self) -> RuntimeContext:
        """State and metrics; state belongs to the key of the record."""
        ...


class MergeCallback(Protocol):
    """Where a merging assigner says which windows merge."""

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """These windows (several, the result may be among them) become `merge_result`."""
        ...


_WindowAssignerContext: TypeAlias = WindowAssignerContext
_MergeCallback: TypeAlias = MergeCallback


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns records to windows; what it has to remember lies in state."""

    WindowAssignerContext: TypeAlias = _WindowAssignerContext

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int | None, context: WindowAssignerContext) -> Collection[W]:
        """The windows of a record; `timestamp` is its event time, epoch ms, None where it has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger where the program names none; `env` is the program's environment."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows follow event time."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """Assigns records to windows that merge."""

    MergeCallback: TypeAlias = _MergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback) -> None:
        """Call `callback.merge(to_be_merged, merge_result)` for every group of windows that merge."""


def timestamp_of(timestamp: int | None) -> int:
    """The timestamp, where there is one.

    Raises:
        StreamlineError: there is none; the message says what to do.
    """
    if timestamp is None:
        raise StreamlineError(
            "a record without a timestamp came to an event-time window: assign timestamps to all records by "
            "assign_timestamps_and_watermarks(), or use processing-time windows"
        )
    return timestamp


class WindowStagger(Enum):
    """Whether the windows of all subtasks end together (so that all results come at once) or each at its own time."""

    #: Together.
    ALIGNED = "ALIGNED"
    #: Each subtask's are moved by a random part of the size.
    RANDOM = "RANDOM"
    #: Each subtask's begin with its first record, by processing time.
    NATURAL = "NATURAL"

    def offset(self, now: int, size: int) -> int:
        """By how much a subtask moves its windows, decided at processing time `now` (ms)."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size)
        return now % size if self is WindowStagger.NATURAL else 0


class _Aligned(WindowAssigner[Any, TimeWindow]):
    """Windows of one size at regular distances: what tumbling and sliding windows have in common."""

    event_time = True
    #: Tumbling windows only; decided with a subtask's first record.
    stagger = WindowStagger.ALIGNED
    #: Tumbling windows only: the last answer. Records that follow each other are mostly in one window.
    _last: tuple[TimeWindow] | None = None

    def __init__(self, size: int, slide: int, offset: int) -> None:
        name = type(self).__name__
        if size <= 0 or slide <= 0:
            raise ValidationException(f"{name} needs a positive size and slide, not {size} ms and {slide} ms")
        if abs(offset) >= slide:
            raise ValidationException(f"{name}: the offset ({offset} ms) has to be smaller than {slide} ms, either way")
        self.size = size
        self.slide = slide
        self.offset = offset

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        t = timestamp_of(timestamp) if self.event_time else context.get_current_processing_time()
        size, slide = self.size, self.slide
        if self.stagger is not WindowStagger.ALIGNED:
            moved = self.stagger.offset(context.get_current_processing_time(), size)
            self.offset, self.stagger = (self.offset + moved) % size, WindowStagger.ALIGNED
        start = t - (t - self.offset) % slide
        if size == slide:
            last = self._last
            if last is None or last[0].start != start:
                last = self._last = (TimeWindow(start, start + size),)
            return last
        return [TimeWindow(s, s + size) for s in range(start, t - size, -slide)]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger() if self.event_time else ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return self.event_time

    def __repr__(self) -> str:
        slide = "" if self.slide == self.size else f", slide {self.slide} ms"
        offset = f", offset {self.offset} ms" if self.offset else ""
        return f"{type(self).__name__}({self.size} ms{slide}{offset})"


class TumblingEventTimeWindows(_Aligned):
    """Windows of one size, one after the other, by event time."""

    @staticmethod
    def of(
        size: Duration, offset: Duration = 0, window_stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> TumblingEventTimeWindows:
        """
        Args:
            size: length of a window (timedelta, text or ms).
            offset: by how much the windows are shifted; a time zone's days: minus its distance from UTC.
            window_stagger: whether the windows of all subtasks end together.

        Raises:
            ValidationException: the size is not positive, or the offset not smaller than it.
        """
        millis = to_millis(size, "size")
        windows = TumblingEventTimeWindows(millis, millis, to_millis(offset, "offset"))
        windows.stagger = WindowStagger(window_stagger)
        return windows


class TumblingProcessingTimeWindows(_Aligned):
    """Windows of one size, one after the other, by processing time."""

    event_time = False

    @staticmethod
    def of(
        size: Duration, offset: Duration = 0, window_stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> TumblingProcessingTimeWindows:
        """As `TumblingEventTimeWindows.of`."""
        millis = to_millis(size, "size")
        windows = TumblingProcessingTimeWindows(millis, millis, to_millis(offset, "offset"))
        windows.stagger = WindowStagger(window_stagger)
        return windows


class SlidingEventTimeWindows(_Aligned):
    """Windows of one size that begin each slide, by event time; a record is in size / slide of them."""

    @staticmethod
    def of(size: Duration, slide: Duration, offset: Duration = 0) -> SlidingEventTimeWindows:
        """
        Args:
            size: length of a window (timedelta, text or ms).
            slide: distance of two windows' starts.
            offset: by how much the windows are shifted.

        Raises:
            ValidationException: size or slide are not positive, or the offset not smaller than the slide.
        """
        return SlidingEventTimeWindows(to_millis(size, "size"), to_millis(slide, "slide"), to_millis(offset, "offset"))


class SlidingProcessingTimeWindows(_Aligned):
    """Windows of one size that begin each slide, by processing time."""

    event_time = False

    @staticmethod
    def of(size: Duration, slide: Duration, offset: Duration = 0) -> SlidingProcessingTimeWindows:
        """As `SlidingEventTimeWindows.of`."""
        return SlidingProcessingTimeWindows(
            to_millis(size, "size"), to_millis(slide, "slide"), to_millis(offset, "offset")
        )


class SessionWindowTimeGapExtractor(ABC):
    """Gives every record the length of silence that ends its session."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Milliseconds, positive."""


class _Session(MergingWindowAssigner[Any, TimeWindow]):
    """Windows that grow with every record which comes within the gap, and merge when they touch."""

    event_time = True

    def __init__(self, gap: int | Callable[[Any], int]) -> None:
        if isinstance(gap, int) and gap <= 0:
            raise ValidationException(f"{type(self).__name__} needs a positive gap, not {gap} ms")
        self.gap = gap

    def gap_of(self, element: Any) -> int:
        """The record's gap, milliseconds."""
        gap = self.gap
        if isinstance(gap, int):
            return gap
        found = to_millis(gap(element), "the session's gap")
        if found <= 0:
            raise ValidationException(f"a session's gap has to be positive, not {found} ms")
        return found

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        t = timestamp_of(timestamp) if self.event_time else context.get_current_processing_time()
        return (TimeWindow(t, t + self.gap_of(element)),)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        for merged, parts in merge_overlapping(windows):
            callback.merge(parts, merged)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger() if self.event_time else ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return self.event_time

    def __repr__(self) -> str:
        gap = f"gap {self.gap} ms" if isinstance(self.gap, int) else "dynamic gap"
        return f"{type(self).__name__}({gap})"


def _extractor(gap: SessionWindowTimeGapExtractor | Callable[[Any], int]) -> Callable[[Any], int]:
    if isinstance(gap, SessionWindowTimeGapExtractor):
        return gap.extract
    if not callable(gap):
        raise ValidationException(f"a dynamic gap has to be a SessionWindowTimeGapExtractor or a callable, not {gap!r}")
    return gap


class EventTimeSessionWindows(_Session):
    """Sessions by event time: they end after a gap without a record."""

    @staticmethod
    def with_gap(size: Duration) -> EventTimeSessionWindows:
        """Sessions that end after `size` (timedelta, text or ms) without a record."""
        return EventTimeSessionWindows(to_millis(size, "gap"))

    @staticmethod
    def with_dynamic_gap(
        session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap (ms) every record sets for itself."""
        return DynamicEventTimeSessionWindows(_extractor(session_window_time_gap_extractor))


class ProcessingTimeSessionWindows(_Session):
    """Sessions by processing time."""

    event_time = False

    @staticmethod
    def with_gap(size: Duration) -> ProcessingTimeSessionWindows:
        """Sessions that end after `size` (timedelta, text or ms) without a record."""
        return ProcessingTimeSessionWindows(to_millis(size, "gap"))

    @staticmethod
    def with_dynamic_gap(
        session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap (ms) every record sets for itself."""
        return DynamicProcessingTimeSessionWindows(_extractor(session_window_time_gap_extractor))


class DynamicEventTimeSessionWindows(_Session):
    """Sessions by event time whose gap every record sets for itself."""

    @staticmethod
    def with_dynamic_gap(
        session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicEventTimeSessionWindows:
        """The extractor gives milliseconds."""
        return DynamicEventTimeSessionWindows(_extractor(session_window_time_gap_extractor))


class DynamicProcessingTimeSessionWindows(_Session):
    """Sessions by processing time whose gap every record sets for itself."""

    event_time = False

    @staticmethod
    def with_dynamic_gap(
        session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicProcessingTimeSessionWindows:
        """The extractor gives milliseconds."""
        return DynamicProcessingTimeSessionWindows(_extractor(session_window_time_gap_extractor))


class GlobalWindows(WindowAssigner[Any, Any]):
    """One window for all records of a key; it never fires by itself, so it needs a trigger."""

    @staticmethod
    def create() -> GlobalWindows:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int | None, context: WindowAssignerContext) -> Collection[Any]:
        return (GLOBAL_WINDOW,)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
