"""From graph to running job: attempt after attempt; failure, restart, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final, Literal, final
from uuid import uuid4

import anyio

from streamline._core.time import sleep
from streamline._graph.stream_graph import StreamGraph
from streamline._runtime.attempt import Attempt
from streamline._runtime.checkpointing import Checkpointing
from streamline._runtime.coordinator import CheckpointSettings
from streamline._runtime.guard import Exit
from streamline._runtime.health import JobHealth, health_of, register_metrics
from streamline._runtime.metrics import MetricGroup, value_of
from streamline._runtime.options import CheckpointOptions, ExecutionOptions
from streamline._runtime.outcome import JobExecutionResult, JobStatus
from streamline._runtime.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from streamline._runtime.task import CLOSE_TIMEOUT
from streamline._runtime.task_metrics import combined
from streamline.errors import StateEncodingException, StateMigrationException, StreamlineError

__all__ = (
    "CheckpointOptions",
    "CheckpointSettings",
    "ExecutionOptions",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "Job",
    "JobExecutionResult",
    "JobHealth",
    "JobStatus",
    "NoRestart",
    "RestartStrategy",
    "launch",
)

_log = logging.getLogger("streamline.job")

#: How often the end of a job is tried where it is cancelled.
_TRIES: Final = 3


async def launch(graph: StreamGraph, options: ExecutionOptions) -> Job:
    """Start a job in the running event loop; returns when its tasks run.

    Raises:
        StreamlineError: the graph is empty.
        Exception: whatever a source raised when its splits were looked for.
    """
    if not graph.nodes:
        raise StreamlineError("No operators defined in streaming topology. Cannot execute.")
    job = Job(graph, options)
    await job.start()
    return job


@final
class Job:
    """A job: one background asyncio task that owns the task group of the attempt that runs now."""

    def __init__(self, graph: StreamGraph, options: ExecutionOptions) -> None:
        self._error: BaseException | None = None
        self._error_seen = False
        self.id: Final = uuid4().hex
        self.graph: Final = graph
        self.options: Final = options
        self.name: Final = options.job_name
        self.status = JobStatus.CREATED
        self.clock: Final = options.clock
        self.metrics = MetricGroup("job", options.clock, {"job": options.job_name})
        self.attempt: Attempt | None = None
        self.attempts = 0
        self.checkpointing: Final = Checkpointing(self.name, self.id, self.clock, options.checkpoints)
        register_metrics(self.metrics, self.checkpointing, self.clock, lambda: max(0, self.attempts - 1))
        self._main: asyncio.Task[None] | None = None
        #: Those of which something may be prepared that no later one has recovered.
        self._unsettled: list[Attempt] = []
        #: What the job restarts after.
        self._failure: BaseException | None = None
        #: The tasks of the attempt that runs: who calls from one of them cannot wait for the job's end.
        self.tasks: Final[set[asyncio.Task[Any] | None]] = set()
        self._started_at = options.clock.now()
        self._ended_at: int | None = None

    async def start(self) -> None:
        """Run it; returns when its tasks are under way, raises where they could not be made."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for node in self.graph.nodes.values():
            if node.source is not None:
                node.source.on_job_start(self.id)
        self._main = asyncio.get_running_loop().create_task(self._run(ready), name=f"streamline job {self.name}")
        self._main.add_done_callback(self._tell_sources)
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            await self.cancel()
            raise
        except BaseException:
            self._error_seen = True
            await self._ended()
            raise

    async def _run(self, ready: asyncio.Future[None]) -> None:
        try:
            strategy = self.options.restart() if self.options.restart is not None else None
            while True:
                self.attempt = Attempt(self, self.attempts)
                self._unsettled.append(self.attempt)
                self.attempts += 1
                try:
                    await self.attempt.run(ready)
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    if self.attempt.opened:
                        self._unsettled = [self.attempt]
                    self._unsettled = [a for a in self._unsettled if a.prepared]
                    if self.status is JobStatus.CANCELLING:
                        raise asyncio.CancelledError from error
                    await self.checkpointing.end(f"the job failed: {_text(error)}")
                    helps = ready.done() and not _is_hopeless(error)
                    delay = strategy.delay_after_failure(self.clock.now()) if strategy and helps else None
                    if delay is None:
                        raise
                    if self.checkpointing.restarts_anew:  # else the next attempt recovers what this one has prepared
                        await self._settle()
                    self.status, self._failure = JobStatus.RESTARTING, error
                    _log.warning(
                        "job %s failed, attempt %d in %d ms", self.name, self.attempts + 1, delay, exc_info=error
                    )
                    await sleep(self.clock, delay)
                else:
                    await self.checkpointing.end("the job has finished")
                    await self.checkpointing.close("finished")
                    self.status = JobStatus.FINISHED
                    return
        except asyncio.CancelledError:
            await self._give_up("the job was cancelled", "cancelled")
            self.status = JobStatus.CANCELED
            if not ready.done():
                ready.cancel()
        except GeneratorExit:
            self.status = JobStatus.FAILED  # thrown away with its loop: nothing can be waited for
            raise
        except BaseException as error:
            # A SystemExit goes to whoever waits for the job: out of this task it would stop the loop at once.
            await self._give_up("the job failed", "failed")
            self.status = JobStatus.FAILED
            self._error = error.error if isinstance(error, Exit) else error
            if not ready.done():
                ready.set_exception(self._error)
        finally:
            self._ended_at = self.clock.now()

    def _tell_sources(self, main: asyncio.Task[None]) -> None:
        """It is over for good. A task that was cancelled before it began ends here too."""
        cancelled = main.cancelled() or self.status is JobStatus.CANCELED
        error = asyncio.CancelledError() if cancelled else self._error
        for node in self.graph.nodes.values():
            if node.source is not None:
                try:
                    node.source.on_job_end(self.id, self.name, error)
                except Exception as e:
                    _log.error("source %r could not be told that job %s has ended", node.name, self.name, exc_info=e)

    async def _give_up(self, reason: str, outcome: Literal["cancelled", "failed"]) -> None:
        """Nothing is under way any more, and what nobody goes on from is deleted; takes a bounded time."""

        async def give_up() -> None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT):
                await self.checkpointing.end(reason)
                await self.checkpointing.close(outcome)
                await self._settle()

        for _ in range(_TRIES):
            ending = asyncio.get_running_loop().create_task(give_up(), name=f"end of job {self.name}")
            while not ending.done():
                with contextlib.suppress(asyncio.CancelledError):  # it ends already: who cancels it now waits for that
                    await asyncio.wait({ending})
            if not ending.cancelled():  # at the end of its program asyncio.run cancels every task there is
                ending.result()
                return
        _log.error("job %s: its end was cancelled over and over; what sinks have prepared may be left", self.name)

    async def _settle(self) -> None:
        """End what sinks have prepared and nobody will commit or abort any more."""
        if self._unsettled and self._unsettled[-1].opened:
            self._unsettled = self._unsettled[-1:]
        with anyio.move_on_after(CLOSE_TIMEOUT):
            while self._unsettled:
                await self._unsettled[0].settle(self.checkpointing.undecided)
                del self._unsettled[0]

    async def savepoint(self, target: str | None = None, *, stop: bool = False, drain: bool = False) -> str:
        """Take a savepoint and, with `stop`, end the job with it; gives its location.

        Args:
            target: path or URL of the folder to put it into; None: the configured one.
            stop: end the job when the savepoint is complete; what it holds is committed.
            drain: with `stop`, close event time first: windows and timers fire.

        Raises:
            CheckpointException: there is no place for it, or it failed; then the job fails too where it was to stop.
            StreamlineError: a function of the job itself asked.
        """
        self._refuse_own("a savepoint")
        location = await self.checkpointing.savepoint(target, stop, drain)
        if stop:
            await self._ended()
            if self._error is not None:
                self._error_seen = True
                raise self._error
        return location

    def read_state(self, uid: str, name: str, key: Any) -> Any:
        """What the running job's state holds under a key: a copy; None where there is nothing.

        Raises:
            ValidationException: there is no such operator, or it has no such state.
        """
        if self.attempt is None or self.status is not JobStatus.RUNNING:
            raise StreamlineError(f"job {self.name!r} is {self.status.name}: it has no state to be read")
        return self.attempt.read_state(uid, name, key)

    def health(self) -> JobHealth:
        """How it is doing now."""
        error = self._failure if self.status is JobStatus.RESTARTING else self._error
        return health_of(self.status, error, self.attempts, self.checkpointing, self.clock)

    async def _ended(self) -> None:
        """Wait until it is over, whatever the outcome."""
        assert self._main is not None
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self._main})

    async def wait(self) -> JobExecutionResult:
        """Wait for the end.

        Raises:
            Exception: what made the job fail, as it was raised, with notes on where.
            StreamlineError: the job was cancelled, or a function of the job itself asked.
        """
        if self._main is None:
            raise StreamlineError(f"job {self.name!r} has not been started")
        self._refuse_own("its end")
        await asyncio.wait({self._main})
        if self._error is not None:
            self._error_seen = True
            raise self._error
        if self.status is JobStatus.CANCELED:
            raise StreamlineError(f"job {self.name!r} was cancelled")
        return JobExecutionResult(self.id, self.name, (self._ended_at or self.clock.now()) - self._started_at)

    async def cancel(self) -> None:
        """End it now, without committing; returns when nothing of it is left.

        A function of the job itself may ask too: it is ended at this call.
        """
        main = self._main
        if not self.cancel_nowait() or main is None:
            return
        if asyncio.current_task() in self.tasks:
            await asyncio.get_running_loop().create_future()  # here the end reaches it
        cancelled = False
        with anyio.CancelScope(shield=True):  # an outer scope that is cancelled would interrupt it over and over
            while not main.done():
                try:
                    await asyncio.wait({main})
                except asyncio.CancelledError:
                    cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def cancel_nowait(self) -> bool:
        """Ask for its end; gives whether it was still to end."""
        if self._main is None or self._main.done():
            return False
        self.status = JobStatus.CANCELLING
        self._main.cancel()
        return True

    def _refuse_own(self, what: str) -> None:
        if asyncio.current_task() in self.tasks:
            raise StreamlineError(
                f"a function of job {self.name!r} waits for {what}, which cannot come while it waits: do it from "
                "outside the job, or in a task of your own (asyncio.create_task)"
            )

    @property
    def error(self) -> BaseException | None:
        """What made it fail."""
        return self._error

    def take_error(self) -> BaseException | None:
        """What made it fail, if nobody has been given it yet: the caller shows it."""
        if self._error_seen:
            return None
        self._error_seen = self._error is not None
        return self._error

    async def over(self) -> None:
        """Wait until it is over, whatever the outcome, which remains to be asked for."""
        assert self._main is not None
        await asyncio.wait({self._main})

    def metric_values(self) -> dict[str, dict[str, Any]]:
        """By operator name and metric name: the values now. Of subtasks numbers are added up; of watermarks the least
        counts, of lags and of shares of time the largest."""
        found: dict[str, dict[str, Any]] = {}
        for group, name, metric in self.metrics.walk():
            values = found.setdefault(group.variables.get("operator", "job"), {})
            value = value_of(metric)
            values[name] = combined(name, values[name], value) if name in values else value
        return found

    def __del__(self) -> None:
        if self._error is not None and not self._error_seen:
            _log.error("job %s failed and nobody waited for it", self.name, exc_info=self._error)


def _text(error: BaseException) -> str:
    return str(error) if isinstance(error, Exit) else f"{type(error).__name__}: {error}"


def _is_hopeless(error: BaseException) -> bool:
    """Whether the same would happen again after a restart."""
    never = (StateMigrationException, StateEncodingException, Exit)
    return isinstance(error, never) or isinstance(error.__cause__, StateEncodingException)
