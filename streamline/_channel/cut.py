"""The cut of an unaligned checkpoint through the inputs of a subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from streamline._core.elements import Barrier, Batch, Element, Watermark, WatermarkStatus

__all__ = ("Cut",)


@final
class Cut:
    """What was on its way when the first barrier came: what barriers have overtaken, and what came before the others.

    Attributes:
        barrier: of which checkpoint.
        waiting: channels whose barrier has not come yet; what comes from them still belongs to the checkpoint.
        elements: batches and watermarks of the checkpoint with the number of their channel, oldest first.
        abandoned: nobody wants it any more.
    """

    __slots__ = ("_listeners", "abandoned", "barrier", "elements", "waiting")

    def __init__(self, barrier: Barrier, waiting: Iterable[int]) -> None:
        self.barrier = barrier
        self.waiting = set(waiting)
        self.elements: list[tuple[int, Element]] = []
        self.abandoned = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def whole(self) -> bool:
        """Whether every barrier has come."""
        return not self.waiting

    def passed(self, channel: int, element: Element) -> None:
        """A channel gave an element before its barrier."""
        if isinstance(element, (Batch, Watermark, WatermarkStatus)):
            self.elements.append((channel, element))

    def arrived(self, channel: int, overtaken: Iterable[Element]) -> None:
        """The barrier of a channel came, having overtaken these."""
        self.waiting.discard(channel)
        for element in overtaken:
            self.passed(channel, element)
        if self.whole:
            self._tell()

    def ended(self, channel: int) -> None:
        """A channel ended: no barrier will come."""
        if channel in self.waiting:
            self.arrived(channel, ())

    def abandon(self) -> None:
        """The checkpoint was given up; nothing happens where the cut is whole."""
        if self.whole:
            return
        self.abandoned = True
        self.waiting.clear()
        self._tell()

    def on_whole(self, listener: Callable[[], None]) -> None:
        """Call once it is whole or abandoned; at once where it is."""
        if self.whole:
            listener()
        else:
            self._listeners.append(listener)

    def _tell(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
