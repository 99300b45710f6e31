"""A job that is cancelled or fails, at any moment, leaves no task, thread, open file or temporary file behind."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from streamline import AsyncDataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.files import BucketAssigner, FileSink, FileSource
from streamline.functions import KeyedProcessFunction
from streamline.state import MapStateDescriptor, ValueStateDescriptor
from streamline.testing import (
    FailInClose,
    FailInCommit,
    FailInOpen,
    FailInSnapshot,
    FailOnRecord,
    InjectedFault,
    MiniJob,
    VirtualClock,
    no_leaks,
)
from streamline.windows import EventTimeSessionWindows

POINTS = 500 if os.environ.get("STREAMLINE_PROFILE") == "prove" else 25
RECORDS = 120
#: Milliseconds of its clock that an undisturbed run takes, roughly.
MILLIS = 200
#: Rounds of the event loop behind those.
ROUNDS = 200


class Busy(KeyedProcessFunction):
    """Counts, has timers of both kinds, and holds a file that only `close` closes."""

    def __init__(self, opened: Callable[[], IO[str]]) -> None:
        self._opened = opened

    def open(self, ctx: Any) -> None:
        self.file = self._opened()
        self.n = ctx.get_state(ValueStateDescriptor("n", int))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", int, str))

    def close(self) -> None:
        self.file.close()

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        self.seen.put(value["ts"], "x" * 50)
        timers = ctx.timer_service()
        timers.register_event_time_timer(value["ts"] + 500)
        timers.register_processing_time_timer(timers.current_processing_time() + 30)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield {"key": ctx.get_current_key(), "ts": timestamp, "n": self.n.value()}


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    async def enrich(value: Any) -> Any:
        await env.clock.sleep(7)  # type: ignore[attr-defined]
        return value

    strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v["ts"])
    source = FileSource(paths=folder / "in", value_type=dict, _chunk_size=512)
    read = env.from_source(source, strategy, "read").uid("read")
    busy = read.key_by(lambda v: v["key"]).process(Busy(lambda: (folder / "in" / "a.jsonl").open())).name("busy")
    asked = AsyncDataStream.unordered_wait(busy.uid("busy"), enrich, 10_000, 8).name("ask").uid("ask")
    sessions = asked.key_by(lambda v: v["key"]).window(EventTimeSessionWindows.with_gap(40))
    counted = sessions.reduce(lambda a, b: {**a, "n": a.get("n", 1) + 1}).name("sessions").uid("sessions")
    sink = FileSink(path=folder / "out", bucket_assigner=BucketAssigner.base_path_bucket_assigner())
    counted.union(asked).sink_to(sink).name("write").uid("write")


def fault(rng: random.Random) -> Any:
    where = rng.choice(["read", "busy", "ask", "sessions", "write"])
    match rng.choice(["record", "record", "open", "snapshot", "commit", "close"]):
        case "record":
            return FailOnRecord(where, rng.randrange(1, RECORDS // 2))
        case "open":
            return FailInOpen(where)
        case "snapshot":
            return FailInSnapshot(where, rng.randrange(1, 4))
        case "commit":
            return FailInCommit("write", rng.randrange(1, 3), after=rng.random() < 0.5)
    return FailInClose("busy")


def in_use(folder: Path) -> set[Path]:
    """What stands in a folder that is not meant to stay.

    Files that the sink has given to a checkpoint that somebody may restore stay, with their lock.
    """
    checkpoints, staging = folder / "checkpoints", folder / "out" / ".staging"
    whole = {m.parent for m in checkpoints.glob("*/*/MANIFEST")}
    found = {*(folder / "tmp").rglob("*"), *(folder / "local").rglob("*"), *staging.rglob("*.open")}
    found |= {p for p in checkpoints.glob("*/*") if p not in whole and any(p.rglob("*"))}
    newest = max((int(m.name.split("-")[1]) for m in whole), default=0)
    given = {p.parent for p in staging.glob("*/*/*.*") if int(p.suffix[1:]) <= newest}
    return found | {p for p in staging.glob("*/*") if p not in given}


@pytest.mark.parametrize("point", range(POINTS))
async def test_nothing_is_left_behind(point: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(point)
    for name in ("in", "tmp", "local"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    lines = [f'{{"key": "k{i % 7}", "ts": {1000 + i * 10}}}\n' for i in range(RECORDS)]
    (tmp_path / "in" / "a.jsonl").write_text("".join(lines[::2]))
    (tmp_path / "in" / "b.jsonl").write_text("".join(lines[1::2]))
    backend = rng.choice(["hashmap", "rocksdb"])
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    configuration = {
        "execution.checkpointing.interval": f"{rng.choice([2, 5, 15])} ms",
        "execution.checkpointing.tolerable-failed-checkpoints": rng.choice([0, 100]),
        "execution.checkpointing.unaligned.enabled": rng.random() < 0.5,
        "execution.checkpointing.incremental": rng.random() < 0.5,
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "restart-strategy.type": rng.choice(["none", "fixed-delay"]),
    }
    if rng.random() < 0.7:
        configuration["execution.checkpointing.dir"] = str(tmp_path / "checkpoints")
    ends = rng.choice(["cancel", "fail", "both"])
    clock = VirtualClock()

    def job(env: StreamExecutionEnvironment) -> None:
        build(env, tmp_path)

    async with no_leaks(threads=True, files=True):
        mini = MiniJob(
            job,
            clock=clock,
            configuration=configuration,
            parallelism=rng.randrange(1, 4),
            faults=[] if ends == "cancel" else [fault(rng)],
        )

        async def life() -> None:
            await mini.start()
            await mini.wait()

        running = asyncio.create_task(life())
        try:
            if ends != "fail":
                # Time stands while the loop is kept busy: first it goes on for a while, then come single rounds.
                clock.autojump = False
                await clock.advance(rng.choice([0, rng.randrange(MILLIS), rng.randrange(MILLIS)]))
                for _ in range(rng.randrange(ROUNDS)):
                    await asyncio.sleep(0)
                clock.autojump = True
                if rng.random() < 0.5:
                    running.cancel()  # also while it starts
                elif mini.client is not None:
                    await mini.client.cancel()
            await asyncio.wait({running})
        finally:
            if mini.client is not None:
                await mini.client.cancel()
        if not running.cancelled() and (error := running.exception()) is not None:
            assert isinstance(error, InjectedFault) or "was cancelled" in str(error) or "checkpoint" in str(error)
    assert in_use(tmp_path) == set()
