"""Watermarks of sources with several splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamline._core.elements import Batch, Watermark
from streamline._core.watermarks import WatermarkStrategy
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.execute import ExecutionOptions, launch
from streamline.abc import Operator, Output, Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.testing import VirtualClock

COUNT = 50


class OneEndsEarly(Source[int]):
    """Split a has one record; split b has one each time it is asked, and 50 ms pass with each."""

    bounded = True
    parallel = False

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    async def discover(self) -> Sequence[Split]:
        return [Split("a"), Split("b")]

    def reader(self) -> SourceReader[int]:
        return _Reader(self.clock)


class _Reader(SourceReader[int]):
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.given = 0

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        pass

    def poll(self, max_records: int) -> SplitBatch | None:
        if self.finished:
            return None
        self.given += 1
        self.clock.set_time(self.clock.now() + 50)
        return SplitBatch("a" if self.given == 1 else "b", [self.given], [self.given])

    @property
    def finished(self) -> bool:
        return self.given >= COUNT

    def finished_splits(self) -> Iterable[str]:
        return ["a"] if self.given > 1 else []

    def positions(self) -> Mapping[str, Any]:
        return {}

    async def close(self) -> None:
        pass


async def test_a_split_that_has_ended_holds_nothing_back_while_another_never_pauses() -> None:
    """50 records over 2.5 s: with an interval of 200 ms the watermark moves a dozen times before the end."""
    clock = VirtualClock(autojump=False)
    seen: list[Any] = []

    class Sink(Operator):
        async def on_batch(self, batch: Batch, out: Output) -> None:
            seen.extend(batch.values)

        async def on_watermark(self, watermark: int, out: Output) -> int | None:
            seen.append(Watermark(watermark))
            return watermark

    graph = StreamGraph()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    source = graph.add(Node(0, "two splits", "source", source=OneEndsEarly(clock), strategy=strategy))
    graph.add(Node(0, "sink", "sink", operator=Sink), Edge(source.id, 0))
    # A channel of one record makes source and sink take turns, so the alarms of the clock are heard in between.
    job = await launch(graph, ExecutionOptions(clock=clock, channel_capacity=1))
    await job.wait()
    marks = [e.timestamp for e in seen[:-1] if isinstance(e, Watermark)]
    assert len(marks) >= 5
    assert max(marks) > COUNT // 2
