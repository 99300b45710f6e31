"""Tables whose rows come one by one, in a given order over all of them, each followed by its watermark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamline import Row, RowKind, StreamExecutionEnvironment, Types
from streamline._core.elements import Batch
from streamline.table import ChangelogMode, Schema, StreamTableEnvironment
from streamline.testing import Delay, MiniJob, ScriptedSource, VirtualClock

__all__ = ("asked", "job", "shown")

#: Milliseconds of the clock between two rows; watermarks follow each within them.
STEP = 10

#: (table, kind, id, value, second): what comes, in this order.
Arrival = Sequence[tuple[str, str, Any, Any, int]]

MODES = {"append": ChangelogMode.insert_only(), "changes": ChangelogMode.all(), "versions": ChangelogMode.upsert()}


def job(
    arrival: Arrival,
    query: str,
    tables: Mapping[str, str],
    options: Mapping[str, Any] | None = None,
    *,
    step: int = STEP,
    watermark: str = "rt - INTERVAL '0.001' SECOND",
    clock: VirtualClock | None = None,
    functions: Iterable[tuple[str, Any]] = (),
) -> MiniJob:
    """A job whose results are the changes of a query over tables of (id STRING, v INT, sec BIGINT, rt).

    Args:
        arrival: the rows.
        query: over them.
        tables: by name: "append", "changes" (+I -U +U -D), or "versions" (upserts by id).
        options: of the job.
        step: milliseconds between two rows.
        watermark: of each table.
        clock: of the job.
        functions: names and functions that the query may call.
    """

    def build(env: StreamExecutionEnvironment) -> Any:
        t_env = StreamTableEnvironment.create(env)
        t_env.get_config().set("table.local-time-zone", "UTC")
        for name, function in functions:
            t_env.create_temporary_function(name, function)
        for name, mode in tables.items():
            steps: list[Any] = []
            for table, kind, id_, value, second in arrival:
                if table == name:
                    row = Row.of_kind(RowKind.from_short_string(kind), id_, value, second)
                    row.set_field_names(["id", "v", "sec"])
                    steps.append(Batch([row]))
                steps.append(Delay(step))
            types = Types.ROW_NAMED(["id", "v", "sec"], [Types.STRING(), Types.INT(), Types.LONG()])
            schema = Schema.new_builder().column("id", "STRING NOT NULL").column("v", "INT").column("sec", "BIGINT")
            schema = schema.column_by_expression("rt", "TO_TIMESTAMP_LTZ(sec, 0)")
            schema = schema.watermark("rt", watermark)
            if mode == "versions":
                schema = schema.primary_key("id")
            stream = env.from_source(ScriptedSource(steps, output_type=types, name=name), None, name)
            t_env.create_temporary_view(name, t_env.from_changelog_stream(stream, schema.build(), MODES[mode]))
        return t_env.to_changelog_stream(t_env.sql_query(query))

    configuration = {"pipeline.auto-watermark-interval": "1 ms", **(options or {})}
    return MiniJob(build, configuration=configuration, clock=clock or VirtualClock())


def shown(results: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Changes as tuples, the kind in front."""
    return [(row.get_row_kind().short_string, *row) for row in results]


async def asked(arrival: Arrival, query: str, tables: Mapping[str, str], **options: Any) -> list[tuple[Any, ...]]:
    """The changes that the query gives, to its end."""
    async with job(arrival, query, tables, options) as running:
        await running.wait()
    return shown(running.results)
