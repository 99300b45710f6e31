"""Finishing a transaction that another producer, perhaps of a dead process, has begun.

Kafka knows a transaction by its transactional id, and the producer that may end it by a producer id and an epoch. A
checkpoint keeps the three; whoever has them can commit, also after a crash. Each transaction has an epoch of its own
(its producer was started for it alone), so what is committed can never be a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaProducer
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from aiokafka.structs import TopicPartition

from streamline.connectors.kafka.client import start, stop
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException, explained

__all__ = ("Prepared", "TransactionState", "abort_open", "describe", "finish", "new_epoch_of")

_NO_SUCH_ID: Final = 105
#: Seconds that a request about a transaction may take.
REQUEST_SECONDS: Final = 60.0
#: Seconds between two questions.
RETRY_SECONDS: Final = 0.05


class Prepared:
    """Names a transaction whose records are all acknowledged: transactional id, producer id, epoch, one partition."""

    __slots__ = ("epoch", "id", "partition", "producer_id", "topic")

    def __init__(self, id_: str, producer_id: int, epoch: int, topic: str, partition: int) -> None:
        self.id = id_
        self.producer_id = producer_id
        self.epoch = epoch
        self.topic = topic
        self.partition = partition

    def plain(self) -> dict[str, Any]:
        """Plain data, for a checkpoint."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Prepared:
        """From plain data."""
        return cls(data["id"], data["producer_id"], data["epoch"], data["topic"], data["partition"])


@dataclass(frozen=True)
class TransactionState:
    """What the broker says of a transactional id: Empty, Ongoing, PrepareCommit, CompleteCommit, PrepareAbort, …."""

    state: str
    producer_id: int
    epoch: int


class _DescribeTransactionsResponse(Response):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 65
    API_VERSION: ClassVar[int] = 0
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        (
            "transactions",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", CompactString("utf-8")),
                ("state", CompactString("utf-8")),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                (
                    "topics",
                    CompactArray(
                        ("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeTransactions(RequestStruct):  # type: ignore[misc]
    """The client has no such request; this is the whole of it."""

    API_KEY: ClassVar[int] = 65
    API_VERSION: ClassVar[int] = 0
    FLEXIBLE_VERSION: ClassVar[bool] = True
    RESPONSE_TYPE = _DescribeTransactionsResponse
    SCHEMA: ClassVar[Schema] = Schema(("ids", CompactArray(CompactString("utf-8"))), ("tags", TaggedFields))

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _DescribeTransactions:
        """The form for this broker: there is one."""
        if self.API_KEY not in versions:
            raise kafka_errors.IncompatibleBrokerVersion("the broker cannot describe transactions")
        return self


async def describe(client: Any, id_: str) -> TransactionState | None:
    """What the broker knows of a transactional id; None: nothing.

    Raises:
        KafkaException: the broker does not say.
    """
    error: type[Exception] | None = None
    with anyio.move_on_after(REQUEST_SECONDS):
        while True:
            try:
                node = await client.coordinator_lookup(CoordinationType.TRANSACTION, id_)
                reply = await client.send(node, _DescribeTransactions([id_], {}), group=ConnectionGroup.COORDINATION)
            except (kafka_errors.GroupCoordinatorNotAvailableError, kafka_errors.NodeNotReadyError) as e:
                error = type(e)
                with anyio.move_on_after(RETRY_SECONDS):
                    await anyio.sleep_forever()
                continue
            found = reply.transactions[0]
            if found[0] == _NO_SUCH_ID:
                return None
            if found[0] == 0:
                return TransactionState(found[2], found[5], found[6])
            error = kafka_errors.for_code(found[0])
            if not getattr(error, "retriable", False):
                break
            with anyio.move_on_after(RETRY_SECONDS):
                await anyio.sleep_forever()
    name = error.__name__ if error is not None else "no answer"
    raise KafkaException(f"transaction {id_!r}: the broker does not say how it stands ({name})")


def new_epoch_of(producer: AIOKafkaProducer, topic: str, partition: int) -> Prepared:
    """Names the transaction that a producer has open."""
    manager = producer._txn_manager
    return Prepared(manager.transactional_id, manager.producer_id, manager.producer_epoch, topic, partition)


async def finish(make: Any, prepared: Prepared, bootstrap: str) -> str:
    """Commit a transaction that some producer has prepared; gives "committed", "done before" or "lost".

    Args:
        make: gives a producer that has not started, for a transactional id.
        prepared: the transaction.
        bootstrap: for messages.

    Raises:
        KafkaException: the broker refuses, or does not say how the transaction stands.
    """
    producer: AIOKafkaProducer = make(prepared.id)
    # With an id and epoch from the start no new ones are asked for, which would abort the transaction.
    producer._txn_manager.set_pid_and_epoch(prepared.producer_id, prepared.epoch)
    await start(producer, bootstrap)
    try:
        how = _how(await describe(producer.client, prepared.id), prepared)
        if how == "open":
            with anyio.fail_after(REQUEST_SECONDS):
                await producer.begin_transaction()
                # The end is only sent for a transaction with a partition; any one of it will do.
                producer._txn_manager._txn_partitions.add(TopicPartition(prepared.topic, prepared.partition))
                await producer.commit_transaction()
            return "committed"
        return how
    except kafka_errors.ProducerFenced:
        return "lost"  # another producer was started with the id between question and commit
    except (kafka_errors.KafkaError, TimeoutError) as e:
        raise explained(e, f"committing transaction {prepared.id!r} at {bootstrap}") from e
    finally:
        await stop(producer)


def _how(found: TransactionState | None, prepared: Prepared) -> str:
    if found is None:
        return "lost"  # forgotten: an open transaction would not be
    if (found.producer_id, found.epoch) == (prepared.producer_id, prepared.epoch):
        if found.state in ("PrepareCommit", "CompleteCommit", "Empty"):
            return "done before"
        return "open" if found.state == "Ongoing" else "lost"
    # A timeout aborts and raises the epoch by one; a start after the commit raises it too, and leaves it empty. The
    # next transaction of the id has an epoch further on (TransactionalWriter).
    timed_out = found.epoch == prepared.epoch + 1 and found.producer_id == prepared.producer_id
    return (
        "lost" if timed_out and found.state in ("PrepareAbort", "CompleteAbort", "PrepareEpochFence") else "done before"
    )


async def abort_open(make: Any, id_: str, bootstrap: str) -> None:
    """Abort what is open under a transactional id: a producer that starts with it does so.

    Raises:
        KafkaConnectionError: no broker answers.
    """
    producer: AIOKafkaProducer = make(id_)
    try:
        with anyio.fail_after(REQUEST_SECONDS):
            await start(producer, bootstrap)
    except TimeoutError as e:
        raise KafkaConnectionError(f"aborting transaction {id_!r} at {bootstrap}: no answer") from e
    finally:
        await stop(producer)
