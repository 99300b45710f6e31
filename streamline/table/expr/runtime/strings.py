"""Text functions as Flink defines them. Positions count from 1."""

from __future__ import annotations

import base64
import binascii
import codecs
import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final
from urllib.parse import quote_plus, unquote_to_bytes, urlsplit

from streamline.errors import TableException

__all__ = (
    "concat_ws",
    "initcap",
    "locate",
    "overlay",
    "pad_left",
    "pad_right",
    "split",
    "split_index",
    "substring",
    "translate",
    "utf16_length",
)


def substring(text: str, start: int, length: int | None = None) -> str | None:
    """The part from a position on; a negative one counts from the end, 0 is 1. A negative length gives None."""
    if length is not None and length < 0:
        return None
    size = len(text)
    if start > 0:
        start -= 1
        if start >= size:
            return ""
    elif start < 0:
        start += size
        if start < 0:
            return ""
    return text[start:] if length is None else text[start : start + length]


def left(text: str, length: int) -> str:
    """The first characters, none for a length below 1."""
    return text[:length] if length > 0 else ""


def right(text: str, length: int) -> str:
    """The last characters, none for a length below 1."""
    return text[-length:] if length > 0 else ""


def overlay(text: str, put: str, start: int, length: int | None = None) -> str:
    """`put` in place of `length` characters from a position on; a position outside of the text changes nothing."""
    if start <= 0 or start > len(text):
        return text
    length = len(put) if length is None else length
    rest = text[start - 1 + length :] if length > 0 and start + length <= len(text) else ""
    return text[: start - 1] + put + rest


def utf16_length(text: str) -> int:
    """The length as the JVM counts it: characters beyond the basic plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cut(text: str, length: int) -> str:
    """The first so many of the JVM's characters; half of one is a question mark."""
    if text.isascii():
        return text[:length]
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * length]
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode("utf-8")


def pad_left(text: str, length: int, pad: str) -> str | None:
    """The text, or the front of it, made so long with `pad` before it; None for a length below zero or no padding."""
    if length < 0 or not pad:
        return None
    missing = length - utf16_length(text)
    return _cut(text, length) if missing <= 0 else _cut(pad * (missing // utf16_length(pad) + 1), missing) + text


def pad_right(text: str, length: int, pad: str) -> str | None:
    """The text, or the front of it, made so long with `pad` after it; None for a length below zero or no padding."""
    if length < 0 or not pad:
        return None
    missing = length - utf16_length(text)
    return _cut(text, length) if missing <= 0 else text + _cut(pad * (missing // utf16_length(pad) + 1), missing)


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    """The parts that are not None, joined; None where the separator is."""
    return None if separator is None else separator.join([p for p in parts if p is not None])


_WORD: Final = re.compile(r"[0-9A-Za-z]+")


def initcap(text: str) -> str:
    """The first letter of each run of ASCII letters and digits in upper case, the others in lower case."""
    return _WORD.sub(lambda m: m[0][0].upper() + m[0][1:].lower(), text)


def locate(part: str, text: str, start: int = 1) -> int:
    """Where a part is first found from a position on, 0 if nowhere; nothing is found at once."""
    return text.find(part, max(start, 1) - 1) + 1 if part else 1


def instr(text: str, part: str, start: int, nth: int = 1) -> int:
    """Where a part is found for the n-th time from a position on, 0 if nowhere.

    From a negative position it is searched backwards, counted from the end.

    Raises:
        TableException: for a count below 1.
    """
    if nth < 1:
        raise TableException(f"nthAppearance must be positive, but is {nth}")
    if start == 0:
        return 0
    if not part:
        return 1
    if start > 0:
        at = start - 2
        for _ in range(nth):
            at = text.find(part, at + 1)
            if at < 0:
                return 0
        return at + 1
    at = len(text) + start + 1
    for _ in range(nth):
        at = text.rfind(part, 0, at - 1 + len(part)) if at > 0 else -1
        if at < 0:
            return 0
    return at + 1


def first_byte(text: str) -> int:
    """The first byte of the UTF-8 text as a signed number, 0 of an empty text."""
    if not text:
        return 0
    byte = text[0].encode()[0]
    return byte if byte < 128 else byte - 256


def character(code: int) -> str:
    """The character of the low 8 bits of a code, nothing for a negative one."""
    return "" if code < 0 else chr(code & 0xFF)


def translate(text: str, source: str | None, target: str | None) -> str:
    """Each character of `source` replaced by the one in the same place of `target`, or removed.

    Without a source the text stays; without a target all its characters are removed.
    """
    table: dict[int, str | None] = {}
    source, target = source or "", target or ""
    for i, c in enumerate(source):
        table.setdefault(ord(c), target[i] if i < len(target) else None)
    return text.translate(table)


def split(text: str, delimiter: str) -> list[str | None]:
    """The parts between delimiters; the characters where the delimiter is empty."""
    if not text:
        return []
    return [*text.split(delimiter)] if delimiter else [*text]


def split_index(text: str, delimiter: str | int, index: int) -> str | None:
    """The part in a place counted from 0; None where there is none."""
    if isinstance(delimiter, int):
        if not 1 <= delimiter <= 255:
            return None
        delimiter = chr(delimiter)
    if index < 0 or not text:
        return None
    parts = text.split(delimiter) if delimiter else text.split()
    return parts[index] if index < len(parts) else None


def str_to_map(text: str, pairs: re.Pattern[str] | None, values: re.Pattern[str] | None) -> dict[str, str | None]:
    """`k1=v1,k2=v2` as a map; the delimiters are regular expressions."""
    if not text or pairs is None or values is None:
        return {}
    parts = pairs.split(text)
    while parts and not parts[-1]:
        parts.pop()
    found: dict[str, str | None] = {}
    for part in parts:
        key, *rest = values.split(part, 1)
        found[key] = rest[0] if rest else None
    return found


# -- encodings ---------------------------------------------------------------------------------------------------


def from_base64(text: str | bytes) -> str:
    """The UTF-8 text that is encoded in base 64.

    Raises:
        TableException: for other characters.
    """
    encoded = text.encode() if isinstance(text, str) else text
    try:
        data = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError) as e:
        raise TableException(f"Illegal base64 text {text!r}: {e}") from None
    return data.decode("utf-8", "replace")


def to_base64(text: str | bytes) -> str:
    """The UTF-8 text, or the bytes, encoded in base 64."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


_CHARSETS: Final = {"UTF-16": "utf-16-be"}


def _codec(charset: str) -> str:
    name = _CHARSETS.get(charset.upper(), charset)
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise TableException(
            f"Unknown character set '{charset}'. Supported are US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE, UTF-16LE."
        ) from None


def encode(text: str, charset: str) -> bytes:
    """The bytes of a text in a character set, `?` for what it lacks.

    Raises:
        TableException: for an unknown character set.
    """
    data = text.encode(_codec(charset), "replace")
    return b"\xfe\xff" + data if charset.upper() == "UTF-16" and data else data


def decode(data: bytes, charset: str) -> str:
    """The text of bytes in a character set.

    Raises:
        TableException: for an unknown character set.
    """
    if charset.upper() == "UTF-16" and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode(_codec(charset), "replace")


def url_encode(text: str) -> str:
    """The text as part of a URL, a blank as `+`."""
    return quote_plus(text, safe="*-._").replace("~", "%7E")


_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def url_decode(text: str, recursive: bool = False) -> str | None:
    """The text of a part of a URL, None where it is not one."""
    while True:
        if _BAD_ESCAPE.search(text):
            return None
        plain = unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
        if not recursive or plain == text:
            return plain
        text = plain


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL, or the value of a key of its query; None where it is no URL or has no such part."""
    if not re.match(r"(?:https?|ftp|file|jar|mailto):", url, re.IGNORECASE):
        return None
    try:
        pieces = urlsplit(url)
        port = pieces.port
    except ValueError:
        return None
    if key is not None:
        if part != "QUERY" or not pieces.query:
            return None
        found = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", pieces.query)
        return found[1] if found else None
    del port
    authority = pieces.netloc or None
    host = authority.rpartition("@")[2] if authority else None
    if host and not host.endswith("]"):
        host = re.sub(r":\d*$", "", host)
    values: dict[str, str | None] = {
        "HOST": host,
        "PATH": pieces.path,
        "QUERY": pieces.query or None,
        "REF": pieces.fragment or None,
        "PROTOCOL": pieces.scheme,
        "AUTHORITY": authority,
        "FILE": pieces.path + ("?" + pieces.query if pieces.query else ""),
        "USERINFO": authority.rpartition("@")[0] if authority and "@" in authority else None,
    }
    return values.get(part)


def inet_aton(text: str) -> int | None:
    """The number of an IPv4 address; of a short one the last part is the last byte. None where it is none."""
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(p.isascii() and p.isdigit() for p in parts):
        return None
    *head, last = (int(p) for p in parts)
    if any(n > 255 for n in (*head, last)):
        return last if not head and last <= 0xFFFFFFFF else None
    return sum(n << shift for n, shift in zip(head, (24, 16, 8))) + last


def inet_ntoa(number: int) -> str | None:
    """The IPv4 address of a number, None where it is out of range."""
    if not 0 <= number <= 0xFFFFFFFF:
        return None
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


# -- printf ------------------------------------------------------------------------------------------------------

_FORMAT: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def printf(template: str, *values: Any) -> str | None:
    """The values in the places of a format string of the JVM; None where they do not fit it."""
    out: list[str] = []
    end = next_value = 0
    last = -1
    for match in _FORMAT.finditer(template):
        between = template[end : match.start()]
        if "%" in between:
            return None
        out.append(between)
        end = match.end()
        position, flags, width, precision, kind = match.groups()
        if kind in "n%":
            out.append("\n" if kind == "n" else "%".rjust(int(width or 0)))
            continue
        if "<" in flags:
            index = last
        elif position:
            index = int(position) - 1
        else:
            index, next_value = next_value, next_value + 1
        if not 0 <= index < len(values):
            return None
        last = index
        shown = _formatted(values[index], flags.replace("<", ""), width, precision, kind)
        if shown is None:
            return None
        out.append(shown)
    if "%" in template[end:]:
        return None
    return "".join(out) + template[end:]


def _formatted(value: Any, flags: str, width: str | None, precision: str | None, kind: str) -> str | None:
    upper = kind.isupper()
    text: str
    match "null" if value is None and kind.lower() in "dxocefg" else kind.lower():
        case "null":
            text, flags = "null" if precision is None else "null"[: int(precision)], flags.replace("0", "")
        case "s":
            text = "null" if value is None else _plain(value)
            text = text if precision is None else text[: int(precision)]
            flags = flags.replace("0", "")
        case "b":
            text = str(value is not None and value is not False).lower()
        case "d" if isinstance(value, int) and not isinstance(value, bool):
            text = _signed(value, flags, "d")
        case "x" | "o" if isinstance(value, int) and not isinstance(value, bool):
            bits = 32 if -(2**31) <= value < 2**31 else 64
            text = format(value & ((1 << bits) - 1), kind.lower())
        case "f" | "e" | "g" if isinstance(value, float) or hasattr(value, "as_tuple"):
            digits = "6" if precision is None else precision
            if kind in "fF" and isinstance(value, float) and math.isfinite(value):
                value = _rounded(value, int(digits))
            text = _signed(value, flags, f".{digits}{kind.lower()}")
        case "c" if isinstance(value, (str, int)):
            text = value if isinstance(value, str) else chr(value)
        case _:
            return None
    size = int(width or 0)
    if "-" in flags:
        text = text.ljust(size)
    elif "0" in flags:
        sign = text[0] if text[:1] in "+-" and text else ""
        text = sign + text[len(sign) :].rjust(size - len(sign), "0")
    else:
        text = text.rjust(size)
    return text.upper() if upper else text


def _rounded(value: float, digits: int) -> Decimal:
    """The shortest decimal that stands for the float, rounded half up, which is what the JVM shows."""
    with localcontext() as context:
        context.prec = 400
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _signed(value: Any, flags: str, kind: str) -> str:
    sign = "+" if "+" in flags else " " if " " in flags else ""
    text = format(value, f"{sign}{',' if ',' in flags else ''}{kind}")
    if "(" in flags and text.startswith("-"):
        return f"({text[1:]})"
    return text


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
