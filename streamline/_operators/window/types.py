"""Windows themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from streamline._core.elements import MAX_TIMESTAMP

__all__ = ("CountWindow", "GlobalWindow", "TimeWindow", "Window", "merge_overlapping")


class Window(msgspec.Struct, frozen=True, order=True):
    """A group of records; a value, and part of the state's keys. Subclasses are frozen Structs."""

    def max_timestamp(self) -> int:
        """The last timestamp (epoch ms) that still belongs to it."""
        raise NotImplementedError


class TimeWindow(Window, frozen=True, order=True):
    """Records from `start` on and before `end`, epoch milliseconds."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """`end` - 1."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether they overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window of `window_size` ms, shifted by `offset` ms, that `timestamp` falls into."""
        return timestamp - (timestamp - offset) % window_size


class GlobalWindow(Window, frozen=True, order=True):
    """The one window of all records of a key."""

    def max_timestamp(self) -> int:
        """The largest timestamp: it never ends."""
        return MAX_TIMESTAMP

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return GLOBAL_WINDOW


GLOBAL_WINDOW = GlobalWindow()


class CountWindow(Window, frozen=True, order=True):
    """A window of so many records, by number."""

    id: int

    def max_timestamp(self) -> int:
        """The largest timestamp: it has nothing to do with time."""
        return MAX_TIMESTAMP


def merge_overlapping(windows: Iterable[Any]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
    """Groups of time windows that overlap or touch: what they merge to, and which they are; only groups of several."""
    merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
    for window in sorted(windows):
        if merged and merged[-1][0].intersects(window):
            cover, parts = merged[-1]
            parts.append(window)
            merged[-1] = (cover.cover(window), parts)
        else:
            merged.append((window, [window]))
    return [group for group in merged if len(group[1]) > 1]
