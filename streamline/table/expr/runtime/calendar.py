"""Fields of dates and timestamps, rounding to units of time, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streamline.errors import TableException
from streamline.table.expr.runtime.temporal import (
    DAY,
    DAY_MS,
    MS,
    SECOND,
    add_months,
    add_months_to_day,
    civil,
    day_of,
)

__all__ = ("ceil_day", "ceil_time", "ceil_timestamp", "day_field", "floor_day", "floor_timestamp", "months_between")

#: Nanoseconds of the units of fixed length.
UNIT_NANOS: Final = {
    "NANOSECOND": 1,
    "MICROSECOND": 1000,
    "MILLISECOND": MS,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3600 * SECOND,
    "DAY": DAY,
}
#: Months of the units of whole months.
UNIT_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}


# -- fields ------------------------------------------------------------------------------------------------------


def day_of_week(day: int) -> int:
    """Sunday is 1."""
    return (day + 4) % 7 + 1


def iso_day_of_week(day: int) -> int:
    """Monday is 1."""
    return (day + 3) % 7 + 1


def day_of_year(day: int) -> int:
    """The first of January is 1."""
    return day - day_of(civil(day)[0], 1, 1) + 1


def iso_year(day: int) -> int:
    """The year to which the ISO week of a day belongs."""
    return civil(day - iso_day_of_week(day) + 4)[0]


def iso_week(day: int) -> int:
    """The ISO week of a day."""
    thursday = day - iso_day_of_week(day) + 4
    return (day_of_year(thursday) - 1) // 7 + 1


def _year(day: int) -> int:
    return civil(day)[0]


def _floor_towards(year: int, unit: int) -> int:
    return (year + unit - 1) // unit if year > 0 else year // unit


DAY_FIELDS: Final[dict[str, Callable[[int], int]]] = {
    "MILLENNIUM": lambda d: _floor_towards(_year(d), 1000),
    "CENTURY": lambda d: _floor_towards(_year(d), 100),
    "DECADE": lambda d: _year(d) // 10,
    "YEAR": _year,
    "ISOYEAR": iso_year,
    "QUARTER": lambda d: (civil(d)[1] + 2) // 3,
    "MONTH": lambda d: civil(d)[1],
    "WEEK": iso_week,
    "DAY": lambda d: civil(d)[2],
    "DOY": day_of_year,
    "DOW": day_of_week,
    "ISODOW": iso_day_of_week,
}


def day_field(unit: str) -> Callable[[int], int]:
    """The function that takes a field out of a day."""
    return DAY_FIELDS[unit]


# -- rounding ----------------------------------------------------------------------------------------------------


def floor_day(day: int, unit: str) -> int:
    """The first day of the unit in which a day lies; a week begins on Sunday."""
    if unit == "DAY":
        return day
    if unit == "WEEK":
        return day - (day + 4) % 7
    year, month, _ = civil(day)
    match unit:
        case "MONTH":
            return day_of(year, month, 1)
        case "QUARTER":
            return day_of(year, (month - 1) // 3 * 3 + 1, 1)
        case "YEAR":
            return day_of(year, 1, 1)
        case "DECADE":
            return day_of(year // 10 * 10, 1, 1)
        case "CENTURY":
            return day_of((year - 1) // 100 * 100 + 1, 1, 1)
        case "MILLENNIUM":
            return day_of((year - 1) // 1000 * 1000 + 1, 1, 1)
    raise TableException(f"A date has no unit {unit}.")


def ceil_day(day: int, unit: str) -> int:
    """The first day of the next unit, or the day where it is the first of its own."""
    first = floor_day(day, unit)
    if first == day:
        return day
    return first + 7 if unit == "WEEK" else add_months_to_day(first, UNIT_MONTHS[unit])


def floor_timestamp(nanos: int, unit: str) -> int:
    """The beginning of the unit of whole days in which a timestamp lies."""
    return floor_day(nanos // DAY, unit) * DAY


def ceil_timestamp(nanos: int, unit: str) -> int:
    """The beginning of the next unit of whole days, or that of the timestamp's day where the unit begins with it.

    So the first of January, 10:00, is rounded up to 00:00 of that day: Flink rounds days, not moments.
    """
    return ceil_day(nanos // DAY, unit) * DAY


def ceil_time(millis: int, unit: int) -> int:
    """A time of day rounded up to a unit (milliseconds).

    Raises:
        TableException: if that is midnight of the next day.
    """
    up = -(-millis // unit) * unit
    if up >= DAY_MS:
        raise TableException("CEIL of a TIME is 24:00:00, which is no TIME.")
    return up


# -- differences -------------------------------------------------------------------------------------------------


def truncated(difference: int, unit: int) -> int:
    """Whole units of a difference, cut toward zero."""
    return difference // unit if difference >= 0 else -(-difference // unit)


def months_between(start: int, end: int) -> int:
    """Whole months from one timestamp to another; a month's last day ends any month before it.

    They are counted by days, toward zero; one less where the end is earlier in its day than the start in its own, which
    counts when the days are whole months apart.
    """
    first, last = start // DAY, end // DAY
    months = _whole_months(first, last) if first <= last else -_whole_months(last, first)
    if end % DAY < start % DAY and add_months(first * DAY, months) == last * DAY:
        return months - 1
    return months


def _whole_months(first: int, last: int) -> int:
    """Whole months from one day to a later one."""
    y1, m1, _ = civil(first)
    y2, m2, _ = civil(last)
    months = (y2 - y1) * 12 + m2 - m1
    return months if add_months(first * DAY, months) <= last * DAY else months - 1
