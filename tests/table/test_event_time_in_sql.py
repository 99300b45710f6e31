"""CURRENT_WATERMARK, and windows by local time over the days on which clocks change."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.table import Schema, StreamTableEnvironment
from streamline.testing import VirtualClock


def table_of(records: list[tuple[str, int]], zone: str = "UTC") -> StreamTableEnvironment:
    """Records (name, epoch ms) as table t; the watermark is one second and a millisecond behind the newest."""
    env = StreamExecutionEnvironment.get_execution_environment(clock=VirtualClock())
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", zone)
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness("1 s")
        .with_timestamp_assigner(lambda r: r[1])
        .with_emit_on_event()
    )
    stream = env.from_collection(records, type_info=tuple[str, int]).assign_timestamps_and_watermarks(strategy)
    schema = (
        Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    t_env.create_temporary_view("t", stream, schema)
    return t_env


async def rows(t_env: StreamTableEnvironment, query: str) -> list[tuple[Any, ...]]:
    async with t_env.to_data_stream(t_env.sql_query(query)).execute_and_collect() as found:
        return [tuple(r) async for r in found]


def instant(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


LATE = [("a", 1000), ("b", 5000), ("late", 3999), ("in time", 4000)]  # behind b the watermark is 3999


async def test_current_watermark_is_null_before_the_first_and_then_what_has_come() -> None:
    found = await rows(table_of(LATE), "SELECT f0, CURRENT_WATERMARK(rowtime) FROM t")
    at = [None if mark is None else round(mark.timestamp() * 1000) for _, mark in found]
    assert at == [None, -1, 3999, 3999]


async def test_late_rows_are_left_out_by_the_current_watermark() -> None:
    query = "SELECT f0 FROM t WHERE CURRENT_WATERMARK(rowtime) IS NULL OR rowtime > CURRENT_WATERMARK(rowtime)"
    assert await rows(table_of(LATE), query) == [("a",), ("b",), ("in time",)]


@pytest.mark.parametrize(
    ("size", "first", "second", "expected"),
    [
        # spring: from 02:00 to 03:00 local time at 01:00 UTC; the day has 23 hours
        ("'1' DAY", "2024-03-31T00:30Z", "2024-03-31T01:30Z", [("2024-03-31T00:00", "2024-04-01T00:00", 2)]),
        (
            "'1' HOUR",
            "2024-03-31T00:30Z",
            "2024-03-31T01:30Z",
            [("2024-03-31T01:00", "2024-03-31T02:00", 1), ("2024-03-31T03:00", "2024-03-31T04:00", 1)],
        ),
        # autumn: 02:30 local time comes twice, and is one window
        ("'1' HOUR", "2024-10-27T00:30Z", "2024-10-27T01:30Z", [("2024-10-27T02:00", "2024-10-27T03:00", 2)]),
        ("'1' DAY", "2024-10-26T22:00Z", "2024-10-27T22:59Z", [("2024-10-27T00:00", "2024-10-28T00:00", 2)]),
    ],
)
async def test_windows_of_instants_are_local(size: str, first: str, second: str, expected: Any) -> None:
    """Case C72: days of 23 and 25 hours in Berlin."""
    t_env = table_of([("a", instant(first)), ("b", instant(second))], "Europe/Berlin")
    found = await rows(
        t_env,
        "SELECT window_start, window_end, COUNT(*) FROM "
        f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL {size})) GROUP BY window_start, window_end",
    )
    assert found == [(dt.datetime.fromisoformat(a), dt.datetime.fromisoformat(b), n) for a, b, n in expected]
