"""Which subtask of the consumer gets which records: what an edge declares, and the partitioner that it becomes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamline._core.elements import Batch
from streamline._core.failure import note_position, note_value, stopped
from streamline._core.keys import KeyGroups
from streamline.abc import Partitioner
from streamline.errors import StreamlineError

__all__ = (
    "Broadcast",
    "Custom",
    "FirstKey",
    "Forward",
    "Global",
    "Hash",
    "PartitionSpec",
    "Rebalance",
    "Rescale",
    "Shuffle",
    "partitioner",
    "targets",
)


@dataclass(frozen=True, slots=True)
class Forward:
    """Subtask i to subtask i; both sides have the same parallelism."""


@dataclass(frozen=True, slots=True)
class Hash:
    """By key group of the key that `selector` gives for a record."""

    selector: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Round robin over all subtasks."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Round robin over the nearby subtasks only."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A subtask at random for every record."""


@dataclass(frozen=True, slots=True)
class Global:
    """Everything to the first subtask."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every record to every subtask."""


@dataclass(frozen=True, slots=True)
class Custom:
    """`partition(key, number of subtasks)` says which."""

    partition: Callable[[Any, int], int]
    selector: Callable[[Any], Any]


PartitionSpec: TypeAlias = Forward | Hash | Rebalance | Rescale | Shuffle | Global | Broadcast | Custom


def targets(spec: PartitionSpec, source: int, sources: int, consumers: int) -> range:
    """The consumer subtasks that producer subtask `source` (of `sources`) has a channel to."""
    if isinstance(spec, Forward):
        return range(source, source + 1)
    if isinstance(spec, Rescale):
        if sources <= consumers:
            return range(source * consumers // sources, (source + 1) * consumers // sources)
        target = source * consumers // sources
        return range(target, target + 1)
    return range(consumers)


def partitioner(spec: PartitionSpec, channels: int, max_parallelism: int, source: int) -> Partitioner | None:
    """The partitioner of one producer subtask over its `channels`; None where every record goes to every channel."""
    if channels == 1 and isinstance(spec, Hash):
        return FirstKey(spec.selector, max_parallelism)
    if channels == 1 or isinstance(spec, Broadcast):
        return None
    if isinstance(spec, Hash):
        return _ByKey(spec.selector, max_parallelism, channels)
    if isinstance(spec, Custom):
        return _ByFunction(spec, channels)
    if isinstance(spec, Global):
        return _ToFirst()
    if isinstance(spec, Shuffle):
        return _AtRandom(channels, source)
    return _RoundRobin(channels, source)


def _split(batch: Batch, owners: list[int]) -> Iterable[tuple[int, Batch]]:
    first = owners[0]
    if owners.count(first) == len(owners):
        return ((first, batch),)
    places: dict[int, list[int]] = {}
    for i, owner in enumerate(owners):
        found = places.get(owner)
        if found is None:
            places[owner] = [i]
        else:
            found.append(i)
    return [(owner, batch.take(indices)) for owner, indices in places.items()]


class _ToFirst(Partitioner):
    """The other subtasks have channels too: barriers, watermarks and the end have to reach them."""

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        return ((0, batch),)


class FirstKey(Partitioner):
    """Everything to the only subtask; the first record is asked for its key, so that a wrong selector shows."""

    def __init__(self, selector: Callable[[Any], Any], max_parallelism: int) -> None:
        self._by_key = _ByKey(selector, max_parallelism, 1)

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        self._by_key.partition(Batch(batch.values[:1]))
        return ((0, batch),)


class _ByKey(Partitioner):
    def __init__(self, selector: Callable[[Any], Any], max_parallelism: int, channels: int) -> None:
        self._selector = selector
        self._owners = KeyGroups(max_parallelism, channels)

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        values, rest = batch.values, iter(batch.values)
        keys: list[Any] = []
        try:
            keys.extend(map(self._selector, rest))
        except Exception as e:
            note_position(e, values, rest)
            raise
        if len(keys) != len(values):
            raise stopped(values[len(keys)])
        try:
            return _split(batch, self._owners.of_all(keys))
        except Exception as e:
            self._note_key(e, values, keys)
            raise

    def _note_key(self, error: Exception, values: Sequence[Any], keys: list[Any]) -> None:
        """Say which record has the key that is none."""
        for value, key in zip(values, keys):
            try:
                self._owners.of(key)
            except Exception:
                note_value(error, value)
                return


class _ByFunction(Partitioner):
    def __init__(self, spec: Custom, channels: int) -> None:
        self._spec = spec
        self._channels = channels

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        partition, selector, n = self._spec.partition, self._spec.selector, self._channels
        owners = [partition(selector(v), n) for v in batch.values]
        for value, owner in zip(batch.values, owners):
            if not (isinstance(owner, int) and 0 <= owner < n):
                raise StreamlineError(f"custom partitioner gave {owner!r} for {value!r}; it has to be in 0..{n - 1}")
        return _split(batch, owners)


class _RoundRobin(Partitioner):
    def __init__(self, channels: int, source: int) -> None:
        self._channels = channels
        self._next = source % channels

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        n, start = self._channels, self._next
        size = len(batch)
        self._next = (start + size) % n
        if size == 1:
            return ((start, batch),)
        values, timestamps, kinds = batch.values, batch.timestamps, batch.kinds
        return [
            (
                (start + i) % n,
                Batch(
                    values[i::n],
                    None if timestamps is None else timestamps[i::n],
                    None if kinds is None else kinds[i::n],
                ),
            )
            for i in range(min(n, size))
        ]


class _AtRandom(Partitioner):
    def __init__(self, channels: int, source: int) -> None:
        self._channels = channels
        self._random = random.Random(source)

    def partition(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        pick, n = self._random.randrange, self._channels
        return _split(batch, [pick(n) for _ in batch.values])
