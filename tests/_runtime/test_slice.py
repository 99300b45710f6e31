"""The time slice: who has the loop when, counted in steps of a clock that the tests move."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from streamline._runtime.slice import TimeSlice


class Steps:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_what_is_due_and_what_it_wakes_runs_before_the_next_slice() -> None:
    """A timer that is due wakes a task, which wakes another: none of them waits for two slices."""
    now, order = Steps(), []
    time_slice = TimeSlice(5.0, now)
    loop = asyncio.get_running_loop()
    due, woken = loop.create_future(), loop.create_future()

    async def first() -> None:
        await due
        order.append("woken by the timer")
        woken.set_result(None)

    async def second() -> None:
        await woken
        order.append("woken by the task")

    others = [asyncio.ensure_future(first()), asyncio.ensure_future(second())]
    await time_slice.check()
    for n in range(3):
        now.seconds += 0.004
        if n == 0:
            await asyncio.sleep(0)
            loop.call_later(0, due.set_result, None)
        await time_slice.check()
        order.append(f"slice {n + 1}")
    await asyncio.gather(*others)
    assert order[:3] == ["woken by the timer", "woken by the task", "slice 1"]


async def test_nobody_waits_before_the_slice_is_used_up() -> None:
    now, turns = Steps(), 0
    time_slice = TimeSlice(5.0, now)

    async def look() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(look())
    for _ in range(8):  # 3.5 ms of 3.75: what is left is for the step that is under way
        await time_slice.check()
        now.seconds += 0.0005
    assert turns == 0
    await time_slice.check()
    assert turns >= 2
    beside.cancel()


async def test_tasks_that_never_wait_for_anything_else_take_turns() -> None:
    """Each uses up whole slices: who was passed over goes first next time, so nobody starves."""
    now, steps = Steps(), {"a": 0, "b": 0, "c": 0}
    time_slice = TimeSlice(5.0, now)

    async def work(name: str) -> None:
        while sum(steps.values()) < 900:
            await time_slice.check()
            steps[name] += 1
            now.seconds += 0.001

    await asyncio.gather(*map(work, steps))
    assert max(steps.values()) - min(steps.values()) <= 8


async def test_two_tasks_hold_the_loop_for_one_slice_together() -> None:
    now, seen = Steps(), [0.0]
    time_slice = TimeSlice(5.0, now)

    async def work() -> None:
        for _ in range(200):
            await time_slice.check()
            now.seconds += 0.001

    async def look() -> None:
        while True:
            seen.append(now.seconds)
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(look())
    await asyncio.gather(*(work() for _ in range(5)))
    beside.cancel()
    assert max(b - a for a, b in pairwise(seen)) <= 0.0051


async def test_a_task_that_comes_to_a_free_loop_does_not_wait() -> None:
    time_slice, turns = TimeSlice(1.0), 0
    await time_slice.check()
    while time_slice._begun:
        await asyncio.sleep(0.001)

    async def look() -> None:
        nonlocal turns
        turns += 1

    beside = asyncio.ensure_future(look())
    await time_slice.check()
    assert turns == 0
    await beside


async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_others_their_turn() -> None:
    now, done = Steps(), []
    time_slice = TimeSlice(5.0, now)
    await time_slice.check()
    now.seconds += 1.0

    async def work(name: str) -> None:
        await time_slice.check()
        done.append(name)

    tasks = {name: asyncio.ensure_future(work(name)) for name in "abc"}
    await asyncio.sleep(0)
    tasks["a"].cancel()
    await tasks["b"]
    await tasks["c"]
    assert done == ["b", "c"]
    with pytest.raises(asyncio.CancelledError):
        await tasks["a"]


async def test_a_slice_of_nothing_is_a_short_one() -> None:
    time_slice = TimeSlice(0)
    for _ in range(100):
        await time_slice.check()
    assert time_slice.seconds > 0
