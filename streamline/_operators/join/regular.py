"""Joins without time bounds: both sides are kept for good (or for the state's time to live)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from streamline._core.declare import StateSpec
from streamline._core.elements import Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import OperatorContext, Output, TwoInputOperator

__all__ = ("RegularJoin",)


@final
class RegularJoin(TwoInputOperator):
    """Send the pairs of rows that fulfil the condition as they come and go.

    Changelog: any in; out the kinds of the row that came where no side is outer, else -D and +I of padded rows too.
    State: the rows of both sides. Watermarks: the smaller of both. Order: as rows come.
    """

    name = "Join"
    state: ClassVar[Mapping[str, StateSpec]] = {"left": StateSpec(), "right": StateSpec()}

    def __init__(self, left: MakeFunction, right: MakeFunction, specs: tuple[StateSpec, StateSpec]) -> None:
        """
        Args:
            left, right: give `join(batch, mine, theirs) -> Batch` for the rows of each side.
            specs: of the rows of one key, for each side.
        """
        self._make = left, right
        self._specs = specs

    async def open(self, ctx: OperatorContext) -> None:
        now = ctx.clock.now
        self._left: Callable[[Batch, Any, Any], Batch] = self._make[0](now)
        self._right: Callable[[Batch, Any, Any], Batch] = self._make[1](now)
        self._left_rows = ctx.store.table("left", self._specs[0])
        self._right_rows = ctx.store.table("right", self._specs[1])

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await out.send(self._left(batch, self._left_rows.data, self._right_rows.data))

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await out.send(self._right(batch, self._right_rows.data, self._left_rows.data))
