"""All state of one subtask: keyed state, timers, operator state; captured, restored."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from streamline._core.copying import copier, copy_value
from streamline._core.declare import StateSpec
from streamline._core.keys import KeyGroups
from streamline._core.time import Clock, yield_now
from streamline._state.blocks import Block, Owns, decode, own_rows, rows_of_block
from streamline._state.capture import Capture
from streamline._state.classes import Classes, Undeclared
from streamline._state.handles import KINDS, NO_KEY, WINDOW_KINDS, FreshValueHandle, WindowHandles
from streamline._state.operator_state import OperatorState
from streamline._state.rocks import RocksBackend, RocksDatabase, local_folder, spec_of
from streamline._state.rocks_capture import RocksFrozen, fetch_database, rows_in
from streamline._state.rocks_table import RocksTable
from streamline._state.snapshot import SubtaskSnapshot, TableSnapshot, event_time, within
from streamline._state.spill import block_at
from streamline._state.table import MemoryTable, Table
from streamline._state.threads import in_thread
from streamline._state.timers import Timers
from streamline._state.ttl import TTL_KINDS, TTL_WINDOW_KINDS, TtlTable, unwrap, wrap
from streamline._state.types import Migration, Shape, check_key, key_shapes, type_text
from streamline.abc import KeyedStore, StateTable, Timer
from streamline.errors import CheckpointException, StateMigrationException, ValidationException

__all__ = ("SubtaskState",)

#: Stored keys of a state that are looked at.
_SAMPLE: Final = 64


class SubtaskState:
    """State of one subtask.

    Attributes:
        store: keyed state; `store.key` is the current key.
        timers: the keyed state's timers.
        operator_store: state that belongs to no key.
        restored: whether it was restored from a checkpoint.
        watermark, emitted: how far event time had come there, and the last watermark that was sent on (epoch ms).
        event_time: how far it had come by the operator's own reckoning.
    """

    def __init__(
        self,
        *,
        key_groups: range,
        max_parallelism: int,
        clock: Clock,
        wake_at: Callable[[int], None],
        subtask_index: int = 0,
        parallelism: int = 1,
        backend: RocksBackend | None = None,
    ) -> None:
        """
        Args:
            key_groups: those that the subtask owns.
            max_parallelism: how many there are in all.
            clock: where processing time comes from.
            wake_at: called with the epoch ms of a processing-time timer that is earlier than all others.
            subtask_index, parallelism: which of how many it is, for operator state.
            backend: where keyed state lies; None: in memory.
        """
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._subtask_index = subtask_index
        self._parallelism = parallelism
        self._wake_at = wake_at
        self._last: Capture | None = None
        self.timers = Timers(clock, wake_at)
        self.backend = backend
        self.store = Store(self.timers, clock, MemoryTable if backend is None else backend.table)
        self.operator_store = OperatorState(subtask_index, parallelism)
        self.restored = False
        self.watermark: int | None = None
        self.emitted: int | None = None
        self.event_time: int | None = None

    # -- timers --------------------------------------------------------------------------------------------------

    def due_event_timers(self, watermark: int) -> Iterator[Timer]:
        """Advance the watermark (epoch ms) and take out the event-time timers that are due, one by one.

        In order of time, then of registration; what is registered or deleted meanwhile counts.
        """
        self.timers.current_watermark = watermark
        return self.timers.event.due(watermark)

    def due_processing_timers(self, now: int) -> Iterator[Timer]:
        """Take out the processing-time timers that are due at `now` (epoch ms), one by one."""
        return self.timers.processing.due(now)

    def next_processing_timer(self) -> int | None:
        """Epoch ms of the earliest processing-time timer."""
        return self.timers.processing.next()

    # -- snapshots -----------------------------------------------------------------------------------------------

    def maintain(self) -> None:
        """Called between two batches: a chance for the backend to write things back."""
        if self.backend is not None:
            self.backend.maintain()

    def close(self) -> None:
        """Release everything; called once."""
        if self.backend is not None:
            self.backend.close()

    def capture(
        self,
        checkpoint_id: int,
        incremental: bool = False,
        watermark: int | None = None,
        emitted: int | None = None,
        event_time: int | None = None,
    ) -> Capture:
        """The state as it is now; takes no time to speak of. Followed by `await encode()` of what is returned.

        Args:
            checkpoint_id: of which the snapshot will be a part.
            incremental: where the backend can, hand over only what is new since the last one.
            watermark, emitted: how far event time has come, and the last watermark that was sent on (epoch ms).
            event_time: how far it has come by the operator's own reckoning.
        """
        header = SubtaskSnapshot(
            checkpoint_id=checkpoint_id,
            subtask_index=self._subtask_index,
            parallelism=self._parallelism,
            first_group=self._key_groups.start,
            end_group=self._key_groups.stop,
            max_parallelism=self._max_parallelism,
            tables=[],
            operator=[],
            watermark=within(watermark),
            emitted=within(emitted),
            event_time=within(event_time),
        )
        before = self._last if self._last is not None and not self._last.done.is_set() else None
        tables = [self.timers.event.table, self.timers.processing.table]
        tables += [t for t in self.store.tables() if isinstance(t, MemoryTable)]
        now = self.timers.current_processing_time()
        frozen = None if self.backend is None else RocksFrozen(self.backend, checkpoint_id, incremental, now)
        self._last = Capture(header, tables, self.operator_store.capture(), before, now, frozen)
        return self._last

    async def restore(self, snapshots: Sequence[SubtaskSnapshot]) -> None:
        """Take over this subtask's share of what the subtasks of a checkpoint had, before anything is declared.

        Args:
            snapshots: of all subtasks of the operator, at whatever parallelism it had.

        Raises:
            CheckpointException: what is there cannot be read or does not fit the program.
        """
        self.restored = True
        marks = event_time(snapshots, self._subtask_index, self._parallelism)
        self.watermark, self.emitted, self.event_time = marks
        self.operator_store.restore(snapshots)
        own = self._key_groups
        for snapshot in snapshots:
            theirs = range(snapshot.first_group, snapshot.end_group)
            same = snapshot.max_parallelism == self._max_parallelism
            if same and (theirs.stop <= own.start or own.stop <= theirs.start):
                continue
            whole = same and own.start <= theirs.start and theirs.stop <= own.stop
            owns = None if whole else _owner(own, self._max_parallelism)
            await self._restore_files(snapshot, owns, own == theirs)
            for table in snapshot.tables:
                await self._restore_table(table, owns)
        self.timers.event.rebuild()
        self.timers.processing.rebuild()
        if (first := self.timers.processing.next()) is not None:
            self._wake_at(first)

    async def _restore_files(self, snapshot: SubtaskSnapshot, owns: Owns, same: bool) -> None:
        """The tables that lie in a RocksDB database: taken over as it is, or read row by row."""
        tables = [t for t in snapshot.tables if t.form == "files"]
        if not tables:
            return
        if snapshot.fetch is None:
            raise CheckpointException("an incremental checkpoint without its folder cannot be read")
        if same and self.backend is not None and not self.backend.tables:
            await in_thread(fetch_database, snapshot, snapshot.fetch, self.backend.folder / "db")
            self.backend.adopt(snapshot)
            for adopted in self.backend.tables.values():
                self.store.adopt(adopted)
            return
        folder = local_folder(None) if self.backend is None else self.backend.folder / f"from-{snapshot.subtask_index}"
        database = None
        try:
            await in_thread(fetch_database, snapshot, snapshot.fetch, folder / "db")
            database = RocksDatabase(folder / "db")
            for table in tables:
                for rows in rows_in(database, table):
                    self.store.load(table, rows, owns)
                    await yield_now()
        finally:
            if database is not None:
                database.close()
            await in_thread(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _restore_table(self, written: TableSnapshot, owns: Owns) -> None:
        for queue in (self.timers.event, self.timers.processing):
            if written.name == queue.table.name:
                mine = None if owns is None else _owner_of_timers(owns)
                for i in range(len(written.blocks)):
                    queue.table.load(decode(written, await block_at(written.blocks, i), Classes(), mine))
                    await yield_now()
                return
        for i in range(len(written.blocks)):
            self.store.load(written, await block_at(written.blocks, i), owns)
            await yield_now()

    # -- questions -----------------------------------------------------------------------------------------------

    def entries(self) -> int:
        """How many entries the keyed states and timers have, about."""
        timers = self.timers.event.table.entries() + self.timers.processing.table.entries()
        return timers + sum(t.entries() for t in self.store.tables())

    def undeclared(self) -> list[str]:
        """States of the restored checkpoint that the program has not asked for; they are kept."""
        return [*self.store.undeclared(), *self.operator_store.undeclared()]


class Store(KeyedStore):
    """Keyed state by name (see `streamline.abc`)."""

    def __init__(self, timers: Timers, clock: Clock, make: Callable[[str, StateSpec], Table]) -> None:
        self.key: Any = NO_KEY
        self.timers = timers
        self._clock = clock
        self._make = make
        self._tables: dict[str, Table] = {}
        self._expiring: dict[str, TtlTable] = {}
        self._declared: set[str] = set()
        self._waiting: dict[str, list[tuple[TableSnapshot, Block, Owns]]] = {}
        self._restored: set[str] = set()
        self._shapes: set[Shape] | None = None

    def table(self, name: str, spec: StateSpec) -> StateTable:
        """The entries of a state, for operators whose loops go over many keys."""
        if spec.ttl is not None and (spec.namespaced or spec.kind in ("list", "map")):
            raise ValidationException(
                f"state {name!r}: a table of {'namespaced' if spec.namespaced else spec.kind} state cannot have a "
                "time to live; use handles"
            )
        table = self._declare(name, spec)
        return table if spec.ttl is None else self._expiring[name]

    def handle(self, name: str, spec: StateSpec) -> Any:
        """A handle bound to the current key."""
        if spec.namespaced:
            raise ValidationException(f"state {name!r} is namespaced: use window_handle")
        table = self._declare(name, spec)
        if spec.ttl is not None:
            return TTL_KINDS[spec.kind](self, self._expiring[name], spec)
        if spec.kind == "value" and copier(type(spec.default)) is not None:
            return FreshValueHandle(self, table, spec)
        return KINDS[spec.kind](self, table, spec)

    def window_handle(self, name: str, spec: StateSpec) -> WindowHandles:
        """Namespaced state: gives the handle for (current key, namespace)."""
        spec = replace(spec, namespaced=True)
        table = self._declare(name, spec)
        if spec.ttl is not None:
            expiring: Any = self._expiring[name]
            return WindowHandles(self, expiring, spec, TTL_WINDOW_KINDS[spec.kind])
        return WindowHandles(self, table, spec, WINDOW_KINDS[spec.kind])

    def keys(self, name: str) -> Iterator[Any]:
        """Keys that have an entry in a state; none where no such state was declared."""
        table: Any = self._expiring.get(name) or self._tables.get(name)
        if table is None:
            return iter(())
        if not table.spec.namespaced:
            return iter(table.data)
        raw = self._tables[name].data
        return iter(dict.fromkeys(key for inner in raw.values() for key in inner))

    def check_key(self, key: Any) -> None:
        """Look at one key of the stream: state that was restored has to have keys of its type, to be found again.

        Some of the stored keys tell for all of them, which are looked at where the first key is shown.

        Raises:
            StateMigrationException: it has not.
        """
        if self._shapes is None:
            stored = (islice(_keys_in(self._tables[name]), _SAMPLE) for name in self._restored)
            self._shapes = key_shapes(chain.from_iterable(stored))
        check_key(self._shapes, key)

    def read(self, name: str, key: Any) -> Any:
        """What a state holds under a key, seen from outside: a copy; None where there is nothing.

        Of namespaced state, a dict by namespace.

        Raises:
            ValidationException: there is no such state.
        """
        if name not in self._declared:
            known = ", ".join(sorted(self._declared)) or "none"
            raise ValidationException(f"there is no state {name!r} here; declared are: {known}")
        spec = self._tables[name].spec
        before, self.key = self.key, key
        try:
            if not spec.namespaced:
                return _look(self.handle(name, spec), spec)
            handles = self.window_handle(name, spec)
            spaces = [space for space, inner in self._tables[name].data.items() if key in inner]
            return {space: _look(handles(space), spec) for space in spaces} or None
        finally:
            self.key = before

    def tables(self) -> list[Table]:
        """All states, for a capture."""
        for name in list(self._waiting):
            self._load_waiting(name, Classes())
        return list(self._tables.values())

    def undeclared(self) -> list[str]:
        """Restored states that nobody has declared."""
        return [name for name in self._tables if name not in self._declared]

    def adopt(self, table: Table) -> None:
        """A table that came with the backend's files."""
        self._tables[table.name] = table
        self._restored.add(table.name)

    def load(self, written: TableSnapshot, block: Block, owns: Owns) -> None:
        """Put a block of a snapshot in; where its classes cannot be told yet, it waits for the declaration."""
        name = written.name
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._make(name, spec_of(written))
            self._restored.add(name)
            table.stamped = written.ttl
        if name not in self._waiting:
            try:
                _load(table, written, block, Classes(wait=True), owns)
                return
            except Undeclared:
                self._waiting[name] = []
        self._waiting[name].append((written, block, owns))

    def _load_waiting(self, name: str, classes: Classes) -> None:
        for written, block, owns in self._waiting.pop(name, ()):
            _load(self._tables[name], written, block, classes, owns)

    def _declare(self, name: str, spec: StateSpec) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._make(name, spec)
            table.stamped = spec.ttl is not None
        elif _shape(table.spec) != _shape(spec):
            if name in self._declared:
                raise ValidationException(
                    f"state {name!r} is declared twice: as {_shape(table.spec)} and as {_shape(spec)} state; "
                    "give one of them another name"
                )
            raise StateMigrationException(
                f"state {name!r} was written as {_shape(table.spec)} state and is declared as {_shape(spec)} state "
                "now: give the new one another name"
            )
        elif name not in self._declared:
            self._adopt(table, spec)
        if spec.ttl is not None and name not in self._expiring:
            self._expiring[name] = TtlTable(table, spec, spec.ttl, self._clock)
        self._declared.add(name)
        return table

    def _adopt(self, table: Table, spec: StateSpec) -> None:
        """A restored state is declared: values get the classes and the times of its declaration."""
        change = Migration(type_text(table.spec.type), type_text(table.spec.map_key), spec, f"state {table.name!r}")
        table.respec(spec)
        self._load_waiting(table.name, Classes(spec.type, spec.map_key))
        if change:
            table.rewrite(change.entry(spec.kind, table.stamped))
        if spec.ttl is not None and not table.stamped:
            now = self._clock.now()
            table.rewrite(lambda value: wrap(spec.kind, value, now))
        elif spec.ttl is None and table.stamped:
            table.rewrite(lambda value: unwrap(spec.kind, value))
        table.stamped = spec.ttl is not None


def _keys_in(table: Table) -> Iterator[Any]:
    """The keys that a table has entries of, those of several namespaces several times."""
    if not table.spec.namespaced:
        return iter(table.data)
    return chain.from_iterable(table.data[space] for space in table.data)


def _shape(spec: StateSpec) -> str:
    return f"{'namespaced ' if spec.namespaced else ''}{spec.kind}"


def _look(handle: Any, spec: StateSpec) -> Any:
    """What a handle shows, as an independent value."""
    match spec.kind:
        case "value":
            found = handle.value()
        case "list":
            found = handle.get() or None
        case "map":
            found = dict(handle.items()) or None
        case _:
            found = handle.get()
    return copy_value(found)


def _owner(groups: range, max_parallelism: int) -> Callable[[Any], bool]:
    of = KeyGroups(max_parallelism).of
    return lambda key: of(key) in groups


def _owner_of_timers(owns: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda item: (item[0] is None and item[1] is not None) or owns(item[0])


def _load(table: Table, written: TableSnapshot, block: Block, classes: Classes, owns: Owns) -> None:
    """Put a block of a snapshot into a table: rows as they are where that is possible."""
    if isinstance(table, RocksTable) and written.form != "columns" and table.codec.learn(written.classes):
        table.load_raw(*own_rows(written, classes, *rows_of_block(block), owns))
    else:
        table.load(decode(written, block, classes, owns))
