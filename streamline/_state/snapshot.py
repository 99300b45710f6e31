"""What one subtask saves: blocks of encoded columns, with what is needed to share them out again."""

from __future__ import annotations

from typing import Literal

import msgspec

from streamline._core.declare import StateKind

__all__ = ("OperatorSnapshot", "SubtaskSnapshot", "TableSnapshot")


class TableSnapshot(msgspec.Struct):
    """The entries of one keyed state (or of one kind of timers).

    Attributes:
        name, kind, namespaced: as declared when it was written.
        ttl: whether values carry the time of their last write.
        entries: how many keys there are, about.
        blocks: encoded columns: (namespaces, counts,) keys, values; a key that comes again continues its list or map.
    """

    name: str
    kind: StateKind
    namespaced: bool
    ttl: bool
    entries: int
    blocks: list[bytes]


class OperatorSnapshot(msgspec.Struct):
    """One operator state: a column of elements, or of keys and one of values."""

    name: str
    mode: Literal["list", "union", "broadcast"]
    data: bytes


class SubtaskSnapshot(msgspec.Struct):
    """All state of one subtask at a checkpoint.

    Attributes:
        checkpoint_id: of which it is a part.
        subtask_index, parallelism: which of how many it was.
        first_group, end_group: its key groups, end exclusive.
        max_parallelism: the number of key groups.
        tables: keyed state and timers.
        operator: state that belongs to no key.
    """

    checkpoint_id: int
    subtask_index: int
    parallelism: int
    first_group: int
    end_group: int
    max_parallelism: int
    tables: list[TableSnapshot] = []
    operator: list[OperatorSnapshot] = []

    def size(self) -> int:
        """Bytes of state."""
        return sum(len(b) for t in self.tables for b in t.blocks) + sum(len(o.data) for o in self.operator)
