"""What exporters have in common: the metrics of jobs as flat samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from streamline._runtime.metrics import Counter, Histogram, Meter, MetricGroup, value_of

__all__ = ("Jobs", "MetricSource", "Sample")


class MetricSource(Protocol):
    """Something with a tree of metrics: a JobClient."""

    @property
    def metric_group(self) -> MetricGroup:
        """The root of the tree."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One number.

    Attributes:
        name: `streamline_` and the metric's name, made of letters, digits and `_`.
        kind: "counter" only grows, "gauge" is what it is now.
        labels: the variables of its group (job, operator, subtask) and, of a histogram, `stat`.
        value: the number.
    """

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[tuple[str, str], ...]
    value: float


#: Built-in gauges that only grow; dashboards take rates of them.
_TOTALS = frozenset(("numRecordsIn", "numRecordsOut", "backPressuredTimeMs"))


class Jobs:
    """The jobs whose metrics are exported."""

    def __init__(self) -> None:
        self._sources: list[MetricSource] = []

    def add(self, job: MetricSource) -> None:
        """Export this job's metrics from now on."""
        if job not in self._sources:
            self._sources.append(job)

    def remove(self, job: MetricSource) -> None:
        """Export them no longer."""
        if job in self._sources:
            self._sources.remove(job)

    def samples(self) -> Iterator[Sample]:
        """All numbers there are now; what is no number (or not known yet) is left out."""
        for source in self._sources:
            for group, name, metric in source.metric_group.walk():
                yield from _of(group, name, metric)


def _of(group: MetricGroup, name: str, metric: Any) -> Iterator[Sample]:
    labels = tuple((_word(k), v) for k, v in group.variables.items())
    full = f"streamline_{_word(name)}"
    if isinstance(metric, Histogram):
        for stat, value in metric.get_statistics().items():
            yield Sample(full, "gauge", (*labels, ("stat", stat)), value)
        return
    if isinstance(metric, Meter):
        yield Sample(full, "counter", labels, float(metric.get_count()))
        yield Sample(f"{full}_rate", "gauge", labels, metric.get_rate())
        return
    value = value_of(metric)
    if isinstance(value, (int, float)):
        grows = isinstance(metric, Counter) or name in _TOTALS
        yield Sample(full, "counter" if grows else "gauge", labels, float(value))


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text)
