"""KafkaSink with EXACTLY_ONCE: what readers of committed records see, and when; crashes at every point."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from streamline.abc import Batch
from streamline.connectors.kafka import DeliveryGuarantee, KafkaException, KafkaSink, SimpleStringSchema
from streamline.connectors.kafka.transaction_requests import TransactionState, describe
from streamline.connectors.kafka.transactional import TransactionalWriter
from streamline.connectors.kafka.transactions import How, Prepared, finish, how_it_stands
from streamline.errors import ValidationException
from streamline.testing.kafka import KafkaKit

from .conftest import Context


def exactly_once(kafka: KafkaKit, topic: str, prefix: str, **more: Any) -> KafkaSink:
    return KafkaSink(
        bootstrap_servers=kafka.bootstrap,
        topic=topic,
        value=SimpleStringSchema(),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=prefix,
        **more,
    )


class Run:
    """One run of a writer; `crash` ends it without a word to the broker."""

    def __init__(self, sink: KafkaSink, subtask: int = 0, parallelism: int = 1) -> None:
        writer = sink.writer()
        assert isinstance(writer, TransactionalWriter)
        self.sink = sink
        self.writer = writer
        self.context = Context()
        self.context.subtask_index, self.context.parallelism = subtask, parallelism

    async def open(self, committables: list[Any] | None = None, state: list[Any] | None = None) -> Run:
        await self.writer.open(self.context)  # type: ignore[arg-type]
        if committables is not None:
            await self.writer.recover(committables, state or [])
        return self

    async def checkpoint(self, number: int, *values: str) -> tuple[list[Any], list[Any]]:
        """Write, and let a barrier pass: the committables and the state of the checkpoint."""
        if values:
            await self.writer.write(Batch(list(values)))
        await self.writer.flush()
        return list(await self.writer.prepare_commit(number)), [self.writer.snapshot()]

    async def close(self) -> None:
        await self.writer.close()
        await self.context.ended()

    @property
    def lost(self) -> int:
        return int(self.context.metrics.counter("numTransactionsLost").get_count())

    async def crash(self) -> None:
        writer = self.writer
        for sending in [writer._sending, *[s for _, s in writer._prepared.values()]]:
            if sending is not None:
                await sending.close(0.01)
        await self.context.ended()


async def seen(kafka: KafkaKit, topic: str, count: int) -> list[str]:
    """What a reader of committed records sees, once there are as many; markers may come a little later."""
    found: list[str] = []
    with anyio.move_on_after(5):
        while len(found) != count:
            found = [v.decode() for v in await kafka.values(topic, committed_only=True) if v is not None]
    return found


async def test_records_are_seen_when_their_checkpoint_is_complete(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    first, _ = await run.checkpoint(1, "a", "b")
    second, _ = await run.checkpoint(2, "c")
    assert await kafka.values(topic, committed_only=True) == []
    assert len(await kafka.values(topic)) == 3, "they are there, for those who read all"
    await run.writer.commit(first)
    assert await seen(kafka, topic, 2) == ["a", "b"]
    await run.writer.commit(second)
    assert await seen(kafka, topic, 3) == ["a", "b", "c"]
    third, state = await run.checkpoint(3, "d")
    assert [c["id"].rsplit("-", 1)[1] for c in (*first, *second, *third)] == ["0", "1", "0"], "ids come again"
    assert state == [[0, 2]]
    await run.writer.commit(third)
    assert await seen(kafka, topic, 4) == ["a", "b", "c", "d"]
    await run.close()


async def test_an_interval_without_records_has_no_transaction(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    assert await run.checkpoint(1) == ([], [[0, 0]])
    await run.close()


async def test_committables_are_plain_data(kafka: KafkaKit) -> None:
    import msgspec

    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    committables, state = await run.checkpoint(1, "a")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([committables, state])) == [committables, state]
    await run.writer.abort(committables)
    await run.close()


async def test_crash_between_barrier_and_commit(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    committables, state = await run.checkpoint(1, "a", "b")
    await run.writer.write(Batch(["after the barrier"]))
    await run.writer.flush()
    await run.crash()
    again = await Run(sink).open(committables, state)
    assert await seen(kafka, topic, 2) == ["a", "b"]
    next_, _ = await again.checkpoint(2, "c")
    await again.writer.commit(next_)
    assert await seen(kafka, topic, 3) == ["a", "b", "c"], "what came after the barrier was aborted"
    await again.close()


async def test_crash_after_the_commit(kafka: KafkaKit) -> None:
    """The restored checkpoint names a transaction that is committed already, perhaps with its id used again."""
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    committables, state = await run.checkpoint(1, "a")
    await run.writer.commit(committables)
    await run.writer.write(Batch(["lost by the crash"]))
    await run.writer.flush()
    await run.crash()
    for _ in range(2):
        again = await Run(sink).open(committables, state)
        assert await seen(kafka, topic, 1) == ["a"]
        await again.crash()


async def test_crash_before_any_checkpoint_leaves_nothing_that_holds_readers_up(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    await run.writer.write(Batch(["never seen"]))
    await run.writer.flush()
    await run.crash()
    again = await Run(sink).open()
    committables, _ = await again.checkpoint(1, "a")
    await again.writer.commit(committables)
    assert await seen(kafka, topic, 1) == ["a"]
    await again.close()


async def test_closing_aborts_what_is_open(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    await run.writer.write(Batch(["never seen"]))
    await run.close()
    await kafka.produce(topic, [(None, "behind")])
    assert await seen(kafka, topic, 1) == ["behind"]


async def test_several_checkpoints_wait_for_their_commit(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    all_, state = [], []
    for i in range(5):
        committables, state = await run.checkpoint(i, str(i))
        all_ += committables
    assert state == [[0, 5]]
    await run.crash()
    again = await Run(sink).open(all_, state)
    assert await seen(kafka, topic, 5) == ["0", "1", "2", "3", "4"]
    await again.close()


async def test_an_id_that_was_used_again_and_aborted_is_not_taken_for_lost(kafka: KafkaKit) -> None:
    """The checkpoint is committed, its id has begun the next but one interval, and that fails with the job."""
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    first, state = await run.checkpoint(1, "a")
    await run.writer.write(Batch(["b"]))  # with the second id
    await run.writer.commit(first)
    await run.checkpoint(2)  # never completes
    await run.writer.write(Batch(["c"]))  # with the first id again
    await run.writer.flush()
    await run.close()
    again = await Run(sink).open(first, state)
    assert again.lost == 0
    committables, _ = await again.checkpoint(2, "b", "c")
    await again.writer.commit(committables)
    assert await seen(kafka, topic, 3) == ["a", "b", "c"]
    await again.close()


async def test_another_parallelism(kafka: KafkaKit) -> None:
    """What a subtask had open that there is no longer is aborted by the one that was given its state."""
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    runs = [await Run(sink, s, 2).open() for s in range(2)]
    parts = [await run.checkpoint(1, f"s{s}") for s, run in enumerate(runs)]
    for s, run in enumerate(runs):
        await run.writer.write(Batch([f"open {s}"]))
        await run.writer.flush()
        await run.crash()
    again = await Run(sink).open([c for cs, _ in parts for c in cs], [s for _, ss in parts for s in ss])
    assert sorted(await seen(kafka, topic, 2)) == ["s0", "s1"]
    committables, _ = await again.checkpoint(2, "more")
    await again.writer.commit(committables)
    assert sorted(await seen(kafka, topic, 3)) == ["more", "s0", "s1"]
    await again.close()


async def test_refused_record_fails_the_checkpoint(kafka: KafkaKit) -> None:
    """Kafka itself would commit the transaction without it."""
    topic = await kafka.create_topic(config={"max.message.bytes": "2000"})
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    await run.writer.write(Batch(["small", "x" * 5000]))
    with pytest.raises(KafkaException, match="larger than the broker takes"):
        await run.checkpoint(1)
    await run.close()
    assert await kafka.values(topic, committed_only=True) == []


@pytest.mark.apache_kafka  # the embedded one does not abort what has timed out
@pytest.mark.parametrize("on_lost", ["fail", "skip"])
async def test_transaction_that_timed_out_is_not_lost_in_silence(kafka: KafkaKit, on_lost: Any) -> None:
    topic = await kafka.create_topic()
    properties = {"transaction.timeout.ms": "1000"}
    sink = exactly_once(kafka, topic, kafka.unique("tx"), properties=properties, on_transaction_lost=on_lost)
    run = await Run(sink).open()
    committables, state = await run.checkpoint(1, "a")
    await run.crash()
    with anyio.fail_after(30):
        while await kafka.end_offsets(topic, 1) != [2]:  # the broker's own abort marker
            pass
    again = Run(sink)
    if on_lost == "fail":
        with pytest.raises(KafkaException, match=r"is gone: its records are lost.*'transaction.timeout.ms'"):
            await again.open(committables, state)
    else:
        await again.open(committables, state)
        assert again.lost == 1
    await again.close()


@pytest.mark.apache_kafka  # the embedded one does not limit it
async def test_timeout_that_the_broker_does_not_allow(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"), properties={"transaction.timeout.ms": "3600000"})
    run = await Run(sink).open()
    with pytest.raises(KafkaException, match="'transaction.timeout.ms' is longer than the broker allows"):
        await run.writer.write(Batch(["a"]))
    await run.close()


async def test_second_job_with_the_same_prefix_is_found_out(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    run = await Run(sink).open()
    await run.writer.write(Batch(["a"]))
    await run.writer.flush()
    other = await Run(sink).open()
    await other.writer.write(Batch(["b"]))
    await other.writer.flush()
    with pytest.raises(KafkaException, match="Does another job use the same prefix"):
        await run.writer.write(Batch(["c"]))
        await run.writer.flush()
    await run.crash()
    await other.close()


async def state_of(run: Run, id_: str) -> tuple[str, int, int] | None:
    """What the broker says of an id."""
    producer = run.writer._make(id_)
    producer._txn_manager.set_pid_and_epoch(1, 1)  # a client that asks for no epoch
    await producer.start()
    try:
        found = await describe(producer.client, id_)
    finally:
        await producer.stop()
    return None if found is None else (found.state, found.producer_id, found.epoch)


async def settled(run: Run, id_: str) -> tuple[str, int, int] | None:
    """The same, when markers are written."""
    with anyio.fail_after(10):
        while (found := await state_of(run, id_)) is not None and found[0].startswith("Prepare"):
            pass
    return found


@pytest.mark.apache_kafka  # the embedded one gives an abort no epoch of its own
async def test_what_the_broker_says_at_every_point(kafka: KafkaKit) -> None:
    """What `how_it_stands` builds on: states and epochs of an id, step by step."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    (first,), _ = await run.checkpoint(1, "a")
    id_, producer, epoch = first["id"], first["producer_id"], first["epoch"]
    assert await state_of(run, id_) == ("Ongoing", producer, epoch)
    await run.writer.commit([first])
    assert await settled(run, id_) == ("CompleteCommit", producer, epoch)
    await run.writer._clear([(0, 0)])
    assert await settled(run, id_) == ("Empty", producer, epoch + 1)
    (second,), _ = await run.checkpoint(2, "b")
    assert (second["id"], second["producer_id"], second["epoch"]) == (id_, producer, epoch + 2)
    await run.crash()
    again = await Run(run.sink).open([first], [])  # a start with what is open: an epoch for the abort, one for itself
    assert await settled(again, id_) == ("Empty", producer, epoch + 4)
    (third,), _ = await again.checkpoint(3, "c")
    await again.writer._abort(again.writer._prepared.pop(id_)[1])
    assert await settled(again, id_) == ("CompleteAbort", producer, third["epoch"])
    assert await seen(kafka, topic, 1) == ["a"]
    await again.close()


async def test_committing_twice_and_at_once(kafka: KafkaKit) -> None:
    """The end had arrived when the process died, or a run that still lives sends it at the same time."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    (one,), _ = await run.checkpoint(1, "a")
    prepared = Prepared.of(one)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(finish, run.writer._make, prepared, kafka.bootstrap)
        group.start_soon(run.writer.commit, [one])
    assert await finish(run.writer._make, prepared, kafka.bootstrap) == "done before"
    assert await seen(kafka, topic, 1) == ["a"]
    await run.close()


async def test_crash_within_recovery(kafka: KafkaKit) -> None:
    """One transaction of the checkpoint is committed, the other not yet, one id is half cleared: started again."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    first, _ = await run.checkpoint(1, "a")
    second, state = await run.checkpoint(2, "b")
    await run.writer.write(Batch(["after the barrier"]))
    await run.writer.flush()
    await run.crash()
    half = Run(run.sink)
    await half.writer.open(half.context)  # type: ignore[arg-type]
    await half.writer._finish(Prepared.of(first[0]))
    await half.writer._clear([(0, 2)])
    await half.crash()
    again = await Run(run.sink).open([*first, *second], state)
    assert await seen(kafka, topic, 2) == ["a", "b"]
    assert again.lost == 0
    await again.close()


async def test_more_subtasks_before_the_first_checkpoint(kafka: KafkaKit) -> None:
    """No checkpoint tells of what they have open; the only subtask of the next run looks after all of it."""
    topic = await kafka.create_topic()
    sink = exactly_once(kafka, topic, kafka.unique("tx"))
    for s in range(3):
        run = await Run(sink, s, 3).open()
        await run.writer.write(Batch([f"open {s}"]))
        await run.writer.flush()
        await run.crash()
    again = await Run(sink).open()
    await again.checkpoint(1)
    await kafka.produce(topic, [(None, "behind")])
    assert await seen(kafka, topic, 1) == ["behind"]
    await again.close()


async def test_many_checkpoints_that_did_not_complete(kafka: KafkaKit) -> None:
    """Each of them has a transaction open that the last complete checkpoint does not know of."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    first, state = await run.checkpoint(1, "a")
    await run.writer.commit(first)
    for n in range(2, 8):
        await run.checkpoint(n, f"failed {n}")
    await run.crash()
    again = await Run(run.sink).open(first, state)
    await kafka.produce(topic, [(None, "behind")])
    assert await seen(kafka, topic, 2) == ["a", "behind"]
    assert again.lost == 0
    await again.close()


@pytest.mark.parametrize("passed", range(1, 6))
async def test_restore_from_an_older_checkpoint(kafka: KafkaKit, passed: int) -> None:
    """However often its id was used since, and however that ended: its transaction is known to be committed."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    old, state = await run.checkpoint(1, "0")
    await run.writer.commit(old)
    for n in range(passed):
        committables, _ = await run.checkpoint(n + 2, str(n + 1))
        if n < passed - 1:
            await run.writer.commit(committables)
    await run.close()
    again = await Run(run.sink).open(old, state)
    assert again.lost == 0
    assert sorted(await seen(kafka, topic, passed)) == [str(n) for n in range(passed)]
    await again.close()


@pytest.mark.parametrize("end", ["close", "crash"])
async def test_a_fresh_start_in_between(kafka: KafkaKit, end: str) -> None:
    """A run that knew of no checkpoint has used the id and failed; then the checkpoint is restored after all."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    first, state = await run.checkpoint(1, "a")
    await run.writer.commit(first)
    await run.close()
    fresh = await Run(run.sink).open()
    await fresh.writer.write(Batch(["b"]))
    await fresh.writer.flush()
    await (fresh.close() if end == "close" else fresh.crash())
    again = await Run(run.sink).open(first, state)
    assert again.lost == 0
    assert await seen(kafka, topic, 1) == ["a"]
    await again.close()


async def test_c85_a_run_that_was_taken_for_dead_cannot_commit(kafka: KafkaKit) -> None:
    """C85: A stands still within a transaction, B takes over and commits; when A goes on, it is refused."""
    topic = await kafka.create_topic()
    a = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    covered, state = await a.checkpoint(1, "a")
    later, _ = await a.checkpoint(2, "not covered")
    b = await Run(a.sink).open(covered, state)
    more, _ = await b.checkpoint(2, "b")
    await b.writer.commit(more)
    for committables in (covered, later):  # the first was committed by B: it is there once
        with pytest.raises(KafkaException, match="is an old run of this one still alive"):
            await a.writer.commit(committables)
    assert await seen(kafka, topic, 2) == ["a", "b"]
    await a.crash()
    await b.close()


#: What the broker may say of the id of a transaction in producer id 5, epoch 3, and what that means. Each line is a
#: state of the broker at some point of a crash; those that only a fault of the broker can bring about say so.
STANDS: list[tuple[tuple[str, int, int] | None, How]] = [
    # In its own epoch.
    (("Ongoing", 5, 3), "open"),  # the end was not sent, or has not arrived
    (("PrepareCommit", 5, 3), "done before"),  # it has arrived
    (("CompleteCommit", 5, 3), "done before"),  # and all partitions know
    (("PrepareAbort", 5, 3), "lost"),  # its own producer has aborted it
    (("CompleteAbort", 5, 3), "lost"),
    (("Empty", 5, 3), "lost"),  # the broker's log has lost its begin
    # An epoch on: the timeout, or the start of a producer.
    (("Ongoing", 5, 4), "lost"),  # the abort has been decided and is not written yet
    (("PrepareEpochFence", 5, 4), "lost"),
    (("PrepareAbort", 5, 4), "lost"),
    (("CompleteAbort", 5, 4), "lost"),
    (("Empty", 5, 4), "done before"),  # started when it was committed; what is open is aborted first, an epoch on
    (("PrepareCommit", 5, 4), "done before"),  # a broker that gives each end an epoch of its own
    (("CompleteCommit", 5, 4), "done before"),
    # Two epochs on, or more: the next transaction of the id, whatever became of that.
    (("Empty", 5, 5), "done before"),
    (("Ongoing", 5, 5), "done before"),
    (("PrepareCommit", 5, 5), "done before"),
    (("CompleteCommit", 5, 5), "done before"),
    (("PrepareAbort", 5, 5), "done before"),
    (("CompleteAbort", 5, 5), "done before"),
    (("CompleteAbort", 5, 6), "done before"),
    (("CompleteAbort", 5, 90), "done before"),
    # Epochs are 16 bits: when they are used up the id is given a new producer id.
    (("Empty", 6, 0), "done before"),
    (("Ongoing", 6, 0), "done before"),
    (("CompleteAbort", 6, 1), "done before"),
    # The broker knows less than it did.
    (("CompleteCommit", 5, 2), "lost"),
    (None, "forgotten"),
]


@pytest.mark.parametrize(("found", "how"), STANDS)
def test_how_a_transaction_stands(found: tuple[str, int, int] | None, how: How) -> None:
    state = None if found is None else TransactionState(*found)
    assert how_it_stands(state, Prepared("id", 5, 3, "t", 0)) == how


def test_a_prefix_is_needed() -> None:
    with pytest.raises(ValidationException, match="EXACTLY_ONCE needs a transactional_id_prefix"):
        KafkaSink(bootstrap_servers="a:1", topic="t", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
