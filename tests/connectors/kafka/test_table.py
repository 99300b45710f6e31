"""The connector kafka of SQL: options, columns of value, key and metadata, both ways."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import pytest

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.abc import Batch, TableColumn, TableContext, TableScan, TableSink
from streamline.connectors.formats.base import DeserializationException
from streamline.connectors.kafka import KafkaException
from streamline.connectors.kafka.source import KafkaSource
from streamline.connectors.registry import connector
from streamline.errors import StreamlineError, ValidationException
from streamline.testing.kafka import KafkaKit

from .conftest import reading
from .test_sink import writing

TEN = int((dt.datetime(2024, 1, 1, 10) - dt.datetime(1970, 1, 1)).total_seconds() * 1000)
EVENTS = {"eventId": t.STRING, "symbol": t.STRING, "amount": t.DOUBLE, "eventTime": t.BIGINT}


def table(
    columns: Mapping[str, DataType],
    options: Mapping[str, str],
    *,
    metadata: Mapping[str, tuple[DataType, str, bool]] | None = None,
    primary_key: tuple[str, ...] = (),
    time_zone: str = "UTC",
) -> TableContext:
    found = [TableColumn(n, x) for n, x in columns.items()]
    found += [TableColumn(n, x, key, virtual) for n, (x, key, virtual) in (metadata or {}).items()]
    given = {"connector": "kafka", "properties.bootstrap.servers": "a:1", "topic": "t", "format": "json", **options}
    kept = {k: v for k, v in given.items() if v is not None}
    return TableContext(("c", "d", "events"), tuple(found), kept, primary_key, (), time_zone)


def scan(context: TableContext, columns: list[str] | None = None) -> TableScan:
    return connector("kafka").scan(context, columns or [c.name for c in context.columns])


def sink(context: TableContext) -> TableSink:
    return connector("kafka").sink(context)


def options(kafka: KafkaKit, topic: str, **more: str) -> dict[str, str]:
    base = {"topic": topic, "properties.bootstrap.servers": kafka.bootstrap}
    return {**base, "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", **more}


async def rows(found: TableScan) -> list[tuple[Any, ...]]:
    read = eval("lambda r, t: (" + "".join(f"{s}, " for s in found.columns.values()) + ")", dict(found.namespace))
    async with reading(found.source) as r:
        await r.to_end()
    return [
        read(v, ts) for b in r.batches for v, ts in zip(b.values, b.timestamps or [None] * len(b.values), strict=True)
    ]


async def write(found: TableSink, *values: tuple[Any, ...]) -> None:
    if found.template:
        names = [f"a[{i}]" for i in range(len(values[0]))]
        make = eval("lambda *a: " + found.template.format(*names), dict(found.namespace))
        batch = Batch([make(*v) for v in values])
    else:
        batch = Batch(list(values))
    async with writing(found.sink) as w:
        await w.write(batch)
        await w.flush()


# -- reading -------------------------------------------------------------------------------------------------------


async def test_rows_of_json(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    value = {"eventId": "e1", "symbol": "A", "amount": 10, "eventTime": 5, "more": True}
    await kafka.produce(topic, [(None, json.dumps(value)), (None, "{}")])
    context = table(EVENTS, options(kafka, topic))
    assert await rows(scan(context)) == [("e1", "A", 10.0, 5), (None, None, None, None)]
    assert await rows(scan(context, ["eventTime", "symbol"])) == [(5, "A"), (None, None)]


async def test_columns_that_are_not_asked_for_are_not_looked_at(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, '{"symbol": "A", "amount": "no number"}')])
    context = table(EVENTS, options(kafka, topic))
    assert await rows(scan(context, ["symbol"])) == [("A",)]


async def test_wrong_value_names_topic_partition_offset_and_column(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    good = '{"amount": 1.5}'
    await kafka.produce(topic, [(None, good), (None, '{"amount": "a string"}'), (None, good)])
    with pytest.raises(DeserializationException) as e:
        await rows(scan(table(EVENTS, options(kafka, topic))))
    assert str(e.value).startswith(
        f"topic '{topic}', partition 0, offset 1: Failed to deserialize JSON '{{\"amount\": \"a string\"}}': column "
        "'amount' is DOUBLE, but the value is \"a string\"."
    )
    ignoring = options(kafka, topic, **{"json.ignore-parse-errors": "true"})
    assert [r[2] for r in await rows(scan(table(EVENTS, ignoring)))] == [1.5, 1.5]


async def test_empty_value_is_an_error_and_a_tombstone_is_none(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("k", None), (None, '{"symbol": "A"}'), (None, "")])
    with pytest.raises(DeserializationException, match="offset 2: Failed to deserialize JSON '': it is empty"):
        await rows(scan(table(EVENTS, options(kafka, topic))))
    ignoring = options(kafka, topic, **{"json.ignore-parse-errors": "true"})
    found = scan(table(EVENTS, ignoring))
    async with reading(found.source) as r:
        await r.to_end()
        assert (r.count("numTombstonesSkipped"), r.count("numRecordsInErrors")) == (1, 1)
    assert len(r.all) == 1


async def test_metadata_columns(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    await kafka.produce(topic, [("k", '{"v": 1}', TEN, 1, [("a", b"1"), ("a", b"2"), ("b", None)])])
    metadata = {
        "topic": (t.STRING, "topic", True),
        "p": (t.BIGINT, "partition", True),
        "o": (t.BIGINT, "offset", True),
        "ts": (t.timestamp_ltz(3), "timestamp", False),
        "kind": (t.STRING, "timestamp-type", True),
        "epoch": (t.INT, "leader-epoch", True),
        "h": (t.map_of(t.STRING, t.BYTES), "headers", False),
    }
    found = await rows(scan(table({"v": t.INT}, options(kafka, topic), metadata=metadata)))
    assert found == [(1, topic, 1, 0, TEN * 10**6, "CreateTime", None, {"a": b"2", "b": None})]


async def test_header_list_and_casts_of_metadata(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("k", '{"v": 1}', TEN + 5, 0, [("a", b"1"), ("a", b"2")])])
    header = t.array(t.row(t.Field("key", t.STRING.not_null()), t.Field("value", t.BYTES)))
    metadata = {
        "hs": (header, "header-list", True),
        "local": (t.timestamp(3), "timestamp", True),
        "coarse": (t.timestamp_ltz(0), "timestamp", True),
        "small": (t.TINYINT, "offset", True),
        "text": (t.STRING, "partition", True),
    }
    context = table({"v": t.INT}, options(kafka, topic), metadata=metadata, time_zone="Asia/Shanghai")
    (found,) = await rows(scan(context))
    eight = 8 * 3600 * 10**9
    assert found == (1, [("a", b"1"), ("a", b"2")], (TEN + 5) * 10**6 + eight, TEN * 10**6, 0, "0")


async def test_key_columns(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [('{"id": 7, "name": "n"}', '{"id": 8}'), (None, '{"id": 9}')])
    columns = {"k_id": t.INT, "k_name": t.STRING, "id": t.INT}
    more = {
        "format": None,
        "value.format": "json",
        "key.format": "json",
        "key.fields": "k_id;k_name",
        "key.fields-prefix": "k_",
        "value.fields-include": "EXCEPT_KEY",
    }
    context = table(columns, options(kafka, topic, **more))  # type: ignore[arg-type]
    assert await rows(scan(context)) == [(7, "n", 8), (None, None, 9)]
    assert await rows(scan(context, ["id", "k_id"])) == [(8, 7), (9, None)]


async def test_wrong_key_is_an_error_too(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [("no json", "{}")])
    more = {"key.format": "json", "key.fields": "k", "value.fields-include": "EXCEPT_KEY"}
    with pytest.raises(DeserializationException, match="offset 0: Failed to deserialize JSON 'no json'"):
        await rows(scan(table({"k": t.INT, "v": t.INT}, options(kafka, topic, **more))))


async def test_raw_values(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, "héllo")])
    metadata = {"o": (t.BIGINT, "offset", True)}
    context = table({"v": t.STRING}, options(kafka, topic, format="raw"), metadata=metadata)
    assert await rows(scan(context)) == [("héllo", 0)]
    assert await rows(scan(context, ["o"])) == [(0,)]
    with pytest.raises(DeserializationException, match="column 'v' is INT, but the value is 'héllo'"):
        await rows(scan(table({"v": t.INT}, options(kafka, topic, format="raw"))))


@pytest.mark.parametrize(("more", "expected"), [
    ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(TEN + 2)}, [2, 3, 4]),
    ({"scan.startup.mode": "latest-offset"}, []),
    ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:3"}, [3, 4]),
    ({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(TEN + 2)}, [0, 1]),
    ({"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:1"}, [0]),
    ({"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}, [0, 1, 2, 3, 4]),
])  # fmt: skip
async def test_where_to_start_and_end(kafka: KafkaKit, more: dict[str, str], expected: list[int]) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(None, f'{{"v": {i}}}', TEN + i) for i in range(5)])
    more = {"properties.group.id": kafka.unique("g"), **more}
    found = scan(table({"v": t.INT}, options(kafka, topic, **more)))
    assert [v for (v,) in await rows(found)] == expected


async def test_group_offsets_both_ways(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(), kafka.unique("g")
    await kafka.produce(topic, [(None, f'{{"v": {i}}}') for i in range(5)])
    await kafka.commit(group, topic, {0: 2})
    more = {"properties.group.id": group}
    start = options(kafka, topic, **more, **{"scan.startup.mode": "group-offsets"})
    assert await rows(scan(table({"v": t.INT}, start))) == [(2,), (3,), (4,)]
    end = options(kafka, topic, **more, **{"scan.bounded.mode": "group-offsets"})
    assert await rows(scan(table({"v": t.INT}, end))) == [(0,), (1,)]


async def test_without_a_start_mode_a_new_group_is_told_what_to_set(kafka: KafkaKit) -> None:
    topic, group = await kafka.create_topic(), kafka.unique("g")
    given = options(kafka, topic, **{"properties.group.id": group})
    del given["scan.startup.mode"]
    with pytest.raises(StreamlineError) as e:
        await rows(scan(table(EVENTS, given)))
    for part in ("scan.startup.mode", "properties.auto.offset.reset", topic, group):
        assert part in str(e.value)


async def test_topics_by_list_and_pattern(kafka: KafkaKit) -> None:
    name = kafka.unique("many")
    topics = [await kafka.create_topic(name=f"{name}-{x}") for x in "ab"]
    for i, topic in enumerate(topics):
        await kafka.produce(topic, [(None, f'{{"v": {i}}}')])
    listed = options(kafka, ";".join(topics))
    pattern = {**options(kafka, ""), "topic": None, "topic-pattern": f"{name}-[ab]"}
    for given in (listed, pattern):
        assert await rows(scan(table({"v": t.INT}, given))) == [(0,), (1,)]  # type: ignore[arg-type]


def test_what_the_options_make_of_a_source() -> None:
    found = scan(table(EVENTS, {"scan.topic-partition-discovery.interval": "10 s", "scan.parallelism": "3"}))
    assert isinstance(found.source, KafkaSource)
    settings = found.source._settings
    assert (found.source.discovery_interval, found.parallelism, found.source.bounded) == (10_000, 3, False)
    assert settings.group == "KafkaSource-c.d.events", "Flink's own name for a table without a group"
    assert settings.on_offset_lost == "fail"
    assert scan(table(EVENTS, {})).source.discovery_interval == 300_000
    assert scan(table(EVENTS, {"scan.topic-partition-discovery.interval": "0"})).source.discovery_interval is None
    lost = scan(table(EVENTS, {"scan.on-offset-lost": "latest"})).source
    assert isinstance(lost, KafkaSource) and lost._settings.on_offset_lost == "latest"


# -- writing -------------------------------------------------------------------------------------------------------


async def test_rows_are_built_for_the_format_where_there_is_only_a_value(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    found = sink(table({"name": t.STRING, "at": t.timestamp(3)}, options(kafka, topic)))
    assert found.template
    await write(found, ("ann", TEN * 10**6), (None, None))
    assert await kafka.values(topic) == [b'{"name":"ann","at":"2024-01-01 10:00:00"}', b'{"name":null,"at":null}']


async def test_key_and_metadata_are_written(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(3)
    metadata = {
        "ts": (t.timestamp_ltz(3), "timestamp", False),
        "h": (t.map_of(t.STRING, t.BYTES), "headers", False),
        "o": (t.BIGINT, "offset", True),
    }
    more = {"key.format": "json", "key.fields": "id"}
    found = sink(table({"id": t.INT, "name": t.STRING}, options(kafka, topic, **more), metadata=metadata))
    assert not found.template
    await write(found, (7, "n", TEN * 10**6, {"a": b"1", None: b"x"}), (7, "m", None, None))
    one, two = await kafka.consume_all(topic)
    assert (one.key, one.value, one.timestamp, one.headers) == (
        b'{"id":7}', b'{"id":7,"name":"n"}', TEN, (("a", b"1"),)
    )  # fmt: skip
    assert (two.key, two.headers, two.partition) == (b'{"id":7}', (), one.partition)
    assert two.timestamp > TEN


async def test_key_prefix_and_value_without_the_key(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    more = {
        "key.format": "json",
        "key.fields": "k_id",
        "key.fields-prefix": "k_",
        "value.fields-include": "EXCEPT_KEY",
        "json.encode.ignore-null-fields": "true",
    }
    columns = {"id": t.INT, "k_id": t.INT, "name": t.STRING}
    await write(sink(table(columns, options(kafka, topic, **more))), (1, 2, None))
    (record,) = await kafka.consume_all(topic)
    assert (record.key, record.value) == (b'{"id":2}', b'{"id":1}')


async def test_rows_say_their_topic(kafka: KafkaKit) -> None:
    topics = [await kafka.create_topic(), await kafka.create_topic()]
    metadata = {"to": (t.STRING, "topic", False)}
    found = sink(table({"v": t.INT}, options(kafka, ";".join(topics)), metadata=metadata))
    await write(found, (0, topics[0]), (1, topics[1]))
    assert [await kafka.values(x) for x in topics] == [[b'{"v":0}'], [b'{"v":1}']]
    with pytest.raises(KafkaException, match="'elsewhere' .* none of the table's topics"):
        await write(found, (0, "elsewhere"))


async def test_fixed_partitioner(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(3)
    found = sink(table({"v": t.INT}, options(kafka, topic, **{"sink.partitioner": "fixed"})))
    make = eval(f"lambda v: {found.template.format('v')}", dict(found.namespace))
    for subtask in range(4):
        async with writing(found.sink, subtask) as w:
            await w.write(Batch([make(subtask)] * 10))
            await w.flush()
    places = {(r.value, r.partition) for r in await kafka.consume_all(topic)}
    assert places == {(b'{"v":%d}' % s, s % 3) for s in range(4)}


def _last(record: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
    return int(partitions[-1])


class LastPartition:
    """A partitioner by import path, as a class."""

    def __call__(self, *args: Any) -> int:
        return _last(*args)


async def test_partitioner_by_import_path(kafka: KafkaKit) -> None:
    for name in ("LastPartition", "_last"):
        topic = await kafka.create_topic(3)
        await write(
            sink(table({"v": t.INT}, options(kafka, topic, **{"sink.partitioner": f"{__name__}.{name}"}))), (1,)
        )
        assert [r.partition for r in await kafka.consume_all(topic)] == [2]


# -- options that do not fit: Flink's words ------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "said"), [
    ({"properties.bootstrap.servers": None},
     "One or more required options are missing.\n\nMissing required options are:\n\nproperties.bootstrap.servers"),
    ({"format": None}, "Could not find required scan format 'value.format'."),
    ({"topic": None}, "Either 'topic' or 'topic-pattern' must be set."),
    ({"topic-pattern": "x"}, "Option 'topic' and 'topic-pattern' shouldn't be set together."),
    ({"scan.startup.mode": "newest"},
     "Invalid value for option 'scan.startup.mode'.\n\nCould not parse value 'newest' for key 'scan.startup.mode'. "
     "Expected one of: [earliest-offset, latest-offset, group-offsets, timestamp, specific-offsets]"),
    ({"scan.startup.mode": "timestamp"},
     "'scan.startup.timestamp-millis' is required in 'timestamp' startup mode but missing."),
    ({"scan.bounded.mode": "specific-offsets"},
     "'scan.bounded.specific-offsets' is required in 'specific-offsets' bounded mode but missing."),
    ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "0:42"},
     "Invalid properties 'scan.startup.specific-offsets' should follow the format "
     "'partition:0,offset:42;partition:1,offset:300', but is '0:42'."),
    ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1",
      "topic": "a;b"}, "Currently Kafka source only supports specific offset for single topic."),
    ({"key.fields": "symbol"},
     "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."),
    ({"key.format": "json"},
     "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'."),
    ({"key.format": "json", "key.fields": "nix"},
     "Could not find the field 'nix' in the table schema for usage in the key format."),
    ({"key.format": "json", "key.fields": "symbol", "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"},
     "All fields in 'key.fields' must be prefixed with 'k_' when option 'key.fields-prefix' is set but field 'symbol' "
     "is not prefixed."),
    ({"key.format": "json", "key.fields": "symbol", "key.fields-prefix": "s"},
     "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'."),
    ({"format": "xml"}, "Could not find any format factory for identifier 'xml'."),
    ({"properties.auto.offset.reset": "newest"}, "Invalid value for option 'properties.auto.offset.reset': 'newest'."),
    ({"scan.topic-partition-discovery.interval": "often"}, "scan.topic-partition-discovery.interval"),
    ({"properties.fetch.max.bytes": "many"}, "'fetch.max.bytes' has no such value as 'many'"),
])  # fmt: skip
def test_sources_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationException) as e:
        scan(table(EVENTS, given))
    assert said in str(e.value)


def test_unknown_options_are_listed_with_the_known_ones() -> None:
    with pytest.raises(ValidationException) as e:
        scan(table(EVENTS, {"scan.startup.mod": "earliest-offset", "json.strict": "true"}))
    text = str(e.value)
    assert text.startswith(
        "Unsupported options found for 'kafka'.\n\nUnsupported options:\n\njson.strict\nscan.startup.mod\n\n"
        "Supported options:\n\nconnector\nformat\njson.decode.json-parser.enabled\n"
    )
    assert "\nscan.startup.mode\n" in text
    assert "Did you mean 'scan.startup.mode' where 'scan.startup.mod' is set?" in text


def test_planner_options_are_no_business_of_the_connector() -> None:
    scan(table(EVENTS, {"scan.watermark.emit.strategy": "on-event", "scan.watermark.idle-timeout": "1 s"}))


def test_primary_key_is_refused() -> None:
    with pytest.raises(ValidationException, match="doesn't support defining PRIMARY KEY constraint on the table"):
        scan(table(EVENTS, {}, primary_key=("eventId",)))


@pytest.mark.parametrize(("given", "metadata", "said"), [
    ({"format": None}, {}, "Could not find required sink format 'value.format'."),
    ({"sink.partitioner": "round-robin", "key.format": "json", "key.fields": "symbol"}, {},
     "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified."),
    ({"sink.partitioner": ""}, {}, "Option 'sink.partitioner' should be a non-empty string."),
    ({"sink.partitioner": "no.such.Class"}, {}, "Could not find and instantiate partitioner class 'no.such.Class'"),
    ({"sink.delivery-guarantee": "exactly-once"}, {},
     "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE."),
    ({"topic": "a;b"}, {}, "declare the metadata column `topic`"),
    ({}, {"o": (t.BIGINT, "offset", False)}, "Invalid metadata key 'offset' in column 'o'"),
    ({}, {"topic": (t.STRING, "topic", False)}, "Declare the column 'topic' as VIRTUAL if it is only read."),
    ({}, {"ts": (t.STRING, "timestamp", False)}, "must be castable to metadata type"),
    ({"properties.compression.type": "brotli"}, {}, "compression.type"),
])  # fmt: skip
def test_sinks_that_cannot_be(given: dict[str, Any], metadata: Any, said: str) -> None:
    with pytest.raises(ValidationException) as e:
        sink(table(EVENTS, given, metadata=metadata))
    assert said in str(e.value)


@pytest.mark.parametrize(("column", "said"), [
    ((t.STRING, "no-such", True), "supports the following metadata keys for reading:\ntopic\npartition\nheaders"),
    ((t.BOOLEAN, "timestamp", True), "cannot be declared as 'BOOLEAN' because the type must be castable from"),
])  # fmt: skip
def test_metadata_that_cannot_be_read(column: Any, said: str) -> None:
    with pytest.raises(ValidationException) as e:
        scan(table(EVENTS, {}, metadata={"m": column}))
    assert said in str(e.value)
