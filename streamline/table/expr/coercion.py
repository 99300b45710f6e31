"""Type arithmetic: common types, implicit conversions, precision and scale of decimal results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from streamline._core import types as t
from streamline._core.types import DataType, Field

__all__ = (
    "MAX_PRECISION",
    "as_decimal",
    "common_type",
    "comparable_type",
    "decimal_add",
    "decimal_divide",
    "decimal_modulo",
    "decimal_multiply",
    "implicitly",
    "integer_range",
    "sql_text",
    "union_type",
)

MAX_PRECISION: Final = 38
#: Digits after the point that a result of too many digits keeps at least.
_MIN_SCALE: Final = 6

_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_WIDTH: Final = {"TINYINT": 0, "SMALLINT": 1, "INT": 2, "BIGINT": 3}


def integer_range(root: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = t.INTEGER_BITS[root]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def sql_text(type_: DataType) -> str:
    """The type as error messages of validation write it: INTEGER for INT, no NOT NULL."""
    if type_.root == "INT":
        return "INTEGER"
    text = type_.null().summary(time_attributes=True)
    return text


# -- decimals ----------------------------------------------------------------------------------------------------


def as_decimal(type_: DataType) -> DataType:
    """The DECIMAL type that holds every value of an exact numeric type."""
    if type_.root == "DECIMAL":
        return type_
    return t.decimal(_DIGITS[type_.root], 0).with_nullable(type_.nullable)


def _adjusted(precision: int, scale: int) -> DataType:
    """A result type of at most 38 digits: digits after the point are given up first, down to six."""
    if precision <= MAX_PRECISION:
        return t.decimal(precision, scale)
    whole = precision - scale
    return t.decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MIN_SCALE)))


def decimal_add(a: DataType, b: DataType) -> DataType:
    """Type of a sum or difference of decimals."""
    scale = max(a.scale, b.scale)
    return _adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def decimal_multiply(a: DataType, b: DataType) -> DataType:
    """Type of a product of decimals."""
    return _adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def decimal_divide(a: DataType, b: DataType) -> DataType:
    """Type of a quotient of decimals."""
    scale = max(_MIN_SCALE, a.scale + b.precision + 1)
    return _adjusted(a.precision - a.scale + b.scale + scale, scale)


def decimal_modulo(a: DataType, b: DataType) -> DataType:
    """Type of the remainder of a division of decimals."""
    scale = max(a.scale, b.scale)
    return _adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


# -- common types ------------------------------------------------------------------------------------------------


def common_type(types: Iterable[DataType]) -> DataType | None:
    """The narrowest type that holds the values of all, or None where there is none.

    NULL counts for nullability only. Time attributes do not survive.
    """
    given = list(types)
    nullable = any(x.nullable for x in given)
    real = [x.materialized() for x in given if x.root != "NULL"]
    if not real:
        return t.NULL if given else None
    result = real[0]
    for other in real[1:]:
        wider = _common(result, other)
        if wider is None:
            return None
        result = wider
    return result.with_nullable(nullable)


def union_type(types: Iterable[DataType]) -> DataType | None:
    """As `common_type`, for values that stand for one another: branches of CASE, elements, columns of a UNION.

    A DATE is none of a TIMESTAMP here; of TIMESTAMP and TIMESTAMP_LTZ the first one given holds where their precisions
    are equal, else the second.
    """
    given = list(types)
    nullable = any(x.nullable for x in given)
    real = [x.materialized() for x in given if x.root != "NULL"]
    if not all(x.is_temporal for x in real) or len({x.root for x in real}) < 2:
        return common_type(given)
    result = real[0]
    for other in real[1:]:
        if result.root == other.root:
            result = other if other.precision > result.precision else result
        elif not (result.is_timestamp and other.is_timestamp):
            return None
        elif result.precision != other.precision:
            result = replace(other, precision=max(result.precision, other.precision))
    return result.with_nullable(nullable)


def implicitly(source: DataType, target: DataType) -> bool:
    """Whether an argument of one type is taken where another is asked for."""
    if source.root in (target.root, "NULL"):
        return True
    if target.is_character or target.is_binary:
        return source.is_character if target.is_character else source.is_binary
    if target.root == "DOUBLE":
        return source.is_numeric
    if target.root == "FLOAT":
        return source.is_integer or source.root == "DECIMAL"
    if target.root == "DECIMAL":
        return source.is_integer
    return source.is_integer and target.is_integer and _WIDTH[source.root] <= _WIDTH[target.root]


def _common(a: DataType, b: DataType) -> DataType | None:
    if a.same_type(b):
        return a.with_nullable(a.nullable or b.nullable)
    nullable = a.nullable or b.nullable
    result: DataType | None = None
    if a.is_numeric and b.is_numeric:
        result = _common_numeric(a, b)
    elif a.is_character and b.is_character:
        result = _common_length(a, b, "CHAR", "VARCHAR")
    elif a.is_binary and b.is_binary:
        result = _common_length(a, b, "BINARY", "VARBINARY")
    elif a.is_temporal and b.is_temporal:
        result = _common_temporal(a, b)
    elif a.root == b.root and (a.is_interval or a.root == "NULL"):
        result = a
    elif a.root == b.root and a.root in ("ARRAY", "MULTISET", "MAP"):
        element = common_type((_element(a), _element(b)))
        key = common_type((a.key, b.key)) if a.key and b.key else None
        if element is not None and (a.root != "MAP" or key is not None):
            result = replace(a, element=element, key=key)
    elif a.root == b.root == "ROW" and len(a.fields) == len(b.fields):
        result = _common_row(a, b)
    return result.with_nullable(nullable) if result is not None else None


def _element(type_: DataType) -> DataType:
    assert type_.element is not None
    return type_.element


def _common_numeric(a: DataType, b: DataType) -> DataType:
    if a.is_approximate or b.is_approximate:
        double = "DOUBLE" in (a.root, b.root) or "DECIMAL" in (a.root, b.root)
        return t.DOUBLE if double else t.FLOAT
    if a.is_integer and b.is_integer:
        return a if _WIDTH[a.root] >= _WIDTH[b.root] else b
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return t.decimal(min(MAX_PRECISION, whole + scale), min(scale, MAX_PRECISION))


def _common_length(a: DataType, b: DataType, fixed: str, varying: str) -> DataType:
    root = fixed if a.root == b.root == fixed and a.length == b.length else varying
    return DataType(root, length=max(a.length, b.length))


def _common_temporal(a: DataType, b: DataType) -> DataType | None:
    roots = {a.root, b.root}
    precision = max(a.precision, b.precision)
    if "TIME" in roots:
        return t.time(precision) if roots == {"TIME"} else None
    if roots == {"DATE", "TIMESTAMP_LTZ"}:
        return None
    root = "TIMESTAMP_LTZ" if "TIMESTAMP_LTZ" in roots else "TIMESTAMP"
    return DataType(root, precision=precision)


def _common_row(a: DataType, b: DataType) -> DataType | None:
    fields: list[Field] = []
    for x, y in zip(a.fields, b.fields):
        common = common_type((x.type, y.type))
        if common is None:
            return None
        fields.append(Field(x.name, common))
    return replace(a, fields=tuple(fields))


def comparable_type(types: Sequence[DataType]) -> DataType | None:
    """The type in which values are compared: as `union_type`, but text is read as the time type it meets."""
    temporal = [x for x in types if x.is_temporal]
    if temporal and any(x.is_character for x in types):
        return union_type([x for x in types if not x.is_character])
    return union_type(types)
