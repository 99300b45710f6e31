"""The function classes that users subclass, and what they are given.

Everything that takes a function also takes a plain callable, sync or `async def`. What a class's methods return or
yield, they may do in an `async def` too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from streamline._core.watermarks import TimestampAssigner, WatermarkGenerator
from streamline._operators.async_retry import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from streamline._operators.broadcast import BroadcastContext
from streamline._operators.contexts import ProcessContext, TimeDomain, TimerService
from streamline._operators.function import Function
from streamline._operators.join.keyed_interval import IntervalJoinContext
from streamline._operators.runtime_context import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    RuntimeContext,
)
from streamline._operators.sink import SinkCallContext
from streamline._operators.window.call import KeyedStateStore, WindowContext
from streamline.abc import MetricGroup

__all__ = (
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ExponentialBackoffDelayRetryStrategy",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "MapPartitionFunction",
    "MetricGroup",
    "NoRetryStrategy",
    "OperatorStateStore",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RetryPredicate",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "SourceFunctionContext",
    "TimeDomain",
    "TimerService",
    "TimestampAssigner",
    "WatermarkGenerator",
    "WindowFunction",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
)

IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
KEY = TypeVar("KEY")
W = TypeVar("W")


# -- one record ----------------------------------------------------------------------------------------------------


class MapFunction(Function, ABC, Generic[IN, OUT]):
    """One record in, one out."""

    @abstractmethod
    def map(self, value: IN) -> Any:
        """What the record becomes."""


class FlatMapFunction(Function, ABC, Generic[IN, OUT]):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: IN) -> Any:
        """Returns an iterable, or yields; None is none."""


class FilterFunction(Function, ABC, Generic[IN]):
    """Keeps records."""

    @abstractmethod
    def filter(self, value: IN) -> Any:
        """Whether the record stays."""


class ReduceFunction(Function, ABC, Generic[IN]):
    """Combines two records into one of the same type; associative."""

    @abstractmethod
    def reduce(self, value1: IN, value2: IN) -> Any:
        """The combination of what there was (`value1`) and a new record; a new object, not a changed `value1`."""


class AggregateFunction(Function, ABC, Generic[IN, ACC, OUT]):
    """Combines the records of a window in an accumulator. Its methods return at once: they cannot be async."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """An accumulator without a record."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with one record more; it may be the same object, changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """What the window gives."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators in one: for windows that merge (sessions)."""


class KeySelector(Function, ABC, Generic[IN, KEY]):
    """Gives every record its key."""

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """The key: something with a value of its own that never changes (str, int, a tuple of such, …)."""


class Partitioner(Function, ABC, Generic[KEY]):
    """Says which subtask a key goes to."""

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """A number from 0 to `num_partitions` - 1."""


# -- with context --------------------------------------------------------------------------------------------------


class ProcessFunction(Function, ABC, Generic[IN, OUT]):
    """A record with its context; results are returned or yielded.

    Returned: None is nothing, a list or an iterator is many records, anything else is one. A record for a side output
    is sent by `ctx.output(tag, value)`, or yielded as `tag, value`.
    """

    Context: TypeAlias = ProcessContext

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessContext) -> Any:
        """A record came."""


class KeyedProcessFunction(Function, ABC, Generic[KEY, IN, OUT]):
    """A record of a keyed stream with its context: state and timers belong to its key."""

    Context: TypeAlias = ProcessContext
    OnTimerContext: TypeAlias = ProcessContext

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessContext) -> Any:
        """A record came; results are returned or yielded as in a ProcessFunction."""

    def on_timer(self, timestamp: int, ctx: ProcessContext) -> Any:
        """A timer of the current key is due; `timestamp` is the timer's, epoch ms."""


class CoMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Two streams, one record out for each record in."""

    @abstractmethod
    def map1(self, value: IN1) -> Any:
        """What a record of the first stream becomes."""

    @abstractmethod
    def map2(self, value: IN2) -> Any:
        """What a record of the second stream becomes."""


class CoFlatMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Two streams, any number of records out for each record in."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Any:
        """For a record of the first stream: an iterable, or yields."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Any:
        """For a record of the second stream: an iterable, or yields."""


class CoProcessFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Two streams with context."""

    Context: TypeAlias = ProcessContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: ProcessContext) -> Any:
        """A record of the first stream came."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: ProcessContext) -> Any:
        """A record of the second stream came."""


class KeyedCoProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """Two streams keyed alike: both sides see the state and the timers of the key."""

    Context: TypeAlias = ProcessContext
    OnTimerContext: TypeAlias = ProcessContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: ProcessContext) -> Any:
        """A record of the first stream came."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: ProcessContext) -> Any:
        """A record of the second stream came."""

    def on_timer(self, timestamp: int, ctx: ProcessContext) -> Any:
        """A timer of the current key is due."""


# -- broadcast -----------------------------------------------------------------------------------------------------


class BaseBroadcastProcessFunction(Function, ABC):
    """What both broadcast process functions have in common."""

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = BroadcastContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Records beside broadcast ones, which fill state that all subtasks see alike."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastContext) -> Any:
        """A record came; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Any:
        """A broadcast record came; broadcast state can be changed, by every subtask in the same way."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Records of a keyed stream beside broadcast ones; the former have keyed state and timers."""

    OnTimerContext: TypeAlias = BroadcastContext

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastContext) -> Any:
        """A record came; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Any:
        """A broadcast record came; `ctx.apply_to_keyed_state` reaches the state of all keys."""

    def on_timer(self, timestamp: int, ctx: BroadcastContext) -> Any:
        """A timer of the current key is due."""


# -- joins ---------------------------------------------------------------------------------------------------------


class JoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A pair of a window join."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Any:
        """One result for the pair."""


class FlatJoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A pair of a window join, with any number of results."""

    flat: ClassVar = True

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Any:
        """Returns an iterable, or yields; None is none."""


class CoGroupFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Both sides of a key and window."""

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Any:
        """Results are returned or yielded as in a ProcessFunction; one side may be empty."""


class ProcessJoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A pair of an interval join."""

    Context: TypeAlias = IntervalJoinContext

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: IntervalJoinContext) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""


# -- partitions ----------------------------------------------------------------------------------------------------


class MapPartitionFunction(Function, ABC, Generic[IN, OUT]):
    """All records of a partition at once."""

    @abstractmethod
    def map_partition(self, values: Iterable[IN]) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""


# -- async I/O -----------------------------------------------------------------------------------------------------


class AsyncFunction(Function, ABC, Generic[IN, OUT]):
    """A request for every record; many are under way at a time."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> Any:
        """The results: a list is many, None is none, anything else is one."""

    def timeout(self, value: IN) -> Any:
        """The results of a request that has taken too long; by default it fails the job.

        Raises:
            TimeoutError: always, unless it is overridden.
        """
        raise TimeoutError("Async function call has timed out.")


# -- windows -------------------------------------------------------------------------------------------------------


class WindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """The records of a window of a key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""


class AllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """The records of a window over all keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""


class ProcessWindowFunction(Function, ABC, Generic[IN, OUT, KEY, W]):
    """The records of a window of a key, or the result of an aggregation before it, with context."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, key: KEY, context: WindowContext, elements: Iterable[IN]) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""

    def clear(self, context: WindowContext) -> None:
        """The window is gone: delete what `context.window_state()` holds."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """The records of a window over all keys, with context."""

    Context: TypeAlias = WindowContext

    @abstractmethod
    def process(self, context: WindowContext, elements: Iterable[IN]) -> Any:
        """Results are returned or yielded as in a ProcessFunction."""

    def clear(self, context: WindowContext) -> None:
        """The window is gone: delete what `context.window_state()` holds."""


# -- ends ----------------------------------------------------------------------------------------------------------


class SourceFunctionContext(Protocol):
    """What the `run` of a SourceFunction is given."""

    async def collect(self, element: Any) -> None:
        """Emit a record; waits while the job is behind."""
        ...

    async def collect_with_timestamp(self, element: Any, timestamp: Any) -> None:
        """Emit a record with its event time (epoch ms or aware datetime)."""
        ...

    async def emit_watermark(self, timestamp: int) -> None:
        """Say that event time has reached `timestamp` (epoch ms)."""
        ...

    async def mark_as_temporarily_idle(self) -> None:
        """Say that nothing will come for a while; the next record takes it back."""
        ...


class SourceFunction(Function, ABC, Generic[OUT]):
    """Brings records into the job: for sources without positions; with them, subclass `streamline.abc.Source`."""

    @abstractmethod
    def run(self, ctx: SourceFunctionContext) -> Any:
        """Emit records until there are none: an async generator, or `async def` with `await ctx.collect(record)`."""

    def cancel(self) -> Any:
        """The job ends: make `run` return."""


class SinkFunction(Function, ABC, Generic[IN]):
    """Takes records out of the job, at least once."""

    Context: TypeAlias = SinkCallContext

    @abstractmethod
    def invoke(self, value: IN, context: SinkCallContext) -> Any:
        """A record came."""


# -- checkpoints ---------------------------------------------------------------------------------------------------


class CheckpointedFunction:
    """Mixed into a function class: it has operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> Any:
        """Before `open`: get the state; after a restore it is filled."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> Any:
        """At every barrier: put into the state what is held elsewhere."""


class CheckpointListener:
    """Mixed into a function class: it hears of checkpoints."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> Any:
        """The checkpoint is complete. May be missed; a later one implies it."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> Any:
        """The checkpoint was given up."""
