"""Calling a process function for every record of a batch, or for a timer, and handing its results on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from streamline._core.failure import note_position, note_value
from streamline._operators.calls import Kinds, Style, close_all, style
from streamline._operators.contexts import ProcessContext
from streamline._operators.results import Held, Sides, expand, spread, take_tagged, without_none
from streamline.abc import Batch, Output

__all__ = ("Invoker",)

_NOTHING: Final[Iterable[None]] = repeat(None)
_NONE: Final = type(None)


class Invoker:
    """A function of (value, context) that returns or yields, now or later.

    What it returns: None is nothing, a list or an iterator is many records, anything else is one. The current key and
    timestamp are set for every record by the loop itself.
    """

    __slots__ = ("_call", "_ctx", "_held", "_kinds", "_pending", "_rest", "_sides", "_style")

    def __init__(
        self,
        call: Callable[..., Any],
        ctx: ProcessContext,
        sides: Sides,
        kinds: Kinds | None = None,
        call_style: Style | None = None,
    ) -> None:
        """`kinds` says otherwise what results stand for, `call_style` how it is called where `call` does not show."""
        self._call = call
        self._style: Style = call_style or style(call)
        self._ctx = ctx
        self._sides = sides
        self._kinds = kinds or Kinds((list,))
        #: The records of the batch that are not worked on yet.
        self._rest: Iterator[Any] = iter(())
        #: Results of timers, until the watermark that caused them goes on.
        self._held = Held(sides)
        #: What a timer has given that has to be awaited: (result, timer's time, time of the results).
        self._pending: tuple[Any, int, int | None] | None = None

    # -- records -------------------------------------------------------------------------------------------------

    async def batch(self, batch: Batch, keys: Sequence[Any] | None, out: Output) -> None:
        """Call it for all records; `keys` are theirs, None where the stream is not keyed."""
        values = batch.values
        self._rest = iter(values)
        try:
            done = self._now(batch, keys)
        except Exception as e:
            i = note_position(e, values, self._rest)
            if keys is not None:
                note_value(e, keys[i], "key")
            raise
        if isinstance(done, Batch):
            done = take_tagged(done, self._sides)
            if self._sides:
                await self._sides.flush(out)
            await out.send(done)
        else:
            await self._later(done, batch, keys, out)

    def _now(self, batch: Batch, keys: Sequence[Any] | None) -> Batch | list[Any] | None:
        """What can be had at once: the results; a list of raw results that have to wait; None: nothing was called."""
        call, ctx, timestamps, rest = self._call, self._ctx, batch.timestamps, self._rest
        store: Any = ctx.store
        by: Iterable[Any] = _NOTHING if keys is None else keys
        stamps: Iterable[Any] = _NOTHING if timestamps is None else timestamps
        if self._style == "sync":
            raw = [call(v, ctx) for store.key, ctx.current_timestamp, v in zip(by, stamps, rest)]
            return self._sorted_out(raw, batch, by, stamps)
        if self._style != "generator":
            return None
        if timestamps is None:
            ctx.current_timestamp = None
            return Batch([r for store.key, v in zip(by, rest) for r in call(v, ctx)])
        return spread([[*call(v, ctx)] for store.key, ctx.current_timestamp, v in zip(by, stamps, rest)], timestamps)

    def _sorted_out(self, raw: list[Any], batch: Batch, by: Iterable[Any], stamps: Iterable[Any]) -> Batch | list[Any]:
        """Raw results as a batch, or as they are where some have to wait."""
        kinds = self._kinds
        seen = set(map(type, raw))
        if seen <= kinds.plain:
            return Batch(raw, batch.timestamps)
        kinds.learn(seen)
        seen.discard(_NONE)
        if seen <= kinds.plain:
            return without_none(raw, batch.timestamps)
        if not (seen.isdisjoint(kinds.awaitable) and seen.isdisjoint(kinds.stream)):
            return raw
        several, ctx = kinds.several, self._ctx
        store: Any = ctx.store
        self._rest = iter(batch.values)  # iterators run now: an error is about the record they come from
        parts = [
            [*r] if type(r) in several else () if r is None else (r,)
            for store.key, ctx.current_timestamp, r, _ in zip(by, stamps, raw, self._rest)
        ]
        return spread(parts, batch.timestamps)

    async def _later(self, raw: list[Any] | None, batch: Batch, keys: Sequence[Any] | None, out: Output) -> None:
        """One record after the other: await its result, hand it on."""
        ctx, timestamps = self._ctx, batch.timestamps
        try:
            for i, value in enumerate(batch.values):
                ctx.store.key = None if keys is None else keys[i]
                ctx.current_timestamp = None if timestamps is None else timestamps[i]
                try:
                    await self._one(self._call(value, ctx) if raw is None else raw[i], ctx.current_timestamp, out)
                except Exception as e:
                    note_value(e, value)
                    if keys is not None:
                        note_value(e, keys[i], "key")
                    raise
        finally:
            close_all(raw or [])

    async def _one(self, result: Any, timestamp: int | None, out: Output) -> None:
        async for run in expand(result, self._kinds):
            done = take_tagged(Batch(run, None if timestamp is None else [timestamp] * len(run)), self._sides)
            if self._sides:
                await self._sides.flush(out)
            await out.send(done)
        if self._sides:
            await self._sides.flush(out)

    # -- timers --------------------------------------------------------------------------------------------------

    def timer(self, timestamp: int, result_timestamp: int | None) -> bool:
        """Call it for a timer; whether `after_timer` has to be awaited before the next.

        Results are held until `flush`, so that many timers make one batch.

        Args:
            timestamp: the timer's, epoch ms.
            result_timestamp: what its results get: that of an event-time timer, None for one of processing time.
        """
        ctx, kinds = self._ctx, self._kinds
        ctx.current_timestamp = timestamp
        try:
            result = self._call(timestamp, ctx)
            if result is None:
                return False
            kind = type(result)
            if kind in kinds.several:
                return self._held.add([*result], result_timestamp)
            if kind not in kinds.plain:
                kinds.learn({kind})
                if kind in kinds.several:
                    return self._held.add([*result], result_timestamp)
                if kind not in kinds.plain:
                    self._pending = (result, timestamp, result_timestamp)
                    return True
        except Exception as e:
            self._note_timer(e, timestamp)
            raise
        return self._held.add((result,), result_timestamp)

    def _note_timer(self, error: Exception, timestamp: int) -> None:
        note_value(error, timestamp, "timer")
        note_value(error, self._ctx.store.key, "key")

    async def after_timer(self, out: Output) -> None:
        """Await the results of a timer that were not there at once, and hand on what is held."""
        await self._held.flush(out)
        pending, self._pending = self._pending, None
        if pending is not None:
            result, timestamp, result_timestamp = pending
            self._ctx.current_timestamp = timestamp
            try:
                await self._one(result, result_timestamp, out)
            except Exception as e:
                self._note_timer(e, timestamp)
                raise

    async def flush(self, out: Output) -> None:
        """Hand on what timers have given."""
        await self._held.flush(out)
