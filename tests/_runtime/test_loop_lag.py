"""The probe names whoever holds the loop."""

from __future__ import annotations

import asyncio
import logging
import threading

from streamline._runtime.loop_lag import LoopLag
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.slice import BatchLimit, TimeSlice


async def test_a_held_loop_is_measured_and_its_holder_named_once(caplog):
    group, time_slice = MetricGroup("job"), TimeSlice()
    time_slice.holder = "slow map"
    lag = LoopLag(group, time_slice)
    lag.start()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            threading.Event().wait(0.3)  # holds the loop: what is measured is real time
            await asyncio.sleep(0.06)
    lag.stop()
    assert group.histogram("loopLagMs").get_statistics()["max"] >= 200
    assert caplog.text.count("last by operator 'slow map'") == 1


def test_a_slow_operator_gets_fewer_records_at_a_time_and_a_quick_one_more_again():
    limit = BatchLimit(TimeSlice(5.0))
    limit.observe(1024, 0.100)  # 10.24 records a ms: a quarter of the slice is 12 records
    assert limit.records == 12
    limit.observe(12, 0.0001)
    assert limit.records == 24
    limit.observe(1, 1.0)
    assert limit.records == 1
