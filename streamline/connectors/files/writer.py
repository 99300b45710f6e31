"""Writes the files of one subtask, in two phases.

Records gather in memory and are written in a thread, a piece at a time. At a barrier every file is closed and safe on
disk, and belongs to the checkpoint; when that is complete it is renamed into place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from anyio import to_thread

from streamline.abc import Batch, SinkContext, SinkWriter
from streamline.connectors.files.policy import Assign, BucketContext, OutputFileConfig, RollingPolicy, checked_bucket
from streamline.connectors.files.staging import Committable, Staging, Target, as_committables
from streamline.errors import StreamlineError

__all__ = ("AfterCommit", "BatchEncoder", "FileWriter", "WriterSettings")

R = TypeVar("R")

#: Bytes of one file that gather before they are written, and of all files together.
GATHER: Final = 256 << 10
GATHER_ALL: Final = 8 << 20
#: Files that are open at a time; the one that was not written to for longest is completed first.
OPEN: Final = 128


class BatchEncoder(Protocol):
    """Makes bytes of values."""

    @property
    def header(self) -> bytes | None: ...

    def encode(self, values: Sequence[Any]) -> list[bytes]: ...


class AfterCommit(Protocol):
    """What else is done with folders whose files have been committed."""

    def written(self, bucket: str, now: int) -> None:
        """A record went into this folder."""
        ...

    def committed(self, buckets: set[str], now: int, watermark: int | None, ended: bool) -> None:
        """Files of these folders are in place; called with none too, as time goes on. Blocks.

        Args:
            buckets: the folders.
            now: processing time, epoch ms.
            watermark: epoch ms, None before the first.
            ended: nothing follows.
        """
        ...

    def snapshot(self) -> Any:
        """Plain data."""
        ...

    def restore(self, state: Any) -> None: ...


@dataclass(frozen=True)
class WriterSettings:
    """What a FileSink tells its writers.

    Attributes:
        base: the sink's folder.
        encoder: makes bytes of values.
        names: of the files.
        rolling: when another file is begun.
        assign: gives the folder of a record; None: the sink's own.
        delimiter: behind each record.
        check_interval: milliseconds between two looks at the files of other folders than the one that is written to.
        after_commit: makes what else is done with committed folders, for one writer.
    """

    base: str
    encoder: BatchEncoder
    names: OutputFileConfig
    rolling: RollingPolicy
    assign: Assign | None = None
    delimiter: bytes = b"\n"
    check_interval: int = 60_000
    after_commit: Callable[[str], AfterCommit] | None = None


class _Part:
    """A file that is being written."""

    __slots__ = ("created", "file", "gathered", "pieces", "size", "target", "written")

    def __init__(self, target: Target, now: int) -> None:
        self.target = target
        self.created = now
        #: When the last record came.
        self.written = now
        self.size = 0
        self.pieces: list[bytes] = []
        self.gathered = 0
        self.file: int | None = None

    def add(self, data: bytes) -> None:
        self.pieces.append(data)
        self.gathered += len(data)
        self.size += len(data)

    def write(self) -> None:
        """Hand what has gathered to the operating system. Blocks."""
        pieces, self.pieces, self.gathered = self.pieces, [], 0
        if self.file is None:
            self.file = os.open(self.target.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        data = memoryview(b"".join(pieces))
        while data:
            data = data[os.write(self.file, data) :]

    def complete(self) -> None:
        """Write the rest, and make it safe. Blocks."""
        self.write()
        assert self.file is not None
        os.fsync(self.file)
        self.close()

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            os.close(file)


class FileWriter(SinkWriter[Any]):
    """See the module."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        #: By folder, the one that was written to last at the end.
        self._parts: dict[str, _Part] = {}
        self._completed: list[tuple[Target, int]] = []
        self._context = BucketContext()
        self._prepared = 0
        #: Restored, and no checkpoint has been completed since.
        self._restored = False
        self._next_check = 0
        self._ended = False
        self._staging: Staging | None = None
        self._after = None if settings.after_commit is None else settings.after_commit(settings.base)

    async def open(self, ctx: SinkContext) -> None:
        self._clock = ctx.clock
        self._records = ctx.metrics.counter("numRecordsSend")
        self._bytes = ctx.metrics.counter("numBytesSend")
        self._files = ctx.metrics.counter("numFilesCommitted")
        self._missing = ctx.metrics.counter("numFilesMissing")
        staging = Staging(self._settings.base, ctx.job_name, ctx.operator_name, ctx.subtask_index, ctx.parallelism)
        self._staging = staging
        await to_thread.run_sync(staging.open)
        self._next_check = ctx.clock.now() + self._settings.check_interval

    async def recover(self, committables: Sequence[Any], state: Sequence[Any]) -> None:
        files = as_committables(committables)
        restored = [s["checkpoint"] for s in state]
        if self._after is not None:
            for s in state:
                self._after.restore(s.get("after"))
        await self._commit(files, restored=True)
        if restored:
            # Nothing of the restored checkpoint is touched: other subtasks may be about to commit it.
            await self._in_thread(partial(self._stage.forget_after, max(restored)))
            self._restored = True

    @property
    def _stage(self) -> Staging:
        if self._staging is None:
            raise StreamlineError("the writer is not open")
        return self._staging

    # -- writing -------------------------------------------------------------------------------------------------

    async def write(self, batch: Batch) -> None:
        now = self._clock.now()
        if now >= self._next_check:
            await self._check(now)
        assign = self._settings.assign
        if assign is None:
            await self._write("", batch.values, now)
            return
        for bucket, values in self._by_bucket(assign, batch, now).items():
            await self._write(bucket, values, now)

    def _by_bucket(self, assign: Assign, batch: Batch, now: int) -> Mapping[str, list[Any]]:
        context, timestamps = self._context, batch.timestamps
        context.processing_time = now
        found: dict[Any, list[Any]] = {}
        for i, value in enumerate(batch.values):
            if timestamps is not None:
                context.record_timestamp = timestamps[i]
            try:
                bucket = assign(value, context)
            except Exception as e:
                e.add_note(f"in the bucket assigner, for {value!r}")
                raise
            known = found.get(bucket)
            if known is None:
                found[bucket] = [value]
            else:
                known.append(value)
        checked: dict[str, list[Any]] = {}
        for bucket, values in found.items():
            checked.setdefault(checked_bucket(bucket, values[0]), []).extend(values)
        return checked

    async def _write(self, bucket: str, values: Sequence[Any], now: int) -> None:
        settings, limit = self._settings, self._settings.rolling.part_size
        records = settings.encoder.encode(values)
        if not records:
            return
        self._records.inc(len(records))
        if self._after is not None:
            self._after.written(bucket, now)
        delimiter, start = settings.delimiter, 0
        while start < len(records):
            part = await self._part(bucket, now)
            stop = len(records)
            if limit is not None:
                stop = _fitting(records, start, len(delimiter), limit - part.size)
            some = records if stop - start == len(records) else records[start:stop]
            part.add(delimiter.join(some) + delimiter)
            part.written = now
            start = stop
            if part.gathered >= GATHER:
                await self._in_thread(part.write)
        if len(self._parts) > 1:
            await self._bound()

    async def _part(self, bucket: str, now: int) -> _Part:
        """The folder's file, another one where its time is over or it is full."""
        rolling = self._settings.rolling
        part = self._parts.pop(bucket, None)
        if part is not None:
            full = rolling.part_size is not None and part.size >= rolling.part_size
            if full or rolling.is_due(now, part.created, part.written):
                self._parts[bucket] = part
                await self._complete([bucket])
                part = None
        if part is None:
            names = self._settings.names
            part = _Part(self._stage.new_file(bucket, names.part_prefix, names.part_suffix), now)
            if self._settings.encoder.header is not None:
                part.add(self._settings.encoder.header + self._settings.delimiter)
        self._parts[bucket] = part  # at the end: it was written to last
        return part

    async def _bound(self) -> None:
        """Not too many open files, and not too much in memory."""
        if len(self._parts) > OPEN:
            await self._complete(list(self._parts)[: len(self._parts) - OPEN])
        gathered = sum([p.gathered for p in self._parts.values()])
        if gathered >= GATHER_ALL:
            await self._in_thread(partial(_write_all, list(self._parts.values())))

    async def _check(self, now: int) -> None:
        """Complete the files whose time is over."""
        self._next_check = now + self._settings.check_interval
        rolling = self._settings.rolling
        await self._complete([b for b, p in self._parts.items() if rolling.is_due(now, p.created, p.written)])

    async def _complete(self, buckets: Sequence[str]) -> None:
        parts = [self._parts[b] for b in buckets]
        if parts:
            await self._in_thread(partial(_complete_all, parts))
        for bucket in buckets:
            part = self._parts.pop(bucket)
            self._completed.append((part.target, part.size))
            self._bytes.inc(part.size)

    async def _in_thread(self, function: Callable[[], R]) -> R:
        try:
            return await to_thread.run_sync(function)
        except OSError as e:
            raise StreamlineError(
                f"files cannot be written to {self._settings.base}: {e.strerror or e} ({e.filename or 'no name'})"
            ) from e

    async def flush(self, end_of_input: bool = False) -> None:
        self._ended = self._ended or end_of_input  # files are written when they are prepared

    async def write_watermark(self, timestamp: int) -> None:
        self._context.watermark = timestamp

    # -- two phases ----------------------------------------------------------------------------------------------

    async def prepare_commit(self, checkpoint_id: int) -> Sequence[Any]:
        await self._complete(list(self._parts))
        files, self._completed = self._completed, []
        self._prepared = checkpoint_id
        if not files:
            return ()
        return [list(c) for c in await self._in_thread(partial(self._stage.prepare, checkpoint_id, files))]

    def snapshot(self) -> Any:
        state: dict[str, Any] = {"checkpoint": self._prepared}
        if self._after is not None:
            state["after"] = self._after.snapshot()
        return state

    async def commit(self, committables: Sequence[Any]) -> None:
        await self._commit(as_committables(committables), restored=False)
        if self._restored:
            # Every subtask is past its recovery now: what dead runs still have is of checkpoints that failed.
            self._restored = False
            await self._in_thread(partial(self._stage.forget_after, -1))

    async def _commit(self, files: Sequence[Committable], restored: bool) -> None:
        if files:
            done, missing = await self._in_thread(partial(self._stage.commit, files, restored))
            self._files.inc(done)
            self._missing.inc(missing)
        if self._after is not None:
            buckets = {os.path.dirname(c.target) for c in files}
            now, watermark = self._clock.now(), self._context.watermark
            await self._in_thread(partial(self._after.committed, buckets, now, watermark, self._ended))

    async def abort(self, committables: Sequence[Any]) -> None:
        await self._in_thread(partial(self._stage.abort, as_committables(committables)))

    async def close(self) -> None:
        staging, self._staging = self._staging, None
        if staging is not None:
            await to_thread.run_sync(partial(_close_all, list(self._parts.values()), staging))


def _fitting(records: Sequence[bytes], start: int, delimiter: int, room: int) -> int:
    """Up to which record they fit into a file: until it is full, with one at least."""
    if sum(map(len, records)) + delimiter * len(records) <= room:
        return len(records)
    stop = start
    while stop < len(records) and (room > 0 or stop == start):
        room -= len(records[stop]) + delimiter
        stop += 1
    return stop


def _write_all(parts: Sequence[_Part]) -> None:
    for part in parts:
        part.write()


def _complete_all(parts: Sequence[_Part]) -> None:
    for part in parts:
        part.complete()


def _close_all(parts: Sequence[_Part], staging: Staging) -> None:
    for part in parts:
        part.close()
    staging.close()
