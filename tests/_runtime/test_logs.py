"""Log records of functions have the names of job and operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from streamline import AsyncDataStream, StreamExecutionEnvironment
from streamline.functions import MapFunction
from streamline.logs import JobLogFilter
from streamline.testing import VirtualClock

log = logging.getLogger("a.service")


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.addFilter(JobLogFilter())
        self.setFormatter(logging.Formatter("%(job)s %(operator)s[%(subtask)s] %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler = Lines()
    log.addHandler(handler)
    before, log.level = log.level, logging.INFO
    yield handler.lines
    log.removeHandler(handler)
    log.level = before


class Telling(MapFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        log.info("opened")

    def map(self, value: int) -> int:
        log.info("sees %d", value)
        return value

    def close(self) -> None:
        log.info("closed")


async def test_functions_log_with_job_operator_and_subtask(lines: list[str], virtual_clock: VirtualClock) -> None:
    async def ask(value: int) -> int:
        log.info("asks")
        await asyncio.to_thread(log.info, "in a thread")
        return value

    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_elements(7).map(Telling()).name("tell").set_parallelism(2)
    AsyncDataStream.unordered_wait(stream, ask, 1000).name("ask").print()
    log.info("before")
    await env.execute("orders")
    log.info("after")
    assert lines[0] == "- -[-] before" and lines[-1] == "- -[-] after"
    assert sorted(lines[1:-1]) == [
        "orders ask[0] asks",
        "orders ask[0] in a thread",
        "orders tell[0] closed",
        "orders tell[0] opened",
        "orders tell[0] sees 7",
        "orders tell[1] closed",
        "orders tell[1] opened",
    ]


def test_what_a_record_has_already_stays() -> None:
    record = logging.makeLogRecord({"msg": "x", "job": "mine"})
    assert JobLogFilter().filter(record)
    assert (record.job, record.operator) == ("mine", "-")  # type: ignore[attr-defined]
