"""The time slice: how the tasks of a job share the event loop with the service they live in.

A slice begins with the first step of a task after the loop was free, and ends for all tasks of the job together. Then
the loop goes round a few times without them, so that what is due meanwhile, the tasks that it wakes, and what those
wake in turn have run before the next slice begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from streamline._channel.channel import CAPACITY
from streamline._core.time import perf_counter

__all__ = ("BatchLimit", "TimeSlice")

#: The part of a slice after which nothing more is begun; one batch, or one step between two looks, fits in the rest.
_BEGIN: Final = 0.75
#: Rounds of the loop between two slices.
_ROUNDS: Final = 3


@final
class TimeSlice:
    """One for all tasks of a job: they hold the loop for so long together, then others have their turn."""

    __slots__ = (
        "_alarm",
        "_begun",
        "_lapses",
        "_passed_over",
        "_rounds",
        "_waiting",
        "deadline",
        "holder",
        "now",
        "seconds",
    )

    def __init__(self, milliseconds: float = 5.0, now: Callable[[], float] | None = None) -> None:
        """`now` gives seconds in place of the machine's counter: for tests that count steps."""
        self.seconds = max(milliseconds, 0.1) / 1000
        self.now: Final = now or perf_counter
        #: When it is used up, seconds of `now`.
        self.deadline = 0.0
        #: Name of the operator that was given records last.
        self.holder = ""
        #: A slice has begun, and it is not known that the loop has been free since.
        self._begun = False
        self._lapses: Final = now is None
        self._alarm: asyncio.TimerHandle | None = None
        #: Rounds until the next slice; None: nobody waits for it.
        self._rounds: int | None = None
        self._waiting: list[asyncio.Future[None]] = []
        #: They have waited before, and others have used up the slice they waited for.
        self._passed_over: list[asyncio.Future[None]] = []

    async def check(self) -> None:
        """Let others have the loop where the slice is used up."""
        if self.now() >= self.deadline:
            await self._next()

    async def _next(self) -> None:
        waiting = self._waiting
        while self._begun or self._rounds is not None:
            loop = asyncio.get_running_loop()
            if self._rounds is None:
                self._rounds = _ROUNDS
                loop.call_soon(self._round, loop)
            waiter: asyncio.Future[None] = loop.create_future()
            waiting.append(waiter)
            await waiter
            if self.now() < self.deadline:
                return
            waiting = self._passed_over
        self._begin()

    def _begin(self) -> None:
        self._begun = True
        usable = self.seconds * _BEGIN
        self.deadline = self.now() + usable
        if self._lapses:
            # Where this is called before anybody waits, the loop was free: a task that comes later need not wait.
            self._alarm = asyncio.get_running_loop().call_later(usable, self._lapse)

    def _lapse(self) -> None:
        if self._rounds is None:
            self._begun = False

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop has gone round once."""
        assert self._rounds is not None
        self._rounds -= 1
        if self._rounds:
            loop.call_soon(self._round, loop)
            return
        self._rounds = None
        self._begun = False  # by the first of those who wait, when its turn comes: others may hold the loop before
        self.deadline = 0.0
        if self._alarm is not None:
            self._alarm.cancel()
        waiters = self._passed_over + self._waiting
        self._passed_over.clear()
        self._waiting.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


@final
class BatchLimit:
    """How many records one subtask takes at a time: as many as fit in a quarter of a slice at the speed seen last."""

    __slots__ = ("_target", "records")

    _MAX: Final = CAPACITY
    #: Before any speed was seen.
    _FIRST: Final = 64

    def __init__(self, time_slice: TimeSlice) -> None:
        self._target = time_slice.seconds * (1 - _BEGIN)
        self.records = self._FIRST

    def observe(self, records: int, seconds: float) -> None:
        """A batch of so many records has taken so long (time spent waiting for room left out)."""
        if seconds > self._target:
            self.records = max(1, int(records * self._target / seconds))
        elif self.records < self._MAX and seconds < self._target / 2:
            self.records = min(self._MAX, self.records * 2)
