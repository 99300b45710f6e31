"""Functions of MATCH_RECOGNIZE: conditions of variables and measures, over the rows matched so far.

`m` is a list with the rows of each element of the pattern; the elements follow each other, so these are the rows of the
match in order. In a condition `r` is the row that is tested, as if its variable had matched it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core.types import DataType
from streamline.table.codegen.aggregates import Aggregates
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall, Expr, InputRef
from streamline.table.logical import MatchExpr, MatchValue

__all__ = ("match_condition", "match_measures")


def match_condition(types: Sequence[DataType], own: int, condition: MatchExpr, context: EvalContext) -> Generated:
    """`matches(m, r)`: truthy where the condition of element `own` is TRUE."""
    code = _Code(types, own, context)
    body = Writer(1)
    sources = code.values(body, condition.values)
    test = code.reader.compiler.emit_condition(condition.expr, lambda i: sources[i])
    body.line(f"return {test}")
    return code.function("matches", "m, r", body)


def match_measures(
    types: Sequence[DataType], partition: Sequence[int], measures: Sequence[MatchExpr], context: EvalContext
) -> Generated:
    """`measures(m)`: the row that a match gives."""
    code = _Code(types, None, context)
    body = Writer(1)
    results = []
    if partition:
        body.line("first = nth(m, -1, 0, False)")
        results = [f"first[{p}]" for p in partition]
    for measure in measures:
        sources = code.values(body, measure.values)
        results.append(code.reader.compiler.emit(measure.expr, sources.__getitem__))
    body.line(f"return {tuple_source(results)}")
    return code.function("measures", "m", body)


class _Code:
    """Source of the values that expressions read."""

    def __init__(self, types: Sequence[DataType], own: int | None, context: EvalContext) -> None:
        self.reader = LoopReader(Rows.of_tuples(types, True), context)
        self._own = own
        self._helpers: list[str] = []
        self._known: dict[MatchValue, str] = {}

    def function(self, name: str, arguments: str, body: Writer) -> Generated:
        """The whole function, behind those that it calls."""
        namespace = self.reader.finish()
        namespace["nth"], namespace["rows_of"] = _nth, _rows_of
        text = "".join(self._helpers) + f"def {name}({arguments}):\n" + body.text()
        return Generated(name, text, namespace)

    def values(self, w: Writer, values: Sequence[MatchValue]) -> list[str]:
        """Locals that hold the values."""
        for value in values:
            if value not in self._known:
                source = self._aggregate(value, value.call) if value.call is not None else self._of_row(w, value)
                self._known[value] = w.named(source)
        return [self._known[v] for v in values]

    @property
    def _tested(self) -> str:
        """The row that is tested and its element, for the helpers."""
        return "" if self._own is None else f", r, {self._own}"

    def _of_row(self, w: Writer, value: MatchValue) -> str:
        assert value.expr is not None
        current = self._own is not None and value.variable in (-1, self._own)
        if current and value.last and not value.offset:
            return self._read(value.expr, "r")
        row = w.named(f"nth(m, {value.variable}, {value.offset}, {value.last}{self._tested})")
        if value.variable == -1 and self._own is None and not value.offset:
            return self._read(value.expr, row)
        return f"(None if {row} is None else {self._read(value.expr, row)})"

    def _read(self, expr: Expr, row: str) -> str:
        """Source of an expression over a row."""
        if isinstance(expr, InputRef):
            return f"{row}[{expr.index}]"
        name = f"of_row_{len(self._helpers)}"
        source = self.reader.compiler.emit(expr, lambda i: f"x[{i}]")
        self._helpers.append(f"def {name}(x):\n    return {source}\n\n\n")
        return f"{name}({row})"

    def _aggregate(self, value: MatchValue, call: AggCall) -> str:
        aggregates = Aggregates([call], self.reader, retracting=False, sparse=True, wraps=False)
        name = f"aggregate_{len(self._helpers)}"
        w = Writer()
        with w.block(f"def {name}(rows):"):
            aggregates.initial(w)
            with w.block("for r in rows:"):
                aggregates.rebind(w)
                aggregates.add(w)
            w.line(f"return {aggregates.results()[0]}")
        self._helpers.append(w.text() + "\n\n")
        return f"{name}(rows_of(m, {value.variable}{self._tested}))"


def _rows_of(m: list[list[Any]], variable: int, row: Any = None, own: int = -1) -> list[Any]:
    """The rows of a variable (-1: of the match), with the one that is tested as the last one of its own."""
    rows = [r for part in m for r in part] if variable == -1 else m[variable]
    return [*rows, row] if own >= 0 and variable in (-1, own) else rows


def _nth(m: list[list[Any]], variable: int, offset: int, last: bool, row: Any = None, own: int = -1) -> Any:
    """The row so many behind the first or before the last one of a variable, None where there is none."""
    rows = _rows_of(m, variable, row, own)
    if offset >= len(rows):
        return None
    return rows[-1 - offset] if last else rows[offset]
