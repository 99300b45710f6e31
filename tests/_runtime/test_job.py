"""Jobs on raw graphs: alignment over a slow side, failure, cancellation."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamline._channel.partition import Hash, Rebalance
from streamline._core.elements import Barrier, Batch, Watermark
from streamline._core.time import sleep
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.execute import ExecutionOptions, JobStatus, RestartStrategy, launch
from streamline.abc import Operator, TwoInputOperator
from streamline.errors import StreamlineError
from streamline.testing import ScriptedSource, VirtualClock
from streamline.testing.leaks import no_leaks
from streamline.testing.scripted import Delay


class Pass(Operator):
    async def on_batch(self, batch, out):
        await out.send(batch)


class Log(Operator):
    """Keeps what it sees, in order, in a list given from outside."""

    def __init__(self, log):
        self._log = log

    async def on_batch(self, batch, out):
        self._log += batch.values

    async def on_watermark(self, watermark, out):
        self._log.append(Watermark(watermark))
        return watermark

    async def on_barrier(self, barrier, out):
        self._log.append(barrier)


class Both(TwoInputOperator):
    async def on_batch1(self, batch, out):
        await out.send(Batch([("left", v) for v in batch.values]))

    async def on_batch2(self, batch, out):
        await out.send(Batch([("right", v) for v in batch.values]))


class Slow(Operator):
    async def open(self, ctx):
        self._clock = ctx.clock

    async def on_batch(self, batch, out):
        for value in batch.values:
            await sleep(self._clock, 1000)
            await out.send(Batch([value]))


def source(graph, script, name="source"):
    return graph.add(Node(0, name, "source", source=ScriptedSource(script)))


def operator(graph, make, *inputs, name="operator", **options):
    edges = [Edge(n.id, 0, i if len(inputs) > 1 else 0) for i, n in enumerate(inputs)]
    return graph.add(Node(0, name, "operator", operator=make, **options), *edges)


def options(clock, **more):
    return ExecutionOptions(job_name="test", clock=clock, **more)


async def test_a_barrier_waits_for_the_slow_side_and_cuts_both_inputs(virtual_clock):
    graph, log = StreamGraph(), []
    fast = source(graph, [*"ab", Barrier(1, 0), *"cd"], "fast")
    slow = operator(graph, Slow, source(graph, [*"xy", Barrier(1, 0), "z"], "slow"))
    operator(graph, lambda: Log(log), operator(graph, Both, fast, slow))
    job = await launch(graph, options(virtual_clock))
    await job.wait()
    seen = [e for e in log if not isinstance(e, Watermark)]
    cut = seen.index(Barrier(1, 0))
    assert sorted(seen[:cut]) == [("left", "a"), ("left", "b"), ("right", "x"), ("right", "y")]
    assert sorted(seen[cut + 1 :]) == [("left", "c"), ("left", "d"), ("right", "z")]
    assert virtual_clock.monotonic() == 3.0, "the slow side took a second for each of its three records"


async def test_cancelling_during_alignment_leaves_nothing_and_takes_no_time(virtual_clock):
    async with no_leaks():
        graph, log = StreamGraph(), []
        fast = source(graph, ["a", Barrier(1, 0), "b"], "fast")
        slow = source(graph, ["x", Delay(3_600_000), Barrier(1, 0)], "slow")
        operator(graph, lambda: Log(log), operator(graph, Both, fast, slow))
        job = await launch(graph, options(virtual_clock))
        while ("right", "x") not in log:
            await asyncio.sleep(0)
        before = virtual_clock.now()
        await job.cancel()
        assert virtual_clock.now() == before
    assert job.status is JobStatus.CANCELED
    assert Barrier(1, 0) not in log and ("left", "b") not in log
    with pytest.raises(StreamlineError, match="was cancelled"):
        await job.wait()


class Broken(Operator):
    async def on_batch(self, batch, out):
        raise ZeroDivisionError("a bad record")


async def test_the_first_failure_reaches_the_caller_as_it_was_raised_with_the_place(virtual_clock):
    graph, closed = StreamGraph(), []

    class Closing(Pass):
        async def close(self):
            closed.append("closed")

    first = operator(graph, Closing, source(graph, ["a"]), name="first")
    operator(graph, Broken, first, name="broken")
    async with no_leaks():
        job = await launch(graph, options(virtual_clock))
        with pytest.raises(ZeroDivisionError, match="a bad record") as caught:
            await job.wait()
    assert any("in operator 'broken' of job 'test'" in note for note in caught.value.__notes__)
    assert closed == ["closed"]
    assert job.status is JobStatus.FAILED


async def test_an_error_in_discovery_comes_from_launch(virtual_clock):
    class Away(ScriptedSource):
        async def discover(self):
            raise ConnectionError("nobody there")

    graph = StreamGraph()
    graph.add(Node(0, "away", "source", source=Away([])))
    with pytest.raises(ConnectionError, match="nobody there") as caught:
        await launch(graph, options(virtual_clock))
    assert "in source 'away' of job 'test'" in caught.value.__notes__


async def test_an_empty_graph_is_refused_in_flinks_words(virtual_clock):
    with pytest.raises(StreamlineError, match="No operators defined in streaming topology. Cannot execute."):
        await launch(StreamGraph(), options(virtual_clock))


async def test_a_failure_while_the_caller_cancels_does_not_hang(virtual_clock):
    """Case C21: the sink fails in the tick in which the outer scope is cancelled."""

    class FailsOnClose(Pass):
        async def close(self):
            raise OSError("disk gone")

    graph = StreamGraph()
    operator(graph, FailsOnClose, source(graph, ["a", Delay(1_000_000)]))
    async with no_leaks():
        job = await launch(graph, options(virtual_clock))
        await job.cancel()
    assert job.status is JobStatus.CANCELED


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
async def test_a_keyed_exchange_keeps_the_order_within_a_key(virtual_clock, parallelism):
    records = [(i % 7, i) for i in range(3000)]
    graph, log = StreamGraph(), []
    spread = graph.add(
        Node(0, "spread", "operator", operator=Pass, parallelism=parallelism),
        Edge(source(graph, [Batch(records)]).id, 0, partition=Hash(lambda r: r[0])),
    )
    graph.add(
        Node(0, "log", "sink", operator=lambda: Log(log), parallelism=1), Edge(spread.id, 0, partition=Rebalance())
    )
    await (await launch(graph, options(virtual_clock, parallelism=parallelism))).wait()
    seen = [r for r in log if not isinstance(r, Watermark)]
    assert sorted(seen) == sorted(records)
    for key in range(7):
        assert [i for k, i in seen if k == key] == [i for k, i in records if k == key]


@settings(deadline=None)
@given(rounds=st.integers(0, 60), parallelism=st.integers(1, 3), capacity=st.sampled_from([1, 7, 1024]))
def test_cancelling_at_any_moment_ends_within_few_rounds_of_the_loop_and_without_time_passing(
    rounds, parallelism, capacity
):
    """Acceptance: no task is left, no error unretrieved, the virtual clock stands still."""

    async def run():
        clock = VirtualClock()
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        async with no_leaks(collect=False):
            graph, log = StreamGraph(), []
            steps = [Batch([*range(50)], [*range(50)]), Watermark(20), Barrier(1, 0), Delay(500), Batch([1] * 9)] * 3
            left, right = source(graph, steps, "left"), source(graph, [*steps[::-1], Delay(10_000)], "right")
            both = operator(graph, Both, left, right, parallelism=parallelism)
            operator(graph, lambda: Log(log), operator(graph, Slow, both, parallelism=parallelism))
            job = await launch(graph, options(clock, parallelism=parallelism, channel_capacity=capacity))
            for _ in range(rounds):
                await asyncio.sleep(0)
            before, spun = clock.now(), 0
            cancelling = asyncio.ensure_future(job.cancel())
            while not cancelling.done():
                await asyncio.sleep(0)
                spun += 1
            await cancelling
            assert clock.now() == before
            assert spun <= 30, spun
            assert job.status in (JobStatus.CANCELED, JobStatus.FINISHED)

    asyncio.run(run())


async def test_a_restart_strategy_that_cannot_be_made_fails_the_start() -> None:
    def broken() -> RestartStrategy:
        raise ValueError("no strategy")

    graph = StreamGraph()
    graph.add(Node(0, "numbers", "source", source=ScriptedSource([1])))
    async with no_leaks():
        with pytest.raises(ValueError, match="no strategy"):
            await launch(graph, ExecutionOptions(restart=broken, clock=VirtualClock()))
