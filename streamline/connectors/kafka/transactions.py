"""Finishing a transaction that another producer, perhaps of a dead process, has begun.

Kafka knows a transaction by its transactional id, and the producer that may end it by a producer id and an epoch. A
checkpoint keeps the three; whoever has them can commit, also after a crash. Each transaction has an epoch of its own
(its producer was started for it alone), so what is committed can never be a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from streamline.connectors.kafka.client import start, stop
from streamline.connectors.kafka.client_logs import clients_of
from streamline.connectors.kafka.errors import explained
from streamline.connectors.kafka.transaction_requests import REQUEST_SECONDS, TransactionState, describe

__all__ = ("How", "Prepared", "abort_open", "finish", "how_it_stands", "new_epoch_of")

#: How a transaction ended, or that it is open: "lost" is aborted, "forgotten" is not known to the broker any more.
How = Literal["open", "committed", "done before", "lost", "forgotten"]


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


def new_epoch_of(producer: AIOKafkaProducer, topic: str, partition: int) -> Prepared:
    """Names the transaction that a producer has open."""
    manager = producer._txn_manager
    return Prepared(manager.transactional_id, manager.producer_id, manager.producer_epoch, topic, partition)


async def finish(make: Any, prepared: Prepared, bootstrap: str) -> How:
    """Commit a transaction that some producer has prepared; says how that went, never "open".

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
        with clients_of(bootstrap):
            return await _finish(producer, prepared)
    except (kafka_errors.KafkaError, TimeoutError) as e:
        raise explained(e, f"committing transaction {prepared.id!r} at {bootstrap}") from e
    finally:
        await stop(producer)


async def _finish(producer: AIOKafkaProducer, prepared: Prepared) -> How:
    how = how_it_stands(await describe(producer.client, prepared.id), prepared)
    if how != "open":
        return how
    try:
        with anyio.fail_after(REQUEST_SECONDS):
            await producer.begin_transaction()
            # The end is only sent for a transaction with a partition; any one of it will do.
            producer._txn_manager._txn_partitions.add(TopicPartition(prepared.topic, prepared.partition))
            await producer.commit_transaction()
        return "committed"
    except kafka_errors.ProducerFenced:
        # Between question and commit: its timeout, or a run that still lived has committed it and gone on.
        how = how_it_stands(await describe(producer.client, prepared.id), prepared)
        return "lost" if how == "open" else how


def how_it_stands(found: TransactionState | None, prepared: Prepared) -> How:
    """What has become of a prepared transaction, by what the broker says of its id.

    A producer that starts with the id has the next epoch, and first aborts what is open, with an epoch more; so does
    the broker at a timeout. No transaction is begun in the epoch right after another's (`TransactionalWriter`). So what
    is seen in that epoch tells what has become of the one before; epochs later than that were only begun by runs that
    had finished it.
    """
    if found is None:
        return "forgotten"  # an open one never is
    if found.producer_id != prepared.producer_id:
        return "done before"  # the epochs of the old one were used up
    if found.epoch == prepared.epoch:
        if found.state == "Ongoing":
            return "open"
        return "done before" if found.state in ("PrepareCommit", "CompleteCommit") else "lost"
    if found.epoch == prepared.epoch + 1:
        return "done before" if found.state in ("Empty", "PrepareCommit", "CompleteCommit") else "lost"
    # An earlier epoch: the broker itself has lost what it knew.
    return "lost" if found.epoch < prepared.epoch else "done before"


async def abort_open(make: Any, id_: str, bootstrap: str) -> None:
    """Abort what is open under a transactional id: a producer that starts with it does so.

    Raises:
        KafkaConnectionError: no broker answers.
    """
    producer: AIOKafkaProducer = make(id_)
    await start(producer, bootstrap)
    await stop(producer)
