"""Metrics for OpenTelemetry (extra `opentelemetry`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamline.metrics._samples import Jobs, MetricSource

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ImportError as e:
    raise ImportError("needs an extra: pip install 'streamline[opentelemetry]'") from e

__all__ = ("OpenTelemetryExporter",)


class OpenTelemetryExporter(Jobs):
    """Observable instruments on a meter: jobs that were added are read when the SDK collects (names in lower case).

    An instrument is made for each metric's name when it is first seen; `refresh` looks for new ones (metrics that
    functions make when they open), and adding a job does.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        """
        Args:
            meter: of the service's MeterProvider; by default one of the global provider.
        """
        super().__init__()
        self._meter = meter if meter is not None else get_meter("streamline")
        self._instruments: dict[str, Any] = {}

    def add(self, job: MetricSource) -> None:
        super().add(job)
        self.refresh()

    def refresh(self) -> None:
        """Make instruments for metrics that are new."""
        for sample in list(self.samples()):
            if sample.name not in self._instruments:
                make = (
                    self._meter.create_observable_counter
                    if sample.kind == "counter"
                    else self._meter.create_observable_gauge
                )
                self._instruments[sample.name] = make(sample.name, callbacks=[self._reader(sample.name)])

    def _reader(self, name: str) -> Any:
        def read(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(s.value, dict(s.labels)) for s in self.samples() if s.name == name]

        return read
