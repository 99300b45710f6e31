"""Loops of session windows: a row begins a session, extends one, or joins several to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamline._core.elements import Batch
from streamline.table.codegen.aggregates import Aggregates, key_source
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.window import shift_of
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall, InputRef

__all__ = ("SessionLoop", "session_loop", "session_rows_loop")


@dataclass(frozen=True, slots=True)
class SessionLoop:
    """Functions over sessions: `[start, end, (kept columns), slots …]`, in a list for each key, by start.

    Attributes:
        assign: `assign(batch, data, watermark, opened, now) -> late`; `opened` gets (end, key) of new sessions.
        fire: `fire(session) -> rows`: the results of a session that has ended.
        state: Python type of a key's sessions.
    """

    assign: Generated
    fire: Generated
    state: Any


def _open(w: Writer, lines: Sequence[str], processing: bool) -> None:
    w.line("def assign(batch, data, watermark, opened, now):")
    for line in (*lines, "late = 0", "get = data.get", *(["ms = now()"] if processing else [])):
        w.line(f"    {line}")


def _find(w: Writer, gap: int, instant: str) -> None:
    """`session`: the one that the row belongs to, with those merged into `merged` that it has joined."""
    w.line("start, end = ms, ms + " + str(gap))
    w.line("sessions = get(key)")
    with w.block("if sessions is None or start > sessions[-1][1]:"):
        w.line("found = []")  # behind the newest of the key's sessions, which are in order and apart: a new one
    with w.block("else:"):
        # Sessions that only touch are one, too.
        w.line("found = [s for s in sessions if s[0] <= end and start <= s[1]]")
    with w.block("if found:"):
        w.line("session = found[0]")
        w.line("session[0] = min(start, session[0])")
        w.line("session[1] = max(end, found[-1][1])")
    with w.block(f"elif {instant} - 1 <= watermark:"):
        w.line("late += 1")
        w.line("continue")


def session_loop(
    rows: Rows,
    keys: Sequence[int],
    partition: Sequence[int],
    calls: Sequence[AggCall],
    gap: int,
    time: int,
    properties: Sequence[str],
    context: EvalContext,
    *,
    local: bool,
    processing: bool,
) -> SessionLoop:
    """The loops of an aggregate over session windows; arguments as of `window.window_loop`."""
    reader = LoopReader(rows, context)
    retracting = not rows.insert_only
    aggregates = Aggregates(calls, reader, retracting)
    shift = shift_of(context.zone, local)
    names = aggregates.names
    others = [f"b{i}" for i in range(len(names))]
    size = "" if not retracting else aggregates.counts_every_row() or "size"
    if size == "size":
        names = [*names, "size"]
        others.append("other_size")
    body = Writer(1)
    condition = reader.condition()
    with body.block("HEAD"), body.guard(condition):
        key_exprs = [InputRef(k, rows.exprs[k].type) for k in keys]
        columns = [body.named(reader.value(k), "k") for k in key_exprs]
        parts = [key_source(reader, k.type, c) for k, c in zip(key_exprs, columns)]
        body.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
        aggregates.bind_arguments(body)
        if not processing:
            body.line(f"ms = {reader.milliseconds(InputRef(time, rows.exprs[time].type))}")
        if shift is not None:
            body.line("ms += shift(ms)")
        _find(body, gap, "end" if shift is None else "instant(end)")
        with body.block("if not found:"):
            aggregates.initial(body)
            if size == "size":
                body.line("size = 0")
            body.line(f"kept = {tuple_source(columns) if columns else '()'}")
            body.line("session = [start, end, kept]")
            with body.block("if sessions is None:"):
                body.line("data[key] = sessions = [session]")
            with body.block("else:"):
                body.line("sessions.append(session)")
                with body.block("if start < sessions[-2][0]:"):
                    body.line("sessions.sort(key=first)")
            body.line("opened.append((end, key))")
        if names:
            with body.block("else:"):
                body.line(f"_, _, _, {', '.join(names)} = session")
                with body.block("for other in found[1:]:"):
                    body.line(f"_, _, _, {', '.join(others)} = other")
                    aggregates.merge(body, others[: len(aggregates.names)])
                    if size == "size":
                        body.line("size += other_size")
        with body.block("for other in found[1:]:"):
            body.line("sessions.remove(other)")
        if retracting:
            with body.block("if kind is INSERT or kind is UPDATE_AFTER:"):
                aggregates.add(body)
                if size == "size":
                    body.line("size += 1")
            with body.block("else:"):
                aggregates.retract(body)
                if size == "size":
                    body.line("size -= 1")
        else:
            aggregates.add(body)
        body.line(f"session[3:] = {tuple_source(names) if names else '()'}")
        body.line("data[key] = sessions")
    lines, head = reader.head(with_kind=retracting)
    w = Writer()
    _open(w, lines, processing)
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return late\n"
    namespace = reader.finish()
    namespace["first"] = first
    if shift is not None:
        namespace["shift"] = shift.of
        namespace["instant"] = shift.instant
    fire = Writer()
    window = {
        "start": "start * 1000000",
        "end": "end * 1000000",
        "rowtime": f"({'end' if shift is None else 'instant(end)'} - 1) * 1000000",
        "proctime": "None",
    }
    with fire.block("def fire(session):"):
        fire.line(f"start, end, kept{''.join(f', {n}' for n in names)} = session")
        if size:
            with fire.block(f"if {size} == 0:"):
                fire.line("return []")
        columns = [f"kept[{i}]" for i in range(len(keys))]
        row = tuple_source([*columns, *aggregates.results(), *(window[p] for p in properties)])
        fire.line(f"return [{row}]")
    slots = [s.type for s in aggregates.slots] + [int] * (size == "size")
    kept = row_type(tuple(rows.exprs[k].type for k in keys))
    del slots, kept
    return SessionLoop(Generated("assign", text, namespace), Generated("fire", fire.text(), namespace), list[Any])


def first(session: list[Any]) -> Any:
    """Where a session begins."""
    return session[0]


def session_rows_loop(
    rows: Rows, keys: Sequence[int], gap: int, time: int, context: EvalContext, *, local: bool, processing: bool
) -> SessionLoop:
    """The loops of SESSION without an aggregate: rows wait for the end of their session."""
    reader = LoopReader(rows, context)
    shift = shift_of(context.zone, local)
    keep = not rows.insert_only
    body = Writer(1)
    condition = reader.condition()
    values = [reader.value(InputRef(i, e.type)) for i, e in enumerate(rows.exprs)]
    with body.block("HEAD"), body.guard(condition):
        body.line(f"row = {'r' if rows.is_plain else tuple_source(values)}")
        parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
        body.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
        if not processing:
            body.line(f"ms = {reader.milliseconds(InputRef(time, rows.exprs[time].type))}")
        if shift is not None:
            body.line("ms += shift(ms)")
        _find(body, gap, "end" if shift is None else "instant(end)")
        with body.block("if not found:"):
            body.line("session = [start, end, []]")
            with body.block("if sessions is None:"):
                body.line("data[key] = sessions = [session]")
            with body.block("else:"):
                body.line("sessions.append(session)")
                with body.block("if start < sessions[-2][0]:"):
                    body.line("sessions.sort(key=first)")
            body.line("opened.append((end, key))")
        with body.block("for other in found[1:]:"):
            body.line("session[2] += other[2]")
            body.line("sessions.remove(other)")
        body.line(f"session[2].append((row, {'kind.value' if keep else '0'}))")
        body.line("data[key] = sessions")
    lines, head = reader.head(with_kind=keep)
    w = Writer()
    _open(w, lines, processing)
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return late\n"
    namespace = reader.finish()
    namespace["first"] = first
    namespace["Batch"] = Batch
    if shift is not None:
        namespace["shift"] = shift.of
        namespace["instant"] = shift.instant
    fire = Writer()
    with fire.block("def fire(session):"):
        fire.line("start, end, rows = session")
        last = "end" if shift is None else "instant(end)"
        fire.line(f"window = (start * 1000000, end * 1000000, ({last} - 1) * 1000000)")
        fire.line(
            "return [(row + window, kind) for row, kind in rows]"
            if keep
            else "return [row + window for row, _ in rows]"
        )
    return SessionLoop(Generated("assign", text, namespace), Generated("fire", fire.text(), namespace), list[Any])
