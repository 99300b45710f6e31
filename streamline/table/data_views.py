"""Lists and maps inside of accumulators. They live in the state of their group like the rest of the accumulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ("DataView", "ListView", "MapView")

K = TypeVar("K")
V = TypeVar("V")


class DataView:
    """Base of the views."""

    def clear(self) -> None:
        """Remove everything."""
        raise NotImplementedError


@dataclass(init=False, repr=False)
class ListView(DataView, Generic[V]):
    """A list of values."""

    _list: list[V]

    def __init__(self, *args: V) -> None:
        self._list = list(args)

    def get(self) -> Iterable[V]:
        """All values, in the order in which they were added."""
        return self._list

    def add(self, value: V) -> None:
        """Add a value at the end."""
        self._list.append(value)

    def add_all(self, values: Iterable[V]) -> None:
        """Add values at the end."""
        self._list.extend(values)

    def clear(self) -> None:
        self._list = []

    def __iter__(self) -> Iterator[V]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def __repr__(self) -> str:
        return f"ListView({', '.join(map(repr, self._list))})"


@dataclass(init=False, repr=False)
class MapView(DataView, Generic[K, V]):
    """Values by key."""

    _map: dict[K, V]

    def __init__(self, values: Mapping[K, V] | Iterable[tuple[K, V]] = (), **kwargs: V) -> None:
        self._map = dict(values, **kwargs)

    def get(self, key: K) -> V | None:
        """The value of a key, None where there is none."""
        return self._map.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._map[key] = value

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set the values of keys."""
        self._map.update(dict_value)

    def remove(self, key: K) -> None:
        """Remove a key, where it is there."""
        self._map.pop(key, None)

    def contains(self, key: K) -> bool:
        """Whether the key has a value."""
        return key in self._map

    def items(self) -> Iterable[tuple[K, V]]:
        """Keys with their values."""
        return self._map.items()

    def keys(self) -> Iterable[K]:
        """The keys."""
        return self._map.keys()

    def values(self) -> Iterable[V]:
        """The values."""
        return self._map.values()

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return not self._map

    def clear(self) -> None:
        self._map = {}

    def __getitem__(self, key: K) -> V:
        return self._map[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._map[key] = value

    def __delitem__(self, key: K) -> None:
        del self._map[key]

    def __contains__(self, key: object) -> bool:
        return key in self._map

    def __iter__(self) -> Iterator[K]:
        return iter(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def __repr__(self) -> str:
        return f"MapView({self._map!r})"
