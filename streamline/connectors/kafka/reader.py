"""Reads the partitions of one subtask.

One task fetches; `poll` takes from its buffers and never waits. Back-pressure is that nothing is fetched for a
partition whose buffer is full: the client then holds at most one answer of the broker for it. Partitions take turns,
both when fetching and when polling.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import aiokafka.errors as kafka_errors
import anyio
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition

from streamline._core.time import sleep, yield_now
from streamline.abc import SourceContext, SourceReader, Split, SplitBatch
from streamline.connectors.kafka.client import FETCH_WAIT_MS, new_consumer, start, stop
from streamline.connectors.kafka.client_logs import clients_of
from streamline.connectors.kafka.decoding import Decoded, RecordDecoder, SkipCounts
from streamline.connectors.kafka.errors import KafkaConnectionError, KafkaException, KafkaOffsetLostError, explained
from streamline.connectors.kafka.offsets import KafkaOffsetsInitializer
from streamline.connectors.kafka.properties import number_property
from streamline.connectors.kafka.settings import ReaderSettings

__all__ = ("KafkaReader",)

_log = logging.getLogger("streamline.kafka")

#: Records taken from the client at a time. A call that takes all decodes a whole answer without a pause.
TAKE: Final = 500
#: Records and bytes of one partition that may wait for `poll`.
BUFFER: Final = 1000
BUFFER_BYTES: Final = 4 << 20
#: Milliseconds of one wait for records; bounds how long new partitions and closing go unnoticed.
WAIT_MS: Final = 200
#: Milliseconds between two looks at partitions with room while another one is full.
LOOK_MS: Final = 20
#: So many waits without records and without any news of the topic: it was deleted.
MISSING_TIMES: Final = 10
#: Milliseconds until new partitions are tried again that could not be read.
AGAIN_MS: Final = 1000
#: Seconds that looking up or committing offsets may take.
REQUEST_SECONDS: Final = 30.0


class _Partition:
    """A partition that is being read.

    Attributes:
        position: where to go on after what `poll` has given out.
        fetched: where the client goes on.
        end: where to stop, or None.
        chunks: records that wait for `poll`, with the position behind them and their size in bytes.
        waiting, waiting_bytes: how much that is.
        complete: all up to `end` is in `chunks` or given out.
    """

    __slots__ = (
        "chunks",
        "committed",
        "complete",
        "end",
        "fetched",
        "id",
        "paused",
        "position",
        "reported",
        "tp",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, id_: str, tp: TopicPartition, position: int, end: int | None) -> None:
        self.id = id_
        self.tp = tp
        self.position = position
        self.fetched = position
        self.end = end
        self.chunks: deque[tuple[list[ConsumerRecord], int, int]] = deque()
        self.waiting = 0
        self.waiting_bytes = 0
        self.complete = end is not None and position >= end
        self.paused = False
        self.reported = False
        self.committed: int | None = None

    @property
    def has_room(self) -> bool:
        return self.waiting < BUFFER and self.waiting_bytes < BUFFER_BYTES


class KafkaReader(SourceReader[Any]):
    """See the module."""

    def __init__(self, settings: ReaderSettings, decoder: RecordDecoder) -> None:
        self._settings = settings
        self._decoder = decoder
        self._consumer: AIOKafkaConsumer | None = None
        self._partitions: dict[str, _Partition] = {}
        #: Partitions with records for `poll`, the one whose turn it is first.
        self._ready: deque[_Partition] = deque()
        self._room = asyncio.Event()
        #: Whether the broker says at once that there is nothing, and for which partitions it did so just now.
        self._hasty = False
        self._answered: set[TopicPartition] = set()
        #: How often in a row a topic was unknown to the brokers.
        self._missing: dict[str, int] = {}
        self._long_poll = number_property(settings.properties, "fetch.max.wait.ms", FETCH_WAIT_MS)
        self._hungry = True
        self._closed = False
        self._to_commit: dict[TopicPartition, int] = {}
        self._commit_due = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None

    # -- start ---------------------------------------------------------------------------------------------------

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        settings = self._settings
        self._skipped = SkipCounts(
            ctx.metrics.counter("numRecordsInErrors"), ctx.metrics.counter("numTombstonesSkipped")
        )
        self._commits = ctx.metrics.counter("commitsSucceeded"), ctx.metrics.counter("commitsFailed")
        ctx.metrics.gauge("pendingRecords", self._pending)
        properties = {**settings.properties, "client.id": f"{settings.client_id}-{ctx.subtask_index}"}
        consumer = self._consumer = new_consumer(properties, settings.group)
        await start(consumer, settings.bootstrap)
        # What a restored job has no position for came into being since its checkpoint.
        await self._add(splits, KafkaOffsetsInitializer.earliest() if ctx.restored else settings.starting)
        ctx.spawn(self._fetch, "fetch")
        if settings.group is not None:
            ctx.spawn(self._commit, "commit")
            if settings.auto_commit_interval is not None:
                ctx.spawn(self._auto_commit, "auto commit")

    async def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        """Partitions that came into being later are read from their first record.

        Where the broker goes away meanwhile that is tried again. A checkpoint that knows nothing of them is whole: who
        restores it finds them as new ones.
        """
        try:
            await self._add_new(splits)
        except KafkaConnectionError as e:
            _log.warning("new partitions cannot be read yet: %s", e)
            self._ctx.spawn(partial(self._add_later, splits), "new partitions")

    async def _add_new(self, splits: Sequence[tuple[Split, Any]]) -> None:
        await self._add(splits, KafkaOffsetsInitializer.earliest())
        self._room.set()

    async def _add_later(self, splits: Sequence[tuple[Split, Any]]) -> None:
        while not self._closed:
            await sleep(self._ctx.clock, AGAIN_MS)
            with contextlib.suppress(KafkaConnectionError):
                return await self._add_new(splits)

    async def _add(self, splits: Sequence[tuple[Split, Any]], initial: KafkaOffsetsInitializer) -> None:
        """Resolve a start and an end for each, so that every checkpoint has an explicit offset for all of them."""
        consumer, settings = self._client(), self._settings
        at = {TopicPartition(*split.payload): (split, position) for split, position in splits}
        fresh = [tp for tp, (_, position) in at.items() if position is None]
        if not at:
            return
        try:
            with anyio.fail_after(REQUEST_SECONDS):
                starts = await initial.resolve(consumer, fresh, settings.group) if fresh else {}
                ends = {}
                if settings.stopping is not None and fresh:
                    ends = await settings.stopping.resolve(consumer, fresh, settings.group)
                first, behind = await consumer.beginning_offsets(list(at)), await consumer.end_offsets(list(at))
        except (kafka_errors.KafkaError, TimeoutError) as e:
            raise explained(e, f"looking up offsets at {settings.bootstrap}") from e
        for tp, (split, position) in at.items():
            wanted, end = (starts[tp], ends.get(tp)) if position is None else (position[0], position[1])
            there = first[tp] <= wanted <= behind[tp] or (end is not None and wanted >= end)
            if not there and position is None and initial.kind == "committed":
                wanted = initial.instead(first[tp], behind[tp], wanted)  # as auto.offset.reset has it
                there = first[tp] <= wanted <= behind[tp]
            if not there:
                wanted = self._lost(tp, wanted, (first[tp], behind[tp]))
            self._partitions[split.id] = _Partition(split.id, tp, wanted, end)
            self._register(self._partitions[split.id])
        self._assign()
        self._wake()

    def _assign(self) -> None:
        """Tell the client; it forgets positions at each assignment, so every one is sought again."""
        consumer = self._client()
        open_ = [p for p in self._partitions.values() if not p.complete]
        consumer.assign([p.tp for p in open_])
        for p in open_:
            consumer.seek(p.tp, p.fetched)

    def _lost(self, tp: TopicPartition, wanted: int, available: tuple[int, int]) -> int:
        """Where to go on instead of an offset that is not there, if that is allowed."""
        error = KafkaOffsetLostError(tp.topic, tp.partition, wanted, available)
        if self._settings.on_offset_lost == "fail":
            raise error
        found = available[0] if self._settings.on_offset_lost == "earliest" else available[1]
        lost = max(0, found - wanted)
        self._ctx.metrics.counter("numRecordsLost").inc(lost)
        _log.warning("%s Going on at offset %d; %d offsets are skipped.", error, found, lost)
        return found

    def _client(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise KafkaException("the reader is not open")
        return self._consumer

    # -- fetching ------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Fill the buffers until everything has been read."""
        turn = 0
        while not self._closed:
            open_ = [p for p in self._partitions.values() if not p.complete]
            if not open_ and self._settings.stopping is not None:
                return
            with_room = [p for p in open_ if p.has_room and not p.paused]
            if not with_room:
                self._room.clear()
                await self._room.wait()
                continue
            turn += 1
            order = with_room[turn % len(with_room) :] + with_room[: turn % len(with_room)]
            got = False
            for p in order:
                got |= await self._take([p], 0)
            if got:
                await yield_now()
            elif len(with_room) == len(open_):
                await self._wait_for_records(with_room)
            else:
                self._room.clear()
                with anyio.move_on_after(LOOK_MS / 1000):
                    await self._room.wait()

    async def _wait_for_records(self, partitions: Sequence[_Partition]) -> None:
        """Wait until there are records; a broker that does not hold back its empty answers is asked now and then.

        Kafka keeps the request until there is something. The embedded broker of tests answers at once that there is
        nothing, and the client asks again: a whole core for nothing.
        """
        if not self._hasty:
            before = self._last_answers(partitions)
            if await self._take(partitions, LOOK_MS):
                self._answered.clear()
                return
            after = self._last_answers(partitions)
            answered = {tp for tp, at in after.items() if at is not None and at > (before.get(tp) or at)}
            # A long poll that is longer than two looks does not end in both of them.
            self._hasty = bool(answered & self._answered) and self._long_poll > 2 * LOOK_MS
            self._answered = answered
            if not answered and not await self._take(partitions, WAIT_MS):
                self._check_topics(partitions)
            return
        consumer = self._client()
        consumer.pause(*self._last_answers(partitions))
        self._room.clear()
        with anyio.move_on_after(LOOK_MS / 1000):
            await self._room.wait()
        consumer.resume(*self._last_answers(partitions))
        await self._take(partitions, 5)

    def _check_topics(self, partitions: Sequence[_Partition]) -> None:
        """A topic of which the brokers know nothing for seconds was deleted; nothing would ever come of it."""
        consumer = self._client()
        missing = {p.tp.topic for p in partitions if not consumer.partitions_for_topic(p.tp.topic)}
        self._missing = {t: self._missing.get(t, 0) + 1 for t in missing}
        for topic, times in self._missing.items():
            if times >= MISSING_TIMES:
                raise KafkaException(f"topic {topic!r} is gone: it was deleted while it was being read")

    def _last_answers(self, partitions: Sequence[_Partition]) -> dict[TopicPartition, int | None]:
        """When the broker last answered for each, in milliseconds."""
        consumer = self._client()
        there = consumer.assignment()
        return {p.tp: consumer.last_poll_timestamp(p.tp) for p in partitions if p.tp in there}

    async def _take(self, partitions: Sequence[_Partition], wait_ms: int) -> bool:
        """Take records of these partitions from the client; gives whether there were any."""
        consumer = self._client()
        try:
            found = await consumer.getmany(*[p.tp for p in partitions], timeout_ms=wait_ms, max_records=TAKE)
            if self._closed:
                return False
            for p in partitions:
                records = found.get(p.tp)
                if records or p.end is not None or wait_ms:
                    self._accept(p, records or [], await consumer.position(p.tp))
            return bool(found)
        except kafka_errors.OffsetOutOfRangeError as e:
            await self._on_out_of_range(e)
        except kafka_errors.ConsumerStoppedError:
            return False
        except kafka_errors.KafkaError as e:
            raise explained(e, f"reading from {self._settings.bootstrap}") from e
        return False

    def _accept(self, p: _Partition, records: list[ConsumerRecord], position: int) -> None:
        """Buffer records; `position` is behind them and behind what no record stands for (transaction markers)."""
        if p.end is not None and records and records[-1].offset >= p.end:
            records = [r for r in records if r.offset < p.end]
        p.fetched = position
        if records:
            if not p.chunks:
                self._ready.append(p)
            size = sum([r.serialized_value_size for r in records])
            p.chunks.append((records, position, size))
            p.waiting += len(records)
            p.waiting_bytes += size
        elif not p.chunks:
            p.position = position
        if p.end is not None and position >= p.end:
            p.complete = True
            self._client().pause(p.tp)
        if records or p.complete:
            self._wake()

    async def _on_out_of_range(self, error: kafka_errors.OffsetOutOfRangeError) -> None:
        consumer = self._client()
        wanted: Mapping[TopicPartition, int] = error.args[0]
        tps = list(wanted)
        with anyio.fail_after(REQUEST_SECONDS):
            first, behind = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        for p in self._partitions.values():
            if p.tp in wanted and p.fetched == wanted[p.tp]:
                p.fetched = self._lost(p.tp, p.fetched, (first[p.tp], behind[p.tp]))
                consumer.seek(p.tp, p.fetched)
                if not p.chunks:
                    p.position = p.fetched

    def _wake(self) -> None:
        if self._hungry:
            self._hungry = False
            self._ctx.wake()

    # -- polling -------------------------------------------------------------------------------------------------

    def poll(self, max_records: int) -> SplitBatch | None:
        ready, passed = self._ready, 0
        while passed < len(ready):
            p = ready.popleft()
            if p.paused:
                ready.append(p)
                passed += 1
                continue
            got = self._next(p, max_records)
            if p.chunks:
                ready.append(p)
            if p.has_room:
                self._room.set()
            if got.values:
                return SplitBatch(p.id, got.values, got.timestamps, got.kinds)
        self._hungry = True
        return None

    def _next(self, p: _Partition, max_records: int) -> Decoded:
        """Values of the next records of a partition; its position moves behind them."""
        records, behind, size = p.chunks[0]
        some = records if len(records) <= max_records else records[:max_records]
        got = self._decoder.decode(some, self._skipped)
        consumed = got.consumed
        p.waiting -= consumed
        if consumed == len(records):
            p.chunks.popleft()
            p.waiting_bytes -= size
            p.position = behind
        else:
            p.chunks[0] = records[consumed:], behind, size
            p.position = records[consumed].offset
        return got

    @property
    def finished(self) -> bool:
        return self._settings.bounded and all(p.complete and not p.chunks for p in self._partitions.values())

    def finished_splits(self) -> Iterable[str]:
        ended = [p for p in self._partitions.values() if p.complete and not p.chunks and not p.reported]
        for p in ended:
            p.reported = True
        return [p.id for p in ended]

    def pause(self, splits: Sequence[str], resume: Sequence[str]) -> None:
        for names, paused in ((splits, True), (resume, False)):
            for name in names:
                self._partitions[name].paused = paused
        self._room.set()
        self._wake()

    # -- positions and commits -----------------------------------------------------------------------------------

    def positions(self) -> Mapping[str, Any]:
        return {p.id: [p.position, p.end] for p in self._partitions.values()}

    async def on_checkpoint_complete(self, checkpoint_id: int, positions: Mapping[str, Any]) -> None:
        """Offsets in the group are for people and tools; a restart goes on from the checkpoint."""
        if self._settings.commit_on_checkpoint:
            self._commit_soon({self._partitions[k].tp: v[0] for k, v in positions.items() if k in self._partitions})

    def _commit_soon(self, offsets: dict[TopicPartition, int]) -> None:
        if self._settings.group is not None:
            self._to_commit.update(offsets)
            self._commit_due.set()

    async def _commit(self) -> None:
        """Commit what is due; a failure is counted, and the next checkpoint commits more."""
        while not self._closed:
            await self._commit_due.wait()
            self._commit_due.clear()
            await self._commit_now()

    async def _commit_now(self) -> None:
        """Commit what is due. The request has a task of its own, which is never cancelled halfway: the client keeps one
        inside, whose failure nobody would hear of.
        """
        if self._committing is not None and not self._committing.done():
            await asyncio.wait({self._committing}, timeout=REQUEST_SECONDS)
            if not self._committing.done():
                return
        offsets, self._to_commit = self._to_commit, {}
        of = {p.tp: p for p in self._partitions.values()}
        consumer = self._client()
        # The client commits only what it is assigned; a partition that had ended before the start is not.
        there = consumer.assignment()
        wanted = {tp: OffsetAndMetadata(o, "") for tp, o in offsets.items() if tp in there and of[tp].committed != o}
        if wanted:
            self._committing = asyncio.get_running_loop().create_task(self._send_commit(wanted), name="kafka commit")
            await asyncio.wait({self._committing}, timeout=REQUEST_SECONDS)

    async def _send_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            with clients_of(self._settings.bootstrap):
                await self._client().commit(offsets)
        except kafka_errors.KafkaError as e:
            self._commits[1].inc()
            _log.warning("offsets of group %r could not be committed: %r", self._settings.group, e)
        else:
            self._commits[0].inc()
            for p in self._partitions.values():
                if p.tp in offsets:
                    p.committed = offsets[p.tp].offset

    async def _auto_commit(self) -> None:
        """What `enable.auto.commit` asks for: offsets at an interval, whether or not there are checkpoints."""
        assert self._settings.auto_commit_interval is not None
        while not self._closed:
            await sleep(self._ctx.clock, self._settings.auto_commit_interval)
            self._commit_soon({p.tp: p.position for p in self._partitions.values()})

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._closed = True
        self._room.set()
        consumer = self._consumer
        if consumer is None:
            return
        if self._settings.auto_commit_interval is not None:
            self._commit_soon({p.tp: p.position for p in self._partitions.values()})
        with anyio.move_on_after(self._settings.close_seconds / 2):
            await self._commit_now()
        self._commit_due.set()
        await stop(consumer, self._settings.close_seconds / 2)
        if self._committing is not None and not self._committing.done():
            await asyncio.wait({self._committing}, timeout=1.0)
            self._committing.cancel()
            await asyncio.wait({self._committing})

    # -- metrics -------------------------------------------------------------------------------------------------

    def _register(self, p: _Partition) -> None:
        group = self._ctx.metrics.add_group("KafkaSourceReader")
        group = group.add_group("topic", p.tp.topic).add_group("partition", str(p.tp.partition))
        group.gauge("currentOffset", lambda: p.position - 1)
        group.gauge("committedOffset", lambda: -1 if p.committed is None else p.committed)

    def _pending(self) -> int:
        """Records that are in the log and were not given out yet, as far as the client knows."""
        consumer, total = self._consumer, 0
        for p in self._partitions.values():
            if consumer is not None and not p.complete and p.tp in consumer.assignment():
                total += max(0, (consumer.highwater(p.tp) or p.position) - p.position)
            elif p.end is not None:
                total += max(0, p.end - p.position)
        return total
