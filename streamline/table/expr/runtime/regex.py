"""Regular expressions of the JVM, of LIKE and of SIMILAR TO, as Python's."""

from __future__ import annotations

import functools
import re
from typing import Final

from streamline.errors import ValidationException

__all__ = ("compile_java", "compile_like", "compile_similar", "java_to_python", "like_parts")


# -- the JVM's syntax --------------------------------------------------------------------------------------------

_LINE_END: Final = "\n\r\u0085\u2028\u2029"
_LETTERS: Final = (
    r"A-Za-z\xaa\xb5\xba\xc0-\xd6\xd8-\xf6\xf8-\u02c1\u0370-\u0373\u0376-\u037d\u0386-\u03ff\u0400-\u0481\u048a-\u052f"
    r"\u0531-\u0556\u0561-\u0587\u05d0-\u05ea\u0620-\u064a\u0904-\u0939\u0e01-\u0e30\u10a0-\u10ff\u1e00-\u1fff"
    r"\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
)
_DIGITS: Final = r"0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f"
_PUNCTUATION: Final = (
    r"!-#%-*,-/:;?@\[-\]_{}\xa1\xa7\xab\xb6\xb7\xbb\xbf\u2010-\u2027\u2030-\u205e\u3001-\u3003\u3008-\u3011"
)
_SPACES: Final = r" \xa0\u2000-\u200a\u202f\u205f\u3000"
_CAPITALS: Final = r"A-Z\xc0-\xd6\xd8-\xde\u0391-\u03a9\u0400-\u042f"
_SMALL: Final = r"a-z\xdf-\xf6\xf8-\xff\u03b1-\u03c9\u0430-\u045f"
#: Members of what `\p{…}` names. Those of Unicode cover the scripts that are met in practice.
_PROPERTIES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "0-9A-Za-z",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9A-Fa-f",
    "Space": r" \t\n\x0b\f\r",
    **dict.fromkeys(("L", "IsL", "IsAlphabetic", "javaLetter"), _LETTERS),
    **dict.fromkeys(("N", "IsN", "Nd", "IsDigit", "javaDigit"), _DIGITS),
    **dict.fromkeys(("P", "IsP", "IsPunctuation"), _PUNCTUATION),
    **dict.fromkeys(("Z", "Zs", "IsWhite_Space"), _SPACES),
    **dict.fromkeys(("Lu", "IsLu", "IsUppercase", "javaUpperCase"), _CAPITALS),
    **dict.fromkeys(("Ll", "IsLl", "IsLowercase", "javaLowerCase"), _SMALL),
    "Sc": r"$\xa2-\xa5\u20a0-\u20bf",
    "IsLatin": r"A-Za-z\xaa\xba\xc0-\xd6\xd8-\xf6\xf8-\u02b8",
    **dict.fromkeys(("IsGreek", "InGreek"), r"\u0370-\u03ff\u1f00-\u1fff"),
    **dict.fromkeys(("IsCyrillic", "InCyrillic"), r"\u0400-\u052f"),
    "IsHan": r"\u2e80-\u2eff\u3400-\u4dbf\u4e00-\u9fff",
}
_SIMPLE: Final = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}


class _Translator:
    """Reads one pattern of the JVM and writes Python's."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.dot_all = False
        self.comments = False

    def run(self) -> str:
        text = self._alternatives()
        if self.at < len(self.pattern):
            raise re.error("Unmatched closing ')'", self.pattern, self.at)
        return text

    def _peek(self, count: int = 1) -> str:
        return self.pattern[self.at : self.at + count]

    def _alternatives(self) -> str:
        """Up to the end of the group; flags set within hold to its end."""
        saved = self.dot_all, self.comments
        out: list[str] = []
        closing = 0
        while self.at < len(self.pattern) and self._peek() != ")":
            piece, opened = self._piece()
            out.append(piece)
            closing += opened
        self.dot_all, self.comments = saved
        return "".join(out) + ")" * closing

    def _piece(self) -> tuple[str, int]:
        c = self._peek()
        if c == "\\":
            return self._escape(), 0
        if c == "[":
            return self._class(), 0
        if c == "(":
            return self._group()
        self.at += 1
        if c == ".":
            return ("." if self.dot_all else f"[^{_LINE_END}]"), 0
        if c == "{" and re.match(r"\d+(?:,\d*)?\}", self.pattern[self.at :]) is None:
            raise re.error("Illegal repetition", self.pattern, self.at - 1)
        return c, 0

    def _group(self) -> tuple[str, int]:
        flags = re.match(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])", self.pattern[self.at :])
        if flags is not None:
            return self._flags(flags)
        named = re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", self.pattern[self.at :])
        start = f"(?P<{named[1]}>" if named is not None else ""
        if named is not None:
            self.at += named.end()
        else:
            special = re.match(r"\((?:\?(?:<?[=!]|>))?", self.pattern[self.at :])
            assert special is not None
            start = special[0]
            self.at += special.end()
        inner = self._alternatives()
        self._close()
        return f"{start}{inner})", 0

    def _flags(self, match: re.Match[str]) -> tuple[str, int]:
        on, off, end = match.groups()
        off = off or ""
        if set(on + off) - set("idmsuxU"):
            raise re.error("Unknown inline modifier", self.pattern, self.at)
        self.at += match.end()
        saved = self.dot_all, self.comments
        self.dot_all = "s" in on or (self.dot_all and "s" not in off)
        self.comments = "x" in on or (self.comments and "x" not in off)
        known_on = "".join(f for f in "imsx" if f in on)
        known_off = "".join(f for f in "imsx" if f in off and f not in on)
        head = f"(?{known_on}{'-' + known_off if known_off else ''}:"
        if end == ")":  # to the end of the surrounding group
            return head, 1
        inner = self._alternatives()
        self.dot_all, self.comments = saved
        self._close()
        return f"{head}{inner})", 0

    def _close(self) -> None:
        if self._peek() != ")":
            raise re.error("Unclosed group", self.pattern, self.at)
        self.at += 1

    def _escape(self) -> str:
        """A backslash and what follows, outside of a class."""
        c = self.pattern[self.at + 1 : self.at + 2]
        if not c:
            raise re.error("Unexpected end of the pattern after \\", self.pattern, self.at)
        if c == "Q":
            return self._quoted()
        if c in "pP":
            return self._property(negated=c == "P", inside=False)
        if c == "k":
            match = re.match(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>", self.pattern[self.at :])
            if match is None:
                raise re.error("\\k is not followed by '<'", self.pattern, self.at)
            self.at += match.end()
            return f"(?P={match[1]})"
        literal = self._character_escape()
        if literal is not None:
            return re.escape(literal)
        self.at += 2
        if c in _SIMPLE:
            return f"[{_SIMPLE[c]}]"
        special = {
            "z": r"\Z",
            "Z": r"(?=\n?\Z)",
            "G": "",
            "R": r"(?:\r\n|[\n-\r\x85\u2028\u2029])",
            "H": f"[^{_SIMPLE['h']}]",
            "V": f"[^{_SIMPLE['v']}]",
        }
        if c in special:
            return special[c]
        if c in "AbBdDsSwW" or c.isdigit():
            return "\\" + c
        if c.isascii() and c.isalpha():
            raise re.error("Illegal/unsupported escape sequence", self.pattern, self.at - 2)
        return re.escape(c)

    def _quoted(self) -> str:
        end = self.pattern.find("\\E", self.at + 2)
        text = self.pattern[self.at + 2 : None if end < 0 else end]
        self.at = len(self.pattern) if end < 0 else end + 2
        return re.escape(text)

    def _character_escape(self) -> str | None:
        r"""A single character written as `\t`, `\x41`, `\u0041`, `\012`, `\cA`; None for other escapes."""
        match = re.match(
            r"\\(?:([tnrfae])|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|0([0-3]?[0-7]{1,2})|c(.))",
            self.pattern[self.at :],
        )
        if match is None:
            return None
        self.at += match.end()
        letter, short, long, unicode, octal, control = match.groups()
        if letter:
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}[letter]
        if octal:
            return chr(int(octal, 8))
        if control:
            return chr(ord(control) ^ 64)
        return chr(int(short or long or unicode, 16))

    def _property(self, negated: bool, inside: bool) -> str:
        match = re.match(r"\\[pP](?:\{(\^?)(?:IsScript=)?(\w+)\}|(\w))", self.pattern[self.at :])
        if match is None:
            raise re.error("Unknown character property", self.pattern, self.at)
        self.at += match.end()
        name = match[2] or match[3]
        negated ^= bool(match[1])
        members = _PROPERTIES.get(name)
        if members is None:
            raise re.error(f"Unknown character property name {{{name}}}", self.pattern, self.at)
        if inside:
            if negated:
                raise re.error("a negated property within a class is not supported", self.pattern, self.at)
            return members
        return f"[{'^' if negated else ''}{members}]"

    # -- classes -------------------------------------------------------------------------------------------------

    def _class(self) -> str:
        """`[…]` with unions and intersections: the latter become lookaheads."""
        self.at += 1
        negated = self._peek() == "^"
        self.at += negated
        parts: list[str] = []
        unions: list[str] = []
        members = ""
        first = True
        while True:
            c = self._peek()
            if not c:
                raise re.error("Unclosed character class", self.pattern, self.at)
            if c == "]" and not first:
                self.at += 1
                break
            if c == "[":
                unions.append(self._class())
            elif self._peek(2) == "&&":
                self.at += 2
                parts.append(_union(members, unions))
                members, unions = "", []
            elif c == "\\":
                members += self._class_escape()
            else:
                self.at += 1
                members += "\\" + c if c in "]^&~|" or (c == "-" and first) else c
            first = False
        parts.append(_union(members, unions))
        parts = [p for p in parts if p != "(?!)"] or ["(?!)"]
        if len(parts) == 1:
            if not negated:
                return parts[0]
            whole = parts[0]
            if whole.startswith("[") and not unions:
                return "[^" + whole[1:]
            return f"(?:(?!{whole})[\\s\\S])"
        inside = "".join(f"(?={p})" for p in parts)
        return f"(?:(?!{inside})[\\s\\S])" if negated else f"(?:{inside}[\\s\\S])"

    def _class_escape(self) -> str:
        c = self.pattern[self.at + 1 : self.at + 2]
        if c == "Q":
            return self._quoted()
        if c in ("p", "P") and c:
            return self._property(negated=c == "P", inside=True)
        literal = self._character_escape()
        if literal is not None:
            return re.escape(literal)
        self.at += 2
        if c in _SIMPLE and c:
            return _SIMPLE[c]
        if c and c in "dDsSwW":
            return "\\" + c
        if not c or (c.isascii() and c.isalpha()):
            raise re.error("Illegal/unsupported escape sequence", self.pattern, self.at - 2)
        return "\\" + c if not c.isalnum() else c


def _union(members: str, unions: list[str]) -> str:
    own = [f"[{members}]"] if members else []
    together = own + unions
    if not together:
        return "(?!)"
    return together[0] if len(together) == 1 else f"(?:{'|'.join(together)})"


def java_to_python(pattern: str) -> str:
    """A pattern of `java.util.regex` in Python's syntax.

    Raises:
        re.error: if it is not a pattern.
    """
    return _Translator(pattern).run()


@functools.lru_cache(maxsize=512)
def compile_java(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern, None where the text is not one."""
    try:
        return re.compile(java_to_python(pattern), re.ASCII)
    except (re.error, RecursionError, OverflowError):
        return None


# -- LIKE --------------------------------------------------------------------------------------------------------


def like_parts(pattern: str, escape: str | None) -> list[str]:
    """A LIKE pattern in pieces: `%`, `_`, or a literal text with a blank before it.

    Raises:
        ValidationException: if the escape character is more than one, or does not escape a special one.
    """
    if escape is not None and len(escape) != 1:
        raise ValidationException(f"Invalid escape character '{escape}': it must be one character.")
    parts: list[str] = []
    literal = ""
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            follower = pattern[at + 1 : at + 2]
            if not follower or follower not in f"%_{escape}":
                raise ValidationException(
                    f"Invalid escape sequence '{pattern}', {at}: after '{escape}' stands %, _ or '{escape}'."
                )
            literal += follower
            at += 1
        elif c in "%_":
            if literal:
                parts.append(" " + literal)
                literal = ""
            parts.append(c)
        else:
            literal += c
        at += 1
    if literal:
        parts.append(" " + literal)
    return parts


@functools.lru_cache(maxsize=512)
def compile_like(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """The compiled LIKE pattern, for `fullmatch`.

    Raises:
        ValidationException: for a wrong use of the escape character.
    """
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(p) or re.escape(p[1:]) for p in like_parts(pattern, escape)), re.DOTALL)


# -- SIMILAR TO --------------------------------------------------------------------------------------------------

_SIMILAR_CLASSES: Final = {
    "[:ALPHA:]": "A-Za-z",
    "[:UPPER:]": "A-Z",
    "[:LOWER:]": "a-z",
    "[:DIGIT:]": r"\d",
    "[:SPACE:]": " ",
    "[:WHITESPACE:]": r"\s",
    "[:ALNUM:]": "A-Za-z0-9",
}


@functools.lru_cache(maxsize=512)
def compile_similar(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """The compiled SQL regular expression, for `fullmatch`.

    Raises:
        ValidationException: if it is not one.
    """
    if escape is not None and len(escape) != 1:
        raise ValidationException(f"Invalid escape character '{escape}': it must be one character.")
    out: list[str] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            at += 1
            if at == len(pattern):
                raise ValidationException(f"Invalid escape sequence '{pattern}', {at - 1}")
            out.append(re.escape(pattern[at]))
        elif c == "[":
            end = pattern.find("]", at + 1)
            while pattern[at + 1 : at + 3] == "[:" and 0 <= end < len(pattern) - 1 and pattern[end - 1] == ":":
                end = pattern.find("]", end + 1)
            if end < 0:
                raise ValidationException(f"Invalid regular expression: '{pattern}', index {at}")
            body = pattern[at + 1 : end]
            for name, members in _SIMILAR_CLASSES.items():
                body = re.sub(re.escape(name), lambda _, m=members: m, body, flags=re.IGNORECASE)  # type: ignore[misc]
            out.append(f"[{body}]")
            at = end
        elif c in "%_":
            out.append(".*" if c == "%" else ".")
        elif c in ".^$\\":
            out.append("\\" + c)
        else:
            out.append(c)
        at += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error as e:
        raise ValidationException(f"Invalid regular expression: '{pattern}': {e}") from None
