"""Watermarks from an expression over the rows: the WATERMARK of a schema or of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from streamline._core.elements import MAX_TIMESTAMP, Batch
from streamline._operators.calc import MakeFunction
from streamline.abc import Operator, OperatorContext, Output

__all__ = ("AssignWatermarks",)


@final
class AssignWatermarks(Operator):
    """Pass records on and say how far event time has come.

    Changelog: any, unchanged; the batches themselves are passed on. State: how far event time has come. Watermarks:
    those of the input are dropped but for the last one; its own begin above 0 (a time up to 1970 causes none), as in
    Flink. Order: kept.
    """

    name = "WatermarkAssigner"

    def __init__(self, make: MakeFunction, on_event: bool, interval: int, idle_timeout: int = 0) -> None:
        """
        Args:
            make: gives `cuts(batch, watermark)` where `on_event`, else `newest(batch)`.
            on_event: a watermark behind each record that advances it.
            interval: milliseconds between watermarks otherwise.
            idle_timeout: milliseconds without a record until it counts as idle; 0: never.
        """
        self._make = make
        self._on_event = on_event
        self._interval = max(interval, 1)
        self._idle_timeout = idle_timeout

    @property
    def event_time(self) -> int | None:
        return max(self._newest, self._emitted) or None

    async def open(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._function: Callable[..., Any] = self._make(ctx.clock.now)
        self._newest = ctx.event_time or 0
        self._emitted = self._newest if self._on_event else 0
        self._ticking = self._newest > self._emitted  # what was told already the output does not send again
        if self._ticking:
            ctx.schedule(ctx.clock.now() + self._interval, self._tick)
        self._idle = False
        self._last = ctx.clock.now()
        if self._idle_timeout:
            ctx.schedule(self._last + self._idle_timeout, self._check_idle)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if self._idle_timeout:
            self._last = self._ctx.clock.now()
            if self._idle:
                self._idle = False
                await out.idle(False)
        if self._on_event:
            await self._with_cuts(batch, out)
            return
        newest = self._function(batch)
        if newest is not None and newest > self._newest:
            self._newest = newest
            if not self._ticking:
                self._ticking = True
                self._ctx.schedule(self._ctx.clock.now() + self._interval, self._tick)
        await out.send(batch)

    async def _with_cuts(self, batch: Batch, out: Output) -> None:
        start = 0
        for position, mark in self._function(batch, self._emitted):
            await out.send(batch if start == 0 and position + 1 == len(batch) else batch.slice(start, position + 1))
            start = position + 1
            self._emitted = mark
            await out.watermark(mark)
        if start < len(batch):
            await out.send(batch.slice(start, len(batch)) if start else batch)

    async def _tick(self, now: int, out: Output) -> None:
        # Ticks stop while nothing comes, so that a quiet job sleeps.
        if self._newest > self._emitted:
            self._emitted = self._newest
            await out.watermark(self._emitted)
            self._ctx.schedule(self._ctx.clock.now() + self._interval, self._tick)
        else:
            self._ticking = False

    async def _check_idle(self, now: int, out: Output) -> None:
        quiet = self._ctx.clock.now() - self._last
        if quiet >= self._idle_timeout:
            if not self._idle:
                self._idle = True
                await out.idle(True)
            quiet = 0
        self._ctx.schedule(self._ctx.clock.now() + self._idle_timeout - quiet, self._check_idle)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        return watermark if watermark == MAX_TIMESTAMP else None

    async def on_idle(self, idle: bool, out: Output) -> bool | None:
        return None if self._idle_timeout else idle
