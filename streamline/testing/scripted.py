"""A source that follows a script: records, watermarks, idleness, barriers, pauses and errors as data."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from streamline._core.elements import Barrier, Batch, EndOfInput, Watermark, WatermarkStatus
from streamline._core.time import Duration, sleep, to_millis
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.errors import StreamlineError, ValidationException
from streamline.testing.changelog import changelog
from streamline.testing.clock import VirtualClock
from streamline.testing.quiescence import settle

__all__ = ("Delay", "Fail", "Pace", "Quiet", "ScriptedSource", "Step", "WaitFor")


@dataclass(frozen=True)
class Delay:
    """Nothing for so many milliseconds of the job's clock."""

    millis: int

    @classmethod
    def of(cls, duration: Duration) -> Delay:
        """From a timedelta or text such as '10 s'."""
        return cls(to_millis(duration, "delay"))


@dataclass
class Fail:
    """Raise an error here, `times` times in the life of the source; after that the script goes on."""

    error: Exception
    times: int = 1


@dataclass(frozen=True)
class Quiet:
    """Go on when the graph has gone quiet."""


@dataclass(frozen=True)
class WaitFor:
    """Go on when the condition holds; it is looked at whenever the source is asked for something and on `poke`."""

    condition: Callable[[], bool]


Step: TypeAlias = "Batch | Watermark | WatermarkStatus | Barrier | EndOfInput | Delay | Fail | Quiet | WaitFor"


@final
class Pace:
    """The order in which several paced sources speak, e.g. row by row in the order of arrival.

    Sources made with the same Pace end in the order in which they were made, after the last of them has spoken.

    Args:
        order: the names of the sources, one for each record.
        interval: time of the clock that passes after each record, so that a periodic watermark follows it.
    """

    def __init__(self, order: Iterable[str] = (), interval: Duration = 0) -> None:
        self._order = deque(order)
        self._ends: list[str] = []
        self._waiting: list[asyncio.Future[None]] = []
        self.interval: Final = to_millis(interval, "interval")

    def add(self, name: str) -> None:
        """A source that speaks at this pace."""
        if name not in self._ends:
            self._ends.append(name)

    async def turn(self, name: str) -> None:
        """Wait until it is this source's turn to speak."""
        while self._order and self._order[0] != name:
            await self._change()
        await settle()

    def spoken(self) -> None:
        """It has; the next may."""
        if self._order:
            self._order.popleft()
        self._changed()

    async def ending(self, name: str) -> None:
        """Wait until it is this source's turn to end."""
        while self._order or self._ends[0] != name:
            await self._change()
        await settle()

    def ended(self, name: str) -> None:
        """It has, or will not speak any more."""
        self._ends.remove(name)
        self._changed()

    async def _change(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class ScriptedSource(Source[Any]):
    """Says what a script says, in that order.

    Args:
        steps: text as `streamline.testing.changelog` describes it, or a sequence of elements (Batch, Watermark,
            WatermarkStatus, Barrier, EndOfInput), of `Delay`, `Fail`, `Quiet` and `WaitFor`, and of plain records; a
            mapping gives each of several splits a script of its own.
        make: makes a record of the values of a change in a text.
        timestamp: gives the event time (epoch ms) of records that come without one.
        ends: whether the source ends after the last step; else it stays open, and `feed` may add more.
        paced: one record at a time, and the next only when the graph has gone quiet. With a `Pace` the turns of
            several sources are in its order and the clock (a VirtualClock) moves by its interval after each.
        name: the name by which a `Pace` knows it; it is also what the Pace's order holds.
        output_type: type of the records.
    """

    def __init__(
        self,
        steps: str | Iterable[Any] | Mapping[str, str | Iterable[Any]] = (),
        *,
        make: Callable[..., Any] | None = None,
        timestamp: Callable[[Any], int] | None = None,
        ends: bool = True,
        paced: bool | Pace = False,
        name: str = "scripted",
        output_type: Any = None,
    ) -> None:
        scripts = steps if isinstance(steps, Mapping) else {"0": steps}
        self._make = make
        self._timestamp = timestamp
        self.pace = Pace() if paced is True else (paced or None)
        if self.pace is not None and ends:
            self.pace.add(name)
        self.scripts: dict[str, list[Step]] = {split: self._steps(script) for split, script in scripts.items()}
        self.bounded = ends
        self.parallel = len(self.scripts) > 1
        # A script that is still to be fed may speak of time; another says already whether it does.
        steps_given = [step for script in self.scripts.values() for step in script]
        timed = any(isinstance(s, Watermark) or (isinstance(s, Batch) and s.timestamps) for s in steps_given)
        self.event_time = "yes" if timed or not ends else "no"
        self.output_type = output_type
        self.name = name
        self._readers: list[_Reader] = []
        #: Positions (steps given out, by split) of every checkpoint that the job has confirmed to this source.
        self.confirmed: list[tuple[int, Mapping[str, Any]]] = []

    async def discover(self) -> Sequence[Split]:
        return [Split(name) for name in self.scripts]

    def reader(self) -> SourceReader[Any]:
        reader = _Reader(self)
        self._readers.append(reader)
        return reader

    def feed(self, *steps: Any, split: str = "0") -> None:
        """Add steps to a source that stays open (`ends=False`); a single text is read as a script."""
        if self.bounded:
            raise StreamlineError("this source ends with its script; make it with ends=False to feed it")
        self.scripts[split] += self._steps(steps[0] if len(steps) == 1 and isinstance(steps[0], str) else steps)
        self.poke()

    def finish(self) -> None:
        """End a source that stays open: it ends after its last step."""
        self.bounded = True
        self.poke()

    def poke(self) -> None:
        """Look at the conditions of `WaitFor` again."""
        for reader in self._readers:
            reader.wake()

    def forget(self, reader: SourceReader[Any]) -> None:
        """A reader has closed."""
        self._readers = [r for r in self._readers if r is not reader]

    def _steps(self, script: str | Iterable[Any]) -> list[Step]:
        elements: Iterable[Any] = changelog(script, self._make) if isinstance(script, str) else script
        return [step for element in elements for step in self._step(element)]

    def _step(self, element: Any) -> Iterable[Step]:
        match element:
            case Watermark() | WatermarkStatus() | Barrier() | EndOfInput() | Delay() | Fail() | Quiet() | WaitFor():
                return [element]
            case Batch():
                batch = element
            case _:
                batch = Batch([element])
        if batch.timestamps is None and self._timestamp is not None:
            batch = Batch(batch.values, list(map(self._timestamp, batch.values)), batch.kinds)
        return [batch] if self.pace is None else [batch.slice(i, i + 1) for i in range(len(batch))]


@dataclass
class _Script:
    """How far a reader is with the script of a split."""

    split: str
    steps: list[Step]
    position: int = 0
    #: Records of the step at `position` that have been given out.
    records: int = 0
    #: Something is being waited for.
    blocked: bool = False
    #: A paced script has the word.
    turn: bool = False
    ended: bool = False


class _Reader(SourceReader[Any]):
    def __init__(self, source: ScriptedSource) -> None:
        self._source = source
        self._scripts: deque[_Script] = deque()
        self._paused: set[str] = set()
        self._ctx: SourceContext | None = None

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        for split, position in splits:
            step, records = position or (0, 0)
            self._scripts.append(_Script(split.id, self._source.scripts[split.id], step, records))

    def wake(self) -> None:
        if self._ctx is not None:
            self._ctx.wake()

    def poll(self, max_records: int) -> Any:
        for _ in range(len(self._scripts)):
            script = self._scripts[0]
            self._scripts.rotate(-1)  # splits take turns
            if script.split not in self._paused and not script.ended and not script.blocked:
                given = self._next(script, max_records)
                if given is not None:
                    return given
        return None

    def _next(self, script: _Script, max_records: int) -> Any:
        """What the script says now; None where it waits or has ended."""
        pace = self._source.pace
        while script.position < len(script.steps):
            match script.steps[script.position]:
                case Batch() as batch:
                    if pace is None:
                        return self._records(script, batch, max_records)
                    if script.turn:
                        script.turn = False
                        given = self._records(script, batch, max_records)
                        self._wait(script, self._after_record)
                        return given
                    self._wait(script, lambda: self._take_turn(script))
                    return None
                case Fail() as fail:
                    if fail.times > 0:
                        fail.times -= 1
                        raise fail.error
                    script.position += 1
                case Delay(millis):
                    self._wait(script, lambda: self._pass(script, sleep(self._context.clock, millis)))
                    return None
                case Quiet():
                    self._wait(script, lambda: self._pass(script, settle()))
                    return None
                case WaitFor(condition):
                    if not condition():
                        return None
                    script.position += 1
                case EndOfInput():
                    script.position = len(script.steps)
                    self._end(script)
                    return None
                case control:
                    script.position += 1
                    return control
        if self._source.bounded:
            self._end(script)
        return None

    @staticmethod
    def _records(script: _Script, batch: Batch, max_records: int) -> SplitBatch:
        start = script.records
        part = batch.slice(start, start + max_records)
        if start + len(part) >= len(batch):
            script.position += 1
            script.records = 0
        else:
            script.records = start + len(part)
        return SplitBatch(script.split, part.values, part.timestamps, part.kinds)

    def _end(self, script: _Script) -> None:
        last = all(other.ended for other in self._scripts if other is not script)
        if self._source.pace is None or not last:
            script.ended = True
        else:
            self._wait(script, lambda: self._take_leave(script))

    # -- waiting: in a background task of the job, so that it ends with the job --

    @property
    def _context(self) -> SourceContext:
        assert self._ctx is not None
        return self._ctx

    @property
    def _pace(self) -> Pace:
        assert self._source.pace is not None
        return self._source.pace

    def _wait(self, script: _Script, wait: Callable[[], Awaitable[None]]) -> None:
        script.blocked = True

        async def waiting() -> None:
            await wait()
            script.blocked = False
            self.wake()

        self._context.spawn(waiting, "script")

    @staticmethod
    async def _pass(script: _Script, wait: Awaitable[None]) -> None:
        await wait
        script.position += 1

    async def _take_turn(self, script: _Script) -> None:
        await self._pace.turn(self._source.name)
        script.turn = True

    async def _after_record(self) -> None:
        pace, clock = self._pace, self._context.clock
        await settle()
        if pace.interval:
            if not isinstance(clock, VirtualClock):
                raise ValidationException(
                    "a Pace with an interval moves the clock; the job has to run on a VirtualClock"
                )
            await clock.advance(pace.interval)
        pace.spoken()

    async def _take_leave(self, script: _Script) -> None:
        await self._pace.ending(self._source.name)
        script.ended = True
        self._pace.ended(self._source.name)

    # -- the rest of the contract --

    @property
    def finished(self) -> bool:
        return all(script.ended for script in self._scripts)

    def finished_splits(self) -> Iterable[str]:
        return [script.split for script in self._scripts if script.ended]

    def pause(self, splits: Sequence[str], resume: Sequence[str]) -> None:
        self._paused.update(splits)
        self._paused.difference_update(resume)
        self.wake()

    def positions(self) -> Mapping[str, Any]:
        return {script.split: [script.position, script.records] for script in self._scripts}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        self._source.confirmed.append((checkpoint_id, dict(positions)))

    async def close(self) -> None:
        self._source.forget(self)
