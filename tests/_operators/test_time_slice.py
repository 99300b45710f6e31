"""No operator holds the loop beyond the time slice, however much a watermark or the end of the input makes due at once.

Time is counted in lines of the package (and of generated code) that run, a microsecond each: so what is measured is the
same in every run, on any machine. Whoever else runs on the loop looks at that counter each time it gets its turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from types import FrameType
from typing import Any

import msgspec
import pytest

from streamline import RuntimeExecutionMode, StreamExecutionEnvironment, WatermarkStrategy
from streamline._core.elements import Barrier, Batch
from streamline._operators.window.incremental import reducing
from streamline._operators.window.sessions import SessionWindows
from streamline._runtime import attempt
from streamline._runtime.slice import TimeSlice
from streamline.abc import PAUSE_EVERY
from streamline.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from streamline.table import Schema, StreamTableEnvironment
from streamline.testing import OperatorHarness
from streamline.windows import (
    CountEvictor,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

#: Keys, and as much that is due at once: at ten lines and more each it is many slices.
DUE = 4_000
#: Lines: the slice, and as much again for the last step before somebody looks. A line takes far less than the
#: microsecond that it counts as, so a batch of results is a longer step here than it is.
LIMIT = 10_000


class Lines:
    """A counter that goes by lines of Python, in seconds: a microsecond each."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        return self.count * 1e-6

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return self.line if "/streamline/" in name or name.startswith("<") else None

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
        return self.line


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    counter, before = Lines(), sys.gettrace()
    monkeypatch.setattr(attempt, "TimeSlice", lambda milliseconds: TimeSlice(milliseconds, counter))
    sys.settrace(counter.enter)
    try:
        yield counter
    finally:
        sys.settrace(before)


async def longest(lines: Lines, work: Awaitable[Any]) -> int:
    """The most lines between two turns of another task while work is done."""
    most, last = 0, lines.count

    async def look() -> None:
        nonlocal most, last
        while True:
            most, last = max(most, lines.count - last), lines.count
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(look())
    await work
    beside.cancel()
    return max(most, lines.count - last)


class Reading(msgspec.Struct):
    device: int
    celsius: int
    ts: int


class Total(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value.celsius

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a + b


class Whole(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, len(list(elements))


class Silent(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return []


class Alarm(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value.ts + 10)
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return []


class Seen:
    """How many records came out."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: Any) -> None:
        self.count += 1


def readings(env: StreamExecutionEnvironment, delay: str = "1 h") -> Any:
    """One record a key, each a millisecond after the other; nothing is due before the end of the input."""
    records = [Reading(i, 20 + i % 7, 1_000 + i) for i in range(DUE)]
    strategy: Any = WatermarkStrategy.for_bounded_out_of_orderness(delay)
    return env.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda r, _: r.ts)
    )


Program = Callable[[Any], Any]
TUMBLING = TumblingEventTimeWindows.of(timedelta(minutes=1))
SESSIONS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=500))
BOTH = "a.device = b.device"

#: What is done with the readings, and how many results that gives.
STREAMS: dict[str, tuple[Program, int]] = {
    "tumbling": (lambda s: s.window(TUMBLING).aggregate(Total()), DUE),
    "tumbling, function": (lambda s: s.window(TUMBLING).process(Whole()), DUE),
    "tumbling, function that gives nothing": (lambda s: s.window(TUMBLING).process(Silent()), 0),
    "sliding": (
        lambda s: s.window(SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=5))).aggregate(Total()),
        2 * DUE,
    ),
    "lateness": (lambda s: s.window(TUMBLING).allowed_lateness("1 s").aggregate(Total()), DUE),
    "evictor": (lambda s: s.window(TUMBLING).evictor(CountEvictor.of(3)).process(Whole()), DUE),
    "sessions": (lambda s: s.window(SESSIONS).aggregate(Total()), DUE),
    "sessions, function": (lambda s: s.window(SESSIONS).process(Whole()), DUE),
    "timers": (lambda s: s.process(Alarm()), 0),
    "interval join": (
        lambda s: s.interval_join(s).between(timedelta(0), timedelta(seconds=1)).process(lambda a, b, _: (a, b)),
        DUE,
    ),
}


#: Of the whole input, at its end.
PARTITIONS: dict[str, Program] = {
    "map_partition": lambda s: s.full_window_partition().map_partition(lambda values: [len(list(values))]),
    "reduce": lambda s: s.full_window_partition().reduce(lambda a, b: b),
}


@pytest.mark.parametrize("name", PARTITIONS)
async def test_an_operator_of_partitions_shares_the_loop(name: str, lines: Lines) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    seen = Seen()
    PARTITIONS[name](readings(env).key_by(lambda r: r.device)).add_sink(seen)
    assert await longest(lines, env.execute()) <= LIMIT
    assert seen.count == DUE


async def test_sorting_in_batch_mode_shares_the_loop(lines: Lines) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    seen = Seen()
    readings(env).key_by(lambda r: r.device).reduce(lambda a, b: b).add_sink(seen)
    assert await longest(lines, env.execute()) <= LIMIT
    assert seen.count == DUE


async def test_restoring_many_sessions_shares_the_loop() -> None:
    """What `open` does with restored state: one pause in so many keys."""
    operator = SessionWindows(lambda r: r[0], 1_000, reducing(lambda a, b: a))
    async with OperatorHarness(operator, key=lambda r: r[0]) as harness:
        await harness.send(Batch([(i, 1) for i in range(DUE)], list(range(DUE))))
        snapshot = await harness.snapshot()
    pauses = 0

    class Context:
        def __init__(self, task: Any) -> None:
            self._task = task

        def __getattr__(self, name: str) -> Any:
            return getattr(self._task, name)

        async def pause(self) -> None:
            nonlocal pauses
            pauses += 1

    again = SessionWindows(lambda r: r[0], 1_000, reducing(lambda a, b: a))
    opened = again.open
    again.open = lambda ctx: opened(Context(ctx))  # type: ignore[method-assign,assignment]
    async with OperatorHarness(again, key=lambda r: r[0], restore=snapshot) as harness:
        await harness.process_watermark(1_000_000)
        assert sorted(harness.extract_values()) == [(i, 1) for i in range(DUE)]
    assert pauses >= DUE // PAUSE_EVERY


@pytest.mark.parametrize("name", STREAMS)
async def test_an_operator_of_streams_shares_the_loop(name: str, lines: Lines) -> None:
    make, expected = STREAMS[name]
    env = StreamExecutionEnvironment.get_execution_environment()
    seen = Seen()
    make(readings(env).key_by(lambda r: r.device)).add_sink(seen)
    assert await longest(lines, env.execute()) <= LIMIT
    assert seen.count == expected


QUERIES: dict[str, tuple[str, int]] = {
    "tumble": ("SELECT device, COUNT(*) FROM TABLE({tumble}) GROUP BY device, window_start, window_end", DUE),
    "session": ("SELECT device, COUNT(*) FROM TABLE({session}) GROUP BY device, window_start, window_end", DUE),
    "rows of sessions": ("SELECT device, window_end FROM TABLE({session})", DUE),
    "window join": (
        f"SELECT a.device FROM (SELECT * FROM TABLE({{tumble}})) a JOIN (SELECT * FROM TABLE({{tumble}})) b ON {BOTH} "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end",
        DUE,
    ),
    "window join without a match": (
        f"SELECT a.device FROM (SELECT * FROM TABLE({{tumble}})) a JOIN (SELECT * FROM TABLE({{tumble}})) b ON {BOTH} "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end AND a.celsius < b.celsius",
        0,
    ),
    "outer window join": (
        "SELECT a.device, b.device FROM (SELECT * FROM TABLE({tumble})) a FULL JOIN (SELECT * FROM TABLE({tumble})) b "
        "ON a.device = -b.device AND a.window_start = b.window_start AND a.window_end = b.window_end",
        2 * DUE - 1,  # 0 = -0
    ),
    "window rank": (
        "SELECT device FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, device "
        "ORDER BY celsius) AS n FROM TABLE({tumble})) WHERE n <= 1",
        DUE,
    ),
    "over": (
        "SELECT device, SUM(celsius) OVER (PARTITION BY device ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING "
        "AND CURRENT ROW) FROM readings",
        DUE,
    ),
    "sort": ("SELECT device FROM readings ORDER BY ts", DUE),
    "first row": (
        "SELECT device FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY device ORDER BY ts) AS n FROM readings) "
        "WHERE n = 1",
        DUE,
    ),
    "interval join": (
        f"SELECT a.device FROM readings a JOIN readings b ON {BOTH} AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' "
        "SECOND",
        DUE,
    ),
    "outer interval join": (
        "SELECT a.device FROM readings a LEFT JOIN readings b ON a.device = -1 - b.device AND a.ts BETWEEN b.ts AND "
        "b.ts + INTERVAL '1' SECOND",
        DUE,
    ),
    "temporal join": (
        "SELECT a.device, b.celsius FROM readings a LEFT JOIN versions FOR SYSTEM_TIME AS OF a.ts AS b ON "
        "a.device = b.device",
        DUE,
    ),
    "group in bundles": ("SELECT device, COUNT(*) FROM readings GROUP BY device", DUE),
    "early results": ("SELECT device, COUNT(*) FROM readings GROUP BY device, TUMBLE(ts, INTERVAL '1' HOUR)", DUE),
    "match": (
        "SELECT * FROM readings MATCH_RECOGNIZE (PARTITION BY device ORDER BY ts MEASURES A.celsius AS c "
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) WITHIN INTERVAL '1' MINUTE "
        "DEFINE B AS B.celsius > A.celsius)",
        0,
    ),
}


#: What is set for a query.
OPTIONS: dict[str, dict[str, str]] = {
    "group in bundles": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 h",
        "table.exec.mini-batch.size": "1000000",
    },
    "early results": {
        "table.exec.emit.early-fire.enabled": "true",
        "table.exec.emit.early-fire.delay": "1 h",
    },
}


def query_of(env: StreamExecutionEnvironment, name: str) -> Any:
    """The results of a query over the readings."""
    t_env = StreamTableEnvironment.create(env)
    for option, value in OPTIONS.get(name, {}).items():
        t_env.get_config().set(option, value)
    t_env.create_temporary_view(
        "readings",
        readings(env).map(lambda r: (r.device, r.celsius), output_type=tuple[int, int]),
        Schema.new_builder()
        .column_by_expression("device", "f0")
        .column_by_expression("celsius", "f1")
        .column_by_metadata("ts", "TIMESTAMP_LTZ(3)", "rowtime")
        .watermark("ts", "SOURCE_WATERMARK()")
        .build(),
    )
    t_env.create_temporary_view(
        "versions",
        t_env.sql_query(
            "SELECT device, celsius, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY device ORDER BY ts DESC) AS n "
            "FROM readings) WHERE n = 1"
        ),
    )
    windows = {
        "tumble": "TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
        "session": "SESSION(TABLE readings PARTITION BY device, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
    }
    return t_env.to_changelog_stream(t_env.sql_query(QUERIES[name][0].format(**windows)))


@pytest.mark.parametrize("name", QUERIES)
async def test_an_operator_of_queries_shares_the_loop(name: str, lines: Lines) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    seen = Seen()
    query_of(env, name).add_sink(seen)
    assert await longest(lines, env.execute()) <= LIMIT
    assert seen.count == QUERIES[name][1]


class Impatient:
    """A time slice that is always used up: everybody else has a turn at each pause."""

    deadline = 0.0
    seconds = 0.005
    holder = ""

    @staticmethod
    def now() -> float:
        return 1.0

    @staticmethod
    async def check() -> None:
        await asyncio.sleep(0)


#: Operators whose results are sent piece by piece, and how many results a key has.
PIECEMEAL = {
    "stream: tumbling": 1,
    "stream: tumbling, function": 1,
    "stream: sliding": 2,
    "stream: sessions": 1,
    "stream: evictor": 1,
    "query: tumble": 1,
    "query: session": 1,
    "query: sort": 1,
    "query: over": 1,
    "query: first row": 1,
    "query: early results": 1,
}
NODES = {"window", "WindowAggregate", "GroupWindowAggregate", "TemporalSort", "OverAggregate", "Deduplicate"}


@pytest.mark.parametrize("name", PIECEMEAL)
async def test_results_are_whole_while_a_snapshot_is_put_in_order(name: str) -> None:
    """State that was frozen for a snapshot gets later keys on top; they are merged while results are being sent."""
    kind, _, program = name.partition(": ")
    env = StreamExecutionEnvironment.get_execution_environment()
    if kind == "stream":
        STREAMS[program][0](readings(env).key_by(lambda r: r.device)).add_sink(Seen())
        record: Callable[[int], Any] = lambda i: Reading(i, 20, 1_000)  # noqa: E731
    else:
        query_of(env, program).add_sink(Seen())
        record = lambda i: (i, 20)  # noqa: E731
    (node,) = [n for n in env.graph.nodes.values() if n.operator is not None and n.name.split("(")[0] in NODES]
    assert node.operator is not None
    harness = OperatorHarness(node.operator(), key=node.key[0] or (lambda r: 0))
    harness._host.time_slice = Impatient()  # type: ignore[assignment]
    harness.task.output.pace = Impatient()
    async with harness:
        for n, keys in enumerate((range(2_000), range(2_000, 4_000))):
            await harness.send(Batch([record(i) for i in keys], [1_000 + i for i in keys]))
            if n == 0:
                await harness.send(Barrier(1, 0))
        capture = harness._host.captures[1]
        assert capture is not None
        saved = asyncio.ensure_future(capture.encode())
        await harness.process_watermark(10_000_000)
        await saved
        assert len(harness.extract_values()) == 4_000 * PIECEMEAL[name]
    await env.execute()
