"""Loops of aggregates over time windows.

A row finds its windows by integer arithmetic on milliseconds. Between two bounds the set of windows is the same, so a
row that falls between the bounds of the one before it costs two comparisons. State is one table a window:
`{window end: {key: slots}}`; the whole window is sent when the watermark reaches its end.

Window bounds are local times of the session's zone where the time column is a TIMESTAMP_LTZ, as in Flink: `shift`
gives what is to be added to an instant, which is constant between two changes of the offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from streamline._core.elements import Batch
from streamline._operators.aggregate.zones import ZoneShift
from streamline._operators.state_types import tuple_of
from streamline.table.codegen.aggregates import Aggregates, key_source, needs_key_function
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall, InputRef
from streamline.table.logical import WindowSpec

__all__ = ("WindowLoop", "WindowTime", "bounds", "ends", "shift_of", "window_loop")


@dataclass(frozen=True, slots=True)
class WindowTime:
    """Where a row's window comes from: the column of its time attribute, or (`attached`) of its window's end.

    Attributes:
        column: position among the columns seen.
        attached: rows have window_start and window_end already: `column` is window_end.
        start: position of window_start where attached.
        processing: windows go by the clock.
    """

    column: int
    attached: bool = False
    start: int | None = None
    processing: bool = False


@dataclass(frozen=True, slots=True)
class WindowLoop:
    """Functions of a window aggregate.

    Attributes:
        assign: `assign(batch, windows, watermark, opened, now) -> late`: puts the rows of a batch into their windows;
            ends of windows that are new are appended to `opened`; gives how many rows were late.
        fire: `fire(end, window, limit)` gives batches of results of a window.
        state: Python type of a group's state; `copy` as in `GroupLoop`.
    """

    assign: Generated
    fire: Generated
    state: Any
    copy: Generated | None


def shift_of(zone: tzinfo, local: bool) -> ZoneShift | None:
    """The shift from instants to the zone's local time, None where there is none."""
    return None if not local or zone is UTC else ZoneShift(zone)


def window_loop(
    rows: Rows,
    keys: Sequence[int],
    calls: Sequence[AggCall],
    spec: WindowSpec,
    time: WindowTime,
    properties: Sequence[str],
    context: EvalContext,
    *,
    local: bool,
    lateness: int = 0,
    report: bool = False,
) -> WindowLoop:
    """The loops of a window aggregate whose output is keys, aggregates, window properties.

    Args:
        rows: its input.
        keys: positions of the grouping columns, window columns left out.
        calls: aggregates over the columns seen.
        spec: the windows.
        time: where they come from.
        properties: "start", "end", "rowtime", "proctime", in the order of the output.
        context: of evaluation.
        local: the time attribute is a TIMESTAMP_LTZ: windows are of the session's local time.
        lateness: milliseconds for which a window takes rows after its end.
        report: `assign` has a further argument `touched`, called with (end, key) of every window a row is put into.
    """
    reader = LoopReader(rows, context)
    retracting = not rows.insert_only
    aggregates = Aggregates(calls, reader, retracting)
    shift = shift_of(context.zone, local)
    key_exprs = [InputRef(k, rows.exprs[k].type) for k in keys]
    keep = any(needs_key_function(k.type) for k in key_exprs)
    size = "" if not retracting else aggregates.counts_every_row() or "size"
    columns: list[str] = []
    body = Writer(1)
    condition = reader.condition()
    with body.block("HEAD"), body.guard(condition):
        _find_windows(body, reader, spec, time, shift, lateness)
        columns += [body.named(reader.value(k), "k") for k in key_exprs]
        parts = [key_source(reader, k.type, c) for k, c in zip(key_exprs, columns)]
        key = body.named(parts[0] if len(parts) == 1 else tuple_source(parts) if parts else "()", "key")
        aggregates.bind_arguments(body)
        single = spec.kind == "TUMBLE" or time.attached
        if single:
            if report:
                body.line(f"touched((high, {key}))")
            _into_window(body, aggregates, key, "get", "window", columns if keep else [], retracting, size)
        else:
            with body.block("for end, window in windows_here:"):
                if report:
                    body.line(f"touched((end, {key}))")
                _into_window(body, aggregates, key, "window.get", "window", columns if keep else [], retracting, size)
    lines, head = reader.head(with_kind=retracting)
    w = Writer()
    with w.block(f"def assign(batch, windows, watermark, opened, now{', touched' if report else ''}):"):
        for line in lines:
            w.line(line)
        w.line("late = 0")
        w.line("low = high = 0")
        w.line("window = None" if spec.kind == "TUMBLE" or time.attached else "windows_here = ()")
        if time.attached:
            w.line("last = None")
        if time.processing:
            w.line("ms = now()")
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return late\n"
    namespace = reader.finish()
    if shift is not None:
        namespace["shift"] = shift.of
        namespace["instant"] = shift.instant
        namespace["slice_of"] = shift.slice
    slots = [*([_KEPT] if keep else []), *aggregates.names, *(["size"] if size == "size" else [])]
    fire = _fire(reader, aggregates, key_exprs, keep, slots, size, spec, time, properties, shift)
    types = [Any] * keep + [s.type for s in aggregates.slots] + [int] * (size == "size")
    return WindowLoop(
        Generated("assign", text, namespace),
        fire,
        tuple_of(*types),
        _copy(aggregates, keep, size == "size"),
    )


_KEPT = "kept"


def _find_windows(
    w: Writer, reader: LoopReader, spec: WindowSpec, time: WindowTime, shift: ZoneShift | None, lateness: int
) -> None:
    """`window` and `get`, or `windows_here`, for the row; `continue` where it is late."""
    column = InputRef(time.column, reader.rows.exprs[time.column].type)
    if time.attached:
        w.line(f"end = {reader.value(column)}")
        with w.block("if end != last:"):
            w.line("last = end")
            w.line("high = end // 1000000")
            _open_window(w, "high", _instant("high", shift), lateness)
    else:
        if not time.processing:
            w.line(f"ms = {reader.milliseconds(column)}")
        with w.block("if not low <= ms < high:"):
            if shift is None:
                w.line(bounds(spec, "ms"))
            else:
                w.line("moved = shift(ms)")
                w.line("ms += moved")
                w.line(bounds(spec, "ms"))
            if spec.kind == "TUMBLE":
                _open_window(w, "high", _instant("high", shift), lateness)
            else:
                w.line("windows_here = []")
                with w.block(f"for end in {ends(spec)}:"):
                    _open_window(w, "end", _instant("end", shift), lateness)
                    with w.block("if window is not None:"):
                        w.line("windows_here.append((end, window))")
            if shift is not None:
                w.line("low, high = slice_of(low, high, moved)")
    missing = "window is None" if spec.kind == "TUMBLE" or time.attached else "not windows_here"
    with w.block(f"if {missing}:"):
        w.line("late += 1")
        w.line("continue")


def _instant(local: str, shift: ZoneShift | None) -> str:
    return local if shift is None else f"instant({local})"


def bounds(spec: WindowSpec, ms: str) -> str:
    """Statements that set `low` and `high`: between them the windows are the same."""
    offset = f" - {spec.offset}" if spec.offset else ""
    if spec.kind == "TUMBLE":
        return f"low = {ms} - ({ms}{offset}) % {spec.size}\nhigh = low + {spec.size}"
    step = spec.step
    lines = [f"low = {ms} - ({ms}{offset}) % {step}", f"high = low + {step}"]
    rest = spec.size % step if spec.kind == "HOP" else 0
    if rest:
        lines += [f"if {ms} < low + {rest}:", f"    high = low + {rest}", "else:", f"    low += {rest}"]
    return "\n".join(lines)


def ends(spec: WindowSpec) -> str:
    """Source of the ends of all windows of the slice that begins at `low`, earliest first."""
    offset = f" - {spec.offset}" if spec.offset else ""
    if spec.kind == "CUMULATE":
        return f"range(low + {spec.step}, low - (low{offset}) % {spec.size} + {spec.size + 1}, {spec.step})"
    # Windows start at multiples of the step; those that hold `low` end behind it and start at or before it.
    rest = spec.size % spec.step
    first = f"low - (low{offset}) % {spec.step} + {rest}" if rest else f"low + {spec.step}"
    if rest:
        first = f"({first} if {first} > low else {first} + {spec.step})"
    return f"range({first}, low - (low{offset}) % {spec.step} + {spec.size + 1}, {spec.step})"


def _open_window(w: Writer, end: str, instant: str, lateness: int) -> None:
    """`window`: the table of the window that ends there, None where the watermark has passed it."""
    with w.block(f"if {instant} {'- 1' if lateness == 0 else f'+ {lateness - 1}'} <= watermark:"):
        w.line("window = None")
    with w.block("else:"):
        w.line(f"window = windows.get({end})")
        with w.block("if window is None:"):
            w.line(f"window = windows[{end}] = {{}}")
            w.line(f"opened.append({end})")
        w.line("get = window.get")


def _into_window(
    w: Writer,
    aggregates: Aggregates,
    key: str,
    get: str,
    window: str,
    kept: Sequence[str],
    retracting: bool,
    size: str,
) -> None:
    names = [*([_KEPT] if kept else []), *aggregates.names, *(["size"] if size == "size" else [])]
    pack = tuple_source(names) if names else "()"
    w.line(f"state = {get}({key})")
    with w.block("if state is None:"):
        if kept:
            w.line(f"{_KEPT} = {tuple_source(list(kept))}")
        if retracting:
            aggregates.initial(w)
            if size == "size":
                w.line("size = 0")
        else:
            aggregates.first(w)
            w.line(f"{window}[{key}] = {pack}")
            w.line("continue")
    if retracting:
        with w.block("else:"):
            if names:
                w.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = state")
        with w.block("if kind is INSERT or kind is UPDATE_AFTER:"):
            aggregates.add(w)
            if size == "size":
                w.line("size += 1")
        with w.block("else:"):
            aggregates.retract(w)
            if size == "size":
                w.line("size -= 1")
    else:
        if names:
            w.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = state")
        aggregates.add(w)
    w.line(f"{window}[{key}] = {pack}")


def _fire(
    reader: LoopReader,
    aggregates: Aggregates,
    keys: Sequence[InputRef],
    keep: bool,
    slots: Sequence[str],
    size: str,
    spec: WindowSpec,
    time: WindowTime,
    properties: Sequence[str],
    shift: ZoneShift | None,
) -> Generated:
    """`fire(end, window, limit)`: batches of at most `limit` results."""
    w = Writer()
    if keep:
        columns = [f"{_KEPT}[{i}]" for i in range(len(keys))]
    else:
        columns = ["key"] if len(keys) == 1 else [f"key[{i}]" for i in range(len(keys))]
    window = {"start": "start_ns", "end": "end_ns", "rowtime": "time_ns", "proctime": "None"}
    row = tuple_source([*columns, *aggregates.results(), *(window[p] for p in properties)])
    unpack = f"({', '.join(slots)},)" if slots else "_"
    test = f" if {size}" if size else ""
    with w.block("def fire(end, window, limit):"):
        w.line("end_ns = end * 1000000")
        if spec.kind == "CUMULATE":
            offset = f" - {spec.offset}" if spec.offset else ""
            w.line(f"start_ns = (end - 1 - (end - 1{offset}) % {spec.size}) * 1000000")
        else:
            w.line(f"start_ns = end_ns - {spec.size * 1000000}")
        w.line(f"time_ns = {'end_ns - 1000000' if shift is None else '(instant(end) - 1) * 1000000'}")
        with w.block("if len(window) <= limit:"):
            w.line(f"yield Batch([{row} for key, {unpack} in window.items(){test}])")
        with w.block("else:"):
            # Taken out as they are sent: others run meanwhile, one of whom may put a snapshot's overlay in order, so no
            # iterator is kept; and no large table has to be freed in one go.
            w.line("keys, pop = list(window), window.pop")
            with w.block("for first in range(0, len(keys), limit):"):
                w.line("some = keys[first : first + limit]")
                w.line(f"yield Batch([{row} for key, {unpack} in zip(some, map(pop, some)){test}])")
    namespace = dict(reader.namespace)
    namespace["Batch"] = Batch
    if shift is not None:
        namespace["instant"] = shift.instant
    return Generated("fire", w.text(), namespace)


def _copy(aggregates: Aggregates, keep: bool, sized: bool) -> Generated | None:
    slots = aggregates.slots
    if not any(s.copy for s in slots):
        return None
    parts = ["s[0]"] * keep
    parts += [s.copy.format(f"s[{i + keep}]") if s.copy else f"s[{i + keep}]" for i, s in enumerate(slots)]
    parts += [f"s[{len(slots) + keep}]"] * sized
    return Generated("copy", f"def copy(s):\n    return {tuple_source(parts)}\n", {"deepcopy": deepcopy})
