"""Windows through the operator harness: assigners, triggers, evictors, lateness, merging.

Expected values are arithmetic; `harness.run` takes records as `key value @ event-time`.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline import StreamlineError, ValidationException
from streamline._core.elements import MAX_TIMESTAMP, Batch, Watermark
from streamline._core.keys import KeyGroups, group_range
from streamline._operators.window.aligned import AlignedWindows
from streamline._operators.window.call import WindowCall
from streamline._operators.window.general import GeneralWindows
from streamline._operators.window.incremental import aggregating, reducing
from streamline._operators.window.sessions import SessionWindows
from streamline.functions import AggregateFunction, ProcessWindowFunction
from streamline.state import ReducingStateDescriptor, ValueStateDescriptor
from streamline.testing import OperatorHarness, changelog
from streamline.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)


def key(record: Any) -> Any:
    return record[0]


class Sum(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def bounds(k: Any, context: Any, elements: Iterable[Any]) -> Any:
    """(key, window start, window end, values or result)."""
    window = context.window()
    values = [v[1] if isinstance(v, tuple) else v for v in elements]
    return (k, getattr(window, "start", None), getattr(window, "end", None), values)


def general(
    assigner: WindowAssigner[Any, Any],
    *,
    trigger: Trigger[Any, Any] | None = None,
    evictor: Any = None,
    lateness: int = 0,
    function: Any = bounds,
    aggregate: Any = None,
    late: str | None = None,
) -> GeneralWindows:
    return GeneralWindows(
        key,
        assigner,
        trigger or assigner.get_default_trigger(None),
        evictor,
        lateness,
        None if aggregate is None else aggregating(aggregate),
        None if function is None else WindowCall(function, "process"),
        late,
    )


def aligned(size: int, slide: int = 0, *, late: str | None = None, function: Any = bounds) -> AlignedWindows:
    call = None if function is None else WindowCall(function, "process")
    return AlignedWindows(key, size, slide or size, 0, aggregating(Sum()), call, late)


async def feed(harness: OperatorHarness, script: str) -> None:
    await harness.send(*changelog(script))


async def values(operator: Any, *scripts: str, **options: Any) -> list[list[Any]]:
    """What comes out behind each script."""
    found = []
    async with OperatorHarness(operator, key=key, **options) as harness:
        for script in scripts:
            await feed(harness, script)
            found.append(harness.extract_values())
        found.append([])
        await harness.end_input()
        found[-1] = harness.extract_values()
    return found


# -- tumbling and sliding ------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("fast", [True, False], ids=["aligned", "general"])


def tumbling(fast: bool, size: int = 10, **options: Any) -> Any:
    if fast:
        return aligned(size, **options)
    return general(TumblingEventTimeWindows.of(size), aggregate=Sum(), **options)


@BOTH
async def test_a_tumbling_window_fires_when_the_watermark_passes_its_last_millisecond(fast: bool) -> None:
    got = []
    async with OperatorHarness(tumbling(fast, function=None), key=key) as harness:
        for script in ("a 1 @ 0 | a 2 @ 9 | b 3 @ 5 | a 4 @ 10", "~ 8", "~ 9", "~ max"):
            got.append(await harness.run(script))
            text = harness.output_text(timestamps=True)
            assert text == ""
    assert got == ["", "~ 8", "+I 3 | +I 3 | ~ 9", "+I 4 | ~ max"]


@BOTH
async def test_results_carry_the_last_timestamp_of_their_window(fast: bool) -> None:
    async with OperatorHarness(tumbling(fast, function=None), key=key) as harness:
        await harness.send(Batch([("a", 1), ("a", 2)], [3, 13]), Watermark(MAX_TIMESTAMP))
        assert harness.output_text(timestamps=True) == "+I 1 @ 9 | +I 2 @ 19 | ~ max"


@BOTH
async def test_windows_before_1970_begin_at_or_before_the_record(fast: bool) -> None:
    got = await values(tumbling(fast), "a 1 @ -1 | a 2 @ -10 | a 4 @ -11 | ~ max")
    assert got[0] == [("a", -20, -10, [4]), ("a", -10, 0, [3])]


@BOTH
async def test_a_late_record_is_dropped_and_counted(fast: bool) -> None:
    async with OperatorHarness(tumbling(fast), key=key) as harness:
        await feed(harness, "a 1 @ 1 | ~ 9 | a 2 @ 5 | a 3 @ 10 | ~ max")
        assert harness.extract_values() == [("a", 0, 10, [1]), ("a", 10, 20, [3])]
        assert harness.task.metrics.counter("numLateRecordsDropped").get_count() == 1


@BOTH
async def test_late_is_judged_by_the_window_and_not_by_the_record(fast: bool) -> None:
    got = await values(tumbling(fast, 3600), "a 1 @ 100 | ~ 1800 | a 2 @ 600 | ~ max")
    assert got[0] == [("a", 0, 3600, [3])]


@BOTH
async def test_late_records_go_to_their_side_output(fast: bool) -> None:
    async with OperatorHarness(tumbling(fast, late="late"), key=key, sides=["late"]) as harness:
        await feed(harness, "~ 9 | a 2 @ 5, a 3 @ 10, b 4 @ 9 | ~ max")
        assert harness.extract_values() == [("a", 10, 20, [3])]
        late = [e for e in harness.extract_side_output("late") if isinstance(e, Batch)]
        assert [(list(b.values), list(b.timestamps or ())) for b in late] == [([("a", 2), ("b", 4)], [5, 9])]
        assert harness.task.metrics.counter("numLateRecordsDropped").get_count() == 0


@pytest.mark.parametrize("fast", [True, False])
async def test_a_record_is_in_size_over_slide_windows_and_only_the_open_ones_count(fast: bool) -> None:
    windows = aligned(10, 5) if fast else general(SlidingEventTimeWindows.of(10, 5), aggregate=Sum())
    got = await values(windows, "a 1 @ 7", "~ 9", "a 2 @ 8", "~ max")
    # [0, 10) has fired when the second record comes; [5, 15) is open.
    assert got == [[], [("a", 0, 10, [1])], [], [("a", 5, 15, [3])], []]


@pytest.mark.parametrize("fast", [True, False])
async def test_a_record_that_is_late_for_all_windows_is_late(fast: bool) -> None:
    windows = (
        aligned(10, 5, late="late")
        if fast
        else general(SlidingEventTimeWindows.of(10, 5), aggregate=Sum(), late="late")
    )
    async with OperatorHarness(windows, key=key, sides=["late"]) as harness:
        await feed(harness, "~ 9 | a 1 @ 4 | a 2 @ 5 | ~ max")
        assert harness.extract_values() == [("a", 5, 15, [2])]
        assert [b.values for b in harness.extract_side_output("late") if isinstance(b, Batch)] == [[("a", 1)]]


@BOTH
async def test_a_record_without_a_timestamp_is_refused_with_advice(fast: bool) -> None:
    with pytest.raises(StreamlineError, match="assign_timestamps_and_watermarks") as caught:
        async with OperatorHarness(tumbling(fast), key=key) as harness:
            await feed(harness, "a 1 @ 1, a 2")
    assert "record: ('a', 2)" in caught.value.__notes__


@given(
    records=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(-30, 60)), max_size=30),
    watermarks=st.lists(st.integers(-40, 80), max_size=4),
    size=st.sampled_from([5, 10, 12]),
    parts=st.sampled_from([1, 2, 4]),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
async def test_aligned_windows_give_what_counting_by_hand_gives(
    records: list[tuple[str, int, int]], watermarks: list[int], size: int, parts: int, cuts: list[int]
) -> None:
    """Any cut into batches, any watermarks in between; the oracle adds every record to every window it belongs to."""
    size -= size % parts
    slide = size // parts
    positions = sorted(w % (len(records) + 1) for w in watermarks)
    marks = sorted(watermarks)
    expected: dict[tuple[str, int], int] = defaultdict(int)
    fired: list[tuple[str, int, int, list[int]]] = []
    closed = -(10**9)

    def close(watermark: int) -> None:
        nonlocal closed
        closed = max(closed, watermark)
        for k, end in sorted([w for w in expected if w[1] - 1 <= closed], key=lambda w: w[1]):
            fired.append((k, end - size, end, [expected.pop((k, end))]))

    edges = sorted({0, len(records), *positions, *(c % (len(records) + 1) for c in cuts)})
    steps: list[Any] = []
    for start, stop in pairwise(edges):
        steps += [Watermark(m) for p, m in zip(positions, marks) if p == start]
        chunk = records[start:stop]
        steps.append(Batch([(k, v) for k, v, _ in chunk], [t for _, _, t in chunk]))
    steps += [Watermark(m) for p, m in zip(positions, marks) if p == len(records)]
    highest = -(10**9)
    async with OperatorHarness(aligned(size, slide), key=key) as harness:
        for step in steps:
            if isinstance(step, Watermark):
                if step.timestamp <= highest:
                    continue
                highest = step.timestamp
                close(highest)
            else:
                for (k, v), t in zip(step.values, step.timestamps or ()):
                    for end in range(t - t % slide + slide, t + size + 1, slide):
                        if end - size <= t < end and end - 1 > closed:
                            expected[k, end] += v
            await harness.send(step)
        await harness.send(Watermark(MAX_TIMESTAMP))
        close(MAX_TIMESTAMP)
        got = harness.extract_values()
    assert sorted(got) == sorted(fired)
    assert [end for _, _, end, _ in got] == [end for _, _, end, _ in sorted(fired, key=lambda f: f[2])]


@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 40)), max_size=20),
    marks=st.dictionaries(st.integers(0, 20), st.integers(0, 45), max_size=3),
    parts=st.sampled_from([1, 2]),
)
async def test_both_forms_of_a_window_agree(
    records: list[tuple[str, int, int]], marks: dict[int, int], parts: int
) -> None:
    got = []
    for windows in (
        aligned(10, 10 // parts),
        general(SlidingEventTimeWindows.of(10, 10 // parts), aggregate=Sum()),
    ):
        async with OperatorHarness(windows, key=key) as harness:
            highest = -1
            for i, (k, v, t) in enumerate(records):
                await harness.send(Batch([(k, v)], [t]))
                if marks.get(i, -1) > highest:
                    highest = marks[i]
                    await harness.send(Watermark(highest))
            await harness.send(Watermark(MAX_TIMESTAMP))
            got.append((harness.extract_values(), harness.task.metrics.counter("numLateRecordsDropped").get_count()))
    assert sorted(got[0][0]) == sorted(got[1][0]) and got[0][1] == got[1][1]


class AlsoAtEnd(EventTimeTrigger):
    """The default trigger as a user's own: records take the way that every trigger can go."""


@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 40)), max_size=25),
    marks=st.dictionaries(st.integers(0, 24), st.integers(0, 50), max_size=5),
    size_and_slide=st.sampled_from([(10, 10), (10, 5), (9, 3), (5, 2), (2, 5)]),
    lateness=st.integers(0, 12),
    aggregate=st.sampled_from([None, Sum()]),
)
async def test_the_default_trigger_and_a_trigger_that_does_the_same_agree(
    records: list[tuple[str, int, int]],
    marks: dict[int, int],
    size_and_slide: tuple[int, int],
    lateness: int,
    aggregate: Any,
) -> None:
    got = []
    for trigger in (EventTimeTrigger.create(), AlsoAtEnd()):
        windows = general(
            SlidingEventTimeWindows.of(*size_and_slide),
            trigger=trigger,
            lateness=lateness,
            aggregate=aggregate,
            late="late",
        )
        async with OperatorHarness(windows, key=key, sides=["late"]) as harness:
            at, highest = 0, -1
            for i in [*sorted(marks), len(records)]:
                some, at = records[at:i], max(at, i)
                if some:
                    await harness.send(Batch([r[:2] for r in some], [r[2] for r in some]))
                if marks.get(i, -1) > highest:
                    highest = marks[i]
                    await harness.send(Watermark(highest))
            results = harness.extract_values()
            await harness.send(Watermark(MAX_TIMESTAMP))
            late = [v for b in harness.extract_side_output("late") if isinstance(b, Batch) for v in b.values]
            got.append((results, sorted(harness.extract_values()), late))
            for queue in (harness.task.state.timers.event, harness.task.state.timers.processing):
                assert len(queue) == 0
    assert got[0] == got[1]


class Mover(Trigger[Any, Any]):
    """Calls off the timer at the window's end with every record, as one that moves its timers does."""

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: Any) -> TriggerResult:
        ctx.delete_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE


@pytest.mark.parametrize("trigger", [Mover(), PurgingTrigger.of(Mover()), CountTrigger.of(9)])
async def test_a_window_is_forgotten_at_its_end_whatever_its_trigger_calls_off(trigger: Any) -> None:
    windows = general(TumblingEventTimeWindows.of(10), trigger=trigger, aggregate=Sum())
    async with OperatorHarness(windows, key=key) as harness:
        await feed(harness, "a 1 @ 1 | a 2 @ 2 | a 3 @ 3")
        contents = harness.task.state.store.table("contents", GeneralWindows.state["contents"]).data
        assert contents != {}
        await feed(harness, "~ 9")
        assert dict(contents) == {}


@pytest.mark.parametrize("size_and_slide", [(5, 2), (2, 5)])
async def test_a_size_that_is_no_multiple_of_the_slide(size_and_slide: tuple[int, int]) -> None:
    size, slide = size_and_slide
    windows = general(SlidingEventTimeWindows.of(size, slide))
    got = await values(windows, "a 3 @ 3 | a 6 @ 6 | ~ max")
    expected = {(s, s + size): [t for t in (3, 6) if s <= t < s + size] for s in range(-10, 10) if s % slide == 0}
    assert [(start, end, v) for _, start, end, v in got[0]] == [
        (start, end, v) for (start, end), v in expected.items() if v
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TumblingEventTimeWindows.of(0), "positive size"),
        (lambda: TumblingEventTimeWindows.of(10, 10), "smaller than 10 ms"),
        (lambda: SlidingEventTimeWindows.of(10, 0), "positive size"),
        (lambda: EventTimeSessionWindows.with_gap(0), "positive gap"),
        (lambda: CountTrigger.of(0), "positive count"),
        (lambda: ContinuousEventTimeTrigger.of(0), "positive"),
        (lambda: CountEvictor.of(-1), "cannot keep"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        make()


async def test_an_offset_moves_the_windows() -> None:
    eight_hours = 8 * 3600_000
    day = 24 * 3600_000
    windows = general(TumblingEventTimeWindows.of("1 d", -eight_hours))
    got = await values(windows, f"a 1 @ {16 * 3600_000} | a 2 @ {16 * 3600_000 - 1} | ~ max")
    assert got[0] == [("a", -eight_hours, day - eight_hours, [2]), ("a", day - eight_hours, 2 * day - eight_hours, [1])]


async def test_aligned_windows_keep_the_records_where_nothing_combines_them() -> None:
    windows = AlignedWindows(key, 10, 5, 0, None, WindowCall(bounds, "process"))
    got = await values(windows, "a 1 @ 7 | b 2 @ 8", "~ 9", "a 3 @ 12 | ~ max")
    assert got[1:] == [
        [("a", 0, 10, [1]), ("b", 0, 10, [2])],
        [("a", 5, 15, [1, 3]), ("b", 5, 15, [2]), ("a", 10, 20, [3])],
        [],
    ]


async def test_a_reduce_keeps_the_first_record_as_it_is() -> None:
    windows = AlignedWindows(key, 10, 10, 0, reducing(lambda a, b: (a[0], a[1] + b[1])))
    assert (await values(windows, "a 1 @ 1 | a 2 @ 2 | b 3 @ 3 | ~ max"))[0] == [("a", 3), ("b", 3)]


async def test_processing_time_windows_follow_the_clock() -> None:
    start = 1_704_067_200_000  # 2024-01-01, a multiple of 10 s
    for assigner in (TumblingProcessingTimeWindows.of("10 s"), SlidingProcessingTimeWindows.of("10 s", "5 s")):
        async with OperatorHarness(general(assigner), key=key) as harness:
            await feed(harness, "a 1")
            await harness.advance("7 s")
            await feed(harness, "a 2 | b 3")
            await harness.advance("2999 ms")
            got = harness.extract_values()
            if isinstance(assigner, SlidingProcessingTimeWindows):
                assert got == [("a", start - 5000, start + 5000, [1]), ("a", start, start + 10_000, [1, 2]),
                               ("b", start, start + 10_000, [3])]  # fmt: skip
            else:
                assert got == [("a", start, start + 10_000, [1, 2]), ("b", start, start + 10_000, [3])]
            # Pending processing-time timers are dropped at the end of the input.
            await harness.advance("1 ms")
            harness.extract_values()
            await feed(harness, "a 9")
            await harness.end_input()
            assert harness.extract_values() == []


# -- lateness ------------------------------------------------------------------------------------------------------


async def test_allowed_lateness_fires_again_for_each_late_record_and_then_forgets() -> None:
    windows = general(TumblingEventTimeWindows.of(10), lateness=5, aggregate=Sum(), late="late")
    async with OperatorHarness(windows, key=key, sides=["late"]) as harness:
        got = []
        for script in ("a 1 @ 1", "~ 9", "a 2 @ 2", "~ 13", "a 3 @ 3", "~ 14", "a 4 @ 4", "~ max"):
            await feed(harness, script)
            got.append([v for *_, v in harness.extract_values()])
        assert got == [[], [[1]], [[3]], [], [[6]], [], [], []]
        assert [b.values for b in harness.extract_side_output("late") if isinstance(b, Batch)] == [[("a", 4)]]


async def test_a_result_that_is_the_accumulator_does_not_change_after_it_was_sent() -> None:
    class Collect(Sum):
        def create_accumulator(self) -> Any:
            return []

        def add(self, value: Any, accumulator: Any) -> Any:
            accumulator.append(value[1])
            return accumulator

    windows = general(TumblingEventTimeWindows.of(10), lateness=5, aggregate=Collect(), function=None)
    got = await values(windows, "a 1 @ 1 | ~ 9 | a 2 @ 2 | ~ max")
    assert got[0] == [[1], [1, 2]]


# -- sessions ------------------------------------------------------------------------------------------------------


async def test_sessions_end_after_the_gap_and_touching_ones_merge() -> None:
    windows = general(EventTimeSessionWindows.with_gap(5))
    got = await values(windows, "a 1 @ 0 | a 2 @ 5 | a 3 @ 11 | b 4 @ 3", "~ 9", "~ max")
    # 0 and 5 are exactly the gap apart: [0, 5) and [5, 10) touch, so they merge; 11 > 10 is a session of its own.
    assert got == [[], [("b", 3, 8, [4]), ("a", 0, 10, [1, 2])], [("a", 11, 16, [3])], []]


async def test_a_record_between_two_sessions_merges_them_with_state_trigger_and_timers() -> None:
    windows = general(
        EventTimeSessionWindows.with_gap(5), trigger=PurgingTrigger.of(CountTrigger.of(3)), function=bounds
    )
    got = await values(windows, "a 1 @ 0", "a 2 @ 8", "a 3 @ 4", "~ max")
    # The counts of both sessions add up: the third record fires; nothing is left for the end.
    assert got == [[], [], [("a", 0, 13, [1, 2, 3])], [], []]


@pytest.mark.parametrize("order", [(0, 8, 4), (8, 0, 4), (4, 0, 8), (0, 4, 8), (8, 4, 0), (4, 8, 0)])
@pytest.mark.parametrize("aggregate", [None, Sum()])
async def test_sessions_do_not_depend_on_the_order_of_their_records(order: tuple[int, ...], aggregate: Any) -> None:
    windows = general(EventTimeSessionWindows.with_gap(5), aggregate=aggregate)
    async with OperatorHarness(windows, key=key) as harness:
        for t in order:
            await harness.process_element(("a", t), t)
        await harness.process_watermark(MAX_TIMESTAMP)
        ((k, start, end, found),) = harness.extract_values()
        assert (k, start, end, sum(found)) == ("a", 0, 13, 12)
        assert harness.task.state.store.table("merging", GeneralWindows.state["merging"]).data == {}
        name = "elements" if aggregate is None else "contents"
        assert dict(harness.task.state.store.table(name, GeneralWindows.state[name]).data) == {}


@given(times=st.lists(st.integers(0, 100), min_size=1, max_size=15), gap=st.integers(1, 20))
async def test_sessions_are_the_runs_of_records_within_the_gap(times: list[int], gap: int) -> None:
    expected: list[tuple[int, int, list[int]]] = []
    for t in sorted(times):
        if expected and t <= expected[-1][1]:
            start, _, members = expected[-1]
            expected[-1] = (start, t + gap, [*members, t])
        else:
            expected.append((t, t + gap, [t]))
    async with OperatorHarness(general(EventTimeSessionWindows.with_gap(gap)), key=key) as harness:
        await harness.send(Batch([("a", t) for t in times], times), Watermark(MAX_TIMESTAMP))
        got = [(start, end, sorted(v)) for _, start, end, v in harness.extract_values()]
    assert got == expected


def fast_sessions(gap: Any, *, function: Any = bounds, late: str | None = None) -> SessionWindows:
    call = None if function is None else WindowCall(function, "process")
    return SessionWindows(key, gap, aggregating(Sum()), call, late)


@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 20), st.integers(0, 60)), max_size=20),
    marks=st.dictionaries(st.integers(0, 20), st.integers(0, 70), max_size=4),
    gap=st.one_of(st.integers(1, 12), st.none()),
    cuts=st.sets(st.integers(1, 20)),
)
async def test_both_forms_of_a_session_agree(
    records: list[tuple[str, int, int]], marks: dict[int, int], gap: int | None, cuts: set[int]
) -> None:
    got = []
    dynamic = EventTimeSessionWindows.with_dynamic_gap(lambda r: r[1])
    slow = general(dynamic if gap is None else EventTimeSessionWindows.with_gap(gap), aggregate=Sum(), late="late")
    for windows in (fast_sessions(dynamic.gap_of if gap is None else gap, late="late"), slow):
        async with OperatorHarness(windows, key=key, sides=["late"]) as harness:
            highest, held = -1, []
            for i, record in enumerate(records):
                held.append(record)
                if marks.get(i, -1) > highest or i in cuts or windows is slow:
                    await harness.send(Batch([r[:2] for r in held], [r[2] for r in held]))
                    held = []
                if marks.get(i, -1) > highest:
                    highest = marks[i]
                    await harness.send(Watermark(highest))
            if held:
                await harness.send(Batch([r[:2] for r in held], [r[2] for r in held]))
            await harness.send(Watermark(MAX_TIMESTAMP))
            late = [v for b in harness.extract_side_output("late") if isinstance(b, Batch) for v in b.values]
            got.append((sorted(harness.extract_values()), late))
            if windows is not slow:
                assert dict(harness.task.state.store.table("sessions", SessionWindows.state["sessions"]).data) == {}
                assert windows._heap == []
    assert got[0] == got[1]


async def test_the_garbage_collector_need_not_know_the_session_of_a_key() -> None:
    """Else keys that come and go make it look at the whole heap again and again."""
    async with OperatorHarness(fast_sessions(5), key=key) as harness:
        await feed(harness, "a 1 @ 0 | b 2 @ 1 | a 3 @ 4 | b 1 @ 20")
        data = harness.task.state.store.table("sessions", SessionWindows.state["sessions"]).data
        assert not gc.is_tracked(data["a"])
        assert [gc.is_tracked(s) for s in data["b"]] == [False, False]


async def test_fast_sessions_fire_in_order_of_their_ends_with_their_last_timestamp() -> None:
    async with OperatorHarness(fast_sessions(5, function=None), key=key) as harness:
        await feed(harness, "a 1 @ 0 | b 2 @ 1 | a 3 @ 4 | c 4 @ 2 | ~ max")
        assert harness.output_text(timestamps=True) == "+I 2 @ 5 | +I 4 @ 6 | +I 4 @ 8 | ~ max"


async def test_fast_sessions_refuse_records_without_timestamps_and_name_what_fails() -> None:
    with pytest.raises(StreamlineError, match="assign_timestamps_and_watermarks") as caught:
        await values(fast_sessions(5), "a 1 @ 1, a 2")
    assert "record: ('a', 2)" in caught.value.__notes__ and "key: 'a'" in caught.value.__notes__


async def test_a_late_record_beside_a_closed_session_opens_one_of_its_own() -> None:
    # Flink judges by the window: [3, 8) is open at watermark 6, so the record counts, and overlaps [0, 5).
    windows = general(EventTimeSessionWindows.with_gap(5))
    assert await values(windows, "a 1 @ 0", "~ 6", "a 2 @ 3", "~ max") == [
        [],
        [("a", 0, 5, [1])],
        [],
        [("a", 3, 8, [2])],
        [],
    ]


async def test_a_late_session_is_dropped_and_counted() -> None:
    async with OperatorHarness(general(EventTimeSessionWindows.with_gap(5)), key=key) as harness:
        await feed(harness, "~ 20 | a 1 @ 0 | ~ max")
        assert harness.extract_values() == []
        assert harness.task.metrics.counter("numLateRecordsDropped").get_count() == 1
        assert harness.task.state.store.table("merging", GeneralWindows.state["merging"]).data == {}


async def test_a_dynamic_gap_comes_from_each_record() -> None:
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return int(element[1])

    for assigner in (
        DynamicEventTimeSessionWindows.with_dynamic_gap(Gap()),
        EventTimeSessionWindows.with_dynamic_gap(lambda e: e[1]),
    ):
        got = await values(general(assigner), "a 10 @ 0 | a 2 @ 5 | a 3 @ 11 | ~ max")
        assert got[0] == [("a", 0, 10, [10, 2]), ("a", 11, 14, [3])]
    with pytest.raises(ValidationException, match="has to be positive"):
        await values(general(EventTimeSessionWindows.with_dynamic_gap(lambda e: 0)), "a 1 @ 0")


async def test_processing_time_sessions() -> None:
    async with OperatorHarness(general(ProcessingTimeSessionWindows.with_gap("5 s")), key=key) as harness:
        await feed(harness, "a 1")
        await harness.advance("3 s")
        await feed(harness, "a 2")
        await harness.advance("4998 ms")
        assert harness.extract_values() == []
        await harness.advance("1 ms")
        assert [v for *_, v in harness.extract_values()] == [[1, 2]]


async def test_a_trigger_that_cannot_merge_is_refused_with_sessions() -> None:
    with pytest.raises(ValidationException, match="DeltaTrigger cannot be used with windows that merge"):
        general(EventTimeSessionWindows.with_gap(5), trigger=DeltaTrigger.of(1, lambda a, b: 0))


async def test_window_state_is_refused_where_windows_merge() -> None:
    def use(k: Any, context: Any, elements: Any) -> Any:
        return context.window_state().get_state(ValueStateDescriptor("n", int)).value()

    with pytest.raises(ValidationException, match="not allowed when using merging windows"):
        await values(general(EventTimeSessionWindows.with_gap(5), function=use), "a 1 @ 0 | ~ max")


# -- triggers ------------------------------------------------------------------------------------------------------


async def test_global_windows_never_fire_by_themselves() -> None:
    assert await values(general(GlobalWindows.create()), "a 1 @ 0 | ~ max") == [[], []]
    assert await values(general(TumblingEventTimeWindows.of(10), trigger=NeverTrigger()), "a 1 @ 0 | ~ max") == [[], []]


async def test_count_and_purging_triggers() -> None:
    count = general(GlobalWindows.create(), trigger=CountTrigger.of(2))
    assert [v for *_, v in (await values(count, "a 1 | b 9 | a 2 | a 3 | a 4"))[0]] == [[1, 2], [1, 2, 3, 4]]
    purging = general(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    assert [v for *_, v in (await values(purging, "a 1 | a 2 | a 3 | a 4 | a 5"))[0]] == [[1, 2], [3, 4]]


async def test_count_trigger_ignores_time_and_replaces_the_default() -> None:
    windows = general(TumblingEventTimeWindows.of(10), trigger=CountTrigger.of(2))
    assert await values(windows, "a 1 @ 1 | a 2 @ 2 | a 3 @ 3", "~ max") == [[("a", 0, 10, [1, 2])], [], []]


async def test_delta_trigger_fires_when_a_record_is_far_from_the_last_that_fired() -> None:
    trigger = DeltaTrigger.of(10, lambda last, new: new[1] - last[1])
    windows = general(GlobalWindows.create(), trigger=PurgingTrigger.of(trigger))
    assert [v for *_, v in (await values(windows, "a 1 | a 5 | a 12 | a 15 | a 30"))[0]] == [[1, 5, 12], [15, 30]]


async def test_continuous_event_time_trigger_fires_each_interval_and_at_the_end() -> None:
    windows = general(TumblingEventTimeWindows.of(10), trigger=ContinuousEventTimeTrigger.of(4), aggregate=Sum())
    got = await values(windows, "a 1 @ 1", "~ 3", "~ 4", "a 2 @ 5", "~ 8", "~ 9", "~ max")
    assert [[v for *_, v in step] for step in got] == [[], [], [[1]], [], [[3]], [[3]], [], []]


async def test_continuous_processing_time_trigger_counts_from_the_first_record() -> None:
    windows = general(
        GlobalWindows.create(), trigger=ContinuousProcessingTimeTrigger.of("4 s"), aggregate=Sum(), function=None
    )
    async with OperatorHarness(windows, key=key) as harness:
        await feed(harness, "a 1")
        await harness.advance("3999 ms")
        assert harness.extract_values() == []
        await harness.advance("1 ms")
        assert harness.extract_values() == [1]
        await feed(harness, "a 2")
        await harness.advance("8 s")
        assert harness.extract_values() == [3, 3]


async def test_an_explicit_time_trigger_is_the_default_one() -> None:
    windows = general(TumblingEventTimeWindows.of(10), trigger=EventTimeTrigger.create())
    assert (await values(windows, "a 1 @ 1 | ~ 9"))[0] == [("a", 0, 10, [1])]
    windows = general(TumblingEventTimeWindows.of("1 h"), trigger=ProcessingTimeTrigger.create())
    async with OperatorHarness(windows, key=key) as harness:
        await harness.process_element(("a", 1), harness.clock.now())
        await harness.advance("1 h")
        assert [v for *_, v in harness.extract_values()] == [[1]]


class Every(Trigger[Any, Any]):
    """Fires when the sum of a window has reached 10; its state is merged and cleared."""

    total = ReducingStateDescriptor("total", lambda a, b: a + b, int)

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: Any) -> TriggerResult:
        total = ctx.get_partitioned_state(self.total)
        total.add(element[1])
        if total.get() >= 10:
            total.clear()
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.total)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.total).clear()


async def test_a_trigger_of_the_users_own() -> None:
    tumbling_ = general(TumblingEventTimeWindows.of(10), trigger=Every())
    assert await values(tumbling_, "a 4 @ 1 | a 7 @ 2 | a 5 @ 3", "~ max") == [[("a", 0, 10, [4, 7])], [], []]
    session = general(EventTimeSessionWindows.with_gap(5), trigger=Every())
    assert await values(session, "a 4 @ 0 | a 5 @ 8", "a 1 @ 4") == [[], [("a", 0, 13, [4, 5, 1])], []]


class Pairs(WindowAssigner[Any, CountWindow]):
    """Every two records of a key: the assigner remembers in state how many there were."""

    seen = ValueStateDescriptor("seen", int)

    def assign_windows(self, element: Any, timestamp: int | None, context: Any) -> Any:
        seen = context.get_runtime_context().get_state(self.seen)
        n = seen.value() or 0
        seen.update(n + 1)
        return [CountWindow(n // 2)]

    def get_default_trigger(self, env: Any) -> Any:
        return PurgingTrigger.of(CountTrigger.of(2))

    def is_event_time(self) -> bool:
        return False


async def test_an_assigner_of_the_users_own_has_state() -> None:
    got = await values(general(Pairs(), function=lambda k, ctx, vs: (k, ctx.window().id, [v[1] for v in vs])),
                       "a 1 | b 9 | a 2 | a 3 | b 8 | a 4")  # fmt: skip
    assert got[0] == [("a", 0, [1, 2]), ("b", 0, [9, 8]), ("a", 1, [3, 4])]


class Days(MergingWindowAssigner[Any, TimeWindow]):
    """One window per record, merged with those of the same ten."""

    def assign_windows(self, element: Any, timestamp: int | None, context: Any) -> Any:
        assert timestamp is not None
        return [TimeWindow(timestamp, timestamp + 1)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        by_ten: dict[int, list[TimeWindow]] = {}
        for window in windows:
            by_ten.setdefault(window.start // 10, []).append(window)
        for parts in by_ten.values():
            if len(parts) > 1:
                callback.merge(parts, TimeWindow(min(w.start for w in parts), max(w.end for w in parts)))

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


async def test_a_merging_assigner_of_the_users_own() -> None:
    got = await values(general(Days()), "a 1 @ 1 | a 2 @ 15 | a 3 @ 8 | a 4 @ 3 | ~ max")
    assert got[0] == [("a", 1, 9, [1, 3, 4]), ("a", 15, 16, [2])]


# -- evictors ------------------------------------------------------------------------------------------------------


async def test_evictors_before_and_after_the_function() -> None:
    script = "a 1 @ 1 | a 2 @ 4 | a 5 @ 6 | a 3 @ 8"

    async def fired(evictor: Any, aggregate: Any = None) -> list[Any]:
        windows = general(
            TumblingEventTimeWindows.of(10), lateness=100, evictor=evictor, aggregate=aggregate, function=bounds
        )
        return [v for *_, v in (await values(windows, script + " | ~ 9 | a 7 @ 9"))[0]]

    assert await fired(CountEvictor.of(2)) == [[5, 3], [3, 7]]
    assert await fired(CountEvictor.of(2, True)) == [[1, 2, 5, 3], [5, 3, 7]]
    assert await fired(TimeEvictor.of(3)) == [[5, 3], [3, 7]]
    assert await fired(DeltaEvictor.of(3, lambda e, last: abs(e[1] - last[1]))) == [[1, 2, 5, 3], [5, 7]]
    assert await fired(CountEvictor.of(2), Sum()) == [[8], [10]]


# -- window functions ----------------------------------------------------------------------------------------------


class Stateful(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    """How often the window has fired, and how many windows of the key have been seen."""

    fired = ValueStateDescriptor("fired", int)
    windows = ValueStateDescriptor("windows", int)

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        fired = context.window_state().get_state(self.fired)
        windows = context.global_state().get_state(self.windows)
        if fired.value() is None:
            windows.update((windows.value() or 0) + 1)
        fired.update((fired.value() or 0) + 1)
        yield (key, context.window().start, fired.value(), windows.value(), context.current_watermark())

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.fired).clear()


async def test_window_functions_have_state_per_window_and_per_key() -> None:
    windows = general(TumblingEventTimeWindows.of(10), lateness=5, function=Stateful())
    async with OperatorHarness(windows, key=key) as harness:
        await feed(harness, "a 1 @ 1 | ~ 9 | a 1 @ 2 | a 1 @ 12 | ~ 14 | ~ max")
        assert harness.extract_values() == [("a", 0, 1, 1, 9), ("a", 0, 2, 1, 9), ("a", 10, 1, 2, MAX_TIMESTAMP)]
        names = {t.name: t for t in harness.task.state.store.tables()}
        assert len(names["window:fired"].data) == 0 and dict(names["global:windows"].data) == {"a": 2}


@BOTH
async def test_async_window_functions_and_generators(fast: bool) -> None:
    async def later(k: Any, context: Any, elements: Iterable[Any]) -> Any:
        return [(k, context.window().start), "more"]

    async def stream(k: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield k
        yield context.window().end

    assert (await values(tumbling(fast, function=later), "a 1 @ 1 | ~ max"))[0] == [("a", 0), "more"]
    assert (await values(tumbling(fast, function=stream), "a 1 @ 1 | ~ max"))[0] == ["a", 10]


@BOTH
async def test_an_error_in_a_window_function_names_window_and_key(fast: bool) -> None:
    def fail(k: Any, context: Any, elements: Iterable[Any]) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await values(tumbling(fast, function=fail), "a 1 @ 1 | ~ max")
    assert "window: TimeWindow(start=0, end=10)" in caught.value.__notes__ and "key: 'a'" in caught.value.__notes__


def test_an_async_aggregate_is_refused_when_built() -> None:
    class Later(Sum):
        async def add(self, value: Any, accumulator: int) -> int:  # type: ignore[override]
            return accumulator

    async def reduce(a: Any, b: Any) -> Any:
        return a

    with pytest.raises(ValidationException, match=r"Later\.add is async"):
        aggregating(Later())
    with pytest.raises(ValidationException, match="is async or yields"):
        reducing(reduce)


# -- snapshots -----------------------------------------------------------------------------------------------------

MADE: list[tuple[str, Callable[[], Any]]] = [
    ("aligned", lambda: aligned(10)),
    ("sliding", lambda: aligned(10, 5)),
    ("elements", lambda: general(TumblingEventTimeWindows.of(10))),
    ("aligned elements", lambda: AlignedWindows(key, 10, 10, 0, None, WindowCall(bounds, "process"))),
    ("sessions", lambda: general(EventTimeSessionWindows.with_gap(5), aggregate=Sum())),
    ("fast sessions", lambda: fast_sessions(5)),
    ("evicting", lambda: general(TumblingEventTimeWindows.of(10), evictor=CountEvictor.of(2))),
    ("count", lambda: general(GlobalWindows.create(), trigger=CountTrigger.of(3))),
]


@pytest.mark.parametrize(("name", "make"), MADE, ids=[n for n, _ in MADE])
async def test_windows_go_on_after_a_restore(name: str, make: Callable[[], Any]) -> None:
    before, after = "a 1 @ 1 | b 2 @ 2 | a 3 @ 8", "a 4 @ 9 | b 5 @ 5 | ~ 11 | a 6 @ 12 | ~ max"
    async with OperatorHarness(make(), key=key) as harness:
        await feed(harness, before)
        assert harness.extract_values() == []
        snapshot = await harness.snapshot()
        await feed(harness, after)
        whole = harness.extract_values()
    async with OperatorHarness(make(), key=key, restore=snapshot) as harness:
        await feed(harness, after)
        assert harness.extract_values() == whole != []


@pytest.mark.parametrize(("name", "make"), MADE, ids=[n for n, _ in MADE])
async def test_windows_go_on_at_another_parallelism(name: str, make: Callable[[], Any]) -> None:
    keys = "abcdefgh"
    before = " | ".join(f"{k} {i} @ {i}" for i, k in enumerate(keys))
    after = " | ".join(f"{k} 10 @ 9, {k} 20 @ 9" for k in keys) + " | ~ max"
    async with OperatorHarness(make(), key=key) as harness:
        await feed(harness, before)
        snapshot = await harness.snapshot()
        await feed(harness, after)
        whole = harness.extract_values()
    got = []
    for subtask in (0, 1):
        async with OperatorHarness(make(), key=key, restore=snapshot, subtask=subtask, parallelism=2) as harness:
            owned = group_range(128, 2, subtask)
            mine = [k for k in keys if KeyGroups(128).of(k) in owned]
            await feed(harness, " | ".join(f"{k} 10 @ 9, {k} 20 @ 9" for k in mine) + " | ~ max")
            got += harness.extract_values()
    assert sorted(got) == sorted(whole)
