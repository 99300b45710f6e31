"""Functions with a life: the base of the user's function classes, and of the operators that run them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from streamline._operators.calls import Style, style
from streamline._operators.runtime_context import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from streamline.abc import Barrier, Operator, OperatorContext, Output

__all__ = ("Function", "FunctionLife", "FunctionOperator", "instance", "method_of")


class Function:
    """Base of all function classes.

    Every subtask runs a shallow copy of the object that was given: what `__init__` was given is shared between them,
    what `open` makes is each one's own. `open` and `close` may be `async def`.
    """

    def open(self, runtime_context: RuntimeContext) -> Any:
        """Called once before the first record: get state and metrics here."""

    def close(self) -> Any:
        """Called once at the end, also after a failure."""


def instance(function: Any) -> Any:
    """The function as one subtask runs it."""
    return copy.copy(function) if isinstance(function, Function) else function


def method_of(function: Any, method: str) -> Callable[..., Any]:
    """What to call: the method of a function object, or the callable itself."""
    if isinstance(function, Function) or not callable(function):
        return getattr(function, method)  # type: ignore[no-any-return]
    return function  # type: ignore[no-any-return]


async def finish(result: Any) -> Any:
    """Await what has to be awaited."""
    return await result if inspect.isawaitable(result) else result


class FunctionLife:
    """Opening, checkpointing and closing of a function object; nothing of it for a plain callable."""

    __slots__ = ("_function", "_opened")

    def __init__(self, function: Any) -> None:
        self._function = function if isinstance(function, Function) else None
        self._opened = False

    async def open(self, ctx: OperatorContext, keyed: bool) -> None:
        function = self._function
        if function is None:
            return
        self._opened = True
        initialize = getattr(function, "initialize_state", None)
        if initialize is not None:
            await finish(initialize(FunctionInitializationContext(ctx, keyed)))
        await finish(function.open(RuntimeContext(ctx, keyed)))

    async def snapshot(self, barrier: Barrier) -> None:
        save = getattr(self._function, "snapshot_state", None)
        if save is not None:
            await finish(save(FunctionSnapshotContext(barrier.checkpoint_id, barrier.timestamp)))

    async def notify(self, method: str, checkpoint_id: int) -> None:
        listener = getattr(self._function, method, None)
        if listener is not None:
            await finish(listener(checkpoint_id))

    async def close(self) -> None:
        if self._function is not None and self._opened:
            self._opened = False
            await finish(self._function.close())


class FunctionOperator(Operator):
    """An operator around one function of the user's."""

    #: Whether its input is keyed: the function may have keyed state.
    keyed = False
    fresh_context = True

    def __init__(self, function: Any, method: str) -> None:
        self._function = instance(function)
        self._call = method_of(self._function, method)
        self._style: Style = style(self._call)
        self._life = FunctionLife(self._function)
        self._ctx: OperatorContext

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        await self._life.open(ctx, self.keyed)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._life.snapshot(barrier)

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        await self._life.notify("notify_checkpoint_complete", checkpoint_id)

    async def on_checkpoint_aborted(self, checkpoint_id: int) -> None:
        await self._life.notify("notify_checkpoint_aborted", checkpoint_id)

    async def close(self) -> None:
        await self._life.close()


#: What an operator's `on_batch` looks like.
OnBatch = Callable[[Any, Output], Awaitable[None]]
