"""One source after the other, also after crashes, and with subtasks that have nothing to read."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline import Configuration, StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.files import FileSource
from streamline.connectors.generator import DataGeneratorSource, NumberSequenceSource
from streamline.connectors.hybrid import HybridSource
from streamline.connectors.memory import ChannelSource, CollectionSource
from streamline.errors import ValidationException
from streamline.functions import CheckpointListener, MapFunction
from streamline.testing import FailOnRecord, MiniJob, VirtualClock
from tests.recovery.ledger import Ledger


def numbers(folder: Path, name: str, *values: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{v}\n" for v in values))


def files(folder: Path, **arguments: Any) -> FileSource[int]:
    return FileSource(paths=folder, format=lambda line: int(line), **arguments)


async def collected(source: Any, parallelism: int = 1) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    seen: list[Any] = []
    env.from_source(source).add_sink(seen.append)
    await env.execute("hybrid")
    return seen


async def test_one_after_the_other(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    numbers(tmp_path / "a", "x", 1, 2)
    numbers(tmp_path / "a", "y", 3)
    source = HybridSource(sources=[files(tmp_path / "a"), CollectionSource([4, 5]), NumberSequenceSource(6, 8)])
    assert source.bounded and not source.parallel
    assert await collected(source) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
async def test_in_parallel_nothing_of_the_next_comes_before_all_of_the_one_before(
    tmp_path: Path, virtual_clock: VirtualClock, parallelism: int
) -> None:
    for i in range(3):
        numbers(tmp_path / "a", str(i), *range(100 * i, 100 * i + 50))
        numbers(tmp_path / "b", str(i), *range(1000 + 100 * i, 1000 + 100 * i + 50))
    (tmp_path / "empty").mkdir()
    source = HybridSource(sources=[files(tmp_path / "a"), files(tmp_path / "empty"), files(tmp_path / "b")])
    assert source.parallel
    seen = await collected(source, parallelism)
    first, second = [n for n in seen if n < 1000], [n for n in seen if n >= 1000]
    assert len(first) == len(second) == 150 and len(set(seen)) == 300
    if parallelism == 1:  # behind several subtasks the order is not one any more
        assert seen == first + second


async def test_a_source_that_is_made_when_its_turn_has_come(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    numbers(tmp_path / "a", "x", 1, 2)
    made: list[Any] = []

    def next_one(before: Any) -> CollectionSource[int]:
        made.append(before)
        return CollectionSource([3])

    first = files(tmp_path / "a")
    source = HybridSource.builder(first).add_source(next_one).add_source(lambda: CollectionSource([4])).build()
    assert made == []
    assert await collected(source) == [1, 2, 3, 4]
    assert made == [first]


async def test_the_last_may_go_on_for_ever(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    numbers(tmp_path / "a", "x", 1)
    channel: ChannelSource[int] = ChannelSource()
    source = HybridSource(sources=[files(tmp_path / "a"), channel])
    assert not source.bounded
    env = StreamExecutionEnvironment.get_execution_environment()
    seen: list[int] = []
    env.from_source(source).add_sink(seen.append)
    async with await env.execute_async("hybrid"):
        await virtual_clock.advance("1 s")
        await channel.send(2)
        await virtual_clock.advance("1 s")
        assert seen == [1, 2]


async def test_watermarks_go_on_from_one_to_the_next(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    virtual_clock.autojump = False
    numbers(tmp_path / "a", "x", 1000, 2000)
    numbers(tmp_path / "a", "y", 1500)
    numbers(tmp_path / "b", "z", 5000)
    source = HybridSource(sources=[files(tmp_path / "a"), files(tmp_path / "b", monitor_interval="1 s")])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(source, strategy, "numbers").map(lambda n: n).name("see").add_sink(lambda n: None)
    async with await env.execute_async("hybrid") as job:
        await virtual_clock.advance("2 s")
        assert (await job.metrics())["see"]["currentInputWatermark"] == 4999


@given(st.lists(st.integers(1, 40), max_size=4), st.integers(1, 3), st.integers(1, 3))
async def test_crashes_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, failures: list[int], before: int, after: int
) -> None:
    folder = tmp_path_factory.mktemp("hybrid")
    for i in range(2):
        numbers(folder / "a", str(i), *range(10 * i, 10 * i + 10))
    ledger = Ledger()

    def build(env: Any) -> None:
        generated = DataGeneratorSource(lambda n: 100 + n, 20, 50.0)
        source = HybridSource(sources=[files(folder / "a", _chunk_size=8), generated])
        env.from_source(source).uid("numbers").map(lambda n: n).name("pass").uid("pass").sink_to(ledger).uid("ledger")

    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 10,
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    faults = [FailOnRecord("pass", n) for n in failures]
    job = MiniJob(build, clock=VirtualClock(), configuration=options, faults=faults, parallelism=before)
    async with job:
        await job.advance("250 ms")
        await job.crash()
        await job.start(parallelism=after)
        await job.wait()
    assert Counter(ledger.committed) == Counter([*range(20), *range(100, 120)])


@pytest.mark.parametrize("parallelism", [1, 3])
async def test_all_sources_but_the_last_are_a_backlog(virtual_clock: VirtualClock, parallelism: int) -> None:
    """Without checkpoints during a backlog the first one comes an interval after the last source's turn has come."""
    seen: list[tuple[int, int]] = []
    complete: list[int] = []

    class Listen(MapFunction, CheckpointListener):
        def map(self, value: int) -> int:
            seen.append((virtual_clock.now() - began, value))
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            complete.append(virtual_clock.now() - began)

    past = DataGeneratorSource(lambda n: n, 60, 10.0)
    present = DataGeneratorSource(lambda n: 100 + n, 60, 10.0)
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration(
            {"execution.checkpointing.interval": "1 s", "execution.checkpointing.interval-during-backlog": "0 s"}
        )
    )
    env.set_parallelism(parallelism)
    listening = env.from_source(HybridSource(sources=[past, present])).map(Listen())
    listening.set_parallelism(1).add_sink(lambda value: None)
    began = virtual_clock.now()
    await env.execute("backlog")
    turn = min(at for at, value in seen if value >= 100)
    assert sorted(value for _, value in seen) == [*range(60), *range(100, 160)]
    assert turn > 5000 and min(complete) > turn  # ten a second take so long
    ended = max(at for at, _ in seen)
    periodic = [at for at in complete if at < ended]  # and then the last one
    assert {b - a for a, b in pairwise(periodic)} == {1000} and len(periodic) >= 4


async def test_after_a_crash_the_last_source_is_still_no_backlog(virtual_clock: VirtualClock) -> None:
    ledger = Ledger()

    def build(env: Any) -> None:
        past, present = NumberSequenceSource(0, 9), DataGeneratorSource(lambda n: 100 + n, 50, 10.0)
        source = HybridSource(sources=[past, present])
        env.from_source(source).uid("numbers").map(lambda n: n).name("pass").uid("pass").sink_to(ledger).uid("ledger")

    options = {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.interval-during-backlog": 0,
        "restart-strategy.type": "fixed-delay",
    }
    crash = FailOnRecord("pass", 40)
    async with MiniJob(build, clock=virtual_clock, configuration=options, faults=[crash]) as job:
        await job.wait()
    assert crash.struck == 1 and Counter(ledger.committed) == Counter([*range(10), *range(100, 150)])
    # Committed a little at a time: checkpoints were taken before the crash and after it.
    assert len(ledger.commits) >= 8


def test_sources_that_do_not_go_together(tmp_path: Path) -> None:
    endless = files(tmp_path, monitor_interval="1 s")
    with pytest.raises(ValidationException, match="source number 1 of a HybridSource is FileSource, which"):
        HybridSource(sources=[endless, files(tmp_path)])
    with pytest.raises(ValidationException, match="needs sources"):
        HybridSource(sources=[])
    with pytest.raises(ValidationException, match="a source, or a function that makes one"):
        HybridSource(sources=[3])  # type: ignore[list-item]


async def test_a_function_that_makes_no_source(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    with pytest.raises(ValidationException, match="source number 2 of a HybridSource: .* made 3, no Source"):
        await collected(HybridSource(sources=[CollectionSource([1]), lambda: 3]))  # type: ignore[list-item, return-value]
