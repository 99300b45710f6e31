"""Writes the records of one subtask.

Records gather in a batch for each partition. A partition that has nothing on its way is sent what there is as soon as
`write` has gone through its records: a quiet stream waits for nothing. While a batch is on its way the next one grows
until it is full or the way is free: a loaded stream has large ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaProducer

from streamline._core.time import sleep
from streamline.abc import Batch, SinkContext, SinkWriter
from streamline.connectors.kafka.client import start, stop, topic_partitions
from streamline.connectors.kafka.encoding import Headers, Outgoing, RecordEncoder
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException, explained
from streamline.connectors.kafka.partitioning import FixedPartitioner, KafkaPartitioner, TopicPartitions
from streamline.connectors.kafka.properties import number_property, producer_arguments

__all__ = ("KafkaWriter", "Sending")

_log = logging.getLogger("streamline.kafka")

#: Bytes of a batch, measured to be best; Kafka's own default is 16 KiB.
BATCH_BYTES: Final = 128 << 10
#: Milliseconds until the broker has to have acknowledged what is flushed, as Kafka's delivery.timeout.ms.
DELIVERY_MS: Final = 120_000
#: Bytes on their way and waiting, over all partitions, as Kafka's buffer.memory.
MEMORY: Final = 32 << 20
_NO_HEADERS: Final[Headers] = []


class _Lane:
    """One partition: the batch that grows, and how many are on their way."""

    __slots__ = ("_create", "builder", "on_way", "partition", "topic")

    def __init__(self, topic: str, partition: int, create: Callable[[], Any]) -> None:
        self.topic = topic
        self.partition = partition
        self.builder: Any = None
        self.on_way = 0
        self._create = create

    def begin(self) -> Any:
        """The batch that grows; a new one where there is none."""
        builder = self.builder
        if builder is None:
            builder = self.builder = self._create()
        return builder


class Sending:
    """A producer with lanes: what at-least-once and transactional writers have in common.

    Args:
        producer: a producer that has started.
        properties: the sink's.
        ctx: of the writer.
    """

    def __init__(self, producer: AIOKafkaProducer, properties: Mapping[str, Any], ctx: SinkContext) -> None:
        self.producer: Final = producer
        self._bootstrap = str(properties["bootstrap.servers"])
        self._clock = ctx.clock
        self._delivery = number_property(properties, "delivery.timeout.ms", DELIVERY_MS) / 1000
        self._memory = number_property(properties, "buffer.memory", MEMORY)
        self._linger = number_property(properties, "linger.ms", 0)
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._pending: set[asyncio.Future[Any]] = set()
        #: On their way and not acknowledged yet.
        self.bytes = 0
        #: A topic and partition that something was sent to, None before.
        self.place: tuple[str, int] | None = None
        self._error: Exception | None = None
        self._due = asyncio.Event()
        self._progress = asyncio.Event()
        self._closed = False
        ctx.spawn(self._pump, "send")

    # -- records -------------------------------------------------------------------------------------------------

    def lane(self, topic: str, partition: int) -> _Lane:
        """The lane of a partition."""
        found = self._lanes.get((topic, partition))
        if found is None:
            found = self._lanes[topic, partition] = _Lane(topic, partition, self.producer.create_batch)
        return found

    async def add_run(
        self, lane: _Lane, values: Sequence[bytes | None], timestamps: Sequence[int | None] | None, start: int
    ) -> int:
        """Put records without key and headers into one batch until it is full; gives where to go on."""
        append = lane.begin().append
        if timestamps is None:
            for i in range(start, len(values)):
                if append(timestamp=None, key=None, value=values[i], headers=_NO_HEADERS) is None:
                    await self.submit(lane)
                    return i
            return len(values)
        for i in range(start, len(values)):
            if append(timestamp=_valid(timestamps[i]), key=None, value=values[i], headers=_NO_HEADERS) is None:
                await self.submit(lane)
                return i
        return len(values)

    async def go(self) -> None:
        """Send what waits for partitions that have nothing on their way; wait where too much is on its way."""
        self.check()
        if self._linger > 0:
            self._due.set()
        else:
            for lane in self._lanes.values():
                if lane.builder is not None and not lane.on_way:
                    await self.submit(lane)
        while self.bytes > self._memory:
            self._progress.clear()
            await self._progress.wait()
            self.check()

    def check(self) -> None:
        """Raise what went wrong with something sent before.

        Raises:
            KafkaException: the broker refused a batch.
            KafkaConnectionError: no broker took it in time.
        """
        if self._error is not None:
            raise self._error

    async def flush(self) -> None:
        """Send everything and wait until the broker has acknowledged it.

        Raises:
            KafkaException: the broker refused something.
            KafkaConnectionError: it did not answer in time.
        """
        with anyio.move_on_after(self._delivery) as limit:
            for lane in list(self._lanes.values()):
                if lane.builder is not None:
                    await self.submit(lane)
            while self._pending and self._error is None:
                self._progress.clear()
                await self._progress.wait()
        self.check()
        if limit.cancelled_caught:
            raise KafkaConnectionError(
                f"writing to {self._bootstrap}: {len(self._pending)} batches were not acknowledged within "
                f"{self._delivery:g} seconds (delivery.timeout.ms)"
            )

    async def close(self, seconds: float) -> None:
        """Stop the producer and the task that sends."""
        self._closed = True
        self._due.set()
        await stop(self.producer, seconds)

    # -- batches -------------------------------------------------------------------------------------------------

    async def submit(self, lane: _Lane) -> None:
        """Hand a lane's batch to the producer; waits while one is queued there already (back-pressure)."""
        builder, lane.builder = lane.builder, None
        builder.close()  # the producer counts its records now: none may be added later
        lane.on_way += 1
        self.place = lane.topic, lane.partition
        size = builder.size()
        self.bytes += size
        try:
            future = await self.producer.send_batch(builder, lane.topic, partition=lane.partition)
        except BaseException as e:
            lane.on_way -= 1
            self.bytes -= size
            if isinstance(e, kafka_errors.KafkaError):
                raise explained(e, f"writing to topic {lane.topic!r}, partition {lane.partition}") from e
            raise
        self._pending.add(future)
        future.add_done_callback(lambda f: self._on_done(f, lane, size, builder.record_count()))

    def _on_done(self, future: asyncio.Future[Any], lane: _Lane, size: int, records: int) -> None:
        self._pending.discard(future)
        lane.on_way -= 1
        self.bytes -= size
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Exception) and self._error is None:
            self._error = _refused(error, lane, size, records)
        self._progress.set()
        if self._error is not None or (lane.builder is not None and not lane.on_way):
            self._due.set()

    async def _pump(self) -> None:
        """Send what has gathered while its partition was busy; fail as soon as something was refused."""
        while True:
            await self._due.wait()
            if self._linger > 0:
                await sleep(self._clock, self._linger)
            self._due.clear()
            if self._closed:
                return
            self.check()
            for lane in list(self._lanes.values()):
                if lane.builder is not None and not lane.on_way:
                    await self.submit(lane)


def _refused(error: Exception, lane: _Lane, size: int, records: int) -> Exception:
    where = f"writing to topic {lane.topic!r}, partition {lane.partition}"
    if isinstance(error, kafka_errors.MessageSizeTooLargeError):
        what = "a record" if records == 1 else f"a batch of {records} records"
        advice = "" if records == 1 else ", or set 'batch.size' below it"
        return KafkaException(
            f"{where}: {what} of {size} bytes is larger than the broker takes; raise the topic's "
            f"max.message.bytes{advice}"
        )
    return explained(error, where)


class KafkaWriter(SinkWriter[Any]):
    """At least once: `flush` returns when the brokers have acknowledged everything.

    Args:
        encoder: makes records.
        properties: of the producer, by Kafka's names.
        fixed: all records of this subtask go to one partition.
        flushes: False for the delivery guarantee NONE: nothing is waited for before the end.
        close_seconds: how long closing may take.
    """

    def __init__(
        self,
        encoder: RecordEncoder,
        properties: Mapping[str, Any],
        *,
        fixed: bool = False,
        flushes: bool = True,
        close_seconds: float = 5.0,
    ) -> None:
        self._encoder = encoder
        self._properties = properties
        self._fixed = fixed
        self._flushes = flushes
        self._close_seconds = close_seconds
        self._topics: dict[str, TopicPartitions] = {}
        self._partitioner: KafkaPartitioner | None = encoder.partitioner
        self._sending: Sending | None = None

    async def open(self, ctx: SinkContext) -> None:
        self._prepare(ctx)
        sending = await self._ready()
        if self._encoder.topic is not None:
            await self._topic(sending, self._encoder.topic)

    def _prepare(self, ctx: SinkContext) -> None:
        self._ctx = ctx
        if self._fixed:
            self._partitioner = FixedPartitioner(ctx.subtask_index)
        ctx.metrics.gauge("bytesOnTheirWay", lambda: 0 if self._sending is None else self._sending.bytes)
        self._sent = ctx.metrics.counter("numRecordsSend")

    async def _ready(self) -> Sending:
        """What takes records now."""
        if self._sending is None:
            producer = new_producer(self._properties)
            await start(producer, str(self._properties["bootstrap.servers"]))
            self._sending = Sending(producer, self._properties, self._ctx)
        return self._sending

    async def write(self, batch: Batch) -> None:
        sending = await self._ready()
        out = self._encoder.encode(batch)
        if out.keys is None and out.topics is None and out.headers is None and self._partitioner is None:
            await self._write_plain(sending, out)
        else:
            await self._write_each(sending, out)
        self._sent.inc(len(out.values))
        await sending.go()

    async def _write_plain(self, sending: Sending, out: Outgoing) -> None:
        """Values without keys: partition after partition, a batch for each."""
        assert self._encoder.topic is not None
        topic = await self._topic(sending, self._encoder.topic)
        if None in out.values:
            raise _no_key_no_value(topic.topic)
        done = 0
        while done < len(out.values):
            topic.turn()
            done = await sending.add_run(sending.lane(topic.topic, topic.current), out.values, out.timestamps, done)

    async def _write_each(self, sending: Sending, out: Outgoing) -> None:
        count = len(out.values)
        nothing: Sequence[Any] = [None] * count
        topic = await self._topic(sending, self._encoder.topic) if self._encoder.topic is not None else None
        for name in {*out.topics} if out.topics is not None else ():
            await self._topic(sending, name)
        partitioner = self._partitioner
        parts = (
            out.values,
            out.keys or nothing,
            out.topics or nothing,
            out.timestamps or nothing,
            out.headers or nothing,
        )
        for i, (value, key, name, timestamp, headers) in enumerate(zip(*parts)):
            to = self._topics[name] if name is not None else topic
            assert to is not None
            if key is None and value is None:
                raise _no_key_no_value(to.topic)
            if partitioner is not None:
                partition = partitioner(out.records[i], key, value, to.topic, to.partitions)
                if partition not in to.partitions:
                    raise KafkaException(
                        f"the partitioner chose partition {partition!r}; {to.topic!r} has {to.partitions}"
                    )
            elif key is not None:
                partition = to.of_key(key)
            else:
                partition = to.current
            lane = sending.lane(to.topic, partition)
            if lane.builder is None and key is None and partitioner is None:
                to.turn()  # the next batch of records without a key goes elsewhere
            record = {"timestamp": _valid(timestamp), "key": key, "value": value, "headers": headers or _NO_HEADERS}
            while lane.begin().append(**record) is None:
                await sending.submit(lane)

    async def _topic(self, sending: Sending, name: str) -> TopicPartitions:
        """A topic's partitions; new ones are used as soon as the client knows of them."""
        found = self._topics.get(name)
        known = sending.producer.client.cluster.partitions_for_topic(name)
        if found is None:
            partitions = await topic_partitions(sending.producer, self._properties, name)
            found = self._topics[name] = TopicPartitions(name, partitions)
        elif known and len(known) > len(found.partitions):
            found = self._topics[name] = TopicPartitions(name, sorted(known))
        return found

    async def flush(self, end_of_input: bool = False) -> None:
        if self._sending is not None and (self._flushes or end_of_input):
            await self._sending.flush()

    async def close(self) -> None:
        if self._sending is not None:
            await self._sending.close(self._close_seconds)


def new_producer(properties: Mapping[str, Any], **more: Any) -> AIOKafkaProducer:
    """A producer as this package uses them: acknowledged by all replicas, each record once whatever is sent again."""
    arguments: dict[str, Any] = {"max_batch_size": BATCH_BYTES, **producer_arguments(properties), **more}
    arguments.pop("linger_ms", None)  # batches are closed when they are handed over: the writer lingers, if asked to
    arguments.setdefault("acks", "all")
    arguments.setdefault("enable_idempotence", arguments["acks"] == "all")
    try:
        return AIOKafkaProducer(**arguments)
    except (RuntimeError, ValueError) as e:
        raise KafkaException(f"the producer's properties do not fit: {e} (compression: `pip install cramjam`)") from e


def _valid(timestamp: int | None) -> int | None:
    """Kafka has no times before 1970; such a record gets the time of sending, as with Flink."""
    return timestamp if timestamp is not None and timestamp >= 0 else None


def _no_key_no_value(topic: str) -> KafkaException:
    return KafkaException(f"a record for topic {topic!r} has neither key nor value; a tombstone needs a key")
