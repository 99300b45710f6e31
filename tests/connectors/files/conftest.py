"""Readers and writers without a job around them: what they do can be looked at step by step."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from streamline._core.time import Clock
from streamline._runtime.metrics import MetricGroup
from streamline.abc import Source, SourceReader, Split, SplitBatch
from streamline.testing import VirtualClock, settle


class Context:
    """What a task gives to a reader or writer."""

    job_name = "job"
    operator_name = "files"
    checkpointing = True

    def __init__(
        self, clock: Clock, group: anyio.abc.TaskGroup | None = None, subtask: int = 0, parallelism: int = 1
    ) -> None:
        self.clock = clock
        self.metrics = MetricGroup("test")
        self.subtask_index = subtask
        self.parallelism = parallelism
        self.woken = 0
        self._group = group

    def wake(self) -> None:
        self.woken += 1

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        assert self._group is not None
        self._group.start_soon(function, name=name)

    def count(self, name: str) -> int:
        """The value of a counter of the reader's or writer's."""
        return {n: m for _, n, m in self.metrics.walk()}[name].get_count()


class Reading:
    """A reader that is open."""

    def __init__(self, reader: SourceReader[Any], context: Context) -> None:
        self.reader = reader
        self.context = context
        self.values: list[Any] = []
        #: By file name.
        self.of: dict[str, list[Any]] = {}
        #: Splits that were said to have ended.
        self.ended: set[str] = set()

    def poll(self, max_records: int = 1024) -> list[Any] | None:
        """Values of the next batch, None for none."""
        batch = self.reader.poll(max_records)
        if batch is None:
            self.ended.update(self.reader.finished_splits())
            return None
        assert isinstance(batch, SplitBatch) and 0 < len(batch.values) <= max_records
        self.values += batch.values
        self.of.setdefault(Path(batch.split).name, []).extend(batch.values)
        return list(batch.values)

    async def drain(self, max_records: int = 1024) -> list[Any]:
        """Read all there is now; gives all values read so far."""
        while True:
            await settle()
            if self.poll(max_records) is None:
                await settle()
                if self.poll(max_records) is None:
                    return self.values


@asynccontextmanager
async def reading(
    source: Source[Any],
    clock: VirtualClock | None = None,
    positions: dict[str, Any] | None = None,
    splits: Sequence[Split] | None = None,
) -> AsyncIterator[Reading]:
    """Open a reader of all splits of a source, at positions."""
    clock = clock or VirtualClock(autojump=False)
    with unwrapped():
        async with anyio.create_task_group() as group:
            context = Context(clock, group)
            reader = source.reader()
            found = splits if splits is not None else await source.discover()
            await reader.open(context, [(s, (positions or {}).get(s.id)) for s in found])
            try:
                yield Reading(reader, context)
            finally:
                with anyio.CancelScope(shield=True):
                    await reader.close()
                group.cancel_scope.cancel()


@contextlib.contextmanager
def unwrapped():
    """A single error out of a task group comes as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
