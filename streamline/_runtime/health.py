"""How a job is doing: its own metrics, and whether it is well, for readiness checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamline._core.time import Clock
from streamline._runtime.checkpointing import Checkpointing
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.outcome import JobStatus

__all__ = ("JobHealth", "health_of", "register_metrics")


@dataclass(frozen=True, slots=True)
class JobHealth:
    """Whether a job is well, and if not, why.

    Attributes:
        status: where it is in its life.
        healthy: it runs, or has finished, and no reason speaks against it.
        reasons: what is wrong, for people.
        restarts: how often it was started again after a failure.
        checkpoint_age: milliseconds since the last complete checkpoint; None where there was none.
        failed_checkpoints: how many have failed since then.
    """

    status: JobStatus
    healthy: bool
    reasons: tuple[str, ...]
    restarts: int
    checkpoint_age: int | None
    failed_checkpoints: int


def health_of(
    status: JobStatus, error: BaseException | None, attempts: int, checkpointing: Checkpointing, clock: Clock
) -> JobHealth:
    """How it is doing now."""
    statistics = checkpointing.coordinator.statistics
    failed = statistics.failed_in_a_row
    reasons = []
    if status not in (JobStatus.RUNNING, JobStatus.FINISHED):
        reasons.append(f"the job is {status.value}")
    if error is not None:
        reasons.append(f"{type(error).__name__}: {error}")
    if failed:
        which = "checkpoint" if failed == 1 else f"{failed} checkpoints"
        reasons.append(f"the last {which} failed: {statistics.last_failure}")
    return JobHealth(status, not reasons, tuple(reasons), max(0, attempts - 1), _age(checkpointing, clock), failed)


def register_metrics(
    metrics: MetricGroup, checkpointing: Checkpointing, clock: Clock, restarts: Callable[[], int]
) -> None:
    """Restarts and checkpoints, by Flink's names; `lastCheckpointAge` (ms) is ours."""
    statistics = checkpointing.coordinator.statistics
    metrics.gauge("numRestarts", restarts)
    metrics.gauge("totalNumberOfCheckpoints", lambda: statistics.triggered)
    metrics.gauge("numberOfCompletedCheckpoints", lambda: statistics.completed)
    metrics.gauge("numberOfFailedCheckpoints", lambda: statistics.failed)
    metrics.gauge("lastCheckpointDuration", lambda: statistics.last_duration)
    metrics.gauge("lastCheckpointSize", lambda: checkpointing.last_size)
    metrics.gauge("lastCheckpointFullSize", lambda: checkpointing.last_full_size)
    metrics.gauge("lastCheckpointAge", lambda: _age(checkpointing, clock))


def _age(checkpointing: Checkpointing, clock: Clock) -> int | None:
    completed = checkpointing.coordinator.statistics.last_completed_at
    return None if completed is None else clock.now() - completed
