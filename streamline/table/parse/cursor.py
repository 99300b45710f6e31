"""The reading head over the tokens, and what a failed reading says."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, NoReturn, TypeVar

import sqlglot.expressions as exp

from streamline.table.parse.keywords import RESERVED
from streamline.table.parse.lexer import Token, tokenize
from streamline.table.parse.source import SPAN, Source, Span, error_at, syntax_error

__all__ = ("MAX_DEPTH", "Cursor")

#: Levels of a finished tree, and of constructs read inside one another.
MAX_DEPTH: Final = 200

T = TypeVar("T")

#: Words that a misspelt one is compared with.
_CLAUSES: Final = tuple(
    word
    for line in (
        "SELECT FROM WHERE GROUP HAVING QUALIFY WINDOW ORDER LIMIT OFFSET FETCH UNION INTERSECT EXCEPT JOIN",
        "INNER LEFT RIGHT FULL CROSS NATURAL UNNEST LATERAL TABLE VALUES DISTINCT BETWEEN PARTITION INTERVAL",
        "CREATE ALTER DROP INSERT INTO OVERWRITE DESCRIBE EXPLAIN EXECUTE STATEMENT TEMPORARY VIEW FUNCTION",
        "CATALOG DATABASE WATERMARK PRIMARY METADATA VIRTUAL COMMENT PARTITIONED EXISTS MATCH_RECOGNIZE",
    )
    for word in line.split()
)
#: Words that end a list, so that a name was most likely forgotten before them.
_STRUCTURE: Final = frozenset(("FROM", "WHERE", "SELECT", "AS", "ON", "AND", "OR", "BY", "JOIN", "THEN", "WHEN", "END"))

_NO_FUNCTION: Final = {
    "DAY": "There is no function DAY; write DAYOFMONTH(x) or EXTRACT(DAY FROM x).",
    "CORR": "The aggregate CORR is not supported.",
}

#: More alternatives than this are not listed in an error.
_MANY = 8


class Cursor:
    """Tokens and a position in them.

    Every test that fails leaves what it looked for; the alternatives that were looked for at the furthest token are
    what an error expects there.
    """

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.tokens: list[Token] = tokenize(self.source)
        self.at = 0
        self.depth = 0
        self._tried_at = 0
        self._tried: list[str] = []

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, distance: int) -> Token:
        """The token `distance` places on; the end token beyond the end."""
        index = self.at + distance
        return self.tokens[index] if index < len(self.tokens) else self.tokens[-1]

    def next_is(self, *alternatives: str) -> bool:
        """Whether the next token is one of these keywords or operators."""
        if self.tokens[self.at].key in alternatives:
            return True
        self._wanted(*alternatives)
        return False

    def next_are(self, *sequence: str) -> bool:
        """Whether the next tokens are these keywords or operators, one after the other."""
        for distance, key in enumerate(sequence):
            if self.ahead(distance).key != key:
                if distance == 0:
                    self._wanted(" ".join(sequence))
                return False
        return True

    def _wanted(self, *what: str) -> None:
        if self._tried_at != self.at:
            self._tried_at = self.at
            self._tried = []
        self._tried.extend(what)

    # -- taking ----------------------------------------------------------------------------------------------------

    def advance(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def take(self, *sequence: str) -> bool:
        """Step over these keywords or operators if they come next, all of them."""
        if self.next_are(*sequence):
            self.at += len(sequence)
            return True
        return False

    def take_one(self, *alternatives: str) -> str | None:
        """Step over one of these if it comes next, and say which."""
        key = self.tokens[self.at].key
        if key in alternatives:
            self.at += 1
            return key
        self._wanted(*alternatives)
        return None

    def need(self, *sequence: str) -> None:
        """Step over these keywords or operators, or fail."""
        for key in sequence:
            if self.tokens[self.at].key != key:
                self._wanted(key)
                self.fail()
            self.at += 1

    def need_one(self, *alternatives: str) -> str:
        return self.take_one(*alternatives) or self.fail()

    def comma_list(self, item: Callable[[], T]) -> list[T]:
        """One or more, separated by commas."""
        items = [item()]
        while self.take(","):
            items.append(item())
        return items

    def in_parens(self, item: Callable[[], T]) -> list[T]:
        """`( item, item )`."""
        self.need("(")
        items = self.comma_list(item)
        self.need(")")
        return items

    # -- names and literals ----------------------------------------------------------------------------------------

    def at_name(self) -> bool:
        """Whether an identifier comes next."""
        token = self.tokens[self.at]
        return token.kind == "quoted" or (token.kind == "word" and token.key not in RESERVED)

    def take_name(self) -> str | None:
        """An identifier, if one comes next."""
        if self.at_name():
            return self.advance().value
        self._wanted("an identifier")
        return None

    def name(self) -> str:
        """An identifier, or fail."""
        found = self.take_name()
        return self.fail() if found is None else found

    def path(self) -> tuple[str, ...]:
        """Identifiers joined by points."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def take_string(self) -> str | None:
        if self.token.kind == "string":
            return self.advance().value
        self._wanted("a string")
        return None

    def string(self) -> str:
        """A string literal, or fail."""
        found = self.take_string()
        return self.fail() if found is None else found

    def integer(self) -> int:
        """An unsigned integer, or fail."""
        token = self.token
        if token.kind == "number" and token.value.isdigit():
            self.at += 1
            return int(token.value)
        self._wanted("an integer")
        self.fail()

    # -- spans and nodes -------------------------------------------------------------------------------------------

    def span(self, start: int) -> Span:
        """From the token of index `start` to the one last read."""
        first = self.tokens[start]
        last = self.tokens[max(start, self.at - 1)]
        return Span(self.source, first.start, last.end)

    def mark(self, node: T, start: int) -> T:
        """Note on a node that it was read from the token of index `start` on."""
        meta: dict[str, Any] = node.meta  # type: ignore[attr-defined]
        meta[SPAN] = self.span(start)
        return node

    def identifier(self, name: str, start: int) -> exp.Identifier:
        return self.mark(exp.Identifier(this=name, quoted=True), start)

    def read_identifier(self) -> exp.Identifier:
        start = self.at
        return self.identifier(self.name(), start)

    # -- failing ---------------------------------------------------------------------------------------------------

    def fail(self, message: str = "", advice: str = "") -> NoReturn:
        """Raise for the token that comes next."""
        token = self.token
        if not message:
            text = self.source.text[token.start : token.end]
            text = text if len(text) <= 40 else f"{text[:37]}…"
            shown = text if token.kind == "string" else f"'{text}'"
            message = f"unexpected {'end of the text' if token.kind == 'end' else shown}{self._expected()}"
            advice = advice or self._advice(token)
        raise syntax_error(Span(self.source, token.start, max(token.end, token.start + 1)), message, advice)

    def _expected(self) -> str:
        tried = list(dict.fromkeys(self._tried)) if self._tried_at == self.at else []
        if len(tried) > _MANY:
            # A list of all that may continue an expression helps nobody; a closing bracket or comma among it does.
            tried = [t for t in tried if t in (")", "]", "}", ">", "an identifier", "a string")]
        if not tried:
            return ""
        shown = [t if t[0].isalpha() else f"'{t}'" for t in tried]
        return "; expected " + (shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1])

    def _advice(self, token: Token) -> str:
        """What the writer may have meant."""
        if token.key == '"':
            return "Identifiers are quoted by backticks, strings by apostrophes."
        if token.key == "!=":
            return "Not equal is written <>."
        wants_name = self._tried_at == self.at and "an identifier" in self._tried
        if token.kind == "string" and wants_name:
            return "Names are quoted by backticks."
        if token.kind == "word" and token.key in RESERVED:
            follows = self.ahead(1).key
            if follows == "(":
                return _NO_FUNCTION.get(token.key, f"{token.value} is a reserved word and names no function.")
            if wants_name and token.key not in _STRUCTURE and not (token.key in ("GROUP", "ORDER") and follows == "BY"):
                return f"{token.value} is a reserved word; as a name it is written `{token.value}`."
        # A misspelt keyword was often taken for a name, and the word after it is what does not fit.
        for word in (token, self.tokens[self.at - 1] if self.at else token):
            if word.kind == "word" and word.key not in RESERVED:
                close = get_close_matches(word.key, _CLAUSES, 1, 0.75)
                if close and close[0] != word.key:
                    return f"Did you mean {close[0]} instead of {word.value}?"
        return ""

    def fail_at(self, start: int, message: str, advice: str = "") -> NoReturn:
        """Raise a syntax error for what was read from the token of index `start` on."""
        raise syntax_error(self.span(start), message, advice)

    def refuse(self, start: int, message: str) -> NoReturn:
        """Raise a `ValidationException` for what was read from the token of index `start` on."""
        raise error_at(self.span(start), message)

    def deeper(self) -> None:
        """Enter a construct that nests; the counterpart is `self.depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels")

    def end(self) -> None:
        """Fail unless all is read."""
        if self.token.kind != "end":
            self._wanted("the end")
            self.fail()
