"""Cancellation and shutdown: faults that others had, and what is right."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import anyio
import pytest

from streamline import JobStatus, StreamExecutionEnvironment, StreamlineError
from streamline._channel.channel import Channel
from streamline._channel.gate import Gate
from streamline._core.elements import Barrier, Batch
from streamline.connectors.memory import ChannelSource
from streamline.testing import ScriptedSource, VirtualClock, no_leaks, settle


def environment(clock: VirtualClock | None = None) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(clock=clock)


async def test_c14_nothing_is_lost_where_a_receiver_gives_up_in_the_tick_of_the_hand_over() -> None:
    """C14: ten elements, a barrier among them, each met by a receive that is cancelled: all come once, in order."""
    for _ in range(100):
        channel = Channel(4)
        gate, got = Gate([channel], [0]), list[Any]()
        sent: list[Any] = [n if n != 5 else Barrier(1, 0) for n in range(10)]
        for element in sent:

            async def receive(gate: Gate = gate, got: list[Any] = got) -> None:
                element = await gate.receive()
                got.extend(element.values if isinstance(element, Batch) else [element])

            task = asyncio.create_task(receive())
            await asyncio.sleep(0)
            await channel.send(Batch([element]) if isinstance(element, int) else element)
            task.cancel()
            await asyncio.wait({task})
            while (left := gate.receive_nowait()) is not None:
                got.extend(left.values if isinstance(left, Batch) else [left])
        assert got == sent


async def test_c17_stopping_at_once_leaks_no_cancellation(virtual_clock: VirtualClock) -> None:
    """C17: start and stop in one breath: a clean return, no task, no unretrieved error."""
    async with no_leaks(threads=True, files=True):
        for _ in range(20):
            env = environment()
            env.from_source(ScriptedSource([1], ends=False)).map(lambda v: v).print()
            async with await env.execute_async():
                pass
            async with environment().from_source(ScriptedSource(ends=False)).execute_and_collect():
                pass


async def test_c18_a_loop_over_results_ends_in_order_when_the_job_is_ended(virtual_clock: VirtualClock) -> None:
    """C18: the source is silent, another task ends the job: the loop ends, and not by a cancellation."""
    source = ChannelSource()
    results = environment().from_source(source).execute_and_collect()
    got: list[Any] = []

    async def read() -> str:
        got.extend([value async for value in results])
        return "ended"

    reader = asyncio.create_task(read())
    await settle()
    await source.send(1)
    await settle()
    await results.aclose()
    assert await reader == "ended"
    assert got == [1]


async def test_c21_an_error_while_the_outer_scope_is_cancelled_does_not_hang(virtual_clock: VirtualClock) -> None:
    """C21: a request is cut off, and a sink fails in the same tick: all ends, and the error is not swallowed unseen."""
    failed = asyncio.Event()

    def broken(value: Any) -> None:
        failed.set()
        raise OSError("disk")

    source: ChannelSource[int] = ChannelSource()
    env = environment()
    env.from_source(source).add_sink(broken)
    async with no_leaks():
        client = await env.execute_async()
        with anyio.CancelScope() as scope:
            await source.send(1)
            await failed.wait()
            scope.cancel()
            with pytest.raises((OSError, asyncio.CancelledError)):
                await client.get_job_execution_result()
        with pytest.raises(OSError, match="disk"):
            await client.get_job_execution_result()
        assert await client.get_job_status() is JobStatus.FAILED


async def test_c22_results_may_be_read_in_one_task_and_closed_in_another(virtual_clock: VirtualClock) -> None:
    """C22: no scope is held across a yield: another task closes, or nobody does."""
    results = environment().from_source(ScriptedSource([1, 2], ends=False)).execute_and_collect()
    assert await asyncio.create_task(anext(results)) == 1
    await asyncio.create_task(results.aclose())
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_c24_asking_before_the_start_says_what_to_do() -> None:
    """C24: a typed error in people's words, not an AttributeError on an inner None."""
    results = environment().from_elements(1).execute_and_collect()
    assert results.job is None
    await results.aclose()
    with pytest.raises(StreamlineError, match="No operators defined in streaming topology. Cannot execute."):
        await environment().execute()
    gc.collect()


async def test_c25_awaiting_the_job_keeps_it_running_in_the_running_loop(virtual_clock: VirtualClock) -> None:
    """C25: source, windows of a second, sink: `await env.execute()` stays to the end, on the caller's own loop."""
    loops, out = set[Any](), list[Any]()

    def see(value: int) -> int:
        loops.add(asyncio.get_running_loop())
        return value

    env = environment()
    env.from_sequence(1, 3).map(see).add_sink(out.append)
    await env.execute()
    assert out == [1, 2, 3]
    assert loops == {asyncio.get_running_loop()}
