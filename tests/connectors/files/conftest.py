"""Readers of files without a job around them: what they do can be looked at step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from streamline.abc import Source, SourceReader, Split, SplitBatch
from streamline.testing import VirtualClock, settle
from tests.connectors.contexts import Context, unwrapped


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
