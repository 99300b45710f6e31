"""The workloads of the walking skeleton with a checkpoint each 10 s, beside the same without, in turns.

Some minutes: a run of each has to be long enough to hold two checkpoints. Half of what it is compared with is measured
before it and half behind it, so that a machine that becomes busier does not count as a cost of checkpoints.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

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
        self._speed = self._run(0, None)

    def _run(self, seconds: float, folder: str | None) -> float:
        """Records a second over about so many seconds; at least one pass."""
        source = self._source
        source.passes = max(1, round(seconds * self._speed / len(source.values)))
        interval = int(self._interval * 1000)

        def prepare(env: StreamExecutionEnvironment) -> None:
            if folder is not None:
                env.enable_checkpointing(interval, storage=f"file:{folder}")

        source.prepare = prepare
        source.checkpoints = 0
        gc.collect()
        return rate(source, lambda: self._job(source))

    def share(self) -> tuple[float, float]:
        """(with, without): records a second of one turn.

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
        self._speed = with_
        return with_, 2 / (1 / before + 1 / after)


def run(scale: float) -> Iterator[Figure]:
    """The ratio is the share of its speed that a workload keeps: 0.95 is asked for."""
    values = trades(int(1_000_000 * scale))
    gc.collect()
    gc.freeze()  # the records are the benchmark's
    for label, job in WORKLOADS:
        turns = Turns(InMemory(values, Trade, advance=len(values)), job, INTERVAL * scale, LENGTH * scale)
        shares = sorted((turns.share() for _ in range(ROUNDS)), key=lambda pair: pair[0] / pair[1])
        with_, without = shares[len(shares) // 2]
        yield at_least(f"{label}, checkpoints each {INTERVAL} s", with_, "records/s", 0.95 * without, without)
    gc.unfreeze()
