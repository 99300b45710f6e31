"""One logical output over many channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from streamline._channel.channel import Channel
from streamline._channel.partition import FirstKey
from streamline._core.elements import Barrier, Batch, Element, Watermark, WatermarkStatus
from streamline.abc import Output, Partitioner

__all__ = ("ChannelOutput", "Pace", "Route")


class Pace(Protocol):
    """A time slice that several tasks share."""

    #: When it is used up, seconds of `now`.
    deadline: float

    @property
    def now(self) -> Callable[[], float]: ...

    async def check(self) -> None:
        """Let others have the loop where it is used up."""
        ...


@dataclass(slots=True)
class Route:
    """One edge as seen by a producer subtask: its channels, and who of them gets which records (None: all get all)."""

    channels: Sequence[Channel]
    partitioner: Partitioner | None = None


@final
class ChannelOutput(Output):
    """Hands batches to routes, and control elements to every channel."""

    __slots__ = ("_all", "_main", "_only", "_sides", "emitted", "idle_sent", "pace", "records", "yielded")

    def __init__(self, main: Sequence[Route], sides: Mapping[str, Sequence[Route]] | None = None) -> None:
        self._main = list(main)
        self._sides = {tag: list(routes) for tag, routes in (sides or {}).items()}
        routes = [*self._main, *(r for rs in self._sides.values() for r in rs)]
        self._all = [c for r in routes for c in r.channels]
        only = self._main[0].channels if len(self._main) == 1 and self._main[0].partitioner is None else ()
        #: The single channel of the common case.
        self._only = only[0] if len(only) == 1 else None
        #: The time slice of the job's tasks; None: this output never yields to the loop by itself.
        self.pace: Pace | None = None
        #: Seconds for which it let others have the loop.
        self.yielded = 0.0
        #: Records sent on the main output.
        self.records = 0
        #: The last watermark sent, epoch ms.
        self.emitted: int | None = None
        self.idle_sent = False

    @property
    def channels(self) -> Sequence[Channel]:
        """Every channel it feeds."""
        return self._all

    @property
    def waited(self) -> float:
        """Seconds spent waiting for room."""
        only = self._only
        return only.waited if only is not None and len(self._all) == 1 else sum(c.waited for c in self._all)

    async def send(self, batch: Batch) -> None:
        size = len(batch.values)
        if not size:
            return
        self.records += size
        only = self._only
        if only is not None:
            if not only.send_nowait(batch):
                await only.send(batch)
        else:
            for route in self._main:
                await self._to(route, batch)
                if type(route.partitioner) is FirstKey:
                    route.partitioner = None
                    if len(self._main) == 1:
                        self._only = route.channels[0]
        # An operator may send much at once, e.g. when a watermark closes many windows.
        pace = self.pace
        if pace is not None and (since := pace.now()) >= pace.deadline:
            await pace.check()
            self.yielded += pace.now() - since

    async def pause(self) -> None:
        pace = self.pace
        if pace is not None and (since := pace.now()) >= pace.deadline:
            await pace.check()
            self.yielded += pace.now() - since

    async def side(self, tag: str, batch: Batch) -> None:
        if len(batch.values):
            for route in self._sides.get(tag, ()):
                await self._to(route, batch)

    def has_side(self, tag: str) -> bool:
        return tag in self._sides

    @staticmethod
    async def _to(route: Route, batch: Batch) -> None:
        channels = route.channels
        parts: Iterable[tuple[int, Batch]]
        if route.partitioner is None:
            parts = [(i, batch) for i in range(len(channels))]
        else:
            parts = route.partitioner.partition(batch)
        for i, part in parts:
            if not channels[i].send_nowait(part):
                await channels[i].send(part)

    def broadcast(self, element: Element) -> None:
        """Hand a control element to every channel; it is always taken."""
        for channel in self._all:
            channel.send_nowait(element)

    def overtake(self, barrier: Barrier) -> None:
        """Hand a barrier to every channel, ahead of everything that waits there."""
        for channel in self._all:
            channel.overtake(barrier)

    async def watermark(self, timestamp: int) -> None:
        if self.emitted is None or timestamp > self.emitted:
            self.emitted = timestamp
            self.broadcast(Watermark(timestamp))

    async def idle(self, idle: bool) -> None:
        if idle != self.idle_sent:
            self.idle_sent = idle
            self.broadcast(WatermarkStatus(idle))
