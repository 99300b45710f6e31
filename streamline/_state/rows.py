"""Single keys and values as bytes, for backends that keep them one by one.

Equal keys give equal bytes, as they would be one key of a dict: 1, 1.0 and True, or Decimal("1.0") and Decimal("1.00").
Classes are referred to by their number in a list, which is kept with the state.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Sequence
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from streamline._core.changes import Row
from streamline._state.classes import Classes, fields_of
from streamline._state.codec import decode_one, encode_one

__all__ = ("RowCodec",)

_ATOMS: Final = frozenset({int, str, float, bool, bytes, type(None)})
_PLAIN, _LIST, _TUPLE, _DICT, _STRUCT, _SET, _NODE = (bytes([n]) for n in range(7))

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class RowCodec:
    """Encodes the keys and values of one state.

    Attributes:
        descriptions: the classes that bytes refer to, by number; only ever grows.
        classes: finds them again.
    """

    __slots__ = ("_kinds", "_numbers", "classes", "descriptions")

    def __init__(self, classes: Classes, descriptions: Sequence[Any] = ()) -> None:
        self.descriptions: list[Any] = list(descriptions)
        self._kinds: dict[type, int] = {}
        self._numbers: dict[str, int] = {repr(d): i for i, d in enumerate(self.descriptions)}
        self.use(classes)

    def use(self, classes: Classes) -> None:
        """Find classes with this from now on."""
        self.classes = classes
        classes.numbered = self.descriptions

    def learn(self, descriptions: Sequence[Any]) -> bool:
        """Take over the list of classes that rows were written with; whether those rows can be read with this codec."""
        ours = len(self.descriptions)
        if self.descriptions != list(descriptions[:ours]):
            return self.descriptions[: len(descriptions)] == list(descriptions)
        for description in descriptions[ours:]:
            self._numbers.setdefault(repr(description), len(self.descriptions))
            self.descriptions.append(description)
        return True

    def _describe(self, kind: type) -> int:
        found = self._kinds.get(kind)
        if found is None:
            description = Classes.describe(kind)
            found = self._numbers.setdefault(repr(description), len(self.descriptions))
            if found == len(self.descriptions):
                self.descriptions.append(description)
            self._kinds[kind] = found
        return found

    def encode(self, value: Any) -> bytes:
        """A value as bytes.

        Raises:
            StateEncodingException: a value of a type that cannot be kept.
        """
        kind = type(value)
        try:
            if kind in _ATOMS:
                return _PLAIN + _encode(value)
            if kind is list and _ATOMS.issuperset(map(type, value)):
                return _LIST + _encode(value)
            if kind is tuple and _ATOMS.issuperset(map(type, value)):
                return _TUPLE + _encode(value)
            if kind is dict and _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values())):
                return _DICT + _encode([list(value), list(value.values())])
        except (OverflowError, UnicodeEncodeError):
            pass
        return _NODE + encode_one(value, self._describe)

    def decode(self, data: bytes) -> Any:
        """The value again.

        Raises:
            CheckpointException: a class is not known to the program.
        """
        tag = data[0]
        if tag == 0 or tag == 1:
            return _decode(data[1:])
        if tag == 2:
            return tuple(_decode(data[1:]))
        if tag == 3:
            return dict(zip(*_decode(data[1:])))
        if tag == 4:
            number, part = _decode(data[1:])
            description = self.descriptions[number]
            return self.classes.build(description, [[v] for v in self.decode(part)], 1)[0]
        if tag == 5:
            return frozenset(map(self.decode, _decode(data[1:])))
        return decode_one(data[1:], self.classes)

    def node(self, data: bytes) -> list[Any] | None:
        """The column that a value was written as, with its classes by number; None where it has none of them."""
        if data[0] == _STRUCT[0]:
            number, part = _decode(data[1:])
            inner = self.node(part)
            return ["S", number, [] if inner is None else inner[1]]
        return _decode(data[1:]) if data[0] == _NODE[0] else None

    def encode_key(self, key: Any) -> bytes:
        """A key as bytes; equal keys give equal bytes.

        Raises:
            StateEncodingException: a key of a type that cannot be kept.
        """
        kind = type(key)
        if kind is str or kind is int:
            try:
                return _PLAIN + _encode(key)
            except (OverflowError, UnicodeEncodeError):
                return self.encode(key)
        key = canonical(key)
        if isinstance(key, frozenset):
            return _SET + _encode(sorted(map(self.encode_key, key)))
        if isinstance(key, msgspec.Struct) or (is_dataclass(key) and not isinstance(key, type)):
            number = self._describe(type(key))
            fields = tuple(canonical(getattr(key, name)) for name in fields_of(type(key)))
            return _STRUCT + _encode([number, self.encode(fields)])
        return self.encode(key)


def canonical(key: Any) -> Any:
    """One of all keys that are equal to this one."""
    kind = type(key)
    if kind is int or kind is str or kind is bytes or key is None:
        return key
    if kind is tuple or (isinstance(key, tuple) and hasattr(key, "_fields")):
        return tuple(map(canonical, key))
    if isinstance(key, Enum) and not isinstance(key, (int, str)):
        return key
    if isinstance(key, int):
        return int(key)
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, (float, Decimal)):
        return _number(key)
    if isinstance(key, _dt.datetime) and key.tzinfo is not None:
        return key.astimezone(_dt.UTC)
    if isinstance(key, frozenset):
        return frozenset(map(canonical, key))
    if isinstance(key, Row):
        row = Row(*map(canonical, key))
        row.kind = key.kind
        return row
    return key


def _number(key: float | Decimal) -> Any:
    if key != key or key in (float("inf"), float("-inf")):
        return float(key)
    whole = int(key)
    if whole == key:
        return whole
    if isinstance(key, Decimal):
        near = float(key)
        return near if near == key else key.normalize()
    return key
