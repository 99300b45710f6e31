"""A reader's and a writer's context without a job around it: what they do can be looked at step by step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.abc

from streamline._core.time import SystemClock
from streamline._runtime.metrics import MetricGroup
from streamline.abc import Source, SourceReader, Split, SplitBatch


class Context:
    """What a task gives to a reader or writer."""

    job_name = "job"
    operator_name = "kafka"
    subtask_index = 0
    parallelism = 1
    attempt = 0
    checkpointing = True
    restored = False

    def __init__(self, group: anyio.abc.TaskGroup | None = None) -> None:
        self.clock = SystemClock()
        self.metrics = MetricGroup("test")
        self._group = group
        self._event = asyncio.Event()
        self.tasks: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        self._event.set()

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        raise AssertionError("nothing of Kafka's is a backlog by itself")

    async def woken(self) -> None:
        await self._event.wait()
        self._event.clear()

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        if self._group is not None:
            self._group.start_soon(function, name=name)
        else:
            self.tasks.append(asyncio.ensure_future(function()))  # type: ignore[arg-type]

    async def ended(self) -> list[BaseException | None]:
        """Wait for the tasks that were spawned without a group; gives how they ended."""
        return await asyncio.gather(*self.tasks, return_exceptions=True)  # type: ignore[return-value]


class Reading:
    """A reader that is open."""

    def __init__(self, reader: SourceReader[Any], context: Context) -> None:
        self.reader = reader
        self.context = context
        #: By split: the values read so far.
        self.values: dict[str, list[Any]] = {}
        self.batches: list[SplitBatch] = []

    def take(self, max_records: int = 1024) -> SplitBatch | None:
        batch = self.reader.poll(max_records)
        assert batch is None or isinstance(batch, SplitBatch)
        if batch is not None:
            assert 0 < len(batch.values) <= max_records
            assert batch.timestamps is None or len(batch.timestamps) == len(batch.values)
            self.values.setdefault(batch.split, []).extend(batch.values)
            self.batches.append(batch)
        return batch

    async def until(self, enough: Callable[[], bool], max_records: int = 1024) -> None:
        """Poll as a task does until the condition holds."""
        with anyio.fail_after(20):
            while not enough():
                if self.take(max_records) is None and not enough():
                    await self.context.woken()

    async def read(self, count: int, max_records: int = 1024) -> list[Any]:
        """Poll until there are as many values in all; gives them, split by split."""
        await self.until(lambda: sum(map(len, self.values.values())) >= count, max_records)
        return self.all

    async def to_end(self) -> list[Any]:
        """Poll until the reader has finished."""
        await self.until(lambda: self.reader.finished)
        return self.all

    @property
    def all(self) -> list[Any]:
        return [v for k in sorted(self.values) for v in self.values[k]]

    def count(self, metric: str) -> int:
        return int(self.context.metrics.counter(metric).get_count())


@contextlib.asynccontextmanager
async def reading(
    source: Source[Any], positions: dict[str, Any] | None = None, splits: Sequence[Split] | None = None
) -> AsyncIterator[Reading]:
    """Open a reader for all splits of the source; at these positions where they are given."""
    found = await source.discover() if splits is None else splits
    try:
        async with anyio.create_task_group() as group:
            r = Reading(source.reader(), Context(group))
            try:
                r.context.restored = positions is not None
                await r.reader.open(r.context, [(s, (positions or {}).get(s.id)) for s in found])  # type: ignore[arg-type]
                yield r
            finally:
                with anyio.CancelScope(shield=True):
                    await r.reader.close()
                group.cancel_scope.cancel()
    except BaseExceptionGroup as e:
        leaves = [x for x in _leaves(e) if isinstance(x, Exception)]
        raise leaves[0] from None


def _leaves(group: BaseException) -> list[BaseException]:
    if not isinstance(group, BaseExceptionGroup):
        return [group]
    return [leaf for e in group.exceptions for leaf in _leaves(e)]
