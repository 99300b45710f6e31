"""Requests that are under way, and in which order their results may leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ("Border", "Ordered", "Request", "RequestQueue", "Unordered")


class Request:
    """A record whose request is under way, or done and not handed on yet."""

    __slots__ = ("done", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] = []
        self.done = False
        self.segment: _Segment | None = None


class Border:
    """A watermark (epoch ms) or a change of idleness: no result crosses it."""

    __slots__ = ("idle", "watermark")

    def __init__(self, watermark: int | None, idle: bool | None) -> None:
        self.watermark = watermark
        self.idle = idle


class RequestQueue(ABC):
    """What was asked for and not handed on."""

    @abstractmethod
    def add(self, request: Request) -> None:
        """A request was begun."""

    @abstractmethod
    def add_border(self, border: Border) -> None:
        """Results of what was begun before stay before this."""

    @abstractmethod
    def done(self, request: Request) -> None:
        """A request has its results."""

    @abstractmethod
    def take(self) -> Iterator[list[Request] | Border]:
        """What may leave now, in order."""

    @abstractmethod
    def open(self) -> Iterable[Request]:
        """Requests that were not handed on, in the order in which they were begun."""

    @abstractmethod
    def __bool__(self) -> bool:
        """Whether anything is in it."""


class Ordered(RequestQueue):
    """Results leave in the order of the records."""

    def __init__(self) -> None:
        self._entries: deque[Request | Border] = deque()

    def add(self, request: Request) -> None:
        self._entries.append(request)

    def add_border(self, border: Border) -> None:
        self._entries.append(border)

    def done(self, request: Request) -> None:
        request.done = True

    def take(self) -> Iterator[list[Request] | Border]:
        entries = self._entries
        run: list[Request] = []
        while entries:
            first = entries[0]
            if isinstance(first, Border):
                if run:
                    yield run
                    run = []
                entries.popleft()
                yield first
            elif first.done:
                run.append(first)
                entries.popleft()
            else:
                break
        if run:
            yield run

    def open(self) -> Iterable[Request]:
        return [e for e in self._entries if isinstance(e, Request)]

    def __bool__(self) -> bool:
        return bool(self._entries)


class _Segment:
    """Requests between two borders."""

    __slots__ = ("border", "finished", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.finished: list[Request] = []
        #: What stands behind it, once something does.
        self.border: Border | None = None


class Unordered(RequestQueue):
    """Results leave as they come, within borders."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque([_Segment()])
        self._open: dict[Request, None] = {}

    def add(self, request: Request) -> None:
        segment = request.segment = self._segments[-1]
        segment.pending += 1
        self._open[request] = None

    def add_border(self, border: Border) -> None:
        self._segments[-1].border = border
        self._segments.append(_Segment())

    def done(self, request: Request) -> None:
        segment = request.segment
        assert segment is not None
        segment.pending -= 1
        segment.finished.append(request)

    def take(self) -> Iterator[list[Request] | Border]:
        while True:
            segment = self._segments[0]
            if segment.finished:
                finished, segment.finished = segment.finished, []
                for request in finished:
                    del self._open[request]
                yield finished
            if segment.border is None or segment.pending:
                return
            self._segments.popleft()
            yield segment.border

    def open(self) -> Iterable[Request]:
        return list(self._open)

    def __bool__(self) -> bool:
        return bool(self._open) or len(self._segments) > 1
