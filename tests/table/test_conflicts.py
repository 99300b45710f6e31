"""Upserts into tables whose primary key is not what the query tells rows apart by."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import TableException
from streamline._core.declare import StateSpec
from streamline._operators.materialize import UpsertMaterialize, Upserts
from streamline.table import TableEnvironment
from streamline.testing.harness import OperatorHarness


@pytest.fixture
def t_env() -> TableEnvironment:
    return TableEnvironment.create()


async def insert(t_env: TableEnvironment, memory: Any, keys: str, key: str, query: str, clause: str = "") -> list[str]:
    """What comes out at a table of (k, n) with a primary key, for a query over the keys."""
    memory.rows["in"] = [(k,) for k in keys]
    await t_env.execute_sql("CREATE TABLE i (k STRING) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql(
        f"CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY ({key}) NOT ENFORCED) "
        "WITH ('connector'='memory', 'data'='o', 'mode'='upsert')"
    )
    await (await t_env.execute_sql(f"INSERT INTO o {query} {clause}")).wait()
    found: list[str] = memory.written["o"]
    return found


COUNTS = "SELECT k, COUNT(*) AS n FROM i GROUP BY k"


async def test_a_row_that_fails_a_filter_is_deleted(t_env: TableEnvironment, memory: Any) -> None:
    assert await insert(t_env, memory, "xx", "k", f"{COUNTS} HAVING COUNT(*) < 2") == ["+I['x', 1]", "-D['x', 1]"]


async def test_a_row_that_moves_to_another_key_is_deleted_at_the_old_one(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xx", "k, n", COUNTS)
    assert found == ["+I['x', 1]", "-D['x', 1]", "+U['x', 2]"]


async def test_the_latest_row_counts(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xyx", "n", COUNTS, "ON CONFLICT DO DEDUPLICATE")
    assert found == ["+I['x', 1]", "+U['y', 1]", "+I['x', 2]"]


async def test_the_latest_row_goes_and_the_one_before_is_seen(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xyy", "n", COUNTS, "ON CONFLICT DO DEDUPLICATE")
    assert found == ["+I['x', 1]", "+U['y', 1]", "+U['x', 1]", "+I['y', 2]"]


async def test_the_first_row_counts(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xyx", "n", COUNTS, "ON CONFLICT DO NOTHING")
    assert found == ["+I['x', 1]", "+U['y', 1]", "+I['x', 2]"]
    assert memory.written["o"].count("+I['y', 1]") == 0


async def test_a_conflict_is_an_error(t_env: TableEnvironment, memory: Any) -> None:
    with pytest.raises(TableException, match=r"two rows have the primary key \(n\) = 1 of table .*\.o': \('x', 1\)"):
        await insert(t_env, memory, "xy", "n", COUNTS, "ON CONFLICT DO ERROR")


async def test_two_rows_that_change_places_are_no_conflict(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xyx", "n", COUNTS, "ON CONFLICT DO ERROR")
    assert found == ["+I['x', 1]", "+U['y', 1]", "+I['x', 2]"]


async def test_inserts_only_need_no_state(t_env: TableEnvironment, memory: Any) -> None:
    found = await insert(t_env, memory, "xyx", "k", "SELECT k, 1 FROM i")
    assert found == ["+I['x', 1]", "+I['y', 1]", "+I['x', 1]"]


# -- the operators ---------------------------------------------------------------------------------------------------


async def test_upserts_across_batches() -> None:
    async with OperatorHarness(Upserts(lambda r: r[0])) as harness:
        assert await harness.run("+I a 1, -U a 1, +U a 2") == "+I a 1 | +U a 2"
        assert await harness.run("-U a 2 | +U a 3") == "-D a 2 | +U a 3"
        assert await harness.run("-U b 1, +U a 4, -D a 4") == "-D b 1 | +U a 4 | -D a 4"


def materialize(conflict: str = "DEDUPLICATE") -> UpsertMaterialize:
    spec = StateSpec(type=dict[tuple[str, int], tuple[tuple[str, int], int]], copy=dict.copy)
    return UpsertMaterialize(lambda r: r[0], lambda r: r, spec, conflict, lambda a, b: f"{a} {b}")


async def test_equal_rows_are_counted() -> None:
    async with OperatorHarness(materialize(), key=lambda r: r[0]) as harness:
        assert await harness.run("+I a 1, +I a 1, -D a 1 | -D a 1, -D a 1") == "+I a 1 | -D a 1"


async def test_rows_survive_a_restart() -> None:
    async with OperatorHarness(materialize(), key=lambda r: r[0]) as harness:
        await harness.run("+I a 1 | +I a 2")
        snapshot = await harness.snapshot()
        await harness.run("-D a 1 | -D a 2")
    async with OperatorHarness(materialize(), key=lambda r: r[0], restore=snapshot) as harness:
        assert await harness.run("-D a 2 | -D a 1") == "+U a 1 | -D a 1"
