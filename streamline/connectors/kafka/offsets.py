"""Where reading a partition starts and where it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from streamline._core.time import to_epoch_millis
from streamline.connectors.kafka.errors import KafkaException
from streamline.errors import ValidationException

__all__ = ("KafkaOffsetResetStrategy", "KafkaOffsetsInitializer")


class KafkaOffsetResetStrategy(Enum):
    """What holds for a partition that has no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Offsets of partitions, found when a job starts. Made by the functions below."""

    kind: Literal["earliest", "latest", "committed", "timestamp", "offsets"]
    timestamp_millis: int = 0
    given: Mapping[tuple[str, int], int] = field(default_factory=dict)
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record there is."""
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record there is."""
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the group has committed; for a partition without, by the strategy (NONE: an error)."""
        return KafkaOffsetsInitializer("committed", reset=KafkaOffsetResetStrategy(offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: Any) -> KafkaOffsetsInitializer:
        """The first record at or after a time: epoch milliseconds or an aware datetime; without one, the end."""
        return KafkaOffsetsInitializer("timestamp", timestamp_millis=to_epoch_millis(timestamp))

    @staticmethod
    def offsets(
        offsets: Mapping[Any, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Given offsets by (topic, partition); for a partition that is not named, by the strategy."""
        given = {(str(topic), int(partition)): int(o) for (topic, partition), o in offsets.items()}
        if any(o < 0 for o in given.values()):
            raise ValidationException(f"offsets are not negative: {dict(offsets)}")
        return KafkaOffsetsInitializer("offsets", given=given, reset=KafkaOffsetResetStrategy(offset_reset_strategy))

    async def resolve(
        self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], group: str | None
    ) -> dict[TopicPartition, int]:
        """An offset for each of the partitions.

        Raises:
            KafkaException: a group has no offset, and nothing says what to do then.
        """
        found: dict[TopicPartition, int] = {}
        match self.kind:
            case "earliest":
                return await consumer.beginning_offsets(partitions)  # type: ignore[no-any-return]
            case "latest":
                return await consumer.end_offsets(partitions)  # type: ignore[no-any-return]
            case "timestamp":
                at = await consumer.offsets_for_times(dict.fromkeys(partitions, self.timestamp_millis))
                found = {tp: o.offset for tp, o in at.items() if o is not None}
                late = [tp for tp in partitions if tp not in found]
                return {**found, **(await consumer.end_offsets(late) if late else {})}
            case "offsets":
                found = {tp: self.given[tp] for tp in partitions if tp in self.given}
            case "committed":
                for tp in partitions if group is not None else ():
                    committed = await consumer.committed(tp)
                    if committed is not None:
                        found[tp] = committed
        missing = [tp for tp in partitions if tp not in found]
        if not missing:
            return found
        if self.reset is KafkaOffsetResetStrategy.NONE:
            raise self._nowhere(missing, group)
        ends = consumer.beginning_offsets if self.reset is KafkaOffsetResetStrategy.EARLIEST else consumer.end_offsets
        return {**found, **await ends(missing)}

    def instead(self, first: int, behind: int, wanted: int) -> int:
        """Where the strategy for partitions without an offset leads; with NONE it stays."""
        return {"earliest": first, "latest": behind, "none": wanted}[self.reset.value]

    def _nowhere(self, missing: Sequence[TopicPartition], group: str | None) -> KafkaException:
        topics = {tp.topic: sorted(p.partition for p in missing if p.topic == tp.topic) for tp in missing}
        where = ", ".join(
            f"topic {t!r}, partition{'s' if len(ps) > 1 else ''} {', '.join(map(str, ps))}" for t, ps in topics.items()
        )
        if self.kind == "offsets":
            return KafkaException(f"no offset is given for {where}; name it, or give a reset strategy")
        who = f"group {group!r} has no committed offset" if group else "without a group there is no committed offset"
        return KafkaException(
            f"{who} for {where}, and nothing says where to start then. In SQL set 'scan.startup.mode' (for example "
            "'earliest-offset'), or 'properties.auto.offset.reset' to 'earliest' or 'latest'; a KafkaSource takes "
            "starting_offsets=KafkaOffsetsInitializer.earliest(), or "
            "committed_offsets(KafkaOffsetResetStrategy.EARLIEST)."
        )
