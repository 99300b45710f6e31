"""A snapshot of a subtask is its state at the capture, whatever goes on meanwhile; restored, all is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamline._core.declare import StateSpec
from streamline._core.keys import KeyGroups, group_range
from streamline._state import capture as capture_module
from streamline._state.capture import CaptureAborted
from streamline._state.operator_state import split
from streamline._state.overlay import Overlay
from streamline._state.snapshot import SubtaskSnapshot
from streamline._state.subtask import SubtaskState
from streamline.errors import CheckpointException, ValidationException
from streamline.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

MAX = 128


def thawing(state: SubtaskState) -> bool:
    """Whether a capture still holds anything."""
    if state.backend is not None:
        return state.backend.holder is not None or state.backend.database._held is not None
    return isinstance(state.store.table("n", StateSpec(int)).data, Overlay)


class Job:
    """Some state of each kind, and the same in plain dicts."""

    def __init__(self, state: SubtaskState) -> None:
        self.state = state
        store = state.store
        self.value = store.handle("value", ValueStateDescriptor("value", int).spec)
        self.list = store.handle("list", ListStateDescriptor("list", str).spec)
        self.map = store.handle("map", MapStateDescriptor("map", int, int).spec)
        self.window = store.window_handle("window", StateSpec(list, copy=list.copy))

    def write(self, key: Any, n: int) -> None:
        self.state.store.key = key
        self.value.update((self.value.value() or 0) + n)
        if n % 5 == 0:
            self.value.clear()
        self.list.add(f"e{n}")
        self.map.put(n % 7, n)
        if n % 3 == 0:
            self.map.remove((n + 1) % 7)
        acc = self.window(n % 2).value()
        if acc is None:
            acc = []
        acc.append(n)
        self.window(n % 2).update(acc)
        if n % 11 == 0:
            self.window(n % 2).clear()
        self.state.timers.register_event_time(key, n % 10, n % 2)
        self.state.timers.register_processing_time(key, n % 4)
        self.state.timers.delete_event_time(key, n % 3, n % 2)

    def dump(self, keys: Sequence[Any]) -> dict[str, Any]:
        store = self.state.store
        found: dict[str, Any] = {}
        for name in ("value", "list", "map", "window"):
            found[name] = {k: v for k in keys if (v := store.read(name, k)) is not None}
        for name, queue in (("event", self.state.timers.event), ("processing", self.state.timers.processing)):
            found[name] = {(t.timestamp, t.key, t.namespace) for t in queue}
        return found


def union(dumps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several subtasks' state as one; a key in two of them is an error."""
    whole: dict[str, Any] = {}
    for dump in dumps:
        for name, part in dump.items():
            if isinstance(part, set):
                assert not whole.setdefault(name, set()) & part
                whole[name] |= part
            else:
                assert not whole.setdefault(name, {}).keys() & part.keys()
                whole[name] |= part
    return whole


WRITES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=40)


CUTS: dict[str, Any] = {
    "before": WRITES,
    "between": WRITES,
    "after": WRITES,
    "parallelism": st.integers(1, 5),
    "second": st.booleans(),
}


@pytest.mark.parametrize("fresh", ["hashmap"], indirect=True)
@pytest.mark.parametrize("tiny", [0, 1000], ids=["in slices", "at once"])
@given(**CUTS)
async def test_cut_and_rescale(fresh: Any, tiny: int, **cut: Any) -> None:
    await cut_and_rescale(fresh, tiny, **cut)


@pytest.mark.parametrize("fresh", ["rocksdb"], indirect=True)
@settings(max_examples=max(4, settings().max_examples // 5))  # every state is a database
@given(**CUTS)
async def test_cut_and_rescale_on_disk(fresh: Any, **cut: Any) -> None:
    await cut_and_rescale(fresh, 0, **cut)


async def cut_and_rescale(
    fresh: Any, tiny: int, before: Any, between: Any, after: Any, parallelism: int, second: bool
) -> None:
    fresh.close()  # what earlier examples have made
    capture_module._TINY = tiny
    try:
        job = Job(fresh())
        keys = range(31)
        for key, n in before:
            job.write(key, n)
            job.state.maintain()
        expected = [job.dump(keys)]
        captures = [job.state.capture(1)]
        for key, n in between:
            job.write(key, n)
        if second:  # a second one is taken before the first is written
            expected.append(job.dump(keys))
            captures.append(job.state.capture(2))
        encoding = [asyncio.create_task(c.encode(0)) for c in reversed(captures)]
        for key, n in after:
            job.write(key, n)
            job.state.maintain()
            await asyncio.sleep(0)
        snapshots = [await task for task in encoding][::-1]
        now = job.dump(keys)
    finally:
        capture_module._TINY = 1000
    for snapshot, cut in zip(snapshots, expected):
        restored = [Job(fresh(i, parallelism)) for i in range(parallelism)]
        states = [fresh(i, parallelism) for i in range(parallelism)]
        for state in states:
            await state.restore([snapshot])
        restored = [Job(state) for state in states]
        assert union([r.dump(keys) for r in restored]) == cut
        for i, r in enumerate(restored):
            mine = group_range(MAX, parallelism, i)
            assert all(KeyGroups(MAX).of(k) in mine for k in r.state.store.keys("list"))
        # and from there to yet another parallelism
        again = [fresh(i, 3) for i in range(3)]
        parts = [await state.capture(3).encode() for state in states]
        for state in again:
            await state.restore(parts)
        assert union([Job(state).dump(keys) for state in again]) == cut
    assert job.dump(keys) == now


async def test_another_number_of_key_groups(fresh: Any) -> None:
    job = Job(fresh())
    for n in range(50):
        job.write(n, n)
    expected = job.dump(range(50))
    snapshot = await job.state.capture(1).encode()
    states = [fresh(i, 2, 512) for i in range(2)]
    for state in states:
        await state.restore([snapshot])
    assert union([Job(s).dump(range(50)) for s in states]) == expected


async def test_big_lists_and_maps_under_one_key(fresh: Any) -> None:
    state = fresh()
    big = state.store.handle("l", ListStateDescriptor("l", int).spec)
    wide = state.store.handle("m", MapStateDescriptor("m", int, int).spec)
    state.store.key = "k"
    big.update(range(30_000))
    wide.put_all({i: i for i in range(30_000)})
    capture = state.capture(1)
    wide.put(5, 0)
    wide.remove(6)
    big.add(-1)
    snapshot = await capture.encode()
    if state.backend is None:
        assert all(len(block) < 200_000 for table in snapshot.tables for block in table.blocks)
    assert (wide.get(5), wide.get(6), len(wide), len(big.get())) == (0, None, 29_999, 30_001)
    again = fresh()
    await again.restore([snapshot])
    again.store.key = "k"
    assert again.store.handle("l", ListStateDescriptor("l", int).spec).get() == list(range(30_000))
    restored = again.store.handle("m", MapStateDescriptor("m", int, int).spec)
    assert dict(restored.items()) == {i: i for i in range(30_000)}


async def test_timers_of_no_key_go_everywhere(fresh: Any) -> None:
    state = fresh()
    state.timers.register_event_time(None, 10, "window")
    state.timers.register_event_time(None, 20)  # of the key None
    snapshot = await state.capture(1).encode()
    fired = []
    for i in range(2):
        other = fresh(i, 2)
        await other.restore([snapshot])
        fired.append([t.timestamp for t in other.due_event_timers(30)])
    assert sorted(fired) == [[10], [10, 20]]


async def test_processing_timers_wake_the_restored_task(fresh: Any) -> None:
    state = fresh()
    state.timers.register_processing_time("k", 70)
    state.timers.register_processing_time("k", 50)
    snapshot = await state.capture(1).encode()
    woken: list[int] = []
    other = fresh(wake=woken.append)
    await other.restore([snapshot])
    assert woken == [50]
    assert [t.timestamp for t in other.due_processing_timers(100)] == [50, 70]


async def test_aborted_capture_puts_things_in_order(fresh: Any) -> None:
    state = fresh()
    h = state.store.handle("n", StateSpec(int))
    for key in range(5000):
        state.store.key = key
        h.update(key)
    capture = state.capture(1)
    state.store.key = 1
    h.update(-1)
    capture.abort()
    with pytest.raises(CaptureAborted, match="checkpoint 1"):
        await capture.encode()
    assert not thawing(state)
    assert h.value() == -1
    one, two = state.capture(2), state.capture(3)
    state.store.key = 2
    h.update(-2)
    two.discard()  # nobody encodes them
    assert one.done.is_set() and two.done.is_set()
    assert not thawing(state)
    snapshot = await state.capture(4).encode()
    assert {t.name: t.entries for t in snapshot.tables}["n"] == 5000
    assert h.value() == -2


async def test_cancelled_while_writing(fresh: Any) -> None:
    state = fresh()
    h = state.store.handle("n", StateSpec(int))
    for key in range(50_000):
        state.store.key = key
        h.update(key)
    task = asyncio.create_task(state.capture(1).encode(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    h.update(-1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not thawing(state)
    assert h.value() == -1


async def test_what_cannot_be_kept_names_its_state(fresh: Any) -> None:
    class Plain:
        pass

    state = fresh()
    h = state.store.handle("things", StateSpec())
    state.store.key = 1
    h.update(Plain())
    capture = state.capture(1)
    with pytest.raises(ValidationException, match=r"state 'things': .*Plain cannot be kept"):
        await capture.encode()
    h.update(2)
    await state.capture(2).encode()
    state.operator_store.list_state("ops", StateSpec()).append(Plain())
    with pytest.raises(ValidationException, match="operator state 'ops'"):
        await state.capture(3).encode()


async def test_classes_of_functions_are_those_of_the_declaration(fresh: Any) -> None:
    def declare() -> Any:
        class Local(msgspec.Struct):
            a: int
            b: Decimal

        return Local

    old = declare()
    state = fresh()
    h = state.store.handle("s", ValueStateDescriptor("s", old).spec)
    state.store.key = 1
    h.update(old(1, Decimal("2.50")))
    snapshot = await state.capture(1).encode()
    new = declare()
    other = fresh()
    await other.restore([snapshot])
    assert other.undeclared() == ["s"]
    h = other.store.handle("s", ValueStateDescriptor("s", new).spec)
    other.store.key = 1
    assert type(h.value()) is new and h.value() == new(1, Decimal("2.50"))
    assert other.undeclared() == []
    # Nobody declares it: it is kept all the same.
    third = fresh()
    await third.restore([snapshot])
    snapshot = await third.capture(2).encode()
    fourth = fresh()
    await fourth.restore([snapshot])
    h = fourth.store.handle("s", ValueStateDescriptor("s", new).spec)
    fourth.store.key = 1
    assert h.value().a == 1


async def test_another_kind_is_refused(fresh: Any) -> None:
    state = fresh()
    state.store.key = 1
    state.store.handle("s", ValueStateDescriptor("s").spec).update(1)
    snapshot = await state.capture(1).encode()
    other = fresh()
    await other.restore([snapshot])
    with pytest.raises(CheckpointException, match="'s' was written as value state and is declared as list state now"):
        other.store.handle("s", ListStateDescriptor("s").spec)


# -- operator state ------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=4), st.integers(1, 5))
async def test_operator_state_is_shared_out(fresh: Any, lists: list[list[int]], parallelism: int) -> None:
    snapshots: list[SubtaskSnapshot] = []
    for i, elements in enumerate(lists):
        state = fresh(i, len(lists))
        state.operator_store.list_state("l", StateSpec(int)).extend(elements)
        state.operator_store.union_state("u", StateSpec(int)).extend(elements)
        state.operator_store.broadcast_state("b", StateSpec(int)).update({"x": 1, "y": lists[0]})
        state.operator_store.list_state("never declared again", StateSpec(int)).extend(elements)
        snapshots.append(await state.capture(1).encode())
    everything = [e for elements in lists for e in elements]
    restored = []
    kept = []
    for i in range(parallelism):
        state = fresh(i, parallelism)
        await state.restore(list(reversed(snapshots)))
        restored.append(state.operator_store.list_state("l", StateSpec(int)))
        assert state.operator_store.union_state("u", StateSpec(int)) == everything
        assert state.operator_store.broadcast_state("b", StateSpec()) == {"x": 1, "y": lists[0]}
        assert state.undeclared() == ["never declared again"]
        kept.append(await state.capture(2).encode())
    assert [e for part in restored for e in part] == everything
    if parallelism == len(lists):
        assert restored == lists
    else:
        sizes = [len(part) for part in restored]
        assert max(sizes) - min(sizes) <= 1
    one = fresh()
    await one.restore(kept)
    assert one.operator_store.list_state("never declared again", StateSpec()) == everything


def test_shares_are_even_and_in_order() -> None:
    assert [split("abcdefg", 3, i) for i in range(3)] == [["a", "b", "c"], ["d", "e"], ["f", "g"]]


async def test_operator_state_keeps_its_mode(fresh: Any) -> None:
    state = fresh()
    state.operator_store.list_state("l", StateSpec())
    with pytest.raises(CheckpointException, match="declared twice: as list and as union"):
        state.operator_store.union_state("l", StateSpec())
    snapshot = await state.capture(1).encode()
    other = fresh()
    await other.restore([snapshot])
    with pytest.raises(CheckpointException, match="was written as list state and is declared as union state"):
        other.operator_store.union_state("l", StateSpec())


async def test_operator_state_is_cut_too(fresh: Any) -> None:
    state = fresh()
    elements = state.operator_store.list_state("l", StateSpec(list, copy=list.copy))
    elements.append([1])
    capture = state.capture(1)
    elements[0].append(2)
    elements.append([3])
    snapshot = await capture.encode()
    other = fresh()
    await other.restore([snapshot])
    assert other.operator_store.list_state("l", StateSpec()) == [[1]]
