"""Ends of the graph: writers of sinks, and plain functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Final, final

from anyio import create_task_group

from streamline._core.failure import note_position, note_value, stopped
from streamline._core.time import Clock
from streamline._operators.calls import Kinds, close_all, plain
from streamline._operators.function import FunctionOperator
from streamline._operators.map import single_results
from streamline.abc import (
    Barrier,
    Batch,
    MetricGroup,
    Operator,
    OperatorContext,
    Output,
    Sink,
    SinkWriter,
    StateSpec,
)
from streamline.errors import ValidationException

__all__ = ("CallSink", "Discard", "Print", "WriterSink")


@final
class Discard(Operator):
    """Takes everything and does nothing with it."""

    name = "discard"

    async def on_batch(self, batch: Batch, out: Output) -> None:
        pass


@final
class Print(Operator):
    """One line a record, written to a text stream.

    With several subtasks every line begins with the number of its own (from 1); with a name it begins with the name.
    """

    name = "print"

    def __init__(self, write: Callable[[str], Any], identifier: str = "") -> None:
        self._write = write
        self._identifier = identifier
        self._prefix = ""

    async def open(self, ctx: OperatorContext) -> None:
        parts = [self._identifier] if self._identifier else []
        if ctx.parallelism > 1:
            parts.append(str(ctx.subtask_index + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    async def on_batch(self, batch: Batch, out: Output) -> None:
        prefix = self._prefix
        self._write("".join([f"{prefix}{value!s}\n" for value in batch.values]))


@final
class CallSink(FunctionOperator):
    """Calls a function with every record: a callable of (value), or a SinkFunction's `invoke(value, context)`.

    At least once: after a restart it is called again for what came after the checkpoint.
    """

    name = "sink"

    def __init__(self, function: Any) -> None:
        super().__init__(function, "invoke")
        self._kinds: Kinds = single_results()
        self._context: SinkCallContext | None = None
        if self._function is not function or not callable(function):
            self._context = SinkCallContext()
        if self._style in ("generator", "async generator"):
            raise ValidationException(f"a sink gives nothing back and cannot yield: {function!r}")

    async def open(self, ctx: OperatorContext) -> None:
        if self._context is not None:
            self._context.clock = ctx.clock
            call, context = self._call, self._context
            self._call = lambda value: call(value, context)
        await super().open(ctx)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._context is not None:
            self._context.watermark = watermark
        return watermark

    async def on_batch(self, batch: Batch, out: Output) -> None:
        call, values, context = self._call, batch.values, self._context
        rest = iter(values)
        results: list[Any] = []
        try:
            if context is not None or self._style == "async":
                for i, value in enumerate(rest):
                    if context is not None:
                        context.current_timestamp = None if batch.timestamps is None else batch.timestamps[i]
                    result = call(value)
                    if self._style == "async" or not plain([result], self._kinds):
                        await result
                return
            results.extend(map(call, rest))
        except Exception as e:
            close_all(results)
            note_position(e, values, rest)
            raise
        if len(results) != len(values):
            close_all(results)
            raise stopped(values[len(results)])
        if not plain(results, self._kinds):
            await self._awaited(results, values)

    async def _awaited(self, results: list[Any], values: Sequence[Any]) -> None:
        try:
            for result, value in zip(results, values):
                if type(result) in self._kinds.awaitable:
                    try:
                        await result
                    except Exception as e:
                        note_value(e, value)
                        raise
        finally:
            close_all(results)


class SinkCallContext:
    """The context of `SinkFunction.invoke`."""

    __slots__ = ("clock", "current_timestamp", "watermark")

    clock: Clock

    def __init__(self) -> None:
        self.current_timestamp: int | None = None
        self.watermark: int | None = None

    def timestamp(self) -> int | None:
        """The record's event time, epoch milliseconds; None where it has none."""
        return self.current_timestamp

    def current_processing_time(self) -> int:
        """Processing time, epoch milliseconds."""
        return self.clock.now()

    def current_watermark(self) -> int | None:
        """The last watermark, epoch milliseconds; None before the first."""
        return self.watermark


class _WriterContext:
    """What a writer learns (abc.SinkContext)."""

    def __init__(self, ctx: OperatorContext, checkpointing: bool) -> None:
        self.job_name = ctx.job_name
        self.operator_name = ctx.operator_name
        self.subtask_index = ctx.subtask_index
        self.parallelism = ctx.parallelism
        self.clock: Clock = ctx.clock
        self.metrics: MetricGroup = ctx.metrics
        self.checkpointing = checkpointing
        self.spawn: Callable[[Callable[[], Awaitable[None]], str], None] = ctx.spawn
        self._ctx: OperatorContext | None = ctx

    def afterwards(self, start: Callable[..., Any]) -> _WriterContext:
        """The same for a writer that only ends what another one has prepared; `start` runs background work."""
        after = copy(self)
        after.spawn = lambda function, name: start(function, name=name)
        after._ctx = None
        return after

    def schedule(self, when: int, callback: Callable[[], Awaitable[None]]) -> None:
        """Between batches, in the sink's task; never, where there are none to come."""
        if self._ctx is None:
            return

        async def run(when: int, out: Output) -> None:
            await callback()

        self._ctx.schedule(when, run)


@final
class WriterSink(Operator):
    """A sink's writer: flushes before a barrier passes, hands over committables, commits when the checkpoint completes.

    State: committables that are not committed yet, and what the writer wants kept, each with the number of its subtask.
    At another parallelism all that one subtask had goes to one subtask, so that whoever aborts what a writer had open
    is the one that has committed what it had prepared. Without checkpoints they are committed at the end of the input.
    """

    name = "sink"

    _COMMITTABLES: Final = StateSpec(list[Any])
    _WRITER: Final = StateSpec(list[Any])

    def __init__(self, sink: Sink[Any]) -> None:
        self._sink = sink
        self._writer: SinkWriter[Any] = sink.writer()
        self._two_phase = sink.two_phase
        self._pending: dict[int, list[Any]] = {}
        self._subtask = 0
        self._opened = False
        self._checkpointing = False
        self._committables: list[Any] = []
        self._writer_state: list[Any] = []

    async def open(self, ctx: OperatorContext) -> None:
        self._checkpointing = ctx.checkpointing
        me, width = ctx.subtask_index, ctx.parallelism
        self._subtask = me
        self._committables = ctx.operator_store.union_state("committables", self._COMMITTABLES)
        self._writer_state = ctx.operator_store.union_state("writer", self._WRITER)
        self._opened = True
        self._context = _WriterContext(ctx, self._checkpointing)
        await self._writer.open(self._context)
        if ctx.restored:
            await self._writer.recover(
                [c for s, _, c in self._committables if s % width == me],
                [kept for s, kept in self._writer_state if s % width == me],
            )
        self._committables.clear()
        self._writer_state.clear()

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._writer.write(batch)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        await self._writer.write_watermark(watermark)
        return watermark

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._writer.flush()
        if self._two_phase:
            self._pending[barrier.checkpoint_id] = list(await self._writer.prepare_commit(barrier.checkpoint_id))
            self._committables[:] = [[self._subtask, n, c] for n, cs in self._pending.items() for c in cs]
        kept = self._writer.snapshot()
        self._writer_state[:] = [] if kept is None else [[self._subtask, kept]]

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        for n in sorted(n for n in self._pending if n <= checkpoint_id):
            await self._writer.commit(self._pending[n])
            del self._pending[n]

    async def on_end(self, out: Output) -> None:
        await self._writer.flush(end_of_input=True)
        if self._two_phase and not self._checkpointing:
            for n in sorted(self._pending):  # of savepoints
                await self._writer.commit(self._pending.pop(n))
            await self._writer.commit(list(await self._writer.prepare_commit(0)))

    async def close(self) -> None:
        if self._opened:
            self._opened = False
            await self._writer.close()

    @property
    def prepared(self) -> bool:
        return bool(self._pending)

    async def settle(self, commit: int, keep: int) -> None:
        decided = [c for n in sorted(self._pending) if n <= commit for c in self._pending[n]]
        orphaned = [c for n in sorted(self._pending) if n > max(commit, keep) for c in self._pending[n]]
        if not decided and not orphaned:
            return
        # The writer that prepared them is closed. Committables are plain data, so another one can end them, as it could
        # after a restart.
        writer = self._sink.writer()
        errors: list[Exception] = []
        async with create_task_group() as group:
            try:
                await writer.open(self._context.afterwards(group.start_soon))
                if decided:
                    await writer.commit(decided)
                if orphaned:
                    await writer.abort(orphaned)
            except Exception as e:  # out of the group it would come wrapped
                errors.append(e)
            finally:
                await writer.close()
                group.cancel_scope.cancel()
        self._pending.clear()  # not before: it may be interrupted, and asked again
        if errors:
            raise errors[0]
