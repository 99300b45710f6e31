"""A strategy of the source counts each split by itself, one behind the source sees them mixed; late records."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import OutputTag, StreamExecutionEnvironment, WatermarkStrategy
from streamline.functions import ProcessFunction
from streamline.testing import Delay, MiniJob, ScriptedSource
from streamline.windows import TumblingEventTimeWindows

LATE: OutputTag = OutputTag("late")


def strategy() -> Any:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v: v[1]).with_emit_on_event()


def two_splits() -> ScriptedSource:
    """Each in order; the second is read when the first has come to 10 s, and so is a day behind by then."""
    ahead = [("ahead", second * 1000) for second in range(1, 11)]
    behind = [("behind", second * 1000) for second in range(1, 11)]
    return ScriptedSource({"p0": ahead, "p1": [Delay(1000), *behind]})


@pytest.mark.parametrize("at_the_source", [True, False])
async def test_splits_that_are_in_order_are_late_only_where_they_have_met(at_the_source: bool) -> None:
    windows: list[Any] = []
    late: list[Any] = []

    def build(env: StreamExecutionEnvironment) -> None:
        if at_the_source:
            stream = env.from_source(two_splits(), strategy(), "splits")
        else:
            stream = env.from_source(two_splits(), WatermarkStrategy.no_watermarks(), "splits")
            stream = stream.assign_timestamps_and_watermarks(strategy())
        counted = (
            stream.map(lambda v: (v[0], v[1], 1))
            .key_by(lambda v: v[0])
            .window(TumblingEventTimeWindows.of(5000))
            .side_output_late_data(LATE)
            .reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
        )
        counted.add_sink(windows.append)
        counted.get_side_output(LATE).add_sink(late.append)

    async with MiniJob(build) as job:
        await job.wait()
    counts = {name: sum(n for key, _, n in windows if key == name) for name in ("ahead", "behind")}
    if at_the_source:
        assert counts == {"ahead": 10, "behind": 10} and late == []
    else:
        # The watermark was at 9 999 ms when they came: all windows of theirs but the last were closed.
        assert counts == {"ahead": 10, "behind": 1}
        assert [v[1] for v in late] == [second * 1000 for second in range(1, 10)]


async def test_map_filter_and_process_pass_late_records_on() -> None:
    """Late is what is not newer than the watermark at the operator; only what goes by windows drops it."""
    seen: list[Any] = []

    class Judge(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value[0], ctx.timestamp() <= ctx.timer_service().current_watermark()

    def build(env: StreamExecutionEnvironment) -> None:
        records = [("a", 1000), ("b", 5000), ("late", 3000), ("just late", 4999), ("in time", 5000)]
        stream = env.from_source(ScriptedSource(records), strategy(), "records")
        stream.map(lambda v: v).filter(lambda v: True).process(Judge()).add_sink(seen.append)

    async with MiniJob(build) as job:
        await job.wait()
    assert seen == [("a", False), ("b", False), ("late", True), ("just late", True), ("in time", False)]
