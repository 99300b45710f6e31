"""What functions give back, as batches."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any

from streamline._core.output_tag import OutputTag
from streamline._operators.calls import Kinds, run_of
from streamline.abc import Batch, Output

__all__ = ("Held", "Sides", "expand", "spread", "take_tagged", "without_none")


def spread(parts: Sequence[Sequence[Any]], timestamps: Sequence[int | None] | None) -> Batch:
    """The results of all records in a row, each with the timestamp of its record."""
    values = list(chain.from_iterable(parts))
    if timestamps is None or (len(values) == len(parts) and set(map(len, parts)) == {1}):
        return Batch(values, timestamps)
    return Batch(values, [t for t, part in zip(timestamps, parts) for _ in part])


def without_none(results: list[Any], timestamps: Sequence[int | None] | None) -> Batch:
    """The results that are something, each with the timestamp of its record."""
    if timestamps is None:
        return Batch([r for r in results if r is not None])
    kept = [i for i, r in enumerate(results) if r is not None]
    return Batch([results[i] for i in kept], [timestamps[i] for i in kept])


async def expand(result: Any, kinds: Kinds, iterable: bool = False) -> AsyncIterator[list[Any]]:
    """The records that one result stands for, in runs that can be handed on as they come.

    None stands for none, an async iterator for what it gives; a list or an iterator (with `iterable`: anything that can
    be iterated) for its elements, anything else for itself.
    """
    kind = type(result)
    if kind in kinds.awaitable:
        result = await result
        kind = type(result)
        kinds.learn({kind})
    if result is None and (iterable or kinds.nothing not in kinds.plain):
        return
    if kind in kinds.stream:
        try:
            async for one in result:
                yield [one]
        finally:
            if kind is types.AsyncGeneratorType:
                await result.aclose()
    elif iterable or kind in kinds.several:
        yield run_of(result)
    else:
        yield [result]


class Sides:
    """Records for side outputs, gathered while a batch is worked on."""

    __slots__ = ("_by_tag",)

    def __init__(self) -> None:
        self._by_tag: dict[str, tuple[list[Any], list[int | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_tag)

    def add(self, tag: str, value: Any, timestamp: int | None) -> None:
        """One record for a side output."""
        found = self._by_tag.get(tag)
        if found is None:
            found = self._by_tag[tag] = ([], [])
        found[0].append(value)
        found[1].append(timestamp)

    async def flush(self, out: Output) -> None:
        """Hand them on."""
        by_tag, self._by_tag = self._by_tag, {}
        for tag, (values, timestamps) in by_tag.items():
            await out.side(tag, Batch(values, None if timestamps.count(None) == len(timestamps) else timestamps))


def take_tagged(batch: Batch, sides: Sides) -> Batch:
    """Move results written as `tag, value` to their side outputs (PyFlink's way of naming one)."""
    values, timestamps = batch.values, batch.timestamps
    if not OutputTag.used or tuple not in set(map(type, values)):
        return batch
    tagged = [type(v) is tuple and len(v) == 2 and type(v[0]) is OutputTag for v in values]
    if True not in tagged:
        return batch
    for i, is_tagged in enumerate(tagged):
        if is_tagged:
            tag, value = values[i]
            sides.add(tag.tag_id, value, None if timestamps is None else timestamps[i])
    return batch.take([i for i, is_tagged in enumerate(tagged) if not is_tagged])


class Held:
    """Results held back until there are many, or until what caused them goes on."""

    __slots__ = ("_sides", "_timestamps", "_values")

    #: So many are enough.
    _ENOUGH = 1024

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []

    def add(self, run: Sequence[Any], timestamp: int | None) -> bool:
        """Results with one timestamp; whether it is time to flush."""
        self._values += run
        self._timestamps += [timestamp] * len(run)
        return len(self._values) >= self._ENOUGH

    def add_one(self, value: Any, timestamp: int | None) -> bool:
        """One result; whether it is time to flush."""
        self._values.append(value)
        self._timestamps.append(timestamp)
        return len(self._values) >= self._ENOUGH

    async def flush(self, out: Output) -> None:
        """Hand them on, and what there is for side outputs."""
        values, timestamps = self._values, self._timestamps
        if values:
            self._values, self._timestamps = [], []
            none = timestamps.count(None) == len(timestamps)
            done = take_tagged(Batch(values, None if none else timestamps), self._sides)
            if self._sides:
                await self._sides.flush(out)
            for start in range(0, len(done), self._ENOUGH):
                await out.send(done.slice(start, start + self._ENOUGH) if len(done) > self._ENOUGH else done)
        elif self._sides:
            await self._sides.flush(out)
