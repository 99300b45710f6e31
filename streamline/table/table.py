"""Table: a query that is being put together, and what can be done with its rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import sqlglot.expressions as exp

from streamline._core.changes import ChangelogMode
from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.expression import Expression
from streamline.table.expression_base import call_node, identifier
from streamline.table.expressions import col
from streamline.table.grouped import GroupedTable, GroupWindowedTable, OverWindowedTable
from streamline.table.lateral import lateral
from streamline.table.logical import JoinKind, Rel, Sort, SortKey
from streamline.table.schema import ResolvedSchema, Schema
from streamline.table.selection import (
    Item,
    alias_names,
    as_expressions,
    items_of,
    name_of_item,
    positions,
    unaliased,
)
from streamline.table.table_scope import Names, TableScope, fields_of, names_of, plain_errors, refused
from streamline.table.udf import UserFunction, as_user_function
from streamline.table.windows import GroupWindow, OverWindow

if TYPE_CHECKING:
    from streamline.table.descriptor import TableDescriptor
    from streamline.table.result import CloseableIterator, TableResult
    from streamline.table.statement_set import TablePipeline

__all__ = ("Table", "TableHost")


class TableHost(Protocol):
    """What a table asks of its environment."""

    @property
    def eval_context(self) -> EvalContext: ...
    def function(self, path: tuple[str, ...]) -> UserFunction | None: ...
    def bind_query(self, query: exp.Expression) -> Rel: ...
    def name_table(self, table: Table) -> str: ...
    def explain_table(self, table: Table, details: Sequence[Any]) -> str: ...
    def pipeline(self, table: Table, target: str | TableDescriptor, overwrite: bool) -> TablePipeline: ...
    async def execute_table(self, table: Table) -> TableResult: ...
    def collect_table(self, table: Table) -> CloseableIterator: ...
    def to_data_stream(self, table: Table, target: Any = None) -> Any: ...
    def to_changelog_stream(
        self, table: Table, target_schema: Any = None, changelog_mode: ChangelogMode | None = None
    ) -> Any: ...


class Table:
    """A query over the tables and streams of an environment. Every method gives a new table; nothing runs.

    Errors of names and types come from the method that made them.
    """

    def __init__(
        self, host: TableHost, rel: Rel, names: Names | None = None, resolved: ResolvedSchema | None = None
    ) -> None:
        self._host = host
        self.rel = rel
        #: Its columns by name, and by the names of joined tables.
        self.names = names if names is not None else names_of(rel)
        self._resolved = resolved
        self._name: str | None = None

    # -- how other parts make tables -----------------------------------------------------------------------------

    @property
    def host(self) -> TableHost:
        """The environment it belongs to."""
        return self._host

    def derived(self, rel: Rel, names: Names | None = None) -> Table:
        """Another table of the same environment."""
        return Table(self._host, rel, names)

    def scope(self, clause: str) -> TableScope:
        """The scope of an expression over its columns."""
        return TableScope(self.names, self._host, clause=clause)

    def as_query(self) -> exp.Expression:
        """A query of its rows, for SQL trees."""
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=identifier(self._registered()))))

    def _registered(self) -> str:
        if self._name is None:
            self._name = self._host.name_table(self)
        return self._name

    def __str__(self) -> str:
        """A name under which SQL text can refer to it: `f"SELECT * FROM {table}"`."""
        return f"`{self._registered()}`"

    def __repr__(self) -> str:
        return f"Table({self.rel.schema})"

    def __getattr__(self, name: str) -> Expression:
        if not name.startswith("_") and name in self.rel.schema.names:
            return col(name)
        raise AttributeError(
            f"Table has no method {name!r} and no column of that name; its columns are "
            f"{', '.join(self.rel.schema.names)}"
        )

    # -- columns -------------------------------------------------------------------------------------------------

    def select(self, *fields: Expression | str) -> Table:
        """Columns and expressions; aggregates in it are over all rows.

        Raises:
            ValidationException: an expression that means nothing valid over the columns.
        """
        scope = self.scope("select")
        expressions = as_expressions(fields)
        scope.adopt(e.ast for e in expressions)
        if any(_has_aggregate(e.ast, scope) for e in expressions):
            return GroupedTable(self, ()).select(*expressions)
        items = items_of(expressions, self.names, scope)
        return self._projected(scope, items)

    def _projected(self, scope: TableScope, items: Sequence[Item]) -> Table:
        exprs = [scope.bind(i.node) for i in items]
        shown = [i.name or self._item_name(i.node, e) or f"_c{n}" for n, (i, e) in enumerate(zip(items, exprs))]
        _unique(shown)
        return self.derived(build.project(self.rel, exprs, shown))

    def _item_name(self, node: exp.Expression, bound: Expr) -> str | None:
        if isinstance(bound, InputRef):
            return self.rel.schema.names[bound.index]
        return name_of_item(node)

    def alias(self, field: str, *fields: str) -> Table:
        """Rename the first columns."""
        given = [field, *fields]
        names = list(self.rel.schema.names)
        if len(given) > len(names):
            raise ValidationException(
                f"Aliasing more fields than we actually have: {', '.join(given)} for {', '.join(names)}"
            )
        if "*" in given:
            raise ValidationException("Alias can not accept '*' as name.")
        names[: len(given)] = given
        _unique(names)
        return self.derived(build.rename(self.rel, names))

    def as_(self, field: str, *fields: str) -> Table:
        """Another name of `alias`."""
        return self.alias(field, *fields)

    def add_columns(self, *fields: Expression) -> Table:
        """All columns and new ones, whose names are not there yet."""
        scope = self.scope("add_columns")
        items = items_of(fields, self.names, scope)
        return self._projected(scope, [*self._all(), *items])

    def add_or_replace_columns(self, *fields: Expression) -> Table:
        """All columns and new ones; one whose name is there takes its place."""
        scope = self.scope("add_or_replace_columns")
        items = items_of(fields, self.names, scope)
        named = {i.name or name_of_item(i.node) or f"_c{n}": i for n, i in enumerate(items)}
        kept = [named.pop(name, Item(i.node, name)) for i, name in zip(self._all(), self.rel.schema.names)]
        return self._projected(scope, [*kept, *(Item(i.node, n) for n, i in named.items())])

    def rename_columns(self, *fields: Expression) -> Table:
        """Columns under other names: `col("a").alias("b")`."""
        names = list(self.rel.schema.names)
        for f in fields:
            given = alias_names(f.ast)
            if len(given) != 1:
                raise ValidationException(f"rename_columns takes col('old').alias('new'), not {f.text}")
            (place,) = positions((unaliased(f.ast),), self.rel.schema)
            names[place] = given[0]
        _unique(names)
        return self.derived(build.rename(self.rel, names))

    def drop_columns(self, *fields: Expression | str) -> Table:
        """All columns but these."""
        nodes: list[exp.Expression] = []
        for f in as_expressions(fields):
            node = f.ast
            with_columns = isinstance(node, exp.Anonymous) and node.name == "$WITH_COLUMNS"
            nodes += node.expressions if with_columns else [node]
        out = set(positions(nodes, self.rel.schema))
        kept = [i for n, i in enumerate(self._all()) if n not in out]
        return self._projected(self.scope("drop_columns"), kept)

    def _all(self) -> list[Item]:
        return [Item(exp.Column(this=identifier(n))) for n in self.rel.schema.names]

    # -- rows ----------------------------------------------------------------------------------------------------

    def where(self, predicate: Expression) -> Table:
        """The rows for which the condition is TRUE."""
        if any(node.args.get("query") is not None for node in predicate.ast.find_all(exp.In)):
            query = self.as_query()
            query.set("where", exp.Where(this=predicate.ast.copy()))
            with plain_errors():
                return self.derived(self._host.bind_query(query), self.names)
        condition = self.scope("where").bind_condition(predicate.ast)
        with plain_errors():
            return self.derived(build.filter_(self.rel, condition), self.names)

    def filter(self, predicate: Expression) -> Table:
        """Another name of `where`."""
        return self.where(predicate)

    def distinct(self) -> Table:
        """Each row once."""
        return self.derived(build.distinct(self.rel), self.names)

    def order_by(self, *fields: Expression | str) -> Table:
        """Rows in order: by event time, or with `fetch` after it."""
        scope = self.scope("order_by")
        exprs: list[Expr] = list(self.rel.schema.refs())
        names = list(self.rel.schema.names)
        keys = []
        for f in as_expressions(fields):
            node = f.ast
            descending = isinstance(node, exp.Ordered) and bool(node.args.get("desc"))
            bound = scope.bind(node.this if isinstance(node, exp.Ordered) else node)
            if not isinstance(bound, InputRef):
                exprs.append(bound)
                names.append(f"$s{len(exprs)}")
                bound = InputRef(len(exprs) - 1, bound.type)
            keys.append(SortKey(bound.index, not descending, not descending))
        rel = Sort(build.project(self.rel, exprs, names), tuple(keys))
        width = len(self.rel.schema)
        if len(exprs) == width:
            return self.derived(rel, self.names)
        return self.derived(build.project(rel, rel.schema.refs()[:width], names[:width]), self.names)

    def offset(self, offset: int) -> Table:
        """Without the first rows."""
        if offset < 0:
            raise ValidationException(f"Offset should be greater than or equal 0, not {offset}")
        if isinstance(self.rel, Sort) and not self.rel.offset and self.rel.limit is None:
            return self.derived(replace(self.rel, offset=offset), self.names)
        return self.derived(Sort(self.rel, (), offset), self.names)

    def fetch(self, fetch: int) -> Table:
        """The first rows."""
        if fetch < 0:
            raise ValidationException(f"FETCH should be greater than or equal 0, not {fetch}")
        if isinstance(self.rel, Sort) and self.rel.limit is None:
            return self.derived(replace(self.rel, limit=fetch), self.names)
        return self.derived(Sort(self.rel, (), 0, fetch), self.names)

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """The first rows behind an offset."""
        return self.offset(offset).fetch(fetch) if offset else self.fetch(fetch)

    # -- groups and windows --------------------------------------------------------------------------------------

    def group_by(self, *fields: Expression | str) -> GroupedTable:
        """Rows of equal values together; `select` follows."""
        return GroupedTable(self, items_of(fields, self.names, self.scope("group_by")))

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Windows to group by: `Tumble`, `Slide` or `Session`."""
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Windows around each row: `Over`; `select` follows."""
        return OverWindowedTable(self, over_windows)

    # -- joins ---------------------------------------------------------------------------------------------------

    def join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Pairs of rows for which the condition is TRUE. The tables have no column name in common."""
        return self._join(right, "INNER", join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """As `join`, and rows of this table without a partner."""
        return self._join(right, "LEFT", join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """As `join`, and rows of the other table without a partner."""
        return self._join(right, "RIGHT", join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """As `join`, and rows of either table without a partner."""
        return self._join(right, "FULL", join_predicate)

    def _join(self, right: Table, kind: JoinKind, predicate: Expression | None) -> Table:
        if right._host is not self._host:
            raise ValidationException("Only tables from the same TableEnvironment can be joined.")
        both = sorted(set(self.rel.schema.names) & set(right.rel.schema.names))
        if both:
            raise ValidationException(
                f"join relations with ambiguous names: [{', '.join(both)}]; rename them in one of the tables"
            )
        names = self.names.joined(right.names)
        condition = None
        if predicate is not None:
            condition = TableScope(names, self._host, clause="a join predicate").bind_condition(predicate.ast)
        with plain_errors():
            rel = build.join(self.rel, right.rel, kind, condition)
        return self.derived(rel, replace(names, schema=rel.schema))

    def join_lateral(
        self, table_function_call: Expression | UserFunction, join_predicate: Expression | None = None
    ) -> Table:
        """Each row with every row that a table function gives for it."""
        return self._lateral(table_function_call, "INNER", join_predicate)

    def left_outer_join_lateral(
        self, table_function_call: Expression | UserFunction, join_predicate: Expression | None = None
    ) -> Table:
        """As `join_lateral`, and rows for which the function gives none."""
        return self._lateral(table_function_call, "LEFT", join_predicate)

    def _lateral(
        self, call: Expression | UserFunction, kind: Literal["INNER", "LEFT"], predicate: Expression | None
    ) -> Table:
        expression = call if isinstance(call, Expression) else call(col("*"))
        rel = lateral(self, expression, kind, predicate)
        return self.derived(rel, replace(self.names, schema=rel.schema))

    # -- sets ----------------------------------------------------------------------------------------------------

    def _set(self, right: Table, kind: str, all: bool) -> Table:
        if right._host is not self._host:
            raise ValidationException("Only tables from the same TableEnvironment can be put together.")
        with plain_errors():
            return self.derived(build.set_operation(self.rel, right.rel, kind, all))

    def union(self, right: Table) -> Table:
        """The rows of either table, each once."""
        return self._set(right, "UNION", False)

    def union_all(self, right: Table) -> Table:
        """The rows of both tables."""
        return self._set(right, "UNION", True)

    def intersect(self, right: Table) -> Table:
        """The rows that are in both tables, each once."""
        return self._set(right, "INTERSECT", False)

    def intersect_all(self, right: Table) -> Table:
        """The rows that are in both tables, as often as in both."""
        return self._set(right, "INTERSECT", True)

    def minus(self, right: Table) -> Table:
        """The rows that are not in the other table, each once."""
        return self._set(right, "EXCEPT", False)

    def minus_all(self, right: Table) -> Table:
        """The rows, less those of the other table as often as they are there."""
        return self._set(right, "EXCEPT", True)

    # -- functions of rows ---------------------------------------------------------------------------------------

    def map(self, func: Expression | UserFunction) -> Table:
        """Each row replaced by the row that a scalar function gives."""
        expression = func if isinstance(func, Expression) else self._of_row(func)
        scope = self.scope("map")
        bound = scope.bind(unaliased(expression.ast))
        parts = fields_of(bound) if bound.type.is_composite else [("_c0", bound)]
        given = alias_names(expression.ast)
        if given and len(given) != len(parts):
            raise refused(f"{len(given)} names ({', '.join(given)}) for the {len(parts)} columns of {expression.text}")
        return self.derived(build.project(self.rel, [e for _, e in parts], given or [n for n, _ in parts]))

    def flat_map(self, func: Expression | UserFunction) -> Table:
        """Each row replaced by the rows that a table function gives."""
        expression = func if isinstance(func, Expression) else self._of_row(func)
        rel = lateral(self, expression, "INNER", None, disjoint=False)
        width = len(self.rel.schema)
        return self.derived(build.project(rel, rel.schema.refs()[width:], rel.schema.names[width:]))

    def aggregate(self, func: Expression | UserFunction) -> Any:
        """One row of what an aggregate function gives for all rows; `select` follows."""
        return GroupedTable(self, ()).aggregate(func if isinstance(func, Expression) else self._of_row(func))

    def flat_aggregate(self, func: Expression | UserFunction) -> Any:
        """The rows that a table aggregate function gives for all rows; `select` follows."""
        return GroupedTable(self, ()).flat_aggregate(func if isinstance(func, Expression) else self._of_row(func))

    def _of_row(self, func: Any) -> Expression:
        """The function called with a Row of all columns."""
        return as_user_function(func)(Expression(call_node("$ROW"), "*"))

    # -- changelogs ----------------------------------------------------------------------------------------------

    def to_changelog(self, *arguments: Expression) -> Table:
        """An append-only table of the changes, with the kind in a column: TO_CHANGELOG."""
        return self._changelog("TO_CHANGELOG", arguments)

    def from_changelog(self, *arguments: Expression) -> Table:
        """The table whose changes, with their kind in a column, are the rows: FROM_CHANGELOG."""
        return self._changelog("FROM_CHANGELOG", arguments)

    def _changelog(self, name: str, arguments: Sequence[Expression]) -> Table:
        table = exp.TableFromRows(this=exp.Table(this=identifier(self._registered())), partition_by=[])
        first = exp.Kwarg(this=identifier("input"), expression=table)
        call = exp.Anonymous(this=name, expressions=[first, *(a.ast.copy() for a in arguments)])
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Lateral(this=call, lateral=False)))
        with plain_errors():
            return self.derived(self._host.bind_query(query))

    # -- schema --------------------------------------------------------------------------------------------------

    def get_resolved_schema(self) -> ResolvedSchema:
        """Names and types of the columns, with watermark and primary key where it is a table or stream itself."""
        if self._resolved is not None:
            return self._resolved
        return ResolvedSchema.of(self.rel.schema)

    def get_schema(self) -> ResolvedSchema:
        """Names and types of the columns (PyFlink's TableSchema: both are one here)."""
        return self.get_resolved_schema()

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        sys.stdout.write(f"{self.get_resolved_schema()}\n")

    # -- the way out ---------------------------------------------------------------------------------------------

    def explain(self, *extra_details: Any) -> str:
        """The tree of the query, the optimised plan and what would be executed, as text."""
        return self._host.explain_table(self, extra_details)

    async def execute(self) -> TableResult:
        """Run the query as a job of its own; returns when it runs."""
        return await self._host.execute_table(self)

    def collect(self) -> CloseableIterator:
        """The rows of a job of its own: an async iterator that is an async context manager."""
        return self._host.collect_table(self)

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """The rows on their way into a table, to be executed or put into a statement set."""
        return self._host.pipeline(self, table_path_or_descriptor, overwrite)

    async def execute_insert(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False
    ) -> TableResult:
        """Write the rows into a table by a job of its own; returns when it runs."""
        return await self.insert_into(table_path_or_descriptor, overwrite).execute()

    def to_data_stream(self, target: Any = None) -> Any:
        """The rows as a stream: `t_env.to_data_stream(table, target)`."""
        return self._host.to_data_stream(self, target)

    def to_changelog_stream(
        self, target_schema: Schema | type | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Any:
        """The changes as a stream: `t_env.to_changelog_stream(table, …)`."""
        return self._host.to_changelog_stream(self, target_schema, changelog_mode)


def _has_aggregate(node: exp.Expression, scope: TableScope) -> bool:
    """Whether an aggregate is in the expression, other than one over a window."""
    for found in node.find_all(exp.Anonymous):
        over = found.find_ancestor(exp.Anonymous)
        if over is not None and over.name == "$OVER":
            continue
        if found.name != "$OVER" and scope.binder.aggregate(found) is not None:
            return True
    return False


def _unique(names: Sequence[str]) -> None:
    twice = sorted({n for n in names if list(names).count(n) > 1})
    if twice:
        raise ValidationException(f"Ambiguous column name: {', '.join(twice)}; give each column a name of its own")
