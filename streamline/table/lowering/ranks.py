"""Builders of nodes that order rows: Top-N, deduplication, sorting, OVER."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from streamline._core.declare import StateSpec
from streamline._core.types import DataType
from streamline._operators.aggregate.group import GroupAggregate
from streamline._operators.aggregate.window import WindowAggregate
from streamline._operators.match import Element, MatchRecognize, Pattern
from streamline._operators.rank.over import OrderedOver, OverByArrival, OverByTime
from streamline._operators.rank.rows import FirstByTime, TemporalSort
from streamline._operators.state_types import list_of, optional, tuple_of
from streamline.abc import Operator
from streamline.table import logical as L
from streamline.table import physical as P
from streamline.table.codegen.match import match_condition, match_measures
from streamline.table.codegen.over import ordered_over, over_loop
from streamline.table.codegen.rank import deduplicate_loop, precedes, rank_loop, window_rank_loop
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.timed_rows import kind_rows, timed_rows
from streamline.table.codegen.window import shift_of
from streamline.table.codegen.writer import Generated
from streamline.table.explain import digest
from streamline.table.lowering.base import Lowering, Stream, copy_rows

__all__ = ("deduplicate", "match", "over", "rank", "sort_limit", "sorter", "temporal_sort", "window_rank")


def rank(low: Lowering, node: P.Rank) -> Stream:
    rel = node.node
    return _ranked(low, node, rel.partition, rel.order, rel.first, rel.last, rel.number is not None, node.emit_before)


def sort_limit(low: Lowering, node: P.SortLimit) -> Stream:
    rel = node.node
    last = sys.maxsize if rel.limit is None else rel.offset + rel.limit
    return _ranked(low, node, (), rel.keys, rel.offset + 1, last, False, node.emit_before)


def _ranked(
    low: Lowering,
    node: P.Rank | P.SortLimit,
    partition: tuple[int, ...],
    order: tuple[L.SortKey, ...],
    first: int,
    last: int,
    number: bool,
    emit_before: bool,
) -> Stream:
    stream = low.lower(node.input)
    loop = rank_loop(stream.rows, partition, order, first, last, number, low.context, emit_before=emit_before)
    spec = StateSpec(type=loop.state, ttl=low.ttl, copy=copy_rows)
    added = low.operator(
        type(node).__name__,
        stream,
        partial(GroupAggregate, loop.function.make, spec),
        keyed=low.key(stream, partition),
        description=digest(node),
    )
    return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))


def deduplicate(low: Lowering, node: P.Deduplicate) -> Stream:
    stream = low.lower(node.input)
    rowtime = node.schema[node.time].type.is_rowtime
    make: Callable[[], Operator]
    if rowtime and not node.keep_last:
        code = timed_rows(stream.rows, node.time, node.partition, low.context)
        row = row_type(node.schema.types)
        make = partial(FirstByTime, code.make, StateSpec(type=tuple_of(int, optional(row)), ttl=low.ttl))
    else:
        loop = deduplicate_loop(
            stream.rows,
            node.partition,
            node.time if rowtime else None,
            low.context,
            keep_last=node.keep_last,
            emit_before=node.emit_before,
        )
        make = partial(GroupAggregate, loop.function.make, StateSpec(type=loop.state, ttl=low.ttl))
    added = low.operator("Deduplicate", stream, make, keyed=low.key(stream, node.partition), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))


def window_rank(low: Lowering, node: P.WindowRank) -> Stream:
    rel = node.node
    stream = low.lower(node.input)
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
        low.context,
        latest_wins=time and key is not None and not key.ascending,
    )
    shift = shift_of(low.context.zone, node.local)
    if shift is not None:
        assign.namespace["instant"] = shift.instant
    make = partial(
        WindowAggregate,
        assign.make,
        fire.make,
        StateSpec(type=state, namespaced=True, copy=copy_rows),
        None if shift is None else shift.instant,
    )
    added = low.operator("WindowRank", stream, make, keyed=low.key(stream, rel.partition), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def over(low: Lowering, node: P.OverAggregate) -> Stream:
    rel = node.node
    stream = low.lower(node.input)
    first = rel.calls[0]
    calls = [c.call for c in rel.calls]
    types = node.input.schema.types
    time = types[first.order[0].column]
    row = row_type(types)
    make: Callable[[], Operator]
    if time.time_attribute is None:
        read = kind_rows(stream.rows, first.partition, low.context)
        results, position = ordered_over(types, calls, first.order, first.frame, low.context)
        make = partial(OrderedOver, read.make, results.make, position.make, row, node.emit_before)
    else:
        loop = over_loop(types, calls, first.frame, low.context)
        if time.is_proctime:
            read = kind_rows(stream.rows, first.partition, low.context)
            make = partial(OverByArrival, read.make, loop.fire.make, loop.new.make)
        else:
            read = timed_rows(stream.rows, first.order[0].column, first.partition, low.context)
            by_key = first.frame.preceding is not None
            keep = None if first.frame.rows else first.frame.preceding
            make = partial(OverByTime, read.make, loop.fire.make, loop.new.make, row, by_key, keep)
    added = low.operator(
        "OverAggregate", stream, make, keyed=low.key(stream, first.partition), description=digest(node)
    )
    return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))


def match(low: Lowering, node: P.Match) -> Stream:
    rel = node.node
    stream = low.lower(node.input)
    types = node.input.schema.types
    time = rel.order[0].column
    processing = types[time].is_proctime
    if processing:
        read = kind_rows(stream.rows, rel.partition, low.context)
    else:
        read = timed_rows(stream.rows, time, rel.partition, low.context)
    conditions = [
        None if c is None else match_condition(types, i, c, low.context).make for i, c in enumerate(rel.conditions)
    ]
    elements = tuple(Element(e.name, e.least, e.most, e.loops, c) for e, c in zip(rel.elements, conditions))
    measures = match_measures(types, rel.partition, rel.measures, low.context)
    make = partial(
        MatchRecognize,
        read.make,
        measures.make,
        Pattern(elements, rel.after, rel.target, rel.within),
        row_type(types),
        sorter(rel.order[1:], types) if len(rel.order) > 1 else None,
        processing,
    )
    added = low.operator("Match", stream, make, keyed=low.key(stream, rel.partition), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def temporal_sort(low: Lowering, node: P.TemporalSort) -> Stream:
    stream = low.lower(node.input)
    time = node.keys[0].column
    if node.schema[time].type.is_proctime:
        return stream
    code = timed_rows(stream.rows, time, None, low.context)
    spec = StateSpec(type=list_of(row_type(node.schema.types)), namespaced=True, copy=copy_rows)
    sort = sorter(node.keys[1:], node.schema.types) if len(node.keys) > 1 else None
    added = low.operator(
        "TemporalSort",
        stream,
        partial(TemporalSort, code.make, spec, sort),
        keyed=low.key(stream, ()),
        description=digest(node),
    )
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def sorter(keys: Sequence[L.SortKey], types: Sequence[DataType]) -> Callable[[list[Any]], None]:
    """A function that puts rows in order."""
    before = Generated("precedes", precedes("precedes", keys, types), {}).make()

    def compare(a: Any, b: Any) -> int:
        return -1 if before(a, b) else 1 if before(b, a) else 0

    key = functools.cmp_to_key(compare)
    return lambda rows: rows.sort(key=key)
