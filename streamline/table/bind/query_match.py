"""MATCH_RECOGNIZE: its pattern, conditions and measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.table.bind.expressions import AggregateSyntax
from streamline.table.bind.query_grouping import milliseconds_of
from streamline.table.bind.query_names import Relation
from streamline.table.bind.query_scope import FromScope
from streamline.table.bind.query_select import sort_key
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from streamline.table.expr.registry import bind_call
from streamline.table.logical import Match, MatchExpr, MatchValue, PatternElement, RowSchema, SortKey
from streamline.table.parse import error_at
from streamline.table.parse.pattern import (
    AfterMatch,
    Alternation,
    Concatenation,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Variable,
)

if TYPE_CHECKING:
    from streamline.table.bind.query_select import SelectBinder

__all__ = ("bind_match",)

_ALL: Final = -1
_NAVIGATION: Final = ("FIRST", "LAST", "PREV", "NEXT")
_PROCTIME: Final = t.timestamp_ltz(3).not_null().as_time_attribute("proctime")


def bind_match(select: SelectBinder, relation: Relation, node: exp.MatchRecognize) -> Match:
    """The plan of MATCH_RECOGNIZE over a table.

    Raises:
        ValidationException: something in it is not supported, or a name or type does not fit.
    """
    _refuse_options(node)
    elements = _elements(node.args["pattern"], node)
    names = [e.name for e in elements]
    schema = relation.rel.schema
    partition = tuple(_column(select, relation, c, "PARTITION BY") for c in node.args.get("partition_by") or ())
    order = _order(select, relation, node)
    within = node.args.get("within")
    bound = FromScope(select, relation, "WITHIN").binder.bind(within) if within is not None else None
    conditions = _conditions(select, relation, names, node)
    after, target = _after(node, names)
    measures, fields = [], [schema[p] for p in partition]
    for alias in node.args.get("measures") or ():
        scope = MatchScope(select, relation, names, None)
        value = scope.binder.bind(alias.this)
        measures.append(MatchExpr(value, tuple(scope.values)))
        fields.append(Field(alias.alias, value.type))
    return Match(
        relation.rel,
        partition,
        order,
        elements,
        None if bound is None or within is None else milliseconds_of(bound, within),
        after,
        target,
        conditions,
        tuple(measures),
        RowSchema(tuple(fields)),
    )


def _refuse_options(node: exp.MatchRecognize) -> None:
    if node.args.get("rows") == "ALL ROWS PER MATCH":
        raise error_at(node, "All rows per match mode is not supported yet.")
    if node.args.get("strict_start") or node.args.get("strict_end"):
        raise error_at(node, "Strict start and end of a pattern (^, $) are not supported: a stream has neither.")
    if node.args.get("subset"):
        raise error_at(node, "SUBSET is not supported yet.")


# -- the pattern ---------------------------------------------------------------------------------------------------


def _elements(pattern: Pattern, node: exp.Expression) -> tuple[PatternElement, ...]:
    parts: Sequence[Pattern] = pattern.parts if isinstance(pattern, Concatenation) else (pattern,)
    found = [_element(p, node) for p in parts]
    names = [e.name for e in found]
    for name in names:
        if names.count(name) > 1:
            raise error_at(node, f"Duplicate pattern name: {name}. Names must be unique.")
    if found[-1].loops:
        raise error_at(
            node,
            "Greedy quantifiers are not allowed as the last element of a Pattern yet. Finish your pattern with either "
            "a simple variable or reluctant quantifier.",
        )
    if all(e.least == 0 for e in found):
        raise error_at(node, f"The pattern {pattern} matches no row at all: one of its variables has to match some.")
    return tuple(found)


def _element(part: Pattern, node: exp.Expression) -> PatternElement:
    match part:
        case Variable(name):
            return PatternElement(name)
        case Quantified(Variable(name), least, most, greedy):
            if not greedy and (least, most) == (0, 1):
                raise error_at(node, "Reluctant optional variables are not supported yet.")
            if least == 0 and most is not None and most > 1:
                raise error_at(
                    node, f"{name}{{0,{most}}}: The from should be a positive number greater than 0; use * or ?"
                )
            if most == 0:
                raise error_at(node, f"{part} never matches: leave it out.")
            return PatternElement(name, least, most, greedy)
        case Quantified() | Concatenation():
            why = "Group patterns are not supported yet."
        case Alternation():
            why = "Currently, CEP doesn't support branching patterns."
        case Exclusion():
            why = "Currently, CEP doesn't support '{-' '-}' patterns."
        case Permutation():
            why = "Currently, CEP doesn't support PERMUTE patterns."
    raise error_at(node, f"Expression not supported: {part} {why}")


def _after(node: exp.MatchRecognize, names: Sequence[str]) -> tuple[str, int | None]:
    after: AfterMatch | None = node.args.get("after")
    # As in Flink, and not as in the standard, which means PAST LAST ROW.
    if after is None:
        return "TO NEXT ROW", None
    if after.variable is None:
        return after.kind, None
    if after.variable not in names:
        raise error_at(node, f"AFTER MATCH {after}: the pattern has no variable '{after.variable}'")
    return after.kind, names.index(after.variable)


def _conditions(
    select: SelectBinder, relation: Relation, names: Sequence[str], node: exp.MatchRecognize
) -> tuple[MatchExpr | None, ...]:
    found: list[MatchExpr | None] = [None] * len(names)
    for alias in node.args.get("define") or ():
        name = alias.alias
        if name not in names:
            raise error_at(alias, f"Pattern variable '{name}' is defined, but the pattern does not have it")
        own = names.index(name)
        if found[own] is not None:
            raise error_at(alias, f"Pattern variable '{name}' has already been defined")
        scope = MatchScope(select, relation, names, own)
        condition = scope.binder.bind(alias.this)
        if condition.type.root not in ("BOOLEAN", "NULL"):
            raise error_at(alias, f"the condition of {name} has to be a BOOLEAN, not {condition.type}")
        found[own] = MatchExpr(condition, tuple(scope.values))
    return tuple(found)


def _column(select: SelectBinder, relation: Relation, node: exp.Expression, clause: str) -> int:
    bound = FromScope(select, relation, clause).binder.bind(node)
    if not isinstance(bound, InputRef):
        raise error_at(node, f"{clause} of MATCH_RECOGNIZE takes columns only")
    return bound.index


def _order(select: SelectBinder, relation: Relation, node: exp.MatchRecognize) -> tuple[SortKey, ...]:
    order = node.args.get("order")
    if order is None:
        raise error_at(node, "You must specify either rowtime or proctime for order by.")
    keys = tuple(sort_key(_column(select, relation, o.this, "ORDER BY"), o) for o in order.expressions)
    if relation.rel.schema[keys[0].column].type.time_attribute is None:
        raise error_at(order, "You must specify either rowtime or proctime for order by as the first one.")
    if not keys[0].ascending:
        raise error_at(order, "Primary sort order of a streaming table must be ascending on time.")
    return keys


# -- expressions ---------------------------------------------------------------------------------------------------


class _RowScope(FromScope):
    """The argument of FIRST, LAST or an aggregate: columns of the rows of one variable."""

    def __init__(self, select: SelectBinder, relation: Relation, names: Sequence[str]) -> None:
        super().__init__(select, relation, "an aggregate")
        self._names = names
        self.variables: set[int] = set()

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        variable, rest = _variable(parts, self._names)
        self.variables.add(variable)
        return super().resolve_column(rest, node)

    def variable(self, node: exp.Expression) -> int:
        """The one variable whose rows are meant."""
        if len(self.variables) > 1:
            raise error_at(node, "Aggregates and FIRST and LAST apply to the columns of a single pattern variable")
        return next(iter(self.variables), _ALL)


class MatchScope(FromScope):
    """A condition of DEFINE or a measure. What it reads from rows of the match goes to `values`.

    Args:
        select: the SELECT it belongs to.
        relation: the rows that are matched.
        names: of the variables.
        own: the variable whose condition it is; None for measures.
    """

    def __init__(self, select: SelectBinder, relation: Relation, names: Sequence[str], own: int | None) -> None:
        super().__init__(select, relation, "MEASURES" if own is None else "DEFINE")
        self.values: list[MatchValue] = []
        self._names = names
        self._own = own

    def _value(self, value: MatchValue, type_: DataType) -> InputRef:
        if value not in self.values:
            self.values.append(value)
        return InputRef(self.values.index(value), type_, "")

    def _of_row(self, variable: int, expr: Expr, last: bool = True, offset: int = 0) -> Expr:
        # The row that is tested is there; a variable may have matched no row yet, or none at all.
        there = last and not offset and (variable == _ALL or variable == self._own)
        type_ = expr.type.materialized()
        return self._value(MatchValue(variable, expr, last, offset), type_ if there else type_.null())

    def intercept(self, node: exp.Expression) -> Expr | None:
        if not isinstance(node, exp.Anonymous):
            return None
        name = str(node.this).upper()
        if name in _NAVIGATION:
            return self._navigation(name, node)
        if name == "MATCH_ROWTIME":
            return self._rowtime(node)
        if name == "MATCH_PROCTIME":
            found = bind_call("PROCTIME", ())
            return replace(found, type=_PROCTIME) if isinstance(found, Call) else found
        if name == "FINAL":
            # One row a match is given when the match is whole, so that all values are the final ones.
            return self.binder.bind(node.expressions[0])
        if name in ("CLASSIFIER", "MATCH_NUMBER"):
            raise error_at(node, f"{name}() is not supported yet.")
        return None

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        scope = _RowScope(self.select, self.relation, self._names)
        found = scope.resolve_column(parts, node)
        return self._of_row(scope.variable(node), found)

    def _navigation(self, name: str, node: exp.Anonymous) -> Expr:
        if name in ("PREV", "NEXT"):
            raise error_at(node, f"{name}: Flink does not support physical offsets within partition.")
        arguments = node.expressions
        if len(arguments) not in (1, 2):
            raise error_at(node, f"{name} takes a value of rows, and how many rows from the {name.lower()} one")
        offset: Any = 0
        if len(arguments) == 2:
            bound = self.binder.bind(arguments[1])
            if not isinstance(bound, Literal) or not isinstance(bound.value, int) or bound.value < 0:
                raise error_at(arguments[1], f"the offset of {name} has to be a constant that is not negative")
            offset = bound.value
        scope = _RowScope(self.select, self.relation, self._names)
        found = scope.binder.bind(arguments[0])
        return self._of_row(scope.variable(node), found, name == "LAST", offset)

    def _rowtime(self, node: exp.Anonymous) -> Expr:
        schema = self.relation.rel.schema
        times = schema.rowtimes
        if node.expressions:
            found = FromScope(self.select, self.relation, "MATCH_ROWTIME").binder.bind(node.expressions[0])
            if not found.type.is_rowtime or not isinstance(found, InputRef):
                raise error_at(node, "The function MATCH_ROWTIME requires argument to be a row time attribute type")
            return self._value(MatchValue(_ALL, found), found.type)
        if not times:
            raise error_at(node, "MATCH_ROWTIME() needs a table with an event-time column")
        return self._value(MatchValue(_ALL, schema.ref(times[0])), schema[times[0]].type.not_null())

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        if syntax.distinct:
            raise error_at(node, "DISTINCT is not supported in aggregates of MATCH_RECOGNIZE")
        scope = _RowScope(self.select, self.relation, self._names)
        call = scope.aggregate_call(syntax, may_be_empty=True)
        return self._value(MatchValue(scope.variable(node), call=call), call.type)

    def bind_window(self, node: exp.Window) -> Expr:
        raise error_at(node, "OVER is not allowed in MATCH_RECOGNIZE")

    def bind_subquery(self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        raise error_at(node, "Subqueries are not allowed in MATCH_RECOGNIZE")


def _variable(parts: tuple[str, ...], names: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """The variable that a name begins with, and the rest of it."""
    if len(parts) > 1 and parts[0] in names:
        return names.index(parts[0]), parts[1:]
    return _ALL, parts
