from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streamline._core.elements import Barrier, Batch, Watermark
from streamline._core.time import yield_now
from streamline._core.watermarks import WatermarkStrategy
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.execute import ExecutionOptions, Job, launch
from streamline.abc import Operator, Output
from streamline.errors import StreamlineError, ValidationException
from streamline.testing import Delay, Fail, Pace, Quiet, ScriptedSource, VirtualClock, WaitFor, assert_changelog


class Recorder(Operator):
    """Writes down what reaches it, and when (ms after the start)."""

    name = "recorder"

    def __init__(self, log: list[Any], clock: VirtualClock, waits: bool = False) -> None:
        self.log = log
        self.clock = clock
        self.start = clock.now()
        self.waits = waits
        self.times: list[int] = []

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if self.waits:
            for _ in range(20):
                await yield_now()
        self.log.append(batch)
        self.times += [self.clock.now() - self.start] * len(batch)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        self.log.append(Watermark(watermark))
        return watermark

    async def on_idle(self, idle: bool, out: Output) -> bool | None:
        self.log.append("idle" if idle else "active")
        return idle

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self.log.append(barrier)


async def start(
    clock: VirtualClock, recorder: Recorder, *sources: ScriptedSource, strategy: Any = None, **options: Any
) -> Job:
    graph = StreamGraph()
    nodes = [
        graph.add(Node(0, source.name, "source", source=source, strategy=strategy, parallelism=1)) for source in sources
    ]
    graph.add(Node(0, "recorder", "sink", operator=lambda: recorder), *(Edge(node.id, 0) for node in nodes))
    return await launch(graph, ExecutionOptions(clock=clock, **options))


async def run(*sources: ScriptedSource, strategy: Any = None, waits: bool = False) -> tuple[list[Any], Recorder]:
    clock = VirtualClock()
    log: list[Any] = []
    recorder = Recorder(log, clock, waits)
    job = await start(clock, recorder, *sources, strategy=strategy)
    await job.wait()
    return log, recorder


async def test_every_sort_of_element_comes_in_its_place() -> None:
    log, _ = await run(ScriptedSource("1 @ 5 | -U 2, +U 3 | ~ 10 | # 1 | idle | 4"))
    assert log.pop(log.index("idle")) == "idle"
    assert log.pop(log.index("active")) == "active"
    assert_changelog(log, "1 @ 5 | -U 2 | +U 3 | ~ 10 | # 1 | 4 | ~ max")


async def test_records_with_event_time_and_a_strategy() -> None:
    source = ScriptedSource([("a", 5), ("b", 9), ("c", 3)], timestamp=lambda r: r[1])
    log, _ = await run(source, strategy=WatermarkStrategy.for_monotonous_timestamps().with_emit_on_event())
    assert_changelog(log, "a 5 @ 5 | ~ 4 | b 9 @ 9 | ~ 8 | c 3 @ 3 | ~ max")


async def test_delays_are_of_the_jobs_clock() -> None:
    _, recorder = await run(ScriptedSource([1, Delay(100), 2, Delay.of("1 h"), 3]))
    assert recorder.times == [0, 100, 3_600_100]


async def test_errors_are_data_and_come_as_often_as_asked() -> None:
    fail = Fail(OSError("gone"), times=2)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await run(ScriptedSource([1, fail, 2]))
    log, _ = await run(ScriptedSource([1, fail, 2]))
    assert_changelog(log, "1 | 2 | ~ max")


async def test_a_source_that_stays_open_is_fed_and_finished() -> None:
    clock = VirtualClock()
    log: list[Any] = []
    source = ScriptedSource("1", ends=False)
    job = await start(clock, Recorder(log, clock), source)
    await clock.settle()
    assert_changelog(log, "1")
    source.feed("2 | ~ 7")
    source.feed(3)
    await clock.settle()
    assert_changelog(log, "1 | 2 | ~ 7 | 3")
    source.finish()
    await job.wait()
    assert_changelog(log, "1 | 2 | ~ 7 | 3 | ~ max")
    with pytest.raises(StreamlineError, match="ends=False"):
        source.feed(4)


async def test_waiting_for_a_condition_and_for_quiet() -> None:
    clock = VirtualClock()
    log: list[Any] = []
    open_ = False
    source = ScriptedSource([1, WaitFor(lambda: open_), 2, Quiet(), 3])
    job = await start(clock, Recorder(log, clock), source)
    await clock.settle()
    assert_changelog(log, "1")
    open_ = True
    source.poke()
    await job.wait()
    assert_changelog(log, "1 | 2 | 3 | ~ max")


async def test_paced_sources_speak_in_turn_and_only_when_all_is_quiet() -> None:
    """Two sources, one record at a time in the order of arrival, although each hop takes twenty rounds of the loop."""
    pace = Pace("abbaab")
    sources = [
        ScriptedSource([1, 2, 3], paced=pace, name="a"),
        ScriptedSource([10, 20, 30], paced=pace, name="b"),
    ]
    log, _ = await run(*sources, waits=True)
    assert_changelog(log, "1 | 10 | 20 | 2 | 3 | 30 | ~ max")
    assert [len(e) for e in log if isinstance(e, Batch)] == [1] * 6


async def test_a_pace_with_an_interval_lets_a_periodic_watermark_follow_each_record() -> None:
    pace = Pace(interval="200 ms")
    source = ScriptedSource([5, 9, 3, 20], timestamp=lambda v: v, paced=pace)
    log, recorder = await run(source, strategy=WatermarkStrategy.for_bounded_out_of_orderness(1))
    assert_changelog(log, "5 | ~ 3 | 9 | ~ 7 | 3 | 20 | ~ 18 | ~ max")
    assert recorder.times == [0, 200, 400, 600]


async def test_paced_sources_end_in_the_order_in_which_they_were_made() -> None:
    ended: list[str] = []
    pace = Pace("ba")
    for name in "ab":
        pace.add(name)
    original = pace.ended

    def noted(name: str) -> None:
        ended.append(name)
        original(name)

    pace.ended = noted  # type: ignore[method-assign]
    await run(ScriptedSource([1], paced=pace, name="a"), ScriptedSource([2], paced=pace, name="b"))
    assert ended == ["a", "b"]


async def test_splits_have_scripts_of_their_own() -> None:
    source = ScriptedSource(
        {"p0": [Batch([1], [10]), Quiet(), Batch([2], [20]), Quiet()], "p1": [Batch([3], [5]), Quiet()]}
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_emit_on_event()
    log, _ = await run(source, strategy=strategy)
    # The minimum of both splits; once p1 has ended, that of p0 alone.
    assert_changelog(log, "1 | 3 | ~ 4 | 2 | ~ 19 | ~ max")


def positions(reader: Any) -> Any:
    return dict(reader.positions())


class Context:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def wake(self) -> None:
        pass

    def spawn(self, function: Any, name: str) -> None:
        raise AssertionError("nothing is waited for here")


@pytest.mark.parametrize("at", range(5))
async def test_reading_goes_on_at_a_position(at: int) -> None:
    """However many records were given out before the position was taken, the rest follows and nothing else."""
    source = ScriptedSource("1, 2, 3 | ~ 5 | 4, 5")
    clock: Any = Context(VirtualClock())

    async def read(position: Any, limit: int) -> tuple[list[int], Any]:
        reader: Any = source.reader()
        splits = await source.discover()
        await reader.open(clock, [(splits[0], position)])
        given: list[int] = []
        while not reader.finished and len(given) < limit:
            got = reader.poll(1)
            if got is not None and not isinstance(got, Watermark):
                given += got.values
        return given, positions(reader)["0"]

    first, position = await read(None, at)
    second, _ = await read(position, 99)
    assert first + second == [1, 2, 3, 4, 5]


async def test_an_interval_needs_a_virtual_clock() -> None:
    graph = StreamGraph()
    node = graph.add(Node(0, "s", "source", source=ScriptedSource([1], paced=Pace(interval=10))))
    clock = VirtualClock()
    graph.add(Node(0, "sink", "sink", operator=lambda: Recorder([], clock)), Edge(node.id, 0))
    job = await launch(graph, ExecutionOptions())
    with pytest.raises(ValidationException, match="has to run on a VirtualClock"):
        await job.wait()


async def test_cancelling_a_paced_job_leaves_nothing() -> None:
    """The leak check of the suite looks at what is left."""
    clock = VirtualClock()
    source: Sequence[ScriptedSource] = [
        ScriptedSource([1, Delay.of("1 h"), 2], paced=True, name="a"),
        ScriptedSource([Quiet(), 3], name="b", ends=False),
    ]
    clock.autojump = False
    job = await start(clock, Recorder([], clock), *source)
    await clock.settle()
    await job.cancel()
    assert clock.next_timer() is None
