"""Keep the records for which a predicate holds."""

from __future__ import annotations

from itertools import compress
from typing import Any, Final, final

from streamline._core.failure import note_position, note_value, stopped
from streamline._operators.calls import close_all, plain
from streamline._operators.function import FunctionOperator
from streamline._operators.map import single_results
from streamline.abc import Batch, Output
from streamline.errors import ValidationException

__all__ = ("Filter",)

_BOOL: Final = {bool}


@final
class Filter(FunctionOperator):
    """Keep the records for which the predicate's result is true in Python's sense.

    Changelog: every message is judged by itself, as Flink does: a lone -U or +U may leave. State: none. Watermarks:
    passed on. Timestamps and order: kept. A batch of which everything stays is handed on as it is.
    """

    name = "filter"

    def __init__(self, predicate: Any) -> None:
        super().__init__(predicate, "filter")
        self._kinds = single_results()
        if self._style in ("generator", "async generator"):
            raise ValidationException(f"{predicate!r} yields, and filter needs a predicate that returns a bool")

    async def on_batch(self, batch: Batch, out: Output) -> None:
        call, values = self._call, batch.values
        if self._style == "async":
            for i, value in enumerate(values):
                try:
                    keep = await call(value)
                except Exception as e:
                    note_value(e, value)
                    raise
                if keep:
                    await out.send(batch.slice(i, i + 1))
            return
        rest = iter(values)
        mask: list[Any] = []
        try:
            mask.extend(map(call, rest))
        except Exception as e:
            close_all(mask)
            note_position(e, values, rest)
            raise
        if len(mask) != len(values):
            raise stopped(values[len(mask)])
        if set(map(type, mask)) != _BOOL and not plain(mask, self._kinds):
            mask = await self._awaited(mask, batch)
        if batch.timestamps is None and batch.kinds is None:
            await out.send(Batch(list(compress(values, mask))))
        elif all(mask):
            await out.send(batch)
        else:
            await out.send(
                Batch(
                    list(compress(values, mask)),
                    None if batch.timestamps is None else list(compress(batch.timestamps, mask)),
                    None if batch.kinds is None else list(compress(batch.kinds, mask)),
                )
            )

    async def _awaited(self, mask: list[Any], batch: Batch) -> list[Any]:
        """The results of a predicate that returned awaitables."""
        awaitable = self._kinds.awaitable
        results: list[Any] = []
        try:
            for result, value in zip(mask, batch.values):
                try:
                    results.append(await result if type(result) in awaitable else result)
                except Exception as e:
                    note_value(e, value)
                    raise
        finally:
            close_all(mask)
        return results
