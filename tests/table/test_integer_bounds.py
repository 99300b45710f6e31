"""Whole numbers that come into a table fit their column's type, or fail the job by name: Python's have no bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from streamline import DataStream, Row, StreamExecutionEnvironment, Types
from streamline.errors import TableException
from streamline.table import Schema, StreamTableEnvironment
from streamline.table.expr.entry import guarded, without_guards

BIG = 2**63


class Struct(msgspec.Struct):
    n: int


class Maybe(msgspec.Struct):
    n: int | None


class Named(NamedTuple):
    n: int


@dataclass
class Data:
    n: int


class Typed(TypedDict):
    n: int


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [tuple(x) for x in [x async for x in it]]


def tables(values: list[Any], type_info: Any = None, schema: Schema | None = None) -> StreamTableEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    stream = env.from_collection(values, type_info)
    t_env.create_temporary_view("t", *([stream] if schema is None else [stream, schema]))
    return t_env


async def query(t_env: StreamTableEnvironment, sql: str) -> list[Any]:
    return await rows(t_env.to_changelog_stream(t_env.sql_query(sql)))


MAKE: list[tuple[str, Callable[[int], Any], Any]] = [
    ("tuple", lambda n: (n,), Types.TUPLE([Types.LONG()])),
    ("Row", lambda n: Row(n=n), Types.ROW_NAMED(["n"], [Types.LONG()])),
    ("scalar", lambda n: n, int),
    ("Struct", Struct, Struct),
    ("Optional", Maybe, Maybe),
    ("NamedTuple", Named, Named),
    ("dataclass", Data, Data),
    ("TypedDict", lambda n: {"n": n}, Typed),
]


@pytest.mark.parametrize(("make", "kind"), [m[1:] for m in MAKE], ids=[m[0] for m in MAKE])
@pytest.mark.parametrize(
    "select",
    ["{}", "{} + 1", "ABS({})", "CAST({} AS STRING)", "CAST({} AS INT)", "SUM({})", "MAX({})", "COUNT(DISTINCT {})"],
)
@pytest.mark.parametrize("beyond", [BIG, -BIG - 5, 2**70])
async def test_a_number_beyond_64_bits_is_refused(make: Any, kind: Any, select: str, beyond: int) -> None:
    if select == "{}" and isinstance(make(1), Row):
        select = "{}, 1"  # alone it would go through as it came: see below
    column = "f0" if kind is int or getattr(kind, "kind", "") == "TUPLE" else "n"
    t_env = tables([make(1), make(beyond)], kind)
    with pytest.raises(TableException, match=f"{beyond} does not fit `{column} BIGINT`"):
        await query(t_env, f"SELECT {select.format(column)} FROM t")


async def test_the_reported_case_says_record_and_column() -> None:
    with pytest.raises(TableException, match=r"1180591620717411303424 does not fit `f0 BIGINT`") as failure:
        await query(tables([(2**70,)]), "SELECT f0 FROM t")
    assert failure.value.__notes__[0] == "record: (1180591620717411303424,)"


async def test_the_ends_of_the_range_are_in_it() -> None:
    t_env = tables([(BIG - 1,), (-BIG,)])
    assert await query(t_env, "SELECT f0 FROM t") == [(BIG - 1,), (-BIG,)]
    # Results wrap, as Flink's do: that is arithmetic, and not what came in.
    assert await query(t_env, "SELECT f0 + 1, f0 - 1 FROM t") == [(-BIG, BIG - 2), (-BIG + 1, BIG - 1)]
    assert await query(t_env, "SELECT f0 * 2 FROM t") == [(-2,), (0,)]


async def test_null_is_no_number() -> None:
    t_env = tables([Maybe(None), Maybe(3)], Maybe)
    assert await query(t_env, "SELECT n, n + 1 FROM t") == [(None, None), (3, 4)]


@pytest.mark.parametrize(
    ("info", "name", "bits"),
    [
        (Types.BYTE(), "TINYINT", 8),
        (Types.SHORT(), "SMALLINT", 16),
        (Types.INT(), "INT", 32),
        (Types.LONG(), "BIGINT", 64),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
async def test_each_integer_type_has_its_range(info: Any, name: str, bits: int, declared: bool) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    schema = Schema.new_builder().column("f0", name).build() if declared else None
    kind = Types.TUPLE([int]) if declared else Types.TUPLE([info])
    assert await query(tables([(low,), (high,)], kind, schema), "SELECT f0 FROM t") == [(low,), (high,)]
    for beyond in (low - 1, high + 1):
        with pytest.raises(TableException, match=f"{beyond} does not fit `f0 {name}`"):
            await query(tables([(beyond,)], kind, schema), "SELECT f0 FROM t")


class Nested(msgspec.Struct):
    many: list[int]
    keyed: dict[str, int]
    part: Struct


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (Nested([1, BIG], {}, Struct(1)), "many"),
        (Nested([], {"a": BIG}, Struct(1)), "keyed"),
        (Nested([], {}, Struct(BIG)), "part.n"),
    ],
)
async def test_numbers_within_lists_maps_and_rows_are_looked_at_too(value: Nested, column: str) -> None:
    good = Nested([1, 2], {"a": 1}, Struct(1))
    assert len(await query(tables([good], Nested), "SELECT many, keyed, part FROM t")) == 1
    with pytest.raises(TableException, match=f"{BIG} does not fit `{column} BIGINT`"):
        await query(tables([value], Nested), "SELECT many, keyed, part FROM t")


async def test_records_that_go_through_a_table_unread_stay_what_they_are() -> None:
    """Nothing of the record becomes a value of the table: the very object comes out, whatever is in it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    value = Struct(BIG)
    table = t_env.from_data_stream(env.from_collection([value]))
    async with t_env.to_data_stream(table, Struct).execute_and_collect() as it:
        (found,) = [x async for x in it]
        assert found is value


async def test_a_comparison_is_right_for_any_number() -> None:
    assert await query(tables([(1,), (2**70,), (-(2**70),)]), "SELECT 1 FROM t WHERE f0 > 5") == [(1,)]


def test_guards_are_taken_off_where_they_make_no_difference() -> None:
    one = guarded("r.a", 1, 64, "read_0", False)
    two = guarded("r['b (x)']", 2, 32, "read_1", False)
    assert without_guards(f"({one} * {two})") == "(r.a * r['b (x)'])"
    nullable = guarded("r.c", 3, 64, "read_2", True)
    assert without_guards(nullable) == nullable and without_guards("(x := 1)") == "(x := 1)"
    scope = {"r": type("R", (), {"a": 7}), "read_0": lambda v: ("beyond", v)}
    assert eval(one, scope) == 7
    scope["r"].a = 2**63
    assert eval(one, scope) == ("beyond", 2**63)
