"""Kafka, on aiokafka: a source with per-partition watermarks and a sink that loses nothing.

Importing this loads aiokafka.
"""

from __future__ import annotations

from streamline.connectors.formats import (
    BytesSchema,
    DeserializationException,
    DeserializationSchema,
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from streamline.connectors.kafka.client import KafkaTopicPartition
from streamline.connectors.kafka.encoding import KafkaRecordSerializationSchema
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException, KafkaOffsetLostError
from streamline.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from streamline.connectors.kafka.partitioning import KafkaPartitioner
from streamline.connectors.kafka.sink import DeliveryGuarantee, KafkaSink
from streamline.connectors.kafka.source import KafkaSource

__all__ = (
    "BytesSchema",
    "DeliveryGuarantee",
    "DeserializationException",
    "DeserializationSchema",
    "JsonDeserializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
    "KafkaConnectionError",
    "KafkaException",
    "KafkaOffsetLostError",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "SerializationSchema",
    "SimpleStringSchema",
)
