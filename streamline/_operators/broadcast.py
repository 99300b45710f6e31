"""The broadcast state pattern: one stream's records go to all subtasks and into state that all records see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from streamline._core.declare import StateSpec
from streamline._operators.calls import style
from streamline._operators.contexts import ProcessContext, TimeDomain
from streamline._operators.function import FunctionLife, instance
from streamline._operators.invoke import Invoker
from streamline._operators.keys import Keys
from streamline._operators.results import Sides
from streamline._operators.runtime_context import spec_of
from streamline.abc import Barrier, Batch, KeyedStore, OperatorContext, Output, Timer, TwoInputOperator
from streamline.errors import StreamlineError, ValidationException

__all__ = ("BroadcastContext", "BroadcastProcess", "BroadcastStateView", "ReadOnlyBroadcastStateView")


class ReadOnlyBroadcastStateView:
    """Broadcast state as records of the other stream see it."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[Any, Any]) -> None:
        self._data = data

    def get(self, key: Any) -> Any:
        """The value of a key, None where there is none."""
        return self._data.get(key)

    def contains(self, key: Any) -> bool:
        """Whether there is a value."""
        return key in self._data

    def items(self) -> list[tuple[Any, Any]]:
        """Keys and values."""
        return list(self._data.items())

    def keys(self) -> list[Any]:
        """The keys."""
        return list(self._data)

    def values(self) -> list[Any]:
        """The values."""
        return list(self._data.values())

    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return not self._data

    def __getitem__(self, key: Any) -> Any:
        return self._data[key]

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Any:
        return iter(list(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def _refuse(self) -> StreamlineError:
        return StreamlineError(
            "broadcast state can be changed by broadcast records only: every subtask has to make the same changes"
        )

    def put(self, key: Any, value: Any) -> None:
        """Refused."""
        raise self._refuse()

    def put_all(self, mapping: Mapping[Any, Any]) -> None:
        """Refused."""
        raise self._refuse()

    def remove(self, key: Any) -> None:
        """Refused."""
        raise self._refuse()

    def clear(self) -> None:
        """Refused."""
        raise self._refuse()


class BroadcastStateView(ReadOnlyBroadcastStateView):
    """Broadcast state as broadcast records see it."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Put a value in."""
        self._data[key] = value

    def put_all(self, mapping: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Put many in."""
        self._data.update(mapping)

    def remove(self, key: Any) -> None:
        """Take a value out; no error where there is none."""
        self._data.pop(key, None)

    def clear(self) -> None:
        """Take everything out."""
        self._data.clear()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._data[key]


class BroadcastContext(ProcessContext):
    """The context of broadcast process functions."""

    __slots__ = ("_may_write", "_names", "_operator_store")

    def __init__(
        self,
        ctx: OperatorContext,
        store: KeyedStore | None,
        sides: Sides,
        event_time: str,
        names: Mapping[str, StateSpec],
        may_write: bool,
    ) -> None:
        super().__init__(ctx, store, sides, event_time, keyed=not may_write)
        self._operator_store = ctx.operator_store
        self._names = names
        self._may_write = may_write

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """The state of a descriptor that was given to `broadcast(...)`.

        Raises:
            ValidationException: it was not given.
        """
        name = getattr(state_descriptor, "name", state_descriptor)
        if name not in self._names:
            raise ValidationException(
                f"broadcast state {name!r} was not given to broadcast(): it has {', '.join(map(repr, self._names))}"
            )
        data = self._operator_store.broadcast_state(name, self._names[name])
        return BroadcastStateView(data) if self._may_write else ReadOnlyBroadcastStateView(data)

    def current_processing_time(self) -> int:
        """Epoch milliseconds."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Epoch milliseconds."""
        return self._timers.current_watermark()

    def apply_to_keyed_state(self, state_descriptor: Any, function: Callable[[Any, Any], Any]) -> None:
        """Call `function(key, state)` for every key of this subtask that has the state; for broadcast records.

        Raises:
            ValidationException: the other stream is not keyed, or this is no broadcast record.
        """
        if not self._may_write or not hasattr(self._store, "keys"):
            raise ValidationException("apply_to_keyed_state is for broadcast records beside a keyed stream")
        store, before = self._store, self._store.key
        handle = store.handle(state_descriptor.name, spec_of(state_descriptor))
        try:
            for key in list(store.keys(state_descriptor.name)):
                store.key = key
                function(key, handle)
        finally:
            store.key = before


_METHODS: Final = ("process_element", "process_broadcast_element")


@final
class BroadcastProcess(TwoInputOperator):
    """A (Keyed)BroadcastProcessFunction: input 0 are ordinary records, input 1 broadcast ones.

    Changelog: none. State: the broadcast state, the same in every subtask; where the first input is keyed, the
    function's keyed state and timers. Watermarks: the smaller one is passed on. Order: kept within each input.
    """

    name = "broadcast"
    fresh_context = True

    def __init__(
        self,
        function: Any,
        descriptors: Sequence[Any],
        selector: Callable[[Any], Any] | None = None,
        event_time: str = "yes",
    ) -> None:
        self._function = instance(function)
        self._life = FunctionLife(self._function)
        self._calls = [getattr(self._function, method) for method in _METHODS]
        self._names = {d.name: spec_of(d) for d in descriptors}
        self._keys = None if selector is None else Keys(selector)
        self._event_time = event_time
        self._ctx: OperatorContext
        self._no_key: Any = None
        self._contexts: list[BroadcastContext] = []
        self._records: list[Invoker] = []
        self._timers: Invoker | None = None

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        sides = Sides()
        keyed = self._keys is not None
        store = ctx.store if keyed else None
        if store is not None and self._keys is not None:
            self._no_key = store.key
            self._keys.expect(store)
        self._contexts = [
            BroadcastContext(ctx, store, sides, self._event_time, self._names, may_write) for may_write in (False, True)
        ]
        self._records = [
            Invoker(call, context, sides, call_style=style(call)) for call, context in zip(self._calls, self._contexts)
        ]
        on_timer = getattr(self._function, "on_timer", None)
        if keyed and on_timer is not None:
            context = BroadcastContext(ctx, store, sides, self._event_time, self._names, False)
            self._contexts.append(context)
            self._timers = Invoker(on_timer, context, sides)
        for name, spec in self._names.items():
            ctx.operator_store.broadcast_state(name, spec)
        await self._life.open(ctx, keyed)

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await self._records[0].batch(batch, None if self._keys is None else self._keys.of(batch.values), out)

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        keys = None if self._keys is None else [self._no_key] * len(batch.values)
        await self._records[1].batch(batch, keys, out)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._contexts[2].domain = TimeDomain.EVENT_TIME
            if self._timers.timer(timer.timestamp, timer.timestamp):
                await self._timers.after_timer(out)

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        if self._timers is not None:
            self._contexts[2].domain = TimeDomain.PROCESSING_TIME
            if self._timers.timer(timer.timestamp, None):
                await self._timers.after_timer(out)
            self._ctx.wake()  # so that the results of all timers of this instant leave as one batch

    async def on_wake(self, out: Output) -> None:
        if self._timers is not None:
            await self._timers.flush(out)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        await self.on_wake(out)
        for context in self._contexts:
            context.timer_service().watermark = watermark
        return watermark

    async def on_end(self, out: Output) -> None:
        await self.on_wake(out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self.on_wake(out)
        await self._life.snapshot(barrier)

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        await self._life.notify("notify_checkpoint_complete", checkpoint_id)

    async def on_checkpoint_aborted(self, checkpoint_id: int) -> None:
        await self._life.notify("notify_checkpoint_aborted", checkpoint_id)

    async def close(self) -> None:
        await self._life.close()
