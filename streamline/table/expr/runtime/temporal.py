"""Dates, times and timestamps as integers: the calendar."""

from __future__ import annotations

import functools
import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

__all__ = (
    "DAY",
    "DAY_MS",
    "MS",
    "SECOND",
    "add_months",
    "add_months_to_day",
    "civil",
    "day_of",
    "days_in_month",
    "format_date",
    "format_millis",
    "format_months",
    "format_time",
    "format_timestamp",
    "offset_at",
    "parse_date",
    "parse_time",
    "parse_timestamp",
    "precision_unit",
    "time_text",
    "to_instant",
    "to_local",
    "truncate",
)

#: Nanoseconds of a millisecond, second, day; milliseconds of a day.
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
DAY_MS: Final = 86_400_000

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


@functools.lru_cache(maxsize=4096)
def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day since 1970-01-01, in the proleptic Gregorian calendar."""
    ordinal = day + _EPOCH_ORDINAL
    if 1 <= ordinal <= 3652059:
        d = date.fromordinal(ordinal)
        return d.year, d.month, d.day
    # Outside of what datetime knows: eras of 400 years.
    day += 719468
    era, of_era = divmod(day, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def day_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; the day of the month may lie outside of its month."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_in_month(year: int, month: int) -> int:
    """Length of a month."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _MONTH_DAYS[month - 1]


def add_months_to_day(day: int, months: int) -> int:
    """A day moved by months; past the end of the month, the month's last day."""
    year, month, of_month = civil(day)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    month += 1
    return day_of(year, month, min(of_month, days_in_month(year, month)))


def add_months(nanos: int, months: int) -> int:
    """A timestamp moved by months."""
    day, rest = divmod(nanos, DAY)
    return add_months_to_day(day, months) * DAY + rest


# -- time zones --------------------------------------------------------------------------------------------------

_UTC_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1)
_MIN_SECOND: Final = -62135596800 + 86400 * 2
_MAX_SECOND: Final = 253402300799 - 86400 * 2


def offset_at(nanos: int, zone: tzinfo) -> int:
    """Nanoseconds by which local time is ahead of UTC at an instant."""
    if zone is UTC:
        return 0
    second = min(max(nanos // SECOND, _MIN_SECOND), _MAX_SECOND)
    offset = (_UTC_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds()) * SECOND


def to_local(nanos: int, zone: tzinfo) -> int:
    """The wall clock in a zone at an instant, as a timestamp."""
    return nanos + offset_at(nanos, zone)


def to_instant(nanos: int, zone: tzinfo) -> int:
    """The instant at which the wall clock of a zone shows a timestamp.

    In the hour that is skipped in spring the clock is read as not yet moved; of the two instants in autumn it is the
    first.
    """
    if zone is UTC:
        return nanos
    second = min(max(nanos // SECOND, _MIN_SECOND), _MAX_SECOND)
    offset = zone.utcoffset((_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone))
    assert offset is not None
    return nanos - round(offset.total_seconds()) * SECOND


def truncate(nanos: int, unit: int) -> int:
    """A timestamp cut to a whole number of units (nanoseconds), toward the past."""
    return nanos - nanos % unit


def precision_unit(precision: int) -> int:
    """Nanoseconds of the last digit of TIMESTAMP(precision)."""
    return int(10 ** (9 - precision))


# -- text --------------------------------------------------------------------------------------------------------


def _fraction(nanos: int, precision: int) -> str:
    return f".{nanos:09d}"[: precision + 1] if precision else ""


def format_date(day: int) -> str:
    """A DATE as text."""
    year, month, of_month = civil(day)
    return f"{year:04d}-{month:02d}-{of_month:02d}"


def format_time(millis: int, precision: int = 0) -> str:
    """A TIME as text, with that many digits after the seconds."""
    second, rest = divmod(millis, 1000)
    minute, second = divmod(second, 60)
    return f"{minute // 60:02d}:{minute % 60:02d}:{second:02d}{_fraction(rest * MS, precision)}"


def time_text(millis: int, precision: int = 0) -> str:
    """A TIME as CAST writes it: of a fraction only as many digits as it needs, one at least."""
    text = format_time(millis, min(precision, 3))
    if not precision:
        return text
    short = text.rstrip("0")
    return short + "0" if short.endswith(".") else short


def format_timestamp(nanos: int, precision: int = 3) -> str:
    """A TIMESTAMP as text, with that many digits after the seconds."""
    day, rest = divmod(nanos, DAY)
    second, rest = divmod(rest, SECOND)
    minute, second = divmod(second, 60)
    clock = f"{minute // 60:02d}:{minute % 60:02d}:{second:02d}"
    return f"{format_date(day)} {clock}{_fraction(rest, precision)}"


def format_months(months: int) -> str:
    """A year-month interval as text: `+1-02`."""
    return f"{'-' if months < 0 else '+'}{abs(months) // 12}-{abs(months) % 12:02d}"


def format_millis(millis: int) -> str:
    """A day-time interval as text: `+1 02:03:04.500`."""
    day, rest = divmod(abs(millis), DAY_MS)
    return f"{'-' if millis < 0 else '+'}{day} {format_time(rest, 3)}"


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def parse_date(text: str) -> int | None:
    """A DATE read as CAST reads it, None where it is none. A time of day after a blank is let pass."""
    blank = text.find(" ")
    if blank > 0:
        text = text[:blank]
    parts = text.split("-", 2)
    numbers = [_number(p) for p in parts]
    if any(n is None for n in numbers):
        return None
    year, month, day = [*(n for n in numbers if n is not None), 1, 1][:3]
    if year > 9999 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        return None
    return day_of(year, month, day)


_TIME: Final = re.compile(
    r"\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.\s*(\d*)\s*)?)?)?"
    r"(?:([+-])\s*(\d+)\s*(?::\s*(\d+)\s*)?)?"
)


def parse_time(text: str) -> int | None:
    """A TIME read as CAST reads it, None where it is none: `h[:m[:s[.fff]]]` and an offset."""
    match = _TIME.fullmatch(text)
    if match is None or not text.isascii():
        return None
    hour, minute, second = (int(g or 0) for g in match.groups()[:3])
    fraction = match[4] or ""
    millis = int(fraction[:3].ljust(3, "0")) + (fraction[3:4] >= "5")
    if match[5]:
        sign = 1 if match[5] == "+" else -1
        hour += sign * int(match[6])
        minute += sign * int(match[7] or 0)
    if not (0 <= hour < 24 and 0 <= minute < 60 and second < 60):
        return None
    return ((hour * 60 + minute) * 60 + second) * 1000 + millis


_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?", re.ASCII
)


def parse_timestamp(text: str, precision: int) -> int | None:
    """A TIMESTAMP read as CAST reads it, None where it is none. The 30th of February is its last day."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return None
    nanos = int((match[7] or "").ljust(9, "0"))
    seconds = (hour * 60 + minute) * 60 + second
    days = day_of(year, month, min(day, days_in_month(year, month)))
    return truncate(days * DAY + seconds * SECOND + nanos, precision_unit(precision))
