"""Handles: what Flink's state interfaces promise, for the current key."""

from __future__ import annotations

from typing import Any

import pytest

from streamline._core.declare import StateSpec
from streamline._state.subtask import SubtaskState
from streamline.errors import ValidationException
from streamline.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class Average:
    """AggregateFunction over [sum, count], changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1]]


@pytest.fixture
def state(fresh: Any) -> SubtaskState:
    made: SubtaskState = fresh()
    return made


def handle(state: SubtaskState, descriptor: Any) -> Any:
    return state.store.handle(descriptor.name, descriptor.spec)


def test_value(state: SubtaskState) -> None:
    h = handle(state, ValueStateDescriptor("v", int))
    assert isinstance(h, ValueState)
    state.store.key = "a"
    assert h.value() is None
    h.update(1)
    state.store.key = "b"
    assert h.value() is None
    h.update(2)
    state.store.key = "a"
    assert h.value() == 1
    h.clear()
    h.clear()
    assert h.value() is None
    state.store.key = "b"
    h.update(None)
    assert h.value() is None
    assert list(state.store.keys("v")) == []


def test_value_default(state: SubtaskState) -> None:
    h = handle(state, ValueStateDescriptor("v", int, 7))
    state.store.key = "a"
    assert h.value() == 7
    h.update(0)
    assert h.value() == 0
    changeable = handle(state, ValueStateDescriptor("w", list, []))
    changeable.value().append(1)
    assert changeable.value() == []


def test_list(state: SubtaskState) -> None:
    h = handle(state, ListStateDescriptor("l", int))
    assert isinstance(h, ListState)
    state.store.key = "a"
    assert h.get() == []
    h.add(1)
    h.add_all([2, 3])
    assert list(h) == h.get() == [1, 2, 3]
    for v in h.get():
        h.add(v)  # what is read can be gone through while more is added
    assert h.get() == [1, 2, 3, 1, 2, 3]
    h.update([9])
    assert h.get() == [9]
    h.update([])
    assert list(state.store.keys("l")) == []
    h.add_all([])
    assert h.get() == []


def test_map(state: SubtaskState) -> None:
    h = handle(state, MapStateDescriptor("m", str, int))
    assert isinstance(h, MapState)
    state.store.key = "a"
    assert h.is_empty() and h.get("x") is None and not h.contains("x") and list(h.items()) == [] and len(h) == 0
    h.put("x", 1)
    h["y"] = 2
    h.put_all({"z": 3})
    assert (h["x"], h.get("y"), "z" in h, len(h), h.is_empty()) == (1, 2, True, 3, False)
    assert sorted(h.items()) == [("x", 1), ("y", 2), ("z", 3)]
    assert sorted(h.keys()) == sorted(h) == ["x", "y", "z"] and sorted(h.values()) == [1, 2, 3]
    for k in h:
        h.remove(k)
    assert h.is_empty() and list(state.store.keys("m")) == []
    with pytest.raises(KeyError):
        h["x"]
    with pytest.raises(KeyError):
        del h["x"]
    h.remove("x")
    state.store.key = "b"
    assert h.is_empty()


def test_reducing(state: SubtaskState) -> None:
    h = handle(state, ReducingStateDescriptor("r", lambda a, b: a + b, int))
    assert isinstance(h, ReducingState)
    state.store.key = "a"
    assert h.get() is None
    h.add(1)
    h.add(2)
    assert h.get() == 3
    h.clear()
    assert h.get() is None


def test_aggregating(state: SubtaskState) -> None:
    h = handle(state, AggregatingStateDescriptor("g", Average()))
    assert isinstance(h, AggregatingState)
    state.store.key = "a"
    assert h.get() is None
    h.add(1)
    h.add(2)
    assert h.get() == 1.5


def test_without_a_key(state: SubtaskState) -> None:
    h = handle(state, ValueStateDescriptor("v"))
    with pytest.raises(LookupError, match="no current key"):
        h.value()
    with pytest.raises(LookupError, match="no current key"):
        h.update(1)


def test_names_are_unique(state: SubtaskState) -> None:
    a = handle(state, ValueStateDescriptor("x", int))
    b = handle(state, ValueStateDescriptor("x", int))
    state.store.key = 1
    a.update(5)
    assert b.value() == 5
    with pytest.raises(ValidationException, match="'x' is declared twice: as value and as list state"):
        handle(state, ListStateDescriptor("x"))


def test_descriptors_refuse_nonsense() -> None:
    with pytest.raises(ValidationException, match="needs a name"):
        ValueStateDescriptor("")
    with pytest.raises(ValidationException, match="ReduceFunction is needed"):
        ReducingStateDescriptor("r", 3)
    with pytest.raises(ValidationException, match="no create_accumulator, add, get_result"):
        AggregatingStateDescriptor("g", object())

    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(ValidationException, match="cannot be async"):
        ReducingStateDescriptor("r", add)


WINDOWED = {
    "list": (StateSpec(kind="list"), [1, 2, 3]),
    "map": (StateSpec(kind="map"), {1: 1, 2: 2, 3: 3}),
    "reducing": (StateSpec(kind="reducing", reduce=lambda a, b: a + b), 6),
    "aggregating": (StateSpec(kind="aggregating", aggregate=Average()), 2.0),
}


@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_have_their_own_and_merge(state: SubtaskState, kind: str) -> None:
    spec, expected = WINDOWED[kind]
    of = state.store.window_handle("w", spec)

    def add(window: str, value: int) -> None:
        if kind == "map":
            of(window).put(value, value)
        else:
            of(window).add(value)

    def read(window: str) -> Any:
        return dict(of(window).items()) if kind == "map" else of(window).get()

    state.store.key = "other"
    add("w1", 100)
    state.store.key = "k"
    empty = read("w1")
    add("w1", 1)
    add("w2", 2)
    first, second = of("w1"), of("w2")  # handles are independent of one another
    add("w3", 3)
    assert first is not second and read("w1") != read("w2")
    of.merge("w1", ["w2", "w3", "w1"])
    assert read("w1") == expected
    assert read("w2") == read("w3") == empty
    of("w1").clear()
    assert read("w1") == empty
    state.store.key = "other"
    assert read("w1") == ({100: 100} if kind == "map" else [100] if kind == "list" else 100)
    state.maintain()
    assert set(state.store.table("w", StateSpec(kind=spec.kind, namespaced=True)).data) == {"w1"}


def test_value_state_of_windows_cannot_merge(state: SubtaskState) -> None:
    of = state.store.window_handle("w", StateSpec(int))
    state.store.key = 1
    of("a").update(1)
    of("b").update(2)
    assert (of("a").value(), of("b").value(), of("c").value()) == (1, 2, None)
    with pytest.raises(ValidationException, match="cannot be merged"):
        of.merge("a", ["b"])


def test_seen_from_outside(state: SubtaskState) -> None:
    state.store.key = "now"
    h = handle(state, ListStateDescriptor("l", int))
    w = state.store.window_handle("w", StateSpec(list))
    h.add(1)
    w("w1").update([5])
    assert state.store.read("l", "now") == [1]
    assert state.store.read("l", "never") is None
    found = state.store.read("w", "now")
    assert found == {"w1": [5]}
    found["w1"].append(6)
    assert w("w1").value() == [5]
    assert state.store.key == "now"
    with pytest.raises(ValidationException, match="no state 'x' here; declared are: l, w"):
        state.store.read("x", 1)
