"""Regular expressions, and what depends on the session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core import types as t
from streamline.errors import StreamlineError
from streamline.table.codegen.expressions import compile_scalar
from streamline.table.expr.context import EvalContext
from streamline.table.expr.runtime import regex
from tests.table.expr.support import bind, context_of, value_of


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\d+", "a12", "12"),
        (r"\d+", "\u0661", None),
        (r"\p{Alpha}+", "1ab2", "ab"),
        (r"[a-z&&[^b]]+", "bac", "ac"),
        (r"\Qa.b\E", "xa.by", "a.b"),
        (r"(?<first>a)\k<first>", "aa", "aa"),
        (r"\h", "a\tb", "\t"),
        (r"(?i)AB", "xab", "ab"),
        (r"a$", "ba\n", "a"),
        (r"[\w&&\D]+", "12ab", "ab"),
        (r"a{2,}+", "aaa", "aaa"),
        (r"\x41\u0042", "AB", "AB"),
        (r"[[:alpha:]]", "x", None),
        ("[]", "x", None),
        ("(", "x", None),
    ],
)
def test_expressions_of_the_jvm(pattern: str, text: str, found: str | None) -> None:
    compiled = regex.compile_java(pattern)
    match = compiled.search(text) if compiled is not None else None
    assert (match[0] if match is not None else None) == found


def _like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(pattern[1:], text[1:])


@given(st.text("ab%_.\n", max_size=6), st.text("ab.\n", max_size=6))
def test_like(pattern: str, text: str) -> None:
    assert value_of(f"s LIKE '{pattern}'", "s STRING NOT NULL", text) is _like(pattern, text)
    assert (regex.compile_like(pattern).fullmatch(text) is not None) is _like(pattern, text)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
        ("'axb' LIKE 'a!%b' ESCAPE '!'", False),
        ("'abab' SIMILAR TO '(ab)+'", True),
        ("'a.b' SIMILAR TO 'a.b'", True),
        ("'axb' SIMILAR TO 'a.b'", False),
        ("REGEXP_REPLACE('a1b2', '([0-9])', '<$1>')", "a<$1>b<$1>"),
        ("REGEXP_EXTRACT('k=v', '(\\w)=(\\w)', 2)", "v"),
    ],
)
def test_patterns_in_sql(sql: str, found: object) -> None:
    assert value_of(sql) == found


# -- the session -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "text"),
    [("UTC", "2023-11-14 22:13:20.000"), ("Asia/Kolkata", "2023-11-15 03:43:20.000")],
)
def test_the_zone_is_the_session_s(zone: str, text: str) -> None:
    assert value_of("CAST(TO_TIMESTAMP_LTZ(1700000000000, 3) AS STRING)", context=context_of(zone)) == text
    assert value_of("CAST(CAST(CURRENT_ROW_TIMESTAMP() AS TIMESTAMP(3)) AS STRING)", context=context_of(zone)) == text


def test_the_time_of_a_query_stands_still_and_that_of_a_row_does_not() -> None:
    context = EvalContext(now=lambda: 2000, query_start=1000)
    assert value_of("CURRENT_TIMESTAMP", context=context) == 1_000_000_000
    assert value_of("CURRENT_ROW_TIMESTAMP()", context=context) == 2_000_000_000


def test_the_watermark() -> None:
    context = context_of()
    rowtime = [("t", t.timestamp(3).as_time_attribute("rowtime"))]
    function = compile_scalar(bind("CURRENT_WATERMARK(t)", rowtime, context), context)
    assert function((0,)) is None
    context.watermark = 5000
    assert function((0,)) == 5_000_000_000


def test_legacy_casts_give_null() -> None:
    assert value_of("CAST(s AS INT)", "s STRING", "x", context=context_of(legacy_cast=True)) is None
    with pytest.raises(StreamlineError):
        value_of("CAST(s AS INT)", "s STRING", "x")
