"""A function that combines and returns nothing is an error, not None for ever after."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.errors import StreamlineError
from streamline.functions import AggregateFunction, KeyedProcessFunction
from streamline.state import AggregatingStateDescriptor, ReducingStateDescriptor
from streamline.windows import EventTimeSessionWindows, TumblingEventTimeWindows


class Forgets:
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> Any:
        accumulator.append(value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Window(AggregateFunction[int, Any, Any]):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: int, accumulator: Any) -> Any:
        if accumulator is not None:
            accumulator.append(value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


class Adds(KeyedProcessFunction[Any, int, Any]):
    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor

    def open(self, ctx: Any) -> None:
        get = ctx.get_reducing_state if isinstance(self.descriptor, ReducingStateDescriptor) else None
        self.state = (get or ctx.get_aggregating_state)(self.descriptor)

    def process_element(self, value: int, ctx: Any) -> Any:
        self.state.add(value)
        yield self.state.get()


async def run(stream: Any) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


async def test_reduce() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(StreamlineError, match="reduce function returned None: is there a `return` missing"):
        await run(env.from_collection([1, 2]).key_by(lambda v: 0).reduce(lambda a, b: None))


@pytest.mark.parametrize(
    ("descriptor", "said"),
    [
        (ReducingStateDescriptor("s", lambda a, b: None), "function of reducing state returned None"),
        (AggregatingStateDescriptor("s", Forgets()), "Forgets.add returned None"),
    ],
)
async def test_state(descriptor: Any, said: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(StreamlineError, match=said):
        await run(env.from_collection([1, 2]).key_by(lambda v: 0).process(Adds(descriptor)))


@pytest.mark.parametrize("windows", [TumblingEventTimeWindows.of("1 s"), EventTimeSessionWindows.with_gap("1 s")])
async def test_windows(windows: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    stream = env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy)
    with pytest.raises(StreamlineError, match="accumulator of Window became None: is there a `return` missing"):
        await run(stream.key_by(lambda v: 0).window(windows).aggregate(Window()))
