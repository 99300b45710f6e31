"""The shapes that the docstring of `streamline.table.parse` promises to whoever walks the trees."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import sqlglot.expressions as exp

from streamline._core import types
from streamline.errors import ValidationException
from streamline.table.parse import (
    cast_type,
    error_at,
    interval_of,
    locate,
    name_of,
    parse_expression,
    parse_query,
    path_of,
    text_of,
)
from streamline.table.parse.pattern import (
    AfterMatch,
    Alternation,
    Concatenation,
    Exclusion,
    Permutation,
    Quantified,
    Subset,
    Variable,
)

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> list[tuple[str, str]]:
    """Pairs of a text and, indented on the line below it, its tree."""
    lines = [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(sql, tree.strip()) for sql, tree in zip(lines[::2], lines[1::2], strict=True)]


EXPRESSIONS = recorded("expressions.txt")
QUERIES = recorded("queries.txt")


def shape(value: Any) -> str:
    """`Add(a, 1)`: class and arguments; positional where the class has only `this` and `expression`.

    Identifiers are their name, strings and numbers themselves, keywords in angle brackets, a column of one part its
    name, a Cast shows its type, a call is `name!(arguments)`. What is empty, None or False is left out.
    """
    match value:
        case exp.Identifier():
            return str(value.this)
        case exp.Literal():
            return f"'{value.this}'" if value.is_string else str(value.this)
        case exp.Var():
            return f"<{value.this}>"
        case exp.Cast() | exp.TryCast():
            return f"{type(value).__name__}({shape(value.this)}, {cast_type(value)})"
        case exp.Boolean():
            return str(value.this).upper()
        case exp.Null() | exp.Star():
            return {"Null": "NULL", "Star": "*"}[type(value).__name__]
        case exp.Anonymous():
            return f"{'.'.join((*value.args.get('path', ()), value.name))}!({', '.join(map(shape, value.expressions))})"
        case exp.Expression():
            args = {k: v for k, v in value.args.items() if v is not None and v is not False and v != [] and v != ()}
            if isinstance(value, exp.Column) and set(args) == {"this"}:
                return shape(value.this)
            if set(args) <= {"this", "expression"}:
                return f"{type(value).__name__}({', '.join(map(shape, args.values()))})"
            if set(args) == {"expressions"}:
                return f"{type(value).__name__}{shape(value.expressions)}"
            return f"{type(value).__name__}({', '.join(f'{k}={shape(v)}' for k, v in sorted(args.items()))})"
        case list():
            return f"[{', '.join(map(shape, value))}]"
        case tuple():
            return f"({', '.join(map(shape, value))})"
    return str(value)


@pytest.mark.parametrize(("sql", "expected"), EXPRESSIONS)
def test_expression(sql: str, expected: str) -> None:
    assert shape(parse_expression(sql).ast) == expected


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_query(sql: str, expected: str) -> None:
    assert shape(parse_query(sql).ast) == expected


def test_no_node_of_the_kinds_that_must_not_come_out() -> None:
    for sql, _ in QUERIES:
        for node in parse_query(sql).ast.walk():
            assert not isinstance(node, exp.Paren | exp.Command)
            if isinstance(node, exp.Identifier):
                assert node.args["quoted"] is True


def test_pattern() -> None:
    match = parse_query(
        "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (^ A B+? (C | D){2,} {- E -} PERMUTE(F, G) (H I)* J{3} K{,4} L?? $) "
        "SUBSET S = (A, B) DEFINE A AS TRUE)"
    ).ast.find(exp.MatchRecognize)
    assert match is not None
    v = Variable
    pattern = match.args["pattern"]
    assert pattern == Concatenation(
        (
            v("A"),
            Quantified(v("B"), 1, None, greedy=False),
            Quantified(Alternation((v("C"), v("D"))), 2, None),
            Exclusion(v("E")),
            Permutation((v("F"), v("G"))),
            Quantified(Concatenation((v("H"), v("I"))), 0, None),
            Quantified(v("J"), 3, 3),
            Quantified(v("K"), 0, 4),
            Quantified(v("L"), 0, 1, greedy=False),
        )
    )
    assert str(pattern) == "A B+? (C | D){2,} {- E -} PERMUTE(F, G) (H I)* J{3} K{0,4} L??"
    assert match.args["strict_start"] is True and match.args["strict_end"] is True
    assert match.args["subset"] == (Subset("S", ("A", "B")),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("AFTER MATCH SKIP PAST LAST ROW", AfterMatch("PAST LAST ROW")),
        ("AFTER MATCH SKIP TO NEXT ROW", AfterMatch("TO NEXT ROW")),
        ("AFTER MATCH SKIP TO FIRST A", AfterMatch("TO FIRST", "A")),
        ("AFTER MATCH SKIP TO LAST A", AfterMatch("TO LAST", "A")),
        ("AFTER MATCH SKIP TO A", AfterMatch("TO LAST", "A")),
        ("AFTER MATCH SKIP TO LAST", AfterMatch("TO LAST", "LAST")),
    ],
)
def test_after_match(text: str, expected: AfterMatch | None) -> None:
    query = parse_query(f"SELECT * FROM t MATCH_RECOGNIZE ({text} PATTERN (A) DEFINE A AS TRUE)").ast
    match = query.find(exp.MatchRecognize)
    assert match is not None and match.args["after"] == expected


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("a", ("a",)),
        ("c.d.t.a", ("c", "d", "t", "a")),
        ("a.b.c.d.e.f", ("a", "b", "c", "d", "e", "f")),
        ("`a.b`.`c``d`", ("a.b", "c`d")),
        ("f(x).y", None),
        ("a[1].b", None),
        ("1", None),
    ],
)
def test_name_of(sql: str, parts: tuple[str, ...] | None) -> None:
    assert name_of(parse_expression(sql).ast) == parts


def test_name_of_a_star_and_path_of_a_table() -> None:
    query = parse_query("SELECT t.* FROM c.`d.d`.t").ast
    assert name_of(query.expressions[0]) == ("t", "*")
    assert path_of(query.args["from_"].this) == ("c", "d.d", "t")
    with pytest.raises(ValidationException, match="4 parts"):
        parse_query("SELECT 1 FROM a.b.c.d")


def test_chains_are_shallow() -> None:
    def depth(node: exp.Expression) -> int:
        return 1 + max((depth(child) for child in node.iter_expressions()), default=0)

    for operator, term in (("OR", "a = {}"), ("AND", "a = {}"), ("||", "f({})")):
        ast = parse_expression(f" {operator} ".join(term.format(i) for i in range(500))).ast
        assert depth(ast) <= 13
        numbers = [int(node.name) for node in ast.find_all(exp.Literal, bfs=False)]
        assert numbers == list(range(500))
    union = parse_query(" UNION ALL ".join(f"SELECT {i}" for i in range(500))).ast
    assert depth(union) <= 13
    assert [int(n.name) for n in union.find_all(exp.Literal, bfs=False)] == list(range(500))


# -- places --------------------------------------------------------------------------------------------------------

SQL = "SELECT a,\n       f(b) + 1 AS n  -- 消费\nFROM `tä` AS x JOIN u ON x.k = u.k"


def test_places_of_nodes() -> None:
    query = parse_query(SQL).ast
    add = query.expressions[1].this
    assert str(locate(add)) == "From line 2, column 8 to line 2, column 15"
    assert text_of(add) == "f(b) + 1"
    assert text_of(add.this) == "f(b)"
    assert text_of(query.expressions[1]) == "f(b) + 1 AS n"
    table = query.args["from_"].this
    assert text_of(table) == "`tä` AS x"
    assert str(locate(table.this)) == "From line 3, column 6 to line 3, column 9"
    assert text_of(query.args["joins"][0].args["on"]) == "x.k = u.k"
    assert str(locate(query.expressions[0])) == "At line 1, column 8"
    assert text_of(query) == SQL
    assert locate(exp.Column(this=exp.to_identifier("a"))) is None


def test_places_are_kept_by_a_copy() -> None:
    query = parse_query("SELECT CAST(a AS INT) FROM t /*+ OPTIONS('a'='b') */")
    other = copy.deepcopy(query.ast)
    cast = other.expressions[0]
    assert str(locate(cast)) == "From line 1, column 8 to line 1, column 21"
    assert cast_type(cast) == types.INT
    assert other == query.ast
    assert other.args["from_"].this.args["hints"] == query.ast.args["from_"].this.args["hints"]


def test_error_at_a_node() -> None:
    query = parse_query("SELECT * FROM nope").ast
    error = error_at(query.args["from_"].this, "Object 'nope' not found")
    assert isinstance(error, ValidationException)
    assert str(error) == (
        "SQL validation failed. From line 1, column 15 to line 1, column 18: Object 'nope' not found\n"
        "  SELECT * FROM nope\n"
        "                ^^^^"
    )
    assert str(error_at(None, "Object 'x' not found")) == "SQL validation failed. Object 'x' not found"


def test_types_of_casts() -> None:
    node = parse_expression("CAST(x AS ROW<a INT NOT NULL, `b c` ARRAY<TIMESTAMP_LTZ(3)>>)").ast
    assert str(cast_type(node)) == "ROW<`a` INT NOT NULL, `b c` ARRAY<TIMESTAMP(3) WITH LOCAL TIME ZONE>>"


def test_interval_of_a_node() -> None:
    value = interval_of(parse_expression("INTERVAL -'1 02:03:04.5' DAY TO SECOND").ast)
    assert (value.amount, value.year_month) == (-(86_400_000 + 2 * 3_600_000 + 3 * 60_000 + 4_500), False)
    with pytest.raises(ValidationException) as caught:
        interval_of(parse_query("SELECT ts + INTERVAL 'x' DAY FROM t").ast.expressions[0].expression)
    assert str(caught.value).splitlines() == [
        "SQL validation failed. From line 1, column 13 to line 1, column 28: "
        "Illegal interval literal format 'x' for INTERVAL DAY",
        "  SELECT ts + INTERVAL 'x' DAY FROM t",
        "              ^^^^^^^^^^^^^^^^",
    ]
