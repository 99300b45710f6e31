"""KafkaSource against a real broker: what is read, where from, where to, and what is said when something is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import msgspec
import pytest

from streamline.connectors.kafka import (
    DeserializationException,
    JsonDeserializationSchema,
    KafkaConnectionError,
    KafkaException,
    KafkaOffsetLostError,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    SimpleStringSchema,
)
from streamline.errors import StreamlineError, ValidationException
from streamline.testing._process import free_ports
from streamline.testing.broker import open_broker
from streamline.testing.kafka import KafkaKit

from .conftest import reading

LATEST = KafkaOffsetsInitializer.latest()


class Click(msgspec.Struct):
    visitor: str
    n: int


def text_source(kafka: KafkaKit, topic: str, **more: Any) -> KafkaSource[str]:
    options = {"topics": topic, "value_only_deserializer": SimpleStringSchema(), **more}
    return KafkaSource(bootstrap_servers=kafka.bootstrap, **options)


def numbered(count: int, partition: int = 0, start: int = 0) -> list[tuple[Any, ...]]:
    return [(None, f"{partition}:{i}", 1000 + i, partition) for i in range(start, start + count)]


# -- reading -------------------------------------------------------------------------------------------------------


async def test_bounded_reading_gives_everything_once_in_order_and_ends(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(3)
    await kafka.produce(topic, [r for p in range(2) for r in numbered(1700, p)])  # the third partition stays empty
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        await r.to_end()
        assert set(r.reader.finished_splits()) == {f"{topic}-{p}" for p in range(3)}
        assert r.reader.finished_splits() == [], "each is said once"
    for p in range(2):
        assert r.values[f"{topic}-{p}"] == [f"{p}:{i}" for i in range(1700)]
    assert f"{topic}-2" not in r.values


async def test_record_timestamps_come_along(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(3))
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        await r.to_end()
    assert [t for b in r.batches for t in b.timestamps or ()] == [1000, 1001, 1002]


async def test_unbounded_reading_goes_on_and_wakes_the_task(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    async with reading(text_source(kafka, topic)) as r:
        assert r.take() is None
        assert not r.reader.finished
        for i in range(3):
            await kafka.produce(topic, [(None, str(i))])
            await r.read(i + 1)
    assert r.all == ["0", "1", "2"]


async def test_a_bounded_read_stops_at_the_end_of_its_start(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(5))
    source = text_source(kafka, topic, bounded=LATEST)
    async with reading(source) as r:
        await kafka.produce(topic, numbered(5, start=5))
        assert await r.to_end() == [f"0:{i}" for i in range(5)]


async def test_values_of_a_class(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, '{"visitor": "ann", "n": 1, "extra": null}')])
    source = KafkaSource(bootstrap_servers=kafka.bootstrap, topics=topic, value_type=Click, bounded=LATEST)
    assert source.output_type is Click
    async with reading(source) as r:
        assert await r.to_end() == [Click("ann", 1)]


async def test_whole_records_tombstones_and_headers(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("k", "v", 5, 0, [("h", b"1")]), ("k", None, 6, 0), ("x", "skip", 7, 0)])

    def whole(record: Any) -> tuple[Any, ...] | None:
        return None if record.value == b"skip" else (record.key, record.value, record.timestamp, record.headers)

    source = text_source(kafka, topic, value_only_deserializer=None, deserializer=whole, bounded=LATEST)
    async with reading(source) as r:
        assert await r.to_end() == [(b"k", b"v", 5, (("h", b"1"),)), (b"k", None, 6, ())]


async def test_tombstones_are_skipped_and_counted(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("a", "1"), ("a", None), ("a", "2"), ("a", None)])
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        assert await r.to_end() == ["1", "2"]
        assert r.count("numTombstonesSkipped") == 2
        assert r.reader.positions() == {f"{topic}-0": [4, 4]}


async def test_topics_by_pattern_and_list(kafka: KafkaKit) -> None:
    prefix = kafka.unique("p")
    a, b, _ = [await kafka.create_topic(name=f"{prefix}.{x}") for x in ("a", "b", "other")]
    await kafka.produce(a, [(None, "a")])
    await kafka.produce(b, [(None, "b")])
    pattern = prefix + r"\.[ab]"
    by_pattern = text_source(kafka, "", topics=None, topic_pattern=pattern, bounded=LATEST)
    for source in (by_pattern, text_source(kafka, [a, b], bounded=LATEST)):
        assert [s.id for s in await source.discover()] == [f"{a}-0", f"{b}-0"]
        async with reading(source) as r:
            assert await r.to_end() == ["a", "b"]


async def test_chosen_partitions(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(3)
    await kafka.produce(topic, [r for p in range(3) for r in numbered(2, p)])
    chosen = {"topics": None, "partitions": {(topic, 2), (topic, 0)}}
    async with reading(text_source(kafka, topic, bounded=LATEST, **chosen)) as r:
        assert await r.to_end() == ["0:0", "0:1", "2:0", "2:1"]
    with pytest.raises(KafkaException, match=f"topic '{topic}' has no partition 7"):
        await text_source(kafka, topic, topics=None, partitions=[(topic, 7)]).discover()


async def test_partitions_take_turns(kafka: KafkaKit) -> None:
    """One partition with much does not keep another waiting."""
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, numbered(5000, 0))
    await kafka.produce(topic, numbered(10, 1))
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        await r.until(lambda: f"{topic}-1" in r.values, max_records=100)
        assert len(r.values[f"{topic}-0"]) <= 2000
        await r.to_end()


async def test_back_pressure_bounds_what_is_buffered(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [r for p in range(2) for r in numbered(6000, p)])
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        await r.context.woken()
        partitions = r.reader._partitions.values()  # type: ignore[attr-defined]
        with anyio.fail_after(10):
            while any(p.has_room for p in partitions):
                await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
        assert all(1000 <= p.waiting < 1500 for p in partitions), "no more than the buffer and one take"
        await r.to_end()
    assert len(r.all) == 12000


@pytest.mark.apache_kafka  # the embedded broker has no limit for an answer
async def test_big_records_bound_the_buffer_by_bytes(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, b"x" * 700_000)] * 20)
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        (p,) = r.reader._partitions.values()  # type: ignore[attr-defined]
        with anyio.fail_after(10):
            while p.has_room:
                await asyncio.sleep(0)
        assert p.waiting < 10
        await r.to_end()
    assert len(r.all) == 20


async def test_paused_splits_wait_for_their_resumption(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [r for p in range(2) for r in numbered(3, p)])
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        r.reader.pause([f"{topic}-0"], [])
        await r.read(3)
        assert r.all == ["1:0", "1:1", "1:2"]
        assert r.take() is None and not r.reader.finished
        r.reader.pause([], [f"{topic}-0"])
        assert len(await r.to_end()) == 6


async def test_new_partitions_are_read_from_their_first_record(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(1)
    await kafka.produce(topic, numbered(2, 0))
    source = text_source(kafka, topic, starting_offsets=LATEST)
    known = await source.discover()
    async with reading(source, splits=known) as r:
        await kafka.add_partitions(topic, 2)
        await kafka.produce(topic, numbered(2, 1))
        new = [s for s in await source.discover() if s not in known]
        assert [s.id for s in new] == [f"{topic}-1"]
        await r.reader.add_splits([(s, None) for s in new])
        await r.read(2)
        await kafka.produce(topic, numbered(1, 0, start=2))
        assert await r.read(3) == ["0:2", "1:0", "1:1"], "and the first partition goes on where it was"


async def test_partitions_that_came_while_the_job_was_down_are_read_from_their_first_record(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [*numbered(2, 0), *numbered(2, 1)])
    source = text_source(kafka, topic, starting_offsets=LATEST)
    async with reading(source, {f"{topic}-0": [1, None]}) as r:
        assert await r.read(3) == ["0:1", "1:0", "1:1"]


# -- where to start ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "expected"), [
    (KafkaOffsetsInitializer.earliest(), [0, 1, 2, 3, 4]),
    (KafkaOffsetsInitializer.latest(), []),
    (KafkaOffsetsInitializer.timestamp(1002), [2, 3, 4]),
    (KafkaOffsetsInitializer.timestamp(0), [0, 1, 2, 3, 4]),
    (KafkaOffsetsInitializer.timestamp(9999), []),
])  # fmt: skip
async def test_starting_offsets(kafka: KafkaKit, start: KafkaOffsetsInitializer, expected: list[int]) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(5))
    async with reading(text_source(kafka, topic, starting_offsets=start, bounded=LATEST)) as r:
        assert await r.to_end() == [f"0:{i}" for i in expected]


async def test_specific_offsets_and_ends(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [r for p in range(2) for r in numbered(5, p)])
    start = KafkaOffsetsInitializer.offsets({(topic, 0): 3})
    end = KafkaOffsetsInitializer.offsets({(topic, 0): 4, (topic, 1): 2})
    async with reading(text_source(kafka, topic, starting_offsets=start, bounded=end)) as r:
        assert await r.to_end() == ["0:3", "1:0", "1:1"], "a partition without one starts at the earliest"


async def test_end_by_timestamp(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(5))
    async with reading(text_source(kafka, topic, bounded=KafkaOffsetsInitializer.timestamp(1002))) as r:
        assert await r.to_end() == ["0:0", "0:1"]


async def test_committed_offsets_of_a_group(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(2), kafka.unique("group")
    await kafka.produce(topic, [r for p in range(2) for r in numbered(4, p)])
    await kafka.commit(group, topic, {0: 2, 1: 3})
    start = KafkaOffsetsInitializer.committed_offsets()
    source = text_source(kafka, topic, group_id=group, starting_offsets=start, bounded=LATEST)
    async with reading(source) as r:
        assert await r.to_end() == ["0:2", "0:3", "1:3"]


async def test_group_without_offsets_says_what_to_set(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(2), kafka.unique("group")
    await kafka.commit(group, topic, {0: 0})
    start = KafkaOffsetsInitializer.committed_offsets()
    with pytest.raises(StreamlineError) as e:
        async with reading(text_source(kafka, topic, group_id=group, starting_offsets=start)):
            pass
    for part in (repr(group), repr(topic), "partition 1", "scan.startup.mode", "properties.auto.offset.reset"):
        assert part in str(e.value)


@pytest.mark.parametrize(("strategy", "expected"), [("EARLIEST", ["0:0", "0:1"]), ("LATEST", [])])
async def test_group_without_offsets_by_strategy(kafka: KafkaKit, strategy: str, expected: list[str]) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(2))
    start = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[strategy])
    source = text_source(kafka, topic, group_id=kafka.unique("g"), starting_offsets=start, bounded=LATEST)
    async with reading(source) as r:
        assert await r.to_end() == expected


async def test_every_partition_has_an_offset_from_the_first_moment(kafka: KafkaKit) -> None:
    """`latest` on an empty partition, then a crash: what was written meanwhile is not lost."""
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, numbered(3, 0))
    source = text_source(kafka, topic, starting_offsets=LATEST)
    async with reading(source) as r:
        positions = dict(r.reader.positions())
    assert positions == {f"{topic}-0": [3, None], f"{topic}-1": [0, None]}
    await kafka.produce(topic, [*numbered(1, 0, start=3), *numbered(2, 1)])
    async with reading(source, positions) as r:
        assert await r.read(3) == ["0:3", "1:0", "1:1"]


async def test_a_log_that_begins_later_is_read_from_there(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(10))
    await kafka.delete_records(topic, 0, 7)
    async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
        assert await r.to_end() == ["0:7", "0:8", "0:9"]


# -- positions -----------------------------------------------------------------------------------------------------


async def test_positions_follow_what_was_given_out(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(10))
    source = text_source(kafka, topic, bounded=LATEST)
    async with reading(source) as r:
        await r.until(lambda: len(r.all) >= 4, max_records=4)
        positions = dict(r.reader.positions())
        assert positions == {f"{topic}-0": [4, 10]}
    await kafka.produce(topic, numbered(5, start=10))
    async with reading(source, positions) as r:
        assert await r.to_end() == [f"0:{i}" for i in range(4, 10)], "the end is the one of the first start"


async def test_a_finished_split_stays_finished(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(3))
    async with reading(text_source(kafka, topic, bounded=LATEST), {f"{topic}-0": [3, 3]}) as r:
        assert r.reader.finished and r.take() is None
        assert r.reader.finished_splits() == [f"{topic}-0"]


async def test_checkpoints_commit_offsets_for_the_group(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(2), kafka.unique("group")
    await kafka.produce(topic, [r for p in range(2) for r in numbered(5, p)])
    async with reading(text_source(kafka, topic, group_id=group)) as r:
        await r.read(10)
        positions = dict(r.reader.positions())
        assert await kafka.committed(group, topic) == {}, "nothing before a checkpoint is complete"
        await r.reader.on_checkpoint_complete(1, positions)
        with anyio.fail_after(10):
            while r.count("commitsSucceeded") == 0:
                await asyncio.sleep(0.005)
        assert await kafka.committed(group, topic) == {0: 5, 1: 5}
    assert await kafka.committed(group, topic) == {0: 5, 1: 5}


async def test_a_commit_that_is_due_is_made_when_closing(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(), kafka.unique("group")
    await kafka.produce(topic, numbered(5))
    async with reading(text_source(kafka, topic, group_id=group, bounded=LATEST)) as r:
        await r.to_end()
        await r.reader.on_checkpoint_complete(1, r.reader.positions())
    assert await kafka.committed(group, topic) == {0: 5}


async def test_commits_can_be_switched_off_or_made_without_checkpoints(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(5))
    off, auto = kafka.unique("off"), kafka.unique("auto")
    properties = {"commit.offsets.on.checkpoint": "false"}
    async with reading(text_source(kafka, topic, group_id=off, bounded=LATEST, properties=properties)) as r:
        await r.to_end()
        await r.reader.on_checkpoint_complete(1, r.reader.positions())
    assert await kafka.committed(off, topic) == {}
    properties = {"enable.auto.commit": "true", "auto.commit.interval.ms": "10"}
    async with reading(text_source(kafka, topic, group_id=auto, bounded=LATEST, properties=properties)) as r:
        await r.to_end()
    assert await kafka.committed(auto, topic) == {0: 5}


# -- transactions --------------------------------------------------------------------------------------------------


async def transactional(kafka: KafkaKit, topic: str, *parts: tuple[list[str], bool]) -> None:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=kafka.unique("tx")) as producer:
        for values, commit in parts:
            await producer.begin_transaction()
            for v in values:
                await producer.send_and_wait(topic, v.encode(), partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())


async def test_bounded_read_of_transactions_ends_behind_their_markers(kafka: KafkaKit) -> None:
    """Markers take offsets that no record has; an aborted tail gives no record at all."""
    topic = await kafka.create_topic()
    await transactional(kafka, topic, (["a", "b"], True), (["no", "never"], False))
    with anyio.fail_after(10):
        while (await kafka.end_offsets(topic, 1)) != [6]:  # the last marker may come a little later
            await asyncio.sleep(0.005)
    properties = {"isolation.level": "read_committed"}
    async with reading(text_source(kafka, topic, bounded=LATEST, properties=properties)) as r:
        assert await r.to_end() == ["a", "b"]
        end = r.reader.positions()[f"{topic}-0"]
        assert end[0] == end[1] == 6


async def test_open_transactions_bound_a_committed_read(kafka: KafkaKit) -> None:
    from aiokafka import AIOKafkaProducer

    topic = await kafka.create_topic()
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=kafka.unique("tx")) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=0)
        await kafka.produce(topic, [(None, "behind")])
        properties = {"isolation.level": "read_committed"}
        async with reading(text_source(kafka, topic, bounded=LATEST, properties=properties)) as r:
            assert await r.to_end() == []
        async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
            assert await r.to_end() == ["open", "behind"], "uncommitted is what is read unless it is said"
        await producer.abort_transaction()


# -- wrong values --------------------------------------------------------------------------------------------------


async def test_wrong_value_names_its_place_and_field_and_loses_nothing(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    good = '{"visitor": "ann", "n": 1}'
    await kafka.produce(topic, [(None, good), (None, '{"visitor": "bob", "n": "many"}'), (None, good)])
    source = KafkaSource(bootstrap_servers=kafka.bootstrap, topics=topic, value_type=Click, bounded=LATEST)
    with pytest.raises(DeserializationException) as e:
        async with reading(source) as r:
            await r.to_end()
    assert str(e.value).startswith(f"topic '{topic}', partition 0, offset 1: Failed to deserialize JSON")
    assert "field 'n': Expected `int`, got `str`" in str(e.value)
    assert e.value.column == "n"
    assert r.all == [Click("ann", 1)], "what is before it was given out"
    assert r.reader.positions() == {f"{topic}-0": [1, 3]}


@pytest.mark.parametrize("value", [b"", b"\x00\xff", b"{", b"[]"])
async def test_wrong_values_can_be_skipped_and_counted(kafka: KafkaKit, value: bytes) -> None:
    topic = await kafka.create_topic()
    good = '{"visitor": "ann", "n": 1}'
    await kafka.produce(topic, [(None, good), (None, value), (None, good)])
    schema = JsonDeserializationSchema(Click, ignore_parse_errors=True)
    async with reading(text_source(kafka, topic, value_only_deserializer=schema, bounded=LATEST)) as r:
        assert await r.to_end() == [Click("ann", 1)] * 2
        assert r.count("numRecordsInErrors") == 1
        assert r.reader.positions() == {f"{topic}-0": [3, 3]}


async def test_errors_of_a_users_function_stay_themselves(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, "1"), (None, "x")])
    with pytest.raises(ValueError, match="invalid literal for int") as e:
        async with reading(text_source(kafka, topic, value_only_deserializer=int, bounded=LATEST)) as r:
            await r.to_end()
    assert e.value.__notes__ == [f"in the deserializer, at topic '{topic}', partition 0, offset 1"]


# -- offsets that are gone -----------------------------------------------------------------------------------------


async def test_lost_offset_is_an_error_that_names_what_there_is(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(10))
    await kafka.delete_records(topic, 0, 5)
    with pytest.raises(KafkaOffsetLostError) as e:
        async with reading(text_source(kafka, topic), {f"{topic}-0": [2, None]}):
            pass
    assert (e.value.topic, e.value.partition, e.value.wanted, e.value.available) == (topic, 0, 2, (5, 10))
    assert f"topic '{topic}', partition 0: reading should go on at offset 2, but the log has 5 to 10" in str(e.value)


async def test_offset_beyond_the_log_is_an_error(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(3))
    with pytest.raises(KafkaOffsetLostError, match="the topic was made anew or truncated"):
        async with reading(text_source(kafka, topic), {f"{topic}-0": [100, None]}):
            pass


@pytest.mark.parametrize(("policy", "expected", "lost"), [("earliest", 5, 3), ("latest", 0, 8)])
async def test_lost_offset_by_policy(kafka: KafkaKit, policy: Any, expected: int, lost: int) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(10))
    await kafka.delete_records(topic, 0, 5)
    source = text_source(kafka, topic, on_offset_lost=policy)
    async with reading(source, {f"{topic}-0": [2, None]}) as r:
        await r.read(expected)
        assert r.count("numRecordsLost") == lost
        await kafka.produce(topic, numbered(1, start=10))
        assert (await r.read(expected + 1))[-1] == "0:10"


@pytest.mark.apache_kafka  # the embedded broker has no limit for an answer
async def test_offset_lost_while_reading(kafka: KafkaKit) -> None:
    """Retention overtakes a reader that was held up."""
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, b"x" * 600_000)] * 12)
    with pytest.raises(KafkaOffsetLostError):
        async with reading(text_source(kafka, topic, bounded=LATEST)) as r:
            (p,) = r.reader._partitions.values()  # type: ignore[attr-defined]
            with anyio.fail_after(10):
                while p.has_room:
                    await asyncio.sleep(0)
            await kafka.delete_records(topic, 0, 12)
            await r.to_end()


# -- what is not there ---------------------------------------------------------------------------------------------


@pytest.mark.apache_kafka
async def test_unknown_topic_is_said_at_once(kafka: KafkaKit) -> None:
    with anyio.fail_after(5), pytest.raises(KafkaException, match="there is no topic 'no-such-topic' at"):
        await text_source(kafka, "no-such-topic").discover()


@pytest.mark.apache_kafka  # with the embedded broker the reader makes the topic anew
async def test_topic_that_is_deleted_while_it_is_read(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, numbered(2))
    source = text_source(kafka, topic, properties={"metadata.max.age.ms": "300"})
    with anyio.fail_after(15), pytest.raises(KafkaException, match=f"topic '{topic}' is gone: it was deleted"):
        async with reading(source) as r:
            await r.read(2)
            await kafka.delete_topic(topic)
            await r.read(3)


async def test_broker_that_is_not_there() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    source = KafkaSource(bootstrap_servers=address, topics="t", value_type=Click)
    with anyio.fail_after(5), pytest.raises(KafkaConnectionError, match=f"no Kafka broker answers at {address}"):
        await source.discover()
    with anyio.fail_after(5), pytest.raises(KafkaConnectionError, match="Is it running"):
        async with reading(source, splits=[]):
            pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_closing_takes_no_longer_than_allowed_when_the_broker_has_died(kafka: KafkaKit) -> None:
    kind: Any = "apache-kafka" if kafka.broker.kind == "apache-kafka" else "noida"
    async with open_broker(kind) as own:
        kit = KafkaKit(own)
        topic = await kit.create_topic(2)
        await kit.produce(topic, numbered(10))
        with anyio.fail_after(8):
            async with reading(text_source(kit, topic, group_id="g")) as r:
                await r.read(10)
                own.kill()
                await r.reader.on_checkpoint_complete(1, r.reader.positions())
                assert r.take() is None


async def test_closing_a_reader_that_is_idle_leaves_no_task(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    before = asyncio.all_tasks()
    async with reading(text_source(kafka, topic, group_id=kafka.unique("g"))) as r:
        r.take()
    assert asyncio.all_tasks() == before


# -- how it is made ------------------------------------------------------------------------------------------------


def test_builder_and_keywords_make_the_same() -> None:
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers("a:1,b:2")
        .set_topics("x", "y")
        .set_group_id("g")
        .set_client_id_prefix("c")
        .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST))
        .set_bounded(LATEST)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("isolation.level", "read_committed")
        .set_properties({"check.crcs": "false"})
        .build()
    )
    said = KafkaSource(
        bootstrap_servers=["a:1", "b:2"],
        topics=["x", "y"],
        group_id="g",
        client_id_prefix="c",
        starting_offsets=KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST),
        bounded=LATEST,
        value_only_deserializer=SimpleStringSchema(),
        properties={"isolation.level": "read_committed", "check.crcs": "false"},
    )
    assert built._settings == said._settings
    assert (built.bounded, built.output_type, built.discovery_interval) == (True, str, None)


def test_builder_names_what_it_does_not_know() -> None:
    with pytest.raises(AttributeError, match="has no 'set_bootstrap_server'; did you mean set_bootstrap_servers"):
        KafkaSource.builder().set_bootstrap_server("a:1")


@pytest.mark.parametrize(("arguments", "said"), [
    ({"topics": "t"}, "bootstrap_servers is missing"),
    ({"bootstrap_servers": "a:1"}, "topics, a topic_pattern or partitions"),
    ({"bootstrap_servers": "a:1", "topics": "t", "topic_pattern": "x"}, "give one of them"),
    ({"bootstrap_servers": "a:1", "topics": "t", "value_type": None}, "say how records become values"),
    ({"bootstrap_servers": "a:1", "topics": "t", "bounded": LATEST, "unbounded": LATEST}, "bounded or unbounded"),
    ({"bootstrap_servers": "a:1", "topics": "t", "on_offset_lost": "skip"}, "fail, earliest, latest"),
    ({"bootstrap_servers": "a:1", "topics": "t",
      "starting_offsets": KafkaOffsetsInitializer.committed_offsets()}, "give group_id"),
    ({"bootstrap_servers": "a:1", "topics": "t", "properties": {"fetch.max.bytes": "many"}}, "'fetch.max.bytes'"),
    ({"bootstrap_servers": "a:1", "topics": "t", "properties": {"check.crcs": "maybe"}}, "true or false"),
])  # fmt: skip
def test_arguments_that_do_not_fit(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationException, match=said):
        KafkaSource(**{"value_type": Click, **arguments})


def test_new_partitions_are_looked_for_every_five_minutes_unless_said_otherwise() -> None:
    def interval(**more: Any) -> int | None:
        return KafkaSource(bootstrap_servers="a:1", topics="t", value_type=Click, **more).discovery_interval

    assert interval() == 300_000
    assert interval(partition_discovery_interval="10 s") == 10_000
    assert interval(properties={"partition.discovery.interval.ms": "50"}) == 50
    assert interval(partition_discovery_interval=0) is None
    assert interval(bounded=LATEST) is None
