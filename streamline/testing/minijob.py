"""A whole job in a test: started, fed, crashed and started again in one process, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from types import TracebackType
from typing import Any, Self

from streamline._core.config import Configuration
from streamline._core.time import Duration
from streamline._runtime.execute import JobStatus
from streamline.errors import ValidationException
from streamline.stream.datastream import DataStream
from streamline.stream.environment import StreamExecutionEnvironment
from streamline.stream.job_client import JobClient
from streamline.testing.changelog import Order, assert_changelog
from streamline.testing.clock import VirtualClock
from streamline.testing.faults import Fault, inject
from streamline.testing.quiescence import settle

__all__ = ("MiniJob",)


class MiniJob:
    """Runs the job that `build` makes, as often as it is started.

        async with MiniJob(build, clock=virtual_clock, faults=[FailOnRecord("count", 7)]) as job:
            await job.settle()
            await job.crash()
            await job.start()                       # another environment, as another process would have
            await job.wait()
        job.assert_results("a 1 | a 2")

    Args:
        build: adds the job to an environment. Where it returns a stream, the records of that stream are collected.
        clock: processing time; a VirtualClock of its own by default.
        configuration: options of the environment: `{"execution.checkpointing.interval": "1 s"}`.
        parallelism: number of subtasks.
        faults: what goes wrong; they live as long as the MiniJob.
        name: of the job; its checkpoints are found by it.
    """

    def __init__(
        self,
        build: Callable[[StreamExecutionEnvironment], DataStream[Any] | Any],
        *,
        clock: VirtualClock | None = None,
        configuration: dict[str, Any] | None = None,
        parallelism: int = 1,
        faults: Iterable[Fault] = (),
        name: str = "mini job",
    ) -> None:
        self._build = build
        self.clock = clock or VirtualClock()
        self._configuration = configuration or {}
        self.parallelism = parallelism
        self.faults = list(faults)
        self.name = name
        #: What the job is asked and told through; of the last start.
        self.client: JobClient | None = None
        #: The records of the stream that `build` returned, in all starts.
        self.results: list[Any] = []
        #: How often it has been started.
        self.starts = 0

    async def start(self, *, restore: str | None = "latest", parallelism: int | None = None) -> JobClient:
        """Start the job in an environment of its own; from its last checkpoint where it has one.

        Raises:
            ValidationException: it runs already.
        """
        if self.client is not None and not (await self.client.get_job_status()).is_terminal:
            raise ValidationException(f"{self.name!r} runs already: crash() or wait() before the next start()")
        configuration = Configuration()
        for key, value in self._configuration.items():
            configuration.set(key, value)
        env = StreamExecutionEnvironment(configuration, clock=self.clock)
        env.set_parallelism(parallelism or self.parallelism)
        stream = self._build(env)
        if isinstance(stream, DataStream):
            stream.add_sink(self.results.append)
        env.graph = inject(env.graph, *self.faults)
        self.starts += 1
        self.client = await env.execute_async(self.name, restore=restore)
        return self.client

    async def settle(self) -> None:
        """Wait until the graph has gone quiet."""
        await settle()

    async def advance(self, duration: Duration) -> None:
        """Let processing time pass."""
        await self.clock.advance(duration)

    async def wait(self) -> None:
        """Wait for the end of the job.

        Raises:
            Exception: what made it fail.
        """
        await self._running().get_job_execution_result()

    async def crash(self) -> None:
        """End it where it stands: nothing is flushed, committed or checkpointed any more."""
        await self._running().cancel()

    async def status(self) -> JobStatus:
        """Where it is in its life."""
        return await self._running().get_job_status()

    async def metric(self, operator: str, name: str) -> Any:
        """The value of an operator's metric, over all subtasks."""
        values = await self._running().metrics()
        try:
            return values[operator][name]
        except KeyError:
            known = values.get(operator, values)
            raise ValidationException(f"no metric {name!r} of {operator!r}; there are {', '.join(known)}") from None

    def assert_results(
        self, expected: str | Iterable[Any], *, order: Order = "exact", key: Callable[[Any], Hashable] | None = None
    ) -> None:
        """Compare the collected records; see `assert_changelog`.

        Raises:
            AssertionError: they are others; the message is a diff.
        """
        assert_changelog(self.results, expected, order=order, key=key)

    def _running(self) -> JobClient:
        if self.client is None:
            raise ValidationException(f"{self.name!r} has not been started")
        return self.client

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.client is not None:
            await self.client.cancel()
