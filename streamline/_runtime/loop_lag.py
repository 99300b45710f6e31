"""How long the event loop is held: measured all the time, and whoever holds it too long is named."""

from __future__ import annotations

import logging
from typing import Final, final

from streamline._core.time import SystemClock, TimerHandle, perf_counter
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.slice import TimeSlice

__all__ = ("LoopLag",)

_log = logging.getLogger("streamline.loop")


@final
class LoopLag:
    """A probe: asks to be called each interval, and sees how much later that is.

    A virtual clock has no lag to measure; the probe is for jobs on the system's clock.
    """

    __slots__ = ("_alarm", "_clock", "_due", "_histogram", "_slice", "_warned")

    _INTERVAL: Final = 50
    _WARN_SECONDS: Final = 0.2

    def __init__(self, metrics: MetricGroup, time_slice: TimeSlice) -> None:
        self._clock = SystemClock()
        self._histogram = metrics.histogram("loopLagMs")
        self._slice = time_slice
        self._warned: set[str] = set()
        self._due = 0.0
        self._alarm: TimerHandle | None = None

    def start(self) -> None:
        """Measure until `stop`."""
        self._due = perf_counter() + self._INTERVAL / 1000
        self._alarm = self._clock.call_at(self._clock.now() + self._INTERVAL, self._ring)

    def stop(self) -> None:
        """No more."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _ring(self) -> None:
        lag = max(0.0, perf_counter() - self._due)
        self._histogram.update(lag * 1000)
        holder = self._slice.holder
        if lag > self._WARN_SECONDS and holder not in self._warned:
            self._warned.add(holder)
            _log.warning(
                "the event loop was held for %d ms, last by operator %r; blocking work belongs in a thread "
                "(asyncio.to_thread) or an async function",
                round(lag * 1000),
                holder,
            )
        self.start()
