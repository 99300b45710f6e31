"""A sink's writers in a job that crashes at any call of the operating system, and what is then in the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from streamline.abc import Batch, Sink
from streamline.connectors.files import staging, writer
from streamline.testing import VirtualClock
from tests.connectors.contexts import Context

#: Calls that change something.
CALLS = ("mkdir", "makedirs", "open", "write", "fsync", "rename", "unlink", "rmdir")


class Crash(Exception):
    """The process is dead."""


class FaultyOs:
    """The module `os` of a process that dies at the nth call that changes something."""

    def __init__(self, at: int | None) -> None:
        self.calls = 0
        self.at = at
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(name, real) if name in CALLS else real

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.dead or self.calls == self.at:
                if name == "write" and not self.dead:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])  # torn
                self.dead = True
                raise Crash(f"{name}{args[:2]}")
            return real(*args, **kwargs)

        return call


@contextmanager
def faulty(at: int | None) -> Iterator[FaultyOs]:
    """Writers work on an operating system that dies at its nth call."""
    made = FaultyOs(at)
    staging.os, writer.os = made, made  # type: ignore[attr-defined, assignment]
    try:
        yield made
    finally:
        staging.os, writer.os = os, os  # type: ignore[attr-defined]


@dataclass
class Checkpoint:
    """What the store has of the last complete one."""

    id: int
    position: int
    committables: list[Any]
    states: list[Any]


@dataclass
class Job:
    """Writes the numbers from 0 on, number n by the subtask n modulo the parallelism."""

    sink: Callable[[], Sink[Any]]
    folder: Path
    total: int
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(autojump=False))
    checkpoint: Checkpoint | None = None
    next_id: int = 1
    #: Crashes before any checkpoint was complete leave files that a checkpoint might still ask for.
    fresh_crashes: int = 0

    async def run(self, parallelism: int, script: Sequence[tuple[str, Any]], crash_at: int | None = None) -> bool:
        """Follow the script from the last checkpoint on, and then write and commit the rest; False after a crash."""
        with faulty(crash_at):
            subtasks = [_Subtask(self, i, parallelism) for i in range(parallelism)]
            try:
                position = await self._start(subtasks)
                for step, argument in [*script, ("write", self.total), ("checkpoint", "complete")]:
                    if step == "write":
                        stop = min(position + argument, self.total)
                        for subtask in subtasks:
                            await subtask.write(position, stop)
                        position = stop
                    elif step == "wait":
                        await self.clock.advance(argument)
                    else:
                        await self._checkpoint(subtasks, position, argument)
                for subtask in subtasks:
                    await subtask.writer.close()
                return True
            except Crash:
                self.fresh_crashes += self.checkpoint is None
                for subtask in subtasks:
                    subtask.kill()
                return False

    async def _start(self, subtasks: Sequence[_Subtask]) -> int:
        for subtask in subtasks:
            await subtask.writer.open(subtask.context)
        if self.checkpoint is None:
            return 0
        # Lists of the checkpoint are dealt out; where the parallelism was another one, some subtasks get nothing.
        for i, subtask in enumerate(subtasks):
            await subtask.writer.recover(
                self.checkpoint.committables[i :: len(subtasks)], self.checkpoint.states[i :: len(subtasks)]
            )
        return self.checkpoint.position

    async def _checkpoint(self, subtasks: Sequence[_Subtask], position: int, outcome: str) -> None:
        n, self.next_id = self.next_id, self.next_id + 1
        for subtask in subtasks:
            await subtask.prepare(n)
        if outcome == "fails":
            return
        plain = msgspec.msgpack.encode(
            [[c for s in subtasks for cs in s.pending.values() for c in cs], [s.writer.snapshot() for s in subtasks]]
        )
        committables, states = msgspec.msgpack.decode(plain)
        self.checkpoint = Checkpoint(n, position, committables, states)
        if outcome == "complete":
            for subtask in subtasks:
                await subtask.commit(n)

    # -- what is there -------------------------------------------------------------------------------------------

    def committed(self) -> list[int]:
        """The numbers in files that readers see."""
        found: list[int] = []
        for path in self.folder.rglob("*"):
            if path.is_file() and not any(p.startswith(".") for p in path.relative_to(self.folder).parts):
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return sorted(found)

    def left(self) -> list[str]:
        """What else is in the folder."""
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob(".staging/**/*") if p.is_file())


class _Subtask:
    def __init__(self, job: Job, i: int, parallelism: int) -> None:
        self.i, self.parallelism = i, parallelism
        self.writer: Any = job.sink().writer()
        self.context = Context(job.clock, subtask=i, parallelism=parallelism)
        self.pending: dict[int, list[Any]] = {}

    async def write(self, start: int, stop: int) -> None:
        mine = [n for n in range(start, stop) if n % self.parallelism == self.i]
        if mine:
            await self.writer.write(Batch(mine))

    async def prepare(self, n: int) -> None:
        await self.writer.flush()
        self.pending[n] = list(await self.writer.prepare_commit(n))

    async def commit(self, n: int) -> None:
        for known in sorted(k for k in self.pending if k <= n):
            await self.writer.commit(self.pending.pop(known))

    def kill(self) -> None:
        """What the kernel does: descriptors are closed, and locks with them."""
        for part in self.writer._parts.values():
            if part.file is not None:
                os.close(part.file)
        stage = self.writer._staging
        if stage is not None and stage._lock is not None:
            os.close(stage._lock)
