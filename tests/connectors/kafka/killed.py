"""A program that is made to be killed: copies a topic into another, exactly once.

    python -m tests.connectors.kafka.killed '{"bootstrap": …, "source": …, "sink": …, "checkpoints": …, …}'

It says "up" when the job is about to be started and "done" when it has finished.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import msgspec

from streamline import StreamExecutionEnvironment
from streamline.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
    SimpleStringSchema,
)

__all__ = ("Settings", "main")


class Settings(msgspec.Struct):
    """One start of the program."""

    bootstrap: str
    source: str
    sink: str
    prefix: str
    checkpoints: str
    parallelism: int = 1
    #: Milliseconds between two checkpoints.
    interval: int = 20
    #: Records of a subtask between two pauses of a millisecond: how fast it is.
    pace: int = 5


def build(env: StreamExecutionEnvironment, settings: Settings) -> None:
    """Add the job to an environment."""
    seen = 0

    async def paced(value: str) -> str:
        nonlocal seen
        seen += 1
        if seen % settings.pace == 0:
            await asyncio.sleep(0.001)
        return value

    source = KafkaSource(
        bootstrap_servers=settings.bootstrap,
        topics=settings.source,
        value_only_deserializer=SimpleStringSchema(),
        bounded=KafkaOffsetsInitializer.latest(),
    )
    sink = KafkaSink(
        bootstrap_servers=settings.bootstrap,
        topic=settings.sink,
        value=SimpleStringSchema(),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=settings.prefix,
    )
    copied = env.from_source(source, name="in").uid("in").map(paced).uid("pace")
    copied.sink_to(sink).name("out").uid("out")


async def main(settings: Settings) -> None:
    """Run the job to its end, from its last checkpoint on."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(settings.parallelism)
    env.enable_checkpointing(settings.interval, storage=settings.checkpoints)
    build(env, settings)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    await env.execute("copy", restore="latest")
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Settings)))
