"""The RocksDB backend: keyed state larger than memory, in a database of its own for each subtask.

The database is scratch: what survives is in checkpoints. It has no write-ahead log, and its folder is deleted when the
subtask ends. A full snapshot reads the rows of a RocksDB snapshot; an incremental one hands over the files of a RocksDB
checkpoint, of which only those are new that came since the last. While that one is being made, writes are held in
memory, so that it is the cut and nothing later.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, final
from uuid import uuid4
from weakref import WeakSet

from streamline._core.copying import copy_value
from streamline._core.declare import StateSpec
from streamline._state.rocks_table import RocksTable
from streamline._state.snapshot import SharedFile, SubtaskSnapshot, TableSnapshot
from streamline._state.types import Written
from streamline.errors import StateEncodingException, StreamlineError, ValidationException

__all__ = ("RocksBackend", "RocksDatabase", "local_folder")

#: Entries that are written before they are handed to the database: some milliseconds' work.
_DIRTY: Final = 2000
#: Entries of a subtask that come into memory before those that were not used meanwhile leave it.
_HELD: Final = 50_000
#: The same in bytes, as they are encoded; in memory they take several times that.
_DIRTY_BYTES: Final = 8 << 20
_HELD_BYTES: Final = 32 << 20
#: Entries that are handed over at first.
_FIRST: Final = 64
_numbers: Final = itertools.count()


def _rocksdict() -> Any:
    try:
        return importlib.import_module("rocksdict")
    except ImportError:
        raise ValidationException(
            'state.backend.type=rocksdb needs the package rocksdict: pip install "streamline[rocksdb]"'
        ) from None


def local_folder(root: str | None) -> Path:
    """A new folder for a database; those of processes that are gone are deleted.

    Args:
        root: where to make it; None: the machine's temporary folder.
    """
    base = Path(root) if root is not None else Path(tempfile.gettempdir())
    base.mkdir(parents=True, exist_ok=True)
    for stale in base.glob("streamline-state-*"):
        pid = stale.name.split("-")[2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(stale, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"streamline-state-{os.getpid()}-{next(_numbers)}-", dir=base))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


@final
class RocksDatabase:
    """A RocksDB database of rows of bytes. While `hold` lasts, writes stay in memory."""

    def __init__(self, path: Path) -> None:
        rocks = self._rocks = _rocksdict()
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(32 << 20)
        options.set_max_background_jobs(2)
        options.set_level_zero_file_num_compaction_trigger(4)
        # A filter for what is not in files yet: keys are looked up before they are written, and most are not there.
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(0.05)
        table = rocks.BlockBasedOptions()
        table.set_bloom_filter(10, False)
        table.set_block_cache(_cache(rocks))
        options.set_block_based_table_factory(table)
        self.path = path
        self._closing = threading.Lock()
        self._db: Any = rocks.Rdict(str(path), options)
        self._unlogged = rocks.WriteOptions()
        self._unlogged.disable_wal = True
        self._db.set_write_options(self._unlogged)
        self._waiting: dict[bytes, bytes | None] = {}
        #: How many rows were read and written lately, and their bytes.
        self.rows = self.bytes = 0
        #: Held writes by key; None where nothing is held.
        self._held: dict[bytes, bytes | None] | None = None

    # -- rows ----------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        if self._held is not None and key in self._held:
            return self._held[key]
        if key in self._waiting:
            return self._waiting[key]
        found: bytes | None = self._db.get(key)
        if found is not None:
            self.rows += 1
            self.bytes += len(found)
        return found

    def put(self, key: bytes, value: bytes) -> None:
        (self._waiting if self._held is None else self._held)[key] = value

    def delete(self, key: bytes) -> None:
        (self._waiting if self._held is None else self._held)[key] = None

    def put_all(self, rows: dict[bytes, bytes | None]) -> None:
        if self._held is not None:
            self._held.update(rows)
        else:
            self.commit()
            self._write(rows)

    def average(self) -> float:
        """About how many bytes a row has, of those read and written lately."""
        found = self.bytes / self.rows if self.rows else 0.0
        self.rows //= 2
        self.bytes //= 2
        return found

    def commit(self) -> None:
        if self._waiting:
            self._write(self._waiting)
            self._waiting = {}

    def _write(self, rows: dict[bytes, bytes | None]) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        put, delete, size = batch.put, batch.delete, 0
        for key, value in rows.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
                size += len(value)
        self.rows += len(rows)
        self.bytes += size
        self._db.write(batch, self._unlogged)

    def items(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        self.commit()
        rows = _under(self._db, prefix, after)
        if not self._held:
            return rows
        start = prefix if after is None else prefix + after
        cut = len(prefix)
        held = sorted(
            (k[cut:], v) for k, v in self._held.items() if k.startswith(prefix) and (after is None or k > start)
        )
        return _merged(rows, held)

    def delete_prefix(self, prefix: bytes) -> None:
        if self._held is not None:
            for key, _ in list(self.items(prefix)):
                self._held[prefix + key] = None
            return
        self.commit()
        self._db.delete_range(prefix, _behind(prefix))

    def count(self, prefix: bytes) -> int:
        """About how many rows there are; of all states, for RocksDB does not know better."""
        if self._db is None or prefix != b"\x00\x00":  # metrics are read after the end too
            return 0
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows as they are now, in order; to be read at leisure.

        An iterator of RocksDB's stays with what was there when it was made. (Its snapshot objects would be the obvious
        thing, but iterating over one, as rocksdict has it, shows later writes.)
        """
        self.release(1 << 60)
        self.commit()
        return iter(self._db.items())

    def hold(self) -> None:
        """Keep writes in memory from now on, until `release` has given them all to the database."""
        self.commit()
        self._held = {}

    def start_flush(self) -> None:
        """Begin to write what is in RocksDB's memory to files, in its own threads."""
        self._db.flush(False)

    def flushing(self) -> bool:
        """Whether that still goes on."""
        value = self._db.property_int_value
        return bool(value("rocksdb.mem-table-flush-pending") or value("rocksdb.num-running-flushes"))

    def checkpoint(self, target: Path) -> None:
        """Put links to all files of the database into a new folder."""
        with self._closing:
            if self._db is not None:
                self._rocks.Checkpoint(self._db).create_checkpoint(str(target))

    def release(self, limit: int) -> bool:
        """Give up to `limit` held writes to the database; whether all are given, and nothing is held any more."""
        held = self._held
        if held is None:
            return True
        some = dict(itertools.islice(held.items(), limit))
        self._write(some)
        for key in some:
            del held[key]
        if held:
            return False
        self._held = None
        return True

    def close(self) -> None:
        """Close it and delete its folder."""
        with self._closing:
            if self._db is not None:
                self._db.close()
                self._db = None
        shutil.rmtree(self.path, ignore_errors=True)


def _under(source: Any, prefix: bytes, after: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    cut = len(prefix)
    start = prefix if after is None else prefix + after
    for key, value in source.items(from_key=start):
        if not key.startswith(prefix):
            return
        if after is not None and key == start:
            continue
        yield key[cut:], value


def _merged(
    rows: Iterator[tuple[bytes, bytes]], held: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Rows with held writes in their places."""
    waiting = iter(held)
    key, value = next(waiting, (None, None))
    for row in rows:
        while key is not None and key < row[0]:
            if value is not None:
                yield key, value
            key, value = next(waiting, (None, None))
        if key == row[0]:
            if value is not None:
                yield key, value
            key, value = next(waiting, (None, None))
        else:
            yield row
    while key is not None:
        if value is not None:
            yield key, value
        key, value = next(waiting, (None, None))


def _behind(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix."""
    number = int.from_bytes(prefix, "big") + 1
    return number.to_bytes(len(prefix), "big")


def spec_of(written: TableSnapshot) -> StateSpec:
    """The declaration of a state that nobody has declared yet."""
    return StateSpec(
        type=Written(written.type),
        map_key=Written(written.key_type),
        kind=written.kind,
        namespaced=written.namespaced,
        copy=copy_value,
    )


class _Shared:
    #: One cache of blocks for all databases of the process.
    cache: Any = None


def _cache(rocks: Any) -> Any:
    if _Shared.cache is None:
        _Shared.cache = rocks.Cache(128 << 20)
    return _Shared.cache


@final
class RocksBackend:
    """The keyed state of one subtask in RocksDB."""

    def __init__(self, folder: Path, dirty: int = _DIRTY, held: int = _HELD) -> None:
        """
        Args:
            folder: where the database goes; deleted by `close`.
            dirty: entries that are written before they are handed to the database.
            held: entries that come into memory before those not used meanwhile leave it: up to twice as many are kept.
        """
        self.folder = folder
        self._batches = 0
        self._dirty_limit = dirty
        self._held_limit = held
        #: What is allowed now: less where values are large. At first little, to learn how large they are.
        self._dirty_now = min(dirty, _FIRST)
        self._held_now = min(held, 16 * _FIRST)
        self.tables: dict[str, RocksTable] = {}
        #: Those whose size is known at a glance.
        self._flat: list[RocksTable] = []
        #: Files of this database that lie in the checkpoints' shared folder, by their local name.
        self.shared: dict[str, SharedFile] = {}
        #: What the names of its files begin with there.
        self.prefix = uuid4().hex[:12]
        self._database: RocksDatabase | None = None
        self._closed = False
        #: The incremental snapshot for which writes are held.
        self.holder: Any = None
        #: Full snapshots that are not written yet: what they read from keeps the database open.
        self.readers: WeakSet[Any] = WeakSet()

    @property
    def database(self) -> RocksDatabase:
        """The database, opened when it is first needed.

        Raises:
            StreamlineError: the backend is closed.
        """
        if self._closed:  # a checkpoint that is given up behind the subtask's end must not open it again
            raise StreamlineError("the state's database is closed: its subtask has ended")
        if self._database is None:
            self._database = RocksDatabase(self.folder / "db")
        return self._database

    def table(self, name: str, spec: StateSpec) -> RocksTable:
        """A new table."""
        table = self.tables[name] = RocksTable(name, spec, self.database, len(self.tables))
        if not table.nested:
            self._flat.append(table)
        return table

    def adopt(self, snapshot: SubtaskSnapshot) -> None:
        """Go on with the database of a checkpoint, whose files have been put into `folder / "db"`."""
        # Of files in another job's shared folder copies are needed: it may delete them.
        self.shared = {} if snapshot.elsewhere else dict(snapshot.files)
        for written in sorted((t for t in snapshot.tables if t.form == "files"), key=lambda t: t.number):
            table = self.table(written.name, spec_of(written))
            assert table.number == written.number
            table.stamped = written.ttl
            table.codec.learn(written.classes)

    def maintain(self) -> None:
        """Between two elements: hand over what was written, let go of what is too much."""
        self._batches += 1
        if self._batches & 7 and sum(t.data.dirty for t in self._flat) < self._dirty_now:
            return
        tables = self.tables.values()
        full = sum(t.data.held for t in tables) > self._held_now  # also of what is only read
        if not full and sum(t.data.dirty for t in tables) < self._dirty_now:
            return
        self.settle()
        if full:
            for table in tables:
                table.data.shrink()
        size = max(1.0, self.database.average())
        self._dirty_now = min(self._dirty_limit, max(1, int(_DIRTY_BYTES / size)))
        self._held_now = min(self._held_limit, max(1, int(_HELD_BYTES / size)))

    def settle(self) -> None:
        """Hand everything that was written to the database."""
        for name, table in self.tables.items():
            try:
                table.data.settle()
            except StateEncodingException as e:
                raise StateEncodingException(f"state {name!r}: {e}") from None
        if self._database is not None:
            self._database.commit()

    def close(self) -> None:
        """Close the database and delete its folder."""
        self._closed = True
        self.holder = None
        for reader in list(self.readers):
            reader.let_go()
        if self._database is not None:
            self._database.close()
            self._database = None
        shutil.rmtree(self.folder, ignore_errors=True)
