"""Accepted and refused, and read in the same order: against what Flink 2.3 said (`data/README.md`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlglot.expressions as exp

from streamline.errors import SqlParserException, ValidationException
from streamline.table.parse import name_of, parse_expression, parse_statement, parse_statements
from streamline.table.parse.keywords import RESERVED

DATA = Path(__file__).parent / "data"


def rows(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


# -- the conformance cases -----------------------------------------------------------------------------------------

#: Faults that Flink finds after parsing and the front end already sees: refused, as a ValidationException.
SEEN_EARLY = {
    "errors.cast_unknown_type",
    "errors.decimal_scale_gt_precision",
    "errors.parse_ilike",
    "errors.parse_semicolon_two",
    "expr.regexp_match",
}


@pytest.mark.parametrize(("name", "sql", "phase"), rows("cases.jsonl"))
def test_case(name: str, sql: str, phase: str | None) -> None:
    if phase == "parse":
        with pytest.raises(SqlParserException) as caught:
            parse_statement(sql)
        assert caught.value.line is not None and caught.value.column is not None
    elif name in SEEN_EARLY:
        assert phase is not None
        with pytest.raises(ValidationException):
            parse_statement(sql)
    else:
        parse_statement(sql)


# -- sentences -----------------------------------------------------------------------------------------------------

#: Refused here, taken by Flink's parser; none of them gets further in Flink than its validator.
REFUSED = {
    # JDBC escapes
    "SELECT {d '2020-01-01'}",
    "SELECT {fn ABS(1)}",
    # adjacent literals on one line: refused by Flink's validator
    "SELECT U&'\\00e9', _utf8'x', N'x', X'0aff', 'a' 'b'",
    "SELECT X'0a' '0b'",
    # several conditions in a WHEN without operand: an internal error of the validator
    "SELECT CASE WHEN a THEN b END, CASE a WHEN 1, 2 THEN 3 ELSE 4 END, CASE WHEN a, b THEN 1 END",
    # columns with types in INSERT: EXTEND, which Flink has not
    "INSERT INTO t (a INT) SELECT 1",
    # commands of the SQL client
    "BEGIN STATEMENT SET",
    # ANY as a type
    "CREATE TABLE t (a NUMERIC, b ANY)",
    "CREATE TABLE t ( a NUMERIC , b ANY )",
    # a name for the star, which the validator does not know what to do with
    "SELECT * FROM ( WITH a AS ( SELECT 1 ) SELECT * a )",
    # a row instead of a query
    "CREATE VIEW v AS ROW ( SELECT 1 )",
    # FORMAT JSON outside of JSON functions
    "SELECT + ( a FORMAT JSON , 'x' )",
    # DESCRIBE of one column
    "DESCRIBE TABLE MODEL m",
}

#: Taken here, refused by Flink's parser: each has one meaning only, and would be harder to refuse than to read.
TAKEN = {
    "SELECT a BETWEEN 1 AND 2 AND c, a NOT BETWEEN ASYMMETRIC 1 AND 2, a BETWEEN 1 + 1 AND 2 OR d, "
    "a = b BETWEEN c AND d, a BETWEEN b BETWEEN 1 AND 2 AND 3",
    "SELECT /*+ H(1, a, 'x') */ a FROM t",
    "SELECT a FROM TABLE(f(TABLE t PARTITION BY k ORDER BY o DESC, TABLE u PARTITION BY (a, b), "
    "(SELECT 1) PARTITION BY x,  DATA => TABLE t PARTITION BY x, DEFAULT))",
    "SELECT JSON_OBJECT(KEY VALUE 1)",
    "SELECT FIRST(a) OVER w, LAST(a, b)",
    ";",
}


def verdict(sql: str) -> str:
    try:
        parse_statements(sql)
    except SqlParserException:
        return "error"
    except ValidationException:
        return "unsupported"
    return "ok"


def test_sentences_are_judged_as_by_flink() -> None:
    wrong = []
    for sql, flink in rows("sentences.jsonl"):
        expected = {"ok": ("ok", "unsupported"), "error": ("error", "unsupported")}[flink]
        if sql in REFUSED:
            expected = ("error", "unsupported")
        elif sql in TAKEN:
            expected = ("ok",)
        if (found := verdict(sql)) not in expected:
            wrong.append((sql, flink, found))
    assert wrong == []


def test_deviations_are_still_there() -> None:
    recorded = dict(rows("sentences.jsonl"))
    assert {recorded[sql] for sql in REFUSED} == {"ok"}
    assert {recorded[sql] for sql in TAKEN} == {"error"}
    assert [sql for sql in REFUSED if verdict(sql) == "ok"] == []


# -- words ---------------------------------------------------------------------------------------------------------

WORDS = {kind: words.split() for kind, words in json.loads((DATA / "words.json").read_text()).items()}


def test_reserved_words() -> None:
    # VIEWS and OUT are names here: `COUNT(*) AS views`, `CREATE TABLE out`.
    assert set(WORDS["reserved"]) - {"VIEWS", "OUT"} == RESERVED
    assert RESERVED.isdisjoint(WORDS["names"])


@pytest.mark.parametrize(
    "place", ["SELECT a AS {} FROM t", "SELECT {}.a FROM t", "SELECT a FROM {}", "SELECT a FROM t {}"]
)
def test_words_as_names(place: str) -> None:
    taken = [w for w in WORDS["names"] if verdict(place.format(w)) != "ok"]
    assert taken == []
    quoted = [w for w in WORDS["reserved"] if verdict(place.format(f"`{w}`")) != "ok"]
    assert quoted == []
    if ".a" not in place:  # CURRENT_DATE.a, TRUE.a: a field of a value
        taken = [w for w in WORDS["reserved"] if w not in ("VIEWS", "OUT") and verdict(place.format(w)) == "ok"]
        assert taken == []


# -- trees ---------------------------------------------------------------------------------------------------------

OPERATORS = {
    exp.Or: "OR",
    exp.And: "AND",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.NullSafeEQ: "IS_NOT_DISTINCT_FROM",
    exp.NullSafeNEQ: "IS_DISTINCT_FROM",
    exp.Like: "LIKE",
    exp.SimilarTo: "SIMILAR_TO",
}


def operands(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a balanced chain, in order."""
    return operands(node.this, kind) + operands(node.expression, kind) if type(node) is kind else [node]


def tree(node: exp.Expression) -> str:
    """In Calcite's words; balanced chains are written as Flink has them, to the left."""
    kind = type(node)
    if kind in (exp.Or, exp.And, exp.DPipe):
        first, *others = map(tree, operands(node, kind))
        for other in others:
            first = f"({OPERATORS[kind]} {first} {other})"
        return first
    if kind in OPERATORS:
        right = node.expression
        if isinstance(right, exp.Any | exp.All):
            quantifier = "SOME" if isinstance(right, exp.Any) else "ALL"
            return f"({OPERATORS[kind]}_{quantifier} {tree(node.this)} [{' '.join(map(tree, right.this.expressions))}])"
        return f"({OPERATORS[kind]} {tree(node.this)} {tree(right)})"
    match node:
        case exp.Column():
            return ".".join(name_of(node) or ())
        case exp.Literal():
            return f"'{node.name}'" if node.is_string else node.name
        case exp.Neg() | exp.Not():
            return f"({'-' if isinstance(node, exp.Neg) else 'NOT'} {tree(node.this)})"
        case exp.Paren():
            return tree(node.this)
        case exp.Is():
            right = node.expression
            word = "NULL" if isinstance(right, exp.Null) else str(right.this).upper()
            return f"(IS_{word} {tree(node.this)})"
        case exp.In():
            return f"(IN {tree(node.this)} [{' '.join(map(tree, node.expressions))}])"
        case exp.Between():
            kind_of = "SYMMETRIC" if node.args["symmetric"] else "ASYMMETRIC"
            return f"(BETWEEN_{kind_of} {tree(node.this)} {tree(node.args['low'])} {tree(node.args['high'])})"
        case exp.Bracket():
            return f"(ITEM {tree(node.this)} {tree(node.expressions[0])})"
        case exp.Dot():
            return f"(DOT {tree(node.this)} {node.expression.name})"
        case exp.Anonymous():
            return f"({' '.join([node.name, *map(tree, node.expressions)])})"
    raise AssertionError(repr(node))


def test_expressions_are_read_as_by_flink() -> None:
    wrong = []
    for sql, expected in rows("trees.jsonl"):
        found = tree(parse_expression(sql).ast)
        # Brackets around a chain say nothing about an associative operator.
        if found != expected and tree(parse_expression(sql).ast) != flattened(expected):
            wrong.append((sql, expected, found))
    assert wrong == []


def flattened(text: str) -> str:
    """A recorded tree with the chains of associative operators to the left."""
    stack: list[list[Any]] = [[]]
    for token in text.replace("(", " ( ").replace(")", " ) ").replace("[", " [ ").replace("]", " ] ").split():
        if token in ("(", "["):
            stack.append([token])
        elif token in (")", "]"):
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)

    def chain(node: Any, operator: str) -> list[Any]:
        if isinstance(node, list) and node[1] == operator and len(node) == 4:
            return chain(node[2], operator) + chain(node[3], operator)
        return [node]

    def text_of(node: Any) -> str:
        if not isinstance(node, list):
            return str(node)
        if node[0] == "(" and node[1] in ("AND", "OR", "||"):
            first, *others = map(text_of, chain(node, node[1]))
            for other in others:
                first = f"({node[1]} {first} {other})"
            return first
        close = {"(": ")", "[": "]"}[node[0]]
        return node[0] + " ".join(map(text_of, node[1:])) + close

    return text_of(stack[0][0])
