"""The physical plan: which operators run, with exchanges placed and kinds of change decided.

A node says exactly what is executed; `lower.py` has one builder for each class and `explain.py` one text. The decision
that is made here, from the top down, is where -U is sent: a node asks its inputs for it only where it needs it itself
or is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamline._core.changes import ChangelogMode, RowKind
from streamline.errors import TableException
from streamline.table import logical as L
from streamline.table import optimized as O
from streamline.table.expr.nodes import AggCall, Expr, InputRef, input_refs, is_deterministic
from streamline.table.planner_config import MiniBatch, PlannerConfig
from streamline.table.rules.join_conditions import all_of
from streamline.table.traits import Traits

__all__ = ("Node", "Planner")

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
class UnionAll(Node):
    all_inputs: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.all_inputs


@dataclass(frozen=True)
class Sink(_One):
    sink: L.Sink


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


class Planner:
    """Makes the physical plan of optimised logical ones."""

    def __init__(self, config: PlannerConfig, traits: Traits | None = None) -> None:
        self.config = config
        self.traits = traits or Traits()

    def plan(self, rel: L.Rel, before: bool, by_key: bool = False) -> Node:
        """The physical plan of a node.

        Args:
            rel: an optimised logical node.
            before: the consumer needs -U.
            by_key: the consumer applies changes by the rows' own upsert key, so repeats and unknown deletes do no harm.
        """
        build = _BUILDERS.get(type(rel))
        if build is None:
            raise TableException(f"{type(rel).__name__} has no streaming operator")
        return build(self, rel, before, by_key)

    def node_mode(self, rel: L.Rel, before: bool) -> ChangelogMode:
        """The changelog mode that a node has."""
        return mode_of(self.traits.changes(rel), before)

    def exchange(self, node: Node, keys: Sequence[int]) -> Exchange:
        """The rows of a node brought together by columns."""
        return Exchange(node.schema, node.mode, node, tuple(keys))

    # -- builders ------------------------------------------------------------------------------------------------

    def scan(self, rel: L.Scan, before: bool, by_key: bool) -> Node:
        node, upsert = self._source(rel)
        if upsert:
            if by_key and not before:
                return node
            return self._normalize(rel, node, None, before)
        kinds = rel.shape.changelog.kinds
        if not before and RowKind.UPDATE_BEFORE in kinds and RowKind.UPDATE_AFTER in kinds:
            return DropUpdateBefore(node.schema, ChangelogMode(kinds - {RowKind.UPDATE_BEFORE}), node)
        return node

    def _source(self, rel: L.Scan) -> tuple[Node, bool]:
        """The scan with its watermarks, and whether it is an upsert changelog."""
        kinds = rel.shape.changelog.kinds
        self.traits.changes(rel)  # checks the mode
        node: Node = TableSourceScan(rel.schema, ChangelogMode(kinds | {RowKind.INSERT}), rel)
        spec = rel.shape.watermark
        if spec is not None and spec.expression is not None:
            node = WatermarkAssigner(node.schema, node.mode, node, spec)
        return node, RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds

    def _normalize(self, rel: L.Scan, node: Node, condition: Expr | None, before: bool) -> Node:
        keys = rel.shape.primary_key
        mode = mode_of(frozenset("UD"), before)
        return ChangelogNormalize(node.schema, mode, self.exchange(node, keys), keys, condition, before)

    def values(self, rel: L.Values, before: bool, by_key: bool) -> Node:
        return Values(rel.schema, INSERT_ONLY, rel.rows)

    def project(self, rel: L.Project, before: bool, by_key: bool) -> Node:
        condition: Expr | None = None
        below = rel.input
        if isinstance(below, L.Filter):
            condition, below = below.condition, below.input
        return self._calc(below, condition, rel.exprs, rel.schema, before, by_key)

    def filter(self, rel: L.Filter, before: bool, by_key: bool) -> Node:
        return self._calc(rel.input, rel.condition, rel.schema.refs(), rel.schema, before, by_key)

    def _calc(
        self,
        below: L.Rel,
        condition: Expr | None,
        exprs: tuple[Expr, ...],
        schema: L.RowSchema,
        before: bool,
        by_key: bool,
    ) -> Node:
        if condition is not None and isinstance(below, L.Scan) and is_deterministic(condition):
            node, upsert = self._source(below)
            if upsert and not (input_refs(condition) <= set(below.shape.primary_key)):
                # The filter decides on complete rows: a row that fails it after it has passed is deleted.
                node = self._normalize(below, node, condition, before)
                if all(isinstance(e, InputRef) and e.index == i for i, e in enumerate(exprs)) and len(exprs) == len(
                    node.schema
                ):
                    return node
                return Calc(schema, node.mode, node, None, exprs)
        keeps_keys = condition is None and any(
            k <= {e.index for e in exprs if isinstance(e, InputRef)} for k in self.traits.keys(below)
        )
        if condition is not None and self.traits.changes(below):
            # A condition on more than the key needs both images: one may pass where the other does not.
            refs = input_refs(condition)
            before_below = before or not any(refs <= k for k in self.traits.keys(below))
        else:
            before_below = before
        node = self.plan(below, before_below, by_key and keeps_keys)
        mode = mode_of(self.traits.changes(below), before_below) if self.traits.changes(below) else node.mode
        made: Node = Calc(schema, mode, node, condition, exprs)
        if before_below and not before and RowKind.UPDATE_BEFORE in mode.kinds:
            return made
        return made

    def aggregate(self, rel: L.Aggregate, before: bool, by_key: bool) -> Node:
        mini = self.config.mini_batch
        if mini is not None:
            mini.check()
        node = self.exchange(self.plan(rel.input, True), rel.keys)
        ttl = self.config.state_ttl if rel.state_ttl is None else rel.state_ttl
        return GroupAggregate(
            rel.schema, self.node_mode(rel, before), node, rel.keys, rel.calls, before, mini, ttl
        )

    def distinct(self, rel: L.Distinct, before: bool, by_key: bool) -> Node:
        node = self.exchange(self.plan(rel.input, True), range(len(rel.schema)))
        keys = tuple(range(len(rel.schema)))
        return GroupAggregate(
            rel.schema, self.node_mode(rel, before), node, keys, (), before, None, self.config.state_ttl
        )

    def window_aggregate(self, rel: O.WindowAggregate, before: bool, by_key: bool) -> Node:
        node = self.exchange(self.plan(rel.input, True), rel.partition if rel.spec.kind == "SESSION" else rel.keys)
        if rel.group_window is not None:
            return GroupWindowAggregate(rel.schema, self.node_mode(rel, before), node, rel, before)
        if not self.config.prefer_append_only and (
            self.config.early_fire is not None or self.config.late_fire is not None
        ):
            raise TableException(
                "Currently, window table function based aggregate doesn't support early-fire and late-fire "
                "configuration 'table.exec.emit.early-fire.enabled' and 'table.exec.emit.late-fire.enabled'."
            )
        return WindowAggregate(rel.schema, INSERT_ONLY, node, rel)

    def window_tvf(self, rel: L.WindowTvf, before: bool, by_key: bool) -> Node:
        node = self.plan(rel.input, before)
        if rel.spec.kind == "SESSION":
            node = self.exchange(self.plan(rel.input, True), rel.keys)
        return WindowTableFunction(rel.schema, node.mode, node, rel)

    def join(self, rel: L.Join, before: bool, by_key: bool) -> Node:
        width = len(rel.left.schema)
        keys, rest = O.join_keys(rel.condition, width)
        # -U is needed from both sides, unless nobody above asks for it and a row of each key replaces the one before.
        inputs = ((rel.left, {k[0] for k in keys}), (rel.right, {k[1] for k in keys}))
        replaces = [any(columns <= k for k in self.traits.keys(i)) for i, columns in inputs]
        before = before or any("U" in self.traits.changes(i) and not r for (i, _), r in zip(inputs, replaces))
        by_keys = [by_key and not before and r for r in replaces]
        left = self.exchange(self.plan(rel.left, before, by_keys[0]), [k[0] for k in keys])
        right = self.exchange(self.plan(rel.right, before, by_keys[1]), [k[1] for k in keys])
        ttl = self.config.state_ttl
        return Join(
            rel.schema,
            self.node_mode(rel, before),
            left,
            right,
            rel.kind,
            tuple(keys),
            all_of(rest) if rest else None,
            (self._unique(rel.left), self._unique(rel.right)),
            (
                ttl if rel.state_ttl[0] is None else rel.state_ttl[0],
                ttl if rel.state_ttl[1] is None else rel.state_ttl[1],
            ),
        )

    def _unique(self, rel: L.Rel) -> tuple[int, ...] | None:
        """The smallest upsert key."""
        keys = sorted(self.traits.keys(rel), key=len)
        return tuple(sorted(keys[0])) if keys else None

    def union(self, rel: L.Union, before: bool, by_key: bool) -> Node:
        nodes = tuple(self.plan(i, before) for i in rel.inputs)
        kinds: frozenset[RowKind] = frozenset().union(*(n.mode.kinds for n in nodes))
        return UnionAll(rel.schema, ChangelogMode(kinds), nodes)

    def expand(self, rel: L.Expand, before: bool, by_key: bool) -> Node:
        node = self.plan(rel.input, before)
        return Expand(rel.schema, node.mode, node, rel.projections)

    def sink(self, rel: L.Sink, before: bool, by_key: bool) -> Node:
        wanted = rel.changelog.kinds
        changes = self.traits.changes(rel.input)
        node = self.plan(rel.input, before=RowKind.UPDATE_BEFORE in wanted and "U" in changes, by_key=_applies_by_key(rel))
        self._check_sink(rel, node)
        if RowKind.UPDATE_BEFORE not in wanted and RowKind.UPDATE_BEFORE in node.mode.kinds:
            node = DropUpdateBefore(node.schema, ChangelogMode(node.mode.kinds - {RowKind.UPDATE_BEFORE}), node)
        return Sink(rel.schema, node.mode, node, rel)

    def _check_sink(self, sink: L.Sink, node: Node) -> None:
        wanted = sink.changelog.kinds
        missing = []
        if RowKind.UPDATE_AFTER in node.mode.kinds and RowKind.UPDATE_AFTER not in wanted:
            missing.append("update")
        if RowKind.DELETE in node.mode.kinds and RowKind.DELETE not in wanted:
            missing.append("delete")
        if missing:
            cause = _origin(node, "update" in missing)
            advice = f" {sink.remedies}" if sink.remedies else ""
            raise TableException(
                f"Table sink '{sink.name}' doesn't support consuming {' and '.join(missing)} changes which is produced "
                f"by node {_digest(cause)}.{advice}"
            )


def _applies_by_key(sink: L.Sink) -> bool:
    return RowKind.UPDATE_BEFORE not in sink.changelog.kinds


def _origin(node: Node, updates: bool) -> Node:
    """The node that first sends updates (or deletes)."""
    kind = RowKind.UPDATE_AFTER if updates else RowKind.DELETE
    while isinstance(node, (Calc, Exchange, DropUpdateBefore, UnionAll, Expand, WindowTableFunction)):
        below = next((i for i in node.inputs if kind in i.mode.kinds), None)
        if below is None:
            break
        node = below
    return node


def _digest(node: Node) -> str:
    return _DIGEST[0](node)


#: Filled by explain.py, which prints nodes of this module.
_DIGEST: list[Callable[[Node], str]] = [lambda node: type(node).__name__]

_BUILDERS: Final[dict[type[L.Rel], Callable[[Planner, Any, bool, bool], Node]]] = {
    L.Scan: Planner.scan,
    L.Values: Planner.values,
    L.Project: Planner.project,
    L.Filter: Planner.filter,
    L.Aggregate: Planner.aggregate,
    L.Distinct: Planner.distinct,
    L.Expand: Planner.expand,
    L.WindowTvf: Planner.window_tvf,
    L.Join: Planner.join,
    L.Union: Planner.union,
    L.Sink: Planner.sink,
    O.WindowAggregate: Planner.window_aggregate,
}
