"""Values of a stream or rows of a table to records of Kafka, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamline.abc import Batch
from streamline.connectors.builder import Builder
from streamline.connectors.formats.base import SerializationSchema
from streamline.connectors.formats.json import JsonSerializationSchema
from streamline.connectors.kafka.partitioning import KafkaPartitioner
from streamline.errors import ValidationException

__all__ = ("KafkaRecordSerializationSchema", "Outgoing", "RecordEncoder")

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class Outgoing:
    """Records to be sent, as parallel sequences; None for a whole sequence where no record has such a thing.

    Attributes:
        values, keys: bytes or None.
        topics: where each goes; None: all to the sink's topic.
        timestamps: epoch ms, or None for the time of sending.
        headers: of each record.
        records: what they were made of, for a partitioner.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    topics: Sequence[str] | None = None
    timestamps: Sequence[int | None] | None = None
    headers: Sequence[Headers] | None = None
    records: Sequence[Any] = ()


class RecordEncoder(Protocol):
    """Makes records of a batch."""

    @property
    def topic(self) -> str | None:
        """The topic of all records, or None where each has its own."""
        ...

    @property
    def partitioner(self) -> KafkaPartitioner | None: ...

    def encode(self, batch: Batch) -> Outgoing: ...


class KafkaRecordSerializationSchema:
    """How a value becomes a record.

    Args:
        topic: where all records go; or
        topic_selector: gives the topic of a value.
        value_serialization_schema: a `SerializationSchema` or a function; JSON by default. What it gives None for is
            written as a tombstone, which needs a key.
        key_serialization_schema: the same for the key; None: no key. A function may give text or bytes.
        header_provider: gives a mapping of names to bytes, or (name, bytes) pairs.
        partitioner: a `KafkaPartitioner`; by default records of one key go where Kafka's own producers put them, and
            those without a key to all partitions in turn.

    Raises:
        ValidationException: the arguments do not fit together.
    """

    def __init__(
        self,
        *,
        topic: str | None = None,
        topic_selector: Callable[[Any], str] | None = None,
        value_serialization_schema: SerializationSchema[Any] | Callable[[Any], bytes | None] | None = None,
        key_serialization_schema: SerializationSchema[Any] | Callable[[Any], bytes | str | None] | None = None,
        header_provider: Callable[[Any], Any] | None = None,
        partitioner: KafkaPartitioner | None = None,
    ) -> None:
        if (topic is None) == (topic_selector is None):
            raise ValidationException("a Kafka sink needs a topic or a topic_selector: one of them")
        self.topic = topic
        self.partitioner = partitioner
        self._topic_of = topic_selector
        self._value = _function(value_serialization_schema or JsonSerializationSchema())
        self._key = None if key_serialization_schema is None else _function(key_serialization_schema)
        self._headers = header_provider

    @staticmethod
    def builder() -> Builder[KafkaRecordSerializationSchema]:
        """The same by setters: `set_topic`, `set_value_serialization_schema`, …, `build`."""
        return Builder(KafkaRecordSerializationSchema)

    def encode(self, batch: Batch) -> Outgoing:
        """Records of a batch; an error of a function names the value."""
        values = batch.values
        return Outgoing(
            values=_each(self._value, values, "value"),
            keys=None if self._key is None else [_bytes(k) for k in _each(self._key, values, "key")],
            topics=None if self._topic_of is None else _each(self._topic_of, values, "topic"),
            timestamps=batch.timestamps,
            headers=None if self._headers is None else [_pairs(h) for h in _each(self._headers, values, "headers")],
            records=values,
        )


def _each(function: Callable[[Any], Any], values: Sequence[Any], what: str) -> list[Any]:
    rest = iter(values)
    try:
        return list(map(function, rest))
    except Exception as e:
        e.add_note(f"while the {what} was made of {values[len(values) - sum(1 for _ in rest) - 1]!r}")
        raise


def _function(schema: Any) -> Callable[[Any], Any]:
    if isinstance(schema, SerializationSchema):
        return schema.serialize
    if not callable(schema):
        raise ValidationException(f"a SerializationSchema or a function is needed, not {schema!r}")
    return schema  # type: ignore[no-any-return]


def _bytes(key: bytes | str | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


def _pairs(headers: Any) -> Headers:
    if headers is None:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)
