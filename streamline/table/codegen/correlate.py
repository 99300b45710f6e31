"""Rows joined with what a table function gives for them."""

from __future__ import annotations

from collections.abc import Sequence

from streamline._core.elements import Batch
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.logical import TableFunctionCall

__all__ = ("correlate",)


def correlate(
    rows: Rows, call: TableFunctionCall, condition: Expr | None, left: bool, context: EvalContext
) -> Generated:
    """`correlate(batch) -> Batch`: each row followed by every row of the call, or by NULLs where `left` and none is.

    Args:
        rows: the input.
        call: over the columns seen.
        condition: over the columns seen and those of the call.
        left: rows without a result are kept.
        context: of evaluation.
    """
    reader = LoopReader(rows, context)
    values = [InputRef(i, e.type) for i, e in enumerate(rows.exprs)]
    test, sources = reader.filtered(values)
    arguments = [reader.value(a) for a in call.args]
    keep = not rows.insert_only
    width = len(values)
    body = Writer(1)
    with body.block("HEAD"), body.guard(test):
        body.line(f"row = {'r' if rows.is_plain else tuple_source(sources) if sources else '()'}")
        if left:
            body.line("found = False")
        head, item = _loop(reader, call, arguments)
        with body.block(f"{head}:"):
            body.line(f"item = {item}")
            inner = None
            if condition is not None:
                inner = reader.compiler.emit_condition(
                    condition, lambda i: f"row[{i}]" if i < width else f"item[{i - width}]"
                )
            with body.guard(inner):
                if left:
                    body.line("found = True")
                _send(body, "row + item", keep)
        if left:
            with body.block("if not found:"):
                _send(body, "row + NULLS", keep)
    lines, head = reader.head(with_kind=keep)
    w = Writer()
    with w.block("def correlate(batch):"):
        for line in (*lines, "out = []", "add = out.append", "out_kinds = []", "add_kind = out_kinds.append"):
            w.line(line)
    text = w.text() + body.text().replace("HEAD", f"{head}:", 1)
    text += f"    return Batch(out, None, {'out_kinds' if keep else 'None'})\n"
    namespace = reader.finish()
    namespace["Batch"] = Batch
    namespace["NULLS"] = (None,) * len(call.schema)
    return Generated("correlate", text, namespace)


def _send(w: Writer, row: str, keep: bool) -> None:
    w.line(f"add({row})")
    if keep:
        w.line("add_kind(kind)")


def _loop(reader: LoopReader, call: TableFunctionCall, arguments: Sequence[str]) -> tuple[str, str]:
    """The head of the loop over the results, and the source of a result as a tuple."""
    if call.function is not None:
        function = reader.compiler.cached(("table function", id(call.function)), lambda: call.function, "function")
        return _numbered(f"{function}({', '.join(arguments)})", "e", "e", call.ordinality)
    argument = arguments[0]
    if call.name == "$REPLICATE_ROWS":
        return f"for _ in range({argument})", "()"
    type_ = call.args[0].type
    source = f"{argument} or ()" if type_.root != "MAP" else f"({argument} or {{}}).items()"
    if type_.root == "MULTISET":
        reader.namespace["repeated"] = repeated
        source = f"repeated({argument})"
    if type_.root == "MAP":
        return _numbered(source, "e", "e", call.ordinality)
    if call.name == "UNNEST":
        # An element that is NULL is no row.
        return _numbered(f"[e for e in {source} if e is not None]", "e", "e", call.ordinality)
    return _numbered(source, "e", "(e,)", call.ordinality)


def _numbered(source: str, variable: str, item: str, ordinality: bool) -> tuple[str, str]:
    if not ordinality:
        return f"for {variable} in {source}", item
    return f"for n, {variable} in enumerate({source}, 1)", f"{item} + (n,)"


def repeated(counts: dict[object, int] | None) -> list[object]:
    """The elements of a multiset, each as often as it is in it."""
    return [e for e, n in (counts or {}).items() for _ in range(n)]
