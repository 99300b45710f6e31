"""Generated records: functions of their number, at a rate, and tables of them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline.connectors.datagen.columns import _mixed
from streamline.connectors.generator import DataGeneratorSource
from streamline.errors import ValidationException
from streamline.table import StreamTableEnvironment
from streamline.testing import VirtualClock

# -- the source --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "after"), [(3, [2, 4, 5, 7, 8]), (0.5, [1, 1, 1, 2, 2]), (1000, [501, 1001, 1500])])
@pytest.mark.virtual_clock(autojump=False)
async def test_a_rate(virtual_clock: VirtualClock, rate: float, after: list[int]) -> None:
    """Record k comes k/rate seconds after the start."""
    env = StreamExecutionEnvironment.get_execution_environment()
    seen: list[int] = []
    env.from_source(DataGeneratorSource(lambda n: n, 1500, rate)).add_sink(seen.append)
    async with await env.execute_async("rate") as job:
        for i, count in enumerate(after):
            await virtual_clock.advance("500 ms")
            assert len(seen) == count, f"after {500 * (i + 1)} ms"
        await job.cancel()


async def test_a_function_that_fails_names_the_number() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(DataGeneratorSource(lambda n: 1 // (7 - n), 10)).add_sink(lambda n: None)
    with pytest.raises(ZeroDivisionError) as e:
        await env.execute("generated")
    assert "while record number 7 was made" in e.value.__notes__


def test_numbers_are_evenly_random() -> None:
    counts = Counter(_mixed(1, n) % 10 for n in range(20_000))
    assert all(1800 < c < 2200 for c in counts.values())
    assert len({_mixed(s, n) for s in range(100) for n in range(100)}) == 10_000


# -- tables ----------------------------------------------------------------------------------------------------------


async def rows(columns: str, *options: str, query: str = "SELECT * FROM g") -> list[Any]:
    t_env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    given = ", ".join(["'connector' = 'datagen'", *options])
    await t_env.execute_sql(f"CREATE TABLE g ({columns}) WITH ({given})")
    async with (await t_env.execute_sql(query)).collect() as found:
        return [tuple(row) async for row in found]


async def test_random_values_are_of_their_types(virtual_clock: VirtualClock) -> None:
    columns = """a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(5, 2), h BOOLEAN, i STRING,
        j VARCHAR(5), k CHAR(4), l BYTES, m ARRAY<INT>, n MAP<STRING, INT>, o ROW<x INT, y STRING>, p TIMESTAMP(3)"""
    for row in await rows(columns, "'number-of-rows' = '50'"):
        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = row  # noqa: E741
        assert -128 <= a < 128 and -(1 << 15) <= b < 1 << 15 and -(1 << 31) <= c < 1 << 31 and abs(d) <= 1 << 63
        assert 0 < e < 3.5e38 and 0 < f < 1.8e308 and isinstance(g, Decimal) and 0 <= g < 1000 and h in (True, False)
        assert len(i) == 100 and set(i) <= set("0123456789abcdef")
        assert len(j) == 5 and len(k) == 4 and len(l) == 100
        assert len(m) == 3 and len(n) == 3 and isinstance(o[0], int) and len(o[1]) == 100
        assert abs(p - virtual_clock.datetime.replace(tzinfo=None)) < dt.timedelta(seconds=1)


async def test_bounds_lengths_and_nulls(virtual_clock: VirtualClock) -> None:
    found = await rows(
        "a INT, b DOUBLE, c STRING, d STRING, e INT, f ARRAY<INT>, g TIMESTAMP(3)",
        "'number-of-rows' = '400'",
        "'fields.a.min' = '1', 'fields.a.max' = '3'",
        "'fields.b.min' = '-0.5', 'fields.b.max' = '0.5'",
        "'fields.c.length' = '7'",
        "'fields.d.length' = '3', 'fields.d.var-len' = 'true'",
        "'fields.e.null-rate' = '0.25'",
        "'fields.f.length' = '2', 'fields.f.element.min' = '5', 'fields.f.element.max' = '5'",
        "'fields.g.max-past' = '1 h'",
    )
    a, b, c, d, e, f, g = zip(*found)
    assert set(a) == {1, 2, 3}
    assert all(-0.5 <= v <= 0.5 for v in b) and min(b) < -0.4 and max(b) > 0.4
    assert {len(v) for v in c} == {7} and {len(v) for v in d} == {0, 1, 2, 3}
    assert 60 < e.count(None) < 140
    assert set(map(tuple, f)) == {(5, 5)}
    now = virtual_clock.datetime.replace(tzinfo=None)
    assert all(now - dt.timedelta(hours=1) <= v <= now for v in g) and len(set(g)) > 300


async def test_a_table_gives_the_same_rows_every_time() -> None:
    columns = "a INT, b STRING, c DOUBLE"
    assert await rows(columns, "'number-of-rows' = '20'") == await rows(columns, "'number-of-rows' = '20'")


async def test_sequences_end_the_table() -> None:
    options = ["'fields.a.kind' = 'sequence', 'fields.a.start' = '5', 'fields.a.end' = '8'"]
    options.append("'fields.b.kind' = 'sequence', 'fields.b.start' = '-1', 'fields.b.end' = '10'")
    options.append("'fields.c.kind' = 'sequence', 'fields.c.start' = '1', 'fields.c.end' = '9'")
    found = await rows("a BIGINT, b STRING, c DECIMAL(4, 1)", *options)
    assert found == [(5 + i, str(i - 1), Decimal(f"{i + 1}.0")) for i in range(4)]
    assert len(await rows("a BIGINT", options[0], "'number-of-rows' = '2'")) == 2


async def test_rows_per_second(virtual_clock: VirtualClock) -> None:
    start = virtual_clock.now()
    assert len(await rows("a INT", "'number-of-rows' = '31'", "'rows-per-second' = '10'")) == 31
    assert virtual_clock.now() - start == 3000


async def test_it_drives_a_query_with_watermarks(virtual_clock: VirtualClock) -> None:
    found = await rows(
        "a INT, ts AS TO_TIMESTAMP_LTZ(a * 1000, 3), WATERMARK FOR ts AS ts",
        "'fields.a.kind' = 'sequence', 'fields.a.start' = '0', 'fields.a.end' = '24'",
        query="SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end",
    )
    assert [n for _, n in found] == [10, 10, 5]


@pytest.mark.parametrize(
    ("columns", "option", "message"),
    [
        ("a INT", "'foo' = '1'", "Unsupported options found for 'datagen'.\n\nUnsupported options:\n\nfoo"),
        ("a INT", "'fields.a.length' = '1'", "Unsupported options"),
        ("a STRING", "'fields.a.min' = '1'", "Unsupported options"),
        ("a INT", "'fields.a.kind' = 'other'", r"Expected one of: \[random, sequence\]"),
        ("a INT", "'fields.a.kind' = 'sequence'", "Could not find required property 'fields.a.start' for sequence"),
        ("a INT", "'fields.a.min' = 'x'", "Could not parse value 'x' for key 'fields.a.min'"),
        ("a INT", "'fields.a.min' = '5', 'fields.a.max' = '4'", "are no bounds of INT"),
        ("a TINYINT", "'fields.a.max' = '300'", "are no bounds of TINYINT"),
        ("a INT", "'fields.a.null-rate' = '2'", "between 0 and 1"),
        ("a CHAR(3)", "'fields.a.length' = '4'", "Custom length for fixed-length type"),
        ("a VARCHAR(3)", "'fields.a.length' = '4'", "should be shorter than '3'"),
        ("a INT", "'rows-per-second' = '0'", "positive"),
        ("a DATE", "'number-of-rows' = '1'", "Unsupported type: DATE"),
    ],
)
async def test_options_that_do_not_fit(columns: str, option: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message) as e:
        await rows(columns, option)
    assert "Unable to create a source for reading table 'default_catalog.default_database.g'" in str(e.value)


async def test_supported_options_are_listed_as_flink_lists_them() -> None:
    with pytest.raises(ValidationException) as e:
        await rows("a INT", "'foo' = '1'")
    listed = str(e.value).partition("Supported options:\n\n")[2].split("\n\n")[0].split("\n")
    expected = "connector fields.a.kind fields.a.max fields.a.min fields.a.null-rate number-of-rows rows-per-second"
    assert listed == [*expected.split(), "scan.parallelism"]
