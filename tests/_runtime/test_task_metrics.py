"""What tasks measure: rates, lags, and what their time goes into."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline._runtime import task_metrics
from streamline._runtime.task_metrics import PerSecond, Waiting, combined
from streamline.testing import Delay, MiniJob, ScriptedSource


def test_a_rate_is_about_the_last_minute() -> None:
    now, total = 100.0, 0.0
    rate = PerSecond(lambda: total, lambda: now)
    assert rate() == 0.0
    now, total = 110.0, 50.0
    assert rate() == 5.0
    now, total = 150.0, 450.0
    assert rate() == 9.0, "450 in 50 seconds"
    now, total = 170.0, 650.0
    assert rate() == 10.0, "600 in the minute since the look at 110"
    now = 180.0
    assert rate() == (650 - 50) / 70, "no look was nearer to a minute ago"
    now = 230.0
    assert rate() == 0.0 + (650 - 650) / 60, "nothing since the look at 170"


def test_waiting_counts_what_goes_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(task_metrics, "perf_counter", lambda: now[0])
    waiting = Waiting()
    with waiting:
        now[0] = 12.0
        assert waiting.seconds() == 2.0
    now[0] = 20.0
    assert waiting.seconds() == 2.0
    with waiting:
        now[0] = 21.0
    assert waiting.seconds() == 3.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numRecordsIn", 7),
        ("currentInputWatermark", 3),
        ("watermarkLag", 4),
        ("busyTimeMsPerSecond", 4),
        ("numRecordsInPerSecond", 7),
    ],
)
def test_subtasks_together(name: str, expected: int) -> None:
    assert combined(name, 3, 4) == expected
    assert combined(name, None, 4) == 4 and combined(name, 3, None) == 3


async def test_records_a_second_and_the_lag_of_watermarks() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        start = env.clock.now()
        strategy: Any = WatermarkStrategy.for_bounded_out_of_orderness(1000).with_timestamp_assigner(
            lambda n: start + n
        )
        steps = [step for n in range(1, 101) for step in (n * 100, Delay(100))]
        numbers = env.from_source(ScriptedSource(steps, ends=False), strategy, "numbers")
        numbers.filter(lambda n: n % 200 == 0).name("even").print()

    job = MiniJob(build)
    job.clock.autojump = False
    await job.start()
    assert await job.metric("even", "watermarkLag") is None
    assert await job.metric("even", "numRecordsInPerSecond") == 0.0
    for _ in range(100):
        await job.advance(100)
    assert await job.metric("numbers", "numRecordsOut") == 100
    assert await job.metric("numbers", "numRecordsOutPerSecond") == pytest.approx(10.0)
    assert await job.metric("even", "numRecordsInPerSecond") == pytest.approx(10.0)
    assert await job.metric("even", "numRecordsOutPerSecond") == pytest.approx(5.0)
    # The record of 10 s was sent at 9.9 s; the watermark behind it came with the tick at 10 s.
    assert await job.metric("numbers", "watermarkLag") == 1001
    for operator in ("numbers", "even"):
        shares = [await job.metric(operator, f"{kind}TimeMsPerSecond") for kind in ("idle", "busy", "backPressured")]
        assert all(0 <= share <= 1000 for share in shares)
        assert shares[0] > 0 and shares[2] == 0
    await job.crash()
