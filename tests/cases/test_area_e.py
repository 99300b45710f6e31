"""Joins and their state: faults that others had, and what is right."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline._operators.join.keyed_interval import KeyedIntervalJoin
from streamline.testing import Delay, MiniJob, OperatorHarness, ScriptedSource

MINUTE, HOUR = 60_000, 3_600_000


def key(record: Any) -> Any:
    return record[0]


async def test_c50_state_goes_by_time_and_not_by_being_asked_for() -> None:
    """C50: many keys, each once on one side, nothing on the other: an hour later there is nothing left."""
    join = KeyedIntervalJoin(lambda a, b, ctx: (a, b), (key, key), -MINUTE, MINUTE)
    async with OperatorHarness(join, key=(key, key)) as harness:
        for n in range(2000):
            await harness.process_element((n,), n)
        assert harness.task.state.entries() >= 2000
        await harness.process_watermark(HOUR)
        assert harness.task.state.entries() == 0


async def test_c53_three_inputs_meet_in_every_order_of_arrival() -> None:
    """C53: A, B and C within 10 s of one another, one record each, in all six orders: one result."""
    for order in permutations("ABC"):
        out: list[Any] = []

        def build(env: StreamExecutionEnvironment, order: Any = order, out: list[Any] = out) -> None:
            strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
            a, b, c = (
                env.from_source(ScriptedSource([Delay(1000 * order.index(n)), ("k", 5000 + i, n)]), strategy, n).key_by(
                    key
                )
                for i, n in enumerate("ABC")
            )
            both = a.interval_join(b).between("-10 s", "10 s").process(lambda x, y, ctx: ("k", x[2] + y[2]))
            three = both.key_by(key).interval_join(c).between("-10 s", "10 s")
            three.process(lambda xy, z, ctx: xy[1] + z[2]).add_sink(out.append)

        async with MiniJob(build) as job:
            await job.wait()
        assert out == ["ABC"], order
