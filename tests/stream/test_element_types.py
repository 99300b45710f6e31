"""What a type checker knows about streams: mypy checks this file with the package, and it runs as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, assert_type

import msgspec

from streamline import (
    AsyncDataStream,
    DataStream,
    KeyedStream,
    OutputTag,
    Row,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from streamline.connectors.files import FileSource
from streamline.connectors.kafka import KafkaSource
from streamline.functions import (
    AggregateFunction,
    AsyncFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from streamline.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from streamline.table import Change, StreamTableEnvironment
from streamline.windows import TimeWindow, TumblingEventTimeWindows

T = TypeVar("T")


class Click(msgspec.Struct):
    visitor: str
    n: int


class Doubled(ProcessFunction[Click, int]):
    def process_element(self, value: Click, ctx: Any) -> int:
        return 2 * value.n


class Sums(KeyedProcessFunction[str, Click, tuple[str, int]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = assert_type(runtime_context.get_state(ValueStateDescriptor("sum", int)), ValueState[int])
        self.all = assert_type(runtime_context.get_list_state(ListStateDescriptor("all", Click)), ListState[Click])
        self.by = assert_type(
            runtime_context.get_map_state(MapStateDescriptor("by", str, list[int])), MapState[str, list[int]]
        )
        largest: ReducingStateDescriptor[int] = ReducingStateDescriptor("largest", max, int)
        self.largest = assert_type(runtime_context.get_reducing_state(largest), ReducingState[int])
        # A type that is no class says nothing to the checker.
        self.flag = assert_type(
            runtime_context.get_state(ValueStateDescriptor("flag", Types.BOOLEAN())), ValueState[Any]
        )

    def process_element(self, value: Click, ctx: Any) -> Iterator[tuple[str, int]]:
        total = (self.sum.value() or 0) + value.n
        self.sum.update(total)
        yield value.visitor, total


class Mean(AggregateFunction[Click, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Click, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.n, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Shown(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(self, key: str, context: Any, elements: Iterable[float]) -> Iterator[str]:
        for element in elements:
            yield f"{key}: {element}"


class Asked(AsyncFunction[Click, bytes]):
    async def async_invoke(self, value: Click) -> list[bytes]:
        return [value.visitor.encode()]


def clicks() -> DataStream[Click]:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda click, _: click.n)
    return assert_type(
        env.from_collection([Click("ann", 1), Click("ann", 3)]), DataStream[Click]
    ).assign_timestamps_and_watermarks(strategy)


async def results(stream: DataStream[T]) -> list[T]:
    async with stream.execute_and_collect() as found:
        return [x async for x in found]


async def test_functions_tell_what_they_give() -> None:
    doubled = assert_type(clicks().process(Doubled()), DataStream[int])
    assert await results(doubled) == [2, 6]
    keyed = assert_type(clicks().key_by(lambda click: click.visitor), KeyedStream[Click])
    assert await results(assert_type(keyed.process(Sums()), DataStream[tuple[str, int]])) == [("ann", 1), ("ann", 4)]
    assert_type(keyed.process(lambda click, ctx: click.n), DataStream[Any])
    asked = AsyncDataStream.unordered_wait(clicks(), Asked(), "1 s")
    assert await results(assert_type(asked, DataStream[bytes])) == [b"ann", b"ann"]


async def test_windows_tell_what_they_give() -> None:
    windows = clicks().key_by(lambda click: click.visitor).window(TumblingEventTimeWindows.of("10 s"))
    assert await results(assert_type(windows.aggregate(Mean()), DataStream[float])) == [2.0]
    assert await results(assert_type(windows.aggregate(Mean(), Shown()), DataStream[str])) == ["ann: 2.0"]
    larger = windows.reduce(lambda a, b: a if a.n > b.n else b)
    assert await results(assert_type(larger, DataStream[Click])) == [Click("ann", 3)]
    assert_type(larger.get_side_output(OutputTag("late")), DataStream[Any])


async def test_tables_tell_what_they_give() -> None:
    stream = clicks()
    t_env = StreamTableEnvironment.create(stream.get_execution_environment())
    table = t_env.from_data_stream(stream)
    assert await results(assert_type(t_env.to_data_stream(table, Click), DataStream[Click])) == [
        Click("ann", 1),
        Click("ann", 3),
    ]
    changes = assert_type(t_env.to_changelog_stream(table, Click), DataStream[Change[Click]])
    assert [change.value for change in await results(changes)] == [Click("ann", 1), Click("ann", 3)]
    rows = [Row(visitor="ann", n=1), Row(visitor="ann", n=3)]
    assert await results(assert_type(t_env.to_data_stream(table), DataStream[Row])) == rows
    assert await results(assert_type(t_env.to_changelog_stream(table), DataStream[Row])) == rows
    assert await results(assert_type(t_env.to_data_stream(table, Row), DataStream[Row])) == rows
    assert await results(assert_type(t_env.to_changelog_stream(table, Row), DataStream[Row])) == rows


def test_sources_tell_what_they_give() -> None:
    source = KafkaSource(bootstrap_servers="localhost:9092", topics="clicks", value_type=Click)
    assert_type(source, KafkaSource[Click])
    env = StreamExecutionEnvironment.get_execution_environment()
    assert assert_type(env.from_source(source), DataStream[Click]).get_type() is Click
    assert_type(FileSource(paths="*.jsonl", value_type=Click), FileSource[Click])


async def test_side_outputs_tell_what_they_give() -> None:
    tag = assert_type(OutputTag("odd", int), OutputTag[int])

    class Odd(ProcessFunction[Click, Click]):
        def process_element(self, value: Click, ctx: Any) -> Iterator[Click]:
            ctx.output(tag, value.n)
            yield value

    odd = clicks().process(Odd()).get_side_output(tag)
    assert await results(assert_type(odd, DataStream[int])) == [1, 3]
