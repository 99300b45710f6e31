"""LIKE, SIMILAR TO and the functions of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import literal_value
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, register
from streamline.table.expr.runtime import strings
from streamline.table.expr.runtime.regex import compile_java, compile_like, compile_similar, like_parts
from streamline.table.expr.signature import Function, is_null_literal

__all__ = ()


def like(text: str, pattern: str, escape: str | None = None) -> bool:
    """Whether a text is of a LIKE pattern that is not constant."""
    return compile_like(pattern, escape).fullmatch(text) is not None


def similar(text: str, pattern: str, escape: str | None = None) -> bool:
    """Whether a text is of a SIMILAR TO pattern that is not constant."""
    return compile_similar(pattern, escape).fullmatch(text) is not None


class _Matching(ScalarFunction):
    """LIKE and SIMILAR TO: text, pattern and perhaps an escape character."""

    def __init__(
        self,
        name: str,
        matches: Callable[..., bool],
        compile_pattern: Callable[[str, str | None], re.Pattern[str]],
    ) -> None:
        self.name = name
        self._matches = matches
        self._compile = compile_pattern

    def supported(self) -> Sequence[str]:
        return (f"<STRING> {self.name} <STRING> [ESCAPE <STRING>]",)

    def call_text(self, types: Iterable[DataType]) -> str:
        return f"{self.name}({', '.join(f'<{sql_text(x)}>' for x in types)})"

    def text(self, call: Call) -> str:
        value, pattern, *escape = call.operands
        return f"{value} {self.name} {pattern}" + (f" ESCAPE {escape[0]}" if escape else "")

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        typed = [Literal(None, t.STRING) if is_null_literal(o) else o for o in operands]
        if not all(o.type.is_character for o in typed):
            raise self.cannot_apply(operands)
        pattern = literal_value(typed[1])
        if isinstance(pattern, str) and all(isinstance(o, Literal) for o in typed[2:]):
            self._compile(pattern, literal_value(typed[2]) if len(typed) > 2 else None)  # refuse it at planning
        nullable = any(o.type.nullable for o in typed)
        return Call(self, tuple(typed), t.BOOLEAN.with_nullable(nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        value, pattern, *escape = call.operands
        text = literal_value(pattern)
        if text is None or not all(isinstance(e, Literal) for e in escape):
            return em.call(self._matches, *map(em.value, call.operands))
        return self._constant(em, em.value(value), text, literal_value(escape[0]) if escape else None)

    def _constant(self, em: Emitter, value: str, pattern: str, escape: str | None) -> str:
        compiled = em.cached((self.name, pattern, escape), lambda: self._compile(pattern, escape), "pattern")
        return f"({compiled}.fullmatch({value}) is not None)"


class Like(_Matching):
    """LIKE; patterns of the simple kinds need no regular expression."""

    def _constant(self, em: Emitter, value: str, pattern: str, escape: str | None) -> str:
        match like_parts(pattern, escape):
            case []:
                return f"({value} == '')"
            case [text] if text.startswith(" "):
                return f"({value} == {text[1:]!r})"
            case ["%"]:
                return f"({value} is not None)"
            case [text, "%"] if text.startswith(" "):
                return f"{value}.startswith({text[1:]!r})"
            case ["%", text] if text.startswith(" "):
                return f"{value}.endswith({text[1:]!r})"
            case ["%", text, "%"] if text.startswith(" "):
                return f"({text[1:]!r} in {value})"
        return super()._constant(em, value, pattern, escape)


register(Like("LIKE", like, compile_like))
register(_Matching("SIMILAR TO", similar, compile_similar), "SIMILAR")


# -- regular expressions: a bad one gives NULL or FALSE, never an error ------------------------------------------


def regexp(text: str, pattern: re.Pattern[str] | None) -> bool:
    """Whether the pattern is found; never that of no characters, nor a bad one."""
    return pattern is not None and bool(pattern.pattern) and pattern.search(text) is not None


def regexp_replace(text: str, pattern: re.Pattern[str] | None, put: str) -> str | None:
    """All matches replaced, `$` and `\\` in the replacement taken literally."""
    return None if pattern is None else pattern.sub(lambda _: put, text)


def regexp_extract(text: str, pattern: re.Pattern[str] | None, group: int = 0) -> str | None:
    """A group of the first match."""
    if pattern is None or not 0 <= group <= pattern.groups:
        return None
    match = pattern.search(text)
    return None if match is None else match[group]


def regexp_extract_all(text: str, pattern: re.Pattern[str] | None, group: int = 1) -> list[str | None] | None:
    """A group of every match."""
    if pattern is None or not 0 <= group <= pattern.groups:
        return None
    return [m[group] for m in pattern.finditer(text)]


def regexp_count(text: str, pattern: re.Pattern[str] | None) -> int | None:
    """The number of matches."""
    return None if pattern is None else sum(1 for _ in pattern.finditer(text))


def regexp_instr(text: str, pattern: re.Pattern[str] | None) -> int | None:
    """Where the first match begins, 0 if nowhere."""
    if pattern is None:
        return None
    match = pattern.search(text)
    return 0 if match is None else match.start() + 1


def regexp_substr(text: str, pattern: re.Pattern[str] | None) -> str | None:
    """The first match."""
    match = None if pattern is None else pattern.search(text)
    return None if match is None else match[0]


class _Regexp(Function):
    """A function whose second and perhaps third operand is a regular expression, compiled once where constant."""

    def __init__(self, *args: Any, patterns: Sequence[int] = (1,), **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._patterns = frozenset(patterns)

    def emit(self, call: Call, em: Emitter) -> str:
        sources = [self._pattern(o, em) if i in self._patterns else em.value(o) for i, o in enumerate(call.operands)]
        assert self._helper is not None
        return self.checked(em, call, em.call(self._helper, *sources))

    @staticmethod
    def _pattern(operand: Expr, em: Emitter) -> str:
        text = literal_value(operand)
        if text is None:
            return em.call(compile_java, em.value(operand))
        return em.cached(("java", text), lambda: compile_java(text), "pattern")


def _define(name: str, forms: Sequence[str], returns: DataType, helper: Callable[..., Any], **keywords: Any) -> None:
    register(_Regexp(name, forms, returns, helper=helper, **keywords))


_TEXT_AND_PATTERN = ["CHARACTER CHARACTER"]
_AND_GROUP = ["CHARACTER CHARACTER", "CHARACTER CHARACTER INTEGER"]
_define("REGEXP", _TEXT_AND_PATTERN, t.BOOLEAN, regexp)
_define("REGEXP_REPLACE", ["CHARACTER CHARACTER CHARACTER"], t.STRING, regexp_replace, total=False)
_define("REGEXP_EXTRACT", _AND_GROUP, t.STRING, regexp_extract, nullable=True)
_define("REGEXP_EXTRACT_ALL", _AND_GROUP, t.array(t.STRING), regexp_extract_all, nullable=True, null_literal=True)
_define("REGEXP_COUNT", _TEXT_AND_PATTERN, t.INT, regexp_count, nullable=True, null_literal=True)
_define("REGEXP_INSTR", _TEXT_AND_PATTERN, t.INT, regexp_instr, nullable=True, null_literal=True)
_define("REGEXP_SUBSTR", _TEXT_AND_PATTERN, t.STRING, regexp_substr, nullable=True, null_literal=True)


class _StrToMap(_Regexp):
    """STR_TO_MAP(s[, pairs[, values]]) with the default delimiters put in."""

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        defaults = [Literal(x, t.char(1).not_null()) for x in (",", "=")]
        return super().bind((*operands, *defaults[max(0, len(operands) - 1) :]), options)


register(
    _StrToMap(
        "STR_TO_MAP",
        ["CHARACTER CHARACTER CHARACTER"],
        t.map_of(t.STRING, t.STRING),
        helper=strings.str_to_map,
        patterns=(1, 2),
        nullable=True,
        total=True,
    )
)
