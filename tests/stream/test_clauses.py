"""What the DataStream API promises beside the main thing: limits, defaults, refusals, what happens at the edges."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from streamline import (
    AsyncDataStream,
    CheckpointException,
    DataStream,
    OutputTag,
    Row,
    StreamExecutionEnvironment,
    StreamlineError,
    Types,
    ValidationException,
    WatermarkStrategy,
)
from streamline._core.keys import KeyGroups
from streamline._core.time import sleep
from streamline._operators.process import KeyedProcess
from streamline.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    SinkFunction,
)
from streamline.state import ValueStateDescriptor
from streamline.stream.keyed import KeyedStream
from streamline.table import StreamTableEnvironment
from streamline.testing import (
    Delay,
    FailOnRecord,
    MiniJob,
    OperatorHarness,
    ScriptedSource,
    VirtualClock,
    settle,
)
from streamline.windows import EventTimeSessionWindows, TumblingEventTimeWindows


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


class Where(MapFunction[Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return (self.index, value)


# -- keys and partitioning -------------------------------------------------------------------------------------------


async def test_key_by_sends_each_key_to_the_owner_of_its_key_group() -> None:
    words = [f"w{i}" for i in range(40)] * 3
    keyed = environment(4).from_collection(words).key_by(lambda w: w)
    assert isinstance(keyed, KeyedStream)
    owner = KeyGroups(128, 4)
    found = await rows(keyed.map(Where()))
    assert sorted(found) == sorted((owner.of(w), w) for w in words)
    assert {i for i, _ in found} == {0, 1, 2, 3}


async def test_rescale_stays_near_and_rebalance_does_not() -> None:
    async def placed(method: str) -> set[tuple[int, int]]:
        """Pairs of the subtask that sent and the one that received."""
        stream = environment().from_collection(range(32)).map(Where()).set_parallelism(2)
        parted = getattr(stream, method)().map(Where()).set_parallelism(4)
        return {(sender, receiver) for receiver, (sender, _) in await rows(parted)}

    assert await placed("rescale") == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert await placed("rebalance") == {(s, r) for s in (0, 1) for r in range(4)}


def test_a_keyed_stream_is_not_partitioned_by_hand() -> None:
    keyed = environment().from_elements(1).key_by(lambda v: v)
    with pytest.raises(ValidationException, match="Cannot override partitioning for KeyedStream"):
        keyed.partition_custom(lambda key, n: 0, lambda v: v)


# -- types of records ------------------------------------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int
    y: int


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, "a"), ((1, "a"), (1, 2)), ((1,), (1, 2)), (Point(1, 2), (1, 2)), (Row(a=1), Row(a="x")), ([1], ["a"])],
)
def test_a_union_of_different_types_is_refused_with_both(one: Any, other: Any) -> None:
    env = environment()
    with pytest.raises(ValidationException, match="Cannot union streams of different types: .* and .*declare"):
        env.from_elements(one).union(env.from_elements(other))


async def test_a_union_takes_what_is_not_known_and_what_may_be_null() -> None:
    env = environment()
    pairs = env.from_elements((1, "a"))
    assert pairs.union(env.from_elements((2, None))).element_type() == Types.TUPLE([int, str])
    assert pairs.union(env.from_elements("b").map(lambda v: v)).element_type() == Types.TUPLE([int, str])
    assert env.from_elements("b").map(lambda v: v).union(pairs).element_type() == Types.TUPLE([int, str])
    assert pairs.union(env.from_collection([(3, "c")], tuple[int, str | None])).element_type() is not None
    with pytest.raises(ValidationException, match="union needs streams"):
        pairs.union([1])  # type: ignore[arg-type]


async def test_the_watermark_of_a_union_is_the_smallest() -> None:
    env = environment()
    one = env.from_source(ScriptedSource("a @ 1 | ~ 9", ends=False), name="one")
    two = env.from_source(ScriptedSource("b @ 2 | ~ 4 | ~ 6", ends=False), name="two")

    class Marks(KeyedProcessFunction[Any, Any, Any]):
        def process_element(self, value: Any, ctx: Any) -> None:
            for at in (4, 6, 7):
                ctx.timer_service().register_event_time_timer(at)

        def on_timer(self, timestamp: int, ctx: Any) -> int:
            return timestamp

    got: list[int] = []
    one.union(two).key_by(lambda v: 0).process(Marks()).add_sink(got.append)
    async with await env.execute_async():
        await settle()
        assert got == [4, 6]


@pytest.mark.parametrize(
    ("record", "indexes", "message"),
    [
        (("a", 1), (2,), "there is no field number 2; .* has 2"),
        (("a", 1), (-1,), "from 0"),
        (("a", 1), (True,), "from 0"),
        (("a", 1), ("f0",), "numbers of fields"),
        (7, (0,), "int is none"),
        (Point(1, 2), (0,), "Point is none"),
    ],
)
def test_project_needs_tuples_that_have_the_fields(record: Any, indexes: Any, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        environment().from_elements(record).project(*indexes)


async def test_project_says_with_the_first_record_where_the_type_was_not_known() -> None:
    for record, message in ((7, "int is none"), (("a",), "no field number 1, the record has 1")):
        with pytest.raises(ValidationException, match=message) as failure:
            await rows(environment().from_elements(record).map(lambda v: v).project(1))
        assert f"record: {record!r}" in failure.value.__notes__
    assert await rows(environment().from_elements(Row("a", 1, 2.5)).project(2, 0)) == [(2.5, "a")]


async def test_map_keeps_none_which_flink_refuses() -> None:
    stream = environment().from_elements(1).map(lambda v: None, output_type=Types.LONG())
    assert await rows(stream) == [None]


# -- aggregations ----------------------------------------------------------------------------------------------------


class NoMerge(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        raise AssertionError("merge was called")


def test_aggregate_functions_belong_to_windows() -> None:
    assert not hasattr(environment().from_elements(1).key_by(lambda v: v), "aggregate")


@pytest.mark.parametrize("order", ["a 1 @ 0 | a 2 @ 8 | a 4 @ 4", "a 4 @ 4 | a 2 @ 8 | a 1 @ 0"])
async def test_merge_is_only_called_where_windows_merge(order: str) -> None:
    def keyed() -> Any:
        return environment().from_source(ScriptedSource(order)).key_by(lambda r: r[0])

    assert await rows(keyed().window(TumblingEventTimeWindows.of(10)).aggregate(NoMerge())) == [7]
    if order.startswith("a 1"):  # 0 and 8 are two sessions until 4 joins them
        with pytest.raises(AssertionError, match="merge was called"):
            await rows(keyed().window(EventTimeSessionWindows.with_gap(5)).aggregate(NoMerge()))


@pytest.mark.parametrize("missing", ["create_accumulator", "add", "get_result", "merge"])
def test_an_aggregate_function_has_all_four_methods(missing: str) -> None:
    methods = {m: lambda *_: 0 for m in ("create_accumulator", "add", "get_result", "merge") if m != missing}
    windows = environment().from_source(ScriptedSource("a 1 @ 1")).window_all(TumblingEventTimeWindows.of(10))
    with pytest.raises(ValidationException, match="AggregateFunction object"):
        windows.aggregate(type("Lacking", (), methods)())


# -- process functions -----------------------------------------------------------------------------------------------


async def test_a_record_without_a_timestamp_has_none_and_event_time_has_not_begun() -> None:
    stream = environment().from_elements(1)
    told = stream.process(lambda v, ctx: (ctx.timestamp(), ctx.timer_service().current_watermark()))
    assert await rows(told) == [(None, -(2**63))]


@pytest.mark.parametrize(
    "call",
    [
        "register_event_time_timer",
        "register_processing_time_timer",
        "delete_event_time_timer",
        "delete_processing_time_timer",
    ],
)
async def test_timers_need_a_key(call: str) -> None:
    stream = environment().from_elements(1).process(lambda v, ctx: getattr(ctx.timer_service(), call)(5))
    with pytest.raises(ValidationException, match=r"timers belong to a key.* use key_by\(\) before it"):
        await rows(stream)


@pytest.mark.parametrize("domain", ["event", "processing"])
async def test_on_timer_never_runs_while_process_element_does(domain: str, virtual_clock: VirtualClock) -> None:
    running: list[str] = []

    class Slow(KeyedProcessFunction[Any, Any, Any]):
        async def work(self, what: str) -> None:
            assert running == [], f"{what} while {running} runs"
            running.append(what)
            await sleep(virtual_clock, 50)
            running.remove(what)

        async def process_element(self, value: Any, ctx: Any) -> Any:
            timers = ctx.timer_service()
            if domain == "event":
                timers.register_event_time_timer(value[1])
            else:
                timers.register_processing_time_timer(timers.current_processing_time() + 10)
            await self.work("process_element")

        async def on_timer(self, timestamp: int, ctx: Any) -> Any:
            await self.work("on_timer")
            return "fired"

    script = "a 1 @ 1 | ~ 1 | a 2 @ 2 | b 2 @ 2 | ~ 2"
    stream = environment().from_source(ScriptedSource(script, ends=domain == "event")).key_by(lambda r: r[0])
    async with stream.process(Slow()).execute_and_collect(limit=3) as it:
        assert [x async for x in it] == ["fired"] * 3


async def test_processing_timers_that_were_due_while_it_was_down_fire_right_after_the_restore() -> None:
    class Late(KeyedProcessFunction[Any, Any, Any]):
        def process_element(self, value: Any, ctx: Any) -> None:
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + value[1])

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            return (ctx.get_current_key(), ctx.timer_service().current_processing_time() - timestamp)

    def operator() -> KeyedProcess:
        return KeyedProcess(Late(), lambda r: r[0])

    async with OperatorHarness(operator(), key=lambda r: r[0]) as harness:
        for record in (("a", 1000), ("b", 2000), ("c", 9000)):
            await harness.process_element(record)
        snapshot = await harness.snapshot()
        started = harness.clock.now()
    later = VirtualClock(started + 5000, autojump=False)
    async with OperatorHarness(operator(), key=lambda r: r[0], restore=snapshot, clock=later) as harness:
        assert harness.extract_values() == [("a", 4000), ("b", 3000)]
        await harness.advance(4000)
        assert harness.extract_values() == [("c", 0)]


# -- side outputs ----------------------------------------------------------------------------------------------------


async def test_a_side_output_is_that_of_the_operator_that_emits() -> None:
    tag = OutputTag("odd")
    env = environment()
    split = env.from_elements(1, 2, 3).process(lambda v, ctx: [(tag, v)] if v % 2 else [v])
    behind = split.map(lambda v: v)
    assert await rows(split.get_side_output(tag)) == [1, 3]
    assert await rows(behind.get_side_output(tag)) == []
    with pytest.raises(ValidationException, match="needs an OutputTag"):
        split.get_side_output("odd")  # type: ignore[arg-type]
    for stream in (split.union(behind), split.key_by(lambda v: v)):
        with pytest.raises(ValidationException, match="no operator of its own"):
            stream.get_side_output(tag)


def test_the_type_of_a_side_output_is_that_of_its_tag() -> None:
    env = environment()
    split = env.from_elements(1).process(lambda v, ctx: v)
    assert split.get_side_output(OutputTag("typed", Types.LONG())).element_type() == Types.LONG()
    untyped = split.get_side_output(OutputTag("untyped"))
    assert untyped.element_type() is None
    with pytest.raises(ValidationException, match="is not known: declare it"):
        StreamTableEnvironment.create(env).from_data_stream(untyped)


# -- async I/O -------------------------------------------------------------------------------------------------------


async def test_a_hundred_requests_are_under_way_where_nothing_is_said(virtual_clock: VirtualClock) -> None:
    now = most = 0

    async def ask(value: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await sleep(virtual_clock, 10)
        now -= 1
        return value

    for wait in (AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait):
        most = 0
        stream = wait(environment().from_collection(range(250)), ask, "1 s")
        assert sorted(await rows(stream)) == list(range(250))
        assert most == 100


# -- sinks -----------------------------------------------------------------------------------------------------------


async def test_a_sink_function_gets_every_record_at_least_once() -> None:
    got: list[int] = []

    class Into(SinkFunction[int]):
        def invoke(self, value: int, context: SinkFunction.Context) -> None:
            got.append(value)

    def build(env: StreamExecutionEnvironment) -> None:
        steps: list[Any] = []
        for n in range(10):
            steps += [n, Delay.of("100 ms")]
        env.from_source(ScriptedSource(steps)).add_sink(Into()).name("into")

    configuration = {"execution.checkpointing.interval": "250 ms", "restart-strategy.type": "fixed-delay"}
    async with MiniJob(build, configuration=configuration, faults=[FailOnRecord("into", 8)]) as job:
        await job.wait()
    assert set(got) == set(range(10)) and len(got) > 10, "what came behind the last checkpoint comes again"


# -- names -----------------------------------------------------------------------------------------------------------


def counting(*, in_front: bool = False, uid: str | None = None) -> Any:
    class Count(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.n.update((self.n.value() or 0) + 1)
            return self.n.value()

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        stream: DataStream[Any] = env.from_source(ScriptedSource(["a", "a"], ends=False), name="s").uid("s")
        if in_front:
            stream = stream.map(lambda v: v)
        counted = stream.key_by(lambda v: "a").process(Count())
        return counted.uid(uid) if uid else counted

    return build


async def test_without_a_uid_the_place_in_the_graph_names_the_state(tmp_path: Any) -> None:
    async def run(build: Any, restore: str | None) -> tuple[list[Any], str]:
        job = MiniJob(build, configuration={"execution.checkpointing.savepoint-dir": str(tmp_path)})
        await job.start(restore=restore)
        await job.settle()
        assert job.client is not None
        return job.results, await job.client.stop_with_savepoint()

    results, savepoint = await run(counting(), None)
    assert results == [1, 2]
    with pytest.raises(CheckpointException, match="nobody takes the state of"):
        await run(counting(in_front=True), savepoint)
    with pytest.raises(CheckpointException, match="nobody takes the state of"):
        await run(counting(uid="count"), savepoint)
    await run(counting(), savepoint)  # the same program finds its state; its source has nothing left to give


# -- life ------------------------------------------------------------------------------------------------------------


async def test_open_comes_before_the_first_record_and_close_behind_the_last() -> None:
    calls: list[str] = []

    class Watched(MapFunction[int, int]):
        async def open(self, runtime_context: RuntimeContext) -> None:
            await asyncio.sleep(0)
            calls.append("open")

        def map(self, value: int) -> int:
            calls.append(f"map {value}")
            return value

        async def close(self) -> None:
            await asyncio.sleep(0)
            calls.append("close")

    assert await rows(environment().from_elements(1, 2).map(Watched())) == [1, 2]
    assert calls == ["open", "map 1", "map 2", "close"]


async def test_an_error_of_open_fails_the_job_with_its_operator_and_closes_it() -> None:
    calls: list[str] = []

    class Broken(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no connection")

        def map(self, value: int) -> int:
            return value

        def close(self) -> None:
            calls.append("close")

    with pytest.raises(OSError, match="no connection") as failure:
        await rows(environment().from_elements(1).map(Broken()).name("broken"))
    assert "in operator 'broken' of job 'streamline job'" in failure.value.__notes__
    assert calls == ["close"]


async def test_an_error_of_close_is_not_lost() -> None:
    class Broken(MapFunction[int, int]):
        def map(self, value: int) -> int:
            return value

        def close(self) -> None:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        await rows(environment().from_elements(1).map(Broken()))


# -- joins -----------------------------------------------------------------------------------------------------------


async def test_a_window_join_drops_what_has_no_partner_and_co_group_keeps_it() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda r: r[1])

    def together(method: str) -> Any:
        env = environment()
        left = env.from_elements(("a", 1), ("b", 2)).assign_timestamps_and_watermarks(strategy)
        right = env.from_elements(("a", 3), ("c", 4), ("a", 11)).assign_timestamps_and_watermarks(strategy)
        both = getattr(left, method)(right).where(lambda r: r[0]).equal_to(lambda r: r[0])
        return both.window(TumblingEventTimeWindows.of(10))

    assert await rows(together("join").apply(lambda a, b: (a, b))) == [(("a", 1), ("a", 3))]

    def sides(left: Iterable[Any], right: Iterable[Any]) -> Any:
        yield ([r[1] for r in left], [r[1] for r in right])

    assert sorted(await rows(together("co_group").apply(sides))) == [([], [4]), ([], [11]), ([1], [3]), ([2], [])]


def test_an_interval_join_has_no_processing_time() -> None:
    env = environment()
    one, two = (env.from_source(ScriptedSource("a @ 1"), name=n).key_by(lambda v: v) for n in ("one", "two"))
    with pytest.raises(ValidationException, match="follows event time"):
        one.interval_join(two).in_processing_time()
    with pytest.raises(ValidationException, match=r"lower bound \(2 ms\) is above the upper \(1 ms\)"):
        one.interval_join(two).between(2, 1)
    with pytest.raises(StreamlineError, match="can carry no timestamps"):
        one.interval_join(env.from_elements("a").key_by(lambda v: v))
