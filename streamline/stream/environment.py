"""The environment: where streams begin, and where the graph that they make is run."""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from streamline._channel.partition import Forward, PartitionSpec
from streamline._core.config import Configuration
from streamline._core.time import Clock, Duration, default_clock, to_millis
from streamline._core.typeinfo import infer
from streamline._core.watermarks import WatermarkStrategy
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._operators.function import Function
from streamline._runtime.execute import Job, JobExecutionResult, launch
from streamline.abc import Operator, Source
from streamline.connectors.memory import CollectionSource, FunctionSource, IterableSource
from streamline.errors import StreamlineError, ValidationException
from streamline.stream.adapt import text_of
from streamline.stream.base import Origin
from streamline.stream.batch import as_batch, is_batch
from streamline.stream.builders import Builders
from streamline.stream.config import CheckpointConfig, CheckpointingMode, ExecutionConfig, RuntimeExecutionMode, choice
from streamline.stream.datastream import DataStream
from streamline.stream.job_client import JobClient
from streamline.stream.options import execution_options
from streamline.stream.plan import execution_plan

__all__ = ("StreamExecutionEnvironment",)

T = TypeVar("T")


class StreamExecutionEnvironment:
    """Builds a graph of streams and runs it inside the running event loop.

    Nothing runs before one of the `execute` methods. `execute` runs all that was built since the last time.
    """

    def __init__(
        self, configuration: Configuration | Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> None:
        """
        Args:
            configuration: options to begin with, as a Configuration or a mapping of keys and values; it is copied.
            clock: where processing time comes from; the system's by default.
        """
        self.graph = StreamGraph()
        #: Makes keyed, windowed, connected streams: for streams.
        self.builders = Builders()
        given = configuration if isinstance(configuration, Configuration) else Configuration(configuration)
        self.configuration = given.copy()
        self._clock = clock
        self._executed: set[int] = set()
        #: Conversions of tables that have not run yet: what they were, by node.
        self._conversions: dict[int, str] = {}
        self._forwards: list[PartitionSpec] = []
        #: Jobs that may still run.
        self._jobs: weakref.WeakSet[Job] = weakref.WeakSet()
        weakref.finalize(self, _warn_of_conversions, self._conversions)

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> StreamExecutionEnvironment:
        """A new environment.

        Args:
            configuration: options to begin with.
            clock: where processing time comes from; the system's by default, in tests a VirtualClock.
        """
        return StreamExecutionEnvironment(configuration, clock=clock)

    # -- options -----------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """Where processing time comes from."""
        return self._clock if self._clock is not None else default_clock()

    def configure(self, configuration: Configuration) -> None:
        """Set all options of a configuration; in force from the next execution."""
        self.configuration.add_all(configuration)

    def get_config(self) -> ExecutionConfig:
        """Options of execution, by method."""
        return ExecutionConfig(self.configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """The number of subtasks of every operator that has none of its own; default 1."""
        if type(parallelism) is not int or parallelism < 1:
            raise ValidationException(f"the parallelism has to be positive (an int), not {parallelism!r}")
        self.configuration.set("parallelism.default", parallelism)
        return self

    def get_parallelism(self) -> int:
        """The number of subtasks of every operator that has none of its own."""
        return int(self.configuration.value("parallelism.default"))

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """The number of key groups of every operator that has none of its own."""
        if type(max_parallelism) is not int or not 1 <= max_parallelism <= 32768:
            raise ValidationException(f"the max parallelism has to be an int in 1..32768, not {max_parallelism!r}")
        self.configuration.set("pipeline.max-parallelism", max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups, -1 where it follows from the parallelism."""
        return int(self.configuration.value("pipeline.max-parallelism"))

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """STREAMING (default), BATCH (bounded inputs, final results only), or AUTOMATIC (batch if all are bounded)."""
        self.configuration.set("execution.runtime-mode", choice(RuntimeExecutionMode, execution_mode).value)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """No effect: a record is never held back to fill a buffer."""
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """No effect: operators are not chained."""
        return self

    def enable_checkpointing(
        self,
        interval: Duration,
        mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE,
        storage: str | os.PathLike[str] | None = None,
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint each interval.

        Args:
            interval: timedelta, text or ms.
            mode: exactly once (barriers are aligned) or at least once.
            storage: where checkpoints lie, e.g. `"file:/var/lib/job"`; without one they are kept in memory.
        """
        millis = to_millis(interval, "interval")
        if millis <= 0:
            raise ValidationException(f"the checkpoint interval has to be positive: {interval!r}")
        config = self.get_checkpoint_config()
        config.set_checkpoint_interval(millis)
        config.set_checkpointing_mode(mode)
        if storage is not None:
            place = os.fspath(storage) if isinstance(storage, os.PathLike) else storage
            config.set_checkpoint_storage(text_of(place, "checkpoint storage"))
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Refused: functions run in this process and can open files by themselves.

        Raises:
            ValidationException: always.
        """
        raise ValidationException(
            "cached files are not supported: functions run in this process; read the file in open()"
        )

    def register_slot_sharing_group(self, slot_sharing_group: Any) -> StreamExecutionEnvironment:
        """Refused: there are no slots.

        Raises:
            ValidationException: always.
        """
        raise ValidationException("slot sharing groups and resource specs are not supported; remove the call")

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Options of checkpoints, by method."""
        return CheckpointConfig(self.configuration)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once or at least once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Where savepoints lie that are triggered without a directory."""
        self.configuration.set("execution.checkpointing.savepoint-dir", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints lie that are triggered without a directory."""
        found = self.configuration.value("execution.checkpointing.savepoint-dir")
        return None if found is None else str(found)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds, -1 where none are taken."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    @property
    def watermark_interval(self) -> Callable[[], int]:
        """Gives the milliseconds between periodic watermarks, as set when the job starts."""
        configuration = self.configuration
        return lambda: int(configuration.value("pipeline.auto-watermark-interval"))

    @property
    def exactly_once(self) -> Callable[[], bool]:
        """Tells whether checkpoints are exactly-once, as set when the job starts."""
        configuration = self.configuration
        return lambda: configuration.value("execution.checkpointing.mode") == "EXACTLY_ONCE"

    # -- sources -----------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Iterable[T], type_info: Any = None) -> DataStream[T]:
        """A bounded stream of the elements of a list or another iterable.

        Args:
            collection: it is read when the job runs; a list is not copied.
            type_info: type of the elements (a `Types.…` or a Python type); by default the first elements tell.

        Raises:
            ValidationException: it is no iterable, or text.
        """
        if isinstance(collection, (str, bytes)) or not isinstance(collection, Iterable):
            raise ValidationException(f"from_collection needs an iterable of elements, not {collection!r}")
        source: CollectionSource[Any] = CollectionSource(collection, type_info)
        kind = type_info if type_info is not None else infer(source.values)
        return self._add_source(source, None, "collection", kind)

    def from_elements(self, *values: T) -> DataStream[T]:
        """A bounded stream of the given elements."""
        return self.from_collection(values)

    @overload
    def from_source(
        self,
        source: Source[T] | AsyncIterable[T] | Callable[[], AsyncIterable[T]],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: Any = None,
        *,
        name: str | None = None,
    ) -> DataStream[T]: ...
    @overload
    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: Any = None,
        *,
        name: str | None = None,
    ) -> DataStream[Any]: ...
    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str | None = None,
        type_info: Any = None,
        *,
        name: str | None = None,
    ) -> DataStream[Any]:
        """A stream of what a source gives.

        Args:
            source: a Source, an async iterable, or a function that returns one (it can be read again after a restart).
            watermark_strategy: timestamps and watermarks, per split of the source.
            source_name: shown in errors, logs and metrics; `name` is the same.
            type_info: type of the elements; by default what the source, or the function's annotation, tells.

        Raises:
            ValidationException: `source` or the strategy is none.
        """
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise ValidationException(f"a WatermarkStrategy is needed, not {watermark_strategy!r}")
        if not isinstance(source, Source):
            source = IterableSource(source, type_info)
        kind = type_info if type_info is not None else source.output_type
        return self._add_source(source, watermark_strategy, name or source_name or type(source).__name__, kind)

    def add_source(self, source_func: Any, source_name: str = "source", type_info: Any = None) -> DataStream[Any]:
        """A stream of what a function emits.

        Args:
            source_func: a SourceFunction (an object with `run(ctx)`), a Source, an async iterable, or a function that
                returns one, e.g. an async generator function.
            source_name: shown in errors, logs and metrics.
            type_info: type of the elements.
        """
        if hasattr(source_func, "run") and not isinstance(source_func, (type, Source)):
            source: Source[Any] = FunctionSource(source_func, type_info)
            return self._add_source(source, None, source_name, type_info)
        if isinstance(source_func, type) and issubclass(source_func, (Function, Source)):
            raise ValidationException(f"add_source needs an object: {source_func.__name__}(), not the class")
        return self.from_source(source_func, None, source_name, type_info)

    def from_sequence(self, start: int, end: int) -> DataStream[int]:
        """The whole numbers from `start` to `end`, both included.

        Raises:
            ValidationException: they are no ints, or the start is above the end.
        """
        if type(start) is not int or type(end) is not int:
            raise ValidationException(f"a sequence goes from an int to an int, not from {start!r} to {end!r}")
        if start > end:
            raise ValidationException(f"Start of sequence must not be greater than the end: {start} and {end}")
        return self._add_source(CollectionSource(range(start, end + 1), int), None, "sequence", int)

    def generate_sequence(self, start: int, end: int) -> DataStream[int]:
        """As `from_sequence`."""
        return self.from_sequence(start, end)

    def _add_source(
        self,
        source: Source[Any],
        strategy: WatermarkStrategy[Any] | None,
        name: str,
        kind: Any,
    ) -> DataStream[Any]:
        event_time = source.event_time
        if strategy is not None:
            event_time = "ends" if strategy.text == "no watermarks" else "yes"
        node = self.graph.add(
            Node(
                0,
                name,
                "source",
                source=source,
                strategy=strategy,
                output_type=kind,
                event_time=event_time,
                parallelism=None if source.parallel else 1,
                options=() if source.parallel else (("non_parallel", True),),
            )
        )
        return DataStream(self, [Origin(node.id)], kind)

    # -- for streams -------------------------------------------------------------------------------------------------

    def forced(self, partition: Forward) -> PartitionSpec:
        """A forward partitioning that was asked for: unequal parallelism is an error then."""
        self._forwards.append(partition)
        return partition

    def note_conversion(self, node_id: int, what: str) -> None:
        """A conversion of a table ends in this node; a warning names it if it never runs."""
        self._conversions[node_id] = what

    # -- running -----------------------------------------------------------------------------------------------------

    async def execute(
        self, job_name: str | None = None, *, restore: str | os.PathLike[str] | None = "latest"
    ) -> JobExecutionResult:
        """Run all that was built since the last execution, and wait for its end.

        Cancelling the call cancels the job.

        Args:
            job_name: its name.
            restore: "latest": go on from the newest whole checkpoint of a job of this name, where a storage is set; a
                path: from that checkpoint or savepoint; None: start anew.

        Raises:
            StreamlineError: nothing was built.
            ValidationException: `restore` is none of these.
            CheckpointException: there is no whole checkpoint at that path, or it does not fit the program.
            Exception: what made the job fail, as it was raised; its notes say where.
        """
        job = await self._launch(self._something(), job_name, restore)
        try:
            return await job.wait()
        except asyncio.CancelledError:
            await job.cancel()
            raise

    async def execute_async(
        self, job_name: str | None = None, *, restore: str | os.PathLike[str] | None = "latest"
    ) -> JobClient:
        """As `execute`, but returns as soon as the job runs."""
        return JobClient(await self._launch(self._something(), job_name, restore))

    def collecting(
        self,
        edges: Sequence[Edge],
        operator: Callable[[], Operator],
        job_name: str | None,
        restore: str | os.PathLike[str] | None,
    ) -> Callable[[], Awaitable[Job]]:
        """What runs the job of a stream whose records an operator collects, with all sinks that wait.

        The operator is in that job's graph only.
        """

        async def launch_it() -> Job:
            graph = self.graph.above(self.graph.nodes)
            node = graph.add(Node(0, "collect", "sink", operator, parallelism=1), *edges)
            sinks = [n for n in self._pending() if graph.nodes[n].kind == "sink"]
            return await self._launch([*sinks, node.id], job_name, restore, graph)

        return launch_it

    def _pending(self) -> list[int]:
        """Nodes that were built since the last execution. A source alone is none."""
        return [n.id for n in self.graph.nodes.values() if n.id not in self._executed and n.kind != "source"]

    def _something(self) -> list[int]:
        """What was built since the last execution; it is an error if that is nothing."""
        found = self._pending()
        if not found:
            raise StreamlineError("No operators defined in streaming topology. Cannot execute.")
        return found

    async def _launch(
        self,
        roots: Sequence[int],
        job_name: str | None,
        restore: str | os.PathLike[str] | None,
        whole: StreamGraph | None = None,
    ) -> Job:
        graph = (whole or self.graph).above(roots)
        if job_name is not None:
            text_of(job_name, "job's name")
        place = _restore_point(restore)
        batch = is_batch(self.configuration.value("execution.runtime-mode"), graph)
        options = execution_options(self.configuration, self.clock, job_name, graph, place, batch)
        self._check_forwards(graph, options.parallelism)
        for node_id in graph.nodes:
            if node_id in self.graph.nodes:
                self._executed.add(node_id)
                self._conversions.pop(node_id, None)
        job = await launch(as_batch(graph) if batch else graph, options)
        self._jobs.add(job)
        return job

    def _check_forwards(self, graph: StreamGraph, default: int) -> None:
        for edge in graph.edges:
            if any(edge.partition is forced for forced in self._forwards):
                source, target = graph.nodes[edge.source], graph.nodes[edge.target]
                widths = source.parallelism_in(default), target.parallelism_in(default)
                if widths[0] != widths[1]:
                    raise ValidationException(
                        f"Forward partitioning does not allow change of parallelism: {source.name!r} has {widths[0]} "
                        f"subtasks, {target.name!r} has {widths[1]}. Use rebalance() or rescale()"
                    )

    def get_execution_plan(self) -> str:
        """The graph that the next `execute` would run, as JSON: nodes with name, parallelism and inputs.

        Raises:
            StreamlineError: nothing was built since the last execution.
        """
        return execution_plan(self.graph.above(self._something()), self.get_parallelism())

    async def close(self) -> None:
        """Cancel the jobs of this environment that still run; returns when nothing of them is left."""
        for job in list(self._jobs):
            await job.cancel()

    async def __aenter__(self) -> StreamExecutionEnvironment:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<StreamExecutionEnvironment of {len(self.graph.nodes)} operators>"


def _restore_point(restore: Any) -> str | None:
    """What an execution goes on from, as it was told."""
    if isinstance(restore, os.PathLike):
        restore = os.fspath(restore)
    if restore is None or (isinstance(restore, str) and restore.strip()):
        return restore
    raise ValidationException(
        f"restore takes 'latest', the path of a checkpoint or savepoint, or None to start anew, not {restore!r}"
    )


def _warn_of_conversions(conversions: dict[int, str]) -> None:
    if conversions:
        what = "; ".join(conversions[n] for n in sorted(conversions))
        warnings.warn(
            f"conversions that never ran: {what}. execute() of the stream environment runs them", RuntimeWarning, 2
        )
