"""Values at the borders of a table: Python's own on the outside, the inner form of `_core.types` inside.

`Inward` and `Outward` write the Python source of conversions, and collect what the names in it stand for. A type whose
two forms are the same costs nothing: its source is the value's own.
"""

from __future__ import annotations

import decimal
import inspect
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from streamline._core import types as t
from streamline._core.changes import Row
from streamline._core.failure import NotNull
from streamline._core.types import DataType, Field
from streamline.errors import TableException
from streamline.table.codegen.source import compile_function
from streamline.table.expr.entry import guarded, present

__all__ = ("Converter", "Inward", "Outward", "constructor", "converter_in", "converter_out")

Converter = Callable[[Any], Any]
#: Equal ones are one object.
_SAME_CHECKS: Final[dict[NotNull, NotNull]] = {}

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICRO: Final = timedelta(microseconds=1)
_MILLI: Final = timedelta(milliseconds=1)
_SINGLE: Final = struct.Struct("f")
#: Enough digits for every DECIMAL and for what is rounded to one.
_DECIMALS: Final = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)


class _Sources:
    """Names in generated source and what they stand for."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def name(self, key: Any, hint: str, make: Callable[[], Any]) -> str:
        """The name of an object; equal keys share it."""
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = f"{hint}_{len(self._names)}"
            self.namespace[found] = make()
        return found

    @property
    def pairs(self) -> tuple[tuple[str, Any], ...]:
        """The namespace as row shapes and output shapes keep it."""
        return tuple(self.namespace.items())


# -- inward --------------------------------------------------------------------------------------------------------


class Inward(_Sources):
    """Conversions of values that come in."""

    def __init__(self) -> None:
        super().__init__()
        self._not_null: list[tuple[str, str, str]] = []

    def source(self, value: str, declared: DataType, derived: DataType | None, column: str) -> str:
        """Source of a value in inner form.

        Args:
            value: source of the Python value; used once.
            declared: the type it becomes.
            derived: the type its class tells; None: not known.
            column: for messages.
        """
        convert = converter_in(declared, derived, column)
        nullable = declared.nullable or derived is None or derived.nullable
        if not nullable:
            self._not_null.append((column, _shown(declared), value))
            checks = NotNull(tuple(self._not_null))
            self.namespace["columns_not_null"] = _SAME_CHECKS.setdefault(checks, checks)
        if convert is None and declared.is_integer:
            whole = ("integer", declared.root, column, nullable)
            read = self.name(whole, "read", lambda: _integer(declared, column, nullable))
            return guarded(value, len(self._names), _bits(declared), read, nullable)
        if not nullable:
            read = self.name(("null", column), "read", lambda: _no_null(declared, column))
            value = present(value, len(self._names), read)
        if convert is None:
            return value
        key = ("in", declared.null().materialized(), None if derived is None else derived.null(), column)
        return f"{self.name(key, 'read', lambda: convert)}({value})"


def converter_in(declared: DataType, derived: DataType | None, column: str) -> Converter | None:
    """What makes the inner form of a Python value; None where it is the same."""
    if declared.is_integer:
        wider = derived is None or not derived.is_integer or _bits(derived) > _bits(declared)
        return _integer(declared, column) if wider else None
    match declared.root:
        case "FLOAT" | "DOUBLE":
            whole = derived is None or not derived.is_approximate
            return _double(declared, column) if whole or declared.root == "FLOAT" else None
        case "DECIMAL":
            return _decimal(declared, column)
        case "DATE":
            return _date(column)
        case "TIME":
            return _time(column)
        case "TIMESTAMP":
            return _timestamp(declared, column)
        case "TIMESTAMP_LTZ":
            return _instant(declared, column)
        case "INTERVAL_DAY_TIME":
            return _interval(column)
        case "ARRAY":
            return _list_in(declared, derived, column)
        case "MAP" | "MULTISET":
            return _dict_in(declared, derived, column)
        case "ROW" | "STRUCTURED":
            return _composite_in(declared, derived, column)
        case "VARBINARY" | "BINARY":
            return None
    return None


def _bits(type_: DataType) -> int:
    return t.INTEGER_BITS[type_.root]


def _shown(declared: DataType) -> str:
    shown = declared.null().materialized().summary(True)
    return shown if declared.nullable else f"{shown} NOT NULL"


def _unfit(value: Any, declared: DataType, column: str, why: str = "") -> TableException:
    shown = declared.null().materialized().summary(True)
    tail = f": {why}" if why else ""
    return TableException(f"{value!r} does not fit `{column} {shown}`{tail}")


def _is_null(declared: DataType, column: str) -> TableException:
    return TableException(f"None does not fit `{column} {_shown(declared)}`")


def _no_null(declared: DataType, column: str) -> Converter:
    def read_null(value: Any) -> Any:
        raise _is_null(declared, column)

    return read_null


def _integer(declared: DataType, column: str, nullable: bool = True) -> Converter:
    bits = _bits(declared)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read_integer(value: Any) -> Any:
        if value is None and nullable:
            return None
        if isinstance(value, int) and low <= value <= high:
            return int(value)
        raise _unfit(value, declared, column) if value is not None else _is_null(declared, column)

    return read_integer


def _double(declared: DataType, column: str) -> Converter:
    single = declared.root == "FLOAT"

    def read_double(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (int, float, Decimal)):
            raise _unfit(value, declared, column)
        number = float(value)
        return _SINGLE.unpack(_SINGLE.pack(number))[0] if single else number

    return read_double


def _decimal(declared: DataType, column: str) -> Converter:
    unit = Decimal(1).scaleb(-declared.scale)
    limit = Decimal(10) ** (declared.precision - declared.scale)

    def read_decimal(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Decimal):
            if not isinstance(value, int) or isinstance(value, bool):
                raise _unfit(value, declared, column, "a Decimal is expected")
            value = Decimal(value)
        rounded = value.quantize(unit, context=_DECIMALS)
        if -limit < rounded < limit:
            return rounded
        raise _unfit(value, declared, column)

    return read_decimal


def _date(column: str) -> Converter:
    def read_date(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, date):
            raise _unfit(value, t.DATE, column, "a date is expected")
        return value.toordinal() - _EPOCH_DAY

    return read_date


def _time(column: str) -> Converter:
    def read_time(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, time):
            raise _unfit(value, t.time(), column, "a time is expected")
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000

    return read_time


def _cut(precision: int) -> int:
    """Microseconds that a time of that precision is a multiple of."""
    return 1 if precision >= 6 else 10 ** (6 - precision)


def _timestamp(declared: DataType, column: str) -> Converter:
    unit = _cut(declared.precision)

    def read_timestamp(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, datetime):
            raise _unfit(value, declared, column, "a datetime is expected")
        if value.tzinfo is not None:
            raise _unfit(
                value, declared, column, "it has a time zone; declare the column TIMESTAMP_LTZ, or take the zone off"
            )
        micros = (value - _EPOCH) // _MICRO
        return micros * 1000 if unit == 1 else micros // unit * unit * 1000

    return read_timestamp


def _instant(declared: DataType, column: str) -> Converter:
    unit = _cut(declared.precision)

    def read_instant(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, datetime):
            raise _unfit(value, declared, column, "an aware datetime is expected")
        if value.tzinfo is None:
            raise _unfit(
                value,
                declared,
                column,
                "it has no time zone; declare the column TIMESTAMP, or give the value one "
                "(.replace(tzinfo=timezone.utc))",
            )
        micros = (value - _EPOCH_UTC) // _MICRO
        return micros * 1000 if unit == 1 else micros // unit * unit * 1000

    return read_instant


def _interval(column: str) -> Converter:
    def read_interval(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, timedelta):
            raise _unfit(value, t.interval_day_time(), column, "a timedelta is expected")
        return value // _MILLI

    return read_interval


def _part_in(declared: DataType, derived: DataType | None, column: str) -> Converter | None:
    """What makes the inner form of a part of a list or dict; a whole number is checked there, without a guard."""
    return converter_in(declared, derived, column) or (_integer(declared, column) if declared.is_integer else None)


def _list_in(declared: DataType, derived: DataType | None, column: str) -> Converter | None:
    assert declared.element is not None
    known = derived.element if derived is not None and derived.root == "ARRAY" else None
    item = _part_in(declared.element, known, column)
    if item is None:
        return None

    def read_list(value: Any) -> Any:
        return None if value is None else [item(v) for v in value]

    return read_list


def _dict_in(declared: DataType, derived: DataType | None, column: str) -> Converter | None:
    assert declared.element is not None
    if declared.root == "MULTISET":
        key_type, value_type = declared.element, t.INT
    else:
        assert declared.key is not None
        key_type, value_type = declared.key, declared.element
    known = derived if derived is not None and derived.root == declared.root else None
    key = _part_in(key_type, known.key if known else None, column)
    item = _part_in(value_type, known.element if known else None, column)
    if key is None and item is None:
        return None

    def read_dict(value: Any) -> Any:
        if value is None:
            return None
        return {(k if key is None else key(k)): (v if item is None else item(v)) for k, v in value.items()}

    return read_dict


def _composite_in(declared: DataType, derived: DataType | None, column: str) -> Converter:
    inward = Inward()
    known = {f.name: f.type for f in derived.fields} if derived is not None and derived.is_composite else {}
    by_name = declared.root == "STRUCTURED"
    parts = []
    for i, f in enumerate(declared.fields):
        access = field_source("r", declared.cls, f.name) if by_name else f"r[{i}]"
        parts.append(inward.source(access, f.type, known.get(f.name), f"{column}.{f.name}"))
    body = f"({', '.join(parts)},)" if parts else "()"
    source = "def read_row(r):\n    if r is None:\n        return None\n"
    if not by_name:
        names = tuple(f.name for f in declared.fields)
        inward.namespace["in_order"] = lambda value: _in_order(value, names, declared, column)
        source += "    if type(r) is not tuple:\n        r = in_order(r)\n"
    return compile_function("read_row", f"{source}    return {body}\n", dict(inward.namespace))


def _in_order(value: Any, names: tuple[str, ...], declared: DataType, column: str) -> Sequence[Any] | Row:
    """The fields of a value of type ROW in declared order: by name where it has names, else as they stand."""
    if isinstance(value, Row):
        own = value._names
        if own is None or own == names or set(own) != set(names):
            return value  # fields of other names go by position, like those without
        return [value[n] for n in names]
    if isinstance(value, dict):
        return [value.get(n) for n in names]
    if isinstance(value, (tuple, list)):
        return value
    if not all(hasattr(value, n) for n in names):
        raise _unfit(value, declared, column, "a Row or tuple is expected")
    return [getattr(value, n) for n in names]


def field_source(record: str, cls: Any, name: str) -> str:
    """Source of a field of an object of a class: an item of a TypedDict or NamedTuple, else an attribute."""
    if is_typed_dict(cls):
        return f"{record}[{name!r}]"
    fields: tuple[str, ...] = getattr(cls, "_fields", ()) if isinstance(cls, type) and issubclass(cls, tuple) else ()
    if name in fields:
        return f"{record}[{fields.index(name)}]"
    return f"{record}.{name}" if name.isidentifier() else f"getattr({record}, {name!r})"


def is_typed_dict(cls: Any) -> bool:
    """Whether values of the class are plain dicts."""
    return isinstance(cls, type) and issubclass(cls, dict)


# -- outward -------------------------------------------------------------------------------------------------------


class Outward(_Sources):
    """Conversions of values that leave."""

    def source(self, value: str, type_: DataType) -> str:
        """Source of the Python value of an inner one; `value` is used once."""
        convert = converter_out(type_)
        if convert is None:
            return value
        return f"{self.name(('out', type_.null().materialized()), 'write', lambda: convert)}({value})"


def converter_out(type_: DataType) -> Converter | None:
    """What makes the Python value of an inner one; None where it is the same."""
    match type_.root:
        case "DATE":
            return lambda v: None if v is None else date.fromordinal(v + _EPOCH_DAY)
        case "TIME":
            return lambda v: None if v is None else (_EPOCH + timedelta(milliseconds=v)).time()
        case "TIMESTAMP":
            return lambda v: None if v is None else _EPOCH + timedelta(microseconds=v // 1000)
        case "TIMESTAMP_LTZ":
            return lambda v: None if v is None else _EPOCH_UTC + timedelta(microseconds=v // 1000)
        case "INTERVAL_DAY_TIME":
            return lambda v: None if v is None else timedelta(milliseconds=v)
        case "ARRAY":
            return _list_out(type_)
        case "MAP" | "MULTISET":
            return _dict_out(type_)
        case "ROW" | "STRUCTURED":
            return _composite_out(type_)
    return None


def _list_out(type_: DataType) -> Converter | None:
    assert type_.element is not None
    item = converter_out(type_.element)
    if item is None:
        return None
    return lambda v: None if v is None else [item(x) for x in v]


def _dict_out(type_: DataType) -> Converter | None:
    assert type_.element is not None
    key_type = type_.element if type_.root == "MULTISET" else type_.key
    assert key_type is not None
    key = converter_out(key_type)
    item = None if type_.root == "MULTISET" else converter_out(type_.element)
    if key is None and item is None:
        return None

    def write_dict(value: Any) -> Any:
        if value is None:
            return None
        return {(k if key is None else key(k)): (v if item is None else item(v)) for k, v in value.items()}

    return write_dict


def _composite_out(type_: DataType) -> Converter:
    outward = Outward()
    parts = [outward.source(f"r[{i}]", f.type) for i, f in enumerate(type_.fields)]
    if type_.root == "STRUCTURED" and type_.cls is not None:
        build = constructor(outward, type_.cls, type_.fields, parts)
    else:
        names = outward.name("names", "names", lambda: tuple(f.name for f in type_.fields))
        outward.name("row", "make_row", lambda: Row.with_names)
        build = f"{outward.name('row', 'make_row', lambda: Row.with_names)}({names}, ({', '.join(parts)},))"
    source = f"def write_row(r):\n    return None if r is None else {build}\n"
    return compile_function("write_row", source, dict(outward.namespace))


def constructor(
    outward: Outward, cls: Any, fields: tuple[Field, ...], values: list[str], template: bool = False
) -> str:
    """Source that builds an object of a class from the sources of its fields; in a template braces are doubled."""
    names = [f.name for f in fields]
    if is_typed_dict(cls):
        opening, closing = ("{{", "}}") if template else ("{", "}")
        return opening + ", ".join(f"{n!r}: {v}" for n, v in zip(names, values)) + closing
    made = outward.name(("class", id(cls)), cls.__name__, lambda: cls)
    if _positional(cls, names):
        return f"{made}({', '.join(values)})"
    return f"{made}({', '.join(f'{n}={v}' for n, v in zip(names, values))})"


def _positional(cls: Any, names: list[str]) -> bool:
    """Whether the constructor takes just these fields by position, in this order."""
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return False
    return [p.name for p in parameters] == names and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
