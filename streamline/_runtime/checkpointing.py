"""Checkpoints carried out: follows the coordinator's instructions with tasks, store and clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, Literal, final

import anyio

from streamline._core.elements import Barrier
from streamline._core.time import Clock, TimerHandle
from streamline._runtime.coordinator import (
    Abort,
    Answer,
    Checkpoints,
    Complete,
    Drain,
    Fail,
    Instruction,
    Release,
    Savepoint,
    Store,
    Trigger,
)
from streamline._runtime.options import CheckpointOptions
from streamline._runtime.participants import Member, Part, Snapshots, SourceMember, SubtaskKey, empty_snapshot, key_of
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
from streamline._state.threads import in_thread
from streamline.errors import CheckpointException, StateEncodingException, StreamlineError

__all__ = ("Checkpointing", "Undecided")

_log = logging.getLogger("streamline.checkpoint")


#: The location of a checkpoint that is not stored anywhere.
_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class Undecided:
    """What is to become of what sinks have prepared for checkpoints and not committed.

    Attributes:
        commit: up to this checkpoint it is committed: it was complete, and nobody can go on from it any more.
        keep: later ones up to this are left alone: whoever restores a checkpoint or savepoint decides. What comes after
            both is aborted.
    """

    commit: int
    keep: int


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
        self._members: dict[SubtaskKey, Member] = {}
        self._sources: Sequence[SourceMember] = ()
        self._spawn: Callable[[Callable[[], Awaitable[None]], str], None] | None = None
        self._fail: Callable[[BaseException], None] | None = None
        self._captures: dict[tuple[SubtaskKey, int], Snapshots] = {}
        self._last_captured: dict[SubtaskKey, int] = {}
        self._saving: dict[SubtaskKey, anyio.Event] = {}
        self._targets: dict[int, tuple[str, Files | None]] = {}
        #: Given up, and not known to be gone.
        self._given_up: dict[int, tuple[str, Files]] = {}
        #: The newest complete checkpoint and savepoint of this run.
        self._completed = self._saved = 0
        self._discarded = False
        self._alarm: TimerHandle | None = None
        self._expediting: TimerHandle | None = None
        self._requests: dict[int, asyncio.Future[str]] = {}
        self._numbers = count()
        #: Bytes that the last checkpoint has written, and that one has to read to restore it.
        self.last_size = self.last_full_size = 0
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
        first = not self._restored_once
        checkpoint = await (self._chosen() if first else self._again())
        if first and checkpoint is not None and self._options.restore != "latest":
            await self._take_over(checkpoint)
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
        if self._store is None or not self._store.holds(checkpoint.location):
            for operator in mapped.operators.values():
                for snapshot in operator.snapshots:
                    snapshot.elsewhere = True
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

    async def _take_over(self, checkpoint: Checkpoint) -> None:
        """A checkpoint that was named: ours from now on, or not to be touched."""
        if not self._options.claim:
            if self._store is not None:
                self._store.spare(checkpoint)
        elif self._store is None:
            _log.warning(
                "job %s is to claim %s, and has no checkpoint storage: it is kept, as nothing that lasts follows it",
                self._job_name,
                checkpoint.location,
            )
        else:
            await self._store.claim(checkpoint)
            self._from_store = True

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
        self._members = {key_of(m): m for m in members}
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
                    self._give_up(n)
        self._targets.clear()
        for n in sorted(self._given_up, reverse=True):
            if not await self._dropped(n):
                break  # the place is away, for the others too

    async def close(self, outcome: Literal["finished", "cancelled", "failed"]) -> None:
        """The job is over: what nobody will go on from is deleted."""
        keep = {
            "finished": False,
            "cancelled": self._options.retain_on_cancellation,
            "failed": self._options.retain_on_failure,
        }[outcome]
        if self._store is None:
            self._discarded = True
        elif not keep:
            there = self.coordinator.statistics.completed or self._from_store
            self._discarded = await self._store.delete_all() if there else True

    @property
    def restarts_anew(self) -> bool:
        """Whether an attempt that follows begins without state."""
        return self._kept is None

    @property
    def undecided(self) -> Undecided:
        """What is to become of what sinks have prepared and not committed, once an attempt, or the job, is over."""
        unsure = max(self._given_up, default=0)
        if self._discarded:
            return Undecided(self._completed, max(self._saved, unsure))
        return Undecided(0, max(self._completed, self._saved, unsure))

    # -- what tasks say ------------------------------------------------------------------------------------------

    def captured(self, member: Member, barrier: Barrier, capture: Snapshots) -> None:
        """A task has captured its state for a barrier; it is saved in the background."""
        key, n = key_of(member), barrier.checkpoint_id
        if n not in self._targets or self._spawn is None:
            capture.discard()  # aborted meanwhile, or not ours
            return
        self._captures[key, n] = capture
        self._last_captured[key] = n
        before, done = self._saving.get(key), anyio.Event()
        self._saving[key] = done
        self._spawn(partial(self._save, key, n, capture, before, done), f"checkpoint {n} of {key}")

    async def _save(
        self, key: SubtaskKey, n: int, capture: Snapshots, before: anyio.Event | None, done: anyio.Event
    ) -> None:
        try:
            snapshot = await capture.encode()
            target = self._targets.get(n)
            if target is None:
                return
            folder, files = target
            if files is None:
                if snapshot.spilled:
                    await in_thread(snapshot.take_in)
                part = Part(snapshot=snapshot)
            else:
                entry = await write_part(files, folder, key.uid, snapshot, self._options.compress)
                part = Part(entry)
                if self._store is not None:
                    self._store.note_uploaded(n, entry.shared)
            if before is not None:
                await before.wait()
            self._follow(self.coordinator.on_ack(self._clock.now(), n, key, part))
        except CaptureAborted:
            return
        except Exception as e:
            first = n in self._targets  # mostly the others fail alike
            _log.warning("checkpoint %d of %s failed: %s", n, key, _reason(e), exc_info=e if first else None)
            self._follow(self.coordinator.on_decline(self._clock.now(), n, self._who(key), _reason(e), e))
        finally:
            self._captures.pop((key, n), None)
            done.set()

    def final_id(self, member: Member) -> int:
        """The first checkpoint that will hold what a task ends with."""
        key = key_of(member)
        return self.coordinator.final_id(key, self._last_captured.get(key, 0))

    def backlog(self, member: Member, processing: bool) -> None:
        """A source's task works off a backlog, or no longer."""
        self._follow(self.coordinator.on_backlog(self._clock.now(), key_of(member), processing))

    def ended(self, member: Member, capture: Snapshots | None) -> None:
        """A task has ended, with this state; it waits for `release`."""
        if self._spawn is None:
            return
        key = key_of(member)
        self._spawn(partial(self._save_end, key, capture, self._saving.get(key)), f"end of {key}")

    async def _save_end(self, key: SubtaskKey, capture: Snapshots | None, before: anyio.Event | None) -> None:
        try:
            snapshot = None if capture is None else await capture.encode()
        except StateEncodingException as e:
            raise CheckpointException(
                f"{self._who(key)} has ended, and could not save its state: {_reason(e)}. No checkpoint can be "
                "complete without it"
            ) from e
        if before is not None:
            await before.wait()
        self._follow(self.coordinator.on_ended(self._clock.now(), key, Part(snapshot=snapshot)))

    def _who(self, key: SubtaskKey) -> str:
        """A subtask, for people."""
        member = self._members.get(key)
        if member is None:
            return str(key)
        parallel = f" (subtask {key.subtask + 1} of {member.parallelism})" if member.parallelism > 1 else ""
        return f"operator {member.operator_name!r}{parallel}"

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
                    if instruction.lasting:
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
                    self._give_up(n)
                    self._background(partial(self._drop, n), f"drop checkpoint {n}")
                case Release(keys):
                    for key in keys:
                        if isinstance(key, SubtaskKey) and key in self._members:
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

    def _give_up(self, n: int) -> None:
        folder, files = self._targets.pop(n, ("", None))
        if files is not None:
            self._given_up[n] = folder, files

    async def _dropped(self, n: int) -> bool:
        if n in self._given_up:
            folder, files = self._given_up[n]
            if not await drop(files, folder):
                return False
            self._given_up.pop(n, None)
        return True

    async def _drop(self, n: int) -> None:
        await self._dropped(n)

    async def _store_it(self, instruction: Store) -> None:
        n = instruction.checkpoint_id
        target = self._targets.get(n)
        if target is None:
            return
        try:
            checkpoint, *sizes = await self._describe(instruction, target)
        except Exception as e:
            _log.warning("checkpoint %d of job %s could not be stored", n, self._job_name, exc_info=e)
            self._follow(self.coordinator.on_store_failed(self._clock.now(), n, _reason(e), e))
            return
        folder, files = target
        instructions = self.coordinator.on_stored(self._clock.now(), n, checkpoint.location)
        if not instructions:  # it was given up while its manifest was being written
            if files is not None:
                self._given_up[n] = folder, files
                self._background(partial(self._drop, n), f"drop checkpoint {n}")
            return
        self.last_size, self.last_full_size = sizes
        if instruction.savepoint is not None:
            self._saved = n
        else:
            self._completed = n
            self._kept = checkpoint
            for older in [m for m in self._given_up if m < n]:
                del self._given_up[older]  # what is left there is found at the next start
            if self._store is not None:
                self._store.note_complete(folder, checkpoint.manifest)
        self._follow(instructions)

    async def _describe(self, instruction: Store, target: tuple[str, Files | None]) -> tuple[Checkpoint, int, int]:
        """Write what is not written yet, then the manifest; or keep it all in memory.

        Gives also how many bytes it has written, and its size with what it shares with earlier ones.
        """
        folder, files = target
        savepoint = instruction.savepoint
        # After a drain everybody has ended, and yet it is meant to be gone on from.
        ended = frozenset() if savepoint is not None and savepoint.drain else instruction.ended
        entries: dict[str, list[PartEntry]] = {t.uid: [] for t in self._program}
        snapshots: dict[str, list[SubtaskSnapshot]] = {t.uid: [] for t in self._program}
        for key, part in instruction.parts.items():
            assert isinstance(key, SubtaskKey) and isinstance(part, Part)
            entry, snapshot = part.entry, part.snapshot
            if entry is None and snapshot is None:
                snapshot = empty_snapshot(instruction.checkpoint_id, key, self._members[key])
            if files is None:
                assert snapshot is not None
                if snapshot.spilled:
                    await in_thread(snapshot.take_in)
                snapshots[key.uid].append(snapshot)
                continue
            if entry is None:
                assert snapshot is not None
                entry = await write_part(files, folder, key.uid, snapshot, self._options.compress)
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
            return self._in_memory(manifest, snapshots, {k for k in ended if isinstance(k, SubtaskKey)})
        location = await publish(files, folder, manifest)
        parts = [entry for of_operator in entries.values() for entry in of_operator]
        own = sum(entry.size for entry in parts)
        shared = sum(file.size for entry in parts for file in entry.shared)
        return Checkpoint(location, manifest), own + sum(entry.uploaded for entry in parts), own + shared

    def _in_memory(
        self, manifest: Manifest, snapshots: Mapping[str, list[SubtaskSnapshot]], ended: set[SubtaskKey]
    ) -> tuple[Checkpoint, int, int]:
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
        size = sum(s.size() for o in operators.values() for s in o.snapshots)
        return Checkpoint(_MEMORY, manifest, operators), size, size


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, StreamlineError) else f"{type(error).__name__}: {error}"
