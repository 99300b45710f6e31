"""A clock for tests: time stands still while anything can run, and then jumps to the next timer."""

from __future__ import annotations

import asyncio
import contextvars
import datetime as _dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from typing import Final

from streamline._core.time import Duration, from_epoch_millis, set_default_clock, sleep, to_epoch_millis, to_millis
from streamline.errors import StreamlineError, ValidationException
from streamline.testing.quiescence import Quiescence

__all__ = ("VirtualClock",)

_START: Final = _dt.datetime(2024, 1, 1, tzinfo=_dt.UTC)


class VirtualClock:
    """Processing time under a test's control.

    With `autojump` the clock goes to the next timer as soon as everything on the event loop waits: an hour's timeout is
    over at once, and in the same order each time. Without it time only moves by `advance`. Timers of one instant run in
    the order in which they were set, and the graph goes quiet before the clock moves on.

    The clock belongs to the event loop on which it was first asked for a timer, until that loop is closed.

    Args:
        start: what it says at first: epoch milliseconds, an aware datetime, or ISO text such as
            `"2024-05-01T11:00:02Z"`. Default: 2024-01-01 UTC.
        autojump: whether it jumps by itself.
    """

    def __init__(self, start: int | str | _dt.datetime = _START, *, autojump: bool = True) -> None:
        self._now = _instant(start)
        self._origin = self._now
        self._autojump = autojump
        self._timers: list[tuple[int, int, _Timer]] = []
        self._sequence = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._advancing = 0
        self._tidy_at = 256
        #: How often the clock has jumped by itself.
        self.jumps = 0

    # -- the contract of a clock --

    def now(self) -> int:
        """Processing time, epoch milliseconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the start."""
        return (self._now - self._origin) / 1000

    def call_at(self, when: int, callback: Callable[[], object]) -> _Timer:
        """Call `callback` on the running loop when the clock has reached `when` (epoch ms); soon where it has."""
        loop = self._bind()
        timer = _Timer(callback)
        if when <= self._now:
            timer.start(loop)
        else:
            self._sequence += 1
            if len(self._timers) >= self._tidy_at:
                self._tidy()
            heappush(self._timers, (when, self._sequence, timer))
            if self._autojump:
                self._watch()
        return timer

    # -- for tests --

    @property
    def datetime(self) -> _dt.datetime:
        """The time as an aware datetime in UTC."""
        return from_epoch_millis(self._now)

    @property
    def autojump(self) -> bool:
        """Whether the clock jumps by itself; may be changed at any time."""
        return self._autojump

    @autojump.setter
    def autojump(self, value: bool) -> None:
        self._autojump = value
        if value and self._timers and self._loop is not None and not self._loop.is_closed():
            self._watch()

    def next_timer(self) -> int | None:
        """When the next timer is due (epoch ms), or None where none is set."""
        timers = self._timers
        while timers and timers[0][2].cancelled:
            heappop(timers)
        return timers[0][0] if timers else None

    def set_time(self, when: int | str | _dt.datetime) -> None:
        """Let the clock stand at `when`. Timers that become due run soon; use `advance` to let them run in order.

        Raises:
            ValidationException: that would go back while timers are set.
        """
        millis = _instant(when)
        if millis < self._now and self.next_timer() is not None:
            raise ValidationException(f"{millis} is before {self._now}, and timers are set: time does not go back")
        self._now = millis
        self._origin = min(self._origin, millis)
        self._fire()

    async def advance(self, duration: Duration) -> None:
        """Let time pass: run every timer that becomes due at its own instant, and wait for quiet after each.

        Args:
            duration: a timedelta, text such as '10 s', or milliseconds; 0 only waits for quiet.

        Raises:
            ValidationException: the duration is negative.
        """
        millis = to_millis(duration, "duration")
        if millis < 0:
            raise ValidationException(f"time does not go back: {duration!r}")
        self._bind()
        target = self._now + millis
        quiet = Quiescence.of()
        self._advancing += 1
        try:
            await quiet.wait()
            while (due := self.next_timer()) is not None and due <= target:
                self._now = max(due, self._now)
                self._fire()
                await quiet.wait()
            self._now = max(target, self._now)
        finally:
            self._advancing -= 1
            if self._autojump and self._timers:
                self._watch()

    async def settle(self) -> None:
        """Wait until the graph has gone quiet; time stands still meanwhile."""
        self._bind()
        await Quiescence.of().wait()

    async def sleep(self, duration: Duration) -> None:
        """Wait until so much virtual time has passed."""
        await sleep(self, to_millis(duration, "duration"))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While open the clock does not jump: something outside of the loop (a process, a thread) is waited for."""
        with Quiescence.of(self._bind()).hold():
            yield

    @contextmanager
    def as_default(self) -> Iterator[VirtualClock]:
        """While open it is the clock of environments for which none is given."""
        before = set_default_clock(self)
        try:
            yield self
        finally:
            set_default_clock(before)

    def __repr__(self) -> str:
        return f"<VirtualClock {self.datetime.isoformat()}, {len(self._timers)} timers>"

    # -- the works --

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise StreamlineError("this VirtualClock belongs to another event loop, which is still open")
            self._loop = loop
            self._timers.clear()
        return loop

    def _watch(self) -> None:
        detector = Quiescence.of(self._loop)
        detector.add_idler(self._jump)
        detector.watch()

    def _jump(self) -> bool:
        """The loop is quiet: go to the next timer. Whether to look out for the next quiet."""
        due = self.next_timer()
        if due is None or not self._autojump or self._advancing:
            Quiescence.of(self._loop).remove_idler(self._jump)
            return False
        self._now = max(due, self._now)
        self.jumps += 1
        self._fire()
        return True

    def _tidy(self) -> None:
        # Cancelled timers stay in the heap until their time comes, and time may stand for long.
        self._timers = [entry for entry in self._timers if not entry[2].cancelled]
        heapify(self._timers)
        self._tidy_at = 2 * len(self._timers) + 256

    def _fire(self) -> None:
        while (due := self.next_timer()) is not None and due <= self._now:
            timer = heappop(self._timers)[2]
            assert self._loop is not None
            timer.start(self._loop)


class _Timer:
    """A call that is due some time; cancelling it is harmless at any time."""

    __slots__ = ("_callback", "_context", "_handle", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._context = contextvars.copy_context()
        self._handle: asyncio.Handle | None = None
        self.cancelled = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._handle = loop.call_soon(self._callback, context=self._context)

    def cancel(self) -> None:
        self.cancelled = True
        if self._handle is not None:
            self._handle.cancel()


def _instant(when: int | str | _dt.datetime) -> int:
    if isinstance(when, str):
        try:
            when = _dt.datetime.fromisoformat(when)
        except ValueError:
            raise ValidationException(f"{when!r} is no time; write e.g. '2024-05-01T11:00:02Z'") from None
    return to_epoch_millis(when)
