"""Snapshots of a RocksDB backend: full, row by row, or incremental, by files."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import msgspec

from streamline._state.blocks import decode
from streamline._state.codec import encode_columns
from streamline._state.rocks import RocksBackend, RocksDatabase
from streamline._state.rocks_table import RocksTable
from streamline._state.snapshot import SharedFile, SubtaskSnapshot, TableSnapshot
from streamline._state.spill import Blocks, Spill
from streamline._state.threads import in_thread
from streamline._state.ttl import without_expired
from streamline._state.types import type_text
from streamline.errors import CheckpointException

__all__ = ("RocksFrozen", "Uploads", "fetch_database")

_encode: Final = msgspec.msgpack.Encoder().encode
#: Rows of a block.
_ROWS: Final = 4096
_BYTES: Final = 1 << 20
#: A file of RocksDB's that never changes; all others are small.
_TABLE: Final = ".sst"

Rest = Callable[[], Awaitable[None]]


@dataclass
class Uploads:
    """Files of a snapshot that have to be put into the shared folder, then `done`."""

    folder: Path
    new: dict[str, SharedFile]
    backend: RocksBackend = field(repr=False)

    def done(self) -> None:
        """They are there: later snapshots need not upload them again."""
        self.backend.shared.update(self.new)
        self.discard()

    def discard(self) -> None:
        """Nobody uploads them."""
        shutil.rmtree(self.folder, ignore_errors=True)


class RocksFrozen:
    """The rows of a backend as they were when this was made. Followed by one `encode`, or by `discard`."""

    def __init__(self, backend: RocksBackend, number: int, incremental: bool, now: int) -> None:
        self._backend = backend
        self._now = now
        self._live = list(backend.tables.values())
        self._folder = backend.folder / f"checkpoint-{number}"
        self._snapshot: Iterator[tuple[bytes, bytes]] | None = None
        self._aborted = False
        self._failure: Exception | None = None
        self._tables: list[TableSnapshot] = []
        try:
            backend.settle()
        except Exception as e:  # raised in `encode`: it is the checkpoint's failure, not the task's
            self._failure = e
            return
        self._tables = [
            TableSnapshot(
                name=t.name,
                kind=t.spec.kind,
                namespaced=t.spec.namespaced,
                ttl=t.stamped,
                entries=0,
                blocks=[],
                form="files" if incremental else "rows",
                classes=list(t.codec.descriptions),
                number=t.number,
                type=type_text(t.spec.type),
                key_type=type_text(t.spec.map_key),
            )
            for t in backend.tables.values()
        ]
        if not self._tables:
            return
        if incremental:
            if backend.holder is not None:
                backend.holder.give_up()
            backend.holder = self
            backend.database.hold()
            backend.database.start_flush()
        else:
            self._snapshot = backend.database.snapshot()
            backend.readers.add(self)

    def let_go(self) -> None:
        """The database is being closed: what was not read until now is lost."""
        if self._snapshot is not None:
            self._snapshot = None
            self._failure = CheckpointException("the subtask ended before its snapshot was written")

    def give_up(self) -> None:
        """Another snapshot is begun before the files of this one were linked: this one is lost."""
        self._aborted = True
        self._backend.holder = None
        self._backend.database.release(1 << 60)

    async def encode(self, into: SubtaskSnapshot, rest: Rest) -> None:
        """Add the rows to a snapshot; `rest` lets the loop have its turn."""
        if self._failure is not None:
            raise self._failure
        if self._snapshot is not None:
            await self._write_rows(into, rest)
        elif self._tables:
            await self._write_files(into, rest)

    async def _write_rows(self, into: SubtaskSnapshot, rest: Rest) -> None:
        assert self._snapshot is not None
        all_rows, self._snapshot = self._snapshot, None
        spill = Spill(self._backend.folder)
        for number, rows in groupby(all_rows, _table_of):
            table, live = self._tables[number], self._live[number]
            ttl = live.spec.ttl
            clean = table.ttl and ttl is not None and ttl.cleanup_in_snapshot
            table.blocks = blocks = Blocks(spill.read)
            while some := _some(rows):
                block = _encode([[key[2:] for key, _ in some], [value for _, value in some]])
                table.entries += len(some)
                blocks.append(spill.keep(_without_expired(table, live, block, self._now) if clean else block))
                await rest()
            if clean:
                table.form = "columns"
        into.tables += self._tables

    async def _write_files(self, into: SubtaskSnapshot, rest: Rest) -> None:
        backend = self._backend
        await in_thread(_until_flushed, backend.database)
        if self._aborted:
            raise CheckpointException("a later checkpoint was begun before this one had its files")
        await in_thread(backend.database.checkpoint, self._folder)
        while not backend.database.release(_ROWS):
            await rest()
        backend.holder = None
        known = backend.shared
        new: dict[str, SharedFile] = {}
        for path in sorted(self._folder.iterdir()):
            name = path.name
            if not name.endswith(_TABLE):
                into.small[name] = await in_thread(path.read_bytes)
            elif name in known:
                into.files[name] = known[name]
            else:
                size, checksum = await in_thread(digest_of, path)
                new[name] = into.files[name] = SharedFile(f"{backend.prefix}-{name}", size, checksum)
        for table in self._tables:
            table.entries = 1  # how many is not known; that there may be some is
        into.tables += self._tables
        into.uploads = Uploads(self._folder, new, backend)

    def discard(self) -> None:
        """Nobody wants it (any more): let go of what it holds."""
        self._snapshot = None
        if self._backend.holder is self:
            self.give_up()


def _some(rows: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The next rows, of no more than so many bytes: one at least."""
    found: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in islice(rows, _ROWS):
        found.append((key, value))
        size += len(value)
        if size >= _BYTES:
            break
    return found


def _table_of(row: tuple[bytes, bytes]) -> int:
    return int.from_bytes(row[0][:2], "big")


def _without_expired(table: TableSnapshot, live: RocksTable, block: bytes, now: int) -> bytes:
    """A block of rows as columns of what is alive."""
    piece = decode(table, block, live.codec.classes, None)
    spaces, counts, keys, values = without_expired(live.spec, piece, now)
    return encode_columns([keys, values] if spaces is None or counts is None else [spaces, counts, keys, values])


def _until_flushed(database: RocksDatabase) -> None:
    pause = threading.Event()
    while database.flushing():
        pause.wait(0.002)


def digest_of(path: Path) -> tuple[int, str]:
    """Size and checksum of a file."""
    h = hashlib.blake2b(digest_size=16)
    size = 0
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
            size += len(block)
    return size, h.hexdigest()


def fetch_database(snapshot: SubtaskSnapshot, fetch: Callable[[SharedFile, Path], None], target: Path) -> None:
    """Put the files of a snapshot's database into a new folder."""
    target.mkdir(parents=True)
    for name, data in snapshot.small.items():
        (target / name).write_bytes(data)
    for name, shared in snapshot.files.items():
        fetch(shared, target / name)


def rows_in(database: RocksDatabase, table: TableSnapshot) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The rows of a table in a database that was fetched, in runs."""
    rows = database.items(table.number.to_bytes(2, "big"))
    while some := _some(rows):
        yield [key for key, _ in some], [value for _, value in some]
