"""The connector upsert-kafka: a topic as a table with a primary key, both ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline._core import types as t
from streamline._core.changes import ChangelogMode, RowKind
from streamline.abc import Batch, TableColumn, TableContext, TableScan
from streamline.connectors.kafka.upsert import ReducingSink, UpsertKafkaTableFactory
from streamline.errors import ValidationException
from streamline.table import StreamTableEnvironment
from streamline.testing.kafka import KafkaKit

from .conftest import Context, reading
from .test_sink import writing

INS, UB, UA, D = RowKind


def table(given: dict[str, Any], key: tuple[str, ...] = ("id",), metadata: bool = False) -> TableContext:
    columns = [TableColumn("name", t.STRING), TableColumn("id", t.INT.not_null()), TableColumn("n", t.BIGINT)]
    if metadata:
        columns.append(TableColumn("offset", t.BIGINT, "offset", True))
    base = {"connector": "upsert-kafka", "properties.bootstrap.servers": "a:1", "topic": "t"}
    base |= {"key.format": "json", "value.format": "json"}
    options = {k: v for k, v in {**base, **given}.items() if v is not None}
    return TableContext(("c", "d", "people"), tuple(columns), options, key)


def on(kafka: KafkaKit, topic: str, **more: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": kafka.bootstrap,
        "topic": topic,
        "scan.bounded.mode": "latest-offset",
        **more,
    }


async def changes(found: TableScan) -> list[tuple[Any, ...]]:
    read = eval("lambda r: (" + "".join(f"{s}, " for s in found.columns.values()) + ")", dict(found.namespace))
    async with reading(found.source) as r:
        await r.to_end()
    return [(k, *read(v)) for b in r.batches for v, k in zip(b.values, b.kinds or (), strict=True)]


# -- reading -------------------------------------------------------------------------------------------------------


async def test_values_upsert_and_tombstones_delete(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(
        topic,
        [
            ('{"id": 1}', '{"name": "ann", "id": 1, "n": 5}'),
            ('{"id": 1}', '{"name": "ann", "id": 1, "n": 6}'),
            ('{"id": 2}', '{"name": "bob"}'),
            ('{"id": 1}', None),
        ],
    )
    found = UpsertKafkaTableFactory().scan(table(on(kafka, topic), metadata=True), ["name", "id", "n", "offset"])
    assert found.changelog == ChangelogMode.upsert()
    assert await changes(found) == [
        (UA, "ann", 1, 5, 0),
        (UA, "ann", 1, 6, 1),
        (UA, "bob", 2, None, 2),
        (D, None, 1, None, 3),
    ]
    assert await changes(UpsertKafkaTableFactory().scan(table(on(kafka, topic)), ["id"])) == [
        (UA, 1), (UA, 1), (UA, 2), (D, 1)
    ]  # fmt: skip


async def test_batches_without_tombstones_have_kinds_too(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    await kafka.produce(topic, [(f'{{"id": {i}}}', f'{{"n": {i}}}') for i in range(3)])
    found = UpsertKafkaTableFactory().scan(table(on(kafka, topic)), ["id", "n"])
    assert await changes(found) == [(UA, 0, 0), (UA, 1, 1), (UA, 2, 2)]


# -- writing -------------------------------------------------------------------------------------------------------


async def test_changes_become_upserts_and_tombstones(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    sink = UpsertKafkaTableFactory().sink(table(on(kafka, topic)))
    assert sink.changelog == ChangelogMode.upsert()
    async with writing(sink.sink) as w:
        rows = [("ann", 1, 5), ("ann", 1, 5), ("ann", 1, 6), ("bob", 2, 1), ("bob", 2, 1)]
        await w.write(Batch(rows, None, [INS, UB, UA, INS, D]))
        await w.write(Batch([("eve", 3, None)]))
        await w.flush()
    assert [(r.key, r.value) for r in await kafka.consume_all(topic)] == [
        (b'{"id":1}', b'{"name":"ann","id":1,"n":5}'),
        (b'{"id":1}', b'{"name":"ann","id":1,"n":6}'),
        (b'{"id":2}', b'{"name":"bob","id":2,"n":1}'),
        (b'{"id":2}', None),
        (b'{"id":3}', b'{"name":"eve","id":3,"n":null}'),
    ]


async def test_key_columns_can_be_left_out_of_the_value(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    more = {"value.fields-include": "EXCEPT_KEY"}
    sink = UpsertKafkaTableFactory().sink(table(on(kafka, topic, **more), key=("id", "name")))
    async with writing(sink.sink) as w:
        await w.write(Batch([("ann", 1, 5)]))
        await w.flush()
    (record,) = await kafka.consume_all(topic)
    assert (record.key, record.value) == (b'{"id":1,"name":"ann"}', b'{"n":5}')
    found = UpsertKafkaTableFactory().scan(table(on(kafka, topic, **more), key=("id", "name")), ["name", "id", "n"])
    assert await changes(found) == [(UA, "ann", 1, 5)]


class Scheduled(Context):
    """A context whose alarms the test lets off."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms: list[tuple[int, Callable[[], Awaitable[None]]]] = []

    def schedule(self, when: int, callback: Callable[[], Awaitable[None]]) -> None:
        self.alarms.append((when, callback))


async def test_buffered_rows_are_reduced_to_the_last_of_a_key(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    more = {"sink.buffer-flush.max-rows": "3", "sink.buffer-flush.interval": "1 s"}
    sink = UpsertKafkaTableFactory().sink(table(on(kafka, topic, **more))).sink
    assert isinstance(sink, ReducingSink)
    writer, context = sink.writer(), Scheduled()
    await writer.open(context)  # type: ignore[arg-type]

    async def values() -> list[bytes | None]:
        await writer._inner.flush()  # type: ignore[attr-defined]
        return [r.value for r in await kafka.consume_all(topic)]

    now = context.clock.now()
    await writer.write(Batch([("a", 1, 1), ("a", 1, 1), ("a", 1, 2), ("b", 2, 1)], None, [INS, UB, UA, INS]))
    assert await values() == [] and len(context.alarms) == 1
    assert 1000 <= context.alarms[0][0] - now < 1500
    await context.alarms.pop()[1]()
    assert await values() == [b'{"name":"a","id":1,"n":2}', b'{"name":"b","id":2,"n":1}'], "by the interval"
    await writer.write(Batch([("a", 1, 3), ("b", 2, 2), ("c", 3, 1), ("d", 4, 1)], None, [UA, D, INS, INS]))
    assert (await values())[2:] == [b'{"name":"a","id":1,"n":3}', None, b'{"name":"c","id":3,"n":1}'], "by the size"
    await writer.flush()
    assert (await values())[5:] == [b'{"name":"d","id":4,"n":1}'], "by a barrier"
    await writer.close()
    await context.ended()


# -- SQL -----------------------------------------------------------------------------------------------------------


async def test_a_count_by_key_there_and_back(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic(2)
    t_env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    await t_env.execute_sql(f"""
        CREATE TABLE counts (name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}',
            'key.format' = 'json', 'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset')""")
    await t_env.execute_sql(
        "CREATE TEMPORARY VIEW words AS SELECT * FROM (VALUES ('a'), ('b'), ('a'), ('c'), ('a')) AS w(name)"
    )
    result = await t_env.execute_sql("INSERT INTO counts SELECT name, COUNT(*) FROM words GROUP BY name")
    await result.wait()
    latest = {r.key: r.value for r in await kafka.consume_all(topic)}
    assert latest == {b'{"name":"%c"}' % c: b'{"name":"%c","n":%d}' % (c, n) for c, n in zip(b"abc", (3, 1, 1))}
    await kafka.produce(topic, [('{"name":"c"}', None, None, next(
        r.partition for r in await kafka.consume_all(topic) if r.key == b'{"name":"c"}'
    ))])  # fmt: skip
    result = await t_env.execute_sql("SELECT SUM(n) FROM counts")
    changes_ = [(row.kind, row[0]) async for row in result.collect()]
    assert changes_[-1][1] == 4, "3 + 1, and c is gone"


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "key", "said"), [
    ({}, (), "'upsert-kafka' tables require to define a PRIMARY KEY constraint."),
    ({"key.format": None, "value.format": None}, ("id",), "Missing required options are:\n\nkey.format\nvalue.format"),
    ({"scan.startup.mode": "earliest-offset"}, ("id",), "Unsupported options:\n\nscan.startup.mode"),
    ({"key.fields": "id"}, ("id",), "Unsupported options:\n\nkey.fields"),
    ({"sink.buffer-flush.max-rows": "5"}, ("id",), "must be set to be greater than zero together"),
])  # fmt: skip
def test_what_cannot_be(given: dict[str, Any], key: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValidationException) as e:
        UpsertKafkaTableFactory().sink(table(given, key))
    assert said in str(e.value)
