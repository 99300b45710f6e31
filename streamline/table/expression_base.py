"""What an expression of the Table API is made of: a piece of the same tree that SQL text becomes.

`col("a") > 1` and `a > 1` give the same nodes, so both are bound, typed and planned by the same code. Functions are
`exp.Anonymous` under their SQL names. What only the Table API has (`alias` with several names, window properties,
`with_columns`, `over`) are calls whose names start with `$`; the table that uses the expression takes them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.changes import Row
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.parse import parse_path
from streamline.table.parse.functions import TYPE

__all__ = (
    "ExpressionBase",
    "Unary",
    "call_node",
    "cast_node",
    "column_node",
    "identifier",
    "literal_node",
    "millis_node",
    "months_node",
    "var",
)

E = TypeVar("E", bound="ExpressionBase")

_MS_PER_DAY: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT: Final = (-(2**31), 2**31 - 1)
_BIGINT: Final = (-(2**63), 2**63 - 1)


def identifier(name: str) -> exp.Identifier:
    """A name that stands for itself."""
    return exp.Identifier(this=name, quoted=True)


def var(word: str) -> exp.Var:
    """A keyword as an argument."""
    return exp.Var(this=word)


def call_node(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    """A function call, name in upper case."""
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def cast_node(node: exp.Expression, data_type: DataType, kind: type[exp.Expression] = exp.Cast) -> exp.Expression:
    """A CAST (or TRY_CAST) to a type."""
    made = kind(this=node)
    made.meta[TYPE] = data_type
    return made


def column_node(name: str) -> exp.Expression:
    """The node of a dotted name; backticks keep a dot inside a part."""
    if name == "*":
        return exp.Star()
    parts = parse_path(name) if "`" in name else tuple(name.split("."))
    if not all(parts):
        raise ValidationException(f"{name!r} is no column: a name, or names with points between them, is expected")
    if len(parts) > 1 and parts[-1] == "*":
        return exp.Column(this=exp.Star(), table=identifier(parts[0]))
    keys = ("this", "table", "db", "catalog")
    head, rest = parts[:4], parts[4:]
    node: exp.Expression = exp.Column(**{k: identifier(p) for k, p in zip(keys, reversed(head))})
    for part in rest:
        node = exp.Dot(this=node, expression=identifier(part))
    return node


def millis_node(millis: int) -> exp.Expression:
    """A day-time interval of so many milliseconds."""
    days, rest = divmod(abs(millis), _MS_PER_DAY)
    seconds, fraction = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{days} {hour:02}:{minute:02}:{second:02}.{fraction:03}"
    unit = f"DAY({max(2, len(str(days)))}) TO SECOND(3)"
    return exp.Interval(this=exp.Literal.string(text), unit=var(unit), negative=millis < 0)


def months_node(months: int) -> exp.Expression:
    """A year-month interval of so many months."""
    years, month = divmod(abs(months), 12)
    unit = f"YEAR({max(2, len(str(years)))}) TO MONTH"
    return exp.Interval(this=exp.Literal.string(f"{years}-{month}"), unit=var(unit), negative=months < 0)


def literal_node(value: Any, data_type: DataType | None = None) -> exp.Expression:
    """The node of a Python value.

    Args:
        value: a value of a type that has SQL literals, or a list, dict, tuple or Row of such values.
        data_type: the type it shall have; None: the narrowest one, as for a literal in SQL.

    Raises:
        ValidationException: if there is no literal for a value of this class.
    """
    node = _plain_literal(value)
    if data_type is not None:
        return cast_node(node, data_type)
    return node


def _plain_literal(value: Any) -> exp.Expression:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            if not _BIGINT[0] <= value <= _BIGINT[1]:
                return cast_node(exp.Literal.string(str(value)), t.decimal(len(str(abs(value))), 0))
            node = _signed(str(abs(value)), value < 0)
            return node if _INT[0] <= value <= _INT[1] else cast_node(node, t.BIGINT)
        case float():
            if not math.isfinite(value):
                word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
                return cast_node(exp.Literal.string(word), t.DOUBLE)
            text = repr(abs(value))
            return _signed(text if "e" in text else text + "e0", math.copysign(1, value) < 0)
        case Decimal():
            digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
            if not isinstance(exponent, int):
                raise ValidationException(f"{value} is no DECIMAL")
            scale = max(0, -exponent)
            precision = max(len(digits) + max(0, exponent), scale, 1)
            node = _signed(f"{abs(value):f}", value < 0)
            return node if scale else cast_node(node, t.decimal(precision, 0))
        case str():
            return exp.Literal.string(value)
        case bytes() | bytearray():
            return exp.HexString(this=bytes(value).hex())
        case datetime() if value.tzinfo is None:
            return exp.Timestamp(this=exp.Literal.string(value.isoformat(" ")))
        case datetime():
            micros = (value - _EPOCH) // timedelta(microseconds=1)
            return call_node("TO_TIMESTAMP_LTZ", _plain_literal(micros), exp.Literal.number(6))
        case date():
            return exp.Date(this=exp.Literal.string(value.isoformat()))
        case time():
            return exp.Time(this=exp.Literal.string(value.isoformat()))
        case timedelta():
            return millis_node(value // timedelta(milliseconds=1))
        case Row() | tuple():
            return exp.Tuple(expressions=[_item(v) for v in value])
        case list():
            return exp.Array(expressions=[_item(v) for v in value])
        case Mapping():
            keys = exp.Array(expressions=[_item(k) for k in value])
            return exp.Map(keys=keys, values=exp.Array(expressions=[_item(v) for v in value.values()]))
    raise ValidationException(
        f"a {type(value).__name__} cannot be written as a literal; pass a plain value, or col(...) for a column"
    )


def _item(value: Any) -> exp.Expression:
    return value.ast.copy() if isinstance(value, ExpressionBase) else _plain_literal(value)


def _signed(digits: str, negative: bool) -> exp.Expression:
    node = exp.Literal.number(digits)
    return exp.Neg(this=node) if negative else node


class ExpressionBase:
    """A node of the tree with the text that messages print for it."""

    __slots__ = ("ast", "text", "value")

    def __init__(self, ast: exp.Expression, text: str, value: Any = None) -> None:
        self.ast = ast
        self.text = text
        #: The Python value of a literal, for units such as `.seconds`; None for anything else.
        self.value = value

    @classmethod
    def _of(cls: type[E], value: Any) -> E:
        """An operand: itself where it is an expression, else a literal."""
        if isinstance(value, cls):
            return value
        if value is None:
            return cls(exp.Null(), "null")
        text = f"'{value}'" if isinstance(value, str) else str(value)
        return cls(literal_node(value), text, value)

    def _call(self: E, name: str, *arguments: Any, text: str | None = None) -> E:
        """A call of a function of this operand and others."""
        operands = (self, *(self._of(a) for a in arguments))
        shown = f"{text or name}({', '.join(o.text for o in operands)})"
        return type(self)(call_node(name, *(o.ast for o in operands)), shown)

    def _calls(self: E, name: str, *arguments: Any) -> E:
        """A call without the arguments that are None: the optional ones that were not given."""
        return self._call(name, *(a for a in arguments if a is not None))

    def _node(self: E, kind: type[exp.Expression], text: str, *others: Any, **extra: Any) -> E:
        """A node with this operand as `this`, and perhaps another as `expression`."""
        operands = [self._of(o) for o in others]
        if operands:
            extra["expression"] = operands[0].ast.copy()
        shown = f"{text}({', '.join(o.text for o in (self, *operands))})"
        return type(self)(kind(this=self.ast.copy(), **extra), shown)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression<{self.text}>"


class Unary:
    """A function of one operand, as a property: `col("name").upper_case`."""

    def __init__(self, name: str, doc: str, text: str | None = None) -> None:
        self._name = name
        self._text = text
        self.__doc__ = doc

    def __get__(self, instance: E, owner: type[E]) -> E:
        if instance is None:
            return self  # type: ignore[unreachable]
        return instance._call(self._name, text=self._text)
