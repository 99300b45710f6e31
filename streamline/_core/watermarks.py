"""Watermark strategies: how a stream gets its timestamps and says how far event time has come."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._core.time import Duration, to_epoch_millis, to_millis
from streamline.errors import ValidationException

__all__ = (
    "BoundedOutOfOrderness",
    "NoWatermarks",
    "TimestampAssigner",
    "Tracker",
    "WatermarkGenerator",
    "WatermarkStrategy",
)

_log = logging.getLogger("streamline.watermarks")

T = TypeVar("T")


class TimestampAssigner(ABC):
    """Gives a record its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> Any:
        """Epoch milliseconds, or an aware datetime, of `value`; `record_timestamp` is what it had before."""


class WatermarkGenerator(ABC):
    """Says how far event time has come, from the records seen.

    `on_event` is called for every record. Its result is a watermark to emit right after that record (punctuated), or
    None. `on_periodic` is called each watermark interval; its result is a watermark to emit then, or None.
    """

    @abstractmethod
    def on_event(self, value: Any, timestamp: int) -> int | None:
        """A record came; epoch ms to emit as a watermark behind it, or None."""

    def on_periodic(self) -> int | None:
        """Epoch ms to emit as a watermark now, or None."""
        return None


class BoundedOutOfOrderness(WatermarkGenerator):
    """Records are at most `delay` ms behind the newest one: watermark = newest - delay - 1."""

    __slots__ = ("delay", "newest")

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.newest = MIN_TIMESTAMP

    def on_event(self, value: Any, timestamp: int) -> int | None:
        if timestamp > self.newest:
            self.newest = timestamp
        return None

    def on_batch(self, timestamps: Sequence[int]) -> None:
        """What `on_event` does for each of many."""
        newest = max(timestamps)
        if newest > self.newest:
            self.newest = newest

    def on_periodic(self) -> int | None:
        return None if self.newest == MIN_TIMESTAMP else self.newest - self.delay - 1


class NoWatermarks(WatermarkGenerator):
    """Event time never advances before the end of the input."""

    __slots__ = ()

    def on_event(self, value: Any, timestamp: int) -> int | None:
        return None


class WatermarkStrategy(Generic[T]):
    """Timestamps, watermarks, idleness and alignment of a stream; immutable, each `with_*` gives a new one."""

    __slots__ = (
        "alignment_group",
        "alignment_interval",
        "alignment_max_drift",
        "assigner",
        "emit_on_event",
        "generator",
        "idle_timeout",
        "max_ahead",
        "text",
    )

    generator: Callable[[], WatermarkGenerator]
    assigner: Callable[[T, int | None], Any] | None
    #: Milliseconds without a record until a stream counts as idle; None: never.
    idle_timeout: int | None
    #: Emit a watermark behind every record that advances it, instead of each interval.
    emit_on_event: bool
    #: Milliseconds that a timestamp may be ahead of processing time and still move the watermark; None: any number.
    max_ahead: int | None
    alignment_group: str | None
    alignment_max_drift: int
    alignment_interval: int
    text: str

    def __init__(self, generator: Callable[[], WatermarkGenerator], text: str = "custom") -> None:
        self.generator = generator
        self.text = text
        self.assigner = None
        self.idle_timeout = None
        self.emit_on_event = False
        self.max_ahead = None
        self.alignment_group = None
        self.alignment_max_drift = 0
        self.alignment_interval = 1000

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy[Any]:
        """Watermark = newest timestamp - bound - 1 ms, nothing before the first record.

        Raises:
            ValidationException: the bound is negative or no duration.
        """
        delay = to_millis(max_out_of_orderness, "max_out_of_orderness")
        if delay < 0:
            raise ValidationException(f"max_out_of_orderness must not be negative: {max_out_of_orderness!r}")
        return WatermarkStrategy(lambda: BoundedOutOfOrderness(delay), f"bounded out of orderness by {delay} ms")

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy[Any]:
        """Timestamps never go back: watermark = newest timestamp - 1 ms."""
        return WatermarkStrategy(lambda: BoundedOutOfOrderness(0), "monotonous timestamps")

    @staticmethod
    def no_watermarks() -> WatermarkStrategy[Any]:
        """No watermark before the end of the input."""
        return WatermarkStrategy(NoWatermarks, "no watermarks")

    @staticmethod
    def for_generator(generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy[Any]:
        """A generator of the user's; called once for each parallel source split or subtask."""
        return WatermarkStrategy(generator, f"generator {getattr(generator, '__name__', generator)!s}")

    def tracker(self, now: Callable[[], int]) -> Tracker:
        """The strategy at work, for one stream or split; `now` gives processing time, epoch ms."""
        return WatermarkTracker(self, now)

    def _but(self, **changes: Any) -> WatermarkStrategy[T]:
        new: WatermarkStrategy[T] = WatermarkStrategy.__new__(WatermarkStrategy)
        for name in self.__slots__:
            setattr(new, name, changes.get(name, getattr(self, name)))
        return new

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[..., Any]
    ) -> WatermarkStrategy[Any]:
        """Timestamps from a TimestampAssigner, or a callable of (value) or (value, previous timestamp).

        It returns epoch milliseconds or an aware datetime.
        """
        if isinstance(timestamp_assigner, TimestampAssigner):
            return self._but(assigner=timestamp_assigner.extract_timestamp)
        if not callable(timestamp_assigner):
            raise ValidationException(f"a timestamp assigner has to be callable, not {timestamp_assigner!r}")
        return self._but(assigner=_two_arguments(timestamp_assigner))

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy[T]:
        """After that long without a record (processing time) the stream no longer holds back others.

        Raises:
            ValidationException: the timeout is not positive.
        """
        millis = to_millis(idle_timeout, "idle_timeout")
        if millis <= 0:
            raise ValidationException(f"idle_timeout must be positive: {idle_timeout!r}")
        return self._but(idle_timeout=millis)

    def with_max_timestamp_ahead(self, max_ahead: Duration) -> WatermarkStrategy[T]:
        """Do not believe timestamps that are further ahead of processing time: they do not move the watermark.

        One record from a clock that is a day ahead would otherwise make all that comes within that day late. Such
        records are passed on with the timestamp they have, the first is named in the log, and the metrics
        `numRecordsAhead` and `maxTimestampAhead` (milliseconds) count them. To drop them, or to send them elsewhere,
        look at them in front of the windows. (Flink has no such thing; in SQL, `WATERMARK FOR ts AS LEAST(ts,
        CURRENT_TIMESTAMP) - INTERVAL …` does it.)

        Raises:
            ValidationException: it is negative or no duration.
        """
        millis = to_millis(max_ahead, "max_ahead")
        if millis < 0:
            raise ValidationException(f"max_ahead must not be negative: {max_ahead!r}")
        return self._but(max_ahead=millis)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration = 1000
    ) -> WatermarkStrategy[T]:
        """Sources of one group stop reading while they are ahead of the slowest by more than the drift."""
        return self._but(
            alignment_group=watermark_group,
            alignment_max_drift=to_millis(max_allowed_watermark_drift, "max_allowed_watermark_drift"),
            alignment_interval=to_millis(update_interval, "update_interval"),
        )

    def with_emit_on_event(self) -> WatermarkStrategy[T]:
        """A watermark right behind each record that advances it (SQL: 'scan.watermark.emit.strategy'='on-event')."""
        return self._but(emit_on_event=True)

    def without_watermarks(self) -> WatermarkStrategy[T]:
        """The same timestamps, and no watermark before the end of the input: what batch mode makes of a strategy."""
        return self._but(
            generator=NoWatermarks, idle_timeout=None, emit_on_event=False, max_ahead=None, alignment_group=None
        )

    def __repr__(self) -> str:
        idle = f", idle after {self.idle_timeout} ms" if self.idle_timeout else ""
        return f"WatermarkStrategy({self.text}{idle})"


def _two_arguments(function: Callable[..., Any]) -> Callable[[Any, int | None], Any]:
    """The function as one of (value, previous timestamp)."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda value, _: function(value)
    try:
        signature.bind(None, None)
        return function
    except TypeError:
        return lambda value, _: function(value)


class Tracker(Protocol):
    """Timestamps and watermarks of one stream or one split: a strategy at work.

    `stamp` gives the timestamps of a batch, `observe` the positions behind which a watermark has to stand at once,
    `advance` the watermark that is due at a periodic tick.
    """

    #: The last watermark that was given, epoch ms.
    emitted: int

    @property
    def by_records_only(self) -> bool:
        """Whether the watermark moves only when records come."""
        ...

    @property
    def reached(self) -> int:
        """How far event time has come, also where no watermark said so yet; epoch ms."""
        ...

    def resume(self, emitted: int, reached: int) -> None:
        """Go on where another tracker of the same split was: no watermark goes back behind `emitted`."""
        ...

    def stamp(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> Sequence[int | None] | None:
        """The timestamps that the records get."""
        ...

    def observe(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> list[tuple[int, int]]:
        """Take note of a batch; gives (position, watermark) pairs: the watermark stands behind record `position`."""
        ...

    def advance(self) -> int | None:
        """The watermark to emit at a periodic tick, or None where it has not advanced."""
        ...


class WatermarkTracker:
    """The tracker of a strategy that asks functions about each record.

    Attributes:
        ahead: how many records were too far ahead of processing time to move the watermark.
        furthest: how far ahead the furthest of them was, milliseconds.
    """

    __slots__ = (
        "_assigner",
        "_bounded",
        "_generator",
        "_max_ahead",
        "_now",
        "_on_event",
        "_plain",
        "ahead",
        "emitted",
        "furthest",
    )

    _INT: Final = {int}

    def __init__(self, strategy: WatermarkStrategy[Any], now: Callable[[], int]) -> None:
        self._now = now
        self._max_ahead = strategy.max_ahead
        self.ahead = 0
        self.furthest = 0
        self._assigner = strategy.assigner
        self._generator = strategy.generator()
        self._bounded = self._generator if type(self._generator) is BoundedOutOfOrderness else None
        self._plain = type(self._generator) in (BoundedOutOfOrderness, NoWatermarks)
        self._on_event = strategy.emit_on_event
        self.emitted = MIN_TIMESTAMP

    @property
    def by_records_only(self) -> bool:
        """Whether the watermark moves only when records come."""
        return self._plain

    @property
    def reached(self) -> int:
        """How far event time has come, also where no watermark said so yet; epoch ms."""
        if self._bounded is not None:
            mark = self._bounded.on_periodic()
            return self.emitted if mark is None else max(mark, self.emitted)
        return self.emitted

    def resume(self, emitted: int, reached: int) -> None:
        """Go on where another tracker of the same split was: no watermark goes back behind `emitted`."""
        self.emitted = emitted
        if self._bounded is not None and reached > MIN_TIMESTAMP:
            self._bounded.newest = max(self._bounded.newest, reached + self._bounded.delay + 1)

    def stamp(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> Sequence[int | None] | None:
        """The timestamps that the records get.

        Raises:
            ValidationException: the assigner gave something that is no instant; the record is in the message.
        """
        assigner = self._assigner
        if assigner is None:
            return timestamps
        if timestamps is None:
            stamped = [assigner(v, None) for v in values]
        else:
            stamped = list(map(assigner, values, timestamps))
        if set(map(type, stamped)) != self._INT:
            stamped = [self._convert(t, v) for t, v in zip(stamped, values)]
        return stamped

    @staticmethod
    def _convert(timestamp: Any, value: Any) -> int:
        try:
            return to_epoch_millis(timestamp)
        except ValidationException as e:
            raise ValidationException(f"timestamp assigner: {e}; record: {value!r}") from None

    def observe(self, values: Sequence[Any], timestamps: Sequence[int | None] | None) -> list[tuple[int, int]]:
        """Take note of a batch; gives (position, watermark) pairs: the watermark stands behind record `position`.

        Periodic strategies give none; `advance` is theirs.
        """
        if timestamps is None or not values:
            return []
        if self._max_ahead is not None:
            timestamps = self._believed(values, timestamps, self._now(), self._max_ahead)
        if self._plain and not self._on_event:
            if self._bounded is not None:
                known: Any = timestamps if None not in timestamps else [t for t in timestamps if t is not None]
                if known:
                    self._bounded.on_batch(known)
                    if self._bounded.newest > MAX_TIMESTAMP:
                        self._convert(max(known), values[timestamps.index(max(known))])  # refuses it
            return []
        cuts: list[tuple[int, int]] = []
        on_event, on_periodic = self._generator.on_event, self._generator.on_periodic
        for i, (value, timestamp) in enumerate(zip(values, timestamps)):
            if timestamp is None:
                continue
            mark = on_event(value, timestamp)
            if mark is None and self._on_event:
                mark = on_periodic()
            if mark is not None and mark > self.emitted:
                self.emitted = mark
                cuts.append((i, mark))
        return cuts

    def _believed(
        self, values: Sequence[Any], timestamps: Sequence[int | None], now: int, max_ahead: int
    ) -> Sequence[int | None]:
        """The timestamps, without those that are too far ahead of `now`."""
        limit = now + max_ahead
        far = [i for i, t in enumerate(timestamps) if t is not None and t > limit]
        if not far:
            return timestamps
        if not self.ahead:
            _log.warning(
                "a timestamp is %d ms ahead of the clock, and no more than %d ms are believed: it does not move the "
                "watermark, nor will others like it; record: %.200r",
                (timestamps[far[0]] or 0) - now,
                max_ahead,
                values[far[0]],
            )
        self.ahead += len(far)
        believed = list(timestamps)
        for i in far:
            self.furthest = max(self.furthest, (believed[i] or 0) - now)
            believed[i] = None
        return believed

    def advance(self) -> int | None:
        """The watermark to emit at a periodic tick, or None where it has not advanced."""
        mark = self._generator.on_periodic()
        if mark is None or mark <= self.emitted or mark == MAX_TIMESTAMP:
            return None
        self.emitted = mark
        return mark
