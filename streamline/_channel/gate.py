"""Many inputs as one: the consumer's side of the channels of a subtask."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, final

from streamline._channel.alignment import Aligner
from streamline._channel.channel import CAPACITY, Channel
from streamline._channel.cut import Cut
from streamline._channel.watermarks import WatermarkMerger
from streamline._core.elements import Barrier, Batch, Element, EndOfInput, Watermark, WatermarkStatus

__all__ = ("TICK", "Gate", "Tick")


@final
class Tick:
    """Not an element: somebody poked the gate, e.g. because a processing-time timer is due."""


TICK: Final = Tick()


@final
class Gate:
    """Merges channels: batches as they come (fairly), watermarks as their minimum, barriers aligned, the end once.

    `input` tells which logical input the last batch came from.
    """

    __slots__ = (
        "_channels",
        "_ended",
        "_expedited",
        "_inputs",
        "_merger",
        "_next",
        "_poked",
        "_ready",
        "_replayed",
        "_waiter",
        "aligner",
        "cut",
        "drain",
        "input",
    )

    def __init__(self, channels: Sequence[Channel], inputs: Sequence[int] = (), exactly_once: bool = True) -> None:
        """`inputs[i]` is the logical input that `channels[i]` belongs to; all 0 by default."""
        self._channels = list(channels)
        self._inputs = list(inputs) or [0] * len(self._channels)
        self._merger = WatermarkMerger(len(self._channels))
        self.aligner: Final = Aligner(len(self._channels), exactly_once)
        self._ended = [False] * len(self._channels)
        self._ready: deque[Element] = deque()
        self._replayed: deque[tuple[int, Element]] = deque()
        self._next = 0
        self._poked = False
        self._waiter: asyncio.Future[None] | None = None
        self.input = 0
        #: The last unaligned checkpoint; its barriers may not all have come.
        self.cut: Cut | None = None
        self._expedited = -1
        #: Whether event time was closed by all inputs that have ended.
        self.drain = True
        for channel in self._channels:
            channel.on_data = self._wake

    @property
    def channels(self) -> Sequence[Channel]:
        """The channels it reads."""
        return self._channels

    @property
    def inputs(self) -> Sequence[int]:
        """The logical input of each channel."""
        return self._inputs

    @property
    def watermark(self) -> int:
        """The merged watermark, epoch ms."""
        return self._merger.merged

    @property
    def held_back_by(self) -> list[str]:
        """Who fills the channels that had no watermark yet, where others had one and wait for them."""
        return [self._channels[i].producer for i in self._merger.held_back_by]

    def watermark_of(self, input: int) -> int:
        """The watermark of one logical input, epoch ms."""
        return self._merger.mark([i for i, of in enumerate(self._inputs) if of == input])

    def start_from(self, watermark: int) -> None:
        """Event time has come this far already (epoch ms), before the first element."""
        self._merger.merged = watermark

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def poke(self) -> None:
        """Make `receive` give TICK, now or the next time."""
        self._poked = True
        self._wake()

    async def receive(self, limit: int = CAPACITY) -> Element | Tick:
        """The next element, or TICK; waits for one."""
        while True:
            element = self.receive_nowait(limit)
            if element is not None:
                return element
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None

    def receive_nowait(self, limit: int = CAPACITY) -> Element | Tick | None:
        """The next element, TICK, or None where nothing is there."""
        if self._poked:
            self._poked = False
            return TICK
        if self._ready:
            return self._ready.popleft()
        if self._replayed and (replayed := self._replay()) is not None:
            return replayed
        channels, ended, blocked = self._channels, self._ended, self.aligner.blocked
        count = len(channels)
        start = self._next
        for offset in range(count):
            i = start + offset
            if i >= count:
                i -= count
            if ended[i] or i in blocked:
                continue
            while (element := channels[i].receive_nowait(limit)) is not None:
                cut = self.cut
                if cut is not None and i in cut.waiting:
                    cut.passed(i, element)
                if type(element) is Batch:
                    self.input = self._inputs[i]
                    self._next = i + 1 if i + 1 < count else 0
                    return element
                merged = self._control(i, element)
                if merged is not None:
                    return merged
                if ended[i] or i in blocked:
                    break
        return None

    def _control(self, i: int, element: Element) -> Element | None:
        """What a control element of channel i means for the merged input; more than one element queues up."""
        ready = self._ready
        match element:
            case Watermark(timestamp):
                moved = self._merger.advance(i, timestamp)
                return None if moved is None else Watermark(moved)
            case WatermarkStatus(idle):
                self._say(*self._merger.set_idle(i, idle))
            case Barrier():
                if element.unaligned or element.checkpoint_id == self._expedited:
                    return self._overtaking(i, element)
                return self.aligner.arrived(i, element)
            case EndOfInput(drain):
                self._ended[i] = True
                self.drain = self.drain and drain
                self._say(*self._merger.end(i))
                if self.cut is not None:
                    self.cut.ended(i)
                    self._close_cut()
                barrier = self.aligner.ended(i)
                if barrier is not None:
                    ready.append(barrier)
                if all(self._ended):
                    ready.append(EndOfInput(self.drain))
        return ready.popleft() if ready else None

    # -- unaligned checkpoints -----------------------------------------------------------------------------------

    def _overtaking(self, i: int, barrier: Barrier) -> Element | None:
        """An unaligned barrier came from channel i: the first one is the cut, the others close it."""
        overtaken, self._channels[i].overtaken = self._channels[i].overtaken, []
        n = barrier.checkpoint_id
        if n <= self.aligner.last or (self.cut is not None and n < self.cut.barrier.checkpoint_id):
            return self._ready.popleft() if self._ready else None
        first = self.cut is None or self.cut.barrier.checkpoint_id != n
        if first:
            self._open_cut(barrier, self.aligner.delivered(n))
        assert self.cut is not None
        self.cut.arrived(i, overtaken)
        self._close_cut()
        return self._ready.popleft() if self._ready else None

    def _open_cut(self, barrier: Barrier, delivered: AbstractSet[int]) -> None:
        if self.cut is not None:
            self.cut.abandon()
        waiting = [c for c in range(len(self._channels)) if not self._ended[c] and c not in delivered]
        barrier = Barrier(barrier.checkpoint_id, barrier.timestamp, barrier.savepoint, unaligned=True)
        self.cut = Cut(barrier, waiting)
        self.aligner.leave()
        self._ready.append(barrier)

    def _close_cut(self) -> None:
        if self.cut is not None and self.cut.whole:
            self.aligner.last = max(self.aligner.last, self.cut.barrier.checkpoint_id)

    def expedite(self, checkpoint_id: int) -> None:
        """Aligning takes too long: from now on the barriers of this checkpoint overtake what is before them."""
        if checkpoint_id <= max(self.aligner.last, self._expedited):
            return
        if self.cut is not None and self.cut.barrier.checkpoint_id >= checkpoint_id:
            return
        self._expedited = checkpoint_id
        current = self.aligner.current
        if current is not None and current.checkpoint_id == checkpoint_id:
            self._open_cut(current, self.aligner.delivered(checkpoint_id))
            self._close_cut()
        for channel in self._channels:
            channel.expedite(checkpoint_id)
        self._wake()

    def give_up(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted: nobody waits for its barriers any more."""
        if self.cut is not None and self.cut.barrier.checkpoint_id <= checkpoint_id:
            self.cut.abandon()
        self.aligner.give_up(checkpoint_id)

    def replay(self, elements: Iterable[tuple[int, Element]], same_channels: bool) -> None:
        """Give these first: what was on its way in the checkpoint that the job goes on from.

        Args:
            elements: batches and watermarks, each with the number of its channel where `same_channels`, else of its
                logical input: then watermarks mean nothing and are left out.
        """
        self._replayed.extend(
            (i if same_channels else -1 - i, element)
            for i, element in elements
            if same_channels or isinstance(element, Batch)
        )

    def _replay(self) -> Element | None:
        """The next replayed element; None where it brings nothing about."""
        while self._replayed:
            i, element = self._replayed.popleft()
            if isinstance(element, Batch):
                self.input = self._inputs[i] if i >= 0 else -1 - i
                return element
            merged = self._control(i, element)
            if merged is not None:
                return merged
        return None

    def _say(self, moved: int | None, idle: bool | None) -> None:
        if moved is not None:
            self._ready.append(Watermark(moved))
        if idle is not None:
            self._ready.append(WatermarkStatus(idle))
