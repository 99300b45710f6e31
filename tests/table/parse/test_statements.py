"""Statements: what each becomes, and which are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot.expressions as exp

from streamline._core import types as t
from streamline.errors import SqlParserException, ValidationException
from streamline.table.parse import parse_statement
from streamline.table.parse import statements as st

# -- CREATE TABLE --------------------------------------------------------------------------------------------------

#: The DDL that everybody starts with, as it is written in practice.
EVENTS = """CREATE TABLE events (
    eventId STRING, symbol STRING, amount DOUBLE,
    -- 毫秒 (epoch milliseconds)
    eventTime BIGINT,
    event_time AS TO_TIMESTAMP_LTZ(eventTime, 3),
    WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'eventd-cleaned', 'properties.bootstrap.servers' = 'localhost:9092',
    'properties.group.id' = 'eventd-sql'   -- 消费组
, 'format' = 'json'
)"""


def created(sql: str) -> st.CreateTable:
    found = parse_statement(sql)
    assert isinstance(found, st.CreateTable)
    return found


def text_of_columns(columns: tuple[st.ColumnDef, ...]) -> list[str]:
    """`name TYPE`, `name AS expression`, `name TYPE METADATA key VIRTUAL`, and the comment in brackets."""
    out = []
    for c in columns:
        match c:
            case st.PhysicalColumn():
                text = f"{c.name} {c.type.summary(short=True)}"
            case st.ComputedColumn():
                text = f"{c.name} AS {c.expression.text}"
            case st.MetadataColumn():
                text = f"{c.name} {c.type.summary(short=True)} METADATA {c.key}{' VIRTUAL' if c.virtual else ''}"
        out.append(text + (f" [{c.comment}]" if c.comment is not None else ""))
    return out


def test_create_table_of_everyday_use() -> None:
    table = created(EVENTS)
    assert table.path == ("events",)
    assert text_of_columns(table.columns) == [
        "eventId STRING",
        "symbol STRING",
        "amount DOUBLE",
        "eventTime BIGINT",
        "event_time AS TO_TIMESTAMP_LTZ(eventTime, 3)",
    ]
    (watermark,) = table.watermarks
    assert watermark.column == ("event_time",)
    assert watermark.expression.text == "event_time - INTERVAL '10' SECOND"
    assert isinstance(watermark.expression.ast, exp.Sub)
    assert table.options == {
        "connector": "kafka",
        "topic": "eventd-cleaned",
        "properties.bootstrap.servers": "localhost:9092",
        "properties.group.id": "eventd-sql",
        "format": "json",
    }
    assert table.primary_key is None and not table.temporary and not table.if_not_exists


def test_create_table_with_everything() -> None:
    table = created(
        "CREATE TEMPORARY TABLE IF NOT EXISTS c.d.`t t` (a INT NOT NULL COMMENT 'key', `b c` ROW<x INT, y STRING>,"
        " d AS a + 1 COMMENT 'computed', e TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL COMMENT 'm',"
        " f BIGINT METADATA, WATERMARK FOR `b c`.x AS `b c`.x, CONSTRAINT pk PRIMARY KEY (a, d) NOT ENFORCED)"
        " COMMENT 'all' DISTRIBUTED BY HASH (a) INTO 4 BUCKETS PARTITIONED BY (a, d) WITH ('k' = 'it''s')"
        " LIKE c.u (EXCLUDING ALL INCLUDING GENERATED OVERWRITING OPTIONS);"
    )
    assert table.path == ("c", "d", "t t")
    assert text_of_columns(table.columns) == [
        "a INT NOT NULL [key]",
        "b c ROW<`x` INT, `y` STRING>",
        "d AS a + 1 [computed]",
        "e TIMESTAMP_LTZ(3) METADATA timestamp VIRTUAL [m]",
        "f BIGINT METADATA None",
    ]
    assert table.watermarks[0].column == ("b c", "x")
    assert table.primary_key == st.PrimaryKey(("a", "d"), "pk")
    assert table.comment == "all"
    assert table.distribution == st.Distribution("HASH", ("a",), 4)
    assert table.partitioned_by == ("a", "d")
    assert table.options == {"k": "it's"}
    assert table.like == st.LikeClause(
        ("c", "u"),
        (
            st.LikeOption("EXCLUDING", "ALL"),
            st.LikeOption("INCLUDING", "GENERATED"),
            st.LikeOption("OVERWRITING", "OPTIONS"),
        ),
    )
    assert table.temporary and table.if_not_exists and not table.or_replace


def test_primary_key_beside_its_column() -> None:
    table = created("CREATE TABLE t (a INT NOT NULL PRIMARY KEY NOT ENFORCED COMMENT 'x', b INT)")
    assert table.primary_key == st.PrimaryKey(("a",))
    assert text_of_columns(table.columns) == ["a INT NOT NULL [x]", "b INT"]


def test_create_table_as() -> None:
    table = created("CREATE TABLE t WITH ('a' = 'b') AS SELECT x, y FROM u")
    assert table.as_query is not None and table.as_query.text == "SELECT x, y FROM u"
    assert table.columns == () and table.as_columns == ()
    assert created("CREATE TABLE t (y, x) AS SELECT x, y FROM u").as_columns == ("y", "x")
    typed = created("CREATE TABLE t (z INT, WATERMARK FOR ts AS ts) AS SELECT ts FROM u")
    assert text_of_columns(typed.columns) == ["z INT"] and len(typed.watermarks) == 1
    assert created("CREATE OR REPLACE TABLE t AS SELECT 1").or_replace
    assert created("REPLACE TABLE t AS SELECT 1").replace


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", "NOT ENFORCED"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) ENFORCED)", "NOT ENFORCED"),
        ("CREATE TABLE t (a INT, UNIQUE (a))", "UNIQUE constraint is not supported yet"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)", "Duplicate primary key"),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, a) NOT ENFORCED)", "twice"),
        ("CREATE TABLE t (a INT, b STRING, a BIGINT)", "A column named 'a' already exists in the table"),
        ("CREATE TABLE t (a INT) DISTRIBUTED INTO 0 BUCKETS", "at least one bucket"),
        ("CREATE OR REPLACE TABLE t (a INT)", "takes AS query"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW is not supported"),
        ("CREATE TABLE t (a MYTYPE)", "Unknown identifier 'MYTYPE'"),
        ("CREATE MODEL m INPUT (a INT) OUTPUT (b INT)", "CREATE MODEL is not supported"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1", "CREATE MATERIALIZED TABLE is not supported"),
        ("CREATE CONNECTION c WITH ('a' = 'b')", "CREATE CONNECTION is not supported"),
    ],
)
def test_refused_definitions(sql: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        parse_statement(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT,)",
        "CREATE TABLE t ()",
        "CREATE TABLE t (a INT) WITH (k = 'v')",
        "CREATE TABLE t (a INT) WITH ('k' = 1)",
        "CREATE TABLE t (a, b)",
        "CREATE TABLE t (a INT, b) AS SELECT 1",
        "CREATE TABLE t (a INTERVAL DAY)",
        "CREATE TABLE t (a INT COMMENT 'x' METADATA)",
        "CREATE TABLE t (a AS b NOT NULL)",
        "CREATE TABLE t (WATERMARK FOR a AS a, WATERMARK FOR b AS b)",
        "CREATE TABLE t (a INT) PARTITIONED BY (a) COMMENT 'x'",
        "CREATE TABLE t (value INT)",
        "CREATE SYSTEM FUNCTION f AS 'x'",
        "CREATE INDEX i ON t (a)",
    ],
)
def test_malformed_definitions(sql: str) -> None:
    with pytest.raises(SqlParserException):
        parse_statement(sql)


# -- everything else, each as the value it is ----------------------------------------------------------------------

STATEMENTS: list[tuple[str, Any]] = [
    (
        "CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS f AS 'm.f' LANGUAGE PYTHON",
        st.CreateFunction(("f",), "m.f", "PYTHON", (), True, True, True),
    ),
    (
        "CREATE FUNCTION c.d.f AS 'x.Y' USING JAR 'a.jar', ARTIFACT 'b' WITH ('a' = 'b')",
        st.CreateFunction(("c", "d", "f"), "x.Y", None, (("JAR", "a.jar"), ("ARTIFACT", "b")), options={"a": "b"}),
    ),
    ("CREATE CATALOG c COMMENT 'x' WITH ('type' = 'y')", st.CreateCatalog("c", {"type": "y"}, "x")),
    ("CREATE CATALOG IF NOT EXISTS c", st.CreateCatalog("c", if_not_exists=True)),
    (
        "CREATE DATABASE IF NOT EXISTS c.d COMMENT 'x' WITH ('a' = 'b')",
        st.CreateDatabase(("c", "d"), {"a": "b"}, "x", True),
    ),
    ("DROP TABLE IF EXISTS c.d.t", st.Drop("TABLE", ("c", "d", "t"), True)),
    ("DROP TEMPORARY VIEW v", st.Drop("VIEW", ("v",), temporary=True)),
    ("DROP TEMPORARY SYSTEM FUNCTION f", st.Drop("FUNCTION", ("f",), temporary=True, system=True)),
    ("DROP FUNCTION f", st.Drop("FUNCTION", ("f",))),
    ("DROP CATALOG c", st.Drop("CATALOG", ("c",))),
    ("DROP DATABASE IF EXISTS d CASCADE", st.Drop("DATABASE", ("d",), True, cascade=True)),
    ("DROP DATABASE d RESTRICT", st.Drop("DATABASE", ("d",))),
    ("ALTER TABLE IF EXISTS t SET ('a' = 'b')", st.AlterTable(("t",), (st.SetOptions({"a": "b"}),), True)),
    ("ALTER TABLE t RESET ('a', 'b')", st.AlterTable(("t",), (st.ResetOptions(("a", "b")),))),
    ("ALTER TABLE t RENAME TO d.u", st.AlterTable(("t",), (st.RenameTo(("d", "u")),))),
    ("ALTER TABLE t RENAME a.b TO c", st.AlterTable(("t",), (st.RenameColumn(("a", "b"), "c"),))),
    (
        "ALTER TABLE t ADD a INT FIRST",
        st.AlterTable(("t",), (st.AddColumns((st.ColumnChange(st.PhysicalColumn("a", t.INT), True),)),)),
    ),
    (
        "ALTER TABLE t ADD (a INT, b STRING METADATA FROM 'k' VIRTUAL AFTER a.x, PRIMARY KEY (a) NOT ENFORCED)",
        st.AlterTable(
            ("t",),
            (
                st.AddColumns(
                    (
                        st.ColumnChange(st.PhysicalColumn("a", t.INT)),
                        st.ColumnChange(st.MetadataColumn("b", t.STRING, "k", True), after=("a", "x")),
                    )
                ),
                st.AddPrimaryKey(st.PrimaryKey(("a",))),
            ),
        ),
    ),
    (
        "ALTER TABLE t MODIFY (a BIGINT COMMENT 'x' AFTER b)",
        st.AlterTable(
            ("t",), (st.ModifyColumns((st.ColumnChange(st.PhysicalColumn("a", t.BIGINT, "x"), after=("b",)),)),)
        ),
    ),
    (
        "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (a) NOT ENFORCED",
        st.AlterTable(("t",), (st.AddPrimaryKey(st.PrimaryKey(("a",), "k")),)),
    ),
    (
        "ALTER TABLE t MODIFY PRIMARY KEY (a) NOT ENFORCED",
        st.AlterTable(("t",), (st.ModifyPrimaryKey(st.PrimaryKey(("a",))),)),
    ),
    (
        "ALTER TABLE t ADD DISTRIBUTION BY RANGE (a) INTO 3 BUCKETS",
        st.AlterTable(("t",), (st.AddDistribution(st.Distribution("RANGE", ("a",), 3)),)),
    ),
    (
        "ALTER TABLE t MODIFY DISTRIBUTION INTO 3 BUCKETS",
        st.AlterTable(("t",), (st.ModifyDistribution(st.Distribution(None, (), 3)),)),
    ),
    ("ALTER TABLE t DROP DISTRIBUTION", st.AlterTable(("t",), (st.DropDistribution(),))),
    ("ALTER TABLE t DROP a", st.AlterTable(("t",), (st.DropColumns((("a",),)),))),
    ("ALTER TABLE t DROP (a, b.c)", st.AlterTable(("t",), (st.DropColumns((("a",), ("b", "c"))),))),
    ("ALTER TABLE t DROP PRIMARY KEY", st.AlterTable(("t",), (st.DropConstraint(),))),
    ("ALTER TABLE t DROP CONSTRAINT k", st.AlterTable(("t",), (st.DropConstraint("k"),))),
    ("ALTER TABLE t DROP WATERMARK", st.AlterTable(("t",), (st.DropWatermark(),))),
    ("ALTER VIEW v RENAME TO w", st.AlterView(("v",), st.RenameTo(("w",)))),
    ("ALTER DATABASE d SET ('a' = 'b')", st.AlterDatabase(("d",), st.SetOptions({"a": "b"}))),
    ("ALTER CATALOG c RESET ('a')", st.AlterCatalog("c", st.ResetOptions(("a",)))),
    ("ALTER CATALOG c COMMENT 'x'", st.AlterCatalog("c", st.SetComment("x"))),
    (
        "ALTER TEMPORARY FUNCTION IF EXISTS f AS 'x' LANGUAGE PYTHON",
        st.AlterFunction(("f",), "x", "PYTHON", True, True),
    ),
    ("DESCRIBE c.d.t", st.Describe("TABLE", ("c", "d", "t"))),
    ("DESC EXTENDED t", st.Describe("TABLE", ("t",), True)),
    ("DESCRIBE CATALOG EXTENDED c", st.Describe("CATALOG", ("c",), True)),
    ("DESCRIBE DATABASE c.d", st.Describe("DATABASE", ("c", "d"))),
    ("DESCRIBE FUNCTION EXTENDED f", st.Describe("FUNCTION", ("f",), True)),
    ("SHOW CATALOGS", st.Show("CATALOGS")),
    ("SHOW DATABASES IN c NOT ILIKE 'x%'", st.Show("DATABASES", ("c",), "x%", True, True)),
    ("SHOW TABLES FROM c.d LIKE 'a'", st.Show("TABLES", ("c", "d"), "a")),
    ("show views", st.Show("VIEWS")),
    ("SHOW COLUMNS IN t NOT LIKE 'a'", st.Show("COLUMNS", ("t",), "a", negated=True)),
    ("SHOW USER FUNCTIONS LIKE 'a'", st.Show("FUNCTIONS", pattern="a", user_only=True)),
    ("SHOW FULL MODULES", st.Show("MODULES", full=True)),
    ("SHOW CURRENT DATABASE", st.Show("CURRENT DATABASE")),
    ("SHOW CREATE TABLE c.t", st.Show("CREATE TABLE", ("c", "t"))),
    ("SHOW CREATE CATALOG c", st.Show("CREATE CATALOG", ("c",))),
    ("SHOW MATERIALIZED TABLES", st.Show("MATERIALIZED TABLES")),
    ("SHOW PARTITIONS t", st.Show("PARTITIONS", ("t",))),
    ("SHOW JARS", st.Show("JARS")),
    ("USE CATALOG c", st.Use("CATALOG", ("c",))),
    ("USE c.d", st.Use("DATABASE", ("c", "d"))),
    ("USE MODULES a, b", st.Use("MODULES", ("a", "b"))),
    ("LOAD MODULE m WITH ('a' = 'b')", st.LoadModule("m", {"a": "b"})),
    ("UNLOAD MODULE m", st.UnloadModule("m")),
    ("SET", st.Set()),
    ("SET 'a.b' = 'c d';", st.Set("a.b", "c d")),
    ("RESET;", st.Reset()),
    ("RESET 'a'", st.Reset("a")),
    ("TRUNCATE TABLE t", st.Truncate(("t",))),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_statement(sql: str, expected: st.Statement) -> None:
    assert parse_statement(sql) == expected


def test_create_view() -> None:
    view = parse_statement("CREATE TEMPORARY VIEW IF NOT EXISTS d.v (a, b) COMMENT 'c' AS\n SELECT x, y FROM t -- end")
    assert isinstance(view, st.CreateView)
    assert (view.path, view.columns, view.comment) == (("d", "v"), ("a", "b"), "c")
    assert view.temporary and view.if_not_exists
    assert view.query.text == "SELECT x, y FROM t"
    changed = parse_statement("ALTER VIEW v AS SELECT 1")
    assert isinstance(changed, st.AlterView) and isinstance(changed.action, st.SetQuery)
    assert changed.action.query.text == "SELECT 1"


def test_alter_watermark() -> None:
    changed = parse_statement("ALTER TABLE t ADD WATERMARK FOR ts AS ts - INTERVAL '1' SECOND")
    assert isinstance(changed, st.AlterTable)
    (action,) = changed.actions
    assert isinstance(action, st.AddWatermark)
    assert (action.watermark.column, action.watermark.expression.text) == (("ts",), "ts - INTERVAL '1' SECOND")
    changed = parse_statement("ALTER TABLE t MODIFY WATERMARK FOR ts AS ts")
    assert isinstance(changed, st.AlterTable) and isinstance(changed.actions[0], st.ModifyWatermark)


def test_partitions() -> None:
    added = parse_statement(
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = 1, b = 'x') WITH ('k' = 'v') PARTITION (a = 2)"
    )
    assert isinstance(added, st.AlterTable)
    (action,) = added.actions
    assert isinstance(action, st.AddPartitions) and action.if_not_exists
    (first, options), (second, none) = action.partitions
    assert [(name, value.name) for name, value in first if value is not None] == [("a", "1"), ("b", "x")]
    assert options == {"k": "v"} and none == {} and second[0][0] == "a"
    dropped = parse_statement("ALTER TABLE t DROP IF EXISTS PARTITION (a = 1), PARTITION (a = 2)")
    assert isinstance(dropped, st.AlterTable) and isinstance(dropped.actions[0], st.DropPartitions)
    assert len(dropped.actions[0].partitions) == 2


# -- INSERT and statement sets -------------------------------------------------------------------------------------


def inserted(sql: str) -> st.Insert:
    found = parse_statement(sql)
    assert isinstance(found, st.Insert)
    return found


def test_insert() -> None:
    insert = inserted("INSERT INTO c.d.t (a, b.c) SELECT 1, 2 FROM u WHERE x")
    assert (insert.path, insert.columns, insert.overwrite) == (("c", "d", "t"), (("a",), ("b", "c")), False)
    assert insert.query.text == "SELECT 1, 2 FROM u WHERE x"
    insert = inserted("INSERT OVERWRITE t /*+ OPTIONS('a'='b') */ PARTITION (p = 'x') (a) VALUES (1), (2)")
    assert insert.overwrite and insert.options == {"a": "b"} and insert.columns == (("a",),)
    assert [name for name, _ in insert.partition] == ["p"]
    assert isinstance(insert.query.ast, exp.Values)
    assert inserted("INSERT INTO t (SELECT 1)").columns == ()
    assert inserted("INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM a").query.ast.args["with_"] is not None
    assert inserted("EXECUTE INSERT INTO t SELECT 1").path == ("t",)


@pytest.mark.parametrize("action", ["NOTHING", "ERROR", "DEDUPLICATE"])
def test_on_conflict(action: str) -> None:
    insert = inserted(f"INSERT INTO t SELECT * FROM a JOIN b ON x ON CONFLICT DO {action}")
    assert insert.on_conflict == action
    assert insert.query.text == "SELECT * FROM a JOIN b ON x"


def test_statement_set() -> None:
    found = parse_statement(
        "EXECUTE STATEMENT SET\nBEGIN\n"
        "  INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t;\n  INSERT INTO b SELECT 2;\nEND;"
    )
    assert isinstance(found, st.StatementSet)
    assert [i.path for i in found.inserts] == [("a",), ("b",)]


def test_explain() -> None:
    plain = parse_statement("EXPLAIN PLAN FOR SELECT 1")
    assert isinstance(plain, st.Explain) and isinstance(plain.statement, st.Query) and plain.details == ()
    detailed = parse_statement("EXPLAIN CHANGELOG_MODE, PLAN_ADVICE INSERT INTO t SELECT 1")
    assert isinstance(detailed, st.Explain) and isinstance(detailed.statement, st.Insert)
    assert detailed.details == ("CHANGELOG_MODE", "PLAN_ADVICE")
    for sql in (
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
        "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ):
        several = parse_statement(sql)
        assert isinstance(several, st.Explain) and isinstance(several.statement, st.StatementSet)


def test_row_level_changes() -> None:
    delete = parse_statement("DELETE FROM t AS x WHERE a = 1")
    assert isinstance(delete, st.Delete) and (delete.path, delete.alias) == (("t",), "x")
    assert delete.where is not None and delete.where.text == "a = 1"
    update = parse_statement("UPDATE t SET a = 1, b = a + 1 WHERE c")
    assert isinstance(update, st.Update)
    assert [(name, value.text) for name, value in update.assignments] == [("a", "1"), ("b", "a + 1")]
    call = parse_statement("CALL c.p(1, x => 2)")
    assert isinstance(call, st.Call) and call.call.ast.args["path"] == ("c",)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("ADD JAR 'x.jar'", "ADD JAR"),
        ("REMOVE JAR 'x.jar'", "REMOVE JAR"),
        ("STOP JOB 'x'", "STOP JOB"),
        ("ANALYZE TABLE t COMPUTE STATISTICS", "ANALYZE TABLE"),
        ("COMPILE PLAN 'x' FOR INSERT INTO t SELECT 1", "COMPILE PLAN"),
        ("EXECUTE PLAN 'x'", "EXECUTE PLAN"),
        ("MERGE INTO t USING u ON a WHEN MATCHED THEN UPDATE SET b = 1", "MERGE"),
        ("UPSERT INTO t SELECT 1", "UPSERT"),
        ("DESCRIBE JOB 'x'", "DESCRIBE JOB"),
        ("DROP MODEL m", "DROP MODEL"),
        ("ALTER MATERIALIZED TABLE m SUSPEND", "ALTER MATERIALIZED TABLE"),
        ("SHOW CONNECTIONS", "SHOW CONNECTIONS"),
        ("BEGIN STATEMENT SET", "EXECUTE STATEMENT SET"),
    ],
)
def test_refused_by_name(sql: str, name: str) -> None:
    with pytest.raises(ValidationException, match=name):
        parse_statement(sql)


def test_titles_name_statements() -> None:
    titles = {parse_statement(sql).title for sql, _ in STATEMENTS}
    assert "" not in titles and "ALTER TABLE" in titles


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT userId, COUNT(*) AS views FROM page_views GROUP BY userId",
        "SELECT SUM(views) FROM (SELECT userId, COUNT(*) AS views FROM page_views GROUP BY userId)",
        "SELECT customerId, SUM(amount) FROM orders "
        "WHERE orderTime > CURRENT_TIMESTAMP - INTERVAL '1' HOUR GROUP BY customerId",
        "SELECT customerId, SUM(amount) OVER (PARTITION BY customerId ORDER BY orderTime "
        "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS total FROM orders",
        "SELECT orderId, item.productId FROM co, LATERAL TABLE(EXPLODE(items)) AS T(item)",
        "SELECT symbol, COUNT(*) FROM events GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE)",
        "SELECT window_start, window_end, symbol, COUNT(*) as order_count, SUM(amount) as total_amount\n"
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))\n"
        "GROUP BY window_start, window_end, symbol",
        "SELECT symbol, window_time, SUM(amount) AS total_amount FROM TABLE(TUMBLE(TABLE events, "
        "DESCRIPTOR(eventTime), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time, symbol",
        "SELECT * FROM TABLE(TUMBLE(TABLE page_views, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))",
        "CREATE TABLE sink_table_1 (name STRING, age INT) WITH ('connector' = 'print')",
    ],
)
def test_sql_of_everyday_programs(sql: str) -> None:
    parse_statement(sql)
