"""What one subtask saves: blocks of encoded columns, with what is needed to share them out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from streamline._core.declare import StateKind
from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._state.spill import Blocks, lengths

__all__ = ("OperatorSnapshot", "SharedFile", "SubtaskSnapshot", "TableSnapshot", "event_time", "within")


class SharedFile(msgspec.Struct, frozen=True):
    """A file that several checkpoints use (incremental ones): its name in the shared folder, and what it has to be."""

    name: str
    size: int
    digest: str


class TableSnapshot(msgspec.Struct):
    """The entries of one keyed state (or of one kind of timers).

    Attributes:
        name, kind, namespaced: as declared when it was written.
        ttl: whether values carry the time of their last write.
        entries: how many keys there are, about.
        form: how it is written. "columns": encoded (namespaces, counts,) keys, values; a key that comes again continues
            its list or map. "rows": keys and values one by one, as RocksDB has them. "files": in the snapshot's files.
        blocks: runs of columns or rows.
        classes: what rows refer to by number.
        number: what rows in files begin with.
        type, key_type: the declared types of its values and of a map's keys, as text; "": not declared.
    """

    name: str
    kind: StateKind
    namespaced: bool
    ttl: bool
    entries: int
    blocks: Sequence[bytes]
    form: Literal["columns", "rows", "files"] = "columns"
    classes: list[Any] = []
    number: int = 0
    type: str = ""
    key_type: str = ""


class OperatorSnapshot(msgspec.Struct):
    """One operator state: a column of elements, or of keys and one of values; types as in `TableSnapshot`."""

    name: str
    mode: Literal["list", "union", "broadcast"]
    data: bytes
    type: str = ""
    key_type: str = ""


class SubtaskSnapshot(msgspec.Struct):
    """All state of one subtask at a checkpoint.

    Attributes:
        checkpoint_id: of which it is a part.
        subtask_index, parallelism: which of how many it was.
        first_group, end_group: its key groups, end exclusive.
        max_parallelism: the number of key groups.
        tables: keyed state and timers.
        operator: state that belongs to no key.
        watermark: how far event time had come, epoch ms; None: not at all, or to its end.
        emitted: the last watermark that was sent on.
        event_time: how far the operator's own reckoning of event time had come, where it makes watermarks.
        in_flight: elements that were on their way to it (unaligned checkpoints), and `channels`: how many it had.
        files: of a RocksDB database, by their name in it; they lie in the job's shared folder.
        small: other files of that database, by name.
        uploads: files that are still to be put there; never written.
        fetch: puts a file of the shared folder into a local one; known where the snapshot was read; never written.
        elsewhere: that shared folder is not the one that the job's own checkpoints use; never written as True.
    """

    checkpoint_id: int
    subtask_index: int
    parallelism: int
    first_group: int
    end_group: int
    max_parallelism: int
    tables: list[TableSnapshot] = []
    operator: list[OperatorSnapshot] = []
    watermark: int | None = None
    emitted: int | None = None
    in_flight: bytes = b""
    channels: int = 0
    files: dict[str, SharedFile] = {}
    small: dict[str, bytes] = {}
    uploads: Any = None
    fetch: Any = None
    elsewhere: bool = False
    event_time: int | None = None

    @property
    def spilled(self) -> bool:
        """Whether some of it lies in a file."""
        return any(isinstance(t.blocks, Blocks) and t.blocks.spilled for t in self.tables)

    def take_in(self) -> None:
        """Have all blocks in memory: for a snapshot that is kept there."""
        for table in self.tables:
            table.blocks = list(table.blocks)

    def size(self) -> int:
        """Bytes of state."""
        blocks = sum(sum(lengths(t.blocks)) for t in self.tables) + sum(len(o.data) for o in self.operator)
        return blocks + sum(f.size for f in self.files.values()) + sum(map(len, self.small.values()))


def within(timestamp: int | None) -> int | None:
    """A watermark to be gone on from: neither the one before the first nor the one at the end of the input."""
    return None if timestamp is None or timestamp in (MIN_TIMESTAMP, MAX_TIMESTAMP) else timestamp


def event_time(
    snapshots: Sequence[SubtaskSnapshot], subtask: int, parallelism: int
) -> tuple[int | None, int | None, int | None]:
    """How far event time had come for a subtask, its last watermark, and its own reckoning: its own, or the least."""
    if len(snapshots) == parallelism:
        snapshots = [s for s in snapshots if s.subtask_index == subtask]
    marks = [s.watermark for s in snapshots]
    emitted = [s.emitted for s in snapshots]
    return _least(marks), _least(emitted), _least([s.event_time for s in snapshots])


def _least(marks: Sequence[int | None]) -> int | None:
    known = [m for m in marks if m is not None]
    return min(known) if known and len(known) == len(marks) else None
