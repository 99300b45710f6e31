"""All state of one subtask: keyed state, timers, operator state; captured, restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from streamline._core.copying import copier, copy_value
from streamline._core.declare import StateSpec
from streamline._core.keys import KeyGroups
from streamline._core.time import Clock, yield_now
from streamline._state.capture import Capture
from streamline._state.classes import Classes, Undeclared
from streamline._state.codec import decode_column, read_columns
from streamline._state.handles import KINDS, NO_KEY, WINDOW_KINDS, FreshValueHandle, WindowHandles
from streamline._state.operator_state import OperatorState
from streamline._state.snapshot import SubtaskSnapshot, TableSnapshot
from streamline._state.table import MemoryTable, Piece, keep
from streamline._state.timers import Timers
from streamline._state.ttl import TTL_KINDS, TTL_WINDOW_KINDS, TtlTable, unwrap, wrap
from streamline.abc import KeyedStore, StateTable, Timer
from streamline.errors import CheckpointException, ValidationException

__all__ = ("SubtaskState",)


class SubtaskState:
    """State of one subtask.

    Attributes:
        store: keyed state; `store.key` is the current key.
        timers: the keyed state's timers.
        operator_store: state that belongs to no key.
        restored: whether it was restored from a checkpoint.
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
    ) -> None:
        """
        Args:
            key_groups: those that the subtask owns.
            max_parallelism: how many there are in all.
            clock: where processing time comes from.
            wake_at: called with the epoch ms of a processing-time timer that is earlier than all others.
            subtask_index, parallelism: which of how many it is, for operator state.
        """
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._subtask_index = subtask_index
        self._parallelism = parallelism
        self._wake_at = wake_at
        self._last: Capture | None = None
        self.timers = Timers(clock, wake_at)
        self.store = Store(self.timers, clock)
        self.operator_store = OperatorState(subtask_index, parallelism)
        self.restored = False

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

    def capture(self, checkpoint_id: int) -> Capture:
        """The state as it is now; takes no time to speak of. Followed by `await encode()` of what is returned."""
        header = SubtaskSnapshot(
            checkpoint_id=checkpoint_id,
            subtask_index=self._subtask_index,
            parallelism=self._parallelism,
            first_group=self._key_groups.start,
            end_group=self._key_groups.stop,
            max_parallelism=self._max_parallelism,
            tables=[],
            operator=[],
        )
        before = self._last if self._last is not None and not self._last.done.is_set() else None
        tables = [self.timers.event.table, self.timers.processing.table, *self.store.tables()]
        self._last = Capture(
            header, tables, self.operator_store.capture(), before, self.timers.current_processing_time()
        )
        return self._last

    async def restore(self, snapshots: Sequence[SubtaskSnapshot]) -> None:
        """Take over this subtask's share of what the subtasks of a checkpoint had, before anything is declared.

        Args:
            snapshots: of all subtasks of the operator, at whatever parallelism it had.

        Raises:
            CheckpointException: what is there cannot be read or does not fit the program.
        """
        self.restored = True
        self.operator_store.restore(snapshots)
        own = self._key_groups
        for snapshot in snapshots:
            theirs = range(snapshot.first_group, snapshot.end_group)
            same = snapshot.max_parallelism == self._max_parallelism
            if same and (theirs.stop <= own.start or own.stop <= theirs.start):
                continue
            whole = same and own.start <= theirs.start and theirs.stop <= own.stop
            owns = None if whole else _owner(own, self._max_parallelism)
            for table in snapshot.tables:
                await self._restore_table(table, owns)
        self.timers.event.rebuild()
        self.timers.processing.rebuild()
        if (first := self.timers.processing.next()) is not None:
            self._wake_at(first)

    async def _restore_table(self, written: TableSnapshot, owns: Callable[[Any], bool] | None) -> None:
        for queue in (self.timers.event, self.timers.processing):
            if written.name == queue.table.name:
                mine = None if owns is None else _owner_of_timers(owns)
                for block in written.blocks:
                    queue.table.load(_decode(block, Classes(), mine))
                    await yield_now()
                return
        for block in written.blocks:
            self.store.load(written, block, owns)
            await yield_now()

    # -- questions -----------------------------------------------------------------------------------------------

    def entries(self) -> int:
        """How many entries the keyed states and timers have, about."""
        tables = [self.timers.event.table, self.timers.processing.table, *self.store.tables()]
        return sum(t.entries() for t in tables)

    def undeclared(self) -> list[str]:
        """States of the restored checkpoint that the program has not asked for; they are kept."""
        return [*self.store.undeclared(), *self.operator_store.undeclared()]


class Store(KeyedStore):
    """Keyed state in memory (see `streamline.abc`)."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self.key: Any = NO_KEY
        self.timers = timers
        self._clock = clock
        self._tables: dict[str, MemoryTable] = {}
        self._expiring: dict[str, TtlTable] = {}
        self._declared: set[str] = set()
        self._waiting: dict[str, list[tuple[bytes, Callable[[Any], bool] | None]]] = {}

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

    def tables(self) -> list[MemoryTable]:
        """All states, for a capture."""
        for name in list(self._waiting):
            self._load_waiting(name, Classes())
        return list(self._tables.values())

    def undeclared(self) -> list[str]:
        """Restored states that nobody has declared."""
        return [name for name in self._tables if name not in self._declared]

    def load(self, written: TableSnapshot, block: bytes, owns: Callable[[Any], bool] | None) -> None:
        """Put a block of a snapshot in; where its classes cannot be told yet, it waits for the declaration."""
        name = written.name
        table = self._tables.get(name)
        if table is None:
            spec = StateSpec(kind=written.kind, namespaced=written.namespaced, copy=copy_value)
            table = self._tables[name] = MemoryTable(name, spec)
            table.stamped = written.ttl
        if name not in self._waiting:
            try:
                table.load(_decode(block, Classes(wait=True), owns))
                return
            except Undeclared:
                self._waiting[name] = []
        self._waiting[name].append((block, owns))

    def _load_waiting(self, name: str, classes: Classes) -> None:
        for block, owns in self._waiting.pop(name, ()):
            self._tables[name].load(_decode(block, classes, owns))

    def _declare(self, name: str, spec: StateSpec) -> MemoryTable:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = MemoryTable(name, spec)
            table.stamped = spec.ttl is not None
        elif _shape(table.spec) != _shape(spec):
            if name in self._declared:
                raise ValidationException(
                    f"state {name!r} is declared twice: as {_shape(table.spec)} and as {_shape(spec)} state; "
                    "give one of them another name"
                )
            raise CheckpointException(
                f"state {name!r} was written as {_shape(table.spec)} state and is declared as {_shape(spec)} state "
                "now: give the new one another name"
            )
        elif name not in self._declared:
            self._adopt(table, spec)
        if spec.ttl is not None and name not in self._expiring:
            self._expiring[name] = TtlTable(table, spec, spec.ttl, self._clock)
        self._declared.add(name)
        return table

    def _adopt(self, table: MemoryTable, spec: StateSpec) -> None:
        """A restored state is declared: values get the classes and the times of its declaration."""
        table.respec(spec)
        self._load_waiting(table.name, Classes(spec.type, spec.map_key))
        if spec.ttl is not None and not table.stamped:
            now = self._clock.now()
            table.rewrite(lambda value: wrap(spec.kind, value, now))
        elif spec.ttl is None and table.stamped:
            table.rewrite(lambda value: unwrap(spec.kind, value))
        table.stamped = spec.ttl is not None


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


def _decode(block: bytes, classes: Classes, owns: Callable[[Any], bool] | None) -> Piece:
    """A block as entries; with `owns`, only those whose key it accepts."""
    columns = [decode_column(n, node, classes) for n, node in read_columns(block)]
    keys, values = columns[-2:]
    spaces, counts = (columns[0], columns[1]) if len(columns) == 4 else (None, None)
    if owns is None:
        return spaces, counts, keys, values
    return keep(list(map(owns, keys)), spaces, counts, keys, values)
