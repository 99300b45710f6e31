"""map, flat_map and filter on keyed streams, for functions that have keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from streamline._operators.calls import Kinds
from streamline._operators.contexts import ProcessContext
from streamline._operators.function import FunctionOperator
from streamline._operators.invoke import Invoker
from streamline._operators.keys import Keys
from streamline._operators.map import single_results
from streamline._operators.results import Sides
from streamline.abc import Batch, OperatorContext, Output
from streamline.errors import ValidationException

__all__ = ("KeyedFilter", "KeyedFlatMap", "KeyedMap")


class _KeyedCall(FunctionOperator):
    """A function of a record, with the key's state. Order: kept per key. Timestamps: kept."""

    keyed = True

    def __init__(self, function: Any, method: str, selector: Callable[[Any], Any]) -> None:
        super().__init__(function, method)
        self._keys = Keys(selector)
        self._invoker: Invoker

    def _kinds(self) -> Kinds:
        return single_results()

    def _with_context(self) -> Callable[[Any, Any], Any]:
        """The function as one of (record, context), called the same way."""
        call = self._call
        return lambda value, _: call(value)

    async def open(self, ctx: OperatorContext) -> None:
        sides = Sides()
        context = ProcessContext(ctx, ctx.store, sides, "no")
        self._invoker = Invoker(self._with_context(), context, sides, self._kinds(), self._style)
        await super().open(ctx)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._invoker.batch(batch, self._keys.of(batch.values), out)


@final
class KeyedMap(_KeyedCall):
    """Map with keyed state."""

    name = "map"

    def __init__(self, function: Any, selector: Callable[[Any], Any]) -> None:
        super().__init__(function, "map", selector)
        if self._style in ("generator", "async generator"):
            raise ValidationException(f"{function!r} yields, and map takes one result a record: use flat_map")


@final
class KeyedFlatMap(_KeyedCall):
    """FlatMap with keyed state."""

    name = "flat_map"

    def __init__(self, function: Any, selector: Callable[[Any], Any]) -> None:
        super().__init__(function, "flat_map", selector)

    def _kinds(self) -> Kinds:
        return Kinds((list,))

    def _with_context(self) -> Callable[[Any, Any], Any]:
        call = self._call
        if self._style == "sync":
            return lambda value, _: _listed(call(value))
        if self._style == "async":

            async def later(value: Any, _: Any) -> Any:
                return _listed(await call(value))

            return later
        return lambda value, _: call(value)


@final
class KeyedFilter(_KeyedCall):
    """Filter with keyed state."""

    name = "filter"

    def __init__(self, function: Any, selector: Callable[[Any], Any]) -> None:
        super().__init__(function, "filter", selector)
        if self._style in ("generator", "async generator"):
            raise ValidationException(f"{function!r} yields, and filter needs a predicate that returns a bool")

    def _kinds(self) -> Kinds:
        return Kinds((list,))

    def _with_context(self) -> Callable[[Any, Any], Any]:
        call = self._call

        async def later(value: Any, keep: Any) -> list[Any]:
            return [value] if await keep else []

        if self._style == "async":
            return lambda value, _: later(value, call(value))

        def now(value: Any, _: Any) -> Any:
            keep = call(value)
            if keep is True:
                return [value]
            return later(value, keep) if hasattr(keep, "__await__") else [value] if keep else []

        return now


def _listed(result: Any) -> Any:
    """Any iterable as a list; what has to be awaited or iterated later is left alone."""
    if result is None or hasattr(result, "__await__") or hasattr(result, "__aiter__"):
        return result
    return list(result)
