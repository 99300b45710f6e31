"""Functions of two streams: connect, broadcast state, interval join, window join and co-group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamline import DataStream, OutputTag, StreamExecutionEnvironment, StreamlineError, ValidationException
from streamline.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
)
from streamline.state import MapStateDescriptor, ValueStateDescriptor
from streamline.testing import Quiet, ScriptedSource, VirtualClock, changelog
from streamline.windows import EventTimeSessionWindows, TumblingEventTimeWindows


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


def scripts(env: StreamExecutionEnvironment, *texts: str) -> list[DataStream[Any]]:
    return [env.from_source(ScriptedSource(text), name=f"s{i}") for i, text in enumerate(texts, 1)]


# -- map, flat_map, process ----------------------------------------------------------------------------------------


class Both(CoMapFunction[int, str, Any]):
    def map1(self, value: int) -> Any:
        return ("int", value)

    def map2(self, value: str) -> Any:
        return ("str", value)


class Flat(CoFlatMapFunction[int, str, Any]):
    def flat_map1(self, value: int) -> Iterator[Any]:
        yield from range(value)

    async def flat_map2(self, value: str) -> Any:
        return None if value == "a" else (value, value)


async def test_connected_streams_map_and_flat_map() -> None:
    env = environment()
    connected = env.from_elements(1, 2).connect(env.from_elements("a", "b"))
    assert sorted(await rows(connected.map(Both()))) == [("int", 1), ("int", 2), ("str", "a"), ("str", "b")]
    assert sorted(await rows(connected.map(lambda n: str(n), lambda s: s * 2))) == ["1", "2", "aa", "bb"]
    assert sorted(map(str, await rows(connected.flat_map(Flat())))) == ["0", "0", "1", "b", "b"]
    assert sorted(map(str, await rows(connected.flat_map(lambda n: [n], lambda s: (c for c in s))))) == [
        "1",
        "2",
        "a",
        "b",
    ]


def test_connected_streams_need_functions_for_both_sides() -> None:
    env = environment()
    connected = env.from_elements(1).connect(env.from_elements("a"))
    with pytest.raises(ValidationException, match="map1 and map2, or two callables"):
        connected.map(lambda n: n)
    with pytest.raises(ValidationException, match="different environments"):
        env.from_elements(1).connect(environment().from_elements(2))
    with pytest.raises(ValidationException, match="key both"):
        env.from_elements(1).key_by(lambda v: v).connect(env.from_elements("a")).map(Both())


class Enrich(KeyedCoProcessFunction[str, Any, Any, Any]):
    """Shared state of both sides; a timer tells of names that never came."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", str))
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", int))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        name = self.name.value()
        if name is not None:
            return (value[0], value[1], name)
        self.waiting.update(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        return None

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.name.update(value[1])
        if self.waiting.value() is not None:
            yield (value[0], self.waiting.value(), value[1])
            self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if self.waiting.value() is not None:
            yield (ctx.get_current_key(), self.waiting.value(), timestamp, ctx.time_domain().name)


async def test_keyed_co_process_shares_state_and_timers(virtual_clock: VirtualClock) -> None:
    env = environment()
    orders, names = scripts(env, "a 1 @ 1 | b 2 @ 2 | c 3 @ 3 | ~ 5 | ~ 50", "b bob @ 4 | ~ 5 | ~ 50")
    connected = orders.connect(names).key_by(lambda r: r[0], lambda r: r[0])
    assert sorted(await rows(connected.process(Enrich())), key=str) == [
        ("a", 1, 11, "EVENT_TIME"),
        ("b", 2, "bob"),
        ("c", 3, 13, "EVENT_TIME"),
    ]
    keyed = orders.key_by(lambda r: r[0]).connect(names.key_by(lambda r: r[0]))
    assert keyed.is_keyed


async def test_co_process_without_keys_has_context_and_side_outputs() -> None:
    tag = OutputTag("right")

    class Split(CoProcessFunction[Any, Any, Any]):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            return (value, ctx.timestamp())

        def process_element2(self, value: Any, ctx: Any) -> None:
            ctx.output(tag, (value, ctx.timestamp()))

    env = environment()
    left, right = scripts(env, "a @ 1", "b @ 2")
    out: dict[str, list[Any]] = {"main": [], "side": []}
    stream = left.connect(right).process(Split())
    stream.add_sink(out["main"].append)
    stream.get_side_output(tag).add_sink(out["side"].append)
    await env.execute()
    assert out == {"main": [("a", 1)], "side": [("b", 2)]}


async def test_timers_without_a_key_are_refused() -> None:
    class Wrong(CoProcessFunction[Any, Any, Any]):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(1)

        process_element2 = process_element1

    env = environment()
    with pytest.raises(ValidationException, match="timers belong to a key"):
        await rows(env.from_elements(1).connect(env.from_elements(2)).process(Wrong()))


# -- broadcast -----------------------------------------------------------------------------------------------------

RULES = MapStateDescriptor("rules", str, int)


class Limit(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        limit = ctx.get_broadcast_state(RULES).get("limit")
        return (value, limit) if limit is None or value > limit else None

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(*value)


@pytest.mark.parametrize("parallelism", [1, 3])
async def test_broadcast_state_is_the_same_in_every_subtask(parallelism: int, virtual_clock: VirtualClock) -> None:
    env = environment(parallelism)
    values = env.from_source(ScriptedSource([Quiet(), *range(1, 7)]), name="values").rebalance()
    rules = env.from_elements(("limit", 3)).broadcast(RULES)
    assert sorted(await rows(values.connect(rules).process(Limit()))) == [(4, 3), (5, 3), (6, 3)]


async def test_broadcast_state_is_read_only_beside_and_known_by_its_descriptor() -> None:
    class Writes(Limit):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(RULES).put("x", 1)

    class Unknown(Limit):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(MapStateDescriptor("other", str, int))

    env = environment()
    rules = env.from_elements(("limit", 3)).broadcast(RULES)
    with pytest.raises(StreamlineError, match="broadcast records only"):
        await rows(env.from_elements(1).connect(rules).process(Writes()))
    with pytest.raises(ValidationException, match="'other' was not given"):
        await rows(env.from_elements(1).connect(rules).process(Unknown()))
    with pytest.raises(ValidationException, match="MapStateDescriptors"):
        env.from_elements(1).broadcast(ValueStateDescriptor("v", int))
    with pytest.raises(ValidationException, match="process_broadcast_element"):
        env.from_elements(1).connect(rules).process(lambda v, ctx: v)


class Counted(KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    count = ValueStateDescriptor("count", int)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.n = runtime_context.get_state(self.count)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.n.update((self.n.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        found: list[Any] = []
        ctx.apply_to_keyed_state(self.count, lambda key, state: found.append((key, state.value())))
        return sorted(found)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return ("timer", ctx.get_current_key(), self.n.value())


async def test_keyed_broadcast_reaches_the_state_of_all_keys_and_has_timers(virtual_clock: VirtualClock) -> None:
    env = environment()
    words = env.from_source(ScriptedSource(["a", "b", "a"], timestamp=lambda w: 1), name="words")
    ask = env.from_source(ScriptedSource([Quiet(), "ask"]), name="ask").broadcast(RULES)
    assert await rows(words.key_by(lambda w: w).connect(ask).process(Counted())) == [
        ("a", 2),
        ("b", 1),
        ("timer", "a", 2),
        ("timer", "b", 1),
    ]


async def test_keyed_state_is_out_of_reach_for_broadcast_records() -> None:
    class Wrong(Counted):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            return self.n.value()

    env = environment()
    with pytest.raises(LookupError, match="no current key"):
        rules = env.from_elements(1).broadcast(RULES)
        words = env.from_source(ScriptedSource("a @ 1"), name="words")
        await rows(words.key_by(lambda w: w).connect(rules).process(Wrong()))


# -- interval join -------------------------------------------------------------------------------------------------


class Pair(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield (left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())


def joined(env: StreamExecutionEnvironment, left: str, right: str) -> Any:
    a, b = scripts(env, left, right)
    return a.key_by(lambda r: r[0]).interval_join(b.key_by(lambda r: r[0]))


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [((False, False), [8, 9, 10, 11, 12]), ((True, False), [9, 10, 11, 12]), ((False, True), [8, 9, 10, 11]),
     ((True, True), [9, 10, 11])],
)  # fmt: skip
async def test_interval_join_bounds(exclusive: tuple[bool, bool], expected: list[int]) -> None:
    env = environment()
    join = joined(env, "k 0 @ 10", " | ".join(f"k {t} @ {t}" for t in range(5, 16))).between(-2, 2)
    join = join.lower_bound_exclusive() if exclusive[0] else join
    join = join.upper_bound_exclusive() if exclusive[1] else join
    got = await rows(join.process(Pair()))
    assert sorted(got) == [(0, t, 10, t, max(10, t)) for t in expected]


async def test_interval_join_pairs_by_key_and_in_any_order_of_arrival() -> None:
    texts = ("a 1 @ 10 | b 2 @ 11 | a 3 @ 20", "a 7 @ 12 | b 8 @ 12 | c 9 @ 10")
    pairs = []
    for first in (0, 1):
        env = environment(2)
        sources = [ScriptedSource([Quiet()] * (i != first) + changelog(texts[i])) for i in (0, 1)]
        a, b = (env.from_source(s, name="s").key_by(lambda r: r[0]) for s in sources)
        pairs.append(sorted(await rows(a.interval_join(b).between(0, 5).process(lambda x, y, ctx: (x[1], y[1])))))
    assert pairs[0] == pairs[1] == [(1, 7), (2, 8)]


async def test_interval_join_sends_late_records_to_side_outputs_and_forgets_old_ones() -> None:
    left_late, right_late = OutputTag("left"), OutputTag("right")
    env = environment()
    out: dict[str, list[Any]] = {"main": [], "left": [], "right": []}
    a = env.from_source(ScriptedSource("k 1 @ 10 | ~ 20 | k 2 @ 19 | k 3 @ 20"), name="a")
    b = env.from_source(ScriptedSource("k 4 @ 10 | ~ 20 | k 5 @ 5 | k 6 @ 22"), name="b")
    stream = (
        a.key_by(lambda r: r[0])
        .interval_join(b.key_by(lambda r: r[0]))
        .between(-2, 2)
        .side_output_left_late_data(left_late)
        .side_output_right_late_data(right_late)
        .process(lambda x, y, ctx: (x[1], y[1]))
    )
    stream.add_sink(out["main"].append)
    stream.get_side_output(left_late).add_sink(lambda r: out["left"].append(r[1]))
    stream.get_side_output(right_late).add_sink(lambda r: out["right"].append(r[1]))
    await env.execute()
    assert sorted(out["main"]) == [(1, 4), (3, 6)]
    # What is late depends on whose watermark came first; at the merged watermark 20 both are.
    assert set(out["left"]) <= {2} and set(out["right"]) <= {5}


def test_interval_join_is_refused_where_it_cannot_be() -> None:
    env = environment()
    timed = env.from_source(ScriptedSource("a 1 @ 1"), name="timed").key_by(lambda r: r[0])
    plain = env.from_elements(("a", 1))
    with pytest.raises(ValidationException, match="right stream can carry no timestamps: it comes from 'collection'"):
        timed.interval_join(plain.key_by(lambda r: r[0]))
    with pytest.raises(ValidationException, match="another keyed stream"):
        timed.interval_join(plain)
    with pytest.raises(ValidationException, match="above the upper"):
        timed.interval_join(timed).between(1, 0)
    with pytest.raises(ValidationException, match="no time difference"):
        timed.interval_join(timed).between(0, 0).lower_bound_exclusive().process(Pair())


# -- window join and co-group --------------------------------------------------------------------------------------


class Concat(JoinFunction[Any, Any, Any]):
    def join(self, first: Any, second: Any) -> Any:
        return f"{first[1]}-{second[1]}"


class Twice(FlatJoinFunction[Any, Any, Any]):
    def join(self, first: Any, second: Any) -> Any:
        return [first[1], second[1]]


async def both_later(first: Any, second: Any) -> Any:
    return f"{first[1]}-{second[1]}"


def together(env: StreamExecutionEnvironment, what: str) -> Any:
    left, right = scripts(env, "a 1 @ 1 | a 2 @ 2 | b 3 @ 3 | a 4 @ 12", "a 5 @ 4 | c 6 @ 5 | a 7 @ 13 | a 8 @ 25")
    return getattr(left, what)(right).where(lambda r: r[0]).equal_to(lambda r: r[0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Concat(), ["1-5", "2-5", "4-7"]),
        (lambda a, b: f"{a[1]}-{b[1]}", ["1-5", "2-5", "4-7"]),
        (both_later, ["1-5", "2-5", "4-7"]),
        (Twice(), [1, 5, 2, 5, 4, 7]),
    ],
    ids=["JoinFunction", "callable", "async", "FlatJoinFunction"],
)
async def test_window_join_pairs_records_of_one_key_and_window(function: Any, expected: list[Any]) -> None:
    env = environment()
    stream = together(env, "join").window(TumblingEventTimeWindows.of(10)).apply(function)
    assert await rows(stream) == expected


async def test_window_join_results_carry_the_windows_last_timestamp() -> None:
    env = environment()
    stream = together(env, "join").window(TumblingEventTimeWindows.of(10)).apply(Concat())
    assert await rows(stream.process(lambda v, ctx: (v, ctx.timestamp()))) == [("1-5", 9), ("2-5", 9), ("4-7", 19)]


async def test_session_windows_join_over_both_sides() -> None:
    env = environment()
    stream = together(env, "join").window(EventTimeSessionWindows.with_gap(9)).apply(Concat())
    # a: 1, 2, 4, 12, 13 lie within 9 ms of one another: one session of three left and two right records.
    assert sorted(await rows(stream)) == ["1-5", "1-7", "2-5", "2-7", "4-5", "4-7"]


class Sides(CoGroupFunction[Any, Any, Any]):
    def co_group(self, first: Any, second: Any) -> Any:
        yield ([r[1] for r in first], [r[1] for r in second])


async def test_co_group_gives_both_sides_even_if_one_is_empty() -> None:
    env = environment()
    stream = together(env, "co_group").window(TumblingEventTimeWindows.of(10)).apply(Sides())
    assert sorted(await rows(stream)) == [([], [6]), ([], [8]), ([1, 2], [5]), ([3], []), ([4], [7])]
    called = together(env, "co_group").window(TumblingEventTimeWindows.of(10)).apply(lambda a, b: len(a) + len(b))
    assert sorted(await rows(called)) == [1, 1, 1, 2, 3]


def test_a_join_says_what_is_missing() -> None:
    env = environment()
    with pytest.raises(ValidationException, match=r"join needs equal_to\(\.\.\.\) before apply"):
        env.from_elements(1).join(env.from_elements(2)).where(lambda v: v).apply(Concat())
    with pytest.raises(ValidationException, match="can carry no timestamps"):
        env.from_elements(1).join(env.from_elements(2)).window(TumblingEventTimeWindows.of(10))
