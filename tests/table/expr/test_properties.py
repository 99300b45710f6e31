"""Generated code beside a plain reading of SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from streamline._core import types as t
from streamline.table.codegen.expressions import ExpressionCompiler, compile_condition, compile_scalar
from streamline.table.expr.functions.logic import and_, not_, or_
from streamline.table.expr.nodes import Expr, InputRef, Literal
from streamline.table.expr.registry import bind_call
from streamline.table.expr.runtime import calendar, json, temporal
from tests.table.expr.support import context_of

#: An expression, and what it is for a row.
Both = tuple[Expr, Callable[[tuple[Any, ...]], Any]]

_COLUMNS = (t.BOOLEAN, t.BOOLEAN, t.BOOLEAN.not_null(), t.INT, t.INT, t.INT.not_null())
_ROWS = st.tuples(
    st.sampled_from([True, False, None]),
    st.sampled_from([True, False, None]),
    st.booleans(),
    st.sampled_from([None, 0, 1, 2, 2**31 - 1, -(2**31)]),
    st.sampled_from([None, 0, 1, 2, 2**31 - 1]),
    st.sampled_from([0, 1, 2, -1]),
)


def _column(index: int) -> Both:
    return InputRef(index, _COLUMNS[index], f"f{index}"), lambda row: row[index]


def _null_if(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else function(*values)


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _and(a: Any, b: Any) -> Any:
    return False if a is False or b is False else None if a is None or b is None else True


def _not(a: Any) -> Any:
    return None if a is None else not a


def _applied(name: str, function: Callable[..., Any], *operands: Both) -> Both:
    expr = bind_call(name, [o[0] for o in operands])
    return expr, lambda row: function(*(o[1](row) for o in operands))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": _null_if(lambda a, b: _wrapped(a + b)),
    "-": _null_if(lambda a, b: _wrapped(a - b)),
    "*": _null_if(lambda a, b: _wrapped(a * b)),
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "=": _null_if(lambda a, b: a == b),
    "<>": _null_if(lambda a, b: a != b),
    "<": _null_if(lambda a, b: a < b),
    ">=": _null_if(lambda a, b: a >= b),
    "IS DISTINCT FROM": lambda a, b: a != b,
    "IS NOT DISTINCT FROM": lambda a, b: a == b,
}
_TESTS: dict[str, Callable[..., Any]] = {
    "IS NULL": lambda a: a is None,
    "IS NOT NULL": lambda a: a is not None,
    "IS TRUE": lambda a: a is True,
    "IS NOT TRUE": lambda a: a is not True,
    "IS FALSE": lambda a: a is False,
    "IS NOT FALSE": lambda a: a is not False,
    "NOT": _not,
}


def _case(condition: Both, then: Both, otherwise: Both) -> Both:
    return _applied("CASE", lambda c, x, y: x if c is True else y, condition, then, otherwise)


def _constant(value: int | None) -> Both:
    literal = Literal(value, t.INT.with_nullable(value is None))
    return literal, lambda row: value


def _numbers(conditions: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    leaves = st.sampled_from([_column(3), _column(4), _column(5), _constant(1), _constant(2**31 - 1), _constant(None)])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda n, a, b: _applied(n, _ARITHMETIC[n], a, b), st.sampled_from([*_ARITHMETIC]), inner, inner),
            st.builds(_case, conditions, inner, inner),
        ),
        max_leaves=3,
    )


_LEAVES = st.sampled_from([_column(0), _column(1), _column(2)])
_SIMPLE = st.one_of(
    _LEAVES,
    st.builds(
        lambda n, a, b: _applied(n, _COMPARED[n], a, b),
        st.sampled_from([*_COMPARED]),
        _numbers(_LEAVES),
        _numbers(_LEAVES),
    ),
    st.builds(
        lambda a, low, high: (
            bind_call("BETWEEN", (a[0], low[0], high[0])),
            lambda row: _and(_COMPARED[">="](a[1](row), low[1](row)), _COMPARED[">="](high[1](row), a[1](row))),
        ),
        _numbers(_LEAVES),
        _numbers(_LEAVES),
        _numbers(_LEAVES),
    ),
)
_CONDITIONS: st.SearchStrategy[Both] = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.builds(
            lambda a, b: (and_(a[0], b[0]), lambda row: _and(a[1](row), b[1](row))),
            inner,
            inner,
        ),
        st.builds(
            lambda a, b: (or_(a[0], b[0]), lambda row: _not(_and(_not(a[1](row)), _not(b[1](row))))),
            inner,
            inner,
        ),
        st.builds(lambda n, a: _applied(n, _TESTS[n], a), st.sampled_from([*_TESTS]), inner),
        st.builds(_case, inner, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(_CONDITIONS, st.lists(_ROWS, min_size=1, max_size=12))
def test_conditions(both: Both, rows: list[tuple[Any, ...]]) -> None:
    expr, expected = both
    value, holds, fails = compile_scalar(expr), compile_condition(expr), compile_condition(not_(expr))
    for row in rows:
        wanted = expected(row)
        assert value(row) is wanted
        assert holds(row) is (wanted is True)
        assert fails(row) is (wanted is False)


@settings(max_examples=100, deadline=None)
@given(_CONDITIONS, _numbers(_LEAVES), st.lists(_ROWS, min_size=1, max_size=12))
def test_filtered_values(condition: Both, number: Both, rows: list[tuple[Any, ...]]) -> None:
    compiler = ExpressionCompiler({})
    tested, values = compiler.emit_filtered(condition[0], [number[0]], lambda i: f"r[{i}]")
    found = eval(f"[{values[0]} for r in rows if {tested}]", {**compiler.namespace, "rows": rows})
    assert found == [number[1](row) for row in rows if condition[1](row) is True]


# -- times -------------------------------------------------------------------------------------------------------

_MOMENTS = st.integers(-62_135_596_800_000, 253_402_300_799_999)  # milliseconds of the years 1 to 9999


@given(_MOMENTS)
def test_timestamps_as_text(millis: int) -> None:
    nanos = millis * temporal.MS
    assert temporal.parse_timestamp(temporal.format_timestamp(nanos, 3), 9) == nanos


@given(_MOMENTS, st.sampled_from(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY"]))
def test_floors(millis: int, unit: str) -> None:
    nanos = millis * temporal.MS
    floor = calendar.floor_timestamp(nanos, unit)
    assert floor <= nanos
    assert calendar.floor_timestamp(floor, unit) == floor
    day = nanos // temporal.DAY
    assert (calendar.ceil_day(day, unit) == day) == (calendar.floor_day(day, unit) == day)
    assert calendar.ceil_day(day, unit) >= day


@given(
    st.datetimes(dt.datetime(1971, 1, 2), dt.datetime(2037, 1, 1)),
    st.sampled_from(["Europe/Paris", "America/New_York", "Asia/Kolkata", "UTC"]),
)
def test_local_times(moment: dt.datetime, zone: str) -> None:
    context = context_of(zone)
    expr = bind_call("CAST", (InputRef(0, t.timestamp_ltz(6), "l"),), (t.timestamp(6),))
    aware = moment.replace(tzinfo=dt.UTC)
    nanos = (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000
    local = aware.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    wanted = (local - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
    assert compile_scalar(expr, context)((nanos,)) == wanted


# -- JSON --------------------------------------------------------------------------------------------------------

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(codec="utf-8"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_JSON)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert json.parse(json.dumps(value)) == value


@given(st.text(st.characters(codec="utf-8")))
def test_texts_are_quoted_and_unquoted(text: str) -> None:
    assert json.unquote(json.quote(text)) == text
