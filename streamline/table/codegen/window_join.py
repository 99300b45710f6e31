"""Joins of rows that belong to the same window: sent once, when the window ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core.elements import Batch
from streamline._operators.state_types import list_of
from streamline.table.codegen.aggregates import key_source
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.logical import JoinKind

__all__ = ("pair_condition", "window_join", "window_rows")


def window_rows(rows: Rows, keys: Sequence[int], end: int, context: EvalContext, instant: Any) -> tuple[Generated, Any]:
    """`assign(batch, windows, watermark, opened) -> late`: keeps rows by window and key; and the type of the state."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    body = Writer(1)
    with body.block("HEAD"), body.guard(test):
        body.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        body.line(f"end = row[{end}] // 1000000")
        with body.block("if end != last:"):
            body.line("last = end")
            with body.block("if instant(end) - 1 <= watermark:"):
                body.line("window = None")
            with body.block("else:"):
                body.line("window = windows.get(end)")
                with body.block("if window is None:"):
                    body.line("window = windows[end] = {}")
                    body.line("opened.append(end)")
        with body.block("if window is None:"):
            body.line("late += 1")
            body.line("continue")
        parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
        body.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
        body.line("found = window.get(key)")
        with body.block("if found is None:"):
            body.line("window[key] = [row]")
        with body.block("else:"):
            body.line("found.append(row)")
            body.line("window[key] = found")
    lines, head = reader.head(with_kind=False)
    w = Writer()
    with w.block("def assign(batch, windows, watermark, opened):"):
        for line in (*lines, "late = 0", "last = window = None"):
            w.line(line)
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return late\n"
    namespace = reader.finish()
    namespace["instant"] = instant
    types = tuple(e.type for e in rows.exprs)
    return Generated("assign", text, namespace), list_of(row_type(types))


def window_join(
    widths: tuple[int, int],
    kind: JoinKind,
    null_safe: Sequence[bool],
    condition: Expr | None,
    context: EvalContext,
) -> Generated:
    """`join(left, right, limit)`: batches of the pairs of a window, from `{key: rows}` of each side, which are used up.

    An empty batch comes where much was looked at and nothing found.

    `null_safe` says for each part of the key whether NULLs are equal; else a key with a NULL there has no matches.
    """
    places = ["key"] if len(null_safe) == 1 else [f"key[{i}]" for i in range(len(null_safe))]
    nulls = " or ".join(f"{p} is None" for p, safe in zip(places, null_safe) if not safe)
    namespace: dict[str, Any] = {}
    reader = LoopReader(Rows.of_tuples((), True), context, namespace)
    test = None
    if condition is not None:
        test = reader.compiler.emit_condition(
            condition, lambda i: f"a[{i}]" if i < widths[0] else f"b[{i - widths[0]}]"
        )
    where = f" if {test}" if test else ""
    w = Writer()
    with w.block("def join(left, right, limit):"):
        w.line("looks, out = 0, []")
        w.line("add = out.append")
        outer = kind in ("RIGHT", "FULL")
        with w.block("for key in list(left):"):
            w.line("rows = left.pop(key)")
            w.line(f"others = {f'() if {nulls} else ' if nulls else ''}right.{'get' if outer else 'pop'}(key, ())")
            if outer:
                w.line("matched = set()")
            with w.block("for a in rows:"):
                _of_left(w, kind, where)
                w.line("looks += 1 + len(others)")
                with w.block("if len(out) >= limit or looks >= limit:"):
                    w.line("yield Batch(out)")
                    w.line("looks, out = 0, []")
                    w.line("add = out.append")
            if outer:
                with w.block("if others:"):
                    w.line("out += [LEFT_NULLS + b for b in others if id(b) not in matched]")
                    w.line("del right[key]")
        if outer:
            with w.block("for key in list(right):"):
                w.line("out += [LEFT_NULLS + b for b in right.pop(key)]")
                with w.block("if len(out) >= limit:"):
                    w.line("yield Batch(out)")
                    w.line("out = []")
        w.line("yield Batch(out)")
    namespace = reader.finish()
    namespace["Batch"] = Batch
    namespace["LEFT_NULLS"] = (None,) * widths[0]
    namespace["RIGHT_NULLS"] = (None,) * widths[1]
    return Generated("join", w.text(), namespace)


def pair_condition(widths: tuple[int, int], condition: Expr, context: EvalContext) -> Generated:
    """`matches(a, b)`: whether a condition over the columns of both rows is TRUE."""
    reader = LoopReader(Rows.of_tuples((), True), context)
    test = reader.compiler.emit_condition(condition, lambda i: f"a[{i}]" if i < widths[0] else f"b[{i - widths[0]}]")
    return Generated("matches", f"def matches(a, b):\n    return {test}\n", reader.finish())


def _of_left(w: Writer, kind: JoinKind, where: str) -> None:
    w.line(f"found = [b for b in others{where}]")
    if kind == "SEMI":
        with w.block("if found:"):
            w.line("add(a)")
        return
    if kind == "ANTI":
        with w.block("if not found:"):
            w.line("add(a)")
        return
    with w.block("for b in found:"):
        w.line("add(a + b)")
        if kind in ("RIGHT", "FULL"):
            w.line("matched.add(id(b))")
    if kind in ("LEFT", "FULL"):
        with w.block("if not found:"):
            w.line("add(a + RIGHT_NULLS)")
