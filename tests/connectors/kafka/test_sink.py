"""KafkaSink against a real broker: what is there afterwards, where, and what is said when something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from streamline._core.changes import Row
from streamline.abc import Batch, Sink, SinkWriter
from streamline.connectors.kafka import (
    DeliveryGuarantee,
    KafkaConnectionError,
    KafkaException,
    KafkaRecordSerializationSchema,
    KafkaSink,
    SimpleStringSchema,
)
from streamline.connectors.kafka.partitioning import partition_of_key
from streamline.errors import ValidationException
from streamline.testing._process import free_ports
from streamline.testing.broker import open_broker
from streamline.testing.kafka import KafkaKit

from .conftest import Context


@contextlib.asynccontextmanager
async def writing(sink: Sink[Any], subtask: int = 0) -> AsyncIterator[SinkWriter[Any]]:
    writer = sink.writer()
    context = Context()
    context.subtask_index = subtask
    try:
        await writer.open(context)  # type: ignore[arg-type]
        yield writer
    finally:
        await writer.close()
        await context.ended()


def text_sink(kafka: KafkaKit, topic: str, **more: Any) -> KafkaSink:
    return KafkaSink(bootstrap_servers=kafka.bootstrap, topic=topic, value=SimpleStringSchema(), **more)


def lines(count: int, start: int = 0) -> list[str]:
    return [f"v{i:06}" for i in range(start, start + count)]


class Click(msgspec.Struct):
    visitor: str
    n: int


async def test_flush_makes_everything_safe_and_keeps_the_order(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic)) as w:
        for start in range(0, 50_000, 1000):
            await w.write(Batch(lines(1000, start)))
        await w.flush()
        assert [v.decode() for v in await kafka.values(topic) if v] == lines(50_000)


async def test_a_quiet_stream_is_sent_without_a_flush(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic)) as w:
        for i in range(3):
            await w.write(Batch([f"{i}"]))
            with anyio.fail_after(5):
                while len(await kafka.values(topic)) <= i:
                    pass


async def test_what_gathers_while_a_batch_is_on_its_way_follows_it(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic)) as w:
        for i in range(20):  # no pause for the network in between
            await w.write(Batch([f"{i}"]))
        with anyio.fail_after(5):
            while len(await kafka.values(topic)) < 20:
                pass
    assert await kafka.values(topic) == [str(i).encode() for i in range(20)]


async def test_json_is_the_default_of_values(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(KafkaSink(bootstrap_servers=kafka.bootstrap, topic=topic)) as w:
        await w.write(Batch([Click("ann", 1), {"a": [1]}, Row(id=1, name="x")]))
        await w.flush()
    assert await kafka.values(topic) == [b'{"visitor":"ann","n":1}', b'{"a":[1]}', b'{"id":1,"name":"x"}']


async def test_timestamps_of_records_are_written(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic)) as w:
        await w.write(Batch(["a", "b", "c"], [5000, None, -1]))
        await w.flush()
    at = [r.timestamp for r in await kafka.consume_all(topic)]
    assert at[0] == 5000
    assert all(t > 1_600_000_000_000 for t in at[1:]), "the time of sending"


async def test_keys_go_where_kafkas_own_producers_put_them(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(5)
    keys = [f"key-{i % 40}" for i in range(400)]
    async with writing(text_sink(kafka, topic, key=lambda v: v.split("/")[0])) as w:
        await w.write(Batch([f"{k}/{i}" for i, k in enumerate(keys)]))
        await w.flush()
    other = await kafka.create_topic(5)
    await kafka.produce(other, [(k, "x") for k in set(keys)])  # by aiokafka's own partitioner
    expected = {r.key: r.partition for r in await kafka.consume_all(other)}
    records = await kafka.consume_all(topic)
    assert len(records) == 400
    assert {r.key: r.partition for r in records} == expected
    for p in range(5):
        order = [int(r.value.split(b"/")[1]) for r in records if r.partition == p]
        assert order == sorted(order)


@pytest.mark.parametrize(("key", "hash_"), [  # recorded from org.apache.kafka.common.utils.Utils.murmur2's own tests
    (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
])  # fmt: skip
def test_hash_of_keys(key: bytes, hash_: int) -> None:
    assert partition_of_key(key, 7) == (hash_ & 0x7FFFFFFF) % 7


async def test_records_without_a_key_spread_over_all_partitions(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(4)
    async with writing(text_sink(kafka, topic)) as w:
        for start in range(0, 400, 10):
            await w.write(Batch(lines(10, start)))
        await w.flush()
    records = await kafka.consume_all(topic)
    assert sorted(r.value.decode() for r in records) == lines(400)
    assert {r.partition for r in records} == {0, 1, 2, 3}


async def test_headers_topics_and_a_partitioner_of_the_users(kafka: KafkaKit) -> None:
    topics = [await kafka.create_topic(2), await kafka.create_topic(2)]
    seen: list[Any] = []

    def choose(record: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
        seen.append((record, key, value, topic, list(partitions)))
        return 1

    serializer = KafkaRecordSerializationSchema(
        topic_selector=lambda v: topics[v],
        value_serialization_schema=lambda v: str(v).encode(),
        key_serialization_schema=lambda v: "k",
        header_provider=lambda v: {"n": bytes([v])},
        partitioner=choose,
    )
    sink = KafkaSink(bootstrap_servers=kafka.bootstrap, record_serializer=serializer)
    async with writing(sink) as w:
        await w.write(Batch([0, 1]))
        await w.flush()
    for i, topic in enumerate(topics):
        (record,) = await kafka.consume_all(topic)
        assert (record.partition, record.key, record.value, record.headers) == (
            1, b"k", str(i).encode(), (("n", bytes([i])),)
        )  # fmt: skip
    assert seen == [(i, b"k", str(i).encode(), topics[i], [0, 1]) for i in range(2)]


async def test_tombstones(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = KafkaSink(bootstrap_servers=kafka.bootstrap, topic=topic, value=lambda v: None, key=lambda v: v)
    async with writing(sink) as w:
        await w.write(Batch(["k"]))
        await w.flush()
    (record,) = await kafka.consume_all(topic)
    assert (record.key, record.value) == (b"k", None)
    sink = KafkaSink(bootstrap_servers=kafka.bootstrap, topic=topic, value=lambda v: None)
    async with writing(sink) as w:
        with pytest.raises(KafkaException, match="neither key nor value; a tombstone needs a key"):
            await w.write(Batch(["k"]))


async def test_new_partitions_are_used(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(1)
    async with writing(text_sink(kafka, topic)) as w:
        await w.write(Batch(["a"]))
        await w.flush()
        await kafka.add_partitions(topic, 3)
        await w._sending.producer.client.force_metadata_update()  # type: ignore[attr-defined]
        for i in range(12):
            await w.write(Batch([str(i)]))
            await w.flush()
    assert {r.partition for r in await kafka.consume_all(topic)} == {0, 1, 2}


@pytest.mark.parametrize("properties", [
    {"compression.type": "gzip"},
    {"linger.ms": "5", "batch.size": "2000"},
    {"acks": "1"},
    {"enable.idempotence": "false", "max.request.size": "2000000"},
])  # fmt: skip
async def test_properties_of_the_producer(kafka: KafkaKit, properties: dict[str, str]) -> None:
    topic = await kafka.create_topic(2)
    async with writing(text_sink(kafka, topic, properties=properties)) as w:
        for start in range(0, 5000, 500):
            await w.write(Batch(lines(500, start)))
        await w.flush()
        assert sorted(v.decode() for v in await kafka.values(topic) if v) == lines(5000)


async def test_memory_is_bounded(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(1)
    properties = {"buffer.memory": "100000", "batch.size": "10000"}
    async with writing(text_sink(kafka, topic, properties=properties)) as w:
        for start in range(0, 100_000, 5000):
            await w.write(Batch(lines(5000, start)))
            assert w._sending.bytes <= 100_000  # type: ignore[attr-defined]
        await w.flush()
    assert await kafka.end_offsets(topic, 1) == [100_000]


async def test_no_guarantee_flushes_at_the_end_only(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic, delivery_guarantee=DeliveryGuarantee.NONE)) as w:
        await w.write(Batch(lines(10)))
        await w.flush()
        assert w._sending._pending, "a barrier waits for nothing"  # type: ignore[attr-defined]
        await w.flush(end_of_input=True)
        assert await kafka.end_offsets(topic, 1) == [10]


# -- what goes wrong -----------------------------------------------------------------------------------------------


async def test_refused_record_fails_the_flush(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(config={"max.message.bytes": "2000"})
    async with writing(text_sink(kafka, topic, properties={"batch.size": "1000"})) as w:
        await w.write(Batch(["small"]))
        await w.flush()
        await w.write(Batch(["x" * 5000]))
        with pytest.raises(
            KafkaException, match=f"'{topic}', partition 0: a record of .* larger than the broker takes"
        ):
            await w.flush()
        with pytest.raises(KafkaException, match="larger"):
            await w.write(Batch(["after"]))
        with pytest.raises(KafkaException, match="larger"):
            await w.flush()


async def test_refused_record_fails_a_job_whose_stream_is_quiet(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(config={"max.message.bytes": "2000"})
    writer, context = text_sink(kafka, topic).writer(), Context()
    await writer.open(context)  # type: ignore[arg-type]
    await writer.write(Batch(["x" * 5000]))
    with anyio.fail_after(5):
        (error,) = await context.ended()
    assert isinstance(error, KafkaException) and "larger than the broker takes" in str(error)
    await writer.close()


async def test_refused_batch_says_how_to_make_it_smaller(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(config={"max.message.bytes": "2000"})
    async with writing(text_sink(kafka, topic)) as w:
        await w.write(Batch(lines(1000)))
        with pytest.raises(KafkaException, match="a batch of 1000 records .* or set 'batch.size' below it"):
            await w.flush()


async def test_serializer_error_names_the_value(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()

    def fussy(v: int) -> bytes:
        return str(10 // v).encode()

    sink = KafkaSink(bootstrap_servers=kafka.bootstrap, topic=topic, value=fussy)
    async with writing(sink) as w:
        with pytest.raises(ZeroDivisionError) as e:
            await w.write(Batch([5, 2, 0, 1]))
        assert e.value.__notes__ == ["while the value was made of 0"]


@pytest.mark.apache_kafka
async def test_unknown_topic_is_said_at_once(kafka: KafkaKit) -> None:
    with anyio.fail_after(8), pytest.raises(KafkaException, match="there is no topic 'no-such-topic' at"):
        async with writing(text_sink(kafka, "no-such-topic")):
            pass


async def test_broker_that_is_not_there() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with anyio.fail_after(5), pytest.raises(KafkaConnectionError, match=f"no Kafka broker answers at {address}"):
        async with writing(KafkaSink(bootstrap_servers=address, topic="t")):
            pass


async def test_flush_and_close_have_limits_when_the_broker_has_died(kafka: KafkaKit) -> None:
    kind: Any = "apache-kafka" if kafka.broker.kind == "apache-kafka" else "noida"
    async with open_broker(kind) as own:
        kit = KafkaKit(own)
        topic = await kit.create_topic()
        with anyio.fail_after(15):
            async with writing(text_sink(kit, topic, properties={"delivery.timeout.ms": "700"})) as w:
                await w.write(Batch(["a"]))
                await w.flush()
                own.kill()
                await w.write(Batch(["b"]))
                with pytest.raises(KafkaConnectionError, match="were not acknowledged within 0.7 seconds"):
                    await w.flush()


@pytest.mark.apache_kafka  # the embedded one forgets what it had acknowledged
async def test_a_broker_that_comes_back_gets_everything_once(kafka: KafkaKit) -> None:
    if kafka.broker.kind != "apache-kafka":
        pytest.skip("starts a node of its own")
    async with open_broker("apache-kafka") as own:
        kit = KafkaKit(own)
        topic = await kit.create_topic()
        with anyio.fail_after(60):
            async with writing(text_sink(kit, topic)) as w:
                await w.write(Batch(lines(500)))
                await w.flush()
                await w.write(Batch(lines(500, 500)))
                own.kill()
                await w.write(Batch(lines(500, 1000)))
                await own.restart()
                await w.flush()
                assert [v.decode() for v in await kit.values(topic) if v] == lines(1500)


async def test_closing_leaves_no_task(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    before = asyncio.all_tasks()
    async with writing(text_sink(kafka, topic)) as w:
        await w.write(Batch(["a"]))
    assert asyncio.all_tasks() == before


async def test_cancelled_while_it_waits_for_room(kafka: KafkaKit, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await kafka.create_topic()
    async with writing(text_sink(kafka, topic, properties={"buffer.memory": "10", "delivery.timeout.ms": "500"})) as w:
        never = asyncio.Event()

        async def stuck(self: Any, *args: Any, **kwargs: Any) -> Any:
            await never.wait()

        monkeypatch.setattr(AIOKafkaProducer, "send_batch", stuck)
        with anyio.move_on_after(0.05) as scope:
            await w.write(Batch(["a"]))
        assert scope.cancelled_caught
        monkeypatch.undo()


# -- how it is made ------------------------------------------------------------------------------------------------


def test_builders_of_sink_and_serializer() -> None:
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("a:1")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic("t")
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_property("linger.ms", "5")
        .build()
    )
    assert sink._encoder.topic == "t"
    assert sink._properties == {"bootstrap.servers": "a:1", "linger.ms": "5"}


@pytest.mark.parametrize(("arguments", "said"), [
    ({}, "needs a record_serializer, or topic"),
    ({"topic": "t", "record_serializer": KafkaRecordSerializationSchema(topic="t")}, "needs a record_serializer, or"),
    ({"value": SimpleStringSchema()}, "needs a topic or a topic_selector"),
    ({"topic": "t", "value": 5}, "a SerializationSchema or a function is needed"),
    ({"topic": "t", "properties": {"linger.ms": "soon"}}, "'linger.ms' has no such value as 'soon'"),
])  # fmt: skip
def test_arguments_that_do_not_fit(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationException, match=said):
        KafkaSink(bootstrap_servers="a:1", **arguments)
