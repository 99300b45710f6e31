"""A connector whose tables hold recorded rows, as an installed package would bring it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from streamline._core.changes import ChangelogMode, RowKind
from streamline._core.elements import Batch
from streamline.abc import LookupReader, TableContext, TableFactory, TableScan
from streamline.connectors import registry
from streamline.testing.scripted import Pace, ScriptedSource
from tests.conformance.values import decode

_MODES = {
    "false": ChangelogMode.insert_only(),
    "lookup": ChangelogMode.insert_only(),
    "retract": ChangelogMode.all(),
    "upsert": ChangelogMode.upsert(),
}


@dataclass
class Recorded:
    """The rows of a case's tables, encoded, and the pace at which they come."""

    rows: dict[str, list[list[Any]]]
    pace: Pace | None


class _Rows(LookupReader):
    def __init__(self, rows: list[tuple[Any, ...]], columns: list[int]) -> None:
        self._rows = rows
        self._columns = columns

    async def lookup(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[Sequence[Any]]:
        return [[r for r in self._rows if tuple(r[c] for c in self._columns) == key] for key in keys]


class RecordedFactory(TableFactory):
    """Makes the tables of the case that runs."""

    identifier = "recorded"
    case = Recorded({}, None)

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        names = [c.name for c in table.columns]
        name, mode = table.path[-1], table.options["changelog"]
        rows = [_read(table, row) for _, *row in self.case.rows[name]]
        kinds = [RowKind.from_short_string(kind) for kind, *_ in self.case.rows[name]]
        batch = Batch(rows, None, kinds if mode not in ("false", "lookup") else None)
        source = ScriptedSource([batch] if rows else [], paced=self.case.pace or False, name=name)
        return TableScan(
            source,
            {name: f"r[{names.index(name)}]" for name in columns},
            changelog=_MODES[mode],
            lookup=(lambda by: _Rows(rows, [names.index(c) for c in by])) if mode == "lookup" else None,
        )


def _read(table: TableContext, row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(decode(v, c.type) for v, c in zip(row, table.columns))


def register() -> None:
    """Make the connector known."""
    entry = EntryPoint("recorded", f"{__name__}:{RecordedFactory.__name__}", "streamline.connectors")
    registry._plugins("streamline.connectors").setdefault("recorded", entry)
