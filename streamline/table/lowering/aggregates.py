"""Builders of aggregates, over groups and over windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from streamline._core.declare import StateSpec, TtlSpec
from streamline._operators.aggregate.emitting import EmittingWindows
from streamline._operators.aggregate.group import GroupAggregate
from streamline._operators.aggregate.mini_batch import MiniBatchGroup
from streamline._operators.aggregate.session import SessionWindows, copy_sessions
from streamline._operators.aggregate.window import WindowAggregate
from streamline._operators.aggregate.window_table import WindowTable
from streamline.abc import Operator
from streamline.errors import TableException
from streamline.table import physical as P
from streamline.table.codegen.group import group_loop
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.session import SessionLoop, session_loop, session_rows_loop
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.window import WindowTime, shift_of, window_loop
from streamline.table.codegen.window_table import window_table as window_table_code
from streamline.table.explain import digest
from streamline.table.lowering.base import Attached, Lowering, Stream, copier, observer

__all__ = ("group", "group_window", "window", "window_table")


def group(low: Lowering, node: P.GroupAggregate) -> Stream:
    stream = low.lower(node.input)
    ttl = TtlSpec(node.state_ttl) if node.state_ttl else None
    mini = node.mini_batch
    loop = group_loop(
        stream.rows,
        node.keys,
        node.calls,
        low.context,
        emit_before=node.emit_before or mini is not None,
        always=ttl is not None,
    )
    spec = StateSpec(type=loop.state, ttl=ttl, copy=None if loop.copy is None else copier(loop.copy))
    make: Callable[[], Operator] = partial(GroupAggregate, loop.function.make, spec, observer(loop.function))
    if mini is not None:
        make = partial(
            MiniBatchGroup, loop.function.make, spec, len(node.keys), node.emit_before, mini.latency, mini.size
        )
    added = low.operator("GroupAggregate", stream, make, keyed=low.key(stream, node.keys), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, node.mode.is_insert_only))


def window(low: Lowering, node: P.WindowAggregate | P.GroupWindowAggregate) -> Stream:
    stream = low.lower(node.input)
    rel = node.node
    if rel.spec.kind == "SESSION" and not rel.attached:
        return _session(low, node, stream)
    time = WindowTime(rel.time, rel.attached, rel.start, rel.processing)
    loop = window_loop(stream.rows, rel.keys, rel.calls, rel.spec, time, rel.properties, low.context, local=rel.local)
    spec = StateSpec(type=loop.state, namespaced=True, copy=None if loop.copy is None else copier(loop.copy))
    shift = shift_of(low.context.zone, rel.local)
    make = partial(
        WindowAggregate,
        loop.assign.make,
        loop.fire.make,
        spec,
        None if shift is None else shift.instant,
        rel.processing,
    )
    added = low.operator(type(node).__name__, stream, make, keyed=low.key(stream, rel.keys), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def group_window(low: Lowering, node: P.GroupWindowAggregate) -> Stream:
    rel = node.node
    if not rel.emits_updates:
        return window(low, node)
    if rel.spec.kind == "SESSION" or rel.processing:
        raise TableException(
            "early and late firing is there for TUMBLE and HOP over event time, not for this window; turn "
            "'table.exec.emit.early-fire.enabled' and 'table.exec.emit.late-fire.enabled' off"
        )
    assert rel.group_window is not None
    stream = low.lower(node.input)
    options = rel.group_window
    loop = window_loop(
        stream.rows,
        rel.keys,
        rel.calls,
        rel.spec,
        WindowTime(rel.time),
        rel.properties,
        low.context,
        local=rel.local,
        lateness=options.lateness,
        report=True,
    )
    shift = shift_of(low.context.zone, rel.local)
    copy = None if loop.copy is None else copier(loop.copy)
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
    added = low.operator(
        "GroupWindowAggregate", stream, make, keyed=low.key(stream, rel.keys), description=digest(node)
    )
    return Stream((added,), Rows.of_tuples(node.schema.types, False))


def _session(low: Lowering, node: P.WindowAggregate | P.GroupWindowAggregate, stream: Stream) -> Stream:
    rel = node.node
    loop = session_loop(
        stream.rows,
        rel.keys,
        rel.partition,
        rel.calls,
        rel.spec.size,
        rel.time,
        rel.properties,
        low.context,
        local=rel.local,
        processing=rel.processing,
    )
    added = _sessions(low, loop, node, stream, rel.keys, rel.local, rel.processing, False)
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def _sessions(
    low: Lowering,
    loop: SessionLoop,
    node: P.Node,
    stream: Stream,
    keys: Sequence[int],
    local: bool,
    processing: bool,
    kinds: bool,
) -> Attached:
    shift = shift_of(low.context.zone, local)
    make = partial(
        SessionWindows,
        loop.assign.make,
        loop.fire.make,
        StateSpec(type=loop.state, copy=copy_sessions),
        None if shift is None else shift.instant,
        processing,
        kinds,
    )
    return low.operator(type(node).__name__, stream, make, keyed=low.key(stream, keys), description=digest(node))


def window_table(low: Lowering, node: P.WindowTableFunction) -> Stream:
    stream = low.lower(node.input)
    rel = node.node
    time = rel.input.schema[rel.time].type
    local, processing = time.root == "TIMESTAMP_LTZ", time.is_proctime
    kinds = not stream.rows.insert_only
    if rel.spec.kind == "SESSION":
        loop = session_rows_loop(
            stream.rows, rel.keys, rel.spec.size, rel.time, low.context, local=local, processing=processing
        )
        added = _sessions(low, loop, node, stream, rel.keys, local, processing, kinds)
    else:
        code = window_table_code(stream.rows, rel.spec, rel.time, low.context, local=local, processing=processing)
        added = low.operator("WindowTableFunction", stream, partial(WindowTable, code.make), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, not kinds))
