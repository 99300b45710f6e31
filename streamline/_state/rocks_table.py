"""One keyed state in RocksDB: mappings that keep what is in use in memory and write it back later.

A value lies under `state | namespace | key`; what is read stays in memory for a while, what is written goes to the
database when enough has come together, and always before a snapshot. A value that could be changed in place counts as
written once it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from itertools import islice
from typing import Any, Final, Protocol, final

from streamline._core.declare import StateSpec
from streamline._state.classes import Classes
from streamline._state.rows import RowCodec
from streamline._state.table import Piece

__all__ = ("Database", "RocksTable", "Rows")

_ABSENT: Final = object()
#: Kept in the cache for a key that the database does not have.
_GONE: Final = object()
#: Of how many open namespaces the size is looked at; there may be one for each key.
_SAMPLE: Final = 64


class Database(Protocol):
    """The database of a subtask."""

    def get(self, key: bytes) -> bytes | None: ...
    def put_all(self, rows: dict[bytes, bytes | None]) -> None:
        """Write many, or delete where the value is None; the dict is not used any more by the caller."""
        ...

    def items(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, in order, the prefix cut off; from behind a key where one is given."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Write, at the latest when `commit` is called."""
        ...

    def delete(self, key: bytes) -> None: ...
    def delete_prefix(self, prefix: bytes) -> None: ...
    def commit(self) -> None: ...
    def count(self, prefix: bytes) -> int:
        """About how many rows begin with a prefix."""
        ...


@final
class Rows(MutableMapping[Any, Any]):
    """The rows under one prefix as a mapping."""

    __slots__ = ("_cache", "_changeable", "_codec", "_db", "_dirty", "_filled", "_old", "prefix")

    def __init__(self, db: Database, codec: RowCodec, prefix: bytes, changeable: bool) -> None:
        self._db = db
        self._codec = codec
        self.prefix = prefix
        self._changeable = changeable
        self._cache: dict[Any, Any] = {}
        #: What was in the cache before it was last made smaller: whoever is asked for again comes back.
        self._old: dict[Any, Any] = {}
        self._dirty: set[Any] = set()
        #: Whether there is anything in it: known for sure, or None.
        self._filled: bool | None = None

    def adopt(self, values: dict[Any, Any]) -> None:
        """Take over a dict that somebody may go on writing into until the next flush."""
        self._cache = values
        self._old = {}
        self._dirty = set(values)
        self._filled = None

    def _find(self, key: Any) -> Any:
        value = self._cache.get(key, _ABSENT)
        return self._fetch(key) if value is _ABSENT else value

    def _fetch(self, key: Any) -> Any:
        """A value that is not in the cache yet."""
        value = self._old.pop(key, _ABSENT) if self._old else _ABSENT
        if value is _ABSENT:
            data = self._db.get(self.prefix + self._codec.encode_key(key))
            value = _GONE if data is None else self._codec.decode(data)
        self._cache[key] = value
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._cache.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._fetch(key)
        if value is _GONE:
            return default
        if self._changeable:
            self._dirty.add(key)
        return value

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _GONE)
        if value is _GONE:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not _GONE

    def __setitem__(self, key: Any, value: Any) -> None:
        self._cache[key] = value
        self._dirty.add(key)
        self._filled = True

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def pop(self, key: Any, *default: Any) -> Any:
        value = self._find(key)
        if value is _GONE:
            if default:
                return default[0]
            raise KeyError(key)
        self._cache[key] = _GONE
        self._dirty.add(key)
        self._filled = None
        return value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        value = self.get(key, _GONE)
        if value is _GONE:
            self[key] = default
            return default
        return value

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._all():
            yield key

    def __len__(self) -> int:
        self.flush()
        return sum(1 for _ in self._db.items(self.prefix))

    def __bool__(self) -> bool:
        if self._filled is None:
            self.flush()
            self._filled = next(self._db.items(self.prefix), None) is not None
        return self._filled

    def _all(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values; where a value is in memory, that one. Safe against writes meanwhile."""
        self.flush()
        last: bytes | None = None
        while some := list(islice(self._db.items(self.prefix, last), 1024)):
            last = some[-1][0]
            for raw_key, raw_value in some:
                key = self._codec.decode(raw_key)
                value = self._cache.get(key, _ABSENT)
                if value is _ABSENT:
                    value = self._codec.decode(raw_value)
                if value is not _GONE:
                    yield key, value

    def items(self) -> Any:
        return _Items(self)

    def values(self) -> Any:
        return _Values(self)

    def clear(self) -> None:
        self._cache, self._old, self._dirty, self._filled = {}, {}, set(), False
        self._db.delete_prefix(self.prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MutableMapping | dict) and dict(self._all()) == dict(other.items())

    def __repr__(self) -> str:
        return repr(dict(self._all()))

    # -- for its table -------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many entries have come into memory since it was last made smaller."""
        return len(self._cache)

    @property
    def dirty(self) -> int:
        """How many entries are to be written."""
        return len(self._dirty)

    def flush(self) -> None:
        """Hand what was written to the database."""
        if not self._dirty:
            return
        encode_key, encode, prefix, cache = self._codec.encode_key, self._codec.encode, self.prefix, self._cache
        rows: dict[bytes, bytes | None] = {}
        for key in self._dirty:
            value = cache[key]
            rows[prefix + encode_key(key)] = None if value is _GONE else encode(value)
        self._dirty.clear()
        self._db.put_all(rows)

    settle = flush

    def shrink(self) -> None:
        """Let go of what was not used lately. Everything has to be flushed."""
        self._old = self._cache
        self._cache = {}

    def peek(self, key: Any) -> Any:
        """The value in the database, past the cache; None where there is none."""
        data = self._db.get(self.prefix + self._codec.encode_key(key))
        return None if data is None else self._codec.decode(data)

    def load(self, keys: list[Any], values: list[Any]) -> None:
        """Put entries of a snapshot in, past the cache."""
        encode_key, encode, prefix = self._codec.encode_key, self._codec.encode, self.prefix
        self._db.put_all({prefix + encode_key(key): encode(value) for key, value in zip(keys, values)})
        self._filled = None


class _View:
    """Items or values of Rows; a mapping's own views look every key up a second time."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)


@final
class _Items(_View):
    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._rows._all()


@final
class _Values(_View):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        for _, value in self._rows._all():
            yield value


@final
class Spaces(MutableMapping[Any, Any]):
    """A mapping of namespaces (or of keys with a map each) to mappings."""

    __slots__ = ("_adopted", "_changeable", "_codec", "_db", "_open", "prefix")

    def __init__(self, db: Database, codec: RowCodec, prefix: bytes, changeable: bool) -> None:
        self._db = db
        self._codec = codec
        self.prefix = prefix
        self._changeable = changeable
        self._open: dict[Any, Rows] = {}
        #: Namespaces that hold nothing but a dict which was put in since the last flush.
        self._adopted: dict[Any, dict[Any, Any]] = {}

    def _prefix(self, space: Any) -> bytes:
        name = self._codec.encode_key(space)
        return self.prefix + len(name).to_bytes(4, "big") + name

    def _rows(self, space: Any) -> Rows:
        rows = self._open.get(space)
        if rows is None:
            rows = self._open[space] = Rows(self._db, self._codec, self._prefix(space), self._changeable)
        return rows

    def get(self, space: Any, default: Any = None) -> Any:
        adopted = self._adopted.get(space)
        if adopted is not None:
            return adopted
        rows = self._open.get(space)
        if rows is not None:
            return rows if rows else default
        if next(self._db.items(self._prefix(space)), None) is None:
            return default
        return self._rows(space)

    def __getitem__(self, space: Any) -> Any:
        found = self.get(space)
        if found is None:
            raise KeyError(space)
        return found

    def __contains__(self, space: object) -> bool:
        return self.get(space) is not None

    def __setitem__(self, space: Any, value: Any) -> None:
        if value is self._open.get(space) or value is self._adopted.get(space):
            return
        if isinstance(value, Rows):
            value = dict(value.items())
        rows = self._open.pop(space, None)
        if rows is not None or next(self._db.items(self._prefix(space)), None) is not None:
            self._db.delete_prefix(self._prefix(space))
        self._adopted[space] = value

    def setdefault(self, space: Any, default: Any = None) -> Any:
        found = self.get(space)
        if found is None:
            self[space] = found = {} if default is None else default
        return found

    def __delitem__(self, space: Any) -> None:
        if self._adopted.pop(space, None) is not None:
            return
        # One that was just emptied counts as there, as an empty dict in a dict does.
        if self._open.pop(space, None) is None and space not in self:
            raise KeyError(space)
        self._db.delete_prefix(self._prefix(space))

    def pop(self, space: Any, *default: Any) -> Any:
        found = self.get(space)
        if found is None:
            if default:
                return default[0]
            raise KeyError(space)
        taken = dict(found.items())
        del self[space]
        return taken

    def __iter__(self) -> Iterator[Any]:
        self.flush()
        yield from list(self._adopted)
        start: bytes | None = None
        while (row := next(self._db.items(self.prefix, start), None)) is not None:
            name = row[0][: 4 + int.from_bytes(row[0][:4], "big")]
            yield self._codec.decode(name[4:])
            start = name + b"\xff"  # behind all its rows: no key begins with this byte

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), _ABSENT) is not _ABSENT

    def clear(self) -> None:
        self._open, self._adopted = {}, {}
        self._db.delete_prefix(self.prefix)

    def __repr__(self) -> str:
        return repr({space: dict(inner.items()) for space, inner in self.items()})

    # -- for its table -------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many entries are in memory, about."""
        opened = len(self._open)
        some = sum(r.held for r in islice(self._open.values(), _SAMPLE))
        return some * max(1, opened // _SAMPLE) + sum(map(len, self._adopted.values()))

    @property
    def dirty(self) -> int:
        """How many entries are to be written, about."""
        opened = len(self._open)
        some = sum(r.dirty for r in islice(self._open.values(), _SAMPLE))
        return some * max(1, opened // _SAMPLE) + sum(map(len, self._adopted.values()))

    def flush(self) -> None:
        """Hand what was written to the database, dicts that were put in excepted: somebody may still write to them."""
        for rows in self._open.values():
            rows.flush()

    def settle(self) -> None:
        """Hand everything to the database. A dict that was put in is not looked at any more after this."""
        adopted, self._adopted = self._adopted, {}
        for space, values in adopted.items():
            self._rows(space).adopt(values)
        self.flush()

    def shrink(self) -> None:
        """Let go of what is in memory. Everything has to be settled."""
        self._open = {}

    def peek(self, space: Any, key: Any) -> Any:
        """The value in the database, past the cache; None where there is none."""
        return Rows(self._db, self._codec, self._prefix(space), False).peek(key)

    def load(self, space: Any, keys: list[Any], values: list[Any]) -> None:
        """Put entries of a snapshot in, past the cache."""
        Rows(self._db, self._codec, self._prefix(space), False).load(keys, values)


@final
class RocksTable:
    """One state: what MemoryTable is for the memory backend. Frozen with its database, not by itself."""

    __slots__ = ("_db", "_entries", "_scan_after", "codec", "data", "name", "number", "spec", "stamped")

    def __init__(self, name: str, spec: StateSpec, db: Database, number: int) -> None:
        self.name = name
        self.spec = spec
        self.number = number
        self.stamped = False
        self.codec = RowCodec(Classes(spec.type, spec.map_key))
        self._db = db
        self._scan_after: bytes | None = None
        self.data: Any = self._mapping()

    @property
    def prefix(self) -> bytes:
        """What all its rows begin with."""
        return self.number.to_bytes(2, "big")

    @property
    def nested(self) -> bool:
        """Whether its rows have two parts: namespace and key, or key and key of the map."""
        return self.spec.namespaced or self.spec.kind == "map"

    def _mapping(self) -> Any:
        inside = self.spec.kind == "list" or (self.spec.kind == "map" and self.spec.namespaced)
        changeable = self.spec.copy is not None or inside
        if self.nested:
            return Spaces(self._db, self.codec, self.prefix, changeable)
        return Rows(self._db, self.codec, self.prefix, changeable)

    def respec(self, spec: StateSpec) -> None:
        """The declaration of a state that was restored before it was declared."""
        self.data.settle()
        self.spec = spec
        self.codec.use(Classes(spec.type, spec.map_key))
        for description in self.codec.descriptions:
            self.codec.classes.resolve(description)  # what cannot be found is said now, not at some record
        self.data = self._mapping()

    def rewrite(self, change: Callable[[Any], Any]) -> None:
        """Put `change(value)` in the place of every value."""
        if self.nested and self.spec.namespaced:
            for space in list(self.data):
                inner = self.data[space]
                for key, value in list(inner.items()):
                    inner[key] = change(value)
        else:
            for key in self.data:
                value = self.data[key]
                self.data[key] = change(dict(value.items()) if self.nested else value)
        self.data.settle()

    def load(self, piece: Piece) -> None:
        """Put entries of a snapshot in; what comes a second time for a key continues its list or map."""
        spaces, counts, keys, values = piece
        if spaces is None or counts is None:
            self._load(None, keys, values)
            return
        start = 0
        for space, count in zip(spaces, counts):
            self._load(space, keys[start : start + count], values[start : start + count])
            start += count

    def load_raw(self, keys: list[bytes], values: list[bytes]) -> None:
        """Put rows in as they are: they were written with this table's list of classes."""
        prefix = self.prefix
        self._db.put_all({prefix + key: value for key, value in zip(keys, values)})

    def _load(self, space: Any, keys: list[Any], values: list[Any]) -> None:
        if self.spec.namespaced:
            if self.spec.kind in ("list", "map"):
                values = [_joined(self.data.peek(space, k), v) for k, v in zip(keys, values)]
            self.data.load(space, keys, values)
        elif self.spec.kind == "map":
            for key, value in zip(keys, values):
                self.data.load(key, list(value), list(value.values()))
        elif self.spec.kind == "list":
            self.data.load(keys, [_joined(self.data.peek(k), v) for k, v in zip(keys, values)])
        else:
            self.data.load(keys, values)

    def scan(self, limit: int) -> list[tuple[Any, Any]]:
        """The next few (key, namespace) pairs, round and round; for state that only handles write to."""
        self.data.settle()
        found: dict[tuple[Any, Any], None] = {}
        for raw, _ in islice(self._db.items(self.prefix, self._scan_after), limit):
            self._scan_after = raw
            if not self.nested:
                found[self.codec.decode(raw), None] = None
                continue
            cut = 4 + int.from_bytes(raw[:4], "big")
            outer = self.codec.decode(raw[4:cut])
            if self.spec.namespaced:
                found[self.codec.decode(raw[cut:]), outer] = None
            else:
                found[outer, None] = None
        if not found:
            self._scan_after = None
        return list(found)

    def entries(self) -> int:
        """How many entries there are, about."""
        return self._db.count(self.prefix) + int(self.data.dirty)


def _joined(before: Any, more: Any) -> Any:
    if before is None:
        return more
    if isinstance(more, dict):
        return {**before, **more}
    return [*before, *more]
