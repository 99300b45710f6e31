"""Windowing functions as operators of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from streamline._core.elements import Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("WindowTable",)


@final
class WindowTable(Operator):
    """Send every row once for each window it falls in, with the window's bounds.

    Changelog: any, kinds are kept. State: none. Watermarks: passed on; no row is late. Order: kept.
    """

    name = "WindowTableFunction"

    def __init__(self, make: MakeFunction) -> None:
        """`make` gives `windows(batch, now) -> Batch`."""
        self._make = make

    async def open(self, ctx: OperatorContext) -> None:
        self._now = ctx.clock.now
        self._windows: Callable[[Batch, Callable[[], int]], Batch] = self._make(self._now)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await out.send(self._windows(batch, self._now))
