"""What the programs share: classes, inputs, environments, and how they are fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from typing import Any

import msgspec

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.table import DataTypes, Schema, StreamTableEnvironment, col, lit
from streamline.testing import Pace, ScriptedSource, VirtualClock

T0 = datetime(2024, 5, 1, 10, tzinfo=UTC)  # 1 714 557 600 000 ms


def at(s: float) -> datetime:
    return T0 + timedelta(seconds=s)


def ms(s: float) -> int:
    return 1_714_557_600_000 + round(s * 1000)


class Order(msgspec.Struct):
    orderId: int
    customerId: int
    amount: D
    orderTime: datetime


class OrderSummary(msgspec.Struct):
    customerId: int
    totalAmount: D


@dataclass
class Person:
    name: str
    age: int


class Event(msgspec.Struct):
    eventId: str
    symbol: str
    amount: float
    eventTime: int


class PageView(msgspec.Struct):
    userId: str
    pageUrl: str
    viewTsMs: int


ORDERS = [
    Order(1, 7, D("120.00"), at(0)),
    Order(2, 8, D("80.50"), at(4)),
    Order(3, 7, D("200.25"), at(3)),
    Order(4, 9, D("100.00"), at(10)),
    Order(5, 8, D("19.50"), at(12)),
]
LATE = Order(6, 7, D("5.00"), at(2))
PEOPLE = [("Alice", 25), ("Bob", 30)]
EVENTS = [
    Event("e1", "A", 10.0, ms(5)),
    Event("e2", "B", 5.0, ms(20)),
    Event("e3", "A", 2.5, ms(59.999)),
    Event("e4", "A", 4.0, ms(60)),
    Event("e5", "B", 1.5, ms(58)),
    Event("e6", "A", 8.0, ms(70)),
    Event("e7", "B", 7.0, ms(30)),
    Event("e8", "A", 1.0, ms(100)),
]
VIEWS = [
    PageView("u1", "/home", ms(5)),
    PageView("u2", "/home", ms(7)),
    PageView("u1", "/cart", ms(12)),
    PageView("u3", "/home", ms(9)),
    PageView("u2", "/pay", ms(21)),
]


def envs() -> tuple[StreamExecutionEnvironment, StreamTableEnvironment]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    return env, t_env


#: Time of the clock between two records of a paced program; watermarks come every 200 ms.
INTERVAL = 1000
_PACE: ContextVar[bool] = ContextVar("paced", default=False)


@contextmanager
def paced() -> Iterator[None]:
    """While open, `feed` gives one record at a time, each followed by the watermark it causes."""
    token = _PACE.set(True)
    try:
        yield
    finally:
        _PACE.reset(token)


def feed(env: StreamExecutionEnvironment, values: list[Any]) -> Any:
    if not _PACE.get():
        return env.from_collection(values)
    source = ScriptedSource(values, paced=Pace(interval=INTERVAL), output_type=type(values[0]))
    return env.from_source(source)


async def rows(stream: Any) -> list[Any]:
    """Runs the job, returns all elements."""
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


async def marked(stream: Any, clock: VirtualClock, records: int) -> list[tuple[Any, Any]]:
    """Runs a paced job; with each element the number of the record that came before it, "end" behind the last.

    The clock stands at a multiple of the interval when a record comes.
    """
    start = clock.now()
    found: list[tuple[Any, Any]] = []
    async with stream.execute_and_collect() as it:
        async for x in it:
            number = (clock.now() - start) // INTERVAL + 1
            found.append((number if number <= records else "end", x))
    return found


def bounded(seconds: float, ts: Callable[[Any], Any]) -> Any:
    return WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=seconds)).with_timestamp_assigner(
        lambda e, _: ts(e)
    )


ORDER_SCHEMA = (
    Schema.new_builder()
    .column("orderId", DataTypes.BIGINT())
    .column("customerId", DataTypes.BIGINT())
    .column("amount", DataTypes.DECIMAL(10, 2))
    .column("orderTime", DataTypes.TIMESTAMP_LTZ(3))
    .watermark("orderTime", col("orderTime") - lit(5).seconds)
    .build()
)
NAME_AGE = Schema.new_builder().column("name", DataTypes.STRING()).column("age", DataTypes.INT()).build()


def source_time() -> Schema:
    """Event time taken from the stream."""
    return (
        Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )


def texts(values: Iterable[Any]) -> list[str]:
    return [str(v) for v in values]
