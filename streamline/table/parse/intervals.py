"""INTERVAL literals: qualifiers, and what the text between the apostrophes means.

The text follows the qualifier: `'3'` DAY, `'1 02:03'` DAY TO MINUTE, `'1-2'` YEAR TO MONTH, `'4.5'` SECOND. A sign
may stand before the apostrophe and inside. The leading field holds at most as many digits as its precision says (2
unless written), the others are within 0-11, 0-23 and 0-59.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import sqlglot.expressions as exp

from streamline._core import types
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.parse.source import error_at

__all__ = ("UNITS", "IntervalValue", "Qualifier", "interval_of", "parse_interval")

#: Units of a qualifier, plurals included, as they are told apart.
UNITS: Final = {
    name: unit
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
    for name in (unit, unit + "S")
}

#: What may follow TO.
ENDS: Final = {
    "YEAR": ("MONTH",),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
}

_FIELDS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
_MONTHS: Final = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS: Final = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_SEPARATOR: Final = {"HOUR": " ", "MINUTE": ":", "SECOND": ":"}
_LIMIT: Final = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}


@dataclass(frozen=True, slots=True)
class Qualifier:
    """`start(precision) TO end(fraction)`; None where nothing is written."""

    start: str
    end: str | None = None
    precision: int | None = None
    fraction: int | None = None

    @property
    def year_month(self) -> bool:
        return self.start in _MONTHS

    @property
    def last(self) -> str:
        return self.end or self.start

    def __str__(self) -> str:
        if self.end is None and self.start == "SECOND" and self.fraction is not None:
            return f"SECOND({2 if self.precision is None else self.precision}, {self.fraction})"
        text = self.start if self.precision is None else f"{self.start}({self.precision})"
        if self.end is not None:
            text += f" TO {self.end}" + ("" if self.fraction is None else f"({self.fraction})")
        return text


@dataclass(frozen=True, slots=True)
class IntervalValue:
    """The meaning of a literal: `amount` in months where `year_month`, else in milliseconds."""

    amount: int
    year_month: bool

    @property
    def type(self) -> DataType:
        """The type that the literal has in a query: all intervals of a family are one type there."""
        made = types.interval_year_month() if self.year_month else types.interval_day_time()
        return made.not_null()


def parse_qualifier(text: str) -> Qualifier:
    """A qualifier back from its canonical text, as it stands in an Interval node."""
    found = re.fullmatch(r"([A-Z]+)(?:\(([0-9]+)(?:, ([0-9]+))?\))?(?: TO ([A-Z]+)(?:\(([0-9]+)\))?)?", text)
    if found is None:
        raise ValueError(text)
    start, precision, fraction, end, end_fraction = found.groups()
    digits = fraction if fraction is not None else end_fraction
    return Qualifier(start, end, None if precision is None else int(precision), None if digits is None else int(digits))


def parse_interval(text: str, qualifier: Qualifier) -> IntervalValue:
    """The value of an interval literal.

    Raises:
        ValidationException: the text does not fit the qualifier.
    """
    found = re.fullmatch(_pattern(qualifier), text.strip())
    if found is None:
        raise ValidationException(
            f"Illegal interval literal format '{text}' for INTERVAL {qualifier}{_example(qualifier)}"
        )
    sign = -1 if found["sign"] == "-" else 1
    precision = 2 if qualifier.precision is None else qualifier.precision
    lead = int(found[qualifier.start])
    if len(str(lead)) > precision:
        raise ValidationException(
            f"Interval field value {lead} exceeds precision of {qualifier.start}({precision}) field; "
            f"write INTERVAL '{text}' {Qualifier(qualifier.start, qualifier.end, len(str(lead)), qualifier.fraction)}"
        )
    units = _MONTHS if qualifier.year_month else _MILLIS
    amount = lead * units[qualifier.start]
    for unit, digits in found.groupdict().items():
        if unit in ("sign", "fraction", qualifier.start) or digits is None:
            continue
        if int(digits) > _LIMIT[unit]:
            raise ValidationException(
                f"Illegal interval literal '{text}': {unit} is {int(digits)}, at most {_LIMIT[unit]}"
            )
        amount += int(digits) * units[unit]
    fraction = found.groupdict().get("fraction")
    if fraction:
        if len(fraction) > (6 if qualifier.fraction is None else qualifier.fraction):
            raise ValidationException(
                f"Illegal interval literal format '{text}' for INTERVAL {qualifier}: too many digits"
            )
        amount += int(fraction.ljust(3, "0")[:3])
    return IntervalValue(sign * amount, qualifier.year_month)


def _pattern(q: Qualifier) -> str:
    lead = rf"(?P<sign>[+-]?)(?P<{q.start}>[0-9]+)"
    if q.year_month:
        return lead + (r"-(?P<MONTH>[0-9]{1,2})" if q.end else "")
    if q.end is not None:
        inner = _FIELDS[_FIELDS.index(q.start) + 1 : _FIELDS.index(q.end) + 1]
        lead += "".join(rf"{_SEPARATOR[unit]}(?P<{unit}>[0-9]{{1,2}})" for unit in inner)
    return lead + (r"(?:\.(?P<fraction>[0-9]+))?" if q.last == "SECOND" else "")


def _example(q: Qualifier) -> str:
    if q.end is None:
        return ""
    shown = {"YEAR": "1-2", "DAY": "1 02:03:04", "HOUR": "02:03:04", "MINUTE": "03:04"}[q.start]
    if not q.year_month:
        fields = _FIELDS.index(q.end) - _FIELDS.index(q.start)
        shown = shown[: len(shown) - 3 * (shown.count(":") + shown.count(" ") - fields)]
    return f", which reads like '{shown}'"


def interval_of(node: exp.Expression) -> IntervalValue:
    """The value of an `exp.Interval` whose `this` is a string literal.

    Raises:
        ValidationException: the text does not fit the qualifier; the place is named.
    """
    text = node.this.name
    try:
        value = parse_interval(text, parse_qualifier(node.args["unit"].name))
    except ValidationException as e:
        raise error_at(node, str(e)) from None
    return IntervalValue(-value.amount, value.year_month) if node.args.get("negative") else value
