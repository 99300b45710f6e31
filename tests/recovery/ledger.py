"""A two-phase sink in memory that outlives jobs, as a database would: what is prepared, what is committed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from streamline.abc import Batch, Sink, SinkContext, SinkWriter

_numbers = count(1)


class Ledger(Sink[Any]):
    """Every record that was committed is there; a transaction is committed once, however often one tries."""

    two_phase = True

    def __init__(self) -> None:
        self.committed: list[Any] = []
        self.prepared: dict[str, list[Any]] = {}
        #: Transactions that were committed a second time: harmless, and counted.
        self.again = 0
        self.commits: list[str] = []
        #: Records that were prepared and thrown away.
        self.aborted: list[Any] = []

    def writer(self) -> LedgerWriter:
        return LedgerWriter(self)


class LedgerWriter(SinkWriter[Any]):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: list[Any] = []
        self._subtask = 0

    async def open(self, ctx: SinkContext) -> None:
        self._subtask = ctx.subtask_index

    async def recover(self, committables: Sequence[Any], state: Sequence[Any]) -> None:
        await self.commit(committables)

    async def write(self, batch: Batch) -> None:
        self._open += batch.values

    async def prepare_commit(self, checkpoint_id: int) -> Sequence[Any]:
        if not self._open:
            return ()
        name = f"{checkpoint_id}-{self._subtask}-{next(_numbers)}"
        self._ledger.prepared[name] = self._open
        self._open = []
        return [name]

    async def commit(self, committables: Sequence[Any]) -> None:
        for name in committables:
            if name in self._ledger.commits:
                self._ledger.again += 1
                continue
            self._ledger.commits.append(name)
            self._ledger.committed += self._ledger.prepared.pop(name)

    async def abort(self, committables: Sequence[Any]) -> None:
        for name in committables:
            self._ledger.aborted += self._ledger.prepared.pop(name, [])

    async def close(self) -> None:
        pass
