"""What a KafkaSource tells its readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streamline.connectors.kafka.offsets import KafkaOffsetsInitializer

__all__ = ("OnOffsetLost", "ReaderSettings")

OnOffsetLost = Literal["fail", "earliest", "latest"]


@dataclass(frozen=True)
class ReaderSettings:
    """The settings of the readers of one source.

    Attributes:
        bootstrap: the brokers' addresses.
        properties: Kafka's client properties.
        client_id: what client ids begin with.
        group: whose offsets are read and committed; it is never joined.
        starting, stopping: where partitions start and end; `stopping` is None for no end.
        bounded: whether the job's end of input is when all partitions have ended.
        on_offset_lost: what to do where the offset to go on from is not in the log.
        commit_on_checkpoint: commit the group's offsets when a checkpoint is complete.
        auto_commit_interval: milliseconds between commits without regard to checkpoints; None: never.
        close_seconds: how long closing may take.
    """

    bootstrap: str
    properties: Mapping[str, Any]
    client_id: str
    group: str | None
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    bounded: bool
    on_offset_lost: OnOffsetLost = "fail"
    commit_on_checkpoint: bool = True
    auto_commit_interval: int | None = None
    close_seconds: float = 5.0
