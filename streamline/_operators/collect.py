"""Results for the program that runs the job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from streamline.abc import Barrier, Batch, Operator, OperatorContext, Output, StateSpec

__all__ = ("Collect", "Handover")

#: Records that wait for the reader at most.
_CAPACITY: Final = 1024
_STATE: Final = StateSpec()


class Handover:
    """Between a running job and the `async for` that reads its results: bounded, so a slow reader slows the job."""

    def __init__(self) -> None:
        self._batches: deque[Any] = deque()
        self._records = 0
        self._room: asyncio.Future[None] | None = None
        #: There may be something; more than one task may wait for it.
        self._data = asyncio.Event()
        self.closed = False
        #: Records handed over so far, in all attempts of the job.
        self.given = 0

    async def room(self) -> None:
        """Wait while the reader has more than enough."""
        while self._records >= _CAPACITY and not self.closed:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def put(self, values: Any) -> None:
        """Give results."""
        if self.closed or not values:
            return
        if len(values) <= _CAPACITY:
            self._batches.append(values)
        else:  # what a checkpoint has set free: in runs between which the reader lets others have the loop
            self._batches.extend(values[i : i + _CAPACITY] for i in range(0, len(values), _CAPACITY))
        self._records += len(values)
        self.given += len(values)
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
        self._data.set()

    async def wait(self) -> None:
        """Wait until there may be something."""
        self._data.clear()
        await self._data.wait()

    def close(self) -> None:
        """Nobody reads any more."""
        self.closed = True
        self._batches.clear()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


@final
class Collect(Operator):
    """Hands every record to the program that reads the results.

    Exactly once (with checkpoints, unless they are at-least-once): a record is handed over when the checkpoint behind
    it is complete, so that a restart shows none twice. State: what was not handed over, and the number of its first.
    """

    name = "collect"

    def __init__(self, handover: Handover, exactly_once: Callable[[], bool] = lambda: True) -> None:
        self._handover = handover
        self._may_hold = exactly_once
        self._holds = False
        #: Records that wait for a checkpoint, and the number of the first of them.
        self._held: list[Any] = []
        self._first = 0
        #: By checkpoint: how many records lie before its barrier.
        self._barriers: dict[int, int] = {}
        self._state: list[Any] = []

    async def open(self, ctx: OperatorContext) -> None:
        self._holds = ctx.checkpointing and self._may_hold()
        if not self._holds:
            return
        self._state = ctx.operator_store.list_state("results", _STATE)
        if self._state:
            # The checkpoint that was restored is complete, so its records may go; those that had gone stay away.
            first, *held = self._state
            self._state.clear()
            self._handover.given = max(self._handover.given, first)
            self._handover.put(held[max(0, self._handover.given - first) :])
            self._first = first + len(held)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if self._holds:
            self._held += batch.values
        else:
            self._handover.put(batch.values)
        await self._handover.room()

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        if self._holds:
            self._barriers[barrier.checkpoint_id] = self._first + len(self._held)
            self._state[:] = [self._first, *self._held]

    async def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        complete = [n for n in self._barriers if n <= checkpoint_id]
        for n in complete:
            until = self._barriers.pop(n) - self._first
            if until > 0:
                self._handover.put(self._held[:until])
                self._held = self._held[until:]
                self._first += until
