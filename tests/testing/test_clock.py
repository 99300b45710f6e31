from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, datetime, timedelta

import anyio.to_thread
import pytest

from streamline._core.time import default_clock, sleep, yield_now
from streamline.errors import StreamlineError, ValidationException
from streamline.testing import VirtualClock, settle
from streamline.testing.quiescence import Quiescence

HOUR = 3_600_000


async def test_sleeping_takes_no_time_and_exactly_as_long_as_asked() -> None:
    clock = VirtualClock(start=0)
    await clock.sleep(timedelta(hours=1))
    assert clock.now() == HOUR
    assert clock.monotonic() == 3600.0
    assert clock.jumps == 1


async def test_timers_run_in_order_of_time_and_then_of_registration() -> None:
    clock = VirtualClock(start=0)
    seen: list[tuple[str, int]] = []
    done = asyncio.Event()
    for name, when in (("late", 30), ("a", 20), ("b", 20), ("early", 10)):
        clock.call_at(when, lambda name=name: seen.append((name, clock.now())))
    clock.call_at(30, done.set)
    await done.wait()
    assert seen == [("early", 10), ("a", 20), ("b", 20), ("late", 30)]


async def test_the_clock_stands_while_anything_can_run() -> None:
    clock = VirtualClock(start=0)
    clock.call_at(1, lambda: None)
    for _ in range(1000):
        await yield_now()
        assert clock.now() == 0


async def test_what_a_timer_sets_off_is_done_before_the_next_instant() -> None:
    clock = VirtualClock(start=0)
    at: list[int] = []

    async def chain(length: int) -> None:
        for _ in range(length):
            await yield_now()
        at.append(clock.now())

    tasks = []
    clock.call_at(10, lambda: tasks.append(asyncio.ensure_future(chain(50))))
    await sleep(clock, 11)
    assert at == [10]


async def test_a_cancelled_timer_does_not_run_and_does_not_hold_the_clock() -> None:
    clock = VirtualClock(start=0)
    ran: list[int] = []
    clock.call_at(5, lambda: ran.append(5)).cancel()
    both = [clock.call_at(7, lambda: both[1].cancel()), clock.call_at(7, lambda: ran.append(7))]
    await clock.sleep(10)
    assert ran == []
    assert clock.jumps == 2  # to 7 and to 10
    assert clock.next_timer() is None


async def test_a_timer_in_the_past_runs_soon_and_time_does_not_move() -> None:
    clock = VirtualClock(start=1000)
    ran = asyncio.Event()
    clock.call_at(10, ran.set)
    assert not ran.is_set()
    await ran.wait()
    assert clock.now() == 1000


async def test_many_cancelled_timers_are_forgotten() -> None:
    clock = VirtualClock(start=0, autojump=False)
    for i in range(5000):
        clock.call_at(HOUR + i, lambda: None).cancel()
    assert len(clock._timers) <= 256


async def test_advance_runs_every_timer_at_its_own_instant_and_no_later_one() -> None:
    clock = VirtualClock(start=0, autojump=False)
    seen: list[int] = []

    def tick() -> None:
        seen.append(clock.now())
        clock.call_at(clock.now() + 100, tick)

    clock.call_at(100, tick)
    await clock.advance("350 ms")
    assert seen == [100, 200, 300]
    assert clock.now() == 350
    await clock.advance(timedelta(milliseconds=50))
    assert seen == [100, 200, 300, 400]


async def test_without_autojump_time_stands_still() -> None:
    clock = VirtualClock(start=0, autojump=False)
    ran: list[int] = []
    clock.call_at(5, lambda: ran.append(clock.now()))
    await settle()
    await settle()
    assert clock.now() == 0 and ran == []
    clock.autojump = True
    await clock.sleep(5)
    assert ran == [5]


async def test_advance_does_not_jump_past_its_end_with_autojump() -> None:
    clock = VirtualClock(start=0)
    clock.call_at(10_000, lambda: None)
    await clock.advance(1000)
    assert clock.now() == 1000


async def test_the_start_and_a_new_time() -> None:
    clock = VirtualClock(start="2024-05-01T11:00:02Z")
    assert clock.datetime == datetime(2024, 5, 1, 11, 0, 2, tzinfo=UTC)
    assert clock.monotonic() == 0.0
    clock.set_time(datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert clock.now() == 1_714_564_800_000
    clock.set_time(0)
    clock.call_at(10, lambda: None)
    with pytest.raises(ValidationException, match="does not go back"):
        clock.set_time(-1)
    with pytest.raises(ValidationException, match="does not go back"):
        await clock.advance(-1)
    with pytest.raises(ValidationException, match="is no time"):
        VirtualClock(start="noon")


async def test_setting_the_time_runs_what_became_due() -> None:
    clock = VirtualClock(start=0, autojump=False)
    seen: list[int] = []
    clock.call_at(5, lambda: seen.append(clock.now()))
    clock.set_time(100)
    await settle()
    assert seen == [100]


@pytest.mark.parametrize("to_thread", [asyncio.to_thread, anyio.to_thread.run_sync], ids=["asyncio", "anyio"])
async def test_the_clock_waits_for_worker_threads(to_thread) -> None:
    clock = VirtualClock(start=0)
    released = threading.Event()
    at: list[int] = []

    async def work() -> None:
        await to_thread(released.wait, 10)
        at.append(clock.now())

    task = asyncio.create_task(work())
    asyncio.get_running_loop().call_later(0.02, released.set)
    await clock.sleep(HOUR)
    await task
    assert at == [0]


async def test_waiting_for_a_socket_costs_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that spun would look tens of thousands of times in these 50 ms."""
    looks = 0
    probe = Quiescence._probe

    def counted(self: Quiescence) -> None:
        nonlocal looks
        looks += 1
        probe(self)

    monkeypatch.setattr(Quiescence, "_probe", counted)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        clock = VirtualClock(start=0)

        def tick() -> None:
            clock.call_at(clock.now() + 200, tick)

        tick()
        loop.call_later(0.05, theirs.send, b"x")
        assert await loop.sock_recv(ours, 1) == b"x"
        clock.autojump = False
        await settle()
    assert looks < 200


async def test_hold_keeps_the_clock_from_jumping() -> None:
    clock = VirtualClock(start=0)
    future = asyncio.get_running_loop().create_future()
    clock.call_at(10, lambda: None)
    with clock.hold():
        asyncio.get_running_loop().call_later(0.02, future.set_result, None)
        await future
        assert clock.now() == 0
    await clock.sleep(20)
    assert clock.now() == 20


async def test_settlers_are_woken_one_by_one_in_order() -> None:
    seen: list[str] = []

    async def wait(name: str, steps: int) -> None:
        await settle()
        seen.append(f"{name} begins")
        for _ in range(steps):
            await yield_now()
        seen.append(f"{name} ends")

    await asyncio.gather(wait("a", 5), wait("b", 3), wait("c", 0))
    assert seen == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_settling_comes_before_jumping_and_can_be_cancelled() -> None:
    clock = VirtualClock(start=0)
    clock.call_at(5, lambda: None)
    waiter = asyncio.create_task(settle())
    await yield_now()
    waiter.cancel()
    await clock.settle()
    assert clock.now() == 0


def test_a_clock_follows_to_the_next_loop_only_when_the_first_is_closed() -> None:
    clock = VirtualClock(start=0)
    for _ in range(2):
        before = clock.now()
        asyncio.run(clock.sleep(100))
        assert clock.now() == before + 100

    async def use() -> None:
        clock.call_at(clock.now() + 1, lambda: None)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(use())
        with pytest.raises(StreamlineError, match="another event loop"):
            asyncio.run(use())
    finally:
        loop.close()


def test_other_loops_are_refused_by_name() -> None:
    class Other(asyncio.AbstractEventLoop):
        pass

    with pytest.raises(StreamlineError, match=r"Other does not show its queue"):
        Quiescence.of(Other())


async def test_the_fixture_is_the_default_clock(virtual_clock: VirtualClock) -> None:
    assert default_clock() is virtual_clock
    assert virtual_clock.datetime == datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.virtual_clock("2024-05-01T11:00:02Z", autojump=False)
async def test_the_fixture_takes_a_marker(virtual_clock: VirtualClock) -> None:
    assert virtual_clock.datetime == datetime(2024, 5, 1, 11, 0, 2, tzinfo=UTC)
    assert not virtual_clock.autojump


def test_the_fixture_leaves_the_system_clock_behind() -> None:
    assert not isinstance(default_clock(), VirtualClock)
