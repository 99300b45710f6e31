"""None in a column that is NOT NULL fails the job by record and column, whatever is done with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from streamline import StreamExecutionEnvironment
from streamline.errors import TableException
from streamline.table import StreamTableEnvironment
from streamline.table.expr.entry import present, without_guards


class Struct(msgspec.Struct):
    k: str
    n: int = 1
    d: float = 1.0
    b: bool = True


class Named(NamedTuple):
    k: str
    n: int = 1
    d: float = 1.0
    b: bool = True


async def query(values: list[Any], sql: str) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    t_env.create_temporary_view("t", env.from_collection(values))
    async with t_env.to_changelog_stream(t_env.sql_query(sql)).execute_and_collect() as it:
        return [tuple(x) async for x in it]


@pytest.mark.parametrize("make", [Struct, Named])
@pytest.mark.parametrize(
    ("column", "type_", "select"),
    [
        ("n", "BIGINT", "SELECT k, n FROM t"),
        ("n", "BIGINT", "SELECT n + 1 FROM t"),
        ("n", "BIGINT", "SELECT k FROM t WHERE n > 1"),
        ("n", "BIGINT", "SELECT k, SUM(n) FROM t GROUP BY k"),
        ("n", "BIGINT", "SELECT n, COUNT(*) FROM t GROUP BY n"),
        ("d", "DOUBLE", "SELECT * FROM t"),
        ("d", "DOUBLE", "SELECT d * 2 FROM t"),
        ("d", "DOUBLE", "SELECT k FROM t WHERE d > 1"),
        ("b", "BOOLEAN", "SELECT b FROM t"),
        ("b", "BOOLEAN", "SELECT NOT b FROM t"),
    ],
)
async def test_none_is_told_by_record_and_column(make: Any, column: str, type_: str, select: str) -> None:
    assert len(await query([make("a"), make("b")], select)) >= 0
    wrong = make("b", **{column: None})
    with pytest.raises(TableException, match=f"None does not fit `{column} {type_} NOT NULL`") as failure:
        await query([make("a"), wrong], select)
    assert f"record: {wrong!r}" in failure.value.__notes__


async def test_text_may_be_null_as_in_flink() -> None:
    missing: Any = None
    assert await query([Struct(missing)], "SELECT k, UPPER(k) FROM t") == [(None, None)]


async def test_other_errors_stay_what_they_are() -> None:
    wrong: Any = "x"
    with pytest.raises(TypeError):
        await query([Struct("a", wrong)], "SELECT n + 1 FROM t")


def test_the_guard() -> None:
    source = present("r.a", 3, "read_0")
    assert without_guards(f"({source} + 1)") == "(r.a + 1)"
    scope = {"r": type("R", (), {"a": 7}), "read_0": lambda v: ("none", v)}
    assert eval(source, scope) == 7
    scope["r"].a = None
    assert eval(source, scope) == ("none", None)
