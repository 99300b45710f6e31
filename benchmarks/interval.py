"""The workloads of the walking skeleton with a checkpoint each 10 s, beside the same without, in turns.

Some minutes: a run of each has to be long enough to hold two checkpoints. Half of what it is compared with is measured
before it and half behind it, so that a machine that becomes busier does not count as a cost of checkpoints; and what a
record takes of processor time, in all threads, is compared too, which others on the machine hardly change.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from time import process_time

from benchmarks import sql, stream
from benchmarks.data import InMemory, Trade, rate, trades
from benchmarks.report import Figure, at_least
from streamline import StreamExecutionEnvironment

INTERVAL = 10
#: Seconds of a run with checkpoints: two intervals, and time for the second checkpoint to complete.
LENGTH = 22
ROUNDS = 3
Job = Callable[[InMemory], Awaitable[None]]

WORKLOADS: tuple[tuple[str, Job], ...] = (
    ("W1 filter+project, DataStream lambdas", stream.stream_w1),
    ("W2 running totals, DataStream reduce", stream.stream_w2),
    ("W3 10 s windows, DataStream aggregate", stream.stream_w3),
    ("W1 filter+project, SQL", partial(sql.into_blackhole, query=sql.SQL_W1)),
    ("W2 running totals, SQL", partial(sql.into_blackhole, query=sql.SQL_W2)),
    ("W3 10 s windows, SQL", partial(sql.into_blackhole, query=sql.SQL_W3)),
)


class Turns:
    """Runs one workload with and without checkpoints."""

    def __init__(self, source: InMemory, job: Job, interval: float, length: float) -> None:
        self._source = source
        self._job = job
        self._interval = interval
        self._length = length
        self._speed = 0.0
        self._speed, _ = self._run(0, None)

    def _run(self, seconds: float, folder: str | None) -> tuple[float, float]:
        """Records a second, and a second of processor time, over about so many seconds; at least one pass."""
        source = self._source
        source.passes = max(1, round(seconds * self._speed / len(source.values)))
        interval = int(self._interval * 1000)

        def prepare(env: StreamExecutionEnvironment) -> None:
            if folder is not None:
                env.enable_checkpointing(interval, storage=f"file:{folder}")

        source.prepare = prepare
        source.checkpoints = 0
        gc.collect()
        speed = rate(source, lambda: self._job(source))
        return speed, len(source.values) * source.passes / (process_time() - source.work)

    def turn(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(with, without) checkpoints: records a second, and the same of processor time.

        Raises:
            RuntimeError: the run with checkpoints was over before there were two.
        """
        before = self._run(self._length / 2, None)
        with tempfile.TemporaryDirectory() as folder:
            while True:
                with_ = self._run(self._length, folder)
                # The last one is that of the end of the input.
                if self._source.checkpoints >= 3:
                    break
                self._speed *= 1.3
        after = self._run(self._length / 2, None)
        self._speed = with_[0]
        speed, work = ((w, 2 / (1 / b + 1 / a)) for w, b, a in zip(with_, before, after))
        return speed, work


def middle(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The pair whose ratio is the median."""
    ordered = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    return ordered[len(ordered) // 2]


def run(scale: float) -> Iterator[Figure]:
    """The ratio is the share of its speed that a workload keeps: 0.95 is asked for."""
    values = trades(int(1_000_000 * scale))
    gc.collect()
    gc.freeze()  # the records are the benchmark's
    for label, job in WORKLOADS:
        turns = Turns(InMemory(values, Trade, advance=len(values)), job, INTERVAL * scale, LENGTH * scale)
        print(f"  {label} …", file=sys.stderr, flush=True)
        speeds, work = zip(*(turns.turn() for _ in range(ROUNDS)))
        what = f"{label}, checkpoints each {INTERVAL} s"
        with_, without = middle(speeds)
        yield at_least(what, with_, "records/s", 0.95 * without, without)
        with_, without = middle(work)
        yield at_least(f"{what}, of processor time", with_, "records/s", 0.95 * without, without)
    gc.unfreeze()
