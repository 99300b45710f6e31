"""Freezing a dict in no time: what follows goes into an overlay, what was there is left alone until it is written.

A capture puts an `Overlay` on top of a dict. Reads that miss it look underneath; values that are changed in place are
copied up on first access. When the capture has been written, the overlay is drained into the dict in slices, and turns
into a `Passing` view of it, so that whoever still holds it goes on reading and writing the right entries.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any, Final, TypeAlias, cast

__all__ = ("Overlay", "plain")

Copy: TypeAlias = Callable[[Any], Any]

_ABSENT: Final = object()


class _Layer(dict[Any, Any]):
    """Common layout, so that an overlay can become a passing view."""

    __slots__ = ("copier", "gone", "under")

    #: Makes an independent copy of a value, None where values are never changed in place.
    copier: Copy | None
    #: Keys that are underneath and count as deleted.
    gone: set[Any]
    under: dict[Any, Any]

    def __init__(self, under: dict[Any, Any], copier: Copy | None = None) -> None:
        super().__init__()
        self.under = under
        self.copier = copier
        self.gone = set()

    # dict's own methods see only the entries on top: all that could look underneath are replaced.

    def __reversed__(self) -> Any:
        return reversed(list(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __or__(self, other: Any) -> dict[Any, Any]:
        return {**dict(self.items()), **other}

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return {**other, **dict(self.items())}

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def peek(self, key: Any, default: Any) -> Any:
        """The value, not copied up: for reading only."""
        raise NotImplementedError

    def peek_items(self) -> Iterator[tuple[Any, Any]]:
        """All entries, not copied up: for reading only."""
        raise NotImplementedError


class Overlay(_Layer):
    """Entries written since `under` was frozen. Hits and writes run at dict's own speed."""

    __slots__ = ()

    def __missing__(self, key: Any) -> Any:
        value = _ABSENT if key in self.gone else _peek(self.under, key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        if self.copier is not None:
            value = self.copier(value)
            dict.__setitem__(self, key, value)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        value = dict.get(self, key, _ABSENT)
        if value is not _ABSENT:
            return value
        if key in self.gone:
            return default
        value = _peek(self.under, key, _ABSENT)
        if value is _ABSENT:
            return default
        if self.copier is not None:
            value = self.copier(value)
            dict.__setitem__(self, key, value)
        return value

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (key not in self.gone and key in self.under)

    def __delitem__(self, key: Any) -> None:
        found = dict.pop(self, key, _ABSENT) is not _ABSENT
        if key in self.under and key not in self.gone:
            self.gone.add(key)
        elif not found:
            raise KeyError(key)

    def pop(self, key: Any, *default: Any) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            if default:
                return default[0]
            raise KeyError(key)
        del self[key]
        return value

    def popitem(self) -> tuple[Any, Any]:
        for key in reversed(list(self)):
            return key, self.pop(key)
        raise KeyError("popitem(): dictionary is empty")

    def setdefault(self, key: Any, default: Any = None) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            dict.__setitem__(self, key, default)
            return default
        return value

    def clear(self) -> None:
        dict.clear(self)
        self.gone.update(self.under)

    def __iter__(self) -> Iterator[Any]:
        under, gone = self.under, self.gone
        # All at once: the entries on top may move down while the caller, who may await, is among those underneath.
        own = [k for k in dict.__iter__(self) if k in gone or k not in under]
        yield from [k for k in under if k not in gone] if gone else list(under)
        yield from own

    def __len__(self) -> int:
        under, gone = self.under, self.gone
        own = sum(1 for k in dict.__iter__(self) if k in gone or k not in under)
        return len(under) - len(gone) + own

    def __bool__(self) -> bool:
        return dict.__len__(self) > 0 or len(self.under) > len(self.gone)

    def keys(self) -> KeysView[Any]:  # type: ignore[override]
        return KeysView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[Any, Any]:  # type: ignore[override]
        return ItemsView(self)

    # -- for the table it belongs to -----------------------------------------------------------------------------

    def peek(self, key: Any, default: Any) -> Any:
        value = dict.get(self, key, _ABSENT)
        if value is not _ABSENT:
            return value
        return default if key in self.gone else _peek(self.under, key, default)

    def peek_items(self) -> Iterator[tuple[Any, Any]]:
        for key in self:
            yield key, self.peek(key, None)

    def drain(self, limit: int) -> int:
        """Move up to `limit` entries into `under`, oldest first; gives what is left of the limit, so 0: call again."""
        under = self.under
        if self.gone:
            some = list(islice(self.gone, limit))
            self.gone.difference_update(some)
            for key in some:
                under.pop(key, None)
            limit -= len(some)
        if limit > 0:
            for key in list(islice(dict.__iter__(self), limit)):
                value = dict.__getitem__(self, key)
                if type(value) is Overlay:
                    value.under = plain(value.under)
                    limit = value.drain(limit)
                    if not limit:
                        return 0
                    value = value.settle()
                under[key] = value
                dict.__delitem__(self, key)
                limit -= 1
                if limit <= 0:
                    break
        return max(limit, 0)

    def settle(self) -> dict[Any, Any]:
        """Drain the rest at once and become a view of what lies underneath, which is returned."""
        self.under = plain(self.under)
        self.drain(1 << 60)
        self.__class__ = Passing  # type: ignore[assignment]
        return self.under


class Passing(_Layer):
    """A settled overlay: everything goes to the dict it was drained into."""

    __slots__ = ()

    def __missing__(self, key: Any) -> Any:
        return self.under[key]

    def get(self, key: Any, default: Any = None) -> Any:
        return self.under.get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.under[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.under[key]

    def __contains__(self, key: object) -> bool:
        return key in self.under

    def __iter__(self) -> Iterator[Any]:
        return iter(self.under)

    def __len__(self) -> int:
        return len(self.under)

    def __bool__(self) -> bool:
        return bool(self.under)

    def pop(self, key: Any, *default: Any) -> Any:
        return self.under.pop(key, *default)

    def popitem(self) -> tuple[Any, Any]:
        return self.under.popitem()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return self.under.setdefault(key, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.under.update(*args, **kwargs)

    def __ior__(self, other: Any) -> Passing:
        self.under.update(other)
        return self

    def clear(self) -> None:
        self.under.clear()

    def keys(self) -> KeysView[Any]:  # type: ignore[override]
        return self.under.keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return self.under.values()

    def items(self) -> ItemsView[Any, Any]:  # type: ignore[override]
        return self.under.items()

    def peek(self, key: Any, default: Any) -> Any:
        return _peek(self.under, key, default)

    def peek_items(self) -> Iterator[tuple[Any, Any]]:
        return iter(peek_items(self.under))


def _peek(under: dict[Any, Any], key: Any, default: Any) -> Any:
    return under.get(key, default) if type(under) is dict else cast("_Layer", under).peek(key, default)


def peek_items(mapping: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The entries of a dict or a layer, not copied up: for reading only."""
    return mapping.peek_items() if isinstance(mapping, _Layer) else mapping.items()


def plain(mapping: dict[Any, Any]) -> dict[Any, Any]:
    """What a settled overlay stands for; anything else is given back."""
    while type(mapping) is Passing:
        mapping = mapping.under
    return mapping
