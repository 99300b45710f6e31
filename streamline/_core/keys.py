"""Keys: a hash that is the same in every process, key groups, and the range of groups that a subtask owns.

Python's `hash` is salted for text, so it is never used to place a key. A key is hashed by its content; keys that are
equal in Python (1, 1.0, True) get the same hash.
"""

from __future__ import annotations

import datetime as _dt
import zlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import msgspec

from streamline._core.changes import Row
from streamline.errors import ValidationException

__all__ = (
    "DEFAULT_MAX_PARALLELISM",
    "KeyGroups",
    "default_max_parallelism",
    "group_range",
    "owner",
    "stable_hash",
)

DEFAULT_MAX_PARALLELISM: Final = 128
_MASK: Final = 0xFFFFFFFF


def default_max_parallelism(parallelism: int) -> int:
    """Flink's: 1.5 times the parallelism rounded up to a power of two, within 128 and 32768."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(0, wanted - 1).bit_length(), 128), 32768)


def _mix(n: int) -> int:
    """MurmurHash3's finaliser over 32 bits: neighbouring ints end in unrelated groups."""
    n &= _MASK
    n = ((n ^ (n >> 16)) * 0x85EBCA6B) & _MASK
    n = ((n ^ (n >> 13)) * 0xC2B2AE35) & _MASK
    return n ^ (n >> 16)


def stable_hash(key: Any) -> int:
    """32-bit hash of a key's content, the same in every process and release.

    Raises:
        ValidationException: a key of a type without a value of its own (a mutable or plain object).
    """
    kind = type(key)
    if kind is str:
        return _mix(zlib.crc32(key.encode("utf-8", "surrogatepass")))
    if kind is int:
        return _mix(key ^ (key >> 32))
    if kind is tuple:
        h = 7
        for part in key:
            h = (h * 31 + stable_hash(part)) & _MASK
        return _mix(h)
    if key is None:
        return 0
    return _slow_hash(key)


def _slow_hash(key: Any) -> int:
    if isinstance(key, Enum):
        return stable_hash(f"{type(key).__name__}.{key.name}")
    if isinstance(key, bool):
        return stable_hash(int(key))
    if isinstance(key, int):
        return stable_hash(int(key))
    if isinstance(key, str):
        return stable_hash(str.__str__(key))
    if isinstance(key, (float, Decimal)):
        if key != key:
            return stable_hash("nan")
        if key in (float("inf"), float("-inf")):
            return stable_hash(f"inf{key > 0}")
        whole = int(key)
        return stable_hash(whole) if whole == key else stable_hash(":".join(map(str, key.as_integer_ratio())))
    if isinstance(key, (bytes, bytearray, memoryview)):
        return _mix(zlib.crc32(bytes(key)) ^ 0x5BD1E995)
    if isinstance(key, _dt.datetime):
        if key.tzinfo is not None:
            key = key.astimezone(_dt.UTC).replace(tzinfo=None)
        return stable_hash("dt" + key.isoformat())
    if isinstance(key, (_dt.date, _dt.time)):
        return stable_hash(key.isoformat())
    if isinstance(key, _dt.timedelta):
        return stable_hash((key.days, key.seconds, key.microseconds))
    if isinstance(key, UUID):
        return stable_hash(key.int)
    if isinstance(key, Row):
        return stable_hash((key.kind.value, *key))
    if isinstance(key, tuple):
        return stable_hash(tuple(key))
    if isinstance(key, frozenset):
        h = len(key)
        for part in key:
            h ^= stable_hash(part)
        return _mix(h)
    if isinstance(key, msgspec.Struct) and _has_value(key):
        return stable_hash(msgspec.structs.astuple(key))
    if is_dataclass(key) and not isinstance(key, type) and _has_value(key):
        return stable_hash(tuple(getattr(key, f.name) for f in fields(key)))
    raise ValidationException(
        f"{type(key).__name__} cannot be a key: {key!r}. A key needs a value of its own that never changes: "
        "str, int, a tuple of such, a frozen Struct or dataclass"
    )


def _has_value(key: Any) -> bool:
    """Whether Python takes it as a key of a dict by its content: not by identity, and not at all if it can change."""
    if getattr(type(key), "__hash__", None) is object.__hash__:
        return False
    try:
        hash(key)
    except TypeError:
        for part in msgspec.structs.astuple(key) if isinstance(key, msgspec.Struct) else vars(key).values():
            stable_hash(part)  # a frozen one is no key because of what it holds, which says so by itself
        return False
    return True


def group_range(max_parallelism: int, parallelism: int, subtask: int) -> range:
    """The key groups of a subtask: contiguous, as Flink assigns them."""
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(start, end + 1)


def owner(group: int, max_parallelism: int, parallelism: int) -> int:
    """The subtask that owns a key group."""
    return group * parallelism // max_parallelism


class KeyGroups:
    """Keys to key groups (or owners), with a bounded memo: most streams see few keys very often."""

    __slots__ = ("_memo", "_parallelism", "max_parallelism")

    _LIMIT: Final = 1 << 16
    _LONGEST: Final = 256

    def __init__(self, max_parallelism: int, parallelism: int = 0) -> None:
        """With a parallelism, `of` gives the owning subtask instead of the group."""
        self.max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._memo: dict[Any, int] = {}

    def of(self, key: Any) -> int:
        """The group (or owner) of one key.

        Raises:
            ValidationException: it cannot be a key.
        """
        try:
            found = self._memo.get(key)
        except TypeError:
            stable_hash(key)  # says why
            raise
        if found is None:
            found = stable_hash(key) % self.max_parallelism
            if self._parallelism:
                found = owner(found, self.max_parallelism, self._parallelism)
            if isinstance(key, (str, bytes)) and len(key) > self._LONGEST:
                return found  # the memo would keep it: its size is told by number
            if len(self._memo) >= self._LIMIT:
                self._memo.clear()
            self._memo[key] = found
        return found

    def of_all(self, keys: Iterable[Any]) -> list[int]:
        """The groups (or owners) of many keys."""
        keys = list(keys)
        try:
            found: list[Any] = list(map(self._memo.get, keys))
        except TypeError:
            for key in keys:
                stable_hash(key)  # names the key that has no stable value
            raise
        if None in found:
            of = self.of
            return [of(k) if g is None else g for k, g in zip(keys, found)]
        return found
