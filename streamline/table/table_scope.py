"""What names mean in an expression of the Table API.

`TableScope` is the scope over the columns of a table. `GroupedScope` is the one of a select over groups: plain columns
are grouping keys there, aggregates become columns of the aggregation below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.bind.expressions import AggregateSyntax, ExpressionBinder
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall, Expr, InputRef, rewrite
from streamline.table.expr.registry import bind_call
from streamline.table.logical import Rel, RowSchema
from streamline.table.udf import UserFunction
from streamline.table.user_functions import bind_scalar, bind_user_aggregate

__all__ = ("GroupedScope", "Names", "Session", "TableScope", "plain_errors")


class Session(Protocol):
    """What a scope asks of the table environment."""

    def function(self, path: tuple[str, ...]) -> UserFunction | None:
        """The user's function of that name."""
        ...

    @property
    def eval_context(self) -> EvalContext:
        """The session, for constants that depend on it."""
        ...


_PREFIX: Final = "SQL validation failed. "


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of binding without the words that are about SQL text: there is none here."""
    try:
        yield
    except ValidationException as error:
        text = str(error)
        if not text.startswith(_PREFIX) or text.startswith((_PREFIX + "From line", _PREFIX + "At line")):
            raise
        plain = ValidationException(text[len(_PREFIX) :])
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        raise plain from error.__cause__


def refused(message: str) -> ValidationException:
    """An error that says all there is to say: nothing is put in front of it."""
    error = ValidationException(message)
    error.placed = True  # type: ignore[attr-defined]
    return error


@dataclass(frozen=True)
class Names:
    """The columns of a table by name, and by the names of the tables that were joined into it.

    Attributes:
        schema: the columns.
        tables: by the name of a table, its columns' positions by column name.
    """

    schema: RowSchema
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def list(self) -> str:
        """The names, for messages."""
        return ", ".join(self.schema.names)

    def joined(self, other: Names) -> Names:
        """The columns of both, this one's first."""
        width = len(self.schema)
        tables = dict(self.tables)
        for name, columns in other.tables.items():
            shifted = {c: i + width for c, i in columns.items()}
            tables[name] = shifted if name not in tables else {}
        return Names(RowSchema((*self.schema.fields, *other.schema.fields)), tables)

    def find(self, parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]] | None:
        """The column that a name means, and the fields within it; None where there is none.

        Raises:
            ValidationException: the name means two things.
        """
        name = ".".join(parts)
        columns = self.schema.find(parts[0])
        if len(columns) > 1:
            raise refused(f"Column '{name}' is ambiguous: {len(columns)} columns have the name {parts[0]}")
        plain = (columns[0], parts[1:]) if columns else None
        if len(parts) == 1:
            return plain
        table = self.tables.get(parts[0])
        qualified = (table[parts[1]], parts[2:]) if table is not None and parts[1] in table else None
        if qualified is None or plain is None:
            return qualified or plain
        inner = self.schema[plain[0]].type
        if parts[1] not in [f.name for f in inner.fields]:
            return qualified
        raise refused(
            f"'{name}' is ambiguous: it is column {parts[1]} of table {parts[0]}, and field {parts[1]} of column "
            f"{parts[0]}; rename one of them"
        )


class TableScope:
    """The scope over the columns of a table. Aggregates, windows and subqueries are not expressions here.

    Args:
        names: what columns there are.
        session: functions and constants.
        inline: function objects that the expressions refer to, by the name under which they do.
        clause: where the expression stands, for messages.
    """

    def __init__(
        self,
        names: Names,
        session: Session,
        inline: Mapping[str, Any] | None = None,
        clause: str = "this expression",
    ) -> None:
        self.names = names
        self.session = session
        self.inline = dict(inline or {})
        self.clause = clause
        self.binder = ExpressionBinder(self, session.eval_context)

    def adopt(self, nodes: Iterable[exp.Expression]) -> None:
        """Make the function objects known that these expressions refer to."""
        for node in nodes:
            for found in node.find_all(exp.Anonymous):
                function = found.args.get("function")
                if function is not None:
                    self.inline[found.name] = function

    def bind(self, node: exp.Expression) -> Expr:
        """The bound expression."""
        self.adopt((node,))
        with plain_errors():
            return self.binder.bind(node)

    def bind_condition(self, node: exp.Expression) -> Expr:
        """The bound condition."""
        self.adopt((node,))
        with plain_errors():
            return self.binder.bind_condition(node, self.clause)

    # -- Scope ---------------------------------------------------------------------------------------------------

    def intercept(self, node: exp.Expression) -> Expr | None:
        if not isinstance(node, exp.Anonymous):
            return None
        if node.name in _TABLE_ONLY:
            raise refused(_TABLE_ONLY[node.name].format(self.clause))
        if node.name == "$ROW":  # all columns as one row with their names
            schema = self.names.schema
            return replace(bind_call("ROW", schema.refs()), type=schema.row_type())
        return None

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        found = self.names.find(parts)
        if found is None:
            raise refused(f"Cannot resolve field [{'.'.join(parts)}], input field list:[{self.names.list()}].")
        return self.binder.fields(self.names.schema.ref(found[0]), found[1])

    def function(self, path: tuple[str, ...]) -> UserFunction | None:
        """The user's function that a call names."""
        if len(path) == 1 and path[0] in self.inline:
            found: UserFunction = self.inline[path[0]]
            return found
        return self.session.function(path)

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        found = self.function(path)
        if found is None or found.kind in ("aggregate", "table aggregate"):
            return None
        if found.kind == "table":
            raise refused(
                f"{found.name} is a table function: it cannot stand in {self.clause}; use join_lateral or flat_map"
            )
        return bind_scalar(found, operands())

    def is_aggregate(self, path: tuple[str, ...]) -> bool:
        found = self.function(path)
        return found is not None and found.kind == "aggregate"

    def bind_call(self, syntax: AggregateSyntax, may_be_empty: bool) -> AggCall:
        """An aggregate over the columns of this scope."""
        found = self.function(syntax.path)
        if found is None:
            return self.binder.bind_aggregate_call(syntax, may_be_empty)
        args = [self.binder.bind(a) for a in syntax.arguments]
        condition = None
        if syntax.condition is not None:
            condition = self.binder.bind_condition(syntax.condition, "FILTER")
        return bind_user_aggregate(found, args, syntax.distinct, condition)

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        raise refused(f"Aggregate functions are not supported in {self.clause}: {syntax.path[-1]}")

    def bind_window(self, node: exp.Window) -> Expr:
        raise refused(f"OVER is not supported in {self.clause}; use over_window(...) and .over(...)")

    def bind_subquery(self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        raise refused(f"a subquery is not supported in {self.clause}; only where() takes .in_(table)")


_TABLE_ONLY: Final = {
    "$START": "start is a property of a group window; there is none in {}",
    "$END": "end is a property of a group window; there is none in {}",
    "$ROWTIME": "rowtime is a property of a group window, or marks a field in from_data_stream; it is neither in {}",
    "$PROCTIME": "proctime is a property of a group window, or marks a field in from_data_stream; it is neither in {}",
    "$OVER": "over() refers to a window of over_window(...); there is none in {}",
    "$FLATTEN": "flatten gives several columns: it can only stand for itself in select(...), not in {}",
    "$WITH_COLUMNS": "with_columns gives several columns: it can only stand for itself in select(...), not in {}",
    "$WITHOUT_COLUMNS": "without_columns gives several columns: it can only stand for itself in select(...), not in {}",
    "$RANGE": "range_ can only stand in with_columns(...) and without_columns(...), not in {}",
    "$ROWS": "row_interval can only be the size of a window, not stand in {}",
}

#: Positions from here on are aggregates, from `PROPERTIES` on window properties: where they come to stand is known
#: when all expressions are bound.
CALLS: Final = 1_000_000
PROPERTIES: Final = 2_000_000

#: Calls that name a property of the group window.
_PROPERTY: Final = {"$START": "start", "$END": "end", "$ROWTIME": "rowtime", "$PROCTIME": "proctime"}


class GroupedScope(TableScope):
    """The scope of a select over groups.

    Args:
        input: the scope over the rows that are grouped.
        keys: the grouping expressions as trees (for repetitions of them) and bound.
        key_names: the names of their columns.
        window: the name of the group window, or None.
        property_type: gives the type of a property of the window.
    """

    def __init__(
        self,
        input: TableScope,
        keys: Sequence[tuple[exp.Expression, Expr]],
        key_names: Sequence[str],
        window: str | None = None,
        property_type: Callable[[str], Any] | None = None,
    ) -> None:
        super().__init__(input.names, input.session, input.inline, "a select over groups")
        self.input = input
        self.keys = list(keys)
        self.key_names = list(key_names)
        self.window = window
        self.calls: list[AggCall] = []
        self.properties: list[str] = []
        self._property_type = property_type

    def adopt(self, nodes: Iterable[exp.Expression]) -> None:
        super().adopt(nodes)
        self.input.inline.update(self.inline)

    def intercept(self, node: exp.Expression) -> Expr | None:
        for i, (tree, bound) in enumerate(self.keys):
            if not isinstance(tree, exp.Column) and node == tree:
                return InputRef(i, bound.type, self.key_names[i])
        if isinstance(node, exp.Anonymous) and node.name in _PROPERTY and self._property_type is not None:
            if node.expressions[0].name != self.window:
                raise refused(
                    f"{_PROPERTY[node.name]} is a property of the group window {self.window}, not of "
                    f"{node.expressions[0].name}"
                )
            kind = _PROPERTY[node.name]
            if kind not in self.properties:
                self.properties.append(kind)
            return InputRef(PROPERTIES + self.properties.index(kind), self._property_type(kind), kind)
        return super().intercept(node)

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        for i, name in enumerate(self.key_names):
            if parts[0] == name:
                return self.binder.fields(InputRef(i, self.keys[i][1].type, name), parts[1:])
        found = self.names.find(parts)
        if found is not None:
            for i, (_, bound) in enumerate(self.keys):
                if isinstance(bound, InputRef) and bound.index == found[0]:
                    return self.binder.fields(InputRef(i, bound.type, self.key_names[i]), found[1])
        name = ".".join(parts)
        if found is None and name != self.window:
            raise refused(f"Cannot resolve field [{name}], input field list:[{self.names.list()}].")
        grouped = ", ".join(self.key_names) or "nothing"
        raise refused(
            f"Column '{name}' is neither grouped by nor inside of an aggregate function (grouped by: {grouped}); add "
            "it to group_by, or aggregate it"
        )

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        self.input.inline.update(self.inline)
        call = self.input.bind_call(syntax, may_be_empty=not self.keys and self.window is None)
        if call not in self.calls:
            self.calls.append(call)
        return InputRef(CALLS + self.calls.index(call), call.type, str(call))

    def settled(self, expr: Expr, names: Sequence[str]) -> Expr:
        """The expression over the columns of the aggregation, whose names these are."""
        width = len(self.keys)

        def place(e: Expr) -> Expr | None:
            if not isinstance(e, InputRef):
                return None
            index = e.index
            if index >= PROPERTIES:
                index = width + len(self.calls) + index - PROPERTIES
            elif index >= CALLS:
                index = width + index - CALLS
            return InputRef(index, e.type, names[index])

        return rewrite(expr, place)


def fields_of(expr: Expr) -> list[tuple[str, Expr]]:
    """The fields of a row expression, each as an expression of its own."""
    return [(f.name, bind_call(".", (expr,), (f.name,))) for f in expr.type.fields]


def names_of(rel: Rel, table: str | None = None) -> Names:
    """The names of a plan's columns, under the name of a table."""
    schema = rel.schema
    tables = {table: {n: i for i, n in enumerate(schema.names)}} if table else {}
    return Names(schema, tables)
