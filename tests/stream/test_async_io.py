"""Async I/O: overlap, order, borders, timeouts, retries, checkpoints. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streamline import AsyncDataStream, DataStream, StreamExecutionEnvironment, ValidationException
from streamline._core.time import sleep
from streamline._operators.async_wait import AsyncWait
from streamline.functions import (
    AsyncFunction,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RuntimeContext,
)
from streamline.testing import OperatorHarness, ScriptedSource, VirtualClock, changelog


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


class Service:
    """Answers after as many ms as asked; knows how many requests were under way at once."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.now = self.most = 0
        self.asked: list[Any] = []

    async def ask(self, millis: int) -> int:
        self.asked.append(millis)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await sleep(self.clock, millis)
        finally:
            self.now -= 1
        return millis


WAYS = pytest.mark.parametrize(
    ("wait", "expected"),
    [(AsyncDataStream.unordered_wait, [10, 20, 30]), (AsyncDataStream.ordered_wait, [30, 10, 20])],
    ids=["unordered", "ordered"],
)


@WAYS
async def test_requests_overlap_and_results_come_in_their_order(
    wait: Any, expected: list[int], virtual_clock: VirtualClock
) -> None:
    service = Service(virtual_clock)
    started = virtual_clock.now()
    stream = wait(StreamExecutionEnvironment().from_elements(30, 10, 20), service.ask, "1 s")
    assert await rows(stream) == expected
    assert virtual_clock.now() - started == 30
    assert service.most == 3


@WAYS
async def test_no_more_requests_than_the_capacity(wait: Any, expected: list[int], virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock)
    stream = wait(StreamExecutionEnvironment().from_collection([5] * 20), service.ask, "1 s", capacity=4)
    assert await rows(stream) == [5] * 20
    assert service.most == 4


@WAYS
async def test_results_never_cross_a_watermark(wait: Any, expected: list[int], virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock)
    source = ScriptedSource("30 @ 1 | 10 @ 2 | ~ 5 | 1 @ 6 | ~ 9")
    answers = wait(StreamExecutionEnvironment().from_source(source), service.ask, "1 s")
    seen = answers.process(lambda v, ctx: (v, ctx.timestamp(), max(ctx.timer_service().current_watermark(), 0)))
    first = [(30, 1, 0), (10, 2, 0)] if expected[0] == 30 else [(10, 2, 0), (30, 1, 0)]
    assert await rows(seen) == [*first, (1, 6, 5)]


class Lookup(AsyncFunction[int, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.counter = runtime_context.get_metrics_group().counter("asked")

    async def async_invoke(self, value: int) -> Any:
        self.counter.inc()
        return [value] * value

    def timeout(self, value: int) -> Any:
        return [-value]


async def test_an_async_function_gives_lists_and_may_answer_timeouts(virtual_clock: VirtualClock) -> None:
    class Slow(Lookup):
        async def async_invoke(self, value: int) -> Any:
            await sleep(virtual_clock, value)
            return None if value == 2 else value

    env = StreamExecutionEnvironment()
    stream = env.from_elements(0, 1, 2)
    assert await rows(AsyncDataStream.ordered_wait(stream, Lookup(), 1000)) == [1, 2, 2]
    slow = AsyncDataStream.ordered_wait(env.from_elements(2, 100, 4), Slow(), 50)
    assert await rows(slow) == [-100, 4]


async def test_a_timeout_without_an_answer_fails_the_job_with_the_record(virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock)
    for function in (service.ask, type("Plain", (AsyncFunction,), {"async_invoke": lambda _, v: service.ask(v)})()):
        stream = AsyncDataStream.unordered_wait(StreamExecutionEnvironment().from_elements(5000), function, "1 s")
        with pytest.raises(TimeoutError, match="timed out") as caught:
            await rows(stream)
        assert "record: 5000" in caught.value.__notes__
        assert "in operator 'unordered_wait' of job 'streamline job'" in caught.value.__notes__
    assert service.now == 0, "what was under way is cancelled"


async def test_an_error_fails_the_job_and_cancels_what_is_under_way(virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock)

    async def fail(value: int) -> int:
        return await service.ask(value) if value > 1 else 1 // 0

    stream = AsyncDataStream.unordered_wait(StreamExecutionEnvironment().from_elements(500, 1), fail, "1 s")
    with pytest.raises(ZeroDivisionError) as caught:
        await rows(stream)
    assert "record: 1" in caught.value.__notes__ and service.now == 0


# -- retries -------------------------------------------------------------------------------------------------------


class Flaky:
    """Fails so often for each value before it answers."""

    def __init__(self, clock: VirtualClock, failures: int, error: type[Exception] | None = ConnectionError) -> None:
        self.clock = clock
        self.failures = failures
        self.error = error
        self.calls: list[int] = []

    async def ask(self, value: int) -> Any:
        self.calls.append(self.clock.now())
        if len(self.calls) <= self.failures:
            if self.error is not None:
                raise self.error("not yet")
            return []
        return [value]


def is_connection(e: Exception) -> bool:
    return isinstance(e, ConnectionError)


RETRY = pytest.mark.parametrize(
    "wait", [AsyncDataStream.unordered_wait_with_retry, AsyncDataStream.ordered_wait_with_retry]
)


async def with_retry(clock: VirtualClock, flaky: Flaky, strategy: Any, wait: Any, timeout: str = "1 min") -> list[int]:
    """Results; the source stays open until they are there, so that nothing is hurried at the end of the input."""
    source = ScriptedSource([7], ends=False)
    stream = wait(StreamExecutionEnvironment().from_source(source), flaky.ask, timeout, strategy)
    async with stream.execute_and_collect(limit=1) as it:
        return [x async for x in it]


@RETRY
async def test_a_fixed_delay_retry_after_errors(wait: Any, virtual_clock: VirtualClock) -> None:
    flaky = Flaky(virtual_clock, 2)
    strategy = FixedDelayRetryStrategy(2, 100, None, is_connection)
    assert await with_retry(virtual_clock, flaky, strategy, wait) == [7]
    assert [t - flaky.calls[0] for t in flaky.calls] == [0, 100, 200]


@RETRY
async def test_a_retry_after_a_result(wait: Any, virtual_clock: VirtualClock) -> None:
    flaky = Flaky(virtual_clock, 1, None)
    strategy = FixedDelayRetryStrategy(3, 10, lambda results: not results, None)
    assert await with_retry(virtual_clock, flaky, strategy, wait) == [7]
    assert len(flaky.calls) == 2


async def test_exponential_backoff_grows_up_to_its_longest(virtual_clock: VirtualClock) -> None:
    flaky = Flaky(virtual_clock, 4)
    strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 350, 2, None, is_connection)
    assert await with_retry(virtual_clock, flaky, strategy, AsyncDataStream.unordered_wait_with_retry) == [7]
    assert [b - a for a, b in zip(flaky.calls, flaky.calls[1:])] == [100, 200, 350, 350]


@pytest.mark.parametrize(
    ("strategy", "calls"),
    [
        (FixedDelayRetryStrategy(2, 10, None, is_connection), 3),
        (FixedDelayRetryStrategy(2, 10, None, lambda e: isinstance(e, KeyError)), 1),
        (NoRetryStrategy(), 1),
    ],
    ids=["used up", "another error", "no retry"],
)
async def test_the_error_comes_out_when_nothing_is_left_to_try(
    strategy: Any, calls: int, virtual_clock: VirtualClock
) -> None:
    flaky = Flaky(virtual_clock, 99)
    with pytest.raises(ConnectionError, match="not yet"):
        await with_retry(virtual_clock, flaky, strategy, AsyncDataStream.unordered_wait_with_retry)
    assert len(flaky.calls) == calls


async def test_the_timeout_is_for_all_attempts_together(virtual_clock: VirtualClock) -> None:
    flaky = Flaky(virtual_clock, 99)
    strategy = FixedDelayRetryStrategy(99, 400, None, is_connection)
    with pytest.raises(TimeoutError):
        await with_retry(virtual_clock, flaky, strategy, AsyncDataStream.unordered_wait_with_retry, "1 s")
    assert len(flaky.calls) == 3  # at 0, 400 and 800 ms


async def test_at_the_end_of_the_input_a_waiting_retry_is_made_once_at_once(virtual_clock: VirtualClock) -> None:
    flaky = Flaky(virtual_clock, 1)
    started = virtual_clock.now()
    strategy = FixedDelayRetryStrategy(5, 30_000, None, is_connection)
    stream = AsyncDataStream.unordered_wait_with_retry(
        StreamExecutionEnvironment().from_elements(7), flaky.ask, "1 min", strategy
    )
    assert await rows(stream) == [7]
    assert virtual_clock.now() == started and len(flaky.calls) == 2


# -- state ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [True, False])
async def test_requests_under_way_are_part_of_the_checkpoint(ordered: bool) -> None:
    clock = VirtualClock(autojump=False)
    service = Service(clock)

    def make() -> AsyncWait:
        return AsyncWait(service.ask, 0, 10, ordered)

    async with OperatorHarness(make(), clock=clock) as harness:
        await harness.send(*changelog("30 @ 1 | 10 @ 2 | 20 @ 3"))
        await harness.advance(10)
        assert harness.extract_values() == ([] if ordered else [10])
        snapshot = await harness.snapshot()
        await harness.send(*changelog("40 @ 4"))
    service.asked.clear()
    async with OperatorHarness(make(), clock=clock, restore=snapshot) as harness:
        # Ordered: 10 has its answer, but was not handed on, so it is asked for again.
        assert service.asked == ([30, 10, 20] if ordered else [30, 20])
        await harness.advance(100)
        assert sorted(harness.output_text(timestamps=True).split(" | ")) == (
            ["+I 10 @ 2", "+I 20 @ 3", "+I 30 @ 1"] if ordered else ["+I 20 @ 3", "+I 30 @ 1"]
        )


@pytest.mark.parametrize("ordered", [True, False])
async def test_watermarks_and_idleness_wait_for_the_requests_before_them(ordered: bool) -> None:
    clock = VirtualClock(autojump=False)
    service = Service(clock)
    async with OperatorHarness(AsyncWait(service.ask, 0, 10, ordered), clock=clock) as harness:
        await harness.send(*changelog("~ 1 | 20 @ 2 | ~ 3 | 10 @ 4 | ~ 5 | idle"))
        assert harness.output_text() == "~ 1"
        await harness.advance(10)
        assert harness.output_text() == ""
        await harness.advance(10)
        assert harness.output_text() == "+I 20 | ~ 3 | +I 10 | ~ 5 | idle"


# -- refusals ------------------------------------------------------------------------------------------------------


async def generates(value: int) -> Any:
    yield value


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: AsyncDataStream.unordered_wait(s, 7, 1), "async I/O needs a callable"),
        (lambda s: AsyncDataStream.unordered_wait(s, generates, 1), "`async def` that returns"),
        (lambda s: AsyncDataStream.unordered_wait(s, Lookup(), 1, capacity=0), "capacity has to be positive"),
        (lambda s: AsyncDataStream.unordered_wait(s, Lookup(), -1), "cannot be negative"),
        (lambda s: AsyncDataStream.unordered_wait_with_retry(s, Lookup(), 1, object()), "retry strategy"),
        (lambda s: FixedDelayRetryStrategy(0, 1), "max_attempts has to be positive"),
    ],
)
def test_what_makes_no_sense_is_refused_when_built(build: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        build(StreamExecutionEnvironment().from_elements(1))


async def test_cancelling_the_job_cancels_its_requests(virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock)
    env = StreamExecutionEnvironment()
    AsyncDataStream.unordered_wait(env.from_elements(10**9), service.ask, 0).print()
    task = asyncio.create_task(env.execute())
    while not service.now:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.now == 0
