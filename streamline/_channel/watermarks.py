"""The watermark of several inputs: the minimum over those that are active and have caught up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from streamline._core.elements import MIN_TIMESTAMP

__all__ = ("WatermarkMerger",)


@final
class WatermarkMerger:
    """Pure: inputs' watermarks and statuses in, the merged watermark and status out.

    As in Flink: an idle or ended input is excused from the minimum; one that comes back behind the merged watermark is
    excused until it has caught up; when the last active input falls idle, the furthest input counts. The merged
    watermark never goes back.
    """

    __slots__ = ("_aligned", "_ended", "_idle", "_marks", "idle", "merged")

    def __init__(self, inputs: int) -> None:
        self._marks = [MIN_TIMESTAMP] * inputs
        self._idle = [False] * inputs
        self._ended = [False] * inputs
        self._aligned = [True] * inputs
        #: The merged watermark, epoch ms.
        self.merged = MIN_TIMESTAMP
        #: Whether no input is active (and at least one has not ended).
        self.idle = False

    def add_input(self) -> int:
        """One more input, active and at the merged watermark; gives its number."""
        self._marks.append(self.merged)
        self._idle.append(False)
        self._ended.append(False)
        self._aligned.append(True)
        self.idle = False
        return len(self._marks) - 1

    @property
    def held_back_by(self) -> list[int]:
        """Inputs that had no watermark yet, where others had one and wait for them."""
        if self.merged != MIN_TIMESTAMP or max(self._marks, default=MIN_TIMESTAMP) == MIN_TIMESTAMP:
            return []
        return [
            i for i, (mark, counts) in enumerate(zip(self._marks, self._aligned)) if counts and mark == MIN_TIMESTAMP
        ]

    def mark(self, inputs: Sequence[int]) -> int:
        """How far these inputs have come, epoch ms."""
        return min((self._marks[i] for i in inputs), default=MIN_TIMESTAMP)

    def is_excused(self, i: int) -> bool:
        """Whether input i is idle or has ended."""
        return self._idle[i]

    def advance(self, i: int, timestamp: int) -> int | None:
        """Input i reached `timestamp`; gives the merged watermark where that moves it."""
        if self._ended[i] or timestamp <= self._marks[i]:
            return None
        self._marks[i] = timestamp
        if self._idle[i]:
            return None
        if not self._aligned[i]:
            if timestamp < self.merged:
                return None
            self._aligned[i] = True
        return self._minimum()

    def set_idle(self, i: int, idle: bool) -> tuple[int | None, bool | None]:
        """Input i became idle or active; gives (merged watermark, merged status) where they change."""
        if self._ended[i] or self._idle[i] == idle:
            return None, None
        self._idle[i] = idle
        if not idle:
            self._aligned[i] = self._marks[i] >= self.merged
            became_active = self.idle
            self.idle = False
            return None, False if became_active else None
        was_aligned, self._aligned[i] = self._aligned[i], False
        return self._excused(i, was_aligned)

    def end(self, i: int) -> tuple[int | None, bool | None]:
        """Input i has ended; gives (merged watermark, merged status) where they change."""
        if self._ended[i]:
            return None, None
        was_aligned = self._aligned[i] and not self._idle[i]
        self._ended[i], self._aligned[i], self._idle[i] = True, False, True
        return self._excused(i, was_aligned)

    def _excused(self, i: int, was_aligned: bool) -> tuple[int | None, bool | None]:
        if all(self._idle):
            furthest = max(self._marks)
            moved = None
            if was_aligned and self._marks[i] == self.merged and furthest > self.merged:
                moved = self.merged = furthest
            became_idle = not self.idle and not all(self._ended)
            self.idle = self.idle or became_idle
            return moved, True if became_idle else None
        return self._minimum(), None

    def _minimum(self) -> int | None:
        low = min((m for m, a in zip(self._marks, self._aligned) if a), default=None)
        if low is None or low <= self.merged:
            return None
        self.merged = low
        return low
