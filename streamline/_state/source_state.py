"""The state of a source's subtask: its splits with the positions to go on from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamline._state.classes import Classes
from streamline._state.codec import decode_column, encode_columns, naming, read_columns
from streamline._state.snapshot import OperatorSnapshot, SubtaskSnapshot, event_time, within
from streamline.abc import Split

__all__ = ("SourceCapture", "SourceShare", "share_splits")

_SPLITS: Final = "splits"


class SourceCapture:
    """The positions of a source's subtask as they were; the form of a capture, encoded at once."""

    def __init__(
        self,
        checkpoint_id: int,
        subtask: int,
        parallelism: int,
        splits: Sequence[Split],
        positions: Mapping[str, Any],
        ended: Iterable[str],
        marks: Mapping[str, tuple[int, int]] | None = None,
        emitted: int | None = None,
    ) -> None:
        """
        Args:
            checkpoint_id, subtask, parallelism: which part of which checkpoint it is.
            splits: all splits that the subtask was ever given.
            positions: by split, where to go on; a split that has none was read to its end.
            ended: splits that were read to their end.
            marks: by split, the last watermark and how far its event time has come (epoch ms).
            emitted: the last watermark of the subtask, epoch ms.
        """
        gone = set(ended)
        self.checkpoint_id = checkpoint_id
        self.positions = dict(positions)
        rows = [
            [s.id, s.payload, positions.get(s.id), s.id in gone or s.id not in positions, (marks or {}).get(s.id)]
            for s in splits
        ]
        columns = [list(column) for column in zip(*rows)] or [[], [], [], [], []]
        with naming("positions of splits"):
            written = encode_columns(columns)
        self._snapshot = SubtaskSnapshot(
            checkpoint_id=checkpoint_id,
            subtask_index=subtask,
            parallelism=parallelism,
            first_group=0,
            end_group=0,
            max_parallelism=0,
            operator=[OperatorSnapshot(_SPLITS, "union", written)],
            emitted=within(emitted),
        )

    def abort(self) -> None:
        """Nothing to put in order."""

    def discard(self) -> None:
        """Nothing to put in order."""

    async def encode(self, slice_ms: float = 0.0) -> SubtaskSnapshot:
        """The snapshot."""
        return self._snapshot


@dataclass
class SourceShare:
    """What one subtask of a source goes on from.

    Attributes:
        splits: what to read, each with the position to go on from (None: its start).
        read: splits that were read to their end.
        marks: by split, its last watermark and how far its event time had come (epoch ms).
        emitted: the last watermark of the subtask, epoch ms.
    """

    splits: list[tuple[Split, Any]] = field(default_factory=list)
    read: list[Split] = field(default_factory=list)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    emitted: int | None = None


def share_splits(
    snapshots: Sequence[SubtaskSnapshot], discovered: Sequence[Split], parallelism: int
) -> list[SourceShare]:
    """What each subtask goes on from.

    A split stays where it was while the parallelism is the same. New ones are dealt out behind the old ones; one that
    the source does not find any more is read on all the same: what it had is lost otherwise.
    """
    shares = [SourceShare(emitted=event_time(snapshots, i, parallelism)[1]) for i in range(parallelism)]
    now = {split.id: split for split in discovered}
    known: set[str] = set()
    dealt = 0
    for snapshot in sorted(snapshots, key=lambda s: s.subtask_index):
        for id_, payload, position, ended, marks in _rows(snapshot):
            known.add(id_)
            share = shares[snapshot.subtask_index if len(snapshots) == parallelism else dealt % parallelism]
            dealt += 1
            split = now.get(id_) or Split(id_, payload)
            if ended:
                share.read.append(split)
            else:
                share.splits.append((split, position))
            if marks is not None:
                share.marks[id_] = marks
    for split in discovered:
        if split.id not in known:
            shares[dealt % parallelism].splits.append((split, None))
            dealt += 1
    return shares


def _rows(snapshot: SubtaskSnapshot) -> list[tuple[Any, ...]]:
    for part in snapshot.operator:
        if part.name == _SPLITS:
            columns = [decode_column(n, node, Classes()) for n, node in read_columns(part.data)]
            return list(zip(*columns))
    return []
