"""Makes states on either backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamline._core.keys import group_range
from streamline._state.rocks import RocksBackend, local_folder
from streamline._state.subtask import SubtaskState
from streamline.testing import VirtualClock


class Backends:
    """Makes states on one backend, and closes them."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = str(folder)
        self._made: list[SubtaskState] = []

    def __call__(
        self,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        *,
        wake: Callable[[int], Any] | None = None,
        clock: VirtualClock | None = None,
        dirty: int = 3,
        held: int = 10,
        kind: str | None = None,
    ) -> SubtaskState:
        """A state; on RocksDB one that writes back all the time."""
        backend = None
        if (kind or self.kind) == "rocksdb":
            backend = RocksBackend(local_folder(self._folder), dirty, held)
        state = SubtaskState(
            key_groups=group_range(max_parallelism, parallelism, subtask),
            max_parallelism=max_parallelism,
            clock=clock or VirtualClock(0, autojump=False),
            wake_at=wake or (lambda t: None),
            subtask_index=subtask,
            parallelism=parallelism,
            backend=backend,
        )
        self._made.append(state)
        return state

    def close(self) -> None:
        """Close all that were made."""
        while self._made:
            self._made.pop().close()
