"""Reading one file piece by piece. Everything here blocks and runs in a thread."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple
from zlib import error as ZlibError

from streamline.connectors.files.framing import cut
from streamline.connectors.formats.csv.dialect import QuotedLines
from streamline.errors import StreamlineError

__all__ = ("Chunk", "FileChangedError", "OpenFile", "Position")

#: Bytes at the beginning of a file by which it is recognised.
HEAD: Final = 256
_MARK: Final = b"\xef\xbb\xbf"


class FileChangedError(StreamlineError):
    """A file is not what it was when it was read: truncated, replaced, or gone. Whoever writes it has to act."""


class Position(NamedTuple):
    """Where reading goes on: what a checkpoint holds of a file.

    Attributes:
        offset: bytes (of what is in a compressed file) before it.
        line: lines before it.
        done: nothing follows, whatever happens to the file.
        head: length and digest of the file's first bytes.
    """

    offset: int = 0
    line: int = 0
    done: bool = False
    head: tuple[int, str] = (0, "")

    def plain(self) -> list[Any]:
        """As plain data."""
        return [self.offset, self.line, self.done, list(self.head)]

    @classmethod
    def of(cls, plain: Sequence[Any] | None) -> Position:
        """Of plain data; None: the beginning."""
        if plain is None:
            return cls()
        offset, line, done, (length, digest) = plain
        return cls(offset, line, done, (length, digest))


@dataclass(slots=True)
class Chunk:
    """Records that were read together.

    Attributes:
        records: without the line ends between them.
        offset, line: where the first begins.
        end: the offset behind the last.
        is_last: the file ends there.
    """

    records: list[bytes]
    offset: int
    line: int
    end: int
    is_last: bool


class OpenFile:
    """A file that is being read from a position on.

    Args:
        path: of the file; one that ends in `.gz` is compressed.
        position: where to go on.
        follow: the file may grow: what has no line end is not read yet.
        quoted: see `cut`.
        header: the first record names the columns.
        max_record: bytes that a record may have.
    """

    def __init__(
        self,
        path: str,
        position: Position,
        *,
        follow: bool = False,
        quoted: QuotedLines | None = None,
        header: bool = False,
        max_record: int = 16 << 20,
    ) -> None:
        self.path: Final = path
        self.compressed: Final = path.endswith(".gz")
        #: Behind the records that were read.
        self.offset = position.offset
        self.line = position.line
        self.done = position.done
        self.head = position.head
        self.header: bytes | None = None
        self.size = 0
        self.modified = 0
        self.follow: Final = follow and not self.compressed
        self._quoted = quoted
        self._has_header = header
        self._max_record = max_record
        self._file: IO[bytes] | None = None
        #: Read already, but not of a whole record.
        self._rest = b""
        self._checked = False
        #: The first bytes of the file, as many as were read, up to HEAD.
        self._begin = b""
        self._identity: tuple[int, int] | None = None

    def read(self, size: int) -> Chunk | None:
        """The next records, of about `size` bytes; None where there is nothing more now.

        Raises:
            FileChangedError: the file is not the one that was read before.
            StreamlineError: it cannot be read, or a record is too long.
        """
        try:
            return self._read(size)
        except (EOFError, gzip.BadGzipFile, ZlibError) as e:
            raise StreamlineError(
                f"{self.path} is no whole gzip file: {e}. Is it still being written? Write it under a hidden name, "
                "and rename it when it is complete."
            ) from e
        except FileNotFoundError as e:
            raise FileChangedError(
                f"{self.path} is gone, and was read up to byte {self.offset} only: keep files until a checkpoint says "
                "that they have been read"
            ) from e
        except OSError as e:
            raise StreamlineError(f"{self.path} cannot be read at byte {self.offset}: {e.strerror or e}") from e

    def _read(self, size: int) -> Chunk | None:
        if self.done:
            return None
        file = self._file
        if file is None:
            file = self._open()
            if self._has_header and self.header is None:
                self.close()
                self.done = not self.follow
                return Chunk([], self.offset, self.line, self.offset, True) if self.done else None
        while True:
            data = file.read(size)
            at_end = not data if self.compressed else len(data) < size
            pending = self._rest + data if self._rest else data
            records, used = cut(pending, at_end and not self.follow, self._quoted)
            if used or at_end:
                break
            self._rest = pending
            self._check_length(len(pending))
            size *= 2  # a long record: not again and again the same bytes
        self._rest = pending[used:]
        self._check_length(len(self._rest))
        start, line = self.offset, self.line
        self.offset += used
        if self._quoted is None:
            self.line += len(records)
        else:
            self.line += sum(r.count(b"\n") for r in records) + len(records)
        if at_end:
            self.close()
            self.done = not self.follow
        if len(self._begin) < HEAD:
            self._extend_head(start, pending[:used])
        if not records and not self.done:
            return None
        return Chunk(records, start, line, self.offset, self.done)

    def _check_length(self, length: int) -> None:
        if length > self._max_record:
            raise StreamlineError(
                f"{self.path}, line {self.line + 1}, byte {self.offset}: a record is longer than {self._max_record} "
                "bytes. Is this a file of such records? FileSource(max_record_size=…) allows longer ones."
            )

    # -- opening -------------------------------------------------------------------------------------------------

    def _open(self) -> IO[bytes]:
        opened: Any = gzip.open(self.path) if self.compressed else open(self.path, "rb", buffering=0)  # noqa: SIM115
        file: IO[bytes] = opened
        try:
            status = os.stat(file.fileno())
            self._identity = status.st_dev, status.st_ino
            self.size, self.modified = status.st_size, status.st_mtime_ns // 1_000_000
            self._verify(file)
            if self._has_header and self.header is None:
                self._read_header(file)
            elif not self.offset and not self._has_header and _exactly(file, len(_MARK)) == _MARK:
                self.offset = len(_MARK)
                self._extend_head(0, _MARK)
            if not self._has_header or self.header is not None:
                self._rest = b""
            file.seek(self.offset)
        except BaseException:
            file.close()
            raise
        self._file = file
        return file

    def _verify(self, file: IO[bytes]) -> None:
        """Whether it still begins as it did, and is as long as what was read of it."""
        if not self.offset:
            self.head, self._begin = (0, ""), b""
            return
        length, digest = self.head
        if not self.compressed and self.size < self.offset:
            raise FileChangedError(
                f"{self.path} was read up to byte {self.offset}, and has {self.size} bytes now: it was truncated, or "
                "replaced by another one of this name. Rotated files need names of their own."
            )
        self._begin = _exactly(file, length)
        if length and _digest(self._begin) != digest:
            raise FileChangedError(
                f"{self.path} was read up to byte {self.offset}, and begins differently now: it was replaced by "
                "another one of this name. Rotated files need names of their own."
            )
        if self.offset > len(_MARK) and not self._checked and not self.compressed:
            file.seek(self.offset - 1)
            if file.read(1) != b"\n":
                raise FileChangedError(
                    f"{self.path} was read up to byte {self.offset}, and no line begins there now: its content was "
                    "changed"
                )
        self._checked = True

    def _read_header(self, file: IO[bytes]) -> None:
        file.seek(0)
        data, records = b"", list[bytes]()
        used = 0
        while not records:
            more = file.read(1 << 16)
            data += more
            self._check_length(len(data))
            complete = not more and not self.follow
            records, used = cut(data, complete, self._quoted)
            if not more:
                break
        if not records:
            self._rest = data  # an empty file, or the header is not there yet
            return
        first = records[0]
        self.header = first.removeprefix(_MARK)
        if not self.offset:
            self.offset = min(len(first) + 1, used)
            self.line = first.count(b"\n") + 1
            self._extend_head(0, data[: self.offset])

    def _extend_head(self, start: int, data: bytes) -> None:
        """Remember how the file begins, as far as it was read; `data` begins at offset `start`."""
        if start == len(self._begin) < HEAD and data:
            self._begin += data[: HEAD - start]
            self.head = (len(self._begin), _digest(self._begin))

    # -- following -----------------------------------------------------------------------------------------------

    def has_grown(self) -> bool:
        """Whether there may be more to read.

        Raises:
            FileChangedError: it was truncated or replaced.
        """
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            if self._rest:
                raise FileChangedError(
                    f"{self.path} is gone, and ended in the middle of line {self.line + 1}, at byte {self.offset}"
                ) from None
            self.done = True
            return True
        except OSError as e:
            raise StreamlineError(f"{self.path} cannot be looked at: {e.strerror or e}") from e
        grown = status.st_size != self.offset + len(self._rest)
        replaced = self._identity is not None and (status.st_dev, status.st_ino) != self._identity
        return grown or replaced

    def close(self) -> None:
        """Let go of it; the next `read` opens it again where it is needed."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def _exactly(file: IO[bytes], length: int) -> bytes:
    file.seek(0)
    found = b""
    while len(found) < length and (more := file.read(length - len(found))):
        found += more
    return found


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
