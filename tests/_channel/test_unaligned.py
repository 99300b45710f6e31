"""Unaligned barriers: at the cut, what was seen and what was on its way are all that was sent before the barriers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamline._channel.channel import Channel
from streamline._channel.gate import Gate
from streamline._core.elements import Barrier, Batch, Element, EndOfInput, Watermark

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2)),
        st.tuples(st.just("watermark"), st.integers(0, 2)),
        st.tuples(st.just("barrier"), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 2)),
        st.tuples(st.just("receive"), st.integers(1, 4)),
        st.tuples(st.just("expedite"), st.just(0)),
    ),
    max_size=60,
)


class Bench:
    """Three channels, their gate, and who has sent and seen what."""

    def __init__(self, unaligned: bool) -> None:
        self.channels = [Channel(1 << 20) for _ in range(3)]
        self.gate = Gate(self.channels)
        self.barrier = Barrier(1, 0, unaligned=unaligned)
        self.sent: list[list[Any]] = [[], [], []]  # values before the channel's barrier
        self.state = ["sending"] * 3
        self.seen: list[list[Any]] = [[], [], []]  # before the cut
        self.cut: Any = None
        self.order: list[Any] = []
        self.n = 0

    def send(self, i: int) -> None:
        if self.state[i] != "ended":
            self.n += 1
            self.channels[i].send_nowait(Batch([(i, self.n)] * (1 + self.n % 3)))
            if self.state[i] == "sending":
                self.sent[i] += [(i, self.n)] * (1 + self.n % 3)

    def watermark(self, i: int) -> None:
        if self.state[i] != "ended":
            self.n += 1
            self.channels[i].send_nowait(Watermark(self.n))

    def send_barrier(self, i: int) -> None:
        if self.state[i] == "sending":
            self.state[i] = "barrier"
            if self.barrier.unaligned:
                self.channels[i].overtake(self.barrier)
            else:
                self.channels[i].send_nowait(self.barrier)

    def end(self, i: int) -> None:
        if self.state[i] != "ended":
            self.state[i] = "ended"
            self.channels[i].send_nowait(EndOfInput())

    def receive(self, limit: int) -> bool:
        element = self.gate.receive_nowait(limit)
        match element:
            case Batch(values):
                self.order += values
                if self.cut is None:
                    for v in values:
                        self.seen[v[0]].append(v)
            case Barrier():
                assert self.cut is None
                self.cut = self.gate.cut or "aligned"
        return element is not None

    def finish(self) -> None:
        for i in range(3):
            self.send(i)
            self.send_barrier(i)
        while self.receive(3):
            pass


def in_flight(elements: list[tuple[int, Element]], i: int) -> list[Any]:
    return [v for c, e in elements if c == i and isinstance(e, Batch) for v in e.values]


@given(STEPS, st.booleans())
def test_nothing_is_lost_or_doubled(steps: list[tuple[str, int]], unaligned: bool) -> None:
    b = Bench(unaligned)
    for step, i in steps:
        match step:
            case "send":
                b.send(i)
            case "watermark":
                b.watermark(i)
            case "barrier":
                b.send_barrier(i)
            case "end":
                b.end(i)
            case "receive":
                b.receive(i)
            case "expedite":
                b.gate.expedite(1)
    b.finish()
    if any(s != "ended" for s in b.state):
        assert b.cut is not None
    if b.cut is None:
        return  # everybody ended without a barrier
    elements = [] if b.cut == "aligned" else b.cut.elements
    for i in range(3):
        assert b.seen[i] + in_flight(elements, i) == b.sent[i], i
    # Each channel's order was kept, whatever overtook it.
    assert len(b.order) == sum(1 + n % 3 for n in {n for _, n in b.order})
    for i in range(3):
        values = [n for c, n in b.order if c == i]
        assert values == sorted(values)
    if b.cut != "aligned":
        assert b.cut.whole and not b.cut.abandoned


def test_the_barrier_does_not_wait() -> None:
    channels = [Channel(), Channel()]
    gate = Gate(channels)
    channels[0].send_nowait(Batch(["a"]))
    channels[1].send_nowait(Batch(["b"]))
    barrier = Barrier(1, 0, unaligned=True)
    channels[0].overtake(barrier)
    received = gate.receive_nowait()
    assert received == barrier
    cut = gate.cut
    assert cut is not None and not cut.whole and cut.elements == [(0, Batch(["a"]))]
    done: list[bool] = []
    cut.on_whole(lambda: done.append(cut.abandoned))
    assert [gate.receive_nowait(), gate.receive_nowait()] == [Batch(["a"]), Batch(["b"])]
    channels[1].send_nowait(Batch(["c"]))
    channels[1].overtake(barrier)
    while gate.receive_nowait() is not None:
        pass
    assert done == [False]
    assert sorted(v for _, e in cut.elements for v in e.values) == ["a", "b", "c"]  # type: ignore[union-attr]
    # the same barrier again, or an older one, is nothing
    channels[0].overtake(barrier)
    assert gate.receive_nowait() is None


def test_given_up() -> None:
    channels = [Channel(), Channel()]
    gate = Gate(channels)
    channels[0].overtake(Barrier(1, 0, unaligned=True))
    assert gate.receive_nowait() == Barrier(1, 0, unaligned=True)
    cut = gate.cut
    assert cut is not None
    gate.give_up(1)
    assert cut.abandoned and cut.whole
    channels[1].overtake(Barrier(1, 0, unaligned=True))
    assert gate.receive_nowait() is None
    channels[1].overtake(Barrier(2, 0, unaligned=True))
    assert gate.receive_nowait() == Barrier(2, 0, unaligned=True)
    channels[0].overtake(Barrier(3, 0, unaligned=True))
    assert gate.receive_nowait() == Barrier(3, 0, unaligned=True)
    channels[1].overtake(Barrier(3, 0, unaligned=True))
    channels[0].overtake(Barrier(2, 0, unaligned=True))
    assert gate.receive_nowait() is None and gate.cut is not None and gate.cut.whole


def test_what_was_on_its_way_comes_first() -> None:
    channels = [Channel(), Channel()]
    gate = Gate(channels, [0, 1])
    gate.replay([(0, Batch(["a"])), (0, Watermark(5)), (1, Watermark(7)), (1, Batch(["b"]))], same_channels=True)
    channels[0].send_nowait(Batch(["new"]))
    got = []
    while (element := gate.receive_nowait()) is not None:
        got.append((gate.input, element))
    assert got == [(0, Batch(["a"])), (0, Watermark(5)), (1, Batch(["b"])), (0, Batch(["new"]))]
    other = Gate([Channel()], [0])
    other.replay([(1, Batch(["a"])), (0, Watermark(5))], same_channels=False)
    assert other.receive_nowait() == Batch(["a"]) and other.input == 1
    assert other.receive_nowait() is None
