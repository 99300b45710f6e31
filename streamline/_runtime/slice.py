"""The time slice: how the tasks of a job share the event loop with the service they live in."""

from __future__ import annotations

from typing import Final, final

from streamline._channel.channel import CAPACITY
from streamline._core.time import perf_counter, yield_now

__all__ = ("BatchLimit", "TimeSlice")


@final
class TimeSlice:
    """One for all tasks of a job: they may hold the loop for so long together before one of them lets others run."""

    __slots__ = ("deadline", "holder", "seconds")

    def __init__(self, milliseconds: float = 5.0) -> None:
        self.seconds = milliseconds / 1000
        #: When it is used up, perf_counter seconds.
        self.deadline = 0.0
        #: Name of the operator that was given records last.
        self.holder = ""

    async def check(self) -> None:
        """Yield to the loop where the slice is used up."""
        if perf_counter() >= self.deadline:
            await yield_now()
            self.deadline = perf_counter() + self.seconds


@final
class BatchLimit:
    """How many records one subtask takes at a time: as many as fit in half a slice at the speed seen last."""

    __slots__ = ("_target", "records")

    _MAX: Final = CAPACITY

    def __init__(self, time_slice: TimeSlice) -> None:
        self._target = time_slice.seconds / 2
        self.records = self._MAX

    def observe(self, records: int, seconds: float) -> None:
        """A batch of so many records has taken so long (time spent waiting for room left out)."""
        if seconds > self._target:
            self.records = max(1, int(records * self._target / seconds))
        elif self.records < self._MAX and seconds < self._target / 2:
            self.records = min(self._MAX, self.records * 2)
