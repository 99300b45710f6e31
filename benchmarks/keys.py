"""State of very many keys: filled, changed at random, checkpointed and recovered, in an interpreter of its own.

    python -m benchmarks.keys --backend rocksdb --keys 20000000

prints what it saw as JSON. The suites `rocksdb` and `checkpoints` of `python -m benchmarks` make figures of that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.report import quantile
from streamline import Configuration, DataStream, JobClient, StreamExecutionEnvironment
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.functions import KeyedProcessFunction, RuntimeContext
from streamline.state import ValueStateDescriptor

BATCH = 1024
#: Records that are processed behind a recovery.
CHECKED = 50_000
#: Seconds between two looks at the event loop, and looks between two at memory.
PROBE = 0.01
LOOKS = 10
_PRIME = 2_654_435_761


@dataclass
class Seen:
    """What a run has shown.

    Attributes:
        fill, update: records a second while every key came once, and while keys came at random.
        work: processor time a record, of all threads, in microseconds: what a busy machine does not add to.
        memory: the most that the process held in memory, MB.
        lag: by how much the event loop was late, p99, ms.
        checkpoints: of each checkpoint (until all was processed) how long it took, in ms, and the MB it has written.
        size: of the last checkpoint, MB, with the files that it shares with earlier ones.
        recovery: from `execute_async` to the first result of a job that goes on from there, ms.
        after: records a second behind that.
    """

    fill: float = 0.0
    update: float = 0.0
    work: float = 0.0
    memory: float = 0.0
    lag: float = 0.0
    checkpoints: list[tuple[float, float]] = field(default_factory=list)
    size: float = 0.0
    recovery: float = 0.0
    after: float = 0.0


class Keys(Source[int]):
    """Every key once, in an order without pattern, then `updates` of them at random, then nothing more."""

    bounded = True
    parallel = False
    output_type = int

    def __init__(self, keys: int, updates: int) -> None:
        self.keys = keys
        self.total = keys + updates
        self.given = 0
        #: When the first record, and the first update, were asked for; perf_counter seconds.
        self.started: dict[str, float] = {}
        #: Set when a checkpoint is complete that holds everything.
        self.saved = asyncio.Event()

    async def discover(self) -> Sequence[Split]:
        return [Split("0")]

    def reader(self) -> SourceReader[int]:
        return _Reader(self)


class _Reader(SourceReader[int]):
    def __init__(self, source: Keys) -> None:
        self._source = source
        self._next = 0

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._next = splits[0][1] or 0

    def poll(self, max_records: int) -> SplitBatch | None:
        source, start = self._source, self._next
        keys, total = source.keys, source.total
        if start >= total:
            return None
        filling = start < keys
        source.started.setdefault("fill" if filling else "update", perf_counter())
        stop = self._next = source.given = min(keys if filling else total, start + min(max_records, BATCH))
        if filling:
            return SplitBatch("0", [i * _PRIME % keys for i in range(start, stop)])
        return SplitBatch("0", [(i * i ^ i * _PRIME >> 7) % keys for i in range(start, stop)])

    @property
    def finished(self) -> bool:
        return False  # a job that has finished keeps no checkpoints

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._next}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        if positions["0"] == self._source.total:
            self._source.saved.set()

    async def close(self) -> None:
        pass


class Count(KeyedProcessFunction[int, int, int]):
    """How often each key has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: int, ctx: Any) -> int:
        n: int = (self.n.value() or 0) + 1
        self.n.update(n)
        return n


def resident_megabytes() -> float:
    """What the process holds in memory now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class _Probe:
    """Looks at memory, at how late the loop is, and at what checkpoints have added to their folder."""

    def __init__(self, job: JobClient, source: Keys, folder: Path, seen: Seen) -> None:
        self.lags: list[float] = []
        self._job = job
        self._source = source
        self._folder = folder
        self._seen = seen
        self._known: set[str] = set()

    async def run(self) -> None:
        looks = 0
        while True:
            before = perf_counter()
            await asyncio.sleep(PROBE)
            self.lags.append((perf_counter() - before - PROBE) * 1000)
            looks += 1
            if looks % LOOKS == 0:
                self._seen.memory = max(self._seen.memory, resident_megabytes())
                await self._look_at_checkpoints()
            if looks % 1000 == 0:
                print(f"  {self._source.given:,} records, {self._seen.memory:.0f} MB", file=sys.stderr, flush=True)

    async def _look_at_checkpoints(self) -> None:
        job = (await self._job.metrics())["job"]
        if job["numberOfCompletedCheckpoints"] > len(self._seen.checkpoints):
            sizes: dict[str, int] = {}
            for path in self._folder.glob("*/*/*"):
                with contextlib.suppress(FileNotFoundError):  # of an old checkpoint, which is being deleted
                    sizes[path.name] = path.stat().st_size
            new = sum(size for name, size in sizes.items() if name not in self._known)
            self._known = {name for name in sizes if name.endswith(".sst")}
            self._seen.checkpoints.append((job["lastCheckpointDuration"], new / 1e6))
            self._seen.size = sum(sizes.values()) / 1e6


def program(
    source: Keys, backend: str, folder: Path, interval: float
) -> tuple[StreamExecutionEnvironment, DataStream[int]]:
    """A count of each key; a checkpoint each `interval` seconds."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(int(interval * 1000), storage=f"file:{folder}")
    configuration = Configuration()
    configuration.set_string("restart-strategy.type", "none")
    configuration.set_string("state.backend.type", backend)
    configuration.set_boolean("execution.checkpointing.incremental", backend == "rocksdb")
    env.configure(configuration)
    return env, env.from_source(source, name="keys").key_by(lambda k: k).process(Count()).uid("count")


async def before_it_fails(job: JobClient, *steps: Coroutine[Any, Any, Any]) -> None:
    """Await steps one by one, or the failure of the job."""

    async def in_turn() -> None:
        for step in steps:
            await step

    tasks = [asyncio.ensure_future(job.get_job_execution_result()), asyncio.ensure_future(in_turn())]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    for task in done:
        task.result()


def counted(total: int, take: Callable[[int], None] | None = None) -> tuple[Callable[[int], None], asyncio.Event]:
    """A sink, and what is set when it has had so many records."""
    left, done = total, asyncio.Event()

    def sink(n: int) -> None:
        nonlocal left
        left -= 1
        if take is not None:
            take(n)
        if not left:
            done.set()

    return sink, done


async def fill(keys: int, updates: int, backend: str, folder: Path, interval: float, seen: Seen) -> None:
    """Fill and change; ends with a checkpoint that holds everything."""
    source = Keys(keys, updates)
    env, counts = program(source, backend, folder, interval)
    sink, done = counted(source.total)
    counts.add_sink(sink)
    async with await env.execute_async("keys", restore=None) as job:
        probe = _Probe(job, source, folder, seen)
        looking = asyncio.create_task(probe.run())
        await before_it_fails(job, done.wait())
        ended, seen.work = perf_counter(), process_time() / source.total * 1e6
        during, lags = len(seen.checkpoints), list(probe.lags)
        await before_it_fails(job, source.saved.wait(), asyncio.sleep(2 * LOOKS * PROBE))
        looking.cancel()
    del seen.checkpoints[during:]
    filled = source.started["update"]
    seen.fill = keys / (filled - source.started["fill"])
    seen.update = updates / (ended - filled)
    seen.lag = quantile(lags, 0.99)


async def recover(keys: int, updates: int, backend: str, folder: Path, seen: Seen) -> None:
    """Go on from the last checkpoint, to the first result and for a while."""
    env, counts = program(Keys(keys, updates + CHECKED), backend, folder, 3600)
    first, least = 0.0, 2

    def take(n: int) -> None:
        nonlocal first, least
        first = first or perf_counter()
        least = min(least, n)

    sink, done = counted(CHECKED, take)
    counts.add_sink(sink)
    started = perf_counter()
    async with await env.execute_async("keys", restore="latest") as job:
        await before_it_fails(job, done.wait())
    if least < 2:
        raise RuntimeError("a key had no state after the recovery")
    seen.recovery = (first - started) * 1000
    seen.after = CHECKED / (perf_counter() - first)


def measure(backend: str, keys: int, updates: int, interval: float) -> Seen:
    """Fill, change, checkpoint each `interval` seconds, recover: in a new interpreter, whose memory is its own."""
    command = [sys.executable, "-m", "benchmarks.keys", "--backend", backend]
    command += ["--keys", str(keys), "--updates", str(updates), "--interval", str(interval)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return Seen(**json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keys", description=__doc__)
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="rocksdb")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, help="a quarter of the keys by default")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two checkpoints")
    options = parser.parse_args()
    updates = options.keys // 4 if options.updates is None else options.updates
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        asyncio.run(fill(options.keys, updates, options.backend, where, options.interval, seen))
        asyncio.run(recover(options.keys, updates, options.backend, where, seen))
    print(json.dumps(asdict(seen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
