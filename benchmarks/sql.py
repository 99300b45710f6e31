"""W1 filter and project, W2 running totals, W3 windows of ten seconds: as SQL over a stream in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import loops
from benchmarks.data import InMemory, Trade, TradeTuple, drop, rate, trades
from benchmarks.report import Figure, at_least, best
from streamline import StreamExecutionEnvironment
from streamline.table import Schema, StreamTableEnvironment

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


def tables(source: InMemory) -> StreamTableEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source.prepare(env)
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


def run(scale: float) -> Iterator[Figure]:
    count = int(1_000_000 * scale)
    structs = InMemory(trades(count), Trade)
    tuples = InMemory(trades(count, TradeTuple), TradeTuple)

    def job(make: Callable[..., Any], source: InMemory, query: str) -> float:
        return best(lambda: rate(source, lambda: make(source, query)))

    for label, query, loop, goal in (
        ("W1 filter+project", SQL_W1, loops.filter_project, 8e6),
        ("W2 running totals", SQL_W2, loops.running_totals, 3e6),
        ("W3 10 s windows", SQL_W3, loops.window_totals, 4e6),
    ):
        hand = best(lambda loop=loop: loops.records_per_second(loop, structs.values))  # type: ignore[misc]
        value = job(into_blackhole, structs, query)
        yield at_least(f"{label}, SQL, Structs to blackhole", value, "records/s", goal, hand)
        value = job(into_blackhole, tuples, query)
        yield at_least(f"{label}, SQL, tuples to blackhole", value, "records/s", goal, hand)
        yield Figure(f"{label}, SQL, Structs to Rows", job(into_rows, structs, query), "records/s", hand)
