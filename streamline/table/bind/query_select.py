"""SELECT: its clauses are bound in the order in which they mean something, then put on top of one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlglot.expressions as exp

from streamline.table import build
from streamline.table.bind.expressions import AggregateSyntax
from streamline.table.bind.query_grouping import Grouping, bind_grouping
from streamline.table.bind.query_names import Relation
from streamline.table.bind.query_scope import (
    CALLS,
    JOINED,
    OUTER,
    PROPERTIES,
    WINDOWS,
    FromScope,
    GroupScope,
    column_name,
)
from streamline.table.bind.query_subquery import SubqueryBinder
from streamline.table.bind.query_windows import WindowBinder
from streamline.table.expr import aggregates
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import AggCall, Expr, InputRef, rewrite, walk
from streamline.table.logical import Rel, RowSchema, Sort, SortKey, Values
from streamline.table.parse import error_at

if TYPE_CHECKING:
    from streamline.table.bind.query import QueryBinder

__all__ = ("Bound", "SelectBinder")


@dataclass(frozen=True, slots=True)
class Bound:
    """A query that was bound.

    Attributes:
        rel: its plan; the first `len(names)` columns are its result, further ones serve `correlations`.
        names: of the result's columns.
        correlations: conditions between the rows of `rel` and the row of the query around (positions from `OUTER`).
        aggregated: it is a global aggregate: one row, even of no rows.
    """

    rel: Rel
    names: tuple[str, ...]
    correlations: tuple[Expr, ...] = ()
    aggregated: bool = False

    @property
    def result(self) -> RowSchema:
        """The columns of the result."""
        return RowSchema(self.rel.schema.fields[: len(self.names)])


@dataclass
class _Item:
    """An item of the select list: its name, and its value with placeholders."""

    name: str | None
    expr: Expr
    node: exp.Expression | None


class SelectBinder(SubqueryBinder, WindowBinder):
    """Binds one SELECT.

    Args:
        query: the binder of queries: tables, functions, WITH.
        node: the SELECT.
        outer: the scope of the query around, where this is a subquery.
    """

    def __init__(self, query: QueryBinder, node: exp.Select, outer: FromScope | None = None) -> None:
        self.query = query
        self.node = node
        self.outer = outer
        self.correlated = False
        self.correlations: list[Expr] = []
        self.calls: list[AggCall] = []
        self.properties: list[str] = []
        self.joined: list[Rel] = []
        self.may_be_empty = False
        self._init_windows()

    # -- the whole -----------------------------------------------------------------------------------------------

    def bind(self) -> Bound:
        """The plan of the SELECT with its ORDER BY and LIMIT."""
        node = self.node
        relation = self._from()
        self.rel = relation.rel
        rows = FromScope(self, relation, "WHERE", self.outer)
        where = node.args.get("where")
        if where is not None:
            self._where(where.this, rows)
        grouping = self._grouping(relation)
        scope = self._scope(relation, grouping, "SELECT")
        items = self._items(relation, scope)
        having = node.args.get("having")
        having_expr = None
        if having is not None:
            having_expr = self._scope(relation, grouping, "HAVING").binder.bind_condition(having.this, "HAVING")
        qualify = node.args.get("qualify")
        qualify_expr = None
        if qualify is not None:
            names = _Aliases(self._scope(relation, grouping, "QUALIFY"), items)
            qualify_expr = names.binder.bind_condition(qualify.this, "QUALIFY")
            if not any(isinstance(e, InputRef) and WINDOWS <= e.index < OUTER for e in walk(qualify_expr)):
                raise error_at(qualify.this, "QUALIFY expression must contain a window function")
        order = self._order(items, relation, grouping)
        return self._assembled(grouping, items, having_expr, qualify_expr, order)

    def _from(self) -> Relation:
        source = self.node.args.get("from_")
        if source is None:
            return Relation(Values(RowSchema(()), ((),)), ())
        return self.query.tables(self).from_clause(source.this, self.node.args.get("joins") or ())

    def _where(self, condition: exp.Expression, scope: FromScope) -> None:
        plain: list[Expr] = []
        predicates: list[exp.Expression] = []
        for part in conjuncts(condition):
            if self.is_predicate(part):
                predicates.append(part)
                continue
            bound = scope.binder.bind_condition(part, "WHERE")
            if any(isinstance(e, InputRef) and e.index >= OUTER for e in walk(bound)):
                self.correlations.append(bound)
            else:
                plain.append(bound)
        if plain:
            self.rel = build.filter_(self.rel, and_(*plain) if len(plain) > 1 else plain[0])
        for part in predicates:
            self.join_predicate(part, scope)

    # -- grouping ------------------------------------------------------------------------------------------------

    def _grouping(self, relation: Relation) -> Grouping | None:
        node = self.node
        group = node.args.get("group")
        if group is None:
            parts = [*node.expressions, *(node.args.get(k) for k in ("having", "qualify", "order"))]
            if node.args.get("having") is None and not any(self.has_aggregate(p) for p in parts if p is not None):
                return None
        scope = FromScope(self, relation, "GROUP BY", self.outer)
        grouping = bind_grouping(group, scope, self.rel.schema)
        self.may_be_empty = any(not s for s in grouping.sets) if grouping.sets else not grouping.keys
        if grouping.window is not None:
            self.may_be_empty = False
        return grouping

    def has_aggregate(self, node: exp.Expression) -> bool:
        """Whether an aggregate of this SELECT stands in the expression (not one with OVER, nor one of a subquery)."""
        stack: list[tuple[exp.Expression, bool]] = [(node, False)]
        while stack:
            current, windowed = stack.pop()
            if isinstance(current, (exp.Subquery, exp.Exists, exp.Select)) and current is not node:
                continue
            if isinstance(current, exp.In) and current.args.get("query") is not None:
                stack.append((current.this, False))
                continue
            if isinstance(current, exp.Anonymous) and not windowed and self._names_aggregate(current):
                return True
            over = isinstance(current, exp.Window)
            inside = windowed and isinstance(current, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup))
            for key, value in current.args.items():
                children = value if isinstance(value, list) else (value,)
                below = key == "this" and (over or inside)
                stack += [(child, below) for child in children if isinstance(child, exp.Expression)]
        return False

    def _names_aggregate(self, node: exp.Anonymous) -> bool:
        path = (*(node.args.get("path") or ()), node.this)
        found = self.query.catalog.function(path)
        if found is not None:
            return bool(found.kind == "aggregate")
        if len(path) > 1:
            return False
        known = aggregates.lookup_aggregate(path[0])
        return known is not None and not known.window_only

    def _scope(self, relation: Relation, grouping: Grouping | None, clause: str) -> FromScope:
        if grouping is None:
            return FromScope(self, relation, clause, self.outer)
        rows = FromScope(self, relation, clause, self.outer)
        return GroupScope(self, rows, grouping.keys, grouping.window, clause)

    # -- items ---------------------------------------------------------------------------------------------------

    def _items(self, relation: Relation, scope: FromScope) -> list[_Item]:
        items: list[_Item] = []
        for node in self.node.expressions:
            if isinstance(node, exp.Star):
                columns = relation.starred()
                if not columns:
                    raise error_at(node, "SELECT * requires a FROM clause")
                for name in {c.name for c in columns if c.twice}:
                    raise error_at(node, f"Column '{name}' is ambiguous")
                items += [_Item(c.name, self._starred(scope, c.expr, c.name, node), None) for c in columns]
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                items += self._qualified_star(node, relation, scope)
            elif isinstance(node, exp.Alias):
                items.append(_Item(node.alias, self.query.value(scope, node.this), node.this))
            else:
                items.append(_Item(column_name(node), self.query.value(scope, node), node))
        return items

    def _starred(self, scope: FromScope, expr: Expr, name: str, node: exp.Expression) -> Expr:
        if not isinstance(scope, GroupScope):
            return expr
        for i, (_, key) in enumerate(scope.keys):
            if key == expr:
                return InputRef(i, key.type, name)
        raise error_at(node, f"Expression '{name}' is not being grouped")

    def _qualified_star(self, node: exp.Column, relation: Relation, scope: FromScope) -> list[_Item]:
        parts = tuple(p.name for p in node.parts if not isinstance(p, exp.Star))
        columns = relation.starred(parts)
        if columns:
            return [_Item(c.name, self._starred(scope, c.expr, c.name, node), None) for c in columns]
        found = relation.find(parts, node)
        if found is None:
            raise error_at(node, f"Table '{'.'.join(parts)}' not found")
        row = scope.binder.fields(found[0], found[1])
        if not row.type.is_composite:
            raise error_at(node, f"'{'.'.join(parts)}' is {row.type.null()}, which has no fields for *")
        return [_Item(f.name, scope.binder.fields(row, (f.name,)), None) for f in row.type.fields]

    # -- ORDER BY ------------------------------------------------------------------------------------------------

    def _order(
        self, items: list[_Item], relation: Relation, grouping: Grouping | None
    ) -> list[tuple[int | Expr, exp.Ordered]]:
        order = self.node.args.get("order")
        found: list[tuple[int | Expr, exp.Ordered]] = []
        for ordered in order.expressions if order is not None else ():
            key = ordered.this
            if isinstance(key, exp.Literal) and not key.args.get("is_string"):
                place = int(key.name) if key.name.isdigit() else 0
                if not 1 <= place <= len(items):
                    raise error_at(key, f"Ordinal out of range: {key.name}; the select list has {len(items)} columns")
                found.append((place - 1, ordered))
                continue
            names = _Aliases(self._scope(relation, grouping, "ORDER BY"), items)
            bound = names.binder.bind(key)
            same = next((i for i, item in enumerate(items) if item.expr == bound), None)
            found.append((bound if same is None else same, ordered))
        return found

    # -- assembling ----------------------------------------------------------------------------------------------

    def _assembled(
        self,
        grouping: Grouping | None,
        items: list[_Item],
        having: Expr | None,
        qualify: Expr | None,
        order: list[tuple[int | Expr, exp.Ordered]],
    ) -> Bound:
        rel = self.rel
        keys = 0
        correlations = list(self.correlations)
        if grouping is not None:
            rel, correlations = self._aggregated(grouping, correlations)
            keys = len(grouping.keys)
        places = {}
        for i in range(len(self.calls)):
            places[CALLS + i] = keys + i
        for i in range(len(self.properties)):
            places[PROPERTIES + i] = keys + len(self.calls) + i
        for i, sub in enumerate(self.joined):
            places[JOINED + i] = len(rel.schema)
            rel = build.join(rel, sub, "LEFT")
        if having is not None:
            rel = build.filter_(rel, settled(having, places))
        rel = self.add_windows(rel, places)
        if qualify is not None:
            rel = build.filter_(rel, settled(qualify, places))
        exprs = [settled(i.expr, places) for i in items]
        names = [item.name if item.name is not None else f"EXPR${i}" for i, item in enumerate(items)]
        hidden = [settled(e, places) for e, _ in order if not isinstance(e, int)]
        inner, correlations = _inner_columns(correlations, len(exprs) + len(hidden))
        all_exprs = [*exprs, *hidden, *inner]
        all_names = [*names, *(f"$o{i}" for i in range(len(hidden))), *(f"$c{i}" for i in range(len(inner)))]
        rel = build.project(rel, all_exprs, all_names)
        if self.node.args.get("distinct") is not None:
            if hidden:
                raise error_at(order[0][1], "ORDER BY of SELECT DISTINCT takes only columns of the select list")
            rel = build.distinct(rel)
        place = len(exprs)
        sort: list[SortKey] = []
        for e, ordered in order:
            column = e if isinstance(e, int) else place
            place += not isinstance(e, int)
            sort.append(sort_key(column, ordered))
        rel = self._limited(rel, tuple(sort))
        if hidden:
            kept = [*range(len(exprs)), *range(len(exprs) + len(hidden), len(all_exprs))]
            rel = build.project(rel, [rel.schema.ref(i) for i in kept], [rel.schema.names[i] for i in kept])
            shift = len(hidden)
            correlations = [_moved(c, shift) for c in correlations]
        aggregated = grouping is not None and not grouping.keys and grouping.window is None
        return Bound(rel, tuple(names), tuple(correlations), aggregated)

    def _limited(self, rel: Rel, keys: tuple[SortKey, ...]) -> Rel:
        offset, limit = limits(self.node)
        if not keys and offset == 0 and limit is None:
            return rel
        return Sort(rel, keys, offset, limit)

    def _aggregated(self, grouping: Grouping, correlations: list[Expr]) -> tuple[Rel, list[Expr]]:
        """The aggregate. A correlated one is grouped by what its rows are compared with, too."""
        keys = [(key, _key_name(tree, i)) for i, (tree, key) in enumerate(grouping.keys)]
        extra, conditions = self.correlated_keys(correlations)
        width = len(keys) + len(self.calls) + len(self.properties)
        calls = [(c, f"EXPR${i}") for i, c in enumerate(self.calls)]
        window = grouping.group_window(tuple(self.properties))
        rel: Rel = build.aggregate(
            self.rel,
            [*keys, *((e, f"$k{i}") for i, e in enumerate(extra))],
            calls,
            sets=grouping.sets,
            window=window,
            window_names=[f"w${p}" for p in self.properties],
        )
        if not extra:
            return rel, conditions
        # The keys that were added go behind everything else.
        n, m = len(keys), len(extra)
        order = [*range(n), *range(n + m, width + m), *range(n, n + m)]
        rel = build.project(rel, [rel.schema.ref(i) for i in order], [rel.schema.names[i] for i in order])

        def place(e: Expr) -> Expr | None:
            return InputRef(width + e.index, e.type) if isinstance(e, InputRef) and e.index < OUTER else None

        return rel, [rewrite(c, place) for c in conditions]


class _Aliases(FromScope):
    """A scope in which the aliases of the select list can be named, too; columns of the same name come first there."""

    def __init__(self, scope: FromScope, items: Sequence[_Item]) -> None:
        super().__init__(scope.select, scope.relation, scope.clause, scope.outer)
        self._scope = scope
        self._items = [i for i in items if i.name is not None]

    def intercept(self, node: exp.Expression) -> Expr | None:
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            found = [i.expr for i in self._items if i.name == node.name]
            if found:
                return found[0]
        return self._scope.intercept(node)

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        return self._scope.resolve_column(parts, node)

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        return self._scope.resolve_function(path, operands, node)

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        return self._scope.bind_aggregate(syntax, node)


_AND: Final = exp.And


def conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions that AND joins, in order."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, _AND):
            stack += [current.args["expression"], current.this]
        else:
            yield current


def settled(expr: Expr, places: dict[int, int]) -> Expr:
    """The expression with placeholders replaced by the columns that they have become."""

    def place(e: Expr) -> Expr | None:
        if isinstance(e, InputRef) and CALLS <= e.index < OUTER:
            return InputRef(places[e.index], e.type, e.name)
        return None

    return rewrite(expr, place)


def sort_key(column: int, ordered: exp.Ordered) -> SortKey:
    """A sort key; NULLs are smallest where nothing else is said."""
    ascending = not ordered.args.get("desc")
    nulls = ordered.args.get("nulls_first")
    return SortKey(column, ascending, ascending if nulls is None else bool(nulls))


def limits(node: exp.Expression) -> tuple[int, int | None]:
    """OFFSET and LIMIT of a query."""
    offset, limit = node.args.get("offset"), node.args.get("limit")
    return (
        int(offset.args["expression"].name) if offset is not None else 0,
        int(limit.args["expression"].name) if limit is not None else None,
    )


def _key_name(tree: exp.Expression, i: int) -> str:
    return column_name(tree) or f"$f{i}"


def _inner_columns(correlations: Sequence[Expr], start: int) -> tuple[list[Expr], list[Expr]]:
    """The columns that correlations read from the inner rows, and the correlations over them, placed from `start`."""
    columns: list[Expr] = []

    def place(e: Expr) -> Expr | None:
        if isinstance(e, InputRef) and e.index < OUTER:
            if e not in columns:
                columns.append(e)
            return InputRef(start + columns.index(e), e.type, e.name)
        return None

    moved = [rewrite(c, place) for c in correlations]
    return columns, moved


def _moved(expr: Expr, by: int) -> Expr:
    def place(e: Expr) -> Expr | None:
        return InputRef(e.index - by, e.type, e.name) if isinstance(e, InputRef) and e.index < OUTER else None

    return rewrite(expr, place)
