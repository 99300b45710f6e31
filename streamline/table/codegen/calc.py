"""Projection, filter and the way out as one loop over a batch."""

from __future__ import annotations

import string

from streamline._core.changes import Row
from streamline._core.elements import Batch
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.logical import OutputShape

__all__ = ("calc", "output", "tuple_source")


def tuple_source(values: list[str]) -> str:
    """Source of a tuple."""
    return f"({', '.join(values)},)" if len(values) == 1 else f"({', '.join(values)})"


def calc(rows: Rows, context: EvalContext) -> Generated:
    """`calc(batch) -> Batch`: the rows seen, as tuples, with their kinds."""
    return _transform("calc", rows, context, OutputShape(kinds=True))


def output(rows: Rows, shape: OutputShape, context: EvalContext) -> Generated:
    """`output(batch) -> Batch`: the objects that leave."""
    return _transform("output", rows, context, shape)


def _transform(name: str, rows: Rows, context: EvalContext, shape: OutputShape) -> Generated:
    namespace: dict[str, object] = dict(shape.namespace)
    reader = LoopReader(rows, context, namespace)
    namespace["Batch"] = Batch
    exprs = [InputRef(i, e.type) for i, e in enumerate(rows.exprs)]
    passes = shape.element is not None and shape.element is rows.element and rows.is_untouched
    wanted: list[Expr] = [] if passes else list(exprs)
    condition, sources = reader.filtered(wanted)
    if passes:
        value = "r"
    elif shape.template:
        value = shape.template.format(*sources, kind="kind")
    else:
        value = "r" if rows.is_plain else tuple_source(sources)
    stamp = None if shape.timestamp is None else reader.milliseconds(exprs[shape.timestamp])
    w = Writer()
    if shape.row is not None and not passes:
        identity = f"({', '.join(f'{{{i}}}' for i in range(len(exprs)))},)"
        namespace |= {"Row": Row, "new_row": Row.__new__, "names": shape.row}
        if rows.is_plain and shape.template == identity:
            # The tuple itself, which may be a user's own, with more fields than were asked for.
            value = f"r if len(r) == {len(exprs)} else r[:{len(exprs)}]"
        with w.block(f"def {name}(batch):"):
            _rows(w, reader, condition, value, stamp)
        return Generated(name, w.text(), reader.finish())
    kind_in_value = bool(shape.template) and not passes and "kind" in _placeholders(shape.template)
    with_kinds = shape.kinds and not rows.insert_only
    with w.block(f"def {name}(batch):"):
        if kind_in_value or with_kinds:
            _with_kinds(w, reader, condition, value, stamp, with_kinds)
        else:
            _insert_only(w, reader, condition, value, stamp)
    return Generated(name, w.text(), reader.finish())


def _rows(w: Writer, reader: LoopReader, condition: str | None, values: str, stamp: str | None) -> None:
    """Rows with their kinds; built without a call of Python's, for that costs more than all the rest."""
    insert_only = reader.rows.insert_only
    lines, head = reader.head(with_kind=not insert_only)
    for line in lines:
        w.line(line)
    w.line("out = []")
    w.line("add = out.append")
    if stamp is not None:
        w.line("out_timestamps = []")
    with w.block(f"{head}:"), w.guard(condition):
        w.line("row = new_row(Row)")
        w.line(f"row._values = {values}")
        w.line("row._names = names")
        w.line(f"row.kind = {'INSERT' if insert_only else 'kind'}")
        w.line("add(row)")
        if stamp is not None:
            w.line(f"out_timestamps.append({stamp})")
    w.line(f"return Batch(out, {'None' if stamp is None else 'out_timestamps'})")


def _placeholders(template: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(template) if field}


def _insert_only(w: Writer, reader: LoopReader, condition: str | None, value: str, stamp: str | None) -> None:
    lines, head = reader.head(with_kind=False)
    for line in lines:
        w.line(line)
    if stamp is None:
        w.line(f"return Batch([{value} {head}{'' if condition is None else f' if {condition}'}])")
    elif condition is None:
        w.line(
            f"return Batch([{value} {head}], [{stamp} {head}])"
            if value != "r"
            else f"return Batch(batch.values, [{stamp} {head}])"
        )
    else:
        w.line(f"pairs = [({value}, {stamp}) {head} if {condition}]")
        w.line("return Batch([p[0] for p in pairs], [p[1] for p in pairs])")


def _with_kinds(
    w: Writer, reader: LoopReader, condition: str | None, value: str, stamp: str | None, keep: bool
) -> None:
    lines, head = reader.head(with_kind=True)
    for line in lines:
        w.line(line)
    names = ["out", *["out_kinds"] * keep, *["out_timestamps"] * (stamp is not None)]
    for name in names:
        w.line(f"{name} = []")
    with w.block(f"{head}:"), w.guard(condition):
        w.line(f"out.append({value})")
        if keep:
            w.line("out_kinds.append(kind)")
        if stamp is not None:
            w.line(f"out_timestamps.append({stamp})")
    w.line(f"return Batch(out, {'None' if stamp is None else 'out_timestamps'}, {'out_kinds' if keep else 'None'})")
