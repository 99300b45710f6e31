"""The loop of one subtask: gate, operator, output. The same for every operator."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, final

import anyio

from streamline import abc
from streamline._channel.gate import Gate, Tick
from streamline._channel.output import ChannelOutput
from streamline._core.elements import (
    Barrier,
    Batch,
    Element,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from streamline._core.log_context import LOG_CONTEXT, LogContext
from streamline._core.time import Clock, TimerHandle
from streamline._runtime.event_time_watch import EventTimeWatch, LateWatch, held_back
from streamline._runtime.failing_record import explained, note_record
from streamline._runtime.fresh_context import in_fresh_context
from streamline._runtime.in_flight import UnalignedCapture
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.slice import BatchLimit, TimeSlice
from streamline._runtime.task_metrics import Waiting, register_task_metrics
from streamline._state.capture import Capture
from streamline._state.snapshot import SubtaskSnapshot
from streamline._state.subtask import SubtaskState
from streamline.abc import KeyedStore, Operator, OperatorStore, Output, TwoInputOperator

__all__ = ("OperatorTask", "TaskHost", "note")

_log = logging.getLogger("streamline.task")

#: Seconds that an operator or reader gets to close while its job is being cancelled.
CLOSE_TIMEOUT = 30.0


class TaskHost(Protocol):
    """The job, as its tasks see it."""

    job_name: str
    attempt: int
    clock: Clock
    time_slice: TimeSlice
    #: Warnings that one task has given for all.
    said: set[str]
    job_parameters: Mapping[str, str]
    #: Whether checkpoints are taken, and whether they may hold only what is new.
    checkpointing: bool
    incremental: bool

    def captured(self, task: Any, barrier: Barrier, capture: Any) -> None:
        """A task has captured its state (a source its positions) for this barrier."""
        ...

    def final_id(self, task: Any) -> int:
        """The first checkpoint that will hold what a task ends with."""
        ...

    def backlog(self, task: Any, processing: bool) -> None:
        """A source's task works off a backlog, or no longer."""
        ...

    def finished(self, task: Any, capture: Any = None) -> bool:
        """A task has ended in the ordinary way, with this state. Whether it has to wait for `release`."""
        ...

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a background task in the job's task group."""
        ...


def note(error: BaseException, text: str) -> None:
    """Add a note to an error, once."""
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)


@final
class OperatorTask:
    """Runs one subtask of an operator; it is the operator's context too."""

    def __init__(
        self,
        *,
        host: TaskHost,
        node_id: int,
        uid: str,
        name: str,
        operator: Operator,
        gate: Gate,
        output: ChannelOutput,
        state: Callable[[Callable[[int], None]], SubtaskState],
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        metrics: MetricGroup,
        keyed: bool,
        restore: Sequence[SubtaskSnapshot] | None = None,
        ended_before: bool = False,
        in_flight: tuple[Sequence[tuple[int, Element]], bool] = ((), False),
    ) -> None:
        """
        Args:
            in_flight: what was on its way to it in that checkpoint, with the numbers of channels (True) or inputs.
            restore: what the operator's subtasks had in the checkpoint that the job goes on from.
            ended_before: in that checkpoint the subtask had ended: it passes on the end and does nothing else.
        """
        self.host = host
        self.node_id = node_id
        self.uid = uid
        self.operator_name = name
        self.operator = operator
        self.gate = gate
        self.output = output
        self.subtask_index = subtask
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.metrics: abc.MetricGroup = metrics
        self._metrics = metrics
        self.job_name = host.job_name
        self.attempt = host.attempt
        self.clock = host.clock
        self.job_parameters = host.job_parameters
        self.checkpointing = host.checkpointing
        self.restored = False
        self.opened = False
        self._restore = restore
        self._ended_before = ended_before
        gate.replay(*in_flight)
        self._notices: deque[tuple[Callable[[int], Awaitable[None]], int]] = deque()
        self._released = False
        self._keyed = keyed
        self._scheduled: list[tuple[int, int, Callable[[int, Output], Awaitable[None]]]] = []
        self._sequence = itertools.count()
        self._alarm: TimerHandle | None = None
        self._alarm_at: int | None = None
        self._woken = False
        self.state = state(self._wake_at)
        #: Gives a backend on disk the chance to write back, between two elements.
        self._maintain = None if self.state.backend is None else self.state.maintain
        self._limit = BatchLimit(host.time_slice)
        self.records_in = 0
        metrics.gauge("numStateEntries", self.state.entries)
        self._waiting = Waiting()
        register_task_metrics(metrics, self.clock, output, self._waiting, lambda: self.records_in)
        metrics.gauge("currentInputWatermark", lambda: self.gate.watermark)
        for n in sorted({*gate.inputs}) if len({*gate.inputs}) > 1 else ():
            metrics.gauge(f"currentInput{n + 1}Watermark", partial(gate.watermark_of, n))

    # -- what the operator sees (abc.OperatorContext) ------------------------------------------------------------

    @property
    def store(self) -> KeyedStore:
        return self.state.store

    @property
    def event_time(self) -> int | None:
        return self.state.event_time

    @property
    def operator_store(self) -> OperatorStore:
        return self.state.operator_store

    def schedule(self, when: int, callback: Callable[[int, Output], Awaitable[None]]) -> None:
        heapq.heappush(self._scheduled, (when, next(self._sequence), callback))
        self._wake_at(when)

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        async def guarded() -> None:
            LOG_CONTEXT.set(LogContext(self.job_name, self.operator_name, self.subtask_index))
            try:
                await function()
            except Exception as e:
                note(e, self.where)
                raise

        self.host.spawn(guarded, f"{self.operator_name}[{self.subtask_index}] {name}")

    def wake(self) -> None:
        self._woken = True
        self.gate.poke()

    async def pause(self) -> None:
        await self.host.time_slice.check()

    def _wake_at(self, when: int) -> None:
        """Have the loop poked at processing time `when` (epoch ms), if nothing pokes it before."""
        if self._alarm_at is None or when < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = when
            self._alarm = self.clock.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = None
        self.gate.poke()

    @property
    def where(self) -> str:
        """Which subtask it is, for the notes of errors."""
        parallel = f" (subtask {self.subtask_index + 1} of {self.parallelism})" if self.parallelism > 1 else ""
        return f"in operator {self.operator_name!r}{parallel} of job {self.job_name!r}"

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until all inputs have ended. Errors leave with a note that says where."""
        LOG_CONTEXT.set(LogContext(self.job_name, self.operator_name, self.subtask_index))
        ended_by: BaseException | None = None
        try:
            if self._restore is not None:
                await self.state.restore(self._restore)
                self._restore = None
                self.restored = True
            await self.operator.open(self)
            self.opened = True
            await self._resume()
            await self._loop()
        except Exception as e:
            note_record(e)
            told = explained(e)
            note(told, self.where)
            ended_by = told
            if told is not e:
                raise told from e
            raise
        except BaseException as e:
            ended_by = e
            raise
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            try:
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT):
                    await self.operator.close()
            except Exception as e:
                where = f"in close(), {self.where}"
                note(e, where)
                if ended_by is None:
                    raise
                # Often it only follows from the first one, which is what has to be seen.
                said, key = self.host.said, f"close of {self.operator_name}"
                first = key not in said  # mostly the other subtasks fail alike
                said.add(key)
                _log.error("another error, %s: %s: %s", where, type(e).__name__, e, exc_info=e if first else None)
            finally:
                self.state.close()

    async def _loop(self) -> None:
        gate, operator, output, limit = self.gate, self.operator, self.output, self._limit
        time_slice, name, waiting = self.host.time_slice, self.operator_name, self._waiting
        check, now = time_slice.check, time_slice.now
        on_batch: tuple[Callable[[Batch, Output], Coroutine[Any, Any, None]], ...]
        if isinstance(operator, TwoInputOperator):
            on_batch = (operator.on_batch1, operator.on_batch2)
        else:
            on_batch = (operator.on_batch,)
        last = len(on_batch) - 1
        fresh = operator.fresh_context
        late = LateWatch(f"operator {name!r}", self._metrics.metrics.get("numLateRecordsDropped"))
        event_time = EventTimeWatch(
            self.clock,
            f"operator {name!r}",
            lambda: gate.watermark,
            lambda: held_back(gate.held_back_by, "input"),
            self.host.said,
        )
        maintain = self._maintain
        while True:
            element = gate.receive_nowait(limit.records)
            if element is None:
                with waiting:
                    element = await gate.receive(limit.records)
            if type(element) is Batch:
                # Looked at before the work: whoever was woken by others may find that they have used the slice up.
                started = now()
                if started >= time_slice.deadline:
                    await check()
                    started = now()
                size = len(element.values)
                self.records_in += size
                time_slice.holder = name
                waited = output.waited + output.yielded
                work = on_batch[gate.input if gate.input < last else last](element, output)
                await (in_fresh_context(work) if fresh else work)
                limit.observe(size, now() - started - (output.waited + output.yielded - waited))
                if maintain is not None:
                    maintain()
                if not late.over:
                    late.saw(element, gate.watermark)
                if not event_time.over:
                    event_time.saw(self.records_in)
                continue
            match element:
                case Watermark(timestamp):
                    work = self._on_watermark(timestamp)
                    await (in_fresh_context(work) if fresh else work)
                case WatermarkStatus(idle):
                    status = await operator.on_idle(idle, output)
                    if status is not None:
                        await output.idle(status)
                case Barrier():
                    await self._on_barrier(element)
                case EndOfInput():
                    await self._on_end(element)
                    return
                case Tick():
                    await self._on_tick()
            await check()

    async def _on_watermark(self, timestamp: int) -> None:
        operator, output = self.operator, self.output
        if self._keyed:
            self.state.timers.current_watermark = timestamp
            store, check = self.state.store, self.host.time_slice.check
            for timer in self.state.due_event_timers(timestamp):
                store.key = timer.key
                await operator.on_event_timer(timer, output)
                if self._maintain is not None:
                    self._maintain()
                await check()
        forward = await operator.on_watermark(timestamp, output)
        if forward is not None:
            await output.watermark(forward)

    async def _on_barrier(self, barrier: Barrier) -> None:
        await self.operator.on_barrier(barrier, self.output)
        incremental = self.host.incremental and not barrier.savepoint
        capture = self._capture(barrier.checkpoint_id, incremental)
        cut = self.gate.cut
        if barrier.unaligned and cut is not None:
            self.output.overtake(barrier)
            self.host.captured(self, barrier, UnalignedCapture(capture, cut, self.gate.inputs))
        else:
            self.output.broadcast(barrier)
            self.host.captured(self, barrier, capture)

    def _capture(self, checkpoint_id: int, incremental: bool) -> Capture:
        capture = self.state.capture(
            checkpoint_id, incremental, self.gate.watermark, self.output.emitted, self.operator.event_time
        )
        capture.rest = self.host.time_slice.check
        return capture

    async def _resume(self) -> None:
        """Event time goes on from where it was in the checkpoint that the job goes on from.

        Timers that are due wait for the next watermark, as they did: those that were registered for a time that had
        passed already.
        """
        watermark = self.state.watermark
        if watermark is not None:
            self.gate.start_from(watermark)
            self.state.timers.current_watermark = watermark
            forward = await self.operator.on_watermark(watermark, self.output)
            if forward is not None:
                await self.output.watermark(forward)
        if self.state.emitted is not None:
            await self.output.watermark(self.state.emitted)

    async def _on_end(self, element: EndOfInput) -> None:
        """All inputs have ended: say so, and stay until what this subtask ended with is safe."""
        operator, output, capture = self.operator, self.output, None
        if element.drain and not self._ended_before:
            await operator.on_end(output)
        if self.checkpointing and element.drain:
            barrier = Barrier(self.host.final_id(self), self.clock.now())
            await operator.on_barrier(barrier, output)
            capture = self._capture(barrier.checkpoint_id, False)
        output.broadcast(element)
        if self.host.finished(self, capture):
            while not self._released:
                await self.gate.receive()
                await self._heed_notices()
        await self._heed_notices()

    # -- what becomes of checkpoints -----------------------------------------------------------------------------

    def notify_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: the operator is told, between two elements."""
        self._notices.append((self.operator.on_checkpoint_complete, checkpoint_id))
        self.gate.poke()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up: the operator is told, and nobody waits for its barriers any more."""
        self.gate.give_up(checkpoint_id)
        self._notices.append((self.operator.on_checkpoint_aborted, checkpoint_id))
        self.gate.poke()

    def expedite(self, checkpoint_id: int) -> None:
        """Aligning a checkpoint takes too long: its barriers overtake from now on."""
        self.gate.expedite(checkpoint_id)

    def release(self) -> None:
        """What this subtask ended with is safe: it may go."""
        self._released = True
        self.gate.poke()

    async def _heed_notices(self) -> None:
        while self._notices:
            tell, checkpoint_id = self._notices.popleft()
            await tell(checkpoint_id)

    async def _on_tick(self) -> None:
        operator, output = self.operator, self.output
        if self._notices:
            await self._heed_notices()
        if self._woken:
            self._woken = False
            await operator.on_wake(output)
        now = self.clock.now()
        scheduled = self._scheduled
        while scheduled and scheduled[0][0] <= now:
            when, _, callback = heapq.heappop(scheduled)
            await callback(when, output)
        if self._keyed:
            store, check = self.state.store, self.host.time_slice.check
            for timer in self.state.due_processing_timers(now):
                store.key = timer.key
                await operator.on_processing_timer(timer, output)
                if self._maintain is not None:
                    self._maintain()
                await check()
        next_times = [scheduled[0][0]] if scheduled else []
        if self._keyed and (due := self.state.next_processing_timer()) is not None:
            next_times.append(due)
        if next_times:
            self._wake_at(min(next_times))
