"""Checkpoints carried out: follows the coordinator's instructions with tasks, store and clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Literal, Protocol, final

import anyio

from streamline._core.elements import Barrier
from streamline._core.time import Clock, TimerHandle
from streamline._runtime.coordinator import (
    Abort,
    Answer,
    Checkpoints,
    CheckpointSettings,
    Complete,
    Drain,
    Fail,
    Instruction,
    Release,
    Savepoint,
    Store,
    Trigger,
)
from streamline._state.capture import CaptureAborted
from streamline._state.files import Files, files_at
from streamline._state.format import WRITER, Manifest, PartEntry
from streamline._state.mapping import Target, match
from streamline._state.snapshot import SubtaskSnapshot
from streamline._state.store import (
    Checkpoint,
    CheckpointStore,
    RestoredOperator,
    checkpoint_folder,
    drop,
    open_checkpoint,
    operator_entry,
    publish,
    savepoint_folder,
    write_part,
)
from streamline.errors import CheckpointException

__all__ = ("CheckpointOptions", "Checkpointing", "Member", "Snapshots")

_log = logging.getLogger("streamline.checkpoint")


#: The location of a checkpoint that is not stored anywhere.
_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """When checkpoints are taken, and where they go.

    Attributes:
        settings: when, and what is tolerated.
        storage: path or URL under which jobs have their folders; None: the last checkpoint is kept in memory, for
            restarts within the process.
        savepoints: path or URL for savepoints; None: the job's folder.
        incremental: where the backend can, write only what is new since the last checkpoint.
        retained: how many complete checkpoints are kept.
        retain_on_cancellation, retain_on_failure: whether they stay when the job ends that way. When it has finished,
            they are deleted: there is nothing to go on with.
        restore: "latest", the path of a checkpoint or savepoint, or None: start anew.
        allow_non_restored_state: state that no operator takes is dropped, instead of being an error.
    """

    settings: CheckpointSettings = field(default_factory=CheckpointSettings)
    storage: str | None = None
    savepoints: str | None = None
    incremental: bool = False
    retained: int = 1
    retain_on_cancellation: bool = True
    retain_on_failure: bool = True
    restore: str | Literal["latest"] | None = "latest"
    allow_non_restored_state: bool = False


class Snapshots(Protocol):
    """A capture: state as it was, to be encoded."""

    checkpoint_id: int

    async def encode(self) -> SubtaskSnapshot: ...
    def abort(self) -> None: ...
    def discard(self) -> None: ...


class Member(Protocol):
    """A task, as far as checkpoints are concerned."""

    uid: str
    operator_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int

    def notify_complete(self, checkpoint_id: int) -> None: ...
    def notify_aborted(self, checkpoint_id: int) -> None: ...
    def expedite(self, checkpoint_id: int) -> None: ...
    def release(self) -> None: ...


class SourceMember(Member, Protocol):
    """A source's task."""

    def inject(self, barrier: Barrier, stop: bool = False) -> None:
        """Send a barrier; with `stop`, end behind it."""
        ...

    def stop(self, drain: bool) -> None:
        """End now."""
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    """A subtask, as the coordinator names it."""

    uid: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.uid}[{self.subtask}]"


@dataclass(frozen=True, slots=True)
class _Part:
    """What a subtask handed over: a file that is written, or a snapshot that is not yet (or never, in memory)."""

    entry: PartEntry | None = None
    snapshot: SubtaskSnapshot | None = None


@final
class Checkpointing:
    """The checkpoints of one job, over all its attempts."""

    def __init__(self, job_name: str, job_id: str, clock: Clock, options: CheckpointOptions) -> None:
        self._job_name = job_name
        self._job_id = job_id
        self._clock = clock
        self._options = options
        self.coordinator: Final = Checkpoints(options.settings)
        self._store = None if options.storage is None else CheckpointStore(options.storage, job_name, options.retained)
        self._kept: Checkpoint | None = None
        self._program: Sequence[Target] = ()
        self._restored_once = False
        self._from_store = False
        self._members: dict[_Key, Member] = {}
        self._sources: Sequence[SourceMember] = ()
        self._spawn: Callable[[Callable[[], Awaitable[None]], str], None] | None = None
        self._fail: Callable[[BaseException], None] | None = None
        self._captures: dict[tuple[_Key, int], Snapshots] = {}
        self._last_captured: dict[_Key, int] = {}
        self._saving: dict[_Key, anyio.Event] = {}
        self._targets: dict[int, tuple[str, Files | None]] = {}
        self._alarm: TimerHandle | None = None
        self._expediting: TimerHandle | None = None
        self._requests: dict[int, asyncio.Future[str]] = {}
        self._numbers = count()
        self.last_size = 0
        #: What restoring has mapped, line by line.
        self.report: Sequence[str] = ()

    @property
    def incremental(self) -> bool:
        """Whether a checkpoint may refer to files of earlier ones: they need a place to lie in."""
        return self._options.incremental and self._store is not None

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are taken: whoever commits waits for one."""
        return self._options.settings.interval is not None

    # -- starting ------------------------------------------------------------------------------------------------

    async def restore_point(self, program: Sequence[Target]) -> Mapping[str, RestoredOperator]:
        """The state that the next attempt starts from, by uid; nothing where it starts anew.

        Raises:
            CheckpointException: what was asked for cannot be read, or does not fit the program.
        """
        self._program = program
        checkpoint = await (self._again() if self._restored_once else self._chosen())
        if self._store is not None:
            self.coordinator.continue_after(await self._store.next_id() - 1)
        if checkpoint is None:
            self._restored_once = True
            return {}
        mapped = match(checkpoint, program, self._options.allow_non_restored_state)
        self._restored_once = True
        in_memory = checkpoint.location == _MEMORY
        self._kept = checkpoint if in_memory else Checkpoint(checkpoint.location, checkpoint.manifest)
        self.coordinator.continue_after(checkpoint.id)
        self.report = mapped.report
        what = "savepoint" if checkpoint.manifest.kind == "savepoint" else "checkpoint"
        _log.info(
            "job %s goes on from %s %d, %s\n  %s",
            self._job_name,
            what,
            checkpoint.id,
            checkpoint.location,
            "\n  ".join(mapped.report),
        )
        return mapped.operators

    async def _chosen(self) -> Checkpoint | None:
        """What the first attempt starts from."""
        restore = self._options.restore
        if restore is None:
            return None
        if restore != "latest":
            return await open_checkpoint(restore)
        if self._store is None:
            return None
        found = await self._store.latest()
        self._from_store = found is not None
        if found is None:
            _log.info("job %s starts anew: no checkpoint in %s", self._job_name, self._store.location)
        return found

    async def _again(self) -> Checkpoint | None:
        """What a restart goes on from: the last complete checkpoint, or the one it started from."""
        kept = self._kept
        if kept is None or kept.location == _MEMORY:
            return kept
        try:
            return await open_checkpoint(kept.location)
        except CheckpointException as e:
            if self._store is None:
                raise
            _log.warning("%s; another checkpoint is looked for", e)
            return await self._store.latest()

    def begin(
        self,
        members: Sequence[Member],
        sources: Sequence[SourceMember],
        spawn: Callable[[Callable[[], Awaitable[None]], str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """The tasks of an attempt run.

        Args:
            members: all tasks.
            sources: those of them that barriers are injected into.
            spawn: runs background work in the attempt's task group.
            fail: ends the attempt with an error.
        """
        self._members = {_key(m): m for m in members}
        self._sources = list(sources)
        self._spawn, self._fail = spawn, fail
        self._follow(self.coordinator.begin(self._clock.now(), self._members))

    async def end(self, reason: str) -> None:
        """The attempt is over, or the job is: nothing is under way any more."""
        instructions = self.coordinator.stop(reason)
        self._spawn = self._fail = None
        self._members, self._sources = {}, ()
        for capture in self._captures.values():
            capture.discard()
        self._captures.clear()
        self._last_captured.clear()
        self._saving.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._expediting is not None:
            self._expediting.cancel()
            self._expediting = None
        for instruction in instructions:
            match instruction:
                case Answer():
                    self._answer(instruction)
                case Abort(n):
                    await self._drop(n)
        self._targets.clear()

    async def close(self, outcome: Literal["finished", "cancelled", "failed"]) -> None:
        """The job is over: what nobody will go on from is deleted."""
        keep = {
            "finished": False,
            "cancelled": self._options.retain_on_cancellation,
            "failed": self._options.retain_on_failure,
        }[outcome]
        if self._store is not None and not keep and (self.coordinator.statistics.completed or self._from_store):
            await self._store.delete_all()

    # -- what tasks say ------------------------------------------------------------------------------------------

    def captured(self, member: Member, barrier: Barrier, capture: Snapshots) -> None:
        """A task has captured its state for a barrier; it is saved in the background."""
        key, n = _key(member), barrier.checkpoint_id
        if n not in self._targets or self._spawn is None:
            capture.discard()  # aborted meanwhile, or not ours
            return
        self._captures[key, n] = capture
        self._last_captured[key] = n
        before, done = self._saving.get(key), anyio.Event()
        self._saving[key] = done
        self._spawn(partial(self._save, key, n, capture, before, done), f"checkpoint {n} of {key}")

    async def _save(self, key: _Key, n: int, capture: Snapshots, before: anyio.Event | None, done: anyio.Event) -> None:
        try:
            snapshot = await capture.encode()
            target = self._targets.get(n)
            if target is None:
                return
            folder, files = target
            if files is None:
                part = _Part(snapshot=snapshot)
            else:
                entry = await write_part(files, folder, key.uid, snapshot)
                part = _Part(entry)
                if self._store is not None:
                    self._store.note_uploaded(n, entry.shared)
            if before is not None:
                await before.wait()
            self._follow(self.coordinator.on_ack(self._clock.now(), n, key, part))
        except CaptureAborted:
            return
        except Exception as e:
            _log.warning("checkpoint %d of %s failed", n, key, exc_info=e)
            self._follow(self.coordinator.on_decline(self._clock.now(), n, key, f"{type(e).__name__}: {e}"))
        finally:
            self._captures.pop((key, n), None)
            done.set()

    def final_id(self, member: Member) -> int:
        """The first checkpoint that will hold what a task ends with."""
        key = _key(member)
        return self.coordinator.final_id(key, self._last_captured.get(key, 0))

    def ended(self, member: Member, capture: Snapshots | None) -> None:
        """A task has ended, with this state; it waits for `release`."""
        if self._spawn is None:
            return
        key = _key(member)
        self._spawn(partial(self._save_end, key, capture, self._saving.get(key)), f"end of {key}")

    async def _save_end(self, key: _Key, capture: Snapshots | None, before: anyio.Event | None) -> None:
        snapshot = None if capture is None else await capture.encode()
        if before is not None:
            await before.wait()
        self._follow(self.coordinator.on_ended(self._clock.now(), key, _Part(snapshot=snapshot)))

    # -- what people ask for -------------------------------------------------------------------------------------

    async def savepoint(self, target: str | None = None, stop: bool = False, drain: bool = False) -> str:
        """Take a savepoint, and with `stop` end the job with it; gives its location.

        Raises:
            CheckpointException: there is no place for it, or it failed.
        """
        if target is None:
            target = self._options.savepoints
        if target is None and self._store is None:
            raise CheckpointException(
                "there is no place for a savepoint: give a path, or set execution.checkpointing.savepoint-dir or a "
                "checkpoint storage"
            )
        number = next(self._numbers)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._requests[number] = future
        try:
            self._follow(self.coordinator.request(self._clock.now(), Savepoint(number, target, stop, drain)))
            return await future
        finally:
            self._requests.pop(number, None)

    # -- instructions --------------------------------------------------------------------------------------------

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Trigger():
                    self._trigger(instruction)
                case Drain():
                    for source in self._sources:
                        source.stop(True)
                case Store():
                    self._background(
                        partial(self._store_it, instruction), f"store checkpoint {instruction.checkpoint_id}"
                    )
                case Complete(n):
                    self._targets.pop(n, None)
                    for member in self._members.values():
                        member.notify_complete(n)
                    if self._store is not None:
                        self._background(self._store.tidy, "old checkpoints")
                case Abort(n, reason):
                    _log.info("checkpoint %d of job %s is given up: %s", n, self._job_name, reason)
                    for (_, number), capture in self._captures.items():
                        if number == n:
                            capture.abort()
                    for member in self._members.values():
                        member.notify_aborted(n)
                    self._background(partial(self._drop, n), f"drop checkpoint {n}")
                case Release(keys):
                    for key in keys:
                        if isinstance(key, _Key) and key in self._members:
                            self._members[key].release()
                case Answer():
                    self._answer(instruction)
                case Fail(error):
                    if self._fail is not None:
                        self._fail(error)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = self.coordinator.due
        if due is not None and self._spawn is not None:
            self._alarm = self._clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._follow(self.coordinator.on_time(self._clock.now()))

    def _background(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        if self._spawn is not None:
            self._spawn(function, name)

    def _trigger(self, instruction: Trigger) -> None:
        barrier = instruction.barrier
        n = barrier.checkpoint_id
        files = None if self._store is None else self._store.files
        savepoint = self.coordinator.savepoint(n)
        if savepoint is None:
            self._targets[n] = checkpoint_folder(n, self._job_id), files
        else:
            files = files if savepoint.target is None else files_at(savepoint.target)
            self._targets[n] = savepoint_folder(n, self._job_id), files
        for source in self._sources:
            source.inject(barrier, instruction.stop)
        settings = self._options.settings
        if settings.unaligned and settings.aligned_timeout and savepoint is None:
            self._expediting = self._clock.call_at(
                barrier.timestamp + settings.aligned_timeout, partial(self._expedite, n)
            )

    def _expedite(self, n: int) -> None:
        if n in self._targets:
            for member in self._members.values():
                member.expedite(n)

    def _answer(self, answer: Answer) -> None:
        future = self._requests.get(answer.request)  # type: ignore[call-overload]
        if future is None or future.done():
            return
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.location)

    async def _drop(self, n: int) -> None:
        folder, files = self._targets.pop(n, ("", None))
        if files is not None:
            await drop(files, folder)

    async def _store_it(self, instruction: Store) -> None:
        n = instruction.checkpoint_id
        target = self._targets.get(n)
        if target is None:
            return
        try:
            location = await self._describe(instruction, target)
        except Exception as e:
            _log.warning("checkpoint %d of job %s could not be stored", n, self._job_name, exc_info=e)
            self._follow(self.coordinator.on_store_failed(self._clock.now(), n, f"{type(e).__name__}: {e}"))
        else:
            self._follow(self.coordinator.on_stored(self._clock.now(), n, location))

    async def _describe(self, instruction: Store, target: tuple[str, Files | None]) -> str:
        """Write what is not written yet, then the manifest; or keep it all in memory."""
        folder, files = target
        savepoint = instruction.savepoint
        # After a drain everybody has ended, and yet it is meant to be gone on from.
        ended = frozenset() if savepoint is not None and savepoint.drain else instruction.ended
        entries: dict[str, list[PartEntry]] = {t.uid: [] for t in self._program}
        snapshots: dict[str, list[SubtaskSnapshot]] = {t.uid: [] for t in self._program}
        for key, part in instruction.parts.items():
            assert isinstance(key, _Key) and isinstance(part, _Part)
            entry, snapshot = part.entry, part.snapshot
            if entry is None and snapshot is None:
                snapshot = _nothing(instruction.checkpoint_id, key, self._members[key])
            if files is None:
                assert snapshot is not None
                snapshots[key.uid].append(snapshot)
                continue
            if entry is None:
                assert snapshot is not None
                entry = await write_part(files, folder, key.uid, snapshot)
                entry.ended = key in ended
            entries[key.uid].append(entry)
        manifest = Manifest(
            checkpoint_id=instruction.checkpoint_id,
            kind="checkpoint" if savepoint is None else "savepoint",
            job_name=self._job_name,
            job_id=self._job_id,
            timestamp=instruction.timestamp,
            completed=self._clock.now(),
            writer=WRITER,
            operators=[
                operator_entry(t.uid, t.name, t.parallelism, t.max_parallelism, entries[t.uid]) for t in self._program
            ],
        )
        if files is None:
            self._keep(manifest, snapshots, {k for k in ended if isinstance(k, _Key)})
            return _MEMORY
        location = await publish(files, folder, manifest)
        self.last_size = sum(e.size for es in entries.values() for e in es)
        if savepoint is None and self._store is not None:
            self._store.note_complete(folder, manifest)
            self._kept = Checkpoint(location, manifest)
        return location

    def _keep(self, manifest: Manifest, snapshots: Mapping[str, list[SubtaskSnapshot]], ended: set[_Key]) -> None:
        operators = {
            t.uid: RestoredOperator(
                t.uid,
                t.name,
                t.parallelism,
                t.max_parallelism,
                frozenset(k.subtask for k in ended if k.uid == t.uid),
                sorted(snapshots[t.uid], key=lambda s: s.subtask_index),
            )
            for t in self._program
        }
        self.last_size = sum(s.size() for o in operators.values() for s in o.snapshots)
        self._kept = Checkpoint(_MEMORY, manifest, operators)


def _key(member: Member) -> _Key:
    return _Key(member.uid, member.subtask_index)


def _nothing(checkpoint_id: int, key: _Key, member: Member) -> SubtaskSnapshot:
    return SubtaskSnapshot(
        checkpoint_id=checkpoint_id,
        subtask_index=key.subtask,
        parallelism=member.parallelism,
        first_group=0,
        end_group=0,
        max_parallelism=member.max_parallelism,
    )
