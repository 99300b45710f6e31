"""How long a record takes at 10 000 records a second, and how long a job at full load keeps its loop from others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from benchmarks.data import InMemory, Trade, trades
from benchmarks.report import Figure, at_most, quantile
from benchmarks.sql import SQL_W2, SQL_W3, into_blackhole
from benchmarks.stream import RunningCount
from streamline import StreamExecutionEnvironment
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch

RATE = 10_000
#: Seconds between two looks of the probe.
PROBE = 0.001


class Ticking(Source[Any]):
    """Records at a steady rate of real time; each carries the moment at which the source was given it."""

    bounded = True
    parallel = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def discover(self) -> Sequence[Split]:
        return [Split("0")]

    def reader(self) -> SourceReader[Any]:
        return _Reader(self.seconds)


class _Reader(SourceReader[Any]):
    def __init__(self, seconds: float) -> None:
        self._total = int(seconds * RATE)
        self._given = 0
        self._due = 0
        self._entered: list[float] = []

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        async def tick() -> None:
            started = perf_counter()
            while self._due < self._total:
                await asyncio.sleep(0.0005)
                now = perf_counter()
                due = min(self._total, int((now - started) * RATE))
                self._entered += [now] * (due - self._due)
                self._due = due
                ctx.wake()

        ctx.spawn(tick, "clock")

    def poll(self, max_records: int) -> SplitBatch | None:
        entered = self._entered
        if not entered:
            return None
        self._entered = []
        first = self._given
        self._given += len(entered)
        return SplitBatch("0", [(f"S{(first + i) % 1000}", moment) for i, moment in enumerate(entered)])

    @property
    def finished(self) -> bool:
        return self._given >= self._total

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._given}

    async def close(self) -> None:
        pass


class Keyed(RunningCount):
    """The running count, with the record's moment of entry passed on."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield value


async def latencies(seconds: float) -> list[float]:
    """Milliseconds from the source to the sink, over map, key_by, process and filter."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    taken: list[float] = []
    stream = env.from_source(Ticking(seconds), name="ticks")
    (
        stream.map(lambda r: r)
        .key_by(lambda r: r[0])
        .process(Keyed())
        .filter(lambda r: True)
        .add_sink(lambda r: taken.append((perf_counter() - r[1]) * 1000))
    )
    await env.execute("latency")
    return taken[len(taken) // 10 :]


async def probed(work: Awaitable[None]) -> list[float]:
    """Milliseconds by which a task that sleeps a millisecond is late while something else is at work on the loop."""
    found: list[float] = []
    done = False

    async def probe() -> None:
        while not done:
            before = perf_counter()
            await asyncio.sleep(PROBE)
            found.append((perf_counter() - before - PROBE) * 1000)

    task = asyncio.create_task(probe())
    await asyncio.sleep(0)
    await work
    done = True
    await task
    return found


async def polite(seconds: float) -> None:
    """A loop by hand that never holds the loop for longer than the time slice: what this machine adds shows here."""
    ends = perf_counter() + seconds
    while perf_counter() < ends:
        until = perf_counter() + 0.005
        while perf_counter() < until:
            pass
        await asyncio.sleep(0)


def run(scale: float) -> Iterator[Figure]:
    taken = asyncio.run(latencies(2 * scale))
    yield at_most("latency at 10 k records/s, p50", quantile(taken, 0.50), "ms", 0.2)
    yield at_most("latency at 10 k records/s, p99", quantile(taken, 0.99), "ms", 2.0)
    source = InMemory(trades(int(2_000_000 * scale)), Trade)
    machine = asyncio.run(probed(polite(scale)))
    yield Figure("loop lag of a loop that yields every 5 ms, p99", quantile(machine, 0.99), "ms")
    for label, query in (("W2", SQL_W2), ("W3", SQL_W3)):
        lag = asyncio.run(probed(into_blackhole(source, query)))
        yield at_most(f"loop lag under {label} at full load, p99", quantile(lag, 0.99), "ms", 10.0)
        yield Figure(f"loop lag under {label} at full load, worst", max(lag), "ms")
