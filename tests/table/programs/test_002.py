"""The programs of the third document: windows in code and SQL, and what surrounds them. The Kafka table is apart."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from streamline import Row, TableException, ValidationException
from streamline.functions import AggregateFunction
from streamline.table import Schema, StreamTableEnvironment, col
from streamline.testing import VirtualClock
from streamline.windows import TumblingEventTimeWindows

from .common import EVENTS, bounded, envs, feed, marked, paced, rows, texts

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


def utc(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2024, 5, 1, hour, minute, second)


class CountAggregate(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, acc: Any) -> Any:
        return acc + 1

    def get_result(self, acc: Any) -> Any:
        return acc

    def merge(self, a: Any, b: Any) -> Any:
        return a + b


def event_schema() -> Schema:
    return (
        Schema.new_builder()
        .column_by_expression("event_time", "TO_TIMESTAMP_LTZ(eventTime, 3)")
        .watermark("event_time", "event_time - INTERVAL '10' SECOND")
        .build()
    )


def ordered(found: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    return sorted((str(n), str(x)) for n, x in found)


async def test_p32_in_code(virtual_clock: VirtualClock) -> None:
    env, _ = envs()
    with paced():
        stream = feed(env, EVENTS)
    code = (
        stream.assign_timestamps_and_watermarks(bounded(10, lambda e: e.eventTime))
        .key_by(lambda e: e.symbol)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
        .aggregate(CountAggregate())
    )
    assert ordered(await marked(code, virtual_clock, 8)) == [("6", "2"), ("6", "2"), ("end", "3")]


async def test_p32_in_sql(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    with paced():
        t_env.create_temporary_view("events", feed(env, EVENTS), event_schema())
    sql = t_env.sql_query(
        "SELECT symbol, COUNT(*) FROM events GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE)"
    )
    found = ordered(await marked(t_env.to_data_stream(sql), virtual_clock, 8))
    assert found == [("6", "+I[A, 2]"), ("6", "+I[B, 2]"), ("end", "+I[A, 3]")]


WINDOWED = """SELECT window_start, window_end, symbol, COUNT(*) as order_count, SUM(amount) as total_amount
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, symbol"""


@pytest.mark.parametrize("method", ["to_data_stream", "to_changelog_stream"])
async def test_p34_both_ways_out(virtual_clock: VirtualClock, method: str) -> None:
    env, t_env = envs()
    with paced():
        t_env.create_temporary_view("events", feed(env, EVENTS), event_schema())
    stream = getattr(t_env, method)(t_env.sql_query(WINDOWED))
    found = await marked(stream, virtual_clock, 8)
    assert ordered(found) == ordered(
        [
            (6, Row(utc(10), utc(10, 1), "A", 2, 12.5)),
            (6, Row(utc(10), utc(10, 1), "B", 2, 6.5)),
            ("end", Row(utc(10, 1), utc(10, 2), "A", 3, 13.0)),
        ]
    )
    assert all(r[0].tzinfo is None for _, r in found)


async def test_p34_a_plain_group_counts_the_late_event() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("events", feed(env, EVENTS), event_schema())
    t = t_env.sql_query("SELECT symbol, COUNT(*) AS n FROM events GROUP BY symbol")
    with pytest.raises(TableException):
        t_env.to_data_stream(t)
    final = {r.symbol: r.n for r in await rows(t_env.to_changelog_stream(t)) if not r.kind.is_retraction}
    assert final == {"A": 5, "B": 3}


def p35(env: Any, t_env: StreamTableEnvironment) -> Any:
    with paced():
        fed = feed(env, EVENTS)
    stream = fed.assign_timestamps_and_watermarks(bounded(10, lambda e: e.eventTime))
    t = t_env.from_data_stream(stream, col("eventId"), col("symbol"), col("amount"), col("eventTime").rowtime)
    t_env.create_temporary_view("ev", t)
    return t


async def test_p35_fields_with_a_rowtime(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    t = p35(env, t_env)
    assert "`eventTime` TIMESTAMP(3) *ROWTIME*" in str(t.get_schema())
    found = await rows(t_env.to_data_stream(t))
    assert len(found) == 8
    assert found[0] == Row("e1", "A", 10.0, utc(10, 0, 5))
    assert found[2].eventTime == datetime(2024, 5, 1, 10, 0, 59, 999000)
    env, t_env = envs()
    p35(env, t_env)
    n = t_env.sql_query("SELECT symbol, COUNT(*) AS n FROM ev GROUP BY symbol, TUMBLE(eventTime, INTERVAL '1' MINUTE)")
    assert sorted(texts(await rows(t_env.to_data_stream(n)))) == ["+I[A, 2]", "+I[A, 3]", "+I[B, 2]"]


def test_p35_without_timestamps() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException, match="assign_timestamps_and_watermarks"):
        t_env.from_data_stream(env.from_collection(EVENTS), col("eventId"), col("eventTime").rowtime)
