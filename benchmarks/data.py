"""The records of the workloads, and sources in memory that leave start-up out of the figure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any, NamedTuple

import msgspec

from streamline import StreamExecutionEnvironment
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch

#: One record a millisecond: a window of 10 s holds ten thousand.
START = 1_714_557_600_000
KEYS = 1000
BATCH = 1024


class Trade(msgspec.Struct):
    """A record as users write them."""

    symbol: str
    amount: int
    price: float
    ts: int


class TradeTuple(NamedTuple):
    """The same as a tuple."""

    symbol: str
    amount: int
    price: float
    ts: int


def trades(count: int, cls: Any = Trade) -> list[Any]:
    """Deterministic records: a key of 1000 in an order without pattern, event time one millisecond apart."""
    symbols = [f"S{i:03d}" for i in range(KEYS)]
    return [cls(symbols[(i * 7919 + i // KEYS) % KEYS], (i * 31) % 100, (i % 977) / 8, START + i) for i in range(count)]


def drop(record: Any) -> None:
    """A sink that drops its records."""


class InMemory(Source[Any]):
    """A list, read in slices; notes when the first slice was asked for.

    Attributes:
        passes: how often the list is read.
        advance: what is added to the time of the records each time that they are read again, ms.
        prepare: is given the environment of each job that reads this.
        checkpoints: how many were completed while it was read.
    """

    bounded = True
    parallel = False

    def __init__(
        self, values: Sequence[Any], output_type: Any, batch: int = BATCH, passes: int = 1, advance: int = 0
    ) -> None:
        self.values = values
        self.passes = passes
        self.advance = advance
        self.prepare: Callable[[StreamExecutionEnvironment], None] = lambda env: None
        self.checkpoints = 0
        self.output_type = output_type
        self.batch = batch
        #: When the first slice was asked for, and the processor time of this process by then; seconds.
        self.started = self.work = 0.0
        #: Whether the list has been read to its end, by this job or another.
        self.read_before = False

    async def discover(self) -> Sequence[Split]:
        return [Split("0")]

    def reader(self) -> SourceReader[Any]:
        return _Reader(self)


class _Reader(SourceReader[Any]):
    def __init__(self, source: InMemory) -> None:
        self._source = source
        self._values = source.values
        self._at = 0
        self._passes = 0

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        pass

    def poll(self, max_records: int) -> SplitBatch | None:
        at = self._at
        if not at and not self._passes:
            self._source.started, self._source.work = perf_counter(), process_time()
        part = self._values[at : at + min(max_records, self._source.batch)]
        if not part:
            return None
        if self._source.advance and self._source.read_before:
            for record in part:
                record.ts += self._source.advance
        self._at = at + len(part)
        if self._at >= len(self._values):
            self._passes += 1
            self._source.read_before = True
            if self._passes < self._source.passes:
                self._at = 0
        return SplitBatch("0", part)

    @property
    def finished(self) -> bool:
        return self._passes >= self._source.passes

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._at}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        self._source.checkpoints += 1

    async def close(self) -> None:
        pass


def rate(source: InMemory, job: Callable[[], Any]) -> float:
    """Records a second from the first poll of the source to the end of the job: start-up is left out."""
    asyncio.run(job())
    return len(source.values) * source.passes / (perf_counter() - source.started)
