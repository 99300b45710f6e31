"""Faults of the disk that checkpoints lie on, as data.

    with faulty_disk(FailOnDisk("publish", call=2), SlowDisk("write", "30 s"), clock=virtual_clock):
        ...

Slowness is time of the job's clock, so a timeout passes at once on a virtual one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from unittest import mock

from streamline._core.time import Clock, Duration, default_clock, sleep, to_millis
from streamline._state.threads import in_thread

__all__ = ("FailOnDisk", "SlowDisk", "faulty_disk")

#: What is done to files: a subtask's state is written, a manifest published, either read, anything deleted.
Operation: TypeAlias = Literal["write", "publish", "read", "delete"]

_OPERATIONS: Final[dict[str, Operation]] = {
    "_write_part": "write",
    "take": "write",
    "publish": "publish",
    "_read_part": "read",
    "_read_manifest": "read",
    "_drop": "delete",
    "delete": "delete",
}


@dataclass
class FailOnDisk:
    """The nth call of an operation fails (the first is 1), and those behind it, `times` in all.

    Attributes:
        error: makes the error; no space left on device by default.
        struck: how often it has failed.
    """

    operation: Operation
    call: int = 1
    times: int = 1
    error: Callable[[], Exception] = lambda: OSError(errno.ENOSPC, "no space left on device")
    struck: int = field(default=0, init=False)
    seen: int = field(default=0, init=False)

    async def before(self, operation: Operation, clock: Clock) -> None:
        """Something is about to be done."""
        if operation == self.operation:
            self.seen += 1
            if self.seen >= self.call and self.struck < self.times:
                self.struck += 1
                raise self.error()


@dataclass(frozen=True)
class SlowDisk:
    """Every call of an operation takes so much longer."""

    operation: Operation
    delay: Duration

    async def before(self, operation: Operation, clock: Clock) -> None:
        """Something is about to be done."""
        if operation == self.operation:
            await sleep(clock, to_millis(self.delay, "delay"))


@contextmanager
def faulty_disk(*faults: FailOnDisk | SlowDisk, clock: Clock | None = None) -> Iterator[None]:
    """While open, checkpoints are written to and read from a disk with these faults; for all jobs of the process."""
    of = clock or default_clock()

    async def faulty(function: Callable[..., Any], *arguments: Any) -> Any:
        operation = _OPERATIONS.get(getattr(function, "__name__", ""))
        if operation is not None:
            for fault in faults:
                await fault.before(operation, of)
        return await in_thread(function, *arguments)

    with mock.patch("streamline._state.store.in_thread", faulty):
        yield
