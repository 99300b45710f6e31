"""Functions of text: strings, regular expressions, hashes, JSON."""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.table.expression_base import ExpressionBase, Unary, call_node, cast_node, literal_node, var

__all__ = (
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TextFunctions",
)


class JsonType(Enum):
    """What `is_json` looks for."""

    VALUE = "VALUE"
    SCALAR = "SCALAR"
    ARRAY = "ARRAY"
    OBJECT = "OBJECT"


class JsonExistsOnError(Enum):
    """What `json_exists` gives on an error."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"
    ERROR = "ERROR"


class JsonValueOnEmptyOrError(Enum):
    """What `json_value` gives where nothing is found, or on an error."""

    NULL = "NULL"
    ERROR = "ERROR"
    DEFAULT = "DEFAULT"


class JsonQueryWrapper(Enum):
    """Whether `json_query` puts its result into an array."""

    WITHOUT_ARRAY = "WITHOUT"
    CONDITIONAL_ARRAY = "CONDITIONAL"
    UNCONDITIONAL_ARRAY = "UNCONDITIONAL"


class JsonQueryOnEmptyOrError(Enum):
    """What `json_query` gives where nothing is found, or on an error."""

    NULL = "NULL"
    EMPTY_ARRAY = "EMPTY ARRAY"
    EMPTY_OBJECT = "EMPTY OBJECT"
    ERROR = "ERROR"


class JsonOnNull(Enum):
    """What JSON constructors do with NULL."""

    NULL = "NULL"
    ABSENT = "ABSENT"


def _returning(data_type: DataType) -> exp.Expression:
    return exp.Kwarg(this=var("RETURNING"), expression=cast_node(exp.Null(), data_type))


class TextFunctions(ExpressionBase):
    """Methods over text and binary values. Positions count from 1, except in `split_index`."""

    __slots__ = ()

    # -- strings -------------------------------------------------------------------------------------------------

    char_length = Unary("CHAR_LENGTH", "The number of characters.", "charLength")
    upper_case = Unary("UPPER", "All letters in upper case.", "upper")
    lower_case = Unary("LOWER", "All letters in lower case.", "lower")
    init_cap = Unary("INITCAP", "The first letter of each word in upper case, the others in lower case.", "initCap")
    reverse = Unary("REVERSE", "The characters in reverse order.", "reverse")
    ascii = Unary("ASCII", "The code of the first character.", "ascii")
    chr = Unary("CHR", "The character of a code.", "chr")
    from_base64 = Unary("FROM_BASE64", "The text that is encoded in base 64.", "fromBase64")
    to_base64 = Unary("TO_BASE64", "The text encoded in base 64.", "toBase64")
    url_decode = Unary("URL_DECODE", "The text that is encoded as part of a URL.")
    url_encode = Unary("URL_ENCODE", "The text encoded as part of a URL.")
    inet_aton = Unary("INET_ATON", "The number of an IPv4 address.")
    inet_ntoa = Unary("INET_NTOA", "The IPv4 address of a number.")

    def starts_with(self, start: Any) -> Self:
        """Whether the value starts with `start`."""
        return self._call("STARTSWITH", start)

    def ends_with(self, end: Any) -> Self:
        """Whether the value ends with `end`."""
        return self._call("ENDSWITH", end)

    def substring(self, begin_index: Any, length: Any = None) -> Self:
        """The part from a position on, at most `length` characters long."""
        return self._calls("SUBSTRING", begin_index, length)

    def substr(self, begin_index: Any, length: Any = None) -> Self:
        """The part from a position on, at most `length` characters long."""
        return self._calls("SUBSTR", begin_index, length)

    def _trim(self, side: str, character: Any) -> Self:
        operand = self._of(" " if character is None else character)
        node = call_node("TRIM", var(side), operand.ast, self.ast)
        return type(self)(node, f"trim({side}, {operand.text}, {self.text})")

    def trim_leading(self, character: Any = None) -> Self:
        """Without the characters (default: blanks) at its start."""
        return self._trim("LEADING", character)

    def trim_trailing(self, character: Any = None) -> Self:
        """Without the characters (default: blanks) at its end."""
        return self._trim("TRAILING", character)

    def trim(self, character: Any = None) -> Self:
        """Without the characters (default: blanks) at its start and end."""
        return self._trim("BOTH", character)

    def ltrim(self, trim_str: Any = None) -> Self:
        """Without any of the given characters (default: blanks) at its start."""
        return self._calls("LTRIM", trim_str)

    def rtrim(self, trim_str: Any = None) -> Self:
        """Without any of the given characters (default: blanks) at its end."""
        return self._calls("RTRIM", trim_str)

    def btrim(self, trim_str: Any = None) -> Self:
        """Without any of the given characters (default: blanks) at its start and end."""
        return self._calls("BTRIM", trim_str)

    def replace(self, search: Any, replacement: Any) -> Self:
        """Every occurrence of `search` replaced."""
        return self._call("REPLACE", search, replacement)

    def translate(self, from_str: Any, to_str: Any) -> Self:
        """Each character of `from_str` replaced by the one of `to_str` in the same place, or removed."""
        return self._call("TRANSLATE", from_str, to_str)

    def like(self, pattern: Any, escape: Any = None) -> Self:
        """Whether the text is of the pattern, in which `%` is any text and `_` any character."""
        matched = self._node(exp.Like, "LIKE", pattern)
        if escape is None:
            return matched
        return type(self)(exp.Escape(this=matched.ast, expression=self._of(escape).ast.copy()), matched.text)

    def similar(self, pattern: Any) -> Self:
        """Whether the text is of the SQL regular expression."""
        return self._node(exp.SimilarTo, "similar", pattern)

    def position(self, haystack: Any) -> Self:
        """Where this text is first found in `haystack`; 0: nowhere."""
        return self._call("POSITION", haystack, text="position")

    def locate(self, s: Any, pos: Any = None) -> Self:
        """Where this text is first found in `s`, from position `pos` on; 0: nowhere."""
        return self._calls("LOCATE", s, pos)

    def instr(self, s: Any) -> Self:
        """Where `s` is first found in this text; 0: nowhere."""
        return self._call("INSTR", s, text="instr")

    def left(self, length: Any) -> Self:
        """The first characters."""
        return self._call("LEFT", length, text="left")

    def right(self, length: Any) -> Self:
        """The last characters."""
        return self._call("RIGHT", length, text="right")

    def lpad(self, length: Any, pad: Any) -> Self:
        """Filled up on the left to `length` characters, or cut to that."""
        return self._call("LPAD", length, pad, text="lpad")

    def rpad(self, length: Any, pad: Any) -> Self:
        """Filled up on the right to `length` characters, or cut to that."""
        return self._call("RPAD", length, pad, text="rpad")

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Self:
        """`new_string` in place of `length` characters (default: as many as it has) from a position on."""
        return self._calls("OVERLAY", new_string, starting, length)

    def repeat(self, n: Any) -> Self:
        """The text n times."""
        return self._call("REPEAT", n, text="repeat")

    def decode(self, charset: Any) -> Self:
        """The text of bytes in a character set."""
        return self._call("DECODE", charset, text="decode")

    def encode(self, charset: Any) -> Self:
        """The bytes of the text in a character set."""
        return self._call("ENCODE", charset, text="encode")

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Self:
        """A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO; a key of QUERY."""
        return self._calls("PARSE_URL", part_to_extract, key)

    def printf(self, *args: Any) -> Self:
        """The values in the places of a format string."""
        return self._call("PRINTF", *args)

    def elt(self, expr: Any, *exprs: Any) -> Self:
        """The argument in the place of this number."""
        return self._call("ELT", expr, *exprs)

    def split(self, delimiter: Any) -> Self:
        """The parts between delimiters, as an array."""
        return self._call("SPLIT", delimiter)

    def split_index(self, separator: Any, index: Any) -> Self:
        """The part in a place, counted from 0."""
        return self._call("SPLIT_INDEX", separator, index, text="splitIndex")

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Self:
        """A map of text such as `k1=v1,k2=v2`."""
        return self._calls("STR_TO_MAP", list_delimiter, key_value_delimiter)

    # -- regular expressions -------------------------------------------------------------------------------------

    def regexp(self, regex: Any) -> Self:
        """Whether a part of the text matches."""
        return self._call("REGEXP", regex, text="regexp")

    def regexp_count(self, regex: Any) -> Self:
        """How often it matches."""
        return self._call("REGEXP_COUNT", regex)

    def regexp_replace(self, regex: Any, replacement: Any) -> Self:
        """Every match replaced."""
        return self._call("REGEXP_REPLACE", regex, replacement, text="regexpReplace")

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Self:
        """A group (default 0: the whole) of the first match."""
        return self._calls("REGEXP_EXTRACT", regex, extract_index)

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Self:
        """A group (default 1) of every match, as an array."""
        return self._calls("REGEXP_EXTRACT_ALL", regex, extract_index)

    def regexp_instr(self, regex: Any) -> Self:
        """Where the first match starts; 0: nowhere."""
        return self._call("REGEXP_INSTR", regex)

    def regexp_substr(self, regex: Any) -> Self:
        """The first match."""
        return self._call("REGEXP_SUBSTR", regex)

    # -- hashes --------------------------------------------------------------------------------------------------

    md5 = Unary("MD5", "The MD5 hash, in hexadecimal digits.", "md5")
    sha1 = Unary("SHA1", "The SHA-1 hash, in hexadecimal digits.", "sha1")
    sha224 = Unary("SHA224", "The SHA-224 hash, in hexadecimal digits.", "sha224")
    sha256 = Unary("SHA256", "The SHA-256 hash, in hexadecimal digits.", "sha256")
    sha384 = Unary("SHA384", "The SHA-384 hash, in hexadecimal digits.", "sha384")
    sha512 = Unary("SHA512", "The SHA-512 hash, in hexadecimal digits.", "sha512")

    def sha2(self, hash_length: Any) -> Self:
        """The SHA-2 hash of 224, 256, 384 or 512 bits, in hexadecimal digits."""
        return self._call("SHA2", hash_length, text="sha2")

    # -- JSON ----------------------------------------------------------------------------------------------------

    json_quote = Unary("JSON_QUOTE", "The text as a JSON string.")
    json_unquote = Unary("JSON_UNQUOTE", "The text of a JSON string.")
    parse_json = Unary("PARSE_JSON", "The JSON text as a VARIANT; an error where it is none.")
    try_parse_json = Unary("TRY_PARSE_JSON", "The JSON text as a VARIANT; NULL where it is none.")

    def is_json(self, json_type: JsonType | None = None) -> Self:
        """Whether the text is JSON (of a kind)."""
        word = JsonType.VALUE if json_type is None else json_type
        node = exp.Is(this=self.ast.copy(), expression=exp.JSON(this=word.value))
        shown = self.text if json_type is None else f"{self.text}, {word.name}"
        return type(self)(node, f"IS_JSON({shown})")

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Self:
        """Whether a path leads anywhere in the JSON text."""
        found = self._call("JSON_EXISTS", path)
        if on_error is not None:
            found.ast.append("expressions", exp.Kwarg(this=var("ON ERROR"), expression=var(on_error.value)))
        return found

    def json_value(
        self,
        path: str,
        returning_type: DataType | None = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Self:
        """The scalar to which a path leads in the JSON text, as STRING or `returning_type`."""
        found = self._call("JSON_VALUE", path)
        if returning_type is not None:
            found.ast.append("expressions", _returning(returning_type))
        for word, choice, default in (
            ("ON EMPTY", on_empty, default_on_empty),
            ("ON ERROR", on_error, default_on_error),
        ):
            given: exp.Expression = var(choice.value)
            if choice is JsonValueOnEmptyOrError.DEFAULT:
                value = default.ast.copy() if isinstance(default, ExpressionBase) else literal_node(default)
                given = exp.Kwarg(this=given, expression=value)
            found.ast.append("expressions", exp.Kwarg(this=var(word), expression=given))
        return found

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        return_type: DataType | None = None,
    ) -> Self:
        """The object or array to which a path leads in the JSON text, as STRING or ARRAY<STRING>."""
        found = self._call("JSON_QUERY", path)
        if return_type is not None and return_type != t.STRING:
            found.ast.append("expressions", _returning(return_type))
        for word, value in (
            ("WRAPPER", wrapping_behavior.value),
            ("ON EMPTY", on_empty.value),
            ("ON ERROR", on_error.value),
        ):
            found.ast.append("expressions", exp.Kwarg(this=var(word), expression=var(value)))
        return found
