"""Metrics: groups, and exporters in modules of their own.

`streamline.metrics.prometheus` and `streamline.metrics.opentelemetry` need the extras of those names.

Built-in metrics have Flink's names where Flink has them: of an operator's subtask numRecordsIn, numRecordsOut and what
they are PerSecond, currentInputWatermark, currentOutputWatermark, watermarkLag (ms), numLateRecordsDropped,
numStateEntries, backPressuredTimeMs, and idle-, busy- and backPressuredTimeMsPerSecond; of a job
lastCheckpointDuration, lastCheckpointSize, lastCheckpointFullSize, numberOfCompletedCheckpoints, numRestarts and
loopLagMs.
"""

from __future__ import annotations

from streamline._runtime.metrics import Counter, Gauge, Histogram, Meter, MetricGroup

__all__ = ("Counter", "Gauge", "Histogram", "Meter", "MetricGroup")
