"""The user's window functions, and what they see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

from streamline._core.failure import note_value
from streamline._core.output_tag import OutputTag
from streamline._operators.calls import Kinds, style
from streamline._operators.function import Function, FunctionLife, instance, method_of
from streamline._operators.results import Held, Sides, expand
from streamline._operators.runtime_context import spec_of
from streamline.abc import KeyedStore, OperatorContext, Output
from streamline.errors import ValidationException

__all__ = ("KeyedStateStore", "Shape", "WindowCall", "WindowContext")

#: How a window function is called: process(key, context, elements), apply(key, window, inputs), and without the key.
Shape: TypeAlias = Literal["process", "apply", "process_all", "apply_all"]


class KeyedStateStore:
    """State by descriptor: of one window, or of all windows of the key."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Callable[[str, Any], Any]) -> None:
        self._handle = handle

    def _get(self, descriptor: Any, kind: str) -> Any:
        spec = spec_of(descriptor)
        if spec.kind != kind:
            raise ValidationException(f"{descriptor.name!r} is declared as {spec.kind} state, not as {kind} state")
        return self._handle(descriptor.name, spec)

    def get_state(self, state_descriptor: Any) -> Any:
        """The ValueState of a descriptor."""
        return self._get(state_descriptor, "value")

    def get_list_state(self, state_descriptor: Any) -> Any:
        """The ListState of a descriptor."""
        return self._get(state_descriptor, "list")

    def get_map_state(self, state_descriptor: Any) -> Any:
        """The MapState of a descriptor."""
        return self._get(state_descriptor, "map")

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """The ReducingState of a descriptor."""
        return self._get(state_descriptor, "reducing")

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """The AggregatingState of a descriptor."""
        return self._get(state_descriptor, "aggregating")


class WindowContext:
    """The context of a process window function: window, times, state, side outputs."""

    __slots__ = ("_clock", "_handles", "_sides", "_store", "current_window", "merging", "result_timestamp")

    def __init__(self, ctx: OperatorContext, sides: Sides) -> None:
        self._clock = ctx.clock
        self._store: KeyedStore = ctx.store
        self._sides = sides
        self._handles: dict[str, Callable[[Any], Any]] = {}
        self.current_window: Any = None
        self.result_timestamp: int | None = None
        #: Windows merge: a window has no state of its own then.
        self.merging = False

    def window(self) -> Any:
        """The window."""
        return self.current_window

    def current_processing_time(self) -> int:
        """Epoch milliseconds."""
        return self._clock.now()

    def current_watermark(self) -> int:
        """Epoch milliseconds."""
        return self._store.timers.current_watermark

    def window_state(self) -> KeyedStateStore:
        """State of this key and window; delete it in `clear`.

        Raises:
            ValidationException: windows merge here; a merged window has no state of its own (Flink: the same).
        """
        if self.merging:
            raise ValidationException("per-window state is not allowed when using merging windows.")
        return KeyedStateStore(self._window_handle)

    def global_state(self) -> KeyedStateStore:
        """State of this key over all windows."""
        return KeyedStateStore(lambda name, spec: self._store.handle(f"global:{name}", spec))

    def _window_handle(self, name: str, spec: Any) -> Any:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._store.window_handle(f"window:{name}", spec)
        return handle(self.current_window)

    def output(self, output_tag: OutputTag[Any], value: Any) -> None:
        """Send a record to a side output, with the timestamp of the window's results."""
        if type(output_tag) is not OutputTag:
            raise ValidationException(f"output() needs an OutputTag, not {output_tag!r}")
        self._sides.add(output_tag.tag_id, value, self.result_timestamp)


class WindowCall:
    """A window function: opened, called with the contents of a window, closed."""

    def __init__(self, function: Any, shape: Shape) -> None:
        self._function = instance(function)
        self._shape: Final = shape
        self._call = method_of(self._function, "apply" if shape.startswith("apply") else "process")
        self._style = style(self._call)
        self._kinds = Kinds((list,))
        self.life: Final = FunctionLife(self._function)
        clear = getattr(self._function, "clear", None) if isinstance(self._function, Function) else None
        self._clear = clear
        self._context: WindowContext

    async def open(self, ctx: OperatorContext, sides: Sides, merging: bool) -> None:
        """Before the first record."""
        self._context = WindowContext(ctx, sides)
        self._context.merging = merging
        await self.life.open(ctx, True)

    async def fire(
        self, key: Any, window: Any, elements: Sequence[Any], timestamp: int | None, held: Held, out: Output
    ) -> None:
        """Call it; what it gives goes to `held` with `timestamp`."""
        context = self._context
        context.current_window = window
        context.result_timestamp = timestamp
        try:
            match self._shape:
                case "process":
                    result = self._call(key, context, elements)
                case "apply":
                    result = self._call(key, window, elements)
                case "process_all":
                    result = self._call(context, elements)
                case _:
                    result = self._call(window, elements)
            kind = type(result)
            kinds = self._kinds
            if kind not in kinds.plain and result is not None:
                kinds.learn({kind})
            full = False
            if kind in kinds.several:
                full = held.add(list(result), timestamp)
            elif kind in kinds.awaitable or kind in kinds.stream:
                async for run in expand(result, kinds):
                    full = held.add(run, timestamp)
            elif result is not None:
                full = held.add((result,), timestamp)
        except Exception as e:
            note_value(e, window, "window")
            if not self._shape.endswith("_all"):
                note_value(e, key, "key")
            raise
        if full:
            await held.flush(out)

    def clear(self, window: Any) -> None:
        """The window of the current key is gone: let the function delete its state of it."""
        if self._clear is not None:
            self._context.current_window = window
            self._clear(self._context)
