"""Loops of TO_CHANGELOG and FROM_CHANGELOG."""

from __future__ import annotations

from collections.abc import Iterable

from streamline._core.changes import RowKind
from streamline._core.elements import Batch
from streamline.errors import TableException
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import InputRef

__all__ = ("coded", "decoded")


def coded(rows: Rows, codes: Iterable[tuple[RowKind, str]], context: EvalContext) -> Generated:
    """`coded(batch) -> Batch`: each row with the code of its kind before it; rows of other kinds are left out."""
    reader = LoopReader(rows, context)
    condition, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    lines, head = reader.head(with_kind=not rows.insert_only)
    w = Writer()
    with w.block("def coded(batch):"):
        for line in (*lines, "out = []", "add = out.append"):
            w.line(line)
        with w.block(f"{head}:"), w.guard(condition):
            w.line(f"code = CODES.get({'INSERTED' if rows.insert_only else 'kind'})")
            with w.block("if code is not None:"):
                w.line(f"add({tuple_source(['code', *sources])})")
        w.line("return Batch(out)")
    namespace = reader.finish() | {"Batch": Batch, "CODES": dict(codes), "INSERTED": RowKind.INSERT}
    return Generated("coded", w.text(), namespace)


def decoded(rows: Rows, op: int, codes: Iterable[tuple[str, RowKind]], before: bool, context: EvalContext) -> Generated:
    """`decoded(batch) -> Batch`: each row without its code, as a change of the kind that this stands for."""
    reader = LoopReader(rows, context)
    condition, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    lines, head = reader.head(with_kind=False)
    known = dict(codes)

    def kind_of(code: str | None) -> RowKind:
        if code is None:
            raise TableException("Received NULL op code. Every changelog row must carry an operation code.")
        found = known.get(code)
        if found is None:
            raise TableException(f"Received invalid op code '{code}'. Defined op codes are: [{', '.join(known)}].")
        return found

    w = Writer()
    with w.block("def decoded(batch):"):
        for line in (*lines, "out = []", "add = out.append", "out_kinds = []", "add_kind = out_kinds.append"):
            w.line(line)
        with w.block(f"{head}:"), w.guard(condition):
            w.line(f"kind = kind_of({sources[op]})")
            with w.guard(None if before else "kind is not DROPPED"):
                w.line(f"add({tuple_source([s for i, s in enumerate(sources) if i != op])})")
                w.line("add_kind(kind)")
        w.line("return Batch(out, None, out_kinds)")
    namespace = reader.finish() | {"Batch": Batch, "kind_of": kind_of, "DROPPED": RowKind.UPDATE_BEFORE}
    return Generated("decoded", w.text(), namespace)
