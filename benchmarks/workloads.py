"""W1 filter and project, W2 running totals, W3 windows; through DataStream and through SQL, beside loops by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from time import perf_counter
from typing import Any

from benchmarks import loops
from benchmarks.data import InMemory, Trade, TradeTuple, trades
from benchmarks.report import Figure, at_least, best
from streamline import DataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from streamline.state import ValueStateDescriptor
from streamline.table import Schema, StreamTableEnvironment
from streamline.windows import TumblingEventTimeWindows

SQL_W1 = "SELECT symbol, amount * 2 AS twice FROM trades WHERE price > 50"
SQL_W2 = "SELECT symbol, COUNT(*) AS n, SUM(amount) AS total FROM trades GROUP BY symbol"
SQL_W3 = """SELECT symbol, window_start, window_end, COUNT(*) AS n, SUM(amount) AS total, MAX(amount) AS largest
    FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY symbol, window_start, window_end"""
BLACKHOLE = {
    SQL_W1: "symbol STRING, twice BIGINT",
    SQL_W2: "symbol STRING, n BIGINT, total BIGINT",
    SQL_W3: "symbol STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, total BIGINT, largest BIGINT",
}


# -- running a job and timing it ------------------------------------------------------------------------------------


def rate(source: InMemory, job: Callable[[], Any]) -> float:
    """Records a second from the first poll of the source to the end of the job: start-up is left out."""
    asyncio.run(job())
    return len(source.values) / (perf_counter() - source.started)


def drop(record: Any) -> None:
    """A sink that drops its records."""


# -- SQL ------------------------------------------------------------------------------------------------------------


def tables(source: InMemory) -> StreamTableEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    schema = (
        Schema.new_builder()
        .column_by_expression("rowtime", "TO_TIMESTAMP_LTZ(ts, 3)")
        .watermark("rowtime", "rowtime - INTERVAL '1' SECOND")
        .build()
    )
    t_env.create_temporary_view("trades", env.from_source(source, name="trades"), schema)
    return t_env


async def into_blackhole(source: InMemory, query: str) -> None:
    t_env = tables(source)
    await t_env.execute_sql(f"CREATE TABLE nowhere ({BLACKHOLE[query]}) WITH ('connector' = 'blackhole')")
    result = await t_env.execute_sql(f"INSERT INTO nowhere {query}")
    await result.wait()


async def into_rows(source: InMemory, query: str) -> None:
    t_env = tables(source)
    stream = t_env.to_changelog_stream(t_env.sql_query(query))
    stream.add_sink(drop)
    await t_env.get_stream_execution_environment().execute("rows")


# -- DataStream -----------------------------------------------------------------------------------------------------


def trades_of(source: InMemory) -> tuple[StreamExecutionEnvironment, DataStream[Any]]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
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


class CountSumMax(AggregateFunction):
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


class RunningCount(KeyedProcessFunction):
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


# -- the figures ----------------------------------------------------------------------------------------------------


def run(scale: float) -> Iterator[Figure]:
    count = int(1_000_000 * scale)
    structs = InMemory(trades(count), Trade)
    tuples = InMemory(trades(count, TradeTuple), TradeTuple)

    def by_hand(loop: loops.Loop) -> float:
        return best(lambda: loops.records_per_second(loop, structs.values))

    def job(make: Callable[..., Any], source: InMemory, *more: Any) -> float:
        return best(lambda: rate(source, lambda: make(source, *more)))

    hand = {
        SQL_W1: by_hand(loops.filter_project),
        SQL_W2: by_hand(loops.running_totals),
        SQL_W3: by_hand(loops.window_totals),
    }
    goals = {SQL_W1: 8e6, SQL_W2: 3e6, SQL_W3: 4e6}
    for label, query in (("W1 filter+project", SQL_W1), ("W2 running totals", SQL_W2), ("W3 10 s windows", SQL_W3)):
        value = job(into_blackhole, structs, query)
        yield at_least(f"{label}, SQL, Structs to blackhole", value, "records/s", goals[query], hand[query])
        yield Figure(f"{label}, SQL, tuples to blackhole", job(into_blackhole, tuples, query), "records/s", hand[query])
        yield Figure(f"{label}, SQL, Structs to Rows", job(into_rows, structs, query), "records/s", hand[query])
    lambdas = by_hand(loops.filter_project_lambdas)
    yield at_least("W1 filter+project, DataStream lambdas", job(stream_w1, structs), "records/s", 5e6, lambdas)
    yield Figure("W2 running totals, DataStream reduce", job(stream_w2, structs), "records/s", hand[SQL_W2])
    yield Figure("W3 10 s windows, DataStream aggregate", job(stream_w3, structs), "records/s", hand[SQL_W3])
    counted = by_hand(loops.running_count)
    yield at_least("keyed process with ValueState", job(stream_count, structs), "records/s", 3e6, counted)
