"""Columns that nobody reads are dropped as early as possible: less state, and no change where only they change.

SELECT a.x FROM a JOIN b ON a.k = b.k  ->  Project[x](Join[k = k](Project[x, k](a), Project[k](b)))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streamline.table import logical as L
from streamline.table import optimized as O
from streamline.table.expr.nodes import AggCall, Expr, InputRef, input_refs, rewrite
from streamline.table.traits import Traits

__all__ = ("prune_columns",)

#: A node with fewer columns, and which of the old ones they are, in order.
Pruned = tuple[L.Rel, tuple[int, ...]]


def prune_columns(rel: L.Rel) -> L.Rel:
    """The plan with unread columns left out; its own columns stay."""
    return _exact(rel, range(len(rel.schema)))


def _exact(rel: L.Rel, needed: Iterable[int]) -> L.Rel:
    """The node with exactly these columns, in this order."""
    wanted = tuple(needed)
    new, kept = _prune(rel, frozenset(wanted))
    if kept == wanted:
        return new
    place = {old: i for i, old in enumerate(kept)}
    names = rel.schema.names
    return L.Project(new, tuple(new.schema.ref(place[c]) for c in wanted), tuple(names[c] for c in wanted))


def _moved(expr: Expr, place: dict[int, int]) -> Expr:
    return rewrite(expr, lambda e: replace(e, index=place[e.index]) if isinstance(e, InputRef) else None)


def _call(call: AggCall, place: dict[int, int]) -> AggCall:
    condition = None if call.filter is None else _moved(call.filter, place)
    return replace(call, args=tuple(_moved(a, place) for a in call.args), filter=condition)


def _read_by(calls: Iterable[AggCall]) -> set[int]:
    found: set[int] = set()
    for c in calls:
        for a in (*c.args, *([c.filter] if c.filter is not None else [])):
            found |= input_refs(a)
    return found


def _all(rel: L.Rel) -> tuple[int, ...]:
    return tuple(range(len(rel.schema)))


def _keys(keys: Sequence[L.SortKey], place: dict[int, int]) -> tuple[L.SortKey, ...]:
    return tuple(replace(k, column=place[k.column]) for k in keys)


def _prune(rel: L.Rel, needed: frozenset[int]) -> Pruned:
    match rel:
        case L.Scan() | L.Values():
            kept = tuple(sorted(needed))
            if kept == _all(rel):
                return rel, kept
            return L.Project(rel, tuple(map(rel.schema.ref, kept)), tuple(rel.schema.names[i] for i in kept)), kept
        case L.Project():
            kept = tuple(sorted(needed))
            below, inner = _below(rel.input, set().union(*(input_refs(rel.exprs[i]) for i in kept), set()))
            exprs = tuple(_moved(rel.exprs[i], inner) for i in kept)
            return L.Project(below, exprs, tuple(rel.names[i] for i in kept)), kept
        case L.Filter():
            below, inner = _below(rel.input, needed | input_refs(rel.condition))
            return L.Filter(below, _moved(rel.condition, inner)), tuple(inner)
        case L.Aggregate():
            return _aggregate(rel, needed)
        case O.WindowAggregate():
            return _window_aggregate(rel), _all(rel)
        case L.Join():
            return _join(rel, needed)
        case L.Union():
            kept = tuple(sorted(needed))
            return L.Union(tuple(_exact(i, kept) for i in rel.all_inputs)), kept
        case L.WindowTvf():
            return _tvf(rel, needed)
        case L.Correlate():
            return _correlate(rel, needed)
        case L.Over():
            return _over(rel, needed)
        case O.Rank():
            return _rank(rel, needed)
        case L.Sort() | O.SortLimit() | O.TemporalSort():
            read = needed | {k.column for k in rel.keys} if _unchanging(rel.input) else _all(rel.input)
            below, inner = _below(rel.input, read)
            return replace(rel, input=below, keys=_keys(rel.keys, inner)), tuple(inner)
        case _:
            return rel.with_inputs([_exact(i, _all(i)) for i in rel.inputs]), _all(rel)


def _unchanging(rel: L.Rel) -> bool:
    """Whether nobody can tell if the node has columns that nobody reads: else a change of theirs is a change."""
    return Traits().insert_only(rel)


def _below(rel: L.Rel, needed: Iterable[int]) -> tuple[L.Rel, dict[int, int]]:
    """An input with the columns needed, and where each of its old columns stands now."""
    new, kept = _prune(rel, frozenset(needed))
    return new, {old: i for i, old in enumerate(kept)}


def _aggregate(rel: L.Aggregate, wanted: frozenset[int]) -> Pruned:
    width = len(rel.keys)
    used = [i for i in range(len(rel.calls)) if width + i in wanted or rel.window is not None]
    if not used and not rel.keys and rel.calls:
        used = [0]  # A row is sent again for each row that comes, whatever is in it.
    calls = [rel.calls[i] for i in used]
    needed = sorted({*rel.keys, *_read_by(calls), *([rel.window.time] if rel.window else [])})
    place = {old: i for i, old in enumerate(needed)}
    window = None if rel.window is None else replace(rel.window, time=place[rel.window.time])
    kept = (*range(width), *(width + i for i in used), *range(width + len(rel.calls), len(rel.schema)))
    node = replace(
        rel,
        input=_exact(rel.input, needed),
        keys=tuple(place[k] for k in rel.keys),
        calls=tuple(_call(c, place) for c in calls),
        names=tuple(rel.names[i] for i in kept),
        sets=tuple(tuple(place[k] for k in s) for s in rel.sets),
        window=window,
    )
    return node, kept


def _window_aggregate(rel: O.WindowAggregate) -> L.Rel:
    start = [rel.start] if rel.start is not None else []
    needed = sorted({*rel.keys, *_read_by(rel.calls), rel.time, *start})
    place = {old: i for i, old in enumerate(needed)}
    legacy = None if rel.group_window is None else replace(rel.group_window, time=place[rel.time])
    return replace(
        rel,
        input=_exact(rel.input, needed),
        keys=tuple(place[k] for k in rel.keys),
        calls=tuple(_call(c, place) for c in rel.calls),
        time=place[rel.time],
        start=None if rel.start is None else place[rel.start],
        partition=tuple(place[k] for k in rel.partition),
        group_window=legacy,
    )


def _join(rel: L.Join, needed: frozenset[int]) -> Pruned:
    width = len(rel.left.schema)
    read = needed | input_refs(rel.condition)
    left = sorted(i for i in read if i < width)
    right = sorted(i for i in read if i >= width)
    place = {old: i for i, old in enumerate([*left, *right])}
    node = L.Join(
        _exact(rel.left, left),
        _exact(rel.right, [i - width for i in right]),
        rel.kind,
        _moved(rel.condition, place),
        rel.state_ttl,
    )
    return node, tuple(left if rel.kind in ("SEMI", "ANTI") else [*left, *right])


def _tvf(rel: L.WindowTvf, needed: frozenset[int]) -> Pruned:
    width = len(rel.input.schema)
    kept = sorted({*(i for i in needed if i < width), rel.time, *rel.keys})
    place = {old: i for i, old in enumerate(kept)}
    node = L.WindowTvf(_exact(rel.input, kept), rel.spec, place[rel.time], tuple(place[k] for k in rel.keys))
    return node, (*kept, width, width + 1, width + 2)


def _correlate(rel: L.Correlate, needed: frozenset[int]) -> Pruned:
    width, added = len(rel.input.schema), len(rel.call.schema)
    read = set(needed)
    for a in rel.call.args:
        read |= input_refs(a)
    if rel.condition is not None:
        read |= input_refs(rel.condition)
    kept = sorted(i for i in read if i < width)
    place = {old: i for i, old in enumerate([*kept, *range(width, width + added)])}
    call = replace(rel.call, args=tuple(_moved(a, place) for a in rel.call.args))
    condition = None if rel.condition is None else _moved(rel.condition, place)
    return L.Correlate(_exact(rel.input, kept), call, rel.kind, condition), tuple(place)


def _over(rel: L.Over, needed: frozenset[int]) -> Pruned:
    width = len(rel.input.schema)
    used = [i for i in range(len(rel.calls)) if width + i in needed]
    read = {i for i in needed if i < width} | _read_by(rel.calls[i].call for i in used)
    for i in used:
        read |= {*rel.calls[i].partition, *(k.column for k in rel.calls[i].order)}
    kept = sorted(read) if _unchanging(rel.input) else [*range(width)]
    place = {old: i for i, old in enumerate(kept)}
    below = _exact(rel.input, kept)
    calls = tuple(
        replace(
            rel.calls[i],
            call=_call(rel.calls[i].call, place),
            partition=tuple(place[p] for p in rel.calls[i].partition),
            order=_keys(rel.calls[i].order, place),
        )
        for i in used
    )
    if not calls:
        return below, tuple(kept)
    return L.Over(below, calls, tuple(rel.names[i] for i in used)), (*kept, *(width + i for i in used))


def _rank(rel: O.Rank, needed: frozenset[int]) -> Pruned:
    width = len(rel.input.schema)
    read = {i for i in needed if i < width} | {*rel.partition, *(k.column for k in rel.order)}
    kept = sorted(read)
    place = {old: i for i, old in enumerate(kept)}
    number = rel.number if width in needed else None
    node = replace(
        rel,
        input=_exact(rel.input, kept),
        partition=tuple(place[p] for p in rel.partition),
        order=_keys(rel.order, place),
        number=number,
        window_end=None if rel.window_end is None else place[rel.window_end],
    )
    return node, (*kept, *([width] if number is not None else []))
