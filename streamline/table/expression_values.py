"""Functions of numbers, times, arrays, maps and rows."""

from __future__ import annotations

from enum import Enum
from typing import Any, Self, TypeVar

import sqlglot.expressions as nodes

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.table.expression_base import (
    ExpressionBase,
    Unary,
    call_node,
    cast_node,
    identifier,
    millis_node,
    months_node,
    var,
)

__all__ = ("TimeIntervalUnit", "TimePointUnit", "ValueFunctions")


E = TypeVar("E", bound=ExpressionBase)


class TimeIntervalUnit(Enum):
    """Units of `extract`, `floor` and `ceil`."""

    MILLENNIUM = "MILLENNIUM"
    CENTURY = "CENTURY"
    DECADE = "DECADE"
    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"
    MILLISECOND = "MILLISECOND"
    MICROSECOND = "MICROSECOND"
    NANOSECOND = "NANOSECOND"
    EPOCH = "EPOCH"


class TimePointUnit(Enum):
    """Units of `timestamp_diff`."""

    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


def _word(unit: Enum | str) -> nodes.Var:
    return var(unit.upper() if isinstance(unit, str) else str(unit.value))


class _Interval:
    """A number as an interval: `lit(5).seconds`."""

    def __init__(self, unit: str, factor: int, months: bool = False) -> None:
        self._unit = unit
        self._factor = factor
        self._months = months
        self.__doc__ = f"The number as an interval of {unit.lower()}s."

    def __get__(self, instance: E, owner: type[E]) -> E:
        if instance is None:
            return self  # type: ignore[unreachable]
        if isinstance(instance.value, int) and not isinstance(instance.value, bool):
            amount = instance.value * self._factor
            interval = months_node(amount) if self._months else millis_node(amount)
            return type(instance)(interval, str(amount))
        node = nodes.Interval(this=instance.ast.copy(), unit=var(self._unit))
        return type(instance)(node, f"{self._unit.lower()}s({instance.text})")


class ValueFunctions(ExpressionBase):
    """Methods over numbers, times, arrays, maps and rows. Positions in arrays count from 1."""

    __slots__ = ()

    # -- numbers -------------------------------------------------------------------------------------------------

    exp = Unary("EXP", "e to the power of the number.", "exp")
    ln = Unary("LN", "The natural logarithm.", "ln")
    log10 = Unary("LOG10", "The logarithm to base 10.", "log10")
    log2 = Unary("LOG2", "The logarithm to base 2.", "log2")
    sqrt = Unary("SQRT", "The square root.", "sqrt")
    abs = Unary("ABS", "The absolute value.", "abs")
    sign = Unary("SIGN", "-1, 0 or 1.", "sign")
    sin = Unary("SIN", "The sine.", "sin")
    cos = Unary("COS", "The cosine.", "cos")
    tan = Unary("TAN", "The tangent.", "tan")
    cot = Unary("COT", "The cotangent.", "cot")
    asin = Unary("ASIN", "The arc sine.", "asin")
    acos = Unary("ACOS", "The arc cosine.", "acos")
    atan = Unary("ATAN", "The arc tangent.", "atan")
    sinh = Unary("SINH", "The hyperbolic sine.", "sinh")
    cosh = Unary("COSH", "The hyperbolic cosine.", "cosh")
    tanh = Unary("TANH", "The hyperbolic tangent.", "tanh")
    degrees = Unary("DEGREES", "Radians as degrees.", "degrees")
    radians = Unary("RADIANS", "Degrees as radians.", "radians")
    bin = Unary("BIN", "The integer in binary digits.", "bin")
    hex = Unary("HEX", "The integer or text in hexadecimal digits.", "hex")
    unhex = Unary("UNHEX", "The bytes of hexadecimal digits.")

    def log(self, base: Any = None) -> Self:
        """The logarithm to a base (default: e)."""
        if base is None:
            return self._call("LOG", text="log")
        operand = self._of(base)
        return type(self)(call_node("LOG", operand.ast, self.ast), f"log({operand.text}, {self.text})")

    def power(self, exponent: Any) -> Self:
        """The number to a power."""
        return self._call("POWER", exponent, text="power")

    def round(self, places: Any = 0) -> Self:
        """Rounded half away from zero, to `places` digits behind the point."""
        return self._call("ROUND", places, text="round")

    def truncate(self, n: Any = 0) -> Self:
        """Cut to n digits behind the point."""
        return self._call("TRUNCATE", n, text="truncate")

    def floor(self, time_interval_unit: TimeIntervalUnit | str | None = None) -> Self:
        """The largest integer that is not larger; of a time, the start of its unit."""
        if time_interval_unit is None:
            return self._call("FLOOR", text="floor")
        word = _word(time_interval_unit)
        return type(self)(call_node("FLOOR", self.ast, word), f"floor({self.text}, {word.this})")

    def ceil(self, time_interval_unit: TimeIntervalUnit | str | None = None) -> Self:
        """The smallest integer that is not smaller; of a time, the start of the next unit."""
        if time_interval_unit is None:
            return self._call("CEIL", text="ceil")
        word = _word(time_interval_unit)
        return type(self)(call_node("CEIL", self.ast, word), f"ceil({self.text}, {word.this})")

    # -- times ---------------------------------------------------------------------------------------------------

    def _cast(self, data_type: DataType) -> Self:
        return type(self)(cast_node(self.ast.copy(), data_type), f"cast({self.text}, {data_type.summary(True)})")

    @property
    def to_date(self) -> Self:
        """Text of the form yyyy-MM-dd as a DATE."""
        return self._cast(t.DATE)

    @property
    def to_time(self) -> Self:
        """Text of the form HH:mm:ss as a TIME."""
        return self._cast(t.time())

    @property
    def to_timestamp(self) -> Self:
        """Text of the form yyyy-MM-dd HH:mm:ss[.SSS] as a TIMESTAMP(3)."""
        return self._cast(t.timestamp(3))

    def extract(self, time_interval_unit: TimeIntervalUnit | str) -> Self:
        """A part of a time, such as its year."""
        word = _word(time_interval_unit)
        return type(self)(call_node("EXTRACT", word, self.ast), f"extract({word.this}, {self.text})")

    year = _Interval("YEAR", 12, months=True)
    years = _Interval("YEAR", 12, months=True)
    quarter = _Interval("QUARTER", 3, months=True)
    quarters = _Interval("QUARTER", 3, months=True)
    month = _Interval("MONTH", 1, months=True)
    months = _Interval("MONTH", 1, months=True)
    week = _Interval("WEEK", 604_800_000)
    weeks = _Interval("WEEK", 604_800_000)
    day = _Interval("DAY", 86_400_000)
    days = _Interval("DAY", 86_400_000)
    hour = _Interval("HOUR", 3_600_000)
    hours = _Interval("HOUR", 3_600_000)
    minute = _Interval("MINUTE", 60_000)
    minutes = _Interval("MINUTE", 60_000)
    second = _Interval("SECOND", 1000)
    seconds = _Interval("SECOND", 1000)
    milli = _Interval("MILLISECOND", 1)
    millis = _Interval("MILLISECOND", 1)

    # -- arrays, maps, rows --------------------------------------------------------------------------------------

    cardinality = Unary("CARDINALITY", "The number of elements of an array or map.", "cardinality")
    element = Unary("ELEMENT", "The only element of an array.", "element")
    flatten = Unary("$FLATTEN", "The fields of a row as columns of their own.", "flatten")
    array_distinct = Unary("ARRAY_DISTINCT", "The array without repeated elements.")
    array_reverse = Unary("ARRAY_REVERSE", "The elements in reverse order.")
    array_max = Unary("ARRAY_MAX", "The largest element.")
    array_min = Unary("ARRAY_MIN", "The smallest element.")
    map_keys = Unary("MAP_KEYS", "The keys of a map.")
    map_values = Unary("MAP_VALUES", "The values of a map.")
    map_entries = Unary("MAP_ENTRIES", "The entries of a map, as rows of key and value.")

    def get(self, name_or_index: str | int) -> Self:
        """A field of a row, by name or by position (from 0)."""
        shown = f"get({self.text}, {name_or_index!r})"
        if isinstance(name_or_index, str):
            field: nodes.Expression = nodes.Dot(this=self.ast.copy(), expression=identifier(name_or_index))
        else:
            field = call_node("$GET", self.ast, nodes.Literal.number(name_or_index))
        return type(self)(field, shown)

    def at(self, index: Any) -> Self:
        """An element of an array by position, or of a map by key."""
        operand = self._of(index)
        node = nodes.Bracket(this=self.ast.copy(), expressions=[operand.ast.copy()])
        return type(self)(node, f"at({self.text}, {operand.text})")

    def array_append(self, addition: Any) -> Self:
        """The array with one more element at its end."""
        return self._call("ARRAY_APPEND", addition)

    def array_prepend(self, addition: Any) -> Self:
        """The array with one more element at its start."""
        return self._call("ARRAY_PREPEND", addition)

    def array_contains(self, needle: Any) -> Self:
        """Whether an element is in the array."""
        return self._call("ARRAY_CONTAINS", needle)

    def array_position(self, needle: Any) -> Self:
        """Where an element is first found in the array; 0: nowhere."""
        return self._call("ARRAY_POSITION", needle)

    def array_remove(self, needle: Any) -> Self:
        """The array without all that is equal to the element."""
        return self._call("ARRAY_REMOVE", needle)

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Self:
        """The elements from one position to another, both included."""
        return self._calls("ARRAY_SLICE", start_offset, end_offset)

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Self:
        """The elements in order."""
        return self._calls("ARRAY_SORT", ascending_order, null_first)

    def array_union(self, array: Any) -> Self:
        """The elements of either array, each once."""
        return self._call("ARRAY_UNION", array)

    def array_concat(self, *arrays: Any) -> Self:
        """The elements of all arrays, one after the other."""
        return self._call("ARRAY_CONCAT", *arrays)

    def array_except(self, array: Any) -> Self:
        """The elements that are not in the other array, each once."""
        return self._call("ARRAY_EXCEPT", array)

    def array_intersect(self, array: Any) -> Self:
        """The elements that are in both arrays, each once."""
        return self._call("ARRAY_INTERSECT", array)

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Self:
        """The elements as one text, with a delimiter between them."""
        return self._calls("ARRAY_JOIN", delimiter, null_replacement)

    def map_union(self, *maps: Any) -> Self:
        """The entries of all maps; of equal keys the last one counts."""
        return self._call("MAP_UNION", *maps)

    def object_update(self, *key_values: Any) -> Self:
        """The object with fields replaced: names and values in turn."""
        return self._call("OBJECT_UPDATE", *key_values)

    # -- bitmaps -------------------------------------------------------------------------------------------------

    bitmap_build = Unary("BITMAP_BUILD", "The integers of an array as a bitmap.")
    bitmap_cardinality = Unary("BITMAP_CARDINALITY", "How many integers the bitmap holds.")
    bitmap_from_bytes = Unary("BITMAP_FROM_BYTES", "The bitmap of its serialized bytes.")
    bitmap_to_array = Unary("BITMAP_TO_ARRAY", "The integers of the bitmap in order.")
    bitmap_to_bytes = Unary("BITMAP_TO_BYTES", "The bitmap as bytes.")
    bitmap_to_string = Unary("BITMAP_TO_STRING", "The integers of the bitmap as text.")

    def bitmap_and(self, other: Any) -> Self:
        """The integers in both bitmaps."""
        return self._call("BITMAP_AND", other)

    def bitmap_or(self, other: Any) -> Self:
        """The integers in either bitmap."""
        return self._call("BITMAP_OR", other)

    def bitmap_xor(self, other: Any) -> Self:
        """The integers in just one of the bitmaps."""
        return self._call("BITMAP_XOR", other)

    def bitmap_andnot(self, other: Any) -> Self:
        """The integers in this bitmap and not in the other."""
        return self._call("BITMAP_ANDNOT", other)
