"""Timestamps and watermarks in the middle of a stream."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from streamline import ValidationException, WatermarkStrategy
from streamline._core.elements import Batch
from streamline._operators.assign_watermarks import AssignWatermarks
from streamline._operators.timestamps import AssignTimestamps
from streamline.functions import TimestampAssigner, WatermarkGenerator
from streamline.testing import OperatorHarness, changelog


def second(record: Any, _: int | None = None) -> int:
    return record[1]


def bounded(delay: int) -> WatermarkStrategy[Any]:
    return WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_assigner(second)


def operator(strategy: WatermarkStrategy[Any], interval: int = 200) -> AssignTimestamps:
    return AssignTimestamps(strategy, lambda: interval)


async def test_periodic_watermarks_are_the_newest_less_the_bound_less_one() -> None:
    async with OperatorHarness(operator(bounded(5))) as harness:
        await harness.advance(200)
        assert harness.output_text() == "", "none before the first record"
        await harness.send(*changelog("a 10 | b 7 | c 12"))
        assert harness.output_text(timestamps=True) == "+I a 10 @ 10 | +I b 7 @ 7 | +I c 12 @ 12"
        await harness.advance(199)
        assert harness.output_text() == ""
        await harness.advance(1)
        assert harness.output_text() == "~ 6"
        await harness.send(*changelog("d 8"))
        await harness.advance(400)
        assert harness.output_text() == "+I d 8", "they never go back, and are not repeated"


async def test_monotonous_timestamps_are_a_bound_of_zero() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(second)
    async with OperatorHarness(operator(strategy)) as harness:
        await harness.send(*changelog("a 10"))
        await harness.advance(200)
        assert harness.output_text() == "+I a 10 | ~ 9"


async def test_no_watermarks_but_the_last_one() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(second)
    async with OperatorHarness(operator(strategy)) as harness:
        await harness.send(*changelog("a 10 | ~ 5"))
        await harness.advance(1000)
        await harness.send(*changelog("~ max"))
        assert harness.output_text(timestamps=True) == "+I a 10 @ 10 | ~ max"


async def test_watermarks_from_above_are_dropped_save_the_last() -> None:
    async with OperatorHarness(operator(bounded(0))) as harness:
        await harness.send(*changelog("~ 3 | a 10 | ~ 100 | idle | active | ~ max"))
        assert harness.output_text() == "+I a 10 | ~ max"


async def test_on_event_watermarks_stand_right_behind_the_record_that_advances_them() -> None:
    async with OperatorHarness(operator(bounded(0).with_emit_on_event())) as harness:
        await harness.send(Batch([("a", 10), ("b", 8), ("c", 12)]))
        assert harness.output_text() == "+I a 10 | ~ 9 | +I b 8 | +I c 12 | ~ 11"


class Punctuated(WatermarkGenerator):
    def on_event(self, value: Any, timestamp: int) -> int | None:
        return timestamp if value[0] == "mark" else None


class Periodic(WatermarkGenerator):
    def __init__(self) -> None:
        self.count = 0

    def on_event(self, value: Any, timestamp: int) -> None:
        self.count += 1

    def on_periodic(self) -> int | None:
        return self.count * 100 if self.count else None


async def test_generators_of_the_users_own() -> None:
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(second)
    async with OperatorHarness(operator(strategy)) as harness:
        await harness.send(Batch([("a", 10), ("mark", 8), ("c", 12), ("mark", 5)]))
        assert harness.output_text() == "+I a 10 | +I mark 8 | ~ 8 | +I c 12 | +I mark 5"
    strategy = WatermarkStrategy.for_generator(Periodic).with_timestamp_assigner(second)
    async with OperatorHarness(operator(strategy)) as harness:
        await harness.send(*changelog("a 1 | b 2"))
        await harness.advance(200)
        assert harness.output_text() == "+I a 1 | +I b 2 | ~ 200"


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> Any:
        return value[1] + (record_timestamp or 0)


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (lambda r: r[1], 10),
        (lambda r, before: before + 1, 8),
        (Assigner(), 17),
        (lambda r: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=r[1]), 10),
        (None, 7),
    ],
)
async def test_assigners(assigner: Any, expected: int) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if assigner is not None:
        strategy = strategy.with_timestamp_assigner(assigner)
    async with OperatorHarness(operator(strategy)) as harness:
        await harness.process_element(("a", 10), 7)
        assert harness.output_text(timestamps=True) == f"+I a 10 @ {expected}"


@pytest.mark.parametrize("bad", [dt.datetime(2024, 1, 1), "10", None, 1.5])
async def test_what_is_no_instant_is_refused_with_the_record(bad: Any) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r: bad)
    with pytest.raises(ValidationException, match=r"record: \('a', 10\)"):
        async with OperatorHarness(operator(strategy)) as harness:
            await harness.process_element(("a", 10))


async def test_a_silent_stream_becomes_idle_and_active_again() -> None:
    async with OperatorHarness(operator(bounded(0).with_idleness("1 s"))) as harness:
        await harness.send(*changelog("a 10"))
        await harness.advance(600)
        assert harness.output_text() == "+I a 10 | ~ 9"
        await harness.send(*changelog("b 20"))
        await harness.advance(999)
        assert harness.output_text() == "+I b 20 | ~ 19"
        await harness.advance(1)
        assert harness.output_text() == "idle"
        await harness.advance(5000)
        assert harness.output_text() == "", "said once"
        await harness.send(*changelog("c 30"))
        assert harness.output_text() == "active | +I c 30"
        await harness.advance(1000)
        assert harness.output_text() == "~ 29 | idle"
        await harness.send(*changelog("~ max"))
        assert harness.output_text() == "active | ~ max"


async def test_an_interval_of_zero_makes_no_periodic_watermarks() -> None:
    async with OperatorHarness(operator(bounded(0), 0)) as harness:
        await harness.send(*changelog("a 10"))
        await harness.advance(10_000)
        assert harness.output_text() == "+I a 10"


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 1)])
async def test_a_watermark_that_was_due_at_the_checkpoint_comes_after_a_restore(before: int, after: int) -> None:
    """Nothing need follow: the records that moved it are in the checkpoint and do not come again."""
    snapshots = []
    for subtask in range(before):
        async with OperatorHarness(operator(bounded(5)), subtask=subtask, parallelism=before) as harness:
            await harness.send(*changelog(f"a {100 + subtask}"))
            snapshots.append(await harness.snapshot())
    async with OperatorHarness(operator(bounded(5)), restore=snapshots, parallelism=after) as harness:
        await harness.advance(200)
        assert harness.output_text() == "~ 94"
        await harness.send(*changelog("b 90"))
        await harness.advance(1000)
        assert harness.output_text() == "+I b 90", "a late record moves nothing"


async def test_what_was_told_before_a_restore_is_not_told_again() -> None:
    async with OperatorHarness(operator(bounded(5))) as harness:
        await harness.send(*changelog("a 100"))
        await harness.advance(200)
        assert harness.output_text() == "+I a 100 | ~ 94"
        snapshot = await harness.snapshot()
    for strategy in (bounded(5), bounded(5).with_emit_on_event()):
        async with OperatorHarness(operator(strategy), restore=snapshot) as harness:
            assert harness.output_text() == "~ 94", "consumers have to know"
            await harness.send(*changelog("b 95"))
            await harness.advance(1000)
            assert harness.output_text() == "+I b 95"


@pytest.mark.parametrize("on_event", [False, True])
async def test_a_watermark_of_sql_that_was_due_at_the_checkpoint_comes_after_a_restore(on_event: bool) -> None:
    def make(now: Any) -> Any:
        if not on_event:
            return lambda batch: max(v[1] for v in batch.values)

        def cuts(batch: Batch, watermark: int) -> list[tuple[int, int]]:
            found = []
            for i, value in enumerate(batch.values):
                if value[1] > watermark:
                    watermark = value[1]
                    found.append((i, watermark))
            return found

        return cuts

    def assigner() -> AssignWatermarks:
        return AssignWatermarks(make, on_event, 200)

    async with OperatorHarness(assigner()) as harness:
        await harness.send(*changelog("a 100"))
        assert harness.output_text() == ("+I a 100 | ~ 100" if on_event else "+I a 100")
        snapshot = await harness.snapshot()
    async with OperatorHarness(assigner(), restore=snapshot) as harness:
        await harness.advance(200)
        assert harness.output_text() == "~ 100"
        await harness.send(*changelog("b 90 | c 100"))
        await harness.advance(1000)
        assert harness.output_text() == "+I b 90 | +I c 100"
        await harness.send(*changelog("d 110"))
        await harness.advance(200)
        assert harness.output_text() == "+I d 110 | ~ 110"
