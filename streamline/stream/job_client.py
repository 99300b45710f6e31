"""A running job, as the program that started it sees it."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

from streamline._runtime.execute import Job, JobExecutionResult, JobHealth, JobStatus
from streamline._runtime.metrics import MetricGroup

__all__ = ("JobClient",)


_log = logging.getLogger("streamline.job")


class JobClient:
    """Asks and tells a running job.

    As an async context manager it cancels the job on leaving, and raises what had made the job fail before, unless
    somebody was given that error already, or the body raises one of its own.
    """

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

    async def trigger_savepoint(self, savepoint_directory: str | None = None) -> str:
        """Take a savepoint while the job goes on; gives its location.

        Sinks commit nothing with it, and functions are not told: after a failure the job goes back to its last
        checkpoint. What it holds is committed with the next one, and by whoever restores it.

        Args:
            savepoint_directory: path or URL to put it under; None: the configured place.

        Raises:
            CheckpointException: there is no place for it, or it failed.
        """
        return await self._job.savepoint(savepoint_directory)

    async def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool = False,
        savepoint_directory: str | None = None,
        *,
        drain: bool = False,
    ) -> str:
        """Take a savepoint and end the job with it; gives its location, when the job has ended.

        Args:
            advance_to_end_of_event_time: drain: close event time first, so that windows and timers fire. Only for a job
                that is not to be gone on with.
            savepoint_directory: path or URL to put it under; None: the configured place.
            drain: the same as `advance_to_end_of_event_time`, shorter.

        Raises:
            CheckpointException: there is no place for it, or it failed; then the job fails or restarts.
        """
        return await self._job.savepoint(savepoint_directory, stop=True, drain=drain or advance_to_end_of_event_time)

    async def state(self, uid: str, name: str, key: Any) -> Any:
        """What the running job's state holds under a key: a copy, None where there is nothing.

        Args:
            uid: of the operator (or its name).
            name: of the state.
            key: as the stream was keyed by it.

        Raises:
            StreamlineError: the job does not run, or has no such operator or state.
        """
        return self._job.read_state(uid, name, key)

    async def get_job_execution_result(self) -> JobExecutionResult:
        """Wait for the job's end.

        Raises:
            Exception: what made the job fail, as it was raised; its notes say where.
            StreamlineError: the job was cancelled.
        """
        return await self._job.wait()

    async def health(self) -> JobHealth:
        """How the job is doing, for readiness checks: `healthy`, and the reasons where it is not."""
        return self._job.health()

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
        failure = self._job.take_error()
        if failure is None:
            return
        if error is None:
            raise failure
        if not _tells(error, failure):
            _log.error("job %s had failed too: %s: %s", self._job.name, type(failure).__name__, failure)

    def __repr__(self) -> str:
        return f"<JobClient {self._job.name!r} {self._job.status.name}>"


def _tells(error: BaseException, failure: BaseException) -> bool:
    """Whether an error shows another one: it is the same, or was raised because of it."""
    seen: BaseException | None = error
    while seen is not None and seen is not failure:
        seen = seen.__cause__
    return seen is not None
