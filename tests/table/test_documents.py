"""Aggregates that gather values in a document: of JSON, and bitmaps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, TableException
from streamline._core.typeinfo import Types
from streamline.table import ChangelogMode, StreamTableEnvironment

NAMES = ["g", "k", "v"]
TYPES = Types.ROW_NAMED(NAMES, [Types.STRING(), Types.STRING(), Types.INT()])


async def last(query: str, *changes: tuple[Any, ...]) -> Any:
    """The row that a query over a table t of (g, k, v) comes to."""
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    rows = [Row.of_kind(RowKind.from_short_string(kind), *row) for kind, *row in changes]
    for row in rows:
        row.set_field_names(NAMES)
    stream = env.from_collection(rows, type_info=TYPES)
    t_env.create_temporary_view("t", t_env.from_changelog_stream(stream, None, ChangelogMode.all()))
    async with t_env.to_changelog_stream(t_env.sql_query(query)).execute_and_collect() as found:
        *_, row = [tuple(r) async for r in found]
    return row


A = [("+I", "x", "a", 1), ("+I", "x", "b", None), ("+I", "x", "c", 3)]


async def test_arrays_leave_nulls_out_unless_told() -> None:
    row = await last("SELECT JSON_ARRAYAGG(v), JSON_ARRAYAGG(v NULL ON NULL), JSON_ARRAYAGG(k) FROM t", *A)
    assert row == ("[1,3]", "[1,null,3]", '["a","b","c"]')


async def test_objects_have_nulls_unless_told() -> None:
    row = await last("SELECT JSON_OBJECTAGG(KEY k VALUE v), JSON_OBJECTAGG(KEY k VALUE v ABSENT ON NULL) FROM t", *A)
    assert [json.loads(x) for x in row] == [{"a": 1, "b": None, "c": 3}, {"a": 1, "c": 3}]


async def test_json_in_json_is_no_text() -> None:
    query = "SELECT JSON_ARRAYAGG(JSON_OBJECT(KEY 'v' VALUE v)), JSON_OBJECTAGG(KEY k VALUE JSON_ARRAY(v, 1)) FROM t"
    row = await last(query, ("+I", "x", "a", 1))
    assert [json.loads(x) for x in row] == [[{"v": 1}], {"a": [1, 1]}]


async def test_values_can_be_taken_back() -> None:
    changes = [*A, ("-D", "x", "a", 1), ("-U", "x", "c", 3), ("+U", "x", "c", 4)]
    row = await last("SELECT JSON_ARRAYAGG(v), JSON_OBJECTAGG(KEY k VALUE v) FROM t", *changes)
    assert [json.loads(x) for x in row] == [[4], {"b": None, "c": 4}]


@pytest.mark.parametrize(
    ("key", "message"), [("a", "the key 'a' is there twice"), (None, "JSON_OBJECTAGG: a key is NULL")]
)
async def test_keys_have_to_differ(key: str | None, message: str) -> None:
    with pytest.raises(TableException, match=message):
        await last("SELECT JSON_OBJECTAGG(KEY k VALUE v) FROM t", ("+I", "x", "a", 1), ("+I", "x", key, 2))


async def test_bitmaps_of_integers() -> None:
    query = (
        "SELECT BITMAP_TO_STRING(BITMAP_BUILD_AGG(v)), BITMAP_BUILD_CARDINALITY_AGG(v), "
        "BITMAP_BUILD_CARDINALITY_AGG(v) FILTER (WHERE k = 'z') FROM t"
    )
    values = [("+I", "x", "a", v) for v in (5, 1, 3, 5, None)]
    assert await last(query, *values) == ("{1,3,5}", 3, None)
    assert await last(query, *values, ("-D", "x", "a", 5), ("-D", "x", "a", 3)) == ("{1,5}", 2, None)


@pytest.mark.parametrize(("name", "expected"), [("AND", {2}), ("OR", {1, 2, 3}), ("XOR", {1, 2, 3})])
async def test_bitmaps_of_bitmaps(name: str, expected: set[int]) -> None:
    sets = {"x": {1, 2}, "y": {2, 3}, "z": {2}}
    changes = [("+I", g, "k", v) for g, values in sets.items() for v in sorted(values)]
    query = f"""SELECT BITMAP_TO_STRING(BITMAP_{name}_AGG(b)), BITMAP_{name}_CARDINALITY_AGG(b)
        FROM (SELECT g, BITMAP_BUILD_AGG(v) AS b FROM t GROUP BY g)"""
    assert await last(query, *changes) == ("{" + ",".join(map(str, sorted(expected))) + "}", len(expected))


async def test_aggregates_of_aggregates() -> None:
    query = "SELECT JSON_ARRAYAGG(n) FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) WHERE n > 1"
    assert await last(query, *A) == ("[3]",)
