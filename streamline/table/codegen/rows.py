"""How a generated loop reads the rows of its input.

A loop gets a `Batch` of a stream's own objects (or of tuples from another table operator) and sees rows: the columns of
a `Project` over a `Filter` over the object's fields. Nothing of that is computed beforehand: the sources of fields,
conditions and projections are written into the loop where they are needed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from streamline._core.changes import RowKind
from streamline._core.types import DataType
from streamline.errors import TableException
from streamline.table.codegen.expressions import ExpressionCompiler
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef, input_refs, rewrite
from streamline.table.logical import RowShape

__all__ = ("LoopReader", "Rows", "names_in")


@dataclass(frozen=True, slots=True)
class Rows:
    """What a loop reads.

    Attributes:
        base: sources of the base columns over the record `r` (and its timestamp `t`), in inner form.
        millis: sources of their epoch milliseconds, where a base column has them at hand.
        namespace: what names in the sources stand for.
        types: types of the base columns.
        condition: over the base columns: rows for which it is not TRUE are not seen. None: all are.
        exprs: the columns that are seen, over the base columns.
        kind: source of the kind over `r`; None: `Batch.kinds`.
        insert_only: all rows are INSERT.
        element: the class of the records where they can leave as they are, see `RowShape.element`.
        check: a record whose kind is not INSERT is an error.
    """

    base: tuple[str, ...]
    millis: tuple[str | None, ...]
    namespace: tuple[tuple[str, Any], ...]
    types: tuple[DataType, ...]
    exprs: tuple[Expr, ...]
    condition: Expr | None = None
    kind: str | None = None
    insert_only: bool = True
    element: Any = None
    check: bool = False

    @classmethod
    def of_tuples(cls, types: Sequence[DataType], insert_only: bool) -> Rows:
        """Rows that another table operator has sent."""
        return cls(
            base=tuple(f"r[{i}]" for i in range(len(types))),
            millis=(None,) * len(types),
            namespace=(),
            types=tuple(types),
            exprs=tuple(InputRef(i, x) for i, x in enumerate(types)),
            insert_only=insert_only,
        )

    @classmethod
    def of_shape(cls, shape: RowShape) -> Rows:
        """Rows read in place from the objects of a stream."""
        types = tuple(c.type for c in shape.columns)
        exprs = tuple(
            c.expression if c.expression is not None else InputRef(i, c.type, c.name)
            for i, c in enumerate(shape.columns)
        )
        return cls(
            base=tuple(c.source or "" for c in shape.columns),
            millis=tuple(c.millis for c in shape.columns),
            namespace=shape.namespace,
            types=types,
            exprs=exprs,
            kind=shape.kind,
            insert_only=shape.changelog.is_insert_only,
            element=shape.element,
            check=shape.checked_insert_only and shape.kind is not None,
        )

    def inline(self, expr: Expr) -> Expr:
        """An expression over the columns that are seen, as one over the base columns."""
        return rewrite(expr, lambda e: self.exprs[e.index] if isinstance(e, InputRef) else None)

    def project(self, exprs: Iterable[Expr]) -> Rows:
        """The rows after a projection."""
        return replace(self, exprs=tuple(map(self.inline, exprs)))

    def where(self, condition: Expr, both: Callable[[Expr, Expr], Expr]) -> Rows:
        """The rows after a filter; `both` is AND."""
        inner = self.inline(condition)
        return replace(self, condition=inner if self.condition is None else both(self.condition, inner))

    @property
    def is_plain(self) -> bool:
        """Whether the records are tuples that are seen as they are."""
        return (
            self.condition is None
            and not self.check
            and len(self.exprs) == len(self.base)
            and all(isinstance(e, InputRef) and e.index == i for i, e in enumerate(self.exprs))
            and all(b == f"r[{i}]" for i, b in enumerate(self.base))
            and self.kind is None
        )

    def reads_timestamp(self, exprs: Iterable[Expr]) -> bool:
        """Whether expressions over the columns seen need the record's timestamp."""
        used: set[int] = set()
        for e in exprs:
            used |= input_refs(self.inline(e))
        return "t" in names_in(self.base[i] for i in used if self.base[i])

    @property
    def is_untouched(self) -> bool:
        """Whether every column is seen unchanged and in order, so that a record can leave as it came."""
        return len(self.exprs) == len(self.base) and all(
            isinstance(e, InputRef) and e.index == i for i, e in enumerate(self.exprs)
        )


def names_in(sources: Iterable[str]) -> set[str]:
    """The names that Python expressions refer to."""
    found: set[str] = set()
    for source in sources:
        found |= {n.id for n in ast.walk(ast.parse(source, mode="eval")) if isinstance(n, ast.Name)}
    return found


#: Names that generated functions use for themselves; helpers of expressions are bound under others.
RESERVED = (
    *("batch", "values", "kinds", "timestamps", "r", "t", "kind", "data", "get", "add", "add_kind", "out", "out_kinds"),
    *("key", "row", "old", "state", "repeat", "zip", "Batch", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
    *(
        "ms",
        "end",
        "start",
        "low",
        "high",
        "watermark",
        "late",
        "window",
        "len",
        "max",
        "min",
        "range",
        "timers",
        "now",
    ),
    *("Row", "new_row", "names"),
    *("list", "dict", "set", "sorted", "enumerate", "map", "True", "False", "None", "not_null", "ttl", "size"),
)

_GLOBALS: dict[str, Any] = {
    "INSERT": RowKind.INSERT,
    "UPDATE_BEFORE": RowKind.UPDATE_BEFORE,
    "UPDATE_AFTER": RowKind.UPDATE_AFTER,
    "DELETE": RowKind.DELETE,
    "repeat": repeat,
}


class LoopReader:
    """Writes the reading part of one loop over `rows`: its head, and sources of expressions over the columns seen.

    `condition` is the source of the filter, None for none; it stands before everything else that is written, and what
    it tested is known afterwards.
    """

    def __init__(self, rows: Rows, context: EvalContext, namespace: dict[str, Any] | None = None) -> None:
        self.rows = rows
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        for name, value in rows.namespace:
            if self.namespace.setdefault(name, value) is not value or name in RESERVED:
                raise TableException(f"the name {name} in a row shape clashes with one of the generated code")
        hidden = object()
        for name in RESERVED:
            self.namespace.setdefault(name, hidden)
        self.compiler = ExpressionCompiler(self.namespace, context)
        self._hidden = hidden
        self._used: set[int] = set()

    def finish(self) -> dict[str, Any]:
        """The namespace for the function that was written."""
        for name in RESERVED:
            if self.namespace.get(name) is self._hidden:
                del self.namespace[name]
            if name in _GLOBALS:
                self.namespace.setdefault(name, _GLOBALS[name])
        return self.namespace

    # -- sources -------------------------------------------------------------------------------------------------

    def column(self, index: int) -> str:
        """Source of a base column."""
        self._used.add(index)
        return self.rows.base[index]

    def seen(self, expr: Expr) -> Expr:
        """An expression over the columns seen, as one over the base columns."""
        return self.rows.inline(expr)

    def condition(self) -> str | None:
        """Source of the filter, truthy where a row is seen."""
        return self.filtered(())[0]

    def value(self, expr: Expr) -> str:
        """Source of an expression over the columns seen, in inner form."""
        return self.compiler.emit(self.seen(expr), self.column)

    def test(self, expr: Expr) -> str:
        """Source that is truthy where a BOOLEAN expression over the columns seen is TRUE."""
        return self.compiler.emit_condition(self.seen(expr), self.column)

    def filtered(self, exprs: Sequence[Expr]) -> tuple[str | None, list[str]]:
        """Sources of the filter, and of expressions that are only computed behind it."""
        rows = self.rows
        test, sources = self.compiler.emit_filtered(rows.condition, [self.seen(e) for e in exprs], self.column)
        if rows.check:
            check = self.compiler.call(is_insert, rows.kind or "", "r")
            test = check if test is None else f"{check} and {test}"
        return test, sources

    def milliseconds(self, expr: Expr) -> str:
        """Source of the epoch milliseconds of a timestamp over the columns seen, None for NULL."""

        def millis(index: int) -> str | None:
            source = self.rows.millis[index]
            if source is not None:
                self._used.add(index)
            return source

        return self.compiler.emit_millis(self.seen(expr), self.column, millis)

    # -- heads ---------------------------------------------------------------------------------------------------

    @property
    def needs_timestamp(self) -> bool:
        """Whether a source that was written refers to the record's timestamp."""
        sources = [self.rows.base[i] for i in self._used]
        sources += [m for i in self._used if (m := self.rows.millis[i]) is not None]
        return "t" in names_in(s for s in sources if s)

    def head(self, with_kind: bool) -> tuple[list[str], str]:
        """Lines before the loop, and `for r in values`; called after all sources were written.

        The loop's variables are `r`, `t` where a source needs it, and `kind` where asked for.
        """
        lines: list[str] = []
        targets, iterables = ["r"], ["batch.values"]
        if self.needs_timestamp:
            lines.append("timestamps = batch.timestamps or repeat(None)")
            targets.append("t")
            iterables.append("timestamps")
        if with_kind:
            if self.rows.kind is not None:
                lines.append(f"kinds = [{self.rows.kind} for r in batch.values]")
            else:
                lines.append("kinds = batch.kinds or repeat(INSERT)")
            targets.append("kind")
            iterables.append("kinds")
        if len(targets) == 1:
            return lines, "for r in batch.values"
        return lines, f"for {', '.join(targets)} in zip({', '.join(iterables)})"


def is_insert(kind: RowKind, record: Any) -> bool:
    """True.

    Raises:
        TableException: the kind is not INSERT.
    """
    if kind is not RowKind.INSERT:
        raise TableException(
            "Error during input conversion. Conversion expects insert-only records but DataStream API record contains: "
            f"{kind.name}. The record is {record!r}; use ChangelogMode.all() or upsert() for a changelog"
        )
    return True
