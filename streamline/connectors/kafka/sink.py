"""A sink into Kafka topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, get_args

from streamline.abc import Sink, SinkWriter
from streamline.connectors.builder import Builder
from streamline.connectors.formats.base import SerializationSchema
from streamline.connectors.kafka.encoding import KafkaRecordSerializationSchema, RecordEncoder
from streamline.connectors.kafka.properties import producer_arguments
from streamline.connectors.kafka.source import with_bootstrap
from streamline.connectors.kafka.transactional import OnTransactionLost, TransactionalWriter
from streamline.connectors.kafka.writer import KafkaWriter
from streamline.errors import ValidationException

__all__ = ("DeliveryGuarantee", "KafkaSink")


class DeliveryGuarantee(Enum):
    """What holds for a record after a failure."""

    #: It may be lost or written twice.
    NONE = "none"
    #: It is not lost; it may be written twice.
    AT_LEAST_ONCE = "at-least-once"
    #: It is there once, for readers with isolation.level read_committed.
    EXACTLY_ONCE = "exactly-once"


class KafkaSink(Sink[Any]):
    """Writes values to topics.

    Args:
        bootstrap_servers: `host:port`, several separated by commas or as a list.
        record_serializer: a `KafkaRecordSerializationSchema`; or in short:
        topic: where the records go,
        value: how values are written, a `SerializationSchema` or a function; JSON by default,
        key: gives a record's key, as text or bytes.
        delivery_guarantee: AT_LEAST_ONCE by default (Flink's own is NONE). EXACTLY_ONCE needs checkpoints, and readers
            with `isolation.level` read_committed: they see records when the checkpoint that covers them is complete.
        transactional_id_prefix: for EXACTLY_ONCE; no other job may use the same.
        on_transaction_lost: "fail", or "skip" and go on, where a transaction that a checkpoint covers was aborted
            because the job was down for longer than `transaction.timeout.ms`.
        properties: further properties of the producer by Kafka's names, such as `{"compression.type": "gzip"}`.

    Raises:
        ValidationException: the arguments do not fit together.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        record_serializer: KafkaRecordSerializationSchema | None = None,
        topic: str | None = None,
        value: SerializationSchema[Any] | Callable[[Any], bytes | None] | None = None,
        key: SerializationSchema[Any] | Callable[[Any], bytes | str | None] | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        transactional_id_prefix: str | None = None,
        on_transaction_lost: OnTransactionLost = "fail",
        properties: Mapping[str, Any] | None = None,
        _encoder: RecordEncoder | None = None,
        _fixed_partition: bool = False,
    ) -> None:
        self._properties = with_bootstrap(properties, bootstrap_servers)
        producer_arguments(self._properties)  # what is wrong with them is said now, not when the job starts
        short = topic is not None or value is not None or key is not None
        if sum((record_serializer is not None, short, _encoder is not None)) != 1:
            raise ValidationException("a KafkaSink needs a record_serializer, or topic, value and key in short")
        self._encoder: RecordEncoder = (
            _encoder
            or record_serializer
            or KafkaRecordSerializationSchema(
                topic=topic, value_serialization_schema=value, key_serialization_schema=key
            )
        )
        self._guarantee = DeliveryGuarantee(delivery_guarantee)
        self._prefix = transactional_id_prefix
        self._on_lost = on_transaction_lost
        self._fixed = _fixed_partition
        self.two_phase = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if self.two_phase and not transactional_id_prefix:
            raise ValidationException("EXACTLY_ONCE needs a transactional_id_prefix that is this job's own")
        if on_transaction_lost not in get_args(OnTransactionLost):
            raise ValidationException(f"on_transaction_lost is one of {', '.join(get_args(OnTransactionLost))}")

    @staticmethod
    def builder() -> Builder[KafkaSink]:
        """The same by setters: `set_bootstrap_servers`, `set_record_serializer`, …, `build`."""
        return Builder(KafkaSink)

    def writer(self) -> SinkWriter[Any]:
        if self._prefix is not None and self.two_phase:
            return TransactionalWriter(
                self._encoder, self._properties, prefix=self._prefix, on_lost=self._on_lost, fixed=self._fixed
            )
        flushes = self._guarantee is not DeliveryGuarantee.NONE
        return KafkaWriter(self._encoder, self._properties, fixed=self._fixed, flushes=flushes)
