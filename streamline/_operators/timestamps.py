"""Timestamps and watermarks in the middle of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP
from streamline._core.watermarks import WatermarkStrategy, WatermarkTracker
from streamline.abc import Batch, Operator, OperatorContext, Output

__all__ = ("AssignTimestamps",)


@final
class AssignTimestamps(Operator):
    """Give records timestamps and make watermarks from them.

    Changelog: passed on. State: how far event time has come; a generator of the user's starts anew after a restore.
    Watermarks: those that come in are dropped, save the one that closes event time; its own are emitted each interval
    of processing time, or behind the record that advances them where the generator says so. Idleness: its own timeout;
    what comes in is dropped. Order: kept.
    """

    name = "timestamps"

    def __init__(self, strategy: WatermarkStrategy[Any], interval: Callable[[], int]) -> None:
        """`interval` gives the milliseconds between two periodic watermarks; 0: none."""
        self._strategy = strategy
        self._interval = interval
        self._last_record = 0
        self._idle = False
        self._ctx: OperatorContext
        self._tracker: WatermarkTracker

    @property
    def event_time(self) -> int | None:
        return self._tracker.reached

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        tracker = self._tracker = WatermarkTracker(self._strategy, ctx.clock.now)
        if self._strategy.max_ahead is not None:
            ctx.metrics.gauge("numRecordsAhead", lambda: tracker.ahead)
            ctx.metrics.gauge("maxTimestampAhead", lambda: tracker.furthest)
        if ctx.event_time is not None:
            tracker.resume(MIN_TIMESTAMP, ctx.event_time)  # what was emitted already is not sent again by the output
        interval, timeout = self._interval(), self._strategy.idle_timeout
        now = self._last_record = ctx.clock.now()
        if interval > 0:
            ctx.schedule(now + interval, self._on_interval)
        if timeout is not None:
            ctx.schedule(now + timeout, self._on_idle_timeout)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if self._strategy.idle_timeout is not None:
            self._last_record = self._ctx.clock.now()
            if self._idle:
                self._idle = False
                await out.idle(False)
                self._ctx.schedule(self._last_record + self._strategy.idle_timeout, self._on_idle_timeout)
        values = batch.values
        timestamps = self._tracker.stamp(values, batch.timestamps)
        stamped = Batch(values, timestamps, batch.kinds)
        cuts = self._tracker.observe(values, timestamps)
        start = 0
        for position, watermark in cuts:
            await out.send(stamped.slice(start, position + 1))
            await out.watermark(watermark)
            start = position + 1
        await out.send(stamped.slice(start, len(values)) if start else stamped)

    async def _on_interval(self, when: int, out: Output) -> None:
        watermark = self._tracker.advance()
        if watermark is not None:
            await out.watermark(watermark)
        self._ctx.schedule(self._ctx.clock.now() + self._interval(), self._on_interval)

    async def _on_idle_timeout(self, when: int, out: Output) -> None:
        timeout = self._strategy.idle_timeout
        assert timeout is not None
        due = self._last_record + timeout
        if self._ctx.clock.now() >= due:
            self._idle = True
            await out.idle(True)
        else:
            self._ctx.schedule(due, self._on_idle_timeout)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if watermark != MAX_TIMESTAMP:
            return None
        if self._idle:
            self._idle = False
            await out.idle(False)
        return watermark

    async def on_idle(self, idle: bool, out: Output) -> bool | None:
        return None
