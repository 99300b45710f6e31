"""Whole jobs over Kafka: streams and SQL, watermarks by partition, failure and restart."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from streamline import Configuration, StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.kafka import (
    DeliveryGuarantee,
    KafkaConnectionError,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
)
from streamline.errors import StreamlineError
from streamline.table import StreamTableEnvironment
from streamline.testing._process import free_ports
from streamline.testing.kafka import KafkaKit
from streamline.windows import TumblingEventTimeWindows

LATEST = KafkaOffsetsInitializer.latest()


class Event(msgspec.Struct):
    key: str
    ts: int
    n: int = 1


def event(key: str, ts: int, partition: int, n: int = 1) -> tuple[Any, ...]:
    return key, msgspec.json.encode(Event(key, ts, n)), ts, partition


def source(kafka: KafkaKit, topic: str, **more: Any) -> KafkaSource[Event]:
    return KafkaSource(bootstrap_servers=kafka.bootstrap, topics=topic, value_type=Event, **more)


def bounded(seconds: int) -> WatermarkStrategy[Event]:
    return WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=seconds)).with_timestamp_assigner(
        lambda e, _: e.ts
    )


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    return env


@pytest.mark.parametrize("parallelism", [1, 2, 3])
async def test_from_topic_to_topic(kafka: KafkaKit, parallelism: int) -> None:
    topic, out = await kafka.create_topic(4), await kafka.create_topic(2)
    await kafka.produce(topic, [event(f"k{i % 7}", i, i % 4, i) for i in range(1000)])
    env = environment(parallelism)
    stream = env.from_source(source(kafka, topic, bounded=LATEST), WatermarkStrategy.no_watermarks(), "in")
    stream.map(lambda e: Event(e.key, e.ts, e.n * 2)).sink_to(
        KafkaSink(bootstrap_servers=kafka.bootstrap, topic=out, key=lambda e: e.key)
    )
    await env.execute("copy")
    found = sorted(msgspec.json.decode(v, type=Event).n for v in await kafka.values(out) if v is not None)
    assert found == [2 * i for i in range(1000)]


async def test_each_partition_has_a_watermark_of_its_own(kafka: KafkaKit) -> None:
    """Partitions far apart in event time: nothing of the slow one is late."""
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [event("fast", 1_000_000 + i * 1000, 0) for i in range(200)])
    await kafka.produce(topic, [event("slow", i * 1000, 1) for i in range(200)])
    env = environment()
    stream = env.from_source(source(kafka, topic, bounded=LATEST), bounded(1), "in")
    counts = (
        stream.key_by(lambda e: e.key)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=100)))
        .reduce(lambda a, b: Event(a.key, a.ts, a.n + b.n))
    )
    async with counts.execute_and_collect() as results:
        found = sorted([(e.key, e.n) async for e in results])
    assert found == [("fast", 100)] * 2 + [("slow", 100)] * 2


async def test_an_idle_partition_does_not_stop_the_output(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(3)  # two of them stay empty
    await kafka.produce(topic, [event("a", ts, 0) for ts in (1000, 2000, 20_000)])
    env = environment()
    strategy = bounded(1).with_idleness(timedelta(milliseconds=50))
    stream = env.from_source(source(kafka, topic), strategy, "in")
    counts = (
        stream.key_by(lambda e: e.key)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .reduce(lambda a, b: Event(a.key, a.ts, a.n + b.n))
    )
    with anyio.fail_after(10):
        async with counts.execute_and_collect() as results:
            async for e in results:  # the job itself has no end
                assert (e.key, e.n) == ("a", 2)
                break


async def test_partitions_that_come_later_are_read(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(1)
    await kafka.produce(topic, [event("a", 1, 0)])
    env = environment()
    looking = source(kafka, topic, partition_discovery_interval="50 ms")
    stream = env.from_source(looking, WatermarkStrategy.no_watermarks(), "in")
    with anyio.fail_after(15):
        async with stream.execute_and_collect() as results:
            found = [(await anext(results)).key]
            await kafka.add_partitions(topic, 2)
            await kafka.produce(topic, [event("b", 2, 1)])
            found.append((await anext(results)).key)
    assert found == ["a", "b"]


async def test_broker_that_is_not_there_fails_the_job_at_once() -> None:
    env = environment()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    src = KafkaSource(bootstrap_servers=address, topics="t", value_type=Event)
    env.from_source(src, WatermarkStrategy.no_watermarks(), "clicks").print()
    with anyio.fail_after(5), pytest.raises(KafkaConnectionError, match=f"no Kafka broker answers at {address}") as e:
        await env.execute("job")
    assert any("'clicks'" in note for note in e.value.__notes__)


async def test_wrong_record_fails_the_job_with_its_place(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [event("a", 1, 0), (None, "nonsense", None, 0)])
    env = environment()
    env.from_source(source(kafka, topic, bounded=LATEST), WatermarkStrategy.no_watermarks(), "in").print()
    with pytest.raises(StreamlineError, match=f"topic '{topic}', partition 0, offset 1: Failed to deserialize JSON"):
        await env.execute("job")


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
async def test_failure_and_restart_lose_nothing(kafka: KafkaKit, tmp_path: Path, guarantee: DeliveryGuarantee) -> None:
    topic, out, group = await kafka.create_topic(2), await kafka.create_topic(), kafka.unique("g")
    await kafka.produce(topic, [event("k", i, i % 2, i) for i in range(3000)])
    env = environment()
    env.enable_checkpointing("20 ms", storage=f"file:{tmp_path}")
    settings = Configuration()
    for key, value in {"attempts": "5", "delay": "10 ms"}.items():
        settings.set_string(f"restart-strategy.fixed-delay.{key}", value)
    settings.set_string("restart-strategy.type", "fixed-delay")
    env.configure(settings)
    failures = [2600, 1900, 900]

    async def fragile(e: Event) -> Event:
        if e.n % 100 == 0:
            await anyio.lowlevel.checkpoint()
            with anyio.move_on_after(0.004):  # so that there are checkpoints in between
                await anyio.sleep_forever()
        if failures and e.n == failures[-1]:
            failures.pop()
            raise RuntimeError(f"injected at {e.n}")
        return e

    sink = KafkaSink(
        bootstrap_servers=kafka.bootstrap,
        topic=out,
        delivery_guarantee=guarantee,
        transactional_id_prefix=kafka.unique("tx"),
    )
    src = source(kafka, topic, bounded=LATEST, group_id=group)
    env.from_source(src, WatermarkStrategy.no_watermarks(), "in").map(fragile).sink_to(sink)
    with anyio.fail_after(60):
        await env.execute("job")
    assert not failures, "all faults have struck"
    exactly = guarantee is DeliveryGuarantee.EXACTLY_ONCE
    found: list[int] = []
    with anyio.move_on_after(5):
        while len(found) < 3000:
            values = await kafka.values(out, committed_only=exactly)
            found = sorted(msgspec.json.decode(v, type=Event).n for v in values if v is not None)
    assert (found if exactly else sorted(set(found))) == list(range(3000))
    # Committing offsets is a courtesy: one that a crash has cut off is not made up for, but none runs ahead.
    assert all(offset <= 1500 for offset in (await kafka.committed(group, topic)).values())


# -- SQL -----------------------------------------------------------------------------------------------------------


def ddl(kafka: KafkaKit, topic: str, *more: str) -> str:
    options = [
        f"'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}'",
        f"'properties.group.id' = '{kafka.unique('g')}'   -- 消费组",
        "'format' = 'json'",
        *more,
    ]
    return f"""
        CREATE TABLE events (
            eventId STRING, symbol STRING, amount DOUBLE,
            -- 毫秒 (epoch milliseconds)
            eventTime BIGINT,
            event_time AS TO_TIMESTAMP_LTZ(eventTime, 3),
            WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
        ) WITH ({", ".join(options[:1])},
        {options[1]}
        , {", ".join(options[2:])})"""


EARLIEST = "'scan.startup.mode' = 'earliest-offset'"
BOUNDED = "'scan.bounded.mode' = 'latest-offset'"
ON_EVENT = "'scan.watermark.emit.strategy' = 'on-event'"

_T0 = 1714557600000  # 2024-05-01T10:00:00Z


def trade(id_: str, symbol: str, amount: float, second: float, partition: int = 0) -> tuple[Any, ...]:
    value = {"eventId": id_, "symbol": symbol, "amount": amount, "eventTime": _T0 + int(second * 1000)}
    return symbol, json.dumps(value), None, partition


TRADES = [
    trade("e1", "A", 10.0, 5),
    trade("e2", "B", 4.5, 20),
    trade("e3", "A", 2.5, 59.999),
    trade("e4", "A", 5.0, 70),  # the watermark goes to 10:01:00: the first minute is closed
    trade("e5", "B", 2.0, 58),  # late by then
    trade("e6", "A", 8.0, 100),
]


async def windows_into(kafka: KafkaKit, t_env: StreamTableEnvironment, out: str) -> Any:
    await t_env.execute_sql(f"""
        CREATE TABLE totals (window_start TIMESTAMP(3), symbol STRING, orders BIGINT, total DOUBLE) WITH (
            'connector' = 'kafka', 'topic' = '{out}', 'properties.bootstrap.servers' = '{kafka.bootstrap}',
            'format' = 'json', 'key.format' = 'json', 'key.fields' = 'symbol')""")
    return await t_env.execute_sql("""
        INSERT INTO totals SELECT window_start, symbol, COUNT(*), SUM(amount)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, symbol""")


def totals(records: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(json.loads(r.value).values()) for r in records)


async def test_ddl_and_windowed_insert(kafka: KafkaKit) -> None:
    topic, out = await kafka.create_topic(), await kafka.create_topic()
    await kafka.produce(topic, TRADES)
    env = environment()
    t_env = StreamTableEnvironment.create(env)
    await t_env.execute_sql(ddl(kafka, topic, EARLIEST, BOUNDED, ON_EVENT))
    result = await windows_into(kafka, t_env, out)
    await result.wait()
    records = await kafka.consume_all(out)
    assert totals(records) == [
        ("2024-05-01 10:00:00", "A", 2, 12.5),
        ("2024-05-01 10:00:00", "B", 1, 4.5),
        ("2024-05-01 10:01:00", "A", 2, 13.0),
    ]
    assert {json.loads(r.key)["symbol"] for r in records} == {"A", "B"}


async def test_idle_partitions_do_not_stop_sql(kafka: KafkaKit) -> None:
    topic, out = await kafka.create_topic(3), await kafka.create_topic()
    await kafka.produce(topic, TRADES)
    t_env = StreamTableEnvironment.create(environment())
    await t_env.execute_sql(ddl(kafka, topic, EARLIEST, ON_EVENT, "'scan.watermark.idle-timeout' = '50 ms'"))
    result = await windows_into(kafka, t_env, out)
    found: list[Any] = []
    with anyio.move_on_after(10):
        while len(found) < 2:
            found = await kafka.consume_all(out)
    await result.get_job_client().cancel()
    # The empty partitions hold event time back until they count as idle: nothing is late.
    assert totals(found) == [("2024-05-01 10:00:00", "A", 2, 12.5), ("2024-05-01 10:00:00", "B", 2, 6.5)]


async def test_a_group_without_offsets_fails_when_the_job_starts(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    t_env = StreamTableEnvironment.create(environment())
    await t_env.execute_sql(ddl(kafka, topic))
    with pytest.raises(StreamlineError) as e:
        result = await t_env.execute_sql("SELECT * FROM events")
        async for _ in result.collect():
            pass
    for part in ("scan.startup.mode", "properties.auto.offset.reset", topic):
        assert part in str(e.value)


async def test_parse_errors_are_skipped_where_that_is_asked_for(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(
        topic, [TRADES[0], (None, "nonsense", None, 0), (None, '{"amount": "much"}', None, 0), TRADES[1]]
    )
    t_env = StreamTableEnvironment.create(environment())
    await t_env.execute_sql(ddl(kafka, topic, EARLIEST, BOUNDED, "'json.ignore-parse-errors' = 'true'"))
    result = await t_env.execute_sql("SELECT eventId, amount FROM events")
    assert [tuple(row) async for row in result.collect()] == [("e1", 10.0), ("e2", 4.5)]


async def test_metadata_in_sql(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("k", '{"v": 1}', _T0, 0, [("h", b"x")])])
    t_env = StreamTableEnvironment.create(environment())
    await t_env.execute_sql(f"""
        CREATE TABLE m (v INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `offset` BIGINT METADATA VIRTUAL,
            topic STRING METADATA VIRTUAL, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}',
            'format' = 'json', {EARLIEST}, {BOUNDED})""")
    result = await t_env.execute_sql("SELECT v, UNIX_TIMESTAMP(CAST(ts AS STRING)), `offset`, topic FROM m")
    assert [tuple(row) async for row in result.collect()] == [(1, _T0 // 1000, 0, topic)]
