"""Grouping by both bounds of a window is a window aggregate: one result a group when the window ends.

    SELECT k, window_start, window_end, SUM(v)
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end

Where only projections and filters lie between the aggregate and the windowing function, and none of them looks at the
bounds, the function is not executed: the aggregate assigns the windows itself. Otherwise it reads the bounds from its
input, which has them as columns.
"""

from __future__ import annotations

from dataclasses import replace

from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import AggCall, Expr, InputRef, input_refs, rewrite
from streamline.table.logical import Aggregate, Filter, Project, Rel, WindowTvf
from streamline.table.optimized import WindowAggregate
from streamline.table.rules.merge_projections import compose
from streamline.table.rules.rule import Context
from streamline.table.traits import Window

__all__ = ("group_window", "window_aggregate")


def group_window(rel: Rel, context: Context) -> Rel | None:
    """`GROUP BY TUMBLE(ts, size)` is a window aggregate over the time attribute."""
    if not isinstance(rel, Aggregate) or rel.window is None or rel.sets:
        return None
    time = rel.input.schema[rel.window.time].type
    config = context.config
    window = rel.window
    if not config.prefer_append_only and not time.is_proctime:
        window = replace(window, early=config.early_fire, late=config.late_fire, lateness=config.allow_lateness)
    return WindowAggregate(
        rel.input,
        rel.keys,
        rel.calls,
        rel.names,
        rel.window.spec,
        rel.window.time,
        rel.window.properties,
        processing=time.is_proctime,
        local=time.root == "TIMESTAMP_LTZ",
        partition=rel.keys,
        group_window=window,
    )


def window_aggregate(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Aggregate) or rel.sets or rel.window is not None:
        return None
    window = context.traits.window(rel.input)
    if window is None or window.start not in rel.keys or window.end not in rel.keys:
        return None
    if window.spec.kind == "SESSION" and set(window.partition) != set(_columns(rel, window)[1]):
        # Only groups that sessions are made by end with their sessions.
        return None
    found = _direct(rel, window)
    return _attached(rel, window) if found is None else found


def _columns(rel: Aggregate, window: Window, as_key: bool = False) -> tuple[dict[int, str], tuple[int, ...]]:
    """The window's columns among the keys by name, and the other keys (`as_key`: its start is one of them)."""
    names = {window.start: "start", window.end: "end"}
    if as_key:
        del names[window.start]
    if window.time is not None:
        names[window.time] = "proctime" if window.processing else "rowtime"
    bounds = {k: names[k] for k in rel.keys if k in names}
    return bounds, tuple(k for k in dict.fromkeys(rel.keys) if k not in names)


def _result(rel: Aggregate, node: WindowAggregate, bounds: dict[int, str], keys: tuple[int, ...]) -> Rel:
    """The columns in the order of the aggregate that was asked for."""
    n = len(keys)
    order: list[Expr] = []
    for k in rel.keys:
        place = keys.index(k) if k in keys else n + len(rel.calls) + node.properties.index(bounds[k])
        order.append(node.schema.ref(place))
    order += [node.schema.ref(n + i) for i in range(len(rel.calls))]
    return Project(node, tuple(order), rel.names)


def _names(rel: Aggregate, keys: tuple[int, ...], properties: tuple[str, ...]) -> tuple[str, ...]:
    by_key = dict(zip(rel.keys, rel.names))
    prefix = {"start": "window_start", "end": "window_end", "rowtime": "window_time", "proctime": "window_time"}
    return (*(by_key[k] for k in keys), *rel.names[len(rel.keys) :], *(prefix[p] for p in properties))


def _attached(rel: Aggregate, window: Window) -> Rel:
    # The start of a session does not follow from its end.
    bounds, keys = _columns(rel, window, as_key=window.spec.kind == "SESSION")
    properties = tuple(dict.fromkeys(bounds.values()))
    assert window.end is not None
    node = WindowAggregate(
        rel.input,
        keys,
        rel.calls,
        _names(rel, keys, properties),
        window.spec,
        window.end,
        properties,
        attached=True,
        start=window.start,
        processing=window.processing,
        local=window.local,
    )
    return _result(rel, node, bounds, keys)


def _direct(rel: Aggregate, window: Window) -> Rel | None:
    exprs: tuple[Expr, ...] = rel.input.schema.refs()
    condition: Expr | None = None
    below: Rel = rel.input
    while isinstance(below, (Project, Filter)):
        if isinstance(below, Project):
            exprs = tuple(compose(e, below.exprs) for e in exprs)
            if condition is not None:
                condition = compose(condition, below.exprs)
        else:
            condition = below.condition if condition is None else and_(below.condition, condition)
        below = below.input
    if not isinstance(below, WindowTvf):
        return None
    width = len(below.input.schema)
    bounds, keys = _columns(rel, window)
    needed = sorted(
        {
            *keys,
            *(i for c in rel.calls for a in c.args for i in input_refs(a)),
            *(i for c in rel.calls if c.filter is not None for i in input_refs(c.filter)),
        }
    )
    used = [exprs[i] for i in needed] + ([] if condition is None else [condition])
    if any(i >= width for e in used for i in input_refs(e)):
        return None
    if below.spec.kind == "SESSION":
        partition = [next((k for k in keys if exprs[k] == below.input.schema.ref(p)), None) for p in below.keys]
        if set(partition) != set(keys):
            return None
    else:
        partition = []
    place = {old: new for new, old in enumerate(needed)}
    source = below.input if condition is None else Filter(below.input, condition)
    time = below.input.schema.ref(below.time)
    names = tuple(rel.input.schema.names[i] for i in needed)
    projected = Project(source, (*(exprs[i] for i in needed), time), (*names, f"{time.name}$time"))
    properties = tuple(dict.fromkeys(bounds.values()))
    node = WindowAggregate(
        projected,
        tuple(place[k] for k in keys),
        tuple(_moved(c, place) for c in rel.calls),
        _names(rel, keys, properties),
        below.spec,
        len(needed),
        properties,
        processing=window.processing,
        local=window.local,
        partition=tuple(place[k] for k in partition if k is not None),
    )
    return _result(rel, node, bounds, keys)


def _moved(call: AggCall, place: dict[int, int]) -> AggCall:
    def move(expr: Expr) -> Expr:
        return rewrite(expr, lambda e: replace(e, index=place[e.index]) if isinstance(e, InputRef) else None)

    condition = None if call.filter is None else move(call.filter)
    return replace(call, args=tuple(map(move, call.args)), filter=condition)
