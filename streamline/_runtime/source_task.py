"""The loop of one subtask of a source: reads, stamps, emits watermarks, injects barriers when told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, final

import anyio
from msgspec.structs import replace

from streamline import abc
from streamline._channel.output import ChannelOutput
from streamline._channel.watermarks import WatermarkMerger
from streamline._core.elements import (
    MAX_TIMESTAMP,
    Barrier,
    Batch,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from streamline._core.log_context import LOG_CONTEXT, LogContext
from streamline._core.time import Clock, TimerHandle
from streamline._core.watermarks import NoWatermarks, WatermarkStrategy, WatermarkTracker
from streamline._runtime.event_time_watch import EventTimeWatch, held_back
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.task import CLOSE_TIMEOUT, TaskHost, note
from streamline._runtime.task_metrics import Waiting, register_task_metrics
from streamline._runtime.watermark_alignment import AlignmentGroups
from streamline._state.source_state import SourceCapture, SourceShare
from streamline.abc import SourceReader, Split, SplitBatch
from streamline.errors import StreamlineError

__all__ = ("SourceTask",)

#: Records asked of a reader at a time.
BATCH_SIZE = 1024


class _SplitState:
    """Event time of one split."""

    __slots__ = ("input", "last_seen", "paused", "split", "tracker")

    def __init__(self, split: Split, number: int, strategy: WatermarkStrategy[Any] | None, clock: Clock) -> None:
        self.split = split
        self.input = number
        self.tracker = strategy.tracker(clock.now) if strategy is not None else None
        self.last_seen = clock.now()
        #: Held back by watermark alignment; not idle, though nothing comes.
        self.paused = False


@final
class SourceTask:
    """Runs one subtask of a source; it is the reader's context too."""

    def __init__(
        self,
        *,
        host: TaskHost,
        node_id: int,
        uid: str,
        name: str,
        reader: SourceReader[Any],
        strategy: WatermarkStrategy[Any] | None,
        share: SourceShare,
        output: ChannelOutput,
        subtask: int,
        parallelism: int,
        metrics: MetricGroup,
        watermark_interval: int,
        alignment: AlignmentGroups,
        ended_before: bool = False,
        restored: bool = False,
    ) -> None:
        """
        Args:
            share: what to read, and where to go on.
            ended_before: in that checkpoint the subtask had ended: it ends at once.
            restored: the job goes on from a checkpoint.
        """
        self.host = host
        self.node_id = node_id
        self.uid = uid
        self.operator_name = name
        self.reader = reader
        self.output = output
        self.subtask_index = subtask
        self.parallelism = parallelism
        self.max_parallelism = 0  # it has no key groups
        self.metrics: abc.MetricGroup = metrics
        self.job_name = host.job_name
        self.clock = host.clock
        self.restored = restored
        self._strategy = strategy
        self._given = list(share.splits)
        self._share = share
        self._merger = WatermarkMerger(0)
        self._splits: dict[str, _SplitState] = {}
        self._interval = watermark_interval
        self._alignment = alignment
        self._alignment_due = False
        self._alignment_alarm: TimerHandle | None = None
        #: Every split is ahead of the group: nothing is read.
        self._held = False
        self._tick: TimerHandle | None = None
        self._tick_due = False
        self._waiter: asyncio.Future[None] | None = None
        self._woken = False
        self._barriers: deque[Barrier] = deque()
        self._new_splits: list[tuple[Split, Any]] = []
        self._stop: bool | None = None
        #: End behind the barrier of this checkpoint.
        self._stop_behind: int | None = None
        self._read = list(share.read)
        self._ended_before = ended_before
        self._ended_splits: set[str] = {split.id for split in share.read}
        self._positions: dict[int, Mapping[str, Any]] = {}
        self._completed: deque[int] = deque()
        self._released = False
        where = f"source {name!r}"
        self._watch = EventTimeWatch(self.clock, where, lambda: self._merger.merged, self._reason, host.said)
        self._waiting = Waiting()
        register_task_metrics(metrics, self.clock, output, self._waiting)
        if strategy is not None and strategy.max_ahead is not None:
            metrics.gauge("numRecordsAhead", lambda: sum(t.ahead for t in self._trackers()))
            metrics.gauge("maxTimestampAhead", lambda: max((t.furthest for t in self._trackers()), default=0))

    # -- what others say to it -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to do."""
        self._woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """The reader works off a backlog, or no longer."""
        self.host.backlog(self, is_processing_backlog)

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        async def guarded() -> None:
            LOG_CONTEXT.set(LogContext(self.job_name, self.operator_name, self.subtask_index))
            try:
                await function()
            except Exception as e:
                note(e, self.where)
                raise

        self.host.spawn(guarded, f"{self.operator_name}[{self.subtask_index}] {name}")

    def inject(self, barrier: Barrier, stop: bool = False) -> None:
        """Send a barrier behind what has been read; with `stop`, end behind it, and leave event time open."""
        if stop:
            self._stop_behind = barrier.checkpoint_id
        self._barriers.append(barrier)
        self.wake()

    def expedite(self, checkpoint_id: int) -> None:
        """Aligning a checkpoint takes too long: its barrier, where it is not sent yet, overtakes."""
        self._barriers = deque(
            replace(b, unaligned=True) if b.checkpoint_id == checkpoint_id else b for b in self._barriers
        )

    def notify_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: the reader is told, with the positions that it holds."""
        self._completed.append(checkpoint_id)
        self.wake()

    def notify_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up."""
        self._positions.pop(checkpoint_id, None)

    def release(self) -> None:
        """What this subtask ended with is safe: it may go."""
        self._released = True
        self.wake()

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        """Read these too."""
        self._new_splits.extend(splits)
        self.wake()

    def stop(self, drain: bool) -> None:
        """End the source now; with `drain` event time is closed as at the end of the input."""
        self._stop = drain
        self.wake()

    def positions(self) -> Mapping[str, Any]:
        """By split: where to go on."""
        return self.reader.positions()

    @property
    def splits(self) -> Sequence[Split]:
        """The splits it has been given."""
        return [s.split for s in self._splits.values()]

    @property
    def where(self) -> str:
        """Which subtask it is, for the notes of errors."""
        parallel = f" (subtask {self.subtask_index + 1} of {self.parallelism})" if self.parallelism > 1 else ""
        return f"in source {self.operator_name!r}{parallel} of job {self.job_name!r}"

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until every split has been read to its end. Errors leave with a note that says where."""
        LOG_CONTEXT.set(LogContext(self.job_name, self.operator_name, self.subtask_index))
        try:
            self._note_splits(self._given)
            await self.reader.open(self, self._given)
            await self._resume()
            if self._strategy is not None:
                if not self._splits:
                    await self.output.idle(True)
                elif self._strategy.idle_timeout is not None or self._always_tick:
                    self._schedule_tick()
                if self._strategy.alignment_group is not None:
                    self._schedule_alignment(self._strategy)
            await self._loop()
        except Exception as e:
            note(e, self.where)
            raise
        finally:
            for alarm in (self._tick, self._alignment_alarm):
                if alarm is not None:
                    alarm.cancel()
            self._leave_alignment()
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT):
                await self.reader.close()

    async def _resume(self) -> None:
        """Event time goes on from where it was in the checkpoint that the job goes on from."""
        moved = self._share.emitted
        for id_, (emitted, reached) in self._share.marks.items():
            state = self._splits.get(id_)
            if state is not None and state.tracker is not None:
                state.tracker.resume(emitted, reached)
                merged = self._merger.advance(state.input, emitted)
                if merged is not None:
                    moved = merged if moved is None else max(moved, merged)
                self._tick_due = True
        if moved is not None:
            await self.output.watermark(moved)

    async def _loop(self) -> None:
        reader, time_slice = self.reader, self.host.time_slice
        check, now = time_slice.check, time_slice.now
        while not self._ended_before:
            if now() >= time_slice.deadline:
                await check()
            if self._stop is not None:
                break
            self._woken = False
            if self._barriers or self._completed or self._new_splits or self._tick_due or self._alignment_due:
                await self._on_control()
                continue
            if self._held:
                await self._wait()
                continue
            got = reader.poll(BATCH_SIZE)
            if got is None:
                if reader.finished:
                    break
                self._end_splits()
                await self._wait()
            elif isinstance(got, SplitBatch):
                await self._emit(got)
            else:
                await self._pass_on(got)
        self._ended_splits.update(reader.finished_splits())
        while self._barriers:
            await self._on_control()
        if self._stop is None or self._stop:
            await self.output.idle(False)
            await self.output.watermark(MAX_TIMESTAMP)
        capture = None if self._stop is False else self._capture(self.host.final_id(self))
        self.output.broadcast(EndOfInput(self._stop is not False))
        if self.host.finished(self, capture):
            while not self._released:
                self._woken = False
                await self._heed_completed()
                await self._wait()
        await self._heed_completed()

    def _capture(self, checkpoint_id: int) -> SourceCapture:
        """The positions as they are now."""
        splits = [*self._read, *self.splits]
        positions = self.reader.positions()
        self._positions[checkpoint_id] = positions
        trackers = {id_: s.tracker for id_, s in self._splits.items() if s.tracker is not None}
        return SourceCapture(
            checkpoint_id,
            self.subtask_index,
            self.parallelism,
            splits,
            positions,
            self._ended_splits,
            {id_: (tracker.emitted, tracker.reached) for id_, tracker in trackers.items()},
            self.output.emitted,
        )

    async def _heed_completed(self) -> None:
        while self._completed:
            checkpoint_id = self._completed.popleft()
            positions = self._positions.pop(checkpoint_id, None)
            self._positions = {n: p for n, p in self._positions.items() if n > checkpoint_id}
            if positions is not None:
                await self.reader.on_checkpoint_complete(checkpoint_id, positions)

    async def _wait(self) -> None:
        if self._woken:
            return
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            with self._waiting:
                await waiter
        finally:
            self._waiter = None

    async def _on_control(self) -> None:
        if self._new_splits:
            splits, self._new_splits = self._new_splits, []
            self._note_splits(splits)
            if self._strategy is not None:
                await self.output.idle(False)  # where all splits so far were idle, or there was none
                if self._strategy.idle_timeout is not None or self._always_tick:
                    self._schedule_tick()
            await self.reader.add_splits(splits)
        if self._tick_due:
            self._tick_due = False
            if await self._on_tick():
                self._schedule_tick()
        if self._alignment_due and self._strategy is not None:
            self._alignment_due = False
            self._align(self._strategy)
        await self._heed_completed()
        if self._barriers:
            await self._pass_on(self._barriers.popleft())

    async def _pass_on(self, element: Watermark | WatermarkStatus | Barrier) -> None:
        if isinstance(element, Watermark):
            await self.output.watermark(element.timestamp)
        elif isinstance(element, WatermarkStatus):
            await self.output.idle(element.idle)
        else:
            self.host.captured(self, element, self._capture(element.checkpoint_id))
            if element.unaligned:
                self.output.overtake(element)
            else:
                self.output.broadcast(element)
            if element.checkpoint_id == self._stop_behind:
                self._stop = False

    def _note_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, _ in splits:
            self._splits[split.id] = _SplitState(split, self._merger.add_input(), self._strategy, self.clock)

    def _state_of(self, split: str) -> _SplitState:
        found = self._splits.get(split)
        if found is None:
            raise StreamlineError(f"the reader gave records of split {split!r}, which it was never given")
        return found

    async def _emit(self, got: SplitBatch) -> None:
        output = self.output
        if self._strategy is None:
            await output.send(Batch(got.values, got.timestamps, got.kinds))
            return
        if self._tick is None:
            self._schedule_tick()
        state = self._state_of(got.split)
        tracker = state.tracker
        assert tracker is not None
        timestamps = tracker.stamp(got.values, got.timestamps)
        batch = Batch(got.values, timestamps, got.kinds)
        if self._strategy.idle_timeout is not None:
            state.last_seen = self.clock.now()
            await self._say(*self._merger.set_idle(state.input, False))
        cuts = tracker.observe(got.values, timestamps)
        if not cuts:
            await output.send(batch)
            return
        start = 0
        for position, mark in cuts:
            await output.send(batch.slice(start, position + 1))
            start = position + 1
            await self._say(self._merger.advance(state.input, mark), None)
        if start < len(batch):
            await output.send(batch.slice(start, len(batch)))

    def _trackers(self) -> list[WatermarkTracker]:
        return [s.tracker for s in self._splits.values() if isinstance(s.tracker, WatermarkTracker)]

    async def _say(self, moved: int | None, idle: bool | None) -> None:
        if moved is not None:
            await self.output.watermark(moved)
        if idle is not None:
            await self.output.idle(idle)

    # -- periodic watermarks and idleness ------------------------------------------------------------------------

    def _schedule_tick(self) -> None:
        """Ask for a tick one interval from now. A source that has nothing new to say has none: it costs nothing."""
        if self._interval > 0 and self._tick is None:
            self._tick = self.clock.call_at(self.clock.now() + self._interval, self._on_alarm)

    def _on_alarm(self) -> None:
        self._tick = None
        self._tick_due = True
        self.wake()

    @property
    def _always_tick(self) -> bool:
        """Whether a generator of the user's may advance without records."""
        return any(s.tracker is not None and not s.tracker.by_records_only for s in self._splits.values())

    def _reason(self) -> str | None:
        """Why there is no watermark, for people."""
        splits = {s.input: name for name, s in self._splits.items()}
        by = [splits[i] for i in self._merger.held_back_by if i in splits]
        if by or self._strategy is None or self._strategy.generator is NoWatermarks:
            return held_back(by, "split")
        return f"the strategy ({self._strategy.text}) has given none. Have the records timestamps?"

    async def _on_tick(self) -> bool:
        """Emit what is due; gives whether another tick is needed though no record comes."""
        if not self._watch.over:
            self._watch.saw(self.output.records)
        self._end_splits()  # also while others have records without a pause: an ended split holds nothing back
        timeout = self._strategy.idle_timeout if self._strategy is not None else None
        now = self.clock.now()
        for state in self._splits.values():
            if state.tracker is None:
                continue
            mark = state.tracker.advance()
            if mark is not None:
                await self._say(self._merger.advance(state.input, mark), None)
            if timeout is not None and not state.paused and now - state.last_seen >= timeout:
                await self._say(*self._merger.set_idle(state.input, True))
        return self._always_tick or (timeout is not None and not self._merger.idle)

    # -- watermark alignment -------------------------------------------------------------------------------------

    def _schedule_alignment(self, strategy: WatermarkStrategy[Any]) -> None:
        def ring() -> None:
            self._alignment_due = True
            self.wake()

        self._alignment_alarm = self.clock.call_at(self.clock.now() + strategy.alignment_interval, ring)

    def _align(self, strategy: WatermarkStrategy[Any]) -> None:
        """Report how far this source is; hold back the splits that are ahead of the group by more than the drift."""
        group = strategy.alignment_group
        assert group is not None
        live = {name: s.tracker.reached for name, s in self._splits.items() if s.tracker is not None}
        active = [reached for name, reached in live.items() if not self._merger.is_excused(self._splits[name].input)]
        self._alignment.report(group, self, min(active) if active else None)
        limit = self._alignment.limit(group, strategy.alignment_max_drift)
        now = self.clock.now()
        pause: list[str] = []
        resume: list[str] = []
        for name, reached in live.items():
            state = self._splits[name]
            ahead = reached > limit
            if ahead != state.paused:
                state.paused = ahead
                state.last_seen = now
                (pause if ahead else resume).append(name)
        if pause or resume:
            self.reader.pause(pause, resume)
        self._held = bool(live) and all(s.paused for s in self._splits.values())
        self._schedule_alignment(strategy)

    def _leave_alignment(self) -> None:
        if self._strategy is not None and self._strategy.alignment_group is not None:
            self._alignment.report(self._strategy.alignment_group, self, None)

    def _end_splits(self) -> None:
        for split in self.reader.finished_splits():
            self._ended_splits.add(split)
            state = self._splits.get(split)
            if state is not None:
                moved, idle = self._merger.end(state.input)
                if moved is not None:
                    self.output.broadcast(Watermark(moved))
                    self.output.emitted = moved
                if idle is not None:
                    self.output.idle_sent = idle
                    self.output.broadcast(WatermarkStatus(idle))
