"""Keys of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from streamline._core.failure import note_position, stopped
from streamline._core.keys import stable_hash
from streamline.abc import KeyedStore

__all__ = ("Keys",)


class Keys:
    """A key selector over batches. Keys without a value of their own are refused as soon as one is seen.

    Keys are looked at by their classes, those of tuples by the classes of their parts: some 10 ns a record. So it is
    done for the first batches and then for some; what slips through is refused by the next checkpoint, which cannot
    encode it.
    """

    __slots__ = ("_batches", "_checked", "_selector", "_store")

    #: So many batches are looked at, and then each of so many.
    _ALL: Final = 64
    _EACH: Final = 8

    def __init__(self, selector: Callable[[Any], Any]) -> None:
        self._selector = selector
        self._batches = 0
        self._checked: set[type] = {str, int}
        #: Has not seen a key yet.
        self._store: KeyedStore | None = None

    def expect(self, store: KeyedStore) -> None:
        """Let the store look at the first key there is, whether it goes with what was restored."""
        self._store = store

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
            self._batches = number = self._batches + 1
            if (
                (number <= self._ALL or not number % self._EACH)
                and not self._checked.issuperset(map(type, keys))
                and not self._simple_tuples(keys)
            ):
                rest = iter(values)
                self._check(keys, rest)
            if self._store is not None:
                rest = iter(values)
                self._show(self._store, keys, rest)
        except Exception as e:
            if not getattr(e, "__notes__", ()):
                note_position(e, values, rest)
            raise
        return keys

    def _show(self, store: KeyedStore, keys: list[Any], rest: Any) -> None:
        """Show the first key that tells anything to the store; `rest` follows, for the record of an error."""
        for key, _ in zip(keys, rest):
            if key is not None:
                store.check_key(key)
                self._store = None
                return

    def _simple_tuples(self, keys: list[Any]) -> bool:
        """Whether all keys are tuples of what has been checked."""
        return {tuple}.issuperset(map(type, keys)) and self._checked.issuperset(map(type, chain.from_iterable(keys)))

    def _check(self, keys: list[Any], rest: Any) -> None:
        """Look at the keys of classes that were not seen before; `rest` follows, for the record of an error."""
        checked = self._checked
        for key, _ in zip(keys, rest):
            self._check_one(key, checked)

    def _check_one(self, key: Any, checked: set[type]) -> None:
        if type(key) is tuple:
            for part in key:
                self._check_one(part, checked)
        elif type(key) not in checked:
            stable_hash(key)
            checked.add(type(key))
