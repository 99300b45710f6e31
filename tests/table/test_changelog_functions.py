"""Changes as rows and rows as changes: TO_CHANGELOG and FROM_CHANGELOG by the Table API."""

from __future__ import annotations

import pytest

from streamline import StreamExecutionEnvironment, Types, ValidationException
from streamline.table import StreamTableEnvironment, Table, col, descriptor, lit, map_
from streamline.testing.clock import VirtualClock

PAID = [("ann", 3), ("bob", 1), ("ann", 2)]


def sums() -> tuple[StreamTableEnvironment, Table]:
    env = StreamExecutionEnvironment(clock=VirtualClock())
    t_env = StreamTableEnvironment.create(env)
    stream = env.from_collection(PAID, Types.TUPLE([Types.STRING(), Types.INT()]))
    paid = t_env.from_data_stream(stream).alias("who", "n")
    return t_env, paid.group_by(col("who")).select(col("who"), col("n").sum.alias("s"))


async def rows(t_env: StreamTableEnvironment, table: Table) -> list[tuple[object, ...]]:
    async with t_env.to_data_stream(table).execute_and_collect() as found:
        return [tuple(r) async for r in found]


async def changes(t_env: StreamTableEnvironment, table: Table) -> list[tuple[object, ...]]:
    async with t_env.to_changelog_stream(table).execute_and_collect() as found:
        return [(r.get_row_kind().short_string, *r) async for r in found]


CHANGES = [
    ("INSERT", "ann", 3),
    ("INSERT", "bob", 1),
    ("UPDATE_BEFORE", "ann", 3),
    ("UPDATE_AFTER", "ann", 5),
]


async def test_changes_become_rows_with_their_kind() -> None:
    t_env, table = sums()
    assert await rows(t_env, table.to_changelog()) == CHANGES


async def test_kinds_have_codes_or_are_left_out() -> None:
    t_env, table = sums()
    coded = table.to_changelog(
        descriptor("what").as_argument("op"),
        map_("INSERT, UPDATE_AFTER", "put").as_argument("op_mapping"),
    )
    assert coded.get_schema().get_field_names() == ["what", "who", "s"]
    assert await rows(t_env, coded) == [("put", "ann", 3), ("put", "bob", 1), ("put", "ann", 5)]


async def test_there_and_back() -> None:
    t_env, table = sums()
    back = table.to_changelog().from_changelog()
    assert await changes(t_env, back) == [
        ("+I", "ann", 3),
        ("+I", "bob", 1),
        ("-U", "ann", 3),
        ("+U", "ann", 5),
    ]
    counted = back.select(col("s").sum.alias("s"))
    assert (await changes(t_env, counted))[-1] == ("+U", 6)


async def test_a_code_without_a_meaning_fails() -> None:
    t_env = StreamTableEnvironment.create(StreamExecutionEnvironment(clock=VirtualClock()))
    table = t_env.from_elements([("INSERT", 1), ("WEIRD", 2)]).alias("op", "n").from_changelog()
    with pytest.raises(Exception, match="Received invalid op code 'WEIRD'. Defined op codes are: \\[INSERT, DELETE"):
        await changes(t_env, table)


def test_what_makes_no_changelog_is_refused() -> None:
    _, table = sums()
    with pytest.raises(ValidationException, match="Unknown change operation: 'PUT'"):
        table.to_changelog(map_("PUT", "p").as_argument("op_mapping"))
    with pytest.raises(ValidationException, match="The op column 'op' does not exist"):
        table.from_changelog()
    with pytest.raises(ValidationException, match="must include UPDATE_BEFORE"):
        table.to_changelog().from_changelog(map_("u", "UPDATE_AFTER").as_argument("op_mapping"))
    with pytest.raises(ValidationException, match=r"Found duplicates: \[who\]"):
        table.to_changelog(descriptor("who").as_argument("op"))


async def test_updates_are_no_rows_to_read_codes_from() -> None:
    t_env, table = sums()
    updating = table.select(lit("INSERT").alias("op"), col("s"))
    with pytest.raises(Exception, match="doesn't support consuming update"):
        t_env.to_changelog_stream(updating.from_changelog())
