"""GROUP BY without a window: every row updates the result of its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from streamline._core.declare import StateSpec
from streamline._core.elements import Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("GroupAggregate",)


@final
class GroupAggregate(Operator):
    """Send, for each row, how the result of its group changed.

    Changelog: any in; out +I for a new group, -U (where asked for) and +U for a changed one, -D when its last row was
    taken back. A result that stays the same sends nothing. State: one entry a group. Watermarks: passed on. Order:
    kept. Ranking and normalising keep rows by key in the same way and use this operator, too.
    """

    name = "GroupAggregate"
    state: ClassVar[Mapping[str, StateSpec]] = {"groups": StateSpec()}

    def __init__(self, make: MakeFunction, spec: StateSpec, observe: Callable[[Any, int], None] | None = None) -> None:
        """
        Args:
            make: gives `group(batch, data) -> Batch`.
            spec: of a group's state.
            observe: told the function and the watermark, where results depend on it.
        """
        self._make = make
        self._spec = spec
        self._observe = observe

    async def open(self, ctx: OperatorContext) -> None:
        self._group: Callable[[Batch, Any], Batch] = self._make(ctx.clock.now)
        self._groups = ctx.store.table("groups", self._spec)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await out.send(self._group(batch, self._groups.data))

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._observe is not None:
            self._observe(self._group, watermark)
        return watermark
