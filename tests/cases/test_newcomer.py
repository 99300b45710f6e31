"""What somebody who knows PyFlink types first, and what they get for a mistake."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from streamline import (
    AsyncDataStream,
    DataStream,
    Row,
    StreamExecutionEnvironment,
    StreamlineError,
    ValidationException,
)
from streamline.connectors.memory import ChannelSource
from streamline.functions import (
    AsyncRetryStrategy,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    NoRetryStrategy,
    RuntimeContext,
    SourceFunction,
    SourceFunctionContext,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from streamline.state import MapStateDescriptor
from streamline.testing import FailOnRecord, OperatorHarness, ScriptedSource, VirtualClock, inject


class Service:
    """Gives what `answers` hold, one a call; notes when it was called (ms)."""

    def __init__(self, clock: VirtualClock, *answers: Any) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.calls: list[int] = []

    async def ask(self, value: int) -> list[int]:
        self.calls.append(self.clock.now())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


async def asked(service: Service, strategy: AsyncRetryStrategy) -> list[int]:
    # The end of the input cuts retries short, so this one stays open.
    stream = StreamExecutionEnvironment.get_execution_environment().from_source(ScriptedSource([1], ends=False))
    answers = AsyncDataStream.ordered_wait_with_retry(stream, service.ask, "1 h", strategy)
    async with answers.execute_and_collect(limit=1) as results:
        return [x async for x in results]


ON_ERROR = functools.partial(exception_type_predicate, expected_error_type=ConnectionError)


@pytest.mark.parametrize(
    ("strategy", "pauses"),
    [
        (AsyncRetryStrategy.fixed_delay(3, 500, empty_result_predicate, has_exception_predicate), [500, 500]),
        (AsyncRetryStrategy.fixed_delay(3, "2 s", empty_result_predicate, ON_ERROR), [2000, 2000]),
        (
            AsyncRetryStrategy.exponential_backoff(
                max_attempts=3,
                initial_delay="1 s",
                max_retry_delay="1 min",
                multiplier=3,
                result_predicate=empty_result_predicate,
                exception_predicate=ON_ERROR,
            ),
            [1000, 3000],
        ),
    ],
)
async def test_retry_strategies_by_pyflinks_names(
    virtual_clock: VirtualClock, strategy: AsyncRetryStrategy, pauses: list[int]
) -> None:
    service = Service(virtual_clock, ConnectionError("gone"), [], [7])
    assert await asked(service, strategy) == [7]
    assert [b - a for a, b in zip(service.calls, service.calls[1:])] == pauses


async def test_an_error_of_another_type_is_not_asked_again(virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock, KeyError("k"), [7])
    with pytest.raises(KeyError):
        await asked(service, AsyncRetryStrategy.fixed_delay(3, 500, None, ON_ERROR))
    assert len(service.calls) == 1


def test_no_restart_is_one_attempt() -> None:
    assert isinstance(AsyncRetryStrategy.no_restart(), NoRetryStrategy)


async def results(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as found:
        return [x async for x in found]


def numbers(*values: int) -> DataStream[int]:
    return StreamExecutionEnvironment.get_execution_environment().from_elements(*values)


# -- an error in close() ---------------------------------------------------------------------------------------------


class Client(MapFunction[int, int]):
    """Closes what it may not have: what `open` could not make."""

    fails_in = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.fails_in == "open":
            raise ConnectionError("no such host")
        self.connection = object()

    def map(self, value: int) -> int:
        if self.fails_in == "map":
            raise ValueError("no such answer")
        return value

    def close(self) -> None:
        self.connection.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fails_in", "seen", "also"),
    [
        ("open", ConnectionError("no such host"), "has no attribute 'connection'"),
        ("map", ValueError("no such answer"), "has no attribute 'close'"),
    ],
)
async def test_an_error_in_close_hides_no_error_before_it(
    fails_in: str, seen: Exception, also: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client()
    client.fails_in = fails_in
    with pytest.raises(type(seen), match=str(seen)):
        await results(numbers(1).map(client))
    (record,) = [r for r in caplog.records if "close()" in r.message]
    assert "in operator 'map'" in record.message
    assert record.exc_info is not None
    assert also in str(record.exc_info[1])


async def test_an_error_in_close_says_where() -> None:
    with pytest.raises(AttributeError) as e:
        await results(numbers(1).map(Client()))
    assert "in close(), in operator 'map' of job 'streamline job'" in e.value.__notes__


# -- ctx.collect() without await -------------------------------------------------------------------------------------


class Plain(SourceFunction[int]):
    def run(self, ctx: SourceFunctionContext) -> None:
        for i in range(3):
            ctx.collect(i)  # type: ignore[unused-coroutine]


class Endless(SourceFunction[int]):
    async def run(self, ctx: SourceFunctionContext) -> None:
        while True:
            ctx.collect(1)  # type: ignore[unused-coroutine]


class Together(SourceFunction[int]):
    async def run(self, ctx: SourceFunctionContext) -> None:
        await asyncio.gather(*(ctx.collect(i) for i in range(3000)))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(("source", "lost"), [(Plain(), 3), (Endless(), 100_001)])
async def test_records_that_a_source_does_not_await_are_no_silent_loss(source: SourceFunction[int], lost: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ValidationException, match=rf"^{lost} records of a SourceFunction are lost.*await ctx.collect"):
        await results(env.add_source(source))


async def test_records_may_be_awaited_together() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert await results(env.add_source(Together())) == list(range(3000))


# -- a channel and threads -------------------------------------------------------------------------------------------


async def test_a_thread_may_feed_a_channel() -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=4)
    loop = asyncio.get_running_loop()

    def feed() -> bool:
        for i in range(20):
            asyncio.run_coroutine_threadsafe(channel.send(i), loop).result(10)
        sent = channel.send_nowait(20)  # the job waits: it has to be woken from here
        channel.close()
        return sent

    env = StreamExecutionEnvironment.get_execution_environment()
    async with env.from_source(channel).execute_and_collect() as found:
        assert await asyncio.to_thread(feed)
        assert [x async for x in found] == list(range(21))


async def test_another_loop_is_told_that_it_cannot_wait_for_room() -> None:
    channel: ChannelSource[int] = ChannelSource(capacity=1)
    env = StreamExecutionEnvironment.get_execution_environment()
    async with env.from_source(channel).execute_and_collect() as found:
        await channel.send(1)
        assert await anext(found) == 1
        with pytest.raises(StreamlineError, match=r"another event loop.*run_coroutine_threadsafe"):
            await asyncio.to_thread(lambda: asyncio.run(channel.send(2)))


# -- the test kit in wrong hands -------------------------------------------------------------------------------------


def test_the_harness_says_what_it_runs_and_what_runs_the_rest() -> None:
    with pytest.raises(ValidationException, match=r"runs an Operator.*not <.*DataStream.*MiniJob"):
        OperatorHarness(numbers(1).map(Client()))  # type: ignore[arg-type]


def test_faults_are_injected_into_a_graph() -> None:
    with pytest.raises(ValidationException, match=r"takes a stream graph.*FailOnRecord.*MiniJob\(build, faults="):
        inject(FailOnRecord("map", 2))  # type: ignore[arg-type]


# -- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["+I", 0, None])
def test_the_kind_of_a_row_is_a_row_kind(kind: Any) -> None:
    with pytest.raises(ValidationException, match="is a RowKind, such as RowKind.INSERT, not"):
        Row.of_kind(kind, "a", 1)
    with pytest.raises(ValidationException, match="is a RowKind, such as RowKind.INSERT, not"):
        Row("a", 1).set_row_kind(kind)


# -- functions for keys, and no key_by -------------------------------------------------------------------------------


class Keyed(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, ctx: Any) -> int:
        return value


class KeyedCo(KeyedCoProcessFunction[int, int, int, int]):
    def process_element1(self, value: int, ctx: Any) -> int:
        return value

    def process_element2(self, value: int, ctx: Any) -> int:
        return value


class KeyedBroadcast(KeyedBroadcastProcessFunction[int, int, int, int]):
    def process_element(self, value: int, ctx: Any) -> int:
        return value

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        pass


async def test_a_function_for_keys_needs_a_keyed_stream() -> None:
    stream, rules = numbers(1, 2), MapStateDescriptor("rules", str, int)
    with pytest.raises(ValidationException, match=r"Keyed is a KeyedProcessFunction.*no keys: use key_by"):
        stream.process(Keyed())
    with pytest.raises(ValidationException, match=r"KeyedCo is a KeyedCoProcessFunction.*no keys: use key_by"):
        stream.connect(stream).process(KeyedCo())
    with pytest.raises(ValidationException, match=r"KeyedBroadcast is a KeyedBroadcastProcessFunction.*use key_by"):
        stream.connect(stream.broadcast(rules)).process(KeyedBroadcast())
    assert await results(stream.key_by(lambda n: n).process(Keyed())) == [1, 2]
