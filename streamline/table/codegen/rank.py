"""Loops that keep the first rows of each partition in an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamline._core.elements import Batch
from streamline._core.types import DataType
from streamline._operators.state_types import list_of
from streamline.table.codegen.aggregates import key_source
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import InputRef
from streamline.table.logical import SortKey

__all__ = ("RankLoop", "deduplicate_loop", "precedes", "rank_loop", "window_rank_loop")


@dataclass(frozen=True, slots=True)
class RankLoop:
    """`rank(batch, data) -> Batch` over `{key: rows in order}`, and the Python type of the rows of a key."""

    function: Generated
    state: Any


def precedes(name: str, order: Sequence[SortKey], types: Sequence[DataType]) -> str:
    """Source of `name(a, b)`: whether row a comes before row b; rows that are equal in the order do not."""
    w = Writer()
    with w.block(f"def {name}(a, b):"):
        for k in order:
            w.line(f"x, y = a[{k.column}], b[{k.column}]")
            with w.block("if x != y:"):
                if types[k.column].nullable:
                    with w.block("if x is None:"):
                        w.line(f"return {k.nulls_first}")
                    with w.block("if y is None:"):
                        w.line(f"return {not k.nulls_first}")
                w.line(f"return x {'<' if k.ascending else '>'} y")
        w.line("return False")
    return w.text()


def _begin(rows: Rows, partition: Sequence[int], context: EvalContext, w: Writer) -> tuple[LoopReader, str | None]:
    """`row` and `key` of a record."""
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    w.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
    parts = [key_source(reader, rows.exprs[p].type, f"row[{p}]") for p in partition]
    w.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
    return reader, test


def _finish(
    name: str, arguments: str, reader: LoopReader, body: Writer, test: str | None, extra: str, with_kind: bool
) -> Generated:
    lines, head = reader.head(with_kind=with_kind)
    w = Writer()
    with w.block(f"def {name}({arguments}):"):
        for line in (*lines, "out = []", "add = out.append", "out_kinds = []", "add_kind = out_kinds.append"):
            w.line(line)
        w.line("get = data.get")
    loop = Writer(1)
    with loop.block(f"{head}:"), loop.guard(test):
        loop.line(body.text().rstrip("\n"))
    namespace = reader.finish()
    namespace["Batch"] = Batch
    return Generated(name, extra + w.text() + loop.text() + "    return Batch(out, None, out_kinds)\n", namespace)


def rank_loop(
    rows: Rows,
    partition: Sequence[int],
    order: Sequence[SortKey],
    first: int,
    last: int,
    number: bool,
    context: EvalContext,
    *,
    emit_before: bool,
) -> RankLoop:
    """The rows from place `first` to `last`; with `number` their place is a last column."""
    types = [e.type for e in rows.exprs]
    body = Writer()
    reader, test = _begin(rows, partition, context, body)
    rank = _Rank(body, first, last, number, emit_before)
    if rows.insert_only and first == last == 1 and not number and order:
        rank.only_first()
    elif rows.insert_only:
        rank.append()
    else:
        with body.block("if kind is INSERT or kind is UPDATE_AFTER:"):
            rank.accumulate()
        with body.block("else:"):
            rank.retract()
    function = _finish(
        "rank", "batch, data", reader, body, test, precedes("precedes", order, types), not rows.insert_only
    )
    row = row_type(tuple(types))
    return RankLoop(function, row if rows.insert_only and rank.single else list_of(row))


class _Rank:
    def __init__(self, w: Writer, first: int, last: int, number: bool, emit_before: bool) -> None:
        self.w = w
        self.first = first
        self.last = last
        self.number = number
        self.by_place = number or first > 1
        self.emit_before = emit_before
        self.single = False

    def send(self, row: str, kind: str, place: str) -> None:
        """A row at a place; nothing where the place is before the first that is asked for."""
        w = self.w
        with w.guard(f"{place} >= {self.first}" if self.first > 1 and place else None):
            w.line(f"add({row} + ({place},))" if self.number else f"add({row})")
            w.line(f"add_kind({kind})")

    def replace(self, old: str, new: str, place: str) -> None:
        if self.emit_before:
            self.send(old, "UPDATE_BEFORE", place)
        self.send(new, "UPDATE_AFTER", place)

    def only_first(self) -> None:
        """One row for each key, of rows that only come."""
        w = self.w
        self.single = True
        w.line("old = get(key)")
        with w.block("if old is None:"):
            w.line("data[key] = row")
            self.send("row", "INSERT", "")
        with w.block("elif precedes(row, old):"):
            w.line("data[key] = row")
            if self.emit_before:
                self.send("old", "UPDATE_BEFORE", "")
            self.send("row", "UPDATE_AFTER", "")

    def _insert(self) -> None:
        """The row goes behind those that it does not come before; `i` is its index."""
        w = self.w
        w.line("low, high = 0, size")
        with w.block("while low < high:"):
            w.line("i = (low + high) // 2")
            with w.block("if precedes(row, top[i]):"):
                w.line("high = i")
            with w.block("else:"):
                w.line("low = i + 1")
        w.line("i = low")

    def append(self) -> None:
        """Rows only come: no more than the last place is kept."""
        w = self.w
        w.line("top = get(key)")
        with w.block("if top is None:"):
            w.line("top = []")
        w.line("size = len(top)")
        with w.block(f"if size >= {self.last} and not precedes(row, top[-1]):"):
            w.line("continue")
        self._insert()
        w.line("top.insert(i, row)")
        if self.by_place:
            self._push_down("size")
        with w.block(f"if size >= {self.last}:"):
            w.line("old = top.pop()")
            if not self.by_place:
                self.send("old", "DELETE", "")
        if not self.by_place:
            self.send("row", "INSERT", "")
        w.line("data[key] = top")

    def _push_down(self, size: str) -> None:
        """After `row` was inserted at `i`: every row behind it is one place lower."""
        w = self.w
        w.line("current = row")
        w.line("place = i + 1")
        with w.block(f"while place <= {self.last} and place <= {size}:"):
            w.line("old = top[place]")
            self.replace("old", "current", "place")
            w.line("current = old")
            w.line("place += 1")
        with w.block(f"if place <= {self.last}:"):
            self.send("current", "INSERT", "place")

    def accumulate(self) -> None:
        """Rows come and go: all are kept."""
        w = self.w
        w.line("top = get(key)")
        with w.block("if top is None:"):
            w.line("top = []")
        w.line("size = len(top)")
        self._insert()
        w.line("top.insert(i, row)")
        w.line("data[key] = top")
        if self.by_place:
            self._push_down("size")
            return
        with w.block(f"if i < {self.last}:"):
            with w.block(f"if size >= {self.last}:"):
                self.send(f"top[{self.last}]", "DELETE", "")
            self.send("row", "INSERT", "")

    def retract(self) -> None:
        w = self.w
        w.line("top = get(key)")
        with w.block("if not top or row not in top:"):
            w.line("continue")
        w.line("i = top.index(row)")
        w.line("del top[i]")
        if self.by_place:
            w.line("current = row")
            w.line("place = i + 1")
            with w.block(f"while place <= {self.last} and place <= len(top):"):
                w.line("old = top[place - 1]")
                self.replace("current", "old", "place")
                w.line("current = old")
                w.line("place += 1")
            with w.block(f"if place <= {self.last}:"):
                self.send("current", "DELETE", "place")
        else:
            with w.block(f"if i < {self.last}:"):
                self.send("row", "DELETE", "")
                with w.block(f"if len(top) >= {self.last}:"):
                    self.send(f"top[{self.last - 1}]", "INSERT", "")
        with w.block("if top:"):
            w.line("data[key] = top")
        with w.block("else:"):
            w.line("del data[key]")


def deduplicate_loop(
    rows: Rows, partition: Sequence[int], time: int | None, context: EvalContext, *, keep_last: bool, emit_before: bool
) -> RankLoop:
    """The first row of each key by arrival, or the last one: by the column of event time, or (None) by arrival."""
    body = Writer()
    types = tuple(e.type for e in rows.exprs)
    reader, test = _begin(rows, partition, context, body)
    if not keep_last:
        with body.block("if key not in data:"):
            body.line("data[key] = 1")
            body.line("add(row)")
            body.line("add_kind(INSERT)")
        return RankLoop(_finish("rank", "batch, data", reader, body, test, "", False), int)
    body.line("old = get(key)")
    with body.block("if old is None:"):
        body.line("data[key] = row")
        body.line("add(row)")
        body.line("add_kind(INSERT)")
    # By event time a later row of the same time wins; by arrival an equal row changes nothing.
    with body.block(f"elif {'row != old' if time is None else f'row[{time}] >= old[{time}]'}:"):
        body.line("data[key] = row")
        if emit_before:
            body.line("add(old)")
            body.line("add_kind(UPDATE_BEFORE)")
        body.line("add(row)")
        body.line("add_kind(UPDATE_AFTER)")
    return RankLoop(_finish("rank", "batch, data", reader, body, test, "", False), row_type(types))


def window_rank_loop(
    rows: Rows,
    partition: Sequence[int],
    order: Sequence[SortKey],
    first: int,
    last: int,
    number: bool,
    window_end: int,
    context: EvalContext,
    *,
    latest_wins: bool,
) -> tuple[Generated, Generated, Any]:
    """Functions of ranking within windows: `assign` and `fire` as of `window.WindowLoop`, and the type of the state."""
    types = [e.type for e in rows.exprs]
    body = Writer(1)
    reader = LoopReader(rows, context)
    test, sources = reader.filtered([InputRef(i, e.type) for i, e in enumerate(rows.exprs)])
    with body.block("HEAD"), body.guard(test):
        body.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
        body.line(f"end = row[{window_end}] // 1000000")
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
        parts = [key_source(reader, types[p], f"row[{p}]") for p in partition]
        body.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
        body.line("top = window.get(key)")
        with body.block("if top is None:"):
            body.line("top = []")
        body.line("i = len(top)")
        come = "not precedes(top[i - 1], row)" if latest_wins else "precedes(row, top[i - 1])"
        with body.block(f"while i and {come}:"):
            body.line("i -= 1")
        with body.block(f"if i < {last}:"):
            body.line("top.insert(i, row)")
            body.line(f"del top[{last}:]")
            body.line("window[key] = top")
    lines, head = reader.head(with_kind=False)
    w = Writer()
    with w.block("def assign(batch, windows, watermark, opened, now):"):
        for line in (*lines, "late = 0", "last = window = None"):
            w.line(line)
    extra = precedes("precedes", order, types)
    text = extra + w.text() + body.text().replace("HEAD", f"{head}:", 1) + "    return late\n"
    fire = Writer()
    with fire.block("def fire(end, window, limit):"):
        row = "top[i] + (i + 1,)" if number else "top[i]"
        fire.line("out = []")
        with fire.block("for n, key in enumerate(list(window)):"):
            with fire.block("if len(out) >= limit or n % limit == 0:"):
                fire.line("yield Batch(out)")
                fire.line("out = []")
            fire.line("top = window.pop(key)")
            fire.line(f"out += [{row} for i in range({first - 1}, len(top))]")
        fire.line("yield Batch(out)")
    namespace = reader.finish()
    namespace["Batch"] = Batch
    namespace["instant"] = instant_of
    state = list_of(row_type(tuple(types)))
    return Generated("assign", text, namespace), Generated("fire", fire.text(), namespace), state


def instant_of(end: int) -> int:
    """The end of a window whose bounds are instants."""
    return end
