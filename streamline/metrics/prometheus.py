"""Metrics for Prometheus (extra `prometheus`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamline.metrics._samples import Jobs

try:
    from prometheus_client import REGISTRY
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
except ImportError as e:
    raise ImportError("needs an extra: pip install 'streamline[prometheus]'") from e

__all__ = ("PrometheusExporter",)


class PrometheusExporter(Jobs):
    """A collector: jobs that were added are read when Prometheus scrapes.

    Counters are named as Prometheus wants them, with `_total`. In a service that exposes `prometheus_client` already
    (e.g. `make_asgi_app()`), `PrometheusExporter().add(job)` is all there is to do.
    """

    def __init__(self, registry: Any = REGISTRY) -> None:
        """
        Args:
            registry: where it registers; None: nowhere, for the caller to do.
        """
        super().__init__()
        self._registry = registry
        if registry is not None:
            registry.register(self)

    def close(self) -> None:
        """Leave the registry."""
        if self._registry is not None:
            self._registry.unregister(self)

    def describe(self) -> list[Metric]:
        """Nothing is known before a job was added; also keeps registration from reading anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics as families."""
        families: dict[tuple[str, tuple[str, ...]], Metric] = {}
        for sample in self.samples():
            names = tuple(k for k, _ in sample.labels)
            family = families.get((sample.name, names))
            if family is None:
                make = CounterMetricFamily if sample.kind == "counter" else GaugeMetricFamily
                family = families[sample.name, names] = make(
                    sample.name, f"{sample.name[11:]} of streamline", labels=names
                )
            family.add_metric([v for _, v in sample.labels], sample.value)
        yield from families.values()
