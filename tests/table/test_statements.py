"""Every statement of SQL: what it gives, and its errors; some as Flink 2.3 was seen to answer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamline import Row, StreamExecutionEnvironment, TableException, ValidationException, WatermarkStrategy
from streamline.errors import SqlParserException, StreamlineError
from streamline.table import Schema, StreamTableEnvironment, TableEnvironment, TableResult

Rows = list[tuple[Any, ...]]


@pytest.fixture
def t_env() -> TableEnvironment:
    return TableEnvironment.create()


@pytest.fixture
def observed() -> StreamTableEnvironment:
    """The views `a` and `b` that Flink was watched with."""
    env = StreamExecutionEnvironment.get_execution_environment()
    t = StreamTableEnvironment.create(env)
    schema = (
        Schema.new_builder()
        .column("k", "STRING")
        .column("v", "INT")
        .column("sec", "BIGINT")
        .column_by_metadata("rt", "TIMESTAMP_LTZ(3)", "rowtime")
        .column_by_expression("pt", "PROCTIME()")
        .watermark("rt", "SOURCE_WATERMARK()")
        .build()
    )
    for name in "ab":
        data = env.from_collection([Row(k="x", sec=1, v=1)]).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r.sec * 1000)
        )
        t.create_temporary_view(name, t.from_data_stream(data, schema))
    return t


async def run(t: TableEnvironment, sql: str) -> Rows:
    result = await t.execute_sql(sql)
    async with result.collect() as it:
        return [tuple(r) async for r in it]


async def shown(t: TableEnvironment, sql: str) -> str:
    """As the observations were written down."""
    result: TableResult = await t.execute_sql(sql)
    names = result.get_resolved_schema().get_column_names()
    async with result.collect() as it:
        rows = "".join(f"{r};" for r in [str(r).replace("\n", "|") async for r in it])
    return f"{result.get_result_kind().value} [{', '.join(names)}] {rows}"


# -- as Flink 2.3 ----------------------------------------------------------------------------------------------------

COLUMNS = (
    "SUCCESS_WITH_CONTENT [name, type, null, key, extras, watermark] +I[k, STRING, true, null, null, null];"
    "+I[v, INT, true, null, null, null];+I[sec, BIGINT, true, null, null, null];"
    "+I[rt, TIMESTAMP_LTZ(3) *ROWTIME*, true, null, null, null];"
    "+I[pt, TIMESTAMP_LTZ(3) *PROCTIME*, false, null, null, null];"
)
OBSERVED = {
    "SHOW CATALOGS": "SUCCESS_WITH_CONTENT [catalog name] +I[default_catalog];",
    "SHOW DATABASES": "SUCCESS_WITH_CONTENT [database name] +I[default_database];",
    "SHOW TABLES": "SUCCESS_WITH_CONTENT [table name] +I[a];+I[b];",
    "SHOW VIEWS": "SUCCESS_WITH_CONTENT [view name] +I[a];+I[b];",
    "SHOW MODULES": "SUCCESS_WITH_CONTENT [module name] +I[core];",
    "SHOW FULL MODULES": "SUCCESS_WITH_CONTENT [module name, used] +I[core, true];",
    "SHOW USER FUNCTIONS": "SUCCESS_WITH_CONTENT [function name] ",
    "SHOW COLUMNS FROM a": COLUMNS,
    "DESCRIBE a": COLUMNS,
    "DESC a": COLUMNS,
    "SHOW CURRENT CATALOG": "SUCCESS_WITH_CONTENT [current catalog name] +I[default_catalog];",
    "SHOW CURRENT DATABASE": "SUCCESS_WITH_CONTENT [current database name] +I[default_database];",
    "SHOW JARS": "SUCCESS_WITH_CONTENT [jars] ",
    "DESCRIBE FUNCTION EXTENDED ARRAY_SORT": "SUCCESS_WITH_CONTENT [info name, info value] "
    "+I[is system function, true];+I[is temporary, false];+I[kind, SCALAR];+I[requirements, []];"
    "+I[is deterministic, true];+I[supports constant folding, true];",
    "SHOW TABLES LIKE 'a%'": "SUCCESS_WITH_CONTENT [table name] +I[a];",
    "USE CATALOG default_catalog": "SUCCESS [result] +I[OK];",
    "CREATE CATALOG c WITH ('type'='generic_in_memory')": "SUCCESS [result] +I[OK];",
    "DROP TABLE IF EXISTS nope": "SUCCESS [result] +I[OK];",
    "CREATE VIEW v1 AS SELECT k FROM a": "SUCCESS [result] +I[OK];",
    "CREATE TABLE q2 (a INT) WITH ('connector'='nope')": "SUCCESS [result] +I[OK];",
    "UNLOAD MODULE core": "SUCCESS [result] +I[OK];",
}
REFUSED: dict[str, tuple[type[Exception], str]] = {
    "SHOW CREATE VIEW a": (TableException, "SHOW CREATE VIEW is not supported for views registered by Table API."),
    "SHOW CREATE CATALOG default_catalog": (
        ValidationException,
        "Cannot obtain metadata information from Catalog default_catalog.",
    ),
    "SET": (TableException, "Unsupported SQL query! executeSql() only accepts a single SQL statement of type"),
    "SET 'a'='b'": (TableException, "SET belongs to a client's session: use t_env.get_config().set(key, value)"),
    "RESET": (TableException, "Unsupported SQL query!"),
    "CREATE TABLE q (a INT, PRIMARY KEY (a) ENFORCED) WITH ('connector'='blackhole')": (
        ValidationException,
        "A PRIMARY KEY is declared NOT ENFORCED",
    ),
    "CREATE TABLE q3 (ts STRING, WATERMARK FOR ts AS ts) WITH ('connector'='blackhole')": (
        ValidationException,
        "Invalid data type of time field for watermark definition. The field must be of type TIMESTAMP(p) or "
        "TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the time field type is STRING",
    ),
    "TRUNCATE TABLE a": (TableException, "TRUNCATE TABLE statement is not supported in streaming mode."),
    "DROP TABLE nope": (
        ValidationException,
        "Table with identifier 'default_catalog.default_database.nope' does not exist.",
    ),
    "DROP TABLE a": (ValidationException, "'default_catalog.default_database.a'"),
    "LOAD MODULE hive": (ValidationException, "Could not find any factory for identifier 'hive'"),
    "SELECT nofunc(1)": (ValidationException, "No match found for function signature nofunc(<NUMERIC>)"),
    "SELECT * FROM a /*+ OPTIONS('x'='y') */": (
        ValidationException,
        "View '`default_catalog`.`default_database`.`a`' cannot be enriched with new options. Hints can only be "
        "applied to tables.",
    ),
    "SELECT * FROM nope": (ValidationException, "Object 'nope' not found"),
    "SELECT foo FROM a": (ValidationException, "Column 'foo' not found in any table"),
    "SHOW JOBS": (TableException, "SHOW JOBS is not supported"),
    "SHOW PROCEDURES": (TableException, "has no procedures"),
    "DELETE FROM a WHERE k = 'x'": (ValidationException, "not supported in streaming mode"),
    "UPDATE a SET k = 'x'": (ValidationException, "not supported in streaming mode"),
}


@pytest.mark.parametrize("sql", OBSERVED)
async def test_observed(observed: StreamTableEnvironment, sql: str) -> None:
    assert await shown(observed, sql) == OBSERVED[sql]


@pytest.mark.parametrize("sql", REFUSED)
async def test_refused(observed: StreamTableEnvironment, sql: str) -> None:
    kind, message = REFUSED[sql]
    with pytest.raises(kind, match=re.escape(message)):
        await observed.execute_sql(sql)


async def test_a_table_as_observed(observed: StreamTableEnvironment) -> None:
    ok = "SUCCESS [result] +I[OK];"
    t = observed
    made = "CREATE TABLE q4 (a INT, PRIMARY KEY(a) NOT ENFORCED) WITH ('connector'='print','standard-error'='true')"
    assert await shown(t, made) == ok
    assert (await run(t, "SHOW CREATE TABLE q4"))[0][0].replace("\n", "|") == (
        "CREATE TABLE `default_catalog`.`default_database`.`q4` (|  `a` INT NOT NULL,|  CONSTRAINT `PK_a` PRIMARY KEY "
        "(`a`) NOT ENFORCED|)|WITH (|  'connector' = 'print',|  'standard-error' = 'true'|)|"
    )
    assert await shown(t, "ALTER TABLE q4 ADD (b STRING COMMENT 'x' FIRST)") == ok
    assert await shown(t, "DESCRIBE q4") == (
        "SUCCESS_WITH_CONTENT [name, type, null, key, extras, watermark, comment] "
        "+I[b, STRING, true, null, null, null, x];+I[a, INT, false, PRI(a), null, null, null];"
    )
    assert await shown(t, "ALTER TABLE q4 RENAME a TO aa") == ok
    assert await shown(t, "ALTER TABLE q4 SET ('standard-error'='false')") == ok
    assert await shown(t, "ALTER TABLE q4 RESET ('standard-error')") == ok
    assert (await run(t, "SHOW CREATE TABLE q4"))[0][0] == (
        "CREATE TABLE `default_catalog`.`default_database`.`q4` (\n  `b` STRING COMMENT 'x',\n  `aa` INT NOT NULL,\n"
        "  CONSTRAINT `PK_aa` PRIMARY KEY (`aa`) NOT ENFORCED\n)\nWITH (\n  'connector' = 'print'\n)\n"
    )


# -- tables ----------------------------------------------------------------------------------------------------------


async def test_insert_and_select(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1), ("y", 2), ("x", 3)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql("CREATE TABLE o (k STRING, v BIGINT) WITH ('connector'='memory', 'data'='out')")
    result = await t_env.execute_sql("INSERT INTO o SELECT k, v + 1 FROM i")
    assert result.get_resolved_schema().get_column_names() == ["default_catalog.default_database.o"]
    assert result.get_job_client() is not None
    await result.wait()
    assert memory.written["out"] == ["+I['x', 2]", "+I['y', 3]", "+I['x', 4]"]
    async with result.collect() as it:
        assert [tuple(r) async for r in it] == [(-1,)]
    assert await run(t_env, "SELECT v FROM i WHERE k = 'x'") == [(1,), (3,)]
    values = await t_env.execute_sql("INSERT INTO o VALUES ('z', 9), (NULL, CAST(NULL AS BIGINT))")
    await values.wait()
    assert memory.written["out"][3:] == ["+I['z', 9]", "+I[None, None]"]


async def test_insert_with_columns(t_env: TableEnvironment, memory: Any) -> None:
    await t_env.execute_sql("CREATE TABLE o (a INT, b STRING, c INT) WITH ('connector'='memory', 'data'='out')")
    await (await t_env.execute_sql("INSERT INTO o (c, a) VALUES (3, 1)")).wait()
    assert memory.written["out"] == ["+I[1, None, 3]"]
    for sql, message in {
        "INSERT INTO o (c, nope) VALUES (3, 1)": "nope",
        "INSERT INTO o (c, c) VALUES (3, 1)": "c",
        "INSERT INTO o (c) VALUES (3, 1)": "Number of INSERT target columns",
        "INSERT INTO o VALUES (1, 'x')": "Different number of columns",
        "INSERT INTO o VALUES ('a', 'x', 1)": "Incompatible types for sink column 'a' at position 1",
        "INSERT INTO nope VALUES (1)": "nope",
    }.items():
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(sql)


async def test_insert_into_a_partition(t_env: TableEnvironment, memory: Any) -> None:
    await t_env.execute_sql(
        "CREATE TABLE o (a INT, d STRING, b STRING) PARTITIONED BY (d) WITH ('connector'='memory', 'data'='out')"
    )
    await (await t_env.execute_sql("INSERT INTO o PARTITION (d = '2024-05-01') SELECT 1, 'x'")).wait()
    await (await t_env.execute_sql("INSERT INTO o PARTITION (d = '2024-05-02') (b) SELECT 'y'")).wait()
    assert memory.written["out"] == ["+I[1, '2024-05-01', 'x']", "+I[None, '2024-05-02', 'y']"]
    with pytest.raises(ValidationException, match="nope"):
        await t_env.execute_sql("INSERT INTO o PARTITION (nope = '1') SELECT 1, 'x'")
    with pytest.raises((ValidationException, TableException), match="OVERWRITE"):
        await t_env.execute_sql("INSERT OVERWRITE o SELECT 1, 'x', 'y'")


async def test_hints_of_options(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["one"], memory.rows["two"] = [(1,)], [(2,)]
    await t_env.execute_sql("CREATE TABLE i (v INT) WITH ('connector'='memory', 'data'='one')")
    await t_env.execute_sql("CREATE TABLE o (v INT) WITH ('connector'='memory', 'data'='out')")
    assert await run(t_env, "SELECT * FROM i") == [(1,)]
    assert await run(t_env, "SELECT * FROM i /*+ OPTIONS('data'='two') */") == [(2,)]
    await (await t_env.execute_sql("INSERT INTO o /*+ OPTIONS('data'='other') */ SELECT * FROM i")).wait()
    assert (memory.written["out"], memory.written["other"]) == ([], ["+I[1]"])
    t_env.get_config().set("table.dynamic-table-options.enabled", "false")
    with pytest.raises(ValidationException, match="table.dynamic-table-options.enabled"):
        await run(t_env, "SELECT * FROM i /*+ OPTIONS('data'='two') */")


async def test_computed_and_metadata_columns(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [(1, 2), (3, 4)]
    await t_env.execute_sql(
        """CREATE TABLE i (
             a INT NOT NULL COMMENT 'the first', b INT, s AS a + b, w INT METADATA FROM 'width' VIRTUAL,
             width BIGINT METADATA,
             ts AS TO_TIMESTAMP_LTZ(a, 0), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
           ) COMMENT 'numbers' WITH ('connector'='memory', 'data'='in')"""
    )
    assert await run(t_env, "SELECT s, w, width FROM i") == [(3, 2, 2), (7, 2, 2)]
    assert await run(t_env, "DESCRIBE i") == [
        ("a", "INT", False, None, None, None, "the first"),
        ("b", "INT", True, None, None, None, None),
        ("s", "INT", True, None, "AS a + b", None, None),
        ("w", "INT", True, None, "METADATA FROM 'width' VIRTUAL", None, None),
        ("width", "BIGINT", True, None, "METADATA", None, None),
        (
            "ts",
            "TIMESTAMP_LTZ(3) *ROWTIME*",
            True,
            None,
            "AS TO_TIMESTAMP_LTZ(a, 0)",
            "ts - INTERVAL '1' SECOND",
            None,
        ),
    ]
    assert (await run(t_env, "SHOW CREATE TABLE i"))[0][0] == (
        "CREATE TABLE `default_catalog`.`default_database`.`i` (\n  `a` INT NOT NULL COMMENT 'the first',\n"
        "  `b` INT,\n  `s` AS a + b,\n  `w` INT METADATA FROM 'width' VIRTUAL,\n  `width` BIGINT METADATA,\n"
        "  `ts` AS TO_TIMESTAMP_LTZ(a, 0),\n  WATERMARK FOR `ts` AS ts - INTERVAL '1' SECOND\n)\n"
        "COMMENT 'numbers'\nWITH (\n  'connector' = 'memory',\n  'data' = 'in'\n)\n"
    )
    # What SHOW CREATE gives makes the same table.
    text = (await run(t_env, "SHOW CREATE TABLE i"))[0][0]
    await t_env.execute_sql("DROP TABLE i")
    await t_env.execute_sql(text)
    assert (await run(t_env, "SHOW CREATE TABLE i"))[0][0] == text


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("a INT, a INT", "a"),
        ("a INT, b AS nope + 1", "nope"),
        ("a INT, b AS a + 1, c AS b + 1", "b"),
        ("a INT, PRIMARY KEY (nope) NOT ENFORCED", "nope"),
        ("a INT, WATERMARK FOR nope AS nope", "nope"),
        ("a TIMESTAMP(6), WATERMARK FOR a AS a", "precision 'p' is from 0 to 3"),
        ("a TIMESTAMP(3), WATERMARK FOR a AS 'x'", "watermark"),
    ],
)
async def test_bad_definitions(t_env: TableEnvironment, columns: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        await t_env.execute_sql(f"CREATE TABLE q ({columns}) WITH ('connector'='blackhole')")
    assert t_env.list_tables() == []


async def test_unknown_connectors_and_options(t_env: TableEnvironment, memory: Any) -> None:
    await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='nope')")
    await t_env.execute_sql("CREATE TABLE r (a INT) WITH ('connector'='memory')")
    await t_env.execute_sql("CREATE TABLE s (a INT) WITH ('connector'='memory', 'data'='x', 'dta'='y')")
    await t_env.execute_sql("CREATE TABLE u (a INT)")
    for name, message in {
        "q": r"(?s)Could not find any factory for identifier 'nope'.*blackhole\n.*memory\n.*print",
        "r": "(?s)One or more required options are missing.*data",
        "s": "(?s)Unsupported options found for 'memory'.*dta.*Supported options.*connector\ndata\nmode",
        "u": "connector",
    }.items():
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(f"INSERT INTO {name} SELECT 1")
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(f"SELECT * FROM {name}")


async def test_like(t_env: TableEnvironment, memory: Any) -> None:
    await t_env.execute_sql(
        """CREATE TABLE base (a INT, s AS a + 1, w INT METADATA FROM 'width' VIRTUAL, ts TIMESTAMP(3),
             PRIMARY KEY (a) NOT ENFORCED, WATERMARK FOR ts AS ts) WITH ('connector'='memory', 'data'='in')"""
    )
    await t_env.execute_sql("CREATE TABLE all_of (b STRING) WITH ('data'='other') LIKE base")
    assert [r[:2] for r in await run(t_env, "DESCRIBE all_of")] == [
        ("a", "INT"),
        ("s", "INT"),
        ("w", "INT"),
        ("ts", "TIMESTAMP(3) *ROWTIME*"),
        ("b", "STRING"),
    ]
    text = (await run(t_env, "SHOW CREATE TABLE all_of"))[0][0]
    assert "'data' = 'other'" in text and "PRIMARY KEY (`a`)" in text and "WATERMARK FOR `ts`" in text
    await t_env.execute_sql("CREATE TABLE less WITH ('connector'='print') LIKE base (EXCLUDING ALL)")
    text = (await run(t_env, "SHOW CREATE TABLE less"))[0][0]
    assert [r[0] for r in await run(t_env, "DESCRIBE less")] == ["a", "ts"]
    assert "'data'" not in text and "PRIMARY" not in text and "WATERMARK" not in text
    await t_env.execute_sql("CREATE TABLE over_ (s AS a + 2) LIKE base (OVERWRITING GENERATED EXCLUDING WATERMARKS)")
    assert [r[4] for r in await run(t_env, "DESCRIBE over_")] == [
        None,
        "AS a + 2",
        "METADATA FROM 'width' VIRTUAL",
        None,
    ]
    for sql, message in {
        "CREATE TABLE x (a INT) LIKE base": "A column named 'a' already exists in the base table.",
        "CREATE TABLE x (b INT, PRIMARY KEY (b) NOT ENFORCED) LIKE base": "EXCLUDING CONSTRAINTS",
        "CREATE TABLE x WITH ('data'='z') LIKE base (INCLUDING OPTIONS)": "OVERWRITING OPTIONS",
        "CREATE TABLE x (WATERMARK FOR ts AS ts) LIKE base": "OVERWRITING WATERMARKS",
        "CREATE TABLE x LIKE nope": "nope",
    }.items():
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(sql)


async def test_create_table_as(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1), ("y", 2)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    result = await t_env.execute_sql(
        "CREATE TABLE o WITH ('connector'='memory', 'data'='out') AS SELECT k, v * 2 AS d FROM i"
    )
    await result.wait()
    assert memory.written["out"] == ["+I['x', 2]", "+I['y', 4]"]
    assert [r[:2] for r in await run(t_env, "DESCRIBE o")] == [("k", "STRING"), ("d", "INT")]
    result = await t_env.execute_sql(
        "CREATE TABLE p (d, k) WITH ('connector'='memory', 'data'='p') AS SELECT k, v * 2 AS d FROM i"
    )
    await result.wait()
    assert memory.written["p"] == ["+I[2, 'x']", "+I[4, 'y']"]
    with pytest.raises(ValidationException, match="already exist"):
        await t_env.execute_sql("CREATE TABLE o WITH ('connector'='memory', 'data'='out') AS SELECT 1 AS x")
    again = "TABLE o WITH ('connector'='memory', 'data'='again') AS SELECT 1 AS x"
    await (await t_env.execute_sql(f"CREATE OR REPLACE {again}")).wait()
    await (await t_env.execute_sql(f"REPLACE {again}")).wait()
    assert memory.written["again"] == ["+I[1]", "+I[1]"]
    with pytest.raises(ValidationException, match=r"'default_catalog.default_database.n' to be replaced doesn't exist"):
        await t_env.execute_sql("REPLACE TABLE n WITH ('connector'='memory', 'data'='again') AS SELECT 1 AS x")


async def test_there_or_not(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='print')")
    with pytest.raises(ValidationException, match="already exist"):
        await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='print')")
    await t_env.execute_sql("CREATE TABLE IF NOT EXISTS q (b INT) WITH ('connector'='print')")
    assert [r[0] for r in await run(t_env, "DESCRIBE q")] == ["a"]
    with pytest.raises(
        ValidationException, match="View with identifier 'default_catalog.default_database.q' does not exist"
    ):
        await t_env.execute_sql("DROP VIEW q")
    await t_env.execute_sql("DROP TABLE q")
    assert t_env.list_tables() == []
    with pytest.raises(ValidationException, match="doesn't exist"):
        await t_env.execute_sql("DESCRIBE q")


async def test_temporary_tables_hide_others(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='print')")
    await t_env.execute_sql("CREATE TEMPORARY TABLE q (b INT) WITH ('connector'='print')")
    assert [r[0] for r in await run(t_env, "DESCRIBE q")] == ["b"]
    assert t_env.list_tables() == ["q"]
    assert t_env.list_temporary_tables() == ["q"]
    with pytest.raises(ValidationException, match="(?i)temporary"):
        await t_env.execute_sql("DROP TABLE q")
    await t_env.execute_sql("DROP TEMPORARY TABLE q")
    assert [r[0] for r in await run(t_env, "DESCRIBE q")] == ["a"]
    await t_env.execute_sql("DROP TABLE q")
    await t_env.execute_sql("DROP TEMPORARY TABLE IF EXISTS q")


# -- ALTER TABLE -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def altered(t_env: TableEnvironment) -> TableEnvironment:
    await t_env.execute_sql(
        """CREATE TABLE q (id INT, name STRING COMMENT 'its', ts TIMESTAMP(3), big AS id * 2, WATERMARK FOR ts AS ts,
             CONSTRAINT ct PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print')"""
    )
    return t_env


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ("ADD x INT", "id name ts big x"),
        ("ADD (x INT FIRST, y INT AFTER name)", "x id name y ts big"),
        ("ADD x AS id + 1 AFTER ts", "id name ts x big"),
        ("ADD m INT METADATA FROM 'k' VIRTUAL", "id name ts big m"),
        ("MODIFY name STRING NOT NULL FIRST", "name id ts big"),
        ("MODIFY (name BIGINT, ts TIMESTAMP(2) AFTER id)", "id ts name big"),
        ("DROP name", "id ts big"),
        ("DROP (name, big)", "id ts"),
        ("RENAME name TO title", "id title ts big"),
        ("RENAME TO r", ""),
        ("DROP WATERMARK", "id name ts big"),
        ("MODIFY WATERMARK FOR ts AS ts - INTERVAL '1' SECOND", "id name ts big"),
        ("DROP PRIMARY KEY", "id name ts big"),
        ("DROP CONSTRAINT ct", "id name ts big"),
        ("MODIFY CONSTRAINT k2 PRIMARY KEY (name) NOT ENFORCED", "id name ts big"),
        ("SET ('print-identifier' = 'x')", "id name ts big"),
    ],
)
async def test_alter_table(altered: TableEnvironment, change: str, columns: str) -> None:
    await altered.execute_sql(f"ALTER TABLE q {change}")
    if not columns:
        assert altered.list_tables() == ["r"]
        return
    found = await run(altered, "DESCRIBE q")
    assert " ".join(r[0] for r in found) == columns
    text = (await run(altered, "SHOW CREATE TABLE q"))[0][0]
    assert ("WATERMARK" in text) == (change != "DROP WATERMARK")
    assert ("PRIMARY KEY" in text) == (change not in ("DROP PRIMARY KEY", "DROP CONSTRAINT ct"))
    if "MODIFY name" in change:
        assert "`name` STRING NOT NULL COMMENT 'its'" in text
    if "k2" in change:
        assert "CONSTRAINT `k2` PRIMARY KEY (`name`)" in text and "`name` STRING NOT NULL" in text
    if "SET" in change:
        assert "'print-identifier' = 'x'" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ADD id INT", "Try to add a column `id` which already exists"),
        ("ADD x INT AFTER nope", "nope"),
        ("ADD x AS nope + 1", "nope"),
        ("MODIFY nope INT", "Try to modify a column `nope` which does not exist"),
        ("MODIFY ts STRING", "watermark"),
        ("DROP nope", "nope"),
        ("DROP id", "The column `id` is referenced by computed column `big`"),
        ("DROP ts", "The column `ts` is referenced by watermark expression"),
        ("DROP (id, big)", "The column `id` is used as the primary key"),
        ("RENAME nope TO x", "nope"),
        ("RENAME id TO name", "The column `name` already existed"),
        ("RENAME id TO x", "referenced by computed column `big`"),
        ("ADD PRIMARY KEY (name) NOT ENFORCED", "has already defined the primary key constraint"),
        ("ADD WATERMARK FOR ts AS ts", "has already defined a watermark strategy"),
        ("DROP CONSTRAINT other", "does not define a primary key constraint named 'other'"),
        ("RESET ('connector')", "does not support changing 'connector'"),
        ("DROP PARTITION (a = '1')", "is not partitioned"),
        ("DROP DISTRIBUTION", "no distribution"),
    ],
)
async def test_alter_table_refused(altered: TableEnvironment, change: str, message: str) -> None:
    before = await run(altered, "SHOW CREATE TABLE q")
    with pytest.raises(ValidationException, match=message):
        await altered.execute_sql(f"ALTER TABLE q {change}")
    assert await run(altered, "SHOW CREATE TABLE q") == before


async def test_alter_of_nothing(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE VIEW v AS SELECT 1 AS x")
    with pytest.raises(ValidationException, match="`?default_catalog`?.`?default_database`?.`?nope"):
        await t_env.execute_sql("ALTER TABLE nope ADD x INT")
    await t_env.execute_sql("ALTER TABLE IF EXISTS nope ADD x INT")
    with pytest.raises(ValidationException, match="use ALTER VIEW"):
        await t_env.execute_sql("ALTER TABLE v ADD x INT")


async def test_distribution_and_partitions(t_env: TableEnvironment) -> None:
    await t_env.execute_sql(
        """CREATE TABLE q (id INT, d STRING) DISTRIBUTED BY HASH(id) INTO 4 BUCKETS PARTITIONED BY (d)
           WITH ('connector'='print')"""
    )
    text = (await run(t_env, "SHOW CREATE TABLE q"))[0][0]
    assert "DISTRIBUTED BY HASH(`id`) INTO 4 BUCKETS\nPARTITIONED BY (`d`)\n" in text
    await t_env.execute_sql("ALTER TABLE q MODIFY DISTRIBUTION BY (id) INTO 2 BUCKETS")
    assert "DISTRIBUTED BY(`id`) INTO 2 BUCKETS" in (await run(t_env, "SHOW CREATE TABLE q"))[0][0]
    await t_env.execute_sql("ALTER TABLE q DROP DISTRIBUTION")
    await t_env.execute_sql("ALTER TABLE q ADD PARTITION (d = '1') PARTITION (d = '2')")
    assert await run(t_env, "SHOW PARTITIONS q") == [("d=1",), ("d=2",)]
    assert await run(t_env, "SHOW PARTITIONS q PARTITION (d = '2')") == [("d=2",)]
    await t_env.execute_sql("ALTER TABLE q DROP PARTITION (d = '1')")
    assert await run(t_env, "SHOW PARTITIONS q") == [("d=2",)]
    with pytest.raises(ValidationException, match="not partitioned"):
        await t_env.execute_sql("CREATE TABLE r (a INT) WITH ('connector'='print')")
        await t_env.execute_sql("SHOW PARTITIONS r")


# -- views -----------------------------------------------------------------------------------------------------------


async def test_views(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE VIEW v (x, y) COMMENT 'two' AS SELECT 1, 'a'")
    assert await run(t_env, "SELECT y, x FROM v") == [("a", 1)]
    assert (await run(t_env, "SHOW CREATE VIEW v"))[0][0] == (
        "CREATE VIEW `default_catalog`.`default_database`.`v` (\n  `x`,\n  `y`\n)\nCOMMENT 'two'\nAS SELECT 1, 'a'\n"
    )
    await t_env.execute_sql("ALTER VIEW v RENAME TO w")
    await t_env.execute_sql("ALTER VIEW w AS SELECT 2 AS z")
    assert await run(t_env, "SELECT z FROM w") == [(2,)]
    assert await run(t_env, "SHOW VIEWS") == [("w",)]
    with pytest.raises(TableException, match="SHOW CREATE VIEW"):
        await t_env.execute_sql("SHOW CREATE TABLE w")
    with pytest.raises(ValidationException, match="fields not match"):
        await t_env.execute_sql("CREATE VIEW bad (x) AS SELECT 1, 2")
    with pytest.raises(ValidationException, match="Object 'nope' not found"):
        await t_env.execute_sql("CREATE VIEW bad AS SELECT * FROM nope")
    with pytest.raises(ValidationException, match="w"):
        await t_env.execute_sql("DROP TABLE w")
    await t_env.execute_sql("DROP VIEW w")
    await t_env.execute_sql("DROP VIEW IF EXISTS w")
    with pytest.raises(ValidationException, match="does not exist"):
        await t_env.execute_sql("DROP VIEW w")


async def test_a_view_means_what_it_meant(t_env: TableEnvironment) -> None:
    """Names in a view are looked up where it was made."""
    await t_env.execute_sql("CREATE DATABASE other")
    await t_env.execute_sql("CREATE VIEW x AS SELECT 'here' AS at_")
    await t_env.execute_sql("CREATE VIEW v AS SELECT at_ FROM x")
    await t_env.execute_sql("USE other")
    await t_env.execute_sql("CREATE VIEW x AS SELECT 'there' AS at_")
    assert await run(t_env, "SELECT * FROM default_database.v") == [("here",)]
    assert await run(t_env, "SELECT * FROM x") == [("there",)]


# -- catalogs, databases, functions ------------------------------------------------------------------------------------


async def test_databases(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE DATABASE d COMMENT 'mine' WITH ('k'='v')")
    await t_env.execute_sql("CREATE DATABASE IF NOT EXISTS d")
    with pytest.raises(ValidationException, match="already exist"):
        await t_env.execute_sql("CREATE DATABASE d")
    assert await run(t_env, "SHOW DATABASES") == [("d",), ("default_database",)]
    await t_env.execute_sql("ALTER DATABASE d SET ('k2'='v2')")
    assert await run(t_env, "DESCRIBE DATABASE EXTENDED d") == [
        ("database name", "d"),
        ("comment", "mine"),
        ("k", "v"),
        ("k2", "v2"),
    ]
    await t_env.execute_sql("USE d")
    assert await run(t_env, "SHOW CURRENT DATABASE") == [("d",)]
    await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='print')")
    assert await run(t_env, "SHOW TABLES FROM default_database") == []
    assert await run(t_env, "SHOW TABLES IN default_catalog.d") == [("q",)]
    with pytest.raises(ValidationException, match="currently in use"):
        await t_env.execute_sql("DROP DATABASE d")
    await t_env.execute_sql("USE default_catalog.default_database")
    with pytest.raises(ValidationException, match="not empty"):
        await t_env.execute_sql("DROP DATABASE d")
    await t_env.execute_sql("DROP DATABASE d CASCADE")
    assert await run(t_env, "SHOW DATABASES") == [("default_database",)]
    with pytest.raises(ValidationException, match="nope"):
        await t_env.execute_sql("USE nope")
    with pytest.raises(ValidationException, match="nope"):
        await t_env.execute_sql("DROP DATABASE nope")
    await t_env.execute_sql("DROP DATABASE IF EXISTS nope")


async def test_catalogs(t_env: TableEnvironment) -> None:
    await t_env.execute_sql("CREATE CATALOG c COMMENT 'own' WITH ('type'='generic_in_memory', 'default-database'='d')")
    assert await run(t_env, "SHOW CATALOGS") == [("c",), ("default_catalog",)]
    assert (await run(t_env, "SHOW CREATE CATALOG c"))[0][0] == (
        "CREATE CATALOG `c` COMMENT 'own' WITH (\n  'default-database' = 'd',\n  'type' = 'generic_in_memory'\n)\n"
    )
    assert await run(t_env, "DESCRIBE CATALOG c") == [("name", "c"), ("type", "generic_in_memory"), ("comment", "own")]
    await t_env.execute_sql("USE CATALOG c")
    assert await run(t_env, "SHOW CURRENT DATABASE") == [("d",)]
    await t_env.execute_sql("CREATE TABLE q (a INT) WITH ('connector'='print')")
    await t_env.execute_sql("USE CATALOG default_catalog")
    assert [r[0] for r in await run(t_env, "DESCRIBE c.d.q")] == ["a"]
    await t_env.execute_sql("DROP CATALOG c")
    assert await run(t_env, "SHOW CATALOGS") == [("default_catalog",)]
    await t_env.execute_sql("DROP CATALOG IF EXISTS c")
    for sql, message in {
        "CREATE CATALOG c WITH ('a'='b')": "'type'",
        "CREATE CATALOG c WITH ('type'='hive')": "generic_in_memory",
        "CREATE CATALOG c WITH ('type'='generic_in_memory', 'x'='y')": "(?s)Unsupported options.*x",
        "CREATE CATALOG default_catalog WITH ('type'='generic_in_memory')": "already exists",
        "USE CATALOG nope": "nope",
        "DROP CATALOG nope": "nope",
        "DROP CATALOG default_catalog": "in use",
    }.items():
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(sql)


async def test_functions(t_env: TableEnvironment) -> None:
    here = f"{double.__module__}.double"
    await t_env.execute_sql(f"CREATE FUNCTION twice AS '{here}' LANGUAGE PYTHON")
    await t_env.execute_sql(f"CREATE TEMPORARY SYSTEM FUNCTION twice2 AS '{here}' LANGUAGE PYTHON")
    await t_env.execute_sql(f"CREATE TEMPORARY FUNCTION twice3 AS '{here}' LANGUAGE PYTHON")
    assert await run(t_env, "SELECT twice(2), twice2(3), default_database.twice(4), twice3(5)") == [(4, 6, 8, 10)]
    assert await run(t_env, "SHOW USER FUNCTIONS") == [("twice",), ("twice2",), ("twice3",)]
    assert ("twice",) in await run(t_env, "SHOW FUNCTIONS")
    assert ("abs",) in [(r[0].lower(),) for r in await run(t_env, "SHOW FUNCTIONS")]
    await t_env.execute_sql(f"ALTER FUNCTION twice AS '{half.__module__}.half' LANGUAGE PYTHON")
    assert await run(t_env, "SELECT twice(4)") == [(2,)]
    assert await run(t_env, "DESCRIBE FUNCTION EXTENDED twice2") == [
        ("is system function", "false"),
        ("is temporary", "true"),
        ("kind", "SCALAR"),
        ("requirements", "[]"),
        ("is deterministic", "true"),
        ("supports constant folding", "false"),
    ]
    await t_env.execute_sql("DROP FUNCTION twice")
    await t_env.execute_sql("DROP TEMPORARY SYSTEM FUNCTION twice2")
    await t_env.execute_sql("DROP TEMPORARY FUNCTION twice3")
    assert await run(t_env, "SHOW USER FUNCTIONS") == []
    for sql, message in {
        "CREATE FUNCTION f AS 'nope.Nope' LANGUAGE PYTHON": "nope",
        f"CREATE FUNCTION f AS '{here}x' LANGUAGE PYTHON": "doublex",
        "CREATE FUNCTION f AS 'a.B' LANGUAGE JAVA": "LANGUAGE PYTHON",
        "CREATE FUNCTION f AS 'a.B' USING JAR 'x.jar'": "JAR",
        "DROP FUNCTION nope": "nope",
        "DESCRIBE FUNCTION nope": "nope",
    }.items():
        with pytest.raises(ValidationException, match=message):
            await t_env.execute_sql(sql)
    await t_env.execute_sql("DROP FUNCTION IF EXISTS nope")


def double(n: int) -> int:
    return n * 2


def half(n: int) -> int:
    return n // 2


async def test_modules(t_env: TableEnvironment) -> None:
    with pytest.raises(ValidationException, match="'core' already exists"):
        await t_env.execute_sql("LOAD MODULE core")
    await t_env.execute_sql("USE MODULES core")
    with pytest.raises(ValidationException, match="No module with name 'nope' exists"):
        await t_env.execute_sql("USE MODULES core, nope")
    await t_env.execute_sql("UNLOAD MODULE core")
    assert await run(t_env, "SHOW MODULES") == []
    await t_env.execute_sql("LOAD MODULE core")
    assert t_env.list_modules() == ["core"]


async def test_show_with_patterns(t_env: TableEnvironment) -> None:
    for name in ("apple", "Apricot", "banana"):
        await t_env.execute_sql(f"CREATE TABLE {name} (a_id INT, b INT) WITH ('connector'='print')")
    assert await run(t_env, "SHOW TABLES LIKE 'a%'") == [("apple",)]
    assert await run(t_env, "SHOW TABLES NOT LIKE '%an%'") == [("Apricot",), ("apple",)]
    assert await run(t_env, "SHOW COLUMNS FROM apple LIKE 'a%'") == [("a_id", "INT", True, None, None, None)]
    assert await run(t_env, "SHOW COLUMNS IN apple NOT LIKE 'a%'") == [("b", "INT", True, None, None, None)]
    assert await run(t_env, "SHOW FUNCTIONS LIKE 'UPPE_'") == [("UPPER",)]


# -- EXPLAIN and statement sets ----------------------------------------------------------------------------------------


async def test_explain(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql("CREATE TABLE o (k STRING, n BIGINT) WITH ('connector'='memory', 'data'='o', 'mode'='all')")
    query = "SELECT k, COUNT(*) AS n FROM i GROUP BY k"
    text = (await run(t_env, f"EXPLAIN {query}"))[0][0]
    assert text == t_env.explain_sql(query) == t_env.sql_query(query).explain()
    assert "GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS n])" in text
    assert "changelogMode=[I,UA]" in (await run(t_env, f"EXPLAIN CHANGELOG_MODE {query}"))[0][0]
    assert (
        "Sink(table=[default_catalog.default_database.o]"
        in (await run(t_env, f"EXPLAIN PLAN FOR INSERT INTO o {query}"))[0][0]
    )
    both = f"EXPLAIN STATEMENT SET BEGIN INSERT INTO o {query}; INSERT INTO o SELECT k, 1 FROM i; END"
    assert (await run(t_env, both))[0][0].count("LogicalSink") == 2
    assert memory.written["o"] == []
    with pytest.raises((TableException, SqlParserException)):
        await t_env.execute_sql("EXPLAIN SHOW TABLES")


async def test_statement_set(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1), ("y", 2)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql("CREATE TABLE o (k STRING) WITH ('connector'='memory', 'data'='o')")
    await t_env.execute_sql("CREATE TABLE p (v INT) WITH ('connector'='memory', 'data'='p')")
    result = await t_env.execute_sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT k FROM i; INSERT INTO p SELECT v FROM i; END"
    )
    assert result.get_resolved_schema().get_column_names() == [
        "default_catalog.default_database.o",
        "default_catalog.default_database.p",
    ]
    await result.wait()
    assert (memory.written["o"], memory.written["p"]) == (["+I['x']", "+I['y']"], ["+I[1]", "+I[2]"])
    many = t_env.create_statement_set()
    many.add_insert_sql("INSERT INTO o SELECT UPPER(k) FROM i").add_insert("p", t_env.from_path("i").select("v"))
    assert many.explain().count("LogicalSink") == 2
    await (await many.execute()).wait()
    assert (memory.written["o"][2:], memory.written["p"][2:]) == (["+I['X']", "+I['Y']"], ["+I[1]", "+I[2]"])
    with pytest.raises(StreamlineError, match="No operators defined in streaming topology"):
        await many.execute()
    with pytest.raises(TableException, match="Only insert statement is supported now"):
        many.add_insert_sql("SELECT 1")


async def test_one_statement_at_a_time(t_env: TableEnvironment) -> None:
    with pytest.raises(ValidationException, match="Only a single statement"):
        await t_env.execute_sql("SHOW TABLES; SHOW VIEWS")
    with pytest.raises(SqlParserException):
        await t_env.execute_sql("SELEC 1")
    with pytest.raises((SqlParserException, ValidationException)):
        t_env.sql_query("SHOW TABLES")
    assert await run(t_env, "SELECT 1;") == [(1,)]


# -- what may be written ---------------------------------------------------------------------------------------------


async def test_updates_into_an_append_only_table(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1), ("x", 2)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql("CREATE TABLE o (k STRING, n BIGINT) WITH ('connector'='memory', 'data'='o')")
    with pytest.raises(
        TableException,
        match=re.escape(
            "Table sink 'default_catalog.default_database.o' doesn't support consuming update changes which is "
            "produced by node GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS "
        ),
    ):
        await t_env.execute_sql("INSERT INTO o SELECT k, COUNT(*) FROM i GROUP BY k")


async def test_upserts(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("x", 1), ("x", 2), ("y", 2)]
    await t_env.execute_sql("CREATE TABLE i (k STRING, v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql(
        "CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('connector'='memory', 'data'='o', 'mode'='upsert')"
    )
    await (await t_env.execute_sql("INSERT INTO o SELECT k, COUNT(*) FROM i GROUP BY k")).wait()
    assert memory.written["o"] == ["+I['x', 1]", "+U['x', 2]", "+I['y', 1]"]
    with pytest.raises(ValidationException, match="The query has an upsert key that differs from the primary key"):
        await t_env.execute_sql("INSERT INTO o SELECT MAX(k), COUNT(*) FROM i GROUP BY v")


async def test_not_null(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [(1,), (None,), (3,)]
    await t_env.execute_sql("CREATE TABLE i (v INT) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql("CREATE TABLE o (v INT NOT NULL) WITH ('connector'='memory', 'data'='o')")
    with pytest.raises(
        TableException,
        match="Column 'v' is NOT NULL, however, a null value is being written into it. You can set job configuration "
        "'table.exec.sink.not-null-enforcer'='DROP'",
    ):
        await (await t_env.execute_sql("INSERT INTO o SELECT v FROM i")).wait()
    t_env.get_config().set("table.exec.sink.not-null-enforcer", "DROP")
    memory.written["o"].clear()
    await (await t_env.execute_sql("INSERT INTO o SELECT v FROM i")).wait()
    assert memory.written["o"] == ["+I[1]", "+I[3]"]


async def test_lengths(t_env: TableEnvironment, memory: Any) -> None:
    memory.rows["in"] = [("abcde", b"12345"), ("a", b"1")]
    await t_env.execute_sql("CREATE TABLE i (s STRING, b BYTES) WITH ('connector'='memory', 'data'='in')")
    await t_env.execute_sql(
        "CREATE TABLE o (s VARCHAR(3), c CHAR(3), b VARBINARY(3)) WITH ('connector'='memory', 'data'='o')"
    )
    insert = "INSERT INTO o SELECT s, s, b FROM i"
    await (await t_env.execute_sql(insert)).wait()
    assert memory.written["o"] == ["+I['abcde', 'abcde', b'12345']", "+I['a', 'a', b'1']"]
    t_env.get_config().set("table.exec.sink.type-length-enforcer", "TRIM_PAD")
    memory.written["o"].clear()
    await (await t_env.execute_sql(insert)).wait()
    assert memory.written["o"] == ["+I['abc', 'abc', b'123']", "+I['a', 'a  ', b'1']"]
