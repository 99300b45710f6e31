"""Which types convert to which, and the code of each conversion.

Every conversion is known in two forms: as a Python function of one value (elements of collections are converted by it)
and, where that is shorter or faster, as source.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

from streamline._core.types import INTEGER_BITS, MAX_LENGTH, DataType
from streamline.errors import TableException, ValidationException
from streamline.table.expr.coercion import as_decimal, integer_range, sql_text
from streamline.table.expr.context import EvalContext
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import WRAP, bounds_of, integer_result
from streamline.table.expr.nodes import Call
from streamline.table.expr.runtime import casts, numbers, temporal

__all__ = ("bounds", "check", "function", "may_be_null", "may_fail", "write")

Convert = Callable[[Any], Any]

_CHARACTER: Final = ("CHAR", "VARCHAR")
_TIMES: Final = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


# -- what is allowed ---------------------------------------------------------------------------------------------


def check(source: DataType, target: DataType) -> None:
    """Refuse a conversion that does not exist.

    Raises:
        ValidationException: if values of `source` cannot be cast to `target`.
    """
    if _allowed(source, target):
        return
    if source.is_numeric and target.is_timestamp:
        raise ValidationException(
            f"The cast from NUMERIC type to {target.root} type is not allowed. It's recommended to use "
            "TO_TIMESTAMP_LTZ(numeric_col, precision), or TO_TIMESTAMP(FROM_UNIXTIME(numeric_col)) for seconds."
        )
    if source.is_timestamp and target.is_numeric:
        raise ValidationException(
            f"The cast from {source.root} type to NUMERIC type is not allowed. It's recommended to use "
            "UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) or TIMESTAMPDIFF instead."
        )
    raise ValidationException(
        f"Cast function cannot convert value of type {sql_text(source)} to type {sql_text(target)}"
    )


def _allowed(source: DataType, target: DataType) -> bool:
    a, b = source.root, target.root
    if source.same_type(target):
        return True
    if b in _CHARACTER:
        return a not in ("DESCRIPTOR", "SYMBOL")
    if a in _CHARACTER:
        return b in ("BOOLEAN", "BINARY", "VARBINARY", *_TIMES) or target.is_numeric
    if target.is_numeric:
        return source.is_numeric or a == "BOOLEAN"
    if b == "BOOLEAN":
        return source.is_numeric
    if target.is_binary:
        return source.is_binary
    if b in _TIMES:
        if b == "DATE":
            return a in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
        return a in _TIMES and (b != "TIME" or a != "DATE")
    if target.is_interval:
        return a == b
    if a == b and a in ("ARRAY", "MULTISET", "MAP"):
        assert source.element and target.element
        keys = source.key is None or (target.key is not None and _allowed(source.key, target.key))
        return keys and _allowed(source.element, target.element)
    if source.is_composite and target.is_composite:
        return len(source.fields) == len(target.fields) and all(
            _allowed(x.type, y.type) for x, y in zip(source.fields, target.fields)
        )
    return False


def may_fail(source: DataType, target: DataType) -> bool:
    """Whether the conversion raises for some values."""
    if source.same_type(target):
        return False
    if source.is_character:
        return not (target.is_character or target.is_binary)
    if source.element is not None and target.element is not None:
        keys = source.key is not None and target.key is not None and may_fail(source.key, target.key)
        return keys or may_fail(source.element, target.element)
    if source.is_composite and target.is_composite:
        return any(may_fail(x.type, y.type) for x, y in zip(source.fields, target.fields))
    return source.is_approximate and target.root == "DECIMAL"


def may_be_null(source: DataType, target: DataType) -> bool:
    """Whether the conversion of a value that is not NULL may give NULL: a DECIMAL of too many digits."""
    if target.root != "DECIMAL" or source.is_character or source.root == "BOOLEAN":
        return False
    if source.is_approximate:
        return True
    exact = as_decimal(source)
    whole, room = exact.precision - exact.scale, target.precision - target.scale
    # Rounding can carry into one digit more.
    return whole + (1 if exact.scale > target.scale else 0) > room


def bounds(call: Call) -> tuple[int, int] | None:
    """Bounds of an integer cast to an integer type that holds it."""
    (operand,) = call.operands
    if not (call.type.is_integer and operand.type.is_integer):
        return None
    low, high = bounds_of(operand)
    first, last = integer_range(call.type.root)
    return (low, high) if first <= low and high <= last else None


# -- as source ---------------------------------------------------------------------------------------------------


def write(em: Emitter, source: DataType, target: DataType, text: str, bounds: tuple[int, int] | None = None) -> str:
    """Source of the conversion of a value that is not NULL."""
    if source.null().same_type(target.null()):
        return text
    if target.is_integer:
        if source.root == "BOOLEAN":
            return f"int({text})"
        if source.is_integer:
            low, high = bounds or integer_range(source.root)
            first, last = integer_range(target.root)
            return text if first <= low and high <= last else integer_result(em, target.root, text)
    if target.root == "DOUBLE" and (source.is_numeric or source.root == "BOOLEAN"):
        return text if source.root == "FLOAT" else f"float({text})"
    if target.root == "BOOLEAN" and source.is_numeric:
        return f"({text} != 0)"
    if target.is_character and target.length == MAX_LENGTH:
        if source.is_integer:
            return f"str({text})"
        if source.is_character:
            return text
    if target.root == "VARCHAR" and source.is_character:
        return text if source.length <= target.length else f"{text}[:{target.length}]"
    if target.root == source.root == "TIMESTAMP" or target.root == source.root == "TIMESTAMP_LTZ":
        if source.precision <= target.precision:
            return text
        unit = temporal.precision_unit(target.precision)
        return f"({text} // {unit} * {unit})"
    if source.root == "DATE" and target.root == "TIMESTAMP":
        return f"({text} * {temporal.DAY})"
    if source.root == "TIMESTAMP" and target.root == "DATE":
        return f"({text} // {temporal.DAY})"
    if source.is_interval and target.root == source.root:
        return text
    convert = em.cached(("cast", source, target), lambda: function(source, target, em.context), "cast")
    return f"{convert}({text})"


# -- as functions ------------------------------------------------------------------------------------------------


def _identity(value: Any) -> Any:
    return value


def function(source: DataType, target: DataType, context: EvalContext) -> Convert:
    """The conversion as a function of a value that is not NULL."""
    if source.null().same_type(target.null()):
        return _identity
    if target.is_character:
        return _sized_text(_to_text(source, context), source, target)
    if source.is_character:
        return _from_text(target, context)
    if target.is_integer:
        return _to_integer(source, target)
    match target.root:
        case "BOOLEAN":
            return lambda x: x != 0
        case "DOUBLE":
            return float
        case "FLOAT":
            return lambda x: numbers.float32(float(x))
        case "DECIMAL":
            return _to_decimal(source, target)
        case "BINARY":
            return partial(_call_reversed, casts.pad_bytes, target.length)
        case "VARBINARY":
            return lambda x: x[: target.length]
        case "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _to_time(source, target, context)
        case "ARRAY" | "MULTISET" | "MAP" | "ROW" | "STRUCTURED":
            return _to_collection(source, target, context)
    return _identity


def nullable_function(source: DataType, target: DataType, context: EvalContext) -> Convert:
    """The conversion as a function of a value or None."""
    convert = function(source, target, context)
    if convert is _identity:
        return convert
    return lambda x: None if x is None else convert(x)


def _call_reversed(convert: Callable[[Any, int], Any], length: int, value: Any) -> Any:
    return convert(value, length)


def _sized_text(text: Convert, source: DataType, target: DataType) -> Convert:
    length = target.length
    if length == MAX_LENGTH and target.root == "VARCHAR":
        return text
    if target.root == "CHAR":
        return lambda x: casts.pad_text(text(x), length)
    return lambda x: text(x)[:length]


def _to_integer(source: DataType, target: DataType) -> Convert:
    low, high = integer_range(target.root)
    wrap = WRAP[target.root]
    if source.is_approximate:
        if INTEGER_BITS[target.root] >= 32:
            return lambda x: casts.double_to_int(x, low, high)
        first, last = integer_range("INT")
        return lambda x: wrap(casts.double_to_int(x, first, last))
    return lambda x: wrap(int(x))


def _to_decimal(source: DataType, target: DataType) -> Convert:
    unit = numbers.decimal_unit(target.scale)
    limit = numbers.decimal_limit(target.precision, target.scale)
    if source.is_approximate:
        return lambda x: casts.double_to_decimal(x, unit, limit)
    return lambda x: numbers.decimal_fit(Decimal(x), unit, limit)


def _to_time(source: DataType, target: DataType, context: EvalContext) -> Convert:
    """Conversions among times: all go over the local timestamp."""
    zone = context.zone
    unit = temporal.precision_unit(target.precision)
    to_local: dict[str, Convert] = {
        "DATE": lambda x: x * temporal.DAY,
        "TIME": lambda x: x * temporal.MS,
        "TIMESTAMP": _identity,
        "TIMESTAMP_LTZ": lambda x: temporal.to_local(x, zone),
    }
    from_local: dict[str, Convert] = {
        "DATE": lambda x: x // temporal.DAY,
        "TIME": lambda x: x % temporal.DAY // unit * unit // temporal.MS,
        "TIMESTAMP": lambda x: x // unit * unit,
        "TIMESTAMP_LTZ": lambda x: temporal.to_instant(x // unit * unit, zone),
    }
    if source.root == target.root:
        if target.root == "TIME":
            return lambda x: x * temporal.MS // unit * unit // temporal.MS
        return lambda x: x // unit * unit
    first, second = to_local[source.root], from_local[target.root]
    return second if first is _identity else lambda x: second(first(x))


def _to_collection(source: DataType, target: DataType, context: EvalContext) -> Convert:
    if target.root in ("ROW", "STRUCTURED"):
        fields = [nullable_function(x.type, y.type, context) for x, y in zip(source.fields, target.fields)]
        return lambda row: tuple(convert(x) for convert, x in zip(fields, row))
    assert source.element and target.element
    element = nullable_function(source.element, target.element, context)
    if target.root == "ARRAY":
        return lambda items: [element(x) for x in items]
    if target.root == "MULTISET":
        return lambda counts: {element(x): n for x, n in counts.items()}
    assert source.key and target.key
    key = nullable_function(source.key, target.key, context)
    return lambda items: {key(k): element(v) for k, v in items.items()}


def _to_text(source: DataType, context: EvalContext) -> Convert:
    zone, precision = context.zone, source.precision
    match source.root:
        case "CHAR" | "VARCHAR":
            return _identity
        case "BOOLEAN":
            return casts.boolean_text
        case "FLOAT":
            return casts.float_text
        case "DOUBLE":
            return casts.double_text
        case "DECIMAL":
            return casts.decimal_text
        case "DATE":
            return temporal.format_date
        case "TIME":
            return lambda x: temporal.time_text(x, precision)
        case "TIMESTAMP":
            return lambda x: temporal.format_timestamp(x, precision)
        case "TIMESTAMP_LTZ":
            return lambda x: temporal.format_timestamp(temporal.to_local(x, zone), precision)
        case "INTERVAL_DAY_TIME":
            return temporal.format_millis
        case "INTERVAL_YEAR_MONTH":
            return temporal.format_months
        case "BINARY" | "VARBINARY":
            return casts.bytes_to_text
        case "ARRAY" | "MULTISET" | "MAP" | "ROW" | "STRUCTURED":
            return _collection_to_text(source, context)
    return str


def _item_text(type_: DataType, context: EvalContext) -> Convert:
    text = _to_text(type_, context)
    return lambda x: "NULL" if x is None else text(x)


def _collection_to_text(source: DataType, context: EvalContext) -> Convert:
    if source.root == "ROW":
        fields = [_item_text(f.type, context) for f in source.fields]
        return lambda row: "(" + ", ".join(text(x) for text, x in zip(fields, row)) + ")"
    if source.root == "STRUCTURED":
        named = [(f.name, _item_text(f.type, context)) for f in source.fields]
        return lambda row: "(" + ", ".join(f"{n}={text(x)}" for (n, text), x in zip(named, row)) + ")"
    assert source.element is not None
    element = _item_text(source.element, context)
    if source.root == "ARRAY":
        return lambda items: "[" + ", ".join(map(element, items)) + "]"
    if source.root == "MULTISET":
        return lambda counts: "{" + ", ".join(f"{element(x)}={n}" for x, n in counts.items()) + "}"
    assert source.key is not None
    key = _item_text(source.key, context)
    return lambda items: "{" + ", ".join(f"{key(k)}={element(v)}" for k, v in items.items()) + "}"


def _from_text(target: DataType, context: EvalContext) -> Convert:
    zone, precision = context.zone, target.precision
    if target.is_integer:
        low, high = integer_range(target.root)
        return lambda x: casts.text_to_integer(x, low, high)
    match target.root:
        case "BOOLEAN":
            return casts.text_to_boolean
        case "DOUBLE":
            return casts.text_to_double
        case "FLOAT":
            return lambda x: numbers.float32(casts.text_to_double(x))
        case "DECIMAL":
            unit = numbers.decimal_unit(target.scale)
            limit = numbers.decimal_limit(precision, target.scale)
            return lambda x: casts.text_to_decimal(x, precision, unit, limit)
        case "BINARY":
            return lambda x: casts.pad_bytes(x.encode(), target.length)
        case "VARBINARY":
            return lambda x: x.encode()[: target.length]
        case "DATE":
            return partial(_parsed, temporal.parse_date, "DATE")
        case "TIME":
            unit_ms = max(1, 10 ** (3 - precision))
            time = partial(_parsed, temporal.parse_time, "TIME")
            return lambda x: time(x) // unit_ms * unit_ms
        case "TIMESTAMP":
            return partial(_parsed, lambda x: temporal.parse_timestamp(x, precision), "TIMESTAMP")
        case "TIMESTAMP_LTZ":
            local = partial(_parsed, lambda x: temporal.parse_timestamp(x, precision), "TIMESTAMP_LTZ")
            return lambda x: temporal.to_instant(local(x), zone)
    raise TableException(f"Cannot cast text to {target}.")


def _parsed(parse: Callable[[str], int | None], what: str, text: str) -> int:
    value = parse(text)
    if value is None:
        raise TableException(f"For input string: '{text}'. It cannot be read as {what}.")
    return value
