"""What a channel carries.

A batch is a transport unit and never a semantic one: no result depends on how records were cut into batches. A
watermark has a position among the records and is never moved past one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from streamline._core.changes import RowKind

__all__ = (
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "Barrier",
    "Batch",
    "Element",
    "EndOfInput",
    "Watermark",
    "WatermarkStatus",
)

#: Flink's Long.MIN_VALUE: "no watermark yet".
MIN_TIMESTAMP: Final = -(1 << 63)
#: Flink's Long.MAX_VALUE: the watermark at the end of a bounded input; it fires every event-time timer.
MAX_TIMESTAMP: Final = (1 << 63) - 1


class Batch(msgspec.Struct, gc=False):
    """A run of records as parallel sequences.

    Attributes:
        values: the records, oldest first. The receiver owns the list's order but must not mutate the list itself: with
            several consumers the same batch is handed to each.
        timestamps: event time of each record in epoch milliseconds, None where a record has none; or None for the
            whole batch when no record of it has one.
        kinds: the change kind of each record, or None: all are INSERT.
    """

    values: Sequence[Any]
    timestamps: Sequence[int | None] | None = None
    kinds: Sequence[RowKind] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Batch:
        """Records start..stop (stop exclusive) as a batch of their own."""
        return Batch(
            self.values[start:stop],
            None if self.timestamps is None else self.timestamps[start:stop],
            None if self.kinds is None else self.kinds[start:stop],
        )

    def take(self, indices: Sequence[int]) -> Batch:
        """The records at the given positions, in that order."""
        values, timestamps, kinds = self.values, self.timestamps, self.kinds
        return Batch(
            [values[i] for i in indices],
            None if timestamps is None else [timestamps[i] for i in indices],
            None if kinds is None else [kinds[i] for i in indices],
        )


class Watermark(msgspec.Struct, frozen=True, gc=False):
    """Event time has reached `timestamp` (epoch ms): a record with timestamp <= it that still follows is late."""

    timestamp: int


class WatermarkStatus(msgspec.Struct, frozen=True, gc=False):
    """The sender is idle (excused from the watermark minimum) or active again."""

    idle: bool


class Barrier(msgspec.Struct, frozen=True, gc=False):
    """The cut between the records of two checkpoints.

    Attributes:
        checkpoint_id: rises by one from checkpoint to checkpoint of a job.
        timestamp: when it was triggered, epoch ms of the job's clock.
        savepoint: the cut is for a savepoint (full, kept by the user).
        unaligned: it may overtake batches, which then belong to the snapshot.
    """

    checkpoint_id: int
    timestamp: int
    savepoint: bool = False
    unaligned: bool = False


class EndOfInput(msgspec.Struct, frozen=True, gc=False):
    """The sender is done; nothing follows. `drain` is false where a job stops without closing event time."""

    drain: bool = True


Element: TypeAlias = Batch | Watermark | WatermarkStatus | Barrier | EndOfInput
