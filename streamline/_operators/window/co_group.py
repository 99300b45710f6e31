"""Two streams in the same windows: what window joins and co-groups are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, final

from streamline._operators.calls import style
from streamline._operators.function import Function, finish, instance, method_of
from streamline._operators.runtime_context import RuntimeContext
from streamline._operators.window.general import GeneralWindows
from streamline.abc import Barrier, Batch, OperatorContext, Output, Timer, TwoInputOperator

__all__ = ("CoGroupWindows", "Paired", "Pairing", "tagged_selector")

#: "join" calls for every pair, "flat_join" too and takes many results, "co_group" calls once with both sides.
Pairing: TypeAlias = Literal["join", "flat_join", "co_group"]


def tagged_selector(left: Callable[[Any], Any], right: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The key of a record that is told apart by its side: (0, left record) or (1, right record)."""
    return lambda tagged: right(tagged[1]) if tagged[0] else left(tagged[1])


class Paired(Function):
    """A join or co-group function as a window function over records of both sides."""

    def __init__(self, function: Any, pairing: Pairing) -> None:
        self._function = function
        self._pairing = pairing

    async def open(self, runtime_context: RuntimeContext) -> None:
        self._function = instance(self._function)
        if isinstance(self._function, Function):
            await finish(self._function.open(runtime_context))

    async def close(self) -> None:
        if isinstance(self._function, Function):
            await finish(self._function.close())

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        """Both sides of a window of a key."""
        left: list[Any] = []
        right: list[Any] = []
        for side, value in inputs:
            (right if side else left).append(value)
        if self._pairing == "co_group":
            return method_of(self._function, "co_group")(left, right)
        call = method_of(self._function, "join")
        if style(call) in ("async", "async generator"):
            return self._pairs_later(call, left, right)
        return self._pairs(call, left, right)

    def _pairs(self, call: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> Any:
        several = self._pairing == "flat_join" or style(call) == "generator"
        for a in left:
            for b in right:
                result = call(a, b)
                if not several:
                    yield result
                elif result is not None:
                    yield from result

    async def _pairs_later(self, call: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> Any:
        for a in left:
            for b in right:
                result = call(a, b)
                if hasattr(result, "__aiter__"):
                    async for one in result:
                        yield one
                elif self._pairing == "flat_join":
                    for one in await result or ():
                        yield one
                else:
                    yield await result


@final
class CoGroupWindows(TwoInputOperator):
    """Windows over the records of two streams, told apart by their side; all else as in GeneralWindows."""

    name = "co_group"
    fresh_context = True
    state = GeneralWindows.state

    def __init__(self, windows: GeneralWindows) -> None:
        self._windows = windows

    async def open(self, ctx: OperatorContext) -> None:
        await self._windows.open(ctx)

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await self._windows.on_batch(Batch([(0, v) for v in batch.values], batch.timestamps), out)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await self._windows.on_batch(Batch([(1, v) for v in batch.values], batch.timestamps), out)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        await self._windows.on_event_timer(timer, out)

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        await self._windows.on_processing_timer(timer, out)

    async def on_wake(self, out: Output) -> None:
        await self._windows.on_wake(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        return await self._windows.on_watermark(watermark, out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._windows.on_barrier(barrier, out)

    async def on_end(self, out: Output) -> None:
        await self._windows.on_end(out)

    async def close(self) -> None:
        await self._windows.close()
