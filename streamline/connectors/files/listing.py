"""Which files a source reads: paths, globs and folders. What blocks here runs in a thread."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from streamline.errors import StreamlineError, ValidationException

__all__ = ("Listing", "local_path")


def local_path(path: str | os.PathLike[str]) -> str:
    """A path of this machine, also of a `file:` URL.

    Raises:
        ValidationException: a URL of another kind.
    """
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if len(scheme) <= 1:
        return text
    if scheme != "file":
        raise ValidationException(f"{text!r}: files are read and written on this machine only, not at {scheme}:")
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise ValidationException(f"{text!r} names another machine, {parts.netloc!r}: write file:///path")
    return unquote(parts.path)


class Listing:
    """The files that there are now, by name.

    Args:
        paths: of files (read whatever their names), of folders (with all below), or globs.
        pattern: a regular expression that the whole absolute path has to match.
        keep: says of an absolute path whether it is read.
        must_exist: a glob has to match something.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        pattern: re.Pattern[str] | None = None,
        keep: Callable[[str], bool] | None = None,
        must_exist: bool = True,
    ) -> None:
        self._paths = paths
        self._pattern = pattern
        self._keep = keep
        self._must_exist = must_exist

    def files(self) -> list[str]:
        """Absolute paths, sorted, each once.

        Raises:
            StreamlineError: a path is not there, or cannot be read.
        """
        found: set[str] = set()
        for path in self._paths:
            found.update(os.path.abspath(f) for f in self._expand(path))
        return sorted(f for f in found if self._wanted(f))

    def _wanted(self, path: str) -> bool:
        return (self._pattern is None or self._pattern.fullmatch(path) is not None) and (
            self._keep is None or self._keep(path)
        )

    def _expand(self, path: str) -> Iterator[str]:
        if os.path.isdir(path):
            yield from _below(path)
        elif os.path.exists(path):
            yield path
        elif glob.has_magic(path):
            matches = glob.glob(path, recursive=True)
            if not matches and self._must_exist:
                raise StreamlineError(f"no file matches {path!r} (in {os.getcwd()})")
            above = _fixed(path)
            for match in matches:
                if any(map(_is_hidden, os.path.relpath(match, above).split(os.sep))):
                    continue
                if os.path.isdir(match):
                    yield from _below(match)
                else:
                    yield match
        else:
            raise StreamlineError(f"there is no file or folder {path!r} (in {os.getcwd()})")


def _fixed(path: str) -> str:
    """The folders of a glob before the first that is a pattern."""
    folder = os.path.dirname(path)
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    return folder or os.curdir


def _is_hidden(name: str) -> bool:
    """Files of no interest: those being written, marks and the like."""
    return name.startswith((".", "_"))


def _below(folder: str) -> Iterator[str]:
    """All files of a folder and of those in it, except for hidden ones."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a folder that went away meanwhile has no files
            raise StreamlineError(f"{error.filename} cannot be read: {error.strerror}") from error

    for where, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [f for f in folders if not _is_hidden(f)]
        for name in names:
            if not _is_hidden(name):
                yield os.path.join(where, name)
