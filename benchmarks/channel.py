"""A hop: records a second through one bounded channel between two tasks, by batch size; beside an asyncio.Queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

from benchmarks.report import Figure, best
from streamline._channel.channel import CAPACITY, Channel
from streamline._core.elements import Batch, EndOfInput

SIZES = (1, 4, 16, 64, 256, 1024)
HOPS = 4


async def hop(size: int, records: int) -> float:
    """Records a second and hop, over a chain of tasks that pass batches on."""
    channels = [Channel() for _ in range(HOPS)]
    batch = Batch(list(range(size)))

    async def produce() -> None:
        for _ in range(records // size):
            if not channels[0].send_nowait(batch):
                await channels[0].send(batch)
        channels[0].send_nowait(EndOfInput())

    async def relay(source: Channel, target: Channel | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] | None = None

        def wake() -> None:
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        source.on_data = wake
        while True:
            element = source.receive_nowait()
            if element is None:
                waiter = loop.create_future()
                await waiter
                continue
            if target is not None and not target.send_nowait(element):
                await target.send(element)
            if type(element) is EndOfInput:
                return

    started = perf_counter()
    await asyncio.gather(produce(), *(relay(s, t) for s, t in zip(channels, [*channels[1:], None], strict=True)))
    return records / (perf_counter() - started)


async def queue_hop(size: int, records: int) -> float:
    """The same over asyncio.Queue, bounded to as many records."""
    queues: list[asyncio.Queue[list[int] | None]] = [asyncio.Queue(max(1, CAPACITY // size)) for _ in range(HOPS)]
    batch = list(range(size))

    async def produce() -> None:
        for _ in range(records // size):
            await queues[0].put(batch)
        await queues[0].put(None)

    async def relay(source: asyncio.Queue[list[int] | None], target: asyncio.Queue[list[int] | None] | None) -> None:
        while True:
            element = await source.get()
            if target is not None:
                await target.put(element)
            if element is None:
                return

    started = perf_counter()
    await asyncio.gather(produce(), *(relay(s, t) for s, t in zip(queues, [*queues[1:], None], strict=True)))
    return records / (perf_counter() - started)


def run(scale: float) -> Iterator[Figure]:
    """Records a second and hop: what a record costs on a chain of n hops is n times the inverse."""
    for size in SIZES:
        records = int(scale * min(2_000_000, 100_000 * size))
        ours = best(lambda size=size, records=records: asyncio.run(hop(size, records)))  # type: ignore[misc]
        queue = best(lambda size=size, records=records: asyncio.run(queue_hop(size, records)))  # type: ignore[misc]
        yield Figure(f"channel hop, batches of {size}", ours * HOPS, "records/s", queue * HOPS)
