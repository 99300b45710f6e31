"""Windows that merge: which windows of a key are open, and under which of them their state lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamline._operators.window.assign import MergingWindowAssigner
from streamline.errors import StreamlineError

__all__ = ("MergingWindows",)

#: Called with (result, windows that were merged, state window of the result, state windows to merge into it).
OnMerge = Callable[[Any, Sequence[Any], Any, Sequence[Any]], None]


class _Groups:
    """Takes down which windows an assigner wants merged."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((merge_result, list(to_be_merged)))


class MergingWindows:
    """The open windows of one key, each with the window under which its state lies.

    A window that others are merged into keeps the state of one of them in its place, so that merging moves little.
    """

    __slots__ = ("_assigner", "mapping")

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        #: Window to state window.
        self.mapping = mapping

    def state_window(self, window: Any) -> Any:
        """Where the state of an open window lies, None where it is not open."""
        return self.mapping.get(window)

    def retire(self, window: Any) -> None:
        """The window is gone."""
        if self.mapping.pop(window, None) is None:
            raise StreamlineError(f"window {window} is not open")

    def add(self, window: Any, on_merge: OnMerge) -> Any:
        """Add a window; gives the one that it is part of now, which may be itself."""
        mapping = self.mapping
        if window in mapping:  # open windows never overlap, so it merges with nothing
            return window
        result = window
        groups = _Groups()
        self._assigner.merge_windows([*mapping, window], groups)
        for merged, parts in groups.found:
            if window in parts:
                result = merged
            before = [w for w in parts if w in mapping]
            if not before:
                continue
            states = [mapping.pop(w) for w in before]
            mapping[merged] = states[0]
            if before != [merged]:
                on_merge(merged, before, states[0], states[1:])
        mapping.setdefault(result, result)
        return result
