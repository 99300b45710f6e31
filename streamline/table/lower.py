"""Physical nodes become nodes of the stream graph: a table from class to builder.

What a node gives is a `Stream`: graph nodes that send objects, and how rows are read from these (`codegen.rows.Rows`).
So a scan adds no operator, and projections and filters wait until an operator consumes the rows: its loop has them
written in.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from streamline._channel.partition import Forward, Global, Hash, PartitionSpec
from streamline._core.declare import StateSpec, TtlSpec
from streamline._core.types import DataType
from streamline._graph.stream_graph import Edge, StreamGraph
from streamline._graph.stream_graph import Node as GraphNode
from streamline._operators.aggregate.emitting import EmittingWindows
from streamline._operators.aggregate.group import GroupAggregate
from streamline._operators.aggregate.mini_batch import MiniBatchGroup
from streamline._operators.aggregate.session import SessionWindows, copy_sessions
from streamline._operators.aggregate.window import WindowAggregate
from streamline._operators.aggregate.window_table import WindowTable
from streamline._operators.assign_watermarks import AssignWatermarks
from streamline._operators.calc import Calc
from streamline._operators.join.interval import IntervalJoin
from streamline._operators.join.regular import RegularJoin
from streamline._operators.join.temporal import LookupJoin, TemporalJoin
from streamline._operators.join.window import WindowJoin
from streamline._operators.rank.over import OrderedOver, OverByArrival, OverByTime
from streamline._operators.rank.rows import FirstByTime, TemporalSort
from streamline._operators.state_types import dict_of, list_of, optional, tuple_of
from streamline.abc import Operator
from streamline.errors import TableException
from streamline.table import logical as L
from streamline.table import physical as P
from streamline.table.async_calls import async_calls
from streamline.table.codegen.calc import calc, output
from streamline.table.codegen.changelog import drop_before, expand, normalize_loop
from streamline.table.codegen.correlate import correlate
from streamline.table.codegen.group import group_loop, key_function
from streamline.table.codegen.join import JoinSide, join_side, join_state
from streamline.table.codegen.over import ordered_over, over_loop
from streamline.table.codegen.rank import deduplicate_loop, instant_of, precedes, rank_loop, window_rank_loop
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.session import SessionLoop, session_loop, session_rows_loop
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.timed_rows import kind_rows, lookup_rows, timed_rows, version_rows
from streamline.table.codegen.watermark import watermark_cuts, watermark_newest
from streamline.table.codegen.window import WindowTime, shift_of, window_loop
from streamline.table.codegen.window_join import pair_condition, window_join, window_rows
from streamline.table.codegen.window_table import window_table
from streamline.table.codegen.writer import Generated, context_of
from streamline.table.explain import digest
from streamline.table.expr.context import EvalContext
from streamline.table.expr.fold import evaluate
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import Expr, InputRef, input_refs, is_deterministic
from streamline.table.function_life import alive
from streamline.table.rules.merge_projections import may_inline
from streamline.table.source_watermarks import RowWatermarks
from streamline.table.sources import SourceNode
from streamline.table.values import ConstantRows

__all__ = ("Attached", "Lowering")


@dataclass(frozen=True, slots=True)
class Attached:
    """Where the rows of a plan leave: a node of the graph, or one of its side outputs."""

    node: int
    side: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in the graph.

    Attributes:
        sources: nodes (and side outputs) that send objects, all alike.
        rows: how rows are read from them.
        partition: how they get to the next operator.
        keys: columns seen by which `partition` brings rows together; None: it does not.
    """

    sources: tuple[Attached, ...]
    rows: Rows
    partition: PartitionSpec = field(default_factory=Forward)
    keys: tuple[int, ...] | None = None


class Lowering:
    """Adds plans to a graph. Parts that several plans have in common are added once."""

    def __init__(self, graph: StreamGraph, context: EvalContext, event_time: bool = True) -> None:
        """
        Args:
            graph: what plans are added to.
            context: of the evaluation of expressions.
            event_time: whether some plan needs watermarks; where none does, declared ones are not computed.
        """
        self.graph = graph
        self.context = context
        self.event_time = event_time
        self._done: dict[P.Node, Stream] = {}

    def lower(self, node: P.Node) -> Stream:
        """The rows of a physical node."""
        found = self._done.get(node)
        if found is None:
            build = _BUILDERS.get(type(node))
            if build is None:
                raise TableException(f"{type(node).__name__} has no operator")
            found = self._done[node] = build(self, node)
        return found

    def attach(self, sink: P.Sink) -> Attached:
        """Add a whole plan; gives the node that sends (or, with a target, takes) its objects."""
        stream = self._output(sink)
        if sink.sink.target is None:
            return stream
        return Attached(sink.sink.target.attach(self.graph, stream.node, stream.side))

    # -- adding nodes --------------------------------------------------------------------------------------------

    def operator(
        self,
        name: str,
        stream: Stream,
        make: Callable[[], Operator],
        *,
        keyed: Generated | None = None,
        description: str = "",
        event_time: str = "no",
    ) -> Attached:
        """Add an operator that consumes a stream."""
        parallelism, partition = self._placed(stream)
        key = () if keyed is None else (keyed.make(),)
        edges = [Edge(s.node, 0, 0, partition, s.side) for s in stream.sources]
        node = GraphNode(
            id=0,
            name=name,
            kind="operator",
            operator=alive(make),
            parallelism=parallelism,
            key=key,
            description=description,
            event_time=event_time,
        )
        return Attached(self.graph.add(node, *edges).id)

    def _placed(self, stream: Stream) -> tuple[int | None, PartitionSpec]:
        """Parallelism of a consumer, and how the rows get there."""
        if stream.keys == ():
            return 1, Global()
        if stream.keys is not None:
            return None, stream.partition
        found = {self.graph.nodes[s.node].parallelism for s in stream.sources}
        if len(found) == 1:
            return found.pop(), stream.partition
        return 1, Global()

    def materialized(self, stream: Stream) -> Stream:
        """The stream as tuples: with an operator that reads, filters and projects where that is needed."""
        if stream.rows.is_plain:
            return stream
        code = calc(stream.rows, self.context)
        names = ", ".join(map(str, stream.rows.exprs))
        node = self.operator("Calc", stream, partial(Calc, code.make, _observer(code)), description=f"select=[{names}]")
        types = tuple(e.type for e in stream.rows.exprs)
        return Stream((node,), Rows.of_tuples(types, stream.rows.insert_only))

    # -- builders ------------------------------------------------------------------------------------------------

    def scan(self, node: P.TableSourceScan) -> Stream:
        scan = node.scan
        sources = tuple(Attached(*found) for found in scan.source.attach(self.graph))
        return Stream(sources, Rows.of_shape(scan.shape))

    def watermark(self, node: P.WatermarkAssigner) -> Stream:
        stream = self.lower(node.input)
        spec = node.spec
        assert spec.expression is not None
        if not self.event_time:
            return stream
        write = watermark_cuts if spec.on_event else watermark_newest
        name = node.schema[spec.column].name
        code = write(stream.rows, spec.column, name, spec.expression, self.context)
        if isinstance(node.input, P.TableSourceScan) and isinstance(node.input.scan.source, SourceNode):
            for source in stream.sources:
                self.graph.update(source.node, strategy=RowWatermarks(code.make, spec))
            return stream
        make = partial(AssignWatermarks, code.make, spec.on_event, spec.interval, spec.idle_timeout)
        added = self.operator("WatermarkAssigner", stream, make, description=digest(node), event_time="yes")
        return Stream((added,), stream.rows)

    def calc(self, node: P.Calc) -> Stream:
        stream = self.lower(node.input)
        below = stream.rows.exprs
        conditions = () if node.condition is None else (node.condition,)
        # A condition that is inlined may be evaluated where its columns are read again.
        fixed = all(is_deterministic(below[i]) for c in conditions for i in input_refs(c))
        if not may_inline((*node.exprs, *conditions), below) or not fixed:
            stream = self.materialized(stream)
        rows = stream.rows
        if node.condition is not None:
            rows = rows.where(node.condition, and_)
        result = Stream(stream.sources, rows.project(node.exprs), stream.partition, None)
        # What is not deterministic is computed once, here, and not wherever it is used.
        return result if all(map(is_deterministic, result.rows.exprs)) else self.materialized(result)

    def async_calc(self, node: P.AsyncCalc) -> Stream:
        stream = self.materialized(self.lower(node.input))
        make = partial(async_calls, node.call, node.options)
        added = self.operator("AsyncCalc", stream, make, description=digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def exchange(self, node: P.Exchange) -> Stream:
        stream = self.lower(node.input)
        fixed = all(is_deterministic(stream.rows.exprs[k]) for k in node.keys)
        if not fixed or stream.rows.reads_timestamp(_refs(stream, node.keys)):
            stream = self.materialized(stream)
        if not node.keys:
            return replace(stream, partition=Global(), keys=())
        key = self.key(stream, node.keys)
        return replace(stream, partition=Hash(key.make()), keys=node.keys)

    def key(self, stream: Stream, keys: Sequence[int]) -> Generated:
        """The function that gives a record's key."""
        return key_function(stream.rows, _refs(stream, keys), self.context)

    def values(self, node: P.Values) -> Stream:
        source = ConstantRows(tuple(tuple(evaluate(e, self.context) for e in r) for r in node.rows))
        added = self.graph.add(
            GraphNode(id=0, name="Values", kind="source", source=source, parallelism=1, description=digest(node))
        )
        return Stream((Attached(added.id),), Rows.of_tuples(node.schema.types, True))

    def drop_update_before(self, node: P.DropUpdateBefore) -> Stream:
        stream = self.lower(node.input)
        code = drop_before(stream.rows, self.context)
        added = self.operator("DropUpdateBefore", stream, partial(Calc, code.make))
        types = tuple(e.type for e in stream.rows.exprs)
        return Stream((added,), Rows.of_tuples(types, False))

    def normalize(self, node: P.ChangelogNormalize) -> Stream:
        stream = self.lower(node.input)
        loop = normalize_loop(stream.rows, node.keys, node.condition, self.context, node.emit_before)
        spec = StateSpec(type=loop.state)
        make = partial(GroupAggregate, loop.function.make, spec)
        added = self.operator(
            "ChangelogNormalize", stream, make, keyed=self.key(stream, node.keys), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, False))

    def expand(self, node: P.Expand) -> Stream:
        stream = self.lower(node.input)
        code = expand(stream.rows, node.projections, self.context)
        added = self.operator("Expand", stream, partial(Calc, code.make), description=digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))

    def group(self, node: P.GroupAggregate) -> Stream:
        stream = self.lower(node.input)
        ttl = TtlSpec(node.state_ttl) if node.state_ttl else None
        mini = node.mini_batch
        loop = group_loop(
            stream.rows,
            node.keys,
            node.calls,
            self.context,
            emit_before=node.emit_before or mini is not None,
            always=ttl is not None,
        )
        spec = StateSpec(type=loop.state, ttl=ttl, copy=None if loop.copy is None else _copier(loop.copy))
        make: Callable[[], Operator] = partial(GroupAggregate, loop.function.make, spec, _observer(loop.function))
        if mini is not None:
            make = partial(
                MiniBatchGroup, loop.function.make, spec, len(node.keys), node.emit_before, mini.latency, mini.size
            )
        added = self.operator(
            "GroupAggregate", stream, make, keyed=self.key(stream, node.keys), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))

    def window(self, node: P.WindowAggregate | P.GroupWindowAggregate) -> Stream:
        stream = self.lower(node.input)
        rel = node.node
        if rel.spec.kind == "SESSION" and not rel.attached:
            return self._session(node, stream)
        time = WindowTime(rel.time, rel.attached, rel.start, rel.processing)
        loop = window_loop(
            stream.rows, rel.keys, rel.calls, rel.spec, time, rel.properties, self.context, local=rel.local
        )
        spec = StateSpec(type=loop.state, namespaced=True, copy=None if loop.copy is None else _copier(loop.copy))
        shift = shift_of(self.context.zone, rel.local)
        make = partial(
            WindowAggregate,
            loop.assign.make,
            loop.fire.make,
            spec,
            None if shift is None else shift.instant,
            rel.processing,
        )
        added = self.operator(
            type(node).__name__, stream, make, keyed=self.key(stream, rel.keys), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def group_window(self, node: P.GroupWindowAggregate) -> Stream:
        rel = node.node
        if not rel.emits_updates:
            return self.window(node)
        if rel.spec.kind == "SESSION" or rel.processing:
            raise TableException(
                "early and late firing is there for TUMBLE and HOP over event time, not for this window; turn "
                "'table.exec.emit.early-fire.enabled' and 'table.exec.emit.late-fire.enabled' off"
            )
        assert rel.group_window is not None
        stream = self.lower(node.input)
        options = rel.group_window
        loop = window_loop(
            stream.rows,
            rel.keys,
            rel.calls,
            rel.spec,
            WindowTime(rel.time),
            rel.properties,
            self.context,
            local=rel.local,
            lateness=options.lateness,
            report=True,
        )
        shift = shift_of(self.context.zone, rel.local)
        copy = None if loop.copy is None else _copier(loop.copy)
        make = partial(
            EmittingWindows,
            loop.assign.make,
            loop.fire.make,
            StateSpec(type=loop.state, namespaced=True, copy=copy),
            row_type(node.schema.types),
            instant=None if shift is None else shift.instant,
            early=options.early,
            late=options.late,
            lateness=options.lateness,
            emit_before=node.emit_before,
        )
        added = self.operator(
            "GroupWindowAggregate", stream, make, keyed=self.key(stream, rel.keys), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, False))

    def _session(self, node: P.WindowAggregate | P.GroupWindowAggregate, stream: Stream) -> Stream:
        rel = node.node
        loop = session_loop(
            stream.rows,
            rel.keys,
            rel.partition,
            rel.calls,
            rel.spec.size,
            rel.time,
            rel.properties,
            self.context,
            local=rel.local,
            processing=rel.processing,
        )
        added = self._sessions(loop, node, stream, rel.keys, rel.local, rel.processing, False)
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def _sessions(
        self,
        loop: SessionLoop,
        node: P.Node,
        stream: Stream,
        keys: Sequence[int],
        local: bool,
        processing: bool,
        kinds: bool,
    ) -> Attached:
        shift = shift_of(self.context.zone, local)
        make = partial(
            SessionWindows,
            loop.assign.make,
            loop.fire.make,
            StateSpec(type=loop.state, copy=copy_sessions),
            None if shift is None else shift.instant,
            processing,
            kinds,
        )
        return self.operator(type(node).__name__, stream, make, keyed=self.key(stream, keys), description=digest(node))

    def window_table(self, node: P.WindowTableFunction) -> Stream:
        stream = self.lower(node.input)
        rel = node.node
        time = rel.input.schema[rel.time].type
        local, processing = time.root == "TIMESTAMP_LTZ", time.is_proctime
        kinds = not stream.rows.insert_only
        if rel.spec.kind == "SESSION":
            loop = session_rows_loop(
                stream.rows, rel.keys, rel.spec.size, rel.time, self.context, local=local, processing=processing
            )
            added = self._sessions(loop, node, stream, rel.keys, local, processing, kinds)
        else:
            code = window_table(stream.rows, rel.spec, rel.time, self.context, local=local, processing=processing)
            added = self.operator(
                "WindowTableFunction", stream, partial(WindowTable, code.make), description=digest(node)
            )
        return Stream((added,), Rows.of_tuples(node.schema.types, not kinds))

    def union(self, node: P.UnionAll) -> Stream:
        streams = [self.materialized(self.lower(i)) for i in node.inputs]
        insert_only = all(s.rows.insert_only for s in streams)
        sources = tuple(s for stream in streams for s in stream.sources)
        return Stream(sources, Rows.of_tuples(node.schema.types, insert_only))

    # -- ranking -------------------------------------------------------------------------------------------------

    def correlate(self, node: P.Correlate) -> Stream:
        stream = self.lower(node.input)
        code = correlate(stream.rows, node.call, node.condition, node.left, self.context)
        added = self.operator("Correlate", stream, partial(Calc, code.make, _observer(code)), description=digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))

    def rank(self, node: P.Rank) -> Stream:
        rel = node.node
        return self._ranked(
            node, rel.partition, rel.order, rel.first, rel.last, rel.number is not None, node.emit_before
        )

    def sort_limit(self, node: P.SortLimit) -> Stream:
        rel = node.node
        last = sys.maxsize if rel.limit is None else rel.offset + rel.limit
        return self._ranked(node, (), rel.keys, rel.offset + 1, last, False, node.emit_before)

    def _ranked(
        self,
        node: P.Rank | P.SortLimit,
        partition: tuple[int, ...],
        order: tuple[L.SortKey, ...],
        first: int,
        last: int,
        number: bool,
        emit_before: bool,
    ) -> Stream:
        stream = self.lower(node.input)
        loop = rank_loop(stream.rows, partition, order, first, last, number, self.context, emit_before=emit_before)
        spec = StateSpec(type=loop.state, copy=copy_rows)
        added = self.operator(
            type(node).__name__,
            stream,
            partial(GroupAggregate, loop.function.make, spec),
            keyed=self.key(stream, partition),
            description=digest(node),
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))

    def deduplicate(self, node: P.Deduplicate) -> Stream:
        stream = self.lower(node.input)
        rowtime = node.schema[node.time].type.is_rowtime
        make: Callable[[], Operator]
        if rowtime and not node.keep_last:
            code = timed_rows(stream.rows, node.time, node.partition, self.context)
            row = row_type(node.schema.types)
            make = partial(FirstByTime, code.make, StateSpec(type=tuple_of(int, optional(row))))
        else:
            loop = deduplicate_loop(
                stream.rows,
                node.partition,
                node.time,
                self.context,
                keep_last=node.keep_last,
                emit_before=node.emit_before,
            )
            make = partial(GroupAggregate, loop.function.make, StateSpec(type=loop.state))
        added = self.operator(
            "Deduplicate", stream, make, keyed=self.key(stream, node.partition), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))

    def window_rank(self, node: P.WindowRank) -> Stream:
        rel = node.node
        stream = self.lower(node.input)
        assert rel.window_end is not None
        key = rel.order[0] if rel.order else None
        time = key is not None and len(rel.order) == 1 and node.input.schema[key.column].type.is_rowtime
        assign, fire, state = window_rank_loop(
            stream.rows,
            rel.partition,
            rel.order,
            rel.first,
            rel.last,
            rel.number is not None,
            rel.window_end,
            self.context,
            latest_wins=time and key is not None and not key.ascending,
        )
        shift = shift_of(self.context.zone, node.local)
        if shift is not None:
            assign.namespace["instant"] = shift.instant
        make = partial(
            WindowAggregate,
            assign.make,
            fire.make,
            StateSpec(type=state, namespaced=True, copy=copy_rows),
            None if shift is None else shift.instant,
        )
        added = self.operator(
            "WindowRank", stream, make, keyed=self.key(stream, rel.partition), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def over(self, node: P.OverAggregate) -> Stream:
        rel = node.node
        stream = self.lower(node.input)
        first = rel.calls[0]
        calls = [c.call for c in rel.calls]
        types = node.input.schema.types
        time = types[first.order[0].column]
        row = row_type(types)
        make: Callable[[], Operator]
        if time.time_attribute is None:
            read = kind_rows(stream.rows, first.partition, self.context)
            results, position = ordered_over(types, calls, first.order, first.frame, self.context)
            make = partial(OrderedOver, read.make, results.make, position.make, row, node.emit_before)
        else:
            loop = over_loop(types, calls, first.frame, self.context)
            if time.is_proctime:
                read = kind_rows(stream.rows, first.partition, self.context)
                make = partial(OverByArrival, read.make, loop.fire.make, loop.new.make)
            else:
                read = timed_rows(stream.rows, first.order[0].column, first.partition, self.context)
                by_key = first.frame.preceding is not None
                make = partial(OverByTime, read.make, loop.fire.make, loop.new.make, row, by_key)
        added = self.operator(
            "OverAggregate", stream, make, keyed=self.key(stream, first.partition), description=digest(node)
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))

    def temporal_sort(self, node: P.TemporalSort) -> Stream:
        stream = self.lower(node.input)
        time = node.keys[0].column
        if node.schema[time].type.is_proctime:
            return stream
        code = timed_rows(stream.rows, time, None, self.context)
        spec = StateSpec(type=list_of(row_type(node.schema.types)), namespaced=True, copy=copy_rows)
        sort = sorter(node.keys[1:], node.schema.types) if len(node.keys) > 1 else None
        added = self.operator(
            "TemporalSort",
            stream,
            partial(TemporalSort, code.make, spec, sort),
            keyed=self.key(stream, ()),
            description=digest(node),
        )
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    # -- joins ---------------------------------------------------------------------------------------------------

    def two_inputs(
        self,
        name: str,
        streams: tuple[Stream, Stream],
        make: Callable[[], Operator],
        keyed: tuple[Generated, Generated],
        description: str,
    ) -> Attached:
        """Add an operator with two inputs."""
        single = streams[0].keys == ()
        edges = []
        for number, stream in enumerate(streams):
            partition = Global() if single else stream.partition
            edges += [Edge(s.node, 0, number, partition, s.side) for s in stream.sources]
        node = GraphNode(
            id=0,
            name=name,
            kind="operator",
            operator=alive(make),
            parallelism=1 if single else None,
            key=(keyed[0].make(), keyed[1].make()),
            description=description,
        )
        return Attached(self.graph.add(node, *edges).id)

    def join(self, node: P.Join) -> Stream:
        streams = (self.lower(node.left), self.lower(node.right))
        safe = tuple(k[2] for k in node.keys)
        sides = [JoinSide(s.rows, tuple(k[i] for k in node.keys), safe, node.unique[i]) for i, s in enumerate(streams)]
        left = join_side(sides[0], sides[1], node.kind, node.condition, True, self.context)
        right = join_side(sides[1], sides[0], node.kind, node.condition, False, self.context)
        specs = [self._join_spec(side, ttl) for side, ttl in zip(sides, node.state_ttl)]
        make = partial(RegularJoin, left.make, right.make, (specs[0], specs[1]))
        keyed = (self.key(streams[0], sides[0].keys), self.key(streams[1], sides[1].keys))
        added = self.two_inputs("Join", streams, make, keyed, digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))

    def interval_join(self, node: P.IntervalJoin) -> Stream:
        streams = (self.lower(node.left), self.lower(node.right))
        bounds = node.bounds
        keys = ([k[0] for k in bounds.keys], [k[1] for k in bounds.keys])
        times = (bounds.left, bounds.right)
        widths = (len(node.left.schema), len(node.right.schema))
        if node.processing:
            read = tuple(kind_rows(s.rows, k, self.context) for s, k in zip(streams, keys))
        else:
            read = tuple(timed_rows(s.rows, time, k, self.context) for s, time, k in zip(streams, times, keys))
        matches = None if node.condition is None else pair_condition(widths, node.condition, self.context)
        make = partial(
            IntervalJoin,
            (read[0].make, read[1].make),
            None if matches is None else matches.make,
            (row_type(node.left.schema.types), row_type(node.right.schema.types)),
            widths,
            (bounds.lower, bounds.upper),
            (node.kind in ("LEFT", "FULL"), node.kind in ("RIGHT", "FULL")),
            tuple(k[2] for k in bounds.keys),
            node.processing,
        )
        keyed = tuple(self.key(s, k) for s, k in zip(streams, keys))
        added = self.two_inputs("IntervalJoin", streams, make, (keyed[0], keyed[1]), digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def temporal_join(self, node: P.TemporalJoin) -> Stream:
        streams = (self.lower(node.left), self.lower(node.right))
        keys = ([k[0] for k in node.keys], [k[1] for k in node.keys])
        widths = (len(node.left.schema), len(node.right.schema))
        left = timed_rows(streams[0].rows, node.times[0], keys[0], self.context)
        right = version_rows(streams[1].rows, node.times[1], keys[1], self.context)
        matches = None if node.condition is None else pair_condition(widths, node.condition, self.context)
        make = partial(
            TemporalJoin,
            (left.make, right.make),
            None if matches is None else matches.make,
            (row_type(node.left.schema.types), row_type(node.right.schema.types)),
            widths[1],
            node.outer,
        )
        keyed = tuple(self.key(s, k) for s, k in zip(streams, keys))
        added = self.two_inputs("TemporalJoin", streams, make, (keyed[0], keyed[1]), digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def lookup_join(self, node: P.LookupJoin) -> Stream:
        stream = self.lower(node.input)
        assert node.table.lookup is not None
        columns = tuple(node.table.schema.names[c] for c, _ in node.keys)
        read = lookup_rows(stream.rows, [e for _, e in node.keys], self.context)
        convert = calc(Rows.of_shape(node.table.shape), self.context)
        widths = (len(node.input.schema), len(node.table.schema))
        matches = None if node.condition is None else pair_condition(widths, node.condition, self.context)
        make = partial(
            LookupJoin,
            read.make,
            convert.make,
            None if matches is None else matches.make,
            partial(node.table.lookup, columns),
            widths[1],
            node.outer,
        )
        added = self.operator("LookupJoin", stream, make, description=digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))

    def window_join(self, node: P.WindowJoin) -> Stream:
        streams = (self.lower(node.left), self.lower(node.right))
        safe = [k[2] for k in node.keys]
        shift = shift_of(self.context.zone, node.local)
        instant = instant_of if shift is None else shift.instant
        sides = [
            window_rows(s.rows, [k[i] for k in node.keys], node.ends[i], self.context, instant)
            for i, s in enumerate(streams)
        ]
        code = window_join(
            (len(node.left.schema), len(node.right.schema)), node.kind, safe, node.condition, self.context
        )
        specs = [StateSpec(type=x, namespaced=True, copy=copy_rows) for _, x in sides]
        make = partial(
            WindowJoin,
            (sides[0][0].make, sides[1][0].make),
            code.make,
            (specs[0], specs[1]),
            None if shift is None else shift.instant,
        )
        keyed = tuple(self.key(s, [k[i] for k in node.keys]) for i, s in enumerate(streams))
        added = self.two_inputs("WindowJoin", streams, make, (keyed[0], keyed[1]), digest(node))
        return Stream((added,), Rows.of_tuples(node.schema.types, True))

    def _join_spec(self, side: JoinSide, ttl: int) -> StateSpec:
        identity, entry = join_state(side)
        if ttl:
            return StateSpec(type=dict_of(identity, entry), ttl=TtlSpec(ttl), copy=dict.copy)
        return StateSpec(type=entry, kind="map", map_key=identity)

    # -- the way out ---------------------------------------------------------------------------------------------

    def _output(self, sink: P.Sink) -> Attached:
        stream = self.lower(sink.input)
        shape = sink.sink.shape
        if len(stream.sources) == 1 and self._leaves_as_is(stream, shape):
            return stream.sources[0]
        code = output(stream.rows, shape, self.context)
        return self.operator(
            "Output",
            stream,
            partial(Calc, code.make, _observer(code)),
            description=digest(sink),
            event_time="no" if shape.timestamp is None else "yes",
        )

    def _leaves_as_is(self, stream: Stream, shape: L.OutputShape) -> bool:
        """Whether the objects can leave without an operator."""
        rows = stream.rows
        if rows.condition is not None or rows.check or not rows.is_untouched or stream.keys is not None:
            return False
        same = shape.element is not None and shape.element is rows.element
        if not same and (shape.template or not rows.is_plain):
            return False
        if not rows.insert_only and not shape.kinds:
            return False
        sends_time = self.graph.nodes[stream.sources[0].node].event_time != "no"
        if shape.timestamp is None:
            return not sends_time
        return rows.millis[shape.timestamp] == "t"


def copy_rows(rows: Any) -> Any:
    """An independent copy of the rows of a key."""
    return list(rows) if type(rows) is list else rows


def sorter(keys: Sequence[L.SortKey], types: Sequence[DataType]) -> Callable[[list[Any]], None]:
    """A function that puts rows in order."""
    before = Generated("precedes", precedes("precedes", keys, types), {}).make()

    def compare(a: Any, b: Any) -> int:
        return -1 if before(a, b) else 1 if before(b, a) else 0

    key = functools.cmp_to_key(compare)
    return lambda rows: rows.sort(key=key)


def _refs(stream: Stream, keys: Sequence[int]) -> list[Expr]:
    return [InputRef(k, stream.rows.exprs[k].type) for k in keys]


def _observer(code: Generated) -> Callable[[Any, int], None] | None:
    return _set_watermark if code.uses_context else None


def _set_watermark(function: Any, watermark: int) -> None:
    context = context_of(function)
    if context is not None:
        context.watermark = watermark


def _copier(code: Generated) -> Callable[[Any], Any]:
    return code.make()


_BUILDERS: Final[dict[type[P.Node], Callable[[Lowering, Any], Stream]]] = {
    P.TableSourceScan: Lowering.scan,
    P.WatermarkAssigner: Lowering.watermark,
    P.Calc: Lowering.calc,
    P.AsyncCalc: Lowering.async_calc,
    P.Exchange: Lowering.exchange,
    P.Values: Lowering.values,
    P.DropUpdateBefore: Lowering.drop_update_before,
    P.ChangelogNormalize: Lowering.normalize,
    P.Expand: Lowering.expand,
    P.GroupAggregate: Lowering.group,
    P.WindowAggregate: Lowering.window,
    P.GroupWindowAggregate: Lowering.group_window,
    P.WindowTableFunction: Lowering.window_table,
    P.UnionAll: Lowering.union,
    P.Join: Lowering.join,
    P.TemporalJoin: Lowering.temporal_join,
    P.LookupJoin: Lowering.lookup_join,
    P.IntervalJoin: Lowering.interval_join,
    P.OverAggregate: Lowering.over,
    P.WindowJoin: Lowering.window_join,
    P.Correlate: Lowering.correlate,
    P.Rank: Lowering.rank,
    P.SortLimit: Lowering.sort_limit,
    P.Deduplicate: Lowering.deduplicate,
    P.WindowRank: Lowering.window_rank,
    P.TemporalSort: Lowering.temporal_sort,
}
