from __future__ import annotations

import json

import pytest

from examples.kafka_pipeline import pipeline
from streamline import StreamExecutionEnvironment
from streamline.testing.kafka import KafkaKit

NOON = 1_714_564_800_000
MINUTE = 60_000


@pytest.mark.kafka
async def test_the_reference_pipeline_gives_the_right_alerts(kafka: KafkaKit) -> None:
    """Ann spends 10, 25, 30 in three minutes: the second is more than twice the first. Bob's do not rise enough."""
    orders, alerts = await kafka.create_topic(3), await kafka.create_topic()
    sent = [("ann", 10.0, 0), ("bob", 10.0, 1), ("ann", 20.0, MINUTE), ("ann", 5.0, MINUTE + 30_000),
            ("bob", 20.0, MINUTE + 1), ("eve", -99.0, MINUTE), ("ann", 30.0, 2 * MINUTE)]  # fmt: skip
    records = [
        (customer, json.dumps({"customer": customer, "amount": amount, "ts": NOON + at}), NOON + at)
        for customer, amount, at in sent
    ]
    await kafka.produce(orders, records)
    env = StreamExecutionEnvironment.get_execution_environment()
    pipeline(env, kafka.bootstrap, source=orders, target=alerts, bounded=True)
    await env.execute("rising")
    found = [(record.key, json.loads(record.value)) for record in await kafka.consume_all(alerts)]
    assert found == [
        (b"ann", {"customer": "ann", "until": "2024-05-01T12:02:00", "before": 10.0, "now": 25.0}),
    ]
