"""Windowing functions that are executed by themselves: every row with the bounds of its windows."""

from __future__ import annotations

from streamline._core.elements import Batch
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.window import bounds, ends, shift_of
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import InputRef
from streamline.table.logical import WindowSpec

__all__ = ("window_table",)


def window_table(
    rows: Rows, spec: WindowSpec, time: int, context: EvalContext, *, local: bool, processing: bool
) -> Generated:
    """`windows(batch, now) -> Batch`: each row once for each of its windows, bounds appended. Nothing is ever late."""
    reader = LoopReader(rows, context)
    shift = shift_of(context.zone, local)
    condition = reader.condition()
    column = InputRef(time, rows.exprs[time].type)
    values = [reader.value(InputRef(i, e.type)) for i, e in enumerate(rows.exprs)]
    keep = not rows.insert_only
    body = Writer(1)
    with body.block("HEAD"), body.guard(condition):
        if not processing:
            body.line(f"ms = {reader.milliseconds(column)}")
        if shift is not None:
            body.line("ms += shift(ms)")
        body.line(f"row = {'r' if rows.is_plain else tuple_source(values)}")
        with body.block("if not low <= ms < high:"):
            body.line(bounds(spec, "ms"))
            body.line("windows = []")
            source = "(high,)" if spec.kind == "TUMBLE" else ends(spec)
            with body.block(f"for end in {source}:"):
                if spec.kind == "CUMULATE":
                    offset = f" - {spec.offset}" if spec.offset else ""
                    body.line(f"start = end - 1 - (end - 1{offset}) % {spec.size}")
                else:
                    body.line(f"start = end - {spec.size}")
                last = "end - 1" if shift is None else "instant(end) - 1"
                body.line(f"windows.append((start * 1000000, end * 1000000, ({last}) * 1000000))")
            if spec.kind == "HOP":
                # The latest window comes first, as in Flink.
                body.line("windows.reverse()")
        with body.block("for window in windows:"):
            body.line("add(row + window)")
            if keep:
                body.line("add_kind(kind)")
    lines, head = reader.head(with_kind=keep)
    w = Writer()
    with w.block("def windows(batch, now):"):
        for line in lines:
            w.line(line)
        w.line("out = []")
        w.line("add = out.append")
        w.line("out_kinds = []")
        w.line("add_kind = out_kinds.append")
        w.line("low = high = 0")
        w.line("windows = ()")
        if processing:
            w.line("ms = now()")
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1)
    text += f"    return Batch(out, None, {'out_kinds' if keep else 'None'})\n"
    namespace = reader.finish()
    namespace["Batch"] = Batch
    if shift is not None:
        namespace["shift"] = shift.of
        namespace["instant"] = shift.instant
    return Generated("windows", text, namespace)
