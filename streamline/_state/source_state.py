"""The state of a source's subtask: its splits with the positions to go on from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streamline._state.classes import Classes
from streamline._state.codec import decode_column, encode_columns, read_columns
from streamline._state.snapshot import OperatorSnapshot, SubtaskSnapshot
from streamline.abc import Split

__all__ = ("SourceCapture", "share_splits")

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
    ) -> None:
        """
        Args:
            checkpoint_id, subtask, parallelism: which part of which checkpoint it is.
            splits: all splits that the subtask was ever given.
            positions: by split, where to go on; a split that has none was read to its end.
            ended: splits that were read to their end.
        """
        gone = set(ended)
        self.checkpoint_id = checkpoint_id
        self.positions = dict(positions)
        rows = [[s.id, s.payload, positions.get(s.id), s.id in gone or s.id not in positions] for s in splits]
        columns = [list(column) for column in zip(*rows)] or [[], [], [], []]
        self._snapshot = SubtaskSnapshot(
            checkpoint_id=checkpoint_id,
            subtask_index=subtask,
            parallelism=parallelism,
            first_group=0,
            end_group=0,
            max_parallelism=0,
            operator=[OperatorSnapshot(_SPLITS, "union", encode_columns(columns))],
        )

    def abort(self) -> None:
        """Nothing to put in order."""

    def discard(self) -> None:
        """Nothing to put in order."""

    async def encode(self, slice_ms: float = 0.0) -> SubtaskSnapshot:
        """The snapshot."""
        return self._snapshot


def share_splits(
    snapshots: Sequence[SubtaskSnapshot], discovered: Sequence[Split], parallelism: int
) -> list[tuple[list[tuple[Split, Any]], list[Split]]]:
    """For each subtask: the splits to read, each with its position, and those that were read to their end.

    A split stays where it was while the parallelism is the same. New ones are dealt out behind the old ones; one that
    the source does not find any more is read on all the same: what it had is lost otherwise.
    """
    shares: list[tuple[list[tuple[Split, Any]], list[Split]]] = [([], []) for _ in range(parallelism)]
    now = {split.id: split for split in discovered}
    known: set[str] = set()
    dealt = 0
    for snapshot in sorted(snapshots, key=lambda s: s.subtask_index):
        for id_, payload, position, ended in _rows(snapshot):
            known.add(id_)
            subtask = snapshot.subtask_index if len(snapshots) == parallelism else dealt % parallelism
            dealt += 1
            split = now.get(id_) or Split(id_, payload)
            if ended:
                shares[subtask][1].append(split)
            else:
                shares[subtask][0].append((split, position))
    for split in discovered:
        if split.id not in known:
            shares[dealt % parallelism][0].append((split, None))
            dealt += 1
    return shares


def _rows(snapshot: SubtaskSnapshot) -> list[tuple[Any, ...]]:
    for part in snapshot.operator:
        if part.name == _SPLITS:
            columns = [decode_column(n, node, Classes()) for n, node in read_columns(part.data)]
            return list(zip(*columns))
    return []
