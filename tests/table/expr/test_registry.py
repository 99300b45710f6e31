"""How functions are found, and what is said of calls that cannot be."""

from __future__ import annotations

import pytest

from streamline._core import types as t
from streamline.errors import ValidationException
from streamline.table.expr import aggregates
from streamline.table.expr.nodes import InputRef, Literal
from streamline.table.expr.registry import bind_call, function_names, lookup
from tests.table.expr.support import bind

COLUMNS = "a INT, s STRING, p BOOLEAN, t TIMESTAMP(3), e ARRAY<INT>"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("a + p", r"Cannot apply '\+' to arguments of type '<INTEGER> \+ <BOOLEAN>'"),
        ("NOT a", "Cannot apply 'NOT'"),
        ("UPPER(a, s)", "Invalid number of arguments to function 'UPPER'"),
        ("NOPE(a)", r"No match found for function signature NOPE\(<NUMERIC>\)"),
        ("UPER(s)", r"Did you mean UPPER\?"),
        ("s.x", "x"),
        ("nothing", "Column 'nothing' not found"),
        ("a = s", "implicit type conversion between INTEGER and VARCHAR is not supported"),
        ("p AND NULL", "Illegal use of 'NULL'"),
        ("UPPER(NULL)", "Illegal use of 'NULL'"),
        ("a IN ('x', 1)", "Values in expression list must have compatible types"),
        ("CASE WHEN p THEN a ELSE t END", "Illegal mixing of types in CASE or COALESCE statement"),
        ("CASE WHEN a THEN 1 END", "Expected a boolean type"),
        ("DATE_FORMAT(DATE '2024-01-01', 'yyyy')", "Cannot apply 'DATE_FORMAT'"),
        ("ARRAY_CONTAINS(e, 2.5)", "Cannot apply 'ARRAY_CONTAINS'"),
        ("1e400", "out of range"),
        ("99999999999999999999.5", "out of range"),
        ("DATE '2024-02-30'", "Illegal DATE literal"),
    ],
)
def test_messages(sql: str, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        bind(sql, COLUMNS)


def test_errors_say_where() -> None:
    with pytest.raises(ValidationException, match="From line 2, column 1 to line 2, column 5: Cannot apply"):
        bind("a >\na + p", COLUMNS)


def test_names_are_found_in_any_case() -> None:
    assert lookup("upper") is lookup("UPPER")
    assert lookup("no such function") is None


def test_every_function_has_a_name_under_which_it_is_found() -> None:
    for name in function_names():
        function = lookup(name)
        assert function is not None
        assert lookup(function.name) is function


def test_a_call_inserts_casts() -> None:
    a, x = InputRef(0, t.INT, "a"), InputRef(1, t.DOUBLE, "x")
    assert bind_call("+", (a, x)).type == t.DOUBLE
    assert str(bind_call("+", (a, Literal(1, t.INT.not_null()))).type) == "INT"


# -- aggregates --------------------------------------------------------------------------------------------------

_DEC = t.decimal(10, 2)


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("COUNT", t.STRING, "BIGINT NOT NULL"),
        ("SUM", t.INT, "INT"),
        ("SUM", t.BIGINT, "BIGINT"),
        ("SUM", _DEC, "DECIMAL(38, 2)"),
        ("SUM", t.DOUBLE, "DOUBLE"),
        ("AVG", t.INT, "INT"),
        ("AVG", _DEC, "DECIMAL(38, 6)"),
        ("MIN", t.STRING, "STRING"),
        ("MAX", t.DATE, "DATE"),
        ("STDDEV_POP", t.DOUBLE, "DOUBLE"),
        ("LISTAGG", t.STRING, "STRING"),
        ("FIRST_VALUE", t.INT, "INT"),
        ("ARRAY_AGG", t.INT, "ARRAY<INT>"),
    ],
)
def test_aggregates(name: str, argument: t.DataType, result: str) -> None:
    call = aggregates.bind_aggregate(name, [InputRef(0, argument, "a")], may_be_empty=True)
    assert call.type.summary(short=True) == result


@pytest.mark.parametrize(("name", "argument"), [("SUM", t.STRING), ("AVG", t.BOOLEAN), ("LISTAGG", t.INT)])
def test_aggregates_refuse(name: str, argument: t.DataType) -> None:
    with pytest.raises(ValidationException, match=f"Cannot apply '{name}'"):
        aggregates.bind_aggregate(name, [InputRef(0, argument, "a")])
