"""A connector `memory` for tests: rows that a test gives, and rows that it finds afterwards.

Environments of a test are gone when it ends: a warning of conversions that never ran belongs to no later test.
"""

from __future__ import annotations

import gc
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from streamline._core.changes import ChangelogMode
from streamline.abc import Batch, Sink, SinkContext, SinkWriter, TableContext, TableFactory, TableScan, TableSink
from streamline.connectors import registry
from streamline.connectors.memory import CollectionSource
from streamline.connectors.options import Options, text
from streamline.errors import ValidationException

_DATA = text("data", "")
_MODE = text("mode", "append")
_MODES: dict[str, Callable[[], ChangelogMode]] = {
    "append": ChangelogMode.insert_only,
    "upsert": ChangelogMode.upsert,
    "all": ChangelogMode.all,
}


class Memory:
    """What tables of this test hold: rows to read, and what was written (kind and values), by the option `data`."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.written: dict[str, list[str]] = defaultdict(list)


class _Writer(SinkWriter[Any]):
    def __init__(self, into: list[str]) -> None:
        self._into = into

    async def open(self, ctx: SinkContext) -> None:
        pass

    async def write(self, batch: Batch) -> None:
        for i, row in enumerate(batch.values):
            kind = "+I" if batch.kinds is None else batch.kinds[i].short_string
            self._into.append(f"{kind}{list(row)}")

    async def close(self) -> None:
        pass


class _Sink(Sink[Any]):
    def __init__(self, into: list[str]) -> None:
        self._into = into

    def writer(self) -> SinkWriter[Any]:
        return _Writer(self._into)


def _factory(memory: Memory) -> type[TableFactory]:
    class MemoryFactory(TableFactory):
        identifier: ClassVar[str] = "memory"

        def _options(self, table: TableContext) -> Options:
            options = Options(self.identifier, table.options, required=[_DATA], optional=[_MODE])
            options.validate()
            return options

        def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
            name = self._options(table).get(_DATA)
            if name not in memory.rows:
                raise ValidationException(f"no rows {name}")
            physical = [c.name for c in table.columns if c.metadata_key is None]
            read = {n: f"r[{i}]" for i, n in enumerate(physical)}
            read |= {c.name: "len(r)" for c in table.columns if c.metadata_key == "width"}
            return TableScan(CollectionSource(memory.rows[name]), {c: read[c] for c in columns})

        def sink(self, table: TableContext) -> TableSink:
            options = self._options(table)
            into = memory.written[options.get(_DATA)]
            return TableSink(_Sink(into), changelog=_MODES[options.get(_MODE)]())

    return MemoryFactory


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    made = Memory()
    plugins = registry._plugins

    def with_memory(group: str) -> Any:
        found = dict(plugins(group))
        if group == "streamline.connectors":
            found["memory"] = SimpleNamespace(load=lambda: _factory(made))
        return found

    monkeypatch.setattr(registry, "_plugins", with_memory)
    return made


@pytest.fixture(autouse=True)
def _no_environment_is_left() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
