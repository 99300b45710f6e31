"""Tables that are read by key at the moment of the probe, for lookup joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ("LookupReader", "LookupTable")


class LookupReader(Protocol):
    """Reads rows by key, in one subtask."""

    async def open(self) -> None:
        """Called before the first key."""

    async def lookup(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[Sequence[Any]]:
        """For each key (values in inner form, none is NULL) the records of the table that have it, as the scan's
        `RowShape` reads them."""

    async def close(self) -> None:
        """Called once at the end, also after a failure."""


class LookupTable(Protocol):
    """What `Scan.lookup` holds."""

    def reader(self, columns: tuple[str, ...]) -> LookupReader:
        """A reader by the values of these columns."""
