"""What holds for every text: it is read or refused, and each node can be read again from its own text."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import sqlglot.expressions as exp
from hypothesis import given
from hypothesis import strategies as s

from streamline.errors import SqlParserException, ValidationException
from streamline.table.parse import (
    locate,
    parse_data_type,
    parse_expression,
    parse_statement,
    parse_statements,
    split_statements,
    text_of,
)
from streamline.table.parse.lexer import tokenize
from streamline.table.parse.source import Source
from streamline.table.parse.statements import CreateView, Query

DATA = Path(__file__).parent / "data"
CASES = [json.loads(line) for line in (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
TEXTS = [sql for _, sql, _ in CASES]


def trees() -> list[tuple[str, exp.Expression]]:
    found = []
    for sql in TEXTS:
        try:
            statement = parse_statement(sql)
        except (SqlParserException, ValidationException):
            continue
        if isinstance(statement, CreateView):
            statement = statement.query
        if isinstance(statement, Query):
            found.append((sql, statement.ast))
    return found


#: Nodes whose text is an expression by itself.
EXPRESSIONS = (
    exp.Column,
    exp.Anonymous,
    exp.Binary,
    exp.Between,
    exp.In,
    exp.Not,
    exp.Neg,
    exp.Case,
    exp.Cast,
    exp.Literal,
    exp.Window,
    exp.Filter,
    exp.Tuple,
    exp.Array,
    exp.Map,
    exp.Bracket,
    exp.Interval,
    exp.Subquery,
)


def test_each_node_is_what_its_text_says() -> None:
    seen = 0
    for sql, ast in trees():
        for node in ast.walk():
            span = locate(node)
            if span is None:
                continue
            assert 0 <= span.start < span.end <= len(sql), repr(node)
            if not isinstance(node, EXPRESSIONS) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                continue
            if isinstance(node, exp.Kwarg) or (isinstance(node.parent, exp.Not) and span == locate(node.parent)):
                continue  # ... ON ERROR; the operator of x NOT IN y
            if isinstance(node.parent, exp.MatchRecognize | exp.From | exp.Join | exp.Lateral | exp.TableFromRows):
                continue  # a table, or a row of VALUES
            if isinstance(node, exp.Tuple) and isinstance(
                node.parent, exp.Values | exp.Group | exp.GroupingSets | exp.If
            ):
                continue
            if isinstance(node, exp.Window) and isinstance(node.this, exp.Identifier):
                continue  # WINDOW w AS (...)
            if isinstance(node, exp.Literal) and isinstance(node.parent, exp.Limit | exp.Offset):
                continue
            if isinstance(node, exp.Cast) and isinstance(node.parent, exp.Kwarg):
                continue  # RETURNING INT
            again = parse_expression(text_of(node)).ast
            # Under a looser operator a chain may lie in another tree; its parts are the same.
            assert again == node, (sql, text_of(node), again, node)
            seen += 1
    assert seen > 5000


@given(s.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (parse_statement, parse_statements, parse_expression, parse_data_type, split_statements):
        with contextlib.suppress(SqlParserException, ValidationException):
            reader(text)


#: Texts that can at least be cut into tokens.
LEGIBLE = [text for text in TEXTS if text and "#" not in text and "&" not in text]
WORDS = sorted({t[token.start : token.end] for t in LEGIBLE for token in tokenize(Source(t)) if token.kind != "end"})


@given(
    s.lists(s.sampled_from([*WORDS, "(", ")", ",", ".", "/*+", "*/", ";", "SELECT", "CREATE", "TABLE"]), max_size=25)
)
def test_any_heap_of_words_is_read_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    with contextlib.suppress(SqlParserException, ValidationException):
        parse_statements(text)
        parse_statement(text)


@given(s.sampled_from(TEXTS), s.integers(0, 300), s.integers(0, 40))
def test_any_piece_cut_out_is_read_or_refused(text: str, at: int, size: int) -> None:
    try:
        parse_statement(text[:at] + text[at + size :])
    except SqlParserException as error:
        assert error.line is not None
    except ValidationException:
        pass


@given(s.lists(s.sampled_from([t for t in LEGIBLE if ";" not in t]), max_size=4))
def test_scripts_are_their_statements(texts: list[str]) -> None:
    assert split_statements("; ".join(texts)) == tuple(texts)
