"""Kafka for tests: a broker for the session and helpers that know nothing of streamline's own connector.

A pytest plugin; a top-level `conftest.py` takes it in with `pytest_plugins = ["streamline.testing.kafka"]`. Tests ask
for the fixture `kafka`. Those marked `apache_kafka` need what the embedded broker lacks (groups, transaction timeouts,
crash safety) and are reported by name where it is the one that runs.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import for_code
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition

from streamline.testing.broker import Broker, start_broker

__all__ = ("KafkaKit", "kafka", "kafka_broker")

#: key, value, timestamp in epoch ms (None: now), partition (None: by key); what is left out at the end is None.
Sent = Sequence[Any]

_BROKER: Final = pytest.StashKey[Broker]()
_NOT_RUN: Final = pytest.StashKey[list[str]]()


class KafkaKit:
    """What a test does to a broker, by aiokafka alone: topics, records in, records out, group offsets.

    Attributes:
        broker: the broker.
        bootstrap: its `host:port`.
    """

    def __init__(self, broker: Broker, name: str = "test") -> None:
        self.broker: Final = broker
        self.bootstrap: Final = broker.bootstrap
        self._name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
        self._ids = itertools.count()
        self._topics: list[str] = []

    def unique(self, what: str = "topic") -> str:
        """A name that no other test has used on this broker."""
        return f"{self._name}-{what}-{uuid.uuid4().hex[:8]}-{next(self._ids)}"

    async def create_topic(
        self, partitions: int = 1, *, name: str | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, by default with a name of its own; returns the name.

        Its records do not age, since those of tests often carry timestamps of long ago.
        """
        topic = name or self.unique()
        config = {"retention.ms": "-1", **(config or {})}
        async with self.admin() as admin:
            new = NewTopic(topic, partitions, 1, topic_configs=config)
            _raise_for(await admin.create_topics([new]), "topic_errors")
        self._topics.append(topic)
        return topic

    async def add_partitions(self, topic: str, total: int) -> None:
        """Let the topic have `total` partitions."""
        async with self.admin() as admin:
            await admin.create_partitions({topic: NewPartitions(total)})

    async def delete_topic(self, topic: str) -> None:
        """Delete the topic."""
        async with self.admin() as admin:
            _raise_for(await admin.delete_topics([topic]), "topic_error_codes")
        if topic in self._topics:
            self._topics.remove(topic)

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Let the partition's log begin at offset `before`, as retention would."""
        async with self.admin() as admin:
            await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)})

    async def produce(self, topic: str, records: Iterable[Sent], **config: Any) -> None:
        """Send records (key, value, timestamp, partition) and wait until the broker has them, in order.

        Keys and values are bytes, text or None; a fifth part may hold headers, a list of (name, bytes).
        """
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=1, **config)
        await producer.start()
        try:
            futures = []
            for record in records:
                key, value, timestamp, partition, headers = (*record, None, None, None, None)[:5]
                options = {"timestamp_ms": timestamp, "partition": partition, "headers": headers}
                futures.append(await producer.send(topic, _bytes(value), _bytes(key), **options))
            for future in futures:
                await future
        finally:
            await producer.stop()

    async def consume_all(self, topic: str, *, committed_only: bool = False) -> list[ConsumerRecord]:
        """All records of a topic from its beginning to its present end, by partition and offset."""
        isolation = "read_committed" if committed_only else "read_uncommitted"
        async with self.consumer(isolation_level=isolation, auto_offset_reset="earliest") as consumer:
            async with self.admin() as admin:
                (described,) = await admin.describe_topics([topic])
            partitions = [TopicPartition(topic, p["partition"]) for p in described["partitions"]]
            ends = await consumer.end_offsets(partitions)
            begins = await consumer.beginning_offsets(partitions)
            consumer.assign(partitions)
            for tp in partitions:
                consumer.seek(tp, begins[tp])
            records: list[ConsumerRecord] = []
            open_ = {tp for tp in partitions if begins[tp] < ends[tp]}
            while open_:
                for batch in (await consumer.getmany(*open_, timeout_ms=200, max_records=500)).values():
                    records += batch
                for tp in list(open_):
                    if await consumer.position(tp) >= ends[tp]:
                        open_.remove(tp)
        records = [r for r in records if r.offset < ends[TopicPartition(topic, r.partition)]]
        return sorted(records, key=lambda r: (r.partition, r.offset))

    async def values(self, topic: str, *, committed_only: bool = False) -> list[bytes | None]:
        """The values of `consume_all`."""
        return [r.value for r in await self.consume_all(topic, committed_only=committed_only)]

    async def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """The end offset of partitions 0 to `partitions` - 1."""
        wanted = [TopicPartition(topic, p) for p in range(partitions)]
        async with self.consumer() as consumer:
            ends = await consumer.end_offsets(wanted)
        return [ends[tp] for tp in wanted]

    async def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets by partition for a group."""
        async with self.consumer(group_id=group) as consumer:
            consumer.assign([TopicPartition(topic, p) for p in offsets])
            await consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(o, "") for p, o in offsets.items()})

    async def committed(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets by partition; partitions without one are left out."""
        async with self.admin() as admin:
            offsets = await admin.list_consumer_group_offsets(group)
        return {tp.partition: o.offset for tp, o in sorted(offsets.items()) if tp.topic == topic and o.offset >= 0}

    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """An administration client."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    @contextlib.asynccontextmanager
    async def consumer(self, **config: Any) -> AsyncIterator[AIOKafkaConsumer]:
        """A bare consumer that commits nothing by itself."""
        options = {"enable_auto_commit": False, "auto_offset_reset": "none", "fetch_max_wait_ms": 100, **config}
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **options)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    async def clean_up(self) -> None:
        """Delete the topics that were created here; for the user's own cluster, which outlives the tests."""
        if self.broker.kind == "cluster" and self._topics:
            async with self.admin() as admin:
                await admin.delete_topics(self._topics)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _raise_for(response: Any, field: str) -> None:
    for name, code, *_ in getattr(response, field):
        if code:
            raise for_code(code)(name)


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The session's broker; see `streamline.testing.broker` for which one that is."""
    with start_broker() as broker:
        request.config.stash[_BROKER] = broker
        yield broker


@pytest.fixture
async def kafka(request: pytest.FixtureRequest, kafka_broker: Broker) -> AsyncIterator[KafkaKit]:
    """Helpers on the session's broker."""
    if request.node.get_closest_marker("apache_kafka") and not kafka_broker.is_apache_kafka:
        request.config.stash.setdefault(_NOT_RUN, []).append(request.node.nodeid)
        pytest.skip(f"needs Apache Kafka; {kafka_broker.title} runs")
    kit = KafkaKit(kafka_broker, request.node.name)
    yield kit
    await kit.clean_up()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the broker, so that `-m 'not kafka'` leaves it out."""
    for item in items:
        if "kafka_broker" in getattr(item, "fixturenames", ()):
            item.add_marker("kafka")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which broker ran, and which tests would have needed another."""
    broker = config.stash.get(_BROKER, None)
    if broker is None:
        return
    terminalreporter.section("Kafka broker")
    terminalreporter.line(broker.describe())
    if not_run := config.stash.get(_NOT_RUN, []):
        terminalreporter.line(f"{len(not_run)} tests that need Apache Kafka were not run:")
        for name in not_run:
            terminalreporter.line(f"  {name}")
