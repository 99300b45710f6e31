"""Sources of this process: iterables, a channel that a service feeds, generators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streamline import (
    DataStream,
    StateMigrationException,
    StreamExecutionEnvironment,
    StreamlineError,
    ValidationException,
)
from streamline._core.time import sleep
from streamline.connectors.generator import DataGeneratorSource, NumberSequenceSource
from streamline.connectors.hybrid import HybridSource
from streamline.connectors.memory import ChannelSource
from streamline.testing import Delay, FailOnRecord, MiniJob, ScriptedSource, VirtualClock, settle

CHECKPOINTS = {"execution.checkpointing.interval": "1 s", "restart-strategy.type": "fixed-delay"}


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


# -- iterables -----------------------------------------------------------------------------------------------------


async def test_an_iterator_is_read_once_only() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    env = environment()
    for origin in (numbers(), iter([1])):
        stream = env.from_source(origin)
        assert await rows(stream) == [1]
        with pytest.raises(StreamlineError, match="can be read once only"):
            await rows(stream)


async def test_an_iterable_is_not_read_further_than_the_job_needs() -> None:
    read = []

    async def numbers() -> AsyncIterator[int]:
        for n in range(10**6):
            read.append(n)
            yield n

    async with environment().from_source(numbers).execute_and_collect() as results:
        assert await anext(results) == 0
        await settle()
        assert len(read) < 10_000
    assert len(read) < 10_000


async def test_a_generator_is_closed_when_the_job_is_cancelled() -> None:
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    async with environment().from_source(numbers).execute_and_collect() as results:
        assert await anext(results) == 1
    assert closed == [True]


async def test_a_function_is_read_again_after_a_restart_from_where_it_was(virtual_clock: VirtualClock) -> None:
    starts = []

    async def numbers() -> AsyncIterator[int]:
        starts.append(virtual_clock.now())
        for n in range(6):
            await sleep(virtual_clock, 500)
            yield n

    def build(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(numbers, name="numbers").map(lambda v: v).name("map")

    async with MiniJob(build, clock=virtual_clock, configuration=CHECKPOINTS, faults=[FailOnRecord("map", 5)]) as job:
        await job.wait()
    assert len(starts) == 2 and set(job.results) == {0, 1, 2, 3, 4, 5}
    # The checkpoint at 1 s holds the first record or two; they are not given a second time.
    assert job.results.count(0) == 1


# -- channel -------------------------------------------------------------------------------------------------------


async def test_a_service_feeds_a_running_job_and_waits_while_it_is_behind(virtual_clock: VirtualClock) -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=2)
    assert channel.send_nowait(1) and channel.send_nowait(2) and not channel.send_nowait(3)
    sending = asyncio.create_task(channel.send(3, 30))
    await settle()
    assert not sending.done()
    stream = environment().from_source(channel, name="fed").process(lambda v, ctx: (v, ctx.timestamp()))
    async with stream.execute_and_collect() as results:
        await sending
        assert [await anext(results) for _ in range(3)] == [(1, None), (2, None), (3, 30)]
        await channel.send(4)
        assert await anext(results) == (4, None)
        channel.close()
        assert [x async for x in results] == []
    with pytest.raises(StreamlineError, match="closed"):
        await channel.send(5)


async def test_a_channel_belongs_to_one_job_at_a_time(virtual_clock: VirtualClock) -> None:
    channel: ChannelSource[int] = ChannelSource()
    env = environment()
    async with env.from_source(channel).execute_and_collect():
        await settle()
        with pytest.raises(StreamlineError, match="another job"):
            await rows(env.from_source(channel))
    with pytest.raises(ValidationException, match="positive capacity"):
        ChannelSource(0)


@pytest.mark.parametrize("replay", [True, False])
async def test_a_channel_with_replay_gives_again_what_no_checkpoint_holds(
    replay: bool, virtual_clock: VirtualClock
) -> None:
    channel: ChannelSource[int] = ChannelSource(replay=replay)

    def build(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(channel, name="fed").map(lambda v: v).name("map")

    async with MiniJob(build, clock=virtual_clock, configuration=CHECKPOINTS, faults=[FailOnRecord("map", 4)]) as job:
        for n in (1, 2, 3):
            await channel.send(n)
        await job.advance("1500 ms")  # a checkpoint holds these
        for n in (4, 5):
            await channel.send(n)
        await job.settle()
        channel.close()
        await job.wait()
    assert job.results == ([1, 2, 3, 4, 5] if replay else [1, 2, 3])


@pytest.mark.parametrize("wrapped", [False, True])
async def test_senders_are_told_that_the_job_has_failed_for_good(wrapped: bool, virtual_clock: VirtualClock) -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=1)
    env = environment()
    env.from_source(HybridSource(sources=[lambda: channel]) if wrapped else channel).map(lambda n: 1 // n).add_sink(
        lambda v: None
    )
    job = await env.execute_async("reciprocals")
    await channel.send(1)
    with pytest.raises(StreamlineError, match="'reciprocals' has failed with ZeroDivisionError") as told:
        for _ in range(5):  # one record fails, one has room, and the next waits for room
            await asyncio.wait_for(channel.send(0), 10)
    assert isinstance(told.value.__cause__, ZeroDivisionError)
    with pytest.raises(StreamlineError, match="nobody reads this channel any more"):
        channel.send_nowait(1)
    with pytest.raises(ZeroDivisionError):
        await job.get_job_execution_result()


async def test_who_waits_for_room_is_told_that_the_job_was_cancelled_and_another_job_reads_on(
    virtual_clock: VirtualClock,
) -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=1)
    env = environment()
    never = asyncio.get_running_loop().create_future()

    async def stuck(value: int) -> None:
        await never

    env.from_source(channel).add_sink(stuck)
    job = await env.execute_async("stuck")

    async def send() -> None:
        for n in range(10**4):
            await channel.send(n)

    sending = asyncio.create_task(send())
    await settle()
    assert not sending.done()
    await job.cancel()
    with pytest.raises(StreamlineError, match="job 'stuck' was cancelled"):
        await asyncio.wait_for(sending, 10)
    async with environment().from_source(channel).execute_and_collect("next") as results:
        await anext(results)  # what had room waits for the next job
        await channel.send(-1)
        while await anext(results) != -1:
            pass
    with pytest.raises(StreamlineError, match="job 'next' was cancelled"):
        await channel.send(1)


async def test_senders_wait_while_the_job_restarts(virtual_clock: VirtualClock) -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=1)

    def build(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(channel, name="fed").map(lambda v: v).name("map")

    async with MiniJob(build, clock=virtual_clock, configuration=CHECKPOINTS, faults=[FailOnRecord("map", 1)]) as job:
        await channel.send(1)
        await job.settle()
        assert (await job.status()).name == "RESTARTING"
        await channel.send(2)
        waiting = asyncio.create_task(channel.send(3))
        await settle()
        assert not waiting.done()
        await job.advance("1500 ms")
        await waiting
        channel.close()
        await job.wait()
    assert job.results == [2, 3]


async def test_a_job_that_was_refused_ends_no_channel(virtual_clock: VirtualClock) -> None:
    channel: ChannelSource[int] = ChannelSource()
    env = environment()
    async with env.from_source(channel).execute_and_collect() as results:
        await settle()
        with pytest.raises(StreamlineError, match="another job"):
            await rows(env.from_source(channel))
        await channel.send(1)
        assert await anext(results) == 1


# -- generators ----------------------------------------------------------------------------------------------------


def squared(n: int) -> int:
    return n * n


@pytest.mark.parametrize(("splits", "parallelism"), [(1, 1), (3, 1), (3, 2), (2, 4)])
async def test_generated_records_are_the_same_in_every_run(splits: int, parallelism: int) -> None:
    source = DataGeneratorSource(squared, count=2500, splits=splits)
    stream = environment(parallelism).from_source(source)
    assert stream.element_type() is int
    assert sorted(await rows(stream)) == sorted(squared(n) for n in range(2500))
    assert sorted(await rows(environment(parallelism).from_source(NumberSequenceSource(5, 9, splits)))) == [
        5,
        6,
        7,
        8,
        9,
    ]


async def test_a_rate_is_kept_by_the_clock(virtual_clock: VirtualClock) -> None:
    started, seen = virtual_clock.now(), []
    source = DataGeneratorSource(lambda n: n, count=21, rate_per_second=10)
    environment_ = environment()
    environment_.from_source(source).map(lambda v: seen.append((v, virtual_clock.now() - started)))
    await environment_.execute()
    assert [v for v, _ in seen] == list(range(21))
    assert all(t == v * 100 for v, t in seen)


async def test_a_generator_without_an_end() -> None:
    stream = environment().from_source(DataGeneratorSource(lambda n: n))
    assert [x async for x in stream.execute_and_collect(limit=5)] == [0, 1, 2, 3, 4]


async def test_a_generator_goes_on_after_a_restart(virtual_clock: VirtualClock) -> None:
    def build(env: StreamExecutionEnvironment) -> Any:
        source = DataGeneratorSource(lambda n: n, count=40, rate_per_second=10, splits=2)
        return env.from_source(source, name="made").map(lambda v: v).name("map")

    async with MiniJob(build, clock=virtual_clock, configuration=CHECKPOINTS, faults=[FailOnRecord("map", 25)]) as job:
        await job.wait()
    assert set(job.results) == set(range(40)) and len(job.results) < 60


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataGeneratorSource(7),  # type: ignore[arg-type]
        lambda: DataGeneratorSource(squared, -1),
        lambda: DataGeneratorSource(squared, 1, 0),
        lambda: DataGeneratorSource(squared, 1, None, None, 0),
    ],
)
def test_generators_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ValidationException):
        make()


def test_a_generator_by_builder() -> None:
    source = DataGeneratorSource.builder().set_generator_function(squared).set_count(3).build()
    assert source.bounded and source.output_type is int


# -- sources that give nothing, or less than they did ------------------------------------------------------------------


async def test_a_generator_that_was_read_elsewhere_is_refused() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    generator = numbers()
    assert await rows(environment().from_source(generator)) == [1]
    with pytest.raises(StreamlineError, match="async_generator has been read already and would give nothing"):
        await rows(environment().from_source(generator))


async def test_a_source_function_that_returns_nothing_is_named() -> None:
    with pytest.raises(ValidationException, match=r"has to return an \(async\) iterable, not None") as failure:
        await rows(environment().from_source(lambda: None, source_name="none"))
    assert "in source 'none' of job 'streamline job'" in failure.value.__notes__


@pytest.mark.parametrize("kind", ["function", "collection"])
async def test_a_source_that_has_become_shorter_fails_the_job_at_once(kind: str, tmp_path: Any) -> None:
    """Whatever the restart strategy: trying again would not help."""

    def build(there: int, lasts: bool) -> Any:
        async def numbers() -> AsyncIterator[int]:
            for n in range(there):
                yield n
            if lasts:
                await asyncio.get_running_loop().create_future()

        def graph(env: StreamExecutionEnvironment) -> None:
            stream = env.from_source(numbers) if kind == "function" else env.from_collection(list(range(there)))
            held = env.from_source(ScriptedSource([Delay.of("1 h")]), name="held").uid("held")
            stream.uid("numbers").union(held).add_sink(seen.append).uid("sink")

        return graph

    seen: list[int] = []
    configuration = {**CHECKPOINTS, "execution.checkpointing.dir": str(tmp_path)}
    job = MiniJob(build(5, True), configuration=configuration)
    await job.start()
    await job.advance("2500 ms")
    await job.crash()
    assert seen == [0, 1, 2, 3, 4]
    async with MiniJob(build(3, False), configuration=configuration) as again:
        with pytest.raises(StateMigrationException, match="has read 5 elements .*, and now it ends after 3"):
            await again.wait()
