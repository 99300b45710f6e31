"""Checkpoints of a job in a folder: written atomically, verified when read, the old ones let go.

    <root>/<job>/chk-42-1a2b3c/MANIFEST        written last; without it there is no checkpoint
    <root>/<job>/chk-42-1a2b3c/count-0.state   one file for each subtask
    <root>/<job>/shared/…                      files that incremental checkpoints have in common
    <root>/<job>/savepoint-43-1a2b3c/…         full, the user's, never deleted

A folder carries the beginning of the job's id: two runs of one job, of which one should not be there any more, never
write over each other.

What blocks runs in worker threads, in pieces, so that cancelling waits for no more than one of them.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, final

import anyio

from streamline._state.files import Files, files_at, missing
from streamline._state.format import MANIFEST, Manifest, OperatorEntry, PartEntry, Tally, digest, join_file, split_file
from streamline._state.snapshot import SharedFile, SubtaskSnapshot
from streamline._state.threads import in_thread
from streamline.errors import CheckpointException

__all__ = ("Checkpoint", "CheckpointStore", "RestoredOperator", "drop", "open_checkpoint", "publish", "write_part")

_log = logging.getLogger("streamline.checkpoint")

_CHECKPOINT: Final = re.compile(r"chk-(\d+)-\w+")
_SHARED: Final = "shared"
#: Bytes of a subtask's file up to which it is read at once; of a larger one a block at a time.
_WHOLE: Final = 64 << 20


class _Incomplete(CheckpointException):
    """A checkpoint that was begun and never completed."""


@dataclass(frozen=True, slots=True)
class RestoredOperator:
    """The state of one operator in a checkpoint, read and verified.

    Attributes:
        ended: the subtasks that had ended.
        snapshots: of all subtasks, in order.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    ended: frozenset[int]
    snapshots: Sequence[SubtaskSnapshot]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint or savepoint: its description and, by uid, the state of its operators."""

    location: str
    manifest: Manifest
    operators: Mapping[str, RestoredOperator] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """Its number."""
        return self.manifest.checkpoint_id


@final
class CheckpointStore:
    """The folder of one job."""

    def __init__(self, root: str, job_name: str, retained: int = 1) -> None:
        """
        Args:
            root: path or URL under which jobs have their folders.
            job_name: decides the folder's name.
            retained: how many complete checkpoints are kept.
        """
        self._root = files_at(root)
        self.files: Final = self._root.within(folder_name(job_name))
        self._retained = max(1, retained)
        #: The shared files that each checkpoint needs, by its folder.
        self._needs: dict[str, frozenset[str]] = {}
        #: Shared files that are there, with the checkpoint they were first uploaded for.
        self._uploaded: dict[str, int] = {}
        self._newest = 0
        #: Folders of complete checkpoints, oldest first.
        self._complete: list[str] = []
        #: Folders that a crashed run has not completed.
        self._garbage: list[str] = []
        #: Checkpoints that are not ours to delete.
        self._spared: set[str] = set()
        #: Checkpoints that were taken over from other places, by what stands for them in `_complete`.
        self._claimed: dict[str, Files] = {}
        self._known = False
        self._tidying = anyio.Lock()

    @property
    def location(self) -> str:
        """Where the job's folder is."""
        return self.files.location

    # -- writing -------------------------------------------------------------------------------------------------

    def note_complete(self, folder: str, manifest: Manifest) -> None:
        """A checkpoint in the job's folder has been published."""
        self._complete.append(folder)
        self._needs[folder] = _needs(manifest)
        self._newest = manifest.checkpoint_id

    def note_uploaded(self, checkpoint_id: int, files: Iterable[SharedFile]) -> None:
        """These lie in the shared folder, for a checkpoint that is not complete yet."""
        for file in files:
            self._uploaded.setdefault(file.name, checkpoint_id)

    def holds(self, location: str) -> bool:
        """Whether a checkpoint or savepoint lies in the job's folder."""
        return location.rpartition("/")[0] == self.location

    def spare(self, checkpoint: Checkpoint) -> None:
        """Never delete this one, wherever it lies, nor what it needs."""
        if self.holds(checkpoint.location):
            folder = checkpoint.location.rpartition("/")[2]
            self._spared.add(folder)
            self._needs[folder] = _needs(checkpoint.manifest)

    async def claim(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint or savepoint: it counts as one of ours, and goes when it is the oldest of too many."""
        await self._learn()
        parent, _, folder = checkpoint.location.rpartition("/")
        if not self.holds(checkpoint.location):
            self._claimed[checkpoint.location] = files_at(parent)
            self._complete.append(checkpoint.location)
        elif folder not in self._complete:
            self._complete.append(folder)
            self._needs[folder] = _needs(checkpoint.manifest)

    async def tidy(self) -> None:
        """Delete checkpoints beyond the retained ones, and what crashed runs have left half written.

        Never fails: what cannot be deleted stays, and the log says so.
        """
        async with self._tidying:
            await self._learn()
            await self._let_go(self._retained)

    async def delete_all(self) -> bool:
        """Delete all checkpoints of the job (not its savepoints). Never fails; gives whether none is left."""
        async with self._tidying:
            await self._learn()
            return await self._let_go(0)

    async def _let_go(self, kept: int) -> bool:
        """Gives whether everything could be deleted that was to be."""
        gone = True
        # One by one, and struck off when it is done: a job that ends cancels this at any point.
        while self._garbage:
            await drop(self.files, self._garbage[0])
            del self._garbage[0]
        while len(self._complete) > kept:
            gone = await self._drop(self._complete[0]) and gone
            for name in self._needs.pop(self._complete.pop(0), ()):
                self._uploaded.setdefault(name, 0)
        needed = frozenset().union(*self._needs.values())
        for name, since in list(self._uploaded.items()):
            # What was uploaded for a checkpoint that is not complete yet is needed; what an aborted one has left and no
            # later one uses is not.
            if name not in needed and (since < self._newest or not kept):
                await drop_file(self.files, f"{_SHARED}/{name}")
                del self._uploaded[name]
        return gone

    async def _drop(self, folder: str) -> bool:
        elsewhere = self._claimed.get(folder)
        if elsewhere is None:
            return await drop(self.files, folder)
        gone = await drop_whole(elsewhere, folder.rpartition("/")[2])
        del self._claimed[folder]
        return gone

    async def _learn(self) -> None:
        """What earlier runs have left. Only what is seen now is ever deleted: another run may be writing beside us."""
        if self._known:
            return
        found, garbage = [], []
        for _, folder in await self.folders():
            if folder in self._complete or folder in self._spared:
                continue
            try:
                manifest = await in_thread(_read_manifest, self.files.within(folder))
            except _Incomplete:
                garbage.append(folder)
            except CheckpointException:
                found.append(folder)  # damaged: goes when its turn comes
            else:
                found.append(folder)
                self._needs[folder] = _needs(manifest)
        self._complete = [f for f in found if f not in self._complete] + self._complete
        self._garbage += garbage
        self._known = True

    # -- reading -------------------------------------------------------------------------------------------------

    async def folders(self) -> list[tuple[int, str]]:
        """Numbers and folders of the checkpoints that are there, whole or not, oldest first.

        Raises:
            CheckpointException: the place cannot be read.
        """
        try:
            names = await in_thread(self.files.names)
        except Exception as e:
            raise missing(self.location, e) from e
        return sorted((int(m[1]), name) for name in names if (m := _CHECKPOINT.fullmatch(name)))

    async def latest(self) -> Checkpoint | None:
        """The newest whole checkpoint, read and verified; None where none was ever completed.

        Torn and corrupt ones are named in the log and passed over.

        Raises:
            CheckpointException: there are checkpoints, and none of them can be used.
        """
        damaged: list[CheckpointException] = []
        for _, folder in reversed(await self.folders()):
            try:
                return await _read(self.files.within(folder), self.files.within(_SHARED))
            except _Incomplete as e:
                _log.info("%s; it does not count", e)
            except CheckpointException as e:
                _log.warning("%s; the checkpoint before it is looked for", e)
                damaged.append(e)
        if damaged:
            raise CheckpointException(
                f"no checkpoint in {self.location} can be used: {damaged[0]}. Restore another one by its path, or "
                "start afresh with restore=None"
            )
        return None

    async def next_id(self) -> int:
        """A number above all that are there. Asked before the first checkpoint of a run is begun.

        Raises:
            CheckpointException: the place cannot be read, or not be written to.
        """
        try:
            self.files.check()
        except OSError as e:
            raise CheckpointException(
                f"checkpoints cannot be stored in {self.location}: {e}. Give another place to "
                "enable_checkpointing(storage=…)"
            ) from e
        await self._learn()  # from now on there are folders without a manifest that are nobody's garbage
        return max((n for n, _ in await self.folders()), default=0) + 1


async def write_part(
    files: Files, folder: str, uid: str, snapshot: SubtaskSnapshot, compress: bool = False
) -> PartEntry:
    """Write the state of one subtask into the folder of a checkpoint that is not complete yet.

    With `compress` its own file is compressed; those that it shares with other checkpoints stay as they are.

    Raises:
        CheckpointException: it could not be written; says where and why.
    """
    name = f"{part_name(uid)}-{snapshot.subtask_index}.state"
    uploads = snapshot.uploads
    try:
        if uploads is not None:
            for local, shared in uploads.new.items():
                await in_thread(files.take, f"{_SHARED}/{shared.name}", uploads.folder / local)
            uploads.done()
        entry = await in_thread(_write_part, files, folder, name, snapshot, compress)
        if uploads is not None:
            entry.uploaded = sum(shared.size for shared in uploads.new.values())
        return entry
    except OSError as e:
        raise CheckpointException(f"{files.location}/{folder}/{name} cannot be written: {e}") from e
    finally:
        if uploads is not None:
            uploads.discard()


async def publish(files: Files, folder: str, manifest: Manifest) -> str:
    """Write the manifest: from now on the checkpoint counts. Gives its location.

    Raises:
        CheckpointException: it could not be written; the checkpoint does not count.
    """
    try:
        await in_thread(files.publish, f"{folder}/{MANIFEST}", manifest.encode())
    except OSError as e:
        raise CheckpointException(f"{files.location}/{folder}/{MANIFEST} cannot be written: {e}") from e
    return f"{files.location}/{folder}"


async def drop(files: Files, folder: str) -> bool:
    """Delete a folder: the manifest first, so that half a checkpoint never counts. Never fails; gives success."""
    try:
        await in_thread(_drop, files, folder)
    except Exception as e:  # a store that is away must not stop the job: it is found again at the next start
        _log.warning("%s/%s could not be deleted: %s", files.location, folder, e)
        return False
    return True


async def drop_whole(files: Files, folder: str) -> bool:
    """Delete a checkpoint in a folder of another job, and what lies in that job's shared folder for it alone."""
    needed: set[str] = set()
    mine: frozenset[str] = frozenset()
    try:
        for name in await in_thread(files.names):
            if name == _SHARED:
                continue
            try:
                needs = _needs(await in_thread(_read_manifest, files.within(name)))
            except CheckpointException:
                continue
            if name == folder:
                mine = needs
            else:
                needed |= needs
    except Exception as e:
        _log.warning("%s cannot be read: %s", files.location, e)
    gone = await drop(files, folder)
    for name in sorted(mine - needed):
        await drop_file(files, f"{_SHARED}/{name}")
    return gone


async def drop_file(files: Files, name: str) -> None:
    """Delete a file. Never fails."""
    try:
        await in_thread(files.delete, name)
    except Exception as e:
        _log.warning("%s/%s could not be deleted: %s", files.location, name, e)


async def open_checkpoint(location: str) -> Checkpoint:
    """A checkpoint or savepoint by its path or URL, read and verified.

    Raises:
        CheckpointException: there is none, or it is torn, corrupt or of a later version; names the file.
    """
    files = files_at(location)
    try:
        return await _read(files, files_at(f"{location.rstrip('/').rpartition('/')[0]}/{_SHARED}"))
    except _Incomplete as e:
        raise CheckpointException(f"{e}. {await in_thread(_instead, files)}") from None


def _instead(files: Files) -> str:
    """What to do where a path is that of no checkpoint: those that lie below it, else how one is told."""
    inside = [n for n in files.names() if _CHECKPOINT.fullmatch(n) or n.startswith("savepoint-")]
    inside += [f"{job}/{n}" for job in files.names() for n in files.names(job) if _CHECKPOINT.fullmatch(n)]
    if inside:
        return f"There are {', '.join(inside[:5])} in it: give the path of one of them"
    return (
        "Give the path of a checkpoint or savepoint (a folder with a MANIFEST), 'latest' for the newest one under the "
        "checkpoint storage, or None to start anew"
    )


async def _read(files: Files, shared: Files) -> Checkpoint:
    manifest = await in_thread(_read_manifest, files)
    operators = {}
    for entry in manifest.operators:
        snapshots = []
        for part in sorted(entry.parts, key=lambda p: p.subtask):
            snapshot = await in_thread(_read_part, files, part)
            if snapshot.files:
                await in_thread(_check_shared, shared, snapshot.files.values())
            snapshot.fetch = partial(_fetch, shared)
            snapshots.append(snapshot)
        if len(snapshots) != entry.parallelism:
            raise CheckpointException(
                f"{files.location}: operator {entry.uid!r} has {len(snapshots)} of {entry.parallelism} parts"
            )
        operators[entry.uid] = RestoredOperator(
            entry.uid,
            entry.name,
            entry.parallelism,
            entry.max_parallelism,
            frozenset(p.subtask for p in entry.parts if p.ended),
            snapshots,
        )
    return Checkpoint(files.location, manifest, operators)


# -- what runs in threads ------------------------------------------------------------------------------------------


def _write_part(files: Files, folder: str, name: str, snapshot: SubtaskSnapshot, compress: bool) -> PartEntry:
    tally = Tally()
    files.write(f"{folder}/{name}", tally.through(split_file(snapshot, compress)))
    return PartEntry(snapshot.subtask_index, name, tally.size, tally.digest, shared=list(snapshot.files.values()))


def _check_shared(shared: Files, files: Iterable[SharedFile]) -> None:
    for file in files:
        where = f"{shared.location}/{file.name}"
        try:
            size, checksum = shared.digest(file.name)
        except Exception as e:
            raise missing(where, e) from e
        if size != file.size:
            raise CheckpointException(f"{where} is torn: it has {size} bytes, and {file.size} were written")
        if checksum != file.digest:
            raise CheckpointException(f"{where} is corrupt: its checksum does not match")


def _fetch(shared: Files, file: SharedFile, target: Path) -> None:
    shared.give(file.name, target)


def _drop(files: Files, folder: str) -> None:
    files.delete(f"{folder}/{MANIFEST}")
    files.delete(folder)


def _read_manifest(files: Files) -> Manifest:
    try:
        data = files.read(MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        there = files.names()
        what = "it was never completed" if there else "there is nothing"
        raise _Incomplete(f"{files.location} is no whole checkpoint: {what}, no {MANIFEST}") from None
    except Exception as e:
        raise missing(f"{files.location}/{MANIFEST}", e) from e
    return Manifest.decode(data, files.location)


def _read_part(files: Files, part: PartEntry) -> SubtaskSnapshot:
    where = f"{files.location}/{part.file}"
    whole = part.size <= _WHOLE
    data = b""
    try:
        if whole:
            data = files.read(part.file)
            size, checksum = len(data), digest([data])
        else:
            size, checksum = files.digest(part.file)
    except Exception as e:
        raise missing(where, e) from e
    if size != part.size:
        raise CheckpointException(f"{where} is torn: it has {size} bytes, and {part.size} were written")
    if checksum != part.digest:
        raise CheckpointException(f"{where} is corrupt: its checksum does not match")
    if whole:
        return join_file(lambda start, length: data[start : start + length], size, where)
    return join_file(partial(files.read_at, part.file), size, where, whole=False)


def _needs(manifest: Manifest) -> frozenset[str]:
    return frozenset(f.name for operator in manifest.operators for part in operator.parts for f in part.shared)


def folder_name(job_name: str) -> str:
    """A folder for a job: readable, and different for different names."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", job_name).strip("-.")[:60]
    return f"{readable or 'job'}-{hashlib.blake2b(job_name.encode(), digest_size=4).hexdigest()}"


def part_name(uid: str) -> str:
    """The beginning of a file's name for an operator."""
    return folder_name(uid)


def checkpoint_folder(checkpoint_id: int, job_id: str) -> str:
    """The folder of a checkpoint."""
    return f"chk-{checkpoint_id}-{job_id[:6]}"


def savepoint_folder(checkpoint_id: int, job_id: str) -> str:
    """The folder of a savepoint."""
    return f"savepoint-{checkpoint_id}-{job_id[:6]}"


def operator_entry(
    uid: str, name: str, parallelism: int, max_parallelism: int, parts: Iterable[PartEntry]
) -> OperatorEntry:
    """The entry of an operator in a manifest, its parts in order."""
    return OperatorEntry(uid, name, parallelism, max_parallelism, sorted(parts, key=lambda p: p.subtask))
