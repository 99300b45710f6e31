"""Constants that are computed, and conditions that are settled, while a query is planned."""

from __future__ import annotations

import pytest

from streamline.errors import ValidationException
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from tests.table.expr.support import bind

COLUMNS = "a INT, c INT NOT NULL, p BOOLEAN, x DOUBLE, r ROW<i INT, j INT>"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("1 + 2 * 3", 7),
        ("UPPER('a') || 'b'", "Ab"),
        ("CAST('12' AS INT)", 12),
        ("CASE WHEN 1 > 2 THEN 3 ELSE 4 END", 4),
        ("1 IN (1, 2)", True),
        ("c IS NULL", False),
        ("p AND FALSE", False),
        ("p OR TRUE", True),
        ("CAST(NULL AS INT) + 1", None),
    ],
)
def test_constants(sql: str, value: object) -> None:
    folded = bind(sql, COLUMNS)
    assert isinstance(folded, Literal)
    assert folded.value == value


@pytest.mark.parametrize("sql", ["1 / 0", "a + 1 / 0", "1e0 / 0"])
def test_what_cannot_be_computed_is_an_error_of_planning(sql: str) -> None:
    with pytest.raises(ValidationException, match="constant expression"):
        bind(sql, COLUMNS)


@pytest.mark.parametrize("sql", ["CAST('x' AS INT)", "MOD(1, 0)"])
def test_what_fails_when_it_is_computed_stays(sql: str) -> None:
    assert isinstance(bind(sql, COLUMNS), Call)


@pytest.mark.parametrize("sql", ["RAND()", "UUID()", "CURRENT_TIMESTAMP", "a + 1"])
def test_what_changes_stays(sql: str) -> None:
    assert isinstance(bind(sql, COLUMNS), Call)


def test_a_condition_that_is_true_leaves_the_other() -> None:
    folded: Expr = bind("p AND 1 = 1", COLUMNS)
    assert isinstance(folded, InputRef)


def test_nullability_stays() -> None:
    assert bind("p OR TRUE", COLUMNS).type.nullable


def test_a_row_with_null_fields_is_not_surely_equal_to_itself() -> None:
    assert isinstance(bind("ROW(a, c) = ROW(a, c)", COLUMNS), Call)
