"""State that expires: values carry the time of their last write, in processing time.

An expired value is not there for readers (unless the spec says otherwise). It is removed when it is met, and in the
background: a queue holds each key once, with a time before which none of its values expires; whoever reads or writes
looks at its head.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from streamline._core.declare import StateSpec, TtlSpec
from streamline._core.time import Clock
from streamline._state.handles import KINDS, WINDOW_KINDS, ListHandle, MapHandle, _Windowed
from streamline._state.table import Piece, keep
from streamline.abc import KeyedStore, StateTable

__all__ = ("TTL_KINDS", "TTL_WINDOW_KINDS", "TtlTable", "unwrap", "without_expired", "wrap")

_ABSENT: Final = object()


def wrap(kind: str, value: Any, now: int) -> Any:
    """A value without times as one that was written now."""
    if kind == "list":
        return [(now, v) for v in value]
    if kind == "map":
        return {k: (now, v) for k, v in value.items()}
    return (now, value)


def unwrap(kind: str, value: Any) -> Any:
    """A value with times as one without."""
    if kind == "list":
        return [v for _, v in value]
    if kind == "map":
        return {k: v for k, (_, v) in value.items()}
    return value[1]


def without_expired(spec: StateSpec, piece: Piece, now: int) -> Piece:
    """Entries for a snapshot: only what is alive, where the spec asks for that."""
    ttl = spec.ttl
    if ttl is None or not ttl.cleanup_in_snapshot:
        return piece
    spaces, counts, keys, values = piece
    oldest = now - ttl.millis
    match spec.kind:
        case "list":
            values = [[e for e in value if e[0] > oldest] for value in values]
        case "map":
            values = [{k: e for k, e in value.items() if e[0] > oldest} for value in values]
        case _:
            values = [value if value[0] > oldest else None for value in values]
    return keep(list(map(bool, values)), spaces, counts, keys, values)


class TtlTable:
    """A state whose values expire.

    Attributes:
        raw: the table that holds values with their times.
        data: for values, reducing and aggregating state: the mapping without times and expired entries.
    """

    __slots__ = (
        "_accesses",
        "_clock",
        "_queue",
        "_queued",
        "_scan",
        "_seen_all",
        "_unseen",
        "data",
        "raw",
        "spec",
        "ttl",
    )

    def __init__(self, raw: StateTable, spec: StateSpec, ttl: TtlSpec, clock: Clock) -> None:
        self.raw = raw
        self.spec = spec
        self.ttl = ttl
        self._clock = clock
        self._queue: deque[tuple[int, Any, Any]] = deque()
        self._queued: set[tuple[Any, Any]] = set()
        self.data: MutableMapping[Any, Any] = TtlMapping(self, None)
        # What was restored is looked at bit by bit, to be queued with its own time.
        self._scan = getattr(raw, "scan", None)
        self._accesses = 0
        self._unseen: Iterator[tuple[Any, Any]] = iter(
            ()
            if self._scan is not None
            else [(k, s) for s, inner in raw.data.items() for k in inner]
            if spec.namespaced
            else [(k, None) for k in raw.data]
        )
        self._seen_all = self._scan is not None or not raw.data

    def now(self) -> int:
        """Epoch ms; takes the chance to clean up a few entries."""
        now = self._clock.now()
        if self._scan is not None:
            self._accesses += 1
            if self.ttl.cleanup_size and self._accesses % 16 == 0:
                self.clean(now, 16 * self.ttl.cleanup_size)
        elif self.ttl.cleanup_size and (not self._seen_all or (self._queue and self._queue[0][0] <= now)):
            self.clean(now, self.ttl.cleanup_size)
        return now

    def expired(self, stamp: int, now: int) -> bool:
        """Whether what was written at `stamp` has outlived its time."""
        return stamp + self.ttl.millis <= now

    def track(self, key: Any, space: Any, now: int) -> None:
        """See to it that the entry is looked at when its time has come."""
        item = (key, space)
        if self._scan is None and item not in self._queued:
            self._queued.add(item)
            self._queue.append((now + self.ttl.millis, key, space))

    def clean(self, now: int, limit: int) -> int:
        """Look at up to `limit` entries whose time may have come; gives how many were removed."""
        if self._scan is not None:
            return sum(self._purge(key, space, now) is None for key, space in self._scan(limit))
        queue = self._queue
        removed = 0
        if not self._seen_all:
            for key, space in islice(self._unseen, limit):
                limit -= 1
                if (key, space) not in self._queued:
                    stamp = self._purge(key, space, now)
                    if stamp is not None:
                        self.track(key, space, stamp)
            self._seen_all = limit > 0
        for _ in range(min(limit, len(queue))):
            when, key, space = queue[0]
            if when > now:
                break
            queue.popleft()
            stamp = self._purge(key, space, now)
            if stamp is None:
                self._queued.discard((key, space))
                removed += 1
            else:
                queue.append((stamp + self.ttl.millis, key, space))
        return removed

    def _purge(self, key: Any, space: Any, now: int) -> int | None:
        """Remove what has expired under a key; gives the oldest time of what is left."""
        data: MutableMapping[Any, Any] = self.raw.data
        if self.spec.namespaced:
            data = data.get(space, {})
        value = data.get(key)
        if value is None:
            return None
        oldest: int | None
        match self.spec.kind:
            case "list":
                kept: Any = [e for e in value if not self.expired(e[0], now)]
                oldest = min((e[0] for e in kept), default=None)
            case "map":
                kept = {k: e for k, e in value.items() if not self.expired(e[0], now)}
                oldest = min((e[0] for e in kept.values()), default=None)
            case _:
                return None if self._drop_if_expired(data, key, value, space, now) else int(value[0])
        if oldest is None:
            self.remove(data, key, space)
        elif len(kept) < len(value):
            data[key] = kept
        return oldest

    def _drop_if_expired(self, data: MutableMapping[Any, Any], key: Any, entry: Any, space: Any, now: int) -> bool:
        if self.expired(entry[0], now):
            self.remove(data, key, space)
            return True
        return False

    def remove(self, data: MutableMapping[Any, Any], key: Any, space: Any) -> None:
        """Remove an entry, and its namespace where that was the last one."""
        data.pop(key, None)
        if self.spec.namespaced and not data:
            self.raw.data.pop(space, None)


class TtlMapping(MutableMapping[Any, Any]):
    """Values without their times; expired ones are not there."""

    __slots__ = ("_space", "_table")

    def __init__(self, table: TtlTable, space: Any) -> None:
        self._table = table
        self._space = space

    def _raw(self) -> Any:
        raw = self._table.raw.data
        return raw.get(self._space, {}) if self._table.spec.namespaced else raw

    def get(self, key: Any, default: Any = None) -> Any:
        table = self._table
        raw = self._raw()
        entry = raw.get(key)
        if entry is None:
            return default
        now = table.now()
        if table.expired(entry[0], now):
            table.remove(raw, key, self._space)
            return entry[1] if table.ttl.return_expired else default
        if table.ttl.refresh_on_read and entry[0] != now:
            raw[key] = (now, entry[1])
        return entry[1]

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        table = self._table
        now = table.now()
        raw = table.raw.data
        if table.spec.namespaced:
            inner = raw.get(self._space)
            if inner is None:
                raw[self._space] = {key: (now, value)}
            else:
                inner[key] = (now, value)
        else:
            raw[key] = (now, value)
        table.track(key, self._space, now)

    def __delitem__(self, key: Any) -> None:
        raw = self._raw()
        if key not in raw:
            raise KeyError(key)
        self._table.remove(raw, key, self._space)

    def __contains__(self, key: object) -> bool:
        entry = self._raw().get(key)
        return entry is not None and not self._table.expired(entry[0], self._table.now())

    def __iter__(self) -> Iterator[Any]:
        now = self._table.now()
        expired = self._table.expired
        return iter([k for k, entry in self._raw().items() if not expired(entry[0], now)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), _ABSENT) is not _ABSENT


class _TtlList(ListHandle):
    """ListState whose elements expire one by one."""

    __slots__ = ()

    if TYPE_CHECKING:
        _ttl: TtlTable

    def __init__(self, store: KeyedStore, table: TtlTable, spec: StateSpec, *space: Any) -> None:
        super().__init__(store, table.raw, spec, *space)
        self._ttl = table  # type: ignore[misc]  # the slot is in the classes below: two bases cannot both have slots

    def _put(self, value: Any) -> None:
        super()._put(value)
        self._ttl.track(self._store.key, getattr(self, "_space", None), self._ttl.now())

    def get(self) -> list[Any]:
        """The elements that are alive, in order of their adding."""
        found = self._get()
        if found is None:
            return []
        ttl = self._ttl
        now = ttl.now()
        alive = [e for e in found if not ttl.expired(e[0], now)]
        if ttl.ttl.refresh_on_read and alive:
            self._put([(now, e[1]) for e in alive])
        elif len(alive) < len(found):
            if alive:
                self._put(alive)
            else:
                self._drop()
        return [e[1] for e in (found if ttl.ttl.return_expired else alive)]

    def add(self, value: Any) -> None:
        """Append one."""
        now = self._ttl.now()
        super().add((now, value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append many."""
        if made := list(values):
            now = self._ttl.now()
            found = self._get()
            self._put([*(found or ()), *((now, v) for v in made)])

    def update(self, values: Iterable[Any]) -> None:
        """Put others in their place."""
        now = self._ttl.now()
        super().update((now, v) for v in values)


class TtlListHandle(_TtlList):
    """ListState whose elements expire."""

    __slots__ = ("_ttl",)


class WindowTtlListHandle(_TtlList, _Windowed):
    """ListState of a window whose elements expire."""

    __slots__ = ("_ttl",)


class _TtlMap(MapHandle):
    """MapState whose entries expire one by one."""

    __slots__ = ()

    if TYPE_CHECKING:
        _ttl: TtlTable

    def __init__(self, store: KeyedStore, table: TtlTable, spec: StateSpec, *space: Any) -> None:
        super().__init__(store, table.raw, spec, *space)
        self._ttl = table  # type: ignore[misc]  # the slot is in the classes below: two bases cannot both have slots

    def _put(self, value: Any) -> None:
        super()._put(value)
        self._ttl.track(self._store.key, getattr(self, "_space", None), self._ttl.now())

    def get(self, key: Any) -> Any:
        """The value under a key of the map, None where there is none."""
        found = self._get()
        entry = None if found is None else found.get(key)
        if found is None or entry is None:
            return None
        ttl = self._ttl
        now = ttl.now()
        if ttl.expired(entry[0], now):
            super().remove(key)
            return entry[1] if ttl.ttl.return_expired else None
        if ttl.ttl.refresh_on_read:
            found[key] = (now, entry[1])
            self._put(found)
        return entry[1]

    def put(self, key: Any, value: Any) -> None:
        """Put a value in."""
        now = self._ttl.now()
        super().put(key, (now, value))

    def put_all(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Put many in."""
        now = self._ttl.now()
        super().put_all({k: (now, v) for k, v in dict(items).items()})

    def contains(self, key: Any) -> bool:
        """Whether the map has a key that is alive."""
        return self.get(key) is not None or key in self._alive()

    def _alive(self) -> dict[Any, Any]:
        found = self._get()
        if found is None:
            return {}
        ttl = self._ttl
        now = ttl.now()
        alive = {k: e for k, e in found.items() if not ttl.expired(e[0], now)}
        if ttl.ttl.refresh_on_read and alive:
            self._put({k: (now, e[1]) for k, e in alive.items()})
        elif len(alive) < len(found):
            if alive:
                self._put(alive)
            else:
                self._drop()
        return {k: e[1] for k, e in (found if ttl.ttl.return_expired else alive).items()}

    def items(self) -> list[tuple[Any, Any]]:
        """Keys and values that are alive."""
        return list(self._alive().items())

    def keys(self) -> list[Any]:
        """The keys that are alive."""
        return list(self._alive())

    def values(self) -> list[Any]:
        """The values that are alive."""
        return list(self._alive().values())

    def is_empty(self) -> bool:
        """Whether nothing in it is alive."""
        return not self._alive()

    def __getitem__(self, key: Any) -> Any:
        return self._alive()[key]

    def __len__(self) -> int:
        return len(self._alive())


class TtlMapHandle(_TtlMap):
    """MapState whose entries expire."""

    __slots__ = ("_ttl",)


class WindowTtlMapHandle(_TtlMap, _Windowed):
    """MapState of a window whose entries expire."""

    __slots__ = ("_ttl",)


class _TtlView:
    """One namespace of a TtlTable, as the table of a handle that knows no namespaces."""

    __slots__ = ("data",)

    def __init__(self, table: TtlTable, space: Any) -> None:
        self.data: MutableMapping[Any, Any] = TtlMapping(table, space)


def _in_window(kind: str) -> Any:
    return lambda store, table, spec, space: KINDS[kind](store, _TtlView(table, space), spec)


TTL_KINDS: Final[dict[str, Any]] = {**KINDS, "list": TtlListHandle, "map": TtlMapHandle}
TTL_WINDOW_KINDS: Final[dict[str, Any]] = {
    **{kind: _in_window(kind) for kind in WINDOW_KINDS},
    "list": WindowTtlListHandle,
    "map": WindowTtlMapHandle,
}
