"""The Kafka table of the third document, over a broker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamline import Row
from streamline.errors import StreamlineError

from .common import EVENTS, envs, rows
from .test_002 import WINDOWED, ordered, utc

pytestmark = [pytest.mark.kafka, pytest.mark.filterwarnings("ignore:conversions that never ran")]


def ddl(bootstrap: str, topic: str, *more: str) -> str:
    options = [
        "'connector' = 'kafka'",
        f"'topic' = '{topic}'",
        f"'properties.bootstrap.servers' = '{bootstrap}'",
        "'properties.group.id' = 'eventd-sql'   -- 消费组",
        "'format' = 'json'",
        *more,
    ]
    return (
        """CREATE TABLE events (
        eventId STRING, symbol STRING, amount DOUBLE,
        -- 毫秒 (epoch milliseconds)
        eventTime BIGINT,
        event_time AS TO_TIMESTAMP_LTZ(eventTime, 3),
        WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
    ) WITH ("""
        + "\n, ".join(options)
        + "\n)"
    )


BOUNDED = (
    "'scan.startup.mode' = 'earliest-offset'",
    "'scan.bounded.mode' = 'latest-offset'",
    "'scan.watermark.emit.strategy' = 'on-event'",
)


async def topic_of_events(kafka: Any) -> str:
    topic: str = await kafka.create_topic(1)
    await kafka.produce(topic, [(None, msgspec.json.encode(e)) for e in EVENTS])
    return topic


async def test_p33_as_written_has_no_offsets(kafka: Any) -> None:
    topic = await topic_of_events(kafka)
    _, t_env = envs()
    await t_env.execute_sql(ddl(kafka.bootstrap, topic))
    with pytest.raises(StreamlineError) as e:
        result = await t_env.execute_sql("SELECT * FROM events")
        async with result.collect() as found:
            await anext(found)
    for part in ("scan.startup.mode", "properties.auto.offset.reset", topic, "eventd-sql"):
        assert part in str(e.value)


async def test_p33_describe(kafka: Any) -> None:
    _, t_env = envs()
    await t_env.execute_sql(ddl(kafka.bootstrap, "no-such-topic"))
    result = await t_env.execute_sql("DESCRIBE events")
    async with result.collect() as found:
        described = {row.name: row async for row in found}
    assert described["event_time"].type == "TIMESTAMP_LTZ(3) *ROWTIME*"
    assert described["event_time"].extras.startswith("AS TO_TIMESTAMP_LTZ")
    assert described["event_time"].watermark == "event_time - INTERVAL '10' SECOND"


@pytest.mark.parametrize("method", ["to_data_stream", "to_changelog_stream"])
async def test_p33_and_p34_as_meant(kafka: Any, method: str) -> None:
    topic = await topic_of_events(kafka)
    _, t_env = envs()
    await t_env.execute_sql(ddl(kafka.bootstrap, topic, *BOUNDED))
    found = await rows(getattr(t_env, method)(t_env.sql_query(WINDOWED)))
    assert ordered([("", r) for r in found]) == ordered(
        [
            ("", Row(utc(10), utc(10, 1), "A", 2, 12.5)),
            ("", Row(utc(10), utc(10, 1), "B", 2, 6.5)),
            ("", Row(utc(10, 1), utc(10, 2), "A", 3, 13.0)),
        ]
    )
