"""Blocks of state that need not be in memory: a few are, the others lie in a file and are read one at a time."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, final, overload

from streamline._state.threads import in_thread

__all__ = ("Blocks", "Spill", "block_at", "lengths")

#: Bytes of a snapshot that stay in memory.
ROOM: Final = 16 << 20

#: A place in a file: where it begins, and how many bytes.
Span: TypeAlias = tuple[int, int]


@final
class Spill:
    """A file without a name, for what a snapshot has beyond the room in memory; it is gone when nobody has it."""

    def __init__(self, folder: Path, room: int = ROOM) -> None:
        """
        Args:
            folder: on whose disk it is.
            room: bytes that stay in memory.
        """
        self._folder = folder
        self._room = room
        self._end = 0
        self._file = None if room > 0 else self._open()
        self._lock = threading.Lock()

    def _open(self) -> tempfile._TemporaryFileWrapper[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._folder)  # type: ignore[return-value]

    def keep(self, block: bytes) -> bytes | Span:
        """The block itself while there is room, else where it lies."""
        if len(block) <= self._room:
            self._room -= len(block)
            return block
        self._room = 0
        if self._file is None:
            self._file = self._open()
        with self._lock:
            self._file.seek(self._end)
            self._file.write(block)
        span = self._end, len(block)
        self._end += len(block)
        return span

    def read(self, start: int, length: int) -> bytes:
        """What lies there."""
        assert self._file is not None
        with self._lock:
            self._file.seek(start)
            return self._file.read(length)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()


@final
class Blocks(Sequence[bytes]):
    """Blocks, each in memory or in a file."""

    def __init__(self, read: Callable[[int, int], bytes], places: Sequence[bytes | Span] = ()) -> None:
        """`read(start, length)` gives what lies in the file."""
        self._read = read
        self._places = list(places)

    def append(self, place: bytes | Span) -> None:
        """One more."""
        self._places.append(place)

    def in_file(self, index: int) -> bool:
        """Whether one of them lies in the file."""
        return not isinstance(self._places[index], bytes)

    @property
    def spilled(self) -> bool:
        """Whether some of them lie in the file."""
        return any(not isinstance(p, bytes) for p in self._places)

    @property
    def lengths(self) -> list[int]:
        """Of each how many bytes it has."""
        return [len(p) if isinstance(p, bytes) else p[1] for p in self._places]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return Blocks(self._read, self._places[index])
        place = self._places[index]
        return place if isinstance(place, bytes) else self._read(*place)


def lengths(blocks: Sequence[bytes]) -> list[int]:
    """Of each block how many bytes it has."""
    return blocks.lengths if isinstance(blocks, Blocks) else list(map(len, blocks))


async def block_at(blocks: Sequence[bytes], index: int) -> bytes:
    """One of them; where it lies in a file, it is read in a thread."""
    if isinstance(blocks, Blocks) and blocks.in_file(index):
        return await in_thread(blocks.__getitem__, index)
    return blocks[index]
