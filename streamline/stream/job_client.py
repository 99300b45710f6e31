"""A running job, as the program that started it sees it."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from streamline._runtime.execute import Job, JobExecutionResult, JobStatus
from streamline._runtime.metrics import MetricGroup

__all__ = ("JobClient",)


class JobClient:
    """Asks and tells a running job. As an async context manager it cancels the job on leaving."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._job.id

    async def get_job_id(self) -> str:
        """The job's id."""
        return self._job.id

    async def get_job_status(self) -> JobStatus:
        """Where the job is in its life."""
        return self._job.status

    async def cancel(self) -> None:
        """End the job now, without committing; returns when nothing of it is left."""
        await self._job.cancel()

    async def get_job_execution_result(self) -> JobExecutionResult:
        """Wait for the job's end.

        Raises:
            Exception: what made the job fail, as it was raised; its notes say where.
            StreamlineError: the job was cancelled.
        """
        return await self._job.wait()

    async def metrics(self) -> dict[str, dict[str, Any]]:
        """The values of all metrics now, by operator name and metric name."""
        return self._job.metric_values()

    @property
    def metric_group(self) -> MetricGroup:
        """The root of the job's tree of metrics, for exporters."""
        return self._job.metrics

    async def __aenter__(self) -> JobClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cancel()

    def __repr__(self) -> str:
        return f"<JobClient {self._job.name!r} {self._job.status.name}>"
