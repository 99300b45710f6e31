"""Jobs that crash, restart, stop and go on: every result once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.errors import CheckpointException, StateMigrationException, StreamlineError, ValidationException
from streamline.functions import KeyedProcessFunction
from streamline.state import ListStateDescriptor, ValueStateDescriptor
from streamline.testing import Delay, FailInCommit, FailInSnapshot, FailOnRecord, MiniJob, ScriptedSource
from streamline.testing.leaks import no_leaks
from tests.recovery.ledger import Ledger


class RunningCount(KeyedProcessFunction):
    """(key, how many of it so far)."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        yield (value[0], n)


def script(records: int, delay: str = "100 ms") -> list[Any]:
    steps: list[Any] = []
    for i in range(records):
        steps += [(f"k{i % 3}", i), Delay.of(delay)]
    return steps


def expected(records: int) -> list[tuple[str, int]]:
    return sorted((f"k{i % 3}", i // 3 + 1) for i in range(records))


def counting(ledger: Ledger, records: int = 30, ends: bool = True, delay: str = "100 ms") -> Callable[..., Any]:
    def build(env: StreamExecutionEnvironment) -> None:
        source = ScriptedSource(script(records, delay), ends=ends)
        counted = env.from_source(source, name="numbers").uid("numbers").key_by(lambda v: v[0]).process(RunningCount())
        counted.name("count").uid("count").sink_to(ledger).name("ledger").uid("ledger")

    return build


def options(path: Path | None = None, **more: Any) -> dict[str, Any]:
    found = {"execution.checkpointing.interval": "250 ms", "restart-strategy.type": "fixed-delay"}
    found["restart-strategy.fixed-delay.attempts"] = 5  # type: ignore[assignment]
    if path is not None:
        found["execution.checkpointing.dir"] = str(path)
    return {**found, **more}


async def test_the_end_commits_the_rest() -> None:
    ledger = Ledger()
    async with no_leaks(), MiniJob(counting(ledger), configuration=options()) as job:
        await job.wait()
    assert sorted(ledger.committed) == expected(30)
    assert ledger.prepared == {} and len(ledger.commits) > 5


async def test_without_checkpoints_everything_is_committed_at_the_end() -> None:
    ledger = Ledger()
    async with MiniJob(counting(ledger)) as job:
        await job.wait()
    assert sorted(ledger.committed) == expected(30)
    assert len(ledger.commits) == 1


ROCKSDB = {"state.backend.type": "rocksdb"}
PLACES: dict[str, dict[str, Any]] = {
    "memory": {},
    "directory": {"stored": True},
    "memory, rocksdb": ROCKSDB,
    "directory, rocksdb": {"stored": True, **ROCKSDB},
    "directory, rocksdb, incremental": {"stored": True, **ROCKSDB, "execution.checkpointing.incremental": "true"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("record", [1, 14, 30])
@pytest.mark.parametrize("where", ["numbers", "count", "ledger"])
async def test_a_failure_and_a_restart(tmp_path: Path, place: str, record: int, where: str) -> None:
    ledger = Ledger()
    fault = FailOnRecord(where, record)
    configuration = dict(PLACES[place])
    stored = configuration.pop("stored", False)
    if configuration:
        pytest.importorskip("rocksdict")
        configuration["state.backend.rocksdb.localdir"] = str(tmp_path / "local")
    configuration = options(tmp_path if stored else None, **configuration)
    async with (
        no_leaks(threads=True, files=True),
        MiniJob(counting(ledger), configuration=configuration, faults=[fault]) as job,
    ):
        await job.wait()
    assert fault.struck == 1
    assert sorted(ledger.committed) == expected(30)
    assert not left_in(tmp_path / "local")


@pytest.mark.parametrize("fault", [FailInSnapshot("count", 3), FailInCommit("ledger", 2), FailInSnapshot("ledger", 1)])
async def test_a_failure_within_a_checkpoint(tmp_path: Path, fault: Any) -> None:
    ledger = Ledger()
    async with MiniJob(counting(ledger), configuration=options(tmp_path), faults=[fault]) as job:
        await job.wait()
    assert fault.struck == 1
    assert sorted(ledger.committed) == expected(30)


async def test_another_process_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Crash at any time; the next start, at another parallelism, goes on from the last checkpoint."""
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration=options(tmp_path))
    job.clock.autojump = False
    async with no_leaks():
        for parallelism, after in ((1, 130), (2, 700), (3, 60), (1, 900)):
            await job.start(parallelism=parallelism)
            for _ in range(after // 10):
                await job.advance(10)
                await settled()
            await job.crash()
        before = len(ledger.committed)
        assert 0 < before < 30
        job.clock.autojump = True
        with caplog.at_level(logging.INFO, "streamline.checkpoint"):
            await job.start(parallelism=2)
        await job.wait()
    assert sorted(ledger.committed) == expected(30)
    assert "goes on from checkpoint" in caplog.text and "count: restored state of 'count'" in caplog.text
    # It has finished: there is nothing to go on from, and a new start begins anew.
    await job.start()
    await job.wait()
    assert sorted(ledger.committed) == sorted(expected(30) * 2)


async def settled() -> None:
    """Let threads that write files come to an end: they take real time, of which the virtual clock knows nothing."""
    for _ in range(3):
        await asyncio.sleep(0.001)


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("*"))


def whole(location: str) -> bool:
    return Path(location.removeprefix("file://"), "MANIFEST").exists()


async def test_a_fresh_start_on_request(tmp_path: Path) -> None:
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration=options(tmp_path))
    job.clock.autojump = False
    await job.start()
    for _ in range(60):
        await job.advance(10)
        await settled()
    await job.crash()
    assert ledger.committed
    ledger.committed.clear()
    job.clock.autojump = True
    await job.start(restore=None)
    await job.wait()
    assert sorted(ledger.committed) == expected(30)


async def test_stop_with_savepoint_and_go_on(tmp_path: Path) -> None:
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration={"execution.checkpointing.savepoint-dir": str(tmp_path)})
    job.clock.autojump = False
    client = await job.start()
    await job.advance("1050 ms")
    assert ledger.committed == []  # no checkpoints are taken
    location = await client.stop_with_savepoint()
    assert (await client.get_job_status()).name == "FINISHED"
    assert sorted(ledger.committed) == expected(11)
    assert whole(location)
    job.clock.autojump = True
    await job.start(restore=location, parallelism=3)
    await job.wait()
    assert sorted(ledger.committed) == expected(30)


async def test_a_savepoint_while_the_job_goes_on(tmp_path: Path) -> None:
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration=options(tmp_path))
    job.clock.autojump = False
    client = await job.start()
    await job.advance("1050 ms")
    location = await client.trigger_savepoint(str(tmp_path / "mine"))
    assert location.startswith((tmp_path / "mine").as_uri())
    committed = len(ledger.committed)
    assert committed >= 10  # what the last checkpoint held; a savepoint commits nothing
    await job.crash()
    # Another job may start from it too.
    other = Ledger()
    fork = MiniJob(counting(other), configuration=options(tmp_path), name="fork")
    await fork.start(restore=location)
    await fork.wait()
    assert len(other.committed) == 19
    assert whole(location)  # nobody but the user deletes it


async def test_drain_fires_what_waits(tmp_path: Path) -> None:
    class Late(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.seen = ctx.get_list_state(ListStateDescriptor("seen", int))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(10**15)
            return []

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield (ctx.get_current_key(), self.seen.get())

    for drain, result in ((True, [("k0", [0, 3]), ("k1", [1]), ("k2", [2])]), (False, [])):
        ledger = Ledger()

        def build(env: StreamExecutionEnvironment, ledger: Ledger = ledger) -> None:
            source = ScriptedSource(script(4), ends=False, timestamp=lambda v: v[1])
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
            stream = numbers.key_by(lambda v: v[0]).process(Late())
            stream.uid("late").sink_to(ledger).uid("ledger")

        job = MiniJob(build, configuration=options(tmp_path))
        client = await job.start()
        await job.advance("1 s")
        await client.stop_with_savepoint(drain=drain, savepoint_directory=str(tmp_path / "sp"))
        assert sorted(ledger.committed) == result


async def test_a_savepoint_needs_a_place() -> None:
    job = MiniJob(counting(Ledger(), ends=False), configuration=options())
    job.clock.autojump = False
    client = await job.start()
    with pytest.raises(CheckpointException, match="no place for a savepoint"):
        await client.trigger_savepoint()
    await job.crash()
    with pytest.raises(CheckpointException, match="not running"):
        await client.trigger_savepoint("/anywhere")


async def test_a_program_that_no_longer_fits(tmp_path: Path) -> None:
    """A filter in front, a removed operator: uids decide, and nothing is dropped in silence."""
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration=options(tmp_path))
    job.clock.autojump = False
    await job.start()
    for _ in range(60):
        await job.advance(10)
        await settled()
    await job.crash()

    def filtered(env: StreamExecutionEnvironment) -> None:
        source = env.from_source(ScriptedSource(script(30)), name="numbers").uid("numbers")
        counted = source.filter(lambda v: True).key_by(lambda v: v[0]).process(RunningCount()).uid("count")
        counted.sink_to(ledger).uid("ledger")

    def without_uids(env: StreamExecutionEnvironment) -> None:
        source = env.from_source(ScriptedSource(script(30)), name="numbers").uid("numbers")
        source.key_by(lambda v: v[0]).process(RunningCount()).sink_to(ledger).uid("ledger")

    broken = MiniJob(without_uids, configuration=options(tmp_path))
    with pytest.raises(CheckpointException, match="nobody takes the state of 'count'"):
        await broken.start()
    dropped = MiniJob(
        without_uids, configuration=options(tmp_path, **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    )
    await dropped.start()
    await dropped.crash()
    await job.crash()
    again = MiniJob(filtered, configuration=options(tmp_path))
    await again.start()
    await again.wait()
    assert sorted(ledger.committed) == expected(30)


async def test_no_checkpoint_can_be_taken(tmp_path: Path) -> None:
    configuration = options(tmp_path / "file", **{"restart-strategy.type": "none"})
    async with MiniJob(counting(Ledger(), ends=False), configuration=configuration) as job:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(CheckpointException, match=r"checkpoint 1 failed: .*cannot be written.*are tolerated"):
            await job.wait()


class AllNumbers(KeyedProcessFunction):
    """The same state as RunningCount, of another kind."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_list_state(ListStateDescriptor("n", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.n.add(value[1])


async def test_state_of_another_kind_fails_the_job_at_once(tmp_path: Path) -> None:
    """Whatever the restart strategy: trying again would not help."""

    def changed(env: StreamExecutionEnvironment) -> None:
        source = env.from_source(ScriptedSource(script(30)), name="numbers").uid("numbers")
        source.key_by(lambda v: v[0]).process(AllNumbers()).uid("count").sink_to(Ledger()).uid("ledger")

    job = MiniJob(counting(Ledger()), configuration=options(tmp_path))
    await job.start()
    await job.advance("1 s")
    await job.crash()
    again = MiniJob(changed, configuration=options(tmp_path))
    await again.start()
    with pytest.raises(StateMigrationException, match="'n' was written as value state and is declared as list state"):
        await again.wait()
    assert again.clock.now() - job.clock.now() < 1000


async def test_state_is_read_from_outside() -> None:
    job = MiniJob(counting(Ledger(), ends=False), parallelism=2)
    job.clock.autojump = False
    client = await job.start()
    await job.advance("1050 ms")
    assert [await client.state("count", "n", f"k{i}") for i in range(4)] == [4, 4, 3, None]
    with pytest.raises(ValidationException, match="no state 'm' here; declared are: n"):
        await client.state("count", "m", "k0")
    with pytest.raises(ValidationException, match=r"no operator has the uid 'x'; there are 'count'"):
        await client.state("x", "n", "k0")
    await job.crash()
    with pytest.raises(StreamlineError, match="is CANCELED"):
        await client.state("count", "n", "k0")


async def test_retention(tmp_path: Path) -> None:
    def folders() -> list[str]:
        return [p.name for p in tmp_path.glob("*/chk-*")]

    configuration = options(tmp_path, **{"execution.checkpointing.num-retained": 3})
    for retention, left in (
        (None, 3),
        ("DELETE_ON_CANCELLATION", 0),
        ("RETAIN_ON_CANCELLATION", 3),
        ("NO_EXTERNALIZED_CHECKPOINTS", 0),
    ):
        if retention is not None:
            configuration["execution.checkpointing.externalized-checkpoint-retention"] = retention
        job = MiniJob(counting(Ledger(), ends=False), configuration=configuration)
        job.clock.autojump = False
        await job.start()
        for _ in range(150):
            await job.advance(20)
            await settled()
        await job.crash()
        assert len(folders()) == left, retention


async def test_two_operators_with_one_uid() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(ScriptedSource([1]), name="s").uid("a").map(lambda v: v).uid("a").sink_to(Ledger())

    with pytest.raises(ValidationException, match="two operators have the uid 'a'"):
        await MiniJob(build).start()


async def test_event_time_goes_on_where_it_was(tmp_path: Path) -> None:
    """What was late before the crash is late after it: a restart changes no result."""

    class Judge(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield (value[1], value[1] <= ctx.timer_service().current_watermark())

    def build(env: StreamExecutionEnvironment) -> None:
        steps: list[Any] = []
        for timestamp in (100, 5000, 20, 30, 6000, 5500):
            steps += [("k", timestamp), Delay.of("300 ms")]
        strategy: Any = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_assigner(lambda v, _: v[1])
        stream = env.from_source(ScriptedSource(steps), strategy, "numbers").uid("numbers")
        stream.key_by(lambda v: v[0]).process(Judge()).name("judge").uid("judge").sink_to(ledger).uid("ledger")

    right = [(100, False), (5000, False), (20, True), (30, True), (6000, False), (5500, True)]
    for record in range(1, 7):
        ledger = Ledger()
        job = MiniJob(build, configuration=options(tmp_path / str(record)), faults=[FailOnRecord("judge", record)])
        await job.start()
        await job.wait()
        assert ledger.committed == right, record
    # Another process, and another parallelism.
    ledger = Ledger()
    job = MiniJob(build, configuration=options(tmp_path / "other"))
    job.clock.autojump = False
    await job.start()
    for _ in range(70):
        await job.advance(10)
        await settled()
    await job.crash()
    assert ledger.committed == right[: len(ledger.committed)] != []
    job.clock.autojump = True
    await job.start(parallelism=3)
    await job.wait()
    assert sorted(ledger.committed) == sorted(right)
