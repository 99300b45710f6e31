"""Windows: faults that others had, and what is right."""

from __future__ import annotations

import datetime as dt
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, WatermarkStrategy
from streamline._core.elements import Batch, Watermark
from streamline._operators.window.aligned import AlignedWindows
from streamline._operators.window.incremental import reducing
from streamline._operators.window.sessions import SessionWindows
from streamline.testing import Delay, MiniJob, OperatorHarness, ScriptedSource
from streamline.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.cases.sql import asked, job

SECOND, MINUTE = 1000, 60_000


def key(record: Any) -> Any:
    return record[0]


def merged(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1])


@pytest.mark.parametrize("timestamp", [1_717_243_201_234, 0, -1, -62_135_596_800_000, -62_135_596_799_999])
async def test_c41_windows_are_exact_however_far_from_their_origin(timestamp: int) -> None:
    """C41: in windows of 10 s each 1 s a record is in ten, today, in 1970, before it, and in the year 1."""
    assigner = SlidingEventTimeWindows.of(10 * SECOND, SECOND)
    assigned = sorted(w.start for w in assigner.assign_windows(None, timestamp, None))
    last = timestamp // SECOND * SECOND
    assert assigned == [last - n * SECOND for n in range(9, -1, -1)]
    seen: list[int] = []
    async with OperatorHarness(AlignedWindows(key, 10 * SECOND, SECOND, 0, reducing(merged)), key=key) as harness:
        await harness.process_element(("a", 1), timestamp)
        await harness.process_watermark(timestamp + 20 * SECOND)
        for element in harness.extract_output():
            if isinstance(element, Batch):
                assert element.timestamps is not None
                seen += [t for t in element.timestamps if t is not None]
    assert seen == [start + 10 * SECOND - 1 for start in assigned]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("order", list(permutations(["a", "b"])))
async def test_c42_a_session_join_does_not_depend_on_the_order_of_its_sides(swapped: bool, order: Any) -> None:
    """C42: A at 10 s and B at 11 s meet in one session, whichever side is named first and whoever comes first."""
    wait = {name: 100 * i for i, name in enumerate(order)}
    times = {"a": 10 * SECOND, "b": 11 * SECOND}
    out: list[Any] = []

    def build(env: StreamExecutionEnvironment) -> None:
        strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
        one, two = (
            env.from_source(ScriptedSource([Delay(wait[n]), ("k", times[n], n)]), strategy, n)
            for n in (("b", "a") if swapped else ("a", "b"))
        )
        together = one.join(two).where(key).equal_to(key).window(EventTimeSessionWindows.with_gap("60 s"))
        together.apply(lambda left, right: tuple(sorted((left[2], right[2])))).add_sink(out.append)

    async with MiniJob(build) as job:
        await job.wait()
    assert out == [("a", "b")]


async def test_c44_a_late_record_beside_a_closed_session_has_one_of_its_own() -> None:
    """C44: as Flink: at watermark 6 a record at 3 has the window [3, 8), which is not over: it is kept, and alone.

    The case's own value (drop it) would need an option that Flink does not have.
    """
    async with OperatorHarness(SessionWindows(key, 5, reducing(merged)), key=key) as harness:
        await harness.process_element(("a", 1), 0)
        await harness.process_watermark(6)
        await harness.process_element(("a", 10), 3)
        await harness.process_element(("a", 100), 1)  # [1, 6) is over, but it touches [3, 8)
        await harness.process_watermark(20)
        assert harness.output_text() == "+I a 1 | ~ 6 | +I a 110 | ~ 20"


async def test_c48_restored_windows_fire_and_leave_nothing() -> None:
    """C48: a hundred keys in a window, restored, and none of them comes again: all fire, and the state is empty."""

    def operator() -> AlignedWindows:
        return AlignedWindows(key, 10 * MINUTE, 10 * MINUTE, 0, reducing(merged))

    async with OperatorHarness(operator(), key=key) as harness:
        for n in range(100):
            await harness.process_element((f"k{n}", n), 5 * MINUTE)
        snapshot = await harness.snapshot()
    async with OperatorHarness(operator(), key=key, restore=snapshot) as harness:
        assert harness.task.state.entries() > 0
        await harness.process_watermark(60 * MINUTE)
        assert sorted(harness.extract_values()) == sorted((f"k{n}", n) for n in range(100))
        assert harness.task.state.entries() == 0
        await harness.send(Watermark(70 * MINUTE))
        assert harness.extract_values() == []


def test_c46_a_window_tells_its_bounds() -> None:
    """C46, for streams: start, end and the last millisecond, at which the result stands."""
    (window,) = TumblingEventTimeWindows.of("20 min").assign_windows(None, 25 * MINUTE, None)
    assert (window.start, window.end, window.max_timestamp()) == (20 * MINUTE, 40 * MINUTE, 40 * MINUTE - 1)


def utc(second: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, dt.UTC).replace(tzinfo=None)


SESSIONS = """SELECT id, window_start, window_end, COUNT(*) FROM TABLE(SESSION(
    TABLE t PARTITION BY id, DESCRIPTOR(rt), INTERVAL '5' SECOND)) GROUP BY id, window_start, window_end"""


async def test_c45_a_session_takes_rows_and_retractions_of_other_batches() -> None:
    """C45: 0 s, 3 s, and the first is taken back, each in a batch of its own: no error, one row counts.

    As in Flink a session does not shrink: it is [0, 8) still. One without rows left is not there.
    """
    rows = [("t", "+I", "a", 1, 0), ("t", "+I", "a", 2, 3), ("t", "-D", "a", 1, 0)]
    assert await asked(rows, SESSIONS, {"t": "changes"}) == [("+I", "a", utc(0), utc(8), 1)]
    assert await asked([*rows, ("t", "-D", "a", 2, 3)], SESSIONS, {"t": "changes"}) == []


async def test_c46_a_window_tells_its_bounds_in_sql_and_its_time_goes_on() -> None:
    """C46: start, end and time are columns; the time is a time attribute: windows of windows."""
    rows = [("t", "+I", "a", 1, 60), ("t", "+I", "a", 2, 1199), ("t", "+I", "a", 5, 1200)]
    inner = """SELECT id, SUM(v) AS s, window_start, window_end, window_time FROM TABLE(
        TUMBLE(TABLE t, DESCRIPTOR(rt), INTERVAL '20' MINUTE)) GROUP BY id, window_start, window_end, window_time"""
    times = [dt.datetime.fromtimestamp(second - 0.001, dt.UTC) for second in (1200, 2400)]
    assert await asked(rows, inner, {"t": "append"}) == [
        ("+I", "a", 3, utc(0), utc(1200), times[0]),
        ("+I", "a", 5, utc(1200), utc(2400), times[1]),
    ]
    outer = f"""WITH w AS (SELECT s, window_time AS wt FROM ({inner}))
        SELECT window_start, window_end, SUM(s) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(wt), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end"""
    assert await asked(rows, outer, {"t": "append"}) == [("+I", utc(0), utc(3600), 8)]


@pytest.mark.parametrize("columns", ["rt", "rt, v"])
@pytest.mark.parametrize(("direction", "kept"), [("DESC", 4), ("ASC", 2)])
@pytest.mark.parametrize("cut", ["together", "apart", "restored"])
async def test_c49_of_equal_times_the_first_or_the_last_to_come_is_kept(
    columns: str, direction: str, kept: int, cut: str, tmp_path: Path
) -> None:
    """C49: 2 then 4 at the same time: descending keeps the last one, ascending the first; also with a second key,
    however they are cut, and with a restart between them."""
    by = ", ".join(f"{column} {direction}" for column in columns.split(", "))
    numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY {by}) AS n FROM t"
    query = f"SELECT id, v FROM ({numbered}) WHERE n = 1"
    rows = [("t", "+I", "a", 2, 10), ("t", "+I", "a", 4, 10)]
    options = {"execution.checkpointing.interval": "2 ms", "execution.checkpointing.dir": str(tmp_path)}
    step = 0 if cut == "together" else 10
    running = job(rows, query, {"t": "append"}, options if cut == "restored" else {}, step=step)
    if cut == "restored":
        running.clock.autojump = False
        await running.start()
        await running.advance("5 ms")
        await running.crash()
        assert running.results in ([], [Row.of_kind(RowKind.INSERT, "a", 2)])
        running.clock.autojump = True
    await running.start()
    await running.wait()
    rest: list[Any] = []
    for change in running.results:
        if change.get_row_kind().is_retraction:
            rest.remove(tuple(change))
        else:
            rest.append(tuple(change))
    assert rest == [("a", kept)]
