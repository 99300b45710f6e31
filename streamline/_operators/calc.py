"""A stateless step over whole batches: the projections, filters and conversions of the table API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

from streamline._core.elements import Batch
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("Calc", "MakeFunction")

#: Makes a subtask's own instance of a generated function; its argument gives the processing time (epoch ms).
MakeFunction: TypeAlias = Callable[[Callable[[], int]], Any]


@final
class Calc(Operator):
    """Send what a function makes of each batch.

    Changelog: every message is taken by itself, kinds are kept. State: none. Watermarks: passed on. Order: kept.
    """

    name = "Calc"

    def __init__(self, make: MakeFunction, observe: Callable[[Any, int], None] | None = None) -> None:
        """
        Args:
            make: gives the function from batch to batch.
            observe: told the function and the watermark, where the function's results depend on it.
        """
        self._make = make
        self._observe = observe

    async def open(self, ctx: OperatorContext) -> None:
        self._function: Callable[[Batch], Batch] = self._make(ctx.clock.now)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await out.send(self._function(batch))

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._observe is not None:
            self._observe(self._function, watermark)
        return watermark
