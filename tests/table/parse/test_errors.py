"""What a syntax error says, and that no text, however deep, does worse than raise one."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from streamline.errors import SqlParserException, ValidationException
from streamline.table.parse import (
    MAX_DEPTH,
    parse_expression,
    parse_query,
    parse_statement,
    parse_statements,
    split_statements,
)


def failure(sql: str) -> SqlParserException:
    with pytest.raises(SqlParserException) as caught:
        parse_statement(sql)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "place", "said"),
    [
        ("SELECT (v + 1 FROM t", (1, 15), "unexpected 'FROM'; expected ',' or ')'"),
        (
            "SELECT ts + INTERVAL '1' FORTNIGHT FROM t",
            (1, 26),
            "expected SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER",
        ),
        ("SELECT id FROM t OFFSET -1", (1, 25), "expected a number"),
        ("SELECT v # 2 FROM t", (1, 10), "unexpected character '#'"),
        ("SELECT k, FROM t", (1, 11), "unexpected 'FROM'"),
        ("", (1, 1), "no statement"),
        ("  -- nothing\n", (2, 1), "no statement"),
        ("SELECT a FROM t WHERE", (1, 22), "unexpected end of the text"),
        ("SELECT 'abc", (1, 8), "not closed"),
        ("SELECT `abc", (1, 8), "not closed"),
        ("SELECT a /* b", (1, 10), "not closed"),
        ("SELECT ``", (1, 8), "empty identifier"),
        ("SELECT U&'\\00zz'", (1, 8), "four hexadecimal digits"),
        ("SELECT X'0g'", (1, 8), "0-9 and A-F"),
        ("SELECT a\n  FROM t\n WHERE x ==\n 1", (3, 11), "unexpected '='"),
        ("SELECT a FROM t LIMIT 3, 4", (1, 24), "LIMIT start, count"),
        ("SELECT a MINUS SELECT b", (1, 10), "MINUS"),
        ("SELECT a FROM t CROSS APPLY TABLE(f(x))", (1, 17), "APPLY"),
        ("SELECT a FROM (SELECT 1) FOR SYSTEM_TIME AS OF x", (1, 26), "FOR SYSTEM_TIME after a query"),
        ("SELECT 消费, 'x' 'y'", (1, 16), "a string right after another"),
    ],
)
def test_place_and_reason(sql: str, place: tuple[int, int], said: str) -> None:
    error = failure(sql)
    assert (error.line, error.column) == place
    assert said in str(error)
    assert f"line {place[0]}, column {place[1]}" in str(error)


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("SELECT v AS value FROM t", "value is a reserved word; as a name it is written `value`."),
        ("SELECT user, order FROM t", "order is a reserved word; as a name it is written `order`."),
        ('SELECT "k" FROM t', "Identifiers are quoted by backticks, strings by apostrophes."),
        ("SELECT a FROM t WHERE a != 1", "Not equal is written <>."),
        ("SELECT x & 1 FROM t", "AND combines conditions."),
        ("SELCT 1", "Did you mean SELECT instead of SELCT?"),
        ("SELECT a FROM t WHER x = 1", "Did you mean WHERE instead of WHER?"),
        ("SELECT a FROM t GROUPP BY a", "Did you mean GROUP instead of GROUPP?"),
        ("SELECT DAY(ts) FROM t", "EXTRACT(DAY FROM x)"),
        ("SELECT a AS 'x' FROM t", "Names are quoted by backticks."),
        ("SET a = b", "SET 'key' = 'value'"),
        ("SELECT LISTAGG(a ORDER BY b) FROM t", "WITHIN GROUP (ORDER BY y)"),
    ],
)
def test_advice(sql: str, advice: str) -> None:
    assert advice in str(failure(sql))


def test_no_advice_to_quote_the_word_of_the_next_clause() -> None:
    assert "`" not in str(failure("SELECT k, FROM t"))
    assert "`" not in str(failure("SELECT SUM(a), GROUP BY b"))


def test_the_place_is_underlined() -> None:
    assert str(failure("SELECT a,\n\tFORM b c d\nFROM t")).splitlines()[1:3] == ["  \tFORM b c d", "  \t       ^"]
    long = "SELECT " + ", ".join(f"column_{i}" for i in range(60)) + ", FROM t"
    _, second, third = str(failure(long)).splitlines()[:3]
    assert second.startswith("  …") and second.endswith("FROM t") and len(second) < 140
    assert second[third.index("^") :].startswith("FROM") and third.strip() == "^^^^"


def test_lines_may_end_in_any_way() -> None:
    error = failure("SELECT a\r\nFROM t\r\nWHERE ,")
    assert (error.line, error.column) == (3, 7)
    assert str(error).splitlines()[1] == "  WHERE ,"


def test_more_than_one_statement() -> None:
    with pytest.raises(ValidationException, match="line 1, column 11"):
        parse_statement("SELECT 1; SELECT 2")
    parse_statement("SELECT 1;;")


def test_only_queries_are_queries() -> None:
    with pytest.raises(ValidationException, match="CREATE TABLE"):
        parse_query("CREATE TABLE t (a INT)")
    with pytest.raises(ValidationException, match="INSERT"):
        parse_query("INSERT INTO t SELECT 1")


# -- depth ---------------------------------------------------------------------------------------------------------


def brackets(n: int) -> str:
    return "SELECT " + "(" * n + "1" + ")" * n


def outcome(sql: str) -> str:
    try:
        parse_statement(sql)
    except SqlParserException as error:
        assert error.line is not None and "nested" in str(error)
        return "refused"
    return "read"


DEEP = [
    *((brackets(n), "read") for n in (30, 50, 100)),
    *((brackets(n), "refused") for n in (300, 2000, 100_000)),
    ("SELECT " + " OR ".join(f"a = {i}" for i in range(500)), "read"),
    ("SELECT " + " OR ".join(f"a = {i}" for i in range(5000)), "read"),
    (" UNION ALL ".join(["SELECT 1"] * 500), "read"),
    ("SELECT " + " + ".join(["a"] * 150), "read"),
    ("SELECT " + " + ".join(["a"] * 2000), "refused"),
    ("SELECT " + "f(" * 90 + "1" + ")" * 90, "read"),
    ("SELECT " + "NOT " * 150 + "a", "read"),
    ("SELECT " + "NOT " * 5000 + "a", "refused"),
    ("SELECT " + "- " * 5000 + "a", "refused"),
    ("SELECT " + "CASE WHEN a THEN 1 ELSE " * 100 + "1" + " END" * 100, "read"),
    ("SELECT " + "CASE WHEN a THEN 1 ELSE " * 5000 + "1" + " END" * 5000, "refused"),
    ("SELECT CAST(a AS " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ")", "refused"),
    ("SELECT a" + "[1]" * 5000, "refused"),
    ("SELECT a" + ".b" * 5000, "refused"),
    ("SELECT * FROM (" * 60 + "SELECT 1" + ")" * 60, "read"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (" + "(" * 5000 + "A" + ")" * 5000 + ") DEFINE A AS TRUE)", "refused"),
    ("SELECT * FROM a" + " JOIN b ON x" * 1000, "read"),
]


@pytest.mark.parametrize(("sql", "expected"), DEEP, ids=range(len(DEEP)))
def test_depth(sql: str, expected: str) -> None:
    assert outcome(sql) == expected


def test_depth_in_a_thread_and_in_the_event_loop() -> None:
    def all_of_it() -> list[str]:
        return [outcome(sql) for sql, _ in DEEP]

    expected = [e for _, e in DEEP]
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(all_of_it()))
    thread.start()
    thread.join()
    assert found == [expected]

    async def in_the_loop() -> list[str]:
        return all_of_it()

    assert asyncio.run(in_the_loop()) == expected


def test_depth_of_a_stack_that_is_nearly_used_up() -> None:
    def down(levels: int) -> str:
        return down(levels - 1) if levels else outcome(brackets(90))

    room = sys.getrecursionlimit() - len(list(frames()))
    assert down(room - 60) == "refused"


def frames() -> list[object]:
    out, frame = [], sys._getframe()
    while frame is not None:
        out.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return out


def test_a_tree_is_never_deeper_than_it_says() -> None:
    def depth(sql: str) -> int:
        level, n = [parse_expression(sql).ast], 0
        while level:
            n += 1
            level = [child for node in level for child in node.iter_expressions()]
        return n

    assert depth(" + ".join(["a"] * 150)) <= MAX_DEPTH


# -- scripts -------------------------------------------------------------------------------------------------------

SCRIPT = """
-- a script; with a semicolon in a comment
CREATE TABLE t (a STRING) WITH ('k' = 'a;b');
EXPLAIN CHANGELOG_MODE STATEMENT SET BEGIN
  INSERT INTO t SELECT CASE WHEN a THEN ';' END FROM u;
  INSERT INTO t SELECT 1;
END;
BEGIN STATEMENT SET;
INSERT INTO t SELECT 1;
END;
;
SELECT `a;b` FROM t /* ; */
"""


def test_scripts_are_split_between_statements_only() -> None:
    parts = split_statements(SCRIPT)
    assert [p.split()[0] for p in parts] == ["CREATE", "EXPLAIN", "BEGIN", "SELECT"]
    assert parts[3] == "SELECT `a;b` FROM t"
    assert [type(s).__name__ for s in parse_statements(SCRIPT)] == ["CreateTable", "Explain", "StatementSet", "Query"]
    assert split_statements(" ; ;; ") == () and parse_statements("") == ()


@pytest.mark.parametrize("text", [None, b"SELECT 1", 1])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(ValidationException, match=f"SQL is text \\(str\\), not {type(text).__name__}"):
        parse_statement(text)
