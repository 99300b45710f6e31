"""Functions that make expressions: columns, literals, calls, and those that have no operand to hang on."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import sqlglot.expressions as nodes

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expression import Expression
from streamline.table.expression_base import call_node, column_node, identifier, literal_node, var
from streamline.table.expression_text import JsonOnNull
from streamline.table.expression_values import TimePointUnit
from streamline.table.parse import parse_expression

__all__ = (
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "proctime",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
)


#: Tells apart the function objects that expressions refer to.
_numbers = itertools.count(1)


def col(name: str) -> Expression:
    """A column of the input.

    `a.b` names column b of the table that was joined under the name a, or field b of column a; where both are there it
    is an error that names both. `*` stands for all columns.
    """
    return Expression(column_node(name), name)


def lit(v: Any, data_type: DataType | None = None) -> Expression:
    """A constant.

    Args:
        v: a Python value.
        data_type: its type; None: the narrowest one, as for a literal in SQL.

    Raises:
        ValidationException: if there is no literal for a value of this class.
    """
    if isinstance(v, Expression):
        return v
    text = "null" if v is None else f"'{v}'" if isinstance(v, str) else str(v)
    return Expression(literal_node(v, data_type), text, v)


def null_of(data_type: DataType) -> Expression:
    """NULL of a type."""
    return Expression(literal_node(None, data_type), "null")


def call(f: str | Callable[..., Any] | Any, *args: Any) -> Expression:
    """A call of a function.

    Args:
        f: the name of a built-in or registered function (`cat.db.f` too), or a function object made with `udf`,
            `udtf`, `udaf` or `udtaf`.
        args: expressions or values.
    """
    operands = [lit(a) for a in args]
    if isinstance(f, str):
        *path, name = f.split(".")
        node = call_node(name, *(o.ast for o in operands))
        if path:
            node.set("path", tuple(path))
        shown = f
    else:
        shown = getattr(f, "name", None) or getattr(f, "__name__", None) or type(f).__name__
        node = call_node(f"{shown}#{next(_numbers)}", *(o.ast for o in operands))
        node.set("function", f)
    return Expression(node, f"{shown}({', '.join(o.text for o in operands)})")


def call_sql(sql_expression: str) -> Expression:
    """A scalar expression written in SQL."""
    parsed = parse_expression(sql_expression)
    return Expression(parsed.ast.copy(), sql_expression)


def _free(name: str, *args: Any) -> Expression:
    operands = [lit(a) for a in args]
    return Expression(call_node(name, *(o.ast for o in operands)), f"{name}({', '.join(o.text for o in operands)})")


def _given(*args: Any) -> tuple[Any, ...]:
    return tuple(a for a in args if a is not None)


# -- logic ---------------------------------------------------------------------------------------------------------


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """AND of conditions."""
    result = lit(predicate0)
    for p in (predicate1, *predicates):
        result = result & lit(p)
    return result


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """OR of conditions."""
    result = lit(predicate0)
    for p in (predicate1, *predicates):
        result = result | lit(p)
    return result


def not_(expression: Expression) -> Expression:
    """NOT; NULL stays NULL."""
    return ~expression


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """One value where the condition is TRUE, another where it is FALSE or NULL."""
    return lit(condition).then(if_true, if_false)


def coalesce(*args: Any) -> Expression:
    """The first value that is not NULL."""
    return _free("COALESCE", *args)


# -- the session and time ------------------------------------------------------------------------------------------


def current_database() -> Expression:
    """The name of the current database."""
    return _free("CURRENT_DATABASE")


def current_date() -> Expression:
    """Today, in the session's time zone."""
    return _free("CURRENT_DATE")


def current_time() -> Expression:
    """The time of the day, in the session's time zone."""
    return _free("CURRENT_TIME")


def current_timestamp() -> Expression:
    """Now: TIMESTAMP_LTZ(3)."""
    return _free("CURRENT_TIMESTAMP")


def current_watermark(rowtime_attribute: Expression) -> Expression:
    """The watermark of an event-time column, before the current row; NULL before the first."""
    return _free("CURRENT_WATERMARK", rowtime_attribute)


def local_time() -> Expression:
    """The time of the day, in the session's time zone."""
    return _free("LOCALTIME")


def local_timestamp() -> Expression:
    """Now in the session's time zone: TIMESTAMP(3)."""
    return _free("LOCALTIMESTAMP")


def proctime() -> Expression:
    """A processing-time attribute, in a Schema."""
    return _free("PROCTIME")


def source_watermark() -> Expression:
    """The watermarks of the stream itself, in `Schema.watermark`."""
    return _free("SOURCE_WATERMARK")


def to_date(date_str: Any, format: Any = None) -> Expression:
    """Text as a DATE; NULL where it is none."""
    return _free("TO_DATE", *_given(date_str, format))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression:
    """Text as a TIMESTAMP(3); NULL where it is none."""
    return _free("TO_TIMESTAMP", *_given(timestamp_str, format))


def to_timestamp_ltz(*args: Any) -> Expression:
    """Epoch seconds (precision 0) or milliseconds (3), or text with a format and a zone, as a TIMESTAMP_LTZ."""
    return _free("TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression:
    """Whether two spans overlap, each given by its start and its end or length."""
    a, b, c, d = (lit(x) for x in (left_time_point, left_temporal, right_time_point, right_temporal))
    node = nodes.Overlaps(
        this=nodes.Tuple(expressions=[a.ast.copy(), b.ast.copy()]),
        expression=nodes.Tuple(expressions=[c.ast.copy(), d.ast.copy()]),
    )
    return Expression(node, f"temporalOverlaps({a.text}, {b.text}, {c.text}, {d.text})")


def date_format(timestamp: Any, format: Any) -> Expression:
    """A time as text in a format."""
    return _free("DATE_FORMAT", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit | str, time_point1: Any, time_point2: Any) -> Expression:
    """From the first time to the second, in whole units."""
    word = time_point_unit.upper() if isinstance(time_point_unit, str) else str(time_point_unit.value)
    a, b = lit(time_point1), lit(time_point2)
    return Expression(call_node("TIMESTAMPDIFF", var(word), a.ast, b.ast), f"timestampDiff({word}, {a.text}, {b.text})")


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression:
    """Text of a time in one zone as text in another."""
    return _free("CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression:
    """Epoch seconds as text, in the session's time zone."""
    return _free("FROM_UNIXTIME", *_given(unixtime, format))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression:
    """Epoch seconds of text, or of now."""
    return _free("UNIX_TIMESTAMP", *_given(date_str, format))


# -- values --------------------------------------------------------------------------------------------------------


def array(head: Any, *tail: Any) -> Expression:
    """An array of values."""
    items = [lit(a) for a in (head, *tail)]
    node = nodes.Array(expressions=[i.ast.copy() for i in items])
    return Expression(node, f"array({', '.join(i.text for i in items)})")


def row(head: Any, *tail: Any) -> Expression:
    """A row of values."""
    items = [lit(a) for a in (head, *tail)]
    node = nodes.Tuple(expressions=[i.ast.copy() for i in items])
    return Expression(node, f"row({', '.join(i.text for i in items)})")


def map_(key: Any, value: Any, *tail: Any) -> Expression:
    """A map of keys and values in turn."""
    items = [lit(a) for a in (key, value, *tail)]
    if len(items) % 2:
        raise ValidationException(f"map_ takes keys and values in turn, not {len(items)} arguments")
    keys = nodes.Array(expressions=[i.ast.copy() for i in items[::2]])
    values = nodes.Array(expressions=[i.ast.copy() for i in items[1::2]])
    return Expression(nodes.Map(keys=keys, values=values), f"map({', '.join(i.text for i in items)})")


def map_from_arrays(key: Any, value: Any) -> Expression:
    """A map of an array of keys and an array of values."""
    return _free("MAP_FROM_ARRAYS", key, value)


def object_of(class_name: Any, *args: Any) -> Expression:
    """An object of a class: names and values of its fields in turn."""
    return _free("OBJECT_OF", class_name.__qualname__ if inspect.isclass(class_name) else class_name, *args)


def row_interval(rows: int) -> Expression:
    """A number of rows, as the size of a window."""
    return Expression(call_node("$ROWS", nodes.Literal.number(rows)), str(rows), rows)


def pi() -> Expression:
    """The number pi."""
    return _free("PI")


def e() -> Expression:
    """Euler's number."""
    return _free("E")


def rand(seed: Any = None) -> Expression:
    """A random number from 0 up to 1."""
    return _free("RAND", *_given(seed))


def rand_integer(bound: Any, seed: Any = None) -> Expression:
    """A random integer from 0 up to `bound`."""
    return _free("RAND_INTEGER", *_given(seed, bound))


def atan2(y: Any, x: Any) -> Expression:
    """The angle of the point (x, y)."""
    return _free("ATAN2", y, x)


def negative(v: Any) -> Expression:
    """The number with the other sign."""
    return -lit(v)


def log(v: Any, base: Any = None) -> Expression:
    """The logarithm to a base (default: e)."""
    return lit(v).log(base)


def concat(first: Any, *others: Any) -> Expression:
    """Texts one after the other; NULL where one is NULL."""
    return _free("CONCAT", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression:
    """Texts with a separator between them; those that are NULL are left out."""
    return _free("CONCAT_WS", separator, first, *others)


def uuid() -> Expression:
    """A random UUID as text."""
    return _free("UUID")


# -- JSON ----------------------------------------------------------------------------------------------------------


def _on_null(on_null: JsonOnNull) -> nodes.Expression:
    return nodes.Kwarg(this=var("ON NULL"), expression=var(on_null.value))


def _pairs(name: str, on_null: JsonOnNull, args: tuple[Any, ...]) -> Expression:
    if len(args) % 2:
        raise ValidationException(f"{name} takes keys and values in turn, not {len(args)} arguments")
    items = [lit(a) for a in args]
    node = call_node(name)
    for key, value in zip(items[::2], items[1::2]):
        node.append("expressions", nodes.JSONKeyValue(this=key.ast.copy(), expression=value.ast.copy()))
    node.append("expressions", _on_null(on_null))
    return Expression(node, f"{name}({', '.join(i.text for i in items)})")


def json(value: Any) -> Expression:
    """Text that is JSON already, inside of `json_object` and `json_array`."""
    return _free("JSON", value)


def json_string(value: Any) -> Expression:
    """A value as JSON text."""
    return _free("JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression:
    """A JSON object of keys and values in turn."""
    return _pairs("JSON_OBJECT", on_null, args)


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression:
    """The keys and values of all rows as a JSON object."""
    return _pairs("JSON_OBJECTAGG", on_null, (key_expr, value_expr))


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression:
    """A JSON array of values."""
    found = _free("JSON_ARRAY", *args)
    found.ast.append("expressions", _on_null(on_null))
    return found


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression:
    """The values of all rows as a JSON array."""
    found = _free("JSON_ARRAYAGG", item_expr)
    found.ast.append("expressions", _on_null(on_null))
    return found


# -- columns of the input ------------------------------------------------------------------------------------------


def _position(end: str | int | Expression) -> nodes.Expression:
    if isinstance(end, Expression):
        return end.ast.copy()
    return nodes.Literal.number(end) if isinstance(end, int) else column_node(end)


def range_(start: str | int | Expression, end: str | int | Expression) -> Expression:
    """The columns from one to another, by name or by position (from 1), in `with_columns`."""
    return Expression(call_node("$RANGE", _position(start), _position(end)), f"rangeTo({start}, {end})")


def with_all_columns() -> Expression:
    """All columns: `col("*")`."""
    return Expression(nodes.Star(), "*")


def _choice(name: str, text: str, columns: tuple[Any, ...]) -> Expression:
    items = [col(c) if isinstance(c, str) else lit(c) for c in columns]
    return Expression(call_node(name, *(i.ast for i in items)), f"{text}({', '.join(i.text for i in items)})")


def with_columns(head: Any, *tails: Any) -> Expression:
    """Some columns: names, positions (from 1) and ranges."""
    return _choice("$WITH_COLUMNS", "withColumns", (head, *tails))


def without_columns(head: Any, *tails: Any) -> Expression:
    """All columns but some: names, positions (from 1) and ranges."""
    return _choice("$WITHOUT_COLUMNS", "withoutColumns", (head, *tails))


def descriptor(*column_names: str) -> Expression:
    """Names of columns, as an argument of a table function."""
    node = nodes.Anonymous(this="DESCRIPTOR", expressions=[identifier(n) for n in column_names])
    return Expression(node, f"DESCRIPTOR({', '.join(column_names)})")


class _Bound(Enum):
    UNBOUNDED_ROW = "UNBOUNDED_ROW"
    UNBOUNDED_RANGE = "UNBOUNDED_RANGE"
    CURRENT_ROW = "CURRENT_ROW"
    CURRENT_RANGE = "CURRENT_RANGE"


def _bound(bound: _Bound) -> Expression:
    return Expression(call_node("$" + bound.value), bound.value)


#: Bounds of an over window: all rows before, or all of the partition by time; the row itself, or all of its time.
UNBOUNDED_ROW: Final = _bound(_Bound.UNBOUNDED_ROW)
UNBOUNDED_RANGE: Final = _bound(_Bound.UNBOUNDED_RANGE)
CURRENT_ROW: Final = _bound(_Bound.CURRENT_ROW)
CURRENT_RANGE: Final = _bound(_Bound.CURRENT_RANGE)
