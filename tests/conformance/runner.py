"""Runs one recorded case: its tables are created and fed row by row, its query runs, its changelog is collected."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamline._core.changes import ChangelogMode, Row
from streamline._core.types import DataType
from streamline.errors import SqlParserException, TableException, ValidationException
from streamline.stream.environment import StreamExecutionEnvironment
from streamline.table.conversions import converter_in
from streamline.table.expressions import col
from streamline.table.schema import Schema
from streamline.table.stream_environment import StreamTableEnvironment
from streamline.table.table import Table
from streamline.testing.clock import VirtualClock
from streamline.testing.scripted import Pace
from tests.conformance.connector import Recorded, RecordedFactory, register
from tests.conformance.values import encode


def ddl(name: str, spec: dict[str, Any]) -> str:
    """The statement that creates a table of a case."""
    parts = [f"`{column}` {type_}" for column, type_ in spec["ddl_columns"]]
    if spec.get("watermark"):
        column, expression = spec["watermark"]
        parts.append(f"WATERMARK FOR `{column}` AS {expression}")
    if spec.get("primary_key"):
        parts.append(f"PRIMARY KEY ({', '.join(f'`{c}`' for c in spec['primary_key'])}) NOT ENFORCED")
    options = {
        "connector": "recorded",
        "changelog": str(spec["changelog"]).lower(),
        "scan.watermark.emit.strategy": "on-event",
    }
    with_ = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    return f"CREATE TABLE `{name}` ({', '.join(parts)}) WITH ({with_})"


def phase_of(error: Exception) -> str:
    """Where a case failed before it ran."""
    if isinstance(error, SqlParserException):
        return "parse"
    return "validate" if isinstance(error, ValidationException) else "plan"


def _one_rowtime(table: Table) -> Table:
    """The table with at most one event-time column: streams of changes have one timestamp, the recordings had none."""
    times = table.rel.schema.rowtimes[1:]
    columns = [col(f.name) for f in table.rel.schema]
    for i in times:
        columns[i] = columns[i].cast(table.rel.schema[i].type.materialized()).alias(table.rel.schema[i].name)
    return table.select(*columns) if times else table


def _stream(env: StreamTableEnvironment, table: Table, case: dict[str, Any]) -> Any:
    match case.get("sink"):
        case "append":
            return env.to_data_stream(table)
        case "upsert":
            schema = Schema.new_builder()
            for f in table.rel.schema:
                type_ = f.type.materialized()
                schema = schema.column(f.name, type_.not_null() if f.name in case["sink_key"] else type_)
            key = schema.primary_key(*case["sink_key"]).build()
            return env.to_changelog_stream(table, key, ChangelogMode.upsert())
        case _:
            return env.to_changelog_stream(table)


def _encoded(row: Row, types: list[DataType]) -> list[Any]:
    values = []
    for value, type_ in zip(row, types):
        inward = converter_in(type_, None, "a column")
        values.append(encode(value if inward is None else inward(value), type_))
    return [row.get_row_kind().short_string, *values]


async def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """The answer to a case, in the judge's form."""
    register()
    tables: dict[str, Any] = case["tables"]
    arrival = case.get("arrival")
    # Row by row, so that a table which is read twice reaches both readers as it comes.
    paced = True
    if arrival is None:
        arrival = [name for name, spec in tables.items() for _ in spec["rows"]]
    read = [name for name in arrival if tables[name]["changelog"] != "lookup"]
    rows = {name: spec["rows"] for name, spec in tables.items()}
    pace = Pace(read) if paced else None
    RecordedFactory.case = Recorded(rows, pace)
    env = StreamTableEnvironment.create(StreamExecutionEnvironment(clock=VirtualClock()))
    try:
        for key, value in {"table.local-time-zone": "UTC", **case.get("config", {})}.items():
            env.get_config().set(key, value)
        for name, spec in tables.items():
            await env.execute_sql(ddl(name, spec))
        for statement in case.get("setup") or ():
            await env.execute_sql(statement)
        table = env.sql_query(case["sql"])
        types = [f.type for f in table.rel.schema]
        stream = _stream(env, _one_rowtime(table), case)
    except (SqlParserException, ValidationException, TableException) as error:
        return {"error": {"phase": phase_of(error), "message": str(error)}}
    if pace is not None:
        pace._order = deque(name for name in pace._order if name in pace._ends)  # tables that the query does not read
    try:
        async with stream.execute_and_collect() as results:
            changelog = [_encoded(row, types) async for row in results]
    except Exception as error:
        return {"error": {"phase": "runtime", "message": str(error)}}
    schema = [[f.name, f.type.materialized().summary()] for f in table.rel.schema]
    return {"schema": schema, "changelog": changelog}
