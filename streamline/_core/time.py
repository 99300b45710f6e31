"""Time: the system's clock, durations and epoch milliseconds. The only module that asks what time it is."""

from __future__ import annotations

import asyncio
import datetime as _dt
import re
import time as _time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from streamline.errors import ValidationException

__all__ = (
    "Clock",
    "Duration",
    "SystemClock",
    "TimerHandle",
    "default_clock",
    "from_epoch_millis",
    "perf_counter",
    "set_default_clock",
    "sleep",
    "to_epoch_millis",
    "to_millis",
    "yield_now",
)

#: What a duration argument takes: a timedelta, text such as '10 s', or whole milliseconds.
Duration: TypeAlias = "_dt.timedelta | str | int"

perf_counter: Final = _time.perf_counter


class TimerHandle(Protocol):
    """A scheduled call that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has run or was cancelled."""
        ...


class Clock(Protocol):
    """Where processing time comes from. Tests run on a virtual one that jumps from timer to timer."""

    def now(self) -> int:
        """Processing time, epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for intervals."""
        ...

    def call_at(self, when: int, callback: Callable[[], object]) -> TimerHandle:
        """Call `callback` on the running event loop at `when` (epoch ms), soon where that has passed."""
        ...


class SystemClock:
    """The machine's clock on the running asyncio loop."""

    __slots__ = ()

    def now(self) -> int:
        return _time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return _time.monotonic()

    def call_at(self, when: int, callback: Callable[[], object]) -> TimerHandle:
        delay = (when * 1_000_000 - _time.time_ns()) / 1e9
        return asyncio.get_running_loop().call_later(max(0.0, delay), callback)


class _DefaultClock:
    clock: Clock = SystemClock()


def default_clock() -> Clock:
    """The clock of an environment for which none was given: the system's, or what a test has put in its place."""
    return _DefaultClock.clock


def set_default_clock(clock: Clock | None) -> Clock:
    """Put another default clock in place (None: the system's) and give back the one before. For test kits."""
    before = _DefaultClock.clock
    _DefaultClock.clock = SystemClock() if clock is None else clock
    return before


async def sleep(clock: Clock, milliseconds: float) -> None:
    """Wait on the given clock."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    handle = clock.call_at(clock.now() + max(0, round(milliseconds)), wake)
    try:
        await future
    finally:
        handle.cancel()


async def yield_now() -> None:
    """Let everything else on the loop that is ready run once."""
    await asyncio.sleep(0)


_EPOCH: Final = _dt.datetime(1970, 1, 1, tzinfo=_dt.UTC)
_MILLISECOND: Final = _dt.timedelta(milliseconds=1)
_TIME_LIMIT: Final = 1 << 63


def to_epoch_millis(value: Any) -> int:
    """Epoch milliseconds of an int (taken as such) or an aware datetime.

    Raises:
        ValidationException: a naive datetime, whose instant nobody knows, an int beyond 64 bits, or another type.
    """
    if type(value) is int:
        if -_TIME_LIMIT <= value < _TIME_LIMIT:
            return value
        raise ValidationException(f"a timestamp has to fit 64 bits (epoch milliseconds), and {value!r} does not")
    if isinstance(value, _dt.datetime):
        if value.tzinfo is None:
            raise ValidationException(
                f"a timestamp has to be an int (epoch milliseconds) or an aware datetime; {value!r} is naive: "
                "give it a time zone, e.g. .replace(tzinfo=timezone.utc)"
            )
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, int) and not isinstance(value, bool):
        return to_epoch_millis(int(value))
    raise ValidationException(
        f"a timestamp has to be an int (epoch milliseconds) or an aware datetime, not {type(value).__name__}: {value!r}"
    )


def from_epoch_millis(millis: int) -> _dt.datetime:
    """The aware UTC datetime of epoch milliseconds."""
    return _EPOCH + _dt.timedelta(milliseconds=millis)


_UNITS: Final = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 6e4),
    **dict.fromkeys(("h", "hour", "hours"), 3.6e6),
    **dict.fromkeys(("d", "day", "days"), 8.64e7),
}
_TEXT: Final = re.compile(r"\s*(-?\d+)\s*([a-zA-Zµ]*)\s*")
_ISO: Final = re.compile(
    r"\s*([-+])?P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d{0,9})?)S)?)?\s*",
    re.IGNORECASE,
)


def to_millis(duration: Duration, what: str = "a duration") -> int:
    """Whole milliseconds of a timedelta, of text (`'10 s'`, `'500ms'`, `'PT1M'`) or of an int of milliseconds.

    Raises:
        ValidationException: text that is no duration, or another type; `what` says which argument it was.
    """
    if isinstance(duration, _dt.timedelta):
        return duration // _MILLISECOND
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    if isinstance(duration, str):
        if (m := _TEXT.fullmatch(duration)) and m[2].lower() in _UNITS:
            return int(int(m[1]) * _UNITS[m[2].lower()])
        if (m := _ISO.fullmatch(duration)) and any(m.groups()[1:]):
            days, hours, minutes, seconds = (float(g or 0) for g in m.groups()[1:])
            millis = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
            return -millis if m[1] == "-" else millis
        raise ValidationException(f"{what} is no duration: {duration!r}; write e.g. '10 s', '500 ms', '1 min', 'PT5M'")
    raise ValidationException(f"{what} has to be a timedelta, text or milliseconds, not {type(duration).__name__}")
