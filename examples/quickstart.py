"""Clicks into windows of ten seconds, and running totals: stream, SQL and back, in one event loop.

python -m examples.quickstart
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.table import Schema, StreamTableEnvironment


class Click(msgspec.Struct):
    visitor: str
    url: str
    ts: int  # epoch milliseconds


class Clicks(msgspec.Struct):
    visitor: str
    window_end: datetime
    n: int


NOON = 1_714_564_800_000
CLICKS = [
    Click("ann", "/home", NOON + 1_000),
    Click("bob", "/home", NOON + 2_500),
    Click("ann", "/cart", NOON + 9_000),
    Click("ann", "/pay", NOON + 12_000),
    Click("bob", "/cart", NOON + 8_000),  # out of order, and still in time
    Click("ann", "/done", NOON + 21_000),
]


async def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)

    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)).with_timestamp_assigner(
            lambda click, _: click.ts
        )
    )
    t_env.create_temporary_view(
        "clicks",
        clicks,
        Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build(),
    )  # the physical columns come from Click

    per_visitor = t_env.sql_query("""
        SELECT visitor, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
        GROUP BY visitor, window_start, window_end""")
    busy = t_env.to_data_stream(per_visitor, Clicks).filter(lambda c: c.n > 1)

    print("more than one click in ten seconds:")
    async with busy.execute_and_collect() as results:  # leaving early cancels the job
        async for c in results:
            print(f"  {c.visitor}: {c.n} until {c.window_end:%H:%M:%S}")

    print("running totals, every change:")
    totals = t_env.sql_query("SELECT visitor, COUNT(*) AS n FROM clicks GROUP BY visitor")
    async with t_env.to_changelog_stream(totals).execute_and_collect() as rows:
        async for row in rows:
            print(f"  {row.kind.short_string} {row['visitor']} {row.n}")


if __name__ == "__main__":
    asyncio.run(main())
