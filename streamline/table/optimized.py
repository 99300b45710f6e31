"""Nodes that only the optimiser makes: more special than those of a query, for which there is an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.table import logical as L
from streamline.table.expr.functions.logic import conjuncts
from streamline.table.expr.nodes import AggCall, Call, Expr, InputRef, Literal

if TYPE_CHECKING:
    from streamline.table.traits import Traits

__all__ = ("AsyncCall", "Rank", "SortLimit", "TemporalSort", "WindowAggregate")


@dataclass(frozen=True)
class AsyncCall(L._Single):
    """The columns of the input, and the answer of an async function.

    Attributes:
        call: its operands are columns.
        name: of the column added.
    """

    call: Call
    name: str

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        return L.RowSchema((*self.input.schema.fields, Field(self.name, self.call.type)))


@dataclass(frozen=True)
class WindowAggregate(L._Single):
    """An aggregate whose groups end with a window: one result a group and window, never updated.

    Attributes:
        keys: grouping columns, those of the window left out.
        calls: aggregates.
        names: of all output columns: keys, aggregates, properties.
        spec: the windows.
        time: the time attribute, or (`attached`) the column of the window's end.
        start: the column of the window's start where attached.
        properties: "start", "end", "rowtime", "proctime" in the order of the output.
        processing: windows go by the clock.
        local: bounds are local times of the session's zone.
        partition: of SESSION: the columns that sessions are made by, a subset of `keys`.
        group_window: the legacy group window that it was made of, or None.
    """

    keys: tuple[int, ...]
    calls: tuple[AggCall, ...]
    names: tuple[str, ...]
    spec: L.WindowSpec
    time: int
    properties: tuple[str, ...]
    attached: bool = False
    start: int | None = None
    processing: bool = False
    local: bool = False
    partition: tuple[int, ...] = ()
    group_window: L.GroupWindow | None = None

    @property
    def emits_updates(self) -> bool:
        """Whether a window's result may be sent more than once."""
        return self.group_window is not None and self.group_window.emits_updates

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        schema = self.input.schema
        types = [schema[k].type for k in self.keys]
        types += [c.type for c in self.calls]
        root = "TIMESTAMP_LTZ" if self.local or self.processing else "TIMESTAMP"
        rowtime = DataType(root, False, precision=3, time_attribute="proctime" if self.processing else "rowtime")
        window = t.timestamp(3).not_null()
        if self.group_window is not None and not self.processing:
            rowtime = rowtime.null()
        types += [window if p in ("start", "end") else rowtime for p in self.properties]
        return L.RowSchema.of(self.names, types)


@dataclass(frozen=True)
class Rank(L._Single):
    """The rows from place `first` to `last` of each partition in an order.

    Attributes:
        partition: columns.
        order: sort keys.
        first, last: places, from 1.
        number: name of a last column with the place; None where nobody asks for it.
        window_end: the column of a window's end, where rows are ranked within windows.
    """

    partition: tuple[int, ...]
    order: tuple[L.SortKey, ...]
    first: int
    last: int
    number: str | None = None
    window_end: int | None = None

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        if self.number is None:
            return self.input.schema
        return L.RowSchema((*self.input.schema.fields, Field(self.number, t.BIGINT.not_null())))

    def changes(self, below: frozenset[str]) -> frozenset[str]:
        """Kinds of change besides INSERT."""
        if self.window_end is not None or (self.deduplicates(below) and self.order[0].ascending):
            return frozenset()
        if not self.order and not below and self.first == 1:
            return frozenset()
        return frozenset("UD")

    def deduplicates(self, below: frozenset[str]) -> bool:
        """Whether the first or last row by a time attribute is asked for: a deduplication."""
        return (
            not below
            and self.first == self.last == 1
            and self.number is None
            and len(self.order) == 1
            and self.input.schema[self.order[0].column].type.time_attribute is not None
        )

    @property
    def own_keys(self) -> tuple[frozenset[int], ...]:
        """Keys that ranking makes."""
        if self.last == 1:
            return (frozenset(self.partition),)
        if self.number is not None:
            return (frozenset((*self.partition, len(self.input.schema))),)
        return ()


@dataclass(frozen=True)
class SortLimit(L._Single):
    """ORDER BY … LIMIT, or LIMIT alone (no keys): the rows after `offset`, `limit` of them."""

    keys: tuple[L.SortKey, ...]
    offset: int
    limit: int | None

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        return self.input.schema

    def changes(self, below: frozenset[str]) -> frozenset[str]:
        """Kinds of change besides INSERT."""
        return frozenset("UD") if self.keys or below else frozenset()


@dataclass(frozen=True)
class TemporalSort(L._Single):
    """ORDER BY with an ascending time attribute first: rows are sent, sorted, as time goes on."""

    keys: tuple[L.SortKey, ...]

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        return self.input.schema


def frame_of(call: L.OverCall) -> L.OverFrame:
    """The frame of a call; a row number counts rows, not peers."""
    return replace(call.frame, rows=True) if call.call.name == "ROW_NUMBER" else call.frame


def over_updates(over: L.Over) -> bool:
    """Whether an OVER aggregate corrects what it sent: its order is not by a time attribute."""
    schema = over.input.schema
    return any(not c.order or schema[c.order[0].column].type.time_attribute is None for c in over.calls)


def equi_pairs(condition: Expr, width: int) -> list[tuple[int, int]]:
    """Pairs of a left and a right column (counted from 0) that a join condition makes equal."""
    found: list[tuple[int, int]] = []
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function.name == "=":
            a, b = part.operands
            if isinstance(a, InputRef) and isinstance(b, InputRef):
                if a.index < width <= b.index:
                    found.append((a.index, b.index - width))
                elif b.index < width <= a.index:
                    found.append((b.index, a.index - width))
    return found


def join_keys(condition: Expr, width: int) -> tuple[list[tuple[int, int, bool]], list[Expr]]:
    """Keys of a join: left column, right column (from 0), whether NULLs are equal; and the rest of the condition."""
    keys: list[tuple[int, int, bool]] = []
    rest: list[Expr] = []
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function.name in ("=", "IS NOT DISTINCT FROM"):
            a, b = part.operands
            if isinstance(a, InputRef) and isinstance(b, InputRef) and (a.index < width) != (b.index < width):
                low, high = (a.index, b.index) if a.index < width else (b.index, a.index)
                keys.append((low, high - width, part.function.name != "="))
                continue
        if not (isinstance(part, Literal) and part.value is True):
            rest.append(part)
    return keys, rest


def is_window_join(join: L.Join, traits: Traits) -> bool:
    """Whether both sides are windowed alike and the condition makes their bounds equal."""
    left, right = traits.window(join.left), traits.window(join.right)
    if left is None or right is None or left.spec != right.spec or left.local != right.local:
        return False
    if None in (left.start, left.end, right.start, right.end):
        return False
    pairs = set(equi_pairs(join.condition, len(join.left.schema)))
    return {(left.start, right.start), (left.end, right.end)} <= pairs


def sorted_text(keys: Sequence[L.SortKey], names: Sequence[str]) -> str:
    """Sort keys as explain prints them."""
    return ", ".join(f"{names[k.column]} {'ASC' if k.ascending else 'DESC'}" for k in keys)
