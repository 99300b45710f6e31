"""Many inputs as one: the consumer's side of the channels of a subtask."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, final

from streamline._channel.alignment import Aligner
from streamline._channel.channel import CAPACITY, Channel
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
        "_inputs",
        "_merger",
        "_next",
        "_poked",
        "_ready",
        "_waiter",
        "aligner",
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
        self._next = 0
        self._poked = False
        self._waiter: asyncio.Future[None] | None = None
        self.input = 0
        #: Whether event time was closed by all inputs that have ended.
        self.drain = True
        for channel in self._channels:
            channel.on_data = self._wake

    @property
    def channels(self) -> Sequence[Channel]:
        """The channels it reads."""
        return self._channels

    @property
    def watermark(self) -> int:
        """The merged watermark, epoch ms."""
        return self._merger.merged

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
                return self.aligner.arrived(i, element)
            case EndOfInput(drain):
                self._ended[i] = True
                self.drain = self.drain and drain
                self._say(*self._merger.end(i))
                barrier = self.aligner.ended(i)
                if barrier is not None:
                    ready.append(barrier)
                if all(self._ended):
                    ready.append(EndOfInput(self.drain))
        return ready.popleft() if ready else None

    def _say(self, moved: int | None, idle: bool | None) -> None:
        if moved is not None:
            self._ready.append(Watermark(moved))
        if idle is not None:
            self._ready.append(WatermarkStatus(idle))
