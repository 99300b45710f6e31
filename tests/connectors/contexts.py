"""What a task gives to a reader or writer, without a task."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator

import anyio.abc

from streamline._core.time import Clock
from streamline._runtime.metrics import MetricGroup

__all__ = ("Context", "unwrapped")


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
        self.backlog = False
        self._group = group

    def wake(self) -> None:
        self.woken += 1

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        self.backlog = is_processing_backlog

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        assert self._group is not None
        self._group.start_soon(function, name=name)

    def count(self, name: str) -> int:
        """The value of a counter of the reader's or writer's."""
        return {n: m for _, n, m in self.metrics.walk()}[name].get_count()


@contextlib.contextmanager
def unwrapped() -> Iterator[None]:
    """The error out of a task group comes as itself, where it is one."""
    try:
        yield
    except BaseExceptionGroup as group:
        found = {id(e): e for e in _leaves(group)}
        if len(found) != 1:
            raise
        error = next(iter(found.values()))
        raise error from error.__cause__


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for e in group.exceptions:
        if isinstance(e, BaseExceptionGroup):
            yield from _leaves(e)
        else:
            yield e
