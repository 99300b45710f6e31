"""The same workloads with functions of the user's own: DataStream programs over a stream in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from benchmarks import loops
from benchmarks.data import InMemory, Trade, drop, rate, trades
from benchmarks.report import Figure, at_least, best
from streamline import DataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from streamline.state import ValueStateDescriptor
from streamline.windows import TumblingEventTimeWindows


def trades_of(source: InMemory) -> tuple[StreamExecutionEnvironment, DataStream[Any]]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source.prepare(env)
    return env, env.from_source(source, name="trades")


async def stream_w1(source: InMemory) -> None:
    env, stream = trades_of(source)
    stream.filter(lambda t: t.price > 50).map(lambda t: (t.symbol, t.amount * 2)).add_sink(drop)
    await env.execute("W1")


async def stream_w2(source: InMemory) -> None:
    env, stream = trades_of(source)
    (
        stream.map(lambda t: (t.symbol, 1, t.amount))
        .key_by(lambda t: t[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .add_sink(drop)
    )
    await env.execute("W2")


class CountSumMax(AggregateFunction[Any, list[int], tuple[int, ...]]):
    """Count, sum and maximum, changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0, 0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value.amount
        if value.amount > accumulator[2]:
            accumulator[2] = value.amount
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1], max(a[2], b[2])]


async def stream_w3(source: InMemory) -> None:
    env, stream = trades_of(source)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)).with_timestamp_assigner(
        lambda trade, _: trade.ts
    )
    (
        stream.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda t: t.symbol)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .aggregate(CountSumMax())
        .add_sink(drop)
    )
    await env.execute("W3")


class RunningCount(KeyedProcessFunction[str, Any, Any]):
    """The smallest useful process function with state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        yield value.symbol, n


async def stream_count(source: InMemory) -> None:
    env, stream = trades_of(source)
    stream.key_by(lambda t: t.symbol).process(RunningCount()).add_sink(drop)
    await env.execute("running count")


def run(scale: float) -> Iterator[Figure]:
    source = InMemory(trades(int(1_000_000 * scale)), Trade)

    def by_hand(loop: loops.Loop) -> float:
        return best(lambda: loops.records_per_second(loop, source.values))

    def job(make: Callable[[InMemory], Any]) -> float:
        return best(lambda: rate(source, lambda: make(source)))

    lambdas = by_hand(loops.filter_project_lambdas)
    yield at_least("W1 filter+project, DataStream lambdas", job(stream_w1), "records/s", 5e6, lambdas)
    yield Figure("W2 running totals, DataStream reduce", job(stream_w2), "records/s", by_hand(loops.running_totals))
    yield Figure("W3 10 s windows, DataStream aggregate", job(stream_w3), "records/s", by_hand(loops.window_totals))
    counted = by_hand(loops.running_count)
    yield at_least("keyed process with ValueState", job(stream_count), "records/s", 3e6, counted)
