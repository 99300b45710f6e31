"""What a conversion adds to the graph, and that objects pass through it as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, Types, ValidationException, WatermarkStrategy
from streamline.table import Change, ChangelogMode, DataTypes, Schema, StreamTableEnvironment, col

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


class Click(msgspec.Struct):
    visitor: str
    n: int


class Other(msgspec.Struct):
    visitor: str
    n: int


@dataclass
class Data:
    visitor: str
    n: int


class Named(NamedTuple):
    visitor: str
    n: int


class Typed(TypedDict):
    visitor: str
    n: int


class KeywordOnly(msgspec.Struct, kw_only=True):
    visitor: str
    n: int


CLICKS = [Click("a", 1), Click("b", 2), Click("a", 3)]


def envs() -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, StreamTableEnvironment.create(env)


def added(env: StreamExecutionEnvironment, build: Callable[[], Any]) -> list[str]:
    """Names of the operators that a call adds to the graph."""
    before = set(env.graph.nodes)
    build()
    return [n.name for i, n in env.graph.nodes.items() if i not in before]


async def rows(stream: Any) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


def timed(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection(CLICKS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)).with_timestamp_assigner(
            lambda click, _: click.n * 1000
        )
    )


SOURCE_TIME = (
    Schema.new_builder().column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)").watermark("rowtime", "SOURCE_WATERMARK()")
).build()
OWN_TIME = (
    Schema.new_builder()
    .column_by_expression("rowtime", "TO_TIMESTAMP_LTZ(n, 0)")
    .watermark("rowtime", "rowtime - INTERVAL '1' SECOND")
).build()


# -- into a table --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [(), (SOURCE_TIME,), (OWN_TIME,), (col("n"), col("visitor").alias("v"))])
def test_the_way_in_adds_nothing(how: tuple[Any, ...]) -> None:
    env, t_env = envs()
    stream = timed(env) if how and how[0] is SOURCE_TIME else env.from_collection(CLICKS)
    assert added(env, lambda: t_env.from_data_stream(stream, *how)) == []
    assert added(env, lambda: t_env.create_temporary_view("v", stream, *how)) == []
    log = env.from_elements(Row.of_kind(RowKind.INSERT, "a", 1))
    assert added(env, lambda: t_env.from_changelog_stream(log)) == []
    assert added(env, lambda: t_env.sql_query("SELECT n + 1 FROM v")) == []


# -- out of a table ------------------------------------------------------------------------------------------------


async def test_the_same_class_adds_nothing_and_gives_the_same_objects() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS))
    assert added(env, lambda: t_env.to_data_stream(table, Click)) == []
    found = await rows(t_env.to_data_stream(table, Click))
    assert len(found) == 3
    assert all(a is b for a, b in zip(found, CLICKS))


async def test_a_filter_between_keeps_the_objects() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS)).where(col("n") > 1)
    assert len(added(env, lambda: t_env.to_data_stream(table, Click))) == 1
    found = await rows(t_env.to_data_stream(table, Click))
    assert len(found) == 2
    assert found[0] is CLICKS[1]
    assert found[1] is CLICKS[2]


async def test_a_stream_with_timestamps_that_a_table_does_not_carry() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(timed(env))
    stream = t_env.to_data_stream(table, Click)
    assert stream.event_time == "no"
    found = await rows(stream)
    assert all(a is b for a, b in zip(found, CLICKS))


@pytest.mark.parametrize(
    ("elements", "type_info"),
    [
        ([("a", 1), ("b", 2)], tuple[str, int]),
        ([Data("a", 1)], Data),
        ([Named("a", 1)], Named),
        ([{"visitor": "a", "n": 1}], Typed),
        ([7, 8], int),
        ([Row(visitor="a", n=1)], Types.ROW_NAMED(["visitor", "n"], [Types.STRING(), Types.LONG()])),
    ],
)
async def test_every_kind_of_element_passes_as_it_is(elements: list[Any], type_info: Any) -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(elements, type_info))
    found = await rows(t_env.to_data_stream(table, type_info))
    assert all(a is b for a, b in zip(found, elements, strict=True))


async def test_named_rows_leave_as_the_same_rows() -> None:
    env, t_env = envs()
    given = [Row(visitor="a", n=1), Row(visitor="b", n=2)]
    table = t_env.from_data_stream(env.from_collection(given))
    found = await rows(t_env.to_data_stream(table))
    assert all(a is b for a, b in zip(found, given, strict=True))


@pytest.mark.parametrize("target", [Other, Data, Named, KeywordOnly, Typed])
async def test_another_class_is_built_by_one_projection(target: Any) -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS))
    assert len(added(env, lambda: t_env.to_data_stream(table, target))) == 1
    found = await rows(t_env.to_data_stream(table, target))
    assert found == [target(visitor=c.visitor, n=c.n) for c in CLICKS]
    expected = dict if target is Typed else target
    assert all(type(x) is expected for x in found)


async def test_columns_find_fields_by_name() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS)).select(col("n"), col("visitor"))
    assert await rows(t_env.to_data_stream(table, Other)) == [Other(c.visitor, c.n) for c in CLICKS]


def test_some_names_agree_but_not_all() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS)).select(col("n"), col("visitor").alias("who"))
    with pytest.raises(ValidationException) as e:
        t_env.to_data_stream(table, Other)
    assert "who" in str(e.value)
    assert "visitor" in str(e.value)
    fewer = table.select(col("n"))
    with pytest.raises(ValidationException, match="visitor"):
        t_env.to_data_stream(fewer, Other)


async def test_a_declared_narrower_type_is_no_pass_through() -> None:
    env, t_env = envs()
    schema = Schema.new_builder().column("visitor", "STRING").column("n", "INT").build()
    table = t_env.from_data_stream(env.from_collection(CLICKS), schema)
    found = await rows(t_env.to_data_stream(table, Click))
    assert found == CLICKS
    assert not any(a is b for a, b in zip(found, CLICKS))


async def test_rows_and_changes_are_built_by_one_projection() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS))
    assert len(added(env, lambda: t_env.to_data_stream(table))) == 1
    assert len(added(env, lambda: t_env.to_changelog_stream(table))) == 1
    assert len(added(env, lambda: t_env.to_changelog_stream(table, Click))) == 1
    (first, *_) = await rows(t_env.to_changelog_stream(table))
    assert (first.kind, first["visitor"], first.n, first[1]) == (RowKind.INSERT, "a", 1, 1)
    assert first.get_field_names() == ["visitor", "n"]
    (change, *_) = await rows(t_env.to_changelog_stream(table, Click))
    assert change == Change(RowKind.INSERT, Click("a", 1))


def test_a_query_is_one_operator_for_each_thing_that_holds_state() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("clicks", env.from_collection(CLICKS), OWN_TIME)
    counts = t_env.sql_query("SELECT visitor, COUNT(*) AS c FROM clicks WHERE n > 0 GROUP BY visitor")
    operators = added(env, lambda: t_env.to_changelog_stream(counts))
    assert operators == ["GroupAggregate", "to_changelog_stream(default_catalog.default_database.clicks)"]
    windows = t_env.sql_query(
        "SELECT visitor, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(rowtime), INTERVAL '1' SECOND)) "
        "GROUP BY visitor, window_start, window_end"
    )
    operators = added(env, lambda: t_env.to_data_stream(windows))
    assert operators == [
        "WatermarkAssigner",
        "WindowAggregate",
        "to_data_stream(default_catalog.default_database.clicks)",
    ]


def test_an_upsert_log_is_normalised() -> None:
    env, t_env = envs()
    log = env.from_elements(Row.of_kind(RowKind.INSERT, "a", 1))
    schema = Schema.new_builder().column("k", "STRING NOT NULL").column("v", "BIGINT").primary_key("k").build()
    table = t_env.from_changelog_stream(log, schema, ChangelogMode.upsert())
    operators = added(env, lambda: t_env.to_changelog_stream(table))
    assert operators[0] == "ChangelogNormalize"


async def test_rows_that_a_user_changes_are_the_users_own() -> None:
    """A Row may share its values with the state of the query; a field that is set is set in the Row alone."""
    env, t_env = envs()
    t_env.create_temporary_view("clicks", env.from_collection(CLICKS))
    counts = t_env.sql_query("SELECT visitor, COUNT(*) AS n, SUM(n) AS total FROM clicks GROUP BY visitor")

    def spoil(row: Row) -> Row:
        seen = Row.of_kind(row.kind, *row)
        row["total"] = -1
        row.kind = RowKind.INSERT
        return seen

    assert list(map(str, await rows(t_env.to_changelog_stream(counts).map(spoil)))) == [
        "+I[a, 1, 1]",
        "+I[b, 1, 2]",
        "-U[a, 1, 1]",
        "+U[a, 2, 4]",
    ]


async def test_what_the_type_of_a_stream_tells_the_next_table() -> None:
    env, t_env = envs()
    out = t_env.to_data_stream(t_env.from_data_stream(env.from_collection(CLICKS)).select(col("n") * 2))
    again = t_env.from_data_stream(out)
    assert [x.summary(True) for x in again.get_schema().get_field_data_types()] == ["BIGINT NOT NULL"]
    assert [tuple(r) for r in await rows(t_env.to_data_stream(again))] == [(2,), (4,), (6,)]


async def test_plain_tuples_and_dicts() -> None:
    env, t_env = envs()
    table = t_env.from_data_stream(env.from_collection(CLICKS[:1]))
    assert await rows(t_env.to_data_stream(table, tuple)) == [("a", 1)]
    assert await rows(t_env.to_data_stream(table, dict)) == [{"visitor": "a", "n": 1}]
    assert await rows(t_env.to_data_stream(table.select(col("n")), int)) == [1]
    assert await rows(t_env.to_data_stream(table.select(col("n")), DataTypes.DOUBLE())) == [1.0]


async def test_a_union_is_read_as_one_table() -> None:
    env, t_env = envs()
    both = env.from_elements(("a", 1)).union(env.from_elements(("b", 2)))
    table = t_env.from_data_stream(both)
    assert sorted(str(r) for r in await rows(t_env.to_data_stream(table))) == ["+I[a, 1]", "+I[b, 2]"]


async def test_kinds_of_rows_pass_unchecked_through_from_data_stream() -> None:
    env, t_env = envs()
    given = [Row.of_kind(RowKind.DELETE, "a", 1)]
    table = t_env.from_data_stream(
        env.from_collection(given, Types.ROW_NAMED(["visitor", "n"], [Types.STRING(), Types.LONG()]))
    )
    assert [str(r) for r in await rows(t_env.to_data_stream(table))] == ["-D[a, 1]"]


async def test_event_time_in_a_metadata_column() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("clicks", timed(env), SOURCE_TIME)
    table = t_env.sql_query("SELECT visitor, n, rowtime FROM clicks")
    schema = (
        Schema.new_builder()
        .column("visitor", "STRING")
        .column("n", "BIGINT")
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .build()
    )
    stream = t_env.to_changelog_stream(table, schema)
    assert stream.event_time == "yes"
    found = await rows(stream.process(lambda row, ctx: (tuple(row), ctx.timestamp())))
    assert found == [(("a", 1), 1000), (("b", 2), 2000), (("a", 3), 3000)]
