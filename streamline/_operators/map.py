"""One record in, one record out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from streamline._core.failure import note_position, note_value, stopped
from streamline._operators.calls import Kinds, close_all, plain
from streamline._operators.function import FunctionOperator
from streamline.abc import Batch, Output
from streamline.errors import ValidationException

__all__ = ("Map", "single_results")


def single_results() -> Kinds:
    """Kinds for functions of one result a record: lists and iterators are values as any other."""
    kinds = Kinds()
    kinds.plain |= {*kinds.several, list, type(None)}
    kinds.several.clear()
    return kinds


@final
class Map(FunctionOperator):
    """Replace every record by what a function makes of it.

    Changelog: none (a Row's own kind is the function's business). State: none. Watermarks: passed on. Timestamps and
    order: kept, also where the function is async: one call at a time.
    """

    name = "map"

    def __init__(self, function: Any, method: str = "map") -> None:
        super().__init__(function, method)
        self._kinds = single_results()
        if self._style in ("generator", "async generator"):
            raise ValidationException(f"{function!r} yields, and map takes one result a record: use flat_map")

    async def on_batch(self, batch: Batch, out: Output) -> None:
        call, values = self._call, batch.values
        if self._style == "async":
            await self._later(map(call, values), batch, out)
            return
        rest = iter(values)
        done: list[Any] = []
        try:
            done.extend(map(call, rest))  # what came before a failure stays in `done`
        except Exception as e:
            close_all(done)
            note_position(e, values, rest)
            raise
        if len(done) != len(values):
            raise stopped(values[len(done)])
        if plain(done, self._kinds):
            await out.send(Batch(done, batch.timestamps))
            return
        if not self._kinds.stream.isdisjoint(map(type, done)):
            raise ValidationException("the function yields, and map takes one result a record: use flat_map")
        try:
            await self._later(done, batch, out)
        finally:
            close_all(done)

    async def _later(self, results: Iterable[Any], batch: Batch, out: Output) -> None:
        """Await results in turn, and hand each on as soon as it is there."""
        timestamps, awaitable = batch.timestamps, self._kinds.awaitable
        for i, result in enumerate(results):
            if type(result) in awaitable:
                try:
                    result = await result
                except Exception as e:
                    note_value(e, batch.values[i])
                    raise
            await out.send(Batch([result], None if timestamps is None else timestamps[i : i + 1]))
