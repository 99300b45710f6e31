"""The loop of an aggregate without windows: every row updates its group and sends what changed.

A group's state is a tuple: the row sent last, followed by the slots that are not columns of it. Where every slot is a
column, the row itself is the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from streamline._core.elements import Batch
from streamline._core.types import DataType
from streamline._operators.state_types import tuple_of
from streamline.table.codegen.aggregates import Aggregates, key_source, needs_key_function
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall, Expr, InputRef

__all__ = ("GroupLoop", "group_loop", "key_function", "key_type")


@dataclass(frozen=True, slots=True)
class GroupLoop:
    """`group(batch, data) -> Batch` with what its operator has to know.

    Attributes:
        function: reads and writes `data`, which maps a group's key to its state.
        state: Python type of a group's state.
        copy: makes an independent copy of a state; None where states are never changed in place.
    """

    function: Generated
    state: Any
    copy: Generated | None


def key_type(types: Sequence[DataType]) -> Any:
    """Python type of the key of these grouping columns."""
    return Any if any(map(needs_key_function, types)) else None


def key_function(rows: Rows, keys: Sequence[Expr], context: EvalContext) -> Generated:
    """`key(r)`: the key of a record for partitioning and state; `keys` are over the columns seen."""
    reader = LoopReader(rows, context)
    sources = [key_source(reader, k.type, reader.value(k)) for k in keys]
    w = Writer()
    with w.block("def key(r, t=None):"):
        w.line(f"return {sources[0] if len(sources) == 1 else tuple_source(sources) if sources else '()'}")
    return Generated("key", w.text(), reader.finish())


def group_loop(
    rows: Rows,
    keys: Sequence[int],
    calls: Sequence[AggCall],
    context: EvalContext,
    *,
    emit_before: bool,
    always: bool = False,
) -> GroupLoop:
    """The loop of a group aggregate.

    Args:
        rows: its input.
        keys: positions of the grouping columns; none for a global aggregate.
        calls: aggregates over the columns seen.
        context: of evaluation.
        emit_before: whether -U is sent.
        always: send an update although the row is the same (where state expires, it renews what is below).
    """
    reader = LoopReader(rows, context)
    retracting = not rows.insert_only
    aggregates = Aggregates(calls, reader, retracting)
    body = Writer(1)
    condition = reader.condition()
    key_exprs = [InputRef(k, rows.exprs[k].type) for k in keys]
    with body.block("HEAD"), body.guard(condition):
        _row(body, reader, aggregates, key_exprs, retracting, emit_before, always)
    head_lines, head = reader.head(with_kind=retracting)
    w = Writer()
    with w.block("def group(batch, data):"):
        for line in head_lines:
            w.line(line)
        w.line("get = data.get")
        w.line("out = []")
        w.line("add = out.append")
        w.line("out_kinds = []")
        w.line("add_kind = out_kinds.append")
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return Batch(out, None, out_kinds)\n"
    namespace = reader.finish()
    namespace["Batch"] = Batch
    layout = _layout(reader, aggregates, key_exprs, retracting)
    return GroupLoop(
        Generated("group", text, namespace),
        layout.type([e.type for e in key_exprs], [c.type for c in calls], aggregates),
        layout.copy(aggregates),
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the slots of a group stand in its state.

    Attributes:
        in_row: column of each slot that is a column of the row.
        extra: slots that are not.
    """

    width: int
    in_row: dict[str, int]
    extra: tuple[str, ...]

    @property
    def is_row(self) -> bool:
        return not self.extra

    def unpack(self, w: Writer) -> None:
        """`state` becomes `old`, the row sent last, and the slots."""
        if self.is_row:
            w.line("old = state")
        else:
            w.line(f"old, {', '.join(self.extra)} = state")
        if not self.in_row:
            return
        if self.width - len(self.in_row) <= 3:
            by_column = {c: s for s, c in self.in_row.items()}
            names = [by_column.get(i, "_") for i in range(self.width)]
            w.line(f"{', '.join(names)}{',' if self.width == 1 else ''} = old")
        else:
            for slot, column in self.in_row.items():
                w.line(f"{slot} = old[{column}]")

    def pack(self) -> str:
        return "row" if self.is_row else f"(row, {', '.join(self.extra)})"

    def type(self, keys: list[DataType], results: list[DataType], aggregates: Aggregates) -> Any:
        row = row_type((*keys, *results))
        if self.is_row:
            return row
        by_name = dict(zip(aggregates.names, aggregates.slots))
        extra = []
        for name in self.extra:
            slot = by_name.get(name)
            extra.append(int if slot is None else slot.type)
        return tuple_of(row, *extra)

    def copy(self, aggregates: Aggregates) -> Generated | None:
        by_name = dict(zip(aggregates.names, aggregates.slots))
        parts = ["s[0]"]
        changed = False
        namespace: dict[str, Any] = {}
        for i, name in enumerate(self.extra, start=1):
            slot = by_name.get(name)
            if slot is not None and slot.copy:
                changed = True
                parts.append(slot.copy.format(f"s[{i}]"))
                if "deepcopy" in slot.copy:
                    namespace["deepcopy"] = deepcopy
            else:
                parts.append(f"s[{i}]")
        if not changed:
            return None
        return Generated("copy", f"def copy(s):\n    return ({', '.join(parts)})\n", namespace)


def _layout(reader: LoopReader, aggregates: Aggregates, keys: Sequence[Expr], retracting: bool) -> _Layout:
    results = aggregates.results()
    in_row: dict[str, int] = {}
    for i, source in enumerate(results):
        if source in aggregates.names and source not in in_row:
            in_row[source] = len(keys) + i
    extra = [n for n in aggregates.names if n not in in_row]
    if retracting and aggregates.counts_every_row() is None:
        extra.append("size")
    return _Layout(len(keys) + len(results), in_row, tuple(extra))


def _row(
    w: Writer,
    reader: LoopReader,
    aggregates: Aggregates,
    keys: Sequence[Expr],
    retracting: bool,
    emit_before: bool,
    always: bool,
) -> None:
    """What happens with one row."""
    columns = [w.named(reader.value(k), "k") for k in keys]
    parts = [key_source(reader, k.type, c) for k, c in zip(keys, columns)]
    key = w.named(parts[0] if len(parts) == 1 else tuple_source(parts) if parts else "()", "key")
    aggregates.bind_arguments(w)
    w.line(f"state = get({key})")
    layout = _layout(reader, aggregates, keys, retracting)
    size = aggregates.counts_every_row() or "size"

    def emit(row: str, kind: str) -> None:
        w.line(f"add({row})")
        w.line(f"add_kind({kind})")

    def new_row() -> None:
        results = aggregates.results()
        w.line(f"row = {tuple_source([*columns, *results]) if columns or results else '()'}")

    with w.block("if state is None:"):
        if retracting:
            with w.block("if kind is UPDATE_BEFORE or kind is DELETE:"):
                w.line("continue")
        aggregates.first(w)
        if size == "size" and retracting:
            w.line("size = 1")
        new_row()
        emit("row", "INSERT")
        w.line(f"data[{key}] = {layout.pack()}")
        w.line("continue")
    layout.unpack(w)
    _update(w, aggregates, retracting, size)
    if retracting:
        with w.block(f"if {size} == 0:"):
            emit("old", "DELETE")
            w.line(f"del data[{key}]")
            w.line("continue")
    new_row()
    changes_always = always or aggregates.never_equal or (not retracting and aggregates.counts_every_row() is not None)
    w.line(f"data[{key}] = {layout.pack()}")
    with w.guard(None if changes_always else "row != old"):
        if emit_before:
            emit("old", "UPDATE_BEFORE")
        emit("row", "UPDATE_AFTER")


def _update(w: Writer, aggregates: Aggregates, retracting: bool, size: str) -> None:
    if not retracting:
        aggregates.add(w)
        return
    with w.block("if kind is INSERT or kind is UPDATE_AFTER:"):
        aggregates.add(w)
        if size == "size":
            w.line("size += 1")
    with w.block("else:"):
        aggregates.retract(w)
        if size == "size":
            w.line("size -= 1")
