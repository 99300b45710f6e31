"""A soak: session windows over keys that come and go, at full load, with a checkpoint each second.

    python -m benchmarks.soak --minutes 10

Shows whether resident memory stays flat after warm-up and how long the event loop is held. Linux only: memory is read
from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.data import START
from benchmarks.report import quantile
from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.functions import AggregateFunction
from streamline.windows import EventTimeSessionWindows

#: Records of one key; with the interleaving below a key lives for a second of event time, then never comes back.
PER_KEY = 20
LIVE_KEYS = 50
GAP = timedelta(milliseconds=500)
#: Seconds between two looks of the probe of the event loop.
PROBE = 0.005


class Churn(Source[Any]):
    """Records without end, one a millisecond of event time, made as they are asked for, until told to stop."""

    bounded = True
    parallel = False
    output_type = tuple[str, int, int]

    def __init__(self) -> None:
        self.stopped = False
        self.given = 0

    async def discover(self) -> Sequence[Split]:
        return [Split("0")]

    def reader(self) -> SourceReader[Any]:
        return _Reader(self)


class _Reader(SourceReader[Any]):
    def __init__(self, source: Churn) -> None:
        self._source = source
        self._next = 0

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._next = splits[0][1] or 0

    def poll(self, max_records: int) -> SplitBatch | None:
        if self._source.stopped:
            return None
        start, stop = self._next, self._next + min(max_records, 256)
        generation = LIVE_KEYS * PER_KEY
        self._next = self._source.given = stop
        return SplitBatch(
            "0", [(f"user-{i // generation}-{i % LIVE_KEYS}", i % 97, START + i) for i in range(start, stop)]
        )

    @property
    def finished(self) -> bool:
        return self._source.stopped

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._next}

    async def close(self) -> None:
        pass


class Sum(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])


class Collections:
    """Full runs of the garbage collector, and how long each holds everything (ms)."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._started = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._started = perf_counter()
            else:
                self.pauses.append((perf_counter() - self._started) * 1000)


def resident_megabytes() -> float:
    """What the process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


async def soak(minutes: float, storage: str, freeze: bool = False) -> int:
    collections = Collections()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000, storage=f"file:{storage}")
    source, sessions, wrong = Churn(), 0, 0

    def take(result: tuple[int, int]) -> None:
        nonlocal sessions, wrong
        sessions += 1
        wrong += result[0] != PER_KEY

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=100))
    (
        env.from_source(source, strategy.with_timestamp_assigner(lambda r: r[2]), "churn")
        .key_by(lambda r: r[0])
        .window(EventTimeSessionWindows.with_gap(GAP))
        .aggregate(Sum())
        .add_sink(take)
    )
    job = await env.execute_async("soak")
    if freeze:
        gc.collect()
        gc.freeze()
    gc.callbacks.append(collections)
    started = perf_counter()
    memory: list[tuple[float, float]] = []
    lags: Counter[float] = Counter()  # by tenths of a millisecond: a list would grow, and be taken for a leak
    next_look = 0.0
    while (now := perf_counter() - started) < minutes * 60:
        if now >= next_look:
            memory.append((now / 60, resident_megabytes()))
            next_look += 1.0
        before = perf_counter()
        await asyncio.sleep(PROBE)
        lags[round((perf_counter() - before - PROBE) * 1000, 1)] += 1
    seconds = perf_counter() - started
    values = (await job.metrics()).get("job", {})
    gc.callbacks.remove(collections)
    source.stopped = True
    await job.cancel()

    warm = [(t, m) for t, m in memory if t >= min(1.0, minutes / 4)]
    mean_t, mean_m = (sum(x) / len(warm) for x in zip(*warm))
    slope = sum((t - mean_t) * (m - mean_m) for t, m in warm) / sum((t - mean_t) ** 2 for t, _ in warm)
    seen = sorted(lags.elements())
    print(f"records          {source.given:,} in {seconds:.0f} s, {source.given / seconds:,.0f} a second")
    print(f"sessions         {sessions:,}, of them with a wrong count: {wrong}")
    print(
        f"checkpoints      {values.get('numberOfCompletedCheckpoints')} completed, "
        f"{values.get('numberOfFailedCheckpoints')} failed"
    )
    print(
        f"resident memory  {warm[0][1]:.1f} MB after warm-up, {warm[-1][1]:.1f} MB at the end, "
        f"largest {max(m for _, m in warm):.1f} MB, slope {slope:+.2f} MB a minute"
    )
    print(
        f"loop lag         p50 {quantile(seen, 0.5):.2f} ms, p99 {quantile(seen, 0.99):.2f} ms, worst {seen[-1]:.1f} ms"
    )
    pauses, frozen = collections.pauses, ", what was there at the start is frozen" if freeze else ""
    print(f"collector        {len(pauses)} full collections, the longest {max(pauses, default=0.0):.1f} ms{frozen}")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--freeze", action="store_true", help="gc.freeze() once it runs, as a service does that counts milliseconds"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        return asyncio.run(soak(options.minutes, storage, options.freeze))


if __name__ == "__main__":
    sys.exit(main())
