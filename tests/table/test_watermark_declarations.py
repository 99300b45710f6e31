"""WATERMARK FOR: its forms, when it is emitted, what is no event time, and where a time attribute ends."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, ValidationException
from streamline.table import Schema, StreamTableEnvironment
from streamline.testing import Delay, ScriptedSource, VirtualClock

ON_EVENT = "'scan.watermark.emit.strategy' = 'on-event'"
Rows = list[tuple[Any, ...]]
Declare = Callable[..., Any]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(clock=VirtualClock())


@pytest.fixture
def t_env(env: StreamExecutionEnvironment) -> StreamTableEnvironment:
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    return t_env


@pytest.fixture
def declare(t_env: StreamTableEnvironment, tmp_path: Path) -> Declare:
    """Makes a table `t` of a file: ms (epoch milliseconds), n, and ts with a watermark."""

    async def make(records: list[tuple[int | None, int]], watermark: str, *options: str) -> None:
        lines = [json.dumps({"ms": ms, "n": n}) + "\n" for ms, n in records]
        (tmp_path / "t.json").write_text("".join(lines))
        more = "".join(f", {o}" for o in options)
        await t_env.execute_sql(
            f"""CREATE TABLE t (ms BIGINT, n INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS {watermark})
                WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.json', 'format' = 'json'{more})"""
        )

    return make


async def rows(t_env: StreamTableEnvironment, query: str) -> Rows:
    async with t_env.to_data_stream(t_env.sql_query(query)).execute_and_collect() as found:
        return [tuple(r) async for r in found]


async def marks(t_env: StreamTableEnvironment, table: str = "t") -> list[int | None]:
    """The watermark in front of each row, epoch milliseconds."""
    found = await rows(t_env, f"SELECT CURRENT_WATERMARK(ts) FROM {table}")
    return [None if mark is None else round(mark.timestamp() * 1000) for (mark,) in found]


RECORDS = [(1000, 1), (5000, 1), (3000, 1), (6000, 1)]


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        ("ts", [None, 1000, 5000, 5000]),  # strictly ascending
        ("ts - INTERVAL '0.001' SECOND", [None, 999, 4999, 4999]),  # ascending
        ("ts - INTERVAL '2' SECOND", [None, -1000, 3000, 3000]),  # bounded
        ("ts - INTERVAL '1' MINUTE", [None, -59_000, -55_000, -55_000]),
    ],
)
async def test_the_three_forms(
    t_env: StreamTableEnvironment, declare: Declare, watermark: str, expected: list[int | None]
) -> None:
    await declare(RECORDS, watermark, ON_EVENT)
    assert await marks(t_env) == expected


async def test_an_expression_is_computed_for_each_row_and_what_is_null_or_lower_is_ignored(
    t_env: StreamTableEnvironment, declare: Declare
) -> None:
    records = [(1000, 1), (9000, 0), (2000, 1), (1500, 1), (3000, 1)]
    await declare(records, "CASE WHEN n > 0 THEN ts ELSE CAST(NULL AS TIMESTAMP_LTZ(3)) END", ON_EVENT)
    assert await marks(t_env) == [None, 1000, 1000, 2000, 2000]


@pytest.mark.parametrize("option", [(), (ON_EVENT,)])
async def test_a_row_without_event_time_fails_the_job(
    t_env: StreamTableEnvironment, declare: Declare, option: tuple[str, ...]
) -> None:
    await declare([(1000, 1), (None, 2)], "ts - INTERVAL '1' SECOND", *option)
    with pytest.raises(Exception, match="RowTime field should not be null, please convert it to a non-null long value"):
        await marks(t_env)


async def test_watermarks_are_periodic_unless_said_otherwise(t_env: StreamTableEnvironment, declare: Declare) -> None:
    """A file is read at once: before its end no interval has passed."""
    await declare(RECORDS, "ts")
    assert await marks(t_env) == [None] * 4
    assert await marks(t_env, f"t /*+ OPTIONS({ON_EVENT}) */") == [None, 1000, 5000, 5000]


async def test_the_interval_is_200_ms() -> None:
    """Records each 70 ms: behind the first one, the watermarks come at 200 and 400 ms."""
    env = StreamExecutionEnvironment.get_execution_environment(clock=VirtualClock())
    t_env = StreamTableEnvironment.create(env)
    steps = [step for n in range(8) for step in ((n, 1000 * (n + 1)), Delay(70))]
    stream = env.from_source(ScriptedSource(steps), type_info=tuple[int, int])
    schema = (
        Schema.new_builder()
        .column_by_expression("ts", "TO_TIMESTAMP_LTZ(f1, 3)")
        .watermark("ts", "ts - INTERVAL '0.001' SECOND")
        .build()
    )
    t_env.create_temporary_view("t", stream, schema)
    # Records at 0, 70, 140, | 210, 280, 350, | 420, 490 ms.
    assert await marks(t_env) == [None, None, None, 2999, 2999, 2999, 5999, 5999]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("'scan.watermark.emit.strategy' = 'sometimes'",), "'sometimes'; one of on-event, on-periodic"),
        (("'scan.watermark.emit.on-event.gap' = '5'",), "a watermark follows each record"),
        (("'scan.watermark.alignment.group' = 'g'",), r"'scan\.watermark\.alignment\.max-drift' is not"),
        (("'scan.watermark.alignment.max-drift' = '1 s'",), r"'scan\.watermark\.alignment\.group' is not"),
        (("'scan.watermark.idle-timeout' = 'a while'",), "scan.watermark.idle-timeout"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    t_env: StreamTableEnvironment, declare: Declare, options: tuple[str, ...], message: str
) -> None:
    await declare(RECORDS, "ts", *options)
    with pytest.raises(ValidationException, match=message):
        await marks(t_env)


async def test_tables_of_one_group_are_aligned(
    env: StreamExecutionEnvironment, t_env: StreamTableEnvironment, declare: Declare
) -> None:
    """The source that reads the table has group, drift and interval: as a strategy's own (see watermark alignment)."""
    await declare(
        RECORDS,
        "ts",
        "'scan.watermark.alignment.group' = 'g'",
        "'scan.watermark.alignment.max-drift' = '2 s'",
        "'scan.watermark.alignment.update-interval' = '300 ms'",
    )
    stream = t_env.to_data_stream(t_env.sql_query("SELECT ts FROM t"))
    async with stream.execute_and_collect() as found:
        assert len([r async for r in found]) == 4
    (source,) = [n for n in env.graph.nodes.values() if n.source is not None]
    strategy = source.strategy
    assert strategy is not None
    assert (strategy.alignment_group, strategy.alignment_max_drift, strategy.alignment_interval) == ("g", 2000, 300)


async def test_arithmetic_casts_and_plain_aggregates_end_a_time_attribute(
    t_env: StreamTableEnvironment, declare: Declare
) -> None:
    await declare(RECORDS, "ts")
    table = t_env.sql_query(
        "SELECT ts, ts AS other, ts + INTERVAL '1' SECOND AS later, CAST(ts AS TIMESTAMP(3)) AS wall, n FROM t"
    )
    text = str(table.get_schema())
    assert "`ts` TIMESTAMP_LTZ(3) *ROWTIME*" in text and "`other` TIMESTAMP_LTZ(3) *ROWTIME*" in text
    assert "`later` TIMESTAMP_LTZ(3),\n" in text and "`wall` TIMESTAMP(3),\n" in text
    newest = t_env.sql_query("SELECT n, MAX(ts) AS newest FROM t GROUP BY n")
    assert "`newest` TIMESTAMP_LTZ(3)" in str(newest.get_schema()) and "ROWTIME" not in str(newest.get_schema())
    t_env.create_temporary_view("v", table)
    window = (
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR({}), INTERVAL '1' DAY)) "
        "GROUP BY window_start, window_end"
    )
    assert await rows(t_env, window.format("other")) == [(4,)]
    for column in ("later", "wall"):
        with pytest.raises(Exception, match="time attribute"):
            t_env.sql_query(window.format(column))


async def test_times_of_windows_are_of_the_sessions_zone(t_env: StreamTableEnvironment, declare: Declare) -> None:
    await declare(RECORDS, "ts")
    t_env.get_config().set("table.local-time-zone", "Asia/Kolkata")
    window = (
        "SELECT window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    assert await rows(t_env, window) == [(dt.datetime(1970, 1, 1, 5),)]
