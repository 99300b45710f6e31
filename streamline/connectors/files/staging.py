"""Files on their way: written where no reader looks, and renamed into place when they are committed.

    out/.staging/<owner>/<subtask>-<run>/lock        held as long as the run is alive
                                        /3.open      being written, or complete and of no checkpoint yet
                                        /2.17        complete, of checkpoint 17
    out/2024-05-01/part-0-<run>-2.jsonl              committed

An owner is a sink of a job by their names, a run one writer of it. What a dead run has left `open` nobody can need;
what it has left for a checkpoint is committed or deleted by whoever restores one. Everything here blocks and runs in a
thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from streamline.errors import StreamlineError

__all__ = ("Committable", "Staging", "Target")

_log = logging.getLogger("streamline.files")

_FOLDER: Final = ".staging"
_LOCK: Final = "lock"
_OPEN: Final = "open"


class Committable(NamedTuple):
    """A complete file to be put into place; paths are relative to the sink's folder."""

    staged: str
    target: str
    size: int


class Target(NamedTuple):
    """A file to be written: where it is, and what it will be called (relative to the sink's folder)."""

    path: str
    name: str


class Staging:
    """The files of one writer.

    Args:
        base: the sink's folder.
        job, operator: whose files they are.
        subtask, parallelism: of the writer.
    """

    def __init__(self, base: str, job: str, operator: str, subtask: int, parallelism: int) -> None:
        self.base: Final = base
        self.run: Final = uuid4().hex[:12]
        digest = hashlib.blake2b(f"{job}\0{operator}".encode(), digest_size=8).hexdigest()
        self._owner: Final = os.path.join(_FOLDER, digest)
        self._subtask = subtask
        self._parallelism = parallelism
        self._folder = os.path.join(self._owner, f"{subtask}-{self.run}")
        self._lock: int | None = None
        self._counter = 0
        self._safe = False

    def _path(self, *parts: str) -> str:
        return os.path.join(self.base, *parts)

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin a run, and delete what dead ones have left open.

        Raises:
            StreamlineError: the folder cannot be written.
        """
        try:
            with self._exclusive():
                os.mkdir(self._path(self._folder))
                self._lock = _locked(self._path(self._folder, _LOCK))
                for run in self._dead_runs():
                    self._clean(run, None)
        except OSError as e:
            raise StreamlineError(f"files cannot be written to {self.base}: {e.strerror or e} ({e.filename})") from e

    def close(self) -> None:
        """End the run: delete what is open. What is of a checkpoint stays: a restored job decides."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            with self._exclusive():
                self._clean(self._folder, None)
                with contextlib.suppress(OSError):
                    os.rmdir(self._path(self._owner))
            with contextlib.suppress(OSError):
                os.rmdir(self._path(_FOLDER))
        except OSError as e:
            _log.warning("%s could not be tidied: %s", self._path(self._folder), e)
        finally:
            os.close(lock)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """While open no other writer of the owner begins, ends or tidies."""
        held = self._owner_locked()
        try:
            yield
        finally:
            os.close(held)

    def _owner_locked(self) -> int:
        """The owner's folder, made and locked; whoever went last may be removing it meanwhile."""
        path = self._path(self._owner)
        os.makedirs(self.base, exist_ok=True)
        while True:
            try:
                os.makedirs(path, exist_ok=True)
                held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            _flock(held, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(os.stat(path), os.fstat(held))
            except FileNotFoundError:
                same = False
            if same:
                return held
            os.close(held)

    # -- what dead runs have left --------------------------------------------------------------------------------

    def _dead_runs(self) -> list[str]:
        """Runs of this subtask that are over; the first subtask has those that are nobody else's too."""
        found = []
        for name in os.listdir(self._path(self._owner)):
            subtask, _, run = name.partition("-")
            if not subtask.isdigit() or run == self.run:
                continue
            if int(subtask) == self._subtask or (not self._subtask and int(subtask) >= self._parallelism):
                folder = os.path.join(self._owner, name)
                if not _is_held(self._path(folder, _LOCK)):
                    found.append(folder)
        return found

    def _clean(self, folder: str, restored: int | None) -> None:
        """Delete a run's open files, those of checkpoints after the restored one, and its folder once it is empty."""
        kept = False
        for name in os.listdir(self._path(folder)):
            _, _, of = name.rpartition(".")
            if of == _OPEN or (of.isdigit() and restored is not None and int(of) > restored):
                _unlink(self._path(folder, name))
            elif name != _LOCK:
                kept = True
        if not kept:
            self._remove_run(folder)

    def _remove_run(self, folder: str) -> None:
        _unlink(self._path(folder, _LOCK))
        with contextlib.suppress(OSError):
            os.rmdir(self._path(folder))

    def forget_after(self, checkpoint_id: int) -> None:
        """Delete what dead runs have left of later checkpoints than the restored one."""
        with self._exclusive():
            for run in self._dead_runs():
                self._clean(run, checkpoint_id)

    # -- files ---------------------------------------------------------------------------------------------------

    def new_file(self, bucket: str, prefix: str, suffix: str) -> Target:
        """A name that no other file has."""
        n, self._counter = self._counter, self._counter + 1
        name = f"{prefix}-{self._subtask}-{self.run}-{n}{suffix}"
        return Target(self._path(self._folder, f"{n}.{_OPEN}"), os.path.join(bucket, name))

    def prepare(self, checkpoint_id: int, files: Sequence[tuple[Target, int]]) -> list[Committable]:
        """Give complete files, with their sizes, to a checkpoint."""
        found = []
        for (path, name), size in files:
            staged = f"{path.removesuffix(_OPEN)}{checkpoint_id}"
            os.rename(path, staged)
            found.append(Committable(os.path.relpath(staged, self.base), name, size))
        if found:
            # Names are as safe as the folder they are in; those above have not changed since the first time.
            self._sync(self._folder, above=not self._safe)
            self._safe = True
        return found

    def commit(self, files: Sequence[Committable], restored: bool = False) -> tuple[int, int]:
        """Put files into place; gives how many there were, and how many are missing.

        Args:
            files: some may be in place already.
            restored: they come out of a checkpoint, and may have been committed, and taken away by a reader, long ago.

        Raises:
            StreamlineError: a file is neither staged nor in place.
        """
        folders: set[str] = set()
        done = missing = 0
        for staged, target, size in files:
            final = self._path(target)
            os.makedirs(os.path.dirname(final), exist_ok=True)
            folders.add(os.path.dirname(target))
            try:
                os.rename(self._path(staged), final)
            except FileNotFoundError:
                if os.path.exists(final):
                    continue
                if not restored:
                    raise StreamlineError(
                        f"{final} ({size} bytes) cannot be committed: {self._path(staged)} is gone. Did somebody "
                        f"delete files below {self._path(_FOLDER)}?"
                    ) from None
                missing += 1
                _log.warning(
                    "%s (%d bytes) is of the restored checkpoint and not there any more: it is taken to have been "
                    "committed, and moved away since",
                    final,
                    size,
                )
                continue
            except OSError as e:
                raise StreamlineError(
                    f"{final} cannot be committed: {e.strerror or e}. It is renamed into place, so the folder has to "
                    "be on one file system"
                ) from e
            done += 1
        for folder in folders:
            self._sync(folder, above=True)
        self._tidy(files)
        return done, missing

    def _sync(self, folder: str, above: bool) -> None:
        """Make the names in a folder last, and with `above` those of the folders down to it."""
        while True:
            _sync_folder(self._path(folder))
            if not above or not folder:
                return
            folder = os.path.dirname(folder)

    def _tidy(self, files: Iterable[Committable]) -> None:
        """Remove the folders of dead runs whose last files these were."""
        runs = {os.path.dirname(staged) for staged, _, _ in files} - {self._folder}
        if not runs:
            return
        with self._exclusive():
            for run in runs:
                with contextlib.suppress(OSError):
                    if os.listdir(self._path(run)) == [_LOCK] and not _is_held(self._path(run, _LOCK)):
                        self._remove_run(run)

    def abort(self, files: Sequence[Committable]) -> None:
        """Delete files that are not committed."""
        for staged, _, _ in files:
            _unlink(self._path(staged))
        self._tidy(files)


def as_committables(plain: Iterable[Any]) -> list[Committable]:
    """Of plain data."""
    return [Committable(*c) for c in plain]


# -- the file system -----------------------------------------------------------------------------------------------


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _flock(file: int, how: int) -> bool:
    """Lock; False where somebody else holds it."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    except OSError as e:
        # A file system without locks: every run counts as alive, and nothing of it is deleted.
        _log.warning("files cannot be locked there: %s; what crashed runs leave has to be deleted by hand", e)
        return False
    return True


def _locked(path: str) -> int:
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _is_held(path: str) -> bool:
    """Whether a run that is alive holds this lock."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(file)


def _sync_folder(path: str) -> None:
    """Make names in a folder last."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
