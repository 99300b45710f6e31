"""What a broker says of transactions: requests that the client library does not have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import aiokafka.errors as kafka_errors
import anyio
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from streamline.connectors.kafka.errors import KafkaException

__all__ = ("REQUEST_SECONDS", "TransactionState", "describe", "open_ids")

_NO_SUCH_ID: Final = 105
#: Seconds that a request about a transaction may take.
REQUEST_SECONDS: Final = 60.0
#: Seconds between two questions.
RETRY_SECONDS: Final = 0.05
#: States of a transaction that readers of committed records wait for.
_OPEN: Final = ("Ongoing", "PrepareAbort", "PrepareCommit")


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


class _OneForm:
    """Mixed into a request that has one form."""

    API_KEY: ClassVar[int]

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Self:
        """The form for this broker: there is one."""
        if self.API_KEY not in versions:
            raise kafka_errors.IncompatibleBrokerVersion("the broker cannot describe transactions (Kafka 3.0 can)")
        return self


class _DescribeTransactions(_OneForm, RequestStruct):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 65
    API_VERSION: ClassVar[int] = 0
    FLEXIBLE_VERSION: ClassVar[bool] = True
    RESPONSE_TYPE = _DescribeTransactionsResponse
    SCHEMA: ClassVar[Schema] = Schema(("ids", CompactArray(CompactString("utf-8"))), ("tags", TaggedFields))


class _ListTransactionsResponse(Response):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 66
    API_VERSION: ClassVar[int] = 0
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_state_filters", CompactArray(CompactString("utf-8"))),
        (
            "transactions",
            CompactArray(
                ("transactional_id", CompactString("utf-8")),
                ("producer_id", Int64),
                ("state", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ListTransactions(_OneForm, RequestStruct):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 66
    API_VERSION: ClassVar[int] = 0
    FLEXIBLE_VERSION: ClassVar[bool] = True
    RESPONSE_TYPE = _ListTransactionsResponse
    SCHEMA: ClassVar[Schema] = Schema(
        ("state_filters", CompactArray(CompactString("utf-8"))),
        ("producer_id_filters", CompactArray(Int64)),
        ("tags", TaggedFields),
    )


async def describe(client: Any, id_: str) -> TransactionState | None:
    """What the broker knows of a transactional id; None: nothing.

    Raises:
        KafkaException: the broker does not say.
    """

    async def ask() -> tuple[int, Any]:
        node = await client.coordinator_lookup(CoordinationType.TRANSACTION, id_)
        reply = await client.send(node, _DescribeTransactions([id_], {}), group=ConnectionGroup.COORDINATION)
        return reply.transactions[0][0], reply.transactions[0]

    code, found = await _answer(ask, f"transaction {id_!r}: the broker does not say how it stands", _NO_SUCH_ID)
    return None if code else TransactionState(found[2], found[5], found[6])


async def open_ids(client: Any) -> set[str]:
    """The transactional ids that have a transaction open, of those that this user may see.

    Raises:
        KafkaException: a broker does not say.
    """
    found: set[str] = set()
    for broker in client.cluster.brokers():

        async def ask(node: int = broker.nodeId) -> tuple[int, Any]:
            reply = await client.send(node, _ListTransactions(list(_OPEN), [], {}))
            return reply.error_code, reply.transactions

        _, listed = await _answer(ask, f"broker {broker.nodeId} does not list its transactions")
        found.update(transaction[0] for transaction in listed)
    return found


async def _answer(ask: Callable[[], Awaitable[tuple[int, Any]]], otherwise: str, *fine: int) -> tuple[int, Any]:
    """The code and the content of an answer with code 0 or one that is fine, asking until there is one."""
    error: type[Exception] | None = None
    with anyio.move_on_after(REQUEST_SECONDS):
        while True:
            try:
                code, content = await ask()
                if code == 0 or code in fine:
                    return code, content
                raise kafka_errors.for_code(code)
            except kafka_errors.KafkaError as e:
                error = type(e)
                if not e.retriable:
                    break
            with anyio.move_on_after(RETRY_SECONDS):
                await anyio.sleep_forever()
    raise KafkaException(f"{otherwise} ({error.__name__ if error is not None else 'no answer'})")
