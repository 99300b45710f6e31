"""MATCH_RECOGNIZE finds what a regular expression finds in the rows' letters, however the input was cut or read."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamline import TableException
from tests.properties.test_sql_over_time import continuous, rows

LETTERS = "abcd"
#: Which letters a variable matches; W is every row.
CONDITIONS = {"A": "a", "B": "b", "C": "c", "N": "bc", "W": LETTERS}
#: Pattern in SQL, variables as above. Greedy ones are not followed by a variable that has a letter in common: they give
#: nothing back, where a regular expression would.
PATTERNS = [
    "A B",
    "A B C",
    "A B* C",
    "A B+ C",
    "A? B C",
    "A B? C",
    "A{2} B",
    "A B{1,2} C",
    "A B{2,} C",
    "A N*? C",
    "A W+? C",
    "A+ B+ C",
    "A B+?",
    "A W{2} B",
]


def expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over the letters of the rows."""
    text = re.sub(r"([A-Z])", lambda m: f"[{CONDITIONS[m[1]]}]", pattern)
    return re.compile(text.replace(" ", ""))


def found(letters: str, pattern: str, after: str) -> list[tuple[int, int]]:
    """Where matches begin, and how long they are."""
    compiled = expression(pattern)
    result, at = [], 0
    while at <= len(letters) and (match := compiled.search(letters, at)):
        result.append((match.start(), match.end() - match.start()))
        at = match.end() if after == "PAST LAST ROW" else match.start() + 1
    return result


def sql(pattern: str, after: str) -> str:
    variables = list(dict.fromkeys(re.findall("[A-Z]", pattern)))
    define = []
    for variable in variables:
        if variable != "W":
            numbers = ", ".join(str(LETTERS.index(letter)) for letter in CONDITIONS[variable])
            define.append(f"{variable} AS {variable}.v IN ({numbers})")
    first = " , ".join(f"FIRST({v}.id)" for v in variables)
    return (
        f"SELECT k, id, n FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES COALESCE({first}) AS id, "
        f"COUNT(*) AS n AFTER MATCH SKIP {after} PATTERN ({pattern}) DEFINE {', '.join(define)})"
    )


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, list[list[tuple[Any, ...]]]]:
    values = [(i, k, draw(st.integers(0, 3)), sec) for i, k, _, sec in draw(rows(st.integers(0, 1), 24))]
    places = sorted(draw(st.sets(st.integers(1, max(1, len(values) - 1)), max_size=4)))
    return {"l": [values[a:b] for a, b in zip([0, *places], [*places, len(values)]) if a < b]}


def expected(batches: list[list[tuple[Any, ...]]], pattern: str, after: str) -> list[tuple[Any, ...]]:
    result = []
    values = sorted((row for batch in batches for row in batch), key=lambda row: row[3])
    for key in (0, 1):
        own = [row for row in values if row[1] == key]
        letters = "".join(LETTERS[row[2]] for row in own)
        result += [(key, own[start][0], length) for start, length in found(letters, pattern, after)]
    return sorted(result)


@pytest.mark.parametrize("after", ["PAST LAST ROW", "TO NEXT ROW"])
@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=max(10, settings().max_examples // 2))
@given(tables=inputs(), parallelism=st.integers(1, 3), fails=st.none() | st.sets(st.integers(0, 4), max_size=2))
def test_matches_are_those_of_a_regular_expression(
    pattern: str, after: str, tables: dict[str, Any], parallelism: int, fails: set[int] | None
) -> None:
    made = continuous(tables, sql(pattern, after), parallelism, {"l": fails or set()}, fails is not None)
    changes = asyncio.run(made)
    assert sorted(tuple(row) for row in changes) == expected(tables["l"], pattern, after)


ROWS = {"l": [[(i, 0, v, i) for i, v in enumerate((0, 1, 1, 2, 0, 2))]]}


def matched(query: str, tables: Any = ROWS) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in asyncio.run(continuous(tables, query, 1, {}, False))]


def test_values_of_rows() -> None:
    query = """SELECT * FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt
        MEASURES FIRST(B.id) AS f, LAST(B.id) AS l, FIRST(B.id, 1) AS f1, LAST(B.id, 1) AS l1, LAST(B.id, 5) AS missing,
            SUM(B.id + 1) AS s, LAST(id) AS last, C.id - A.id AS d, MATCH_ROWTIME() AS t
        AFTER MATCH SKIP PAST LAST ROW PATTERN (A B* C) DEFINE A AS A.v = 0, B AS B.v = 1, C AS C.v = 2)"""
    (first, second) = matched(query)
    assert first[:-1] == (0, 1, 2, 2, 1, None, 5, 3, 3)
    assert second[:-1] == (0, None, None, None, None, None, None, 5, 1)
    assert [row[-1].second for row in (first, second)] == [3, 5]


def test_conditions_see_the_rows_before() -> None:
    query = """SELECT * FROM l MATCH_RECOGNIZE (ORDER BY rt MEASURES A.id AS a, COUNT(B.id) AS n
        AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C)
        DEFINE B AS B.v >= A.v AND SUM(B.v) <= 2, C AS C.id = LAST(B.id) + 1 AND COUNT(C.id) = 1)"""
    assert matched(query) == [(0, 2)]


def test_a_match_that_was_held_back_comes_when_the_earlier_one_is_too_long() -> None:
    # a b | a c: the first a waits for its c for 3 s, longer than the second match takes.
    tables = {"l": [[(0, 0, 0, 0), (1, 0, 1, 1), (2, 0, 0, 2), (3, 0, 2, 3), (4, 0, 3, 30)]]}
    query = """SELECT * FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES A.id AS a, C.id AS c
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A N*? C) WITHIN INTERVAL '3' SECOND
        DEFINE A AS A.v = 0, C AS C.v = 2)"""
    assert matched(query, tables) == [(0, 2, 3)]


@pytest.mark.parametrize(
    ("pattern", "after", "message"),
    [
        ("A B? C", "TO FIRST B", "Could not skip to B. No such element in the found match"),
        ("A C", "TO FIRST A", "Could not skip to first element of a match"),
    ],
)
def test_there_has_to_be_a_row_to_skip_to(pattern: str, after: str, message: str) -> None:
    query = f"""SELECT * FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES A.id AS a
        AFTER MATCH SKIP {after} PATTERN ({pattern}) DEFINE A AS A.v = 0, B AS B.v = 1, C AS C.v = 2)"""
    with pytest.raises(TableException, match=message):
        matched(query.replace(", B AS B.v = 1", "") if "B" not in pattern else query)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(A B)", "(A A)"), "Duplicate pattern name: A"),
        (("(A B)", "(A B??)"), "Reluctant optional variables"),
        (("(A B)", "(A? B?)"), "matches no row at all"),
        (("(A B)", "(PERMUTE(A, B))"), "PERMUTE"),
        (("(A B)", "(^ A B)"), "Strict start"),
        (("B AS B.v = 1", "X AS X.v = 1"), "Pattern variable 'X' is defined"),
        (("B AS B.v = 1", "B AS B.v"), "has to be a BOOLEAN"),
        (("A.id AS a", "SUM(A.v + B.v) AS a"), "a single pattern variable"),
        (("A.id AS a", "A.nothing AS a"), "Column 'nothing' not found"),
        (("A.id AS a", "LAST(A.id, -1) AS a"), "the offset of LAST"),
        (("SKIP PAST LAST ROW", "SKIP TO X"), "the pattern has no variable 'X'"),
        (("ORDER BY rt", "ORDER BY rt DESC"), "must be ascending on time"),
    ],
)
def test_what_is_refused(change: tuple[str, str], message: str) -> None:
    query = """SELECT * FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt MEASURES A.id AS a
        AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.v = 0, B AS B.v = 1)"""
    assert change[0] in query
    with pytest.raises(Exception, match=re.escape(message)):
        matched(query.replace(*change))
