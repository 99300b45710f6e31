"""Loops that change the changelog itself: normalising, dropping -U, expanding rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamline._core.elements import Batch
from streamline.table.codegen.aggregates import key_source
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.group import GroupLoop
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef

__all__ = ("drop_before", "expand", "normalize_loop")


def _open(w: Writer, reader: LoopReader, name: str, arguments: str) -> str:
    lines, head = reader.head(with_kind=True)
    w.line(f"def {name}({arguments}):")
    for line in (*lines, "out = []", "add = out.append", "out_kinds = []", "add_kind = out_kinds.append"):
        w.line(f"    {line}")
    return head


def drop_before(rows: Rows, context: EvalContext) -> Generated:
    """`drop(batch) -> Batch`: the rows without -U."""
    reader = LoopReader(rows, context)
    condition, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    w = Writer()
    head = _open(w, reader, "drop", "batch")
    body = Writer(1)
    test = "kind is not UPDATE_BEFORE" + (f" and {condition}" if condition else "")
    with body.block(f"{head}:"), body.block(f"if {test}:"):
        body.line(f"add({'r' if rows.is_plain else tuple_source(sources)})")
        body.line("add_kind(kind)")
    body.line("return Batch(out, None, out_kinds)")
    namespace = reader.finish()
    namespace["Batch"] = Batch
    return Generated("drop", w.text() + body.text(), namespace)


def expand(rows: Rows, projections: Sequence[Sequence[Expr]], context: EvalContext) -> Generated:
    """`expand(batch) -> Batch`: each row once for every projection."""
    reader = LoopReader(rows, context)
    condition = reader.condition()
    values = [tuple_source([reader.value(e) for e in p]) for p in projections]
    keep = not rows.insert_only
    lines, head = reader.head(with_kind=keep)
    w = Writer()
    with w.block("def expand(batch):"):
        for line in lines:
            w.line(line)
        w.line("out = []")
        w.line("out_kinds = []" if keep else "add = out.append")
        with w.block(f"{head}:"), w.guard(condition):
            if keep:
                w.line(f"out += ({', '.join(values)},)")
                w.line(f"out_kinds += (kind,) * {len(values)}")
            else:
                for value in values:
                    w.line(f"add({value})")
        w.line(f"return Batch(out, None, {'out_kinds' if keep else 'None'})")
    namespace = reader.finish()
    namespace["Batch"] = Batch
    return Generated("expand", w.text(), namespace)


def normalize_loop(
    rows: Rows, keys: Sequence[int], condition: Expr | None, context: EvalContext, emit_before: bool
) -> GroupLoop:
    """`normalize(batch, data) -> Batch`: an upsert changelog as a complete one.

    Repeats of a row send nothing, deletes of unknown keys neither; a delete sends the row as it was. With a condition
    only rows for which it is TRUE are seen outside: one that no longer fulfils it is deleted.
    """
    reader = LoopReader(rows, context)
    read = reader.condition()
    sources = [reader.value(InputRef(i, e.type)) for i, e in enumerate(rows.exprs)]
    body = Writer(1)

    def passes(name: str) -> str:
        assert condition is not None
        return reader.compiler.emit_condition(condition, lambda i: f"{name}[{i}]")

    def emit(row: str, kind: str) -> None:
        body.line(f"add({row})")
        body.line(f"add_kind({kind})")

    with body.block("HEAD"), body.guard(read):
        body.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
        key = body.named(parts[0] if len(parts) == 1 else tuple_source(parts), "key")
        body.line(f"old = get({key})")
        with body.block("if kind is INSERT or kind is UPDATE_AFTER:"):
            with body.block("if old is None:"):
                with body.guard(None if condition is None else passes("row")):
                    emit("row", "INSERT")
                body.line(f"data[{key}] = row")
            with body.block("elif row != old:"):
                if condition is None:
                    if emit_before:
                        emit("old", "UPDATE_BEFORE")
                    emit("row", "UPDATE_AFTER")
                else:
                    _filtered_update(body, passes, emit_before)
                body.line(f"data[{key}] = row")
        with body.block("elif old is not None:"):
            with body.guard(None if condition is None else passes("old")):
                emit("old", "DELETE")
            body.line(f"del data[{key}]")
    body.line("return Batch(out, None, out_kinds)")
    w = Writer()
    head = _open(w, reader, "normalize", "batch, data")
    text = w.text() + "    get = data.get\n" + body.text().replace("HEAD", f"{head}:", 1)
    namespace = reader.finish()
    namespace["Batch"] = Batch
    types = tuple(e.type for e in rows.exprs)
    return GroupLoop(Generated("normalize", text, namespace), row_type(types), None)


def _filtered_update(w: Writer, passes: Callable[[str], str], emit_before: bool) -> None:
    w.line(f"before, after = {passes('old')}, {passes('row')}")
    with w.block("if before and after:"):
        if emit_before:
            w.line("add(old)")
            w.line("add_kind(UPDATE_BEFORE)")
        w.line("add(row)")
        w.line("add_kind(UPDATE_AFTER)")
    with w.block("elif before:"):
        w.line("add(old)")
        w.line("add_kind(DELETE)")
    with w.block("elif after:"):
        w.line("add(row)")
        w.line("add_kind(INSERT)")
