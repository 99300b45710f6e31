"""Binds and evaluates expressions over the columns of one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import sqlglot.expressions as exp

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.bind.expressions import AggregateSyntax, ExpressionBinder
from streamline.table.codegen.expressions import ExpressionCompiler, compile_scalar
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.expr.runtime import casts, temporal
from streamline.table.parse import parse_data_type, parse_expression

__all__ = ("bind", "binder_of", "columns_of", "context_of", "emitted", "normal", "shown", "value_of")

#: Columns of the test's table, from text such as `a INT NOT NULL, b STRING`.
Columns = Sequence[tuple[str, DataType]]


class TableScope:
    """Columns of one table by name."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.binder: ExpressionBinder | None = None

    def intercept(self, node: exp.Expression) -> Expr | None:
        return None

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        for i, (name, type_) in enumerate(self.columns):
            if name == parts[0]:
                assert self.binder is not None
                return self.binder.fields(InputRef(i, type_, name), parts[1:])
        raise ValidationException(f"Column '{parts[0]}' not found in any table")

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        return None

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        raise NotImplementedError

    def is_aggregate(self, path: tuple[str, ...]) -> bool:
        return False

    def bind_window(self, node: exp.Window) -> Expr:
        raise NotImplementedError

    def bind_subquery(self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        raise NotImplementedError


def context_of(zone: str = "UTC", now: int = 1_700_000_000_000, legacy_cast: bool = False) -> EvalContext:
    """A context with a time zone and a clock that stands still."""
    return EvalContext(now=lambda: now, zone=UTC if zone == "UTC" else ZoneInfo(zone), legacy_cast=legacy_cast)


def columns_of(declarations: str) -> Columns:
    """Columns from text such as `a INT NOT NULL, b DECIMAL(5, 2)`."""
    parts = re.split(r",(?![^(<]*[)>])", declarations) if declarations else []
    named = [part.strip().partition(" ") for part in parts]
    return [(name, parse_data_type(kind)) for name, _, kind in named]


def binder_of(columns: Columns, context: EvalContext) -> ExpressionBinder:
    """A binder over the columns."""
    scope = TableScope(columns)
    scope.binder = ExpressionBinder(scope, context)
    return scope.binder


def bind(text: str, columns: str | Columns = "", context: EvalContext | None = None) -> Expr:
    """An expression of SQL text."""
    given = columns_of(columns) if isinstance(columns, str) else columns
    return binder_of(given, context or context_of()).bind(parse_expression(text).ast)


def emitted(text: str, columns: str = "", condition: bool = False) -> str:
    """The Python source of an expression; a column is its name."""
    given = columns_of(columns)
    compiler = ExpressionCompiler({}, context_of())
    emit = compiler.emit_condition if condition else compiler.emit
    return emit(bind(text, given), lambda i: given[i][0])


def value_of(text: str, columns: str = "", *row: Any, context: EvalContext | None = None) -> Any:
    """The value of an expression for a row in inner form."""
    used = context or context_of()
    return compile_scalar(bind(text, columns, used), used)(row)


# -- values as Java writes them ----------------------------------------------------------------------------------


def shown(value: Any, type_: DataType) -> Any:
    """A value in inner form, its parts as Java's `toString` writes them."""
    if value is None:
        return None
    match type_.root:
        case "BOOLEAN":
            return value
        case "DOUBLE":
            return casts.double_text(value)
        case "FLOAT":
            return casts.float_text(value)
        case "DECIMAL":
            return f"{value:f}" if value.adjusted() >= -6 else str(value)
        case "BINARY" | "VARBINARY":
            return f"0x{value.hex()}"
        case "DATE":
            return temporal.format_date(value)
        case "TIME":
            return _clock(temporal.format_time(value, 3), seconds=False)
        case "TIMESTAMP":
            day, _, clock = temporal.format_timestamp(value, 9).partition(" ")
            return f"{day}T{_clock(clock, seconds=False)}"
        case "TIMESTAMP_LTZ":
            day, _, clock = temporal.format_timestamp(value, 9).partition(" ")
            return f"{day}T{_clock(clock, seconds=True)}Z"
        case "ARRAY":
            assert type_.element is not None
            return [shown(x, type_.element) for x in value]
        case "MAP":
            assert type_.key is not None and type_.element is not None
            return sorted(([shown(k, type_.key), shown(x, type_.element)] for k, x in value.items()), key=repr)
        case "ROW" | "STRUCTURED":
            return [shown(x, f.type) for x, f in zip(value, type_.fields)]
    return str(value)


def _clock(text: str, seconds: bool) -> str:
    """A time of day with as many digits, by threes, as it needs; seconds that are zero left out."""
    whole, _, fraction = text.partition(".")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    if fraction:
        return f"{whole}.{fraction}"
    return whole if seconds or not whole.endswith(":00") else whole[:-3]


def normal(value: Any, type_: DataType) -> Any:
    """A value that Java wrote, as `shown` writes it."""
    if value is None:
        return None
    match type_.root:
        case "INTERVAL_DAY_TIME":
            match = re.fullmatch(r"PT(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?", value)
            assert match is not None
            hours, minutes, seconds = (float(g or 0) for g in match.groups())
            return str(round(hours * 3_600_000 + minutes * 60_000 + seconds * 1000))
        case "INTERVAL_YEAR_MONTH":
            match = re.fullmatch(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:0D)?", value)
            assert match is not None
            return str(int(match[1] or 0) * 12 + int(match[2] or 0))
        case "ARRAY":
            assert type_.element is not None
            return [normal(x, type_.element) for x in value]
        case "MAP":
            assert type_.key is not None and type_.element is not None
            return sorted(([normal(k, type_.key), normal(x, type_.element)] for k, x in value), key=repr)
        case "ROW" | "STRUCTURED":
            return [normal(x, f.type) for x, f in zip(value, type_.fields)]
    return value
