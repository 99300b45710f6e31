"""What checkpoints cost: throughput, the longest pause of the loop over a large state, recovery."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.data import InMemory, Trade, drop, rate, trades
from benchmarks.keys import measure
from benchmarks.latency import probed
from benchmarks.report import Figure, at_least, at_most, best
from benchmarks.stream import RunningCount
from streamline import StreamExecutionEnvironment
from streamline.functions import KeyedProcessFunction
from streamline.state import ValueStateDescriptor

KEYS = 1_000_000


class Latest(KeyedProcessFunction[int, Any, Any]):
    """Keeps the last record of every key."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", tuple))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value)
        return ()


def environment(folder: str | None, interval: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    if folder is not None:
        env.enable_checkpointing(interval, storage=f"file:{folder}")
    return env


async def counting(source: InMemory, folder: str | None, interval: str = "1 s") -> None:
    env = environment(folder, interval)
    env.from_source(source, name="trades").key_by(lambda t: t.symbol).process(RunningCount()).add_sink(drop)
    await env.execute("count", restore=None)


async def pauses(keys: int, folder: str | None) -> tuple[float, int]:
    """The longest time, in ms, that the loop was kept from others, and how many checkpoints were taken meanwhile.

    The state is filled first; then every key is written a few times more, with a checkpoint each half second.
    """
    source = InMemory([(n, n) for n in range(keys)], tuple, passes=6)
    gc.collect()
    gc.freeze()  # the records are the benchmark's
    env = environment(folder, "500 ms")
    env.from_source(source, name="numbers").key_by(lambda r: r[0]).process(Latest()).add_sink(drop)
    taken = 0

    async def job() -> None:
        nonlocal taken
        client = await env.execute_async("large state", restore=None)
        await client.get_job_execution_result()
        taken = (await client.metrics())["job"]["numberOfCompletedCheckpoints"]

    found = await probed(job())
    gc.unfreeze()
    return max(found), taken


def run(scale: float) -> Iterator[Figure]:
    source = InMemory(trades(int(1_000_000 * scale)), Trade, passes=8)
    with tempfile.TemporaryDirectory() as folder:
        without = best(lambda: rate(source, lambda: counting(source, None)), runs=2)
        with_ = best(lambda: rate(source, lambda: counting(source, folder)), runs=2)
    yield at_least("throughput with a checkpoint each second", with_, "records/s", 0.85 * without, without)
    keys = int(KEYS * scale)
    with tempfile.TemporaryDirectory() as folder:
        bare, _ = asyncio.run(pauses(keys, None))
        longest, taken = asyncio.run(pauses(keys, folder))
    yield Figure(f"longest pause of the loop, {keys:,} keys, no checkpoints", bare, "ms")
    yield at_most(f"longest pause of the loop, {keys:,} keys, {taken} checkpoints", longest, "ms", 20)
    seen = measure("hashmap", keys, keys // 4, interval=2)
    yield Figure(f"recovery of {keys:,} keys in memory, to the first result", seen.recovery, "ms")
    yield Figure(f"resident memory with {keys:,} keys, peak", seen.memory, "MB")
