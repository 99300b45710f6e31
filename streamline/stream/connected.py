"""Two streams with functions that see both: connected streams, broadcast, interval joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from streamline._channel.partition import Broadcast
from streamline._core.output_tag import OutputTag
from streamline._core.time import Duration, to_millis
from streamline._graph.stream_graph import Edge
from streamline._operators.broadcast import BroadcastProcess
from streamline._operators.co_function import CoFunction, CoMode
from streamline._operators.function import Function
from streamline._operators.join.keyed_interval import KeyedIntervalJoin
from streamline.errors import ValidationException
from streamline.functions import KeyedBroadcastProcessFunction, KeyedCoProcessFunction
from streamline.stream.adapt import checked, event_time_of, event_time_of_any, result_type, selector_of, unkeyed
from streamline.stream.datastream import DataStream
from streamline.stream.keyed import KeyedStream

__all__ = ("BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams", "IntervalJoin", "IntervalJoined")

T1 = TypeVar("T1")
T2 = TypeVar("T2")


class ConnectedStreams(Generic[T1, T2]):
    """Two streams of different types that one function works on; no order between them."""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise ValidationException("connect: the streams belong to different environments")
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: Any = None) -> ConnectedStreams[T1, T2]:
        """Key both streams alike: records of one key meet in one subtask, with shared state."""
        return ConnectedStreams(
            self.stream1.key_by(selector_of(key_selector1, "key_by"), key_type),
            self.stream2.key_by(selector_of(key_selector2, "key_by"), key_type),
        )

    @property
    def is_keyed(self) -> bool:
        """Whether both streams have keys."""
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def map(self, func: Any, func2: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Replace every record.

        Args:
            func: a CoMapFunction, or a callable for records of the first stream.
            func2: a callable for records of the second stream (with a CoMapFunction: the output type).
            output_type: type of the results.
        """
        return self._build("map", func, func2, output_type)

    def flat_map(self, func: Any, func2: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Replace every record by those that a CoFlatMapFunction, or one of two callables, returns or yields."""
        return self._build("flat_map", func, func2, output_type)

    def process(self, func: Any, func2: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Call a CoProcessFunction or KeyedCoProcessFunction, or one of two callables of (record, context).

        Raises:
            ValidationException: only one of the two streams is keyed.
        """
        return self._build("process_element", func, func2, output_type)

    def _build(self, mode: CoMode, func: Any, func2: Any, output_type: Any) -> DataStream[Any]:
        name = "process" if mode == "process_element" else mode
        one, two = self.stream1, self.stream2
        selectors = None
        if isinstance(one, KeyedStream) and isinstance(two, KeyedStream):
            selectors = (one.key_selector, two.key_selector)
        elif isinstance(one, KeyedStream) or isinstance(two, KeyedStream):
            raise ValidationException(
                "connect: one of the streams is keyed and the other is not; key both (key_by on the connected streams)"
            )
        functions = _two_functions(func, func2, mode, name)
        if selectors is None:
            unkeyed(func, KeyedCoProcessFunction, name)
        if len(functions) == 1 and func2 is not None:
            output_type = func2
        kind = result_type(output_type, functions[0], f"{mode}1", elements=mode != "map")
        event_time = event_time_of_any([one.event_time, two.event_time])
        node = one._attach(
            f"co_{name}",
            lambda: CoFunction(functions, mode, selectors, event_time),
            output_type=kind,
            key=() if selectors is None else selectors,
            edges=[*one._edges(0), *two._edges(1)],
            event_time=event_time,
        )
        return one._new(node)


def _two_functions(func: Any, func2: Any, mode: CoMode, name: str) -> tuple[Any, ...]:
    """One object with both methods, or two callables."""
    if isinstance(func, Function) or hasattr(func, f"{mode}1"):
        for i in (1, 2):
            checked(func, f"{mode}{i}", name)
        return (func,)
    if callable(func) and callable(func2):
        return (func, func2)
    raise ValidationException(
        f"{name} of connected streams needs a function object with {mode}1 and {mode}2, or two callables, "
        f"not {func!r} and {func2!r}"
    )


class BroadcastStream(Generic[T1]):
    """A stream whose records go to every subtask, with the states that they fill."""

    def __init__(self, stream: DataStream[T1], descriptors: Sequence[Any]) -> None:
        self.stream = stream
        self.descriptors = list(descriptors)


class BroadcastConnectedStream(Generic[T1, T2]):
    """A stream beside a broadcast one."""

    def __init__(self, stream: DataStream[T1], broadcast: BroadcastStream[T2]) -> None:
        if stream.get_execution_environment() is not broadcast.stream.get_execution_environment():
            raise ValidationException("connect: the streams belong to different environments")
        self.stream = stream
        self.broadcast = broadcast

    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a BroadcastProcessFunction, or, where the stream is keyed, a KeyedBroadcastProcessFunction.

        Args:
            func: an object with `process_element(value, ctx)` and `process_broadcast_element(value, ctx)`.
            output_type: type of the results.
        """
        checked(func, "process_element", "process")
        if not callable(getattr(func, "process_broadcast_element", None)):
            raise ValidationException(
                f"process beside a broadcast stream needs a method process_broadcast_element; {func!r} has none"
            )
        stream, other, descriptors = self.stream, self.broadcast.stream, self.broadcast.descriptors
        selector = stream.key_selector if isinstance(stream, KeyedStream) else None
        if selector is None:
            unkeyed(func, KeyedBroadcastProcessFunction, "process")
        event_time = stream.event_time
        node = stream._attach(
            "broadcast_process",
            lambda: BroadcastProcess(func, descriptors, selector, event_time),
            output_type=result_type(output_type, func, "process_element", elements=True),
            key=() if selector is None else (selector, None),
            edges=[*stream._edges(0), *[_broadcast(e) for e in other._edges(1)]],
            event_time=event_time,
        )
        return stream._new(node)


def _broadcast(edge: Edge) -> Edge:
    return Edge(edge.source, edge.target, edge.input, Broadcast(), edge.side)


class IntervalJoin(Generic[T1, T2]):
    """Two keyed streams, before it is said how near their records have to be."""

    def __init__(self, left: KeyedStream[T1], right: KeyedStream[T2]) -> None:
        if left.get_execution_environment() is not right.get_execution_environment():
            raise ValidationException("interval_join: the streams belong to different environments")
        for side, stream in (("left", left), ("right", right)):
            if stream.event_time == "no":
                raise ValidationException(
                    f"interval_join follows event time, and the {side} stream can carry no timestamps: it comes from "
                    f"{', '.join(map(repr, stream.sources_of_time()))}. Use assign_timestamps_and_watermarks(...) "
                    "before key_by"
                )
        self.left = left
        self.right = right

    def in_event_time(self) -> IntervalJoin[T1, T2]:
        """What it is in any case."""
        return self

    def in_processing_time(self) -> IntervalJoin[T1, T2]:
        """Refused: interval joins follow event time."""
        raise ValidationException("interval_join follows event time; there is none in processing time")

    def between(self, lower_bound: Duration, upper_bound: Duration) -> IntervalJoined[T1, T2]:
        """Join records with lower_bound <= right's time - left's time <= upper_bound.

        Args:
            lower_bound: timedelta, text or ms; may be negative.
            upper_bound: at least the lower bound.
        """
        return IntervalJoined(
            self.left, self.right, to_millis(lower_bound, "lower_bound"), to_millis(upper_bound, "upper_bound")
        )


class IntervalJoined(Generic[T1, T2]):
    """An interval join, before its function is told."""

    def __init__(self, left: KeyedStream[T1], right: KeyedStream[T2], lower: int, upper: int) -> None:
        if lower > upper:
            raise ValidationException(f"interval_join: the lower bound ({lower} ms) is above the upper ({upper} ms)")
        self._left = left
        self._right = right
        self._lower = lower
        self._upper = upper
        self._late: list[str | None] = [None, None]
        self._open = [False, False]

    def lower_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """The lower bound itself does not count."""
        self._open[0] = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """The upper bound itself does not count."""
        self._open[1] = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag[Any]) -> IntervalJoined[T1, T2]:
        """Send late records of the left stream to a side output instead of dropping them."""
        self._late[0] = output_tag.tag_id
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[Any]) -> IntervalJoined[T1, T2]:
        """Send late records of the right stream to a side output instead of dropping them."""
        self._late[1] = output_tag.tag_id
        return self

    def process(self, process_join_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a ProcessJoinFunction, or a callable of (left, right, context), for every pair.

        Args:
            process_join_function: returned None is nothing, a list or an iterator is many records, else one.
            output_type: type of the results.
        """
        checked(process_join_function, "process_element", "process")
        left, right = self._left, self._right
        lower, upper = self._lower + self._open[0], self._upper - self._open[1]
        if lower > upper:
            raise ValidationException("interval_join: no time difference lies between the exclusive bounds")
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (left.key_selector, right.key_selector)
        late = (self._late[0], self._late[1])
        node = left._attach(
            "interval_join",
            lambda: KeyedIntervalJoin(process_join_function, selectors, lower, upper, late),
            output_type=result_type(output_type, process_join_function, "process_element", elements=True),
            key=selectors,
            edges=[*left._edges(0), *right._edges(1)],
            event_time=event_time_of([left.event_time, right.event_time]),
            description=f"{lower} ms <= right - left <= {upper} ms",
        )
        return left._new(node)
