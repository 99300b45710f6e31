"""A broker that goes away, comes back, or never answers: jobs go on, nobody waits for ever, logs stay short."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator, NoGroupCoordinator
from aiokafka.errors import RequestTimedOutError
from aiokafka.producer.sender import EndTxnHandler

from streamline import JobStatus, StreamExecutionEnvironment
from streamline.abc import Batch
from streamline.connectors.kafka import (
    KafkaConnectionError,
    KafkaException,
    KafkaOffsetsInitializer,
    KafkaSource,
    SimpleStringSchema,
    client,
    client_logs,
    reader,
    transaction_requests,
    transactional,
)
from streamline.testing import SlowDisk, faulty_disk
from streamline.testing.broker import open_broker
from streamline.testing.kafka import KafkaKit

from .conftest import reading
from .test_exactly_once import Run, exactly_once, seen


def text_source(kafka: KafkaKit, topic: str, **more: Any) -> KafkaSource[str]:
    return KafkaSource(
        bootstrap_servers=kafka.bootstrap, topics=topic, value_only_deserializer=SimpleStringSchema(), **more
    )


async def until(condition: Any, seconds: float = 30.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all time limits of requests be short."""
    for module, name in (
        (client, "START_SECONDS"),
        (reader, "REQUEST_SECONDS"),
        (transaction_requests, "REQUEST_SECONDS"),
        (transactional, "COMMIT_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.3)


async def never(*args: Any, **kwargs: Any) -> Any:
    await asyncio.Event().wait()


# -- the broker goes away ------------------------------------------------------------------------------------------


@pytest.mark.apache_kafka  # the embedded one forgets what it had acknowledged
async def test_an_outage_while_new_partitions_are_looked_for_does_not_fail_the_job(
    kafka: KafkaKit, caplog: pytest.LogCaptureFixture
) -> None:
    """The readers wait for the broker and so does the search: said once, and afterwards new partitions are found."""
    if kafka.broker.kind != "apache-kafka":
        pytest.skip("starts a node of its own")
    caplog.set_level(logging.WARNING)
    async with open_broker("apache-kafka") as own:
        kit = KafkaKit(own)
        topic = await kit.create_topic()
        await kit.produce(topic, [(None, "a")])
        env, got = StreamExecutionEnvironment.get_execution_environment(), list[str]()
        source = text_source(kit, topic, group_id="g", partition_discovery_interval="50 ms")
        env.from_source(source, name="in").add_sink(got.append)
        async with await env.execute_async("outage") as job:
            await until(lambda: got == ["a"])
            caplog.clear()
            own.kill()
            await until(lambda: "looking for new partitions" in caplog.text)
            with anyio.move_on_after(1.5):  # more looks, and more tries of the clients
                await asyncio.Event().wait()
            assert await job.get_job_status() is JobStatus.RUNNING
            names = [r.name for r in caplog.records]
            assert [n for n in names if n.startswith("aiokafka")] == [], "the clients are summed up"
            said = [r.getMessage() for r in caplog.records if r.name == "streamline.kafka"]
            looks = [m for m in said if m.startswith("looking for new partitions: ")]
            assert len(looks) == 1, "once for the whole outage"
            assert "no Kafka broker answers" in looks[0] or "the connection to the broker is lost" in looks[0]
            assert 1 <= len([m for m in said if m.startswith(f"Kafka at {own.bootstrap}: ")]) <= 2
            await own.restart()
            await kit.add_partitions(topic, 2)
            await kit.produce(topic, [(None, "b", None, 0), (None, "c", None, 1)])
            await until(lambda: sorted(got) == ["a", "b", "c"])
            assert await job.get_job_status() is JobStatus.RUNNING


@pytest.mark.apache_kafka  # the embedded one forgets what it had acknowledged
async def test_an_outage_between_barrier_and_commit_loses_and_doubles_nothing(kafka: KafkaKit) -> None:
    """The commit waits for the broker; so does a restarted job, which finds the transaction as it was left."""
    if kafka.broker.kind != "apache-kafka":
        pytest.skip("starts a node of its own")
    async with open_broker("apache-kafka") as own:
        kit = KafkaKit(own)
        topic = await kit.create_topic()
        run = await Run(exactly_once(kit, topic, kit.unique("tx"))).open()
        first, _ = await run.checkpoint(1, "a")
        second, state = await run.checkpoint(2, "b")
        own.kill()
        async with anyio.create_task_group() as group:
            group.start_soon(run.writer.commit, first)
            await own.restart()
        await run.crash()
        again = await Run(run.sink).open([*first, *second], state)
        assert again.lost == 0
        assert await seen(kit, topic, 2) == ["a", "b"]
        await again.close()


async def test_an_outage_while_a_new_partition_is_looked_at_does_not_fail_the_job(
    kafka: KafkaKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was found, and then its offsets cannot be asked for: tried again until they can."""
    monkeypatch.setattr(reader, "AGAIN_MS", 20)
    topic = await kafka.create_topic()
    source = text_source(kafka, topic, partition_discovery_interval="50 ms")
    async with reading(source) as r:
        await kafka.add_partitions(topic, 2)
        await kafka.produce(topic, [(None, "a", None, 1)])
        found = await source.discover()
        times = 0

        async def away(*args: Any, **kwargs: Any) -> Any:
            nonlocal times
            times += 1
            raise RequestTimedOutError

        with monkeypatch.context() as patch:
            patch.setattr(AIOKafkaConsumer, "beginning_offsets", away)
            await r.reader.add_splits([(split, None) for split in found[1:]])
            await until(lambda: times >= 3)
        assert list(r.reader.positions()) == [f"{topic}-0"]
        assert await r.read(1) == ["a"]
        assert r.reader.positions()[f"{topic}-1"][0] == 1
    assert caplog.text.count("new partitions cannot be read yet") == 1


@pytest.mark.apache_kafka  # the embedded one makes every topic that is asked for
async def test_what_is_refused_while_new_partitions_are_looked_for_is_raised(kafka: KafkaKit) -> None:
    """An outage passes; a topic that is not there does not come back by itself."""
    source = text_source(kafka, kafka.unique("no-such"), partition_discovery_interval="50 ms")
    with pytest.raises(KafkaException, match="there is no topic"):
        await source.discover_again()


# -- logs ----------------------------------------------------------------------------------------------------------


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    handler = Kept()
    logging.getLogger().addHandler(handler)
    monkeypatch.setattr(client_logs._collapse, "_said", {})
    yield handler
    logging.getLogger().removeHandler(handler)


def complain(seconds: float, message: str = "Unable connect to node with id %s", level: int = logging.ERROR) -> None:
    """As the client library does, so many seconds after the first time."""
    logger = logging.getLogger("aiokafka")
    record = logger.makeRecord("aiokafka", level, "client.py", 1, message, (1,) if "%" in message else (), None)
    record.created = 1_000_000 + seconds
    logger.handle(record)


def test_complaints_of_our_clients_are_summed_up_each_minute(kept: Kept) -> None:
    with client_logs.clients_of("a:1"):
        for tenth in range(1300):
            complain(tenth / 10)
    once = "streamline.kafka: Kafka at a:1: Unable connect to node with id 1{}. The clients try again by themselves"
    assert len(kept.said) == 3
    assert kept.said[0].startswith(once.format(""))
    assert [s.startswith(once.format(" (599 more such messages since the last one)")) for s in kept.said[1:]] == [
        True
    ] * 2


def test_other_clients_and_other_messages_are_let_through(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    complain(0)
    complain(1)
    with client_logs.clients_of("a:1"):
        complain(2, "Topic t not found in cluster metadata")
    assert kept.said == [
        "aiokafka: Unable connect to node with id 1",
        "aiokafka: Unable connect to node with id 1",
        "aiokafka: Topic t not found in cluster metadata",
    ]
    kept.said.clear()
    monkeypatch.setattr(logging.getLogger("aiokafka"), "level", logging.DEBUG)
    logging.getLogger("aiokafka").manager._clear_cache()  # type: ignore[attr-defined]
    with client_logs.clients_of("a:1"):
        complain(3)
    assert kept.said == ["aiokafka: Unable connect to node with id 1"], "who debugs the clients sees everything"
    monkeypatch.undo()
    logging.getLogger("aiokafka").manager._clear_cache()  # type: ignore[attr-defined]


# -- the broker never answers --------------------------------------------------------------------------------------


async def test_c86_a_coordinator_that_never_answers_does_not_hold_a_writer(
    kafka: KafkaKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C86: beginning a transaction, committing it, asking how it stands: each has an end."""
    topic = await kafka.create_topic()
    run = await Run(exactly_once(kafka, topic, kafka.unique("tx"))).open()
    (one,), state = await run.checkpoint(1, "a")
    run.writer._close_seconds = 0.5
    shorten(monkeypatch)
    with anyio.fail_after(20):
        with monkeypatch.context() as patch:
            patch.setattr(EndTxnHandler, "do", never)
            with pytest.raises(KafkaConnectionError, match="committing transaction .* did not answer in time"):
                await run.writer.commit([one])
        with monkeypatch.context() as patch:
            patch.setattr(AIOKafkaClient, "coordinator_lookup", never)
            with pytest.raises(KafkaConnectionError, match="no Kafka broker answers"):
                await run.writer.write(Batch(["b"]))
            with pytest.raises(KafkaException, match="the broker does not say how it stands"):
                await Run(run.sink).open([one], state)
        await run.close()
    monkeypatch.undo()
    again = await Run(run.sink).open([one], state)  # when it answers again nothing is lost
    assert again.lost == 0
    await again.close()


async def test_c86_a_commit_of_offsets_that_never_ends_holds_nothing(
    kafka: KafkaKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C86: offsets of the group are for people: records come, checkpoints complete, and closing has its limit."""
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, str(n)) for n in range(10)])
    for coordinator in (GroupCoordinator, NoGroupCoordinator):
        if hasattr(coordinator, "commit_offsets"):
            monkeypatch.setattr(coordinator, "commit_offsets", never)
    with anyio.fail_after(25):
        async with reading(text_source(kafka, topic, group_id=kafka.unique("g"))) as r:
            await r.read(10)
            shorten(monkeypatch)
            for n in range(3):
                await r.reader.on_checkpoint_complete(n, r.reader.positions())
            await kafka.produce(topic, [(None, "more")])
            assert (await r.read(11))[-1] == "more"


# -- stopping ------------------------------------------------------------------------------------------------------


async def test_c16_stopping_ends_in_time_while_a_coordinator_is_looked_for(
    kafka: KafkaKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: no group is joined; that its coordinator is not to be found does not hold up the end."""
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, "a")])
    monkeypatch.setattr(AIOKafkaClient, "coordinator_lookup", never)
    env, got = StreamExecutionEnvironment.get_execution_environment(), list[str]()
    env.enable_checkpointing(20)
    env.from_source(text_source(kafka, topic, group_id=kafka.unique("g")), name="in").add_sink(got.append)
    job = await env.execute_async("stop")
    await until(lambda: got == ["a"])
    with anyio.fail_after(7):
        await job.cancel()


async def test_c16_starting_and_stopping_again_and_again(kafka: KafkaKit) -> None:
    """C16: forty jobs, stopped at once: none hangs, none leaves a task."""
    topic = await kafka.create_topic()
    with anyio.fail_after(30):
        for _ in range(40):
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_source(text_source(kafka, topic, group_id=kafka.unique("g")), name="in").print()
            async with await env.execute_async():
                pass


async def test_c20_a_slow_last_savepoint_is_waited_for_and_then_committed(kafka: KafkaKit, tmp_path: Path) -> None:
    """C20: nothing expires while the savepoint is written, for no group is joined; then its offsets are committed."""
    topic, group = await kafka.create_topic(), kafka.unique("g")
    await kafka.produce(topic, [(None, str(n)) for n in range(10)])
    env, got = StreamExecutionEnvironment.get_execution_environment(), list[str]()
    source = text_source(kafka, topic, group_id=group, properties={"session.timeout.ms": "500"})
    env.from_source(source, name="in").uid("in").add_sink(got.append)
    with faulty_disk(SlowDisk("write", "1 s")):
        job = await env.execute_async("slow")
        await until(lambda: len(got) == 10)
        await job.stop_with_savepoint(savepoint_directory=str(tmp_path))
    assert await kafka.committed(group, topic) == {0: 10}


# -- ends of the log -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept_from", [7, 10])
async def test_c78_the_end_is_a_position_and_not_a_record(kafka: KafkaKit, kept_from: int) -> None:
    """C78: the log begins at 7, or all of it is gone: reading to the end ends, with what there is."""
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, str(n)) for n in range(10)])
    await kafka.delete_records(topic, 0, kept_from)
    with anyio.fail_after(10):
        async with reading(text_source(kafka, topic, bounded=KafkaOffsetsInitializer.latest())) as r:
            assert await r.to_end() == [str(n) for n in range(kept_from, 10)]


async def test_c80_a_topic_that_was_made_anew_is_an_error_with_choices(kafka: KafkaKit) -> None:
    """C80: the checkpoint says 10, the topic of the same name ends at 1."""
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, str(n)) for n in range(10)])
    async with reading(text_source(kafka, topic)) as r:
        await r.read(10)
        positions = dict(r.reader.positions())
    await kafka.delete_topic(topic)
    with anyio.fail_after(15):
        while True:
            try:
                await kafka.create_topic(name=topic)
                break
            except Exception as e:  # it is being deleted
                assert "exist" in str(e).lower() or "Exist" in type(e).__name__, repr(e)
    await kafka.produce(topic, [(None, "new")])
    with pytest.raises(KafkaException, match=r"offset 10, but the log has 0 to 1.*made anew.*on_offset_lost"):
        async with reading(text_source(kafka, topic), positions):
            pass
    async with reading(text_source(kafka, topic, on_offset_lost="earliest"), positions) as r:
        assert await r.read(1) == ["new"]
