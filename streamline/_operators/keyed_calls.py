"""Functions of a record alone, called where there is a context: map, flat_map and filter with keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

from streamline._operators.calls import Kinds, Style, run_of
from streamline._operators.contexts import ProcessContext
from streamline._operators.function import FunctionOperator
from streamline._operators.invoke import Invoker
from streamline._operators.keys import Keys
from streamline._operators.map import single_results
from streamline._operators.results import Sides
from streamline.abc import Batch, OperatorContext, Output
from streamline.errors import ValidationException

__all__ = ("KeyedCall", "Mode", "with_context")

Mode: TypeAlias = Literal["map", "flat_map", "filter"]


def with_context(call: Callable[..., Any], call_style: Style, mode: Mode) -> tuple[Callable[[Any, Any], Any], Kinds]:
    """A function of (record) as one of (record, context), and what its results stand for.

    Raises:
        ValidationException: it yields where one result is needed.
    """
    if mode != "flat_map" and call_style in ("generator", "async generator"):
        instead = "use flat_map" if mode == "map" else "a predicate returns a bool"
        raise ValidationException(f"{call!r} yields, and {mode} takes one result a record: {instead}")
    match mode:
        case "map":
            return lambda value, _: call(value), single_results()
        case "flat_map":
            return _flat(call, call_style), Kinds((list,))
        case "filter":
            return _keep(call, call_style), Kinds((list,))


def _flat(call: Callable[..., Any], call_style: Style) -> Callable[[Any, Any], Any]:
    if call_style == "sync":
        return lambda value, _: _listed(call(value))
    if call_style == "async":

        async def later(value: Any, _: Any) -> Any:
            return _listed(await call(value))

        return later
    return lambda value, _: call(value)


def _listed(result: Any) -> Any:
    """Any iterable as a list; what has to be awaited or iterated later is left alone."""
    if result is None or hasattr(result, "__await__") or hasattr(result, "__aiter__"):
        return result
    return run_of(result)


def _keep(call: Callable[..., Any], call_style: Style) -> Callable[[Any, Any], Any]:
    async def later(value: Any, keep: Any) -> list[Any]:
        return [value] if await keep else []

    if call_style == "async":
        return lambda value, _: later(value, call(value))

    def now(value: Any, _: Any) -> Any:
        keep = call(value)
        if keep is True:
            return [value]
        return later(value, keep) if hasattr(keep, "__await__") else [value] if keep else []

    return now


@final
class KeyedCall(FunctionOperator):
    """A map, flat_map or filter whose function has keyed state.

    Changelog: none. State: the function's own. Watermarks: passed on. Timestamps: kept. Order: kept per key.
    """

    name = "keyed"
    keyed = True

    def __init__(self, function: Any, mode: Mode, selector: Callable[[Any], Any]) -> None:
        super().__init__(function, mode)
        self._keys = Keys(selector)
        self._with_context, self._kinds = with_context(self._call, self._style, mode)
        self._invoker: Invoker

    async def open(self, ctx: OperatorContext) -> None:
        sides = Sides()
        context = ProcessContext(ctx, ctx.store, sides, "no")
        self._keys.expect(ctx.store)
        self._invoker = Invoker(self._with_context, context, sides, self._kinds, self._style)
        await super().open(ctx)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._invoker.batch(batch, self._keys.of(batch.values), out)
