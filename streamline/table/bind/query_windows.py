"""Functions over windows: `… OVER (PARTITION BY … ORDER BY … ROWS …)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlglot.expressions as exp

from streamline.table import build
from streamline.table.bind.query_scope import CALLS, OUTER, WINDOWS, FromScope
from streamline.table.expr.aggregates import lookup_aggregate
from streamline.table.expr.nodes import AggCall, Expr, InputRef, Literal, rewrite
from streamline.table.logical import Over, OverCall, OverFrame, Rel, SortKey
from streamline.table.parse import error_at

if TYPE_CHECKING:
    from streamline.table.bind.query import QueryBinder

__all__ = ("WindowBinder",)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A window function whose parts are bound but have no columns yet."""

    call: AggCall
    partition: tuple[Expr, ...]
    order: tuple[tuple[Expr, exp.Ordered], ...]
    frame: OverFrame


class WindowBinder:
    """The part of a SELECT's binder for functions over windows."""

    query: QueryBinder
    node: exp.Select

    def _init_windows(self) -> None:
        self._windows: list[_Bound] = []

    def bind_window(self, node: exp.Window, scope: FromScope) -> Expr:
        """A window function: a placeholder for the column that it will be."""
        window = self._resolved(node)
        syntax = scope.binder.aggregate(node.this)
        if syntax is None:
            raise error_at(
                node, f"{node.this.name or 'this'} is no aggregate or window function, so OVER cannot follow it"
            )
        if syntax.condition is not None:
            raise error_at(
                node, "OVER must be applied to aggregate function: FILTER cannot stand before it; write a CASE instead"
            )
        call = scope.aggregate_call(syntax, may_be_empty=False)
        known = lookup_aggregate(call.name) if call.udaf is None else None
        order_node = window.args.get("order")
        ordered = order_node.expressions if order_node is not None else []
        if known is not None and known.ordered and not ordered:
            raise error_at(
                node, f"The window rank function requires order by clause with non-constant fields: {call.name}"
            )
        partition = tuple(scope.binder.bind(p) for p in window.args.get("partition_by") or ())
        order = tuple((scope.binder.bind(o.this), o) for o in ordered)
        frame = self._frame(window, bool(order), known is not None and known.ordered, scope)
        bound = _Bound(call, partition, order, frame)
        if bound not in self._windows:
            self._windows.append(bound)
        return InputRef(WINDOWS + self._windows.index(bound), call.type, f"w{self._windows.index(bound)}$o0")

    def _resolved(self, node: exp.Window) -> exp.Window:
        """The window with what a named one adds."""
        alias = node.args.get("alias")
        if alias is None:
            return node
        for known in self.node.args.get("windows") or ():
            if known.this.name == alias.name:
                base = self._resolved(known) if known.args.get("alias") is not None else known
                found = exp.Window(this=node.this)
                for key in ("partition_by", "order", "spec"):
                    found.args[key] = node.args.get(key) or base.args.get(key)
                return found
        raise error_at(node, f"Window '{alias.name}' not found")

    def _frame(self, window: exp.Window, ordered: bool, rank: bool, scope: FromScope) -> OverFrame:
        spec = window.args.get("spec")
        if spec is None:
            # With an order up to the current row and its peers; without one all rows.
            return OverFrame(rows=False, preceding=None, following=0)
        if rank:
            raise error_at(spec, "ROW/RANGE not allowed with RANK, DENSE_RANK, ROW_NUMBER or LAG/LEAD functions")
        if not ordered and spec.args.get("kind") == "RANGE":
            raise error_at(spec, "Window specification must contain an ORDER BY clause")
        rows = spec.args.get("kind") == "ROWS"
        if spec.args.get("start") == "CURRENT ROW":
            raise error_at(spec, "OVER windows that begin at the current row are not supported; begin with n PRECEDING")
        before = self._bound(spec, "start", rows, scope)
        after = self._bound(spec, "end", rows, scope)
        return OverFrame(rows, None if before is None else -before, after)

    def _bound(self, spec: exp.WindowSpec, which: str, rows: bool, scope: FromScope) -> int | None:
        """A bound relative to the current row: below zero before it; None is unbounded."""
        value: Any = spec.args.get(which)
        if value == "UNBOUNDED":
            return None
        if value == "CURRENT ROW" or value is None:
            return 0
        bound = scope.binder.bind(value)
        sign = -1 if spec.args.get(f"{which}_side") == "PRECEDING" else 1
        if not isinstance(bound, Literal) or bound.value is None:
            raise error_at(value, "the bound of a window frame has to be a literal")
        if rows and not bound.type.is_integer:
            raise error_at(value, f"ROWS takes a number of rows, not {bound.type.null()}")
        if not rows and bound.type.root != "INTERVAL_DAY_TIME":
            raise error_at(value, "RANGE takes an interval, e.g. INTERVAL '1' HOUR PRECEDING")
        return sign * int(bound.value)

    def add_windows(self, rel: Rel, places: dict[int, int]) -> Rel:
        """The rows with a column for each window function; `places` learns where they stand."""
        if not self._windows:
            return rel
        exprs: list[Expr] = list(rel.schema.refs())
        names = list(rel.schema.names)

        def settle(expr: Expr) -> Expr:
            def place(e: Expr) -> Expr | None:
                if isinstance(e, InputRef) and CALLS <= e.index < OUTER:
                    return InputRef(places[e.index], e.type, e.name)
                return None

            return rewrite(expr, place)

        def column(expr: Expr) -> InputRef:
            expr = settle(expr)
            if isinstance(expr, InputRef):
                return expr
            if expr not in exprs:
                exprs.append(expr)
                names.append(f"$w{len(exprs)}")
            index = exprs.index(expr)
            return InputRef(index, expr.type, names[index])

        calls: list[OverCall] = []
        for w in self._windows:
            args = tuple(a if isinstance(a, Literal) else column(a) for a in w.call.args)
            condition = None if w.call.filter is None else column(w.call.filter)
            order = tuple(_key(column(e).index, o) for e, o in w.order)
            partition = tuple(column(p).index for p in w.partition)
            calls.append(OverCall(replace(w.call, args=args, filter=condition), partition, order, w.frame))
        below = build.project(rel, exprs, build.unique_names(names))
        for i in range(len(calls)):
            places[WINDOWS + i] = len(exprs) + i
        return Over(below, tuple(calls), tuple(f"w{i}$o0" for i in range(len(calls))))


def _key(column: int, ordered: exp.Ordered) -> SortKey:
    ascending = not ordered.args.get("desc")
    nulls = ordered.args.get("nulls_first")
    return SortKey(column, ascending, ascending if nulls is None else bool(nulls))
