"""Sources one after the other: history first, then what is live.

source = HybridSource(FileSource(...), KafkaSource(...))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from streamline._core.elements import Watermark, WatermarkStatus
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.errors import ValidationException

__all__ = ("HybridSource", "HybridSourceBuilder")

T = TypeVar("T")

#: A source, or what makes it of the positions at which the one before it has ended.
Next: TypeAlias = "Source[Any] | Callable[[Mapping[str, Any]], Source[Any]]"
_SPLIT = "hybrid"


class HybridSource(Source[T]):
    """Reads one source to its end, then the next; only the last may be without an end.

    Args:
        sources: the first is a Source; each that follows is one too, or a function that makes it of the positions (by
            split) at which the one before it has ended, e.g. to begin where the history stops.

    Raises:
        ValidationException: there is none, the first is a function, or one but the last has no end.
    """

    parallel = False

    def __init__(self, *sources: Next) -> None:
        if not sources or not isinstance(sources[0], Source):
            raise ValidationException("a HybridSource needs a Source to begin with")
        for source in sources:
            if not isinstance(source, Source) and not callable(source):
                raise ValidationException(f"a HybridSource is made of Sources, not of {source!r}")
        for source in sources[:-1]:
            if isinstance(source, Source) and not source.bounded:
                raise ValidationException(
                    f"{type(source).__name__} has no end, so what follows it in the HybridSource would never be read"
                )
        self._sources = sources
        last = sources[-1]
        self.bounded = isinstance(last, Source) and last.bounded
        self.output_type = sources[0].output_type

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """`HybridSource.builder(first).add_source(second).build()`."""
        return HybridSourceBuilder(first_source)

    async def discover(self) -> Sequence[Split]:
        return [Split(_SPLIT)]

    def reader(self) -> SourceReader[T]:
        return _Reader(self._sources)


class HybridSourceBuilder:
    """Collects sources."""

    def __init__(self, first_source: Source[Any]) -> None:
        self._sources: list[Next] = [first_source]

    def add_source(self, source: Next) -> HybridSourceBuilder:
        """The next one."""
        self._sources.append(source)
        return self

    def build(self) -> HybridSource[Any]:
        """The source."""
        return HybridSource(*self._sources)


class _Reader(SourceReader[T]):
    """Opens the reader of one source after the other, in the background."""

    def __init__(self, sources: Sequence[Next]) -> None:
        self._sources = sources
        self._index = 0
        self._current: SourceReader[Any] | None = None
        self._switching = True
        self._kept: dict[str, Any] = {}
        self._before: list[dict[str, Any]] = []
        self._ctx: SourceContext
        self._empty = False

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        if not splits:
            self._empty = True
            return
        position = splits[0][1]
        if position is not None:
            self._index, self._kept, self._before = position["source"], position["splits"], position["before"]
        ctx.spawn(self._open_current, "opening a source")

    async def _open_current(self) -> None:
        if self._current is not None:
            await self._current.close()
            self._current = None
        made = self._sources[self._index]
        if not isinstance(made, Source):
            made = made(self._before[-1])
        reader = made.reader()
        found = await made.discover()
        await reader.open(self._ctx, [(split, self._kept.get(split.id)) for split in found])
        self._current = reader
        self._switching = False
        self._ctx.wake()

    def poll(self, max_records: int) -> Any:
        reader = self._current
        if reader is None or self._switching:
            return None
        got: Any = reader.poll(max_records)
        if isinstance(got, SplitBatch):
            return SplitBatch(_SPLIT, got.values, got.timestamps, got.kinds)
        if isinstance(got, (Watermark, WatermarkStatus)):
            return got
        if reader.finished and self._index + 1 < len(self._sources):
            self._switching = True
            self._before.append(dict(reader.positions()))
            self._index += 1
            self._kept = {}
            self._ctx.spawn(self._open_current, "opening the next source")
        return None

    @property
    def finished(self) -> bool:
        if self._empty:
            return True
        last = self._index == len(self._sources) - 1
        return last and not self._switching and self._current is not None and self._current.finished

    def finished_splits(self) -> Iterable[str]:
        return (_SPLIT,) if self.finished and not self._empty else ()

    def positions(self) -> Mapping[str, Any]:
        if self._current is not None and not self._switching:
            self._kept = dict(self._current.positions())
        return {_SPLIT: {"source": self._index, "splits": self._kept, "before": self._before}}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        held = positions.get(_SPLIT)
        if held is not None and self._current is not None and held["source"] == self._index and not self._switching:
            await self._current.on_checkpoint_complete(checkpoint_id, held["splits"])

    async def close(self) -> None:
        if self._current is not None:
            await self._current.close()
