"""Where a job is in its life, and what one that has ended tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ("JobExecutionResult", "JobStatus")


class JobStatus(Enum):
    """Where a job is in its life (Flink's names)."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    FINISHED = "FINISHED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED)


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """What a job that has ended tells. `net_runtime` is in milliseconds of the job's clock."""

    job_id: str
    job_name: str
    net_runtime: int

    def get_job_id(self) -> str:
        """The job's id."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds it has run."""
        return self.net_runtime
