"""Batches by size and time, calls at once, calls again, and nothing lost at a barrier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import pytest

from streamline.abc import Batch
from streamline.connectors.batching import AsyncSink, AsyncSinkError
from streamline.errors import ValidationException
from streamline.testing import FailOnRecord, VirtualClock, settle
from tests.connectors.contexts import Context, unwrapped


class Service:
    """Takes batches; answers when it is told to."""

    def __init__(self, answers: bool = True) -> None:
        self.batches: list[list[Any]] = []
        self.open: list[asyncio.Future[Any]] = []
        self._answers = answers

    async def __call__(self, batch: list[Any]) -> Any:
        self.batches.append(batch)
        if not self._answers:
            self.open.append(asyncio.get_running_loop().create_future())
            return await self.open[-1]
        return None


class Writing:
    def __init__(self, sink: AsyncSink[Any], context: Context) -> None:
        self.writer: Any = sink.writer()
        self.context = context

    async def write(self, *values: Any) -> None:
        await self.writer.write(Batch(list(values)))
        await settle()


@asynccontextmanager
async def writing(sink: AsyncSink[Any], clock: VirtualClock | None = None) -> AsyncIterator[Writing]:
    with unwrapped():
        async with anyio.create_task_group() as group:
            it = Writing(sink, Context(clock or VirtualClock(autojump=False), group))
            await it.writer.open(it.context)
            try:
                yield it
            finally:
                await it.writer.close()
                group.cancel_scope.cancel()


async def test_batches_by_size() -> None:
    service = Service()
    async with writing(AsyncSink(service, max_batch_size=3)) as it:
        await it.write(1, 2)
        assert service.batches == []
        await it.write(3, 4, 5, 6, 7)
        assert service.batches == [[1, 2, 3], [4, 5, 6]]
        await it.writer.flush()
        assert service.batches[2:] == [[7]]
        assert it.context.count("numRecordsSend") == 7


async def test_batches_by_time() -> None:
    service, clock = Service(), VirtualClock(autojump=False)
    async with writing(AsyncSink(service, max_time_in_buffer="2 s"), clock) as it:
        await it.write(1)
        await clock.advance("1 s")
        await it.write(2)
        await clock.advance("999 ms")
        assert service.batches == []
        await clock.advance("1 ms")
        assert service.batches == [[1, 2]]
        await it.write(3)
        await clock.advance("2 s")
        assert service.batches == [[1, 2], [3]]


async def test_batches_by_bytes() -> None:
    service = Service()
    async with writing(AsyncSink(service, max_batch_bytes=10, size_of=len)) as it:
        await it.write("aaaa", "bbbb", "cccc", "d" * 20, "e")
        await it.writer.flush()
    assert service.batches == [["aaaa", "bbbb"], ["cccc"], ["d" * 20], ["e"]]


async def test_so_many_calls_at_once_and_no_more() -> None:
    service = Service(answers=False)
    async with writing(AsyncSink(service, max_batch_size=2, max_in_flight_requests=2)) as it:
        await it.write(*range(8))
        assert service.batches == [[0, 1], [2, 3]]
        service.open[1].set_result(None)
        await settle()
        assert service.batches == [[0, 1], [2, 3], [4, 5]]


async def test_writing_waits_where_too_much_is_buffered() -> None:
    service = Service(answers=False)
    sink = AsyncSink(service, max_batch_size=2, max_buffered_requests=4)
    async with writing(sink) as it, anyio.create_task_group() as group:
        written: list[str] = []

        async def write() -> None:
            await it.writer.write(Batch(list(range(6))))
            written.append("all")

        group.start_soon(write)
        await settle()
        assert written == [] and service.batches == [[0, 1]]
        service.open[0].set_result(None)
        await settle()
        assert written == ["all"] and service.batches == [[0, 1], [2, 3]]
        group.cancel_scope.cancel()


async def test_a_flush_waits_for_all_answers() -> None:
    service = Service(answers=False)
    async with writing(AsyncSink(service, max_batch_size=2)) as it, anyio.create_task_group() as group:
        await it.write(1, 2, 3)
        flushed: list[str] = []

        async def flush() -> None:
            await it.writer.flush()
            flushed.append("done")

        group.start_soon(flush)
        for _ in range(2):
            await settle()
            assert flushed == []
            service.open[-1].set_result(None)
        await settle()
        assert flushed == ["done"]


async def test_what_is_given_back_is_sent_again() -> None:
    sent: list[list[int]] = []

    def odd_ones_first(batch: list[int]) -> list[int]:
        sent.append(list(batch))
        return [n for n in batch if n % 2 == 0] if len(sent) == 1 else []

    clock = VirtualClock()
    async with writing(AsyncSink(odd_ones_first, max_batch_size=4), clock) as it:
        start = clock.now()
        await it.write(1, 2, 3, 4)
        await it.writer.flush()
        assert sent == [[1, 2, 3, 4], [2, 4]]
        assert clock.now() - start == 100
        assert it.context.count("numRecordsSendErrors") == 2


async def test_pauses_grow_up_to_the_maximum() -> None:
    clock = VirtualClock()
    times: list[int] = []

    async def fails(batch: list[int]) -> None:
        times.append(clock.now())
        raise ConnectionError("away")

    sink = AsyncSink(fails, max_batch_size=1, max_attempts=5, retry_delay="1 s", max_retry_delay="3 s")
    with pytest.raises(AsyncSinkError, match="was not taken in 5 attempts; the last: ConnectionError: away") as e:
        async with writing(sink, clock) as it:
            await it.write(7)
            await it.writer.flush()
    assert [b - a for a, b in pairwise(times)] == [1000, 2000, 3000, 3000]
    assert e.value.batch == [7] and isinstance(e.value.__cause__, ConnectionError)


async def test_other_errors_fail_at_once_and_no_barrier_passes() -> None:
    def fails(batch: list[int]) -> None:
        raise KeyError("x")

    passed: list[str] = []
    with pytest.raises(KeyError) as e:
        async with writing(AsyncSink(fails, max_batch_size=9, retry_on=ConnectionError)) as it:
            await it.write(7)
            await it.writer.flush()
            passed.append("barrier")
    assert passed == []
    assert e.value.__notes__ == ["in the function of an AsyncSink, for a batch of 1 that begins with 7"]


async def test_a_call_that_hangs_is_given_up() -> None:
    clock = VirtualClock()
    calls: list[int] = []

    async def hangs_once(batch: list[int]) -> None:
        calls.append(clock.now())
        if len(calls) == 1:
            await anyio.sleep_forever()

    sink = AsyncSink(hangs_once, max_batch_size=1, request_timeout="10 s", retry_delay="1 s")
    async with writing(sink, clock) as it:
        await it.write(1)
        await it.writer.flush()
    assert calls[1] - calls[0] == 11_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"function": 3}, "calls a function"),
        ({"function": print, "max_batch_size": 0}, "batch_size of an AsyncSink has to be positive"),
        ({"function": print, "max_batch_bytes": 3}, "belong together"),
        ({"function": print, "max_batch_size": 10, "max_buffered_requests": 9}, "cannot gather"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        AsyncSink(**arguments)


async def test_in_a_job_that_crashes_everything_comes_at_least_once(mini_job: Any) -> None:
    stored: list[int] = []

    async def store(batch: list[int]) -> None:
        stored.extend(batch)

    def build(env: Any) -> None:
        env.from_sequence(1, 300).map(lambda n: n).name("pass").sink_to(AsyncSink(store, max_batch_size=7))

    options = {"execution.checkpointing.interval": "1 s", "restart-strategy.type": "fixed-delay"}
    async with mini_job(build, configuration=options, faults=[FailOnRecord("pass", 150)]) as job:
        await job.wait()
    assert set(stored) == set(range(1, 301))
