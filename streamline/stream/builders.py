"""What streams make of each other, in one place: their modules build on one another and cannot import all of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamline._operators.window.assign import GlobalWindows
from streamline.errors import ValidationException
from streamline.stream.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams, IntervalJoin
from streamline.stream.datastream import DataStream
from streamline.stream.joined import CoGroupedStreams, JoinedStreams
from streamline.stream.keyed import KeyedStream
from streamline.stream.partition_window import PartitionWindowedStream
from streamline.stream.windowed import AllWindowedStream, count_windowed

__all__ = ("Builders",)


def _no_key(_: Any) -> None:
    """The key of records that have none."""
    return None


class Builders:
    """Makes streams of other kinds."""

    @staticmethod
    def keyed(stream: DataStream[Any], selector: Callable[[Any], Any], key_type: Any = None) -> KeyedStream[Any]:
        """With keys."""
        return KeyedStream(stream._env, stream._plain_origins(), stream.element_type(), selector, key_type)

    def all_windowed(self, stream: DataStream[Any], assigner: Any) -> AllWindowedStream[Any]:
        """Windows over all records."""
        return AllWindowedStream(self.keyed(stream, _no_key), assigner)

    def all_count_windowed(self, stream: DataStream[Any], size: int, slide: int) -> AllWindowedStream[Any]:
        """Count windows over all records."""
        return count_windowed(AllWindowedStream(self.keyed(stream, _no_key), GlobalWindows()), size, slide)

    @staticmethod
    def connected(stream: DataStream[Any], other: Any) -> Any:
        """Two streams for one function."""
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(stream, other)
        if not isinstance(other, DataStream):
            raise ValidationException(f"connect needs another stream, not {other!r}")
        return ConnectedStreams(stream, other)

    @staticmethod
    def broadcast(stream: DataStream[Any], descriptors: Sequence[Any]) -> BroadcastStream[Any]:
        """A stream that fills broadcast state."""
        for descriptor in descriptors:
            if getattr(getattr(descriptor, "spec", None), "kind", None) != "map":
                raise ValidationException(f"broadcast needs MapStateDescriptors, not {descriptor!r}")
        return BroadcastStream(stream, descriptors)

    @staticmethod
    def joined(stream: DataStream[Any], other: DataStream[Any]) -> JoinedStreams[Any, Any]:
        """A window join."""
        return JoinedStreams(stream, other)

    @staticmethod
    def co_grouped(stream: DataStream[Any], other: DataStream[Any]) -> CoGroupedStreams[Any, Any]:
        """A window co-group."""
        return CoGroupedStreams(stream, other)

    @staticmethod
    def interval_join(left: KeyedStream[Any], right: Any) -> IntervalJoin[Any, Any]:
        """A join of near records."""
        if not isinstance(right, KeyedStream):
            raise ValidationException(f"interval_join needs another keyed stream, not {right!r}: use key_by() on it")
        return IntervalJoin(left, right)

    @staticmethod
    def partition_window(stream: DataStream[Any]) -> PartitionWindowedStream[Any]:
        """All records as one window."""
        return PartitionWindowedStream(stream)
