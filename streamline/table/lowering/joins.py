"""Builders of joins."""

from __future__ import annotations

from functools import partial

from streamline._core.declare import StateSpec, TtlSpec
from streamline._operators.join.interval import IntervalJoin
from streamline._operators.join.regular import RegularJoin
from streamline._operators.join.temporal import LookupJoin, TemporalJoin
from streamline._operators.join.window import WindowJoin
from streamline._operators.state_types import dict_of
from streamline.table import physical as P
from streamline.table.codegen.calc import calc
from streamline.table.codegen.join import JoinSide, join_side, join_state
from streamline.table.codegen.rank import instant_of
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.timed_rows import kind_rows, lookup_rows, timed_rows, version_rows
from streamline.table.codegen.window import shift_of
from streamline.table.codegen.window_join import pair_condition, window_rows
from streamline.table.codegen.window_join import window_join as window_join_code
from streamline.table.explain import digest
from streamline.table.lowering.base import Lowering, Stream, copy_rows

__all__ = ("interval_join", "join", "lookup_join", "temporal_join", "window_join")


def join(low: Lowering, node: P.Join) -> Stream:
    streams = (low.lower(node.left), low.lower(node.right))
    safe = tuple(k[2] for k in node.keys)
    sides = [JoinSide(s.rows, tuple(k[i] for k in node.keys), safe, node.unique[i]) for i, s in enumerate(streams)]
    left = join_side(sides[0], sides[1], node.kind, node.condition, True, low.context)
    right = join_side(sides[1], sides[0], node.kind, node.condition, False, low.context)
    specs = [_join_spec(low, side, ttl) for side, ttl in zip(sides, node.state_ttl)]
    make = partial(RegularJoin, left.make, right.make, (specs[0], specs[1]))
    keyed = (low.key(streams[0], sides[0].keys), low.key(streams[1], sides[1].keys))
    added = low.two_inputs("Join", streams, make, keyed, digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))


def interval_join(low: Lowering, node: P.IntervalJoin) -> Stream:
    streams = (low.lower(node.left), low.lower(node.right))
    bounds = node.bounds
    keys = ([k[0] for k in bounds.keys], [k[1] for k in bounds.keys])
    times = (bounds.left, bounds.right)
    widths = (len(node.left.schema), len(node.right.schema))
    if node.processing:
        read = tuple(kind_rows(s.rows, k, low.context) for s, k in zip(streams, keys))
    else:
        read = tuple(timed_rows(s.rows, time, k, low.context) for s, time, k in zip(streams, times, keys))
    matches = None if node.condition is None else pair_condition(widths, node.condition, low.context)
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
    keyed = tuple(low.key(s, k) for s, k in zip(streams, keys))
    added = low.two_inputs("IntervalJoin", streams, make, (keyed[0], keyed[1]), digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def temporal_join(low: Lowering, node: P.TemporalJoin) -> Stream:
    streams = (low.lower(node.left), low.lower(node.right))
    keys = ([k[0] for k in node.keys], [k[1] for k in node.keys])
    widths = (len(node.left.schema), len(node.right.schema))
    left = timed_rows(streams[0].rows, node.times[0], keys[0], low.context)
    right = version_rows(streams[1].rows, node.times[1], keys[1], low.context)
    matches = None if node.condition is None else pair_condition(widths, node.condition, low.context)
    make = partial(
        TemporalJoin,
        (left.make, right.make),
        None if matches is None else matches.make,
        (row_type(node.left.schema.types), row_type(node.right.schema.types)),
        widths[1],
        node.outer,
        low.ttl,
    )
    keyed = tuple(low.key(s, k) for s, k in zip(streams, keys))
    added = low.two_inputs("TemporalJoin", streams, make, (keyed[0], keyed[1]), digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def lookup_join(low: Lowering, node: P.LookupJoin) -> Stream:
    stream = low.lower(node.input)
    assert node.table.lookup is not None
    columns = tuple(node.table.schema.names[c] for c, _ in node.keys)
    read = lookup_rows(stream.rows, [e for _, e in node.keys], low.context)
    convert = calc(Rows.of_shape(node.table.shape), low.context)
    widths = (len(node.input.schema), len(node.table.schema))
    matches = None if node.condition is None else pair_condition(widths, node.condition, low.context)
    make = partial(
        LookupJoin,
        read.make,
        convert.make,
        None if matches is None else matches.make,
        partial(node.table.lookup, columns),
        widths[1],
        node.outer,
    )
    added = low.operator("LookupJoin", stream, make, description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))


def window_join(low: Lowering, node: P.WindowJoin) -> Stream:
    streams = (low.lower(node.left), low.lower(node.right))
    safe = [k[2] for k in node.keys]
    shift = shift_of(low.context.zone, node.local)
    instant = instant_of if shift is None else shift.instant
    sides = [
        window_rows(s.rows, [k[i] for k in node.keys], node.ends[i], low.context, instant)
        for i, s in enumerate(streams)
    ]
    code = window_join_code(
        (len(node.left.schema), len(node.right.schema)), node.kind, safe, node.condition, low.context
    )
    specs = [StateSpec(type=x, namespaced=True, copy=copy_rows) for _, x in sides]
    make = partial(
        WindowJoin,
        (sides[0][0].make, sides[1][0].make),
        code.make,
        (specs[0], specs[1]),
        None if shift is None else shift.instant,
    )
    keyed = tuple(low.key(s, [k[i] for k in node.keys]) for i, s in enumerate(streams))
    added = low.two_inputs("WindowJoin", streams, make, (keyed[0], keyed[1]), digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def _join_spec(low: Lowering, side: JoinSide, ttl: int) -> StateSpec:
    identity, entry = join_state(side)
    if ttl:
        return StateSpec(type=dict_of(identity, entry), ttl=TtlSpec(ttl), copy=dict.copy)
    return StateSpec(type=entry, kind="map", map_key=identity)
