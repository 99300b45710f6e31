"""Continuous queries come to what SQLite gives for their input as tables, however this was cut, came or was spread.

Inputs are random changelogs: inserts only, with retractions, or upserts by a key. Every query runs over all of them.
A global aggregate over nothing has no row here, as in Flink; the condition on it makes both agree.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamline.table import ChangelogMode
from tests.properties.tables import continuous, folded, in_sqlite, tables, upserted

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
#: Queries whose first columns are a key of the result: how many.
KEYED = {
    "SELECT k, COUNT(*), SUM(v) FROM l GROUP BY k": 1,
    "SELECT k, s, MAX(v) FROM l GROUP BY k, s": 2,
    "SELECT k, SUM(v) FROM l GROUP BY k HAVING COUNT(*) > 1": 1,
    "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id) AS n FROM l) WHERE n = 1": 1,
    "SELECT a.k, n, m FROM (SELECT k, COUNT(*) AS n FROM l WHERE k IS NOT NULL GROUP BY k) AS a "
    "LEFT JOIN (SELECT k, MAX(w) AS m FROM r GROUP BY k) AS b ON a.k = b.k": 1,
    "SELECT n, k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY c DESC, k) AS n FROM "
    "(SELECT k, COUNT(*) AS c FROM l GROUP BY k)) WHERE n <= 3": 1,
}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": 3,
}
RESTARTS = {
    "execution.checkpointing.interval": "5 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 20,
    "restart-strategy.fixed-delay.delay": "1 ms",
}


#: There are many queries; each gets a part of the profile's examples.
SOME = settings(max_examples=max(10, settings().max_examples // 3))


@pytest.mark.parametrize("query", QUERIES)
@SOME
@given(found=tables(), parallelism=st.integers(1, 4))
def test_a_query_comes_to_what_sqlite_gives(query: str, found: dict[str, Any], parallelism: int) -> None:
    rows = asyncio.run(continuous(found, query, parallelism))
    note("\n".join(map(str, rows)))
    assert folded(rows) == in_sqlite(found, query)


@pytest.mark.parametrize("query", QUERIES[1::4])
@SOME
@given(data=st.data(), found=tables(), parallelism=st.integers(1, 3), rocks=st.booleans())
def test_nothing_is_lost_or_counted_twice_where_a_source_fails(
    query: str, data: st.DataObject, found: dict[str, Any], parallelism: int, rocks: bool
) -> None:
    fails = {name: data.draw(st.sets(st.integers(0, 4), max_size=2)) for name in found}
    options = {**RESTARTS, **({"state.backend.type": "rocksdb"} if rocks else {})}
    rows = asyncio.run(continuous(found, query, parallelism, options=options, fails=fails))
    note("\n".join(map(str, rows)))
    assert folded(rows) == in_sqlite(found, query)


@pytest.mark.parametrize("query", [q for q in QUERIES if "GROUP BY" in q][::2])
@SOME
@given(found=tables(), parallelism=st.integers(1, 4))
def test_mini_batches_come_to_the_same(query: str, found: dict[str, Any], parallelism: int) -> None:
    rows = asyncio.run(continuous(found, query, parallelism, options=MINI_BATCH))
    note("\n".join(map(str, rows)))
    assert folded(rows) == in_sqlite(found, query)


@pytest.mark.parametrize("query", KEYED)
@given(found=tables(), parallelism=st.integers(1, 4))
def test_upserts_come_to_the_same(query: str, found: dict[str, Any], parallelism: int) -> None:
    rows = asyncio.run(continuous(found, query, parallelism, mode=ChangelogMode.upsert()))
    note("\n".join(map(str, rows)))
    assert upserted(rows, KEYED[query]) == in_sqlite(found, query)
