"""One source after the other: files of the past, and then the topic that goes on from there.

    HybridSource(sources=[FileSource(paths="archive", value_type=Order), KafkaSource(…)])

The next source begins when every subtask has read the one before to its end. A checkpoint holds how far that has come.
All sources but the last are a backlog: `execution.checkpointing.interval-during-backlog` holds while they are read.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from streamline._core.elements import Watermark, WatermarkStatus
from streamline._core.waiting import Latch
from streamline.abc import Barrier, Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.connectors.builder import Builder
from streamline.errors import ValidationException

__all__ = ("HybridSource", "HybridSourceBuilder")

T = TypeVar("T")

#: Milliseconds between two looks whether the next source begins.
_LOOK: Final = 100
#: Between two looks for new splits of a last source that has none to be looked for.
_NEVER: Final = 7 * 24 * 3_600_000

#: A source, or a function that makes it when its turn has come: of nothing, or of the source before it.
Stage = Source[Any] | Callable[..., Source[Any]]


class HybridSource(Source[T], Generic[T]):
    """Reads several sources one after the other. All but the last have to be bounded.

    Args:
        sources: in their order; instead of a source, a function that makes it when its turn has come: without
            arguments, or of the source before it (to begin where that one has ended).

    Raises:
        ValidationException: there are none, or one that is not the last does not end.
    """

    def __init__(self, *, sources: Iterable[Stage]) -> None:
        self._stages = list(sources)
        if not self._stages:
            raise ValidationException("a HybridSource needs sources")
        for stage in self._stages:
            if not isinstance(stage, Source) and not callable(stage):
                raise ValidationException(f"a source, or a function that makes one, is needed, not {stage!r}")
        self._made: dict[int, Source[Any]] = {}
        self._jobs: set[str] = set()
        for i, stage in enumerate(self._stages):
            if isinstance(stage, Source):
                self._made[i] = self._checked(i, stage)
        known = list(self._made.values())
        self.bounded = self._made[self.last].bounded if self.last in self._made else False
        self.parallel = all(s.parallel for s in known)
        self.output_type = next((s.output_type for s in known if s.output_type is not None), None)
        self.event_time = "yes" if any(s.event_time == "yes" for s in known) else "no"
        self._progress: Final = _Progress()

    @staticmethod
    def builder(first_source: Stage | None = None) -> HybridSourceBuilder:
        """The same by `add_source`, …, `build`."""
        made = HybridSourceBuilder(HybridSource)
        return made if first_source is None else made.add_source(first_source)

    @property
    def last(self) -> int:
        """The number of the last source."""
        return len(self._stages) - 1

    def stage(self, i: int) -> Source[Any]:
        """Source number i; made now where a function makes it.

        Raises:
            ValidationException: the function gave no source, or one that does not end before the last.
        """
        if i not in self._made:
            make: Any = self._stages[i]
            try:
                inspect.signature(make).bind(None)
            except TypeError:
                found = make()
            else:
                found = make(self.stage(i - 1) if i else None)
            if not isinstance(found, Source):
                raise ValidationException(
                    f"source number {i + 1} of a HybridSource: {make!r} made {found!r}, no Source"
                )
            self._made[i] = self._checked(i, found)
            for job_id in self._jobs:
                found.on_job_start(job_id)
        return self._made[i]

    def _checked(self, i: int, source: Source[Any]) -> Source[Any]:
        if i < self.last and not source.bounded:
            raise ValidationException(
                f"source number {i + 1} of a HybridSource is {type(source).__name__}, which does not end: only the "
                "last one may be unbounded"
            )
        return source

    @property
    def discovery_interval(self) -> int | None:  # type: ignore[override]
        """Milliseconds between two looks for the next source, or for splits of the last one."""
        if self._progress.stage < self.last or self.last not in self._progress.discovered:
            return _LOOK
        return self.stage(self.last).discovery_interval or _NEVER

    async def discover(self) -> Sequence[Split]:
        """The splits of the source whose turn it is; nothing where they are known and no more can come."""
        i = self._progress.stage
        if i in self._progress.discovered and (i < self.last or self.stage(i).discovery_interval is None):
            return []
        again = i in self._progress.discovered
        found = await (self.stage(i).discover_again() if again else self.stage(i).discover())
        self._progress.note_discovered(i)
        return [Split(f"{i}:{split.id}", [i, split.id, split.payload]) for split in found]

    def reader(self) -> SourceReader[T]:
        return _HybridReader(self, self._progress)

    def on_job_start(self, job_id: str) -> None:
        self._jobs.add(job_id)
        for source in self._made.values():
            source.on_job_start(job_id)

    def on_job_end(self, job_id: str, job_name: str, error: BaseException | None) -> None:
        self._jobs.discard(job_id)
        for source in self._made.values():
            source.on_job_end(job_id, job_name, error)


class HybridSourceBuilder(Builder[HybridSource[Any]]):
    """The builder of a HybridSource, with PyFlink's name."""

    def add_source(self, source: Stage) -> HybridSourceBuilder:
        """Read this one when the others have ended."""
        self._given.setdefault("sources", []).append(source)
        return self


class _Progress:
    """How far all subtasks have come. It lives as long as any of them."""

    def __init__(self) -> None:
        self.stage = 0
        #: Stages whose splits have been handed out: not before that has anybody read all of them.
        self.discovered: set[int] = set()
        self._opened: dict[int, Latch] = {}
        self._done: dict[int, set[int]] = {}

    def enter(self, subtask: int, stage: int) -> Latch:
        """A subtask opens, and has splits of this stage; gives what opens when something has changed."""
        self.stage = max(self.stage, stage)
        latch = self._opened[subtask] = Latch()
        self._changed()
        return latch

    def is_whole(self, parallelism: int) -> bool:
        """Whether all subtasks are there: before that nobody knows which stage it is."""
        return len(self._opened) == parallelism

    def note_discovered(self, stage: int) -> None:
        """The splits of a stage are being handed out."""
        self.discovered.add(stage)
        self._changed()

    def note_done(self, subtask: int, stage: int, last: int, parallelism: int) -> None:
        """A subtask has read everything of a stage."""
        done = self._done.setdefault(stage, set())
        done.add(subtask)
        if len(done) == parallelism and self.stage == stage < last:
            self.stage = stage + 1
            self._changed()

    def leave(self, subtask: int) -> None:
        """A subtask has been closed."""
        self._opened.pop(subtask, None)
        for done in self._done.values():
            done.discard(subtask)
        if not self._opened:
            self.stage = 0
            self.discovered.clear()

    def _changed(self) -> None:
        for latch in self._opened.values():
            latch.set()


class _HybridReader(SourceReader[T]):
    def __init__(self, source: HybridSource[T], progress: _Progress) -> None:
        self._source = source
        self._progress = progress
        #: Splits that are not given to a reader yet, by stage.
        self._waiting: dict[int, list[tuple[Split, Any]]] = {}
        self._stage = -1
        #: The stage whose reader is to be opened, or is open.
        self._wanted = -1
        self._inner: SourceReader[Any] | None = None
        self._closed = False
        #: Splits of stages that were over when they were found.
        self._over: list[str] = []
        self._entered = False
        self._in_backlog = False

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        self._sort(splits)
        self._latch = self._progress.enter(ctx.subtask_index, max(self._waiting, default=0))
        self._entered = True
        ctx.spawn(self._go_on, "stages")

    async def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        self._sort(splits)
        self._latch.set()

    def _sort(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            i, id_, payload = split.payload
            self._waiting.setdefault(i, []).append((Split(id_, payload), position))

    async def _go_on(self) -> None:
        """Open the readers of the stages one after the other."""
        while not self._closed:
            self._latch.clear()
            in_backlog = self._progress.stage < self._source.last
            if in_backlog != self._in_backlog:
                self._in_backlog = in_backlog
                self._ctx.set_is_processing_backlog(in_backlog)
            if self._wanted > self._stage:
                await self._open_stage(self._wanted)
            elif self._inner is not None and self._waiting.get(self._stage):
                await self._hand_over(self._stage, self._inner.add_splits)
            self._ctx.wake()
            await self._latch.wait()

    async def _open_stage(self, stage: int) -> None:
        before, self._inner = self._inner, None
        if before is not None:
            self._over += [f"{self._stage}:{id_}" for id_ in before.finished_splits()]
            await before.close()
        inner = self._source.stage(stage).reader()
        try:
            await self._hand_over(stage, partial(inner.open, self._ctx))
        except BaseException:
            await inner.close()
            raise
        self._stage, self._inner = stage, inner

    async def _hand_over(self, stage: int, take: Callable[[Sequence[tuple[Split, Any]]], Awaitable[None]]) -> None:
        """Give what waits to a reader. It counts as waiting until the reader has it: a checkpoint may be taken now."""
        given = list(self._waiting.get(stage, ()))
        await take(given)
        rest = [s for s in self._waiting.pop(stage, []) if s not in given]
        if rest:
            self._waiting[stage] = rest
            self._latch.set()

    # -- polling -------------------------------------------------------------------------------------------------

    def poll(self, max_records: int) -> SplitBatch | Watermark | WatermarkStatus | Barrier | None:
        progress, inner = self._progress, self._inner
        if self._stage < progress.stage:
            # Whatever was discovered has been given to this reader when it is asked: the runtime sees to that first.
            if progress.stage in progress.discovered and progress.is_whole(self._ctx.parallelism):
                self._want(progress.stage)
            return None
        got = None if inner is None else inner.poll(max_records)
        if isinstance(got, SplitBatch):
            return SplitBatch(f"{self._stage}:{got.split}", got.values, got.timestamps, got.kinds)
        if got is None and self._has_read_all():
            progress.note_done(self._ctx.subtask_index, self._stage, self._source.last, self._ctx.parallelism)
        return got

    def _want(self, stage: int) -> None:
        """Have the reader of a stage opened. What was found of those before is over."""
        if self._wanted == stage:
            return
        self._wanted = stage
        for i in [i for i in self._waiting if i < stage]:
            self._over += [f"{i}:{split.id}" for split, _ in self._waiting.pop(i)]
        self._latch.set()

    def _has_read_all(self) -> bool:
        """Whether the splits of the stage are read to their ends, and none waits."""
        return not self._waiting and self._inner is not None and self._inner.finished

    @property
    def finished(self) -> bool:
        return self._stage == self._source.last and self._has_read_all()

    def finished_splits(self) -> Iterable[str]:
        over, self._over = self._over, []
        ended = [] if self._inner is None else self._inner.finished_splits()
        return [*over, *[f"{self._stage}:{id_}" for id_ in ended]]

    def pause(self, splits: Sequence[str], resume: Sequence[str]) -> None:
        if self._inner is not None:
            self._inner.pause(self._own(splits), self._own(resume))

    def _own(self, splits: Sequence[str]) -> list[str]:
        prefix = f"{self._stage}:"
        return [s.removeprefix(prefix) for s in splits if s.startswith(prefix)]

    def positions(self) -> Mapping[str, Any]:
        waiting = {f"{i}:{split.id}": at for i, splits in self._waiting.items() for split, at in splits}
        inner = {} if self._inner is None else self._inner.positions()
        return {**waiting, **{f"{self._stage}:{id_}": position for id_, position in inner.items()}}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        if self._inner is not None:
            own = self._own(list(positions))
            await self._inner.on_checkpoint_complete(
                checkpoint_id, {id_: positions[f"{self._stage}:{id_}"] for id_ in own}
            )

    async def close(self) -> None:
        self._closed = True
        if self._entered:
            self._latch.set()
            self._progress.leave(self._ctx.subtask_index)
        if self._inner is not None:
            await self._inner.close()
