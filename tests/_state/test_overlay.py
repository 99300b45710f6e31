"""A frozen dict stays as it was, and what lies on top behaves like a dict, whatever is done and whenever it thaws."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamline._core.declare import StateSpec
from streamline._state.overlay import Overlay, Passing, peek_items
from streamline._state.table import MemoryTable

KEYS = st.integers(0, 5)


class FlatTable(RuleBasedStateMachine):
    """One MemoryTable against a dict, with captures that open and close."""

    spec = StateSpec(list, copy=list.copy)

    @initialize()
    def start(self) -> None:
        self.table = MemoryTable("t", self.spec)
        self.model: dict[Any, list[int]] = {}
        self.cuts: list[dict[Any, list[int]]] = []

    def cut(self) -> Any:
        return {k: list(v) for k, v in self.model.items()}

    @rule(key=KEYS, value=st.integers())
    def put(self, key: int, value: int) -> None:
        self.table.data[key] = [value]
        self.model[key] = [value]

    @rule(key=KEYS, value=st.integers())
    def change_in_place(self, key: int, value: int) -> None:
        found, expected = self.table.data.get(key), self.model.get(key)
        assert found == expected
        if found is not None and expected is not None:
            found.append(value)
            expected.append(value)

    @rule(key=KEYS, value=st.integers())
    def setdefault(self, key: int, value: int) -> None:
        assert self.table.data.setdefault(key, [value]) == self.model.setdefault(key, [value])

    @rule(key=KEYS)
    def pop(self, key: int) -> None:
        assert self.table.data.pop(key, None) == self.model.pop(key, None)

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        errors = []
        for data in (self.table.data, self.model):
            try:
                del data[key]
                errors.append(False)
            except KeyError:
                errors.append(True)
        assert errors[0] == errors[1]

    @rule()
    def pop_last(self) -> None:
        if self.model:
            key, value = self.table.data.popitem()
            assert self.model.pop(key) == value

    @rule()
    def clear(self) -> None:
        self.table.data.clear()
        self.model.clear()

    @precondition(lambda self: len(self.cuts) < 3)
    @rule()
    def freeze(self) -> None:
        self.table.freeze()
        self.cuts.append(self.cut())

    @precondition(lambda self: self.cuts)
    @rule(limit=st.integers(1, 5), whole=st.booleans())
    def thaw(self, limit: int, whole: bool) -> None:
        held = self.table.data
        written = dict(pair for piece in self.table.pieces(lambda: 3) for pair in zip(*piece[2:]))
        assert written == self.cuts[0]
        self.cuts.pop(0)
        while not self.table.thaw(limit):
            if not whole:  # the records flow on while the overlay is drained
                self.put(limit, limit)
                self.pop(limit + 1)
                whole = True
        held[3] = [3]  # by somebody who took hold of the mapping before
        self.model[3] = [3]

    @invariant()
    def same(self) -> None:
        if hasattr(self, "table"):
            assert dict(peek_items(self.table.data)) == self.model  # copies nothing up, as reading does

    @rule()
    def behaves_like_a_dict(self) -> None:
        data = self.table.data
        assert dict(data) == self.model
        assert dict(data.items()) == self.model
        assert len(data) == len(self.model) == len(list(data)) == len(list(data.values()))
        assert bool(data) == bool(self.model)
        assert all(k in data and data[k] == v for k, v in self.model.items())
        assert [k for k in range(13) if k in data] == [k for k in range(13) if k in self.model]
        assert data == self.model
        assert (data != self.model) is False


class SpacedTable(RuleBasedStateMachine):
    """A namespaced table against a dict of dicts."""

    @initialize()
    def start(self) -> None:
        self.table = MemoryTable("t", StateSpec(list, namespaced=True, copy=list.copy))
        self.model: dict[int, dict[int, list[int]]] = {}
        self.cuts: list[Any] = []
        self.held: list[tuple[Any, dict[int, list[int]]]] = []

    def cut(self) -> Any:
        return {s: {k: list(v) for k, v in inner.items()} for s, inner in self.model.items() if inner}

    @rule(space=st.integers(0, 3), key=KEYS, value=st.integers())
    def add(self, space: int, key: int, value: int) -> None:
        inner = self.table.data.get(space)
        if inner is None:
            inner = self.table.data[space] = {}
        found = inner.get(key)
        if found is None:
            inner[key] = [value]
        else:
            found.append(value)
        self.model.setdefault(space, {}).setdefault(key, []).append(value)

    @rule(space=st.integers(0, 3), key=KEYS)
    def remove(self, space: int, key: int) -> None:
        if space in self.table.data:
            assert self.table.data[space].pop(key, None) == self.model[space].pop(key, None)

    @rule(space=st.integers(0, 3))
    def drop(self, space: int) -> None:
        found, expected = self.table.data.pop(space, None), self.model.pop(space, None)
        assert (found is None) == (expected is None)
        if found is not None:
            assert dict(found.items()) == expected

    @rule(old=st.integers(0, 3), new=st.integers(0, 3))
    def move(self, old: int, new: int) -> None:
        if old in self.model and old != new:
            self.table.data[new] = self.table.data.pop(old)
            self.model[new] = self.model.pop(old)

    @precondition(lambda self: len(self.cuts) < 3)
    @rule()
    def freeze(self) -> None:
        self.table.freeze()
        self.cuts.append(self.cut())

    @precondition(lambda self: self.cuts)
    @rule(limit=st.integers(1, 4))
    def thaw(self, limit: int) -> None:
        held = [(inner, self.model[space]) for space, inner in self.table.data.items()]
        written: dict[Any, dict[Any, Any]] = {}
        for spaces, counts, keys, values in self.table.pieces(lambda: 3):
            assert spaces is not None and counts is not None and sum(counts) == len(keys) == len(values)
            start = 0
            for space, count in zip(spaces, counts):
                written.setdefault(space, {}).update(zip(keys[start : start + count], values[start : start + count]))
                start += count
        assert written == self.cuts.pop(0)
        while not self.table.thaw(limit):
            pass
        for inner, expected in held:
            inner[99] = [1]
            expected[99] = [1]

    @rule()
    def same(self) -> None:
        if hasattr(self, "table"):
            assert {s: dict(inner.items()) for s, inner in self.table.data.items()} == self.model
            assert set(self.table.data) == set(self.model)

    @invariant()
    def counted(self) -> None:
        if hasattr(self, "table"):
            assert self.table.entries() == sum(map(len, self.model.values()))


TestFlatTable = FlatTable.TestCase
TestSpacedTable = SpacedTable.TestCase


def test_order_is_that_of_a_dict() -> None:
    under = {1: "a", 2: "b", 3: "c"}
    model = dict(under)
    overlay = Overlay(under)
    for data in (overlay, model):
        del data[2]
        data[4] = "d"
        data[2] = "e"
        data[1] = "f"
    assert list(overlay) == list(model) == [1, 3, 4, 2]
    assert list(reversed(overlay)) == [2, 4, 3, 1]
    while not overlay.drain(1):
        pass
    assert list(overlay.settle().items()) == list(model.items())


@given(st.dictionaries(KEYS, st.integers()), st.dictionaries(KEYS, st.integers()), st.integers(0, 12))
def test_an_iterator_sees_all_that_was_there_whenever_it_is_drained(
    under: dict[int, int], more: dict[int, int], when: int
) -> None:
    """An operator or an async function may wait in the middle of a loop over its state."""
    overlay = Overlay(dict(under))
    overlay.update(more)
    seen = []
    for i, (key, value) in enumerate(overlay.items()):
        if i == when:
            overlay.settle()
        seen.append((key, value))
    assert dict(seen) == under | more
    assert len(seen) == len(under | more)


@given(st.dictionaries(KEYS, st.integers()), st.dictionaries(KEYS, st.integers()))
def test_union_and_update(under: dict[int, int], more: dict[int, int]) -> None:
    overlay = Overlay(dict(under))
    assert overlay | more == under | more
    assert more | overlay == more | under
    assert {**overlay} == under
    overlay.update(more)
    assert dict(overlay) == under | more
    assert dict(peek_items(overlay)) == under | more
    assert overlay.copy() == under | more
    settled = overlay.settle()
    assert isinstance(overlay, Passing)
    overlay |= {77: 7}
    assert settled[77] == 7
    assert overlay.pop(77) == 7
    assert 77 not in settled


def test_a_missing_key_is_a_key_error() -> None:
    overlay = Overlay({1: 1})
    for bad in (lambda: overlay[2], lambda: overlay.pop(2), lambda: overlay.__delitem__(2)):
        try:
            bad()
        except KeyError as e:
            assert e.args == (2,)
        else:
            raise AssertionError
    assert overlay.pop(2, "x") == "x"


def test_counting_entries_leaves_what_was_frozen_alone() -> None:
    """A gauge may ask while a snapshot of very many namespaces (times of timers) is being written."""
    table = MemoryTable("timers", StateSpec(namespaced=True))
    for i in range(3):
        table.data[i] = {"a": None, "b": None}
    assert table.entries() == 6
    assert table.more_than(5) and not table.more_than(6)
    table.freeze()
    table.data[7] = {"a": None}
    del table.data[0]
    del table.data[1]["a"]
    assert table.entries() == 4
    layer = table.data
    assert isinstance(layer, Overlay) and dict.__len__(layer) == 2  # nothing more was copied up
    while not table.thaw(1 << 60):
        pass
    assert table.entries() == 4
    flat = MemoryTable("values", StateSpec())
    flat.data.update({1: 1, 2: 2})
    assert flat.more_than(1) and not flat.more_than(2)
