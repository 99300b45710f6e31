"""The interval join through the operator harness: against brute force, its state, its restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core.elements import MAX_TIMESTAMP, Batch
from streamline._operators.join.keyed_interval import KeyedIntervalJoin
from streamline.testing import OperatorHarness, changelog


def key(record: Any) -> Any:
    return record[0]


KEYS = (key, key)


def pair(left: Any, right: Any, ctx: Any) -> Any:
    return (left[0], left[1], right[1])


def join(lower: int, upper: int, function: Any = pair) -> KeyedIntervalJoin:
    return KeyedIntervalJoin(function, KEYS, lower, upper)


def state_of(harness: OperatorHarness) -> dict[str, dict[Any, Any]]:
    return {n: dict(harness.task.state.store.table(n, s).data) for n, s in KeyedIntervalJoin.state.items()}


EMPTY: dict[str, dict[Any, Any]] = {"left": {}, "right": {}, "expiry": {}}
STEP = st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 40))


@given(
    steps=st.lists(STEP, max_size=30),
    marks=st.dictionaries(st.integers(0, 30), st.integers(0, 45), max_size=4),
    bounds=st.tuples(st.integers(-10, 10), st.integers(0, 15)),
)
async def test_pairs_are_those_that_comparing_everything_finds(
    steps: list[tuple[int, str, int]], marks: dict[int, int], bounds: tuple[int, int]
) -> None:
    lower, upper = bounds[0], bounds[0] + bounds[1]
    seen: tuple[list[Any], list[Any]] = ([], [])
    expected, highest = [], -1
    async with OperatorHarness(join(lower, upper), key=KEYS) as harness:
        for number, (side, k, t) in enumerate(steps):
            await harness.process_element((k, number), t, input=side)
            if highest < 0 or t >= highest:
                # A record stays until the watermark has reached the last time at which it can find a partner.
                stays = (max(upper, 0), max(-lower, 0))
                partners = [
                    p for p in seen[1 - side] if p[0] == k and (highest < 0 or p[2] + stays[1 - side] > highest)
                ]
                for partner in partners:
                    left, right = ((k, number, t), partner) if side == 0 else (partner, (k, number, t))
                    if lower <= right[2] - left[2] <= upper:
                        expected.append((k, left[1], right[1]))
                seen[side].append((k, number, t))
            if marks.get(number, -1) > highest:
                highest = marks[number]
                await harness.process_watermark(highest)
        assert sorted(harness.extract_values()) == sorted(expected)
        await harness.process_watermark(MAX_TIMESTAMP)
        assert state_of(harness) == EMPTY


async def test_state_is_forgotten_by_time_and_not_by_being_asked_for() -> None:
    async with OperatorHarness(join(-60, 60), key=KEYS) as harness:
        await harness.send(Batch([(k, k) for k in range(1000)], [k % 50 for k in range(1000)]))
        assert len(state_of(harness)["left"]) == 1000
        await harness.process_watermark(50 + 60 + 30)  # at most a quarter of the interval later
        assert state_of(harness) == EMPTY


async def test_late_records_are_dropped_and_counted() -> None:
    async with OperatorHarness(join(0, 10), key=KEYS) as harness:
        await harness.process_watermark(20)
        await harness.process_element(("a", 1), 19)
        await harness.process_element(("a", 2), 20)
        await harness.process_element(("a", 3), 25, input=1)
        assert harness.extract_values() == [("a", 2, 3)]
        assert harness.task.metrics.counter("numLateRecordsDropped").get_count() == 1


async def test_results_have_the_later_timestamp() -> None:
    async with OperatorHarness(join(-5, 5), key=KEYS) as harness:
        await harness.process_element1(("a", 1), 10)
        await harness.process_element2(("a", 2), 7)
        await harness.process_element2(("a", 3), 12)
        assert harness.output_text(timestamps=True) == "+I a 1 2 @ 10 | +I a 1 3 @ 12"


async def many(left: Any, right: Any, ctx: Any) -> Any:
    yield left[1]
    yield right[1]


async def awaited(left: Any, right: Any, ctx: Any) -> Any:
    return [left[1], right[1]]


def yielded(left: Any, right: Any, ctx: Any) -> Iterator[Any]:
    yield left[1]
    yield right[1]


@pytest.mark.parametrize("function", [many, awaited, yielded, lambda a, b, ctx: [a[1], b[1]]])
async def test_every_kind_of_function(function: Any) -> None:
    async with OperatorHarness(join(0, 5, function), key=KEYS) as harness:
        await harness.process_element1(("a", 1), 10)
        await harness.process_element2(("a", 2), 12)
        assert harness.extract_values() == [1, 2]


async def test_it_goes_on_after_a_restore() -> None:
    async with OperatorHarness(join(-10, 10), key=KEYS) as harness:
        await harness.send(*changelog("a 1 @ 10 | b 2 @ 12"))
        await harness.send(*changelog("c 3 @ 11"), input=1)
        snapshot = await harness.snapshot()
    async with OperatorHarness(join(-10, 10), key=KEYS, restore=snapshot) as harness:
        await harness.send(*changelog("a 4 @ 20"), input=1)
        await harness.send(*changelog("c 5 @ 21"))
        assert harness.extract_values() == [("a", 1, 4), ("c", 5, 3)]
        await harness.process_watermark(MAX_TIMESTAMP)
        assert state_of(harness) == EMPTY
