"""Watermarks, idleness and late data: faults that others had, and what is right."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from streamline import OutputTag, RowKind, StreamExecutionEnvironment, ValidationException, WatermarkStrategy
from streamline._core.elements import Batch, Watermark
from streamline._operators.join.keyed_interval import KeyedIntervalJoin
from streamline._runtime.event_time_watch import other_unit
from streamline.functions import ProcessWindowFunction
from streamline.testing import Delay, MiniJob, OperatorHarness, Quiet, ScriptedSource, VirtualClock, changelog
from streamline.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.cases.sql import asked, job

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
LATE = OutputTag("late")


def at(text: str) -> int:
    """Milliseconds since midnight of HH:MM:SS."""
    hours, minutes, seconds = map(int, text.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def by_time(bound: int = 0, **how: Any) -> Any:
    strategy: Any = WatermarkStrategy.for_bounded_out_of_orderness(bound)
    return strategy.with_timestamp_assigner(lambda v, _: v[1])


class Counted(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (key, context.window().start, len(list(elements)))


def windows(source: ScriptedSource, strategy: Any, assigner: Any, out: list[Any], late: list[Any]) -> MiniJob:
    def build(env: StreamExecutionEnvironment) -> None:
        keyed = env.from_source(source, strategy, "source").key_by(lambda v: v[0]).window(assigner)
        counted = keyed.side_output_late_data(LATE).process(Counted()).name("window")
        counted.add_sink(out.append)
        counted.get_side_output(LATE).add_sink(late.append)

    job = MiniJob(build)
    job.clock.autojump = False
    return job


async def test_c26_an_idle_partition_holds_nothing_back() -> None:
    """C26: after ten seconds of silence of p1, p0's windows fire; p1's later records count by the watermark."""
    out, late = list[Any](), list[Any]()
    source = ScriptedSource({"p0": [], "p1": []}, ends=False)
    job = windows(source, by_time(5 * SECOND).with_idleness("10 s"), TumblingEventTimeWindows.of(MINUTE), out, late)
    async with job:
        source.feed(*[("a", at(t)) for t in ("12:00:01", "12:01:10", "12:02:30")], split="p0")
        await job.advance("9 s")
        assert out == [], "p1 may still speak"
        await job.advance("2 s")
        assert out == [("a", at("12:00:00"), 1), ("a", at("12:01:00"), 1)]
        source.feed(("a", at("12:02:40")), split="p1")
        await job.advance("1 s")
        assert late == [], "12:02:40 is on time"
        source.feed(("a", at("12:00:30")), split="p1")
        await job.advance("1 s")
        assert late == [("a", at("12:00:30"))], "the watermark never goes back"


async def test_c28_who_waits_for_alignment_is_not_idle() -> None:
    """C28: A runs a minute ahead and is held back for longer than its idle timeout; when B comes near, A goes on."""
    seen: list[Any] = []
    ahead = ScriptedSource([step for s in range(0, 70, 5) for step in (("A", s * SECOND), Delay(50))])
    slow = ScriptedSource([step for s in range(0, 70, 5) for step in (("B", s * SECOND), Delay(4000))])
    strategy = by_time().with_idleness("2 s").with_watermark_alignment("g", "10 s", "100 ms")

    def build(env: StreamExecutionEnvironment) -> None:
        # B speaks each 4 s: it is let be idle by nobody, A is what the case is about.
        a = env.from_source(ahead, strategy, "A")
        b = env.from_source(slow, by_time().with_watermark_alignment("g", "10 s", "100 ms"), "B")
        a.union(b).add_sink(seen.append)

    async with MiniJob(build) as job:
        job.clock.autojump = False
        await job.advance("30 s")
        reached = max(t for name, t in seen if name == "A") // SECOND
        assert 25 <= reached <= 60, "held back, though not for ever"
        job.clock.autojump = True
        await job.wait()
    assert sum(name == "A" for name, _ in seen) == 14


@pytest.mark.parametrize("where", ["source", "stream"])
@pytest.mark.parametrize("on_event", [False, True])
async def test_c29_a_clock_that_is_a_day_ahead_makes_nobody_late(
    where: str, on_event: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """C29: 10:00, 10:02, the next day's 10:00, 10:03 to 10:12 by the minute: nobody is late, the odd one counts."""
    out, late = list[Any](), list[Any]()
    minutes = [0, 2, 24 * 60, *range(3, 13)]
    source = ScriptedSource([step for m in minutes for step in (("a", at("10:00:00") + m * MINUTE), Delay(MINUTE))])
    strategy = by_time().with_max_timestamp_ahead("15 min")
    if on_event:
        strategy = strategy.with_emit_on_event()

    def build(env: StreamExecutionEnvironment) -> None:
        if where == "source":
            stamped = env.from_source(source, strategy, "stamped")
        else:
            stamped = env.from_source(source).assign_timestamps_and_watermarks(strategy).name("stamped")
        windowed = stamped.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(MINUTE))
        counted = windowed.side_output_late_data(LATE).process(Counted())
        counted.add_sink(out.append)
        counted.get_side_output(LATE).add_sink(late.append)

    async with MiniJob(build, clock=VirtualClock(at("10:00:00"))) as job:
        await job.wait()
        assert await job.metric("stamped", "numRecordsAhead") == 1
        assert await job.metric("stamped", "maxTimestampAhead") == (24 * 60 - 2) * MINUTE, "read at 10:02"
    assert late == []
    assert sorted(out) == sorted(("a", at("10:00:00") + m * MINUTE, 1) for m in minutes)
    assert len([m for m in caplog.messages if "ms ahead of the clock" in m]) == 1


@pytest.mark.parametrize("timestamp", [None, "x", {"long": "x"}, 1.5])
async def test_c30_a_timestamp_that_is_none_is_an_error_with_the_record(timestamp: Any) -> None:
    """C30: NULL or something else where the timestamp should be fails with the record, not with a riddle."""
    source = ScriptedSource([("a", 1), ("a", timestamp)])
    async with windows(source, by_time(), TumblingEventTimeWindows.of(MINUTE), [], []) as job:
        job.clock.autojump = True
        with pytest.raises(ValidationException, match=r"timestamp assigner: .*record: \('a', "):
            await job.wait()


@pytest.mark.parametrize("where", ["source", "stream"])
@pytest.mark.parametrize(
    ("factor", "unit"),
    [(1, "seconds"), (1000, None), (1_000_000, "microseconds"), (1_000_000_000, "nanoseconds")],
)
async def test_c30_timestamps_in_another_unit_are_told_of(
    factor: int, unit: str | None, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C30: 1721054790 is 1970 in milliseconds, and seconds of these days: the log says it once."""
    times = [(1_721_054_790 + s) * factor for s in range(3)]
    source = ScriptedSource([step for t in times for step in (("a", t), Delay(SECOND))])

    def build(env: StreamExecutionEnvironment) -> Any:
        if where == "source":
            return env.from_source(source, by_time(), "events").map(lambda v: v).map(lambda v: v)
        return env.from_source(source).assign_timestamps_and_watermarks(by_time()).map(lambda v: v).map(lambda v: v)

    async with MiniJob(build, clock=VirtualClock("2024-07-15T14:46:30Z")) as job:
        await job.wait()
    said = [m for m in caplog.messages if "look like" in m]
    assert [unit in m for m in said] == ([True] if unit else [])


@pytest.mark.parametrize("year", [1900, 1969, 1971, 2000, 2013, 2024, 2025, 2100, 9999])
def test_c30_times_of_long_ago_or_to_come_are_no_other_unit(year: int) -> None:
    """C30: what was recorded in any year may be replayed today."""
    now = round(dt.datetime(2024, 7, 15, tzinfo=dt.UTC).timestamp() * 1000)
    assert other_unit(round(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp() * 1000), now) is None


async def test_c32_a_late_record_never_opens_a_closed_window_again() -> None:
    """C32: 50 s behind a watermark of 200 s, in windows of 30 s each 10 s: dropped, counted, no second result."""
    out, late = list[Any](), list[Any]()
    source = ScriptedSource(ends=False)
    job = windows(source, by_time(), SlidingEventTimeWindows.of(30 * SECOND, 10 * SECOND), out, late)
    async with job:
        source.feed(("a", 100 * SECOND), ("a", 200 * SECOND))
        await job.advance("1 s")
        before = list(out)
        assert sorted(before) == [("a", s * SECOND, 1) for s in (80, 90, 100)]
        source.feed(("a", 50 * SECOND))
        await job.advance("1 s")
        assert out == before and late == [("a", 50 * SECOND)]


async def test_c33_late_is_the_window_and_not_the_record() -> None:
    """C33: 12:10 behind a watermark of 12:30 belongs to the window to 13:00, which is open: it counts."""
    out, late = list[Any](), list[Any]()
    source = ScriptedSource([("a", at("12:30:00")), Quiet(), Delay(500), ("a", at("12:10:00"))])
    job = windows(source, by_time(), TumblingEventTimeWindows.of(HOUR), out, late)
    async with job:
        job.clock.autojump = True
        await job.wait()
    assert out == [("a", at("12:00:00"), 2)] and late == []


def test_c36_event_time_without_a_strategy_is_refused_when_built() -> None:
    """C36: a window that could never fire says so, names where the stream comes from and what to do."""
    keyed = StreamExecutionEnvironment.get_execution_environment().from_elements(("a", 1)).key_by(lambda v: v[0])
    with pytest.raises(ValidationException, match=r"no timestamps: it comes from 'collection'.*assign_timestamps"):
        keyed.window(TumblingEventTimeWindows.of(5 * SECOND))


async def test_c37_watermarks_are_made_per_partition() -> None:
    """C37: each partition is in order; one is read to its end before the other: nothing is late."""
    out, late = list[Any](), list[Any]()
    records = [("a", s * SECOND) for s in range(1, 1001)]
    source = ScriptedSource({"p0": records, "p1": [Delay(2000), *records]})
    job = windows(source, by_time(0), TumblingEventTimeWindows.of(100 * SECOND), out, late)
    async with job:
        job.clock.autojump = True
        await job.wait()
    assert late == []
    assert sum(n for _, _, n in out) == 2000


async def test_c38_results_of_an_interval_join_are_never_late() -> None:
    """C38: both at 100, then B(105) meets A(96). Flink gives the result the later time, 105: it is ahead of 100."""
    keys = (lambda r: r[0], lambda r: r[0])
    join = KeyedIntervalJoin(lambda a, b, ctx: (a[1], b[1]), keys, 0, 10)
    async with OperatorHarness(join, key=keys) as harness:
        for side in (0, 1):
            await harness.send(*changelog("a 96 @ 96 | ~ 95" if side == 0 else "~ 95"), input=side)
        await harness.process_watermark(100)
        await harness.process_element(("a", 105), 105, input=1)
        reached = -1
        for element in harness.extract_output():
            if isinstance(element, Watermark):
                reached = element.timestamp
            elif isinstance(element, Batch):
                assert element.timestamps is not None and all(t > reached for t in element.timestamps if t is not None)
                assert element.values == [(96, 105)] and list(element.timestamps) == [105]
        assert reached == 100


async def test_c40_alignment_bounds_what_a_join_holds() -> None:
    """C40: A could give ten days at once, B one day in real time: A is read no further than the drift beyond B."""
    hour = HOUR
    a = ScriptedSource([step for h in range(240) for step in (("k", h * hour), Delay(10))])
    b = ScriptedSource([step for h in range(24) for step in (("k", h * hour), Delay(1000))])
    strategy = by_time().with_watermark_alignment("g", "2 h", "100 ms")
    pairs: list[Any] = []

    def build(env: StreamExecutionEnvironment) -> None:
        left, right = (env.from_source(s, strategy, n).key_by(lambda v: v[0]) for s, n in ((a, "A"), (b, "B")))
        joined = left.interval_join(right).between("-1 h", "1 h").process(lambda x, y, ctx: (x[1], y[1]))
        joined.name("join").add_sink(pairs.append)

    async with MiniJob(build) as job:
        job.clock.autojump = False
        await job.advance("15 s")
        # 15 h of B; A may be 2 h ahead, and what it gives until the next look (10 records).
        assert await job.metric("A", "numRecordsOut") <= 15 + 2 + 11
        job.clock.autojump = True
        await job.wait()
    assert sorted(pairs) == sorted((x * hour, y * hour) for y in range(24) for x in range(240) if abs(x - y) <= 1)


async def test_c29_in_sql_a_watermark_that_is_no_further_than_the_clock() -> None:
    """C29: `LEAST(ts, CURRENT_TIMESTAMP)` in the watermark: the row of tomorrow makes none of today's late."""
    second = at("10:00:00") // SECOND
    minutes = [0, 2, 24 * 60, *range(3, 13)]
    rows = [("t", "+I", "a", 1, second + 60 * m) for m in minutes]
    query = """SELECT SUM(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rt), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end"""
    for watermark, counted in (("rt", 3), ("LEAST(rt, CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3)))", 13)):
        by_clock, clock = f"{watermark} - INTERVAL '1' SECOND", VirtualClock(at("10:00:00"))
        async with job(rows, query, {"t": "append"}, watermark=by_clock, step=MINUTE, clock=clock) as running:
            await running.wait()
        assert len(running.results) == counted


async def test_c34_sql_counts_late_rows_tells_of_them_and_can_select_them(caplog: pytest.LogCaptureFixture) -> None:
    """C34: a row behind its window: a metric of the operator, a word in the log, and a query that gives such rows."""
    rows = [("t", "+I", "a", 1, 100), ("t", "+I", "a", 2, 200), ("t", "+I", "a", 3, 50), ("t", "+I", "a", 4, 51)]
    windows = """SELECT id, SUM(v) FROM TABLE(HOP(TABLE t, DESCRIPTOR(rt), INTERVAL '10' SECOND, INTERVAL '30' SECOND))
        GROUP BY id, window_start, window_end"""
    async with job(rows, windows, {"t": "append"}) as running:
        await running.wait()
        found = [
            (name, m["numLateRecordsDropped"])
            for name, m in (await running.client.metrics()).items()
            if "numLateRecordsDropped" in m
        ]
    ((operator, dropped),) = found
    assert dropped == 2
    assert [row.get_row_kind() for row in running.results] == [RowKind.INSERT] * 6, "no second result for any window"
    (said,) = [m for m in caplog.messages if "late" in m]
    assert operator in said
    late = "SELECT id, v FROM t WHERE rt <= CURRENT_WATERMARK(rt)"
    assert await asked(rows, late, {"t": "append"}) == [("+I", "a", 3), ("+I", "a", 4)]


@pytest.mark.parametrize("said", ["idleness", "nothing"])
async def test_c36_a_silent_partition_that_holds_event_time_back_is_named(
    said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C36: p1 never has a record: after many records of p0 and some seconds the log names it, once."""
    strategy = by_time() if said == "nothing" else by_time().with_idleness("5 s")
    steps = [step for s in range(30) for step in (*[("a", s * SECOND + n) for n in range(100)], Delay(SECOND))]
    out, late = list[Any](), list[Any]()
    source = ScriptedSource({"p0": steps, "p1": []}, ends=False)
    async with windows(source, strategy, TumblingEventTimeWindows.of(SECOND), out, late) as job:
        await job.advance("30 s")
    warnings = [m for m in caplog.messages if "no watermark after" in m]
    if said == "idleness":
        assert out and not warnings
    else:
        (warning,) = warnings
        assert not out
        assert "source 'source'" in warning and "split 'p1' had none yet" in warning and "with_idleness" in warning


async def test_c36_an_input_without_watermarks_is_named_and_its_watermark_is_a_metric(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C36: one side of a join has event time, the other said it has none: nothing comes out, and the log says why."""
    steps = [step for s in range(30) for step in (*[("a", s * SECOND + n) for n in range(100)], Delay(SECOND))]

    def build(env: StreamExecutionEnvironment) -> None:
        left = env.from_source(ScriptedSource(steps, ends=False), by_time(), "prices").key_by(lambda v: v[0])
        none: Any = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v, _: v[1])
        right = env.from_source(ScriptedSource([("a", 1)], ends=False), none, "orders").key_by(lambda v: v[0])
        left.interval_join(right).between("-1 s", "1 s").process(lambda a, b, ctx: a).name("join").print()

    async with MiniJob(build) as job:
        job.clock.autojump = False
        await job.advance("30 s")
        assert await job.metric("join", "currentInput1Watermark") > 20 * SECOND
        assert await job.metric("join", "currentInput2Watermark") == await job.metric("join", "currentInputWatermark")
        assert await job.metric("join", "currentInputWatermark") < 0
    (warning,) = [m for m in caplog.messages if "no watermark after" in m]
    assert "operator 'join'" in warning and "input 'orders' had none yet" in warning


async def test_c36_records_without_timestamps_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """C36: a strategy without an assigner over records without timestamps never says anything: the log does."""
    steps = [step for s in range(30) for step in (*range(100), Delay(SECOND))]

    def build(env: StreamExecutionEnvironment) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        env.from_source(ScriptedSource(steps, ends=False), strategy, "numbers").print()

    async with MiniJob(build) as job:
        job.clock.autojump = False
        await job.advance("30 s")
    (warning,) = [m for m in caplog.messages if "no watermark after" in m]
    assert "source 'numbers'" in warning and "Have the records timestamps?" in warning
