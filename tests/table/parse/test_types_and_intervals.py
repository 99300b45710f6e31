"""Data types and INTERVAL literals as text."""

from __future__ import annotations

import pytest

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.errors import SqlParserException, ValidationException
from streamline.table.parse import (
    cast_type,
    interval_of,
    parse_data_type,
    parse_expression,
    parse_path,
    parse_query,
)

TYPES = [
    ("BOOLEAN", t.BOOLEAN),
    ("tinyint", t.TINYINT),
    ("SMALLINT", t.SMALLINT),
    ("INT", t.INT),
    ("INTEGER NOT NULL", t.INT.not_null()),
    ("BIGINT NULL", t.BIGINT),
    ("FLOAT", t.FLOAT),
    ("REAL", t.FLOAT),
    ("DOUBLE", t.DOUBLE),
    ("DOUBLE PRECISION", t.DOUBLE),
    ("DECIMAL", t.decimal(10, 0)),
    ("DECIMAL(10, 2)", t.decimal(10, 2)),
    ("DEC(5)", t.decimal(5, 0)),
    ("NUMERIC(38, 38)", t.decimal(38, 38)),
    ("CHAR", t.char(1)),
    ("CHAR(3)", t.char(3)),
    ("CHARACTER VARYING(3)", t.varchar(3)),
    ("VARCHAR(5) NOT NULL", t.varchar(5).not_null()),
    ("VARCHAR", t.varchar(1)),
    ("STRING", t.STRING),
    ("BINARY(2)", t.binary(2)),
    ("VARBINARY(2)", t.varbinary(2)),
    ("BINARY VARYING(2)", t.varbinary(2)),
    ("BYTES", t.BYTES),
    ("DATE", t.DATE),
    ("TIME", t.time(0)),
    ("TIME(3) WITHOUT TIME ZONE", t.time(3)),
    ("TIMESTAMP", t.timestamp(6)),
    ("TIMESTAMP(3)", t.timestamp(3)),
    ("TIMESTAMP WITHOUT TIME ZONE", t.timestamp(6)),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", t.timestamp_ltz(3)),
    ("TIMESTAMP_LTZ", t.timestamp_ltz(6)),
    ("TIMESTAMP_LTZ(3) NOT NULL", t.timestamp_ltz(3).not_null()),
    ("ARRAY<INT NOT NULL>", t.array(t.INT.not_null())),
    ("INT ARRAY", t.array(t.INT)),
    ("INT NOT NULL ARRAY NOT NULL", t.array(t.INT.not_null()).not_null()),
    ("INT ARRAY ARRAY", t.array(t.array(t.INT))),
    ("STRING MULTISET", t.multiset(t.STRING)),
    ("MULTISET<STRING>", t.multiset(t.STRING)),
    ("MAP<STRING, ARRAY<ROW<x INT>>>", t.map_of(t.STRING, t.array(t.row(Field("x", t.INT))))),
    ("ROW<a INT, `b c` STRING NOT NULL 'text'>", t.row(Field("a", t.INT), Field("b c", t.STRING.not_null(), "text"))),
    ("ROW(a INT)", t.row(Field("a", t.INT))),
    ("ROW<>", t.row()),
    ("NULL", t.NULL),
    ("VARIANT", DataType("VARIANT")),
    ("RAW('java.lang.Object', '…')", t.raw("java.lang.Object")),
    ("STRUCTURED<'m.Point', x INT>", t.structured("m.Point", (Field("x", t.INT),))),
    ("INTERVAL DAY", t.interval_day_time("DAY(2)")),
    ("INTERVAL DAY(3) TO SECOND(2)", t.interval_day_time("DAY(3) TO SECOND(2)")),
    ("INTERVAL SECOND(3)", t.interval_day_time("SECOND(6)")),
    ("INTERVAL YEAR TO MONTH", t.interval_year_month("YEAR(2) TO MONTH")),
    ("INTERVAL MONTH", t.interval_year_month("MONTH")),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_data_type(text: str, expected: DataType) -> None:
    assert parse_data_type(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DECIMAL(39, 0)", "between 1 and 38"),
        ("DECIMAL(0, 0)", "between 1 and 38"),
        ("DECIMAL(3, 5)", "between 0 and the precision 3"),
        ("VARCHAR(0)", "length of VARCHAR must be between 1"),
        ("CHAR(0)", "length of CHAR must be between 1"),
        ("TIMESTAMP(10)", "between 0 and 9"),
        ("TIME WITH LOCAL TIME ZONE", "not supported"),
        ("FOOTYPE", "Unknown identifier 'FOOTYPE'"),
        ("ARRAY<cat.db.thing>", "Unknown identifier 'cat.db.thing'"),
        ("BITMAP", "not supported"),
    ],
)
def test_types_that_do_not_exist(text: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        parse_data_type(text)


@pytest.mark.parametrize(
    "text", ["", "INT INT", "STRING(3)", "ARRAY<>", "ROW<a>", "MAP<INT>", "TIMESTAMP WITH TIME ZONE"]
)
def test_malformed_types(text: str) -> None:
    with pytest.raises(SqlParserException):
        parse_data_type(text)


def test_types_in_queries_are_cut_to_what_there_is() -> None:
    def of(text: str) -> DataType:
        return cast_type(parse_expression(f"CAST(x AS {text})").ast)

    # As recorded: a DECIMAL beyond 38 digits is one of 38, a VARCHAR may be empty.
    assert of("DECIMAL(39, 0)") == t.decimal(38, 0)
    assert of("VARCHAR(0)") == t.varchar(0)
    assert of("TIMESTAMP(12)") == t.timestamp(9)
    assert of("INTERVAL DAY") == t.interval_day_time()
    with pytest.raises(ValidationException, match="scale"):
        of("DECIMAL(3, 5)")
    with pytest.raises(SqlParserException):
        of("INT NOT NULL")


def test_path() -> None:
    assert parse_path("`a.b`.c") == ("a.b", "c")
    for text in ("", "a.", "a b", "select"):
        with pytest.raises(SqlParserException):
            parse_path(text)


# -- intervals -----------------------------------------------------------------------------------------------------

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000

INTERVALS = [
    ("'3' DAY", 3 * DAY),
    ("'3' DAYS", 3 * DAY),
    ("'-3' DAY", -3 * DAY),
    ("-'3' DAY", -3 * DAY),
    ("-'-3' DAY", 3 * DAY),
    ("+'3' DAY", 3 * DAY),
    ("'2' WEEK", 14 * DAY),
    ("'100' DAY(3)", 100 * DAY),
    ("'10' SECOND", 10 * SECOND),
    ("'1.5' SECOND", 1500),
    ("'1.123456' SECOND", 1123),
    ("'1:30' HOUR TO MINUTE", HOUR + 30 * MINUTE),
    ("'1:30' MINUTE TO SECOND", MINUTE + 30 * SECOND),
    ("'02:03:04' HOUR TO SECOND", 2 * HOUR + 3 * MINUTE + 4 * SECOND),
    ("'1 2' DAY TO HOUR", DAY + 2 * HOUR),
    ("'1 02:03' DAY TO MINUTE", DAY + 2 * HOUR + 3 * MINUTE),
    ("'1 02:03:04.5' DAY TO SECOND", DAY + 2 * HOUR + 3 * MINUTE + 4500),
    ("'-1 02:03:04.25' DAY TO SECOND(2)", -(DAY + 2 * HOUR + 3 * MINUTE + 4250)),
]
MONTHS = [
    ("'2' MONTH", 2),
    ("'2' YEAR", 24),
    ("'3' QUARTER", 9),
    ("'1-2' YEAR TO MONTH", 14),
    ("-'1-11' YEAR TO MONTH", -23),
    ("'123-0' YEAR(3) TO MONTH", 1476),
]


@pytest.mark.parametrize(("text", "amount"), INTERVALS)
def test_day_time_interval(text: str, amount: int) -> None:
    value = interval_of(parse_expression(f"INTERVAL {text}").ast)
    assert (value.amount, value.year_month) == (amount, False)
    assert str(value.type) == "INTERVAL SECOND(3) NOT NULL"


@pytest.mark.parametrize(("text", "amount"), MONTHS)
def test_year_month_interval(text: str, amount: int) -> None:
    value = interval_of(parse_expression(f"INTERVAL {text}").ast)
    assert (value.amount, value.year_month) == (amount, True)
    assert str(value.type) == "INTERVAL MONTH NOT NULL"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'x' DAY", "Illegal interval literal format 'x' for INTERVAL DAY"),
        ("'' DAY", "Illegal interval literal"),
        ("'1.5' DAY", "Illegal interval literal"),
        ("'100' DAY", r"exceeds precision of DAY\(2\) field; write INTERVAL '100' DAY\(3\)"),
        ("'1 24' DAY TO HOUR", "HOUR is 24, at most 23"),
        ("'1:60' HOUR TO MINUTE", "MINUTE is 60, at most 59"),
        ("'1-12' YEAR TO MONTH", "MONTH is 12, at most 11"),
        ("'1' DAY TO SECOND", "reads like '1 02:03:04'"),
        ("'1' HOUR TO MINUTE", "reads like '02:03'"),
        ("'1.123' SECOND(2, 2)", "too many digits"),
    ],
)
def test_intervals_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        interval_of(parse_expression(f"INTERVAL {text}").ast)


@pytest.mark.parametrize("text", ["'1' MILLISECOND", "'1' YEAR TO DAY", "'1' DAY TO MONTH", "'1'", "DAY", "x + 1 DAY"])
def test_malformed_intervals(text: str) -> None:
    with pytest.raises(SqlParserException):
        parse_query(f"SELECT INTERVAL {text}")
