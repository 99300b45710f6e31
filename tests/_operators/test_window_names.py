"""Every window, trigger and evictor by its name: what it does, its default, its error. Values are arithmetic.

Programs are built by the public API; their window operator then runs in a harness, record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from streamline import OutputTag, StreamExecutionEnvironment, ValidationException
from streamline._core.elements import MAX_TIMESTAMP, Batch
from streamline.functions import AggregateFunction, ProcessWindowFunction
from streamline.state import ValueStateDescriptor
from streamline.testing import OperatorHarness, ScriptedSource, changelog
from streamline.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
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

#: Processing time at the start of every harness: 2024-01-01, a multiple of all sizes here.
START = 1_704_067_200_000


def bounds(key: str, context: Any, elements: Iterable[Any]) -> Any:
    """(start, end, values): times of processing are told from START on."""
    window = context.window()
    start, end = getattr(window, "start", None), getattr(window, "end", None)
    if start is not None and start > START // 2:
        start, end = start - START, end - START
    return (start, end, [v[1] if type(v) is tuple else v for v in elements])


class Sum(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


Told = Callable[[Any], Any]


def harness(assigner: WindowAssigner[Any, Any], told: Told = lambda w: w, sides: Iterable[str] = ()) -> OperatorHarness:
    """The operator of such windows; `told` says more about them and ends in the function."""
    stream = StreamExecutionEnvironment.get_execution_environment().from_source(ScriptedSource("a 1 @ 1"))
    windows = told(stream.key_by(lambda r: r[0]).window(assigner))
    node = (windows if hasattr(windows, "node") else windows.process(bounds)).node
    return OperatorHarness(node.operator(), key=lambda r: r[0], sides=sides)


async def fired(assigner: WindowAssigner[Any, Any], *scripts: str, told: Told = lambda w: w) -> list[list[Any]]:
    """What comes out behind each script (records are `key value @ time`), and behind the end of the input."""
    found = []
    async with harness(assigner, told) as h:
        for script in scripts:
            await h.send(*changelog(script))
            found.append(h.extract_values())
        await h.end_input()
        assert h.extract_values() == [], "the end without a watermark fires nothing"
    return found


async def over_time(
    assigner: WindowAssigner[Any, Any], *steps: int | str, told: Told = lambda w: w
) -> list[tuple[int, Any]]:
    """What comes out when, ms after the start: numbers let time pass (ms), texts are records."""
    found = []
    async with harness(assigner, told) as h:
        for step in steps:
            if isinstance(step, str):
                await h.send(*changelog(step))
            else:
                await h.advance(step)
            found += [(h.clock.now() - START, v) for v in h.extract_values()]
    return found


# -- windows ---------------------------------------------------------------------------------------------------------


async def test_tumbling_event_time_windows() -> None:
    """Of `size`, the start a multiple of it, the end exclusive; fired when the watermark is at end - 1."""
    got = await fired(
        TumblingEventTimeWindows.of(10), "a 1 @ 0 | a 2 @ 9 | a 3 @ 10 | a 4 @ -1", "~ -1", "~ 8", "~ 9", "~ 19"
    )
    assert got == [[], [(-10, 0, [4])], [], [(0, 10, [1, 2])], [(10, 20, [3])]]
    assert TimeWindow(0, 10).max_timestamp() == 9


async def test_tumbling_processing_time_windows() -> None:
    got = await over_time(TumblingProcessingTimeWindows.of(10), "a 1", 4, "a 2", 5, 1, "a 3", 9, 1)
    assert got == [(9, (0, 10, [1, 2])), (19, (10, 20, [3]))]


async def test_sliding_event_time_windows() -> None:
    """A record is in size / slide windows."""
    got = await fired(SlidingEventTimeWindows.of(10, 5), "a 1 @ 7 | a 2 @ 11", "~ 9", "~ 14", "~ 19")
    assert got == [[], [(0, 10, [1])], [(5, 15, [1, 2])], [(10, 20, [2])]]


async def test_sliding_processing_time_windows() -> None:
    got = await over_time(SlidingProcessingTimeWindows.of(10, 5), 7, "a 1", 2, 5, 5)
    assert got == [(9, (0, 10, [1])), (14, (5, 15, [1]))]


async def test_event_time_session_windows() -> None:
    """As long as the gap is not passed; exactly the gap apart is one session."""
    got = await fired(EventTimeSessionWindows.with_gap(5), "a 1 @ 0 | a 2 @ 5 | a 3 @ 11", "~ 8", "~ 9", "~ 15")
    assert got == [[], [], [(0, 10, [1, 2])], [(11, 16, [3])]]


async def test_dynamic_event_time_session_windows() -> None:
    for windows in (
        DynamicEventTimeSessionWindows.with_dynamic_gap(lambda r: r[1]),
        EventTimeSessionWindows.with_dynamic_gap(lambda r: r[1]),
    ):
        got = await fired(windows, "a 10 @ 0 | a 2 @ 5 | a 3 @ 11", "~ 9", "~ 13")
        assert got == [[], [(0, 10, [10, 2])], [(11, 14, [3])]]


async def test_processing_time_session_windows() -> None:
    got = await over_time(ProcessingTimeSessionWindows.with_gap(5), "a 1", 3, "a 2", 4, 1, "a 3", 4, 1)
    assert got == [(7, (0, 8, [1, 2])), (12, (8, 13, [3]))]


async def test_dynamic_processing_time_session_windows() -> None:
    for windows in (
        DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda r: r[1]),
        ProcessingTimeSessionWindows.with_dynamic_gap(lambda r: r[1]),
    ):
        got = await over_time(windows, "a 3", 1, "a 7", 5, 1, 1)
        assert got == [(7, (0, 8, [3, 7]))]


async def test_global_windows() -> None:
    """One window a key, that never fires by itself."""
    assert await fired(GlobalWindows.create(), "a 1 @ 1 | b 2 @ 2 | ~ 99", "~ max") == [[], []]
    got = await fired(GlobalWindows.create(), "a 1 | b 9 | a 2", told=lambda w: w.trigger(CountTrigger.of(2)))
    assert got == [[(None, None, [1, 2])]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TumblingEventTimeWindows.of(0), "TumblingEventTimeWindows .*positive size"),
        (lambda: TumblingProcessingTimeWindows.of(-1), "TumblingProcessingTimeWindows .*positive size"),
        (lambda: SlidingEventTimeWindows.of(0, 1), "SlidingEventTimeWindows .*positive size"),
        (lambda: SlidingProcessingTimeWindows.of(10, 0), "SlidingProcessingTimeWindows .*positive size"),
        (lambda: EventTimeSessionWindows.with_gap(0), "EventTimeSessionWindows needs a positive gap"),
        (lambda: ProcessingTimeSessionWindows.with_gap(-5), "ProcessingTimeSessionWindows needs a positive gap"),
        (lambda: TumblingEventTimeWindows.of(10, 10), "smaller than 10 ms"),
        (lambda: TumblingProcessingTimeWindows.of(10, -10), "smaller than 10 ms"),
        (lambda: SlidingEventTimeWindows.of(10, 5, 5), "smaller than 5 ms"),
        (lambda: SlidingProcessingTimeWindows.of(10, 5, -5), "smaller than 5 ms"),
    ],
)
def test_sizes_gaps_and_offsets_that_make_no_window_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        make()


@pytest.mark.parametrize(
    "windows", [DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows], ids=lambda c: c.__name__
)
async def test_a_dynamic_gap_that_is_none_is_refused_with_its_record(windows: Any) -> None:
    with pytest.raises(ValidationException, match="has to be positive"):
        await fired(windows.with_dynamic_gap(lambda r: 0), "a 1 @ 1")


async def test_offset_of_tumbling_event_time_windows() -> None:
    """start = ts - (ts - offset + size) mod size: -8 h are the days of UTC+8."""
    got = await fired(TumblingEventTimeWindows.of(24, -8), "a 1 @ 15 | a 2 @ 16", "~ max")
    assert got == [[], [(-8, 16, [1]), (16, 40, [2])]]
    assert await fired(TumblingEventTimeWindows.of(10, 3), "a 1 @ 2 | a 2 @ 3", "~ max") == [
        [],
        [(-7, 3, [1]), (3, 13, [2])],
    ]


async def test_offset_of_tumbling_processing_time_windows() -> None:
    got = await over_time(TumblingProcessingTimeWindows.of(10, 3), "a 1", 2, 1, "a 2", 9)
    assert got == [(2, (-7, 3, [1])), (12, (3, 13, [2]))]


async def test_offset_of_sliding_event_time_windows() -> None:
    got = await fired(SlidingEventTimeWindows.of(10, 5, 2), "a 1 @ 1", "~ max")
    assert got == [[], [(-8, 2, [1]), (-3, 7, [1])]]


async def test_offset_of_sliding_processing_time_windows() -> None:
    got = await over_time(SlidingProcessingTimeWindows.of(10, 5, 2), "a 1", 1, 5)
    assert got == [(1, (-8, 2, [1])), (6, (-3, 7, [1]))]


# -- triggers --------------------------------------------------------------------------------------------------------

TEN = TumblingEventTimeWindows.of(10)


def trigger(t: Trigger[Any, Any]) -> Told:
    return lambda w: w.trigger(t)


async def test_event_time_trigger() -> None:
    """Fires at the end of the window, and from then on for every record that is late and allowed; keeps them."""
    told: Told = lambda w: w.allowed_lateness(5).trigger(EventTimeTrigger.create())  # noqa: E731
    got = await fired(TEN, "a 1 @ 1", "~ 9", "a 2 @ 2", "a 3 @ 3", told=told)
    assert got == [[], [(0, 10, [1])], [(0, 10, [1, 2])], [(0, 10, [1, 2, 3])]]
    assert await fired(TEN, "a 1 @ 1", "~ 9", "a 2 @ 2", told=lambda w: w.allowed_lateness(5)) == got[:3]


async def test_processing_time_trigger() -> None:
    """Fires when processing time is at the end of the window, and for windows of event time too."""
    windows = TumblingEventTimeWindows.of("1 h")
    got = await over_time(
        windows, f"a 1 @ {START}", f"~ {START + 3_599_998}", 3_599_998, 1, told=trigger(ProcessingTimeTrigger.create())
    )
    assert got == [(3_599_999, (0, 3_600_000, [1]))]


async def test_continuous_event_time_trigger() -> None:
    """At each multiple of the interval that the watermark passes, and at the end of the window."""
    got = await fired(
        TEN, "a 1 @ 1", "~ 3", "~ 4", "a 2 @ 5", "~ 8", "~ 9", told=trigger(ContinuousEventTimeTrigger.of(4))
    )
    assert [[v for *_, v in step] for step in got] == [[], [], [[1]], [], [[1, 2]], [[1, 2]]]
    with pytest.raises(ValidationException, match="has to be positive"):
        ContinuousEventTimeTrigger.of(0)


async def test_continuous_processing_time_trigger() -> None:
    got = await over_time(
        GlobalWindows.create(), "a 1", 3, 1, "a 2", 4, told=trigger(ContinuousProcessingTimeTrigger.of(4))
    )
    assert [(at, v) for at, (*_, v) in got] == [(4, [1]), (8, [1, 2])]
    with pytest.raises(ValidationException, match="has to be positive"):
        ContinuousProcessingTimeTrigger.of(-1)


async def test_count_trigger() -> None:
    """With every so many records, all that are there; time fires nothing then."""
    got = await fired(TEN, "a 1 @ 1 | b 9 @ 1 | a 2 @ 2", "a 3 @ 3", "a 4 @ 4", "~ 9", told=trigger(CountTrigger.of(2)))
    assert [[v for *_, v in step] for step in got] == [[[1, 2]], [], [[1, 2, 3, 4]], []]
    with pytest.raises(ValidationException, match="positive count"):
        CountTrigger.of(0)


async def test_purging_trigger() -> None:
    """Forgets the records of a window that has fired."""
    got = await fired(
        GlobalWindows.create(), "a 1 | a 2 | a 3 | a 4 | a 5", told=trigger(PurgingTrigger.of(CountTrigger.of(2)))
    )
    assert [v for *_, v in got[0]] == [[1, 2], [3, 4]]
    told: Told = lambda w: w.allowed_lateness(5).trigger(PurgingTrigger.of(EventTimeTrigger.create()))  # noqa: E731
    assert await fired(TEN, "a 1 @ 1 | ~ 9", "a 2 @ 2", told=told) == [[(0, 10, [1])], [(0, 10, [2])]]


async def test_delta_trigger() -> None:
    """When a record is further than the threshold from the last one that fired (the first counts as such)."""
    delta = DeltaTrigger.of(10, lambda last, new: new[1] - last[1])
    got = await fired(
        GlobalWindows.create(), "a 1 | a 11", "a 12", "a 22", "a 23", told=trigger(PurgingTrigger.of(delta))
    )
    assert [[v for *_, v in step] for step in got] == [[], [[1, 11, 12]], [], [[22, 23]]]


async def test_never_trigger() -> None:
    assert await fired(TEN, "a 1 @ 1 | ~ 9", "~ max", told=trigger(NeverTrigger())) == [[], []]


class Answers(Trigger[Any, Any]):
    """Answers each record by what it says, and counts in state of its own."""

    seen = ValueStateDescriptor("seen", int)

    def on_element(self, element: Any, timestamp: int | None, window: Any, ctx: Any) -> TriggerResult:
        seen = ctx.get_partitioned_state(self.seen)
        seen.update((seen.value() or 0) + 1)
        return {
            1: TriggerResult.CONTINUE,
            2: TriggerResult.FIRE,
            3: TriggerResult.PURGE,
            4: TriggerResult.FIRE_AND_PURGE,
        }[element[1]]

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.seen).clear()


async def test_continue_and_fire() -> None:
    got = await fired(TEN, "a 1 @ 1", "a 2 @ 1", "a 2 @ 1", told=trigger(Answers()))
    assert [[v for *_, v in step] for step in got] == [[], [[1, 2]], [[1, 2, 2]]]


async def test_purge() -> None:
    got = await fired(TEN, "a 1 @ 1 | a 3 @ 1", "a 2 @ 1", told=trigger(Answers()))
    assert [[v for *_, v in step] for step in got] == [[], [[2]]]


async def test_fire_and_purge() -> None:
    got = await fired(TEN, "a 1 @ 1 | a 4 @ 1", "a 2 @ 1", told=trigger(Answers()))
    assert [[v for *_, v in step] for step in got] == [[[1, 4]], [[2]]]


async def test_the_state_of_a_trigger_goes_with_its_window() -> None:
    async with harness(TEN, trigger(Answers())) as h:
        await h.send(*changelog("a 1 @ 1 | b 1 @ 1 | a 1 @ 11 | ~ 9"))
        (table,) = (t for t in h.task.state.store.tables() if "seen" in t.name)
        assert table.entries() == 1
        await h.send(*changelog("~ 19"))
        assert table.entries() == 0


@pytest.mark.parametrize("bad", [CountTrigger, "count", None])
def test_what_is_no_trigger_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match="a trigger is needed"):
        harness(TEN, trigger(bad))


@pytest.mark.parametrize("bad", [DeltaTrigger.of(1, lambda a, b: 0), Answers()], ids=["DeltaTrigger", "Answers"])
def test_a_trigger_that_cannot_merge_is_refused_with_sessions(bad: Trigger[Any, Any]) -> None:
    with pytest.raises(ValidationException, match="whose windows merge"):
        harness(EventTimeSessionWindows.with_gap(5), trigger(bad))


# -- evictors --------------------------------------------------------------------------------------------------------

SCRIPT = "a 1 @ 1 | a 2 @ 4 | a 5 @ 6 | a 3 @ 8 | ~ 9"


async def evicted(evictor: Evictor, aggregate: bool = False) -> list[Any]:
    """What is seen by the function when the window fires, and when a late record fires it again."""

    def told(w: Any) -> Any:
        w = w.allowed_lateness(100).evictor(evictor)
        return w.aggregate(Sum(), bounds) if aggregate else w

    got = await fired(TEN, SCRIPT, "a 7 @ 9", told=told)
    return [v for step in got for *_, v in step]


async def test_count_evictor() -> None:
    assert await evicted(CountEvictor.of(2)) == [[5, 3], [3, 7]]
    assert await evicted(CountEvictor.of(2, True)) == [[1, 2, 5, 3], [5, 3, 7]]
    with pytest.raises(ValidationException, match="cannot keep -1"):
        CountEvictor.of(-1)


async def test_time_evictor() -> None:
    """Keeps what is newer than the newest record less the time: 8 - 3 = 5, then 9 - 3 = 6."""
    assert await evicted(TimeEvictor.of(3)) == [[5, 3], [3, 7]]
    assert await evicted(TimeEvictor.of(timedelta(milliseconds=3), True)) == [[1, 2, 5, 3], [5, 3, 7]]


async def test_delta_evictor() -> None:
    """Keeps what is nearer to the last record than the threshold."""
    near = DeltaEvictor.of(3, lambda e, last: abs(e[1] - last[1]))
    assert await evicted(near) == [[1, 2, 5, 3], [5, 7]]
    assert await evicted(DeltaEvictor.of(2, lambda e, last: abs(e[1] - last[1]), True)) == [[1, 2, 5, 3], [2, 3, 7]]


@pytest.mark.parametrize("evictor", [CountEvictor.of(2), TimeEvictor.of(3)], ids=["count", "time"])
async def test_an_evictor_comes_before_aggregation(evictor: Evictor) -> None:
    """Nothing can be added up before it is known what stays: all records are kept."""
    assert await evicted(evictor, aggregate=True) == [[8], [10]]


@pytest.mark.parametrize("bad", [CountEvictor, 2, None])
def test_what_is_no_evictor_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match="an evictor is needed"):
        harness(TEN, lambda w: w.evictor(bad))


# -- lateness --------------------------------------------------------------------------------------------------------


async def test_without_allowed_lateness_a_record_is_late_once_its_window_has_fired() -> None:
    """The default is 0: late where the window's last millisecond is not above the watermark."""
    assert await fired(TEN, "a 1 @ 1 | ~ 8", "a 2 @ 2 | ~ 9", "a 3 @ 3", "~ max") == [[], [(0, 10, [1, 2])], [], []]


async def test_allowed_lateness_ends_at_the_last_millisecond_and_the_lateness() -> None:
    """Until the watermark is at 9 + 5: then the state is gone and the record late."""
    late = OutputTag("late")

    def told(w: Any) -> Any:
        return w.allowed_lateness(timedelta(milliseconds=5)).side_output_late_data(late)

    async with harness(TEN, told, [late.tag_id]) as h:
        await h.send(*changelog("a 1 @ 1 | ~ 13 | a 2 @ 2"))
        assert h.extract_values() == [(0, 10, [1]), (0, 10, [1, 2])]
        await h.send(*changelog("~ 14 | a 3 @ 3"))
        assert h.extract_values() == []
        side = [v for b in h.extract_side_output(late.tag_id) if isinstance(b, Batch) for v in b.values]
        assert side == [("a", 3)]
        assert h.task.metrics.counter("numLateRecordsDropped").get_count() == 0
        assert all(t.entries() == 0 for t in h.task.state.store.tables())


async def test_late_records_without_a_side_output_are_counted() -> None:
    async with harness(TEN) as h:
        await h.send(*changelog("~ 9 | a 1 @ 1 | a 2 @ 9 | b 3 @ 10"))
        assert h.task.metrics.counter("numLateRecordsDropped").get_count() == 2


@pytest.mark.parametrize("bad", [-1, "-1 s"])
def test_a_negative_lateness_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match="cannot be negative"):
        harness(TEN, lambda w: w.allowed_lateness(bad))


# -- functions -------------------------------------------------------------------------------------------------------


class Counts(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    """How often the window has fired, how many windows the key has had, and event time."""

    fired = ValueStateDescriptor("fired", int)
    windows = ValueStateDescriptor("windows", int)

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        fired = context.window_state().get_state(self.fired)
        windows = context.global_state().get_state(self.windows)
        if fired.value() is None:
            windows.update((windows.value() or 0) + 1)
        fired.update((fired.value() or 0) + 1)
        yield (context.window().start, fired.value(), windows.value(), context.current_watermark())

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.fired).clear()


@pytest.mark.parametrize("on_top", [False, True], ids=["alone", "on top of an aggregate"])
async def test_window_and_global_state(on_top: bool) -> None:
    def told(w: Any) -> Any:
        w = w.allowed_lateness(5)
        return w.aggregate(Sum(), Counts()) if on_top else w.process(Counts())

    async with harness(TEN, told) as h:
        await h.send(*changelog("a 1 @ 1 | ~ 9 | a 2 @ 2 | a 3 @ 11 | ~ max"))
        assert h.extract_values() == [(0, 1, 1, 9), (0, 2, 1, 9), (10, 1, 2, MAX_TIMESTAMP)]
        left = {t.name: t.entries() for t in h.task.state.store.tables() if t.entries()}
        assert list(left.values()) == [1] and "windows" in next(iter(left)), "clear() has removed that of the windows"
