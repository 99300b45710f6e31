"""What is known of the rows that a plan gives, derived from the bottom up: kinds of change, keys, windows.

* `changes`: whether rows are updated ("U") or deleted ("D") after they were inserted.
* `keys`: sets of columns of which each identifies a row at any time (upsert keys); the empty set is a single row.
* `window`: columns that hold the bounds of a window which the rows belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from streamline._core.changes import RowKind
from streamline.errors import TableException
from streamline.table import logical as L
from streamline.table import optimized as O
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal
from streamline.table.interval_bounds import interval_bounds
from streamline.table.op_codes import FromChangelog, ToChangelog

__all__ = ("Traits", "Window")

NONE: Final[frozenset[str]] = frozenset()
UPDATES: Final = frozenset("U")
ALL: Final = frozenset("UD")

Keys = tuple[frozenset[int], ...]

_LETTERS: Final = {RowKind.UPDATE_AFTER: "U", RowKind.UPDATE_BEFORE: "U", RowKind.DELETE: "D"}


@dataclass(frozen=True, slots=True)
class Window:
    """Rows belong to a window.

    Attributes:
        spec: of the window.
        start, end, time: columns of its bounds and its time attribute; None where they were projected away.
        processing: the window is one of processing time.
        local: bounds are local times of the session zone (the time attribute is a TIMESTAMP_LTZ).
        partition: columns that sessions are made by; None for one that was projected away.
    """

    spec: L.WindowSpec
    start: int | None
    end: int | None
    time: int | None
    processing: bool
    local: bool
    partition: tuple[int | None, ...] = ()

    def moved(self, to: Callable[[int], int | None]) -> Window:
        """The same over other columns."""
        ends = [None if c is None else to(c) for c in (self.start, self.end, self.time)]
        partition = tuple(None if c is None else to(c) for c in self.partition)
        return replace(self, start=ends[0], end=ends[1], time=ends[2], partition=partition)


class Traits:
    """Derives and remembers; plans are immutable."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[L.Rel, Any]] = {}

    def _remembered(self, what: str, rel: L.Rel, derive: Callable[[L.Rel], Any]) -> Any:
        found = self._known.get((what, id(rel)))
        if found is None:
            found = self._known[what, id(rel)] = (rel, derive(rel))
        return found[1]

    # -- kinds of change -----------------------------------------------------------------------------------------

    def changes(self, rel: L.Rel) -> frozenset[str]:
        """Which of "U" and "D" come."""
        result: frozenset[str] = self._remembered("changes", rel, self._changes)
        return result

    def insert_only(self, rel: L.Rel) -> bool:
        """Whether rows are never updated or deleted."""
        return not self.changes(rel)

    def _changes(self, rel: L.Rel) -> frozenset[str]:
        inputs = [self.changes(i) for i in rel.inputs]
        below: frozenset[str] = frozenset().union(*inputs)
        match rel:
            case L.Scan():
                return scan_changes(rel)
            case O.WindowAggregate():
                return UPDATES if rel.emits_updates else NONE
            case L.Values() | L.Match() | ToChangelog():
                return NONE
            case FromChangelog():
                return frozenset(_LETTERS[k] for k in rel.kinds if k in _LETTERS)
            case L.Aggregate(window=window) if window is not None:
                return UPDATES if window.emits_updates else NONE
            case L.Aggregate(calls=calls):
                return ALL if below else (UPDATES if calls else NONE)
            case L.Distinct():
                return below and ALL
            case L.TemporalJoin():
                return inputs[0]
            case L.Join() if O.is_window_join(rel, self) or self.interval(rel):
                return NONE
            case L.Join(kind=kind):
                if kind in ("INNER", "SEMI"):
                    return below if kind == "INNER" or not below else ALL
                return ALL
            case O.Rank() | O.SortLimit():
                return rel.changes(below)
            case L.SetOperation():
                return ALL
            case L.Over():
                return ALL if O.over_updates(rel) else NONE
            case _:
                return below

    def interval(self, join: L.Join) -> bool:
        """Whether a join has time bounds."""
        keys, rest = O.join_keys(join.condition, len(join.left.schema))
        return interval_bounds(join, keys, rest) is not None

    # -- keys ----------------------------------------------------------------------------------------------------

    def keys(self, rel: L.Rel) -> Keys:
        """Sets of columns that each identify a row."""
        result: Keys = self._remembered("keys", rel, lambda r: _minimal(self._keys(r)))
        return result

    def _keys(self, rel: L.Rel) -> Keys:
        match rel:
            case L.Scan():
                return (frozenset(rel.shape.primary_key),) if rel.shape.primary_key else ()
            case L.Project():
                return _projected(self.keys(rel.input), rel.exprs)
            case L.Filter():
                return self.keys(rel.input)
            case L.Aggregate(window=window):
                n = len(rel.keys)
                if window is None:
                    return (frozenset(range(n)),)
                props = [n + len(rel.calls) + i for i, p in enumerate(window.properties) if p in ("start", "end")]
                return tuple(frozenset((*range(n), p)) for p in props)
            case O.WindowAggregate():
                n = len(rel.keys)
                props = [n + len(rel.calls) + i for i, p in enumerate(rel.properties) if p in ("start", "end")]
                return tuple(frozenset((*range(n), p)) for p in props)
            case L.Distinct():
                return (frozenset(range(len(rel.schema))),)
            case L.SetOperation(all=False):
                return (frozenset(range(len(rel.schema))),)
            case L.Join():
                return self._join_keys(rel)
            case L.TemporalJoin():
                return self.keys(rel.left)
            case O.Rank():
                return (*rel.own_keys, *self.keys(rel.input))
            case L.Sort() | O.SortLimit() | O.TemporalSort():
                return self.keys(rel.inputs[0])
            case L.Over() | L.Sink() | O.AsyncCall():
                return self.keys(rel.input)
            case _:
                return ()

    def _join_keys(self, join: L.Join) -> Keys:
        left, right = self.keys(join.left), self.keys(join.right)
        if join.kind in ("SEMI", "ANTI"):
            return left
        width = len(join.left.schema)
        pairs = O.equi_pairs(join.condition, width)
        left_columns, right_columns = {a for a, _ in pairs}, {b for _, b in pairs}
        left_unique = any(k <= left_columns for k in left)
        right_unique = any(k <= right_columns for k in right)
        found: list[frozenset[int]] = []
        if right_unique and join.kind in ("INNER", "LEFT"):
            found += left
        if left_unique and join.kind in ("INNER", "RIGHT"):
            found += [frozenset(c + width for c in k) for k in right]
        found += [a | frozenset(c + width for c in b) for a in left for b in right]
        return tuple(found)

    # -- monotonicity --------------------------------------------------------------------------------------------

    def rising(self, rel: L.Rel, column: int) -> int:
        """1 where updates of a row only make the column larger, -1 only smaller, 0 where nothing is known."""
        match rel:
            case L.Aggregate(window=None, sets=()) if not self.changes(rel.input) and column >= len(rel.keys):
                call = rel.calls[column - len(rel.keys)]
                if call.udaf is None:
                    return {"COUNT": 1, "MAX": 1, "MIN": -1}.get(call.name, 0)
                return 0
            case L.Project():
                expr = rel.exprs[column]
                return self.rising(rel.input, expr.index) if isinstance(expr, InputRef) else 0
            case _:
                return 0

    # -- windows -------------------------------------------------------------------------------------------------

    def window(self, rel: L.Rel) -> Window | None:
        """The window that the rows belong to, None for none."""
        result: Window | None = self._remembered("window", rel, self._window)
        return result

    def _window(self, rel: L.Rel) -> Window | None:
        match rel:
            case L.WindowTvf():
                n = len(rel.input.schema)
                time = rel.input.schema[rel.time].type
                return Window(rel.spec, n, n + 1, n + 2, time.is_proctime, time.root == "TIMESTAMP_LTZ", rel.keys)
            case L.Project():
                inner = self.window(rel.input)
                if inner is None:
                    return None
                places = {e.index: i for i, e in reversed(list(enumerate(rel.exprs))) if isinstance(e, InputRef)}
                return inner.moved(places.get)
            case O.WindowAggregate():
                n = len(rel.keys) + len(rel.calls)
                found = {p: n + i for i, p in enumerate(rel.properties)}
                time_column = found.get("rowtime", found.get("proctime"))
                partition = tuple(rel.keys.index(p) for p in rel.partition) if rel.spec.kind == "SESSION" else ()
                start, end = found.get("start"), found.get("end")
                return Window(rel.spec, start, end, time_column, rel.processing, rel.local, partition)
            case L.Aggregate(window=None, sets=()):
                # Groups of a window are in it, whatever aggregates them.
                inner = self.window(rel.input)
                if inner is None or inner.start not in rel.keys or inner.end not in rel.keys:
                    return None
                at = {k: i for i, k in reversed(list(enumerate(rel.keys)))}
                return inner.moved(at.get)
            case L.Filter() | O.Rank() | L.Sort():
                return self.window(rel.inputs[0])
            case L.Join(kind=("SEMI" | "ANTI")) if self.window(rel.left) and self.window(rel.right):
                return self.window(rel.left)
            case L.Join() if O.is_window_join(rel, self):
                return self.window(rel.left)
            case L.Correlate() | O.AsyncCall():
                return self.window(rel.input)
            case L.Expand():
                # The input's own columns come first, as they are.
                inner = self.window(rel.input)
                return None if inner is None else inner.moved(lambda c: c)
            case _:
                return None


def scan_changes(scan: L.Scan) -> frozenset[str]:
    """The changes of a table: what its changelog mode allows."""
    kinds = scan.shape.changelog.kinds
    found = {"U"} if RowKind.UPDATE_AFTER in kinds else set()
    if RowKind.DELETE in kinds:
        found.add("D")
    if RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds and not scan.shape.primary_key:
        raise TableException(
            f"Table '{'.'.join(scan.name)}' produces a changelog stream that contains UPDATE_AFTER but no "
            "UPDATE_BEFORE. This requires defining a primary key constraint on the table."
        )
    return frozenset(found)


def _projected(keys: Keys, exprs: tuple[Expr, ...]) -> Keys:
    places: dict[int, int] = {}
    for i, e in enumerate(exprs):
        source = _source(e)
        if source is not None:
            places.setdefault(source, i)
    return tuple(frozenset(places[c] for c in k) for k in keys if all(c in places for c in k))


def _source(expr: Expr) -> int | None:
    """The column that an expression gives unchanged, or in a type that holds all its values."""
    if isinstance(expr, InputRef):
        return expr.index
    if isinstance(expr, Call) and expr.function.name == "CAST" and isinstance(expr.operands[0], InputRef):
        inner, outer = expr.operands[0].type, expr.type
        wider = inner.root == outer.root and inner.length <= outer.length and inner.precision <= outer.precision
        if wider or (inner.is_integer and outer.root in ("BIGINT", "VARCHAR") and outer.length in (0, 2147483647)):
            return expr.operands[0].index
    return None


def _minimal(keys: Keys) -> Keys:
    """Without sets that contain another one."""
    unique = list(dict.fromkeys(keys))
    return tuple(k for k in unique if not any(o < k for o in unique))


def is_true(expr: Expr) -> bool:
    """Whether the expression is the literal TRUE."""
    return isinstance(expr, Literal) and expr.value is True
