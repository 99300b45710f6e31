"""Jobs that are ended, left or read at odd moments: nothing hangs, and nothing vanishes in silence."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamline import CheckpointException, StreamExecutionEnvironment, StreamlineError
from streamline.connectors.memory import CollectionSource
from streamline.stream.job_client import JobClient
from streamline.stream.results import CollectedResults
from streamline.testing import VirtualClock, no_leaks, settle


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


async def count() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(0)


async def collect(stream: Any) -> list[Any]:
    async with stream.execute_and_collect() as results:
        return [value async for value in results]


# -- a function of the job ends it, or waits for it ------------------------------------------------------------------


async def test_a_function_may_cancel_its_own_job(virtual_clock: VirtualClock) -> None:
    env, clients, seen = environment(), [], []

    async def sink(value: int) -> None:
        seen.append(value)
        if value == 3:
            await clients[0].cancel()

    env.from_source(count).add_sink(sink)
    async with no_leaks():
        client = await env.execute_async()
        clients.append(client)
        with pytest.raises(StreamlineError, match="was cancelled"):
            await client.get_job_execution_result()
    assert seen == [0, 1, 2, 3]
    assert (await client.get_job_status()).name == "CANCELED"


async def test_a_function_may_close_the_results_of_its_own_job(virtual_clock: VirtualClock) -> None:
    env = environment()
    box: list[CollectedResults[int]] = []

    async def once(value: int) -> int:
        if value == 2:
            await box[0].aclose()
        return value

    async with no_leaks():
        box.append(env.from_source(count).map(once).execute_and_collect())
        assert [value async for value in box[0]] in ([], [0], [0, 1])


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda client: client.get_job_execution_result(), "its end"),
        (lambda client: client.stop_with_savepoint(), "a savepoint"),
    ],
)
async def test_a_function_that_waits_for_its_own_job_is_told_so(
    virtual_clock: VirtualClock, ask: Callable[[JobClient], Any], what: str
) -> None:
    env, clients = environment(), []

    async def sink(value: int) -> None:
        await ask(clients[0])

    env.from_source(count).add_sink(sink)
    client = await env.execute_async()
    clients.append(client)
    with pytest.raises(StreamlineError, match=f"waits for {what}, which cannot come while it waits"):
        await client.get_job_execution_result()


# -- what would end a job in silence ---------------------------------------------------------------------------------


async def test_an_awaited_cancelled_future_fails_the_job(virtual_clock: VirtualClock) -> None:
    async def ask(value: int) -> int:
        if value == 2:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            future.cancel()
            return await future
        return value

    env, out = environment(), []
    env.from_collection([1, 2, 3]).map(ask).name("asks").add_sink(out.append)
    with pytest.raises(StreamlineError, match="raised CancelledError though nobody has cancelled the job") as failure:
        await env.execute("j")
    assert "in operator 'asks' of job 'j'" in failure.value.__notes__


async def test_a_source_that_raises_cancelled_error_fails_the_job(virtual_clock: VirtualClock) -> None:
    async def source() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(StreamlineError, match="though nobody has cancelled"):
        await collect(environment().from_source(source))


async def test_a_task_of_the_job_that_is_cancelled_from_outside_fails_the_job(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.from_source(count).map(lambda v: v).name("victim").print()
    client = await env.execute_async()
    await asyncio.sleep(0)
    next(t for t in asyncio.all_tasks() if t.get_name() == "victim[0]").cancel()
    with pytest.raises(StreamlineError, match="tasks of job .* were cancelled, but not the job"):
        await client.get_job_execution_result()


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
async def test_a_stop_iteration_out_of_a_function_is_an_error_and_no_end(
    virtual_clock: VirtualClock, error: type[Exception]
) -> None:
    def fail(value: int) -> int:
        if value == 2:
            raise error
        return value

    with pytest.raises(RuntimeError, match=f"raised {error.__name__}") as failure:
        await collect(environment().from_collection([1, 2, 3]).map(fail))
    assert "record: 2" in failure.value.__notes__


# -- readers ---------------------------------------------------------------------------------------------------------


async def test_two_tasks_may_read_and_share_the_records(virtual_clock: VirtualClock) -> None:
    results = environment().from_collection(range(10)).execute_and_collect()

    async def read() -> list[int]:
        return [value async for value in results]

    a, b = await asyncio.gather(read(), read())
    assert sorted(a + b) == list(range(10))


async def test_who_gives_up_waiting_for_a_record_has_not_used_the_limit(virtual_clock: VirtualClock) -> None:
    released = asyncio.Event()

    async def source() -> AsyncIterator[int]:
        await released.wait()
        yield 1
        yield 2

    async with environment().from_source(source).execute_and_collect(limit=2) as results:
        waiting = asyncio.ensure_future(anext(results))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        released.set()
        assert [value async for value in results] == [1, 2]


async def test_results_that_are_dropped_cancel_their_job_and_say_so(virtual_clock: VirtualClock) -> None:
    async with no_leaks():
        results = environment().from_source(count).execute_and_collect("dropped")
        assert await anext(results) == 0
        job = results.job
        assert job is not None
        with pytest.warns(ResourceWarning, match="results of job 'dropped' were dropped before their end"):
            del results
            gc.collect()
        with pytest.raises(StreamlineError, match="was cancelled"):
            await job.wait()


async def test_a_reader_of_ready_results_lets_others_have_the_loop(virtual_clock: VirtualClock) -> None:
    """The last checkpoint sets all results free at once; whoever runs beside the reader still gets turns."""
    got, seen = [], [0]

    async def look() -> None:
        while True:
            seen.append(len(got))
            await asyncio.sleep(0)

    env = environment()
    env.enable_checkpointing("1 h")
    async with env.from_collection(range(600_000)).map(lambda v: v).execute_and_collect() as results:
        beside = asyncio.create_task(look())
        async for value in results:
            got.append(value)  # noqa: PERF401 (looked at meanwhile)
        beside.cancel()
    assert got == list(range(600_000))
    assert max(b - a for a, b in pairwise(seen)) < 300_000


# -- a job that has failed while its client did something else -------------------------------------------------------


async def failed_job(env: StreamExecutionEnvironment) -> JobClient:
    """A job that fails when it is left alone for a moment."""
    env.from_collection([0]).map(lambda n: 1 // n).add_sink(lambda v: None)
    return await env.execute_async("reciprocals")


async def test_leaving_a_job_that_has_failed_raises_its_error(virtual_clock: VirtualClock) -> None:
    with pytest.raises(ZeroDivisionError) as told:
        async with await failed_job(environment()):
            await settle()
    assert "of job 'reciprocals'" in told.value.__notes__[-1]


async def test_an_error_that_was_given_is_not_raised_again(virtual_clock: VirtualClock) -> None:
    async with await failed_job(environment()) as job:
        with pytest.raises(ZeroDivisionError):
            await job.get_job_execution_result()


async def test_an_error_of_the_body_wins_and_the_jobs_is_logged(
    virtual_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError):
        async with await failed_job(environment()):
            await settle()
            raise KeyError("of the body")
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        "job reciprocals had failed too: ZeroDivisionError: integer division or modulo by zero"
    ]


async def test_a_job_that_still_runs_is_left_quietly(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.from_source(count).add_sink(lambda v: None)
    async with no_leaks(), await env.execute_async() as job:
        await asyncio.sleep(0)
    assert (await job.get_job_status()).name == "CANCELED"


async def test_results_that_are_left_before_their_error_was_read_leave_it_in_the_log(
    virtual_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with environment().from_collection([1, 0]).map(lambda n: 1 // n).execute_and_collect("two") as results:
        await settle()
    del results
    gc.collect()
    assert "job two failed and nobody waited for it" in caplog.text


# -- functions that want the program to end ---------------------------------------------------------------------------


def leave(error: BaseException) -> Callable[[int], int]:
    def function(value: int) -> int:
        raise error

    return function


def program_of(error: BaseException, place: str) -> StreamExecutionEnvironment:
    env = environment().set_parallelism(2)
    env.enable_checkpointing("1 s")  # with restarts: there is to be none

    async def source() -> AsyncIterator[int]:
        yield 1
        if place == "source":
            raise error
        yield 2

    class Discovered(CollectionSource[int]):  # type: ignore[misc]
        async def discover(self) -> Any:
            raise error

    stream: Any = env.from_source(Discovered([1]) if place == "discovery" else source)
    stream = stream.key_by(lambda v: v)
    if place == "process":
        stream.map(leave(error)).add_sink(lambda v: None)
    else:
        stream.add_sink(lambda v: None)
    return env


@pytest.mark.parametrize("place", ["process", "source", "discovery"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
async def test_an_exit_out_of_a_function_reaches_whoever_waits(
    error: BaseException, place: str, virtual_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with no_leaks():
        try:
            await program_of(error, place).execute()
        except (SystemExit, KeyboardInterrupt) as e:
            caught = e
    assert caught is error
    assert "attempt" not in caplog.text


async def test_an_exit_reaches_the_reader_of_results(virtual_clock: VirtualClock) -> None:
    error, caught = SystemExit(3), None
    async with environment().from_collection([1]).map(leave(error)).execute_and_collect() as results:
        try:
            await anext(results)
        except SystemExit as e:
            caught = e
    assert caught is error


async def test_a_generator_exit_out_of_a_function_is_an_error(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.from_collection([1]).map(leave(GeneratorExit())).add_sink(lambda v: None)
    with pytest.raises(RuntimeError, match="a function raised GeneratorExit"):
        await env.execute()


def test_a_program_ends_with_the_exit_of_its_function_and_nothing_is_left(recwarn: pytest.WarningsRecorder) -> None:
    async def program() -> None:
        await program_of(SystemExit(3), "process").execute()

    with pytest.raises(SystemExit) as ended:
        asyncio.run(program())
    assert ended.value.code == 3
    gc.collect()
    assert [str(w.message) for w in recwarn] == []


async def test_what_fails_beside_the_first_error_is_one_line(
    virtual_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment().set_parallelism(8)
    barrier = asyncio.Barrier(8)

    async def together(value: int) -> int:
        await barrier.wait()
        raise ValueError("the same in every subtask\nand more of it")

    stream = env.from_collection(range(8)).rebalance().map(together)
    stream.add_sink(lambda v: None)
    with pytest.raises(ValueError, match="the same in every subtask"):
        await env.execute("noisy")
    errors = [r for r in caplog.records if r.levelname == "ERROR"]
    assert [r.getMessage() for r in errors] == [
        "job noisy: while it was failing, also 7 times ValueError: the same in every subtask"
    ]
    assert errors[0].exc_info is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place that not even root may write to")
async def test_a_checkpoint_place_that_takes_no_folders_is_refused_at_the_start(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.enable_checkpointing("1 s", storage="file:/proc/nope")
    env.from_source(count).add_sink(lambda v: None)
    with pytest.raises(CheckpointException, match="/proc"):
        await asyncio.wait_for(env.execute(), 10)
