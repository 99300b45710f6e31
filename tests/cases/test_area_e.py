"""Joins and their state: faults that others had, and what is right."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, TableException, WatermarkStrategy
from streamline._operators.join.keyed_interval import KeyedIntervalJoin
from streamline.table import StreamTableEnvironment
from streamline.testing import Delay, MiniJob, OperatorHarness, ScriptedSource, VirtualClock
from tests.cases.sql import asked, job, shown
from tests.conformance.connector import Recorded, RecordedFactory, register

MINUTE, HOUR = 60_000, 3_600_000


def key(record: Any) -> Any:
    return record[0]


async def test_c50_state_goes_by_time_and_not_by_being_asked_for() -> None:
    """C50: many keys, each once on one side, nothing on the other: an hour later there is nothing left."""
    join = KeyedIntervalJoin(lambda a, b, ctx: (a, b), (key, key), -MINUTE, MINUTE)
    async with OperatorHarness(join, key=(key, key)) as harness:
        for n in range(2000):
            await harness.process_element((n,), n)
        assert harness.task.state.entries() >= 2000
        await harness.process_watermark(HOUR)
        assert harness.task.state.entries() == 0


async def test_c53_three_inputs_meet_in_every_order_of_arrival() -> None:
    """C53: A, B and C within 10 s of one another, one record each, in all six orders: one result."""
    for order in permutations("ABC"):
        out: list[Any] = []

        def build(env: StreamExecutionEnvironment, order: Any = order, out: list[Any] = out) -> None:
            strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
            a, b, c = (
                env.from_source(ScriptedSource([Delay(1000 * order.index(n)), ("k", 5000 + i, n)]), strategy, n).key_by(
                    key
                )
                for i, n in enumerate("ABC")
            )
            both = a.interval_join(b).between("-10 s", "10 s").process(lambda x, y, ctx: ("k", x[2] + y[2]))
            three = both.key_by(key).interval_join(c).between("-10 s", "10 s")
            three.process(lambda xy, z, ctx: xy[1] + z[2]).add_sink(out.append)

        async with MiniJob(build) as job:
            await job.wait()
        assert out == ["ABC"], order


OUTER = """SELECT l.id, l.v, r.v FROM l LEFT JOIN r ON l.id = r.id
    AND r.rt BETWEEN l.rt - INTERVAL '5' SECOND AND l.rt + INTERVAL '5' SECOND"""


@pytest.mark.parametrize("restored", [False, True])
async def test_c52_an_outer_row_that_has_matched_gets_no_row_of_nulls(restored: bool, tmp_path: Path) -> None:
    """C52: L(10) meets R(12); long after both have left the state nothing more is said of L, also behind a restart."""
    rows = [("l", "+I", "k", 1, 10), ("r", "+I", "k", 2, 12), ("l", "+I", "x", 3, 11)]
    later = [("l", "+I", "z", 0, 100), ("r", "+I", "z", 0, 100), ("r", "+I", "y", 0, 200), ("l", "+I", "y", 0, 200)]
    options = {"execution.checkpointing.interval": "3 ms", "execution.checkpointing.dir": str(tmp_path)}
    running = job([*rows, *later], OUTER, {"l": "append", "r": "append"}, options)
    if restored:
        running.clock.autojump = False
        await running.start()
        await running.advance("28 ms")  # the three rows have come, and checkpoints behind them
        await running.crash()
        running.clock.autojump = True
    await running.start()
    await running.wait()
    assert sorted(shown(running.results)) == [
        ("+I", "k", 1, 2), ("+I", "x", 3, None), ("+I", "y", 0, 0), ("+I", "z", 0, 0),
    ]  # fmt: skip


AT_THE_TIME = "SELECT p.id, p.v, r.v FROM p LEFT JOIN r FOR SYSTEM_TIME AS OF p.rt ON p.id = r.id"
SIDES = {"p": "append", "r": "versions"}
END = [("r", "+I", "end", 0, 1000), ("p", "+I", "end", 0, 1000)]


async def temporal(rows: list[Any], metric: str) -> tuple[list[Any], Any]:
    """The join's results without those of the end, and a metric of it."""
    async with job([*rows, *END], AT_THE_TIME, SIDES) as running:
        await running.wait()
        value = await running.metric("TemporalJoin", metric)
    return [row for row in shown(running.results) if row[1] not in ("end", "mark")], value


async def test_c54_a_late_probe_whose_version_is_gone_is_padded_and_counted() -> None:
    """C54: v1@10 is gone at watermark 25. As Flink: a probe of 12 is padded by LEFT JOIN, and dropped by the inner one.

    A case of its own, taking the probe back later, cannot come up: changes on that side are refused.
    """
    mark = [("r", "+I", "mark", 0, 25), ("p", "+I", "mark", 0, 25)]
    rows = [("r", "+I", "k", 1, 10), ("r", "+U", "k", 2, 20), ("p", "+I", "k", 9, 24), *mark, ("p", "+I", "k", 7, 12)]
    assert await temporal(rows, "numLateProbes") == ([("+I", "k", 9, 2), ("+I", "k", 7, None)], 1)
    inner = AT_THE_TIME.replace("LEFT ", "")
    found = await asked([*rows, *END], inner, SIDES)
    assert [row for row in found if row[1] == "k"] == [("+I", "k", 9, 2)]
    with pytest.raises(TableException, match="TemporalJoin doesn't support consuming update and delete changes"):
        await asked(rows, AT_THE_TIME, {**SIDES, "p": "changes"})


async def test_c56_a_late_version_changes_nothing_that_was_sent_and_is_counted() -> None:
    """C56: 15 was joined with v@10 at watermark 20; then v@14 comes: rows to come see it."""
    mark = [("r", "+I", "mark", 0, 20), ("p", "+I", "mark", 0, 20)]
    rows = [("r", "+I", "k", 1, 10), ("p", "+I", "k", 15, 15), *mark, ("r", "+U", "k", 2, 14), ("p", "+I", "k", 21, 21)]
    assert await temporal(rows, "numLateVersions") == ([("+I", "k", 15, 1), ("+I", "k", 21, 2)], 1)


async def test_c57_a_left_row_whose_key_matches_and_whose_condition_does_not_is_padded() -> None:
    """C57: table (1, 11), stream (1, 10), LEFT JOIN … AND a1 > a2: (1, 10, NULL, NULL); so in a lookup."""
    rows = [("r", "+I", "1", 11, 1), ("p", "+I", "1", 10, 5), *END]
    query = "SELECT p.id, p.v, r.id, r.v FROM p LEFT JOIN r FOR SYSTEM_TIME AS OF p.rt ON p.id = r.id AND p.v > r.v"
    found = await asked(rows, query, SIDES)
    assert [row for row in found if row[1] == "1"] == [("+I", "1", 10, None, None)]


async def looked_up(condition: str, count: int) -> tuple[list[Any], int]:
    """Stream rows (1, 10), as many as asked for, joined with the table row (1, 11); and the entries of its state."""
    register()
    RecordedFactory.case = Recorded({"s": [["+I", 1, 10]] * count, "d": [["+I", 1, 11]]}, None)
    t_env = StreamTableEnvironment.create(StreamExecutionEnvironment(clock=VirtualClock()))
    for name, mode, more in (("s", "false", ", pt AS PROCTIME()"), ("d", "lookup", "")):
        await t_env.execute_sql(
            f"CREATE TABLE {name} (id INT, v INT{more}) WITH ('connector' = 'recorded', 'changelog' = '{mode}')"
        )
    query = "SELECT s.id, s.v, d.id, d.v FROM s LEFT JOIN d FOR SYSTEM_TIME AS OF s.pt ON s.id = d.id"
    async with t_env.to_data_stream(t_env.sql_query(f"{query} {condition}")).execute_and_collect() as results:
        found = [tuple(row) async for row in results]
        assert results.job is not None
        return found, results.job.metric_values()["LookupJoin"]["numStateEntries"]


async def test_c57_a_lookup_pads_too_and_c58_keeps_no_state() -> None:
    """C57 and C58: at processing time a table is looked up: no version is kept, however many rows come."""
    assert await looked_up("AND s.v > d.v", 1) == ([(1, 10, None, None)], 0)
    assert await looked_up("AND s.v < d.v", 500) == ([(1, 10, 1, 11)] * 500, 0)


@pytest.mark.parametrize(("ttl", "left"), [("0 ms", {"k": [199]}), ("1 s", {})])
async def test_c58_versions_go_with_the_watermark_and_with_their_time_to_live(ttl: str, left: Any) -> None:
    """C58: 200 updates of a key leave one version; with `table.exec.state.ttl` a key that rests so long has none."""
    rows = [("r", "+I" if n == 0 else "+U", "k", n, n) for n in range(200)]
    rows += [("r", "+I", "mark", 0, 300), ("p", "+I", "mark", 0, 300)]
    probes = [("p", "+I", "other", 0, 300 + n) for n in range(2000)]  # so that the clock goes on, and state is used
    running = job([*rows, *probes], AT_THE_TIME, SIDES, {"table.exec.state.ttl": ttl}, step=1)
    running.clock.autojump = False
    async with running:
        await running.advance("2 s")
        assert running.client is not None
        attempt = running.client._job.attempt
        assert attempt is not None
        (task,) = [t for t in attempt.operators if t.operator_name == "TemporalJoin"]
        operator: Any = task.operator
        versions = {k: v for k, v in operator._right.data.items() if "mark" not in str(k)}
        assert [[row[1] for _, row in kept] for kept in versions.values()] == list(left.values())
