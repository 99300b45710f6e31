"""Transactions that a job has prepared when it ends: no reader waits for one that nobody will commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from streamline.connectors.kafka import DeliveryGuarantee, KafkaSink
from streamline.testing import FailInCommit, InjectedFault, MiniJob
from streamline.testing.kafka import KafkaKit
from tests.recovery.test_recovery import options
from tests.recovery.test_unsettled import NEVER_KEPT, NO_RESTART, Hold, two_ways


def sink(kafka: KafkaKit, topic: str) -> KafkaSink:
    return KafkaSink(
        bootstrap_servers=kafka.bootstrap,
        topic=topic,
        value=lambda v: f"{v[0]}:{v[1]}".encode(),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=kafka.unique("tx"),
    )


async def committed(kafka: KafkaKit, topic: str, count: int) -> list[str]:
    """What a reader of committed records sees, once there are as many."""
    found: list[str] = []
    with anyio.move_on_after(10):
        while len(found) != count:
            found = [v.decode() for v in await kafka.values(topic, committed_only=True) if v is not None]
    return found


async def test_a_cancelled_job_aborts_what_no_complete_checkpoint_holds(kafka: KafkaKit, tmp_path: Path) -> None:
    topic = await kafka.create_topic()
    hold = Hold("beside", 1)
    job = MiniJob(two_ways(sink(kafka, topic)), configuration=options(tmp_path), faults=[hold])
    job.clock.autojump = False
    await job.start()
    with anyio.fail_after(20):
        while len(await kafka.values(topic)) < 3 or not hold.held:
            await job.advance(10)
            await asyncio.sleep(0.001)
    await job.crash()
    await kafka.produce(topic, [(None, b"behind it")])
    assert await committed(kafka, topic, 1) == ["behind it"], "an open transaction would hold it back"


async def test_what_a_complete_checkpoint_holds_is_committed_where_nobody_restores(kafka: KafkaKit) -> None:
    topic = await kafka.create_topic()
    configuration = options(**NO_RESTART, **NEVER_KEPT)
    job = MiniJob(two_ways(sink(kafka, topic)), configuration=configuration, faults=[FailInCommit("sink", 1)])
    job.clock.autojump = False
    client = await job.start()
    with anyio.fail_after(20):
        while not (await client.get_job_status()).is_terminal:
            await job.advance(10)
            await asyncio.sleep(0.001)
    with pytest.raises(InjectedFault):
        await job.wait()
    held = len(await kafka.values(topic))
    seen = await committed(kafka, topic, 3)
    assert seen == ["k0:0", "k1:1", "k2:2"][: len(seen)] and 0 < len(seen) <= held
