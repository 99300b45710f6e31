"""DataStream: a stream of records, and all that can be done with one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamline._channel.partition import (
    Broadcast,
    Custom,
    Forward,
    Global,
    PartitionSpec,
    Rebalance,
    Rescale,
    Shuffle,
)
from streamline._core.changes import Row
from streamline._core.output_tag import OutputTag
from streamline._core.typeinfo import element_text
from streamline._core.watermarks import WatermarkStrategy
from streamline._graph.stream_graph import Node
from streamline._operators.collect import Collect, Handover
from streamline._operators.filter import Filter
from streamline._operators.flat_map import FlatMap
from streamline._operators.function import method_of
from streamline._operators.map import Map
from streamline._operators.process import Process
from streamline._operators.sink import CallSink, Print, WriterSink
from streamline._operators.timestamps import AssignTimestamps
from streamline._operators.window.assign import WindowAssigner
from streamline.abc import Sink, TableBridge
from streamline.errors import ValidationException
from streamline.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from streamline.stream.adapt import checked, differ, projected, result_type, selector_of, unkeyed
from streamline.stream.base import Origin, Stream, StreamNode
from streamline.stream.results import CollectedResults

if TYPE_CHECKING:
    from streamline.stream.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from streamline.stream.environment import StreamExecutionEnvironment
    from streamline.stream.joined import CoGroupedStreams, JoinedStreams
    from streamline.stream.keyed import KeyedStream
    from streamline.stream.partition_window import PartitionWindowedStream
    from streamline.stream.windowed import AllWindowedStream

__all__ = ("DataStream", "DataStreamSink")

T = TypeVar("T")
R = TypeVar("R")


class DataStream(Stream, StreamNode, Generic[T]):
    """A stream of records of one type.

    Methods that build (map, filter, …) are plain and give a new stream; nothing runs before `execute`.
    """

    def _node_id(self) -> int:
        if len(self._origins) != 1 or self._origins[0].side is not None:
            what = "a union" if len(self._origins) != 1 else "a side output"
            raise ValidationException(f"{what} is no operator of its own: it has no name, uid or parallelism")
        return self._origins[0].node

    def _new(self, node: Node) -> DataStream[Any]:
        return DataStream(self._env, [Origin(node.id)], node.output_type)

    # -- one record after the other ------------------------------------------------------------------------------

    @overload
    def map(self, func: MapFunction[T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], Awaitable[R]], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], R], output_type: Any = None) -> DataStream[R]: ...
    def map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Replace every record by what a MapFunction or a callable makes of it.

        Args:
            func: MapFunction, or a callable of (record), sync or async.
            output_type: type of the results; by default from the function's return annotation.

        Raises:
            ValidationException: `func` is no such function.
        """
        checked(func, "map", "map")
        return self._new(self._attach("map", lambda: Map(func), output_type=result_type(output_type, func, "map")))

    @overload
    def flat_map(self, func: FlatMapFunction[T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def flat_map(self, func: Callable[[T], AsyncIterator[R]], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def flat_map(
        self, func: Callable[[T], Awaitable[Iterable[R] | None]], output_type: Any = None
    ) -> DataStream[R]: ...
    @overload
    def flat_map(self, func: Callable[[T], Iterable[R] | None], output_type: Any = None) -> DataStream[R]: ...
    def flat_map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Replace every record by those that a function returns in an iterable or yields.

        Args:
            func: FlatMapFunction, or a callable of (record), sync, async, or a generator.
            output_type: type of the results; by default from the return annotation (`Iterator[X]`, `list[X]`).
        """
        checked(func, "flat_map", "flat_map")
        kind = result_type(output_type, func, "flat_map", elements=True)
        return self._new(self._attach("flat_map", lambda: FlatMap(func), output_type=kind))

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """Keep the records for which a FilterFunction or a callable of (record) is true."""
        checked(func, "filter", "filter")
        return self._new(self._attach("filter", lambda: Filter(func), output_type=self._type))

    @overload
    def process(self, func: ProcessFunction[T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a ProcessFunction, or a callable of (record, context), that returns or yields results.

        Args:
            func: returned None is nothing, a list or an iterator is many records, anything else is one; async works.
            output_type: type of the results; by default from the return annotation.

        Raises:
            ValidationException: it is a KeyedProcessFunction, or none at all.
        """
        unkeyed(checked(func, "process_element", "process"), KeyedProcessFunction, "process")
        event_time = self.event_time
        kind = result_type(output_type, func, "process_element", elements=True)
        return self._new(self._attach("process", lambda: Process(func, event_time), output_type=kind))

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Keep some fields of tuples (or Rows), in the given order; the results are tuples.

        Raises:
            ValidationException: no field was named, a name instead of a number, a number that the tuples have not, or
                the records are no tuples. Where their type is not known the job fails with the first record.
        """
        if not field_indexes or not all(type(i) is int and i >= 0 for i in field_indexes):
            raise ValidationException(f"project needs numbers of fields of a tuple (from 0), not {field_indexes!r}")
        kind = projected(self._type, field_indexes)
        return self._new(self._attach("project", lambda: Map(_projection(field_indexes)), output_type=kind))

    # -- keys, streams together ----------------------------------------------------------------------------------

    def key_by(self, key_selector: KeySelector[T, Any] | Callable[[T], Any], key_type: Any = None) -> KeyedStream[T]:
        """Give every record a key: what follows has state and order per key.

        Args:
            key_selector: KeySelector, or a callable of (record) to something with a value that never changes.
            key_type: type of the key, where wanted.

        Raises:
            ValidationException: `key_selector` is none, or async.
        """
        return self._env.builders.keyed(self, selector_of(key_selector), key_type)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream[T]:
        """Group all records in windows, in one subtask.

        Raises:
            ValidationException: the windows follow event time, and the records can carry no timestamps.
        """
        return self._env.builders.all_windowed(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T]:
        """Windows of `size` records over all; with `slide`, the last `size` records each `slide` records."""
        return self._env.builders.all_count_windowed(self, size, slide)

    @overload
    def connect(self, ds: DataStream[Any]) -> ConnectedStreams[T, Any]: ...
    @overload
    def connect(self, ds: BroadcastStream[Any]) -> BroadcastConnectedStream[T, Any]: ...
    def connect(self, ds: Any) -> Any:
        """Have one function work on the records of two streams, or of this one beside a broadcast one.

        Raises:
            ValidationException: `ds` is no stream of this environment.
        """
        return self._env.builders.connected(self, ds)

    def join(self, other_stream: DataStream[Any]) -> JoinedStreams[T, Any]:
        """Join by key in windows: `a.join(b).where(key).equal_to(key).window(assigner).apply(function)`."""
        return self._env.builders.joined(self, other_stream)

    def co_group(self, other_stream: DataStream[Any]) -> CoGroupedStreams[T, Any]:
        """Both sides of a key in windows: `a.co_group(b).where(key).equal_to(key).window(assigner).apply(function)`."""
        return self._env.builders.co_grouped(self, other_stream)

    def full_window_partition(self) -> PartitionWindowedStream[T]:
        """All records of a subtask (of a key, where the stream is keyed) as one window that closes at the end."""
        return self._env.builders.partition_window(self)

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """The records of all streams, in no order between them; the watermark is the smallest of theirs.

        A union with itself has every record twice. It is no operator: it costs nothing.

        Raises:
            ValidationException: a stream of another environment, or of another type where both are known.
        """
        origins = list(self._plain_origins())
        kind = self._type
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise ValidationException(f"union needs streams, not {stream!r}")
            if stream._env is not self._env:
                raise ValidationException("union: the streams belong to different environments")
            if differ(kind, stream._type):
                raise ValidationException(
                    f"Cannot union streams of different types: {element_text(kind)} and {element_text(stream._type)}. "
                    "Map them to one type, or declare what they have in common by type_info= or output_type="
                )
            kind = stream._type if kind is None else kind
            origins += stream._plain_origins()
        return DataStream(self._env, origins, kind)

    def _plain_origins(self) -> list[Origin]:
        return list(self._origins)

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """The records that the operator has sent to a side output.

        Raises:
            ValidationException: `output_tag` is no OutputTag, or this stream is no operator's.
        """
        if not isinstance(output_tag, OutputTag):
            raise ValidationException(f"get_side_output needs an OutputTag, not {output_tag!r}")
        return DataStream(self._env, [Origin(self._node_id(), output_tag.tag_id)], output_tag.type_info)

    side_output = get_side_output

    # -- partitioning --------------------------------------------------------------------------------------------

    def _partitioned(self, partition: PartitionSpec) -> DataStream[T]:
        return DataStream(self._env, self._parted(partition), self._type)

    def rebalance(self) -> DataStream[T]:
        """Records go to the next operator's subtasks in turn."""
        return self._partitioned(Rebalance())

    def rescale(self) -> DataStream[T]:
        """Records go in turn to some of the next operator's subtasks: those near to the sender's."""
        return self._partitioned(Rescale())

    def shuffle(self) -> DataStream[T]:
        """Records go to subtasks at random."""
        return self._partitioned(Shuffle())

    def forward(self) -> DataStream[T]:
        """Subtask i sends to subtask i; the next operator has to have the same parallelism."""
        return self._partitioned(self._env.forced(Forward()))

    def global_(self) -> DataStream[T]:
        """All records go to the next operator's first subtask."""
        return self._partitioned(Global())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T]:
        """Records go where a function says.

        Args:
            partitioner: Partitioner, or a callable of (key, number of subtasks) to the number of a subtask.
            key_selector: KeySelector, or a callable of (record).
        """
        checked(partitioner, "partition", "partition_custom")
        selector = selector_of(key_selector, "partition_custom")
        return self._partitioned(Custom(method_of(partitioner, "partition"), selector))

    @overload
    def broadcast(self) -> DataStream[T]: ...
    @overload
    def broadcast(self, *broadcast_state_descriptors: Any) -> BroadcastStream[T]: ...
    def broadcast(self, *broadcast_state_descriptors: Any) -> DataStream[T] | BroadcastStream[T]:
        """Every record goes to all subtasks of the next operator.

        Args:
            broadcast_state_descriptors: MapStateDescriptors of states that the records fill, for
                `other.connect(this).process(...)`; without any, the result is an ordinary stream.
        """
        if broadcast_state_descriptors:
            return self._env.builders.broadcast(self, broadcast_state_descriptors)
        return self._partitioned(Broadcast())

    # -- event time ----------------------------------------------------------------------------------------------

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[Any]) -> DataStream[T]:
        """Give records timestamps, and make watermarks from them; those that came before are dropped.

        A warning names both strategies where the stream has one already.

        Raises:
            ValidationException: `watermark_strategy` is none.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise ValidationException(f"a WatermarkStrategy is needed, not {watermark_strategy!r}")
        before = self._strategies()
        if before:
            warnings.warn(
                f"a second watermark strategy ({watermark_strategy.text}) over a stream that has one "
                f"({', '.join(before)}): the watermarks of the first are dropped here",
                UserWarning,
                stacklevel=2,
            )
        interval = self._env.watermark_interval
        return self._new(
            self._attach(
                "timestamps",
                lambda: AssignTimestamps(watermark_strategy, interval),
                output_type=self._type,
                event_time="ends" if watermark_strategy.text == "no watermarks" else "yes",
                description=watermark_strategy.text,
                options=(
                    ("strategy", watermark_strategy),
                    ("batch", lambda: AssignTimestamps(watermark_strategy.without_watermarks(), interval)),
                ),
            )
        )

    # -- tables --------------------------------------------------------------------------------------------------

    def to_table(self, table_environment: TableBridge, *fields_or_schema: Any) -> Any:
        """The records as a table: `table_environment.from_data_stream(stream, …)`."""
        return table_environment.from_data_stream(self, *fields_or_schema)

    def to_changelog_table(self, table_environment: TableBridge, schema: Any = None, changelog_mode: Any = None) -> Any:
        """The changes as a table: `table_environment.from_changelog_stream(stream, …)`."""
        return table_environment.from_changelog_stream(self, schema, changelog_mode)

    def create_temporary_view(self, table_environment: TableBridge, path: str, *fields_or_schema: Any) -> None:
        """Register the records as a table: `table_environment.create_temporary_view(path, stream, …)`."""
        table_environment.create_temporary_view(path, self, *fields_or_schema)

    def _strategies(self) -> list[str]:
        """The watermark strategies that this stream's event time comes from."""
        graph, found = self._env.graph, dict[str, None]()
        stack = [o.node for o in self._origins]
        while stack:
            node = graph.nodes[stack.pop()]
            if node.event_time != "yes":
                continue
            strategy = dict(node.options).get("strategy", node.strategy)
            if strategy is not None:
                found[strategy.text] = None
            else:
                stack += [e.source for e in graph.inputs(node.id)]
        return list(found)

    # -- what there is not ---------------------------------------------------------------------------------------

    def iterate(self, max_wait_time_millis: int | None = None) -> DataStream[T]:
        """Refused: Flink has removed iterations in 2.0.

        Raises:
            ValidationException: always.
        """
        raise ValidationException(
            "iterate is not supported (Flink has removed it in 2.0): send what has to come round again to a topic or a "
            "ChannelSource that the job reads"
        )

    def cache(self) -> DataStream[T]:
        """Refused: streams are not kept between jobs.

        Raises:
            ValidationException: always.
        """
        raise ValidationException(
            "cached streams are not supported: collect the records with execute_and_collect() and begin the next job "
            "with from_collection(), or write them to a file"
        )

    # -- ends ----------------------------------------------------------------------------------------------------

    def print(self, sink_identifier: str = "") -> DataStreamSink:
        """Write one line a record to standard output.

        Args:
            sink_identifier: every line begins with it. With a parallelism above 1 the subtask's number (from 1) stands
                there too.
        """
        return self._printing(lambda text: sys.stdout.write(text), sink_identifier)

    def print_to_err(self, sink_identifier: str = "") -> DataStreamSink:
        """As `print`, to standard error."""
        return self._printing(lambda text: sys.stderr.write(text), sink_identifier)

    def _printing(self, write: Callable[[str], Any], sink_identifier: str) -> DataStreamSink:
        return self._sink("print", lambda: Print(write, sink_identifier))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Call a function with every record: a SinkFunction, or a callable of (record) such as `out.append`."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        checked(sink_func, "invoke", "add_sink")
        return self._sink("sink", lambda: CallSink(sink_func))

    def sink_to(self, sink: Sink[Any]) -> DataStreamSink:
        """Write the records to a sink.

        Raises:
            ValidationException: `sink` is no Sink.
        """
        if not isinstance(sink, Sink):
            raise ValidationException(f"sink_to needs a Sink, not {sink!r}; for a function there is add_sink")
        return self._sink(type(sink).__name__, lambda: WriterSink(sink))

    def _sink(self, name: str, operator: Callable[[], Any]) -> DataStreamSink:
        return DataStreamSink(self._env, self._attach(name, operator, kind="sink").id)

    def execute_and_collect(
        self,
        job_execution_name: str | None = None,
        limit: int | None = None,
        *,
        restore: str | os.PathLike[str] | None = "latest",
    ) -> CollectedResults[T]:
        """Run the job, and read this stream's records as they come.

        Other sinks that wait to be executed run in the same job. The results are an async iterator and an async context
        manager; leaving it cancels the job. With checkpointing a record comes out when a checkpoint is complete behind
        it, so that no restart gives it twice; at-least-once mode does not wait.

        Args:
            job_execution_name: the job's name.
            limit: end after so many records; at least 1.
            restore: as in `execute`.

        Raises:
            ValidationException: the limit is not positive.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValidationException(f"the limit has to be an int of at least 1, or None for all, not {limit!r}")
        handover, exactly_once = Handover(), self._env.exactly_once
        launch = self._env.collecting(
            self._edges(), lambda: Collect(handover, exactly_once), job_execution_name, restore
        )
        return CollectedResults(launch, handover, limit)


class DataStreamSink(StreamNode):
    """The end of a stream."""

    def __init__(self, env: StreamExecutionEnvironment, node_id: int) -> None:
        self._env = env
        self._id = node_id

    def _node_id(self) -> int:
        return self._id


def _projection(indexes: tuple[int, ...]) -> Callable[[Any], Any]:
    largest = max(indexes)

    def project(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list, Row)):
            raise ValidationException(f"project keeps fields of tuples and Rows, and {type(value).__name__} is none")
        if largest >= len(value):
            raise ValidationException(f"project: there is no field number {largest}, the record has {len(value)}")
        return tuple([value[i] for i in indexes])

    return project
