"""Queries: SELECT, VALUES, set operations and WITH become logical plans."""

from __future__ import annotations

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.bind.context import Catalog
from streamline.table.bind.query_from import TableBinder
from streamline.table.bind.query_names import Relation
from streamline.table.bind.query_scope import FromScope
from streamline.table.bind.query_select import Bound, SelectBinder, limits, sort_key
from streamline.table.bind.query_tables import bind_table_function
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr
from streamline.table.expr.signature import illegal_null, is_null_literal
from streamline.table.logical import Rel, RowSchema, Sort, SortKey, TableFunctionCall, Values
from streamline.table.parse import error_at
from streamline.table.planner_config import PlannerConfig

__all__ = ("QueryBinder",)


class QueryBinder:
    """Binds queries over one catalogue.

    Args:
        catalog: tables and functions.
        config: the session's settings.
        context: for constants that depend on the session.
        with_tables: tables of WITH clauses around.
        untyped_nulls: whether a bare NULL may be a column: where it gets its type from the table it is written into.
    """

    def __init__(
        self,
        catalog: Catalog,
        config: PlannerConfig,
        context: EvalContext,
        with_tables: dict[str, Rel] | None = None,
        untyped_nulls: bool = False,
    ) -> None:
        self.catalog = catalog
        self.config = config
        self.context = context
        self._with = dict(with_tables or {})
        self.untyped_nulls = untyped_nulls
        self.node: exp.Expression = exp.Select()

    def bind(self, node: exp.Expression, outer: FromScope | None = None) -> Bound:
        """The plan of a query.

        Args:
            node: the query's tree.
            outer: the scope of the query around, where it may refer to that one's columns.
        """
        with_ = node.args.get("with_")
        if with_ is None:
            return self._bind(node, outer)
        inner = QueryBinder(self.catalog, self.config, self.context, self._with, self.untyped_nulls)
        if with_.args.get("recursive"):
            raise error_at(with_, "WITH RECURSIVE is not supported")
        for cte in with_.expressions:
            rel = inner.bind(cte.this).rel
            alias = cte.args["alias"]
            columns = [c.name for c in alias.args.get("columns") or ()]
            if columns:
                if len(columns) != len(rel.schema):
                    raise error_at(cte, f"{alias.this.name} has {len(rel.schema)} columns, but {len(columns)} names")
                rel = build.rename(rel, columns)
            inner._with[alias.this.name] = rel
        return inner._bind(node, outer)

    def _bind(self, node: exp.Expression, outer: FromScope | None) -> Bound:
        match node:
            case exp.Select():
                return SelectBinder(self, node, outer).bind()
            case exp.Subquery():
                return self.bind(node.this, outer)
            case exp.Union() | exp.Intersect() | exp.Except():
                rel = self._sorted(self._set_operation(node), node)
            case exp.Values():
                rel = self._sorted(self._values(node), node)
            case _:
                raise error_at(node, f"{type(node).__name__.upper()} is not a query")
        return Bound(rel, rel.schema.names)

    def _set_operation(self, node: exp.Expression) -> Rel:
        left, right = self.bind(node.this).rel, self.bind(node.args["expression"]).rel
        kind = type(node).__name__.upper()
        try:
            return build.set_operation(left, right, kind, not node.args.get("distinct"))
        except ValidationException as e:
            raise error_at(node, str(e)) from None

    def _values(self, node: exp.Values) -> Rel:
        select = SelectBinder(self, exp.Select(), None)
        select.rel = Values(RowSchema(()), ((),))
        scope = FromScope(select, Relation(select.rel, ()), "VALUES")
        rows = [[self.value(scope, e) for e in row.expressions] for row in node.expressions]
        try:
            return build.values(rows, ())
        except ValidationException as e:
            raise error_at(node, str(e)) from None

    def value(self, scope: FromScope, node: exp.Expression) -> Expr:
        """A column's value, which has to have a type."""
        bound = scope.binder.bind(node)
        if is_null_literal(bound) and not self.untyped_nulls:
            raise error_at(node, str(illegal_null()))
        return bound

    def _sorted(self, rel: Rel, node: exp.Expression) -> Rel:
        """ORDER BY and LIMIT of a query that is not a SELECT: by names and positions of its columns."""
        offset, limit = limits(node)
        order = node.args.get("order")
        keys: list[SortKey] = []
        for ordered in order.expressions if order is not None else ():
            key = ordered.this
            if isinstance(key, exp.Literal) and key.name.isdigit():
                if not 1 <= int(key.name) <= len(rel.schema):
                    raise error_at(key, f"Ordinal out of range: {key.name}")
                keys.append(sort_key(int(key.name) - 1, ordered))
                continue
            found = rel.schema.find(key.name) if isinstance(key, exp.Column) else []
            if not found:
                raise error_at(key, f"Column '{key.name}' not found in any table")
            keys.append(sort_key(found[0], ordered))
        if not keys and offset == 0 and limit is None:
            return rel
        return Sort(rel, tuple(keys), offset, limit)

    # -- tables --------------------------------------------------------------------------------------------------

    def tables(self, select: SelectBinder) -> TableBinder:
        """The binder of a FROM clause."""
        return TableBinder(self, select)

    def lookup(self, path: tuple[str, ...], options: dict[str, str], node: exp.Expression) -> Rel:
        """The plan of a table.

        Raises:
            ValidationException: there is none of that name.
        """
        if len(path) == 1 and path[0] in self._with:
            if options:
                raise error_at(node, f"{path[0]} is a query of WITH; OPTIONS can only be given to tables")
            return self._with[path[0]]
        found = self.catalog.table(path, options)
        if found is None:
            raise error_at(node, f"Object '{'.'.join(path)}' not found")
        return found

    def table_function(self, node: exp.Expression, scope: FromScope) -> TableFunctionCall | None:
        """The call of a table function that stands in FROM, None where the node is a table of another kind."""
        return bind_table_function(node, scope, self.catalog)
