"""The Python source that expressions become."""

from __future__ import annotations

import linecache
import traceback
from decimal import Decimal

import pytest

from streamline.errors import TableException
from streamline.table.codegen.expressions import ExpressionCompiler, compile_condition, compile_scalar
from streamline.table.codegen.source import compile_function
from streamline.table.expr.context import EvalContext
from tests.table.expr.support import bind, columns_of, context_of, emitted, value_of

COLUMNS = (
    "a INT, b BIGINT, c INT NOT NULL, d BIGINT NOT NULL, s STRING, z STRING NOT NULL, p BOOLEAN, q BOOLEAN NOT NULL, "
    "m DECIMAL(10, 2), l TIMESTAMP_LTZ(3), n BIGINT NOT NULL, r ROW<i INT, j STRING NOT NULL>"
)


@pytest.mark.parametrize(
    ("sql", "source"),
    [
        ("a > 10", "(None if a is None else (a > 10))"),
        ("c > 10", "(c > 10)"),
        ("c + 1", "(_1 if -2147483648 <= (_1 := (c + 1)) <= 2147483647 else wrap32(_1))"),
        ("CAST(c AS BIGINT)", "c"),
        ("UPPER(z)", "z.upper()"),
        ("z || z", "(z + z)"),
        ("z LIKE 'a%'", "z.startswith('a')"),
        ("SUBSTRING(z, 2)", "z[1:]"),
        ("c % 3 = 0", "(c % 3 == 0)"),
        ("c IN (1, 2)", "(c in {1, 2})"),
        ("COALESCE(s, z)", "(s if (s is not None) else z)"),
        ("CASE WHEN c > 1 THEN 1 ELSE 2 END", "(1 if (c > 1) else 2)"),
        ("r.i", "(None if r is None else r[0])"),
        ("c IS NULL", "False"),
    ],
)
def test_values(sql: str, source: str) -> None:
    assert emitted(sql, COLUMNS) == source


@pytest.mark.parametrize(
    ("sql", "source"),
    [
        ("a > 10", "(a is not None and (a > 10))"),
        ("c > 10", "(c > 10)"),
        ("NOT p", "(p is False)"),
        ("p AND q", "(p and q)"),
        ("a IN (1, 2)", "(a in {1, 2})"),
        ("a BETWEEN 1 AND 5", "((a is not None) and 1 <= a <= 5)"),
        ("a IS NOT NULL AND a > 1", "((a is not None) and (a > 1))"),
    ],
)
def test_conditions(sql: str, source: str) -> None:
    assert emitted(sql, COLUMNS, condition=True) == source


def test_integers_wrap_once_for_a_chain() -> None:
    assert emitted("d * 2 + 1", COLUMNS).count("wrap64") == 1


def test_no_wrap_where_nothing_overflows() -> None:
    assert "wrap" not in emitted("CAST(c AS BIGINT) * 2 + 1", COLUMNS)


def test_what_a_condition_has_tested_is_not_tested_again() -> None:
    columns = columns_of(COLUMNS)
    compiler = ExpressionCompiler({}, context_of())
    condition, values = compiler.emit_filtered(bind("b > 10", COLUMNS), [bind("b", COLUMNS)], lambda i: columns[i][0])
    assert condition == "(b is not None and (b > 10))"
    assert values == ["b"]


def test_an_operand_that_is_read_by_a_call_is_read_once() -> None:
    compiler = ExpressionCompiler({}, context_of())
    source = compiler.emit(bind("a > 10", COLUMNS), lambda i: f"r[{i}]")
    assert source.count("r[0]") == 1


@pytest.mark.parametrize(
    ("sql", "source"),
    [
        ("TO_TIMESTAMP_LTZ(n, 3)", "n"),
        ("TO_TIMESTAMP_LTZ(n, 0)", "n * 1000"),
        ("TO_TIMESTAMP_LTZ(n, 3) - INTERVAL '10' SECOND", "n - 10000"),
        ("TO_TIMESTAMP_LTZ(n, 3) + INTERVAL '1' MINUTE", "n + 60000"),
        ("TO_TIMESTAMP_LTZ(b, 3) - INTERVAL '10' SECOND", "(None if b is None else b - 10000)"),
        ("l", "(None if l is None else l // 1000000)"),
    ],
)
def test_milliseconds(sql: str, source: str) -> None:
    columns = columns_of(COLUMNS)
    compiler = ExpressionCompiler({}, context_of())
    assert compiler.emit_millis(bind(sql, COLUMNS), lambda i: columns[i][0]) == source


def test_milliseconds_of_a_column_at_hand() -> None:
    compiler = ExpressionCompiler({}, context_of())
    expr = bind("l - INTERVAL '5' SECOND", COLUMNS)
    source = compiler.emit_millis(expr, lambda i: "never", millis=lambda i: "ts")
    assert source == "(None if ts is None else ts - 5000)"


def test_helpers_and_constants_are_in_the_namespace() -> None:
    namespace: dict[str, object] = {}
    compiler = ExpressionCompiler(namespace, context_of())
    source = compiler.emit(bind("m * CAST(1.5 AS DECIMAL(3, 1))", COLUMNS), lambda i: "m")
    assert eval(source, {**namespace, "m": Decimal("2.00")}) == Decimal("3.000")


def test_the_context_is_reached_through_a_name() -> None:
    now = 0
    context = EvalContext(now=lambda: now)
    function = compile_scalar(bind("CURRENT_ROW_TIMESTAMP()", "", context), context)
    assert function(()) == 0
    now = 5
    assert function(()) == 5_000_000


def test_tracebacks_show_the_source() -> None:
    function = compile_function("broken", "def broken(r):\n    return r[0] + 'x'\n", {})
    with pytest.raises(TypeError) as caught:
        function((1,))
    assert "return r[0] + 'x'" in "".join(traceback.format_exception(caught.value))
    assert any(name.startswith("<streamline broken") for name in linecache.cache)


def test_a_condition_is_a_bool() -> None:
    condition = compile_condition(bind("a > 10", COLUMNS), context_of())
    assert condition((11,)) is True
    assert condition((None,)) is False


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("2147483647 + 1", -2147483648),
        ("CAST(127 AS TINYINT) + CAST(1 AS TINYINT)", -128),
        ("9223372036854775807 + 1", -9223372036854775808),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
    ],
)
def test_integers(sql: str, value: int) -> None:
    assert value_of(sql) == value


def test_division_by_zero_fails_at_the_row() -> None:
    with pytest.raises((TableException, ArithmeticError)):
        value_of("a / b", "a INT, b INT", 1, 0)
