"""A program that is made to be killed: counts records of files by key, exactly once, into files.

    python -m tests.recovery.killed '{"input": …, "output": …, "checkpoints": …, "parallelism": 2, …}'

It says "up" when the job is about to be started and "done" when it has finished.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import msgspec

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.files import BucketAssigner, FileSink, FileSource, RollingPolicy
from streamline.functions import KeyedProcessFunction
from streamline.state import ValueStateDescriptor

__all__ = ("Count", "Hit", "Settings", "main")


class Settings(msgspec.Struct):
    """One start of the program."""

    input: str
    output: str
    checkpoints: str
    parallelism: int = 1
    interval: int = 20
    backend: str = "hashmap"
    unaligned: bool = False
    #: Records between two pauses of a millisecond: how fast it is.
    pace: int = 10


class Hit(msgspec.Struct):
    key: str
    ts: int


class Count(msgspec.Struct):
    key: str
    n: int
    #: "running" or "fired": by a timer in event time, every 100 ms of it.
    kind: str


class Counting(KeyedProcessFunction):
    """A running count of each key, and the count again at each full 100 ms of event time at which it has changed."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: Hit, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        ctx.timer_service().register_event_time_timer(value.ts // 100 * 100 + 100)
        yield Count(value.key, n, "running")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield Count(ctx.get_current_key(), timestamp, "fired")


def build(env: StreamExecutionEnvironment, settings: Settings) -> None:
    """Add the job to an environment."""
    seen = 0

    async def paced(hit: Hit) -> Hit:
        nonlocal seen
        seen += 1
        if seen % settings.pace == 0:
            await asyncio.sleep(0.001)
        return hit

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda hit, _: hit.ts)
    source = FileSource(paths=settings.input, value_type=Hit, _chunk_size=4096)
    sink = FileSink(
        path=settings.output,
        bucket_assigner=BucketAssigner.base_path_bucket_assigner(),
        rolling_policy=RollingPolicy(part_size=20_000),
    )
    counted = env.from_source(source, strategy, "hits").uid("hits").map(paced).uid("pace").key_by(lambda hit: hit.key)
    counted.process(Counting()).uid("count").sink_to(sink).name("counts").uid("counts")


async def main(settings: Settings) -> None:
    """Run the job to its end, from its last checkpoint on."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(settings.parallelism).set_max_parallelism(16)
    env.enable_checkpointing(settings.interval, storage=settings.checkpoints)
    env.configuration.set("state.backend.type", settings.backend)
    env.configuration.set("execution.checkpointing.unaligned.enabled", settings.unaligned)
    env.configuration.set("pipeline.auto-watermark-interval", "5 ms")
    build(env, settings)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    await env.execute("killed", restore="latest")
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Settings)))
