"""Faults as data: what goes wrong where, and how often. `inject` puts them into a graph; the graph itself is unchanged.

    graph = inject(graph, FailOnRecord("count", 100), FailInSnapshot("count", checkpoint=2))

A fault strikes `times` times in the life of the object, whatever restarts: what struck once lets the next attempt pass.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from streamline._core.elements import Barrier, Batch
from streamline._core.time import Duration, sleep, to_millis
from streamline._graph.stream_graph import Node, StreamGraph
from streamline.abc import Operator, OperatorContext, Output, Source, SourceContext, Timer, TwoInputOperator
from streamline.errors import ValidationException

__all__ = (
    "FailInClose",
    "FailInCommit",
    "FailInOpen",
    "FailInSnapshot",
    "FailOnRecord",
    "FailOnTimer",
    "Fault",
    "InjectedFault",
    "Slow",
    "inject",
)


class InjectedFault(Exception):
    """What a fault raises, unless it is given another error."""


@dataclass
class Fault:
    """Something that goes wrong in one operator.

    Attributes:
        operator: name or uid of the operator, source or sink.
        times: how often it strikes.
        error: makes the error; by default an InjectedFault that says which fault it was.
        struck: how often it has.
    """

    operator: str
    times: int = field(default=1, kw_only=True)
    error: Callable[[], Exception] | None = field(default=None, kw_only=True)
    struck: int = field(default=0, init=False, kw_only=True)

    def strike(self) -> None:
        """Raise, where it has not been often enough."""
        if self.struck < self.times:
            self.struck += 1
            raise self.error() if self.error is not None else InjectedFault(self.describe())

    def describe(self) -> str:
        """What happens where."""
        return f"{type(self).__name__}({self.operator!r})"

    def into(self, operator: Operator) -> None:
        """Put it into an operator that has just been made."""
        raise ValidationException(f"{self.describe()} is no fault of an operator")

    def into_reader(self, reader: Any) -> None:
        """Put it into a source's reader that has just been made."""
        raise ValidationException(f"{self.describe()} is no fault of a source")


@dataclass
class FailOnRecord(Fault):
    """Fail before the nth record (the first is 1) that the operator sees, or after the source has given n - 1."""

    record: int
    seen: int = field(default=0, init=False)

    def describe(self) -> str:
        return f"FailOnRecord({self.operator!r}, {self.record})"

    def _before(self, size: int) -> int | None:
        """How many of the next `size` records pass before the fault; None where it does not strike among them."""
        first, self.seen = self.seen, self.seen + size
        if self.struck < self.times and first < self.record <= self.seen:
            self.seen = 0 if self.struck + 1 < self.times else self.seen  # a fault that strikes again counts anew
            return self.record - 1 - first
        return None

    def into(self, operator: Operator) -> None:
        def wrapped(inner: Callable[[Batch, Output], Awaitable[None]]) -> Callable[[Batch, Output], Awaitable[None]]:
            async def on_batch(batch: Batch, out: Output) -> None:
                passing = self._before(len(batch))
                if passing is None:
                    await inner(batch, out)
                    return
                if passing:
                    await inner(batch.slice(0, passing), out)
                self.strike()

            return on_batch

        for name in ("on_batch1", "on_batch2") if isinstance(operator, TwoInputOperator) else ("on_batch",):
            setattr(operator, name, wrapped(getattr(operator, name)))

    def into_reader(self, reader: Any) -> None:
        inner = reader.poll

        def poll(max_records: int) -> Any:
            left = self.record - 1 - self.seen
            if self.struck < self.times and left <= 0:
                self.seen = 0
                self.strike()
            given = inner(min(max_records, left) if self.struck < self.times else max_records)
            self.seen += len(getattr(given, "values", ()))
            return given

        reader.poll = poll


@dataclass
class FailOnTimer(Fault):
    """Fail when the nth timer (the first is 1) of the operator fires."""

    timer: int = 1
    seen: int = field(default=0, init=False)

    def into(self, operator: Operator) -> None:
        def wrapped(inner: Callable[[Timer, Output], Awaitable[None]]) -> Callable[[Timer, Output], Awaitable[None]]:
            async def on_timer(timer: Timer, out: Output) -> None:
                self.seen += 1
                if self.seen >= self.timer:
                    self.strike()
                await inner(timer, out)

            return on_timer

        for name in ("on_event_timer", "on_processing_timer"):
            setattr(operator, name, wrapped(getattr(operator, name)))


@dataclass
class FailInOpen(Fault):
    """Fail when the operator or the source's reader is opened."""

    def into(self, operator: Operator) -> None:
        inner = operator.open

        async def open_(ctx: OperatorContext) -> None:
            self.strike()
            await inner(ctx)

        operator.open = open_  # type: ignore[method-assign]

    def into_reader(self, reader: Any) -> None:
        inner = reader.open

        async def open_(ctx: SourceContext, splits: Any) -> None:
            self.strike()
            await inner(ctx, splits)

        reader.open = open_


@dataclass
class FailInClose(Fault):
    """Fail when the operator is closed, after it has closed."""

    def into(self, operator: Operator) -> None:
        inner = operator.close

        async def close() -> None:
            await inner()
            self.strike()

        operator.close = close  # type: ignore[method-assign]


@dataclass
class FailInSnapshot(Fault):
    """Fail when the barrier of a checkpoint reaches the operator; of any checkpoint where none is named."""

    checkpoint: int | None = None

    def into(self, operator: Operator) -> None:
        inner = operator.on_barrier

        async def on_barrier(barrier: Barrier, out: Output) -> None:
            await inner(barrier, out)
            if self.checkpoint in (None, barrier.checkpoint_id):
                self.strike()

        operator.on_barrier = on_barrier  # type: ignore[method-assign]

    def into_reader(self, reader: Any) -> None:
        inner = reader.positions

        def positions() -> Any:
            self.strike()
            return inner()

        reader.positions = positions


@dataclass
class FailInCommit(Fault):
    """Fail when the operator is told that a checkpoint is complete, before it commits; after it with `after=True`."""

    checkpoint: int | None = None
    after: bool = False

    def into(self, operator: Operator) -> None:
        inner = operator.on_checkpoint_complete

        async def on_checkpoint_complete(checkpoint_id: int) -> None:
            mine = self.checkpoint in (None, checkpoint_id)
            if mine and not self.after:
                self.strike()
            await inner(checkpoint_id)
            if mine and self.after:
                self.strike()

        operator.on_checkpoint_complete = on_checkpoint_complete  # type: ignore[method-assign]


@dataclass
class Slow(Fault):
    """Every batch waits so long (of the job's clock) before the operator gets it: a slow consumer."""

    delay: Duration = 100

    def into(self, operator: Operator) -> None:
        clock: list[Any] = []
        opening = operator.open
        millis = to_millis(self.delay, "delay")

        async def open_(ctx: OperatorContext) -> None:
            clock.append(ctx.clock)
            await opening(ctx)

        def wrapped(inner: Callable[[Batch, Output], Awaitable[None]]) -> Callable[[Batch, Output], Awaitable[None]]:
            async def on_batch(batch: Batch, out: Output) -> None:
                await sleep(clock[-1], millis)
                await inner(batch, out)

            return on_batch

        operator.open = open_  # type: ignore[method-assign]
        for name in ("on_batch1", "on_batch2") if isinstance(operator, TwoInputOperator) else ("on_batch",):
            setattr(operator, name, wrapped(getattr(operator, name)))


def inject(graph: StreamGraph, *faults: Fault) -> StreamGraph:
    """A copy of the graph, in which these faults happen.

    Raises:
        ValidationException: a fault names an operator that is not there, or one that cannot have it; `graph` is none.
    """
    if not isinstance(graph, StreamGraph):
        raise ValidationException(
            f"inject takes a stream graph and faults, not {graph!r}: a job under test is given them by "
            "MiniJob(build, faults=[...])"
        )
    faulty = copy.copy(graph)
    faulty.nodes = dict(graph.nodes)
    for fault in faults:
        nodes = [n for n in faulty.nodes.values() if fault.operator in (n.name, n.uid)]
        if not nodes:
            names = ", ".join(sorted(n.name for n in graph.nodes.values()))
            raise ValidationException(f"{fault.describe()}: no operator of that name or uid; there are {names}")
        for node in nodes:
            faulty.update(node.id, **_with(node, fault))
    return faulty


def _with(node: Node, fault: Fault) -> dict[str, Any]:
    if node.source is not None:
        return {"source": _faulty_source(node.source, fault)}
    make = node.operator
    assert make is not None

    def operator() -> Operator:
        made = make()
        fault.into(made)
        return made

    return {"operator": operator}


def _faulty_source(source: Source[Any], fault: Fault) -> Source[Any]:
    faulty: Any = copy.copy(source)
    inner = source.reader

    def reader() -> Any:
        made = inner()
        fault.into_reader(made)
        return made

    faulty.reader = reader
    return faulty  # type: ignore[no-any-return]
