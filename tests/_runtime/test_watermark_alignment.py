"""Watermark alignment: who runs ahead of its group waits, and waiting is not idleness."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, ValidationException, WatermarkStrategy
from streamline._runtime.watermark_alignment import AlignmentGroups
from streamline.testing import Delay, MiniJob, ScriptedSource

SECOND = 1000


def strategy(drift: str = "10 s", interval: str = "100 ms", idle: str | None = None) -> WatermarkStrategy[Any]:
    found: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
    found = found.with_watermark_alignment("group", drift, interval)
    return found if idle is None else found.with_idleness(idle)


def steps(name: str, seconds: range, delay: str) -> list[Any]:
    """A record a second of event time, each a `delay` of processing time after the one before."""
    return [step for s in seconds for step in ((name, s * SECOND), Delay.of(delay))]


def job(*sources: ScriptedSource, strategies: Any, seen: list[Any]) -> MiniJob:
    def build(env: StreamExecutionEnvironment) -> None:
        one, *others = [
            env.from_source(source, strategies, f"source{i}").uid(f"source{i}") for i, source in enumerate(sources)
        ]
        one.union(*others).add_sink(seen.append)

    return MiniJob(build)


def test_the_slowest_member_sets_the_limit() -> None:
    groups = AlignmentGroups()
    assert groups.limit("g", 10) == 2**63 - 1, "nobody holds anybody back"
    groups.report("g", "a", 100)
    groups.report("g", "b", 50)
    groups.report("other", "c", 1)
    assert groups.limit("g", 10) == 60
    groups.report("g", "b", None)
    assert groups.limit("g", 10) == 110, "who is idle or has ended holds nobody back"


async def test_a_source_that_is_ahead_waits_for_its_group() -> None:
    """The fast one gives a record each 10 ms, the slow one each second; the drift is 10 s of event time."""
    seen: list[Any] = []
    fast = ScriptedSource(steps("fast", range(200), "10 ms"))
    slow = ScriptedSource(steps("slow", range(60), "1 s"))
    async with job(fast, slow, strategies=strategy(), seen=seen) as running:
        running.clock.autojump = False
        await running.advance("20 s")
        newest = {name: max(at for n, at in seen if n == name) // SECOND for name in ("fast", "slow")}
        assert newest["slow"] == 20
        # Its group is looked at each 100 ms, in which it gives ten records more at most.
        assert 20 <= newest["fast"] <= 20 + 10 + 11
        running.clock.autojump = True
        await running.wait()
    assert len(seen) == 260, "nothing is lost: all is read in the end"


async def test_without_alignment_it_does_not_wait() -> None:
    seen: list[Any] = []
    free: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1])
    fast = ScriptedSource(steps("fast", range(200), "10 ms"))
    slow = ScriptedSource(steps("slow", range(60), "1 s"))
    async with job(fast, slow, strategies=free, seen=seen) as running:
        running.clock.autojump = False
        await running.advance("20 s")
        assert max(at for n, at in seen if n == "fast") == 199 * SECOND


async def test_splits_of_one_source_wait_for_one_another() -> None:
    seen: list[Any] = []
    source = ScriptedSource({"a": steps("a", range(200), "10 ms"), "b": steps("b", range(60), "1 s")})
    async with job(source, strategies=strategy(), seen=seen) as running:
        running.clock.autojump = False
        await running.advance("20 s")
        assert 20 <= max(at for n, at in seen if n == "a") // SECOND <= 41
        running.clock.autojump = True
        await running.wait()
    assert len(seen) == 260


async def test_who_has_ended_holds_nobody_back() -> None:
    seen: list[Any] = []
    fast = ScriptedSource(steps("fast", range(200), "10 ms"))
    short = ScriptedSource([("short", 0)])
    async with job(fast, short, strategies=strategy(), seen=seen) as running:
        await running.wait()
    assert len(seen) == 201


def test_what_makes_no_sense_is_refused() -> None:
    plain = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(ValidationException, match="max_allowed_watermark_drift"):
        plain.with_watermark_alignment("g", "soon")
    assert plain.with_watermark_alignment("g", "1 s").alignment_interval == 1000, "Flink's default"
