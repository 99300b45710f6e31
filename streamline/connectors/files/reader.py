"""Reads the files of one subtask.

One task reads ahead, in a thread, a piece of each file in turn; `poll` takes from what was read and never waits.
Back-pressure is that nothing is read while enough waits for `poll`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from anyio import to_thread

from streamline._core.time import sleep
from streamline._core.waiting import Latch
from streamline.abc import SourceContext, SourceReader, Split, SplitBatch
from streamline.connectors.files.chunks import Chunk, OpenFile, Position
from streamline.connectors.files.decoding import FileFormat, RecordDecoder, decoded

__all__ = ("FileReader", "ReaderSettings")

R = TypeVar("R")

#: Bytes read at a time.
CHUNK: Final = 256 << 10
#: Bytes that may wait for `poll`, of all files that are not held back.
WAITING: Final = 1 << 20
#: Files that are read in turn; the others wait until one of these has ended.
OPEN: Final = 64


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """What a FileSource tells its readers.

    Attributes:
        format: how files become values.
        interval: milliseconds between two looks at what has grown; None: files are read once, to their end.
        ignore_errors: skip and count records that cannot be read.
        max_record: bytes that a record may have.
        chunk: bytes read at a time.
    """

    format: FileFormat
    interval: int | None = None
    ignore_errors: bool = False
    max_record: int = 16 << 20
    chunk: int = CHUNK


class _File:
    """A file of this subtask.

    Attributes:
        position: where to go on after what `poll` has given out.
        chunk: what waits for `poll`; `taken` of its records were given out.
        unread: there may be more to read.
    """

    __slots__ = ("chunk", "decoder", "file", "id", "paused", "position", "size", "unread")

    def __init__(self, id_: str, file: OpenFile, position: Position) -> None:
        self.id = id_
        self.file = file
        self.position = position
        self.decoder: RecordDecoder | None = None
        self.chunk: Chunk | None = None
        self.size = 0
        self.unread = not position.done
        self.paused = False


class FileReader(SourceReader[Any]):
    """See the module."""

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings
        self._follow: Final = settings.interval is not None
        dialect = settings.format.dialect
        self._quoted = dialect.framing() if dialect is not None else None
        self._files: dict[str, _File] = {}
        #: Files with something to read, the one whose turn it is first.
        self._to_read: deque[_File] = deque()
        #: Files with something for `poll`, the one whose turn it is first.
        self._ready: deque[_File] = deque()
        self._go_on = Latch()
        self._hungry = True
        self._closed = False
        #: Held while a thread is at a file.
        self._reading = threading.Lock()

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        self._errors = ctx.metrics.counter("numRecordsInErrors")
        ctx.metrics.gauge("pendingBytes", self._pending)
        self._add(splits)
        if self._follow or self._to_read:
            ctx.spawn(self._read_ahead, "reading")
        if self._settings.interval is not None:
            ctx.spawn(partial(self._watch, self._settings.interval), "following")

    async def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        self._add(splits)
        self._go_on.set()

    def _add(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, plain in splits:
            position = Position.of(plain)
            file = OpenFile(
                split.payload,
                position,
                follow=self._follow,
                quoted=self._quoted,
                header=self._settings.format.header,
                max_record=self._settings.max_record,
            )
            found = self._files[split.id] = _File(split.id, file, position)
            if found.unread:
                self._to_read.append(found)

    # -- reading ahead -------------------------------------------------------------------------------------------

    async def _read_ahead(self) -> None:
        """Keep enough waiting for `poll` until everything has been read."""
        while True:
            turn = self._whose_turn()
            if turn is None:
                if not self._to_read and not self._follow:
                    return
                self._go_on.clear()
                await self._go_on.wait()
                continue
            chunk = await self._in_thread(partial(turn.file.read, self._settings.chunk))
            if self._closed:
                return
            self._accept(turn, chunk)

    def _whose_turn(self) -> _File | None:
        """The next file to read of; it goes to the end of the row."""
        waiting = sum(f.size for f in self._ready if not f.paused)
        if waiting >= WAITING:
            return None
        for i, f in enumerate(self._to_read):
            if i >= OPEN:
                break
            if f.chunk is None and not f.paused:
                del self._to_read[i]
                self._to_read.insert(min(len(self._to_read), OPEN - 1), f)
                return f
        return None

    def _accept(self, f: _File, chunk: Chunk | None) -> None:
        if chunk is None or chunk.is_last:
            f.unread = False
            self._to_read.remove(f)
        if chunk is None:
            if f.file.done:  # it is gone, and all of it was read
                f.position = f.position._replace(done=True)
                self._wake()
            return
        if f.decoder is None and chunk.records:
            f.decoder = self._settings.format.decoder(f.file)
        f.chunk = chunk
        f.size = chunk.end - chunk.offset
        if not chunk.records:
            self._finish_chunk(f, chunk)
            self._wake()
            return
        self._ready.append(f)
        self._wake()

    async def _watch(self, interval: int) -> None:
        """Look for what has grown."""
        while True:
            await sleep(self._ctx.clock, interval)
            at_rest = [f for f in self._files.values() if not f.unread and not f.position.done and f.chunk is None]
            for f in await self._in_thread(partial(_grown, at_rest)) or ():
                f.unread = True
                self._to_read.append(f)
            self._go_on.set()

    async def _in_thread(self, function: Callable[[], R]) -> R | None:
        """Run what blocks; None where the reader has been closed meanwhile: nothing may be opened any more."""

        def locked() -> R | None:
            with self._reading:
                return None if self._closed else function()

        return await to_thread.run_sync(locked)

    def _wake(self) -> None:
        if self._hungry:
            self._hungry = False
            self._ctx.wake()

    # -- polling -------------------------------------------------------------------------------------------------

    def poll(self, max_records: int) -> SplitBatch | None:
        ready, passed = self._ready, 0
        while passed < len(ready):
            f = ready.popleft()
            if f.paused:
                ready.append(f)
                passed += 1
                continue
            values = self._next(f, max_records)
            if f.chunk is not None:
                ready.append(f)
            if values:
                return SplitBatch(f.id, values)
        self._hungry = True
        return None

    def _next(self, f: _File, max_records: int) -> list[Any]:
        """Values of the next records of a file; its position moves behind them."""
        chunk = f.chunk
        assert chunk is not None and f.decoder is not None
        ignore = self._settings.ignore_errors
        values, count = decoded(f.decoder, f.file.path, chunk, max_records, ignore, self._errors)
        if count == len(chunk.records):
            self._finish_chunk(f, chunk)
            return values
        taken, chunk.records = chunk.records[:count], chunk.records[count:]
        chunk.offset += sum(map(len, taken)) + count
        chunk.line += count
        if self._quoted is not None:
            chunk.line += sum(r.count(b"\n") for r in taken)
        f.position = Position(chunk.offset, chunk.line, False, f.file.head)
        return values

    def _finish_chunk(self, f: _File, chunk: Chunk) -> None:
        f.chunk = None
        f.size = 0
        line = chunk.line + len(chunk.records)
        if self._quoted is not None:
            line += sum(r.count(b"\n") for r in chunk.records)
        f.position = Position(chunk.end, line, chunk.is_last, f.file.head)
        self._go_on.set()

    @property
    def finished(self) -> bool:
        return not self._follow and all(f.position.done for f in self._files.values())

    def finished_splits(self) -> Iterable[str]:
        ended = [f.id for f in self._files.values() if f.position.done]
        for id_ in ended:
            del self._files[id_]  # a split without a position has been read to its end
        return ended

    def pause(self, splits: Sequence[str], resume: Sequence[str]) -> None:
        for names, paused in ((splits, True), (resume, False)):
            for name in names:
                if name in self._files:
                    self._files[name].paused = paused
        self._go_on.set()
        self._wake()

    def positions(self) -> Mapping[str, Any]:
        return {f.id: f.position.plain() for f in self._files.values()}

    def _pending(self) -> int:
        return sum(max(0, f.file.size - f.position.offset) for f in self._files.values() if not f.position.done)

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._closed = True
        self._go_on.set()
        await to_thread.run_sync(self._close_files)

    def _close_files(self) -> None:
        with self._reading:
            for f in self._files.values():
                f.file.close()


def _grown(files: Sequence[_File]) -> list[_File]:
    return [f for f in files if f.file.has_grown()]
