"""The memory backend: one dict for each state, frozen in no time when a capture is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from itertools import accumulate, compress, islice
from typing import Any, Final, Protocol

from streamline._core.copying import copy_value
from streamline._core.declare import StateSpec
from streamline._state.overlay import Overlay

__all__ = ("MemoryTable", "Piece", "Table", "keep")

#: A mapping below this size is copied while a capture is open, a larger one gets an overlay.
_SMALL: Final = 256
#: A list or mapping in state that is longer than this is written in several pieces.
_LONG: Final = 4096

#: Namespaces (or None), how many entries of each, keys and values: a run of entries as columns.
Piece = tuple[list[Any] | None, list[int] | None, list[Any], list[Any]]


class Table(Protocol):
    """The entries of one state, in whatever backend."""

    name: str
    spec: StateSpec
    #: Whether values carry the time of their last write (see `ttl`).
    stamped: bool
    data: MutableMapping[Any, Any]

    def respec(self, spec: StateSpec) -> None: ...
    def rewrite(self, change: Callable[[Any], Any]) -> None: ...
    def load(self, piece: Piece) -> None: ...
    def entries(self) -> int: ...


class MemoryTable:
    """The entries of one state. `data` is the mapping to read and write; it is replaced while a capture is open.

    Attributes:
        data: key to value or, where the spec is namespaced, namespace to a mapping of key to value.
        name, spec: as declared.
        stamped: whether values carry the time of their last write (see `ttl`).
    """

    __slots__ = ("_base", "_copier", "_layers", "data", "name", "spec", "stamped")

    data: MutableMapping[Any, Any]

    def __init__(self, name: str, spec: StateSpec) -> None:
        self.name = name
        self.spec = spec
        self.stamped = False
        self._base: dict[Any, Any] = {}
        self._layers: list[Overlay] = []
        self._copier = _copier_of(spec)
        self.data = self._base

    def respec(self, spec: StateSpec) -> None:
        """The declaration of a state that was restored before it was declared."""
        self.spec = spec
        self._copier = _copier_of(spec)

    def rewrite(self, change: Callable[[Any], Any]) -> None:
        """Put `change(value)` in the place of every value."""
        if self.spec.namespaced:
            for inner in self.data.values():
                for key in list(inner):
                    inner[key] = change(inner[key])
        else:
            for key in list(self.data):
                self.data[key] = change(self.data[key])

    def freeze(self) -> None:
        """Leave the entries as they are now for a capture; later writes go on top. Followed by one `thaw`."""
        layer = Overlay(self._layers[-1] if self._layers else self._base, self._copier)
        self._layers.append(layer)
        self.data = layer

    def pieces(self, size: Callable[[], int]) -> Iterator[Piece]:
        """The entries of the oldest capture, about `size()` a time."""
        base = self._base
        split: Any = {"list": _split_list, "map": _split_map}.get(self.spec.kind)
        if not self.spec.namespaced:
            for keys, values in _runs(base, size, split):
                yield None, None, keys, values
            return
        spaces: list[Any] = []
        counts: list[int] = []
        keys, values = [], []
        for space, inner in base.items():
            for some_keys, some_values in _runs(inner, size, split):
                spaces.append(space)
                counts.append(len(some_keys))
                keys += some_keys
                values += some_values
                if len(keys) >= size():
                    yield spaces, counts, keys, values
                    spaces, counts, keys, values = [], [], [], []
        if keys:
            yield spaces, counts, keys, values

    def thaw(self, limit: int) -> bool:
        """Move up to `limit` of the later writes of the oldest capture down; whether all of them are."""
        layer = self._layers[0]
        if not layer.drain(limit):
            return False
        base = layer.settle()
        del self._layers[0]
        if self._layers:
            self._layers[0].under = base
        else:
            self.data = base
        return True

    def load(self, piece: Piece) -> None:
        """Put entries of a snapshot in; what comes a second time for a key continues its list or map."""
        spaces, counts, keys, values = piece
        if spaces is None or counts is None:
            self._load_into(self._base, keys, values)
            return
        start = 0
        for space, count in zip(spaces, counts):
            stop = start + count
            inner = self._base.get(space)
            if inner is None:
                inner = self._base[space] = {}
            self._load_into(inner, keys[start:stop], values[start:stop])
            start = stop

    def _load_into(self, target: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        if self.spec.kind not in ("list", "map"):
            target.update(zip(keys, values))
            return
        for key, value in zip(keys, values):
            if key not in target:
                target[key] = value
            elif self.spec.kind == "list":
                target[key].extend(value)
            else:
                target[key].update(value)

    def entries(self) -> int:
        """How many entries there are, about."""
        if not self.spec.namespaced:
            return len(self.data)
        # Layer by layer: looking at a namespace through the layers would copy it up.
        base = self._base
        changed: dict[Any, int] = {}
        for layer in self._layers:
            changed.update(dict.fromkeys(layer.gone, 0))
            changed.update({space: len(dict.__getitem__(layer, space)) for space in dict.__iter__(layer)})
        return sum(map(len, base.values())) + sum(n - len(base.get(space, ())) for space, n in changed.items())

    def more_than(self, limit: int) -> bool:
        """Whether there are more entries than that, without counting all of many; no capture is open."""
        if not self.spec.namespaced:
            return len(self._base) > limit
        found = 0
        for inner in self._base.values():
            found += len(inner)
            if found > limit:
                return True
        return len(self._base) > limit


def keep(
    kept: list[bool], spaces: list[Any] | None, counts: list[int] | None, keys: list[Any], values: list[Any]
) -> Piece:
    """A piece without the entries for which `kept` is false."""
    if counts is not None:
        ends = list(accumulate(counts))
        counts = [sum(kept[end - count : end]) for end, count in zip(ends, counts)]
        used = [c > 0 for c in counts]
        spaces, counts = list(compress(spaces or (), used)), list(compress(counts, used))
    return spaces, counts, list(compress(keys, kept)), list(compress(values, kept))


def _runs(
    mapping: dict[Any, Any], size: Callable[[], int], split: Callable[[Any, Any], Iterator[tuple[Any, Any]]] | None
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Keys and values in runs of `size()`, long values cut."""
    keys_left, values_left = iter(mapping), iter(mapping.values())
    while keys := list(islice(keys_left, size())):
        values = list(islice(values_left, len(keys)))
        if split is not None and max(map(len, values)) > _LONG:
            room = size()
            cut_keys: list[Any] = []
            cut_values: list[Any] = []
            weight = 0
            for key, value in zip(keys, values):
                for k, v in split(key, value):
                    cut_keys.append(k)
                    cut_values.append(v)
                    weight += len(v) or 1
                    if weight >= room:
                        yield cut_keys, cut_values
                        cut_keys, cut_values, weight = [], [], 0
            if cut_keys:
                yield cut_keys, cut_values
        else:
            yield keys, values


def _split_list(key: Any, value: list[Any]) -> Iterator[tuple[Any, Any]]:
    for i in range(0, len(value) or 1, _LONG):
        yield key, value[i : i + _LONG]


def _split_map(key: Any, value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    if not value:
        yield key, value
    left = iter(value.items())
    while some := dict(islice(left, _LONG)):
        yield key, some


def _copier_of(spec: StateSpec) -> Callable[[Any], Any] | None:
    """What protects the frozen values of a state while later ones are written."""
    copier = spec.copy
    if spec.ttl is not None and copier is not None:
        copier = copy_value  # of a (time, value) pair
    if spec.kind == "list":
        if copier is None:
            copier = list.copy
        else:
            copy = copier
            copier = lambda values: [copy(v) for v in values]  # noqa: E731
    elif spec.kind == "map":
        copier = _copy_map(copier)
    if spec.namespaced:
        inner = copier
        return lambda mapping: Overlay(mapping, inner)
    return copier


def _copy_map(copy: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def protect(mapping: dict[Any, Any]) -> dict[Any, Any]:
        if len(mapping) > _SMALL:
            return Overlay(mapping, copy)
        return mapping.copy() if copy is None else {k: copy(v) for k, v in mapping.items()}

    return protect
