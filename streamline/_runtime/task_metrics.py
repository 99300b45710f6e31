"""What every task measures, by Flink's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from streamline._channel.output import ChannelOutput
from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._core.time import Clock, perf_counter
from streamline._runtime.metrics import MetricGroup

__all__ = ("PerSecond", "Waiting", "combined", "register_task_metrics")

#: Seconds that a rate is about.
_WINDOW: Final = 60.0


@final
class PerSecond:
    """How fast something grows, over the last minute. It costs nothing until somebody looks, which is remembered."""

    __slots__ = ("_marks", "_now", "_total")

    def __init__(self, total: Callable[[], float], now: Callable[[], float]) -> None:
        """
        Args:
            total: what only grows.
            now: seconds of a clock that never goes back.
        """
        self._total = total
        self._now = now
        self._marks = deque([(now(), total())])

    def __call__(self) -> float:
        """Growth a second since the look that was a minute ago, or since the beginning."""
        now, total, marks = self._now(), self._total(), self._marks
        while len(marks) > 1 and now - marks[1][0] >= _WINDOW:
            marks.popleft()
        since, before = marks[0]
        if now - marks[-1][0] >= 1.0:
            marks.append((now, total))
        return (total - before) / (now - since) if now > since else 0.0


@final
class Waiting:
    """How long a task has waited for something to do; `with waiting:` around each time."""

    __slots__ = ("_since", "_waited")

    def __init__(self) -> None:
        self._waited = 0.0
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = perf_counter()

    def __exit__(self, *error: object) -> None:
        if self._since is not None:
            self._waited += perf_counter() - self._since
            self._since = None

    def seconds(self) -> float:
        """In all, with what goes on now."""
        return self._waited + (0.0 if self._since is None else perf_counter() - self._since)


def register_task_metrics(
    metrics: MetricGroup,
    clock: Clock,
    output: ChannelOutput,
    waiting: Waiting,
    records_in: Callable[[], int] | None = None,
) -> None:
    """Records and what the task's time goes into; a source has no `records_in`.

    Of each second a task is idle while it waits for input, back-pressured while its consumers have no room, and busy
    for the rest, which includes its turn in the event loop.
    """
    if records_in is not None:
        metrics.gauge("numRecordsIn", records_in)
        metrics.gauge("numRecordsInPerSecond", PerSecond(records_in, clock.monotonic))
    metrics.gauge("numRecordsOut", lambda: output.records)
    metrics.gauge("numRecordsOutPerSecond", PerSecond(lambda: output.records, clock.monotonic))
    metrics.gauge("currentOutputWatermark", lambda: output.emitted)
    metrics.gauge("watermarkLag", lambda: _lag(output.emitted, clock))
    metrics.gauge("backPressuredTimeMs", lambda: round(output.waited * 1000))
    idle = PerSecond(lambda: waiting.seconds() * 1000, perf_counter)
    pressed = PerSecond(lambda: output.waited * 1000, perf_counter)
    metrics.gauge("idleTimeMsPerSecond", lambda: _share(idle()))
    metrics.gauge("backPressuredTimeMsPerSecond", lambda: _share(pressed()))
    metrics.gauge("busyTimeMsPerSecond", lambda: _share(1000 - idle() - pressed()))


def _share(milliseconds: float) -> float:
    return min(1000.0, max(0.0, milliseconds))


def _lag(watermark: int | None, clock: Clock) -> int | None:
    """How far event time is behind the clock, ms; None before the first watermark and behind the last."""
    if watermark is None or watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        return None
    return clock.now() - watermark


def combined(name: str, one: Any, other: Any) -> Any:
    """The value of a metric over two subtasks."""
    if not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
        return other if one is None else one
    if "Watermark" in name:
        return min(one, other)
    if name.endswith(("TimeMsPerSecond", "Lag")):
        return max(one, other)
    return one + other
