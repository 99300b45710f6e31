from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from streamline._core.elements import Batch, Watermark
from streamline.abc import Operator, OperatorContext, Output, StateSpec, Timer, TwoInputOperator
from streamline.errors import ValidationException
from streamline.testing import OperatorHarness, changelog_text

T0 = 1_704_067_200_000


class Doubled(Operator):
    name = "doubled"

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await out.send(Batch([v * 2 for v in batch.values], batch.timestamps, batch.kinds))
        await out.side("odd", Batch([v for v in batch.values if v % 2]))


class Counted(Operator):
    """A count per key, emitted by an event-time timer at the next full hundred; a processing-time timer forgets it."""

    name = "counted"
    state: ClassVar[Mapping[str, StateSpec]] = {"n": StateSpec(int, default=0)}

    async def open(self, ctx: OperatorContext) -> None:
        self.store = ctx.store
        self.n = ctx.store.handle("n", self.state["n"])
        self.clock = ctx.clock
        self.restored = ctx.restored

    async def on_batch(self, batch: Batch, out: Output) -> None:
        for i, (key, _) in enumerate(batch.values):
            self.store.key = key
            self.n.update(self.n.value() + 1)
            timestamp = batch.timestamps[i] if batch.timestamps else None
            if timestamp is not None:
                self.store.timers.register_event_time(key, timestamp // 100 * 100 + 100)
            else:
                self.store.timers.register_processing_time(key, self.clock.now() + 1000)

    async def on_event_timer(self, timer: Timer, out: Output) -> None:
        await out.send(Batch([(timer.key, self.n.value())], [timer.timestamp]))

    async def on_processing_timer(self, timer: Timer, out: Output) -> None:
        self.n.clear()
        await out.send(Batch([(timer.key, "forgotten")]))


class Tagged(TwoInputOperator):
    name = "tagged"

    async def on_batch1(self, batch: Batch, out: Output) -> None:
        await out.send(Batch([("left", v) for v in batch.values]))

    async def on_batch2(self, batch: Batch, out: Output) -> None:
        await out.send(Batch([("right", v) for v in batch.values]))


async def test_a_script_goes_in_and_a_text_comes_out() -> None:
    async with OperatorHarness(Doubled(), sides=["odd"]) as harness:
        assert await harness.run("1 @ 5 | -U 2, +U 3 | ~ 10 | # 1 | idle | active") == (
            "+I 2 | -U 4, +U 6 | ~ 10 | # 1 | idle | active"
        )
        harness.assert_output("")
        assert changelog_text(harness.extract_side_output("odd")) == "+I 1 | +I 3 | ~ 10 | # 1 | idle | active"
        with pytest.raises(ValidationException, match="nobody reads side output 'even'"):
            harness.extract_side_output("even")
        await harness.process_element(21, timestamp=7)
        assert harness.extract_output() == [Batch([42], [7])]


async def test_keyed_state_and_timers_in_event_time() -> None:
    async with OperatorHarness(Counted(), key=lambda r: r[0]) as harness:
        await harness.run("a x @ 5 | a y @ 10 | b z @ 120")
        harness.assert_output("")
        await harness.process_watermark(99)
        harness.assert_output("~ 99")
        await harness.process_watermark(200)
        harness.assert_output("a 2 @ 100 | b 1 @ 200 | ~ 200")


async def test_timers_in_processing_time_fire_at_their_instant() -> None:
    async with OperatorHarness(Counted(), key=lambda r: r[0]) as harness:
        await harness.process_element(("a", 1))
        await harness.advance(999)
        harness.assert_output("")
        await harness.set_processing_time(T0 + 1000)
        harness.assert_output("a forgotten")


async def test_two_inputs_have_one_watermark() -> None:
    async with OperatorHarness(Tagged()) as harness:
        await harness.process_element1(1)
        await harness.process_element2(2)
        await harness.process_watermark(10, input=0)
        harness.assert_output("left 1 | right 2")
        await harness.process_watermark(5, input=1)
        harness.assert_output("~ 5")
        await harness.process_idleness(input=1)
        harness.assert_output([Watermark(10)])
        await harness.process_idleness(False, input=1)
        await harness.end_input()
        harness.assert_output("end")


async def test_state_is_saved_and_restored_at_another_parallelism() -> None:
    async with OperatorHarness(Counted(), key=lambda r: r[0]) as harness:
        await harness.run("a x @ 5 | a y @ 6 | b z @ 7 | b z @ 7 | b z @ 7")
        snapshot = await harness.snapshot()
        await harness.run("a after @ 8")
    outputs = []
    for subtask in range(2):
        restored = OperatorHarness(Counted(), key=lambda r: r[0], restore=snapshot, subtask=subtask, parallelism=2)
        async with restored:
            assert restored.operator.restored  # type: ignore[attr-defined]
            await restored.process_watermark(100)
            outputs += restored.extract_values()
    assert sorted(outputs) == [("a", 2), ("b", 3)]


async def test_an_error_comes_out_where_it_was_caused_with_its_place() -> None:
    async with OperatorHarness(Doubled()) as harness:
        with pytest.raises(TypeError) as caught:
            await harness.process_element(None)
        assert "in operator 'doubled' of job 'harness'" in caught.value.__notes__
        with pytest.raises(ValidationException, match="its operator has ended"):
            await harness.process_element(1)


async def test_an_error_of_open_comes_out_of_open() -> None:
    class Broken(Operator):
        async def open(self, ctx: OperatorContext) -> None:
            raise OSError("no such place")

    with pytest.raises(OSError, match="no such place"):
        async with OperatorHarness(Broken()):
            raise AssertionError("not reached")


async def test_the_operator_is_closed_once() -> None:
    closed: list[Any] = []

    class Closing(Operator):
        async def close(self) -> None:
            closed.append(self)

    async with OperatorHarness(Closing()) as harness:
        await harness.end_input()
    async with OperatorHarness(Closing()):
        pass
    assert len(closed) == 2
