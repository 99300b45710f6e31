"""Tables between `group_by`, `window` or `over_window` and the `select` that makes tables of them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.expr.nodes import AggCall, Expr, InputRef, Literal, rewrite
from streamline.table.expression import Expression
from streamline.table.logical import GroupWindow as LogicalWindow
from streamline.table.logical import (
    Over,
    OverCall,
    OverFrame,
    Rel,
    SortKey,
    WindowSpec,
    window_property_type,
)
from streamline.table.selection import Item, alias_names, items_of, name_of_item, unaliased
from streamline.table.table_scope import (
    CALLS,
    PROPERTIES,
    GroupedScope,
    TableScope,
    fields_of,
    plain_errors,
    refused,
)
from streamline.table.user_functions import array_of_rows, flatten_rows
from streamline.table.windows import GroupWindow, OverWindow

if TYPE_CHECKING:
    from streamline.table.table import Table

__all__ = (
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "WindowGroupedTable",
)


@dataclass(frozen=True)
class _Key:
    node: exp.Expression
    expr: Expr
    name: str


def _keys(scope: TableScope, items: Sequence[Item]) -> list[_Key]:
    keys = []
    for i, item in enumerate(items):
        keys.append(_Key(item.node, scope.bind(item.node), item.name or name_of_item(item.node) or f"_c{i}"))
    return keys


def _interval(expr: Expression, scope: TableScope, what: str) -> tuple[str, int]:
    """("ms", n) for a day-time interval, ("rows", n) for a number of rows."""
    node = expr.ast
    if isinstance(node, exp.Anonymous) and node.name == "$ROWS":
        return "rows", int(node.expressions[0].name)
    bound = scope.bind(node)
    if not isinstance(bound, Literal) or bound.type.root != "INTERVAL_DAY_TIME":
        raise ValidationException(
            f"{what} has to be an interval such as lit(10).minutes, or row_interval(n); it is {expr.text}"
        )
    return "ms", int(bound.value)


class GroupedTable:
    """A table whose rows are grouped."""

    def __init__(self, table: Table, items: Sequence[Item], window: GroupWindow | None = None) -> None:
        self._table = table
        self._scope = table.scope("group_by")
        self._window = window
        self._keys = _keys(self._scope, items)
        self._logical = None if window is None else _logical_window(self._scope, window)

    def select(self, *fields: Expression) -> Table:
        """One row a group: grouping keys, aggregates, properties of the window, and expressions over these."""
        scope = self._grouped()
        items = items_of(fields, self._table.names, self._scope, keys=[k.name for k in self._keys])
        exprs = [scope.bind(item.node) for item in items]
        return self._finish(scope, items, exprs)

    def _grouped(self) -> GroupedScope:
        window = self._logical
        time = None if window is None else self._table.rel.schema[window.time].type
        return GroupedScope(
            self._scope,
            [(k.node, k.expr) for k in self._keys],
            [k.name for k in self._keys],
            None if self._window is None else self._window.name,
            None if time is None else lambda name: window_property_type(time, name),
        )

    def _aggregation(self, scope: GroupedScope, call_names: Sequence[str], property_names: Sequence[str]) -> Rel:
        window = self._logical
        if window is not None:
            window = replace(window, properties=tuple(scope.properties))
        names = build.unique_names([*(k.name for k in self._keys), *call_names, *property_names])
        keys, calls = len(self._keys), len(scope.calls)
        with plain_errors():
            return build.aggregate(
                self._table.rel,
                [(k.expr, n) for k, n in zip(self._keys, names)],
                list(zip(scope.calls, names[keys : keys + calls])),
                window=window,
                window_names=names[keys + calls :],
            )

    def _finish(self, scope: GroupedScope, items: Sequence[Item], exprs: Sequence[Expr]) -> Table:
        # An aggregate that stands for itself takes the name it is given, as it does in SQL.
        given = {item.node: item.name for item in items if item.name}
        width = len(self._keys)
        numbered = _Numbered()
        call_names: list[str] = [""] * len(scope.calls)
        property_names: list[str] = [""] * len(scope.properties)
        for item, expr in zip(items, exprs):
            if isinstance(expr, InputRef) and expr.index >= CALLS and item.node in given:
                group, first = (property_names, PROPERTIES) if expr.index >= PROPERTIES else (call_names, CALLS)
                group[expr.index - first] = group[expr.index - first] or given[item.node] or ""
        call_names = [n or numbered.next() for n in call_names]
        property_names = [n or numbered.next() for n in property_names]
        rel = self._aggregation(scope, call_names, property_names)
        names = rel.schema.names
        settled = [scope.settled(e, names) for e in exprs]
        shown = []
        for i, (item, expr) in enumerate(zip(items, settled)):
            plain = names[expr.index] if isinstance(expr, InputRef) else None
            own = plain if plain is not None and expr.index >= width else name_of_item(item.node)  # type: ignore[union-attr]
            shown.append(item.name or own or plain or f"_c{i}")
        return self._table.derived(build.project(rel, settled, shown))

    def aggregate(self, func: Expression) -> AggregatedTable:
        """One row a group, of the fields of what an aggregate function gives; `select` follows."""
        return AggregatedTable(self, func)

    def flat_aggregate(self, func: Expression) -> FlatAggregateTable:
        """Any number of rows a group, by a table aggregate function; `select` follows."""
        return FlatAggregateTable(self, func)


class _Numbered:
    """EXPR$0, EXPR$1, …"""

    def __init__(self) -> None:
        self._next = 0

    def next(self) -> str:
        self._next += 1
        return f"EXPR${self._next - 1}"


class _RowBased:
    """A grouped table with a function whose result is taken apart into columns."""

    def __init__(self, grouped: GroupedTable, func: Expression) -> None:
        self._grouped = grouped
        self._func = func

    def _call(self, kind: str, what: str) -> tuple[GroupedScope, AggCall, list[str]]:
        grouped = self._grouped
        node = unaliased(self._func.ast)
        scope = grouped._grouped()
        scope.adopt((node,))
        found = scope.function((node.name,)) if isinstance(node, exp.Anonymous) else None
        if kind == "table aggregate" and (found is None or found.kind != kind):
            raise refused(f"flat_aggregate takes a table aggregate function (udtaf), not {self._func.text}")
        with plain_errors():
            if kind == "table aggregate":
                assert found is not None
                args = [scope.input.binder.bind(a) for a in node.expressions]
                scope.calls.append(array_of_rows(found, args))
            else:
                bound = scope.bind(node)
                if not isinstance(bound, InputRef) or not scope.calls:
                    raise refused(f"{what} takes an aggregate function, not {self._func.text}")
        return scope, scope.calls[-1], alias_names(self._func.ast)


class AggregatedTable(_RowBased):
    """A table after `aggregate(...)`."""

    def select(self, *fields: Expression) -> Table:
        """Columns of the grouping keys and of the function's result."""
        scope, call, names = self._call("aggregate", "aggregate")
        rel = self._grouped._aggregation(scope, ["$result"], [])
        keys = len(self._grouped._keys)
        refs = rel.schema.refs()
        result = refs[keys]
        parts = fields_of(result) if call.type.is_composite else [(call.name, result)]
        if names and len(names) != len(parts):
            raise refused(f"{len(names)} names ({', '.join(names)}) for the {len(parts)} columns of {self._func.text}")
        columns = [*rel.schema.names[:keys], *(names or [n for n, _ in parts])]
        exprs: list[Expr] = [*refs[:keys], *(e for _, e in parts)]
        return self._grouped._table.derived(build.project(rel, exprs, columns)).select(*fields)


class FlatAggregateTable(_RowBased):
    """A table after `flat_aggregate(...)`."""

    def select(self, *fields: Expression) -> Table:
        """Columns of the grouping keys and of the function's rows."""
        scope, call, names = self._call("table aggregate", "flat_aggregate")
        rel = self._grouped._aggregation(scope, ["$rows"], [])
        keys = len(self._grouped._keys)
        flat = flatten_rows(rel, keys, call, names)
        return self._grouped._table.derived(flat).select(*fields)


# -- group windows -------------------------------------------------------------------------------------------------


def _logical_window(scope: TableScope, window: GroupWindow) -> LogicalWindow:
    what = {"TUMBLE": "Tumble", "SLIDE": "Slide", "SESSION": "Session"}[window.kind]
    if window.name is None:
        raise ValidationException(f"{what} window has no name: end it with .alias('w')")
    if window.time is None:
        raise ValidationException(f"{what} window {window.name} has no time attribute: say .on(col('rowtime'))")
    time = scope.bind(window.time.ast)
    if not isinstance(time, InputRef) or time.type.time_attribute is None:
        raise ValidationException(
            f"{what} window {window.name}: {window.time.text} is no time attribute, but {time.type.summary(True)}; "
            "declare a watermark for it, or use a proctime column"
        )
    unit, size = _interval(window.size, scope, f"the size of {what} window {window.name}")
    step = 0
    if window.kind == "SLIDE":
        if window.slide is None:
            raise ValidationException(f"Slide window {window.name} has no slide: say .every(lit(5).minutes)")
        step_unit, step = _interval(window.slide, scope, f"the slide of Slide window {window.name}")
        if step_unit != unit:
            raise ValidationException(f"Slide window {window.name}: size and slide must be of the same type")
    if unit == "rows":
        if window.kind == "SESSION":
            raise ValidationException(f"Session window {window.name}: the gap has to be a time interval")
        if not time.type.is_proctime:
            raise ValidationException(
                f"{what} window {window.name}: Event-time grouping windows on row intervals are currently not "
                "supported; use a processing-time attribute"
            )
        kind: Any = "ROWS_TUMBLE" if window.kind == "TUMBLE" else "ROWS_HOP"
    else:
        kind = {"TUMBLE": "TUMBLE", "SLIDE": "HOP", "SESSION": "SESSION"}[window.kind]
    return LogicalWindow(WindowSpec(kind, size, step), time.index)


class GroupWindowedTable:
    """A table with group windows; `group_by` has to follow, with the window's name in it."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window
        _logical_window(table.scope("window"), window)

    def group_by(self, *fields: Expression) -> WindowGroupedTable:
        """Group by the window and by columns."""
        items = items_of(fields, self._table.names, self._table.scope("group_by"))
        others = [i for i in items if not _is_window(i.node, self._window)]
        if len(others) == len(items):
            raise ValidationException(
                f"GroupBy must contain exactly one window alias: add col('{self._window.name}') to group_by"
            )
        return WindowGroupedTable(self._table, others, self._window)


def _is_window(node: exp.Expression, window: GroupWindow) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name == window.name


class WindowGroupedTable(GroupedTable):
    """A table that is grouped by a window, and perhaps by columns."""


# -- over windows --------------------------------------------------------------------------------------------------


class _OverScope(TableScope):
    """The scope of a select over `over_window`: `x.sum.over("w")` becomes a column of the windowed table."""

    def __init__(self, base: TableScope, windows: Sequence[OverWindow]) -> None:
        super().__init__(base.names, base.session, base.inline, "select")
        self._windows = {w.name: w for w in windows}
        self._base = base
        self.calls: list[OverCall] = []
        self.extra: list[Expr] = []

    def intercept(self, node: exp.Expression) -> Expr | None:
        if not isinstance(node, exp.Anonymous) or node.name != "$OVER":
            return super().intercept(node)
        function, name = node.expressions
        window = self._windows.get(name.name)
        if window is None:
            known = ", ".join(str(n) for n in self._windows)
            raise refused(f"there is no window {name.name} here; over_window defines {known}")
        syntax = self.binder.aggregate(function)
        if syntax is None:
            raise refused(f"over('{name.name}') takes an aggregate function")
        call = self._base.bind_call(syntax, may_be_empty=False)
        over = OverCall(call, *self._frame(window))
        if over not in self.calls:
            self.calls.append(over)
        width = len(self.names.schema)
        return InputRef(CALLS + self.calls.index(over) + width, call.type, str(call))

    def _column(self, expression: Expression) -> int:
        bound = self._base.bind(expression.ast)
        if isinstance(bound, InputRef):
            return bound.index
        if bound not in self.extra:
            self.extra.append(bound)
        return len(self.names.schema) + self.extra.index(bound)

    def _frame(self, window: OverWindow) -> tuple[tuple[int, ...], tuple[SortKey, ...], OverFrame]:
        assert window.order is not None
        partition = tuple(self._column(p) for p in window.partition)
        order = SortKey(self._column(window.order))
        rows, preceding = self._bound(window.start, window)
        end_rows, following = (rows, 0) if window.end is None else self._bound(window.end, window)
        if rows != end_rows:
            raise refused(f"over window {window.name}: preceding and following must both be ranges, or both rows")
        return partition, (order,), OverFrame(rows, preceding, following)

    def _bound(self, given: Expression | None, window: OverWindow) -> tuple[bool, int | None]:
        word = given.ast.name if given is not None and isinstance(given.ast, exp.Anonymous) else ""
        match word:
            case "$UNBOUNDED_ROW":
                return True, None
            case "$UNBOUNDED_RANGE":
                return False, None
            case "$CURRENT_ROW":
                return True, 0
            case "$CURRENT_RANGE":
                return False, 0
        if given is None:
            return False, None
        unit, amount = _interval(given, self._base, f"the bound of over window {window.name}")
        return unit == "rows", amount


class OverWindowedTable:
    """A table with over windows; `select` follows."""

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        self._table = table
        self._windows = windows
        for w in windows:
            if w.name is None:
                raise ValidationException("an over window has no name: end it with .alias('w')")
            if w.order is None:
                raise ValidationException(f"over window {w.name} has no order: say .order_by(col('rowtime'))")

    def select(self, *fields: Expression) -> Table:
        """One row for each row: its columns, and aggregates over its windows."""
        table = self._table
        scope = _OverScope(table.scope("select"), self._windows)
        items = items_of(fields, table.names, scope)
        exprs = [scope.bind(i.node) for i in items]
        below = table.rel
        if scope.extra:
            names = [*table.rel.schema.names, *(f"$o{i}" for i in range(len(scope.extra)))]
            below = build.project(table.rel, [*table.rel.schema.refs(), *scope.extra], names)
        over: Rel = below
        if scope.calls:
            with plain_errors():
                over = Over(below, tuple(scope.calls), tuple(f"w0$o{i}" for i in range(len(scope.calls))))
        settled = [_placed(e, len(scope.extra)) for e in exprs]
        shown = [item.name or name_of_item(item.node) or f"_c{i}" for i, item in enumerate(items)]
        return table.derived(build.project(over, settled, shown))


def _placed(expr: Expr, shift: int) -> Expr:
    """The expression over the columns of the Over node: the input's, `shift` extra ones, then the calls."""

    def place(e: Expr) -> Expr | None:
        if isinstance(e, InputRef) and e.index >= CALLS:
            return InputRef(e.index - CALLS + shift, e.type, e.name)
        return None

    return rewrite(expr, place)
