"""Timers of one subtask: one per key, namespace and time; due ones come in order of time, then of registration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final

from streamline._core.declare import StateSpec
from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._core.time import Clock
from streamline._state.table import MemoryTable
from streamline.abc import Timer
from streamline.errors import StreamlineError

__all__ = ("EVENT_TIMERS", "PROCESSING_TIMERS", "TimerQueue", "Timers")

EVENT_TIMERS: Final = "_timers/event"
PROCESSING_TIMERS: Final = "_timers/processing"
_SPEC: Final = StateSpec(namespaced=True)
#: So many times in a row timers may set further ones that are due at once; then they are taken to have no end.
_ENDLESS: Final = 100_000


class TimerQueue:
    """Timers of one time domain: a bucket for each time, and a heap of the times that have a bucket."""

    __slots__ = ("_heap", "table")

    def __init__(self, name: str) -> None:
        #: {time: {(key, namespace): None}}
        self.table = MemoryTable(name, _SPEC)
        self._heap: list[int] = []

    def add(self, timestamp: int, item: tuple[Any, Any]) -> bool:
        """Register; whether it is the earliest time now and was not there before."""
        data = self.table.data
        bucket = data.get(timestamp)
        if bucket is not None:
            bucket[item] = None
            return False
        data[timestamp] = {item: None}
        heap = self._heap
        heappush(heap, timestamp)
        return heap[0] == timestamp

    def remove(self, timestamp: int, item: tuple[Any, Any]) -> None:
        """Delete; no error where there is none."""
        bucket = self.table.data.get(timestamp)
        if bucket is not None:
            bucket.pop(item, None)

    def next(self) -> int | None:
        """The earliest time that has a timer."""
        heap, data = self._heap, self.table.data
        while heap:
            bucket = data.get(heap[0])
            if bucket:
                return heap[0]
            self._drop_first()
        return None

    def due(self, until: int) -> Iterator[Timer]:
        """Take out timers up to and including `until`; what is registered or deleted meanwhile counts.

        Raises:
            StreamlineError: timers that are due go on setting others that are due: one for its own time again, or, with
                `until` the end of time, each a later one.
        """
        heap, last, again, rounds = self._heap, None, 0, 0
        # At the end of time every later timer is due too. What lies behind the latest of a round was set in that round,
        # by a timer that fired in it: so the number of rounds is how long a chain of them is.
        horizon = until if until < MAX_TIMESTAMP else self._latest()
        while heap and (timestamp := heap[0]) <= until:
            bucket = self.table.data.get(timestamp)
            if not bucket:
                self._drop_first()
                continue
            if timestamp == last:
                again += 1
            else:
                last, again = timestamp, 0
                if timestamp > horizon and timestamp != MAX_TIMESTAMP:
                    horizon = self._latest()
                    rounds += 1
            if again > _ENDLESS or rounds > _ENDLESS:
                raise _endless(timestamp, again > rounds)
            for item in list(bucket):
                if item in bucket:
                    del bucket[item]
                    yield Timer(timestamp, *item)
                    if heap[0] < timestamp:  # the callback registered an earlier one
                        break

    def _latest(self) -> int:
        """The latest time that may have a timer, but for the end of time itself."""
        return max((t for t in self._heap if t != MAX_TIMESTAMP), default=MIN_TIMESTAMP)

    def _drop_first(self) -> None:
        self.table.data.pop(heappop(self._heap), None)

    def rebuild(self) -> None:
        """Order the times anew after the table was filled."""
        self._heap = list(self.table.data)
        heapify(self._heap)

    def __len__(self) -> int:
        return self.table.entries()

    def __iter__(self) -> Iterator[Timer]:
        for timestamp in sorted(self.table.data):
            for item in list(self.table.data[timestamp]):
                yield Timer(timestamp, *item)


def _endless(timestamp: int, same: bool) -> StreamlineError:
    if same:
        return StreamlineError(
            f"a timer for {timestamp} ms sets itself again for that time whenever it fires ({_ENDLESS} times in a "
            "row), so time never goes on: register a later one"
        )
    return StreamlineError(
        f"event time has ended, and timers that fire go on setting later ones ({_ENDLESS} times in a row, now for "
        f"{timestamp} ms), so the job never would: do not register another one where the watermark is {MAX_TIMESTAMP} "
        "(ctx.timer_service().current_watermark() tells)"
    )


class Timers:
    """The TimerService of a keyed operator (see `streamline.abc`).

    A timer is restored in the subtask that owns its key. One with key None and a namespace belongs to no key: every
    subtask that restores from the one that had it gets it.
    """

    __slots__ = ("_clock", "_wake_at", "current_watermark", "event", "processing")

    def __init__(self, clock: Clock, wake_at: Callable[[int], None]) -> None:
        self._clock = clock
        self._wake_at = wake_at
        self.current_watermark: int = MIN_TIMESTAMP
        self.event = TimerQueue(EVENT_TIMERS)
        self.processing = TimerQueue(PROCESSING_TIMERS)

    def current_processing_time(self) -> int:
        """Epoch ms of the job's clock."""
        return self._clock.now()

    def register_event_time(self, key: Any, timestamp: int, namespace: Any = None) -> None:
        """Due once the watermark reaches `timestamp`; where it has already, at the next watermark."""
        self.event.add(timestamp, (key, namespace))

    def delete_event_time(self, key: Any, timestamp: int, namespace: Any = None) -> None:
        """Delete; no error where there is none."""
        self.event.remove(timestamp, (key, namespace))

    def register_processing_time(self, key: Any, timestamp: int, namespace: Any = None) -> None:
        """Due once the clock shows `timestamp`; where it does already, at once."""
        if self.processing.add(timestamp, (key, namespace)):
            self._wake_at(timestamp)

    def delete_processing_time(self, key: Any, timestamp: int, namespace: Any = None) -> None:
        """Delete; no error where there is none."""
        self.processing.remove(timestamp, (key, namespace))
