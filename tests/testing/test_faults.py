from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamline._core.elements import Barrier, Batch
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.execute import ExecutionOptions, launch
from streamline.abc import Operator, OperatorContext, Output, Timer
from streamline.errors import ValidationException
from streamline.testing import (
    FailInClose,
    FailInCommit,
    FailInOpen,
    FailInSnapshot,
    FailOnRecord,
    FailOnTimer,
    Fault,
    InjectedFault,
    OperatorHarness,
    ScriptedSource,
    Slow,
    VirtualClock,
    inject,
)


class Passing(Operator):
    name = "passing"

    async def open(self, ctx: OperatorContext) -> None:
        self.store = ctx.store

    async def on_batch(self, batch: Batch, out: Output) -> None:
        for value in batch.values:
            self.store.key = value
            self.store.timers.register_event_time(value, value)
        await out.send(batch)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        await out.send(Batch([-timer.key]))

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.committed = checkpoint_id


class Collecting(Operator):
    name = "collecting"

    def __init__(self, into: list[Any]) -> None:
        self.into = into

    async def on_batch(self, batch: Batch, out: Output) -> None:
        self.into += batch.values


def graph_of(out: list[Any], steps: Any = (1, 2, 3, 4, 5), operator: Callable[[], Operator] = Operator) -> StreamGraph:
    class Forward(Operator):
        async def on_batch(self, batch: Batch, out: Output) -> None:
            await out.send(batch)

    graph = StreamGraph()
    source = graph.add(Node(0, "numbers", "source", source=ScriptedSource(steps)))
    middle = graph.add(Node(0, "middle", "operator", operator=Forward, uid="m"), Edge(source.id, 0))
    graph.add(Node(0, "collecting", "sink", operator=lambda: Collecting(out)), Edge(middle.id, 0))
    return graph


class Again:
    """Restart at once, for ever."""

    def delay_after_failure(self, now: int) -> int | None:
        return 0


async def run(graph: StreamGraph, *, restart: bool = False) -> int:
    """Gives how many attempts it took."""
    job = await launch(graph, ExecutionOptions(clock=VirtualClock(), restart=Again if restart else None))
    await job.wait()
    return job.attempts


@pytest.mark.parametrize("name", ["middle", "m", "numbers"])
@pytest.mark.parametrize("record", [1, 3, 5])
async def test_failing_on_a_record(name: str, record: int) -> None:
    """Records before it pass the operator; the source's batch of five is cut there."""
    out: list[Any] = []
    fault = FailOnRecord(name, record)
    with pytest.raises(InjectedFault, match=rf"FailOnRecord\('{name}', {record}\)"):
        await run(inject(graph_of(out, [Batch([1, 2, 3, 4, 5])]), fault))
    assert fault.struck == 1
    assert out == list(range(1, record))[: len(out)]
    await run(inject(graph_of(out := []), fault))
    assert out == [1, 2, 3, 4, 5]


async def test_striking_several_times_over_restarts() -> None:
    out: list[Any] = []
    fault = FailOnRecord("middle", 4, times=2, error=lambda: OSError("gone"))
    assert await run(inject(graph_of(out, "1 | 2 | 3 | 4 | 5"), fault), restart=True) == 3
    assert fault.struck == 2
    assert out[-5:] == [1, 2, 3, 4, 5]


async def test_the_graph_itself_stays_as_it_was() -> None:
    graph = graph_of(out := [])
    inject(graph, FailOnRecord("middle", 1), FailInOpen("numbers"))
    await run(graph)
    assert out == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["middle", "numbers"])
async def test_failing_in_open(name: str) -> None:
    with pytest.raises(InjectedFault, match="FailInOpen"):
        await run(inject(graph_of([]), FailInOpen(name)))


async def test_slow_operators_take_time_of_the_jobs_clock() -> None:
    clock = VirtualClock(start=0)
    job = await launch(inject(graph_of([]), Slow("collecting", "1 min")), ExecutionOptions(clock=clock))
    await job.wait()
    assert clock.now() >= 60_000


def made(fault: Fault) -> Operator:
    operator = Passing()
    fault.into(operator)
    return operator


async def test_failing_on_a_timer() -> None:
    async with OperatorHarness(made(FailOnTimer("passing", 2)), key=lambda v: v) as harness:
        await harness.run("1 | 2 | 3")
        with pytest.raises(InjectedFault, match="FailOnTimer"):
            await harness.process_watermark(10)
        assert harness.extract_values() == [-1]


async def test_failing_in_a_snapshot_and_in_a_commit() -> None:
    async with OperatorHarness(made(FailInSnapshot("passing", checkpoint=2)), key=lambda v: v) as harness:
        await harness.snapshot()
        with pytest.raises(InjectedFault, match="FailInSnapshot"):
            await harness.send(Barrier(2, 0))
    for after in (False, True):
        async with OperatorHarness(made(FailInCommit("passing", after=after)), key=lambda v: v) as harness:
            await harness.snapshot()
            with pytest.raises(InjectedFault, match="FailInCommit"):
                await harness.complete_checkpoint()
            assert hasattr(harness.operator, "committed") == after


async def test_failing_in_close() -> None:
    with pytest.raises(InjectedFault, match="FailInClose"):
        async with OperatorHarness(made(FailInClose("passing")), key=lambda v: v) as harness:
            await harness.end_input()


def test_faults_that_cannot_be_are_refused_with_what_there_is() -> None:
    with pytest.raises(ValidationException, match="there are collecting, middle, numbers"):
        inject(graph_of([]), FailInOpen("nowhere"))
    graph = inject(graph_of([]), FailOnTimer("numbers"))
    with pytest.raises(ValidationException, match=r"FailOnTimer\('numbers'\) is no fault of a source"):
        graph.nodes[1].source.reader()  # type: ignore[union-attr]
