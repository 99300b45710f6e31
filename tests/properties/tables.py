"""Random changelogs as tables, in a continuous query and in SQLite."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from hypothesis import strategies as st

from streamline import Row, RowKind, StreamExecutionEnvironment
from streamline._core.config import Configuration
from streamline._core.elements import Batch
from streamline._core.typeinfo import Types
from streamline.table import ChangelogMode, Schema, StreamTableEnvironment
from streamline.testing import Delay, Fail, ScriptedSource, VirtualClock

MODES = {"append": ChangelogMode.insert_only(), "retract": ChangelogMode.all(), "upsert": ChangelogMode.upsert()}
COLUMNS = {"l": ("id", "k", "v", "s"), "r": ("id", "k", "w", "s")}


@st.composite
def changes(draw: st.DrawFn, mode: str, size: int = 8) -> tuple[list[tuple[str, tuple[Any, ...]]], list[Any]]:
    """A changelog of (id, k, v, s), and the rows that it leaves."""
    small = st.none() | st.integers(0, 3)
    text = st.none() | st.sampled_from("ab")
    found: list[tuple[str, tuple[Any, ...]]] = []
    rows: list[tuple[Any, ...]] = []
    for number in range(draw(st.integers(0, size))):
        action = draw(st.sampled_from("+++-u")) if rows and mode != "append" else "+"
        if action == "+":
            row = (number, draw(small), draw(small), draw(text))
            rows.append(row)
            found.append(("+I", row))
            continue
        place = draw(st.integers(0, len(rows) - 1))
        old = rows[place]
        if action == "-":
            rows.pop(place)
            found.append(("-D", old))
            continue
        rows[place] = (old[0], draw(small), draw(small), draw(text))
        found += [("-U", old)] * (mode == "retract") + [("+U", rows[place])]
    return found, rows


@st.composite
def tables(draw: st.DrawFn, modes: Sequence[str] = ("append", "retract", "upsert")) -> dict[str, Any]:
    """For the tables l and r: how they change, their changes in batches, the rows that these leave."""
    found = {}
    for name in COLUMNS:
        mode = draw(st.sampled_from(modes))
        log, rows = draw(changes(mode))
        places = sorted(draw(st.sets(st.integers(1, max(1, len(log) - 1)), max_size=4)))
        batches = [log[a:b] for a, b in zip([0, *places], [*places, len(log)]) if a < b]
        found[name] = (mode, batches, rows)
    return found


def _create(
    env: StreamExecutionEnvironment, t_env: StreamTableEnvironment, name: str, mode: str, batches: Any, fails: Any
) -> None:
    names = list(COLUMNS[name])
    types = Types.ROW_NAMED(names, [Types.INT(), Types.INT(), Types.INT(), Types.STRING()])
    steps: list[Any] = []
    for i, batch in enumerate(batches):
        rows = [Row.of_kind(RowKind.from_short_string(kind), *row) for kind, row in batch]
        for row in rows:
            row.set_field_names(names)
        steps.append(Batch(rows))
        if fails is not None:
            steps.append(Delay(10))
            if i in fails:
                steps.append(Fail(ConnectionError("the source is gone")))
    stream = env.from_source(ScriptedSource(steps, output_type=types, name=name), None, name)
    builder = Schema.new_builder().column("id", "INT NOT NULL").column("k", "INT").column(names[2], "INT")
    builder = builder.column("s", "STRING")
    if mode != "append":
        builder = builder.primary_key("id")
    t_env.create_temporary_view(name, t_env.from_changelog_stream(stream, builder.build(), MODES[mode]))


async def continuous(
    found: Mapping[str, Any],
    query: str,
    parallelism: int = 1,
    *,
    options: Mapping[str, Any] | None = None,
    fails: Mapping[str, Any] | None = None,
    mode: ChangelogMode | None = None,
) -> list[Row]:
    """The changes that a query gives.

    Args:
        found: of `tables`.
        query: over l and r.
        parallelism: number of subtasks.
        options: of the session and the job.
        fails: by table the batches behind which its source fails once.
        mode: of the changelog.
    """
    configuration = Configuration()
    for key, value in (options or {}).items():
        configuration.set(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration, clock=VirtualClock())
    env.set_parallelism(parallelism)
    t_env = StreamTableEnvironment.create(env)
    for name, (how, batches, _) in found.items():
        _create(env, t_env, name, how, batches, None if fails is None else fails[name])
    stream = t_env.to_changelog_stream(t_env.sql_query(query), None, mode)
    async with stream.execute_and_collect() as results:
        return [row async for row in results]


def in_sqlite(found: Mapping[str, Any], query: str) -> Counter[Any]:
    """The rows that the query gives over the tables as they are left."""
    with closing(sqlite3.connect(":memory:")) as db:
        for name, (_, _, rows) in found.items():
            db.execute(f"CREATE TABLE {name} (id INT, k INT, {COLUMNS[name][2]} INT, s TEXT)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
        return Counter(tuple(row) for row in db.execute(query))


def folded(rows: Sequence[Row]) -> dict[Any, int]:
    """The rows that a changelog leaves, with their number."""
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[tuple(row)] += 1 if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    return {row: n for row, n in counts.items() if n}


def upserted(rows: Sequence[Row], key: int) -> Counter[Any]:
    """The rows that an upsert changelog leaves whose key are the first `key` columns."""
    known: dict[Any, Any] = {}
    for row in rows:
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            known[tuple(row)[:key]] = tuple(row)
        else:
            known.pop(tuple(row)[:key], None)
    return Counter(known.values())
