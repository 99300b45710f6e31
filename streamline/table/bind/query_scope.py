"""What names mean in the clauses of a SELECT: over the rows of FROM, and over groups.

While the clauses of a SELECT are bound it is not known yet where the results of aggregates, window functions and scalar
subqueries will stand. References to them are given positions from `CALLS`, `WINDOWS`, … on; `select.py` puts the right
ones in when all clauses are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.bind.expressions import AggregateSyntax, ExpressionBinder
from streamline.table.bind.query_names import Relation
from streamline.table.expr import aggregates
from streamline.table.expr.nodes import AggCall, Expr, InputRef
from streamline.table.logical import GroupWindow, window_property_type
from streamline.table.parse import error_at, name_of
from streamline.table.user_functions import bind_scalar, bind_user_aggregate

if TYPE_CHECKING:
    from streamline.table.bind.query_select import SelectBinder

__all__ = ("CALLS", "JOINED", "OUTER", "PROPERTIES", "WINDOWS", "FromScope", "GroupScope")

#: Positions from here on are results of aggregates, properties of the group window, scalar subqueries, window
#: functions, and columns of the query around.
CALLS: Final = 1_000_000
PROPERTIES: Final = 2_000_000
JOINED: Final = 3_000_000
WINDOWS: Final = 4_000_000
OUTER: Final = 5_000_000


class FromScope:
    """Expressions over the rows of FROM.

    Args:
        select: the SELECT it belongs to.
        relation: the rows.
        clause: where the expressions stand, for messages.
        outer: the scope of the query around, for correlated subqueries.
    """

    def __init__(self, select: SelectBinder, relation: Relation, clause: str, outer: FromScope | None = None) -> None:
        self.select = select
        self.relation = relation
        self.clause = clause
        self.outer = outer
        self.binder = ExpressionBinder(self, select.query.context)

    # -- Scope ---------------------------------------------------------------------------------------------------

    def intercept(self, node: exp.Expression) -> Expr | None:
        return None

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        found = self.relation.find(parts, node)
        if found is not None:
            return self.binder.fields(found[0], found[1])
        if self.outer is not None:
            around = self.outer.relation.find(parts, node)
            if around is not None:
                self.select.correlated = True
                expr = around[0]
                if not isinstance(expr, InputRef) or expr.index >= CALLS:
                    raise error_at(node, f"{'.'.join(parts)} cannot be used in a correlated subquery here")
                return self.binder.fields(InputRef(OUTER + expr.index, expr.type, expr.name), around[1])
        raise self.relation.missing(parts, node)

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        found = self.select.query.catalog.function(path)
        if found is not None and found.kind in ("scalar", "async scalar"):
            return bind_scalar(found, operands())
        if found is not None and found.kind in ("table", "table aggregate"):
            raise error_at(node, f"{'.'.join(path)} is a table function: write it as LATERAL TABLE({path[-1]}(...))")
        if found is None and len(path) == 1 and path[0].upper() in _WINDOW_PROPERTIES:
            raise error_at(
                node, f"Unsupported call: {path[0].upper()} needs the same window in GROUP BY, and there is none here"
            )
        if found is None and len(path) == 1 and path[0].upper() in _GROUPING:
            raise error_at(node, f"{path[0].upper()} operator may only occur in an aggregate query")
        return None

    def is_aggregate(self, path: tuple[str, ...]) -> bool:
        found = self.select.query.catalog.function(path)
        return found is not None and found.kind == "aggregate"

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        known = aggregates.lookup_aggregate(syntax.path[-1]) if len(syntax.path) == 1 else None
        if known is not None and known.window_only:
            raise error_at(node, f"OVER clause is necessary for window functions: {known.name}")
        if self.clause == "an aggregate":
            raise error_at(node, "Aggregate expressions cannot be nested")
        raise error_at(node, f"Aggregate expression is illegal in {self.clause} clause")

    def bind_window(self, node: exp.Window) -> Expr:
        if self.clause not in ("SELECT", "QUALIFY", "ORDER BY"):
            raise error_at(node, f"Windowed aggregate expression is illegal in {self.clause} clause")
        return self.select.bind_window(node, self)

    def bind_subquery(self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        return self.select.bind_subquery(kind, operands, query, node, self)

    # -- aggregates ----------------------------------------------------------------------------------------------

    def aggregate_call(self, syntax: AggregateSyntax, may_be_empty: bool) -> AggCall:
        """A call of an aggregate whose arguments are over this scope."""
        found = self.select.query.catalog.function(syntax.path)
        if found is None or found.kind != "aggregate":
            return self.binder.bind_aggregate_call(syntax, may_be_empty)
        args = [self.binder.bind(a) for a in syntax.arguments]
        condition = None
        if syntax.condition is not None:
            condition = self.binder.bind_condition(syntax.condition, "FILTER")
        return bind_user_aggregate(found, args, syntax.distinct, condition)


_WINDOW_PROPERTIES: Final = {
    f"{kind}_{suffix}": (kind, name)
    for kind in ("TUMBLE", "HOP", "SESSION")
    for suffix, name in (("START", "start"), ("END", "end"), ("ROWTIME", "rowtime"), ("PROCTIME", "proctime"))
}
_GROUPING: Final = ("GROUPING", "GROUPING_ID", "GROUP_ID")


class GroupScope(FromScope):
    """Expressions over groups: keys, aggregates, properties of a group window.

    Args:
        select: the SELECT.
        rows: the scope over the rows that are grouped.
        keys: grouping expressions as written and bound over the rows.
        window: a legacy group window and how it was written.
        grouped: whether there is a GROUP BY with keys (a global aggregate has none).
    """

    def __init__(
        self,
        select: SelectBinder,
        rows: FromScope,
        keys: Sequence[tuple[exp.Expression, Expr]],
        window: tuple[exp.Anonymous, GroupWindow] | None,
        clause: str,
    ) -> None:
        super().__init__(select, rows.relation, clause, rows.outer)
        self.rows = rows
        self.keys = list(keys)
        self.window = window
        self.calls: list[AggCall] = select.calls
        self.properties: list[str] = select.properties
        self._arguments = FromScope(select, rows.relation, "an aggregate", rows.outer)
        self._computed = any(not isinstance(bound, InputRef) for _, bound in keys)

    def intercept(self, node: exp.Expression) -> Expr | None:
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)) and not self._computed:
            return None
        if isinstance(node, exp.Column) or (self._computed and self._may_be_key(node)):
            bound = self._over_rows(node)
            if bound is not None:
                for i, (_, key) in enumerate(self.keys):
                    if key == bound:
                        return InputRef(i, bound.type, getattr(bound, "name", ""))
        return None

    def _may_be_key(self, node: exp.Expression) -> bool:
        return any(type(tree) is type(node) for tree, _ in self.keys)

    def _over_rows(self, node: exp.Expression) -> Expr | None:
        try:
            return FromScope(self.select, self.rows.relation, "GROUP BY", self.rows.outer).binder.bind(node)
        except ValidationException:
            return None

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        found = self.rows.relation.find(parts, node)
        if found is None:
            return super().resolve_column(parts, node)
        for i, (_, key) in enumerate(self.keys):
            if key == found[0]:
                name = found[0].name if isinstance(found[0], InputRef) else ""
                return self.binder.fields(InputRef(i, key.type, name), found[1])
        raise error_at(node, f"Expression '{'.'.join(parts)}' is not being grouped")

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        name = path[-1].upper() if len(path) == 1 else ""
        if name in _WINDOW_PROPERTIES:
            return self._property(name, node)
        if name in _GROUPING:
            return self._grouping(name, node)
        return super().resolve_function(path, operands, node)

    def _property(self, name: str, node: exp.Expression) -> Expr:
        kind, what = _WINDOW_PROPERTIES[name]
        if (
            self.window is None
            or self.window[0].name.upper() != kind
            or list(self.window[0].expressions) != list(node.expressions)
        ):
            raise error_at(
                node,
                f"Call to auxiliary group function '{name}' must have matching call to group function '${kind}' "
                "in GROUP BY clause",
            )
        time = self.rows.relation.rel.schema[self.window[1].time].type
        if what == "rowtime" and not time.is_rowtime:
            raise error_at(
                node, f"{name} needs a window over event time, but {kind} is over a processing time attribute"
            )
        if what not in self.properties:
            self.properties.append(what)
        type_ = window_property_type(time, what)
        return InputRef(PROPERTIES + self.properties.index(what), type_, f"w${what}")

    def _grouping(self, name: str, node: exp.Expression) -> Expr:
        keys: list[Expr] = []
        for argument in node.expressions:
            bound = self._over_rows(argument)
            if bound is None or bound not in [k for _, k in self.keys]:
                raise error_at(argument, f"Argument to {name} operator must be a grouped expression")
            keys.append(bound)
        if name == "GROUP_ID":
            return self._added(AggCall("GROUP_ID", (), aggregates.bind_aggregate("COUNT", ()).type), node)
        if not keys:
            raise error_at(
                node, f"Invalid number of arguments to function '{name}'. Was expecting at least 1 arguments"
            )
        return self._added(AggCall("GROUPING", tuple(keys), aggregates.bind_aggregate("COUNT", ()).type), node)

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        known = aggregates.lookup_aggregate(syntax.path[-1]) if len(syntax.path) == 1 else None
        if known is not None and known.window_only:
            raise error_at(node, f"OVER clause is necessary for window functions: {known.name}")
        call = self._arguments.aggregate_call(syntax, may_be_empty=self.select.may_be_empty)
        if call.name == "COUNT" and len(call.args) > 1:
            raise error_at(
                node, "We now only support the count of one field. Count a row of them: COUNT(DISTINCT (a, b))"
            )
        return self._added(call, node)

    def _added(self, call: AggCall, node: exp.Expression) -> Expr:
        if call not in self.calls:
            self.calls.append(call)
        return InputRef(CALLS + self.calls.index(call), call.type, str(call))


def column_name(node: exp.Expression) -> str | None:
    """The name that a select item has without an alias: of a column or field, else None."""
    if isinstance(node, (exp.Column, exp.Dot)):
        parts = name_of(node)
        return None if parts is None else parts[-1]
    return None
