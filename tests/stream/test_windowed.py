"""Windows as programs build them: window_all, count windows, aggregations by field, staggered windows, types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from streamline import DataStream, OutputTag, StreamExecutionEnvironment, ValidationException
from streamline.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from streamline.testing import ScriptedSource, VirtualClock
from streamline.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)

SCRIPT = "a 1 @ 1 | b 2 @ 2 | a 3 @ 8 | a 4 @ 12"
TEN = TumblingEventTimeWindows.of(10)


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def records(env: StreamExecutionEnvironment, script: str = SCRIPT) -> DataStream[Any]:
    return env.from_source(ScriptedSource(script), name="records")


def keyed(env: StreamExecutionEnvironment, script: str = SCRIPT) -> Any:
    return records(env, script).key_by(lambda r: r[0])


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Bounds(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        yield (key, context.window().start, context.window().end, list(elements))


class Applied(WindowFunction[Any, Any, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Any]) -> Any:
        return [(key, window.start, len(list(inputs)))]


# -- incremental, with a function on top ---------------------------------------------------------------------------


async def test_an_aggregate_alone_and_with_a_window_function_on_top() -> None:
    assert await rows(keyed(environment()).window(TEN).aggregate(Count())) == [2, 1, 1]
    expected = [("a", 0, 10, [2]), ("b", 0, 10, [1]), ("a", 10, 20, [1])]
    assert await rows(keyed(environment()).window(TEN).aggregate(Count(), Bounds())) == expected
    assert await rows(keyed(environment()).window(TEN).aggregate(Count(), Applied())) == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("a", 10, 1),
    ]
    called = keyed(environment()).window(TEN).aggregate(Count(), lambda key, ctx, results: (key, *results))
    assert await rows(called) == [("a", 2), ("b", 1), ("a", 1)]


class Larger(ReduceFunction[Any]):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda r: r[1])


async def test_a_reduce_alone_and_with_a_window_function_on_top() -> None:
    assert await rows(keyed(environment()).window(TEN).reduce(Larger())) == [("a", 3), ("b", 2), ("a", 4)]
    stream = keyed(environment()).window(TEN).reduce(lambda x, y: (x[0], x[1] + y[1]), Bounds())
    assert await rows(stream) == [("a", 0, 10, [("a", 4)]), ("b", 0, 10, [("b", 2)]), ("a", 10, 20, [("a", 4)])]


async def test_process_and_apply_see_all_records_of_a_window() -> None:
    assert await rows(keyed(environment()).window(TEN).process(Bounds())) == [
        ("a", 0, 10, [("a", 1), ("a", 3)]),
        ("b", 0, 10, [("b", 2)]),
        ("a", 10, 20, [("a", 4)]),
    ]
    assert await rows(keyed(environment()).window(TEN).apply(Applied())) == [("a", 0, 2), ("b", 0, 1), ("a", 10, 1)]
    called = keyed(environment()).window(TEN).apply(lambda key, window, inputs: (key, window.end, len(inputs)))
    assert await rows(called) == [("a", 10, 2), ("b", 10, 1), ("a", 20, 1)]


async def test_aggregations_by_field() -> None:
    script = "a 1 5 @ 1 | a 2 3 @ 2 | a 3 3 @ 3"
    results = {}
    for method in ("sum", "min", "max", "min_by", "max_by"):
        results[method] = await rows(getattr(keyed(environment(), script).window(TEN), method)(2))
    assert results == {
        "sum": [("a", 1, 11)],
        "min": [("a", 1, 3)],
        "max": [("a", 1, 5)],
        "min_by": [("a", 2, 3)],
        "max_by": [("a", 1, 5)],
    }


async def test_results_of_windows_can_be_windowed_again() -> None:
    counts = keyed(environment()).window(TEN).aggregate(Count(), lambda key, ctx, results: (key, *results))
    again = counts.window_all(TumblingEventTimeWindows.of(20)).reduce(lambda x, y: ("all", x[1] + y[1]))
    assert await rows(again) == [("all", 4)]


# -- all records ---------------------------------------------------------------------------------------------------


class AllBounds(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(self, context: Any, elements: Iterable[Any]) -> Any:
        yield (context.window().start, list(elements))


class AllApplied(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Any]) -> Any:
        yield (window.end, len(list(inputs)))


@pytest.mark.parametrize("parallelism", [1, 4])
async def test_window_all_groups_all_records_in_one_subtask(parallelism: int) -> None:
    def windows() -> Any:
        return records(environment(parallelism)).window_all(TEN)

    assert await rows(windows().process(AllBounds())) == [(0, [("a", 1), ("b", 2), ("a", 3)]), (10, [("a", 4)])]
    assert await rows(windows().apply(AllApplied())) == [(10, 3), (20, 1)]
    assert await rows(windows().aggregate(Count())) == [3, 1]
    assert await rows(windows().aggregate(Count(), AllBounds())) == [(0, [3]), (10, [1])]
    assert await rows(windows().reduce(Larger(), lambda ctx, results: (ctx.window().end, *results))) == [
        (10, ("a", 3)),
        (20, ("a", 4)),
    ]
    stream = windows().aggregate(Count())
    assert stream.node.parallelism == 1
    with pytest.raises(ValidationException, match="must be 1"):
        stream.set_parallelism(2)


# -- by number -----------------------------------------------------------------------------------------------------


async def test_count_windows_fire_when_they_are_full_and_never_before() -> None:
    letters = [("a", n) for n in range(5)] + [("b", 9)]
    stream = environment().from_collection(letters).key_by(lambda r: r[0])
    assert await rows(stream.count_window(2).apply(lambda k, w, rs: [[r[1] for r in rs]])) == [[0, 1], [2, 3]]
    # The last three records each two.
    assert await rows(stream.count_window(3, 2).apply(lambda k, w, rs: [[r[1] for r in rs]])) == [[0, 1], [1, 2, 3]]
    assert await rows(environment().from_elements(1, 2, 3, 4).count_window_all(3).reduce(lambda a, b: a + b)) == [6]
    for size, slide in ((0, 0), (2, -1)):
        with pytest.raises(ValidationException, match="positive size and slide"):
            stream.count_window(size, slide)


# -- how -----------------------------------------------------------------------------------------------------------


async def test_triggers_lateness_and_late_data_are_told_one_after_the_other() -> None:
    late = OutputTag("late")
    env = environment()
    stream = (
        keyed(env, "a 1 @ 1 | ~ 12 | a 2 @ 2 | ~ 20 | a 3 @ 3")
        .window(TEN)
        .allowed_lateness(5)
        .side_output_late_data(late)
        .aggregate(Count())
    )
    out: dict[str, list[Any]] = {"main": [], "late": []}
    stream.add_sink(out["main"].append)
    stream.get_side_output(late).add_sink(out["late"].append)
    await env.execute()
    assert out == {"main": [1, 2], "late": [("a", 3)]}
    purging = keyed(environment()).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert await rows(purging.aggregate(Count())) == [2]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda w: w.trigger(7), "a trigger is needed"),
        (lambda w: w.evictor(7), "an evictor is needed"),
        (lambda w: w.allowed_lateness(-1), "cannot be negative"),
        (lambda w: w.side_output_late_data("late"), "OutputTag"),
        (lambda w: w.aggregate(lambda a, b: a), "AggregateFunction object"),
        (lambda w: w.aggregate(Count), "AggregateFunction object"),
        (lambda w: w.process(7), "process needs a callable"),
        (lambda w: w.reduce(Bounds()), "method reduce; Bounds has none"),
    ],
)
def test_what_makes_no_sense_is_refused_when_built(use: Any, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        use(keyed(environment()).window(TEN))


def test_a_window_assigner_is_needed() -> None:
    with pytest.raises(ValidationException, match="a window assigner is needed"):
        keyed(environment()).window(10)


async def test_staggered_windows_are_moved_per_subtask(virtual_clock: VirtualClock) -> None:
    start = virtual_clock.now()
    assert start % 10_000 == 0
    natural = TumblingProcessingTimeWindows.of("10 s", 0, WindowStagger.NATURAL)
    env = environment()
    source = ScriptedSource(["x"], ends=False)
    windows = env.from_source(source).key_by(lambda v: v).window(natural)
    await virtual_clock.advance(3000)
    async with windows.process(lambda k, ctx, vs: ctx.window().end - start).execute_and_collect(limit=1) as it:
        assert [x async for x in it] == [13_000]
    assert natural.offset == 0, "the program's own assigner is left alone"
    random = TumblingEventTimeWindows.of(10, 0, WindowStagger.RANDOM)
    ends = await rows(keyed(environment()).window(random).process(lambda k, ctx, vs: ctx.window().end))
    assert len({end % 10 for end in ends}) == 1


def test_types_of_window_results() -> None:
    def typed(key: str, context: Any, elements: Iterable[Any]) -> Iterable[tuple[str, int]]: ...

    windows = keyed(environment()).window(TEN)
    assert windows.aggregate(Count()).element_type() is int
    assert windows.aggregate(Count(), typed).element_type() == tuple[str, int]
    assert windows.process(typed).element_type() == tuple[str, int]
    assert windows.process(Bounds(), output_type=tuple[str, int]).element_type() == tuple[str, int]
    assert keyed(environment()).window(EventTimeSessionWindows.with_gap(5)).aggregate(Count()).event_time == "yes"


def test_the_fast_form_is_taken_where_it_does() -> None:
    def kind(windows: Any) -> str:
        node = windows.aggregate(Count()).node
        assert node.operator is not None
        return type(node.operator()).__name__

    fast = keyed(environment())
    assert kind(fast.window(TEN)) == "AlignedWindows"
    assert kind(fast.window(EventTimeSessionWindows.with_gap(5))) == "SessionWindows"
    assert kind(fast.window(TEN).allowed_lateness(1)) == "GeneralWindows"
    assert kind(fast.window(TEN).trigger(CountTrigger.of(2))) == "GeneralWindows"
