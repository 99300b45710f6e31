"""Rows with their event time, for operators that wait for the watermark."""

from __future__ import annotations

from collections.abc import Sequence

from streamline.errors import TableException
from streamline.table.codegen.aggregates import key_source
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef

__all__ = ("kind_rows", "lookup_rows", "timed_rows", "version_rows")


def no_time(row: object) -> int:
    """A row has no event time.

    Raises:
        TableException: always.
    """
    raise TableException(f"the time attribute is NULL in {row!r}; filter such rows before they are sorted or joined")


def timed_rows(rows: Rows, time: int, keys: Sequence[int] | None, context: EvalContext) -> Generated:
    """`read(batch)`: (event time in ms, row), or with keys (event time, key, row)."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    w = Writer()
    inner = Writer(1)
    with inner.block("HEAD"), inner.guard(test):
        inner.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        ms = reader.milliseconds(InputRef(time, rows.exprs[time].type))
        inner.line(f"ms = {ms}")
        if rows.exprs[time].type.nullable:
            with inner.block("if ms is None:"):
                inner.line("no_time(row)")
        if keys is None:
            inner.line("add((ms, row))")
        else:
            parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
            key = parts[0] if len(parts) == 1 else tuple_source(parts) if parts else "()"
            inner.line(f"add((ms, {key}, row))")
    lines, head = reader.head(with_kind=False)
    with w.block("def read(batch):"):
        for line in (*lines, "out = []", "add = out.append"):
            w.line(line)
    text = w.text() + inner.text().replace("HEAD", f"{head}:", 1) + "    return out\n"
    namespace = reader.finish()
    namespace["no_time"] = no_time
    return Generated("read", text, namespace)


def kind_rows(rows: Rows, keys: Sequence[int], context: EvalContext) -> Generated:
    """`read(batch)`: (kind, key, row) triples."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    inner = Writer(1)
    with inner.block("HEAD"), inner.guard(test):
        inner.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
        key = parts[0] if len(parts) == 1 else tuple_source(parts) if parts else "()"
        inner.line(f"add((kind, {key}, row))")
    return _read_with_kinds(reader, inner, {})


def version_rows(rows: Rows, time: int, keys: Sequence[int], context: EvalContext) -> Generated:
    """`read(batch)`: (event time in ms, kind, key, row)."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    inner = Writer(1)
    with inner.block("HEAD"), inner.guard(test):
        inner.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        inner.line(f"ms = {reader.milliseconds(InputRef(time, rows.exprs[time].type))}")
        if rows.exprs[time].type.nullable:
            with inner.block("if ms is None:"):
                inner.line("no_time(row)")
        parts = [key_source(reader, rows.exprs[k].type, f"row[{k}]") for k in keys]
        key = parts[0] if len(parts) == 1 else tuple_source(parts) if parts else "()"
        inner.line(f"add((ms, kind, {key}, row))")
    return _read_with_kinds(reader, inner, {"no_time": no_time})


def lookup_rows(rows: Rows, keys: Sequence[Expr], context: EvalContext) -> Generated:
    """`read(batch)`: (kind, key, row), where the key is a tuple, or None where a part of it is NULL."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    parts = [reader.value(k) for k in keys]
    inner = Writer(1)
    with inner.block("HEAD"), inner.guard(test):
        inner.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        inner.line(f"key = {tuple_source(parts)}")
        inner.line("add((kind, None if None in key else key, row))")
    return _read_with_kinds(reader, inner, {})


def _read_with_kinds(reader: LoopReader, inner: Writer, names: dict[str, object]) -> Generated:
    lines, head = reader.head(with_kind=True)
    w = Writer()
    with w.block("def read(batch):"):
        for line in (*lines, "out = []", "add = out.append"):
            w.line(line)
    text = w.text() + inner.text().replace("HEAD", f"{head}:", 1) + "    return out\n"
    return Generated("read", text, {**reader.finish(), **names})
