"""Results for the program that runs the job."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, final

from streamline.abc import Batch, Operator, Output

__all__ = ("Collect", "Handover")

#: Records that wait for the reader at most.
_CAPACITY = 1024


class Handover:
    """Between a running job and the `async for` that reads its results: bounded, so a slow reader slows the job."""

    def __init__(self) -> None:
        self._batches: deque[Any] = deque()
        self._records = 0
        self._room: asyncio.Future[None] | None = None
        self._data: asyncio.Future[None] | None = None
        self.closed = False

    async def put(self, values: Any) -> None:
        """Give results; waits while the reader has more than enough."""
        while self._records >= _CAPACITY and not self.closed:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None
        if self.closed:
            return
        self._batches.append(values)
        self._records += len(values)
        self.wake()

    def take(self) -> Any:
        """The next run of results, None where none is there."""
        if not self._batches:
            return None
        values = self._batches.popleft()
        self._records -= len(values)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        return values

    def wake(self) -> None:
        """Have the reader look."""
        if self._data is not None and not self._data.done():
            self._data.set_result(None)

    async def wait(self) -> None:
        """Wait until there may be something."""
        self._data = asyncio.get_running_loop().create_future()
        try:
            await self._data
        finally:
            self._data = None

    def close(self) -> None:
        """Nobody reads any more."""
        self.closed = True
        self._batches.clear()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


@final
class Collect(Operator):
    """Hands every record to the program that reads the results."""

    name = "collect"

    def __init__(self, handover: Handover) -> None:
        self._handover = handover

    async def on_batch(self, batch: Batch, out: Output) -> None:
        await self._handover.put(batch.values)
