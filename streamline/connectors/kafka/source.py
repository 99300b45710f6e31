"""A source of the records of Kafka topics."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, Final, Generic, TypeVar, get_args
from uuid import uuid4

from aiokafka.structs import ConsumerRecord

from streamline._core.time import Duration, to_millis
from streamline.abc import Source, SourceReader, Split
from streamline.connectors.builder import Builder
from streamline.connectors.formats.base import DeserializationSchema
from streamline.connectors.formats.json import JsonDeserializationSchema
from streamline.connectors.kafka.client import KafkaTopicPartition, partitions_of
from streamline.connectors.kafka.decoding import FullDecoder, RecordDecoder, ValueDecoder
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException
from streamline.connectors.kafka.offsets import KafkaOffsetsInitializer
from streamline.connectors.kafka.properties import consumer_arguments, number_property, truth
from streamline.connectors.kafka.reader import KafkaReader
from streamline.connectors.kafka.settings import OnOffsetLost, ReaderSettings
from streamline.errors import ValidationException

__all__ = ("KafkaSource",)

_log = logging.getLogger("streamline.kafka")

T = TypeVar("T")

_FIVE_MINUTES: Final = 300_000


class KafkaSource(Source[T], Generic[T]):
    """Reads topics, partition by partition; each partition has watermarks of its own.

    No consumer group is joined: the partitions are split between the subtasks, and positions are kept in checkpoints.
    A group id is only the name under which offsets are read (`committed_offsets`) and, when a checkpoint completes,
    committed for people and tools to see.

    Args:
        bootstrap_servers: `host:port`, several separated by commas or as a list.
        topics: names of topics; or
        topic_pattern: a regular expression that the whole name has to match; or
        partitions: (topic, partition) pairs.
        group_id: see above.
        value_type: values are JSON of this Python class (a msgspec Struct, dataclass, TypedDict, …); or
        value_only_deserializer: a `DeserializationSchema`, or a function of the value's bytes; what it gives None for
            is left out. Records without a value (tombstones) are left out and counted; or
        deserializer: a function of the whole record (`key`, `value`, `headers`, `timestamp`, …), tombstones too.
        starting_offsets: where to start without a checkpoint; the first record by default.
        bounded: where to stop; the stream is then bounded.
        unbounded: where to stop, in a stream that counts as unbounded.
        partition_discovery_interval: how often to look for new partitions, which are read from their first record; 5
            minutes by default, 0 for never. A bounded source never looks.
        on_offset_lost: "fail", or go on at the "earliest" or "latest" offset where the one in the checkpoint is gone.
        client_id_prefix: what the client ids begin with.
        properties: further client properties by Kafka's names, such as `{"isolation.level": "read_committed"}`.

    Raises:
        ValidationException: the arguments do not fit together.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        topics: str | Sequence[str] | None = None,
        topic_pattern: str | re.Pattern[str] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        group_id: str | None = None,
        value_type: type[T] | UnionType | None = None,
        value_only_deserializer: DeserializationSchema[T] | Callable[[bytes], T | None] | None = None,
        deserializer: Callable[[ConsumerRecord], T | None] | None = None,
        starting_offsets: KafkaOffsetsInitializer | None = None,
        bounded: KafkaOffsetsInitializer | None = None,
        unbounded: KafkaOffsetsInitializer | None = None,
        partition_discovery_interval: Duration | None = None,
        on_offset_lost: OnOffsetLost = "fail",
        client_id_prefix: str | None = None,
        properties: Mapping[str, Any] | None = None,
        _decoder: RecordDecoder | None = None,
    ) -> None:
        self._properties = with_bootstrap(properties, bootstrap_servers)
        if sum(x is not None for x in (topics, topic_pattern, partitions)) != 1:
            raise ValidationException("a KafkaSource reads topics, a topic_pattern or partitions: give one of them")
        if bounded is not None and unbounded is not None:
            raise ValidationException("a KafkaSource is bounded or unbounded: give one of the two ends, not both")
        if on_offset_lost not in get_args(OnOffsetLost):
            raise ValidationException(f"on_offset_lost is one of {', '.join(get_args(OnOffsetLost))}")
        self._partitions = None if partitions is None else sorted(KafkaTopicPartition(t, int(p)) for t, p in partitions)
        names = [topics] if isinstance(topics, str) else topics
        if self._partitions is not None:
            names = sorted({p.topic for p in self._partitions})
        self._topics = None if names is None else list(names)
        self._pattern = re.compile(topic_pattern) if topic_pattern is not None else None
        self.bounded = bounded is not None
        group = group_id or self._properties.get("group.id") or None
        starting = starting_offsets or KafkaOffsetsInitializer.earliest()
        for given in (starting, bounded, unbounded):
            if given is not None and given.kind == "committed" and group is None:
                raise ValidationException("committed offsets are those of a group: give group_id")
        self._settings: Final = ReaderSettings(
            bootstrap=self._properties["bootstrap.servers"],
            properties=self._properties,
            client_id=client_id_prefix or self._properties.get("client.id.prefix") or f"streamline-{uuid4().hex[:8]}",
            group=group,
            starting=starting,
            stopping=bounded or unbounded,
            bounded=self.bounded,
            on_offset_lost=on_offset_lost,
            commit_on_checkpoint=truth(self._properties.get("commit.offsets.on.checkpoint", True)),
            auto_commit_interval=_auto_commit(self._properties),
        )
        consumer_arguments(self._properties)  # what is wrong with them is said now, not when the job starts
        self._decoder, self.output_type = _decoder_of(value_type, value_only_deserializer, deserializer, _decoder)
        interval = to_millis(
            partition_discovery_interval
            if partition_discovery_interval is not None
            else number_property(self._properties, "partition.discovery.interval.ms", _FIVE_MINUTES),
            "partition_discovery_interval",
        )
        fixed = self.bounded or self._partitions is not None or interval <= 0
        self.discovery_interval = None if fixed else interval
        self._out_of_reach = False

    @staticmethod
    def builder() -> Builder[KafkaSource[Any]]:
        """The same by setters: `set_bootstrap_servers`, `set_topics`, `set_value_only_deserializer`, …, `build`."""
        return Builder(KafkaSource)

    async def discover(self) -> Sequence[Split]:
        """The partitions there are now.

        Raises:
            KafkaConnectionError: no broker answers.
            KafkaException: a topic or partition does not exist.
        """
        found = await partitions_of(self._properties, self._topics, self._pattern)
        if self._partitions is not None:
            missing = [p for p in self._partitions if p not in found]
            if missing:
                raise KafkaException(f"topic {missing[0].topic!r} has no partition {missing[0].partition}")
            found = self._partitions
        elif self._pattern is not None and not found and self.discovery_interval is None:
            raise KafkaException(f"no topic at {self._settings.bootstrap} matches {self._pattern.pattern!r}")
        return [Split(f"{p.topic}-{p.partition}", [p.topic, p.partition]) for p in found]

    async def discover_again(self) -> Sequence[Split]:
        """The partitions there are now, or nothing where no broker answers: the readers go on when it does, and so
        does this. What the broker refuses is raised.
        """
        try:
            found = await self.discover()
        except KafkaConnectionError as e:
            level = logging.DEBUG if self._out_of_reach else logging.WARNING  # once in a row
            _log.log(level, "looking for new partitions: %s The next look is in %s ms", e, self.discovery_interval)
            self._out_of_reach = True
            return ()
        self._out_of_reach = False
        return found

    def reader(self) -> SourceReader[T]:
        return KafkaReader(self._settings, self._decoder)


def with_bootstrap(properties: Mapping[str, Any] | None, servers: str | Sequence[str] | None) -> dict[str, Any]:
    """Client properties with the brokers' addresses among them."""
    found = dict(properties or {})
    given = servers if servers is not None else found.get("bootstrap.servers")
    if not given:
        raise ValidationException("bootstrap_servers is missing: the host:port of a broker")
    found["bootstrap.servers"] = given if isinstance(given, str) else ",".join(given)
    return found


def _auto_commit(properties: Mapping[str, Any]) -> int | None:
    if not truth(properties.get("enable.auto.commit", False)):
        return None
    return number_property(properties, "auto.commit.interval.ms", 5000)


def _decoder_of(
    value_type: Any,
    value_only: DeserializationSchema[Any] | Callable[[bytes], Any] | None,
    full: Callable[[ConsumerRecord], Any] | None,
    ready: RecordDecoder | None,
) -> tuple[RecordDecoder, Any]:
    """The decoder, and the Python type of its values where it is known."""
    if sum(x is not None for x in (value_type, value_only, full, ready)) != 1:
        raise ValidationException(
            "say how records become values: value_type (JSON of a class), value_only_deserializer or deserializer; "
            "one of them"
        )
    if ready is not None:
        return ready, None
    if full is not None:
        return FullDecoder(full), _returned(full)
    if value_type is not None:
        return ValueDecoder(JsonDeserializationSchema(value_type)), value_type
    if isinstance(value_only, DeserializationSchema):
        return ValueDecoder(value_only), value_only.get_produced_type()
    if not callable(value_only):
        raise ValidationException(
            f"value_only_deserializer is a DeserializationSchema or a function, not {value_only!r}"
        )
    return ValueDecoder(_FunctionSchema(value_only)), _returned(value_only)


def _returned(function: Any) -> Any:
    """What a function is annotated to return, None where that is not known or a string."""
    found = getattr(function, "__annotations__", {}).get("return")
    return None if isinstance(found, str) else found


class _FunctionSchema(DeserializationSchema[Any]):
    """A function of the bytes as a schema."""

    def __init__(self, function: Callable[[bytes], Any]) -> None:
        self._function = function

    def deserialize(self, message: bytes) -> Any:
        return self._function(message)
