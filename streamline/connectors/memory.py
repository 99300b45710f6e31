"""Sources of this process: collections, iterables, functions, and a channel that a service feeds.

source = ChannelSource[Order]()
orders = env.from_source(source, strategy, "orders")
...
await source.send(order)          # waits while the job is behind
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, final

from streamline._core.elements import Watermark, WatermarkStatus
from streamline._core.time import to_epoch_millis
from streamline._core.waiting import Latch
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.errors import StateMigrationException, StreamlineError, ValidationException

__all__ = ("ChannelSource", "CollectionSource", "FunctionSource", "IterableSource")

T = TypeVar("T")

_SPLIT: Final = Split("0")
#: Records that an iterable is read ahead.
_AHEAD: Final = 1024
#: Emissions of a SourceFunction that may be under way; more of them were forgotten rather than gathered.
_UNDER_WAY: Final = 100_000


# -- collections ---------------------------------------------------------------------------------------------------


@final
class CollectionSource(Source[T]):
    """The elements of a sequence, once, in order."""

    bounded = True
    parallel = False

    def __init__(self, values: Iterable[T], output_type: Any = None) -> None:
        self.values: Final[Sequence[T]] = values if isinstance(values, (list, tuple, range)) else list(values)
        self.output_type = output_type

    async def discover(self) -> Sequence[Split]:
        return [_SPLIT]

    def reader(self) -> SourceReader[T]:
        return _CollectionReader(self.values)


def _shrunk(read: int, there: int) -> StateMigrationException:
    return StateMigrationException(
        f"the checkpoint has read {read} elements of this source, and now it ends after {there}: after a restart a "
        "source has to give the same elements again. Where the input is another one, start afresh with restore=None or "
        "under another job name"
    )


class _CollectionReader(SourceReader[T]):
    def __init__(self, values: Sequence[T]) -> None:
        self._values = values
        self._position = 0

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._position = (splits[0][1] or 0) if splits else len(self._values)
        if self._position > len(self._values):
            raise _shrunk(self._position, len(self._values))

    def poll(self, max_records: int) -> SplitBatch | None:
        start = self._position
        values = self._values[start : start + max_records]
        if not values:
            return None
        self._position = start + len(values)
        return SplitBatch("0", values)

    @property
    def finished(self) -> bool:
        return self._position >= len(self._values)

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._position}

    async def close(self) -> None:
        pass


# -- iterables -----------------------------------------------------------------------------------------------------


@final
class IterableSource(Source[T]):
    """The elements of an async (or plain) iterable, or of what a function returns.

    A function, and an object that gives a new iterator each time, can be read again after a restart: as many elements
    as were read before are skipped. An iterator is read once.
    """

    parallel = False

    def __init__(self, origin: Any, output_type: Any = None, bounded: bool = False) -> None:
        """
        Args:
            origin: an async iterable, an iterable, or a function without arguments that returns one.
            output_type: type of the elements.
            bounded: whether it is known to come to an end.

        Raises:
            ValidationException: it is none of these.
        """
        if not (callable(origin) or isinstance(origin, (AsyncIterable, Iterable))):
            raise ValidationException(f"a source has to be a Source, an (async) iterable or a function, not {origin!r}")
        self._origin = origin
        self._used = False
        self.output_type = output_type
        self.bounded = bounded

    async def discover(self) -> Sequence[Split]:
        return [_SPLIT]

    def reader(self) -> SourceReader[T]:
        return _IterableReader(self)

    def iterate(self) -> Any:
        """A new iterator.

        Raises:
            StreamlineError: it was read before and can be read once only.
        """
        origin = self._origin
        if isinstance(origin, (AsyncIterable, Iterable)):
            found: Any = origin
            once = isinstance(origin, (AsyncIterator, Iterator))
            # A generator that has run has no frame any more: it would give nothing, whoever read it.
            spent = getattr(origin, "ag_frame", self) is None or getattr(origin, "gi_frame", self) is None
            if spent and not self._used:
                raise StreamlineError(
                    f"{type(origin).__name__} has been read already and would give nothing: give from_source a "
                    "function that returns a new one"
                )
            if once and self._used:
                raise StreamlineError(
                    f"{type(origin).__name__} can be read once only, and the job was started again: give from_source a "
                    "function that returns a new one"
                )
            self._used = True
            return found
        return origin()


class _Buffered(SourceReader[T]):
    """A reader whose records are put into a buffer by a background task."""

    def __init__(self) -> None:
        self._buffer: deque[Any] = deque()
        self._timestamps: deque[int | None] = deque()
        self._stamped = False
        self._read = 0
        self._done = True
        self._room = Latch()
        self._ctx: SourceContext

    def _put(self, value: Any, timestamp: int | None = None) -> None:
        self._buffer.append(value)
        if timestamp is not None and not self._stamped:
            self._stamped = True
            self._timestamps.extend([None] * (len(self._buffer) - 1))
        if self._stamped:
            self._timestamps.append(timestamp)
        if len(self._buffer) == 1:
            self._ctx.wake()

    def _end(self) -> None:
        self._done = True
        self._ctx.wake()

    def poll(self, max_records: int) -> SplitBatch | None:
        buffer = self._buffer
        if not buffer:
            return None
        n = min(max_records, len(buffer))
        for i in range(n):
            if isinstance(buffer[i], (Watermark, WatermarkStatus)):
                n = i
                break
        if n == 0:
            if self._stamped:
                self._timestamps.popleft()
            return buffer.popleft()  # type: ignore[no-any-return]
        take = buffer.popleft
        values = [take() for _ in range(n)]
        timestamps = [self._timestamps.popleft() for _ in range(n)] if self._stamped else None
        self._read += n
        self._room.set()
        return SplitBatch("0", values, timestamps)

    @property
    def finished(self) -> bool:
        return self._done and not self._buffer

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._read}

    async def close(self) -> None:
        self._buffer.clear()


class _IterableReader(_Buffered[T]):
    def __init__(self, source: IterableSource[T]) -> None:
        super().__init__()
        self._source = source

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        if not splits:
            return
        self._done = False
        self._read = splits[0][1] or 0
        ctx.spawn(self._pull, "reading")

    async def _pull(self) -> None:
        skip = self._read
        found = self._source.iterate()
        if inspect.isawaitable(found):
            found = await found
        if not isinstance(found, (AsyncIterable, Iterable)):
            raise ValidationException(f"the source's function has to return an (async) iterable, not {found!r}")
        if isinstance(found, AsyncIterable):
            try:
                async for value in found:
                    if skip:
                        skip -= 1
                        continue
                    self._put(value)
                    await self._pace()
            finally:
                close = getattr(found, "aclose", None)
                if close is not None:
                    await close()
        else:
            for value in found:
                if skip:
                    skip -= 1
                    continue
                self._put(value)
                await self._pace()
        if skip:
            raise _shrunk(self._read, self._read - skip)
        self._end()

    async def _pace(self) -> None:
        """Wait where the job is behind."""
        while len(self._buffer) >= _AHEAD:
            self._room.clear()
            await self._room.wait()


# -- source functions ----------------------------------------------------------------------------------------------


class _EmitContext:
    """What the `run` of a SourceFunction is given."""

    def __init__(self, reader: _FunctionReader[Any]) -> None:
        self._reader = reader
        self._begun = 0
        self._awaited = 0

    def collect(self, element: Any) -> Awaitable[None]:
        """Emit a record; waits while the job is behind."""
        return self._emit(element, None)

    def collect_with_timestamp(self, element: Any, timestamp: Any) -> Awaitable[None]:
        """Emit a record with its event time (epoch ms or aware datetime)."""
        return self._emit(element, to_epoch_millis(timestamp))

    def check(self, unawaited: int = 0) -> None:
        """Fail where more records than that were handed over without an `await`: none of those goes anywhere."""
        lost = self._begun - self._awaited
        if lost > unawaited:
            raise ValidationException(
                f"{lost} records of a SourceFunction are lost, as their ctx.collect(...) was not awaited: write "
                "`async def run(self, ctx)` with `await ctx.collect(record)`, or yield the records"
            )

    def _emit(self, element: Any, timestamp: int | None) -> Awaitable[None]:
        self.check(_UNDER_WAY)
        self._begun += 1
        return self._put(element, timestamp)

    async def _put(self, element: Any, timestamp: int | None) -> None:
        self._awaited += 1
        await self._reader.put(element, timestamp)

    async def emit_watermark(self, timestamp: int) -> None:
        """Say that event time has reached `timestamp` (epoch ms)."""
        await self._reader.put(Watermark(timestamp), None)

    async def mark_as_temporarily_idle(self) -> None:
        """Say that nothing will come for a while; the next record takes it back."""
        await self._reader.put(WatermarkStatus(True), None)


@final
class FunctionSource(Source[T]):
    """A SourceFunction: an object with `run(ctx)` that emits, or yields, until it returns or `cancel()` is called."""

    parallel = False
    event_time = "yes"

    def __init__(self, function: Any, output_type: Any = None) -> None:
        self.function: Final = function
        self.output_type = output_type

    async def discover(self) -> Sequence[Split]:
        return [_SPLIT]

    def reader(self) -> SourceReader[T]:
        return _FunctionReader(self)


class _FunctionReader(_Buffered[T]):
    def __init__(self, source: FunctionSource[T]) -> None:
        super().__init__()
        self._function = source.function
        self._idle = False

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        if splits:
            self._done = False
            ctx.spawn(self._run, "running")

    async def _run(self) -> None:
        context = _EmitContext(self)
        result = self._function.run(context)
        if isinstance(result, AsyncIterable):
            async for value in result:
                await self.put(value, None)
        elif inspect.isawaitable(result):
            await result
        elif isinstance(result, Iterable):
            for value in result:
                await self.put(value, None)
        context.check()
        self._end()

    async def put(self, element: Any, timestamp: int | None) -> None:
        if isinstance(element, WatermarkStatus):
            self._idle = element.idle
        elif self._idle:
            self._idle = False
            self._put(WatermarkStatus(False))
        self._put(element, timestamp)
        while len(self._buffer) >= _AHEAD:
            self._room.clear()
            await self._room.wait()

    async def close(self) -> None:
        cancel = getattr(self._function, "cancel", None)
        if cancel is not None:
            result = cancel()
            if inspect.isawaitable(result):
                await result
        await super().close()


# -- a channel that a service feeds --------------------------------------------------------------------------------


@final
class ChannelSource(Source[T], Generic[T]):
    """Records that the program sends into a running job, with back-pressure.

    One job reads it. What was sent and not read yet waits for the job, also while it restarts. With `replay` what was
    read is kept until a checkpoint holds it, so that a restarted job reads it again. When the job has ended for good,
    sending fails until another one is executed.
    """

    parallel = False

    def __init__(self, capacity: int = 1024, output_type: Any = None, replay: bool = False) -> None:
        """
        Args:
            capacity: records that wait at most; `send` waits for room.
            output_type: type of the records.
            replay: keep what was read until a checkpoint is complete; needs checkpointing, or memory grows for ever.

        Raises:
            ValidationException: the capacity is not positive.
        """
        if capacity <= 0:
            raise ValidationException(f"a channel needs a positive capacity, not {capacity}")
        self.output_type = output_type
        self._capacity = capacity
        self._replay = replay
        #: What waits, and with `replay` what was read since the last complete checkpoint; the number of the first.
        self._records: deque[tuple[Any, int | None]] = deque()
        self._first = 0
        self._next = 0
        self._closed = False
        self._room = Latch()
        self._wake: Callable[[], None] | None = None
        #: The event loop of the job that reads; senders and the job meet there.
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Jobs that have not ended, by id; how the last one has ended, for people, and its error.
        self._jobs: set[str] = set()
        self._end: tuple[str, BaseException | None] | None = None

    async def send(self, value: T, timestamp: Any = None) -> None:
        """Hand a record to the job; waits while there is no room.

        Args:
            value: the record.
            timestamp: its event time, epoch ms or an aware datetime.

        Raises:
            StreamlineError: the channel was closed, the job that read it has ended for good (its error is the cause),
                or the job that reads it runs in another event loop.
        """
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise StreamlineError(
                "the job that reads this channel runs in another event loop: from another thread use "
                "asyncio.run_coroutine_threadsafe(channel.send(value), loop).result(), with the job's loop"
            )
        while not self.send_nowait(value, timestamp):
            self._room.clear()
            await self._room.wait()

    def send_nowait(self, value: T, timestamp: Any = None) -> bool:
        """Hand a record to the job if there is room; whether there was. Any thread may call it.

        Raises:
            StreamlineError: the channel was closed, or the job that read it has ended for good.
        """
        if self._closed:
            raise StreamlineError("this channel was closed: nothing can be sent into it any more")
        end = self._end
        if end is not None:
            raise StreamlineError(
                f"nobody reads this channel any more: {end[0]}. Execute a job that reads it, then send again"
            ) from end[1]
        if self._first + len(self._records) - self._next >= self._capacity:
            return False
        self._records.append((value, None if timestamp is None else to_epoch_millis(timestamp)))
        self._call(self._wake)
        return True

    def close(self) -> None:
        """Nothing follows: the job reads what is there, and then the source ends. Any thread may call it."""
        self._closed = True
        self._call(self._room.set)
        self._call(self._wake)

    def _call(self, function: Callable[[], None] | None) -> None:
        """Call it in the loop of the job: at once where that is the running one."""
        loop = self._loop
        if function is None:
            return
        if loop is None or asyncio._get_running_loop() is loop:
            function()
        else:
            loop.call_soon_threadsafe(function)

    # -- for the job and its reader ------------------------------------------------------------------------------

    def on_job_start(self, job_id: str) -> None:
        self._jobs.add(job_id)
        self._end = None

    def on_job_end(self, job_id: str, job_name: str, error: BaseException | None) -> None:
        self._jobs.discard(job_id)
        if self._jobs:
            return  # one that was refused, as another one reads
        if error is None:
            how, cause = "has finished", None
        elif isinstance(error, asyncio.CancelledError):
            how, cause = "was cancelled", None
        else:
            how, cause = f"has failed with {type(error).__name__}: {error}", error
        self._end = f"job {job_name!r} {how}", cause
        self._room.set()  # who waits for room is told

    async def discover(self) -> Sequence[Split]:
        return [_SPLIT]

    def reader(self) -> SourceReader[T]:
        return _ChannelReader(self)

    def attach(self, wake: Callable[[], None] | None, position: int | None) -> None:
        """A job begins to read at a position, or (without `wake`) has stopped reading."""
        if wake is None:
            self._wake = self._loop = None
            return
        if self._wake is not None:
            raise StreamlineError("this channel is read by another job already")
        self._wake, self._loop = wake, asyncio.get_running_loop()
        if position is not None and self._first <= position <= self._next:
            self._next = position

    def take(self, limit: int) -> list[tuple[Any, int | None]]:
        """The next records."""
        offset = self._next - self._first
        n = min(limit, len(self._records) - offset)
        if self._replay:
            taken = [self._records[offset + i] for i in range(n)]
        else:
            taken = [self._records.popleft() for _ in range(n)]
            self._first += n
        self._next += n
        if n:
            self._room.set()
        return taken

    def forget(self, position: int) -> None:
        """A checkpoint holds everything before this position."""
        while self._replay and self._first < position and self._records:
            self._records.popleft()
            self._first += 1

    @property
    def position(self) -> int:
        """The number of the next record to read."""
        return self._next

    @property
    def ended(self) -> bool:
        """Whether it is closed and read to its end."""
        return self._closed and self._next == self._first + len(self._records)


class _ChannelReader(SourceReader[T]):
    def __init__(self, source: ChannelSource[T]) -> None:
        self._source = source
        self._attached = False

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        if splits:
            self._source.attach(ctx.wake, splits[0][1])
            self._attached = True

    def poll(self, max_records: int) -> SplitBatch | None:
        taken = self._source.take(max_records) if self._attached else []
        if not taken:
            return None
        timestamps = [t for _, t in taken]
        return SplitBatch("0", [v for v, _ in taken], None if timestamps.count(None) == len(taken) else timestamps)

    @property
    def finished(self) -> bool:
        return not self._attached or self._source.ended

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._source.position}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        if "0" in positions:
            self._source.forget(positions["0"])

    async def close(self) -> None:
        if self._attached:
            self._attached = False
            self._source.attach(None, None)
