"""From graph to running job: channels, tasks, one task group; failure, restart, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, final
from uuid import uuid4

import anyio
import anyio.abc

from streamline._channel.channel import CAPACITY, Channel
from streamline._channel.gate import Gate
from streamline._channel.output import ChannelOutput, Route
from streamline._channel.partition import Forward, PartitionSpec, Rebalance, partitioner, targets
from streamline._core.elements import Barrier, Element
from streamline._core.keys import group_range, owner, stable_hash
from streamline._core.time import Clock, SystemClock, default_clock, sleep
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.checkpointing import Checkpointing, CheckpointOptions
from streamline._runtime.coordinator import CheckpointSettings
from streamline._runtime.guard import apart, leaves, whole
from streamline._runtime.health import JobHealth, health_of, register_metrics
from streamline._runtime.in_flight import share_elements
from streamline._runtime.loop_lag import LoopLag
from streamline._runtime.metrics import MetricGroup, value_of
from streamline._runtime.outcome import JobExecutionResult, JobStatus
from streamline._runtime.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from streamline._runtime.slice import TimeSlice
from streamline._runtime.source_task import SourceTask
from streamline._runtime.task import CLOSE_TIMEOUT, OperatorTask, note
from streamline._runtime.watermark_alignment import AlignmentGroups
from streamline._state.mapping import Target
from streamline._state.rocks import RocksBackend, local_folder
from streamline._state.source_state import SourceShare, share_splits
from streamline._state.store import RestoredOperator
from streamline._state.subtask import SubtaskState
from streamline.abc import Split
from streamline.errors import StateMigrationException, StreamlineError, ValidationException

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


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """What a job is run with."""

    job_name: str = "streamline job"
    parallelism: int = 1
    max_parallelism: int | None = None
    clock: Clock = field(default_factory=default_clock)
    watermark_interval: int = 200
    channel_capacity: int = CAPACITY
    time_slice: float = 5.0
    exactly_once: bool = True
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    restart: Callable[[], RestartStrategy] | None = None
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)
    backend: Literal["hashmap", "rocksdb"] = "hashmap"
    local_folder: str | None = None


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
        #: What the job restarts after.
        self._failure: BaseException | None = None
        #: The tasks of the attempt that runs: who calls from one of them cannot wait for the job's end.
        self.tasks: Final[set[asyncio.Task[Any] | None]] = set()
        self._started_at = options.clock.now()
        self._ended_at: int | None = None

    async def start(self) -> None:
        """Run it; returns when its tasks are under way, raises where they could not be made."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._main = asyncio.get_running_loop().create_task(self._run(ready), name=f"streamline job {self.name}")
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
        strategy = self.options.restart() if self.options.restart is not None else None
        try:
            while True:
                self.attempt = Attempt(self, self.attempts)
                self.attempts += 1
                try:
                    await self.attempt.run(ready)
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    if self.status is JobStatus.CANCELLING:
                        raise asyncio.CancelledError from error
                    await self.checkpointing.end(f"the job failed: {type(error).__name__}: {error}")
                    helps = ready.done() and not isinstance(error, StateMigrationException)
                    delay = strategy.delay_after_failure(self.clock.now()) if strategy and helps else None
                    if delay is None:
                        raise
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
        except BaseException as error:
            if isinstance(error, Exception):
                await self._give_up("the job failed", "failed")
            self.status = JobStatus.FAILED
            self._error = error
            if not ready.done():
                ready.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._ended_at = self.clock.now()

    async def _give_up(self, reason: str, outcome: Literal["cancelled", "failed"]) -> None:
        """Nothing is under way any more, and what nobody goes on from is deleted; takes a bounded time."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT):
            await self.checkpointing.end(reason)
            await self.checkpointing.close(outcome)

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

    def metric_values(self) -> dict[str, dict[str, Any]]:
        """By operator name and metric name: the values now; those of subtasks are added up where they are numbers."""
        found: dict[str, dict[str, Any]] = {}
        for group, name, metric in self.metrics.walk():
            values = found.setdefault(group.variables.get("operator", "job"), {})
            value = value_of(metric)
            before = values.get(name)
            if isinstance(before, (int, float)) and isinstance(value, (int, float)) and "Watermark" not in name:
                values[name] = before + value
            elif before is None or (isinstance(value, (int, float)) and value < before):
                values[name] = value
        return found

    def __del__(self) -> None:
        if self._error is not None and not self._error_seen:
            _log.error("job %s failed and nobody waited for it", self.name, exc_info=self._error)


@final
class Attempt:
    """One run of a job's graph: makes channels and tasks, runs them in one task group, sees the first failure."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.job_name = job.name
        self.attempt = number
        self.clock = job.clock
        self.time_slice = TimeSlice(job.options.time_slice)
        self.job_parameters = job.options.job_parameters
        self.sources: list[SourceTask] = []
        self.operators: list[OperatorTask] = []
        self.checkpointing = job.checkpointing.enabled
        self.incremental = job.checkpointing.incremental
        self._restored: Mapping[str, RestoredOperator] = {}
        self._shares: dict[int, list[SourceShare]] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._error: BaseException | None = None
        self._running = 0
        self._alignment = AlignmentGroups()

    # -- what tasks say (TaskHost) -------------------------------------------------------------------------------

    def captured(self, task: Any, barrier: Barrier, capture: Any) -> None:
        self.job.checkpointing.captured(task, barrier, capture)

    def final_id(self, task: Any) -> int:
        return self.job.checkpointing.final_id(task)

    def finished(self, task: Any, capture: Any = None) -> bool:
        _log.debug("%s[%d] of job %s has finished", task.operator_name, task.subtask_index, self.job_name)
        self.job.checkpointing.ended(task, capture)
        return True

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        assert self._group is not None
        self._group.start_soon(self._guard, function, f"in {name} of job {self.job_name!r}", name=name)

    async def _guard(self, function: Callable[[], Awaitable[None]], where: str) -> None:
        """Run a task or a helper of one: its failure fails the attempt, and the attempt's end cancels it."""
        current = asyncio.current_task()
        self.job.tasks.add(current)
        try:
            await whole(function, where)
        except Exception as e:
            self._error = self._error or e
            raise
        finally:
            self.job.tasks.discard(current)

    # -- running -------------------------------------------------------------------------------------------------

    async def run(self, ready: asyncio.Future[None]) -> None:
        """Run to the end; raises the first failure as it was raised."""
        self._restored = await apart(partial(self.job.checkpointing.restore_point, self._program()))
        splits = await apart(self._discover)
        self._build(splits)
        self._restored = {}
        tasks: Sequence[SourceTask | OperatorTask] = [*self.operators, *self.sources]
        self._running = len(tasks)
        lag = LoopLag(self.job.metrics, self.time_slice) if isinstance(self.clock, SystemClock) else None
        try:
            if lag is not None:
                lag.start()
            async with anyio.create_task_group() as group:
                self._group = group
                for task in tasks:
                    group.start_soon(self._task, task, name=f"{task.operator_name}[{task.subtask_index}]")
                for node in self.job.graph.topological():
                    if node.source is not None and node.source.discovery_interval is not None:
                        self.spawn(partial(self._watch, node, splits[node.id]), f"discovery of {node.name}")
                self.job.checkpointing.begin(tasks, self.sources, self.spawn, self._fail)
                self.job.status = JobStatus.RUNNING
                if not ready.done():
                    ready.set_result(None)
        except BaseExceptionGroup as group_error:
            if self._error is not None:
                others = [e for e in leaves(group_error) if e is not self._error and isinstance(e, Exception)]
                for other in others:
                    _log.error("job %s: while it was failing, also", self.job_name, exc_info=other)
                raise self._error from self._error.__cause__
            raise
        else:
            if self._running:
                raise StreamlineError(f"{self._running} tasks of job {self.job_name!r} were cancelled, but not the job")
        finally:
            self._group = None
            if lag is not None:
                lag.stop()

    def _fail(self, error: BaseException) -> None:
        """End the attempt with an error that comes from none of its tasks."""

        async def fail() -> None:
            raise error

        self.spawn(fail, "failure")

    def _program(self) -> list[Target]:
        """The operators as a checkpoint knows them."""
        graph, options = self.job.graph, self.job.options
        found: dict[str, Target] = {}
        for node in graph.topological():
            width = self._parallelism(node)
            uid = graph.uid_of(node)
            if uid in found:
                raise ValidationException(f"two operators have the uid {uid!r}: {found[uid].name!r} and {node.name!r}")
            max_parallelism = node.max_parallelism_in(width, options.max_parallelism)
            found[uid] = Target(uid, node.name, width, max_parallelism)
        return list(found.values())

    def _backend(self, keyed: bool) -> RocksBackend | None:
        options = self.job.options
        if not keyed or options.backend != "rocksdb":
            return None
        return RocksBackend(local_folder(options.local_folder))

    def read_state(self, uid: str, name: str, key: Any) -> Any:
        """What an operator's keyed state holds under a key."""
        tasks = [t for t in self.operators if uid in (t.uid, t.operator_name)]
        if not tasks:
            known = ", ".join(sorted({repr(t.uid) for t in self.operators}))
            raise ValidationException(f"no operator has the uid {uid!r}; there are {known}")
        group = stable_hash(key) % tasks[0].max_parallelism
        return tasks[owner(group, tasks[0].max_parallelism, len(tasks))].state.store.read(name, key)

    async def _task(self, task: SourceTask | OperatorTask) -> None:
        await self._guard(task.run, task.where)
        self._running -= 1
        if self._running == 0 and self._group is not None:
            self._group.cancel_scope.cancel()  # helpers of tasks do not outlive them

    async def _discover(self) -> dict[int, Sequence[Split]]:
        found: dict[int, Sequence[Split]] = {}
        for node in self.job.graph.topological():
            if node.source is not None:
                try:
                    found[node.id] = await node.source.discover()
                except Exception as e:
                    note(e, f"in source {node.name!r} of job {self.job_name!r}")
                    raise
        return found

    async def _watch(self, node: Node, known: Sequence[Split]) -> None:
        """Look for new splits from time to time and hand them to the subtasks in turn."""
        source = node.source
        assert source is not None and source.discovery_interval is not None
        ids = {split.id for split in known}
        for share in self._shares[node.id]:
            ids.update(split.id for split, _ in share.splits)
            ids.update(split.id for split in share.read)
        readers = [task for task in self.sources if task.node_id == node.id]
        while True:
            await sleep(self.clock, source.discovery_interval)
            for split in await source.discover():
                if split.id not in ids:
                    readers[len(ids) % len(readers)].add_splits([(split, None)])
                    ids.add(split.id)

    def _build(self, splits: Mapping[int, Sequence[Split]]) -> None:
        graph, options = self.job.graph, self.job.options
        nodes = graph.topological()
        width = {n.id: self._parallelism(n) for n in nodes}
        limits = {n.id: n.max_parallelism_in(width[n.id], options.max_parallelism) for n in nodes}
        gates: dict[int, list[list[tuple[Channel, int]]]] = {n.id: [[] for _ in range(width[n.id])] for n in nodes}
        mains: dict[int, list[list[Route]]] = {n.id: [[] for _ in range(width[n.id])] for n in nodes}
        sides: dict[int, list[dict[str, list[Route]]]] = {n.id: [{} for _ in range(width[n.id])] for n in nodes}
        for node in nodes:
            for edge in graph.inputs(node.id):
                spec = self._spec(edge, width)
                for s in range(width[edge.source]):
                    channels = []
                    for t in targets(spec, s, width[edge.source], width[edge.target]):
                        channel = Channel(options.channel_capacity)
                        channels.append(channel)
                        gates[edge.target][t].append((channel, edge.input))
                    route = Route(channels, partitioner(spec, len(channels), limits[edge.target], s))
                    if edge.side is None:
                        mains[edge.source][s].append(route)
                    else:
                        sides[edge.source][s].setdefault(edge.side, []).append(route)
        for node in nodes:
            if node.source is not None:
                before = self._restored.get(graph.uid_of(node))
                self._shares[node.id] = share_splits(
                    before.snapshots if before else (), splits[node.id], width[node.id]
                )
            for s in range(width[node.id]):
                output = ChannelOutput(mains[node.id][s], sides[node.id][s])
                output.pace = self.time_slice
                self._make(node, s, width[node.id], limits[node.id], gates[node.id][s], output)

    def _parallelism(self, node: Node) -> int:
        if node.source is not None and not node.source.parallel:
            return 1
        return node.parallelism_in(self.job.options.parallelism)

    @staticmethod
    def _spec(edge: Edge, width: Mapping[int, int]) -> PartitionSpec:
        if isinstance(edge.partition, Forward) and width[edge.source] != width[edge.target]:
            return Rebalance()
        return edge.partition

    def _make(
        self,
        node: Node,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        inputs: Sequence[tuple[Channel, int]],
        output: ChannelOutput,
    ) -> None:
        metrics = self.job.metrics.add_group("operator", node.name).add_group("subtask", str(subtask))
        uid = self.job.graph.uid_of(node)
        before = self._restored.get(uid)
        ended_before = before is not None and (
            subtask in before.ended
            if before.parallelism == parallelism
            else len(before.ended) == before.parallelism  # those that have ended cannot be told apart any more
        )
        if node.source is not None:
            self.sources.append(
                SourceTask(
                    host=self,
                    node_id=node.id,
                    uid=uid,
                    name=node.name,
                    reader=node.source.reader(),
                    strategy=node.strategy,
                    share=self._shares[node.id][subtask],
                    output=output,
                    subtask=subtask,
                    parallelism=parallelism,
                    metrics=metrics,
                    watermark_interval=self.job.options.watermark_interval,
                    alignment=self._alignment,
                    ended_before=ended_before,
                    restored=before is not None,
                )
            )
            return
        assert node.operator is not None
        keyed = any(k is not None for k in node.key)
        groups = group_range(max_parallelism, parallelism, subtask)

        def state(wake_at: Callable[[int], None]) -> SubtaskState:
            return SubtaskState(
                key_groups=groups,
                max_parallelism=max_parallelism,
                clock=self.clock,
                wake_at=wake_at,
                subtask_index=subtask,
                parallelism=parallelism,
                backend=self._backend(keyed),
            )

        self.operators.append(
            OperatorTask(
                host=self,
                node_id=node.id,
                uid=uid,
                name=node.name,
                operator=node.operator(),
                gate=Gate([c for c, _ in inputs], [i for _, i in inputs], self.job.options.exactly_once),
                output=output,
                state=state,
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                metrics=metrics,
                keyed=keyed,
                restore=None if before is None else before.snapshots,
                ended_before=ended_before,
                in_flight=((), False) if before is None else self._in_flight(node, before, subtask, len(inputs)),
            )
        )

    def _in_flight(
        self, node: Node, before: RestoredOperator, subtask: int, channels: int
    ) -> tuple[list[tuple[int, Element]], bool]:
        """What was on its way to a subtask in an unaligned checkpoint."""
        parallelism = self._parallelism(node)
        width = {n.id: self._parallelism(n) for n in self.job.graph.topological()}

        def spec_of(number: int) -> PartitionSpec:
            (edge, *_) = [e for e in self.job.graph.inputs(node.id) if e.input == number]
            spec = self._spec(edge, width)
            return Rebalance() if isinstance(spec, Forward) else spec

        limit = node.max_parallelism_in(parallelism, self.job.options.max_parallelism)
        return share_elements(before.snapshots, subtask, parallelism, channels, spec_of, limit)
