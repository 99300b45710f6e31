"""GROUP BY: keys, grouping sets, and the legacy group windows TUMBLE(ts, size), HOP, SESSION."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.expr.nodes import Expr, InputRef, Literal
from streamline.table.logical import GroupWindow, RowSchema, WindowSpec
from streamline.table.parse import error_at

if TYPE_CHECKING:
    from streamline.table.bind.query_scope import FromScope

__all__ = ("Grouping", "bind_grouping", "milliseconds_of")


@dataclass(frozen=True, slots=True)
class Grouping:
    """What rows are grouped by.

    Attributes:
        keys: the expressions, as written and bound.
        sets: grouping sets as positions in `keys`; empty for a plain GROUP BY.
        window: a legacy group window, as written and bound.
    """

    keys: tuple[tuple[exp.Expression, Expr], ...]
    sets: tuple[tuple[int, ...], ...] = ()
    window: tuple[exp.Anonymous, GroupWindow] | None = None

    def group_window(self, properties: tuple[str, ...]) -> GroupWindow | None:
        """The window with the properties that were asked for."""
        return None if self.window is None else replace(self.window[1], properties=properties)


_WINDOWS: Final = ("TUMBLE", "HOP", "SESSION")


def bind_grouping(group: exp.Group | None, scope: FromScope, schema: RowSchema) -> Grouping:
    """Bind a GROUP BY clause; None is that of a global aggregate."""
    if group is None:
        return Grouping(())
    keys: list[tuple[exp.Expression, Expr]] = []
    window: tuple[exp.Anonymous, GroupWindow] | None = None
    factors: list[list[tuple[int, ...]]] = []

    def key(node: exp.Expression) -> tuple[int, ...]:
        nonlocal window
        if isinstance(node, exp.Tuple):
            return tuple(i for item in node.expressions for i in key(item))
        if _is_window(node, scope):
            assert isinstance(node, exp.Anonymous)
            found = _window(node, scope, schema)
            if window is not None and window[1] != found:
                raise error_at(node, "Only one group window is allowed in GROUP BY")
            window = (node, found)
            return ()
        bound = scope.select.query.value(scope, node)
        for i, (_, known) in enumerate(keys):
            if known == bound:
                return (i,)
        keys.append((node, bound))
        return (len(keys) - 1,)

    def sets(node: exp.Expression) -> list[tuple[int, ...]]:
        if isinstance(node, exp.Rollup):
            items = [key(e) for e in node.expressions]
            return [_flat(items[:n]) for n in range(len(items), -1, -1)]
        if isinstance(node, exp.Cube):
            items = [key(e) for e in node.expressions]
            return [_flat(s) for s in _subsets(items)]
        if isinstance(node, exp.GroupingSets):
            return [s for e in node.expressions for s in sets(e)]
        return [key(node)]

    grouped = False
    for item in group.expressions:
        grouped = grouped or isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets))
        factors.append(sets(item))
    if not grouped:
        return Grouping(tuple(keys), (), window)
    combined = [tuple(dict.fromkeys(_flat(c))) for c in product(*factors)]
    if group.args.get("distinct"):
        combined = list(dict.fromkeys(combined))
    return Grouping(tuple(keys), tuple(combined), window)


def _flat(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(i for p in parts for i in p)


def _subsets(items: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    n = len(items)
    for bits in range((1 << n) - 1, -1, -1):
        yield [items[i] for i in range(n) if bits >> (n - 1 - i) & 1]


def _is_window(node: exp.Expression, scope: FromScope) -> bool:
    return (
        isinstance(node, exp.Anonymous)
        and node.name.upper() in _WINDOWS
        and scope.select.query.catalog.function((node.name,)) is None
    )


def _window(node: exp.Anonymous, scope: FromScope, schema: RowSchema) -> GroupWindow:
    kind = node.name.upper()
    args = node.expressions
    counts = {"TUMBLE": (2, 3), "HOP": (3, 4), "SESSION": (2, 3)}[kind]
    if len(args) not in counts:
        raise error_at(node, f"Invalid number of arguments to function '{kind}'. Was expecting {counts[0]} arguments")
    time = scope.binder.bind(args[0])
    sizes = [milliseconds_of(scope.binder.bind(a), a) for a in args[1 : counts[0]]]
    if not time.type.is_timestamp:
        raise error_at(
            args[0],
            f"Cannot apply '${kind}' to arguments of type '${kind}(<{time.type.null()}>, <INTERVAL>)'. Supported "
            f"form(s): '${kind}(<DATETIME>, <DATETIME_INTERVAL>)'",
        )
    if not isinstance(time, InputRef) or time.type.time_attribute is None:
        raise error_at(
            args[0],
            f"Window can only be defined over a time attribute column, but {args[0].name or 'this'} is "
            f"{time.type.null()}; declare a watermark for it",
        )
    try:
        spec = (
            WindowSpec("HOP", sizes[1], sizes[0])
            if kind == "HOP"
            else WindowSpec("TUMBLE" if kind == "TUMBLE" else "SESSION", sizes[0])
        )
    except ValidationException as e:
        raise error_at(node, str(e)) from None
    return GroupWindow(spec, time.index)


def milliseconds_of(expr: Expr, node: exp.Expression) -> int:
    """The length of a window, which has to be a constant interval of days, hours, minutes or seconds."""
    if not isinstance(expr, Literal) or not expr.type.is_interval:
        raise error_at(node, "the size of a window has to be an interval literal, e.g. INTERVAL '10' SECOND")
    if expr.type.root == "INTERVAL_YEAR_MONTH":
        raise error_at(
            node,
            "Window aggregate only support SECOND, MINUTE, HOUR, DAY as the time unit. MONTH and YEAR time unit are "
            "not supported yet.",
        )
    return int(expr.value)
