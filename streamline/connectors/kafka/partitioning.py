"""Which partition a record goes to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from aiokafka.partitioner import murmur2

__all__ = ("FixedPartitioner", "KafkaPartitioner", "partition_of_key")

#: Keys whose partition is remembered: the hash is computed in Python.
_REMEMBERED: Final = 1 << 16


class KafkaPartitioner(Protocol):
    """Chooses a partition; a function of the record, its key and value as bytes, the topic and its partitions."""

    def __call__(
        self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]
    ) -> int: ...


def partition_of_key(key: bytes, partitions: int) -> int:
    """Where Kafka's own producers put a record of this key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class FixedPartitioner:
    """All records of one subtask go to one partition."""

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask

    def __call__(
        self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]
    ) -> int:
        return partitions[self._subtask % len(partitions)]


class TopicPartitions:
    """The partitions of one topic, as a writer sees them: by key, or one after the other."""

    def __init__(self, topic: str, partitions: Sequence[int]) -> None:
        self.topic: Final = topic
        self.partitions: Final = sorted(partitions)
        self._by_key: dict[bytes, int] = {}
        self._turn = random.randrange(len(partitions))  # subtasks do not all begin with the same one

    def of_key(self, key: bytes) -> int:
        """The partition of a key."""
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= _REMEMBERED:
                self._by_key.clear()
            found = self._by_key[key] = self.partitions[partition_of_key(key, len(self.partitions))]
        return found

    @property
    def current(self) -> int:
        """Where records without a key go now: many to one partition, for the sake of large batches."""
        return self.partitions[self._turn]

    def turn(self) -> None:
        """The next partition's turn."""
        self._turn = (self._turn + 1) % len(self.partitions)


#: Makes the partitioner of one subtask.
PartitionerFactory = Callable[[int], KafkaPartitioner | None]
