"""The declared type of state may become wider; where what was written does not fit it any more, that is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from streamline._state.subtask import SubtaskState
from streamline.errors import StateMigrationException
from streamline.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests._state.backends import Backends


class Struct(msgspec.Struct):
    a: int


@dataclass
class Data:
    a: int


class Named(NamedTuple):
    a: int


def handle(state: SubtaskState, descriptor: Any, key: Any = "k") -> Any:
    state.store.key = key
    return state.store.handle(descriptor.name, descriptor.spec)


async def moved(fresh: Backends, state: SubtaskState) -> SubtaskState:
    """As it is after a restore."""
    snapshot = await state.capture(1).encode()
    after = fresh()
    await after.restore([snapshot])
    return after


async def restored(fresh: Backends, before: Any, after: Any, value: Any) -> Any:
    """What value state reads as that was written under another type."""
    first = fresh()
    handle(first, ValueStateDescriptor("s", before)).update(value)
    return handle(await moved(fresh, first), ValueStateDescriptor("s", after)).value()


@pytest.mark.parametrize(
    ("before", "after", "value", "said"),
    [
        (int, str, 5, "int and is declared as str now"),
        (str, int, "5", "str and is declared as int now"),
        (float, int, 1.5, "float and is declared as int now"),
        (bytes, str, b"x", "bytes and is declared as str now"),
        (str, bytes, "abcd", "str and is declared as bytes now"),
        (int, Struct, 5, "int and is declared as Struct now"),
        (Struct, Data, Struct(1), "Struct and is declared as Data now"),
        (list[int], list[str], [1], r"list\[int\] and is declared as list\[str\] now"),
        (dict[str, int], dict[str, str], {"a": 1}, r"dict\[str, int\] and is declared as dict\[str, str\] now"),
        (int | None, str | None, 5, r"int \| None and is declared as str \| None now"),
    ],
)
async def test_another_type_is_refused(fresh: Backends, before: Any, after: Any, value: Any, said: str) -> None:
    with pytest.raises(StateMigrationException, match=f"state 's' was written as {said}"):
        await restored(fresh, before, after, value)


@pytest.mark.parametrize(
    ("before", "after", "value", "found"),
    [
        (int, float, 5, 5.0),
        (bool, int, True, True),
        (int, int | None, 5, 5),
        (int, int | str, 5, 5),
        (int | None, int, 5, 5),
        (Struct, Struct | None, Struct(1), Struct(1)),
        (Data, Data | None, Data(1), Data(1)),
        (Named, Named | None, Named(1), Named(1)),
        (list[int], list[float], [1], [1.0]),
        (list[int], list[Any], [1], [1]),
        (list[int], list, [1], [1]),
        (list[Data], list[Data | None], [Data(1)], [Data(1)]),
        (int, Any, 5, 5),
        (Any, str, 5, 5),
        (None, str, 5, 5),
        (int, object, 5, 5),
    ],
)
async def test_a_wider_type_takes_what_was_written(
    fresh: Backends, before: Any, after: Any, value: Any, found: Any
) -> None:
    got = await restored(fresh, before, after, value)
    assert got == found and type(got) is type(found)
    if isinstance(found, list):
        assert list(map(type, got)) == list(map(type, found))


async def test_each_kind_of_state_is_looked_at(fresh: Backends) -> None:
    first = fresh()
    handle(first, ListStateDescriptor("list", int)).update([1, 2])
    handle(first, MapStateDescriptor("map", str, int)).put("a", 1)
    handle(first, ReducingStateDescriptor("sum", max, int)).add(1)

    class Count:
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Any, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: Any) -> Any:
            return accumulator

    handle(first, AggregatingStateDescriptor("count", Count(), int)).add("x")
    for other, said in [
        (ListStateDescriptor("list", str), "state 'list' was written as int and is declared as str now"),
        (MapStateDescriptor("map", str, str), "state 'map' was written as int and is declared as str now"),
        (MapStateDescriptor("map", int, int), "state 'map': the key of its map was written as str and is .* as int"),
        (ReducingStateDescriptor("sum", max, str), "state 'sum' was written as int and is declared as str now"),
        (AggregatingStateDescriptor("count", Count(), str), "state 'count' was written as int and is .* as str"),
    ]:
        after = await moved(fresh, first)
        with pytest.raises(StateMigrationException, match=said):
            handle(after, other)
    after = await moved(fresh, first)
    assert list(handle(after, ListStateDescriptor("list", float)).get()) == [1.0, 2.0]
    assert handle(after, MapStateDescriptor("map", str, float)).items() == [("a", 1.0)]


async def test_values_with_a_time_to_live(fresh: Backends) -> None:
    def kept(kind: Any) -> Any:
        made = ValueStateDescriptor("s", kind)
        made.enable_time_to_live(StateTtlConfig.new_builder("1 h").build())
        return made

    first = fresh()
    handle(first, kept(int)).update(5)
    with pytest.raises(StateMigrationException, match="'s' was written as int and is declared as str now"):
        handle(await moved(fresh, first), kept(str))
    assert handle(await moved(fresh, first), kept(float)).value() == 5.0
    with pytest.raises(StateMigrationException, match="'s' was written as int and is declared as str now"):
        handle(await moved(fresh, first), ValueStateDescriptor("s", str))


async def test_the_type_outlives_a_restore_that_does_not_ask_for_the_state(fresh: Backends) -> None:
    first = fresh()
    handle(first, ValueStateDescriptor("s", int)).update(5)
    again = await moved(fresh, await moved(fresh, first))
    with pytest.raises(StateMigrationException, match="'s' was written as int and is declared as str now"):
        handle(again, ValueStateDescriptor("s", str))


async def test_operator_state_is_looked_at(fresh: Backends) -> None:
    first = fresh()
    first.operator_store.list_state("l", ListStateDescriptor("l", int).spec).append(1)
    first.operator_store.broadcast_state("b", MapStateDescriptor("b", str, int).spec)["a"] = 1
    later = await moved(fresh, await moved(fresh, first))
    with pytest.raises(StateMigrationException, match="operator state 'l' was written as int and is declared as str"):
        later.operator_store.list_state("l", ListStateDescriptor("l", str).spec)
    with pytest.raises(StateMigrationException, match="operator state 'b' was written as int and is declared as str"):
        later.operator_store.broadcast_state("b", MapStateDescriptor("b", str, str).spec)
    wider = await moved(fresh, first)
    assert wider.operator_store.list_state("l", ListStateDescriptor("l", float).spec) == [1.0]
