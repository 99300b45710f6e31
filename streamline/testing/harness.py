"""One operator without a job: its own task loop, real channels and state, a clock that stands, and output as data.

    async with OperatorHarness(CountWindow(10_000), key=lambda r: r[0]) as harness:
        await harness.run("a 1 @ 5 | a 2 @ 7 | ~ 10000")
        harness.assert_output("a 2 | ~ 10000")

What goes in is seen by the operator before the call returns, with all that it triggers.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as _dt
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.abc

from streamline._channel.channel import Channel
from streamline._channel.gate import Gate
from streamline._channel.output import ChannelOutput, Route
from streamline._core.changes import RowKind
from streamline._core.elements import Barrier, Batch, Element, EndOfInput, Watermark, WatermarkStatus
from streamline._core.keys import group_range
from streamline._core.time import Clock, Duration, to_epoch_millis
from streamline._runtime.metrics import MetricGroup
from streamline._runtime.slice import TimeSlice
from streamline._runtime.task import OperatorTask
from streamline._state.capture import Capture
from streamline._state.snapshot import SubtaskSnapshot
from streamline._state.subtask import SubtaskState
from streamline.abc import Operator, TwoInputOperator
from streamline.errors import ValidationException
from streamline.testing.changelog import Order, assert_changelog, changelog, changelog_text
from streamline.testing.clock import VirtualClock
from streamline.testing.quiescence import settle

__all__ = ("OperatorHarness",)

#: More than any test sends at once: the operator under test never waits for room.
_CAPACITY: Final = 1 << 40


class _Host:
    """What the operator's task sees of a job."""

    job_name = "harness"
    attempt = 0
    checkpointing = False
    incremental = False

    def __init__(self, clock: Clock, job_parameters: Mapping[str, str]) -> None:
        self.clock = clock
        self.time_slice = TimeSlice()
        self.said: set[str] = set()
        self.job_parameters = job_parameters
        self.captures: dict[int, Capture | None] = {}
        self.group: anyio.abc.TaskGroup | None = None

    def captured(self, task: Any, barrier: Barrier, capture: Capture | None) -> None:
        self.captures[barrier.checkpoint_id] = capture

    def backlog(self, task: Any, processing: bool) -> None:
        pass

    def final_id(self, task: Any) -> int:
        return max(self.captures, default=0) + 1

    def finished(self, task: Any, capture: Any = None) -> bool:
        return False

    def spawn(self, function: Callable[[], Awaitable[None]], name: str) -> None:
        assert self.group is not None
        self.group.start_soon(self._run, function, name=name)

    @staticmethod
    async def _run(function: Callable[[], Awaitable[None]]) -> None:
        await function()


class OperatorHarness:
    """Runs one subtask of an operator.

    Args:
        operator: the operator, with one input or two.
        key: gives the key of a record, where the input is keyed; for two inputs a pair.
        sides: tags of the side outputs that somebody reads.
        clock: processing time; by default one that stands at 2024-01-01 UTC and moves by `advance` only.
        restore: what `snapshot` gave, of this or another harness of the operator; of all subtasks, where the
            parallelism changes.
        subtask, parallelism, max_parallelism: which one of how many subtasks it is, and the number of key groups.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        key: Callable[[Any], Hashable] | Sequence[Callable[[Any], Hashable] | None] | None = None,
        sides: Iterable[str] = (),
        clock: VirtualClock | None = None,
        job_parameters: Mapping[str, str] | None = None,
        restore: SubtaskSnapshot | Sequence[SubtaskSnapshot] | None = None,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
    ) -> None:
        if not isinstance(operator, Operator):
            raise ValidationException(
                f"OperatorHarness runs an Operator (streamline.abc), not {operator!r}: functions and streams are "
                "tested in a job, MiniJob(lambda env: env.from_source(ScriptedSource(...)).process(...))"
            )
        self.operator: Final = operator
        self.clock: Final = clock or VirtualClock(autojump=False)
        self._host = _Host(self.clock, job_parameters or {})
        inputs = 2 if isinstance(operator, TwoInputOperator) else 1
        self._inputs = [Channel(_CAPACITY) for _ in range(inputs)]
        self._main = Channel(_CAPACITY)
        self._sides = {tag: Channel(_CAPACITY) for tag in sides}
        groups = group_range(max_parallelism, parallelism, subtask)

        def state(wake_at: Callable[[int], None]) -> SubtaskState:
            return SubtaskState(
                key_groups=groups,
                max_parallelism=max_parallelism,
                clock=self.clock,
                wake_at=wake_at,
                subtask_index=subtask,
                parallelism=parallelism,
            )

        self.task: Final = OperatorTask(
            host=self._host,
            node_id=1,
            uid="1",
            name=operator.name,
            operator=operator,
            gate=Gate(self._inputs, range(inputs)),
            output=ChannelOutput(
                [Route([self._main])], {tag: [Route([channel])] for tag, channel in self._sides.items()}
            ),
            state=state,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            metrics=MetricGroup("harness", self.clock),
            keyed=key is not None,
        )
        self.task.output.pace = self._host.time_slice
        self._restore = [restore] if isinstance(restore, SubtaskSnapshot) else restore
        self._out: list[Element] = []
        self._side_out: dict[str, list[Element]] = {tag: [] for tag in self._sides}
        self._running: asyncio.Task[None] | None = None
        self._checkpoints = 0
        self._ended = [False] * inputs

    # -- life --

    async def open(self) -> None:
        """Open the operator; what it raises comes out here."""
        if self._running is not None:
            raise ValidationException("the harness is open already")
        if self._restore is not None:
            await self.task.state.restore(self._restore)
            self.task.restored = True
        self._running = asyncio.create_task(self._run(), name=f"harness of {self.operator.name}")
        await self._settle()

    async def _run(self) -> None:
        async with anyio.create_task_group() as self._host.group:
            await self.task.run()
            self._host.group.cancel_scope.cancel()

    async def close(self) -> None:
        """Close the operator as a cancelled job would; an error that has not come out yet comes out here."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait({running})
            if not running.cancelled():
                self._raise(running)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            with contextlib.suppress(BaseException):
                await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            with contextlib.suppress(Exception):
                await self.close()

    async def _settle(self) -> None:
        await settle()
        # Taken out after every step: control elements that meet in a channel become one.
        self._out += _drain(self._main)
        for tag, channel in self._sides.items():
            self._side_out[tag] += _drain(channel)
        if self._running is not None and self._running.done():
            running, self._running = self._running, None
            self._raise(running)

    @staticmethod
    def _raise(running: asyncio.Task[None]) -> None:
        error = running.exception()
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is not None:
            raise error

    # -- what goes in --

    async def send(self, *elements: Element, input: int = 0) -> None:
        """Put elements into an input (0 or 1)."""
        if self._running is None:
            raise ValidationException("the harness is not open, or its operator has ended")
        for element in elements:
            self._ended[input] |= isinstance(element, EndOfInput)
            self._inputs[input].send_nowait(element)
            await self._settle()

    async def run(self, script: str, *, input: int = 0, make: Callable[..., Any] | None = None) -> str:
        """Put the elements of a text (see `streamline.testing.changelog`) in; gives what came out, as text."""
        await self.send(*changelog(script, make), input=input)
        return self.output_text()

    async def process_element(
        self, value: Any, timestamp: int | _dt.datetime | None = None, kind: RowKind = RowKind.INSERT, *, input: int = 0
    ) -> None:
        """Put one record in; `timestamp` is in epoch ms."""
        time = None if timestamp is None else [to_epoch_millis(timestamp)]
        await self.send(Batch([value], time, None if kind is RowKind.INSERT else [kind]), input=input)

    async def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Put one record into the first of two inputs."""
        await self.process_element(value, timestamp)

    async def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Put one record into the second of two inputs."""
        await self.process_element(value, timestamp, input=1)

    async def process_watermark(self, timestamp: int | _dt.datetime, *, input: int | None = None) -> None:
        """Let event time come so far (epoch ms), on one input or, by default, on all of them."""
        for i in range(len(self._inputs)) if input is None else (input,):
            await self.send(Watermark(to_epoch_millis(timestamp)), input=i)

    async def process_idleness(self, idle: bool = True, *, input: int = 0) -> None:
        """Let an input be idle, or active again."""
        await self.send(WatermarkStatus(idle), input=input)

    async def end_input(self) -> None:
        """Let all inputs end: the operator emits what is left, and closes."""
        for i, ended in enumerate(self._ended):
            if not ended:
                await self.send(EndOfInput(), input=i)

    # -- processing time --

    async def set_processing_time(self, when: int | _dt.datetime) -> None:
        """Let processing time come to `when`; timers due until then fire, each at its own instant."""
        await self.advance(to_epoch_millis(when) - self.clock.now())

    async def advance(self, duration: Duration) -> None:
        """Let so much processing time pass."""
        await self.clock.advance(duration)
        await self._settle()

    # -- what comes out --

    def extract_output(self) -> list[Element]:
        """What has come out of the main output since the last call."""
        out, self._out = self._out, []
        return out

    def extract_side_output(self, tag: str) -> list[Element]:
        """What has come out of a side output since the last call."""
        if tag not in self._sides:
            raise ValidationException(f"nobody reads side output {tag!r}: name it in sides=")
        out, self._side_out[tag] = self._side_out[tag], []
        return out

    def extract_values(self) -> list[Any]:
        """The records that have come out of the main output since the last call."""
        return [v for element in self.extract_output() if isinstance(element, Batch) for v in element.values]

    def output_text(self, *, timestamps: bool = False) -> str:
        """`extract_output` as text."""
        return changelog_text(self.extract_output(), timestamps=timestamps)

    def assert_output(
        self,
        expected: str | Iterable[Any],
        *,
        order: Order = "exact",
        key: Callable[[Any], Hashable] | None = None,
    ) -> None:
        """Compare what has come out since the last call; see `assert_changelog`.

        Raises:
            AssertionError: it is another; the message is a diff.
        """
        assert_changelog(self.extract_output(), expected, order=order, key=key)

    # -- state --

    async def snapshot(self) -> SubtaskSnapshot:
        """Send a barrier through and give what the operator's state was when it passed, as it would lie on disk."""
        self._checkpoints += 1
        barrier = Barrier(self._checkpoints, self.clock.now())
        for i, ended in enumerate(self._ended):
            if not ended:
                await self.send(barrier, input=i)
        capture = self._host.captures.pop(barrier.checkpoint_id, None)
        if capture is None:
            raise ValidationException("the barrier has not passed the operator: have all its inputs ended?")
        return await capture.encode()

    async def complete_checkpoint(self) -> None:
        """Tell the operator that the checkpoint of the last `snapshot` is complete."""
        await self.operator.on_checkpoint_complete(self._checkpoints)


def _drain(channel: Channel) -> list[Element]:
    elements: list[Element] = []
    while (element := channel.receive_nowait(_CAPACITY)) is not None:
        elements.append(element)
    return elements
