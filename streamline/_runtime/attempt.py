"""One run of a job's graph: its channels and tasks, in one task group."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, final

import anyio
import anyio.abc

from streamline._channel.channel import Channel
from streamline._channel.gate import Gate
from streamline._channel.output import ChannelOutput, Route
from streamline._channel.partition import Forward, PartitionSpec, Rebalance, partitioner, targets
from streamline._core.elements import Barrier, Element
from streamline._core.keys import group_range, owner, stable_hash
from streamline._core.time import Clock, SystemClock, sleep
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.checkpointing import Checkpointing, Undecided
from streamline._runtime.guard import Exit, Starter, apart, leaves, whole
from streamline._runtime.in_flight import share_elements
from streamline._runtime.loop_lag import LoopLag
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.options import ExecutionOptions
from streamline._runtime.outcome import JobStatus
from streamline._runtime.slice import TimeSlice
from streamline._runtime.source_task import SourceTask
from streamline._runtime.task import OperatorTask, note
from streamline._runtime.watermark_alignment import AlignmentGroups
from streamline._state.mapping import Target
from streamline._state.rocks import RocksBackend, local_folder
from streamline._state.source_state import SourceShare, share_splits
from streamline._state.store import RestoredOperator
from streamline._state.subtask import SubtaskState
from streamline.abc import Split
from streamline.errors import StreamlineError, ValidationException

__all__ = ("Attempt",)

_log = logging.getLogger("streamline.job")

#: Errors that are logged beside the one that an attempt fails with.
_MOST_LINES: Final = 5


class Owner(Protocol):
    """The job, as one run of it sees it."""

    @property
    def name(self) -> str: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def graph(self) -> StreamGraph: ...
    @property
    def options(self) -> ExecutionOptions: ...
    @property
    def checkpointing(self) -> Checkpointing: ...
    @property
    def metrics(self) -> MetricGroup: ...
    @property
    def tasks(self) -> set[asyncio.Task[Any] | None]:
        """The tasks that run now."""
        ...

    status: JobStatus


@final
class Attempt:
    """One run of a job's graph: makes channels and tasks, runs them in one task group, sees the first failure."""

    def __init__(self, job: Owner, number: int) -> None:
        self.job = job
        self.job_name = job.name
        self.attempt = number
        self.clock = job.clock
        self.time_slice = TimeSlice(job.options.time_slice)
        self.said: set[str] = set()
        self.job_parameters = job.options.job_parameters
        self.sources: list[SourceTask] = []
        self.operators: list[OperatorTask] = []
        self.checkpointing = job.checkpointing.enabled
        self.incremental = job.checkpointing.incremental
        self._restored: Mapping[str, RestoredOperator] = {}
        self._shares: dict[int, list[SourceShare]] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._starter = Starter()
        self._error: BaseException | None = None
        self._running = 0
        self._alignment = AlignmentGroups()

    # -- what tasks say (TaskHost) -------------------------------------------------------------------------------

    def captured(self, task: Any, barrier: Barrier, capture: Any) -> None:
        self.job.checkpointing.captured(task, barrier, capture)

    def final_id(self, task: Any) -> int:
        return self.job.checkpointing.final_id(task)

    def backlog(self, task: Any, processing: bool) -> None:
        self.job.checkpointing.backlog(task, processing)

    def finished(self, task: Any, capture: Any = None) -> bool:
        _log.debug("%s[%d] of job %s has finished", task.operator_name, task.subtask_index, self.job_name)
        self.job.checkpointing.ended(task, capture)
        return True

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        assert self._group is not None
        where = f"in {name} of job {self.job_name!r}"
        self._starter.start(self._group, partial(self._guard, function, where), name)

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
        where = f"at the start of job {self.job_name!r}"
        self._restored = await apart(partial(self.job.checkpointing.restore_point, self._program()), where)
        splits = await apart(self._discover, where)
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
                    self._starter.start(group, partial(self._task, task), f"{task.operator_name}[{task.subtask_index}]")
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
                for line in _lines(others):
                    _log.error("job %s: while it was failing, also %s", self.job_name, line)
                raise self._error from self._error.__cause__
            raise
        else:
            if self._running:
                raise StreamlineError(f"{self._running} tasks of job {self.job_name!r} were cancelled, but not the job")
        finally:
            self._group = None
            self._starter.close()
            if lag is not None:
                lag.stop()

    @property
    def opened(self) -> bool:
        """Whether all operators were opened, so that what an earlier attempt had prepared is ended."""
        return all(task.opened for task in self.operators)

    @property
    def prepared(self) -> bool:
        """Whether an operator has something to settle."""
        return any(task.operator.prepared for task in self.operators)

    async def settle(self, undecided: Undecided) -> None:
        """End what operators have prepared and not committed; what goes wrong there is only logged."""

        async def settle(task: OperatorTask) -> None:
            try:
                await task.operator.settle(undecided.commit, undecided.keep)
            except Exception as e:
                note(e, task.where)
                _log.warning("what was prepared %s could not be ended: %s", task.where, e, exc_info=e)

        starter = Starter()
        try:
            async with anyio.create_task_group() as group:
                for task in self.operators:
                    starter.start(group, partial(settle, task), f"end of {task.operator_name}[{task.subtask_index}]")
        finally:
            starter.close()

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
            for split in await source.discover_again():
                if split.id not in ids:
                    readers[len(ids) % len(readers)].add_splits([(split, None)])
                    ids.add(split.id)

    def _build(self, splits: Mapping[int, Sequence[Split]]) -> None:
        graph, options = self.job.graph, self.job.options
        nodes = graph.topological()
        width = {n.id: self._parallelism(n) for n in nodes}
        names = {n.id: n.name for n in nodes}
        limits = {n.id: n.max_parallelism_in(width[n.id], options.max_parallelism) for n in nodes}
        gates: dict[int, list[list[tuple[Channel, int]]]] = {n.id: [[] for _ in range(width[n.id])] for n in nodes}
        mains: dict[int, list[list[Route]]] = {n.id: [[] for _ in range(width[n.id])] for n in nodes}
        sides: dict[int, list[dict[str, list[Route]]]] = {n.id: [{} for _ in range(width[n.id])] for n in nodes}
        for node in nodes:
            for edge in graph.inputs(node.id):
                spec = self._spec(edge, width)
                for s in range(width[edge.source]):
                    producer = f"{names[edge.source]}[{s}]" if width[edge.source] > 1 else names[edge.source]
                    channels = []
                    for t in targets(spec, s, width[edge.source], width[edge.target]):
                        channel = Channel(options.channel_capacity, producer)
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


def _lines(errors: Sequence[BaseException]) -> list[str]:
    """Errors that came with the first one, in a few short lines: mostly it is the same again, in other subtasks."""
    found = Counter((str(e) if isinstance(e, Exit) else f"{type(e).__name__}: {e}").partition("\n")[0] for e in errors)
    lines = [text if n == 1 else f"{n} times {text}" for text, n in found.most_common(_MOST_LINES)]
    if len(found) > _MOST_LINES:
        lines.append(f"{len(found) - _MOST_LINES} other errors")
    return lines
