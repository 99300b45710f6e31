"""Metrics: counters, meters, histograms and gauges in a tree of groups."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, final

from streamline._core.time import Clock, default_clock

__all__ = ("Counter", "Gauge", "Histogram", "Meter", "MetricGroup")

_log = logging.getLogger("streamline.metrics")
M = TypeVar("M")


@final
class Counter:
    """A number that is added to."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add n."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Take n away."""
        self._count -= n

    def get_count(self) -> int:
        """The number."""
        return self._count


@final
class Meter:
    """Events a second over the last minute."""

    __slots__ = ("_clock", "_count", "_marks", "_started")

    _WINDOW: Final = 60.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._started = clock.monotonic()
        self._marks: deque[tuple[float, int]] = deque()

    def mark_event(self, n: int = 1) -> None:
        """n events happened now."""
        self._count += n
        now = self._clock.monotonic()
        marks = self._marks
        if marks and now - marks[-1][0] < 1.0:
            marks[-1] = (marks[-1][0], marks[-1][1] + n)
        else:
            marks.append((now, n))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._marks and now - self._marks[0][0] > self._WINDOW:
            self._marks.popleft()

    def get_rate(self) -> float:
        """Events a second."""
        now = self._clock.monotonic()
        self._forget(now)
        span = min(self._WINDOW, max(now - self._started, 1.0))
        return sum(n for _, n in self._marks) / span

    def get_count(self) -> int:
        """Events in all."""
        return self._count


@final
class Histogram:
    """A distribution over the last 2048 numbers; count, min, max and mean are over all of them."""

    __slots__ = ("_count", "_max", "_min", "_recent", "_sum")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=2048)
        self._count = 0
        self._sum = 0.0
        self._min = float("inf")
        self._max = float("-inf")

    def update(self, n: float) -> None:
        """Take note of a number."""
        self._recent.append(n)
        self._count += 1
        self._sum += n
        self._min = min(self._min, n)
        self._max = max(self._max, n)

    def get_count(self) -> int:
        """Numbers seen in all."""
        return self._count

    def get_statistics(self) -> Mapping[str, float]:
        """count, min, max, mean, p50, p95, p99, p999; empty without a number."""
        if not self._count:
            return {}
        ordered = sorted(self._recent)

        def quantile(q: float) -> float:
            return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

        return {
            "count": float(self._count),
            "min": self._min,
            "max": self._max,
            "mean": self._sum / self._count,
            "p50": quantile(0.5),
            "p95": quantile(0.95),
            "p99": quantile(0.99),
            "p999": quantile(0.999),
        }


@final
class Gauge:
    """A value that is read when somebody looks."""

    __slots__ = ("_value",)

    def __init__(self, value: Callable[[], Any]) -> None:
        self._value = value

    def get_value(self) -> Any:
        """What the function gives now."""
        return self._value()


@final
class MetricGroup:
    """A node in the tree of metrics. Names are unique in a group: the first keeps it, a second one gets a warning."""

    __slots__ = ("_clock", "_groups", "_metrics", "name", "variables")

    def __init__(self, name: str, clock: Clock | None = None, variables: Mapping[str, str] | None = None) -> None:
        self.name = name
        #: What tells this group apart, e.g. {"operator": "map", "subtask": "0"}; exporters make labels of it.
        self.variables = dict(variables or {})
        self._clock = clock or default_clock()
        self._metrics: dict[str, Counter | Meter | Histogram | Gauge] = {}
        self._groups: dict[str, MetricGroup] = {}

    def _add(self, name: str, make: Callable[[], M], kind: type[M]) -> M:
        there = self._metrics.get(name)
        if there is None:
            made = make()
            self._metrics[name] = made  # type: ignore[assignment]
            return made
        if isinstance(there, kind):
            return there
        _log.warning("metric %s.%s is a %s already; the new one is not reported", self.name, name, type(there).__name__)
        return make()

    def counter(self, name: str) -> Counter:
        """A counter of that name."""
        return self._add(name, Counter, Counter)

    def meter(self, name: str) -> Meter:
        """A meter of that name."""
        return self._add(name, lambda: Meter(self._clock), Meter)

    def distribution(self, name: str) -> Histogram:
        """A histogram of that name (PyFlink's word)."""
        return self.histogram(name)

    def histogram(self, name: str) -> Histogram:
        """A histogram of that name."""
        return self._add(name, Histogram, Histogram)

    def gauge(self, name: str, value: Callable[[], Any]) -> Gauge:
        """A gauge of that name; a later one of the same name takes its place."""
        self._metrics.pop(name, None) if isinstance(self._metrics.get(name), Gauge) else None
        return self._add(name, lambda: Gauge(value), Gauge)

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group below; with `extra` the pair is a variable (label) of it."""
        key = name if extra is None else f"{name}.{extra}"
        if key not in self._groups:
            variables = dict(self.variables)
            if extra is not None:
                variables[name] = extra
            self._groups[key] = MetricGroup(key, self._clock, variables)
        return self._groups[key]

    def get_metric_identifier(self, name: str) -> str:
        """The full name of a metric in this group."""
        return f"{self.name}.{name}"

    @property
    def metrics(self) -> Mapping[str, Counter | Meter | Histogram | Gauge]:
        """The metrics of this group by name."""
        return self._metrics

    @property
    def groups(self) -> Mapping[str, MetricGroup]:
        """The groups below by name."""
        return self._groups

    def walk(self) -> Iterator[tuple[MetricGroup, str, Counter | Meter | Histogram | Gauge]]:
        """Every metric here and below, with its group and name."""
        for name, metric in self._metrics.items():
            yield self, name, metric
        for group in self._groups.values():
            yield from group.walk()


def value_of(metric: Counter | Meter | Histogram | Gauge) -> Any:
    """A metric's value as plain data."""
    if isinstance(metric, Counter):
        return metric.get_count()
    if isinstance(metric, Meter):
        return metric.get_rate()
    if isinstance(metric, Histogram):
        return dict(metric.get_statistics())
    return metric.get_value()
