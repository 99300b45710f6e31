"""Full-window partitions: functions of all records of a subtask or of a key, at the end of the input."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from streamline._operators.fields import getter
from streamline._operators.full_window import AccumulatePartition, CollectPartition
from streamline._operators.window.incremental import aggregating, reducing
from streamline.abc import Operator
from streamline.errors import ValidationException
from streamline.stream.adapt import checked, result_type
from streamline.stream.datastream import DataStream
from streamline.stream.keyed import KeyedStream

__all__ = ("Order", "PartitionWindowedStream")

T = TypeVar("T")


class Order(Enum):
    """Which records come first."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"
    #: As ascending.
    ANY = "ANY"


class PartitionWindowedStream(Generic[T]):
    """All records of a subtask, or of a key, as one window that closes when the input ends."""

    def __init__(self, stream: DataStream[T]) -> None:
        self._stream = stream
        self._selector = stream.key_selector if isinstance(stream, KeyedStream) else None

    def map_partition(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a MapPartitionFunction, or a callable of (list of records), once; it returns or yields results."""
        checked(func, "map_partition", "map_partition")
        kind = result_type(output_type, func, "map_partition", elements=True)
        selector = self._selector
        return self._build("map_partition", lambda: CollectPartition(func, "map_partition", selector), kind)

    def sort_partition(self, field: Any, order: Order = Order.ASCENDING) -> DataStream[T]:
        """Give the records sorted.

        Args:
            field: number or name of a field, or a callable of (record).
            order: which come first.
        """
        by: Callable[[Any], Any] = field if callable(field) else getter(field)
        selector, reverse = self._selector, Order(order) is Order.DESCENDING

        def sort(values: list[Any]) -> list[Any]:
            return sorted(values, key=by, reverse=reverse)

        return self._build(
            "sort_partition", lambda: CollectPartition(sort, "map_partition", selector), self._stream.element_type()
        )

    def reduce(self, func: Any) -> DataStream[T]:
        """Combine the records by a ReduceFunction or a callable of (record, record); one result."""
        checked(func, "reduce", "reduce")
        reducing(func)
        selector = self._selector
        return self._build(
            "reduce_partition", lambda: AccumulatePartition(reducing(func), selector), self._stream.element_type()
        )

    def aggregate(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Combine the records by an AggregateFunction; one result."""
        for method in ("create_accumulator", "add", "get_result", "merge"):
            if not callable(getattr(func, method, None)):
                raise ValidationException(f"aggregate needs an AggregateFunction object, not {func!r}")
        aggregating(func)
        selector = self._selector
        kind = result_type(output_type, func.get_result, "get_result")
        return self._build("aggregate_partition", lambda: AccumulatePartition(aggregating(func), selector), kind)

    def _build(self, name: str, operator: Callable[[], Operator], output_type: Any) -> DataStream[Any]:
        stream, selector = self._stream, self._selector
        node = stream._attach(
            name, operator, output_type=output_type, key=() if selector is None else (selector,), event_time="no"
        )
        return DataStream(stream._env, stream._new(node).origins, node.output_type)
