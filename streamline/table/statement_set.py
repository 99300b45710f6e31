"""StatementSet and TablePipeline: inserts that are planned together and run as one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from streamline.table.logical import Sink

if TYPE_CHECKING:
    from streamline.table.descriptor import TableDescriptor
    from streamline.table.result import TableResult
    from streamline.table.table import Table

__all__ = ("Insert", "StatementSet", "StreamStatementSet", "TablePipeline")


@dataclass(frozen=True)
class Insert:
    """An insert whose table is known to be there; `plan` fits the columns and asks the connector."""

    name: str
    plan: Callable[[], Sink]


class InsertHost(Protocol):
    """What inserts ask of the table environment."""

    def insert_sql(self, statement: str) -> Insert: ...
    def insert_table(self, table: Table, target: str | TableDescriptor, overwrite: bool) -> Insert: ...
    def explain_inserts(self, inserts: Sequence[Insert], details: Sequence[Any]) -> str: ...
    async def execute_inserts(self, inserts: Sequence[Insert]) -> TableResult: ...
    def attach_inserts(self, inserts: Sequence[Insert]) -> None: ...


class TablePipeline:
    """A table's rows on their way into another table."""

    def __init__(self, host: InsertHost, insert: Insert) -> None:
        self._host = host
        self.insert = insert

    def get_sink_identifier(self) -> str:
        """The path of the table that is written."""
        return self.insert.name

    def explain(self, *extra_details: Any) -> str:
        """The plan as text."""
        return self._host.explain_inserts([self.insert], extra_details)

    async def execute(self) -> TableResult:
        """Run it as a job of its own; returns when it runs."""
        return await self._host.execute_inserts([self.insert])


class StatementSet:
    """Inserts that are planned together: a table that several of them read is read once, in one job."""

    def __init__(self, host: InsertHost) -> None:
        self._host = host
        self._inserts: list[Insert] = []

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add what `Table.insert_into` gives."""
        self._inserts.append(table_pipeline.insert)
        return self

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT statement.

        Raises:
            ValidationException: it is no INSERT, or its columns do not fit.
        """
        self._inserts.append(self._host.insert_sql(stmt))
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add a table's rows as an insert into another.

        Raises:
            ValidationException: there is no such table.
        """
        self._inserts.append(self._host.insert_table(table, target_path_or_descriptor, overwrite))
        return self

    def explain(self, *extra_details: Any) -> str:
        """The plans as text."""
        return self._host.explain_inserts(self._inserts, extra_details)

    async def execute(self) -> TableResult:
        """Run all as one job; returns when it runs. The set is empty then.

        Raises:
            StreamlineError: nothing was added.
        """
        inserts, self._inserts = self._inserts, []
        return await self._host.execute_inserts(inserts)


class StreamStatementSet(StatementSet):
    """A statement set of a stream table environment."""

    def attach_as_datastream(self) -> None:
        """Add all to the graph of the stream environment, whose `execute` runs them. The set is empty then."""
        inserts, self._inserts = self._inserts, []
        self._host.attach_inserts(inserts)
