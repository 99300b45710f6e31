"""The connector `print` of SQL: one line a change on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from streamline._core.changes import ChangelogMode
from streamline._core.types import DataType
from streamline.abc import Batch, Sink, SinkContext, SinkWriter, TableContext, TableFactory, TableSink
from streamline.connectors.formats.row_text import text_of
from streamline.connectors.options import Options, boolean, integer, text

__all__ = ("PrintFactory", "PrintTableSink")

_IDENTIFIER = text("print-identifier", "")
_STANDARD_ERROR = boolean("standard-error")
_PARALLELISM = integer("sink.parallelism")


class PrintTableSink(Sink[Any]):
    """Prints rows of the given types, with their kinds: `+I[ann, 3]`.

    Args:
        types: of the columns; values are in the inner form.
        identifier: what lines begin with.
        standard_error: print there instead of on standard output.
    """

    def __init__(self, types: Sequence[DataType], identifier: str = "", standard_error: bool = False) -> None:
        self._types = types
        self._identifier = identifier
        self._standard_error = standard_error

    def writer(self) -> SinkWriter[Any]:
        return _Printer([text_of(t) for t in self._types], self._identifier, self._standard_error)


class _Printer(SinkWriter[Any]):
    def __init__(self, texts: Sequence[Callable[[Any], str]], identifier: str, standard_error: bool) -> None:
        self._texts = texts
        self._identifier = identifier
        self._standard_error = standard_error
        self._prefix = ""

    async def open(self, ctx: SinkContext) -> None:
        # Flink's: `identifier> `, `3> ` or `identifier:3> ` where there are several subtasks.
        parts = [p for p in (self._identifier, str(ctx.subtask_index + 1) if ctx.parallelism > 1 else "") if p]
        self._prefix = ":".join(parts) + "> " if parts else ""

    async def write(self, batch: Batch) -> None:
        texts, prefix, kinds = self._texts, self._prefix, batch.kinds
        lines = []
        for i, row in enumerate(batch.values):
            kind = "+I" if kinds is None else kinds[i].short_string
            lines.append(f"{prefix}{kind}[{', '.join([t(v) for t, v in zip(texts, row)])}]\n")
        # Looked up now: tests and notebooks put streams of their own in place.
        stream = sys.stderr if self._standard_error else sys.stdout
        stream.write("".join(lines))

    async def flush(self, end_of_input: bool = False) -> None:
        (sys.stderr if self._standard_error else sys.stdout).flush()

    async def close(self) -> None:
        pass


class PrintFactory(TableFactory):
    """See the module."""

    identifier: ClassVar[str] = "print"

    def sink(self, table: TableContext) -> TableSink:
        options = Options(self.identifier, table.options, optional=[_IDENTIFIER, _STANDARD_ERROR, _PARALLELISM])
        options.validate()
        types = [c.type for c in table.columns if not c.virtual]
        sink = PrintTableSink(types, options.get(_IDENTIFIER), options.get(_STANDARD_ERROR))
        return TableSink(sink, changelog=ChangelogMode.all(), parallelism=options.get(_PARALLELISM))
