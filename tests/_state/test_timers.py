"""Timers: one per key, namespace and time; due in order of time, then of registration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamline._core.elements import MIN_TIMESTAMP
from streamline._state.subtask import SubtaskState
from streamline.abc import Timer
from streamline.testing import VirtualClock


def state(woken: list[int] | None = None) -> SubtaskState:
    return SubtaskState(
        key_groups=range(128),
        max_parallelism=128,
        clock=VirtualClock(1000, autojump=False),
        wake_at=(lambda t: None) if woken is None else woken.append,
    )


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("freeze"), st.just(0), st.just(0)),
        st.tuples(st.just("thaw"), st.just(0), st.just(0)),
        st.tuples(st.just("due"), st.integers(0, 9), st.just(0)),
    ),
    max_size=40,
)


@given(OPS)
def test_against_a_sorted_list(ops: list[tuple[str, int, int]]) -> None:
    s = state()
    timers, table = s.timers, s.timers.event.table
    model: dict[tuple[int, int], None] = {}  # insertion order is the order of registration
    frozen = 0
    for op, time, key in ops:
        if op == "add":
            timers.register_event_time(key, time)
            model.setdefault((time, key))
        elif op == "remove":
            timers.delete_event_time(key, time)
            model.pop((time, key), None)
        elif op == "freeze" and frozen < 2:
            table.freeze()
            frozen += 1
        elif op == "thaw" and frozen:
            assert table.thaw(1 << 20)
            frozen -= 1
        elif op == "due":
            expected = sorted((t for t in model if t[0] <= time), key=lambda t: t[0])
            assert [(t.timestamp, t.key) for t in s.due_event_timers(time)] == expected
            for t in expected:
                del model[t]
            assert timers.current_watermark == time
        assert s.timers.event.next() == min((t for t, _ in model), default=None)
        assert len(s.timers.event) == len(model)


def test_what_is_registered_while_firing_is_included() -> None:
    s = state()
    t = s.timers
    t.register_event_time("a", 10)
    t.register_event_time("b", 20)
    fired = []
    for timer in s.due_event_timers(30):
        fired.append((timer.timestamp, timer.key))
        if fired == [(10, "a")]:
            t.register_event_time("a", 10)  # the same again, at once
            t.register_event_time("c", 5)  # earlier: before all others
            t.register_event_time("d", 30)
            t.register_event_time("e", 31)  # not due
            t.delete_event_time("b", 20)
    assert fired == [(10, "a"), (5, "c"), (10, "a"), (30, "d")]
    assert list(s.due_event_timers(31)) == [Timer(31, "e")]


def test_an_earlier_one_goes_before_the_rest_of_its_time() -> None:
    s = state()
    for key in "abc":
        s.timers.register_event_time(key, 10)
    fired = []
    for timer in s.due_event_timers(10):
        fired.append((timer.timestamp, timer.key))
        if timer.key == "a":
            s.timers.register_event_time("x", 3)
    assert fired == [(10, "a"), (3, "x"), (10, "b"), (10, "c")]


def test_namespaces_tell_timers_apart() -> None:
    s = state()
    s.timers.register_event_time("a", 10, "w1")
    s.timers.register_event_time("a", 10, "w2")
    s.timers.register_event_time("a", 10, "w1")
    s.timers.delete_event_time("a", 10, "w2")
    assert list(s.due_event_timers(10)) == [Timer(10, "a", "w1")]


def test_the_task_is_woken_for_the_earliest() -> None:
    woken: list[int] = []
    s = state(woken)
    assert s.timers.current_watermark == MIN_TIMESTAMP
    assert s.timers.current_processing_time() == 1000
    s.timers.register_processing_time("a", 5000)
    s.timers.register_processing_time("a", 6000)
    s.timers.register_processing_time("b", 5000)
    s.timers.register_processing_time("a", 4000)
    assert woken == [5000, 4000]
    assert s.next_processing_timer() == 4000
    s.timers.delete_processing_time("a", 4000)
    assert s.next_processing_timer() == 5000
    assert [t.key for t in s.due_processing_timers(5500)] == ["a", "b"]
    assert s.next_processing_timer() == 6000
    assert list(s.due_event_timers(10**6)) == []
