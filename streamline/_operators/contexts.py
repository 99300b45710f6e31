"""What process functions see while they work: timestamp, key, timers, side outputs."""

from __future__ import annotations

from enum import Enum
from typing import Any

from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._core.output_tag import OutputTag
from streamline._core.time import Clock, to_epoch_millis
from streamline._operators.results import Sides
from streamline.abc import KeyedStore, OperatorContext
from streamline.errors import StreamlineError, ValidationException

__all__ = ("ProcessContext", "TimeDomain", "TimerService")


class TimeDomain(Enum):
    """What a timer follows."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService:
    """Current time and, on keyed streams, timers: one per key and time."""

    __slots__ = ("_clock", "_operator", "_register", "_store", "watermark")

    def __init__(self, ctx: OperatorContext, store: KeyedStore | None, event_time: str) -> None:
        """`store` is None where the stream is not keyed; `event_time` says whether its records carry timestamps."""
        self._clock: Clock = ctx.clock
        self._store = store
        self._operator = ctx.operator_name
        #: Registers an event-time timer where that is allowed.
        self._register = None if store is None or event_time == "no" else store.timers.register_event_time
        #: The watermark of an operator without keyed state, epoch ms.
        self.watermark = MIN_TIMESTAMP

    def current_processing_time(self) -> int:
        """Processing time, epoch milliseconds."""
        return self._clock.now()

    def current_watermark(self) -> int:
        """Event time, epoch milliseconds; the smallest 64-bit integer before the first watermark."""
        return self.watermark if self._store is None else self._store.timers.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the watermark has reached `timestamp` (epoch ms).

        A time that the watermark has reached already is due at the next one. The largest 64-bit integer is the end of
        the input; no watermark reaches what lies beyond, and a timer for it does nothing. When the input ends every
        timer is due, those too that a timer sets then: a timer that always sets a later one has to stop where
        `current_watermark()` is the largest 64-bit integer, else the job fails after 100 000 of them in a row.

        Raises:
            ValidationException: the stream is not keyed.
            StreamlineError: its records carry no timestamps, so event time never advances.
        """
        register, store = self._register, self._store
        if register is None or store is None:
            raise self._no_event_time()
        if type(timestamp) is int and MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            register(store.key, timestamp)
        elif not _beyond(timestamp):
            register(store.key, to_epoch_millis(timestamp))

    def _no_event_time(self) -> StreamlineError:
        self._keyed()
        return StreamlineError(
            f"an event-time timer in {self._operator!r}, on a stream without timestamps: it would fire at the end of "
            "the input only. Use assign_timestamps_and_watermarks() before it, or WatermarkStrategy.no_watermarks() to "
            "say that this is meant"
        )

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when processing time has reached `timestamp` (epoch ms); at once where it has already.

        Timers that wait when the input ends are dropped.

        Raises:
            ValidationException: the stream is not keyed.
        """
        store = self._keyed()
        if not _beyond(timestamp):
            store.timers.register_processing_time(store.key, to_epoch_millis(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Call off the timer of the current key at `timestamp`; without one nothing happens."""
        store = self._keyed()
        if not _beyond(timestamp):
            store.timers.delete_event_time(store.key, to_epoch_millis(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Call off the timer of the current key at `timestamp`; without one nothing happens."""
        store = self._keyed()
        if not _beyond(timestamp):
            store.timers.delete_processing_time(store.key, to_epoch_millis(timestamp))

    def _keyed(self) -> KeyedStore:
        if self._store is None:
            raise ValidationException(
                f"timers belong to a key, and the input of {self._operator!r} has none: use key_by() before it"
            )
        return self._store


def _beyond(timestamp: Any) -> bool:
    """Whether it lies behind the end of time: there is no timer for it, whatever is asked."""
    return type(timestamp) is int and timestamp > MAX_TIMESTAMP


class _NoKey:
    """Stands for the store where a stream is not keyed."""

    __slots__ = ("key",)

    key: Any

    def __init__(self) -> None:
        self.key = None


class ProcessContext:
    """The context of process functions: of a record, or of a timer that is due."""

    __slots__ = ("_operator", "_sides", "_store", "_timers", "current_timestamp", "domain")

    def __init__(
        self, ctx: OperatorContext, store: KeyedStore | None, sides: Sides, event_time: str, keyed: bool = True
    ) -> None:
        """`store` is None where there is no keyed state; `keyed` is whether this side may set timers."""
        self._operator = ctx.operator_name
        self._store: Any = _NoKey() if store is None else store
        self._timers = TimerService(ctx, store if keyed else None, event_time)
        self._sides = sides
        self.current_timestamp: int | None = None
        self.domain: TimeDomain | None = None

    @property
    def store(self) -> Any:
        """What has the current key."""
        return self._store

    def timestamp(self) -> int | None:
        """The record's event time or the timer's time, epoch milliseconds; None where a record has none."""
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Current time and timers."""
        return self._timers

    def get_current_key(self) -> Any:
        """The key of the record or timer."""
        return self._store.key

    def time_domain(self) -> TimeDomain:
        """What the timer that is due follows; in `on_timer` only."""
        if self.domain is None:
            raise StreamlineError("time_domain() belongs to on_timer: a record has none")
        return self.domain

    def output(self, output_tag: OutputTag[Any], value: Any) -> None:
        """Send a record to a side output, with the timestamp of the record or timer that is being worked on.

        Raises:
            ValidationException: `output_tag` is no OutputTag.
        """
        if type(output_tag) is not OutputTag:
            raise ValidationException(f"output() needs an OutputTag, not {output_tag!r}")
        self._sides.add(output_tag.tag_id, value, self.current_timestamp)
