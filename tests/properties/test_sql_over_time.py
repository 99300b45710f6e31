"""Queries over event time come to what SQLite gives, however their input was cut, disordered, delayed or read again.

Rows come at most 4 s later than a later one, and watermarks are 5 s behind, so none is late. Each query stands beside
the one that says the same in SQLite, where event time is a number of seconds.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamline import Row, RowKind, StreamExecutionEnvironment
from streamline._core.config import Configuration
from streamline._core.elements import Batch
from streamline._core.typeinfo import Types
from streamline.table import ChangelogMode, Schema, StreamTableEnvironment
from streamline.testing import Delay, Fail, ScriptedSource, VirtualClock
from tests.properties.tables import folded

START = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start)"
ISLANDS = (
    "(SELECT *, SUM(new) OVER (PARTITION BY k ORDER BY sec) AS island FROM (SELECT *, CASE WHEN sec - LAG(sec) OVER "
    "(PARTITION BY k ORDER BY sec) <= 5 THEN 0 ELSE 1 END AS new FROM l))"
)
BOTH = [
    "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY {time} RANGE BETWEEN {ten} PRECEDING AND CURRENT ROW), "
    "COUNT(*) OVER (PARTITION BY k ORDER BY {time} RANGE BETWEEN {ten} PRECEDING AND CURRENT ROW) FROM l",
    "SELECT id, MAX(v) OVER (PARTITION BY k ORDER BY {time} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM l",
    "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY {time}), LAG(v) OVER (PARTITION BY k ORDER BY {time}) FROM l",
    "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {time}) AS n FROM l) WHERE n = 1",
    "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {time} DESC) AS n FROM l) WHERE n = 1",
    "SELECT l.id, r.id, v, w FROM l JOIN r ON l.k = r.k AND r.{time} BETWEEN l.{time} - {ten} AND l.{time} + {five}",
    "SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k "
    "AND r.{time} >= l.{time} - {five} AND r.{time} < l.{time} + {ten} AND w > v",
    "SELECT l.id, r.id FROM l FULL JOIN r ON l.k = r.k AND r.{time} BETWEEN l.{time} - {five} AND l.{time}",
    "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k "
    "AND r.{time} BETWEEN l.{time} - {five} AND l.{time} + {ten})",
]
IN_SQLITE = {"time": "sec", "ten": "10", "five": "5"}
IN_STREAMS = {"time": "rt", "ten": "INTERVAL '10' SECOND", "five": "INTERVAL '5' SECOND"}
QUERIES: list[tuple[str, str]] = [
    *((q.format(**IN_STREAMS), q.format(**IN_SQLITE)) for q in BOTH),
    (
        f"SELECT k, {START}, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM "
        "TABLE(TUMBLE(TABLE l, DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end",
        "SELECT k, sec / 10 * 10 AS s, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM l GROUP BY k, s",
    ),
    (
        "SELECT k, COUNT(*), MIN(v) FROM l GROUP BY k, TUMBLE(rt, INTERVAL '10' SECOND)",
        "SELECT k, COUNT(*), MIN(v) FROM l GROUP BY k, sec / 10",
    ),
    (
        f"SELECT k, {START}, COUNT(*), SUM(v) FROM TABLE(HOP(TABLE l, DESCRIPTOR(rt), INTERVAL '10' SECOND, "
        "INTERVAL '30' SECOND)) GROUP BY k, window_start, window_end",
        "SELECT k, sec / 10 * 10 - d AS s, COUNT(*), SUM(v) FROM l, (SELECT 0 AS d UNION SELECT 10 UNION SELECT 20) "
        "GROUP BY k, s",
    ),
    (
        "SELECT k, TIMESTAMPDIFF(SECOND, window_start, window_end), COUNT(*), MAX(v) FROM TABLE(CUMULATE(TABLE l, "
        "DESCRIPTOR(rt), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) GROUP BY k, window_start, window_end",
        "SELECT k, d, COUNT(*), MAX(v) FROM l JOIN (SELECT 10 AS d UNION SELECT 20 UNION SELECT 30) "
        "ON sec % 30 < d GROUP BY k, sec / 30, d",
    ),
    (
        f"SELECT k, {START}, COUNT(*), SUM(v) FROM TABLE(SESSION(TABLE l PARTITION BY k, DESCRIPTOR(rt), "
        "INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end",
        f"SELECT k, MIN(sec), COUNT(*), SUM(v) FROM {ISLANDS} GROUP BY k, island",
    ),
    (
        "SELECT k, COUNT(*), MIN(v) FROM l GROUP BY k, SESSION(rt, INTERVAL '5' SECOND)",
        f"SELECT k, COUNT(*), MIN(v) FROM {ISLANDS} GROUP BY k, island",
    ),
    (
        f"SELECT {START}, MAX(n) FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE l, "
        "DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) "
        "GROUP BY window_start, window_end",
        "SELECT s, MAX(n) FROM (SELECT k, sec / 10 * 10 AS s, COUNT(*) AS n FROM l GROUP BY k, s) GROUP BY s",
    ),
    (
        "SELECT k, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        "ORDER BY v DESC, id) AS n FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(rt), INTERVAL '10' SECOND))) WHERE n <= 2",
        "SELECT k, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sec / 10, k ORDER BY v DESC, id) AS n FROM l) "
        "WHERE n <= 2",
    ),
    (
        "SELECT a.id, b.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(rt), INTERVAL '10' SECOND))) AS a "
        "LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(rt), INTERVAL '10' SECOND))) AS b "
        "ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end",
        "SELECT a.id, b.id FROM l AS a LEFT JOIN r AS b ON a.k = b.k AND a.sec / 10 = b.sec / 10",
    ),
    (
        "SELECT l.id, p.w FROM l LEFT JOIN p FOR SYSTEM_TIME AS OF l.rt ON l.k = p.k",
        "SELECT id, (SELECT w FROM p WHERE p.k = l.k AND p.sec <= l.sec ORDER BY p.sec DESC LIMIT 1) FROM l",
    ),
    (
        "SELECT l.id, p.w FROM l JOIN p FOR SYSTEM_TIME AS OF l.rt ON l.k = p.k AND p.w > l.v",
        "SELECT l.id, p.w FROM l JOIN p ON p.k = l.k AND p.sec = (SELECT MAX(sec) FROM p AS q WHERE q.k = l.k AND "
        "q.sec <= l.sec) WHERE p.w > l.v",
    ),
]
VALUES = {"l": "v", "r": "w", "p": "w"}
RESTARTS = {
    "execution.checkpointing.interval": "7 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 20,
    "restart-strategy.fixed-delay.delay": "1 ms",
    "pipeline.auto-watermark-interval": "5 ms",
}


@st.composite
def rows(draw: st.DrawFn, keys: st.SearchStrategy[int | None], size: int = 10) -> list[tuple[Any, ...]]:
    """Rows (id, k, v, sec) in the order in which they come."""
    seconds = draw(st.lists(st.integers(0, 60), unique=True, max_size=size))
    late = {sec: sec + draw(st.integers(0, 4)) for sec in seconds}
    value = st.none() | st.integers(0, 3)
    return [(i, draw(keys), draw(value), sec) for i, sec in enumerate(sorted(seconds, key=late.__getitem__))]


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, list[list[tuple[Any, ...]]]]:
    """The rows of l, r and p in batches; p is versioned by k, which is never NULL."""
    some = st.integers(0, 2)
    found = {}
    for name in VALUES:
        values = draw(rows(some if name == "p" else st.none() | some))
        places = sorted(draw(st.sets(st.integers(1, max(1, len(values) - 1)), max_size=4)))
        found[name] = [values[a:b] for a, b in zip([0, *places], [*places, len(values)]) if a < b]
    return found


def steps(name: str, batches: list[list[tuple[Any, ...]]], fails: set[int]) -> list[Any]:
    """The script of a source; time passes between batches, so that watermarks and checkpoints follow some."""
    found: list[Any] = []
    known: set[Any] = set()
    names = ["id", "k", VALUES[name], "sec"]
    for i, batch in enumerate(batches):
        made = []
        for row in batch:
            update = name == "p" and row[1] in known
            known.add(row[1])
            made.append(Row.of_kind(RowKind.UPDATE_AFTER if update else RowKind.INSERT, *row))
            made[-1].set_field_names(names)
        found += [Batch(made), Delay(10)]
        if i in fails:
            found.append(Fail(ConnectionError("the source is gone")))
    return found


async def continuous(
    found: dict[str, Any], query: str, parallelism: int, fails: dict[str, set[int]], restarts: bool
) -> list[Row]:
    configuration = Configuration()
    for key, value in (RESTARTS if restarts else {"pipeline.auto-watermark-interval": "5 ms"}).items():
        configuration.set(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration, clock=VirtualClock())
    env.set_parallelism(parallelism)
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    for name, batches in found.items():
        names = ["id", "k", VALUES[name], "sec"]
        types = Types.ROW_NAMED(names, [Types.INT(), Types.INT(), Types.INT(), Types.LONG()])
        source = ScriptedSource(steps(name, batches, fails.get(name, set())), output_type=types, name=name)
        schema = Schema.new_builder().column("id", "INT").column("k", "INT NOT NULL" if name == "p" else "INT")
        schema = schema.column(VALUES[name], "INT").column("sec", "BIGINT")
        schema = schema.column_by_expression("rt", "TO_TIMESTAMP_LTZ(sec * 1000, 3)")
        schema = schema.watermark("rt", "rt - INTERVAL '5' SECOND")
        mode = ChangelogMode.insert_only()
        if name == "p":
            schema, mode = schema.primary_key("k"), ChangelogMode.upsert()
        stream = env.from_source(source, None, name)
        t_env.create_temporary_view(name, t_env.from_changelog_stream(stream, schema.build(), mode))
    async with t_env.to_changelog_stream(t_env.sql_query(query)).execute_and_collect() as results:
        return [row async for row in results]


def in_sqlite(found: dict[str, Any], query: str) -> Counter[Any]:
    with closing(sqlite3.connect(":memory:")) as db:
        for name, batches in found.items():
            db.execute(f"CREATE TABLE {name} (id INT, k INT, {VALUES[name]} INT, sec INT)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", [row for batch in batches for row in batch])
        return Counter(tuple(row) for row in db.execute(query))


@pytest.mark.parametrize(("query", "same"), QUERIES)
@settings(max_examples=max(10, settings().max_examples // 2))
@given(found=inputs(), parallelism=st.integers(1, 4))
def test_a_query_comes_to_what_sqlite_gives(query: str, same: str, found: dict[str, Any], parallelism: int) -> None:
    changes = asyncio.run(continuous(found, query, parallelism, {}, False))
    note("\n".join(map(str, changes)))
    assert folded(changes) == in_sqlite(found, same)


@pytest.mark.parametrize(("query", "same"), QUERIES[::2])
@settings(max_examples=max(10, settings().max_examples // 2))
@given(data=st.data(), found=inputs(), parallelism=st.integers(1, 3))
def test_nothing_is_lost_or_counted_twice_where_a_source_fails(
    query: str, same: str, data: st.DataObject, found: dict[str, Any], parallelism: int
) -> None:
    fails = {name: data.draw(st.sets(st.integers(0, 4), max_size=2)) for name in found}
    changes = asyncio.run(continuous(found, query, parallelism, fails, True))
    note("\n".join(map(str, changes)))
    assert folded(changes) == in_sqlite(found, same)
