"""Who takes part in checkpoints: tasks, as those who carry checkpoints out see them, and what they hand over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streamline._core.elements import Barrier
from streamline._state.format import PartEntry
from streamline._state.snapshot import SubtaskSnapshot

__all__ = ("Member", "Part", "Snapshots", "SourceMember", "SubtaskKey", "empty_snapshot", "key_of")


class Snapshots(Protocol):
    """A capture: state as it was, to be encoded."""

    checkpoint_id: int

    async def encode(self) -> SubtaskSnapshot: ...
    def abort(self) -> None: ...
    def discard(self) -> None: ...


class Member(Protocol):
    """A task, as far as checkpoints are concerned."""

    uid: str
    operator_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int

    def notify_complete(self, checkpoint_id: int) -> None: ...
    def notify_aborted(self, checkpoint_id: int) -> None: ...
    def expedite(self, checkpoint_id: int) -> None: ...
    def release(self) -> None: ...


class SourceMember(Member, Protocol):
    """A source's task."""

    def inject(self, barrier: Barrier, stop: bool = False) -> None:
        """Send a barrier; with `stop`, end behind it."""
        ...

    def stop(self, drain: bool) -> None:
        """End now."""
        ...


@dataclass(frozen=True, slots=True)
class SubtaskKey:
    """A subtask, as the coordinator names it."""

    uid: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.uid}[{self.subtask}]"


@dataclass(frozen=True, slots=True)
class Part:
    """What a subtask handed over: a file that is written, or a snapshot that is not yet (or never, in memory)."""

    entry: PartEntry | None = None
    snapshot: SubtaskSnapshot | None = None


def key_of(member: Member) -> SubtaskKey:
    """What names a task."""
    return SubtaskKey(member.uid, member.subtask_index)


def empty_snapshot(checkpoint_id: int, key: SubtaskKey, member: Member) -> SubtaskSnapshot:
    """Of a task that has nothing to save."""
    return SubtaskSnapshot(
        checkpoint_id=checkpoint_id,
        subtask_index=key.subtask,
        parallelism=member.parallelism,
        first_group=0,
        end_group=0,
        max_parallelism=member.max_parallelism,
    )
