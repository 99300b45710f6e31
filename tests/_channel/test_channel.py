"""The channel against a model, and its promises under cancellation."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._channel.channel import Channel, merge
from streamline._core.changes import RowKind
from streamline._core.elements import Barrier, Batch, EndOfInput, Watermark, WatermarkStatus


def flat(elements):
    """Elements with batches cut into records: what re-batching must not change."""
    out = []
    for e in elements:
        if isinstance(e, Batch):
            ts = e.timestamps or [None] * len(e)
            kinds = e.kinds or [RowKind.INSERT] * len(e)
            out += list(zip(e.values, ts, kinds))
        else:
            out.append(e)
    return out


batches = st.builds(
    lambda n, stamped, kinded: Batch(
        list(range(n)), list(range(n)) if stamped else None, [RowKind.DELETE] * n if kinded else None
    ),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)
controls = st.one_of(
    st.builds(Watermark, st.integers(0, 9)),
    st.builds(WatermarkStatus, st.booleans()),
    st.builds(Barrier, st.integers(1, 9), st.just(0)),
)


@given(st.lists(st.one_of(batches, controls), max_size=30), st.integers(1, 20), st.integers(1, 20))
def test_keeps_order_and_bound_like_a_queue(elements, capacity, limit):
    channel = Channel(capacity)
    sent, got, pending = [], [], list(elements)
    while pending or len(channel):
        while pending and channel.send_nowait(pending[0]):
            sent.append(pending.pop(0))
            held = channel.statistics().records
            assert held <= max(capacity, max((len(e) for e in sent if isinstance(e, Batch)), default=0))
        if pending:
            assert channel.statistics().records > 0, "refused although empty"
        element = channel.receive_nowait(limit)
        assert element is not None
        assert not isinstance(element, Batch) or len(element) <= limit
        got.append(element)
    records = [e for e in flat(got) if isinstance(e, tuple)]
    assert records == [e for e in flat(sent) if isinstance(e, tuple)]
    assert [e for e in got if isinstance(e, Barrier)] == [e for e in sent if isinstance(e, Barrier)]
    last = [e for e in flat(sent) if not isinstance(e, tuple)]
    if last:
        assert [e for e in flat(got) if not isinstance(e, tuple)][-1] == last[-1]


def test_a_watermark_is_never_moved_past_a_record():
    channel = Channel()
    for e in (Watermark(1), Watermark(2), Batch(["a"]), Watermark(3), Batch(["b"])):
        channel.send_nowait(e)
    got = [channel.receive_nowait() for _ in range(4)]
    assert got == [Watermark(2), Batch(["a"]), Watermark(3), Batch(["b"])]
    assert channel.receive_nowait() is None


def test_small_batches_that_wait_come_as_one_and_mixed_shapes_are_filled_up():
    channel = Channel()
    channel.send_nowait(Batch([1], [10]))
    channel.send_nowait(Batch([2]))
    channel.send_nowait(Batch([3], None, [RowKind.DELETE]))
    assert channel.receive_nowait() == Batch(
        [1, 2, 3], [10, None, None], [RowKind.INSERT, RowKind.INSERT, RowKind.DELETE]
    )


def test_merge_of_plain_batches_stays_plain():
    assert merge([Batch([1]), Batch([2, 3])]) == Batch([1, 2, 3])


def test_a_batch_larger_than_the_channel_is_admitted_alone():
    channel = Channel(4)
    assert channel.send_nowait(Batch(list(range(10))))
    assert not channel.send_nowait(Batch([1]))
    assert len(channel.receive_nowait(7)) == 7
    assert channel.statistics().records == 3


def test_control_is_admitted_to_a_full_channel():
    channel = Channel(1)
    assert channel.send_nowait(Batch([1]))
    for control in (Barrier(1, 0), Watermark(5), EndOfInput()):
        assert channel.send_nowait(control)


def test_over_taking_barrier_comes_first_and_tells_what_it_overtook():
    channel = Channel()
    channel.send_nowait(Batch([1]))
    channel.send_nowait(Watermark(3))
    channel.send_nowait(Batch([2]))
    channel.overtake(Barrier(1, 0))
    assert channel.overtaken == [Batch([1]), Watermark(3), Batch([2])]
    assert channel.receive_nowait() == Barrier(1, 0)
    assert channel.receive_nowait() == Batch([1])


async def test_receive_nowait_frees_a_waiting_sender():
    channel = Channel(1)
    await channel.send(Batch(["x"]))
    second = asyncio.ensure_future(channel.send(Batch(["y"])))
    await asyncio.sleep(0)
    assert not second.done()
    assert channel.receive_nowait() == Batch(["x"])
    await second
    assert channel.receive_nowait() == Batch(["y"])


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_cancelling_a_send_as_room_appears_neither_loses_nor_doubles(cancel_first):
    channel = Channel(1)
    await channel.send(Batch(["x"]))
    sender = asyncio.ensure_future(channel.send(Batch(["y"])))
    await asyncio.sleep(0)
    if cancel_first:
        sender.cancel()
        assert channel.receive_nowait() == Batch(["x"])
    else:
        assert channel.receive_nowait() == Batch(["x"])
        sender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sender
    assert channel.receive_nowait() is None
    await channel.send(Batch(["z"]))
    assert channel.receive_nowait() == Batch(["z"])
