"""Kafka in, Kafka out: JSON records through a pipeline, beside a bare aiokafka loop that does the same by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import perf_counter

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks.data import Trade, trades
from benchmarks.report import Figure, at_least
from streamline import StreamExecutionEnvironment
from streamline.connectors.kafka import KafkaOffsetsInitializer, KafkaSink, KafkaSource
from streamline.testing.broker import open_broker

RUNS = 3
SOURCE = "trades"


class Priced(msgspec.Struct):
    """What is written."""

    symbol: str
    worth: float
    ts: int


def priced(trade: Trade) -> Priced:
    """What the pipeline does with a record."""
    return Priced(trade.symbol, trade.amount * trade.price, trade.ts)


async def fill(bootstrap: str, records: Sequence[Trade], targets: Sequence[str]) -> None:
    """Create the topics, and put the records into the first."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics(
            [NewTopic(topic, 1, 1, topic_configs={"retention.ms": "-1"}) for topic in (SOURCE, *targets)]
        )
    finally:
        await admin.close()
    encode = msgspec.json.Encoder().encode
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, max_batch_size=1 << 18) as producer:
        for record in records:
            await producer.send(SOURCE, encode(record), timestamp_ms=record.ts)
        await producer.flush()


async def by_hand(bootstrap: str, target: str) -> float:
    """The loop that one would write: fetch, decode, convert, encode, send; records a second."""
    decode, encode = msgspec.json.Decoder(Trade).decode, msgspec.json.Encoder().encode
    partition = TopicPartition(SOURCE, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, max_batch_size=1 << 18)
    async with consumer, producer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        started = perf_counter()
        position = 0
        while position < end:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    await producer.send(target, encode(priced(decode(record.value))))
                position = records[-1].offset + 1
        await producer.flush()
        return float(end) / (perf_counter() - started)


async def by_streamline(bootstrap: str, target: str, count: int) -> float:
    """The same as a job; records a second, start-up and end of the clients included."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source: KafkaSource[Trade] = KafkaSource(
        bootstrap_servers=bootstrap,
        topics=SOURCE,
        value_type=Trade,
        starting_offsets=KafkaOffsetsInitializer.earliest(),
        bounded=KafkaOffsetsInitializer.latest(),
    )
    stream = env.from_source(source, name="trades").map(priced, output_type=Priced)
    stream.sink_to(KafkaSink(bootstrap_servers=bootstrap, topic=target))
    started = perf_counter()
    await env.execute("kafka to kafka")
    return count / (perf_counter() - started)


async def measure(count: int) -> tuple[float, float, str]:
    """The best of some runs, by turns."""
    targets = [f"{kind}-{i}" for kind in ("loop", "job") for i in range(RUNS)]
    async with open_broker() as broker:
        await fill(broker.bootstrap, trades(count), targets)
        loop = job = 0.0
        for i in range(RUNS):
            loop = max(loop, await by_hand(broker.bootstrap, f"loop-{i}"))
            job = max(job, await by_streamline(broker.bootstrap, f"job-{i}", count))
        return loop, job, broker.title


def run(scale: float) -> Iterator[Figure]:
    loop, job, broker = asyncio.run(measure(int(100_000 * scale)))
    yield at_least(f"Kafka in and out ({broker})", job, "records/s", 0.6 * loop, loop)
