"""The connector `blackhole` of SQL: takes everything and keeps nothing. For benchmarks and tests of queries."""

from __future__ import annotations

from typing import Any, ClassVar

from streamline._core.changes import ChangelogMode
from streamline.abc import Batch, Sink, SinkContext, SinkWriter, TableContext, TableFactory, TableSink
from streamline.connectors.options import Options, integer

__all__ = ("BlackholeFactory", "BlackholeSink")

_PARALLELISM = integer("sink.parallelism")


class BlackholeSink(Sink[Any]):
    """Takes everything and keeps nothing."""

    def writer(self) -> SinkWriter[Any]:
        return _Nothing()


class _Nothing(SinkWriter[Any]):
    async def open(self, ctx: SinkContext) -> None:
        pass

    async def write(self, batch: Batch) -> None:
        pass

    async def close(self) -> None:
        pass


class BlackholeFactory(TableFactory):
    """See the module."""

    identifier: ClassVar[str] = "blackhole"

    def sink(self, table: TableContext) -> TableSink:
        options = Options(self.identifier, table.options, optional=[_PARALLELISM])
        options.validate()
        return TableSink(BlackholeSink(), changelog=ChangelogMode.all(), parallelism=options.get(_PARALLELISM))
