"""Keys of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamline._core.failure import note_position, stopped
from streamline._core.keys import stable_hash

__all__ = ("Keys",)


class Keys:
    """A key selector over batches. Keys without a value of their own are refused as soon as one is seen."""

    __slots__ = ("_checked", "_selector")

    def __init__(self, selector: Callable[[Any], Any]) -> None:
        self._selector = selector
        self._checked: set[type] = {str, int}

    def of(self, values: Sequence[Any]) -> list[Any]:
        """The keys of all records.

        Raises:
            ValidationException: a key of a class whose instances cannot be keys.
        """
        rest = iter(values)
        try:
            keys = list(map(self._selector, rest))
            if len(keys) != len(values):
                raise stopped(values[len(keys)])
            if type(keys[0]) not in self._checked:
                rest = iter(values)
                next(rest)
                stable_hash(keys[0])
                self._checked.add(type(keys[0]))
        except Exception as e:
            if not getattr(e, "__notes__", ()):
                note_position(e, values, rest)
            raise
        return keys
