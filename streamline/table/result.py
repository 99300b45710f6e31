"""TableResult: what a statement gives, rows that are all there or those of a running job."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Protocol

from streamline._core import types as t
from streamline._core.changes import Row
from streamline._core.types import DataType, Field
from streamline.table import display
from streamline.table.codegen.expressions import compile_scalar
from streamline.table.conversions import converter_in
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import InputRef
from streamline.table.expr.registry import cast
from streamline.table.schema import ResolvedSchema

__all__ = ("CloseableIterator", "ResultKind", "TableResult", "message_result", "rows_result")


class ResultKind(Enum):
    """Whether a statement has content."""

    SUCCESS = "SUCCESS"
    SUCCESS_WITH_CONTENT = "SUCCESS_WITH_CONTENT"


class RunningRows(Protocol):
    """The rows of a running job."""

    def __aiter__(self) -> AsyncIterator[Any]: ...
    async def __anext__(self) -> Any: ...
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Any: ...


class JobHandle(Protocol):
    """A running job."""

    async def get_job_execution_result(self) -> Any: ...
    async def cancel(self) -> None: ...


class CloseableIterator(AsyncIterator[Row]):
    """Rows, one after the other. Leaving it as a context manager cancels the job that gives them."""

    def __init__(self, running: RunningRows | None, rows: Iterable[Row] = ()) -> None:
        self._running = running
        self._rows: Iterator[Row] = iter(rows)
        self._first: list[Row] = []

    def __aiter__(self) -> CloseableIterator:
        return self

    async def __anext__(self) -> Row:
        if self._first:
            return self._first.pop()
        if self._running is None:
            for row in self._rows:
                return row
            raise StopAsyncIteration
        found: Row = await self._running.__anext__()
        return found

    async def peek(self) -> None:
        """Wait until a row is there, or it is certain that none will come."""
        if not self._first:
            with contextlib.suppress(StopAsyncIteration):
                self._first.append(await anext(self))

    async def aclose(self) -> None:
        """Stop reading and cancel the job."""
        self._first.clear()
        self._rows = iter(())
        if self._running is not None:
            await self._running.aclose()

    close = aclose

    async def __aenter__(self) -> CloseableIterator:
        if self._running is not None:
            await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class TableResult:
    """The result of a statement.

    `await result.wait()` returns when the job of an INSERT has ended; `collect()` and `print()` give the rows of a
    query, and those of statements that list or describe.
    """

    def __init__(
        self,
        kind: ResultKind,
        schema: ResolvedSchema,
        rows: CloseableIterator,
        job: JobHandle | None = None,
        *,
        running: bool = False,
        raw: bool = False,
        width: int = 30,
        context: EvalContext | None = None,
        with_kinds: bool = False,
    ) -> None:
        """
        Args:
            kind: whether there is content.
            schema: of the rows.
            rows: the rows.
            job: the job that makes them or that the statement has started.
            running: the rows come from the job; they are printed as they come.
            raw: the only cell is printed as it is.
            width: of columns of no fixed width.
            context: the session, for values as text.
            with_kinds: rows have kinds, which `print` shows.
        """
        self._kind = kind
        self._schema = schema
        self._rows = rows
        self._job = job
        self._running = running
        self._raw = raw
        self._width = width
        self._context = context or EvalContext()
        self._with_kinds = with_kinds

    def get_result_kind(self) -> ResultKind:
        """Whether there is content."""
        return self._kind

    def get_resolved_schema(self) -> ResolvedSchema:
        """Names and types of the columns."""
        return self._schema

    get_table_schema = get_resolved_schema

    def get_job_client(self) -> Any:
        """The job, None where the statement has started none."""
        return self._job

    def collect(self) -> CloseableIterator:
        """The rows that were not read yet: an async iterator, and an async context manager that cancels the job."""
        return self._rows

    async def wait(self) -> None:
        """Wait for the end of the job of an INSERT, or for the first row of a query.

        Raises:
            Exception: what made the job fail, as it was raised; its notes say where.
        """
        if self._running:
            await self._rows.peek()
        elif self._job is not None:
            await self._job.get_job_execution_result()

    async def print(self) -> None:
        """Write the rows to standard output as a table; of a running job as they come, until it ends."""
        write = sys.stdout.write
        if self._raw:
            async for row in self._rows:
                write(f"{row[0]}\n")
            return
        cells = _cells([c.type for c in self._schema.columns], self._context)
        names = self._schema.get_column_names()
        if not self._running:
            found = [cells(row) async for row in self._rows]
            for text in display.whole(names, found, self._width):
                write(text + "\n")
            return
        await self._print_running(write, names, cells)

    async def _print_running(
        self, write: Callable[[str], Any], names: list[str], cells: Callable[[Row], list[str]]
    ) -> None:
        widths = display.type_widths(names, [c.type for c in self._schema.columns], self._width)
        if self._with_kinds:
            names, widths = ["op", *names], [2, *widths]
        edge = display.line(widths)
        count = 0
        async for row in self._rows:
            if not count:
                write(f"{edge}\n{display.row_text(names, widths)}\n{edge}\n")
            shown = cells(row)
            if self._with_kinds:
                shown = [row.kind.short_string, *shown]
            write(display.row_text(shown, widths) + "\n")
            count += 1
        write(f"{edge}\n{display.footer(count)}\n" if count else "Empty set\n")


def _cells(types: Sequence[DataType], context: EvalContext) -> Callable[[Row], list[str]]:
    """What makes the texts of a row's values, as CAST to STRING does."""
    makers = [_cell(x, context) for x in types]

    def cells(row: Row) -> list[str]:
        return [make(v) for make, v in zip(makers, row)]

    return cells


def _cell(type_: DataType, context: EvalContext) -> Callable[[Any], str]:
    inward = converter_in(type_.null().materialized(), type_.null().materialized(), "value")
    if type_.root in ("RAW", "NULL", "STRUCTURED"):
        return lambda v: display.NULL if v is None else str(v)
    text = compile_scalar(cast(InputRef(0, type_.null().materialized()), t.STRING), context)

    def cell(value: Any) -> str:
        if value is None:
            return display.NULL
        return str(text((value if inward is None else inward(value),)))

    return cell


def rows_result(
    fields: Sequence[Field], rows: Iterable[Sequence[Any]], *, width: int = 30, raw: bool = False
) -> TableResult:
    """A result whose rows are all there."""
    names = tuple(f.name for f in fields)
    made = [Row.with_names(names, r) for r in rows]
    schema = ResolvedSchema.of(fields)
    return TableResult(ResultKind.SUCCESS_WITH_CONTENT, schema, CloseableIterator(None, made), raw=raw, width=width)


def message_result(text: str = "OK", *, content: bool = False) -> TableResult:
    """The result of a statement that has nothing to show but a text."""
    schema = ResolvedSchema.of((Field("result", t.STRING),))
    kind = ResultKind.SUCCESS_WITH_CONTENT if content else ResultKind.SUCCESS
    return TableResult(kind, schema, CloseableIterator(None, [Row.with_names(("result",), [text])]), raw=True)
