"""Where checkpoints lie: a directory, or whatever fsspec opens. All calls block: they are made in a thread."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from streamline.errors import CheckpointException, ValidationException

__all__ = ("Files", "files_at")


class Files(Protocol):
    """A folder. Names are relative to it, with `/` between their parts."""

    #: How the folder is called in messages and answers.
    location: str
    #: Whether a file can be put in by linking it.
    local: bool

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Write a file and make it durable; folders are made as needed."""
        ...

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that is there whole or not at all, durably, behind all that was written before."""
        ...

    def take(self, name: str, source: Path) -> None:
        """Put a local file in: as a link where that is possible, else as a copy. A file of that name is replaced."""
        ...

    def give(self, name: str, target: Path) -> None:
        """Put a copy of (or link to) a file into the local file system."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError where there is none."""
        ...

    def read_at(self, name: str, start: int, length: int) -> bytes:
        """A piece of a file."""
        ...

    def digest(self, name: str) -> tuple[int, str]:
        """Size and checksum (blake2b, 16 bytes) of a file."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """Names in a folder, without it; empty where there is no such folder."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it; no error where there is none."""
        ...

    def within(self, folder: str) -> Files:
        """A folder inside."""
        ...

    def check(self) -> None:
        """Refuse a place where nothing can ever be written, as far as that can be seen without writing.

        Raises:
            OSError: it is no folder, or may not be written to.
        """
        ...


class LocalFiles:
    """A directory of the machine."""

    local = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).absolute()
        self.location = self._root.as_uri()

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as f:
            f.writelines(parts)
            f.flush()
            os.fsync(f.fileno())

    def publish(self, name: str, data: bytes) -> None:
        path = self._root / name
        _sync_folder(path.parent)  # what was written before is in its folder for good
        temporary = path.with_name(path.name + ".new")
        self.write(f"{name}.new", [data])
        os.replace(temporary, path)
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)

    def take(self, name: str, source: Path) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".new")
        temporary.unlink(missing_ok=True)
        _link_or_copy(source, temporary)
        with temporary.open("rb") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)

    def give(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        _link_or_copy(self._root / name, target)

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def read_at(self, name: str, start: int, length: int) -> bytes:
        with (self._root / name).open("rb") as f:
            f.seek(start)
            return f.read(length)

    def digest(self, name: str) -> tuple[int, str]:
        with (self._root / name).open("rb") as f:
            return _digest(f)

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(p.name for p in (self._root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, name: str) -> None:
        path = self._root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=False)
        else:
            path.unlink(missing_ok=True)

    def within(self, folder: str) -> LocalFiles:
        return LocalFiles(self._root / folder)

    def check(self) -> None:
        there = next(p for p in (self._root, *self._root.parents) if p.exists())
        if not there.is_dir():
            raise NotADirectoryError(f"{there} is no folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(f"{there} may not be written to")
        try:  # root may do everything, as far as can be asked; not all places let it
            with tempfile.TemporaryDirectory(dir=there, prefix=".check-"):
                pass
        except OSError as e:
            raise PermissionError(f"{there} takes no folders: {e.strerror}") from e


def _digest(f: Any) -> tuple[int, str]:
    h = hashlib.blake2b(digest_size=16)
    size = 0
    while block := f.read(1 << 20):
        h.update(block)
        size += len(block)
    return size, h.hexdigest()


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; Windows has no such thing and does not need it."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class FsspecFiles:
    """A folder of any file system that fsspec opens; object stores publish a file whole, as `publish` has to."""

    local = False

    def __init__(self, location: str, fs: Any = None) -> None:
        if fs is None:
            try:
                fsspec = importlib.import_module("fsspec")
            except ImportError:
                raise ValidationException(
                    f"{location!r}: checkpoints anywhere but in a directory of the machine need the package fsspec: "
                    'pip install "streamline[fsspec]" (and the package of that file system)'
                ) from None
            try:
                fs, _ = fsspec.core.url_to_fs(location)
            except (ImportError, ValueError) as e:
                raise ValidationException(f"{location!r} cannot be opened: {e}") from e
        self._fs: Any = fs
        self.location = location.rstrip("/")
        self._root = fs._strip_protocol(self.location)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        path = self._path(name)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        with self._fs.open(path, "wb") as f:
            for part in parts:
                f.write(part)

    def publish(self, name: str, data: bytes) -> None:
        # Where files are written in place a torn one fails its checksum and counts as not there.
        self._fs.pipe_file(self._path(name), data)

    def take(self, name: str, source: Path) -> None:
        path = self._path(name)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.put_file(str(source), path)

    def give(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._fs.get_file(self._path(name), str(target))

    def read(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(self._path(name)))

    def read_at(self, name: str, start: int, length: int) -> bytes:
        return bytes(self._fs.cat_file(self._path(name), start=start, end=start + length))

    def digest(self, name: str) -> tuple[int, str]:
        with self._fs.open(self._path(name), "rb") as f:
            return _digest(f)

    def names(self, folder: str = "") -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(p.rstrip("/").rpartition("/")[2] for p in found)

    def delete(self, name: str) -> None:
        try:
            self._fs.rm(self._path(name), recursive=True)
        except FileNotFoundError:
            return

    def within(self, folder: str) -> FsspecFiles:
        return FsspecFiles(f"{self.location}/{folder}", self._fs)

    def check(self) -> None:
        """Only a write would tell."""


def files_at(location: str | os.PathLike[str]) -> Files:
    """The folder of a path, a `file:` URL, or a URL that fsspec understands.

    Raises:
        ValidationException: fsspec is needed and not there, or does not know the URL; or neither path nor URL.
    """
    text = os.fspath(location)
    if not text:
        raise ValidationException("the place for checkpoints is empty: give a path or a URL")
    parts = urlsplit(text)
    if parts.scheme == "file":
        return LocalFiles(unquote(parts.netloc + parts.path))
    if "://" in text:
        return FsspecFiles(text)
    if len(parts.scheme) > 1:  # a single letter is a drive
        raise ValidationException(
            f"{text!r} is no place for checkpoints: a URL is written {parts.scheme}://…, a local folder file:… or "
            f"./{text}"
        )
    return LocalFiles(os.path.expanduser(text))


def missing(what: str, e: Exception) -> CheckpointException:
    """An error that says what could not be read, and why."""
    return CheckpointException(f"{what} cannot be read: {type(e).__name__}: {e}")
