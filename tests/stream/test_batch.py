"""Batch mode, full-window partitions, and what is refused because it is out of scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamline import (
    Configuration,
    DataStream,
    Order,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    ValidationException,
    WatermarkStrategy,
)
from streamline.connectors.memory import IterableSource
from streamline.functions import AggregateFunction, MapFunction, MapPartitionFunction, RuntimeContext
from streamline.testing import Delay, FailOnRecord, MiniJob, ScriptedSource, VirtualClock
from streamline.windows import TumblingEventTimeWindows

RECORDS = [("b", 1, 5), ("a", 2, 9), ("b", 3, 2), ("a", 4, 1), ("c", 5, 7)]
BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r: r[2]).with_emit_on_event()


def environment(
    mode: RuntimeExecutionMode = RuntimeExecutionMode.BATCH, parallelism: int = 1
) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(mode).set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


# -- batch mode ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC])
@pytest.mark.parametrize("parallelism", [1, 3])
async def test_rolling_aggregations_give_their_last_value_only(mode: RuntimeExecutionMode, parallelism: int) -> None:
    keyed = environment(mode, parallelism).from_collection(RECORDS).key_by(lambda r: r[0])
    assert sorted(await rows(keyed.reduce(lambda a, b: (a[0], a[1] + b[1], 0)))) == [
        ("a", 6, 0),
        ("b", 4, 0),
        ("c", 5, 7),
    ]
    assert sorted(await rows(keyed.sum(1))) == [("a", 6, 9), ("b", 4, 5), ("c", 5, 7)]


async def test_streaming_mode_gives_every_value() -> None:
    keyed = environment(RuntimeExecutionMode.STREAMING).from_collection(RECORDS).key_by(lambda r: r[0])
    assert len(await rows(keyed.sum(1))) == 5


async def test_keyed_inputs_come_key_by_key_in_order_of_time_and_event_time_closes_once() -> None:
    class See:
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())
            return (value[0], value[2], ctx.timer_service().current_watermark() < 0)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            return ("timer", ctx.get_current_key(), timestamp)

    stream = environment().from_collection(RECORDS).assign_timestamps_and_watermarks(BY_TIME)
    assert await rows(stream.key_by(lambda r: r[0]).process(See())) == [
        ("b", 2, True), ("b", 5, True), ("a", 1, True), ("a", 9, True), ("c", 7, True),
        ("timer", "a", 1), ("timer", "b", 2), ("timer", "b", 5), ("timer", "c", 7), ("timer", "a", 9),
    ]  # fmt: skip


async def test_nothing_is_late_in_batch_mode() -> None:
    def counted(env: StreamExecutionEnvironment) -> DataStream[Any]:
        stream = env.from_collection(RECORDS).assign_timestamps_and_watermarks(BY_TIME)
        windows = stream.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(10))
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1], 0))

    assert sorted(await rows(counted(environment()))) == [("a", 6, 0), ("b", 4, 0), ("c", 5, 7)]


async def test_both_inputs_of_a_keyed_function_are_sorted() -> None:
    env = environment()
    one, two = (env.from_collection(RECORDS).assign_timestamps_and_watermarks(BY_TIME) for _ in range(2))
    connected = one.connect(two).key_by(lambda r: r[0], lambda r: r[0])
    got = await rows(connected.map(lambda r: (1, *r), lambda r: (2, *r)))
    for side in (1, 2):
        assert [r[1:] for r in got if r[0] == side] == [RECORDS[i] for i in (2, 0, 3, 1, 4)]


async def test_an_unbounded_source_is_refused_in_batch_mode_and_makes_automatic_mode_stream() -> None:
    env = environment()
    with pytest.raises(ValidationException, match="UNBOUNDED source .* 'BATCH': 'endless'"):
        await rows(env.from_source(IterableSource(lambda: iter(())), name="endless"))
    auto = environment(RuntimeExecutionMode.AUTOMATIC)
    endless = auto.from_source(IterableSource(lambda: iter(RECORDS)))
    assert len(await rows(endless.key_by(lambda r: r[0]).sum(1))) == 5


async def test_batch_mode_takes_no_checkpoints() -> None:
    env = StreamExecutionEnvironment(
        Configuration({"execution.runtime-mode": "BATCH", "execution.checkpointing.interval": "1 ms"})
    )
    env.from_elements(1).map(lambda v: v)
    client = await env.execute_async()
    await client.get_job_execution_result()
    assert client._job.options.restart is None
    assert client._job.options.checkpoints.settings.interval is None


# -- full-window partitions ----------------------------------------------------------------------------------------


class Spread(AggregateFunction[Any, list[int], int]):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return max(accumulator) - min(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


class Sizes(MapPartitionFunction[Any, int]):
    def map_partition(self, values: Any) -> Iterator[int]:
        yield len(list(values))


def streaming() -> StreamExecutionEnvironment:
    return environment(RuntimeExecutionMode.STREAMING)


async def test_functions_of_all_records_at_the_end() -> None:
    whole = streaming().from_collection(RECORDS).full_window_partition()
    assert await rows(whole.map_partition(Sizes())) == [5]
    assert await rows(whole.map_partition(lambda values: [v[0] for v in values])) == ["b", "a", "b", "a", "c"]
    assert await rows(whole.sort_partition(2)) == sorted(RECORDS, key=lambda r: r[2])
    assert await rows(whole.sort_partition(lambda r: r[1], Order.DESCENDING)) == RECORDS[::-1]
    assert await rows(whole.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1], 0))) == [("babac", 15, 0)]
    assert await rows(whole.aggregate(Spread())) == [4]
    assert (
        await rows(streaming().from_collection([], type_info=int).full_window_partition().map_partition(Sizes())) == []
    )


async def test_functions_of_all_records_of_a_key() -> None:
    keyed = streaming().from_collection(RECORDS).key_by(lambda r: r[0]).full_window_partition()
    assert await rows(keyed.map_partition(Sizes())) == [2, 2, 1]
    assert await rows(keyed.sort_partition(1, Order.DESCENDING)) == [RECORDS[i] for i in (2, 0, 3, 1, 4)]
    assert await rows(keyed.reduce(lambda a, b: (a[0], a[1] + b[1], 0))) == [("b", 4, 0), ("a", 6, 0), ("c", 5, 7)]
    assert await rows(keyed.aggregate(Spread())) == [2, 2, 0]


async def test_every_subtask_is_a_partition() -> None:
    env = environment(RuntimeExecutionMode.STREAMING, 2)
    whole = env.from_elements(0, 1, 2, 3, 4).rebalance().full_window_partition()
    assert sorted(await rows(whole.map_partition(Sizes()))) == [2, 3]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("what", ["map_partition", "aggregate"])
async def test_partitions_go_on_after_a_restart(keyed: bool, what: str, virtual_clock: VirtualClock) -> None:
    def build(env: StreamExecutionEnvironment) -> Any:
        source = ScriptedSource([*RECORDS[:3], Delay(100), *RECORDS[3:]])
        stream = env.from_source(source, name="records").map(lambda v: v).name("map")
        whole = (stream.key_by(lambda r: r[0]) if keyed else stream).full_window_partition()
        return whole.map_partition(Sizes()) if what == "map_partition" else whole.aggregate(Spread())

    configuration = {"execution.checkpointing.interval": "10 ms", "restart-strategy.type": "fixed-delay"}
    async with MiniJob(build, clock=virtual_clock, configuration=configuration, faults=[FailOnRecord("map", 4)]) as job:
        await job.wait()
    expected = {(False, "map_partition"): [5], (False, "aggregate"): [4],
                (True, "map_partition"): [1, 2, 2], (True, "aggregate"): [0, 2, 2]}  # fmt: skip
    assert sorted(job.results) == expected[keyed, what]


# -- out of scope --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda env, s: s.iterate(), "iterate is not supported"),
        (lambda env, s: s.cache(), "cached streams are not supported"),
        (lambda env, s: s.map(lambda v: v).slot_sharing_group("g"), "slot sharing groups are not supported"),
        (lambda env, s: env.register_slot_sharing_group("g"), "slot sharing groups"),
        (lambda env, s: env.register_cached_file("f", "n"), "cached files are not supported"),
    ],
)
def test_what_is_out_of_scope_is_refused_and_says_what_to_do(call: Callable[[Any, Any], Any], message: str) -> None:
    env = streaming()
    with pytest.raises(ValidationException, match=message):
        call(env, env.from_elements(1))


async def test_accumulators_are_refused() -> None:
    class Counts(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.add_accumulator("n", 0)

        def map(self, value: int) -> int:
            return value

    with pytest.raises(ValidationException, match="accumulators are not supported"):
        await rows(streaming().from_elements(1).map(Counts()))
