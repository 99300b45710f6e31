"""Kafka in, SQL in the middle, Kafka out: the DDL as users write it, and what an independent client sees."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition

from streamline import StreamExecutionEnvironment, StreamlineError
from streamline.table import StreamTableEnvironment

pytestmark = pytest.mark.kafka

START = 1_714_557_600_000  # 2024-05-01T10:00:00Z
SECOND = 1000


def source(bootstrap: str, topic: str, *more: str) -> str:
    return (
        """CREATE TABLE events (
            eventId STRING, symbol STRING, amount DOUBLE,  -- 金額, in Euro
            eventTime BIGINT,
            event_time AS TO_TIMESTAMP_LTZ(eventTime, 3),
            WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
        ) WITH (
            'connector' = 'kafka', 'topic' = '"""
        + topic
        + "', 'properties.bootstrap.servers' = '"
        + bootstrap
        + "', 'properties.group.id' = 'g', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'"
        + "".join(f", {m}" for m in more)
        + ")"
    )


def sink(bootstrap: str, topic: str) -> str:
    return f"""CREATE TABLE totals (symbol STRING, window_end TIMESTAMP(3), n BIGINT, total DOUBLE) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
        'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')"""


INSERT = """INSERT INTO totals
    SELECT symbol, window_end, COUNT(*), SUM(amount)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))
    GROUP BY symbol, window_start, window_end"""


def event(i: int, symbol: str, amount: float, seconds: float) -> bytes:
    ms = START + int(seconds * SECOND)
    return msgspec.json.encode({"eventId": f"e{i}", "symbol": symbol, "amount": amount, "eventTime": ms})


def table_env() -> StreamTableEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC")
    return t_env


def rows(values: list[bytes | None]) -> list[dict[str, Any]]:
    return sorted(
        (msgspec.json.decode(v) for v in values if v is not None), key=lambda r: (r["window_end"], r["symbol"])
    )


async def test_windows_of_a_topic_in_another_topic_late_rows_dropped_and_counted(kafka: Any) -> None:
    events, totals = await kafka.create_topic(1), await kafka.create_topic(1)
    sent = [
        (1, "A", 10.0, 5),
        (2, "B", 5.0, 20),
        (3, "A", 2.5, 59.999),
        (4, "A", 4.0, 60),
        (5, "B", 1.5, 58),
        (6, "A", 8.0, 70),  # the watermark is 10:01:00: the first minute closes
        (7, "B", 7.0, 30),  # late
        (8, "A", 1.0, 100),
    ]
    await kafka.produce(events, [(None, event(*e)) for e in sent])
    t_env = table_env()
    bounded = ("'scan.bounded.mode' = 'latest-offset'", "'scan.watermark.emit.strategy' = 'on-event'")
    await t_env.execute_sql(source(kafka.bootstrap, events, *bounded))
    await t_env.execute_sql(sink(kafka.bootstrap, totals))
    result = await t_env.execute_sql(INSERT)
    await result.wait()
    assert rows(await kafka.values(totals)) == [
        {"symbol": "A", "window_end": "2024-05-01T10:01:00", "n": 2, "total": 12.5},
        {"symbol": "B", "window_end": "2024-05-01T10:01:00", "n": 2, "total": 6.5},
        {"symbol": "A", "window_end": "2024-05-01T10:02:00", "n": 3, "total": 13.0},
    ]
    client = result.get_job_client()
    assert client is not None
    late = [m["numLateRecordsDropped"] for m in (await client.metrics()).values() if "numLateRecordsDropped" in m]
    assert late == [1]


async def test_many_records_over_partitions_give_what_arithmetic_gives(kafka: Any) -> None:
    events, totals = await kafka.create_topic(4), await kafka.create_topic(2)
    sent = [(i, f"S{i % 17}", (i * 37 % 100) / 4, i * 0.2) for i in range(6000)]
    for p in range(4):
        await kafka.produce(events, [(None, event(*e), None, p) for e in sent[p::4]])
    expected: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0, 0.0])
    for _, symbol, amount, seconds in sent:
        t = expected[symbol, int(seconds) // 60]
        t[0], t[1] = t[0] + 1, t[1] + amount
    t_env = table_env()
    await t_env.execute_sql(source(kafka.bootstrap, events, "'scan.bounded.mode' = 'latest-offset'"))
    await t_env.execute_sql(sink(kafka.bootstrap, totals))
    await (await t_env.execute_sql(INSERT)).wait()
    got = rows(await kafka.values(totals))
    assert len(got) == len(expected)
    for row in got:
        minute = int(row["window_end"][14:16]) + 60 * (int(row["window_end"][11:13]) - 10) - 1
        assert [row["n"], row["total"]] == expected[row["symbol"], minute]


async def test_an_idle_partition_does_not_stop_the_output(kafka: Any) -> None:
    events, totals = await kafka.create_topic(2), await kafka.create_topic(1)
    sent = [(1, "A", 1.0, 1), (2, "A", 2.0, 70), (3, "A", 4.0, 150)]
    await kafka.produce(events, [(None, event(*e), None, 0) for e in sent])  # partition 1 stays empty
    t_env = table_env()
    await t_env.execute_sql(source(kafka.bootstrap, events, "'scan.watermark.idle-timeout' = '300 ms'"))
    await t_env.execute_sql(sink(kafka.bootstrap, totals))
    result = await t_env.execute_sql(INSERT)
    client = result.get_job_client()
    assert client is not None
    async with client, asyncio.timeout(20), kafka.consumer() as consumer:
        from_totals = await first_values(consumer, totals, 2)
    assert rows(from_totals) == [
        {"symbol": "A", "window_end": "2024-05-01T10:01:00", "n": 1, "total": 1.0},
        {"symbol": "A", "window_end": "2024-05-01T10:02:00", "n": 1, "total": 2.0},
    ]


async def first_values(consumer: Any, topic: str, n: int) -> list[bytes | None]:
    """The first n values of partition 0, as they come."""
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[bytes | None] = []
    while len(found) < n:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += [r.value for r in records]
    return found


async def test_a_record_that_does_not_fit_names_its_place_and_nothing_is_lost(kafka: Any) -> None:
    events, totals = await kafka.create_topic(1), await kafka.create_topic(1)
    await kafka.produce(events, [(None, event(1, "A", 1.0, 1)), (None, b'{"eventId": "e2", "amount": "much"}')])
    bounded = "'scan.bounded.mode' = 'latest-offset'"
    t_env = table_env()
    await t_env.execute_sql(source(kafka.bootstrap, events, bounded))
    await t_env.execute_sql(sink(kafka.bootstrap, totals))
    with pytest.raises(StreamlineError) as caught:
        await (await t_env.execute_sql(INSERT)).wait()
    for part in (events, "partition 0", "offset 1", "amount"):
        assert part in str(caught.value)

    skipping = table_env()
    await skipping.execute_sql(source(kafka.bootstrap, events, bounded, "'json.ignore-parse-errors' = 'true'"))
    await skipping.execute_sql(sink(kafka.bootstrap, totals))
    await (await skipping.execute_sql(INSERT)).wait()
    assert [r["n"] for r in rows(await kafka.values(totals))] == [1]
