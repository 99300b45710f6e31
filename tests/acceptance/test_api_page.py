"""The page of the API that shows most of it, as it stands, with a broker where it says `…`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from streamline import RowKind, StreamExecutionEnvironment, WatermarkStrategy
from streamline.table import Schema, StreamTableEnvironment

pytestmark = pytest.mark.kafka

START = 1_714_557_600_000


class Click(msgspec.Struct):
    visitor: str
    url: str
    ts: int  # epoch milliseconds


class Clicks(msgspec.Struct):
    visitor: str
    window_end: datetime
    n: int


# ann clicks each half second for 12 s, bob each second
CLICKS = sorted(
    [Click("ann", f"/{i}", START + i * 500) for i in range(24)]
    + [Click("bob", "/", START + i * 1000) for i in range(12)],
    key=lambda c: c.ts,
)


async def test_the_page(kafka: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)

    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
        .with_timestamp_assigner(lambda click, _: click.ts))  # fmt: skip
    t_env.create_temporary_view("clicks", clicks, Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()").build())  # fmt: skip

    per_visitor = t_env.sql_query("""
        SELECT visitor, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
        GROUP BY visitor, window_start, window_end""")
    busy = t_env.to_data_stream(per_visitor, Clicks).filter(lambda c: c.n > 10)

    seen = []
    async with busy.execute_and_collect() as results:
        async for c in results:
            seen.append(c)  # noqa: PERF401 (as on the page)
    assert [(c.visitor, c.n) for c in seen] == [("ann", 20)]
    assert type(seen[0]) is Clicks

    totals = t_env.sql_query("SELECT visitor, COUNT(*) AS n FROM clicks GROUP BY visitor")
    changes = []
    async with t_env.to_changelog_stream(totals).execute_and_collect() as rows:
        async for row in rows:
            changes.append((row.kind, row["visitor"], row.n, row[1]))  # noqa: PERF401
    assert changes[:2] == [(RowKind.INSERT, "ann", 1, 1), (RowKind.INSERT, "bob", 1, 1)]
    assert (RowKind.UPDATE_AFTER, "ann", 24, 24) in changes and (RowKind.UPDATE_AFTER, "bob", 12, 12) in changes
    assert len(changes) == 2 + 2 * (23 + 11)

    topic = await kafka.create_topic()
    await t_env.execute_sql(
        "CREATE TABLE out (visitor STRING, n BIGINT) WITH ('connector' = 'kafka', "
        f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}', 'format' = 'json')"
    )
    result = await t_env.execute_sql(f"INSERT INTO out SELECT visitor, n FROM {per_visitor}")
    await result.wait()
    written = sorted(msgspec.json.decode(v)["n"] for v in await kafka.values(topic))
    assert written == [2, 4, 10, 20]  # bob 2 and ann 4 in the second window, 10 and 20 in the first
