"""Time to live: when entries expire, what renews them, who still sees them, and that they go away by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamline._core.declare import StateSpec, TtlSpec
from streamline.errors import ValidationException
from streamline.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from streamline.testing import VirtualClock


class Bench:
    def __init__(self, fresh: Any, descriptor: Any, config: StateTtlConfig) -> None:
        self.clock = VirtualClock(0, autojump=False)
        self.state = fresh(clock=self.clock)
        descriptor.enable_time_to_live(config)
        self.descriptor = descriptor
        self.handle = self.state.store.handle(descriptor.name, descriptor.spec)
        self.state.store.key = "k"

    def at(self, millis: int) -> Any:
        self.clock.set_time(millis)
        for _ in range(8):
            self.state.maintain()
        return self.handle

    def raw(self) -> Any:
        return dict(self.state.store._tables[self.descriptor.name].data.items())


def second() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(timedelta(seconds=1))


def test_builder_has_flinks_defaults() -> None:
    config = second().build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl() == timedelta(seconds=1)
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    assert not second().set_update_type(StateTtlConfig.UpdateType.Disabled).build().is_enabled()
    with pytest.raises(ValidationException, match="positive"):
        StateTtlConfig.new_builder(0).build()
    with pytest.raises(ValidationException, match="takes a StateTtlConfig"):
        ValueStateDescriptor("x").enable_time_to_live(5)  # type: ignore[arg-type]


def test_a_value_expires_when_its_time_has_passed(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().build())
    b.handle.update(5)
    assert b.at(999).value() == 5
    assert b.at(1000).value() is None  # written at 0, lives 1000 ms
    assert b.raw() == {}


def test_writing_renews_and_reading_does_not(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().build())
    b.handle.update(5)
    b.at(900).update(6)
    assert b.at(1800).value() == 6
    assert b.at(1900).value() is None


def test_reading_renews_where_asked(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().update_ttl_on_read_and_write().build())
    b.handle.update(5)
    for t in (900, 1800, 2700):
        assert b.at(t).value() == 5
    assert b.at(3700).value() is None


def test_expired_values_are_seen_once_where_asked(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().return_expired_if_not_cleaned_up().build())
    b.handle.update(5)
    assert b.at(5000).value() == 5
    assert b.handle.value() is None  # the first read has removed it


def test_disabled_means_for_ever(fresh: Any) -> None:
    config = second().set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    b = Bench(fresh, ValueStateDescriptor("v", int), config)
    b.handle.update(5)
    assert b.at(10**9).value() == 5


def test_list_elements_expire_one_by_one(fresh: Any) -> None:
    b = Bench(fresh, ListStateDescriptor("l", int), second().build())
    b.handle.add(1)
    b.at(500).add_all([2, 3])
    assert b.at(999).get() == [1, 2, 3]
    assert b.at(1000).get() == [2, 3]
    b.at(1200).add(4)
    assert b.at(1500).get() == [4]
    assert b.at(2200).get() == []
    assert b.raw() == {}
    b.handle.update([7])
    assert b.at(3000).get() == [7]


def test_list_renewed_by_reading_as_a_whole(fresh: Any) -> None:
    b = Bench(fresh, ListStateDescriptor("l", int), second().update_ttl_on_read_and_write().build())
    b.handle.add(1)
    b.at(500).add(2)
    assert b.at(900).get() == [1, 2]
    assert b.at(1899).get() == [1, 2]
    assert b.at(2900).get() == []


def test_map_entries_expire_one_by_one(fresh: Any) -> None:
    b = Bench(fresh, MapStateDescriptor("m", str, int), second().build())
    b.handle.put("a", 1)
    b.at(500).put_all({"b": 2})
    assert b.at(999).get("a") == 1
    assert b.at(1000).get("a") is None
    assert b.handle.items() == [("b", 2)] and b.handle.keys() == ["b"] and b.handle.values() == [2]
    assert len(b.handle) == 1 and "b" in b.handle and b.handle["b"] == 2 and not b.handle.contains("a")
    assert b.at(1500).is_empty()
    assert b.raw() == {}


def test_map_entries_renewed_by_reading_them(fresh: Any) -> None:
    b = Bench(fresh, MapStateDescriptor("m", str, int), second().update_ttl_on_read_and_write().build())
    b.handle.put_all({"a": 1, "b": 2})
    assert b.at(900).get("a") == 1
    assert b.at(1000).items() == [("a", 1)]


def test_reducing_starts_anew_after_expiry(fresh: Any) -> None:
    b = Bench(fresh, ReducingStateDescriptor("r", lambda x, y: x + y, int), second().build())
    b.handle.add(1)
    b.at(500).add(2)
    assert b.handle.get() == 3
    b.at(1500).add(10)
    assert b.handle.get() == 10


def test_other_keys_are_cleaned_in_passing(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().build())
    for key in range(1000):
        b.state.store.key = key
        b.handle.update(key)
    b.at(1000)
    b.state.store.key = "other"
    for _ in range(250):
        b.handle.update(1)
    assert list(b.raw()) == ["other"]


def test_hot_keys_are_queued_once(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().build())
    for t in range(5000):
        b.at(t).update(t)
    assert b.handle.value() == 4999
    assert len(b.state.store._expiring["v"]._queue) == (1 if fresh.kind == "hashmap" else 0)
    assert b.at(5999).value() is None


def test_without_background_cleanup_only_what_is_met_goes(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().disable_cleanup_in_background().build())
    for key in range(10):
        b.state.store.key = key
        b.handle.update(key)
    b.at(2000)
    assert b.handle.value() is None
    assert len(b.raw()) == 9


def test_tables_of_operators_expire_too(fresh: Any) -> None:
    clock = VirtualClock(0, autojump=False)
    state = fresh(clock=clock)
    table = state.store.table("t", StateSpec(list, ttl=TtlSpec(1000)))
    table.data["a"] = [1]
    clock.set_time(500)
    table.data["b"] = [2]
    assert dict(table.data) == {"a": [1], "b": [2]} and len(table.data) == 2
    clock.set_time(1000)
    assert list(table.data) == ["b"] == list(state.store.keys("t"))
    assert "a" not in table.data and table.data.get("a") is None and table.data.pop("a", 9) == 9
    with pytest.raises(KeyError):
        table.data["a"]
    del table.data["b"]
    assert not table.data
    with pytest.raises(ValidationException, match="use handles"):
        state.store.table("x", StateSpec(namespaced=True, ttl=TtlSpec(1)))


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing"])
def test_windows_expire(fresh: Any, kind: Any) -> None:
    clock = VirtualClock(0, autojump=False)
    state = fresh(clock=clock)
    spec = StateSpec(kind=kind, ttl=TtlSpec(1000), reduce=lambda a, b: a + b)
    of = state.store.window_handle("w", spec)
    state.store.key = "k"

    def write(window: str, v: int) -> None:
        h = of(window)
        {"value": lambda: h.update(v), "map": lambda: h.put(v, v)}.get(kind, lambda: h.add(v))()

    def read(window: str) -> Any:
        h = of(window)
        return {"value": lambda: h.value(), "map": lambda: dict(h.items())}.get(kind, lambda: h.get())()

    write("w1", 1)
    clock.set_time(600)
    write("w2", 2)
    assert read("w1") == {"value": 1, "list": [1], "map": {1: 1}, "reducing": 1}[kind]
    clock.set_time(1100)
    assert not read("w1") and read("w2")
    if kind in ("list", "reducing"):
        of.merge("w3", ["w2"])
        assert read("w3") and not read("w2")
    clock.set_time(9000)
    for _ in range(5):
        read("w9")
        write("w4", 1)
    state.store._expiring["w"].clean(9000, 100)
    assert set(state.store._tables["w"].data) == {"w4"}


async def test_expired_entries_stay_out_of_snapshots_where_asked(fresh: Any) -> None:
    for config, expected in ((second().build(), ["a", "b"]), (second().cleanup_full_snapshot().build(), ["b"])):
        b = Bench(fresh, ValueStateDescriptor("v", int), config)
        b.state.store.key = "a"
        b.handle.update(1)
        b.at(600)
        b.state.store.key = "b"
        b.handle.update(2)
        b.at(1000)
        snapshot = await b.state.capture(1).encode()
        again = fresh(clock=b.clock)
        await again.restore([snapshot])
        assert list(again.store._tables["v"].data) == expected
        # Time went on while the job was down, and counts.
        handle = again.store.handle("v", b.descriptor.spec)
        again.store.key = "a"
        assert handle.value() is None
        again.store.key = "b"
        assert handle.value() == 2


@pytest.mark.parametrize(
    ("descriptor", "write", "read"),
    [
        (ValueStateDescriptor, lambda h: h.update(1), lambda h: h.value()),
        (ListStateDescriptor, lambda h: h.add(1), lambda h: h.get()),
        (MapStateDescriptor, lambda h: h.put(1, 1), lambda h: h.items()),
    ],
)
async def test_a_time_to_live_may_be_added_and_taken_away(fresh: Any, descriptor: Any, write: Any, read: Any) -> None:
    clock = VirtualClock(0, autojump=False)
    first = fresh(clock=clock)
    first.store.key = "k"
    h = first.store.handle("s", descriptor("s").spec)
    write(h)
    before = read(h)
    snapshot = await first.capture(1).encode()

    clock.set_time(10_000)
    second_ = fresh(clock=clock)
    await second_.restore([snapshot])
    expiring = descriptor("s")
    expiring.enable_time_to_live(second().build())
    h = second_.store.handle("s", expiring.spec)
    second_.store.key = "k"
    clock.set_time(10_999)
    assert read(h) == before  # counted from the restore
    snapshot = await second_.capture(2).encode()
    clock.set_time(11_000)
    assert not read(h)

    third = fresh(clock=clock)
    await third.restore([snapshot])
    h = third.store.handle("s", descriptor("s").spec)
    third.store.key = "k"
    assert read(h) == before


async def test_what_was_restored_is_cleaned_too(fresh: Any) -> None:
    b = Bench(fresh, ValueStateDescriptor("v", int), second().build())
    for key in range(100):
        b.state.store.key = key
        b.handle.update(1)
    again = fresh(clock=b.clock)
    await again.restore([await b.state.capture(1).encode()])
    handle = again.store.handle("v", b.descriptor.spec)
    b.clock.set_time(5000)
    again.store.key = "x"
    for _ in range(50):
        handle.update(1)
    assert list(again.store._tables["v"].data) == ["x"]
