"""Checkpoints as a pure state machine: what happened goes in, what is to be done comes out. No I/O, no clock, no tasks.

A checkpoint is triggered, acknowledged by every subtask, stored, and then it is complete; or it is aborted on the way.
A subtask that has ended counts with the state it ended with. `Checkpoints.due` says when `on_time` wants to be called.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from streamline._core.elements import Barrier
from streamline.errors import CheckpointException

__all__ = (
    "Abort",
    "Answer",
    "CheckpointSettings",
    "Checkpoints",
    "Complete",
    "Drain",
    "Fail",
    "Instruction",
    "Release",
    "Savepoint",
    "Store",
    "Trigger",
)

#: A subtask; any value that names it.
Task: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """When checkpoints are taken and what is done when one fails. Milliseconds; Flink's defaults.

    Attributes:
        interval: from one trigger to the next; None: only savepoints.
        min_pause: at least that long between the end of one and the next trigger.
        timeout: how long one may take.
        max_concurrent: how many may be under way at once.
        tolerable_failures: how many may fail in a row before the job does.
        unaligned: barriers overtake records, which then belong to the checkpoint.
        aligned_timeout: with `unaligned`, they begin to do so when they were not aligned for so long.
        exactly_once: inputs that are ahead wait for the others.
        interval_during_backlog: from one trigger to the next while a source works off a backlog; 0: none meanwhile;
            None: `interval`.
    """

    interval: int | None = None
    min_pause: int = 0
    timeout: int = 600_000
    max_concurrent: int = 1
    tolerable_failures: int = 0
    unaligned: bool = False
    aligned_timeout: int = 0
    exactly_once: bool = True
    interval_during_backlog: int | None = None


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that somebody asked for.

    Attributes:
        request: what `Answer` names it by.
        target: the folder to put it into; None: the configured one.
        stop: end the job with it.
        drain: with `stop`: close event time first, so that windows and timers fire.
    """

    request: Hashable
    target: str | None = None
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    """Let the sources that still run send this barrier. With `stop` they end behind it; with `drain` before it."""

    barrier: Barrier
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the sources end as at the end of their input: what follows is the last checkpoint."""


@dataclass(frozen=True, slots=True)
class Store:
    """Every subtask has acknowledged: write the checkpoint's description. Answered by `on_stored` or `on_store_failed`.

    Attributes:
        parts: what each subtask handed over.
        ended: subtasks whose part is what they ended with.
    """

    checkpoint_id: int
    timestamp: int
    parts: Mapping[Task, Any]
    ended: frozenset[Task]
    savepoint: Savepoint | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    """The checkpoint is complete: let go of what older ones kept and, where it is `lasting`, tell the subtasks."""

    checkpoint_id: int
    savepoint: Savepoint | None = None

    @property
    def lasting(self) -> bool:
        """Whether the job can be taken back to it, and to nothing before.

        A savepoint that the job goes on after is none that a failure takes it back to: what it holds is committed with
        the next checkpoint, or a failure before that would bring it a second time.
        """
        return self.savepoint is None or self.savepoint.stop


@dataclass(frozen=True, slots=True)
class Abort:
    """The checkpoint is given up: tell the subtasks, delete what was written of it."""

    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Release:
    """These subtasks have ended and what they ended with is safe: they may go."""

    tasks: frozenset[Task]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a savepoint: where it is, or why it is not."""

    request: Hashable
    location: str | None = None
    error: CheckpointException | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The job cannot go on."""

    error: CheckpointException


#: What is to be done.
Instruction: TypeAlias = Trigger | Drain | Store | Complete | Abort | Release | Answer | Fail


@dataclass(slots=True)
class _Pending:
    """One checkpoint under way."""

    barrier: Barrier
    waiting: set[Task]
    parts: dict[Task, Any]
    ended: set[Task]
    savepoint: Savepoint | None = None
    storing: bool = False


@dataclass(slots=True)
class Statistics:
    """What became of the checkpoints so far; times in epoch ms and ms."""

    triggered: int = 0
    completed: int = 0
    failed: int = 0
    #: Since the last complete one; savepoints do not count.
    failed_in_a_row: int = 0
    last_id: int | None = None
    last_completed_at: int | None = None
    last_duration: int | None = None
    last_failure: str | None = None


@dataclass(slots=True)
class _Attempt:
    """What is forgotten when the job restarts."""

    tasks: frozenset[Task] = frozenset()
    ended: dict[Task, Any] = field(default_factory=dict)
    released: set[Task] = field(default_factory=set)
    stopping: Savepoint | None = None
    #: A drain is under way: the savepoint follows when everybody has ended.
    draining: bool = False
    running: bool = False


class Checkpoints:
    """The checkpoints of one job.

    Every method takes the time (epoch ms) and gives instructions, to be followed in their order.
    """

    def __init__(self, settings: CheckpointSettings, next_id: int = 1) -> None:
        self.settings: Final = settings
        self.statistics: Final = Statistics()
        self._next_id = next_id
        self._pending: dict[int, _Pending] = {}
        self._requests: list[Savepoint] = []
        self._attempt = _Attempt()
        self._next_trigger: int | None = None
        self._pause_until = 0
        self._failures = 0
        #: Who works off a backlog. Tasks that are starting say so before `begin`.
        self._backlog: set[Task] = set()
        #: When the last checkpoint of a job that has ended is tried again.
        self._retry_at: int | None = None

    # -- questions -----------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        """When `on_time` has to be called next, epoch ms; None: not before something else happens."""
        if not self._attempt.running:
            return None
        times = [p.barrier.timestamp + self.settings.timeout for p in self._pending.values()]
        if self._may_trigger():
            times.append(self._trigger_at())
        elif self._retry_at is not None and self._last_is_missing():
            times.append(self._retry_at)
        return min(times, default=None)

    @property
    def next_id(self) -> int:
        """The id of the checkpoint that is triggered next."""
        return self._next_id

    def final_id(self, task: Task, captured: int = 0) -> int:
        """The first checkpoint that will hold what the subtask ends with: one after `captured`, its last capture."""
        open_ = [n for n, p in self._pending.items() if task in p.waiting and n > captured]
        return min(open_, default=self._next_id)

    def savepoint(self, checkpoint_id: int) -> Savepoint | None:
        """The savepoint that a checkpoint under way is for."""
        pending = self._pending.get(checkpoint_id)
        return None if pending is None else pending.savepoint

    def continue_after(self, checkpoint_id: int) -> None:
        """The job starts from this checkpoint: ids rise from there."""
        self._next_id = max(self._next_id, checkpoint_id + 1)

    def _may_trigger(self) -> bool:
        """Whether a periodic checkpoint could be triggered when its time has come."""
        attempt = self._attempt
        return (
            attempt.running
            and self._next_trigger is not None
            and attempt.stopping is None
            and not self._requests
            and len(self._pending) < self.settings.max_concurrent
            and all(p.savepoint is None for p in self._pending.values())
            and not self._everybody_ended
        )

    def _last_is_missing(self) -> bool:
        attempt = self._attempt
        return attempt.running and self._everybody_ended and not self._pending and attempt.released != attempt.tasks

    @property
    def _everybody_ended(self) -> bool:
        return bool(self._attempt.tasks) and self._attempt.tasks == self._attempt.ended.keys()

    @property
    def _period(self) -> int | None:
        """From one trigger to the next as things are; None: there is no next."""
        settings = self.settings
        if self._backlog and settings.interval is not None and settings.interval_during_backlog is not None:
            return settings.interval_during_backlog or None
        return settings.interval

    def _trigger_at(self) -> int:
        return max(self._next_trigger or 0, self._pause_until)

    # -- what happens --------------------------------------------------------------------------------------------

    def begin(self, now: int, tasks: Iterable[Task]) -> list[Instruction]:
        """The tasks of an attempt are running."""
        self._attempt = _Attempt(tasks=frozenset(tasks), running=True)
        self._pause_until = 0
        self._retry_at = None
        self._failures = 0
        if self.settings.interval is not None:
            self._next_trigger = None if self._period is None else now + self.settings.interval
        return self._go_on(now)

    def on_time(self, now: int) -> list[Instruction]:
        """Some time has passed."""
        done: list[Instruction] = []
        for n, pending in list(self._pending.items()):
            if (
                self._attempt.running
                and n in self._pending
                and pending.barrier.timestamp + self.settings.timeout <= now
            ):
                late = sorted(map(str, pending.waiting))
                whom = f"; not acknowledged by {', '.join(late[:5])}" if late else "; it was not stored in time"
                more = f" and {len(late) - 5} more" if len(late) > 5 else ""
                done += self._fail(now, n, f"it expired after {self.settings.timeout} ms{whom}{more}")
        return done + self._go_on(now)

    def on_ack(self, now: int, checkpoint_id: int, task: Task, part: Any) -> list[Instruction]:
        """A subtask has saved its state."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or task not in pending.waiting:
            return []
        pending.waiting.discard(task)
        pending.parts[task] = part
        return self._store_if_whole(checkpoint_id)

    def on_decline(
        self, now: int, checkpoint_id: int, task: Task | str, reason: str, error: Exception | None = None
    ) -> list[Instruction]:
        """A subtask cannot save its state, because of this error."""
        if checkpoint_id not in self._pending:
            return []
        return self._fail(now, checkpoint_id, f"{task} could not save its state: {reason}", error) + self._go_on(now)

    def on_ended(self, now: int, task: Task, part: Any) -> list[Instruction]:
        """A subtask has ended with this state; it counts for every checkpoint that waits for the subtask."""
        attempt = self._attempt
        attempt.ended[task] = part
        self._note_backlog(now, task, False)
        done: list[Instruction] = []
        for n, pending in list(self._pending.items()):
            if task in pending.waiting:
                pending.waiting.discard(task)
                pending.parts[task] = part
                pending.ended.add(task)
                done += self._store_if_whole(n)
        if self.settings.interval is None and attempt.stopping is None and not self._pending:
            done.append(Release(frozenset({task})))  # nobody takes checkpoints: there is nothing to wait for
            attempt.released.add(task)
            return done
        return done + self._go_on(now)

    def on_backlog(self, now: int, task: Task, processing: bool) -> list[Instruction]:
        """A source works off a backlog, or no longer.

        The checkpoint that is next by then keeps its time, unless it is later than the interval that holds now, or
        there are to be none.
        """
        if task not in self._attempt.ended:
            self._note_backlog(now, task, processing)
        return self._go_on(now)

    def on_stored(self, now: int, checkpoint_id: int, location: str) -> list[Instruction]:
        """The checkpoint's description is written: it is complete."""
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return []
        done: list[Instruction] = []
        for older in [n for n, p in self._pending.items() if n < checkpoint_id and p.savepoint is None]:
            del self._pending[older]
            done.append(Abort(older, f"checkpoint {checkpoint_id} has overtaken it"))
        self._failures = 0
        self._retry_at = None
        self._pause_until = now + self.settings.min_pause
        statistics = self.statistics
        statistics.completed += 1
        statistics.failed_in_a_row = 0
        statistics.last_id = checkpoint_id
        statistics.last_completed_at = now
        statistics.last_duration = now - pending.barrier.timestamp
        complete = Complete(checkpoint_id, pending.savepoint)
        done.append(complete)
        if pending.savepoint is not None:
            done.append(Answer(pending.savepoint.request, location))
        stopping = self._attempt.stopping
        if stopping is not None and stopping is pending.savepoint:
            done.append(self._release(self._attempt.tasks - self._attempt.released))
            self._attempt.running = False
        elif (go := pending.ended - self._attempt.released) and (complete.lasting or self.settings.interval is None):
            done.append(self._release(go))
        return done + self._go_on(now)

    def on_store_failed(
        self, now: int, checkpoint_id: int, reason: str, error: Exception | None = None
    ) -> list[Instruction]:
        """The checkpoint's description could not be written, because of this error."""
        if checkpoint_id not in self._pending:
            return []
        return self._fail(now, checkpoint_id, f"it could not be stored: {reason}", error) + self._go_on(now)

    def request(self, now: int, savepoint: Savepoint) -> list[Instruction]:
        """Somebody wants a savepoint."""
        attempt = self._attempt
        if not attempt.running or attempt.stopping is not None:
            why = "the job is stopping already" if attempt.stopping is not None else "the job is not running"
            return [Answer(savepoint.request, error=CheckpointException(f"no savepoint: {why}"))]
        self._requests.append(savepoint)
        return self._go_on(now)

    def stop(self, reason: str) -> list[Instruction]:
        """The attempt has failed, or the job ends: everything under way is given up."""
        done: list[Instruction] = []
        for n, pending in self._pending.items():
            done.append(Abort(n, reason))
            if pending.savepoint is not None:
                done.append(_refusal(pending.savepoint, n, reason))
        done += [_refusal(s, None, reason) for s in self._requests]
        if self._attempt.draining and self._attempt.stopping is not None:
            done.append(_refusal(self._attempt.stopping, None, reason))
        self._pending.clear()
        self._requests.clear()
        self._backlog.clear()
        self._attempt = _Attempt()
        return done

    # -- rules ---------------------------------------------------------------------------------------------------

    def _go_on(self, now: int) -> list[Instruction]:
        """Trigger what may be triggered now."""
        attempt = self._attempt
        if not attempt.running:
            return []
        if self._everybody_ended:
            return self._last(now)
        if self._requests and not self._pending and attempt.stopping is None:
            savepoint = self._requests.pop(0)
            if savepoint.stop:
                attempt.stopping = savepoint
                if savepoint.drain:
                    attempt.draining = True
                    return [Drain()]  # the savepoint is taken when everybody has ended
            return self._trigger(now, savepoint)
        if self.settings.interval is not None and self._may_trigger() and self._trigger_at() <= now:
            self._next_trigger = None if self._period is None else now + self._period
            return self._trigger(now, None)
        return []

    def _note_backlog(self, now: int, task: Task, processing: bool) -> None:
        if processing:
            self._backlog.add(task)
        else:
            self._backlog.discard(task)
        if not self._attempt.running or self.settings.interval is None:
            return
        if self._period is None:
            self._next_trigger = None
        elif self._next_trigger is None or now + self._period < self._next_trigger:
            self._next_trigger = now + self._period

    def _last(self, now: int) -> list[Instruction]:
        """Everybody has ended: one checkpoint that holds what all of them ended with, and they may go."""
        attempt = self._attempt
        if not self._last_is_missing():
            return []
        if attempt.stopping is not None:
            if not attempt.draining:
                return []
            attempt.draining = False
            return self._trigger(now, attempt.stopping)
        if self.settings.interval is None:
            return [self._release(attempt.tasks - attempt.released)]
        if self._retry_at is not None and now < self._retry_at:
            return []
        return self._trigger(now, None)

    def _trigger(self, now: int, savepoint: Savepoint | None) -> list[Instruction]:
        attempt = self._attempt
        n = self._next_id
        self._next_id += 1
        self.statistics.triggered += 1
        settings = self.settings
        # With a timeout a checkpoint begins aligned; whoever carries it out lets its barriers overtake later.
        unaligned = settings.unaligned and not settings.aligned_timeout and settings.exactly_once and savepoint is None
        barrier = Barrier(n, now, savepoint=savepoint is not None, unaligned=unaligned)
        self._pending[n] = _Pending(
            barrier=barrier,
            waiting=set(attempt.tasks - attempt.ended.keys()),
            parts=dict(attempt.ended),
            ended=set(attempt.ended),
            savepoint=savepoint,
        )
        return [Trigger(barrier, savepoint is not None and savepoint.stop), *self._store_if_whole(n)]

    def _store_if_whole(self, n: int) -> list[Instruction]:
        pending = self._pending[n]
        if pending.waiting or pending.storing:
            return []
        pending.storing = True
        return [Store(n, pending.barrier.timestamp, pending.parts, frozenset(pending.ended), pending.savepoint)]

    def _release(self, tasks: Iterable[Task]) -> Release:
        go = frozenset(tasks)
        self._attempt.released |= go
        return Release(go)

    def _fail(self, now: int, n: int, reason: str, cause: Exception | None = None) -> list[Instruction]:
        """Give a checkpoint up; too many in a row fail the job, with the last one's cause as cause."""
        pending = self._pending.pop(n)
        self.statistics.failed += 1
        self.statistics.failed_in_a_row += pending.savepoint is None
        self.statistics.last_failure = reason
        done: list[Instruction] = [Abort(n, reason)]
        if pending.savepoint is not None:
            done.append(_refusal(pending.savepoint, n, reason))
            if pending.savepoint is self._attempt.stopping:
                self._attempt.running = False
                failure = CheckpointException(f"stop-with-savepoint: savepoint {n} failed: {reason}")
                failure.__cause__ = cause
                done.append(Fail(failure))
            return done
        self._failures += 1
        if self._failures > self.settings.tolerable_failures:
            allowed = self.settings.tolerable_failures
            self._attempt.running = False
            failure = CheckpointException(
                f"checkpoint {n} failed: {reason}. {self._failures} in a row have failed, and {allowed} are "
                "tolerated (execution.checkpointing.tolerable-failed-checkpoints)"
            )
            failure.__cause__ = cause
            done.append(Fail(failure))
        else:
            self._pause_until = max(self._pause_until, now + self.settings.min_pause)
            self._retry_at = now + (self.settings.interval or 0)
        return done


def _refusal(savepoint: Savepoint, n: int | None, reason: str) -> Answer:
    number = "" if n is None else f" {n}"
    return Answer(savepoint.request, error=CheckpointException(f"savepoint{number} failed: {reason}"))
