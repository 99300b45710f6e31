"""Makes physical plans: exchanges are placed, and it is decided where -U is sent.

The decision goes from the top down: a node asks its inputs for -U only where it needs it itself or is asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from streamline._core.changes import ChangelogMode, RowKind
from streamline.errors import TableException, ValidationException
from streamline.table import logical as L
from streamline.table import optimized as O
from streamline.table import physical as P
from streamline.table.explain import digest
from streamline.table.expr.functions.logic import conjuncts
from streamline.table.expr.nodes import AggCall, Expr, InputRef, input_refs, is_deterministic, rewrite
from streamline.table.interval_bounds import Bounds, interval_bounds
from streamline.table.lookup_keys import lookup_key, lookup_table
from streamline.table.op_codes import FromChangelog, ToChangelog
from streamline.table.physical import (
    INSERT_ONLY,
    PASSING,
    AsyncCalc,
    Calc,
    ChangelogNormalize,
    Correlate,
    Deduplicate,
    DropUpdateBefore,
    Exchange,
    Expand,
    GroupAggregate,
    GroupWindowAggregate,
    IntervalJoin,
    Join,
    LookupJoin,
    Match,
    Node,
    OverAggregate,
    Rank,
    Sink,
    SortLimit,
    TableSourceScan,
    TemporalJoin,
    TemporalSort,
    UnionAll,
    UpsertMaterialize,
    Upserts,
    Values,
    WatermarkAssigner,
    WindowAggregate,
    WindowJoin,
    WindowRank,
    WindowTableFunction,
    mode_of,
)
from streamline.table.planner_config import PlannerConfig
from streamline.table.rules.join_conditions import all_of
from streamline.table.traits import Traits, is_true

__all__ = ("Planner",)


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
            return self._normalize(rel, node, range(len(rel.schema)), None, before)
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

    def _normalize(self, rel: L.Scan, node: Node, columns: Sequence[int], condition: Expr | None, before: bool) -> Node:
        """The complete changelog of an upsert source, of some of its columns."""
        place = {old: new for new, old in enumerate(columns)}
        keys = tuple(place[k] for k in rel.shape.primary_key)
        if list(columns) != list(range(len(rel.schema))):
            schema = L.RowSchema(tuple(rel.schema[c] for c in columns))
            node = Calc(schema, node.mode, node, None, tuple(rel.schema.ref(c) for c in columns))
        inner = None if condition is None else _placed(condition, place)
        mode = mode_of(frozenset("UD"), before)
        return ChangelogNormalize(node.schema, mode, self.exchange(node, keys), keys, inner, before)

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
        found = self._over_upserts(below, condition, exprs, schema, before, by_key)
        if found is not None:
            return found
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
        return Calc(schema, node.mode, node, condition, exprs)

    def async_call(self, rel: O.AsyncCall, before: bool, by_key: bool) -> Node:
        self.insert_only(rel.input, "AsyncCalc")
        return AsyncCalc(rel.schema, INSERT_ONLY, self.plan(rel.input, False), rel.call, self.config.async_scalar)

    def _over_upserts(
        self,
        below: L.Rel,
        condition: Expr | None,
        exprs: tuple[Expr, ...],
        schema: L.RowSchema,
        before: bool,
        by_key: bool,
    ) -> Node | None:
        """A projection and filter over an upsert source: it is normalised over the columns that are read.

        Where only columns change that nobody reads, nothing is sent. The filter decides on complete rows: a row that
        fails it after it has passed is deleted.
        """
        if not isinstance(below, L.Scan):
            return None
        node, upsert = self._source(below)
        if not upsert:
            return None
        key = set(below.shape.primary_key)
        on_key = condition is not None and input_refs(condition) <= key
        if by_key and not before and (condition is None or on_key):
            return None
        inside = condition is not None and not on_key and is_deterministic(condition)
        read = key.union(*(input_refs(e) for e in exprs), input_refs(condition) if condition is not None else ())
        columns = sorted(read)
        place = {old: new for new, old in enumerate(columns)}
        node = self._normalize(below, node, columns, condition if inside else None, before)
        outside = None if inside or condition is None else _placed(condition, place)
        moved = tuple(_placed(e, place) for e in exprs)
        if outside is None and moved == node.schema.refs():
            return node
        return Calc(schema, node.mode, node, outside, moved)

    def aggregate(self, rel: L.Aggregate, before: bool, by_key: bool) -> Node:
        mini = self.config.mini_batch
        if mini is not None:
            mini.check()
        node = self.exchange(self.plan(rel.input, True), rel.keys)
        ttl = self.config.state_ttl if rel.state_ttl is None else rel.state_ttl
        calls = tuple(self._monotonic(c, rel.input) for c in rel.calls)
        return GroupAggregate(rel.schema, self.node_mode(rel, before), node, rel.keys, calls, before, mini, ttl)

    def _monotonic(self, call: AggCall, below: L.Rel) -> AggCall:
        """MAX of a column that only rises needs no retraction, and no memory of all values; MIN likewise."""
        wanted = {"MAX": 1, "MIN": -1}.get(call.name, 0)
        changes = self.traits.changes(below)
        if not wanted or call.udaf is not None or "U" not in changes or "D" in changes or call.filter is not None:
            return call
        if not isinstance(call.args[0], InputRef) or self.traits.rising(below, call.args[0].index) != wanted:
            return call
        return replace(call, options=(*call.options, ("monotonic", True)))

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

    def correlate(self, rel: L.Correlate, before: bool, by_key: bool) -> Node:
        node = self.plan(rel.input, before)
        return Correlate(rel.schema, node.mode, node, rel.call, rel.condition, rel.kind == "LEFT")

    def rank(self, rel: O.Rank, before: bool, by_key: bool) -> Node:
        below = self.traits.changes(rel.input)
        if rel.window_end is not None:
            self.insert_only(rel.input, "WindowRank")
            node = self.exchange(self.plan(rel.input, False), rel.partition)
            window = self.traits.window(rel.input)
            return WindowRank(rel.schema, INSERT_ONLY, node, rel, window is not None and window.local)
        node = self.exchange(self.plan(rel.input, True), rel.partition)
        mode = self.node_mode(rel, before)
        if rel.deduplicates(below):
            key = rel.order[0]
            return Deduplicate(rel.schema, mode, node, rel.partition, key.column, not key.ascending, before)
        return Rank(rel.schema, mode, node, rel, before)

    def match(self, rel: L.Match, before: bool, by_key: bool) -> Node:
        self.insert_only(rel.input, "Match")
        return Match(rel.schema, INSERT_ONLY, self.exchange(self.plan(rel.input, False), rel.partition), rel)

    def insert_only(self, rel: L.Rel, what: str) -> None:
        """An input of an operator that takes no updates.

        Raises:
            TableException: it has some.
        """
        changes = self.traits.changes(rel)
        if changes:
            kinds = " and ".join(n for k, n in (("U", "update"), ("D", "delete")) if k in changes)
            cause = _origin(self.plan(rel, True), "U" in changes)
            raise TableException(
                f"StreamPhysical{what} doesn't support consuming {kinds} changes which is produced by node "
                f"{digest(cause)}"
            )

    def over(self, rel: L.Over, before: bool, by_key: bool) -> Node:
        first = rel.calls[0]
        self._check_over(rel, first)
        if O.over_updates(rel):
            node = self.exchange(self.plan(rel.input, True), first.partition)
            return OverAggregate(rel.schema, self.node_mode(rel, before), node, rel, before)
        self.insert_only(rel.input, "OverAggregate")
        node = self.exchange(self.plan(rel.input, False), first.partition)
        return OverAggregate(rel.schema, INSERT_ONLY, node, rel, False)

    def _check_over(self, rel: L.Over, first: L.OverCall) -> None:
        for c in rel.calls:
            if c.call.name in ("LEAD", "NTILE", "CUME_DIST", "PERCENT_RANK"):
                raise TableException(f"{c.call.name} Function is not supported in stream mode.")
            if (c.partition, c.order, O.frame_of(c)) != (first.partition, first.order, O.frame_of(first)):
                raise TableException(
                    "Over Agg: Unsupported use of OVER windows. All aggregates must be computed on the same window. "
                    "please re-check the over window statement."
                )
        if not first.order:
            raise TableException("Over Agg: an OVER window of a stream needs ORDER BY; order by a time attribute")
        if not all(k.ascending for k in first.order):
            raise TableException("The window can only be ordered in ASCENDING mode.")
        if first.frame.following != 0:
            raise TableException("OVER RANGE FOLLOWING windows are not supported yet.")
        if O.over_updates(rel) and (first.frame.preceding is not None or any(c.call.name == "LAG" for c in rel.calls)):
            raise TableException(
                "OVER windows' ordering in stream mode must be defined on a time attribute; an order by another "
                "column only goes with UNBOUNDED PRECEDING"
            )
        if len(first.order) > 1:
            raise TableException("The window can only be ordered by a single time column.")

    def sort_limit(self, rel: O.SortLimit, before: bool, by_key: bool) -> Node:
        node = self.exchange(self.plan(rel.input, True), ())
        return SortLimit(rel.schema, self.node_mode(rel, before), node, rel, before)

    def temporal_sort(self, rel: O.TemporalSort, before: bool, by_key: bool) -> Node:
        self.insert_only(rel.input, "TemporalSort")
        node = self.exchange(self.plan(rel.input, False), ())
        return TemporalSort(rel.schema, INSERT_ONLY, node, rel.keys)

    def join(self, rel: L.Join, before: bool, by_key: bool) -> Node:
        width = len(rel.left.schema)
        keys, rest = O.join_keys(rel.condition, width)
        if O.is_window_join(rel, self.traits):
            return self._window_join(rel, keys, rest)
        bounds = interval_bounds(rel, keys, rest)
        if bounds is not None:
            return self._interval_join(rel, bounds)
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

    def temporal_join(self, rel: L.TemporalJoin, before: bool, by_key: bool) -> Node:
        width = len(rel.left.schema)
        time = rel.left.schema[rel.time].type
        table = lookup_table(rel.right)
        if table is not None and time.is_proctime:
            return self._lookup_join(rel, table, before)
        if time.is_proctime:
            raise TableException(
                "Processing-time temporal join is not supported yet: a row would be joined with whatever version has "
                "arrived by then. Join by event time (FOR SYSTEM_TIME AS OF a rowtime), or with a table that can be "
                "looked up"
            )
        name = ".".join(rel.right.name) if isinstance(rel.right, L.Scan) else "the right side"
        keys, rest = O.join_keys(rel.condition, width)
        if not rel.right.schema.rowtimes:
            raise ValidationException(
                "Event-Time Temporal Table Join requires both primary key and row time attribute in versioned table, "
                f"but no row time attribute can be found in {name}. Declare a watermark for its time column"
            )
        columns = {k[1] for k in keys}
        unique = [k for k in self.traits.keys(rel.right) if k <= columns]
        if not unique:
            known = " or ".join(
                f"({', '.join(rel.right.schema.names[c] for c in sorted(k))})" for k in self.traits.keys(rel.right)
            )
            missing = f"the condition does not compare it: {known}" if known else "no primary key can be found"
            raise ValidationException(
                f"Temporal Table Join requires primary key in versioned table, but {missing} in {name}"
            )
        self.insert_only(rel.left, "TemporalJoin")
        return TemporalJoin(
            rel.schema,
            INSERT_ONLY,
            self.exchange(self.plan(rel.left, False), [k[0] for k in keys]),
            self.exchange(self.plan(rel.right, False, by_key=True), [k[1] for k in keys]),
            rel.kind == "LEFT",
            tuple(keys),
            all_of(rest) if rest else None,
            (rel.time, rel.right.schema.rowtimes[0]),
        )

    def _lookup_join(self, rel: L.TemporalJoin, table: L.Scan, before: bool) -> Node:
        width = len(rel.left.schema)
        keys: dict[int, Expr] = {}
        rest: list[Expr] = []
        for part in conjuncts(rel.condition):
            key = lookup_key(part, width)
            if key is not None and key[0] not in keys:
                keys[key[0]] = key[1]
            elif not is_true(part):
                rest.append(part)
        if not keys:
            raise TableException(
                f"Temporal table join requires an equality condition on fields of table [{'.'.join(table.name)}]."
            )
        node = self.plan(rel.left, before or bool(self.traits.changes(rel.left)))
        condition = all_of(rest) if rest else None
        return LookupJoin(rel.schema, node.mode, node, table, rel.kind == "LEFT", tuple(keys.items()), condition)

    def _interval_join(self, rel: L.Join, bounds: Bounds) -> Node:
        self.insert_only(rel.left, "IntervalJoin")
        self.insert_only(rel.right, "IntervalJoin")
        return IntervalJoin(
            rel.schema,
            INSERT_ONLY,
            self.exchange(self.plan(rel.left, False), [k[0] for k in bounds.keys]),
            self.exchange(self.plan(rel.right, False), [k[1] for k in bounds.keys]),
            rel.kind,
            bounds,
            all_of(bounds.rest) if bounds.rest else None,
            rel.left.schema[bounds.left].type.is_proctime,
        )

    def _window_join(self, rel: L.Join, keys: list[tuple[int, int, bool]], rest: list[Expr]) -> Node:
        left, right = self.traits.window(rel.left), self.traits.window(rel.right)
        assert left is not None and right is not None and left.end is not None and right.end is not None
        self.insert_only(rel.left, "WindowJoin")
        self.insert_only(rel.right, "WindowJoin")
        bounds = {(left.start, right.start), (left.end, right.end)}
        keys = [k for k in keys if k[:2] not in bounds]
        return WindowJoin(
            rel.schema,
            INSERT_ONLY,
            self.exchange(self.plan(rel.left, False), [k[0] for k in keys]),
            self.exchange(self.plan(rel.right, False), [k[1] for k in keys]),
            rel.kind,
            tuple(keys),
            all_of(rest) if rest else None,
            (left.end, right.end),
            left.spec,
            left.local,
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

    def to_changelog(self, rel: ToChangelog, before: bool, by_key: bool) -> Node:
        return P.ToChangelog(rel.schema, INSERT_ONLY, self.plan(rel.input, True), rel.codes)

    def from_changelog(self, rel: FromChangelog, before: bool, by_key: bool) -> Node:
        self.insert_only(rel.input, "ProcessTableFunction")
        node = self.plan(rel.input, False)
        return P.FromChangelog(rel.schema, self.node_mode(rel, before), node, rel.op, rel.codes, before)

    def sink(self, rel: L.Sink, before: bool, by_key: bool) -> Node:
        wanted = rel.changelog.kinds
        changes = self.traits.changes(rel.input)
        upserts = _takes_upserts(rel)
        if upserts and self._is_ambiguous(rel):
            return self._materialized(rel)
        # A row may move from one primary key to another, where this is more than the query's key.
        moves = upserts and rel.primary_key and set(rel.primary_key) not in self.traits.keys(rel.input)
        before = bool(moves or RowKind.UPDATE_BEFORE in wanted) and "U" in changes
        node = self.plan(rel.input, before, by_key=upserts)
        self._check_sink(rel, node)
        # A stream may have -U among its upserts, which takes back a row of a key as -D does; a table gets none.
        if upserts and rel.target is not None and RowKind.UPDATE_BEFORE in node.mode.kinds:
            keys = rel.primary_key or self._identity(rel.input)
            node = Upserts(node.schema, ChangelogMode(node.mode.kinds - {RowKind.UPDATE_BEFORE}), node, keys)
        return Sink(rel.schema, node.mode, node, rel)

    def _identity(self, rel: L.Rel) -> tuple[int, ...]:
        """What tells rows apart: an upsert key, else all columns."""
        unique = self._unique(rel)
        return tuple(range(len(rel.schema))) if unique is None else unique

    def _is_ambiguous(self, sink: L.Sink) -> bool:
        """Whether the query may have several rows of the sink's primary key, so that one has to be chosen."""
        if not sink.primary_key:
            return False
        if any(k <= set(sink.primary_key) for k in self.traits.keys(sink.input)):
            return False
        # Rows that only come are upserts by themselves: the latest counts.
        if sink.on_conflict in (None, "DEDUPLICATE") and not self.traits.changes(sink.input):
            return False
        self._check_key(sink)
        return True

    def _materialized(self, sink: L.Sink) -> Node:
        node = self.plan(sink.input, "U" in self.traits.changes(sink.input))
        identity = self._identity(sink.input)
        moved = self.exchange(node, sink.primary_key)
        made = UpsertMaterialize(
            sink.schema,
            ChangelogMode.upsert(),
            moved,
            sink.primary_key,
            identity,
            sink.on_conflict or "DEDUPLICATE",
            sink.name,
        )
        return Sink(sink.schema, made.mode, made, sink)

    def _check_key(self, sink: L.Sink) -> None:
        """An upsert sink's key has to hold one of the query's, or ON CONFLICT says what happens."""
        if sink.on_conflict or not self.config.require_on_conflict:
            return
        keys = self.traits.keys(sink.input)
        names = sink.schema.names
        shown = " or ".join(f"[{', '.join(names[c] for c in sorted(k))}]" for k in keys) or "none"
        raise ValidationException(
            f"The query has an upsert key that differs from the primary key of the sink table '{sink.name}'. Primary "
            f"key: [{', '.join(names[c] for c in sink.primary_key)}], upsert key: {shown}. This can lead to "
            "non-deterministic results when multiple records with different upsert keys map to the same primary key. "
            "Please specify an ON CONFLICT clause to define how conflicts should be handled: ON CONFLICT DO "
            "DEDUPLICATE (update to the latest record, state intensive, since we need to keep the entire history), or "
            "ON CONFLICT DO ERROR (fail on conflict), or ON CONFLICT DO NOTHING (keep first record)."
        )

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
                f"by node {digest(cause)}.{advice}"
            )


def _placed(expr: Expr, place: dict[int, int]) -> Expr:
    """The expression over columns that stand elsewhere."""
    return rewrite(expr, lambda e: InputRef(place[e.index], e.type, e.name) if isinstance(e, InputRef) else None)


def _takes_upserts(sink: L.Sink) -> bool:
    kinds = sink.changelog.kinds
    return RowKind.UPDATE_BEFORE not in kinds and RowKind.UPDATE_AFTER in kinds


def _origin(node: Node, updates: bool) -> Node:
    """The node that first sends updates (or deletes)."""
    kind = RowKind.UPDATE_AFTER if updates else RowKind.DELETE
    while isinstance(node, PASSING):
        below = next((i for i in node.inputs if kind in i.mode.kinds), None)
        if below is None:
            break
        node = below
    return node


_BUILDERS: Final[dict[type[L.Rel], Callable[[Planner, Any, bool, bool], Node]]] = {
    L.Scan: Planner.scan,
    L.Values: Planner.values,
    L.Project: Planner.project,
    L.Filter: Planner.filter,
    L.Aggregate: Planner.aggregate,
    L.Distinct: Planner.distinct,
    L.Expand: Planner.expand,
    L.WindowTvf: Planner.window_tvf,
    L.Correlate: Planner.correlate,
    O.AsyncCall: Planner.async_call,
    O.Rank: Planner.rank,
    O.SortLimit: Planner.sort_limit,
    O.TemporalSort: Planner.temporal_sort,
    L.Over: Planner.over,
    L.TemporalJoin: Planner.temporal_join,
    L.Match: Planner.match,
    L.Join: Planner.join,
    L.Union: Planner.union,
    L.Sink: Planner.sink,
    O.WindowAggregate: Planner.window_aggregate,
    ToChangelog: Planner.to_changelog,
    FromChangelog: Planner.from_changelog,
}
