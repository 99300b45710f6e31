"""When a window gives results, and when it forgets its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from streamline._core.declare import StateSpec
from streamline._core.elements import MAX_TIMESTAMP
from streamline._core.time import Duration, to_millis
from streamline._operators.window.types import Window
from streamline.abc import MetricGroup
from streamline.errors import ValidationException

__all__ = (
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
)

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(Enum):
    """What happens to a window now."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    __hash__ = object.__hash__

    def is_fire(self) -> bool:
        """Whether the window gives results."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window forgets its records."""
        return self.value[1]


CONTINUE = TriggerResult.CONTINUE
FIRE = TriggerResult.FIRE
PURGE = TriggerResult.PURGE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class TriggerContext(Protocol):
    """What a trigger sees of one window of one key."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""
        ...

    def get_current_watermark(self) -> int:
        """Epoch milliseconds."""
        ...

    def get_metric_group(self) -> MetricGroup:
        """Where to register metrics."""
        ...

    def register_event_time_timer(self, time: int) -> None:
        """Have `on_event_time` called when the watermark has reached `time` (epoch ms)."""
        ...

    def register_processing_time_timer(self, time: int) -> None:
        """Have `on_processing_time` called at `time` (epoch ms)."""
        ...

    def delete_event_time_timer(self, time: int) -> None:
        """Call a timer off."""
        ...

    def delete_processing_time_timer(self, time: int) -> None:
        """Call a timer off."""
        ...

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        """State of the trigger's own, for this key and window."""
        ...


class OnMergeContext(TriggerContext, Protocol):
    """What a trigger sees while windows merge: that of the result."""

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        """Merge the trigger's state of the windows that were merged into that of the result."""
        ...


_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(ABC, Generic[T, W]):
    """Decides, for every window by itself. One object serves all windows: what it has to remember lies in state."""

    TriggerContext: TypeAlias = _TriggerContext
    OnMergeContext: TypeAlias = _OnMergeContext

    @abstractmethod
    def on_element(self, element: T, timestamp: int | None, window: W, ctx: TriggerContext) -> TriggerResult:
        """A record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A processing-time timer is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """An event-time timer is due."""

    def can_merge(self) -> bool:
        """Whether `on_merge` works: windows that merge (sessions) need it."""
        return False

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Windows have merged into `window`."""
        raise ValidationException(f"{type(self).__name__} cannot be used with windows that merge")

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """The window is gone: delete state and timers."""


class EventTimeTrigger(Trigger[Any, Any]):
    """Fires when the watermark passes the window's end, and again for every late record that is still allowed."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp() else CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[Any, Any]):
    """Fires when processing time passes the window's end."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _Named:
    """A state descriptor of a trigger of ours."""

    __slots__ = ("name", "spec")

    def __init__(self, name: str, spec: StateSpec) -> None:
        self.name = name
        self.spec = spec


def _earlier(a: int, b: int) -> int:
    return min(a, b)


def _sum(a: int, b: int) -> int:
    return a + b


_NEXT_FIRE = _Named("fire-time", StateSpec(int, kind="reducing", reduce=_earlier))
_COUNT = _Named("count", StateSpec(int, kind="reducing", reduce=_sum))


class ContinuousEventTimeTrigger(Trigger[Any, Any]):
    """Fires each interval of event time, and at the window's end."""

    def __init__(self, interval: int) -> None:
        self.interval = interval

    @staticmethod
    def of(interval: Duration) -> ContinuousEventTimeTrigger:
        """Fire each `interval` (timedelta, text or ms)."""
        return ContinuousEventTimeTrigger(_positive(interval))

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        if next_fire.get() is None:
            time = timestamp if timestamp is not None else 0
            self._register(time - time % self.interval, window, ctx, next_fire)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return FIRE
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        if next_fire.get() != time:
            return CONTINUE
        next_fire.clear()
        if ctx.get_current_watermark() < MAX_TIMESTAMP or window.max_timestamp() < MAX_TIMESTAMP:
            self._register(time, window, ctx, next_fire)
        # else a window without an end, when the input has ended: it fires once more, with the timer of its end.
        return FIRE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def _register(self, time: int, window: Any, ctx: TriggerContext, next_fire: Any) -> None:
        due = min(time + self.interval, window.max_timestamp())
        next_fire.add(due)
        ctx.register_event_time_timer(due)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_NEXT_FIRE)
        due = ctx.get_partitioned_state(_NEXT_FIRE).get()
        if due is not None:
            ctx.register_event_time_timer(due)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        due = next_fire.get()
        if due is not None:
            ctx.delete_event_time_timer(due)
            next_fire.clear()


class ContinuousProcessingTimeTrigger(Trigger[Any, Any]):
    """Fires each interval of processing time, counted from the first record."""

    def __init__(self, interval: int) -> None:
        self.interval = interval

    @staticmethod
    def of(interval: Duration) -> ContinuousProcessingTimeTrigger:
        """Fire each `interval` (timedelta, text or ms)."""
        return ContinuousProcessingTimeTrigger(_positive(interval))

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        if next_fire.get() is None:
            now = ctx.get_current_processing_time()
            self._register(now - now % self.interval, window, ctx, next_fire)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        if next_fire.get() != time:
            return CONTINUE
        next_fire.clear()
        self._register(time, window, ctx, next_fire)
        return FIRE

    def _register(self, time: int, window: Any, ctx: TriggerContext, next_fire: Any) -> None:
        due = min(time + self.interval, window.max_timestamp())
        next_fire.add(due)
        ctx.register_processing_time_timer(due)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_NEXT_FIRE)
        due = ctx.get_partitioned_state(_NEXT_FIRE).get()
        if due is not None:
            ctx.register_processing_time_timer(due)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(_NEXT_FIRE)
        due = next_fire.get()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            next_fire.clear()


class CountTrigger(Trigger[Any, Any]):
    """Fires when the window has got so many records, and starts counting anew."""

    def __init__(self, count: int) -> None:
        self.count = count

    @staticmethod
    def of(max_count: int) -> CountTrigger:
        """Fire with every `max_count` records.

        Raises:
            ValidationException: it is not positive.
        """
        if max_count <= 0:
            raise ValidationException(f"CountTrigger needs a positive count, not {max_count}")
        return CountTrigger(max_count)

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(_COUNT)
        count.add(1)
        if count.get() >= self.count:
            count.clear()
            return FIRE
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(_COUNT).clear()


class DeltaTrigger(Trigger[Any, Any]):
    """Fires when a record is farther than a threshold from the one that fired last."""

    def __init__(self, threshold: float, delta_function: Callable[[Any, Any], float], type_info: Any = Any) -> None:
        self.threshold = threshold
        self.delta_function = delta_function
        self._last = _Named("delta-last-element", StateSpec(type_info))

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float], type_info: Any = Any) -> DeltaTrigger:
        """
        Args:
            threshold: the distance that has to be exceeded.
            delta_function: distance of (the record that fired last, the new record).
            type_info: type of the records, for the state.
        """
        return DeltaTrigger(threshold, delta_function, type_info)

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(self._last)
        before = last.value()
        if before is None:
            last.update(element)
            return CONTINUE
        if self.delta_function(before, element) > self.threshold:
            last.update(element)
            return FIRE
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()


class NeverTrigger(Trigger[Any, Any]):
    """Never fires: the default of global windows."""

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        pass


class PurgingTrigger(Trigger[Any, Any]):
    """Another trigger, after whose firing the window forgets its records."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Purge whenever `nested_trigger` fires."""
        return PurgingTrigger(nested_trigger)

    @staticmethod
    def _purging(result: TriggerResult) -> TriggerResult:
        return FIRE_AND_PURGE if result.is_fire() else result

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _positive(interval: Duration) -> int:
    millis = to_millis(interval, "interval")
    if millis <= 0:
        raise ValidationException(f"a trigger's interval has to be positive: {interval!r}")
    return millis
