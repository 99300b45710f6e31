"""State of a subtask that belongs to no key: lists and mappings, redistributed when the parallelism changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

from streamline._core.declare import StateSpec
from streamline._state.classes import Classes
from streamline._state.codec import decode_column, read_columns
from streamline._state.snapshot import OperatorSnapshot, SubtaskSnapshot
from streamline._state.types import Migration, Written, type_text
from streamline.abc import OperatorStore
from streamline.errors import CheckpointException, StateMigrationException

__all__ = ("OperatorState", "split")

Mode: TypeAlias = Literal["list", "union", "broadcast"]


def split(elements: Sequence[Any], parallelism: int, subtask: int) -> list[Any]:
    """The share of a subtask when elements are dealt out evenly and in order: the first ones get one more."""
    size, more = divmod(len(elements), parallelism)
    start = subtask * size + min(subtask, more)
    return list(elements[start : start + size + (subtask < more)])


class OperatorState(OperatorStore):
    """Operator state in memory (all backends keep it there)."""

    def __init__(self, subtask_index: int, parallelism: int) -> None:
        self._subtask = subtask_index
        self._parallelism = parallelism
        self._live: dict[str, tuple[Mode, StateSpec, Any]] = {}
        self._restored: dict[str, list[OperatorSnapshot]] = {}

    def list_state(self, name: str, spec: StateSpec) -> list[Any]:
        """A list whose elements are split evenly over the subtasks on restore."""
        found: list[Any] = self._declare(name, "list", spec)
        return found

    def union_state(self, name: str, spec: StateSpec) -> list[Any]:
        """A list of which every subtask gets all elements on restore."""
        found: list[Any] = self._declare(name, "union", spec)
        return found

    def broadcast_state(self, name: str, spec: StateSpec) -> dict[Any, Any]:
        """A mapping that is the same in every subtask."""
        found: dict[Any, Any] = self._declare(name, "broadcast", spec)
        return found

    def _declare(self, name: str, mode: Mode, spec: StateSpec) -> Any:
        if name in self._live:
            was, _, value = self._live[name]
            if was != mode:
                raise CheckpointException(f"operator state {name!r} is declared twice: as {was} and as {mode} state")
            return value
        value = self._take(name, mode, spec)
        self._live[name] = (mode, spec, value)
        return value

    def _take(self, name: str, mode: Mode, spec: StateSpec) -> Any:
        """What a snapshot has for a state that is declared now, in this subtask's share."""
        parts = self._restored.pop(name, [])
        for part in parts:
            if part.mode != mode:
                raise StateMigrationException(
                    f"operator state {name!r} was written as {part.mode} state and is declared as {mode} state now"
                )
        classes = Classes(spec.type, spec.map_key)
        if mode == "broadcast":
            if not parts:
                return {}
            part = parts[self._subtask % len(parts)]
            change = Migration(part.type, part.key_type, spec, f"operator state {name!r}")
            entries = dict(zip(*_columns(part, classes)))
            return change.entry("map", False)(entries) if change else entries
        elements = [_converted(part, classes, spec) for part in parts]
        if mode == "list" and len(parts) == self._parallelism:
            return elements[self._subtask]
        everything = list(chain.from_iterable(elements))
        return everything if mode == "union" else split(everything, self._parallelism, self._subtask)

    def capture(self) -> list[tuple[OperatorSnapshot, list[list[Any]]]]:
        """What is there now: heads of snapshots, and columns that later changes do not touch."""
        for name in list(self._restored):  # nobody has asked for it yet: it stays, in this subtask's share
            first = self._restored[name][0]
            spec = StateSpec(type=Written(first.type), map_key=Written(first.key_type))
            self._live[name] = (first.mode, spec, self._take(name, first.mode, spec))
        taken: list[tuple[OperatorSnapshot, list[list[Any]]]] = []
        for name, (mode, spec, value) in self._live.items():
            columns = [list(value), list(value.values())] if mode == "broadcast" else [list(value)]
            if spec.copy is not None:
                columns[-1] = list(map(spec.copy, columns[-1]))
            taken.append((OperatorSnapshot(name, mode, b"", type_text(spec.type), type_text(spec.map_key)), columns))
        return taken

    def restore(self, snapshots: Sequence[SubtaskSnapshot]) -> None:
        """Take over what the subtasks of the checkpoint had; given out as states are declared."""
        for snapshot in sorted(snapshots, key=lambda s: s.subtask_index):
            for part in snapshot.operator:
                self._restored.setdefault(part.name, []).append(part)

    def undeclared(self) -> list[str]:
        """States of the checkpoint that nobody has asked for."""
        return list(self._restored)


def _converted(part: OperatorSnapshot, classes: Classes, spec: StateSpec) -> list[Any]:
    """The elements of a list, as their declared type has them."""
    elements = _columns(part, classes)[0]
    change = Migration(part.type, "", spec, f"operator state {part.name!r}")
    return list(map(change.value, elements)) if change.value is not None else elements


def _columns(part: OperatorSnapshot, classes: Classes) -> list[list[Any]]:
    return [decode_column(n, node, classes) for n, node in read_columns(part.data)]
