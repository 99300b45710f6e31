"""The rows of VALUES as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch

__all__ = ("ConstantRows",)


@final
class ConstantRows(Source[tuple[Any, ...]]):
    """A few rows in inner form, once."""

    bounded = True
    parallel = False

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.rows = tuple(rows)

    async def discover(self) -> Sequence[Split]:
        return (Split("values"),)

    def reader(self) -> SourceReader[tuple[Any, ...]]:
        return _Reader(self.rows)


@final
class _Reader(SourceReader[tuple[Any, ...]]):
    def __init__(self, rows: tuple[tuple[Any, ...], ...]) -> None:
        self._rows = rows
        self._position = len(rows)

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        for _, position in splits:
            self._position = position or 0

    def poll(self, max_records: int) -> SplitBatch | None:
        if self.finished:
            return None
        some = self._rows[self._position : self._position + max_records]
        self._position += len(some)
        return SplitBatch("values", some)

    @property
    def finished(self) -> bool:
        return self._position >= len(self._rows)

    def positions(self) -> Mapping[str, Any]:
        return {"values": self._position}

    async def close(self) -> None:
        return None
