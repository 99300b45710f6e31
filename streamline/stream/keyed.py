"""KeyedStream: a stream whose records have keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamline._channel.partition import Global, Hash, PartitionSpec
from streamline._graph.stream_graph import Node
from streamline._operators.fields import Rolling, by_field, extreme, field_sum
from streamline._operators.function import Function
from streamline._operators.keyed_calls import KeyedCall
from streamline._operators.process import KeyedProcess
from streamline._operators.reduce import Reduce
from streamline._operators.window.assign import GlobalWindows, WindowAssigner
from streamline.abc import Operator
from streamline.errors import ValidationException
from streamline.functions import FilterFunction, FlatMapFunction, KeyedProcessFunction, MapFunction, ProcessFunction
from streamline.stream.adapt import check_field, checked, result_type
from streamline.stream.base import Origin
from streamline.stream.datastream import DataStream
from streamline.stream.windowed import WindowedStream, count_windowed

if TYPE_CHECKING:
    from streamline.stream.connected import IntervalJoin
    from streamline.stream.environment import StreamExecutionEnvironment

__all__ = ("KeyedStream",)

T = TypeVar("T")
R = TypeVar("R")


class KeyedStream(DataStream[T], Generic[T]):
    """Records with keys: those of one key are worked on by one subtask, in order, with the key's state and timers."""

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        origins: Sequence[Origin],
        element_type: Any,
        selector: Callable[[Any], Any],
        key_type: Any = None,
    ) -> None:
        super().__init__(env, [Origin(o.node, o.side, Hash(selector)) for o in origins], element_type)
        self._selector = selector
        self._key_type = key_type

    @property
    def key_selector(self) -> Callable[[Any], Any]:
        """Gives a record's key."""
        return self._selector

    def get_key_type(self) -> Any:
        """Type of the keys, where it was declared."""
        return self._key_type

    def _node_id(self) -> int:
        raise ValidationException("key_by is no operator of its own: it has no name, uid or parallelism")

    def _plain_origins(self) -> list[Origin]:
        return [Origin(o.node, o.side) for o in self._origins]

    def _keyed(self, name: str, operator: Callable[[], Operator], output_type: Any, description: str = "") -> Node:
        return self._attach(name, operator, output_type=output_type, key=(self._selector,), description=description)

    # -- one record after the other ------------------------------------------------------------------------------

    @overload
    def map(self, func: MapFunction[T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], Awaitable[R]], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], R], output_type: Any = None) -> DataStream[R]: ...
    def map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """As `DataStream.map`; a MapFunction may have keyed state."""
        if not isinstance(func, Function):
            return super().map(func, output_type)
        checked(func, "map", "map")
        kind, selector = result_type(output_type, func, "map"), self._selector
        return self._new(self._keyed("map", lambda: KeyedCall(func, "map", selector), kind))

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
        """As `DataStream.flat_map`; a FlatMapFunction may have keyed state."""
        if not isinstance(func, Function):
            return super().flat_map(func, output_type)
        checked(func, "flat_map", "flat_map")
        kind, selector = result_type(output_type, func, "flat_map", elements=True), self._selector
        return self._new(self._keyed("flat_map", lambda: KeyedCall(func, "flat_map", selector), kind))

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """As `DataStream.filter`; a FilterFunction may have keyed state."""
        if not isinstance(func, Function):
            return super().filter(func)
        checked(func, "filter", "filter")
        selector = self._selector
        return self._new(self._keyed("filter", lambda: KeyedCall(func, "filter", selector), self._type))

    @overload
    def process(self, func: ProcessFunction[T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def process(self, func: KeyedProcessFunction[Any, T, R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a KeyedProcessFunction, or a callable of (record, context), with the key's state and timers.

        Args:
            func: returned None is nothing, a list or an iterator is many records, anything else is one; async works.
            output_type: type of the results; by default from the return annotation.
        """
        checked(func, "process_element", "process")
        kind = result_type(output_type, func, "process_element", elements=True)
        selector, event_time = self._selector, self.event_time
        return self._new(self._keyed("process", lambda: KeyedProcess(func, selector, event_time), kind))

    # -- rolling aggregations ------------------------------------------------------------------------------------

    def reduce(self, func: Any) -> DataStream[T]:
        """The running combination of every key's records: one result for every record, the first as it is.

        Args:
            func: ReduceFunction, or a callable of (what there was, a new record).
        """
        checked(func, "reduce", "reduce")
        return self._reduce("reduce", func)

    def _reduce(self, name: str, func: Any) -> DataStream[T]:
        selector = self._selector
        batch: Callable[[], Operator] = lambda: Reduce(func, selector, final=True)  # noqa: E731
        node = self._attach(
            name,
            lambda: Reduce(func, selector),
            output_type=self._type,
            key=(selector,),
            options=(("batch", batch),),
        )
        return self._new(node)

    def _rolling(self, name: str, field: int | str, func: Rolling) -> DataStream[T]:
        check_field(self._type, field, name)
        return self._reduce(name, func)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """The running sum of a field; the other fields are those of the key's first record.

        Args:
            position_to_sum: number or name of a field; for plain numbers leave it out.

        Raises:
            ValidationException: the records' type is known and has no such field, or it is no number. Where the type is
                not known the job fails with the first record.
        """
        return self._rolling("sum", position_to_sum, field_sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The running minimum of a field; the other fields are those of the key's first record."""
        return self._rolling("min", position_to_min, extreme(position_to_min, smallest=True))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The running maximum of a field; the other fields are those of the key's first record."""
        return self._rolling("max", position_to_max, extreme(position_to_max, smallest=False))

    def min_by(self, position_to_min_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the smallest value of a field so far; of several the first (else the last)."""
        return self._rolling("min_by", position_to_min_by, by_field(position_to_min_by, smallest=True, first=first))

    def max_by(self, position_to_max_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record with the largest value of a field so far; of several the first (else the last)."""
        return self._rolling("max_by", position_to_max_by, by_field(position_to_max_by, smallest=False, first=first))

    # -- windows -------------------------------------------------------------------------------------------------

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[T]:
        """Group the records of every key in windows.

        Raises:
            ValidationException: the windows follow event time, and the records can carry no timestamps.
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T]:
        """Windows of `size` records; with `slide`, the last `size` records each `slide` records.

        A window that is not full when the input ends gives nothing.
        """
        return count_windowed(WindowedStream(self, GlobalWindows.create()), size, slide)

    def interval_join(self, other_stream: KeyedStream[Any]) -> IntervalJoin[T, Any]:
        """Join records of one key whose times are near: `.between(lower, upper).process(function)`.

        Raises:
            ValidationException: a stream can carry no timestamps, or the other one is not keyed.
        """
        return self._env.builders.interval_join(self, other_stream)

    def window_result(
        self, name: str, operator: Callable[[], Operator], output_type: Any, description: str, of_all: bool
    ) -> DataStream[Any]:
        """The stream of a window operator's results."""
        edges = self._edges(partition=Global()) if of_all else None
        node = self._attach(
            name,
            operator,
            output_type=output_type,
            key=(self._selector,),
            edges=edges,
            description=description,
            non_parallel=of_all,
        )
        return self._new(node)

    def sources_of_time(self) -> list[str]:
        """Names of the operators above from which on there are no timestamps."""
        graph, found = self._env.graph, []
        stack, seen = [o.node for o in self._origins], set()
        while stack:
            node = graph.nodes[stack.pop()]
            if node.id in seen or node.event_time != "no":
                continue
            seen.add(node.id)
            conversion = dict(node.options).get("conversion")
            if conversion is not None:  # what a table has made of its inputs' event time is the table's affair
                found.append(str(conversion))
                continue
            above = [e.source for e in graph.inputs(node.id)]
            if not any(graph.nodes[s].event_time == "no" for s in above):
                found.append(node.name)
            stack += above
        return found

    # -- what a keyed stream cannot be ---------------------------------------------------------------------------

    def _partitioned(self, partition: PartitionSpec) -> DataStream[T]:
        raise ValidationException("Cannot override partitioning for KeyedStream.")
