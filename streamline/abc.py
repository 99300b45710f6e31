"""What operator, connector and backend authors implement, and what the runtime hands to them.

Imports values only. An operator knows batches and its state; the task that runs it knows channels, alignment, clocks
and metrics. A source never waits in `poll`; a sink's writer is told when to flush, prepare and commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from streamline._core.changes import ChangelogMode, RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import Barrier, Batch, Watermark, WatermarkStatus
from streamline._core.time import Clock
from streamline._core.types import DataType
from streamline._core.watermarks import TimestampAssigner, WatermarkGenerator
from streamline.errors import ValidationException

__all__ = (
    "PAUSE_EVERY",
    "Barrier",
    "Batch",
    "Clock",
    "Counter",
    "Gauge",
    "Histogram",
    "KeyedStore",
    "LookupReader",
    "Meter",
    "MetricGroup",
    "Operator",
    "OperatorContext",
    "OperatorStore",
    "Output",
    "Partitioner",
    "RowKind",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "SourceContext",
    "SourceReader",
    "Split",
    "SplitBatch",
    "StateSpec",
    "StateTable",
    "TableBridge",
    "TableColumn",
    "TableContext",
    "TableFactory",
    "TableScan",
    "TableSink",
    "Timer",
    "TimerService",
    "TimestampAssigner",
    "TwoInputOperator",
    "WatermarkGenerator",
)

T = TypeVar("T")


# -- metrics -------------------------------------------------------------------------------------------------------


class Counter(Protocol):
    """A number that is added to."""

    def inc(self, n: int = 1) -> None: ...
    def dec(self, n: int = 1) -> None: ...
    def get_count(self) -> int: ...


class Meter(Protocol):
    """How often something happens: events a second over the last minute."""

    def mark_event(self, n: int = 1) -> None: ...
    def get_rate(self) -> float: ...
    def get_count(self) -> int: ...


class Histogram(Protocol):
    """A distribution of numbers."""

    def update(self, n: float) -> None: ...
    def get_count(self) -> int: ...
    def get_statistics(self) -> Mapping[str, float]: ...


class Gauge(Protocol):
    """A value that is read when somebody looks."""

    def get_value(self) -> Any: ...


class MetricGroup(Protocol):
    """A node in the tree of metrics; PyFlink's names."""

    def counter(self, name: str) -> Counter: ...
    def meter(self, name: str) -> Meter: ...
    def distribution(self, name: str) -> Histogram: ...
    def histogram(self, name: str) -> Histogram: ...
    def gauge(self, name: str, value: Callable[[], Any]) -> Gauge: ...
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup: ...


# -- state and timers ----------------------------------------------------------------------------------------------


class Timer(msgspec.Struct, frozen=True, order=False):
    """A timer that is due: `timestamp` in epoch ms, the key and (for windows) namespace it was registered under."""

    timestamp: int
    key: Any = None
    namespace: Any = None


class TimerService(Protocol):
    """Timers of a keyed operator, one per key, namespace and time; part of its state."""

    #: The operator's current watermark, epoch ms; MIN_TIMESTAMP before the first.
    current_watermark: int

    def current_processing_time(self) -> int: ...
    def register_event_time(self, key: Any, timestamp: int, namespace: Any = None) -> None: ...
    def delete_event_time(self, key: Any, timestamp: int, namespace: Any = None) -> None: ...
    def register_processing_time(self, key: Any, timestamp: int, namespace: Any = None) -> None: ...
    def delete_processing_time(self, key: Any, timestamp: int, namespace: Any = None) -> None: ...


class StateTable(Protocol):
    """The entries of one keyed state in one subtask.

    `data` maps a key to its value, or, where the spec is namespaced, a namespace to a mapping of key to value. Fetch
    `data` anew for each batch: a backend puts another mapping in its place while it takes a snapshot. A value that was
    changed in place has to be assigned again.
    """

    data: MutableMapping[Any, Any]


class KeyedStore(ABC):
    """Keyed state of one subtask. `key` is the current key: handles read and write under it."""

    key: Any
    timers: TimerService

    @abstractmethod
    def table(self, name: str, spec: StateSpec) -> StateTable:
        """The entries of a state, for operators whose loops go over many keys."""

    @abstractmethod
    def handle(self, name: str, spec: StateSpec) -> Any:
        """A handle (ValueState, ListState, MapState, ReducingState, AggregatingState) bound to the current key."""

    @abstractmethod
    def window_handle(self, name: str, spec: StateSpec) -> Callable[[Any], Any]:
        """Namespaced state: gives the handle for (current key, namespace)."""

    @abstractmethod
    def keys(self, name: str) -> Iterator[Any]:
        """Keys that have an entry in a state."""

    def check_key(self, key: Any) -> None:  # noqa: B027 - what restores nothing has nothing to check
        """Look at one key of the stream: state that was restored has to have keys of its type, to be found again.

        Raises:
            StateMigrationException: it has not.
        """


class OperatorStore(ABC):
    """State that belongs to a subtask and not to a key; redistributed when the parallelism changes."""

    @abstractmethod
    def list_state(self, name: str, spec: StateSpec) -> list[Any]:
        """A list whose elements are split evenly over the subtasks on restore."""

    @abstractmethod
    def union_state(self, name: str, spec: StateSpec) -> list[Any]:
        """A list of which every subtask gets all elements on restore."""

    @abstractmethod
    def broadcast_state(self, name: str, spec: StateSpec) -> dict[Any, Any]:
        """A mapping that is the same in every subtask."""


# -- operators -----------------------------------------------------------------------------------------------------


#: A loop over many things in state pauses after so many of them, each of which takes a microsecond or so.
PAUSE_EVERY: Final = 64


class Output(ABC):
    """Where an operator's records go. `send` is the only place where an operator may wait for room."""

    @abstractmethod
    async def send(self, batch: Batch) -> None:
        """Hand a batch to every consumer; waits while one is full. An empty batch is dropped."""

    @abstractmethod
    async def pause(self) -> None:
        """Let others have the event loop, where the job's time slice is used up; else this costs next to nothing.

        For loops over anything that may be large, such as all timers that a watermark makes due: call it once in
        `PAUSE_EVERY` steps, and after each call of a user's function. Other tasks run meanwhile, none of them in this
        operator: nothing comes in, and no barrier passes. State may be read by others, and a backend may put other
        mappings in the place of `StateTable.data`, so no iterator over them is held across a pause.
        """

    @abstractmethod
    async def side(self, tag: str, batch: Batch) -> None:
        """Hand a batch to the consumers of a side output; without one it is dropped."""

    @abstractmethod
    def has_side(self, tag: str) -> bool:
        """Whether anybody reads this side output."""

    @abstractmethod
    async def watermark(self, timestamp: int) -> None:
        """Emit a watermark (epoch ms) to main and side outputs: for operators that generate them."""

    @abstractmethod
    async def idle(self, idle: bool) -> None:
        """Say that this operator is idle or active: for operators that generate watermarks."""


class OperatorContext(Protocol):
    """What the task gives to an operator when it opens it."""

    job_name: str
    operator_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt: int
    clock: Clock
    metrics: MetricGroup
    #: Whether state was restored from a checkpoint.
    restored: bool
    #: Whether checkpoints are taken.
    checkpointing: bool
    job_parameters: Mapping[str, str]

    @property
    def event_time(self) -> int | None:
        """What `Operator.event_time` was in the checkpoint (of several subtasks the least), epoch ms."""
        ...

    @property
    def store(self) -> KeyedStore:
        """Keyed state."""
        ...

    @property
    def operator_store(self) -> OperatorStore:
        """State that belongs to the subtask and not to a key."""
        ...

    def schedule(self, when: int, callback: Callable[[int, Output], Awaitable[None]]) -> None:
        """Run `callback(when, out)` in this task, between elements, at processing time `when` (epoch ms).

        Not part of the state; an operator schedules anew when it is opened.
        """
        ...

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a background task in the job's task group; its failure fails the job, the job's end cancels it."""
        ...

    def wake(self) -> None:
        """Make the task call `operator.on_wake(out)` soon: for operators that wait for something of their own."""
        ...

    async def pause(self) -> None:
        """As `Output.pause`, for what `Operator.open` does with restored state."""
        ...


class Operator:
    """Logic on batches. One required method; all others default to passing on.

    No await that is not `out.send`, `out.pause`, state or declared I/O. `out` is never stored. No clock but the
    context's.
    A class's docstring answers: changelog in and out, state, watermarks, order.
    """

    name: ClassVar[str] = "operator"
    #: Declared keyed state, visible to explain, snapshot and restore.
    state: ClassVar[Mapping[str, StateSpec]] = {}
    #: Whether it calls functions of users: what they set in context variables is gone behind each batch and watermark.
    fresh_context: ClassVar[bool] = False

    @property
    def event_time(self) -> int | None:
        """How far event time has come by this operator's own reckoning, told yet or not, epoch ms; kept in checkpoints.

        None: it makes no watermarks of its own, or has nothing to go by yet.
        """
        return None

    async def open(self, ctx: OperatorContext) -> None:
        """Called before the first record, after state was restored."""

    async def on_batch(self, batch: Batch, out: Output) -> None:
        """Records came."""
        raise TypeError(f"{type(self).__name__} has no on_batch")

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        """Event time reached `watermark` (after event-time timers have fired). Gives the watermark to pass on."""
        return watermark

    async def on_idle(self, idle: bool, out: Output) -> bool | None:
        """All inputs became idle, or one is active again. Gives the status to pass on, None for none."""
        return idle

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        """An event-time timer is due; `ctx.store.key` is set to its key."""

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        """A processing-time timer is due; `ctx.store.key` is set to its key."""

    async def on_wake(self, out: Output) -> None:
        """`ctx.wake()` was called."""

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        """The last moment before state is captured: put what is held elsewhere into state, pre-commit."""

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The job's checkpoint is complete: commit. May be missed (a later one implies it)."""

    async def on_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The job's checkpoint was given up."""

    async def on_end(self, out: Output) -> None:
        """All inputs have ended (the final watermark has been seen): emit what is left."""

    async def close(self) -> None:
        """Called once, also after a failure or cancellation: release what `open` took."""

    @property
    def prepared(self) -> bool:
        """Whether something is prepared for a checkpoint and not committed: there is something to `settle`."""
        return False

    async def settle(self, commit: int, keep: int) -> None:
        """Called after `close`, where the job has ended or begins anew, to end what was prepared for checkpoints.

        Args:
            commit: up to this checkpoint it is committed: that was complete, and nobody can go on from it any more.
            keep: later ones up to this are left to whoever restores one. What comes after both is thrown away.
        """


class TwoInputOperator(Operator):
    """Logic on two inputs that differ in meaning. Watermarks, barriers and the end are merged before it sees them."""

    async def on_batch(self, batch: Batch, out: Output) -> None:
        raise TypeError(f"{type(self).__name__} has two inputs")

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        """Records of the first input came."""
        raise NotImplementedError

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        """Records of the second input came."""
        raise NotImplementedError


class Partitioner(ABC):
    """Which subtask of the consumer gets which records."""

    @abstractmethod
    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        """(target, records) pairs; the order of records within a target is kept."""


# -- sources -------------------------------------------------------------------------------------------------------


class Split(msgspec.Struct, frozen=True):
    """A unit of reading (a Kafka partition, a file): `id` names it for ever, `payload` is plain data for the reader."""

    id: str
    payload: Any = None


class SplitBatch(msgspec.Struct, gc=False):
    """Records of one split, oldest first; `timestamps` as in Batch, `kinds` too."""

    split: str
    values: Sequence[Any]
    timestamps: Sequence[int | None] | None = None
    kinds: Sequence[RowKind] | None = None


class SourceContext(Protocol):
    """What the source task gives to a reader."""

    job_name: str
    operator_name: str
    subtask_index: int
    parallelism: int
    clock: Clock
    metrics: MetricGroup
    #: Whether the job goes on from a checkpoint: a split without a position has come into being since.
    restored: bool

    def wake(self) -> None:
        """Say that `poll` may have something now. Callable from the loop's thread only."""
        ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Say that the reader works off a backlog, whose records need not come soon, or no longer does.

        While a reader says so, `execution.checkpointing.interval-during-backlog` holds. At a restart none does, until
        it says so again.
        """
        ...

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a background task in the job's task group; its failure fails the job, the job's end cancels it."""
        ...


class SourceReader(ABC, Generic[T]):
    """Reads the splits of one subtask."""

    @abstractmethod
    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        """Start with these splits; with each the position to go on from (None: the split's start)."""

    async def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        """More splits were discovered."""
        raise NotImplementedError(f"{type(self).__name__} takes no further splits")

    @abstractmethod
    def poll(self, max_records: int) -> SplitBatch | Watermark | WatermarkStatus | Barrier | None:
        """What is there now, at most `max_records` of one split; None when there is nothing. Never waits.

        After None the reader calls `ctx.wake()` as soon as there is something, or `finished` has become true. A source
        that knows event time by itself may give watermarks and statuses, a scripted one barriers too; they are passed
        on in order with the records.
        """

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether every split has been read to its end (and nothing is left for `poll`)."""

    def finished_splits(self) -> Iterable[str]:
        """Splits that have ended: they no longer hold back the watermark."""
        return ()

    def pause(self, splits: Sequence[str], resume: Sequence[str]) -> None:
        """Watermark alignment: stop handing out records of `splits`, go on with `resume`."""

    @abstractmethod
    def positions(self) -> Mapping[str, Any]:
        """By split: where to go on after the records that `poll` has given out. Plain data (msgpack)."""

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        """The checkpoint that holds these positions is complete."""

    @abstractmethod
    async def close(self) -> None:
        """Release everything; called once, also after failure and cancellation."""


class Source(ABC, Generic[T]):
    """A place that records come from. The object itself only describes; readers do the work."""

    #: Whether every reader comes to an end.
    bounded: bool = False
    #: Type of the elements where the source knows it.
    output_type: Any = None
    #: Whether it may be read by several subtasks.
    parallel: bool = True
    #: "yes" where its readers give timestamps and watermarks by themselves, without a strategy.
    event_time: str = "no"

    @abstractmethod
    async def discover(self) -> Sequence[Split]:
        """All splits there are now; called in the job's loop before it starts."""

    async def discover_again(self) -> Sequence[Split]:
        """All splits there are now, for a job that runs: called each discovery interval.

        What is raised here fails the job. A system that is out of reach for a while is better said in the log, with
        nothing given: readers wait for it too.
        """
        return await self.discover()

    #: Milliseconds between two looks for new splits; None: only at the start.
    discovery_interval: int | None = None

    @abstractmethod
    def reader(self) -> SourceReader[T]:
        """A reader for one subtask."""

    def on_job_start(self, job_id: str) -> None:
        """A job begins that will read it; called in the job's loop, once, before anything else."""

    def on_job_end(self, job_id: str, job_name: str, error: BaseException | None) -> None:
        """That job has ended for good, with all its restarts; called in the job's loop.

        Args:
            job_id: the id that `on_job_start` was given.
            job_name: its name.
            error: what made it fail, a CancelledError where it was cancelled, None where it has finished.
        """


# -- sinks ---------------------------------------------------------------------------------------------------------


class SinkContext(Protocol):
    """What the sink's task gives to a writer."""

    job_name: str
    operator_name: str
    subtask_index: int
    parallelism: int
    clock: Clock
    metrics: MetricGroup
    #: Whether checkpoints are taken; without them nothing is ever committed before the end of the input.
    checkpointing: bool

    def schedule(self, when: int, callback: Callable[[], Awaitable[None]]) -> None:
        """Run `callback()` in the sink's task, between batches, at processing time `when` (epoch ms)."""
        ...

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a background task in the job's task group; its failure fails the job, the job's end cancels it."""
        ...


class SinkWriter(ABC, Generic[T]):
    """Writes one subtask's records.

    At-least-once: `flush` returns when everything written is safe. Exactly once: what was written since the last
    barrier is handed over by `prepare_commit` as committables (plain data, kept in the checkpoint), and made visible by
    `commit` when the checkpoint is complete. After a failure the committables of the restored checkpoint are committed
    again, so `commit` is idempotent; what was written after it is aborted by `recover`.
    """

    @abstractmethod
    async def open(self, ctx: SinkContext) -> None:
        """Start; called before the first record."""

    async def recover(self, committables: Sequence[Any], state: Sequence[Any]) -> None:
        """After `open` on a restored job: commit `committables`, abort what came later; `state` is from `snapshot`."""

    @abstractmethod
    async def write(self, batch: Batch) -> None:
        """Take records; may wait (back-pressure)."""

    async def write_watermark(self, timestamp: int) -> None:
        """Event time has reached `timestamp` (epoch ms)."""

    async def flush(self, end_of_input: bool = False) -> None:
        """Make everything written safe; called before a barrier passes and at the end of the input."""

    async def prepare_commit(self, checkpoint_id: int) -> Sequence[Any]:
        """End the current transaction and name it; plain data."""
        return ()

    def snapshot(self) -> Any:
        """What else the writer needs after a restart; plain data or None."""
        return None

    async def commit(self, committables: Sequence[Any]) -> None:
        """Make them visible; a second time has no effect."""

    async def abort(self, committables: Sequence[Any]) -> None:
        """Throw them away; a second time has no effect."""

    @abstractmethod
    async def close(self) -> None:
        """Release everything; called once, also after failure and cancellation."""


class Sink(ABC, Generic[T]):
    """A place that records go to. The object itself only describes; writers do the work."""

    #: Whether `prepare_commit` and `commit` do something.
    two_phase: bool = False

    @abstractmethod
    def writer(self) -> SinkWriter[T]:
        """A writer for one subtask."""


# -- tables over streams -----------------------------------------------------------------------------------------


class TableBridge(Protocol):
    """What a stream sees of a table environment: `stream.to_table(t_env)` and its kin ask it."""

    def from_data_stream(self, data_stream: Any, *fields_or_schema: Any) -> Any: ...
    def from_changelog_stream(
        self, data_stream: Any, schema: Any = None, changelog_mode: ChangelogMode | None = None
    ) -> Any: ...
    def create_temporary_view(self, view_path: str, values_or_table: Any, *how: Any) -> None: ...


# -- tables over connectors ----------------------------------------------------------------------------------------


class TableColumn(msgspec.Struct, frozen=True):
    """A column of CREATE TABLE that a connector fills or takes: physical, or METADATA (then `metadata_key` is set)."""

    name: str
    type: DataType
    metadata_key: str | None = None
    #: A METADATA column that is only read.
    virtual: bool = False


class TableContext(msgspec.Struct, frozen=True):
    """A table as its connector sees it.

    Attributes:
        path: catalog, database, name.
        columns: physical and metadata columns in their order; computed ones are left out.
        options: of WITH, with those of a hint put over them; `connector` is among them.
        primary_key, partition_keys: names of columns.
        time_zone: the session's, an IANA name.
    """

    path: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    options: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    time_zone: str = "UTC"


class LookupReader(ABC):
    """Reads the rows of a table by key, in one subtask of a lookup join."""

    async def open(self) -> None:  # noqa: B027 nothing to do is fine
        """Called before the first keys."""

    @abstractmethod
    async def lookup(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[Sequence[Any]]:
        """For each key (values in the inner form, none is NULL) the records of the table that have it, as its
        `TableScan` reads them."""

    async def close(self) -> None:  # noqa: B027 nothing to do is fine
        """Called once at the end, also after a failure."""


class TableScan(msgspec.Struct, frozen=True):
    """How a table is read.

    Attributes:
        source: gives the records.
        columns: by column name, for each one asked for: Python source of its value in the inner form, where `r` is the
            record and `t` its timestamp (epoch ms or None).
        namespace: what the names in these sources stand for.
        changelog: which kinds come, in the batches' `kinds`.
        parallelism: asked for by the options, or None.
        lookup: makes a reader by the values of these columns, where the table can be looked up
            (FOR SYSTEM_TIME AS OF a processing time reads it so).
    """

    source: Source[Any]
    columns: Mapping[str, str]
    namespace: Mapping[str, Any] = {}
    changelog: ChangelogMode = ChangelogMode.insert_only()
    parallelism: int | None = None
    lookup: Callable[[tuple[str, ...]], LookupReader] | None = None


class TableSink(msgspec.Struct, frozen=True):
    """How a table is written.

    Attributes:
        sink: takes the records.
        template: Python source that builds a record, with `{0}`, `{1}`, … for the values of the columns of the context
            that are not virtual, in the inner form, each used at most once. Empty: tuples of these values.
        namespace: what the names in the template stand for.
        changelog: the kinds it takes. Without -U it is an upsert sink, by the table's primary key.
        parallelism: asked for by the options, or None.
    """

    sink: Sink[Any]
    template: str = ""
    namespace: Mapping[str, Any] = {}
    changelog: ChangelogMode = ChangelogMode.insert_only()
    parallelism: int | None = None


class TableFactory(ABC):
    """A connector by its SQL name. Found by `streamline.connectors.registry`, asked when a statement is planned."""

    #: The value of the option `connector`.
    identifier: ClassVar[str]

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        """How to read these columns of the table.

        Raises:
            ValidationException: the options are not those of a source of this connector.
        """
        raise ValidationException(
            f"Connector '{self.identifier}' can only be used as a sink. It cannot be used as a source."
        )

    def sink(self, table: TableContext) -> TableSink:
        """How to write the table.

        Raises:
            ValidationException: the options are not those of a sink of this connector.
        """
        raise ValidationException(
            f"Connector '{self.identifier}' can only be used as a source. It cannot be used as a sink."
        )
