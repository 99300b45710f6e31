"""FROM: tables, subqueries, table functions and joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.bind.query_changelog import CHANGELOG_FUNCTIONS, bind_changelog, changelog_input
from streamline.table.bind.query_grouping import milliseconds_of
from streamline.table.bind.query_match import bind_match
from streamline.table.bind.query_names import Named, Relation, shifted
from streamline.table.bind.query_scope import FromScope
from streamline.table.bind.query_subquery import placed
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import Expr, InputRef, Literal
from streamline.table.expr.registry import bind_call
from streamline.table.logical import (
    Correlate,
    Join,
    JoinKind,
    Rel,
    RowSchema,
    TableFunctionCall,
    TemporalJoin,
    Values,
    WindowSpec,
    WindowTvf,
)
from streamline.table.parse import error_at, path_of

if TYPE_CHECKING:
    from streamline.table.bind.query import QueryBinder
    from streamline.table.bind.query_select import SelectBinder

__all__ = ("TableBinder",)

_TRUE: Final = Literal(True, t.BOOLEAN.not_null())


class TableBinder:
    """Binds the tables of one SELECT."""

    def __init__(self, query: QueryBinder, select: SelectBinder) -> None:
        self.query = query
        self.select = select

    def from_clause(self, first: exp.Expression, joins: Sequence[exp.Join]) -> Relation:
        """The rows of `FROM first JOIN …`."""
        relation = self.table(first, None)
        for join in joins:
            relation = self._join(relation, join)
        return relation

    # -- one table -----------------------------------------------------------------------------------------------

    def table(self, node: exp.Expression, left: Relation | None) -> Relation:
        """A table with the joins in its own brackets; `left` is what LATERAL refers to."""
        relation = self._one(node, left)
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join)
        return relation

    def _one(self, node: exp.Expression, left: Relation | None) -> Relation:
        match node:
            case exp.Table():
                if node.args.get("version") is not None:
                    raise error_at(node, "FOR SYSTEM_TIME AS OF can only follow the right table of a join")
                return self._named(node)
            case exp.Subquery():
                found = self._aliased(self._subquery(node.this), node)
                names = [c.name for c in found.columns]
                twice = {name for name in names if names.count(name) > 1}
                return replace(found, columns=tuple(replace(c, twice=c.name in twice) for c in found.columns))
            case exp.Lateral() if isinstance(node.this, exp.Subquery):
                return self._aliased(self._subquery(node.this.this, left), node)
            case exp.Lateral() | exp.Unnest():
                nothing = Relation(Values(RowSchema(()), ((),)), ())
                call = self.query.table_function(node, FromScope(self.select, nothing, "FROM"))
                if call is not None:
                    return self._correlate(nothing, call, node, "INNER", None)
                name = node.this.name.upper()
                if name in CHANGELOG_FUNCTIONS:
                    rows = self.table(changelog_input(node.this), None)
                    return self._aliased(bind_changelog(node.this, rows.rel), node)
                return self._aliased(self._window(node.this, name), node)
            case exp.Values():
                return self._aliased(self.query.bind(node).rel, node)
            case exp.MatchRecognize():
                return self._aliased(bind_match(self.select, self._one(node.this, left), node), node)
            case _:
                raise error_at(node, f"{type(node).__name__.upper()} is not a table that can be read here")

    def _named(self, node: exp.Table) -> Relation:
        """A table by its name."""
        path = tuple(path_of(node))
        options: dict[str, str] = {}
        for hint in node.args.get("hints") or ():
            if hint.name.upper() == "OPTIONS":
                options.update(hint.options)
        rel = self.query.lookup(path, options, node)
        return self._aliased(rel, node, path)

    def _subquery(self, query: exp.Expression, left: Relation | None = None) -> Rel:
        outer = None if left is None else FromScope(self.select, left, "LATERAL")
        bound = self.query.bind(query, outer)
        if bound.correlations:
            raise error_at(query, "a correlated LATERAL subquery is not supported; rewrite it as a join")
        return bound.rel

    def _aliased(self, rel: Rel, node: exp.Expression, path: tuple[str, ...] = ()) -> Relation:
        alias = node.args.get("alias")
        if alias is None:
            return Relation.of(rel, path)
        columns = [c.name for c in alias.args.get("columns") or ()]
        if columns:
            given = rel.schema.names
            if len(columns) != len(given):
                shown = ", ".join(f"'{n}'" for n in given)
                raise error_at(
                    node,
                    "List of column aliases must have same degree as table; table has "
                    f"{len(given)} columns ({shown}), whereas alias list has {len(columns)} columns",
                )
            rel = build.rename(rel, columns)
        name = alias.this.name if alias.this is not None else ""
        return Relation.of(rel, (name,) if name else path)

    # -- windowing functions -------------------------------------------------------------------------------------

    def _window(self, call: exp.Anonymous, name: str) -> Rel:
        args = _arguments(call, name)
        data = args["DATA"]
        partition: list[exp.Expression] = []
        if isinstance(data, exp.TableFromRows):
            partition = list(data.args.get("partition_by") or ())
            inner = data.this
        else:
            inner = data
        if not isinstance(inner, (exp.Table, exp.Subquery)):
            raise error_at(data, f"the first argument of {name} has to be a table: TABLE t, or a query in brackets")
        relation = self.table(inner, None)
        scope = FromScope(self.select, relation, name)
        time = self._descriptor(args["TIMECOL"], relation, name)
        keys = tuple(self._key(p, scope) for p in partition)
        if keys and name != "SESSION":
            raise error_at(call, f"Unsupported partitioning: only SESSION takes PARTITION BY, {name} does not")

        def size(key: str) -> int:
            return milliseconds_of(scope.binder.bind(args[key]), args[key]) if key in args else 0

        try:
            match name:
                case "TUMBLE":
                    spec = WindowSpec("TUMBLE", size("SIZE"), 0, size("OFFSET"))
                case "HOP":
                    spec = WindowSpec("HOP", size("SIZE"), size("SLIDE"), size("OFFSET"))
                case "CUMULATE":
                    spec = WindowSpec("CUMULATE", size("SIZE"), size("STEP"), size("OFFSET"))
                case _:
                    spec = WindowSpec("SESSION", size("GAP"))
            _check_offset(spec)
            return WindowTvf(relation.rel, spec, time, keys)
        except ValidationException as e:
            raise error_at(call, str(e)) from None

    def _descriptor(self, node: exp.Expression, relation: Relation, name: str) -> int:
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "DESCRIPTOR" or len(node.expressions) != 1:
            raise error_at(node, f"the time column of {name} is given as DESCRIPTOR(column)")
        column = node.expressions[0]
        found = [c for c in relation.columns if c.name == column.name]
        if not found or not isinstance(found[0].expr, InputRef):
            raise error_at(column, f"Unknown identifier '{column.name}'")
        return found[0].expr.index

    def _key(self, node: exp.Expression, scope: FromScope) -> int:
        bound = scope.binder.bind(node)
        if not isinstance(bound, InputRef):
            raise error_at(node, "PARTITION BY takes columns here")
        return bound.index

    # -- joins ---------------------------------------------------------------------------------------------------

    def _join(self, left: Relation, node: exp.Join) -> Relation:
        kind: JoinKind = "INNER"
        if node.args.get("side"):
            kind = _SIDES[str(node.args["side"]).upper()]
        right_node = node.this
        found = self._correlated(left, right_node, kind, node)
        if found is not None:
            return found
        if isinstance(right_node, exp.Lateral) and isinstance(right_node.this, exp.Subquery):
            return self._lateral(left, right_node, kind, node)
        version = right_node.args.get("version") if isinstance(right_node, exp.Table) else None
        if version is not None:
            return self._temporal(left, right_node, version, kind, node)
        right = self.table(right_node, left)
        return self._joined(left, right, kind, node)

    def _correlated(self, left: Relation, right: exp.Expression, kind: JoinKind, node: exp.Join) -> Relation | None:
        """A join with a table function of the left side's columns, None where the right side is a table."""
        call = self.query.table_function(right, FromScope(self.select, left, "LATERAL"))
        if call is None:
            return None
        if kind not in ("INNER", "LEFT"):
            raise error_at(node, f"{kind} JOIN with a table function is not possible: it depends on the left side")
        return self._correlate(left, call, right, kind, node.args.get("on"))

    def _lateral(self, left: Relation, node: exp.Lateral, kind: JoinKind, join: exp.Join) -> Relation:
        """`LATERAL (SELECT …)`: a join by what the query is correlated by."""
        bound = self.query.bind(node.this.this, FromScope(self.select, left, "LATERAL"))
        if not bound.correlations:
            return self._joined(left, self._aliased(bound.rel, node), kind, join)
        query = node.this.this
        if any(query.args.get(a) is not None for a in ("order", "limit", "offset", "fetch", "qualify")) or query.find(
            exp.Window
        ):
            raise error_at(
                node, "a correlated query cannot have ORDER BY, LIMIT or OVER windows; rewrite it as a join and Top-N"
            )
        if kind not in ("INNER", "LEFT"):
            raise error_at(join, f"{kind} JOIN with a correlated query is not possible: it depends on the left side")
        if bound.rel.schema.names[len(bound.names) :]:
            # The columns that only serve the correlation have no names that can be used.
            hidden = [f"{name}$" for name in bound.rel.schema.names[len(bound.names) :]]
            rel = build.rename(bound.rel, [*bound.names, *hidden])
        else:
            rel = bound.rel
        shown = self._aliased(build.project(rel, rel.schema.refs()[: len(bound.names)], bound.names), node)
        width = len(left.rel.schema)
        conditions = [placed(c, width) for c in bound.correlations]
        right = Relation(rel, shown.columns)
        on = join.args.get("on")
        if on is not None and not _is_true(on):
            both = Join(left.rel, rel, kind, _TRUE)
            columns = (*left.columns, *(replace(c, expr=shifted(c.expr, width)) for c in right.columns))
            scope = FromScope(self.select, Relation(both, columns), "ON", self.select.outer)
            conditions.append(scope.binder.bind_condition(on, "ON"))
        made = Join(left.rel, rel, kind, and_(*conditions) if len(conditions) > 1 else conditions[0])
        types = [f.type for f in made.schema]
        columns = (*left.columns, *(replace(c, expr=shifted(c.expr, width)) for c in right.columns))
        return Relation(made, tuple(replace(c, expr=shifted(c.expr, 0, types)) for c in columns))

    def _correlate(
        self, left: Relation, call: TableFunctionCall, right: exp.Expression, kind: JoinKind, on: exp.Expression | None
    ) -> Relation:
        rel = Correlate(left.rel, call, "LEFT" if kind == "LEFT" else "INNER")
        width = len(left.rel.schema)
        alias = right.args.get("alias")
        qualifier = (alias.this.name,) if alias is not None and alias.this is not None else ()
        added = tuple(Named(f.name, rel.schema.ref(width + i), qualifier) for i, f in enumerate(call.schema.fields))
        relation = Relation(rel, left.columns + added)
        if on is None or _is_true(on):
            return relation
        condition = FromScope(self.select, relation, "ON", self.select.outer).binder.bind_condition(on, "ON")
        return replace(relation, rel=replace(rel, condition=condition))

    def _temporal(
        self, left: Relation, right_node: exp.Table, version: exp.Version, kind: JoinKind, node: exp.Join
    ) -> Relation:
        """`JOIN t FOR SYSTEM_TIME AS OF left.time`: each row with the version of t at its time."""
        if kind not in ("INNER", "LEFT"):
            raise error_at(node, f"FOR SYSTEM_TIME AS OF goes with INNER and LEFT JOIN, not with {kind}")
        at = version.args["expression"]
        time = FromScope(self.select, left, "FOR SYSTEM_TIME AS OF").binder.bind(at)
        if not isinstance(time, InputRef) or time.type.time_attribute is None:
            raise error_at(
                at,
                "Temporal table join currently only supports 'FOR SYSTEM_TIME AS OF' left table's time attribute "
                f"field; this is {time.type.null()}",
            )
        right = self._named(right_node)
        width = len(left.rel.schema)
        columns = (*left.columns, *(replace(c, expr=shifted(c.expr, width)) for c in right.columns))
        condition: Expr = _TRUE
        if node.args.get("on") is not None:
            both = Relation(Join(left.rel, right.rel, kind, _TRUE), columns)
            scope = FromScope(self.select, both, "ON", self.select.outer)
            condition = scope.binder.bind_condition(node.args["on"], "ON")
        rel = TemporalJoin(left.rel, right.rel, "LEFT" if kind == "LEFT" else "INNER", time.index, condition)
        types = [f.type for f in rel.schema]
        return Relation(rel, tuple(replace(c, expr=shifted(c.expr, 0, types)) for c in columns))

    def _joined(self, left: Relation, right: Relation, kind: JoinKind, node: exp.Join) -> Relation:
        width = len(left.rel.schema)
        types = [f.type for f in left.rel.schema]
        types += [f.type for f in right.rel.schema]
        both = Join(left.rel, right.rel, kind, _TRUE)
        both_columns = [
            *left.columns,
            *(replace(c, expr=shifted(c.expr, width)) for c in right.columns),
        ]
        names = [i.name for i in node.args.get("using") or ()]
        conditioned = names or node.args.get("on") is not None or node.args.get("method")
        if not conditioned and (node.args.get("kind") or "CROSS") != "CROSS":
            raise error_at(
                node, "INNER, LEFT, RIGHT or FULL join requires a condition (NATURAL keyword or ON or USING clause)"
            )
        if str(node.args.get("method") or "").upper() == "NATURAL":
            mine = {c.name for c in left.columns if c.starred}
            names = [c.name for c in right.columns if c.starred and c.name in mine]
        condition: Expr = _TRUE
        if names:
            tests = [self._using(n, left, right, width, node) for n in names]
            condition = and_(*tests) if len(tests) > 1 else tests[0]
        elif node.args.get("on") is not None:
            relation = Relation(both, tuple(both_columns))
            scope = FromScope(self.select, relation, "ON", self.select.outer)
            condition = scope.binder.bind_condition(node.args["on"], "ON")
        rel = Join(left.rel, right.rel, kind, condition)
        outer_types = [f.type for f in rel.schema]
        columns = tuple(replace(c, expr=shifted(c.expr, 0, outer_types)) for c in both_columns)
        return Relation(rel, self._merged(columns, names, kind, len(left.columns)))

    def _using(self, name: str, left: Relation, right: Relation, width: int, node: exp.Join) -> Expr:
        sides: list[Expr] = []
        for relation, by in ((left, 0), (right, width)):
            found = [c for c in relation.columns if c.name == name and c.plain]
            if len(found) != 1:
                problem = "is ambiguous" if found else "not found"
                raise error_at(node, f"Column '{name}' of USING {problem} in the {'right' if by else 'left'} table")
            sides.append(shifted(found[0].expr, by))
        return bind_call("=", sides)

    def _merged(self, columns: tuple[Named, ...], names: Sequence[str], kind: JoinKind, left: int) -> tuple[Named, ...]:
        """The columns with those of USING once, in front."""
        if not names:
            return columns
        first: list[Named] = []
        for name in names:
            a = next(c.expr for c in columns[:left] if c.name == name and c.plain)
            b = next(c.expr for c in columns[left:] if c.name == name and c.plain)
            value = a if kind in ("INNER", "LEFT") else b if kind == "RIGHT" else bind_call("COALESCE", (a, b))
            first.append(Named(name, value))
        rest = [replace(c, plain=False, starred=False) if c.name in names else c for c in columns]
        return (*first, *rest)


_SIDES: Final[dict[str, Any]] = {"LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}

_PARAMETERS: Final = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


def _arguments(call: exp.Anonymous, name: str) -> dict[str, exp.Expression]:
    """The arguments of a windowing function by name."""
    parameters = _PARAMETERS[name]
    required = [p for p in parameters if p != "OFFSET"]
    args: dict[str, exp.Expression] = {}
    for i, argument in enumerate(call.expressions):
        if isinstance(argument, exp.Kwarg):
            key = argument.this.name.upper()
            if key not in parameters:
                raise error_at(argument, f"{name} has no parameter {key}; it has {', '.join(parameters)}")
            args[key] = argument.args["expression"]
        elif i < len(parameters):
            args[parameters[i]] = argument
    if len(call.expressions) > len(parameters) or any(p not in args for p in required):
        raise error_at(
            call,
            f"Invalid number of arguments to function '{name}'. Was expecting {len(required)} arguments: "
            f"{', '.join(required)}",
        )
    return args


def _check_offset(spec: WindowSpec) -> None:
    """The offset is smaller than what the windows of a kind are apart."""
    what, length = ("size", spec.size) if spec.kind == "TUMBLE" else ("step", spec.step)
    if spec.kind == "HOP":
        what = "slide"
    if abs(spec.offset) >= length and spec.kind != "SESSION":
        raise ValidationException(
            f"{spec.kind} table function parameters must satisfy abs(offset) < {what}, but got {what} {length} ms and "
            f"offset {spec.offset} ms."
        )


def _is_true(node: exp.Expression) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)
