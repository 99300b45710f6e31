"""Patterns of date and time formats of the JVM: `yyyy-MM-dd HH:mm:ss`.

There are two readers of them. `SimpleDateFormat` behind FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE and CONVERT_TZ is
lenient: the 30th of February is the 1st or 2nd of March, and what follows the last field is not looked at.
`DateTimeFormatter` behind DATE_FORMAT and TO_TIMESTAMP is exact, but reads the 30th of February as its last day.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamline.errors import TableException
from streamline.table.expr.runtime import calendar
from streamline.table.expr.runtime.temporal import DAY, MS, SECOND, civil, day_of, days_in_month, offset_at

__all__ = ("formatter", "lenient_parser", "smart_parser", "zone_of")

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

#: Letters of both kinds of patterns, and what only one of them knows.
_LETTERS: Final = "GyYuMLwWDdFEaHkKhmsSzZX"
_EXACT_ONLY: Final = "QqecAnNVxO"


#: Zones by the short names that the JVM still knows.
_SHORT_ZONES: Final = {
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "CTT": "Asia/Shanghai",
    "ECT": "Europe/Paris",
}


def old_zone_of(name: str) -> tzinfo:
    """The time zone of an id as java.util.TimeZone takes it: offsets only after GMT."""
    if re.match(r"(?:UTC|UT)?[+-]", name):
        return UTC
    return zone_of(_SHORT_ZONES.get(name, name))


@functools.lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo:
    """The time zone of an id such as `Europe/Paris`, `UTC`, `GMT+08:00`, `+08:00`; GMT where there is none."""
    match = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", name)
    if match is not None:
        seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
        return timezone(timedelta(seconds=seconds if match[1] == "+" else -seconds))
    if name in ("UTC", "GMT", "Z", "UT", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


@functools.lru_cache(maxsize=512)
def _elements(pattern: str, exact: bool) -> tuple[tuple[str, int | str], ...]:
    """(letter, count) of fields and ("", text) of literal text.

    Raises:
        TableException: for a letter that means nothing, or an apostrophe without its pair.
    """
    found: list[tuple[str, int | str]] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c.isascii() and c.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == c:
                end += 1
            if c not in _LETTERS + _EXACT_ONLY * exact:
                raise TableException(f"Unknown pattern letter: {c}, in the format '{pattern}'")
            found.append((c, end - at))
            at = end
        elif c == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise TableException(f"The apostrophe at {at + 1} in the format '{pattern}' has no pair")
            text = pattern[at + 1 : end] or "'"
            at = end + 1
            while at < len(pattern) and pattern[at] == "'" and text != "'":  # an escaped apostrophe within
                end = pattern.find("'", at + 1)
                if end < 0:
                    break
                text += "'" + pattern[at + 1 : end]
                at = end + 1
            found.append(("", text))
        else:
            found.append(("", c))
            at += 1
    return tuple(found)


# -- writing -----------------------------------------------------------------------------------------------------


class _Moment:
    """A local timestamp taken apart."""

    __slots__ = ("day", "day_of_month", "hour", "minute", "month", "nanos", "of_day", "offset", "second", "year")

    def __init__(self, local: int, offset: int | None) -> None:
        self.day, self.of_day = divmod(local, DAY)
        self.year, self.month, self.day_of_month = civil(self.day)
        seconds, self.nanos = divmod(self.of_day, SECOND)
        minutes, self.second = divmod(seconds, 60)
        self.hour, self.minute = divmod(minutes, 60)
        self.offset = offset


def _name(names: tuple[str, ...], index: int, count: int) -> str:
    name = names[index]
    return name[:3] if count <= 3 else name if count == 4 else name[0]


def _offset_text(seconds: int, letter: str, count: int) -> str:
    if letter == "X" and seconds == 0:
        return "Z"
    sign, seconds = ("-" if seconds < 0 else "+"), abs(seconds)
    hour, minute = seconds // 3600, seconds // 60 % 60
    if letter == "Z":
        return f"{sign}{hour:02d}{minute:02d}"
    if count == 1:
        return f"{sign}{hour:02d}" + (f"{minute:02d}" if minute else "")
    return f"{sign}{hour:02d}{':' if count in (3, 5) else ''}{minute:02d}"


def _week(day: int, first: int) -> int:
    """The week of the year or month that begins at `first`; weeks begin on Sunday, the first one may be short."""
    return (day - calendar.floor_day(first, "WEEK")) // 7 + 1


def _text(m: _Moment, letter: str, count: int, exact: bool) -> str:
    number: int
    match letter:
        case "G":
            return ("AD" if m.year > 0 else "BC") if count < 4 else ("Anno Domini" if m.year > 0 else "Before Christ")
        case "y" | "Y" | "u" if letter != "u" or exact:
            number = m.year if letter == "u" or m.year > 0 else 1 - m.year
            if letter == "Y":
                number = civil(calendar.floor_day(m.day, "WEEK") + 6)[0]
            return f"{number % 100:02d}" if count == 2 else f"{number:0{count}d}"
        case "M" | "L":
            return f"{m.month:0{count}d}" if count <= 2 else _name(_MONTHS, m.month - 1, count)
        case "E":
            return _name(_DAYS, calendar.day_of_week(m.day) - 1, count)
        case "e" | "c":
            number = calendar.day_of_week(m.day)
            return f"{number:0{count}d}" if count <= 2 else _name(_DAYS, number - 1, count)
        case "Q" | "q":
            number = (m.month + 2) // 3
            words = ("1st", "2nd", "3rd", "4th")
            return (
                f"{number:0{count}d}" if count <= 2 else f"Q{number}" if count == 3 else f"{words[number - 1]} quarter"
            )
        case "a":
            return "AM" if m.hour < 12 else "PM"
        case "S":
            return f"{m.nanos:09d}"[:count].ljust(count, "0") if exact else f"{m.nanos // MS:0{count}d}"
        case "z" | "Z" | "X" | "x" | "V" | "O" if m.offset is None:
            raise TableException(f"The pattern letter {letter} asks for a time zone, which a TIMESTAMP has not")
        case "Z" | "X" | "x":
            assert m.offset is not None
            return _offset_text(m.offset, letter, count)
        case "F" if exact:
            return f"{(m.day_of_month - 1) % 7 + 1:0{count}d}"
        case "z" | "V" | "O":
            return "UTC" if not m.offset else "GMT" + _offset_text(m.offset, "x", 3)
    values: dict[str, Callable[[], int]] = {
        "u": lambda: calendar.iso_day_of_week(m.day),
        "d": lambda: m.day_of_month,
        "D": lambda: calendar.day_of_year(m.day),
        "w": lambda: _week(m.day, day_of(civil(calendar.floor_day(m.day, "WEEK") + 6)[0], 1, 1)),
        "W": lambda: _week(m.day, day_of(m.year, m.month, 1)),
        "F": lambda: (m.day_of_month - 1) // 7 + 1,
        "H": lambda: m.hour,
        "k": lambda: m.hour or 24,
        "K": lambda: m.hour % 12,
        "h": lambda: m.hour % 12 or 12,
        "m": lambda: m.minute,
        "s": lambda: m.second,
        "A": lambda: m.of_day // MS,
        "n": lambda: m.nanos,
        "N": lambda: m.of_day,
    }
    return f"{values[letter]():0{count}d}"


@functools.lru_cache(maxsize=512)
def formatter(pattern: str, exact: bool = True) -> Callable[[int, int | None], str]:
    """The function that writes a local timestamp (nanoseconds) by a pattern.

    Its second argument is the zone's offset in seconds, None where there is no zone. A wrong pattern is an error when
    the function is called, not before.

    Args:
        pattern: the pattern.
        exact: by the rules of DateTimeFormatter, else by those of SimpleDateFormat.
    """
    try:
        elements = _elements(pattern, exact)
        if exact:  # square brackets mark what is optional when reading
            elements = tuple(e for e in elements if e not in (("", "["), ("", "]")))
    except TableException as e:
        return _failing(e)
    fast = _fast_format(elements)
    if fast is not None:
        return fast

    def write(local: int, offset: int | None = None) -> str:
        moment = _Moment(local, offset)
        return "".join(
            str(what) if not letter else _text(moment, letter, int(what), exact) for letter, what in elements
        )

    return write


def _failing(error: TableException) -> Callable[[int, int | None], str]:
    def fail(local: int, offset: int | None = None) -> str:
        raise TableException(str(error))

    return fail


_FAST_FIELDS: Final = {
    ("y", 4): "{0:04d}",
    ("M", 2): "{1:02d}",
    ("d", 2): "{2:02d}",
    ("H", 2): "{3:02d}",
    ("m", 2): "{4:02d}",
    ("s", 2): "{5:02d}",
    ("S", 3): "{6:03d}",
}


#: What a format writes, by its finest field.
_FAST_UNITS: Final = (("{6", MS), ("{5", SECOND), ("{4", 60 * SECOND), ("{3", 3600 * SECOND))


def _fast_format(elements: tuple[tuple[str, int | str], ...]) -> Callable[[int, int | None], str] | None:
    """One format string for the usual fields."""
    template = ""
    for letter, what in elements:
        if not letter:
            template += str(what).replace("{", "{{").replace("}", "}}")
        elif (letter, what) in _FAST_FIELDS:
            template += _FAST_FIELDS[letter, int(what)]
        else:
            return None

    # Records of a stream come in order of time, so most of them fall into a unit that was written before.
    unit = next((u for field, u in _FAST_UNITS if field in template), DAY)
    seen: dict[int, str] = {}

    def write(local: int, offset: int | None = None) -> str:
        key = local // unit
        text = seen.get(key)
        if text is None:
            if len(seen) > 4096:
                seen.clear()
            day, rest = divmod(local, DAY)
            second, rest = divmod(rest, SECOND)
            minute, second = divmod(second, 60)
            text = seen[key] = template.format(*civil(day), minute // 60, minute % 60, second, rest // MS)
        return text

    return write


# -- reading, leniently ------------------------------------------------------------------------------------------

_NUMERIC: Final = "yYuwWDdHkKhmsSF"


@functools.lru_cache(maxsize=512)
def lenient_parser(pattern: str) -> Callable[[str, tzinfo], int | None]:
    """The function that reads a text as SimpleDateFormat does: epoch milliseconds in a zone, None where it cannot."""
    elements = _elements(pattern, False)

    def read(text: str, zone: tzinfo) -> int | None:
        fields: dict[str, int] = {}
        at = 0
        for i, (letter, what) in enumerate(elements):
            if not letter:
                if not text.startswith(str(what), at):
                    return None
                at += len(str(what))
                continue
            abutting = i + 1 < len(elements) and _is_numeric(*elements[i + 1])
            end = _read_field(text, at, letter, int(what), abutting, fields)
            if end is None:
                return None
            at = end
        return _lenient_millis(fields, zone)

    return read


def _is_numeric(letter: str, what: int | str) -> bool:
    return bool(letter) and (letter in _NUMERIC or (letter in "ML" and int(what) <= 2))


def _read_field(text: str, at: int, letter: str, count: int, abutting: bool, fields: dict[str, int]) -> int | None:
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if _is_numeric(letter, count):
        match = re.compile(rf"-?\d{{1,{count}}}" if abutting else r"-?\d+", re.ASCII).match(text, at)
        if match is None:
            return None
        value = int(match[0])
        if letter == "y" and count <= 2 and len(match[0]) == 2:
            value += 2000 if value < 70 else 1900
        fields["M" if letter == "L" else letter] = value
        return match.end()
    if letter in "MLEa":
        names = _MONTHS if letter in "ML" else _DAYS if letter == "E" else ("AM", "PM")
        for index, name in enumerate(names):
            for form in (name, name[:3]):
                if text[at : at + len(form)].lower() == form.lower():
                    fields["M" if letter == "L" else letter] = index + (letter in "ML")
                    return at + len(form)
        return None
    if letter == "G":
        fields["G"] = 0 if text[at : at + 2].upper() == "BC" else 1
        return at + 2 if text[at : at + 2].upper() in ("AD", "BC") else None
    return _read_zone(text, at, fields)


_ZONE: Final = re.compile(r"(Z|(?:GMT|UTC|UT)?(?:([+-])(\d{1,2}):?(\d{2})?)?)")


def _read_zone(text: str, at: int, fields: dict[str, int]) -> int | None:
    match = _ZONE.match(text, at)
    if match is None or not match[0]:
        return None
    seconds = int(match[3] or 0) * 3600 + int(match[4] or 0) * 60
    fields["Z"] = -seconds if match[2] == "-" else seconds
    return match.end()


def _lenient_millis(fields: dict[str, int], zone: tzinfo) -> int:
    year = fields.get("y", fields.get("Y", 1970))
    if fields.get("G") == 0:
        year = 1 - year
    months = year * 12 + fields.get("M", 1) - 1
    day = day_of(months // 12, months % 12 + 1, 1) + fields.get("d", 1) - 1
    if "D" in fields:
        day = day_of(year, 1, 1) + fields["D"] - 1
    hour = fields.get("H", fields.get("k", 0) % 24 if "k" in fields else 0)
    if "h" in fields or "K" in fields:
        hour = fields.get("K", fields.get("h", 0) % 12) + 12 * fields.get("a", 0)
    seconds = (hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)
    local = (day * 86400 + seconds) * 1000 + fields.get("S", 0)
    if "Z" in fields:
        return local - fields["Z"] * 1000
    return local - _standard_offset(local, zone)


def _standard_offset(local: int, zone: tzinfo) -> int:
    """Milliseconds of the offset at a wall clock; of two in autumn that of standard time, as Calendar has it."""
    if zone is UTC:
        return 0
    nanos = local * MS
    # The offset a day earlier and a day later tell which of the two is meant.
    for guess in sorted({offset_at(nanos - DAY, zone), offset_at(nanos + DAY, zone)}):
        if offset_at(nanos - guess, zone) == guess:
            return guess // MS
    return offset_at(nanos - DAY, zone) // MS


# -- reading, exactly --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def smart_parser(pattern: str) -> Callable[[str], int | None]:
    """The function that reads a text as DateTimeFormatter does: a local timestamp in nanoseconds, else None."""
    regex, letters = _smart_regex(_elements(pattern, True))

    def read(text: str) -> int | None:
        match = regex.fullmatch(text)
        return None if match is None else _smart_nanos(dict(zip(letters, match.groups())))

    return read


def _smart_regex(elements: tuple[tuple[str, int | str], ...]) -> tuple[re.Pattern[str], list[str]]:
    out: list[str] = []
    letters: list[str] = []
    for letter, what in elements:
        if not letter:
            text = str(what)
            # Square brackets make a part optional.
            out.append({"[": "(?:", "]": ")?"}.get(text) or re.escape(text))
            continue
        count = int(what)
        key = "M" if letter == "L" else letter
        out.append(_smart_field(letter, count))
        letters.append(key if key not in letters else f"{key}{len(letters)}")
    return re.compile("".join(out), re.ASCII), letters


def _smart_field(letter: str, count: int) -> str:
    if letter in "yYu":
        if count == 2:
            return r"(\d{2})"
        return r"([+-]?\d{1,9})" if count == 1 else rf"(-?\d{{{count}}}|\+\d{{{count + 1},9}})"
    if letter in "ML" and count >= 3:
        return f"({'|'.join(m if count == 4 else m[:3] for m in _MONTHS)})"
    if letter == "E":
        return f"({'|'.join(d if count == 4 else d[:3] for d in _DAYS)})"
    if letter == "a":
        return "(AM|PM)"
    if letter in "XxZOzV":
        return r"(Z|[+-]\d{2}:?\d{2}|[+-]\d{2}|[A-Za-z][\w/+-]*)"
    if letter == "S":
        return rf"(\d{{{count}}})"
    return r"(\d{1,9})" if count == 1 else rf"(\d{{{count}}})"


def _smart_nanos(texts: dict[str, str | None]) -> int | None:
    def number(letter: str, default: int) -> int:
        text = texts.get(letter)
        return default if text is None else int(text)

    year_text = texts.get("y") or texts.get("u") or texts.get("Y")
    year = 1970 if year_text is None else int(year_text) + (2000 if len(year_text) == 2 else 0)
    month_text = texts.get("M")
    if month_text is not None and not month_text.isdigit():
        month = next(i for i, m in enumerate(_MONTHS, 1) if m.startswith(month_text[:3]))
    else:
        month = number("M", 1)
    day = number("d", 1)
    hour = number("H", number("k", 0) % 24)
    for twelve in ("h", "K"):
        if texts.get(twelve) is not None:
            hour = number(twelve, 0) % 12 + (12 if texts.get("a") == "PM" else 0)
    minute, second = number("m", 0), number("s", 0)
    nanos = int((texts.get("S") or "").ljust(9, "0")[:9])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return None
    whole = day_of(year, month, min(day, days_in_month(year, month)))
    if texts.get("D") is not None:
        whole = day_of(year, 1, 1) + number("D", 1) - 1
    return whole * DAY + ((hour * 60 + minute) * 60 + second) * SECOND + nanos
