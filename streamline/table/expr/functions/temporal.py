"""Functions over dates, times, timestamps and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import TableException, ValidationException
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.functions.numeric import CEIL_NUMBER, FLOOR_NUMBER, NumericLimit
from streamline.table.expr.functions.support import integer_result, literal_value
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, bind_call, cast, register
from streamline.table.expr.runtime import calendar, numbers, patterns, temporal, times
from streamline.table.expr.signature import Function, define

__all__ = ()

_LTZ: Final = t.timestamp_ltz(3)
_FIELDS: Final = (*calendar.DAY_FIELDS, *calendar.UNIT_NANOS, "EPOCH")
_DAY_UNITS: Final = ("WEEK", *calendar.UNIT_MONTHS)


def local(em: Emitter, expr: Expr, text: str) -> str:
    """Source of the local timestamp of a TIMESTAMP or TIMESTAMP_LTZ."""
    zone = em.context.zone
    if expr.type.root != "TIMESTAMP_LTZ" or zone is UTC:
        return text
    return em.call(temporal.to_local, text, em.constant(zone, "zone"))


def instant(em: Emitter, expr: Expr, text: str) -> str:
    """Source of a value of the operand's type from its local timestamp."""
    zone = em.context.zone
    if expr.type.root != "TIMESTAMP_LTZ" or zone is UTC:
        return text
    return em.call(temporal.to_instant, text, em.constant(zone, "zone"))


def _unit(name: str, unit: str, allowed: Sequence[str]) -> str:
    unit = unit.upper().removeprefix("SQL_TSI_")
    if unit not in allowed and unit.removesuffix("S") in allowed:
        unit = unit.removesuffix("S")
    if unit not in allowed:
        raise ValidationException(f"'{unit}' is not a valid time frame in {name}; there are {', '.join(allowed)}.")
    return unit


# -- fields ------------------------------------------------------------------------------------------------------


#: Units that values of a type have not.
_NOT_OF: Final = {
    "DATE": ("MICROSECOND", "NANOSECOND"),
    "TIME": (*calendar.DAY_FIELDS, "MICROSECOND", "NANOSECOND", "EPOCH"),
}


class Extract(ScalarFunction):
    """EXTRACT(unit FROM t): the unit as option."""

    name = "EXTRACT"

    def supported(self) -> Sequence[str]:
        return ("EXTRACT(<unit> FROM <DATETIME>)", "EXTRACT(<unit> FROM <DATETIME_INTERVAL>)")

    def text(self, call: Call) -> str:
        return f"EXTRACT({call.options[0]} FROM {call.operands[0]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        unit = _unit(self.name, options[0], _FIELDS)
        type_ = operand.type
        if not (type_.is_temporal or type_.is_interval):
            raise self.cannot_apply(operands)
        if unit in _NOT_OF.get(type_.root, ()):
            raise ValidationException(f"unit {unit} can not be applied to {type_.null()} variable")
        return Call(self, (operand,), t.BIGINT.with_nullable(type_.nullable), (unit,))

    def bounds(self, call: Call) -> tuple[int, int] | None:
        unit = call.options[0]
        limits = {"MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "MINUTE": (0, 59), "SECOND": (0, 59)}
        if not call.operands[0].type.is_temporal:
            return None
        return limits.get(unit, (-(10**6), 10**6) if unit in calendar.DAY_FIELDS else None)

    def emit(self, call: Call, em: Emitter) -> str:
        (operand,) = call.operands
        unit, root = call.options[0], operand.type.root
        x = em.value(operand)
        if operand.type.is_interval:
            return self._of_interval(em, unit, root, x)
        if root == "DATE":
            if unit == "EPOCH":
                return f"({x} * 86400)"
            return self._of_day(em, unit, x) if unit in calendar.DAY_FIELDS else "0"
        nanos = f"({x} * {temporal.MS})" if root == "TIME" else local(em, operand, x)
        if unit == "EPOCH":
            return f"({nanos} // {temporal.SECOND})"
        if unit in calendar.DAY_FIELDS:
            return self._of_day(em, unit, f"{nanos} // {temporal.DAY}")
        size = calendar.UNIT_NANOS[unit]
        around = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}.get(unit, temporal.SECOND // size)
        return f"({nanos} // {size} % {around})"

    @staticmethod
    def _of_day(em: Emitter, unit: str, day: str) -> str:
        field = calendar.day_field(unit)
        return f"{em.cached(('field', unit), lambda: field, f'{unit.lower()}_of')}({day})"

    @staticmethod
    def _of_interval(em: Emitter, unit: str, root: str, x: str) -> str:
        if root == "INTERVAL_YEAR_MONTH":
            months = calendar.UNIT_MONTHS.get(unit)
            if months is None:
                return "0"
            if months < 12:
                inside = em.call(numbers.int_remainder, x, "12")
                return inside if months == 1 else f"({em.call(numbers.int_divide, inside, '3')} + 1)"
            return em.call(numbers.int_divide, x, str(months))
        size = _INTERVAL_SIZES.get(unit)
        if size is None:
            return "0"
        whole = em.call(numbers.int_divide, x, str(size))
        around = _INTERVAL_AROUND.get(unit)
        return whole if around is None else em.call(numbers.int_remainder, whole, str(around))


_INTERVAL_SIZES: Final = {
    "EPOCH": 1000,
    "DAY": temporal.DAY_MS,
    "HOUR": 3600000,
    "MINUTE": 60000,
    "SECOND": 1000,
    "MILLISECOND": 1,
}
_INTERVAL_AROUND: Final = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MILLISECOND": 1000}

EXTRACT = register(Extract())


class _Field(ScalarFunction):
    """YEAR(t) is EXTRACT(YEAR FROM t)."""

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self._unit = unit

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<DATETIME>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 1:
            raise self.wrong_count("1")
        if not (operands[0].type.is_temporal or operands[0].type.is_interval):
            raise self.cannot_apply(operands)
        return EXTRACT.bind(operands, (self._unit,))


for _name, _field in (
    *((u, u) for u in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")),
    ("DAYOFYEAR", "DOY"),
    ("DAYOFMONTH", "DAY"),
    ("DAYOFWEEK", "DOW"),
):
    register(_Field(_name, _field))


# -- rounding ----------------------------------------------------------------------------------------------------

_ROUNDING_UNITS: Final = (*_DAY_UNITS, *calendar.UNIT_NANOS)


class Limit(ScalarFunction):
    """FLOOR and CEIL: of a number, or of a time to a unit (an option)."""

    def __init__(self, name: str, numeric: NumericLimit) -> None:
        self.name = name
        self._numeric = numeric
        self._up = name == "CEIL"

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<NUMERIC>)", f"{self.name}(<DATETIME> TO <unit>)")

    def text(self, call: Call) -> str:
        return f"{self.name}({call.operands[0]} TO {call.options[0]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not options:
            return self._numeric.bind(operands)
        (operand,) = operands
        unit = _unit(self.name, options[0], _ROUNDING_UNITS)
        if not operand.type.is_temporal or (operand.type.root == "TIME" and unit in _DAY_UNITS):
            raise self.cannot_apply(operands)
        return Call(self, (operand,), operand.type.materialized(), (unit,))

    def emit(self, call: Call, em: Emitter) -> str:
        (operand,) = call.operands
        unit, root = call.options[0], operand.type.root
        x = em.value(operand)
        if root == "DATE":
            if unit in calendar.UNIT_NANOS:
                return x
            return em.call(calendar.ceil_day if self._up else calendar.floor_day, x, repr(unit))
        if root == "TIME":
            millis = max(1, calendar.UNIT_NANOS[unit] // temporal.MS)
            if self._up:
                return em.call(calendar.ceil_time, x, str(millis))
            return f"({x} // {millis} * {millis})"
        nanos = local(em, operand, x)
        size = calendar.UNIT_NANOS.get(unit)
        if size is not None:
            text = f"(-(-{nanos} // {size}) * {size})" if self._up else f"({nanos} // {size} * {size})"
        else:
            text = em.call(calendar.ceil_timestamp if self._up else calendar.floor_timestamp, nanos, repr(unit))
        return instant(em, operand, text)


register(Limit("FLOOR", FLOOR_NUMBER))
register(Limit("CEIL", CEIL_NUMBER), "CEILING")


# -- arithmetic --------------------------------------------------------------------------------------------------

_ADD_UNITS: Final = (
    "MICROSECOND",
    "MILLISECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
)


class TimestampAdd(ScalarFunction):
    """TIMESTAMPADD(unit, n, t): `t + n * INTERVAL '1' unit`."""

    name = "TIMESTAMPADD"

    def supported(self) -> Sequence[str]:
        return ("TIMESTAMPADD(<unit>, <INTEGER>, <DATETIME>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        count, time = operands
        unit = _unit(self.name, options[0], _ADD_UNITS)
        if not count.type.is_integer or not time.type.is_temporal:
            raise self.cannot_apply(operands)
        months = calendar.UNIT_MONTHS.get(unit)
        if months is not None:
            interval = Literal(months, t.interval_year_month().not_null())
        else:
            size = 7 * temporal.DAY if unit == "WEEK" else calendar.UNIT_NANOS[unit]
            if size < temporal.MS:
                raise ValidationException("TIMESTAMPADD with MICROSECOND is not supported")
            interval = Literal(size // temporal.MS, t.interval_day_time().not_null())
            if time.type.root == "DATE" and size < temporal.DAY:
                time = cast(time, t.timestamp(6))
        return bind_call("+", (time, bind_call("*", (count, interval))))


class TimestampDiff(ScalarFunction):
    """TIMESTAMPDIFF(unit, a, b): whole units from a to b, cut toward zero."""

    name = "TIMESTAMPDIFF"

    def supported(self) -> Sequence[str]:
        return ("TIMESTAMPDIFF(<unit>, <DATETIME>, <DATETIME>)",)

    def text(self, call: Call) -> str:
        return f"TIMESTAMPDIFF({call.options[0]}, {call.operands[0]}, {call.operands[1]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        a, b = operands
        unit = _unit(self.name, options[0], _ADD_UNITS)
        if not (a.type.is_temporal and b.type.is_temporal) or (a.type.root == "TIME") != (b.type.root == "TIME"):
            raise self.cannot_apply(operands)
        if a.type.root != b.type.root:
            if "TIMESTAMP_LTZ" in (a.type.root, b.type.root):
                raise ValidationException(
                    "TIMESTAMPDIFF of a TIMESTAMP_LTZ takes another one: CAST the other operand to TIMESTAMP_LTZ(3)."
                )
            a, b = (x if x.type.root == "TIMESTAMP" else cast(x, t.timestamp(9)) for x in (a, b))
        nullable = a.type.nullable or b.type.nullable
        return Call(self, (a, b), t.INT.with_nullable(nullable), (unit,))

    def emit(self, call: Call, em: Emitter) -> str:
        a, b = (em.value(o) for o in call.operands)
        unit, root = call.options[0], call.operands[0].type.root
        scale = {"DATE": temporal.DAY, "TIME": temporal.MS}.get(root, 1)
        months = calendar.UNIT_MONTHS.get(unit)
        if months is not None:
            x, y = (a, b) if scale == 1 else (f"{a} * {scale}", f"{b} * {scale}")
            text = em.call(calendar.months_between, x, y)
            return text if months == 1 else f"int({text} / {months})"
        size = 7 * temporal.DAY if unit == "WEEK" else calendar.UNIT_NANOS[unit]
        if size % scale == 0:
            text = em.call(calendar.truncated, f"{b} - {a}", str(size // scale))
        else:
            text = f"(({b} - {a}) * {scale // size})"
        return integer_result(em, "INT", text)


register(TimestampAdd())
register(TimestampDiff())


class Difference(ScalarFunction):
    """`(a - b) DAY`, `(a - b) MONTH`: the interval between two times, of the unit's family."""

    def __init__(self, name: str, months: bool) -> None:
        self.name = name
        self._months = months

    def supported(self) -> Sequence[str]:
        return (f"(<DATETIME> - <DATETIME>) {'MONTH' if self._months else 'SECOND'}",)

    def text(self, call: Call) -> str:
        return f"({call.operands[0]} - {call.operands[1]}) {'MONTH' if self._months else 'SECOND'}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        a, b = operands
        if not (a.type.is_temporal and b.type.is_temporal):
            raise self.cannot_apply(operands)
        if a.type.root != b.type.root:
            raise ValidationException(f"Parameters must be of the same type: CAST {a.type.null()} or {b.type.null()}")
        type_ = t.interval_year_month() if self._months else t.interval_day_time()
        return Call(self, (a, b), type_.with_nullable(a.type.nullable or b.type.nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        a, b = (em.value(o) for o in call.operands)
        scale = {"DATE": temporal.DAY, "TIME": temporal.MS}.get(call.operands[0].type.root, 1)
        if self._months:
            x, y = (a, b) if scale == 1 else (f"{a} * {scale}", f"{b} * {scale}")
            return em.call(calendar.months_between, y, x)
        if scale == 1:
            return f"({a} // {temporal.MS} - {b} // {temporal.MS})"
        return f"(({a} - {b}) * {scale // temporal.MS})"


register(Difference("$MILLIS_BETWEEN", False))
register(Difference("$MONTHS_BETWEEN", True))


class Overlaps(ScalarFunction):
    """(a, b) OVERLAPS (c, d), where b and d are ends or lengths."""

    name = "OVERLAPS"

    def supported(self) -> Sequence[str]:
        return ("(<DATETIME>, <DATETIME>) OVERLAPS (<DATETIME>, <DATETIME>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 4 or not (operands[0].type.is_temporal and operands[2].type.is_temporal):
            raise self.cannot_apply(operands)
        a, b = self._ordered(operands[0], operands[1])
        c, d = self._ordered(operands[2], operands[3])
        return and_(bind_call(">=", (b, c)), bind_call(">=", (d, a)))

    @staticmethod
    def _ordered(start: Expr, end: Expr) -> tuple[Expr, Expr]:
        if end.type.is_interval:
            end = bind_call("+", (start, end))
        later = bind_call(">=", (end, start))
        return bind_call("CASE", (later, start, end)), bind_call("CASE", (later, end, start))


register(Overlaps(), "TEMPORAL_OVERLAPS")


# -- the current time --------------------------------------------------------------------------------------------


class Now(ScalarFunction):
    """A function of the current time: a template over the epoch milliseconds {0} and the local nanoseconds {1}."""

    deterministic = False

    def __init__(self, name: str, type_: DataType, template: str, per_row: bool = False) -> None:
        self.name = name
        self._type = type_
        self._template = template
        self._per_row = per_row

    def text(self, call: Call) -> str:
        return f"{self.name}()"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) > 1 or not all(isinstance(o, Literal) and o.type.is_integer for o in operands):
            raise self.wrong_count("0")
        return Call(self, (), self._type.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        millis = f"{em.ctx()}.{'now' if self._per_row else 'time'}()"
        nanos = f"{millis} * {temporal.MS}"
        if em.context.zone is not UTC:
            nanos = em.call(temporal.to_local, nanos, em.constant(em.context.zone, "zone"))
        return self._template.format(millis, nanos)


register(Now("CURRENT_TIMESTAMP", _LTZ, f"({{0}} * {temporal.MS})"), "NOW")
register(Now("CURRENT_ROW_TIMESTAMP", _LTZ, f"({{0}} * {temporal.MS})", per_row=True))
register(Now("PROCTIME", _LTZ.as_time_attribute("proctime"), f"({{0}} * {temporal.MS})", per_row=True))
register(Now("LOCALTIMESTAMP", t.timestamp(3), "({1})"))
register(Now("CURRENT_DATE", t.DATE, f"({{1}} // {temporal.DAY})"))
_SECOND_OF_DAY: Final = f"({{1}} % {temporal.DAY} // {temporal.SECOND} * 1000)"
register(Now("LOCALTIME", t.time(0), _SECOND_OF_DAY), "CURRENT_TIME")


class _CurrentWatermark(ScalarFunction):
    """CURRENT_WATERMARK(rowtime): the operator's watermark, NULL before the first."""

    name = "CURRENT_WATERMARK"
    deterministic = False
    strict = False

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 1:
            raise self.wrong_count("1")
        (operand,) = operands
        if not operand.type.is_rowtime:
            raise ValidationException(
                f"Invalid function call: CURRENT_WATERMARK() must be called with a single rowtime attribute argument, "
                f"but the argument is {sql_text(operand.type)}."
            )
        return Call(self, (operand,), DataType(operand.type.root, precision=3))

    def emit(self, call: Call, em: Emitter) -> str:
        x = em.temp()
        return f"(None if ({x} := {em.ctx()}.watermark) is None else {x} * {temporal.MS})"


class _SourceWatermark(ScalarFunction):
    """SOURCE_WATERMARK(): stands for the watermarks of the source in a WATERMARK declaration, and nowhere else."""

    name = "SOURCE_WATERMARK"
    deterministic = False

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if operands:
            raise self.wrong_count("0")
        return Call(self, (), _LTZ)

    def emit(self, call: Call, em: Emitter) -> str:
        raise TableException("SOURCE_WATERMARK() is a declaration, not a function that can be called.")


register(_CurrentWatermark())
register(_SourceWatermark())


# -- text and times ----------------------------------------------------------------------------------------------


def _date_format(em: Emitter, call: Call, time: str, pattern: str) -> str:
    operand = call.operands[0]
    if operand.type.is_character:
        return em.call(times.reformat, time, pattern)
    constant = literal_value(call.operands[1])
    if constant is not None:
        write = em.cached(("format", constant), lambda: patterns.formatter(constant), "format")
        return f"{write}({local(em, operand, time)})"
    return em.call(format_timestamp, local(em, operand, time), pattern)


def format_timestamp(nanos: int, pattern: str) -> str:
    """A local timestamp by a pattern that is not constant."""
    return patterns.formatter(pattern)(nanos, None)


define("DATE_FORMAT", ["TIMESTAMP CHARACTER", "CHARACTER CHARACTER"], t.STRING, code=_date_format, nullable=True)


def _zoned(function: Callable[..., Any]) -> Callable[..., str]:
    """Code of a function whose second argument is the session time zone."""

    def code(em: Emitter, call: Call, first: str, *rest: str) -> str:
        return em.call(function, first, em.constant(em.context.zone, "zone"), *rest)

    return code


define(
    "FROM_UNIXTIME",
    ["INTEGER", "INTEGER CHARACTER"],
    t.STRING,
    code=_zoned(times.from_unixtime),
    nullable=True,
    total=True,
)
define("CONVERT_TZ", ["CHARACTER CHARACTER CHARACTER"], t.STRING, helper=times.convert_tz, nullable=True)


class _UnixTimestamp(Function):
    """UNIX_TIMESTAMP(): now; UNIX_TIMESTAMP(text[, format]) in the session time zone."""

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            return _UNIX_NOW.bind(())
        return super().bind(operands, options)


_UNIX_NOW: Final = Now("UNIX_TIMESTAMP", t.BIGINT, "({0} // 1000)", per_row=True)
register(
    _UnixTimestamp("UNIX_TIMESTAMP", ["CHARACTER", "CHARACTER CHARACTER"], t.BIGINT, code=_zoned(times.unix_timestamp))
)


def _to_date(em: Emitter, call: Call, text: str, pattern: str = "") -> str:
    if not pattern:
        return em.call(temporal.parse_date, text)
    return em.call(times.parse_to_date, text, pattern)


def _to_timestamp(em: Emitter, call: Call, text: str, pattern: str = "") -> str:
    if not pattern:
        return em.call(temporal.parse_timestamp, text, "3")
    return em.call(times.parse_to_timestamp, text, pattern)


_TEXTS: Final = ["CHARACTER", "CHARACTER CHARACTER"]
define("TO_DATE", _TEXTS, t.DATE, code=_to_date, nullable=True)
define("TO_TIMESTAMP", _TEXTS, t.timestamp(3), code=_to_timestamp, nullable=True)


class _ToTimestampLtz(Function):
    """TO_TIMESTAMP_LTZ of a number (with a precision) or of a text (with a format and a zone)."""

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) == 2 and operands[0].type.is_numeric:
            precision = literal_value(operands[1])
            if isinstance(precision, int) and not 0 <= precision <= 9:
                raise ValidationException(
                    f"The precision of TO_TIMESTAMP_LTZ is {precision}; it must be from 0 (seconds) to 9 (nanoseconds)."
                )
        bound = super().bind(operands, options)
        if isinstance(bound, Call) and len(operands) == 2 and operands[0].type.is_numeric:
            precision = literal_value(operands[1])
            if isinstance(precision, int) and precision > 3:
                return Call(self, bound.operands, t.timestamp_ltz(precision))
        return bound

    def emit(self, call: Call, em: Emitter) -> str:
        first, *rest = call.operands
        x = em.value(first)
        if first.type.is_character:
            if not rest:
                return em.call(times.parse_standard_instant, x)
            return em.call(times.parse_to_instant, x, *map(em.value, rest))
        precision = literal_value(rest[0]) if rest else 3
        if not first.type.is_integer or precision is None:
            return em.call(times.epoch_to_nanos, x, em.value(rest[0]) if rest else "3")
        factor = 10 ** (9 - precision)
        low, high = times.FIRST_MILLIS * temporal.MS // factor, (times.LAST_MILLIS + 1) * temporal.MS // factor
        name = x if x.isidentifier() else em.temp()
        tested = x if x.isidentifier() else f"({name} := {x})"
        return f"({name} * {factor} if {low} <= {tested} < {high} else None)"


register(
    _ToTimestampLtz(
        "TO_TIMESTAMP_LTZ",
        ["NUMERIC", "NUMERIC INTEGER", "CHARACTER", "CHARACTER CHARACTER", "CHARACTER CHARACTER CHARACTER"],
        _LTZ,
        nullable=True,
        null_literal=True,
    )
)
