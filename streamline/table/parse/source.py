"""Places in SQL text: what errors point at.

Lines and columns count from 1, as people and Flink do; offsets count from 0. A column is one character of the text,
whatever its width in bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import sqlglot.expressions as exp

from streamline.errors import SqlParserException, ValidationException

__all__ = ("Source", "Span", "error_at", "excerpt", "locate", "syntax_error", "text_of")

#: Key in `node.meta` under which the parser leaves the span of a node.
SPAN = "span"


class Source:
    """A text and where its lines begin."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character."""
        starts = self._starts
        if starts is None:
            starts = self._starts = [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_at(self, offset: int) -> tuple[str, int]:
        """The line around a character, without its end, and the offset at which it begins."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r"), start


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text: `start` is its first character, `end` the one after its last."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    def __str__(self) -> str:
        """Flink's wording: `At line 1, column 3`, or `From line 1, column 3 to line 1, column 7`."""
        line, column = self.source.position(self.start)
        end_line, end_column = self.source.position(max(self.start, self.end - 1))
        if (line, column) == (end_line, end_column):
            return f"At line {line}, column {column}"
        return f"From line {line}, column {column} to line {end_line}, column {end_column}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Span:
        return self  # nodes are copied with their meta; the text is shared


#: An excerpt shows at most this many characters to the left of the place, and twice as many in all.
EXCERPT = 60


def excerpt(span: Span) -> str:
    """The line of a span with the span underlined, cut to a readable width; two lines, indented."""
    line, start = span.source.line_at(span.start)
    column = span.start - start
    width = max(1, min(span.end, start + len(line)) - span.start)
    cut = max(0, column - EXCERPT)
    before, shown = line[cut:column], line[column : cut + 2 * EXCERPT]
    left = "…" if cut else ""
    right = "…" if column + len(shown) < len(line) else ""
    # Tabs stay tabs in the second line, so that the marks stand below what they mark.
    pad = "".join("\t" if c == "\t" else " " for c in left + before)
    return f"  {left}{before}{shown}{right}\n  {pad}{'^' * min(width, max(1, len(shown)))}"


def syntax_error(span: Span, message: str, advice: str = "") -> SqlParserException:
    """The exception for text that is no sentence: `message` ends without a full stop and without the place."""
    line, column = span.source.position(span.start)
    tail = f"\n{advice}" if advice else ""
    error = SqlParserException(f"SQL parse failed at line {line}, column {column}: {message}\n{excerpt(span)}{tail}")
    error.line, error.column = line, column
    return error


def locate(node: exp.Expression) -> Span | None:
    """Where a node was written; None for nodes that no text was written for."""
    span = node.meta.get(SPAN)
    return span if isinstance(span, Span) else None


def text_of(node: exp.Expression) -> str:
    """The text a node was written as; empty where there is none."""
    span = locate(node)
    return span.text if span is not None else ""


def error_at(node: exp.Expression | Span | None, message: str) -> ValidationException:
    """The exception for a sentence that means nothing valid, naming and underlining the place of `node`."""
    span = locate(node) if isinstance(node, exp.Expression) else node
    if span is None:
        return ValidationException(f"SQL validation failed. {message}")
    return ValidationException(f"SQL validation failed. {span}: {message}\n{excerpt(span)}")
