"""Watermarks declared in a schema or DDL, computed over whole batches."""

from __future__ import annotations

from streamline.errors import TableException
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal

__all__ = ("no_rowtime", "watermark_cuts", "watermark_newest")


def no_rowtime(column: str, record: object) -> None:
    """A record has no event time.

    Raises:
        TableException: always.
    """
    raise TableException(
        f"RowTime field should not be null, please convert it to a non-null long value: column {column} is NULL in "
        f"{record!r}. Filter such records before the watermark is computed, or give the column a value with COALESCE"
    )


def _reader(rows: Rows, context: EvalContext) -> LoopReader:
    reader = LoopReader(rows, context)
    reader.namespace["no_rowtime"] = no_rowtime
    return reader


def watermark_newest(rows: Rows, column: int, name: str, expr: Expr, context: EvalContext) -> Generated:
    """`newest(batch)`: the largest watermark (epoch ms) that a record of the batch stands for, None for none."""
    reader = _reader(rows, context)
    # The largest of what is so much behind a time is that much behind the largest.
    expr, delay = _delayed(expr)
    mark = reader.milliseconds(expr)
    time = reader.milliseconds(InputRef(column, rows.exprs[column].type))
    nullable = expr.type.nullable
    behind = f" - {delay}" if delay else ""
    lines, head = reader.head(with_kind=False)
    w = Writer()
    with w.block("def newest(batch):"):
        for line in lines:
            w.line(line)
        if not nullable:
            w.line(f"return max([{mark} {head}]){behind}")
        else:
            w.line(f"marks = [{mark} {head}]")
            with w.block("try:"):
                w.line("found = max(marks)")
                with w.block("if found is not None:"):
                    w.line(f"return found{behind}")
            with w.block("except TypeError:"):
                w.line("pass")
            with w.block(f"{head}:"), w.block(f"if {time} is None:"):
                w.line(f"no_rowtime({name!r}, r)")
            w.line("marks = [m for m in marks if m is not None]")
            w.line(f"return max(marks){behind} if marks else None")
    return Generated("newest", w.text(), reader.finish())


def _delayed(expr: Expr) -> tuple[Expr, int]:
    """`time - INTERVAL` as the time and milliseconds; any other expression with 0."""
    if isinstance(expr, Call) and expr.function.name == "-" and len(expr.operands) == 2:
        time, delay = expr.operands
        if time.type.is_timestamp and isinstance(delay, Literal) and delay.type.root == "INTERVAL_DAY_TIME":
            return time, int(delay.value or 0)
    return expr, 0


def watermark_cuts(rows: Rows, column: int, name: str, expr: Expr, context: EvalContext) -> Generated:
    """`cuts(batch, watermark)`: (position, watermark) of each record behind which event time has advanced."""
    reader = _reader(rows, context)
    mark = reader.milliseconds(expr)
    time = reader.milliseconds(InputRef(column, rows.exprs[column].type))
    lines, head = reader.head(with_kind=False)
    targets, _, iterable = head.removeprefix("for ").partition(" in ")
    w = Writer()
    with w.block("def cuts(batch, watermark):"):
        for line in lines:
            w.line(line)
        w.line("found = []")
        wrapped = f"({targets})" if "," in targets else targets
        with w.block(f"for position, {wrapped} in enumerate({iterable}):"):
            if rows.exprs[column].type.nullable:
                with w.block(f"if {time} is None:"):
                    w.line(f"no_rowtime({name!r}, r)")
            w.line(f"ms = {mark}")
            with w.block(f"if {'ms is not None and ' if expr.type.nullable else ''}ms > watermark:"):
                w.line("watermark = ms")
                w.line("found.append((position, ms))")
        w.line("return found")
    return Generated("cuts", w.text(), reader.finish())
