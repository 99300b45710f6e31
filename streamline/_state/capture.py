"""Taking a snapshot of one subtask: a cut taken at once, written in slices while records flow on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import anyio
import msgspec

from streamline._core.time import perf_counter, yield_now
from streamline._state.codec import encode_columns, naming
from streamline._state.rocks_capture import RocksFrozen
from streamline._state.snapshot import OperatorSnapshot, SubtaskSnapshot, TableSnapshot
from streamline._state.table import MemoryTable
from streamline._state.ttl import without_expired
from streamline._state.types import type_text
from streamline.errors import StreamlineError

__all__ = ("Capture", "CaptureAborted")

#: Entries up to which a capture is encoded on the spot: cheaper than overlays, and well below a millisecond.
_TINY: Final = 1000
#: Entries in a first block; later ones are sized by how long the first took.
_START: Final = 1024


class CaptureAborted(StreamlineError):
    """The checkpoint that a capture belongs to was given up."""


class Capture:
    """The state of one subtask as it was when `capture` was called.

    Followed by one `encode`, or by `abort` where nobody wants it any more.
    """

    def __init__(
        self,
        header: SubtaskSnapshot,
        tables: Sequence[MemoryTable],
        operator: Sequence[tuple[OperatorSnapshot, list[list[Any]]]],
        before: Capture | None,
        now: int,
        frozen: RocksFrozen | None = None,
    ) -> None:
        self._now = now
        self._frozen = frozen
        self.checkpoint_id = header.checkpoint_id
        self._snapshot = header
        self._operator = operator
        self._before = before
        self._aborted = False
        self._failure: Exception | None = None
        self._size = _START
        self._tables: Sequence[MemoryTable] = ()
        self.done = anyio.Event()
        #: Lets others have the loop where it is time to; None: after a slice of its own.
        self.rest: Callable[[], Awaitable[None]] | None = None
        if before is None and sum(_weight(t) for t in tables) <= _TINY:
            try:
                self._encode_now(tables)
            except Exception as e:  # raised in `encode`: it is the checkpoint's failure, not the task's
                self._failure = e
            return
        self._tables = tables
        for table in tables:
            table.freeze()

    def abort(self) -> None:
        """Nobody wants the snapshot: `encode` puts things in order and raises CaptureAborted."""
        self._aborted = True

    def discard(self) -> None:
        """Put things in order at once: for a capture whose `encode` will never run."""
        if self._aborted and self._snapshot.uploads is not None:
            self._snapshot.uploads.discard()
        if self.done.is_set():
            return
        if self._before is not None:
            self._before.discard()
        for table in self._tables:
            table.thaw(1 << 60)
        self._finish()

    async def encode(self, slice_ms: float = 3.0) -> SubtaskSnapshot:
        """The snapshot as bytes; without `rest` it holds the loop for about `slice_ms` at a time.

        Raises:
            CaptureAborted: `abort` was called.
            StateEncodingException: a value of a type that cannot be kept; names the state and the type.
        """
        rest = self.rest or _Pace(slice_ms).rest
        try:
            if self._before is not None:
                await self._before.done.wait()
                self._before = None
            await self._encode(rest)
            await self._thaw(rest)
        finally:
            self.discard()
        return self._snapshot

    async def _encode(self, rest: Callable[[], Awaitable[None]]) -> None:
        if self._failure is not None:
            raise self._failure
        for head, columns in self._operator:
            with naming(f"operator state {head.name!r}"):
                self._snapshot.operator.append(msgspec.structs.replace(head, data=encode_columns(columns)))
            await rest()
        if self._frozen is not None:
            await self._frozen.encode(self._snapshot, rest)
            if self._aborted:
                raise CaptureAborted(f"checkpoint {self.checkpoint_id} was given up")
        for table in self._tables:
            written = _header(table)
            written.blocks = blocks = []
            self._snapshot.tables.append(written)
            for block, entries in self._blocks(table):
                blocks.append(block)
                written.entries += entries
                await rest()
                if self._aborted:
                    raise CaptureAborted(f"checkpoint {self.checkpoint_id} was given up")

    def _encode_now(self, tables: Sequence[MemoryTable]) -> None:
        for table in tables:
            written = _header(table)
            written.blocks = blocks = []
            for block, entries in self._blocks(table):
                blocks.append(block)
                written.entries += entries
            self._snapshot.tables.append(written)

    def _blocks(self, table: MemoryTable) -> Iterator[tuple[bytes, int]]:
        """Encoded runs of entries, each sized to take about a millisecond."""
        for piece in table.pieces(lambda: self._size):
            started = perf_counter()
            spaces, counts, keys, values = without_expired(table.spec, piece, self._now) if table.stamped else piece
            with naming(f"state {table.name!r}"):
                if spaces is None or counts is None:
                    block = encode_columns([keys, values])
                else:
                    block = encode_columns([spaces, counts, keys, values])
            took = perf_counter() - started
            if took < 0.0005 and self._size < 16384:
                self._size *= 2
            elif took > 0.002 and self._size > 64:
                self._size //= 2
            yield block, len(keys)

    async def _thaw(self, rest: Callable[[], Awaitable[None]]) -> None:
        for table in self._tables:
            while not table.thaw(8192):
                await rest()
            await rest()
        self._finish()

    def _finish(self) -> None:
        if self._frozen is not None:
            self._frozen.discard()
            self._frozen = None
        self._tables = ()
        self.done.set()


class _Pace:
    """Lets the loop have its turn after each slice."""

    __slots__ = ("_slice", "_started")

    def __init__(self, slice_ms: float) -> None:
        self._slice = slice_ms / 1000
        self._started = perf_counter()

    async def rest(self) -> None:
        if perf_counter() - self._started >= self._slice:
            await yield_now()
            self._started = perf_counter()


def _header(table: MemoryTable) -> TableSnapshot:
    spec = table.spec
    return TableSnapshot(
        name=table.name,
        kind=spec.kind,
        namespaced=spec.namespaced,
        ttl=table.stamped,
        entries=0,
        blocks=[],
        type=type_text(spec.type),
        key_type=type_text(spec.map_key),
    )


def _weight(table: MemoryTable) -> int:
    """How much there is to encode: entries, and what is in lists and maps; stops counting where it is much."""
    if table.more_than(_TINY):
        return _TINY + 1
    entries = table.entries()
    if table.spec.kind not in ("list", "map"):
        return entries
    values: Callable[[], Any] = table.data.values
    if table.spec.namespaced:
        return entries + sum(len(v) for inner in values() for v in inner.values())
    return entries + sum(map(len, values()))
