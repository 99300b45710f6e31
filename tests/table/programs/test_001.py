"""The programs of the second document: tuples, changelogs in and out, views, statement sets, deprecated forms."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, TableException, Types, ValidationException
from streamline.errors import StreamlineError
from streamline.table import (
    ChangelogMode,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    col,
)

from .common import NAME_AGE, PEOPLE, Person, envs, rows, texts

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


async def test_p23_settings_of_the_old_days() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.warns(DeprecationWarning, match="one planner"):
        settings = EnvironmentSettings.new_instance().use_blink_planner().in_streaming_mode().build()
    t_env = StreamTableEnvironment.create(env, settings)
    found = await rows(t_env.to_data_stream(t_env.from_data_stream(env.from_collection(PEOPLE))))
    assert sorted(texts(found)) == ["+I[Alice, 25]", "+I[Bob, 30]"]


async def test_p24_tuples() -> None:
    env, t_env = envs()
    t = t_env.from_data_stream(env.from_elements(("Alice", 25), ("Bob", 30)))
    assert "`f0` STRING,\n  `f1` BIGINT NOT NULL" in str(t.get_schema())
    assert texts(await rows(t_env.to_data_stream(t))) == ["+I[Alice, 25]", "+I[Bob, 30]"]


async def p25(people: Any = PEOPLE, schema: Schema = NAME_AGE) -> Any:
    env, t_env = envs()
    t = t_env.from_data_stream(env.from_collection(people), schema)
    return await rows(t_env.to_data_stream(t.where(col("age") > 25).select(col("name"))))


async def test_p25_by_position() -> None:
    assert texts(await p25()) == ["+I[Bob]"]


async def test_p25_another_number_of_columns() -> None:
    three = Schema.new_builder().column("name", "STRING").column("age", "INT").column("x", "INT").build()
    with pytest.raises(ValidationException) as e:
        await p25(schema=three)
    assert "[name, age, x]" in str(e.value)
    assert "[f0, f1]" in str(e.value)


async def test_p25_a_value_that_does_not_fit() -> None:
    with pytest.raises(TableException) as e:
        await p25([("Eve", 2**31)])
    text = "\n".join([str(e.value), *getattr(e.value, "__notes__", [])])
    assert "2147483648" in text
    assert "age INT" in text
    assert "('Eve', 2147483648)" in text


async def p26(schema: Any = None, mode: Any = None, query: str = "SELECT * FROM people") -> Any:
    env, t_env = envs()
    log = env.from_elements(Row.of(RowKind.INSERT, "Alice", 25), Row.of(RowKind.UPDATE_AFTER, "Alice", 26))
    args = [a for a in (schema, mode) if a is not None]
    t_env.create_temporary_view("people", t_env.from_changelog_stream(log, *args))
    return texts(await rows(t_env.to_changelog_stream(t_env.sql_query(query))))


SUMS = "SELECT name, SUM(age) AS total, COUNT(*) AS n FROM people GROUP BY name"
KEYED = Schema.new_builder().column("name", "STRING NOT NULL").column("age", "INT").primary_key("name").build()


async def test_p26_as_written() -> None:
    assert await p26() == ["+I[Alice, 25]", "+U[Alice, 26]"]
    assert await p26(NAME_AGE) == ["+I[Alice, 25]", "+U[Alice, 26]"]
    assert await p26(NAME_AGE, None, SUMS) == ["+I[Alice, 25, 1]", "-U[Alice, 25, 1]", "+U[Alice, 51, 2]"]


async def test_p26_as_meant() -> None:
    upsert = ChangelogMode.upsert()
    assert await p26(KEYED, upsert) == ["+I[Alice, 25]", "-U[Alice, 25]", "+U[Alice, 26]"]
    assert await p26(KEYED, upsert, SUMS) == ["+I[Alice, 25, 1]", "-D[Alice, 25, 1]", "+I[Alice, 26, 1]"]


async def test_p26_an_upsert_log_needs_a_key() -> None:
    with pytest.raises(TableException, match="UPDATE_AFTER but no UPDATE_BEFORE") as e:
        await p26(NAME_AGE, ChangelogMode.upsert())
    assert "primary key" in str(e.value)
    nullable = Schema.new_builder().column("name", "STRING").column("age", "INT").primary_key("name").build()
    with pytest.raises(ValidationException) as v:
        await p26(nullable, ChangelogMode.upsert())
    assert "Invalid primary key 'PK_name'. Column 'name' is nullable." in str(v.value)


async def test_p27_three_ways_out() -> None:
    env, t_env = envs()
    t = t_env.from_data_stream(env.from_collection(PEOPLE))
    assert texts(await rows(t_env.to_data_stream(t))) == ["+I[Alice, 25]", "+I[Bob, 30]"]
    assert await rows(t_env.to_data_stream(t, Person)) == [Person("Alice", 25), Person("Bob", 30)]
    assert texts(await rows(t_env.to_changelog_stream(t))) == ["+I[Alice, 25]", "+I[Bob, 30]"]


async def p28(schema: Schema, mode: Any = None) -> Any:
    env, t_env = envs()
    t_env.create_temporary_view("people", env.from_elements(("Alice", 25), ("Bob", 30), ("Alice", 26)), NAME_AGE)
    t = t_env.sql_query("SELECT name, COUNT(*) AS n FROM people GROUP BY name")
    return await rows(t_env.to_changelog_stream(t, schema, *([mode] if mode else [])))


def name_n(name: str, n: str, *key: str) -> Schema:
    b = Schema.new_builder().column("name", name).column("n", n)
    return (b.primary_key(*key) if key else b).build()


async def test_p28_another_type() -> None:
    for mode in (None, ChangelogMode.all()):
        found = await p28(name_n("STRING", "DECIMAL(20, 0)"), mode)
        assert texts(found) == ["+I[Alice, 1]", "+I[Bob, 1]", "-U[Alice, 1]", "+U[Alice, 2]"]
        assert type(found[0].n).__name__ == "Decimal"


async def test_p28_a_type_that_loses_digits() -> None:
    with pytest.raises(ValidationException) as e:
        await p28(name_n("STRING", "INT"))
    assert "Incompatible types for sink column 'n' at position 2." in str(e.value)
    assert "n: BIGINT NOT NULL" in str(e.value)


async def test_p28_modes() -> None:
    found = await p28(name_n("STRING NOT NULL", "BIGINT NOT NULL", "name"), ChangelogMode.upsert())
    assert texts(found) == ["+I[Alice, 1]", "+I[Bob, 1]", "+U[Alice, 2]"]
    with pytest.raises(TableException, match="doesn't support consuming update changes") as e:
        await p28(name_n("STRING", "BIGINT NOT NULL"), ChangelogMode.insert_only())
    assert "GroupAggregate" in str(e.value)


async def p29(*fields: Any) -> Any:
    env, t_env = envs()
    t_env.create_temporary_view("users", env.from_collection(PEOPLE), *fields)
    return texts(await rows(t_env.to_data_stream(t_env.sql_query("SELECT * FROM users WHERE age > 25"))))


async def test_p29_as_written() -> None:
    with pytest.raises(ValidationException) as e:
        await p29()
    text = "\n".join([str(e.value), *getattr(e.value, "__notes__", [])])
    assert "line 1, column 27" in text
    assert "Column 'age' not found in any table" in text
    assert "f0, f1" in text
    assert "Schema" in text


async def test_p29_as_meant() -> None:
    assert await p29(NAME_AGE) == ["+I[Bob, 30]"]
    assert await p29(col("name"), col("age")) == ["+I[Bob, 30]"]


async def test_p29_twice() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("users", env.from_collection(PEOPLE))
    with pytest.raises(ValidationException, match=r"Temporary table '.*users.*' already exists"):
        t_env.create_temporary_view("users", env.from_collection(PEOPLE))


async def two_sinks(schema: Any) -> Any:
    env, t_env = envs()
    await t_env.execute_sql("CREATE TABLE sink_table_1 (name STRING, age INT) WITH ('connector' = 'print')")
    await t_env.execute_sql("CREATE TABLE sink_table_2 (name STRING) WITH ('connector' = 'print')")
    how = () if schema is None else (schema,)
    table1 = t_env.from_data_stream(env.from_collection(PEOPLE), *how)
    return env, t_env, table1


async def test_p30_statement_set(capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env, table1 = await two_sinks(NAME_AGE)
    table2 = table1.filter(col("age") > 25).select(col("name"))
    statements = t_env.create_statement_set()
    statements.add_insert("sink_table_1", table1).add_insert("sink_table_2", table2).attach_as_datastream()
    assert len([n for n in env.graph.nodes.values() if n.kind == "source"]) == 1
    await env.execute("both sinks")
    out = capsys.readouterr().out.split("\n")
    assert [x for x in out if x != "+I[Bob]"] == ["+I[Alice, 25]", "+I[Bob, 30]", ""]
    assert out.count("+I[Bob]") == 1
    statements.attach_as_datastream()
    with pytest.raises(StreamlineError, match=r"No operators defined in streaming topology. Cannot execute\."):
        await env.execute()


async def test_p30_refused() -> None:
    _, t_env, table1 = await two_sinks(None)
    statements = t_env.create_statement_set()
    with pytest.raises(ValidationException, match="nowhere"):
        statements.add_insert("nowhere", table1)
    statements.add_insert("sink_table_1", table1.alias("name", "age"))
    with pytest.raises(ValidationException, match="Incompatible types for sink column 'age' at position 2"):
        statements.attach_as_datastream()


async def test_p31_deprecated_forms() -> None:
    env, t_env = envs()
    t = t_env.from_data_stream(env.from_collection(PEOPLE), col("name"), col("age"))
    n = t.group_by(col("name")).select(col("name"), col("age").count.alias("n"))
    row = Types.ROW([Types.STRING(), Types.LONG()])
    with pytest.warns(DeprecationWarning, match="to_data_stream") as caught:
        appended = t_env.to_append_stream(t, row)
    assert len(caught) == 1
    with pytest.warns(DeprecationWarning, match="to_changelog_stream") as caught:
        retracted = t_env.to_retract_stream(n, row)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert texts(await rows(appended)) == ["+I[Alice, 25]", "+I[Bob, 30]"]
    assert [(flag, str(r)) for flag, r in await rows(retracted)] == [(True, "+I[Alice, 1]"), (True, "+I[Bob, 1]")]
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(TableException, match="toAppendStream doesn't support consuming update changes"),
    ):
        t_env.to_append_stream(n, row)
    with pytest.warns(DeprecationWarning):
        people = t_env.to_append_stream(t, Person)
    assert await rows(people) == [Person("Alice", 25), Person("Bob", 30)]


async def test_p31_more_fields_than_the_tuple_has() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException, match="3 fields"):
        t_env.from_data_stream(env.from_collection(PEOPLE), col("a"), col("b"), col("c"))
    t = t_env.from_data_stream(env.from_collection(PEOPLE), col("a"))
    assert texts(await rows(t_env.to_data_stream(t))) == ["+I[Alice]", "+I[Bob]"]
