"""JSON functions. Parsed JSON has dict, list, str, int, Decimal (for numbers with a point), bool and None."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from streamline.errors import TableException
from streamline.table.expr.runtime.casts import double_text
from streamline.table.expr.runtime.jsonpath import PathError, compile_path

__all__ = ("RawJson", "dumps", "is_json", "json_exists", "json_query", "json_value", "parse", "quote", "unquote")


class RawJson(str):
    """Text that is JSON already and is put into JSON as it is."""

    __slots__ = ()


def _no_constant(name: str) -> Any:
    raise ValueError(f"Unrecognized token '{name}'")


def _number(text: str) -> Decimal:
    number = Decimal(text)
    return number if number else number.copy_abs()


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def parse(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value at the start of the text; what stands behind it is not looked at, as long as it is apart from it.

    Raises:
        ValueError: if it is not JSON.
    """
    start = _BLANKS.match(text)
    assert start is not None
    value, end = decoder.raw_decode(text, start.end())
    if end < len(text) and not isinstance(value, (dict, list, str)):
        after = text[end]
        if after not in " \t\r\n" and (not isinstance(value, (bool, NoneType)) or after.isalnum() or after in "_$"):
            raise ValueError(f"Unexpected character '{after}' after {text[:end]}")
    return value


# -- writing -----------------------------------------------------------------------------------------------------

_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def text_of(text: str) -> str:
    """A text as a JSON string."""
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def dumps(value: Any) -> str:
    """A value as JSON text: no blanks, keys in order."""
    match value:
        case RawJson():
            return str(value)
        case str():
            return text_of(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            shown = double_text(value + 0.0)
            return str(Decimal(shown)) if value - value == 0 else f'"{shown}"'
        case dict():
            pairs = sorted((str(k), v) for k, v in value.items()) if value else []
            return "{" + ",".join(f"{text_of(k)}:{dumps(v)}" for k, v in pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(map(dumps, value)) + "]"
    return str(value)


# -- tests -------------------------------------------------------------------------------------------------------


def is_json(text: str | None, kind: str) -> bool:
    """Whether a text is JSON of a kind: VALUE, OBJECT, ARRAY, SCALAR."""
    if text is None:
        return False
    try:
        value = parse(text)
    except (ValueError, RecursionError):
        return False
    match kind:
        case "OBJECT":
            return isinstance(value, dict)
        case "ARRAY":
            return isinstance(value, list)
        case "SCALAR":
            return not isinstance(value, (dict, list))
    return True


# -- paths -------------------------------------------------------------------------------------------------------

_MODE: Final = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)


def _found(text: str, path: str) -> tuple[Any, Exception | None, bool]:
    """What a path leads to in a text, the error that prevented it, and whether the mode is lax."""
    mode = _MODE.fullmatch(path)
    lax = mode is not None and mode[1].lower() == "lax"
    try:
        document = parse(text)
    except (ValueError, RecursionError) as e:
        return None, None if lax else e, lax
    try:
        compiled = compile_path(path if mode is None else mode[2])
        if document is None:
            raise PathError("The document is null")
        value = compiled.read(document, lax)
        if value is None and not lax:
            raise PathError(f"Strict jsonpath mode requires a value, and {path} leads to null")
        return value, None, lax
    except PathError as e:
        return None, e, lax


def json_exists(text: str, path: str, on_error: str) -> bool | None:
    """Whether a path leads to a value other than null; `on_error` is TRUE, FALSE, UNKNOWN or ERROR.

    Raises:
        TableException: on an error, where it says so.
    """
    value, error, _ = _found(text, path)
    if error is None:
        return value is not None
    if on_error == "ERROR":
        raise TableException(str(error))
    return {"TRUE": True, "FALSE": False}.get(on_error)


def json_value(
    text: str, path: str, convert: Callable[[Any], Any], on_empty: tuple[str, Any], on_error: tuple[str, Any]
) -> Any:
    """The scalar to which a path leads.

    Args:
        text: JSON.
        path: the path.
        convert: makes a value of the result's type of a scalar.
        on_empty: NULL, ERROR or DEFAULT, and the default: where the path leads to nothing or to null.
        on_error: the same where the text is no JSON, the path leads nowhere, or the value is no scalar.

    Raises:
        TableException: where the two say so.
    """
    value, error, lax = _found(text, path)
    if error is None:
        scalar = not isinstance(value, (dict, list))
        if value is None or (lax and not scalar):
            if on_empty[0] == "ERROR":
                raise TableException("Empty result of JSON_VALUE function is not allowed")
            return on_empty[1]
        if scalar:
            return convert(value)
        error = PathError(f"Strict jsonpath mode requires scalar value, and the actual value is: '{dumps(value)}'")
    if on_error[0] == "ERROR":
        raise TableException(str(error))
    return on_error[1]


def json_query(text: str, path: str, wrapper: str, on_empty: str, on_error: str, as_array: bool) -> Any:
    """The object or array to which a path leads, as JSON text or as an array of texts.

    Args:
        text: JSON.
        path: the path.
        wrapper: WITHOUT, CONDITIONAL (an array round what is none) or UNCONDITIONAL.
        on_empty: NULL, ERROR, EMPTY ARRAY or EMPTY OBJECT.
        on_error: the same.
        as_array: whether the result is an array.

    Raises:
        TableException: where the two say so.
    """
    value, error, lax = _found(text, path)
    if error is None:
        if value is not None and (
            wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(value, list))
        ):
            value = [value]
        scalar = not isinstance(value, (dict, list))
        if value is None or (lax and scalar):
            if on_empty == "ERROR":
                raise TableException("Empty result of JSON_QUERY function is not allowed")
            return _empty(on_empty, as_array)
        if not scalar and not as_array:
            return dumps(value)
        if isinstance(value, list):
            return [None if v is None else scalar_text(v) for v in value]
        error = PathError(
            f"Strict jsonpath mode requires array or object value, and the actual value is: '{dumps(value)}'"
        )
    if on_error == "ERROR":
        raise TableException(str(error))
    return _empty(on_error, as_array)


def _empty(behaviour: str, as_array: bool) -> Any:
    if behaviour == "EMPTY ARRAY":
        return [] if as_array else "[]"
    return "{}" if behaviour == "EMPTY OBJECT" and not as_array else None


def scalar_text(value: Any) -> str:
    """A parsed value as text: a string without its quotes."""
    return value if isinstance(value, str) else dumps(value)


def scalar_number(value: Any) -> Any:
    """A parsed number.

    Raises:
        TableException: if it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise TableException(f"JSON_VALUE found {dumps(value)}, which is not a number.")
    return value


def scalar_boolean(value: Any) -> bool:
    """A parsed boolean.

    Raises:
        TableException: if it is none.
    """
    if not isinstance(value, bool):
        raise TableException(f"JSON_VALUE found {dumps(value)}, which is not a boolean.")
    return value


# -- strings -----------------------------------------------------------------------------------------------------

_QUOTED: Final = re.compile(r'["\\/\b\f\n\r\t]|[^\x00-\x7f]')


def _quoted(match: re.Match[str]) -> str:
    c = match[0]
    if c == "/":
        return "\\/"
    if c in _ESCAPES:
        return _ESCAPES[c]
    units = c.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def quote(text: str) -> str:
    """A text as a JSON string of ASCII characters."""
    return f'"{_QUOTED.sub(_quoted, text)}"'


def unquote(text: str) -> str:
    """The text of a JSON string; any other text unchanged."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def raw(text: str) -> RawJson | None:
    """JSON text to be embedded in JSON; None of an empty text.

    Raises:
        TableException: if it is not JSON.
    """
    if not text.strip():
        return None
    try:
        return RawJson(dumps(parse(text.strip())))
    except (ValueError, RecursionError) as e:
        raise TableException(f'Invalid JSON string in JSON(value) function: "{text}". Error: {e}') from None


def json_object(*pairs: Any) -> str:
    """Keys and values in turn as a JSON object, NULLs written as null."""
    return dumps(dict(zip(pairs[::2], pairs[1::2])))


def json_object_absent(*pairs: Any) -> str:
    """Keys and values in turn as a JSON object, NULLs left out."""
    return dumps({k: v for k, v in zip(pairs[::2], pairs[1::2]) if v is not None})


def json_array(*values: Any) -> str:
    """Values as a JSON array, NULLs written as null."""
    return dumps(values)


def json_array_absent(*values: Any) -> str:
    """Values as a JSON array, NULLs left out."""
    return dumps([v for v in values if v is not None])
