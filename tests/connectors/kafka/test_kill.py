"""`kill -9` at any moment of Kafka -> map -> Kafka: readers of committed records see every one once.

A few rounds in an ordinary run, 100 under STREAMLINE_PROFILE=prove.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from streamline.testing.kafka import KafkaKit
from tests.connectors.kafka.killed import Settings
from tests.recovery.test_kill import different, run_until

PROVE = os.environ.get("STREAMLINE_PROFILE") == "prove"
ROUNDS = 100 if PROVE else 5
RECORDS = 3000
PARTITIONS = 3


async def committed(kafka: KafkaKit, topic: str) -> Counter[bytes | None]:
    return Counter(await kafka.values(topic, committed_only=True))


def gone(checkpoints: Path) -> bool:
    """Whether the job has swept up behind itself: it has finished."""
    return not list(checkpoints.glob("*/chk-*"))


async def series(kafka: KafkaKit, checkpoints: Path, chance: random.Random, rounds: int) -> int:
    """Kill the program again and again until it gets to its end, or so many rounds are over; gives their number."""
    source, sink = await kafka.create_topic(PARTITIONS), await kafka.create_topic(PARTITIONS)
    await kafka.produce(source, [(None, str(n), None, n % PARTITIONS) for n in range(RECORDS)])
    expected: Counter[bytes | None] = Counter(str(n).encode() for n in range(RECORDS))
    prefix, done = kafka.unique("tx"), 0
    while True:
        done += 1
        settings = Settings(
            bootstrap=kafka.bootstrap,
            source=source,
            sink=sink,
            prefix=prefix,
            checkpoints=str(checkpoints),
            parallelism=chance.choice([1, 1, 2, 3]),
            interval=chance.choice([10, 50, 100]),
        )
        last = done >= rounds
        seconds = None if last else chance.uniform(0.0, 0.5 + 0.05 * done)
        said = await to_thread.run_sync(run_until, settings, seconds, "tests.connectors.kafka.killed")
        found = await committed(kafka, sink)
        assert not found - expected, f"round {done}, {settings}: {different(found, expected)}"
        if "done" in said or (found == expected and gone(checkpoints)):
            break  # (killed when it had finished, and before it could say so)
        assert not last
    with anyio.move_on_after(10):  # the markers of the last commit may come a little later
        while found != expected:
            found = await committed(kafka, sink)
    assert found == expected, f"after {done} rounds: {different(found, expected)}"
    return done


@pytest.mark.apache_kafka  # the embedded one does not promise that what it acknowledged stays
async def test_c84_every_record_once(kafka: KafkaKit, tmp_path: Path) -> None:
    """C84: killed at random moments, at changing parallelism; nothing twice, nothing missing, at any moment."""
    seed = random.randrange(1 << 30) if PROVE else 11
    print(f"seed {seed}")  # noqa: T201 (shown where the test fails)
    chance = random.Random(seed)
    left, number = ROUNDS, 0
    while left > 0:
        left -= await series(kafka, tmp_path / str(number), chance, left)
        number += 1
