"""The gate: fairness, watermark minimum, alignment, end; and cancellation at the moment of hand-over."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._channel.channel import Channel
from streamline._channel.gate import TICK, Gate
from streamline._channel.output import ChannelOutput, Route
from streamline._channel.watermarks import WatermarkMerger
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch, EndOfInput, Watermark, WatermarkStatus
from streamline._runtime.slice import TimeSlice


def gate_of(n, **options):
    channels = [Channel() for _ in range(n)]
    return Gate(channels, **options), channels


def drain(gate):
    out = []
    while (e := gate.receive_nowait()) is not None:
        out.append(e)
    return out


def test_the_watermark_is_the_minimum_of_the_inputs():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Watermark(10))
    assert drain(gate) == []
    b.send_nowait(Watermark(5))
    assert drain(gate) == [Watermark(5)]
    b.send_nowait(Watermark(20))
    assert drain(gate) == [Watermark(10)]


def test_an_idle_input_is_excused_and_coming_back_never_moves_the_watermark_back():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Watermark(10))
    b.send_nowait(WatermarkStatus(True))
    assert drain(gate) == [Watermark(10)]
    b.send_nowait(WatermarkStatus(False))
    b.send_nowait(Watermark(3))
    a.send_nowait(Watermark(12))
    assert drain(gate) == [Watermark(12)], "an input that has not caught up holds nothing back"
    b.send_nowait(Watermark(13))
    assert drain(gate) == []
    a.send_nowait(Watermark(20))
    assert drain(gate) == [Watermark(13)], "caught up: it counts again"


def test_all_idle_is_passed_on_and_the_furthest_counts():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Watermark(10))
    b.send_nowait(Watermark(4))
    assert drain(gate) == [Watermark(4)]
    a.send_nowait(WatermarkStatus(True))
    assert drain(gate) == []
    b.send_nowait(WatermarkStatus(True))
    assert drain(gate) == [Watermark(10), WatermarkStatus(True)]
    b.send_nowait(WatermarkStatus(False))
    assert drain(gate) == [WatermarkStatus(False)]


def test_an_ended_input_no_longer_holds_back_and_the_end_comes_once():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Watermark(10))
    b.send_nowait(EndOfInput())
    assert drain(gate) == [Watermark(10)]
    a.send_nowait(Batch([1]))
    a.send_nowait(EndOfInput())
    assert drain(gate) == [Batch([1]), EndOfInput()]


def test_alignment_blocks_the_input_that_delivered_the_barrier():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Batch(["a1"]))
    a.send_nowait(Barrier(1, 0))
    a.send_nowait(Batch(["a2"]))
    b.send_nowait(Batch(["b1"]))
    assert drain(gate) == [Batch(["a1"]), Batch(["b1"])], "a2 belongs behind the cut"
    b.send_nowait(Batch(["b2"]))
    b.send_nowait(Barrier(1, 0))
    assert drain(gate) == [Batch(["b2"]), Barrier(1, 0), Batch(["a2"])]


def test_at_least_once_does_not_block():
    gate, (a, b) = gate_of(2, exactly_once=False)
    a.send_nowait(Barrier(1, 0))
    a.send_nowait(Batch(["a2"]))
    assert drain(gate) == [Batch(["a2"])]
    b.send_nowait(Barrier(1, 0))
    assert drain(gate) == [Barrier(1, 0)]


def test_an_input_that_ends_during_alignment_completes_it():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Barrier(1, 0))
    a.send_nowait(Batch(["a2"]))
    b.send_nowait(EndOfInput())
    assert drain(gate) == [Barrier(1, 0), Batch(["a2"])]


def test_a_later_barrier_gives_up_the_earlier_alignment():
    gate, (a, b) = gate_of(2)
    a.send_nowait(Barrier(1, 0))
    b.send_nowait(Barrier(2, 0))
    b.send_nowait(Batch(["b"]))
    assert drain(gate) == []
    a.send_nowait(Barrier(2, 0))
    assert drain(gate) == [Barrier(2, 0), Batch(["b"])]


def test_a_checkpoint_that_is_given_up_releases_what_it_blocked():
    gate, (a, _) = gate_of(2)
    a.send_nowait(Barrier(1, 0))
    a.send_nowait(Batch(["a"]))
    assert drain(gate) == []
    gate.aligner.give_up(1)
    assert drain(gate) == [Batch(["a"])]


def test_inputs_take_turns_and_are_told_apart():
    gate, (a, b) = gate_of(2, inputs=[0, 1])
    for i in range(3):
        a.send_nowait(Batch([f"a{i}"] * 300))
        b.send_nowait(Batch([f"b{i}"] * 300))
    seen = []
    while (e := gate.receive_nowait()) is not None:
        seen.append((gate.input, e.values[0]))
    assert seen == [(0, "a0"), (1, "b0"), (0, "a1"), (1, "b1"), (0, "a2"), (1, "b2")]


async def test_a_poke_is_seen_by_a_waiting_and_by_a_later_receiver():
    gate, _ = gate_of(1)
    waiting = asyncio.ensure_future(gate.receive())
    await asyncio.sleep(0)
    gate.poke()
    assert await waiting is TICK
    gate.poke()
    assert await gate.receive() is TICK
    assert gate.receive_nowait() is None


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost_when_receive_is_cancelled_in_the_tick_of_the_hand_over(seed):
    """Case C14: the receiver is cancelled exactly when an element arrives, again and again."""
    rng = random.Random(seed)
    channel = Channel(3)
    gate = Gate([channel])
    sent = [*range(200)]

    async def produce():
        for i in sent:
            await channel.send(Batch([i]))
            if i % 10 == 9:
                await channel.send(Barrier(i, 0))
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
        await channel.send(EndOfInput())

    producer = asyncio.ensure_future(produce())
    got, barriers, ended = [], [], False
    while not ended:
        receiver = asyncio.ensure_future(gate.receive())
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        receiver.cancel()
        try:
            element = await receiver
        except asyncio.CancelledError:
            continue
        if isinstance(element, Batch):
            got += element.values
        elif isinstance(element, Barrier):
            barriers.append(element.checkpoint_id)
        else:
            ended = isinstance(element, EndOfInput)
    await producer
    assert got == sent
    assert barriers == [*range(9, 200, 10)]


marks = st.tuples(st.just("mark"), st.integers(0, 2), st.integers(0, 50))
idles = st.tuples(st.just("idle"), st.integers(0, 2), st.booleans())
ends = st.tuples(st.just("end"), st.integers(0, 2), st.none())


@given(st.lists(st.one_of(marks, idles, ends), max_size=40))
def test_the_merged_watermark_never_goes_back_and_never_passes_an_input_that_holds_it(steps):
    merger = WatermarkMerger(3)
    own, idle, ended = [MIN_TIMESTAMP] * 3, [False] * 3, [False] * 3
    before = merger.merged
    for what, i, value in steps:
        if ended[i]:
            continue
        if what == "mark":
            own[i] = max(own[i], value)
            merger.advance(i, value)
        elif what == "idle":
            idle[i] = value
            merger.set_idle(i, value)
        else:
            ended[i] = True
            merger.end(i)
        assert merger.merged >= before
        if merger.merged > before:
            active = [own[j] for j in range(3) if not idle[j] and not ended[j]]
            # inputs behind the old watermark are late-comers and hold nothing back
            assert merger.merged <= min((m for m in active if m >= before), default=max(own))
        before = merger.merged
        assert merger.idle == (all(x or e for x, e in zip(idle, ended)) and not all(ended)) or all(ended)


async def test_an_output_that_sends_on_and_on_lets_others_have_the_loop():
    """A watermark may close many windows: their results are sent in one go, into a channel that always has room."""
    time_slice = TimeSlice(1.0)
    channel = Channel(1 << 30)
    output = ChannelOutput([Route([channel])])
    output.pace = time_slice
    turns = 0

    async def look():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(look())
    for _ in range(20_000):
        await output.send(Batch([1]))
    beside.cancel()
    assert turns >= 3  # 20 000 sends take many milliseconds
    assert output.records == 20_000 and output.yielded > 0
