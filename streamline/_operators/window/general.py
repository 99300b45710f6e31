"""Windows in general: any assigner, trigger, evictor, lateness; windows that merge."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

from streamline._core.copying import copy_value
from streamline._core.elements import MAX_TIMESTAMP
from streamline._core.failure import note_value
from streamline._operators.keys import Keys
from streamline._operators.results import Held, Sides
from streamline._operators.runtime_context import RuntimeContext, spec_of
from streamline._operators.window.assign import (
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowStagger,
    timestamp_of,
)
from streamline._operators.window.call import WindowCall
from streamline._operators.window.evict import Evictor, TimestampedValue
from streamline._operators.window.incremental import Incremental
from streamline._operators.window.merging import MergingWindows
from streamline._operators.window.trigger import EventTimeTrigger, PurgingTrigger, Trigger, TriggerResult
from streamline.abc import (
    Barrier,
    Batch,
    Counter,
    KeyedStore,
    MetricGroup,
    Operator,
    OperatorContext,
    Output,
    StateSpec,
    StateTable,
    Timer,
)
from streamline.errors import StreamlineError, ValidationException

__all__ = ("GeneralWindows",)

_ABSENT: Final = object()
_CONTINUE: Final = TriggerResult.CONTINUE
_FIRE: Final = TriggerResult.FIRE

#: Of a record that was put into a window: the window, where its state lies, what the trigger has decided, and whether
#: the window's end has to be watched.
Added: TypeAlias = tuple[Any, Any, TriggerResult, bool]


class _Context:
    """What assigner, trigger and evictor see of the window that is being worked on."""

    __slots__ = ("_bound", "_ctx", "_handles", "_runtime", "_store", "merged", "window")

    def __init__(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._store = ctx.store
        self._runtime = RuntimeContext(ctx, True)
        self._handles: dict[str, Any] = {}
        #: By name: the window that was asked for last, and the handle of its state, for whatever key.
        self._bound: dict[str, tuple[Any, Any]] = {}
        self.window: Any = None
        self.merged: Sequence[Any] = ()

    def get_current_processing_time(self) -> int:
        return self._ctx.clock.now()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime

    def get_current_watermark(self) -> int:
        return self._store.timers.current_watermark

    def get_metric_group(self) -> MetricGroup:
        return self._ctx.metrics

    def register_event_time_timer(self, time: int) -> None:
        self._store.timers.register_event_time(self._store.key, time, self.window)

    def register_processing_time_timer(self, time: int) -> None:
        self._store.timers.register_processing_time(self._store.key, time, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._store.timers.delete_event_time(self._store.key, time, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._store.timers.delete_processing_time(self._store.key, time, self.window)

    def _of(self, descriptor: Any) -> Any:
        handles = self._handles.get(descriptor.name)
        if handles is None:
            spec = spec_of(descriptor)
            handles = self._handles[descriptor.name] = self._store.window_handle(f"trigger:{descriptor.name}", spec)
        return handles

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        name, window = state_descriptor.name, self.window
        bound = self._bound.get(name)
        if bound is None or bound[0] != window:
            bound = self._bound[name] = (window, self._of(state_descriptor)(window))
        return bound[1]

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        self._of(state_descriptor).merge(self.window, self.merged)


def _leaves_timers(trigger: Trigger[Any, Any]) -> bool:
    """Whether a trigger is one of ours, which call no timer off before the window is gone: then only the first record
    of a key has to see to the window's end."""
    if isinstance(trigger, PurgingTrigger):
        trigger = trigger.nested_trigger
    return type(trigger).__module__ == Trigger.__module__


@final
class GeneralWindows(Operator):
    """Every record goes into the windows that the assigner gives; the trigger says when they fire.

    Changelog: insert-only in and out. State: the records or the accumulator of every key and open window, the trigger's
    state, timers; a window is forgotten at its end plus the allowed lateness. Watermarks: passed on behind the results
    of the timers they fire. A record whose windows are all forgotten is late: it goes to the late output, else it is
    dropped and counted. Timestamps: a result has the window's last one. Order: as windows fire.
    """

    name = "window"
    fresh_context = True
    state = {
        "contents": StateSpec(namespaced=True, copy=copy_value),
        "elements": StateSpec(namespaced=True, kind="list"),
        "merging": StateSpec(copy=dict.copy),
    }

    def __init__(
        self,
        selector: Callable[[Any], Any],
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        evictor: Evictor | None,
        lateness: int,
        incremental: Incremental | None,
        call: WindowCall | None,
        late_tag: str | None,
    ) -> None:
        self._keys = Keys(selector)
        self._assigner = copy.copy(assigner)  # staggered windows are moved per subtask
        self._trigger = trigger
        self._evictor = evictor
        self._lateness = lateness
        self._incremental = incremental
        self._call = call
        self._late_tag = late_tag
        self._event_time = assigner.is_event_time()
        self._merging = isinstance(assigner, MergingWindowAssigner)
        #: The default trigger: it fires at the end, so only a window's first record of a key has to set timers.
        self._at_end = type(trigger) is EventTimeTrigger and not self._merging and self._event_time
        #: Windows that follow from a record's time alone: a batch has few, and each is looked up once.
        self._regular = (
            self._at_end
            and type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
            and getattr(assigner, "stagger", None) is WindowStagger.ALIGNED
            and getattr(assigner, "size", 0) % getattr(assigner, "slide", 1) == 0
        )
        self._leaves_timers = _leaves_timers(trigger)
        #: Whether an accumulator is kept instead of the records.
        self._accumulates = incremental is not None and evictor is None
        self._sides = Sides()
        self._held = Held(self._sides)
        self._ctx: OperatorContext
        self._store: KeyedStore
        self._context: _Context
        self._contents: StateTable
        self._sessions: StateTable
        self._dropped: Counter
        if self._merging and not trigger.can_merge():
            raise ValidationException(f"{type(trigger).__name__} cannot be used with windows that merge")

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._store = ctx.store
        self._keys.expect(ctx.store)
        name = "contents" if self._accumulates else "elements"
        self._contents = ctx.store.table(name, self.state[name])
        if self._merging:
            self._sessions = ctx.store.table("merging", self.state["merging"])
        self._context = _Context(ctx)
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        if self._incremental is not None:
            await self._incremental.life.open(ctx, True)
        if self._call is not None:
            await self._call.open(ctx, self._sides, self._merging)

    # -- records -------------------------------------------------------------------------------------------------

    async def on_batch(self, batch: Batch, out: Output) -> None:
        values, timestamps = batch.values, batch.timestamps
        keys, store, late = self._keys.of(values), self._store, []
        add = self._add_merging if self._merging else self._add
        regular = self._regular
        #: By the start of a record's last window: what `_open_ones` gives.
        open_ones: dict[int, Sequence[tuple[Any, Any]] | None] = {}
        assigner: Any = self._assigner
        for i, value in enumerate(values):
            store.key = keys[i]
            timestamp = None if timestamps is None else timestamps[i]
            try:
                if regular:
                    time = timestamp_of(timestamp)
                    start = time - (time - assigner.offset) % assigner.slide
                    if start not in open_ones:
                        open_ones[start] = self._open_ones(start)
                    several = open_ones[start]
                    if several is not None:
                        for window, inner in several:
                            if self._put_into(inner, value, timestamp):
                                store.timers.register_event_time(store.key, window.end - 1, window)
                                self._register_cleanup(window)
                        continue
                windows = self._assigner.assign_windows(value, timestamp, self._context)
                skipped = True
                for window in windows:
                    found = add(window, value, timestamp)
                    if found is None:
                        continue
                    skipped = False
                    actual, state_window, result, timers = found
                    if result is not _CONTINUE:
                        await self._act(result, actual, state_window, out)
                    if timers:
                        self._register_cleanup(actual)
            except Exception as e:
                note_value(e, value)
                note_value(e, keys[i], "key")
                raise
            if skipped and self._is_late(timestamp):
                late.append(i)
        if late:
            if self._late_tag is None:
                self._dropped.inc(len(late))
            else:
                await out.side(self._late_tag, batch.take(late))
        await self._held.flush(out)

    def _open_ones(self, start: int) -> Sequence[tuple[Any, Any]] | None:
        """The windows whose last one begins at `start`, with their contents; None: the watermark has passed one."""
        windows = self._assigner.assign_windows(None, start, self._context)
        if any(w.end - 1 <= self._store.timers.current_watermark for w in windows):
            return None
        return [(w, self._contents_of(w)) for w in windows]

    def _is_late(self, timestamp: int | None) -> bool:
        return (
            self._event_time
            and timestamp is not None
            and timestamp + self._lateness <= self._store.timers.current_watermark
        )

    def _add(self, window: Any, value: Any, timestamp: int | None) -> Added | None:
        """Put a record into a window; None where the window is forgotten already."""
        if self._at_end:
            return self._add_at_end(window, value, timestamp)
        if self._is_forgotten(window):
            return None
        first = self._put(window, value, timestamp)
        self._context.window = window
        result = self._trigger.on_element(value, timestamp, window, self._context)
        return window, window, result, first or not self._leaves_timers

    def _add_at_end(self, window: Any, value: Any, timestamp: int | None) -> Added | None:
        """What `_add` does under the default trigger, with fewer steps."""
        end, timers = window.max_timestamp(), self._store.timers
        if end <= timers.current_watermark:
            if end + self._lateness <= timers.current_watermark:
                return None
            return window, window, _FIRE, self._put(window, value, timestamp)
        first = self._put(window, value, timestamp)
        if first:
            timers.register_event_time(self._store.key, end, window)
        return window, window, _CONTINUE, first

    def _add_merging(self, window: Any, value: Any, timestamp: int | None) -> Added | None:
        """Put a record into a window that may merge with others of the key."""
        sessions = self._open_windows()
        actual = sessions.add(window, self._on_merge)
        if self._is_forgotten(actual):
            sessions.retire(actual)
            self._save(sessions)
            return None
        state_window = sessions.state_window(actual)
        self._put(state_window, value, timestamp)
        self._context.window = actual
        result = self._trigger.on_element(value, timestamp, actual, self._context)
        self._save(sessions)
        return actual, state_window, result, True

    def _contents_of(self, window: Any) -> Any:
        """What there is of a window, by key."""
        data = self._contents.data
        inner = data.get(window)
        if inner is None:
            data[window] = {}
            inner = data[window]
        return inner

    def _put(self, window: Any, value: Any, timestamp: int | None) -> bool:
        """One record more in the state of a window; whether it is the key's first."""
        return self._put_into(self._contents_of(window), value, timestamp)

    def _put_into(self, inner: Any, value: Any, timestamp: int | None) -> bool:
        key = self._store.key
        before = inner.get(key, _ABSENT)
        if self._accumulates:
            incremental = self._incremental
            assert incremental is not None
            if before is _ABSENT:
                inner[key] = value if incremental.create is None else incremental.add(value, incremental.create())
                return True
            inner[key] = incremental.add(value, before)
            return False
        element = value if self._evictor is None else TimestampedValue(value, timestamp)
        if before is _ABSENT:
            inner[key] = [element]
            return True
        before.append(element)
        inner[key] = before
        return False

    # -- windows that merge --------------------------------------------------------------------------------------

    def _open_windows(self) -> MergingWindows:
        assert isinstance(self._assigner, MergingWindowAssigner)
        return MergingWindows(self._assigner, self._sessions.data.get(self._store.key) or {})

    def _save(self, sessions: MergingWindows) -> None:
        if sessions.mapping:
            self._sessions.data[self._store.key] = sessions.mapping
        else:
            self._sessions.data.pop(self._store.key, None)

    def _on_merge(self, merged: Any, windows: Sequence[Any], state_window: Any, others: Sequence[Any]) -> None:
        end = merged.max_timestamp()
        if self._event_time and end + self._lateness <= self._context.get_current_watermark():
            raise StreamlineError(
                f"windows merged to {merged}, which is forgotten already (watermark "
                f"{self._context.get_current_watermark()}): the assigner's windows may not shrink"
            )
        if not self._event_time and end <= self._context.get_current_processing_time():
            raise StreamlineError(f"windows merged to {merged}, which lies in the past: they may not shrink")
        context = self._context
        context.window, context.merged = merged, windows
        self._trigger.on_merge(merged, context)
        for window in windows:
            if window != merged:
                context.window = window
                self._trigger.clear(window, context)
                self._delete_cleanup(window)
        self._merge_contents(state_window, others)

    def _merge_contents(self, target: Any, others: Sequence[Any]) -> None:
        data, key = self._contents.data, self._store.key
        for other in others:
            found = self._take(other)
            if found is _ABSENT:
                continue
            inner = data.get(target)
            if inner is None:
                data[target] = {}
                inner = data[target]
            before = inner.get(key, _ABSENT)
            if before is _ABSENT:
                inner[key] = found
            elif self._accumulates:
                assert self._incremental is not None
                inner[key] = self._incremental.merge(before, found)
            else:
                inner[key] = [*before, *found]

    def _take(self, window: Any) -> Any:
        """Remove and give the contents of a window of the current key."""
        data = self._contents.data
        inner = data.get(window)
        if inner is None:
            return _ABSENT
        found = inner.pop(self._store.key, _ABSENT)
        if not inner:
            del data[window]
        return found

    # -- firing ----------------------------------------------------------------------------------------------------

    async def _act(self, result: TriggerResult, window: Any, state_window: Any, out: Output) -> None:
        """What a trigger has decided."""
        if result.is_fire():
            inner = self._contents.data.get(state_window)
            contents = _ABSENT if inner is None else inner.get(self._store.key, _ABSENT)
            if contents is not _ABSENT:
                await self._fire(window, state_window, contents, out)
        if result.is_purge():
            self._take(state_window)

    async def _fire(self, window: Any, state_window: Any, contents: Any, out: Output) -> None:
        timestamp = window.max_timestamp()
        if self._evictor is not None:
            await self._fire_evicting(window, state_window, list(contents), out)
        elif self._accumulates:
            assert self._incremental is not None
            result = self._incremental.result_of(contents)
            if self._call is None:
                if self._held.add((result,), timestamp):
                    await self._held.flush(out)
            else:
                await self._call.fire(self._store.key, window, (result,), timestamp, self._held, out)
        else:
            assert self._call is not None
            await self._call.fire(self._store.key, window, list(contents), timestamp, self._held, out)

    async def _fire_evicting(self, window: Any, state_window: Any, elements: list[Any], out: Output) -> None:
        evictor, timestamp = self._evictor, window.max_timestamp()
        assert evictor is not None
        self._context.window = window
        evictor.evict_before(elements, len(elements), window, self._context)
        values = [e.value for e in elements]
        if self._incremental is not None:
            values = [self._combined(values)] if values else []
        if self._call is not None:
            await self._call.fire(self._store.key, window, values, timestamp, self._held, out)
        elif self._held.add(values, timestamp):
            await self._held.flush(out)
        evictor.evict_after(elements, len(elements), window, self._context)
        inner = self._contents.data[state_window]
        if elements:
            inner[self._store.key] = elements
        else:
            self._take(state_window)

    def _combined(self, values: list[Any]) -> Any:
        incremental = self._incremental
        assert incremental is not None
        accumulator = values[0] if incremental.create is None else incremental.add(values[0], incremental.create())
        for value in values[1:]:
            accumulator = incremental.add(value, accumulator)
        return incremental.result_of(accumulator)

    # -- timers ------------------------------------------------------------------------------------------------------

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        await self._on_timer(timer, True, out)

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        await self._on_timer(timer, False, out)
        self._ctx.wake()  # so that the results of all timers of this instant leave as one batch

    async def on_wake(self, out: Output) -> None:
        await self._held.flush(out)

    async def _on_timer(self, timer: Timer, event_time: bool, out: Output) -> None:
        window, context = timer.namespace, self._context
        sessions = self._open_windows() if self._merging else None
        state_window = window if sessions is None else sessions.state_window(window)
        if state_window is None:
            return
        context.window = window
        if event_time:
            result = self._trigger.on_event_time(timer.timestamp, window, context)
        else:
            result = self._trigger.on_processing_time(timer.timestamp, window, context)
        if result is not _CONTINUE:
            await self._act(result, window, state_window, out)
        if event_time is self._event_time and timer.timestamp == self._cleanup_time(window):
            self._take(state_window)
            context.window = window
            self._trigger.clear(window, context)
            if self._call is not None:
                self._call.clear(window)
            if sessions is not None:
                sessions.retire(window)
                self._save(sessions)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        await self._held.flush(out)
        return watermark

    def _cleanup_time(self, window: Any) -> int:
        end: int = window.max_timestamp()
        return min(end + self._lateness, MAX_TIMESTAMP) if self._event_time else end

    def _is_forgotten(self, window: Any) -> bool:
        return self._event_time and self._cleanup_time(window) <= self._store.timers.current_watermark

    def _register_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_TIMESTAMP:
            return
        self._context.window = window
        if self._event_time:
            self._context.register_event_time_timer(time)
        else:
            self._context.register_processing_time_timer(time)

    def _delete_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        self._context.window = window
        if self._event_time:
            self._context.delete_event_time_timer(time)
        else:
            self._context.delete_processing_time_timer(time)

    # -- the rest ----------------------------------------------------------------------------------------------------

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._held.flush(out)
        if self._incremental is not None:
            await self._incremental.life.snapshot(barrier)
        if self._call is not None:
            await self._call.life.snapshot(barrier)

    async def on_end(self, out: Output) -> None:
        await self._held.flush(out)

    async def close(self) -> None:
        if self._incremental is not None:
            await self._incremental.life.close()
        if self._call is not None:
            await self._call.life.close()
