"""The functions between text and times."""

from __future__ import annotations

import math
import re
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Final

from streamline.errors import TableException
from streamline.table.expr.runtime import patterns
from streamline.table.expr.runtime.temporal import (
    DAY,
    MS,
    SECOND,
    day_of,
    offset_at,
    parse_timestamp,
    to_instant,
)

__all__ = (
    "convert_tz",
    "epoch_to_nanos",
    "from_unixtime",
    "parse_to_date",
    "parse_to_instant",
    "parse_to_timestamp",
    "reformat",
    "unix_timestamp",
)

#: The default format.
STANDARD: Final = "yyyy-MM-dd HH:mm:ss"

#: What UNIX_TIMESTAMP gives for text it cannot read.
UNREADABLE: Final = -(2**63)

#: Epoch milliseconds that TO_TIMESTAMP_LTZ takes: the years 0 to 9999.
FIRST_MILLIS: Final = -62167219200000
LAST_MILLIS: Final = 253402300799999


def epoch_to_nanos(value: int | float | Decimal, precision: int) -> int | None:
    """A number of seconds (precision 0), milliseconds (3), … since 1970 in nanoseconds, None where out of range."""
    if not abs(float(value)) < 1e25:  # NaN neither
        return None
    if isinstance(value, float):  # milliseconds, or finer where the precision is
        fine = max(3, precision)
        nanos = math.floor(value * 10 ** (fine - precision)) * 10 ** (9 - fine)
    else:  # of a DECIMAL whole units count
        nanos = int(value) * 10 ** (9 - precision)
    return nanos if FIRST_MILLIS <= nanos // MS <= LAST_MILLIS else None


def reformat(text: str, pattern: str) -> str | None:
    """A text such as `2024-01-02 03:04:05` in another format, None where it is not one."""
    millis = patterns.lenient_parser(STANDARD)(text, UTC)
    return None if millis is None else patterns.formatter(pattern, exact=False)(millis * MS, 0)


def from_unixtime(seconds: int, zone: tzinfo, pattern: str = STANDARD) -> str:
    """Epoch seconds as text in a zone."""
    offset = offset_at(seconds * SECOND, zone)
    return patterns.formatter(pattern, exact=False)(seconds * SECOND + offset, offset // SECOND)


def unix_timestamp(text: str, zone: tzinfo, pattern: str = STANDARD) -> int:
    """Epoch seconds of a text in a zone, the smallest BIGINT where it cannot be read."""
    millis = patterns.lenient_parser(pattern)(text, zone)
    return UNREADABLE if millis is None else millis // 1000


def convert_tz(text: str, source: str, target: str) -> str | None:
    """A text such as `2024-01-02 03:04:05` in one zone as in another, None where it cannot be read."""
    millis = patterns.lenient_parser(STANDARD)(text, patterns.old_zone_of(source))
    if millis is None:
        return None
    nanos = millis * MS
    return patterns.formatter(STANDARD, exact=False)(nanos + offset_at(nanos, patterns.old_zone_of(target)), None)


def parse_to_date(text: str, pattern: str) -> int | None:
    """The day of a text in a format, None where it cannot be read."""
    millis = patterns.lenient_parser(pattern)(text, UTC)
    return None if millis is None else millis * MS // DAY


_SQL_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII
)


def parse_to_timestamp(text: str, pattern: str) -> int | None:
    """The timestamp of a text in a format, else in the standard one (then the 30th of February is in March)."""
    nanos = patterns.smart_parser(pattern)(text)
    if nanos is None:
        match = _SQL_TIMESTAMP.fullmatch(text.strip())
        if match is None:
            return None
        year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        seconds = (hour * 60 + minute) * 60 + second
        nanos = day_of(year, month, day) * DAY + seconds * SECOND + int((match[7] or "").ljust(9, "0"))
    return nanos // MS * MS


def parse_to_instant(text: str, pattern: str = STANDARD, zone: str = "UTC") -> int | None:
    """The instant at which the clock of a zone shows a text."""
    local = parse_to_timestamp(text, pattern)
    return None if local is None else to_instant(local, patterns.zone_of(zone))


def parse_standard_instant(text: str) -> int:
    """The instant of a text such as `2024-01-02 03:04:05.678`, read in UTC.

    Raises:
        TableException: if it is not one.
    """
    nanos = parse_timestamp(text, 3)
    if nanos is None:
        raise TableException(f"Text '{text}' could not be parsed: TO_TIMESTAMP_LTZ expects '{STANDARD}[.SSS]'.")
    return nanos
