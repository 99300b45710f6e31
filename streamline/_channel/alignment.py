"""Barrier alignment of several inputs."""

from __future__ import annotations

from typing import final

from streamline._core.elements import Barrier

__all__ = ("Aligner",)


@final
class Aligner:
    """Pure: which inputs have delivered the current barrier, and when all of them have.

    Exactly once: an input that has delivered it is blocked until the others have too. At least once: none is blocked.
    A barrier of a later checkpoint gives up the earlier one. Ended inputs count as delivered.
    """

    __slots__ = ("_arrived", "_ended", "_exactly_once", "_inputs", "blocked", "current", "last")

    def __init__(self, inputs: int, exactly_once: bool = True) -> None:
        self._inputs = inputs
        self._exactly_once = exactly_once
        self._arrived: set[int] = set()
        self._ended: set[int] = set()
        #: Inputs that must not be read now.
        self.blocked: set[int] = set()
        #: The barrier that is being aligned.
        self.current: Barrier | None = None
        #: Id of the newest checkpoint that was aligned or given up.
        self.last = -1

    def arrived(self, i: int, barrier: Barrier) -> Barrier | None:
        """Input i delivered a barrier; gives it when every input has."""
        if barrier.checkpoint_id <= self.last:
            return None
        if self.current is None or barrier.checkpoint_id > self.current.checkpoint_id:
            self.current = barrier
            self._arrived.clear()
            self.blocked.clear()
        elif barrier.checkpoint_id < self.current.checkpoint_id:
            return None
        self._arrived.add(i)
        if self._exactly_once:
            self.blocked.add(i)
        return self._complete()

    def ended(self, i: int) -> Barrier | None:
        """Input i has ended; gives the barrier where only that was missing."""
        self._ended.add(i)
        return self._complete()

    def delivered(self, checkpoint_id: int) -> set[int]:
        """Inputs that have delivered the barrier of a checkpoint."""
        if self.current is None or self.current.checkpoint_id != checkpoint_id:
            return set()
        return set(self._arrived)

    def leave(self) -> None:
        """The barrier is not aligned any more: the checkpoint goes on without."""
        self.current = None
        self._arrived.clear()
        self.blocked.clear()

    def give_up(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted: nobody waits for its barriers any more."""
        if self.current is not None and self.current.checkpoint_id <= checkpoint_id:
            self._release(self.current.checkpoint_id)
        self.last = max(self.last, checkpoint_id)

    def _complete(self) -> Barrier | None:
        barrier = self.current
        if barrier is None or len(self._arrived | self._ended) < self._inputs:
            return None
        self._release(barrier.checkpoint_id)
        return barrier

    def _release(self, checkpoint_id: int) -> None:
        self.last = checkpoint_id
        self.current = None
        self._arrived.clear()
        self.blocked.clear()
