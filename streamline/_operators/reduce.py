"""Rolling reduce: the running value of every key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from streamline._core.copying import copy_value
from streamline._core.elements import MAX_TIMESTAMP
from streamline._core.failure import note_position, note_value
from streamline._operators.calls import Kinds
from streamline._operators.fields import Rolling
from streamline._operators.function import FunctionOperator
from streamline._operators.keys import Keys
from streamline.abc import Batch, OperatorContext, Output, StateSpec, StateTable
from streamline.errors import StreamlineError

__all__ = ("Reduce",)

_ABSENT: Final = object()
#: Results of these classes are never changed in place.
_FIXED: Final = frozenset({int, float, str, bool, bytes, tuple})


#: Results in one batch.
_RUN: Final = 1024


@final
class Reduce(FunctionOperator):
    """Combine every record with the running value of its key, and send the new value on.

    Changelog: none. State: the running value per key, for ever. Watermarks: passed on. Timestamps: a result has its
    record's. Order: kept. The first record of a key is sent on as it is.

    With `final` (batch mode) only the last value of every key is sent, without a timestamp, when event time is closed.
    """

    name = "reduce"
    keyed = True
    state = {"reduce": StateSpec(copy=copy_value)}

    def __init__(self, function: Any, selector: Callable[[Any], Any], final: bool = False) -> None:
        super().__init__(function, "reduce")
        self._final = final
        self._keys = Keys(selector)
        self._kinds = Kinds()
        #: Looks at the first record of a key, for which the function is not called.
        self._first: Callable[[Any], Any] | None = function.check if isinstance(function, Rolling) else None
        self._table: StateTable

    async def open(self, ctx: OperatorContext) -> None:
        self._table = ctx.store.table("reduce", self.state["reduce"])
        self._keys.expect(ctx.store)
        await super().open(ctx)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        call, values = self._call, batch.values
        keys, data = self._keys.of(values), self._table.data
        later = self._style == "async"
        results: list[Any] = []
        get, add, kinds, first = data.get, results.append, self._kinds, self._first
        rest = iter(values)
        try:
            for key, value in zip(keys, rest):
                before = get(key, _ABSENT)
                if before is _ABSENT:
                    after = value if first is None else first(value)
                else:
                    after = call(before, value)
                    if type(after) not in _FIXED:
                        if after is None and before is not None:
                            raise StreamlineError("the reduce function returned None: is there a `return` missing?")
                        if type(after) not in kinds.plain:
                            kinds.learn({type(after)})
                        if later or type(after) in kinds.awaitable:
                            after = await after
                        if after is before:
                            before = copy_value(after)  # it may be changed in place again, and this one goes on
                            data[key] = after
                            add(before)
                            continue
                data[key] = after
                add(after)
        except Exception as e:
            i = note_position(e, values, rest)
            note_value(e, keys[i], "key")
            raise
        if not self._final:
            await out.send(Batch(results, batch.timestamps))

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._final and watermark == MAX_TIMESTAMP:
            values = list(self._table.data.values())
            for start in range(0, len(values), _RUN):
                await out.send(Batch(values[start : start + _RUN]))
        return watermark
