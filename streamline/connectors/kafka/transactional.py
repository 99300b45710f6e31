"""A writer whose records become visible when the checkpoint that covers them is complete, and only then.

Every checkpoint interval has a transaction of its own, with a transactional id of a small pool: `prefix-subtask-0`,
`-1`, …. At the barrier its records are acknowledged and its name goes into the checkpoint; the next records go into the
next one. When the checkpoint completes the transaction is committed and its id is free again. After a crash the
transactions of the restored checkpoint are committed, and all others that are open under the prefix are aborted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaProducer

from streamline.abc import SinkContext
from streamline.connectors.kafka.client import new_admin, start, stop
from streamline.connectors.kafka.client_logs import clients_of
from streamline.connectors.kafka.encoding import RecordEncoder
from streamline.connectors.kafka.errors import KafkaException, explained
from streamline.connectors.kafka.transaction_requests import open_ids
from streamline.connectors.kafka.transactions import Prepared, abort_open, finish, new_epoch_of
from streamline.connectors.kafka.writer import KafkaWriter, Sending, new_producer

__all__ = ("OnTransactionLost", "TransactionalWriter")

_log = logging.getLogger("streamline.kafka")

OnTransactionLost = Literal["fail", "skip"]

#: Milliseconds until a broker aborts a transaction by itself: the longest that brokers allow by default.
TIMEOUT_MS: Final = 900_000
#: Ids of which a run that still lives, though nobody knows of it, may hold one without a transaction.
AT_LEAST: Final = 3
#: Seconds that a commit may take.
COMMIT_SECONDS: Final = 60.0


class TransactionalWriter(KafkaWriter):
    """Exactly once, for readers with `isolation.level` read_committed.

    Args:
        encoder: makes records.
        properties: of the producers, by Kafka's names.
        prefix: what the transactional ids begin with; no other job may use it.
        on_lost: what to do where a transaction of a completed checkpoint was aborted (its timeout has passed).
        fixed: all records of this subtask go to one partition.
        close_seconds: how long closing a producer may take.
    """

    def __init__(
        self,
        encoder: RecordEncoder,
        properties: Mapping[str, Any],
        *,
        prefix: str,
        on_lost: OnTransactionLost = "fail",
        fixed: bool = False,
        close_seconds: float = 5.0,
    ) -> None:
        super().__init__(encoder, properties, fixed=fixed, close_seconds=close_seconds)
        self._prefix = prefix
        self._on_lost = on_lost
        self._bootstrap = str(properties["bootstrap.servers"])
        #: Transactions whose checkpoint is not complete yet, with the number of their id.
        self._prepared: dict[str, tuple[int, Sending]] = {}
        self._number = -1
        self._used = 0
        #: Numbers whose id was given an epoch since its last transaction.
        self._cleared: set[int] = set()
        self._begun = False

    async def open(self, ctx: SinkContext) -> None:
        # Nothing is aborted here: `recover`, or who only ends what another writer has prepared, has to commit first.
        self._prepare(ctx)
        if not ctx.checkpointing:
            _log.warning(
                "sink %r of job %r is to write exactly once, but there are no checkpoints: its records become visible "
                "at the end of the input. env.enable_checkpointing(…)",
                ctx.operator_name,
                ctx.job_name,
            )

    async def recover(self, committables: Sequence[Any], state: Sequence[Any]) -> None:
        """Commit what the checkpoint covers, abort what came after it."""
        for data in committables:
            await self._finish(Prepared.of(data))
        me = self._ctx.subtask_index
        used = {me: AT_LEAST}
        for subtask, count in state:  # of this subtask, and of those that there are no longer
            used[subtask] = max(used.get(subtask, 0), count + 1)
        self._begun = True
        mine = {(subtask, number) for subtask, count in used.items() for number in range(count)}
        await self._clear(mine | await self._left_open())

    async def _begin(self) -> None:
        """Abort what earlier runs have left open, where no checkpoint of theirs was restored."""
        if not self._begun:
            self._begun = True
            await self._clear(await self._left_open())

    async def _left_open(self) -> set[tuple[int, int]]:
        """Subtask and number of the ids with an open transaction that this subtask looks after.

        Runs may have left some that no checkpoint tells of: with more subtasks, or with more checkpoints that did not
        complete. Readers wait for them until their timeout.
        """
        me, width = self._ctx.subtask_index, self._ctx.parallelism
        admin = new_admin(self._properties)
        await start(admin, self._bootstrap)
        try:
            with clients_of(self._bootstrap):
                ids = await open_ids(admin._client)
        except KafkaException as e:
            _log.warning("transactions that earlier runs have left open may hold readers up until their timeout: %s", e)
            return set()
        finally:
            await stop(admin)
        matches = [re.fullmatch(rf"{re.escape(self._prefix)}-(\d+)-(\d+)", id_) for id_ in ids]
        found = {(int(m[1]), int(m[2])) for m in matches if m is not None}
        return {(subtask, number) for subtask, number in found if subtask % width == me}

    async def _clear(self, ids: Iterable[tuple[int, int]]) -> None:
        """Abort what is open under these ids."""
        async with anyio.create_task_group() as group:
            for subtask, number in ids:
                group.start_soon(abort_open, self._make, self._id(subtask, number), self._bootstrap)
                if subtask == self._ctx.subtask_index:
                    self._cleared.add(number)

    # -- writing -------------------------------------------------------------------------------------------------

    async def _ready(self) -> Sending:
        if self._sending is None:
            await self._begin()
            taken = {number for number, _ in self._prepared.values()}
            self._number = next(n for n in range(len(taken) + 1) if n not in taken)
            id_ = self._id(self._ctx.subtask_index, self._number)
            if self._number not in self._cleared:
                # Two epochs lie between the transactions of an id (`how_it_stands`).
                await abort_open(self._make, id_, self._bootstrap)
            self._cleared.discard(self._number)
            self._used = max(self._used, self._number + 1)
            producer = self._make(id_)
            await start(producer, self._bootstrap)
            await producer.begin_transaction()
            self._sending = Sending(producer, self._properties, self._ctx)
        return self._sending

    def _make(self, transactional_id: str) -> AIOKafkaProducer:
        properties = {"transaction.timeout.ms": TIMEOUT_MS, **self._properties}
        return new_producer(properties, transactional_id=transactional_id)

    def _id(self, subtask: int, number: int) -> str:
        return f"{self._prefix}-{subtask}-{number}"

    # -- committing ----------------------------------------------------------------------------------------------

    async def prepare_commit(self, checkpoint_id: int) -> Sequence[Any]:
        await self._begin()
        sending = self._sending
        if sending is None or sending.place is None:
            return ()
        await sending.flush()  # a record that was refused makes its transaction commit without it
        prepared = new_epoch_of(sending.producer, *sending.place)
        self._prepared[prepared.id] = self._number, sending
        self._sending = None
        return [prepared.plain()]

    def snapshot(self) -> Any:
        return [self._ctx.subtask_index, self._used]

    async def commit(self, committables: Sequence[Any]) -> None:
        for data in committables:
            prepared = Prepared.of(data)
            ours = self._prepared.get(prepared.id)
            if ours is None or new_epoch_of(ours[1].producer, "", 0).epoch != prepared.epoch:
                await self._finish(prepared)
                continue
            producer = ours[1].producer
            try:
                with anyio.fail_after(COMMIT_SECONDS):
                    await producer.commit_transaction()
            except (kafka_errors.KafkaError, TimeoutError) as e:
                raise explained(e, f"committing transaction {prepared.id!r} at {self._bootstrap}") from e
            del self._prepared[prepared.id]
            await ours[1].close(self._close_seconds)

    async def _finish(self, prepared: Prepared) -> None:
        how = await finish(self._make, prepared, self._bootstrap)
        _log.info("transaction %r of the checkpoint: %s", prepared.id, how)
        if how not in ("lost", "forgotten"):
            return
        self._ctx.metrics.counter("numTransactionsLost").inc()
        what = (
            "is gone: its records are lost. Its timeout ('transaction.timeout.ms') has to be longer than the longest "
            "time between the barrier and the restart; the broker's 'transaction.max.timeout.ms' limits it. To go on "
            "without them:"
            if how == "lost"
            else "is not known to the broker any more ('transactional.id.expiration.ms'): whether its records were "
            "committed cannot be told. To go on:"
        )
        text = (
            f"transaction {prepared.id!r}, which a completed checkpoint covers, {what} "
            "KafkaSink(on_transaction_lost='skip'), in SQL 'sink.on-transaction-lost'."
        )
        if self._on_lost == "fail":
            raise KafkaException(text)
        _log.error("%s", text)

    async def abort(self, committables: Sequence[Any]) -> None:
        for data in committables:
            prepared = Prepared.of(data)
            ours = self._prepared.pop(prepared.id, None)
            if ours is not None:
                await self._abort(ours[1])
            else:
                await abort_open(self._make, prepared.id, self._bootstrap)

    async def _abort(self, sending: Sending) -> None:
        try:
            with anyio.move_on_after(self._close_seconds):
                await sending.producer.abort_transaction()
        except (kafka_errors.KafkaError, AssertionError) as e:
            _log.debug("a transaction could not be aborted in order; its timeout will: %r", e)
        await sending.close(self._close_seconds)

    async def close(self) -> None:
        if self._sending is not None:
            await self._abort(self._sending)  # readers need not wait for its timeout
        for _, sending in self._prepared.values():
            await sending.close(self._close_seconds)  # their checkpoint may be complete: the restart decides
