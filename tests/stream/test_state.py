"""State by its kinds, as functions use it: what it holds and starts as, what it refuses, how it is restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, ValidationException
from streamline._core.elements import MAX_TIMESTAMP
from streamline._core.keys import KeyGroups, group_range
from streamline.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from streamline.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from streamline.testing import OperatorHarness, ScriptedSource, VirtualClock


class Average(AggregateFunction[int, list[int], float]):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [a + b for a, b in zip(acc_a, acc_b)]


Opened = Callable[[Any], Any]


class Uses(KeyedProcessFunction[str, Any, Any]):
    """Opens one state, and does with it for each record (key, what to do) what that says."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = self.opened(runtime_context)

    def process_element(self, value: Any, ctx: Any) -> Any:
        done = value[1](self.state)
        yield (value[0], done)


def operator(function: Any) -> Any:
    stream = StreamExecutionEnvironment.get_execution_environment().from_source(ScriptedSource("a"))
    node = stream.key_by(lambda r: r[0]).process(function).node
    assert node.operator is not None
    return node.operator()


def keyed(opened: Opened, **options: Any) -> OperatorHarness:
    return OperatorHarness(operator(Uses(opened)), key=lambda r: r[0], **options)


async def done(harness: OperatorHarness, key: str, what: Callable[[Any], Any]) -> Any:
    await harness.process_element((key, what))
    ((k, result),) = harness.extract_values()
    assert k == key
    return result


async def restored(opened: Opened, snapshot: Any, read: Callable[[Any], Any]) -> dict[str, Any]:
    """What the keys a to h have after a restore in two subtasks."""
    found = {}
    for subtask in (0, 1):
        async with keyed(opened, restore=snapshot, subtask=subtask, parallelism=2) as harness:
            for key in "abcdefgh":
                if KeyGroups(128).of(key) in group_range(128, 2, subtask):
                    found[key] = await done(harness, key, read)
    return found


# -- of a key --------------------------------------------------------------------------------------------------------


async def test_value_state() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_state(ValueStateDescriptor("v", int))

    async with keyed(opened) as h:
        assert await done(h, "a", lambda s: s.value()) is None
        await done(h, "a", lambda s: s.update(1))
        await done(h, "b", lambda s: s.update(2))
        assert await done(h, "a", lambda s: s.value()) == 1
        snapshot = await h.snapshot()
        await done(h, "b", lambda s: s.clear())
        assert [await done(h, k, lambda s: s.value()) for k in "abc"] == [1, None, None]
        await done(h, "a", lambda s: s.update(None))
        assert await done(h, "a", lambda s: s.value()) is None
    found = await restored(opened, snapshot, lambda s: s.value())
    assert found == {**dict.fromkeys("abcdefgh"), "a": 1, "b": 2}


async def test_list_state() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_list_state(ListStateDescriptor("l", int))

    async with keyed(opened) as h:
        assert await done(h, "a", lambda s: s.get()) == []
        await done(h, "a", lambda s: s.add(1))
        await done(h, "a", lambda s: s.add_all([2, 3]))
        await done(h, "b", lambda s: s.update([9]))
        assert await done(h, "a", list) == [1, 2, 3]
        snapshot = await h.snapshot()
        await done(h, "a", lambda s: s.update([4]))
        await done(h, "b", lambda s: s.clear())
        assert [await done(h, k, lambda s: s.get()) for k in "ab"] == [[4], []]
    found = await restored(opened, snapshot, lambda s: s.get())
    assert {k: v for k, v in found.items() if v} == {"a": [1, 2, 3], "b": [9]}


async def test_map_state() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_map_state(MapStateDescriptor("m", str, int))

    async with keyed(opened) as h:
        assert await done(h, "a", lambda s: (s.is_empty(), s.get("x"), s.contains("x"))) == (True, None, False)
        await done(h, "a", lambda s: s.put("x", 1))
        await done(h, "a", lambda s: s.put_all({"y": 2, "z": 3}))
        await done(h, "b", lambda s: s.put("x", 9))
        snapshot = await h.snapshot()
        await done(h, "a", lambda s: s.remove("y"))
        await done(h, "a", lambda s: s.remove("never"))
        assert await done(h, "a", lambda s: (dict(s.items()), list(s.keys()), list(s.values()))) == (
            {"x": 1, "z": 3}, ["x", "z"], [1, 3],
        )  # fmt: skip
        assert await done(h, "b", lambda s: (s.contains("x"), s["x"], len(s))) == (True, 9, 1)
        await done(h, "b", lambda s: s.clear())
        assert await done(h, "b", lambda s: s.is_empty()) is True
    found = await restored(opened, snapshot, lambda s: dict(s.items()))
    assert {k: v for k, v in found.items() if v} == {"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 9}}


async def test_reducing_state() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_reducing_state(ReducingStateDescriptor("r", lambda a, b: a * 10 + b, int))

    async with keyed(opened) as h:
        assert await done(h, "a", lambda s: s.get()) is None
        for n in (1, 2, 3):
            await done(h, "a", lambda s, n=n: s.add(n))
        await done(h, "b", lambda s: s.add(7))
        assert [await done(h, k, lambda s: s.get()) for k in "ab"] == [123, 7]
        snapshot = await h.snapshot()
        await done(h, "a", lambda s: s.clear())
        assert await done(h, "a", lambda s: s.get()) is None
    found = await restored(opened, snapshot, lambda s: s.get())
    assert {k: v for k, v in found.items() if v} == {"a": 123, "b": 7}


async def test_aggregating_state() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_aggregating_state(AggregatingStateDescriptor("g", Average(), list[int]))

    async with keyed(opened) as h:
        assert await done(h, "a", lambda s: s.get()) is None
        for n in (1, 2, 6):
            await done(h, "a", lambda s, n=n: s.add(n))
        await done(h, "b", lambda s: s.add(7))
        assert [await done(h, k, lambda s: s.get()) for k in "ab"] == [3.0, 7.0]
        snapshot = await h.snapshot()
        await done(h, "a", lambda s: s.clear())
        assert await done(h, "a", lambda s: s.get()) is None
    found = await restored(opened, snapshot, lambda s: s.get())
    assert {k: v for k, v in found.items() if v} == {"a": 3.0, "b": 7.0}


KINDS: list[tuple[str, Any]] = [
    ("get_state", ValueStateDescriptor("n", int)),
    ("get_list_state", ListStateDescriptor("n", int)),
    ("get_map_state", MapStateDescriptor("n", str, int)),
    ("get_reducing_state", ReducingStateDescriptor("n", lambda a, b: a + b, int)),
    ("get_aggregating_state", AggregatingStateDescriptor("n", Average(), list[int])),
]
EACH = pytest.mark.parametrize(("method", "descriptor"), KINDS, ids=[m for m, _ in KINDS])
READ = {"get_state": "value", "get_map_state": "keys"}


@EACH
async def test_two_states_of_one_operator_cannot_have_one_name(method: str, descriptor: Any) -> None:
    other = next((m, d) for m, d in KINDS if m != method)

    def opened(ctx: Any) -> Any:
        getattr(ctx, method)(descriptor)
        return getattr(ctx, other[0])(other[1])

    with pytest.raises(ValidationException, match="two states of 'process' are named 'n'"):
        async with keyed(opened):
            pass


@EACH
async def test_a_descriptor_of_another_kind_is_refused(method: str, descriptor: Any) -> None:
    other = next(m for m, _ in KINDS if m != method)
    with pytest.raises(ValidationException, match="'n' is declared as .* state, not as"):
        async with keyed(lambda ctx: getattr(ctx, other)(descriptor)):
            pass
    with pytest.raises(ValidationException, match="a state descriptor is needed"):
        async with keyed(lambda ctx: getattr(ctx, method)("n")):
            pass


@EACH
async def test_state_without_a_current_key_cannot_be_read(method: str, descriptor: Any) -> None:
    def opened(ctx: Any) -> Any:
        state = getattr(ctx, method)(descriptor)
        return getattr(state, READ.get(method, "get"))()

    with pytest.raises(LookupError, match="keyed state was used where there is no current key"):
        async with keyed(opened):
            pass


@EACH
async def test_state_of_a_key_needs_a_key(method: str, descriptor: Any) -> None:
    class Wrong(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            getattr(runtime_context, method)(descriptor)

        def map(self, value: int) -> int:
            return value

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_elements(1).map(Wrong()).name("no key")
    with pytest.raises(ValidationException, match=r"the input of 'no key' has none: use key_by\(\) before it"):
        await env.execute()


async def test_a_value_without_a_time_to_live_stays_for_ever() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        return ctx.get_state(ValueStateDescriptor("v", int))

    async with keyed(opened) as h:
        await done(h, "a", lambda s: s.update(1))
        await h.advance("3650 d")
        assert await done(h, "a", lambda s: s.value()) == 1


async def test_time_to_live_follows_processing_time_and_not_event_time() -> None:
    def opened(ctx: RuntimeContext) -> Any:
        descriptor: ValueStateDescriptor[int] = ValueStateDescriptor("v", int)
        descriptor.enable_time_to_live(StateTtlConfig.new_builder("1 s").build())
        return ctx.get_state(descriptor)

    async with keyed(opened) as h:
        await done(h, "a", lambda s: s.update(1))
        await h.process_watermark(MAX_TIMESTAMP - 1)
        await h.advance(999)
        assert await done(h, "a", lambda s: s.value()) == 1
        await h.advance(1)
        assert await done(h, "a", lambda s: s.value()) is None


async def test_the_running_value_of_reduce_stays_for_ever(virtual_clock: VirtualClock) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    node = env.from_elements(("a", 1)).key_by(lambda r: r[0]).reduce(lambda x, y: (x[0], x[1] + y[1])).node
    assert node.operator is not None
    async with OperatorHarness(node.operator(), key=lambda r: r[0]) as h:
        await h.process_element(("a", 1))
        await h.advance("3650 d")
        await h.process_element(("a", 2))
        assert h.extract_values() == [("a", 1), ("a", 3)]


# -- of a subtask ----------------------------------------------------------------------------------------------------


class Buffer(MapFunction[Any, Any], CheckpointedFunction):
    """Keeps what it has seen in operator state; answers "?" with what it has."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.restored = context.is_restored()
        if self.kind == "broadcast":
            self.held = store.get_broadcast_state(MapStateDescriptor("held", int, int))
        else:
            self.held = getattr(store, f"get_{self.kind}_state")(ListStateDescriptor("held", int))

    def map(self, value: Any) -> Any:
        if value == "?":
            return (self.restored, list(self.held))
        if self.kind == "broadcast":
            self.held[value] = value
        else:
            self.held.append(value)
        return None


def buffer(kind: str, **options: Any) -> OperatorHarness:
    stream = StreamExecutionEnvironment.get_execution_environment().from_elements(1).map(Buffer(kind))
    assert stream.node.operator is not None
    return OperatorHarness(stream.node.operator(), **options)


async def rescaled(kind: str, parallelism: int) -> list[Any]:
    """What each of so many subtasks has, of two that had [1, 2, 3] and [4, 5] ([1, 2, 3] both, if broadcast)."""
    snapshots = []
    for subtask, values in enumerate([(1, 2, 3), (1, 2, 3) if kind == "broadcast" else (4, 5)]):
        async with buffer(kind, subtask=subtask, parallelism=2) as h:
            for value in values:
                await h.process_element(value)
            snapshots.append(await h.snapshot())
    found = []
    for subtask in range(parallelism):
        async with buffer(kind, subtask=subtask, parallelism=parallelism, restore=snapshots) as h:
            await h.process_element("?")
            found += h.extract_values()
    assert all(was_restored for was_restored, _ in found)
    return [held for _, held in found]


async def test_list_state_of_an_operator_is_split_evenly() -> None:
    assert await rescaled("list", 1) == [[1, 2, 3, 4, 5]]
    assert await rescaled("list", 2) == [[1, 2, 3], [4, 5]]
    shares = await rescaled("list", 3)
    assert sorted(map(len, shares)) == [1, 2, 2] and [v for share in shares for v in share] == [1, 2, 3, 4, 5]


async def test_union_list_state_of_an_operator_is_all_in_every_subtask() -> None:
    for parallelism in (1, 3):
        assert [sorted(held) for held in await rescaled("union_list", parallelism)] == [[1, 2, 3, 4, 5]] * parallelism


async def test_broadcast_state_of_an_operator_is_the_same_in_every_subtask() -> None:
    for parallelism in (1, 3):
        assert await rescaled("broadcast", parallelism) == [[1, 2, 3]] * parallelism


async def test_operator_state_is_empty_at_first() -> None:
    for kind in ("list", "union_list", "broadcast"):
        async with buffer(kind) as h:
            await h.process_element("?")
            assert h.extract_values() == [(False, [])]


class Rules(BroadcastProcessFunction[str, int, Any]):
    rules: MapStateDescriptor[int, int] = MapStateDescriptor("rules", int, int)

    def process_element(self, value: str, ctx: Any) -> Any:
        yield sorted(ctx.get_broadcast_state(self.rules).keys())

    def process_broadcast_element(self, value: int, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.rules).put(value, value)


async def test_broadcast_state_is_saved_by_every_subtask_and_restored_in_new_ones() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    data, rules = env.from_elements("a"), env.from_elements(1).broadcast(Rules.rules)
    node = data.connect(rules).process(Rules()).node
    assert node.operator is not None
    snapshots = []
    for subtask in (0, 1):
        async with OperatorHarness(node.operator(), subtask=subtask, parallelism=2) as h:
            await h.process_element2(1)
            await h.process_element2(2)
            snapshots.append(await h.snapshot())
    for subtask in range(3):
        async with OperatorHarness(node.operator(), subtask=subtask, parallelism=3, restore=snapshots) as h:
            await h.process_element1("a")
            assert h.extract_values() == [[1, 2]]
