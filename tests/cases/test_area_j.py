"""Memory, performance, API: faults that others had, and what is right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline import AsyncDataStream, DataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline._channel.channel import Channel
from streamline._core.declare import StateSpec
from streamline._core.elements import Barrier, Batch
from streamline._state import rocks
from streamline.connectors.memory import ChannelSource
from streamline.functions import KeyedProcessFunction, MapFunction
from streamline.table import DataTypes, udf
from streamline.testing import Delay, ScriptedSource, VirtualClock, settle
from tests._state.backends import Backends
from tests.cases.sql import job, shown

DEPTH: ContextVar[int] = ContextVar("depth", default=0)


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


async def test_c90_requests_under_way_are_bounded_and_the_source_waits(virtual_clock: VirtualClock) -> None:
    """C90: 1000 records into a service that does not answer: 10 are asked about, the source is not read to its end."""
    answer = asyncio.Event()
    asked = 0

    async def ask(value: int) -> int:
        nonlocal asked
        asked += 1
        await answer.wait()
        return value

    source: ChannelSource[int] = ChannelSource(16)
    env = environment()
    out: list[int] = []
    AsyncDataStream.ordered_wait(env.from_source(source), ask, 0, 10).add_sink(out.append)

    async def feed() -> None:
        for n in range(100_000):
            await source.send(n)

    async with await env.execute_async():
        feeding = asyncio.create_task(feed())
        await settle()
        assert asked == 10 and not feeding.done(), "who feeds the job waits too"
        answer.set()
        await feeding
        await settle()
        assert out == list(range(100_000))


@pytest.mark.parametrize("shape", ["map", "awaitable", "flat_map", "process"])
async def test_c92_async_functions_are_awaited_wherever_one_may_be_given(shape: str) -> None:
    """C92: no coroutine flows downstream: async functions, async generators, functions that return an awaitable."""

    async def double(value: int) -> int:
        await asyncio.sleep(0)
        return value * 2

    async def twice(value: int) -> AsyncIterator[int]:
        yield value
        await asyncio.sleep(0)
        yield value

    async def processed(value: int, ctx: Any) -> AsyncIterator[int]:
        yield value + 1

    def plain(value: int) -> Any:
        return double(value)

    numbers = environment().from_elements(1, 2)
    stream = {
        "map": lambda: numbers.map(double),
        "awaitable": lambda: numbers.map(plain),
        "flat_map": lambda: numbers.flat_map(twice),
        "process": lambda: numbers.process(processed),
    }[shape]()
    expected = {"map": [2, 4], "awaitable": [2, 4], "flat_map": [1, 1, 2, 2], "process": [2, 3]}[shape]
    assert await rows(stream) == expected


async def test_c93_a_silent_input_does_not_hold_the_other_back(virtual_clock: VirtualClock) -> None:
    """C93: A is away; what comes from B goes on."""
    env, out = environment(), list[int]()
    away = env.from_source(ScriptedSource(ends=False), name="A")
    away.union(env.from_source(ScriptedSource(range(100), ends=False), name="B")).add_sink(out.append)
    async with await env.execute_async():
        await settle()
        assert out == list(range(100))


@given(st.lists(st.one_of(st.integers(1, 4), st.none(), st.just("barrier")), max_size=60), st.integers(1, 4))
async def test_c94_room_wakes_who_waits_to_send(steps: list[Any], capacity: int) -> None:
    """C94: against a model: elements in order, never more records than there is room for, and no sender sleeps on."""
    channel = Channel(capacity)
    sent: list[Any] = []
    got: list[Any] = []
    waiting: asyncio.Task[Any] | None = None

    def take() -> None:
        element = channel.receive_nowait(1)
        if element is not None:
            got.extend(element.values if isinstance(element, Batch) else [element])

    async def send(element: Any) -> None:
        nonlocal waiting
        if waiting is not None:
            while not waiting.done():
                take()
                await asyncio.sleep(0)
            await waiting
        sent.extend(element.values if isinstance(element, Batch) else [element])
        waiting = asyncio.ensure_future(channel.send(element))
        await asyncio.sleep(0)

    for number, step in enumerate(steps):
        if step is None:
            take()
            await asyncio.sleep(0)
        elif step == "barrier":
            await send(Barrier(number, 0))
        else:
            await send(Batch([(number, i) for i in range(step)]))
    for _ in range(len(sent) + 1):
        take()
        await asyncio.sleep(0)
    assert waiting is None or waiting.done()
    assert got == sent


@pytest.mark.parametrize("how", ["map", "async map", "process", "timers"])
async def test_c88_context_variables_do_not_grow_with_the_stream(how: str, virtual_clock: VirtualClock) -> None:
    """C88: a function that sets a variable for each record and never sets it back, as a span that is not ended: with
    the next batch it begins anew."""

    def deeper(value: int) -> int:
        DEPTH.set(DEPTH.get() + 1)
        return DEPTH.get()

    async def later(value: int) -> int:
        await asyncio.sleep(0)
        return deeper(value)

    class Timers(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield deeper(timestamp)

    env = environment()
    steps = [step for n in range(50) for step in (*[n * 1000 + i for i in range(4)], Delay(1000))]
    strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    numbers = env.from_source(ScriptedSource(steps), strategy)
    stream = {
        "map": lambda: numbers.map(deeper),
        "async map": lambda: numbers.map(later),
        "process": lambda: numbers.process(lambda value, ctx: [deeper(value)]),
        "timers": lambda: numbers.key_by(lambda v: 0).process(Timers()),
    }[how]()
    depths = await rows(stream)
    assert len(depths) == 200
    assert max(depths) <= 8, "one or two batches at most"
    assert DEPTH.get() == 0


async def test_c88_what_open_sets_is_there_for_every_record() -> None:
    """C88: only what is set for records goes; what a function sets when it is opened stays."""

    class Tenant(MapFunction):
        def open(self, ctx: Any) -> None:
            DEPTH.set(7)

        def map(self, value: int) -> int:
            return DEPTH.get()

    assert await rows(environment().from_sequence(1, 3000).map(Tenant())) == [7] * 3000


async def test_c88_what_a_function_sets_in_its_context_stays_in_its_operator() -> None:
    """C88: what a function sets in its context is not seen by other operators, nor by the caller afterwards."""

    def deeper(value: int) -> int:
        DEPTH.set(DEPTH.get() + 1)
        return DEPTH.get()

    def depth(value: int) -> tuple[int, int]:
        return (value, DEPTH.get())

    def generator(value: int) -> Iterator[int]:
        yield value

    found = await rows(environment().from_sequence(1, 1000).map(deeper).flat_map(generator).map(depth))
    assert {d for _, d in found} == {0}
    assert DEPTH.get() == 0


ROWS = [("t", "+I", "a", 1, 1), ("t", "+I", "a", 2, 2), ("t", "+I", "b", 3, 3), ("t", "+I", "a", 4, 4)]


async def sql(query: str, rows: list[Any] = ROWS, functions: Any = ()) -> list[tuple[Any, ...]]:
    running = job(rows, query, {"t": "append"}, functions=functions)
    async with running:
        await running.wait()
    folded: list[tuple[Any, ...]] = []
    for kind, *row in shown(running.results):
        if kind in ("+I", "+U"):
            folded.append(tuple(row))
        else:
            folded.remove(tuple(row))
    return folded


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("SELECT * FROM (SELECT id, f(v) AS r FROM t) WHERE r > 1", 4),
        ("SELECT * FROM (SELECT id, f(v) AS r, v FROM t) WHERE r > 1 AND v < 9 AND r < 100", 4),
        ("SELECT id, r + 0, r FROM (SELECT id, f(v) AS r FROM t) WHERE r > 1", 4),
        ("SELECT id, MAX(r) FROM (SELECT id, f(v) AS r FROM t) WHERE r > 1 GROUP BY id", 4),
        ("SELECT a.id, a.r, b.v FROM (SELECT id, f(v) AS r FROM t) a JOIN t b ON a.id = b.id WHERE a.r > 1", 4),
    ],
)
async def test_c96_a_function_that_is_not_deterministic_is_called_once_a_row(query: str, calls: int) -> None:
    """C96: a predicate over its result does not call it again: all rows that come out fulfil it."""
    called = 0

    def number(v: int) -> int:
        nonlocal called
        called += 1
        return called

    found = await sql(query, functions=[("f", udf(number, result_type=DataTypes.INT(), deterministic=False))])
    assert called == calls
    assert found and all(row[1] > 1 for row in found)
    if "r + 0" in query:
        assert all(row[1] == row[2] for row in found)


async def test_c96_the_same_random_number_wherever_it_is_used() -> None:
    """C96: with RAND() itself: the number that was compared is the one that comes out, and it does not change."""
    query = "SELECT r, r AS s, r * 2 FROM (SELECT RAND() AS r FROM t) WHERE r > 0.5"
    rows = [("t", "+I", "a", n, n) for n in range(200)]
    found = await sql(query, rows)
    assert 40 < len(found) < 160, "about half of them"
    assert all(r > 0.5 and r == s and r * 2 == double for r, s, double in found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # Filtered first, the first row of a would be 2, the first two would be 2 and 3, the sums 2, 6 and 3.
        (
            "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v) AS n FROM t) "
            "WHERE n = 1 AND v > 1",
            [("b", 3)],
        ),
        ("SELECT id, v FROM (SELECT * FROM t ORDER BY rt LIMIT 2) WHERE v > 1", [("a", 2)]),
        (
            "SELECT id, s FROM (SELECT id, v, SUM(v) OVER (PARTITION BY id ORDER BY rt) AS s FROM t) WHERE v > 1",
            [("a", 3), ("a", 7), ("b", 3)],
        ),
        ("SELECT id, s FROM (SELECT id, SUM(v) AS s FROM t GROUP BY id) WHERE s > 3", [("a", 7)]),
    ],
)
async def test_c96_a_predicate_stays_above_what_it_would_change(query: str, expected: list[Any]) -> None:
    """C96: not pushed below ROW_NUMBER, LIMIT, OVER, GROUP BY."""
    assert sorted(await sql(query)) == expected


async def test_c96_a_predicate_over_the_time_stays_above_the_watermark() -> None:
    """C96: the row at 100 is left out by the query, and all the same it has moved event time: the one at 1 is late."""
    rows = [("t", "+I", "a", 1, 5), ("t", "+I", "a", 2, 100), ("t", "+I", "a", 4, 1)]
    query = """SELECT SUM(v) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(rt), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end"""
    early = "WITH u AS (SELECT * FROM t WHERE rt < TO_TIMESTAMP_LTZ(50, 0)) "
    assert await sql(early + query, rows) == [(1,)]


def test_c89_one_cache_for_all_databases_of_the_process_also_when_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C89: eight subtasks with three states each: eight databases, one cache of 128 MiB, also when opened again."""
    module: Any = pytest.importorskip("rocksdict")
    sizes: list[int] = []
    used: list[Any] = []

    class Watched:
        """The package, with its caches counted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(module, name)

        def Cache(self, size: int) -> Any:
            sizes.append(size)
            return module.Cache(size)

    def cache(package: Any) -> Any:
        used.append(shared(package))
        return used[-1]

    shared = rocks._cache
    monkeypatch.setattr(rocks, "_rocksdict", Watched)
    monkeypatch.setattr(rocks, "_cache", cache)
    monkeypatch.setattr(rocks._Shared, "cache", None)
    for _ in range(2):
        backends = Backends("rocksdb", tmp_path)
        for n in range(8):
            state = backends(n, 8)
            for name in ("a", "b", "c"):
                table = state.store.table(name, StateSpec(type=int))
                for key in range(10):
                    table.data[key] = key
            state.maintain()
        backends.close()
    assert sizes == [128 << 20]
    assert len(used) == 16 and len({id(one) for one in used}) == 1
