"""Handles: one keyed state under the current key, as user functions see it (Protocols in `streamline.state`).

Each kind comes in two forms: bound to the current key, or to the current key in one namespace (a window). They differ
in where a value lies, `_get`, `_put` and `_drop`; everything else is common. The plain ValueState spells its accesses
out: it is called for every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from streamline._core.copying import copier
from streamline._core.declare import StateSpec
from streamline.abc import KeyedStore, StateTable
from streamline.errors import StreamlineError, ValidationException

__all__ = ("KINDS", "NO_KEY", "WINDOW_KINDS", "NoKey", "WindowHandles")

_ABSENT: Final = object()


class NoKey:
    """The current key where there is none. It cannot be looked up: to try is the user's error, and says so."""

    def __hash__(self) -> int:
        raise LookupError(
            "keyed state was used where there is no current key: it can be read and written while a record of a keyed "
            "stream or a timer is processed, not in open(), close() or for a broadcast record"
        )

    def __repr__(self) -> str:
        return "<no current key>"


NO_KEY: Final = NoKey()


class _Keyed:
    """A value under the current key."""

    __slots__ = ("_spec", "_store", "_table")

    def __init__(self, store: KeyedStore, table: StateTable, spec: StateSpec) -> None:
        self._store = store
        self._table = table
        self._spec = spec

    def _get(self, default: Any = None) -> Any:
        return self._table.data.get(self._store.key, default)

    def _put(self, value: Any) -> None:
        self._table.data[self._store.key] = value

    def _drop(self) -> None:
        self._table.data.pop(self._store.key, None)

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._drop()


class _Windowed(_Keyed):
    """A value under the current key and a namespace."""

    __slots__ = ("_space",)

    def __init__(self, store: KeyedStore, table: StateTable, spec: StateSpec, space: Any) -> None:
        super().__init__(store, table, spec)
        self._space = space

    def _get(self, default: Any = None) -> Any:
        inner = self._table.data.get(self._space)
        return default if inner is None else inner.get(self._store.key, default)

    def _put(self, value: Any) -> None:
        inner = self._table.data.get(self._space)
        if inner is None:
            self._table.data[self._space] = {self._store.key: value}
        else:
            inner[self._store.key] = value

    def _drop(self) -> None:
        inner = self._table.data.get(self._space)
        if inner is not None:
            inner.pop(self._store.key, None)
            if not inner:
                self._table.data.pop(self._space, None)


class ValueHandle(_Keyed):
    """ValueState."""

    __slots__ = ("_default",)

    def __init__(self, store: KeyedStore, table: StateTable, spec: StateSpec) -> None:
        super().__init__(store, table, spec)
        self._default = spec.default

    def value(self) -> Any:
        """The value of the current key, or the default (None) where there is none."""
        return self._table.data.get(self._store.key, self._default)

    def update(self, value: Any) -> None:
        """Put a value in; None removes it."""
        if value is None:
            self._table.data.pop(self._store.key, None)
        else:
            self._table.data[self._store.key] = value


class FreshValueHandle(_Keyed):
    """ValueState whose default can be changed in place: everybody gets a copy of their own."""

    __slots__ = ()

    def value(self) -> Any:
        """The value of the current key, or a copy of the default where there is none."""
        found = self._get(_ABSENT)
        if found is _ABSENT:
            default, copy = self._spec.default, copier(type(self._spec.default))
            return default if copy is None else copy(default)
        return found

    def update(self, value: Any) -> None:
        """Put a value in; None removes it."""
        if value is None:
            self._drop()
        else:
            self._put(value)


class WindowValueHandle(_Windowed, FreshValueHandle):
    """ValueState of a window."""

    __slots__ = ()


class ListHandle(_Keyed):
    """ListState."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """The elements, in order of their adding."""
        return list(self._get(()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        """Append one."""
        found = self._get()
        if found is None:
            self._put([value])
        else:
            found.append(value)
            self._put(found)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append many."""
        found = self._get()
        if found is None:
            self.update(values)
        else:
            found.extend(values)
            self._put(found)

    def update(self, values: Iterable[Any]) -> None:
        """Put others in their place."""
        if values := list(values):
            self._put(values)
        else:
            self._drop()


class WindowListHandle(_Windowed, ListHandle):
    """ListState of a window."""

    __slots__ = ()


class MapHandle(_Keyed):
    """MapState."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """The value under a key of the map, None where there is none."""
        found = self._get()
        return None if found is None else found.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Put a value in."""
        found = self._get()
        if found is None:
            self._put({key: value})
        else:
            found[key] = value
            self._put(found)

    def put_all(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Put many in."""
        found = self._get()
        if found is None:
            if made := dict(items):
                self._put(made)
        else:
            found.update(items)
            self._put(found)

    def remove(self, key: Any) -> None:
        """Remove a key of the map; no error where there is none."""
        found = self._get()
        if found is not None and key in found:
            del found[key]
            if found:
                self._put(found)
            else:
                self._drop()

    def contains(self, key: Any) -> bool:
        """Whether the map has a key."""
        found = self._get()
        return found is not None and key in found

    def items(self) -> list[tuple[Any, Any]]:
        """Keys and values."""
        return list(self._get({}).items())

    def keys(self) -> list[Any]:
        """The keys of the map."""
        return list(self._get({}))

    def values(self) -> list[Any]:
        """The values of the map."""
        return list(self._get({}).values())

    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self._get()

    def __getitem__(self, key: Any) -> Any:
        return self._get({})[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        if not self.contains(key):
            raise KeyError(key)
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._get(()))


class WindowMapHandle(_Windowed, MapHandle):
    """MapState of a window."""

    __slots__ = ()


class ReducingHandle(_Keyed):
    """ReducingState."""

    __slots__ = ()

    def get(self) -> Any:
        """The combination of what was added, None where nothing was."""
        return self._get()

    def add(self, value: Any) -> None:
        """Combine one more with what is there."""
        found = self._get(_ABSENT)
        reduce = self._spec.reduce
        after = value if found is _ABSENT or reduce is None else reduce(found, value)
        if after is None and found is not None and found is not _ABSENT:
            raise StreamlineError("the function of reducing state returned None: is there a `return` missing?")
        self._put(after)


class WindowReducingHandle(_Windowed, ReducingHandle):
    """ReducingState of a window."""

    __slots__ = ()


class AggregatingHandle(_Keyed):
    """AggregatingState."""

    __slots__ = ()

    def get(self) -> Any:
        """The aggregate's result over what was added, None where nothing was."""
        found = self._get(_ABSENT)
        return None if found is _ABSENT else self._spec.aggregate.get_result(found)

    def add(self, value: Any) -> None:
        """Add one more to the accumulator."""
        aggregate = self._spec.aggregate
        found = self._get(_ABSENT)
        before = aggregate.create_accumulator() if found is _ABSENT else found
        after = aggregate.add(value, before)
        if after is None and before is not None:
            raise StreamlineError(f"{type(aggregate).__name__}.add returned None: is there a `return` missing?")
        self._put(after)


class WindowAggregatingHandle(_Windowed, AggregatingHandle):
    """AggregatingState of a window."""

    __slots__ = ()


KINDS: Final[dict[str, Callable[..., Any]]] = {
    "value": ValueHandle,
    "list": ListHandle,
    "map": MapHandle,
    "reducing": ReducingHandle,
    "aggregating": AggregatingHandle,
}
WINDOW_KINDS: Final[dict[str, Callable[..., Any]]] = {
    "value": WindowValueHandle,
    "list": WindowListHandle,
    "map": WindowMapHandle,
    "reducing": WindowReducingHandle,
    "aggregating": WindowAggregatingHandle,
}


class WindowHandles:
    """Namespaced state: calling it with a namespace gives the handle for the current key in it."""

    __slots__ = ("_make", "_spec", "_store", "_table")

    def __init__(self, store: KeyedStore, table: StateTable, spec: StateSpec, make: Callable[..., Any]) -> None:
        self._store = store
        self._table = table
        self._spec = spec
        self._make = make

    def __call__(self, namespace: Any) -> Any:
        return self._make(self._store, self._table, self._spec, namespace)

    def merge(self, target: Any, sources: Sequence[Any]) -> None:
        """Move the current key's entries of several namespaces into one (session windows that have merged)."""
        into = self(target)
        for space in sources:
            if space == target:
                continue
            source = self(space)
            found = source._get(_ABSENT)
            if found is _ABSENT:
                continue
            source._drop()
            before = into._get(_ABSENT)
            into._put(found if before is _ABSENT else self._combine(before, found))

    def _combine(self, a: Any, b: Any) -> Any:
        spec = self._spec
        match spec.kind:
            case "list":
                return [*a, *b]
            case "map":
                return {**a, **b}
            case "reducing" if spec.reduce is not None:
                return spec.reduce(a, b)
            case "aggregating":
                return spec.aggregate.merge(a, b)
        raise ValidationException(
            f"{spec.kind} state cannot be merged when windows merge: use list, map, reducing or aggregating state"
        )
