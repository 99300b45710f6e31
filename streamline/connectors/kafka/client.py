"""Clients that start with a clear error or not at all, and that always stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from streamline.connectors.kafka.client_logs import clients_of
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException, explained, not_connected
from streamline.connectors.kafka.properties import consumer_arguments, producer_arguments

__all__ = ("KafkaTopicPartition", "new_admin", "new_consumer", "partitions_of", "start", "stop", "topic_partitions")

_log = logging.getLogger("streamline.kafka")

#: Seconds that a client gets to start: for a transactional id it asks on and on.
START_SECONDS: Final = 60.0
#: Seconds that a client gets to stop in order before its connections are dropped.
STOP_SECONDS: Final = 5.0
#: A long poll also holds up other requests on its connection, and a reader whose partition is again wanted:
#: shorter than Kafka's default of 500.
FETCH_WAIT_MS: Final = 100

#: Seconds that a broker gets to create a topic by itself.
CREATION_SECONDS: Final = 2.0

_UNKNOWN_TOPIC: Final = 3


class KafkaTopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


async def start(client: Any, bootstrap: str) -> None:
    """Start a client of aiokafka.

    Args:
        client: a consumer, producer or administration client.
        bootstrap: where, for the message.

    Raises:
        KafkaConnectionError: no broker answers.
        KafkaException: the broker refuses, e.g. the credentials.
    """
    try:
        with clients_of(bootstrap), anyio.fail_after(START_SECONDS):
            await client.start()
    except BaseException as e:
        await stop(client)
        if isinstance(e, (kafka_errors.KafkaConnectionError, kafka_errors.KafkaTimeoutError, OSError)):
            raise not_connected(bootstrap, e) from e
        if isinstance(e, Exception):
            raise explained(e, f"connecting to {bootstrap}") from e
        raise


async def stop(client: Any, seconds: float = STOP_SECONDS) -> bool:
    """Stop a client of aiokafka within a time limit; gives whether it stopped in order.

    A client that does not, because its broker is dead, is taken apart: what it had not sent is lost, and nobody waits
    for it any more. Only cancellation is raised.
    """
    if await _within(seconds, getattr(client, "stop", None) or client.close):
        return True
    coordinator = getattr(client, "_coordinator", None)
    for task in (getattr(coordinator, name, None) for name in ("_coordination_task", "_commit_refresh_task")):
        if task is not None:
            task.cancel()
    for name in ("_coordinator", "_fetcher", "_sender"):
        part = getattr(client, name, None)
        if part is not None:
            await _within(1.0, part.close)
    accumulator = getattr(client, "_message_accumulator", None)
    if accumulator is not None:  # a task of the client's own stop() still waits for what is left
        for queued in accumulator._batches.values():
            accumulator._pending_batches.update(queued)  # a batch that is sent again expects to be taken out of these
        left = list(accumulator._pending_batches)
        accumulator.fail_all(kafka_errors.KafkaConnectionError("the producer was closed before the broker answered"))
        for batch in left:
            if batch._drain_waiter.done() and not batch._drain_waiter.cancelled():
                batch._drain_waiter.exception()  # nobody waits for it: asked for, so that nobody is told either
    connections = getattr(client, "_client", None) or getattr(client, "client", None)
    if connections is not None:
        await _within(1.0, connections.close)
    return False


async def _within(seconds: float, close: Callable[[], Awaitable[Any]]) -> bool:
    """Call and wait, at most so long; gives whether it came to an end without an error."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        try:
            await close()
            return True
        except asyncio.CancelledError:
            # The clients now and then let the cancellation of one of their own tasks out of stop(); it is not ours.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except Exception as e:
            _log.debug("a Kafka client did not stop in order: %r", e)
    return False


def new_consumer(properties: Mapping[str, Any], group: str | None = None) -> AIOKafkaConsumer:
    """A consumer as this package uses them: it joins no group, commits nothing and resets nothing by itself."""
    arguments = {"fetch_max_wait_ms": FETCH_WAIT_MS, **consumer_arguments(properties)}
    return AIOKafkaConsumer(group_id=group, enable_auto_commit=False, auto_offset_reset="none", **arguments)


def new_admin(properties: Mapping[str, Any]) -> AIOKafkaAdminClient:
    """A client for questions about the cluster."""
    arguments = {**producer_arguments(properties), **consumer_arguments(properties)}
    known = ("bootstrap_servers", "client_id", "request_timeout_ms", "connections_max_idle_ms", "metadata_max_age_ms")
    security = {k: v for k, v in arguments.items() if k.startswith(("sasl_", "security_", "ssl_", "retry_"))}
    return AIOKafkaAdminClient(**{k: v for k, v in arguments.items() if k in known}, **security)


async def partitions_of(
    properties: Mapping[str, Any], topics: Sequence[str] | None, pattern: re.Pattern[str] | None
) -> list[KafkaTopicPartition]:
    """All partitions of these topics, or of those whose whole name matches the pattern; sorted.

    Raises:
        KafkaConnectionError: no broker answers.
        KafkaException: there is no such topic.
    """
    admin = new_admin(properties)
    bootstrap = str(properties.get("bootstrap.servers", ""))
    await start(admin, bootstrap)
    try:
        with clients_of(bootstrap):
            described = await admin.describe_topics(None if topics is None else list(topics))
    except kafka_errors.KafkaError as e:
        raise explained(e, "looking for topics") from e
    finally:
        await stop(admin)
    found = []
    for topic in described:
        name = topic["topic"]
        if pattern is not None and (topic.get("is_internal") or pattern.fullmatch(name) is None):
            continue
        if topic["error_code"]:
            raise _no_topic(name, topic["error_code"], bootstrap)
        found += [KafkaTopicPartition(name, p["partition"]) for p in topic["partitions"]]
    return sorted(found)


async def topic_partitions(producer: AIOKafkaProducer, properties: Mapping[str, Any], topic: str) -> list[int]:
    """The partitions of a topic that is to be written; a broker that creates topics by itself gets the time to.

    Raises:
        KafkaException: there is no such topic.
    """
    try:
        return [p.partition for p in await partitions_of(properties, [topic], None)]
    except KafkaConnectionError:
        raise
    except KafkaException:
        with anyio.move_on_after(CREATION_SECONDS), contextlib.suppress(kafka_errors.KafkaError):
            return sorted(await producer.partitions_for(topic))
        raise


def _no_topic(name: str, code: int, bootstrap: str) -> KafkaException:
    if code == _UNKNOWN_TOPIC:
        return KafkaException(
            f"there is no topic {name!r} at {bootstrap}. Create it, or check the name (topic names are case-sensitive)"
        )
    error = kafka_errors.for_code(code)
    kind = KafkaConnectionError if error.retriable else KafkaException
    return kind(f"topic {name!r} at {bootstrap} cannot be described: {error.__name__}: {error.description}")
