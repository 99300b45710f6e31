"""The physical plan: which operators run, with exchanges placed and kinds of change decided.

A node says exactly what is executed; `lower.py` has one builder for each class and `explain.py` one text.
`physical_planner.py` makes the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streamline._core.changes import ChangelogMode, RowKind
from streamline.table import logical as L
from streamline.table import optimized as O
from streamline.table.expr.nodes import AggCall, Call, Expr
from streamline.table.interval_bounds import Bounds
from streamline.table.planner_config import AsyncOptions, MiniBatch

__all__ = ("Node", "mode_of")

INSERT_ONLY: Final = ChangelogMode.insert_only()


@dataclass(frozen=True)
class Node:
    """A physical node; `mode` is the changelog it sends."""

    schema: L.RowSchema
    mode: ChangelogMode

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class _One(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class TableSourceScan(Node):
    scan: L.Scan


@dataclass(frozen=True)
class Values(Node):
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class WatermarkAssigner(_One):
    spec: L.WatermarkSpec


@dataclass(frozen=True)
class Calc(_One):
    condition: Expr | None
    exprs: tuple[Expr, ...]


@dataclass(frozen=True)
class AsyncCalc(_One):
    """The input's columns, and the answer of an async function called with some of them."""

    call: Call
    options: AsyncOptions


@dataclass(frozen=True)
class Exchange(_One):
    """Rows of one key come together; without keys all rows do."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class ChangelogNormalize(_One):
    """An upsert changelog becomes a complete one; `condition` filters what comes out."""

    keys: tuple[int, ...]
    condition: Expr | None
    emit_before: bool


@dataclass(frozen=True)
class DropUpdateBefore(_One):
    pass


@dataclass(frozen=True)
class ToChangelog(_One):
    """Changes as rows, with the code of their kind in a first column."""

    codes: tuple[tuple[RowKind, str], ...]


@dataclass(frozen=True)
class FromChangelog(_One):
    """Rows as the changes that the column `op` says they are; with or without -U."""

    op: int
    codes: tuple[tuple[str, RowKind], ...]
    emit_before: bool


@dataclass(frozen=True)
class Upserts(_One):
    """-U is left out where +U follows, else it becomes -D; `keys` are an upsert key."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class UpsertMaterialize(_One):
    """Of the rows of one key one is seen. `identity` is the upsert key of the rows, `conflict` that of `Sink`."""

    keys: tuple[int, ...]
    identity: tuple[int, ...]
    conflict: str
    table: str


@dataclass(frozen=True)
class Expand(_One):
    projections: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class GroupAggregate(_One):
    keys: tuple[int, ...]
    calls: tuple[AggCall, ...]
    emit_before: bool
    mini_batch: MiniBatch | None
    state_ttl: int


@dataclass(frozen=True)
class WindowAggregate(_One):
    node: O.WindowAggregate


@dataclass(frozen=True)
class GroupWindowAggregate(_One):
    node: O.WindowAggregate
    emit_before: bool


@dataclass(frozen=True)
class WindowTableFunction(_One):
    node: L.WindowTvf


@dataclass(frozen=True)
class Correlate(_One):
    call: L.TableFunctionCall
    condition: Expr | None
    left: bool


@dataclass(frozen=True)
class Rank(_One):
    node: O.Rank
    emit_before: bool


@dataclass(frozen=True)
class Deduplicate(_One):
    partition: tuple[int, ...]
    time: int
    keep_last: bool
    emit_before: bool


@dataclass(frozen=True)
class Match(_One):
    node: L.Match


@dataclass(frozen=True)
class WindowRank(_One):
    node: O.Rank
    local: bool


@dataclass(frozen=True)
class SortLimit(_One):
    node: O.SortLimit
    emit_before: bool


@dataclass(frozen=True)
class TemporalSort(_One):
    keys: tuple[L.SortKey, ...]


@dataclass(frozen=True)
class OverAggregate(_One):
    node: L.Over
    emit_before: bool


@dataclass(frozen=True)
class _Two(Node):
    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Join(_Two):
    """`keys`: (left column, right column, whether NULLs are equal); `unique`: an upsert key of each side or None."""

    kind: L.JoinKind
    keys: tuple[tuple[int, int, bool], ...]
    condition: Expr | None
    unique: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    state_ttl: tuple[int, int]


@dataclass(frozen=True)
class IntervalJoin(_Two):
    kind: L.JoinKind
    bounds: Bounds
    condition: Expr | None
    processing: bool


@dataclass(frozen=True)
class TemporalJoin(_Two):
    """`times`: the time attribute of each side."""

    outer: bool
    keys: tuple[tuple[int, int, bool], ...]
    condition: Expr | None
    times: tuple[int, int]


@dataclass(frozen=True)
class LookupJoin(_One):
    """`keys`: a column of the table, and what it is compared with: an expression over the input."""

    table: L.Scan
    outer: bool
    keys: tuple[tuple[int, Expr], ...]
    condition: Expr | None


@dataclass(frozen=True)
class WindowJoin(_Two):
    """`keys` as of `Join`, without the windows' bounds; `ends`: the columns of the windows' ends."""

    kind: L.JoinKind
    keys: tuple[tuple[int, int, bool], ...]
    condition: Expr | None
    ends: tuple[int, int]
    spec: L.WindowSpec
    local: bool


@dataclass(frozen=True)
class UnionAll(Node):
    all_inputs: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.all_inputs


@dataclass(frozen=True)
class Sink(_One):
    sink: L.Sink


#: Nodes that wait for event time, whatever their parameters.
EVENT_TIME: Final = (WindowTableFunction, WindowRank, WindowJoin, TemporalSort, TemporalJoin)


#: Nodes that send what changes they get, and make none.
PASSING: Final = (
    Calc,
    Exchange,
    DropUpdateBefore,
    Upserts,
    UpsertMaterialize,
    UnionAll,
    Expand,
    WindowTableFunction,
    Correlate,
    LookupJoin,
    Sink,
)


def mode_of(changes: frozenset[str], before: bool) -> ChangelogMode:
    """The changelog mode of these changes, with or without -U."""
    kinds = {RowKind.INSERT}
    if "U" in changes:
        kinds.add(RowKind.UPDATE_AFTER)
        if before:
            kinds.add(RowKind.UPDATE_BEFORE)
    if "D" in changes:
        kinds.add(RowKind.DELETE)
    return ChangelogMode(kinds)
