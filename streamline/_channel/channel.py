"""The bounded channel between two subtasks.

`send_nowait` and `receive_nowait` hold all the logic; the coroutines only wait, so a cancelled `send` or `receive` has
either done all of it or nothing: no element is ever lost or doubled. Only records take permits; control elements are
always admitted, so that back-pressure never delays the admission of a barrier. Their number is bounded by other means:
a watermark replaces one that waits right before it, barriers by the number of concurrent checkpoints.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from streamline._core.changes import RowKind
from streamline._core.elements import Barrier, Batch, Element, Watermark, WatermarkStatus
from streamline._core.time import perf_counter

__all__ = ("CAPACITY", "Channel", "ChannelStatistics", "merge")

#: Records a channel holds by default. Larger ones cost more than they bring: CPython's collector walks what waits.
CAPACITY: Final = 1024
#: A batch of at least this many records is handed on as it is; smaller ones that wait together are merged.
_LARGE: Final = 256


def merge(batches: Sequence[Batch]) -> Batch:
    """The records of several batches as one, in order."""
    values: list[Any] = []
    for b in batches:
        values += b.values
    timestamps: list[int | None] | None = None
    if any(b.timestamps is not None for b in batches):
        timestamps = []
        for b in batches:
            timestamps += [None] * len(b.values) if b.timestamps is None else b.timestamps
    kinds: list[RowKind] | None = None
    if any(b.kinds is not None for b in batches):
        kinds = []
        for b in batches:
            kinds += [RowKind.INSERT] * len(b.values) if b.kinds is None else b.kinds
    return Batch(values, timestamps, kinds)


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A channel at one moment: records that wait, its capacity, elements that wait, seconds its producer has waited."""

    records: int
    capacity: int
    elements: int
    waited: float


@final
class Channel:
    """Bounded, first in first out, one producer and one consumer on the same event loop."""

    __slots__ = ("_capacity", "_items", "_records", "_room", "on_data", "overtaken", "producer", "waited")

    def __init__(self, capacity: int = CAPACITY, producer: str = "") -> None:
        """`capacity` counts records. A larger batch is admitted alone. `producer` says for people who fills it."""
        self.producer = producer
        self._capacity = capacity
        self._items: deque[Element] = deque()
        self._records = 0
        self._room: asyncio.Future[None] | None = None
        #: What the last unaligned barrier has overtaken; the consumer takes it when the barrier reaches it.
        self.overtaken: list[Element] = []
        #: Called after every element that was put in; the consumer's gate sets it.
        self.on_data: Callable[[], None] | None = None
        #: Seconds that the producer has waited for room: back-pressure.
        self.waited = 0.0

    def __len__(self) -> int:
        return len(self._items)

    def send_nowait(self, element: Element) -> bool:
        """Put an element in, or give False where a batch finds no room. Control elements are always taken."""
        items = self._items
        if type(element) is Batch:
            size = len(element.values)
            held = self._records
            if held and held + size > self._capacity:
                return False
            self._records = held + size
            items.append(element)
        elif type(element) in (Watermark, WatermarkStatus) and items and type(items[-1]) is type(element):
            items[-1] = element  # nothing came between the two: the newer one says it all
        else:
            items.append(element)
        if self.on_data is not None:
            self.on_data()
        return True

    async def send(self, element: Element) -> None:
        """Put an element in, waiting for room where it is a batch."""
        while not self.send_nowait(element):
            room = self._room = asyncio.get_running_loop().create_future()
            since = perf_counter()
            try:
                await room
            finally:
                self._room = None
                self.waited += perf_counter() - since

    def receive_nowait(self, limit: int = CAPACITY) -> Element | None:
        """Take the next element, or None. Small batches that wait one behind the other come as one.

        Args:
            limit: records at most; the rest of a larger batch stays.
        """
        items = self._items
        if not items:
            return None
        first = items.popleft()
        if type(first) is not Batch:
            return first
        size = len(first.values)
        if size > limit:
            items.appendleft(first.slice(limit, size))
            first = first.slice(0, limit)
            size = limit
        elif size < _LARGE and items and type(items[0]) is Batch:
            parts = [first]
            while items:
                following = items[0]
                if type(following) is not Batch or size + len(following.values) > limit:
                    break
                parts.append(following)
                size += len(following.values)
                items.popleft()
            if len(parts) > 1:
                first = merge(parts)
        self._records -= size
        room = self._room
        if room is not None and not room.done():
            room.set_result(None)
        return first

    def overtake(self, barrier: Barrier) -> None:
        """Put a barrier ahead of everything that waits, and keep in `overtaken` what that was."""
        self.overtaken = list(self._items)
        self._items.appendleft(barrier)
        if self.on_data is not None:
            self.on_data()

    def expedite(self, checkpoint_id: int) -> None:
        """Let the barrier of a checkpoint, where it waits here, overtake what waits before it."""
        items = self._items
        for i, element in enumerate(items):
            if type(element) is Barrier and element.checkpoint_id == checkpoint_id:
                if element.unaligned:
                    return  # it has overtaken them already
                self.overtaken = [items[n] for n in range(i)]
                del items[i]
                items.appendleft(element)
                return

    def __iter__(self) -> Iterator[Element]:
        return iter(tuple(self._items))

    def statistics(self) -> ChannelStatistics:
        """How full it is now."""
        return ChannelStatistics(self._records, self._capacity, len(self._items), self.waited)
