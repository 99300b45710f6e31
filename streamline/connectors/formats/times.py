"""Dates and times as text, in the SQL and the ISO form, to and from the inner form. Strict: one text, one value."""

from __future__ import annotations

import datetime as _dt
from functools import lru_cache
from typing import Final

__all__ = ("date_text", "parse_date", "parse_time", "parse_timestamp", "time_text", "timestamp_text")

_EPOCH_DAY: Final = _dt.date(1970, 1, 1).toordinal()
_EPOCH: Final = _dt.datetime(1970, 1, 1)
_SECOND: Final = 1_000_000_000


def parse_date(text: str) -> int:
    """Days since 1970-01-01 of `2024-02-29`.

    Raises:
        ValueError: it is no such text.
    """
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        raise ValueError(f"{text!r} is no date like '2024-02-29'")
    return _dt.date.fromisoformat(text).toordinal() - _EPOCH_DAY


def parse_time(text: str) -> int:
    """Milliseconds of the day of `10:00:00` or `10:00:00.123`.

    Raises:
        ValueError: it is no such text.
    """
    if len(text) < 8 or text[2] != ":" or text[5] != ":":
        raise ValueError(f"{text!r} is no time like '10:00:00'")
    t = _dt.time.fromisoformat(text[:8])
    return (t.hour * 3600 + t.minute * 60 + t.second) * 1000 + _fraction(text, 8) // 1_000_000


def parse_timestamp(text: str, separator: str = " ", utc: bool = False, unit: int = 1) -> int:
    """Nanoseconds since 1970-01-01T00:00 of `2024-01-01 10:00:00.123`.

    Args:
        text: the text.
        separator: between date and time: a blank (SQL) or `T` (ISO; seconds may be left out there).
        utc: a `Z` has to follow.
        unit: nanoseconds that the result is cut to a multiple of.

    Raises:
        ValueError: it is no such text.
    """
    body = text
    if utc:
        if not text.endswith("Z"):
            raise ValueError(f"{text!r} is no timestamp like '2024-01-01{separator}10:00:00Z'")
        body = text[:-1]
    whole = body[:19]
    if separator == "T" and len(whole) == 16:
        whole += ":00"
    if len(whole) != 19 or whole[10] != separator or whole[13] != ":" or whole[16] != ":":
        raise ValueError(f"{text!r} is no timestamp like '2024-01-01{separator}10:00:00{'Z' if utc else ''}'")
    d = _dt.datetime.fromisoformat(whole)
    seconds = (d.toordinal() - _EPOCH_DAY) * 86400 + d.hour * 3600 + d.minute * 60 + d.second
    nanos = seconds * _SECOND + (_fraction(body, 19) if len(body) > 19 else 0)
    return nanos - nanos % unit


def _fraction(text: str, at: int) -> int:
    """Nanoseconds of the fraction that begins at a position; 0 where there is none."""
    if len(text) == at:
        return 0
    digits = text[at + 1 :]
    if text[at] != "." or not 1 <= len(digits) <= 9 or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r} has no fraction of a second like '.123'")
    return int(digits.ljust(9, "0"))


def date_text(days: int) -> str:
    """`2024-02-29` of days since 1970-01-01."""
    return _dt.date.fromordinal(days + _EPOCH_DAY).isoformat()


def time_text(millis: int) -> str:
    """`10:00:00` or `10:00:00.5` of milliseconds of the day."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:03}".rstrip("0") if rest else text


@lru_cache(4096)
def _seconds_text(seconds: int, separator: str) -> str:
    return (_EPOCH + _dt.timedelta(seconds=seconds)).isoformat(separator)


def timestamp_text(nanos: int, separator: str = " ", utc: bool = False) -> str:
    """`2024-01-01 10:00:00.123` of nanoseconds since 1970-01-01T00:00; the fraction as short as it can be."""
    seconds, rest = divmod(nanos, _SECOND)
    text = _seconds_text(seconds, separator)
    if rest:
        text = f"{text}.{rest:09}".rstrip("0")
    return text + "Z" if utc else text
