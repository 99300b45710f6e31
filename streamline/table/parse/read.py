"""The entry points: text in, statements, expressions, types and names out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.parse.lexer import Token, tokenize
from streamline.table.parse.parser import Parser
from streamline.table.parse.source import Source, syntax_error
from streamline.table.parse.statements import Path, Query, SqlExpression, Statement

__all__ = (
    "parse_data_type",
    "parse_expression",
    "parse_path",
    "parse_query",
    "parse_statement",
    "parse_statements",
    "split_statements",
)

T = TypeVar("T")


def _read(text: str, reader: Callable[[Parser], T], strict_types: bool = False) -> T:
    if not isinstance(text, str):
        raise ValidationException(f"SQL is text (str), not {type(text).__name__}: {text!r}")
    parser = Parser(text)
    parser.strict_types = strict_types
    try:
        found = reader(parser)
        parser.end()
        return found
    except RecursionError:
        pass
    # The guards on depth hold for a stack that the caller has not used up; here it was. Said from outside the handler,
    # where there is room again.
    raise syntax_error(parser.span(parser.at), "nested too deeply for the stack that is left")


def parse_statement(text: str) -> Statement:
    """The one statement of a text; a `;` may end it.

    Raises:
        SqlParserException: the text is not a statement.
        ValidationException: it is one that is not supported, or there are several.
    """
    return _read(text, Parser.single)


def parse_statements(text: str) -> tuple[Statement, ...]:
    """The statements of a script, separated by `;`.

    `EXECUTE STATEMENT SET BEGIN …; END` is one statement, and so is `BEGIN STATEMENT SET; …; END`.

    Raises:
        SqlParserException: a part of the text is not a statement.
        ValidationException: one of the statements is not supported.
    """
    return _read(text, Parser.script)


def parse_query(text: str) -> Query:
    """The one query of a text.

    Raises:
        SqlParserException: the text is not a statement.
        ValidationException: it is another statement than a query.
    """
    found = parse_statement(text)
    if isinstance(found, Query):
        return found
    raise ValidationException(
        f"Unsupported SQL query! A single query (SELECT, UNION, INTERSECT, EXCEPT, VALUES, WITH) is taken here, "
        f"and this is {found.title}; execute_sql takes it."
    )


def parse_expression(text: str) -> SqlExpression:
    """A scalar expression.

    Raises:
        SqlParserException: the text is not an expression.
    """
    return _read(text, Parser.sql_expression)


def parse_data_type(text: str) -> DataType:
    """A data type, nullable unless NOT NULL is written.

    Raises:
        SqlParserException: the text is not a type.
        ValidationException: there is no such type, or not with this precision or length.
    """
    return _read(text, Parser.data_type, strict_types=True)


def parse_path(text: str) -> Path:
    """An identifier of one or more parts: ``cat.db.`my table` ``.

    Raises:
        SqlParserException: the text is not an identifier.
    """
    return _read(text, Parser.path)


def split_statements(text: str) -> tuple[str, ...]:
    """The texts of the statements of a script, without the `;` between them; nothing but the tokens is checked.

    Raises:
        SqlParserException: the text cannot be cut into tokens.
    """
    tokens = tokenize(Source(text))
    found: list[str] = []
    begin: int | None = None
    in_set = False
    for i, token in enumerate(tokens):
        if begin is None:
            if token.kind == "end":
                break
            if token.key != ";":
                begin, in_set = i, _begins_set(tokens, i)
        elif token.kind == "end" or (token.key == ";" and not in_set):
            found.append(text[tokens[begin].start : tokens[i - 1].end])
            begin = None
        elif in_set and token.key == "END" and tokens[i - 1].key == ";":
            in_set = False
    return tuple(found)


def _begins_set(tokens: list[Token], i: int) -> bool:
    """Whether a statement set begins here, after EXPLAIN with its details or not."""
    words: list[str] = []
    for token in tokens[i : i + 14]:
        if token.kind != "word" and token.key != ",":
            break
        words.append(token.key)
    text = " ".join(words)
    return text.startswith("BEGIN STATEMENT SET") or (
        text.startswith(("EXECUTE STATEMENT SET", "EXPLAIN")) and "STATEMENT SET BEGIN" in text
    )
