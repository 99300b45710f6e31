"""Windows: faults that others had, and what is right."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline._core.elements import Batch, Watermark
from streamline._operators.window.aligned import AlignedWindows
from streamline._operators.window.incremental import reducing
from streamline._operators.window.sessions import SessionWindows
from streamline.testing import Delay, MiniJob, OperatorHarness, ScriptedSource
from streamline.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

SECOND, MINUTE = 1000, 60_000


def key(record: Any) -> Any:
    return record[0]


def merged(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


@pytest.mark.parametrize("timestamp", [1_717_243_201_234, 0, -1, -62_135_596_800_000, -62_135_596_799_999])
async def test_c41_windows_are_exact_however_far_from_their_origin(timestamp: int) -> None:
    """C41: in windows of 10 s each 1 s a record is in ten, today, in 1970, before it, and in the year 1."""
    assigner = SlidingEventTimeWindows.of(10 * SECOND, SECOND)
    assigned = sorted(w.start for w in assigner.assign_windows(None, timestamp, None))
    last = timestamp // SECOND * SECOND
    assert assigned == [last - n * SECOND for n in range(9, -1, -1)]
    seen: list[int] = []
    async with OperatorHarness(AlignedWindows(key, 10 * SECOND, SECOND, 0, reducing(merged)), key=key) as harness:
        await harness.process_element(("a", 1), timestamp)
        await harness.process_watermark(timestamp + 20 * SECOND)
        for element in harness.extract_output():
            if isinstance(element, Batch):
                assert element.timestamps is not None
                seen += [t for t in element.timestamps if t is not None]
    assert seen == [start + 10 * SECOND - 1 for start in assigned]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("order", list(permutations(["a", "b"])))
async def test_c42_a_session_join_does_not_depend_on_the_order_of_its_sides(swapped: bool, order: Any) -> None:
    """C42: A at 10 s and B at 11 s meet in one session, whichever side is named first and whoever comes first."""
    wait = {name: 100 * i for i, name in enumerate(order)}
    times = {"a": 10 * SECOND, "b": 11 * SECOND}
    out: list[Any] = []

    def build(env: StreamExecutionEnvironment) -> None:
        strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
        one, two = (
            env.from_source(ScriptedSource([Delay(wait[n]), ("k", times[n], n)]), strategy, n)
            for n in (("b", "a") if swapped else ("a", "b"))
        )
        together = one.join(two).where(key).equal_to(key).window(EventTimeSessionWindows.with_gap("60 s"))
        together.apply(lambda left, right: tuple(sorted((left[2], right[2])))).add_sink(out.append)

    async with MiniJob(build) as job:
        await job.wait()
    assert out == [("a", "b")]


async def test_c44_a_late_record_beside_a_closed_session_has_one_of_its_own() -> None:
    """C44: as Flink: at watermark 6 a record at 3 has the window [3, 8), which is not over: it is kept, and alone.

    The case's own value (drop it) would need an option that Flink does not have.
    """
    async with OperatorHarness(SessionWindows(key, 5, reducing(merged)), key=key) as harness:
        await harness.process_element(("a", 1), 0)
        await harness.process_watermark(6)
        await harness.process_element(("a", 10), 3)
        await harness.process_element(("a", 100), 1)  # [1, 6) is over, but it touches [3, 8)
        await harness.process_watermark(20)
        assert harness.output_text() == "+I a 1 | ~ 6 | +I a 110 | ~ 20"


async def test_c48_restored_windows_fire_and_leave_nothing() -> None:
    """C48: a hundred keys in a window, restored, and none of them comes again: all fire, and the state is empty."""

    def operator() -> AlignedWindows:
        return AlignedWindows(key, 10 * MINUTE, 10 * MINUTE, 0, reducing(merged))

    async with OperatorHarness(operator(), key=key) as harness:
        for n in range(100):
            await harness.process_element((f"k{n}", n), 5 * MINUTE)
        snapshot = await harness.snapshot()
    async with OperatorHarness(operator(), key=key, restore=snapshot) as harness:
        assert harness.task.state.entries() > 0
        await harness.process_watermark(60 * MINUTE)
        assert sorted(harness.extract_values()) == sorted((f"k{n}", n) for n in range(100))
        assert harness.task.state.entries() == 0
        await harness.send(Watermark(70 * MINUTE))
        assert harness.extract_values() == []


def test_c46_a_window_tells_its_bounds() -> None:
    """C46, for streams: start, end and the last millisecond, at which the result stands."""
    (window,) = TumblingEventTimeWindows.of("20 min").assign_windows(None, 25 * MINUTE, None)
    assert (window.start, window.end, window.max_timestamp()) == (20 * MINUTE, 40 * MINUTE, 40 * MINUTE - 1)
