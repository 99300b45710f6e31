"""Loops of joins without time bounds: each side keeps its rows, a row is joined with those of the other side.

State of a side: `{key: {identity: (row, count, matches)}}`. The identity of a row is its upsert key where the input has
one, else the row itself; `count` says how often an equal row came, `matches` with how many rows of the other side it is
joined (only kept where this side is outer, or the left one of a semi or anti join).

The order and kinds of what is sent are Flink's: a row of an outer side that finds its first match is taken back with
its NULLs before the pair is sent, and comes back with NULLs when its last match is taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamline._core.elements import Batch
from streamline._operators.aggregate.accumulators import hashable
from streamline._operators.state_types import tuple_of
from streamline.table.codegen.aggregates import key_source, needs_key_function
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.state_types import row_type
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.logical import JoinKind

__all__ = ("JoinSide", "join_side", "join_state")


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One input of a join.

    Attributes:
        rows: how it is read.
        keys: its columns that are compared with the other side's.
        null_safe: whether NULLs are equal, for each key.
        unique: columns of an upsert key, None for none.
    """

    rows: Rows
    keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    unique: tuple[int, ...] | None


def join_state(side: JoinSide) -> tuple[Any, Any]:
    """Python types of the identities of a side and of its entries."""
    types = tuple(e.type for e in side.rows.exprs)
    identity = types if side.unique is None else tuple(types[i] for i in side.unique)
    key: Any = Any if any(map(needs_key_function, identity)) else row_type(identity)
    return key, tuple_of(row_type(types), int, int)


def join_side(
    side: JoinSide,
    other: JoinSide,
    kind: JoinKind,
    condition: Expr | None,
    is_left: bool,
    context: EvalContext,
) -> Generated:
    """`join(batch, mine, theirs) -> Batch` for the rows of one side.

    Args:
        side: the side whose rows come.
        other: the other side.
        kind: of the join.
        condition: what is left beside the equality of keys, over the left columns followed by the right ones.
        is_left: whether `side` is the left one.
        context: of evaluation.
    """
    return _Side(side, other, kind, condition, is_left, context).write()


class _Side:
    def __init__(
        self,
        side: JoinSide,
        other: JoinSide,
        kind: JoinKind,
        condition: Expr | None,
        is_left: bool,
        context: EvalContext,
    ) -> None:
        self.side = side
        self.other = other
        self.kind = kind
        self.condition = condition
        self.is_left = is_left
        self.reader = LoopReader(side.rows, context)
        self.retracting = not side.rows.insert_only
        self.half = kind in ("SEMI", "ANTI")
        self.outer = kind == "FULL" or kind == ("LEFT" if is_left else "RIGHT")
        self.other_outer = kind == "FULL" or kind == ("RIGHT" if is_left else "LEFT")
        self.counts_mine = self.outer or (self.half and is_left)
        self.counts_theirs = self.other_outer or (self.half and not is_left)
        self.width = len(side.rows.exprs)
        self.other_width = len(other.rows.exprs)
        self.insert_only = side.rows.insert_only and other.rows.insert_only and kind in ("INNER", "SEMI")

    # -- pieces --------------------------------------------------------------------------------------------------

    def pair(self, mine: str = "row", theirs: str = "other") -> str:
        return f"{mine} + {theirs}" if self.is_left else f"{theirs} + {mine}"

    def padded_mine(self) -> str:
        return "row + NULLS" if self.is_left else "NULLS + row"

    def padded_theirs(self) -> str:
        return "MY_NULLS + other" if self.is_left else "other + MY_NULLS"

    def send(self, w: Writer, row: str, kind: str) -> None:
        w.line(f"add({row})")
        if not self.insert_only:
            w.line(f"add_kind({kind})")

    def send_times(self, w: Writer, row: str, kind: str) -> None:
        """Once for each equal row of the other side."""
        if self.other.unique is not None:
            self.send(w, row, kind)
            return
        with w.block("for _ in range(n):"):
            self.send(w, row, kind)

    # -- the loop ------------------------------------------------------------------------------------------------

    def write(self) -> Generated:
        reader, rows = self.reader, self.side.rows
        values = [InputRef(i, e.type) for i, e in enumerate(rows.exprs)]
        condition, sources = reader.filtered(values)
        body = Writer(1)
        with body.block("HEAD"), body.guard(condition):
            body.line(f"row = {'r' if rows.is_plain else tuple_source(sources)}")
            types = [rows.exprs[k].type for k in self.side.keys]
            parts = [key_source(reader, x, f"row[{k}]") for k, x in zip(self.side.keys, types)]
            body.line(f"key = {parts[0] if len(parts) == 1 else tuple_source(parts) if parts else '()'}")
            self._matches(body, parts, [x.nullable for x in types])
            if self.retracting:
                with body.block("if kind is INSERT or kind is UPDATE_AFTER:"):
                    self._arrives(body)
                with body.block("else:"):
                    self._leaves(body)
            else:
                self._arrives(body)
        lines, head = reader.head(with_kind=self.retracting)
        w = Writer()
        with w.block("def join(batch, mine, theirs):"):
            for line in lines:
                w.line(line)
            for line in ("out = []", "add = out.append", "out_kinds = []", "add_kind = out_kinds.append"):
                w.line(line)
            w.line("get, get_theirs = mine.get, theirs.get")
        text = w.text() + body.text().replace("HEAD", f"{head}:", 1)
        text += f"    return Batch(out, None, {'None' if self.insert_only else 'out_kinds'})\n"
        namespace = reader.finish()
        namespace["Batch"] = Batch
        namespace["NULLS"] = (None,) * self.other_width
        namespace["MY_NULLS"] = (None,) * self.width
        return Generated("join", text, namespace)

    def _matches(self, w: Writer, parts: Sequence[str], nullable: Sequence[bool]) -> None:
        """`matches`: the entries of the other side that fulfil the condition; `entries`: all of the key."""
        tests = [f"{p} is None" for p, n, s in zip(parts, nullable, self.side.null_safe) if n and not s]
        found = "get_theirs(key)"
        nothing = f"None if {' or '.join(tests)} else " if tests else ""
        w.line(f"entries = {nothing}{found}")
        if self.condition is None:
            w.line("matches = list(entries.items()) if entries else ()")
            return
        left, right = ("row", "e[0]") if self.is_left else ("e[0]", "row")
        width = self.width if self.is_left else self.other_width
        test = self.reader.compiler.emit_condition(
            self.condition, lambda i: f"{left}[{i}]" if i < width else f"{right}[{i - width}]"
        )
        w.line(f"matches = [(i, e) for i, e in entries.items() if {test}] if entries else ()")

    def _identity(self) -> str:
        types = [e.type for e in self.side.rows.exprs]
        if self.side.unique is None:
            if any(map(needs_key_function, types)):
                return self.reader.compiler.call(hashable, "row")
            return "row"
        parts = [key_source(self.reader, types[i], f"row[{i}]") for i in self.side.unique]
        return tuple_source(parts) if parts else "()"

    def _keep(self, w: Writer, matches: str) -> None:
        """The row is added to this side's state."""
        w.line("own = get(key)")
        with w.block("if own is None:"):
            w.line("own = {}")
        identity = self._identity()
        if self.side.unique is not None:
            w.line(f"own[{identity}] = (row, 1, {matches})")
        else:
            if identity != "row":
                w.line(f"identity = {identity}")
                identity = "identity"
            w.line(f"entry = own.get({identity})")
            w.line(f"own[{identity}] = (row, 1 if entry is None else entry[1] + 1, {matches})")
        w.line("mine[key] = own")

    def _drop(self, w: Writer) -> None:
        """The row is taken from this side's state."""
        w.line("own = get(key)")
        with w.block("if own is not None:"):
            identity = self._identity()
            if identity not in ("row",):
                w.line(f"identity = {identity}")
                identity = "identity"
            w.line(f"entry = own.get({identity})")
            with w.block("if entry is not None:"):
                if self.side.unique is None:
                    with w.block("if entry[1] > 1:"):
                        w.line(f"own[{identity}] = (entry[0], entry[1] - 1, entry[2])")
                    with w.block("else:"):
                        w.line(f"del own[{identity}]")
                else:
                    w.line(f"del own[{identity}]")
                with w.block("if own:"):
                    w.line("mine[key] = own")
                with w.block("else:"):
                    w.line("del mine[key]")

    def _size(self) -> str:
        return "len(matches)" if self.other.unique is not None else "sum([e[1] for _, e in matches])"

    def _each(self) -> str:
        return "for i, (other, n, m) in matches:"

    def _arrives(self, w: Writer) -> None:
        kind = "kind" if self.retracting else "INSERT"
        if self.half:
            self._half_arrives(w, kind)
            return
        if self.outer:
            with w.block("if not matches:"):
                self.send(w, self.padded_mine(), "INSERT")
                self._keep(w, "0")
            with w.block("else:"):
                self._pairs(w, "INSERT", 1)
                self._keep(w, self._size())
            return
        self._keep(w, "0")
        with w.block("if matches:"):
            self._pairs(w, "INSERT" if self.other_outer else kind, 1)

    def _leaves(self, w: Writer) -> None:
        if self.half:
            self._half_leaves(w)
            return
        self._drop(w)
        if self.outer:
            with w.block("if not matches:"):
                self.send(w, self.padded_mine(), "DELETE")
            with w.block("else:"):
                self._pairs(w, "DELETE", -1)
            return
        with w.block("if matches:"):
            self._pairs(w, "kind", -1)

    def _pairs(self, w: Writer, kind: str, change: int) -> None:
        """The pairs of the row, with what that changes for an outer other side."""
        if not self.other_outer:
            with w.block(self._each()):
                self.send_times(w, self.pair(), kind)
            return
        if change > 0:
            with w.block(self._each()):
                with w.block("if m == 0:"):
                    self.send_times(w, self.padded_theirs(), "DELETE")
                w.line("entries[i] = (other, n, m + 1)")
            with w.block(self._each()):
                self.send_times(w, self.pair(), kind)
        else:
            with w.block(self._each()):
                self.send_times(w, self.pair(), kind)
            with w.block(self._each()):
                with w.block("if m == 1:"):
                    self.send_times(w, self.padded_theirs(), "INSERT")
                w.line("entries[i] = (other, n, m - 1)")
        w.line("theirs[key] = entries")

    # -- semi and anti -------------------------------------------------------------------------------------------

    def _half_arrives(self, w: Writer, kind: str) -> None:
        if self.is_left:
            with w.block("if matches:" if self.kind == "SEMI" else "if not matches:"):
                self.send(w, "row", kind)
            self._keep(w, self._size())
            return
        self._keep(w, "0")
        with w.block("if matches:"):
            with w.block(self._each()):
                with w.block("if m == 0:"):
                    self.send_times(w, "other", kind if self.kind == "SEMI" else "DELETE")
                w.line("entries[i] = (other, n, m + 1)")
            w.line("theirs[key] = entries")

    def _half_leaves(self, w: Writer) -> None:
        if self.is_left:
            with w.block("if matches:" if self.kind == "SEMI" else "if not matches:"):
                self.send(w, "row", "kind")
            self._drop(w)
            return
        self._drop(w)
        with w.block("if matches:"):
            with w.block(self._each()):
                with w.block("if m == 1:"):
                    self.send_times(w, "other", "kind" if self.kind == "SEMI" else "INSERT")
                w.line("entries[i] = (other, n, m - 1)")
            w.line("theirs[key] = entries")
