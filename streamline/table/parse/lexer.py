"""SQL text into tokens, by Flink's lexical rules.

Words keep their case; whether one is a keyword is for the parser to say (`keywords.py`). Identifiers are quoted by
backticks, strings by apostrophes; a double quote begins nothing. Comments are `-- …`, `// …` and `/* … */`; `/*+` opens
a hint, which is made of ordinary tokens.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from streamline.table.parse.source import Source, Span, syntax_error

__all__ = ("MAX_NESTING", "Token", "tokenize")

#: Brackets may be nested this deep; more is refused before the parser, which recurses, sees it.
MAX_NESTING: Final = 100

# The letters of an unquoted identifier: Flink's ranges, which leave out symbols and combining marks.
_LETTER = (
    "$A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u3040-\u318f\u3300-\u337f\u3400-\u3d2d\u4e00-\u9fff\uf900-\ufaff"
)

_TOKENS = re.compile(
    rf"""
    (?P<space>   [ \t\n\r\f]+ | --[^\n\r]* | //[^\n\r]* | /\*(?!\+)(?s:.*?)\*/ )
  | (?P<unicode> [Uu]&'(?:[^']|'')*' )
  | (?P<binary>  [Xx]'(?:[^']|'')*' )
  | (?P<escaped> [Ee]'(?:[^'\\]|''|\\.)*' )
  | (?P<prefixed> (?:_[A-Za-z0-9:._-]+|[Nn])'(?:[^']|'')*' )
  | (?P<string>  '(?:[^']|'')*' )
  | (?P<number>  (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
  | (?P<word>    [{_LETTER}][{_LETTER}\d]* )
  | (?P<quoted>  `(?:[^`\n\r]|``)+` )
  | (?P<hint>    /\*\+ )
  | (?P<op>      => | <> | <= | >= | != | \|\| | \*/ | /(?!\*) | [-+*%<>=()\[\]{{}},.;:?^|"!] )
    """,
    re.VERBOSE,
)


class Token:
    """A token.

    Attributes:
        kind: word, quoted (identifier), string, binary (string), number, op, or end.
        key: what the grammar compares: the upper-case word, the operator; empty for everything else.
        value: the identifier or word as written, the decoded string, the hexadecimal digits, the number's text.
        start, end: offsets of its first character and of the one after its last.
    """

    __slots__ = ("end", "key", "kind", "start", "value")

    def __init__(self, kind: str, key: str, value: str, start: int, end: int) -> None:
        self.kind = kind
        self.key = key
        self.value = value
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.kind}, {self.value!r})"


def tokenize(source: Source) -> list[Token]:
    """The tokens of a text, the last of kind `end`.

    Raises:
        SqlParserException: for a character that begins no token, a string or comment that does not end, or brackets
            nested deeper than `MAX_NESTING`.
    """
    text = source.text
    tokens: list[Token] = []
    match = _TOKENS.match
    depth = 0
    at, size = 0, len(text)
    while at < size:
        found = match(text, at)
        if found is None:
            _refuse(source, at)
        start, at = at, found.end()
        kind, piece = found.lastgroup, found.group()
        if kind == "space":
            continue
        if kind == "word":
            # A dollar alone is the end of a row pattern; in a word it is a letter.
            tokens.append(Token("op" if piece == "$" else "word", piece.upper(), piece, start, at))
        elif kind == "op" or kind == "hint":
            if piece in ("(", "[", "{"):
                depth += 1
                if depth > MAX_NESTING:
                    raise syntax_error(Span(source, start, at), f"nested deeper than {MAX_NESTING} brackets")
            elif piece in (")", "]", "}"):
                depth = max(0, depth - 1)
            elif piece == ";":
                depth = 0
            tokens.append(Token("op", piece, piece, start, at))
        elif kind == "string":
            tokens.append(Token("string", "", piece[1:-1].replace("''", "'"), start, at))
        elif kind == "number":
            tokens.append(Token("number", "", piece, start, at))
        elif kind == "quoted":
            tokens.append(Token("quoted", "", piece[1:-1].replace("``", "`"), start, at))
        else:
            tokens.append(_literal(source, str(kind), piece, start, at))
    # A hint never holds a hint and is not nested; `decode_unicode` needs the token after, so it comes last.
    tokens.append(Token("end", "", "", size, size))
    return _escapes(source, tokens)


def _literal(source: Source, kind: str, piece: str, start: int, end: int) -> Token:
    """A string literal with a prefix."""
    body = piece[piece.index("'") + 1 : -1]
    if kind == "binary":
        if re.fullmatch("[0-9A-Fa-f]*", body) is None:
            raise syntax_error(Span(source, start, end), "a binary literal holds the digits 0-9 and A-F only")
        return Token("binary", "", body, start, end)
    if kind == "escaped":
        return Token("string", "", _unescape(body), start, end)
    body = body.replace("''", "'")
    if kind == "unicode":
        return Token("unicode", "", body, start, end)
    charset = piece[: piece.index("'")].upper()
    if charset not in (
        "N",
        "_UTF8",
        "_UTF16",
        "_UTF-8",
        "_UTF-16",
        "_UTF16LE",
        "_UTF-16LE",
        "_ASCII",
        "_US-ASCII",
        "_ISO-8859-1",
    ):
        raise syntax_error(Span(source, start, end), f"unknown character set {charset[1:]}")
    return Token("string", "", body, start, end)


_C_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_C_ESCAPE = re.compile(r"''|\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)


def _unescape(body: str) -> str:
    """The text of E'...'."""

    def one(found: re.Match[str]) -> str:
        if found.group() == "''":
            return "'"
        u4, u8, x, octal, other = found.groups()
        if octal:
            return chr(int(octal, 8))
        if u4 or u8 or x:
            return chr(int(u4 or u8 or x, 16))
        return _C_ESCAPES.get(other, other)

    return _C_ESCAPE.sub(one, body)


def _escapes(source: Source, tokens: list[Token]) -> list[Token]:
    """Decode U&'...' [UESCAPE 'c'], which takes up to three tokens."""
    if all(t.kind != "unicode" for t in tokens):
        return tokens
    out: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        i += 1
        if token.kind == "unicode":
            escape, end = "\\", token.end
            if tokens[i].key == "UESCAPE" and tokens[i + 1].kind == "string":
                escape, end = tokens[i + 1].value, tokens[i + 1].end
                if len(escape) != 1 or escape in " \t\n\r\f+'\"" or escape in "0123456789abcdefABCDEF":
                    raise syntax_error(
                        Span(source, tokens[i + 1].start, end),
                        "UESCAPE takes one character that is no hexadecimal digit, white space, plus sign or quote",
                    )
                i += 2
            span = Span(source, token.start, end)
            token = Token("string", "", _decode(span, token.value, escape), token.start, end)
        out.append(token)
    return out


def _decode(span: Span, body: str, escape: str) -> str:
    out: list[str] = []
    i = 0
    while i < len(body):
        if body[i] != escape:
            out.append(body[i])
            i += 1
        elif body[i + 1 : i + 2] == escape:
            out.append(escape)
            i += 2
        else:
            digits = body[i + 1 : i + 5]
            if re.fullmatch("[0-9A-Fa-f]{4}", digits) is None:
                raise syntax_error(span, f"{escape} in a U& string is followed by four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            i += 5
    # Characters beyond the basic plane are written as two surrogates.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(source: Source, at: int) -> NoReturn:
    """Say why no token begins here."""
    char = source.text[at]
    place = Span(source, at, at + 1)
    if char == "'" or re.match("(?:[UuXxEeNn]&?|_[A-Za-z0-9:._-]+)'", source.text[at : at + 20]):
        raise syntax_error(place, "a string that is not closed: the closing ' is missing")
    if char == "`":
        if source.text.startswith("``", at):
            raise syntax_error(place, "an empty identifier")
        raise syntax_error(place, "an identifier in backticks that is not closed on its line")
    if source.text.startswith("/*", at):
        raise syntax_error(place, "a comment that is not closed: */ is missing")
    raise syntax_error(place, f"unexpected character {char!r}", _ADVICE.get(char, ""))


_ADVICE = {
    "&": "There is no bitwise & in this dialect; AND combines conditions.",
    "#": "Comments begin with --.",
    "~": "There is no ~ in this dialect; REGEXP(text, pattern) matches a regular expression.",
    "@": "Variables are not part of this dialect.",
    "\\": "A backslash has no meaning outside of strings.",
}
