"""One record in, any number out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from streamline._core.failure import note_position, note_value, stopped
from streamline._operators.calls import Kinds, close_all, plain, run_of
from streamline._operators.function import FunctionOperator
from streamline._operators.results import expand, spread
from streamline.abc import Batch, Output

__all__ = ("FlatMap", "many_results")


def many_results() -> Kinds:
    """Kinds for functions whose result is a run of records: any iterable, or None for none."""
    kinds = Kinds()
    kinds.plain |= {*kinds.several, list, type(None)}
    return kinds


@final
class FlatMap(FunctionOperator):
    """Replace every record by those that a function returns in an iterable or yields; None is none.

    Changelog: none. State: none. Watermarks: passed on. Timestamps: a result has its record's. Order: kept.
    """

    name = "flat_map"

    def __init__(self, function: Any, method: str = "flat_map") -> None:
        super().__init__(function, method)
        self._kinds = many_results()

    async def on_batch(self, batch: Batch, out: Output) -> None:
        call, values, timestamps = self._call, batch.values, batch.timestamps
        if self._style in ("async", "async generator"):
            for i, value in enumerate(values):
                await self._one(call(value), batch, i, out)
            return
        rest = iter(values)
        raw: list[Any] = []
        try:
            if self._style != "generator":
                raw.extend(map(call, rest))
            elif timestamps is None:
                result = Batch([r for v in rest for r in call(v)])
            else:
                result = spread([[*call(v)] for v in rest], timestamps)
        except Exception as e:
            close_all(raw)
            note_position(e, values, rest)
            raise
        if self._style == "generator":
            await out.send(result)
            return
        if len(raw) != len(values):
            raise stopped(values[len(raw)])
        if plain(raw, self._kinds) or self._ready(raw):
            await out.send(spread(self._parts(raw, values), timestamps))
            return
        try:
            for i, later in enumerate(raw):
                await self._one(later, batch, i, out)
        finally:
            close_all(raw)

    def _ready(self, raw: list[Any]) -> bool:
        """Whether all results can be iterated here and now."""
        seen = set(map(type, raw))
        return seen.isdisjoint(self._kinds.awaitable) and seen.isdisjoint(self._kinds.stream)

    @staticmethod
    def _parts(raw: list[Any], values: Sequence[Any]) -> list[Any]:
        """The results as sequences; iterators are run here."""
        rest = iter(values)
        try:
            return [() if r is None else r if type(r) is list else run_of(r) for _, r in zip(rest, raw)]
        except Exception as e:
            note_position(e, values, rest)
            raise

    async def _one(self, result: Any, batch: Batch, i: int, out: Output) -> None:
        """Await or iterate one record's result, and hand it on as it comes."""
        timestamps = batch.timestamps
        try:
            async for run in expand(result, self._kinds, iterable=True):
                await out.send(Batch(run, None if timestamps is None else [timestamps[i]] * len(run)))
        except Exception as e:
            note_value(e, batch.values[i])
            raise
