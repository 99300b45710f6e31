"""Continuous queries come to what SQLite gives for their input as tables, however this was cut, came or was spread.

Inputs are random changelogs: inserts only, with retractions, or upserts by a key. Every query runs over all of them.
A global aggregate over nothing has no row here, as in Flink; the condition on it makes both agree.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from streamline import Row, RowKind, StreamExecutionEnvironment
from streamline._core.elements import Batch
from streamline._core.typeinfo import Types
from streamline.table import ChangelogMode, Schema, StreamTableEnvironment
from streamline.testing import ScriptedSource, VirtualClock

QUERIES = [
    "SELECT id, k + v, CASE WHEN v > 2 THEN 'big' ELSE s END FROM l WHERE v IS NOT NULL AND k <> 1",
    "SELECT k, COUNT(*), SUM(v), MIN(v), MAX(v), COUNT(v) FROM l GROUP BY k",
    "SELECT COUNT(*), SUM(v), MAX(s) FROM l HAVING COUNT(*) > 0",
    "SELECT k, COUNT(DISTINCT v), SUM(DISTINCT v), COUNT(*) FILTER (WHERE v > 1) FROM l GROUP BY k",
    "SELECT k, SUM(v) FROM l GROUP BY k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k, s FROM l",
    "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM l GROUP BY k) GROUP BY n",
    "SELECT MAX(n), MIN(n) FROM (SELECT k, s, COUNT(*) AS n FROM l GROUP BY k, s) HAVING COUNT(*) > 0",
    "SELECT k, v FROM l UNION ALL SELECT k, w FROM r",
    "SELECT k FROM l UNION SELECT k FROM r",
    "SELECT k FROM l INTERSECT SELECT k FROM r",
    "SELECT k FROM l EXCEPT SELECT k FROM r",
    "SELECT l.id, r.id, v, w FROM l JOIN r ON l.k = r.k",
    "SELECT l.id, r.id FROM l JOIN r ON l.k = r.k AND l.v < r.w",
    "SELECT l.id, r.id, w FROM l LEFT JOIN r ON l.k = r.k",
    "SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND w > v",
    "SELECT l.id, v, r.id FROM l RIGHT JOIN r ON l.k = r.k",
    "SELECT l.id, r.id FROM l FULL JOIN r ON l.k = r.k AND l.v <> r.w",
    "SELECT l.id, r.id FROM l FULL JOIN r ON l.id = r.id",
    "SELECT l.id, r.w FROM l LEFT JOIN r ON l.id = r.id WHERE r.w IS NULL OR r.w > 1",
    "SELECT x.id, y.id FROM l AS x JOIN l AS y ON x.k = y.k AND x.id < y.id",
    "SELECT l.k, COUNT(*), SUM(w) FROM l LEFT JOIN r ON l.id = r.id GROUP BY l.k",
    "SELECT a.k, n, m FROM (SELECT k, COUNT(*) AS n FROM l GROUP BY k) AS a "
    "LEFT JOIN (SELECT k, MAX(w) AS m FROM r GROUP BY k) AS b ON a.k = b.k",
    "SELECT id, v FROM l WHERE k IN (SELECT k FROM r)",
    "SELECT id, v FROM l WHERE k NOT IN (SELECT k FROM r WHERE k IS NOT NULL)",
    "SELECT id, v FROM l WHERE k NOT IN (SELECT k FROM r)",
    "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.w > l.v)",
    "SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "SELECT id FROM l WHERE v > (SELECT MIN(w) FROM r)",
    "SELECT id, (SELECT MAX(w) FROM r WHERE r.k = l.k) FROM l",
    "SELECT id, k IN (SELECT k FROM r WHERE k IS NOT NULL) FROM l WHERE k IS NOT NULL",
    "WITH t AS (SELECT k, SUM(v) AS n FROM l GROUP BY k) SELECT a.k, a.n, b.n FROM t a JOIN t b ON a.n = b.n",
    "SELECT k, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM l) WHERE n <= 2",
    "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v, id) AS n FROM l) WHERE n <= 3",
    "SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id) AS n FROM l) WHERE n = 1",
    "SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS p FROM "
    "(SELECT k, COUNT(*) AS n FROM l GROUP BY k)) WHERE p BETWEEN 2 AND 3",
    "SELECT s, n, COUNT(*) FROM (SELECT s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id) AS n FROM l) "
    "WHERE n <= 2 GROUP BY s, n",
    "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY id), COUNT(*) OVER (PARTITION BY k ORDER BY id) FROM l",
    "SELECT COALESCE(k, -1), MIN(s), COUNT(DISTINCT s) FILTER (WHERE v > 0) FROM l GROUP BY COALESCE(k, -1)",
    "SELECT a.id, b.id, c.id FROM l AS a JOIN r AS b ON a.k = b.k LEFT JOIN l AS c ON b.w = c.v",
    "SELECT a.id, b.w, c.v FROM l AS a LEFT JOIN r AS b ON a.id = b.id LEFT JOIN l AS c ON a.id = c.id AND c.v > 1",
    "SELECT l.id, r.id FROM l JOIN r ON l.k = r.k AND l.s = r.s WHERE l.v + r.w > 2",
    "SELECT l.id, r.id FROM l CROSS JOIN (SELECT id FROM r WHERE w > 1) AS r",
    "SELECT k, COUNT(*) FROM (SELECT k FROM l UNION ALL SELECT w FROM r UNION SELECT v FROM l) GROUP BY k",
    "SELECT k FROM l WHERE v > 1 INTERSECT SELECT k FROM r EXCEPT SELECT w FROM r",
    "SELECT k, SUM(v) FROM l GROUP BY k HAVING SUM(v) > (SELECT MIN(w) FROM r)",
    "SELECT id FROM l WHERE v = (SELECT MAX(w) FROM r WHERE r.k = l.k)",
    "SELECT id, (SELECT COUNT(*) FROM r), (SELECT 2 * COUNT(*) + 1 FROM r WHERE r.k = l.k) FROM l",
    "SELECT id, (SELECT CASE WHEN COUNT(*) = 0 THEN -1 ELSE MAX(w) END FROM r WHERE r.k = l.k) FROM l",
    "SELECT k, COUNT(*) FROM l GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM r)",
    "SELECT id FROM l WHERE (SELECT COUNT(*) FROM r WHERE r.k = l.k) = 0",
    "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE w > 2) AND k IN (SELECT w FROM r)",
    "SELECT id FROM l WHERE (k, s) IN (SELECT k, s FROM r)",
    "SELECT id, v FROM l WHERE v > 1 OR k IN (SELECT k FROM r WHERE k IS NOT NULL)",
    "SELECT id, EXISTS (SELECT 1 FROM r WHERE r.id = l.id) FROM l",
    "SELECT k, MAX(n) FROM (SELECT k, v, COUNT(*) AS n FROM l GROUP BY k, v) GROUP BY k",
    "SELECT id, k, v FROM l ORDER BY v DESC, id LIMIT 3",
    "SELECT id, k, v FROM l ORDER BY k, id LIMIT 2 OFFSET 1",
]


@st.composite
def changes(draw: st.DrawFn, mode: str) -> tuple[list[tuple[str, tuple[Any, ...]]], list[tuple[Any, ...]]]:
    """A changelog of (id, k, v, s), and the rows that it leaves."""
    small = st.none() | st.integers(0, 3)
    text = st.none() | st.sampled_from("ab")
    found: list[tuple[str, tuple[Any, ...]]] = []
    rows: list[tuple[Any, ...]] = []
    for number in range(draw(st.integers(0, 8))):
        action = draw(st.sampled_from("+++-u")) if rows and mode != "append" else "+"
        if action == "+":
            row = (number, draw(small), draw(small), draw(text))
            rows.append(row)
            found.append(("+I", row))
            continue
        place = draw(st.integers(0, len(rows) - 1))
        old = rows[place]
        if action == "-":
            rows.pop(place)
            found.append(("-D", old))
            continue
        rows[place] = (old[0], draw(small), draw(small), draw(text))
        found += [("-U", old)] * (mode == "retract") + [("+U", rows[place])]
    return found, rows


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    found = {}
    for name in "lr":
        mode = draw(st.sampled_from(["append", "retract", "upsert"]))
        log, rows = draw(changes(mode))
        places = sorted(draw(st.sets(st.integers(1, max(1, len(log) - 1)), max_size=4)))
        batches = [log[a:b] for a, b in zip([0, *places], [*places, len(log)]) if a < b]
        found[name] = (mode, batches, rows)
    return found


def create(env: StreamExecutionEnvironment, t_env: StreamTableEnvironment, name: str, mode: str, batches: Any) -> None:
    third = "w" if name == "r" else "v"
    names = ["id", "k", third, "s"]
    types = Types.ROW_NAMED(names, [Types.INT(), Types.INT(), Types.INT(), Types.STRING()])
    steps = []
    for batch in batches:
        rows = [Row.of_kind(RowKind.from_short_string(kind), *row) for kind, row in batch]
        for row in rows:
            row.set_field_names(names)
        steps.append(Batch(rows))
    stream = env.from_source(ScriptedSource(steps, output_type=types), None, name)
    builder = Schema.new_builder().column("id", "INT NOT NULL").column("k", "INT").column(third, "INT")
    builder = builder.column("s", "STRING")
    if mode != "append":
        builder = builder.primary_key("id")
    modes = {"append": ChangelogMode.insert_only(), "retract": ChangelogMode.all(), "upsert": ChangelogMode.upsert()}
    t_env.create_temporary_view(name, t_env.from_changelog_stream(stream, builder.build(), modes[mode]))


async def continuous(found: dict[str, Any], query: str, parallelism: int) -> list[Row]:
    env = StreamExecutionEnvironment.get_execution_environment(clock=VirtualClock())
    env.set_parallelism(parallelism)
    t_env = StreamTableEnvironment.create(env)
    for name, (mode, batches, _) in found.items():
        create(env, t_env, name, mode, batches)
    async with t_env.to_changelog_stream(t_env.sql_query(query)).execute_and_collect() as results:
        return [row async for row in results]


def in_sqlite(found: dict[str, Any], query: str) -> Counter[Any]:
    db = sqlite3.connect(":memory:")
    for name, (_, _, rows) in found.items():
        db.execute(f"CREATE TABLE {name} (id INT, k INT, {'w' if name == 'r' else 'v'} INT, s TEXT)")
        db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
    return Counter(tuple(row) for row in db.execute(query))


def folded(rows: list[Row]) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[tuple(row)] += 1 if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    return {row: n for row, n in counts.items() if n}


@pytest.mark.parametrize("query", QUERIES)
@given(found=tables(), parallelism=st.integers(1, 4))
def test_a_query_comes_to_what_sqlite_gives(query: str, found: dict[str, Any], parallelism: int) -> None:
    rows = asyncio.run(continuous(found, query, parallelism))
    note("\n".join(map(str, rows)))
    assert folded(rows) == in_sqlite(found, query)
