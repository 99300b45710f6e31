"""The connector `upsert-kafka` of SQL: a topic as a table with a primary key.

The key of a record is the primary key. A value inserts or updates its row, a record without a value deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Final

from streamline._core.changes import ChangelogMode, RowKind
from streamline._core.types import Field
from streamline.abc import Batch, Sink, SinkContext, SinkWriter, TableContext, TableFactory, TableScan, TableSink
from streamline.connectors.kafka.decoding import RowsDecoder
from streamline.connectors.kafka.encoding import Outgoing
from streamline.connectors.kafka.offsets import KafkaOffsetsInitializer
from streamline.connectors.kafka.partitioning import KafkaPartitioner
from streamline.connectors.kafka.rows import RowsEncoder, fill_loop
from streamline.connectors.kafka.sink import DeliveryGuarantee, KafkaSink
from streamline.connectors.kafka.source import KafkaSource
from streamline.connectors.kafka.table import extra_columns, stopping, written_metadata
from streamline.connectors.kafka.table_options import KafkaTableOptions
from streamline.connectors.kafka.table_options import option as o

__all__ = ("ReducingSink", "UpsertEncoder", "UpsertKafkaTableFactory")


class UpsertKafkaTableFactory(TableFactory):
    """See the module."""

    identifier: ClassVar[str] = "upsert-kafka"

    def _options(self, table: TableContext, direction: str) -> KafkaTableOptions:
        return KafkaTableOptions(self.identifier, table, direction, upsert=True)

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        options = self._options(table, "scan")
        in_key = {f.name for f in options.key_fields}
        from_value = [f for f in options.value_fields if f.name in columns and f.name not in in_key]
        metadata = [c for c in table.columns if c.metadata_key is not None and c.name in columns]
        extras = [f"e{i}" for i in range(len(options.key_fields) + len(metadata))]
        value = options.value_format.decoder(options.value_options, from_value, extras)
        assert options.key_format is not None
        inner = [Field(options.without_prefix(f.name), f.type) for f in options.key_fields]
        key = options.key_format.decoder(options.key_options, inner)
        fills, sources = extra_columns(table, options.key_fields, inner, key, metadata, extras)
        source = KafkaSource[Any](
            **options.topics,
            group_id=options.group,
            starting_offsets=KafkaOffsetsInitializer.earliest(),
            bounded=stopping(options),
            partition_discovery_interval=options.get(o.DISCOVERY),
            on_offset_lost=options.get(o.ON_OFFSET_LOST),
            properties=options.properties,
            _decoder=RowsDecoder(value, key, fill_loop(fills, True), upsert=True),
        )
        found = {**value.sources, **sources}
        return TableScan(
            source,
            {c: found[c] for c in columns},
            dict(value.namespace),
            changelog=ChangelogMode.upsert(),
            parallelism=options.get(o.SCAN_PARALLELISM),
        )

    def sink(self, table: TableContext) -> TableSink:
        options = self._options(table, "sink")
        options.check_sink()
        taken = [c for c in table.columns if not c.virtual]
        at = {c.name: i for i, c in enumerate(taken)}
        assert options.key_format is not None
        inner = [Field(options.without_prefix(f.name), f.type) for f in options.key_fields]
        rows = RowsEncoder(
            topic=options.sink_topic,
            value=options.value_format.encoder(options.value_options, options.value_fields),
            value_at=[at[f.name] for f in options.value_fields],
            key=options.key_format.encoder(options.key_options, inner),
            key_at=[at[f.name] for f in options.key_fields],
            metadata=written_metadata(table, options),
            topic_allowed=options.allows_topic,
            partitioner=options.partitioner,
        )
        size, interval = options.buffer
        sink: Sink[Any] = KafkaSink(
            delivery_guarantee=DeliveryGuarantee(options.get(o.GUARANTEE)),
            transactional_id_prefix=options.get(o.TRANSACTIONAL_PREFIX),
            on_transaction_lost=options.get(o.ON_TRANSACTION_LOST),
            properties=options.properties,
            _encoder=UpsertEncoder(rows),
        )
        if size:
            sink = ReducingSink(sink, itemgetter(*[at[f.name] for f in options.key_fields]), size, interval)
        return TableSink(sink, changelog=ChangelogMode.upsert(), parallelism=options.get(o.SINK_PARALLELISM))


class UpsertEncoder:
    """A changelog as records: a deleted row has no value, a row that is about to be updated is no record at all."""

    def __init__(self, rows: RowsEncoder) -> None:
        self._rows = rows
        self.topic: Final = rows.topic
        self.partitioner: Final[KafkaPartitioner | None] = rows.partitioner

    def encode(self, batch: Batch) -> Outgoing:
        """Records of a batch."""
        if batch.kinds is not None and RowKind.UPDATE_BEFORE in batch.kinds:
            batch = batch.take([i for i, kind in enumerate(batch.kinds) if kind is not RowKind.UPDATE_BEFORE])
        out = self._rows.encode(batch)
        if batch.kinds is not None and RowKind.DELETE in batch.kinds:
            out.values = [None if kind is RowKind.DELETE else v for v, kind in zip(out.values, batch.kinds)]
        return out


class ReducingSink(Sink[Any]):
    """Holds rows back for a while and passes on only the last one of each key (`sink.buffer-flush.…`).

    Args:
        inner: takes what is passed on.
        key: the key of a row.
        size: so many keys are passed on at once.
        interval: milliseconds after which all are passed on.
    """

    def __init__(self, inner: Sink[Any], key: Callable[[Any], Any], size: int, interval: int) -> None:
        self._inner = inner
        self._key = key
        self._size = size
        self._interval = interval
        self.two_phase = inner.two_phase

    def writer(self) -> SinkWriter[Any]:
        return _ReducingWriter(self._inner.writer(), self._key, self._size, self._interval)


class _ReducingWriter(SinkWriter[Any]):
    def __init__(self, inner: SinkWriter[Any], key: Callable[[Any], Any], size: int, interval: int) -> None:
        self._inner = inner
        self._key = key
        self._size = size
        self._interval = interval
        self._held: dict[Any, tuple[Any, int | None, RowKind]] = {}
        self._alarmed = False

    async def open(self, ctx: SinkContext) -> None:
        self._ctx = ctx
        await self._inner.open(ctx)

    async def recover(self, committables: Sequence[Any], state: Sequence[Any]) -> None:
        await self._inner.recover(committables, state)

    async def write(self, batch: Batch) -> None:
        held, key = self._held, self._key
        for i, row in enumerate(batch.values):
            kind = RowKind.INSERT if batch.kinds is None else batch.kinds[i]
            if kind is not RowKind.UPDATE_BEFORE:
                held[key(row)] = row, None if batch.timestamps is None else batch.timestamps[i], kind
                if len(held) >= self._size:
                    await self._pass_on()
        if held and not self._alarmed:
            self._alarmed = True
            self._ctx.schedule(self._ctx.clock.now() + self._interval, self._on_alarm)

    async def _on_alarm(self) -> None:
        self._alarmed = False
        await self._pass_on()

    async def _pass_on(self) -> None:
        held, rows = self._held, list(self._held.values())
        held.clear()
        if rows:
            values, timestamps, kinds = zip(*rows)
            await self._inner.write(Batch(values, timestamps, kinds))

    async def flush(self, end_of_input: bool = False) -> None:
        await self._pass_on()
        await self._inner.flush(end_of_input)

    async def prepare_commit(self, checkpoint_id: int) -> Sequence[Any]:
        return await self._inner.prepare_commit(checkpoint_id)

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    async def commit(self, committables: Sequence[Any]) -> None:
        await self._inner.commit(committables)

    async def abort(self, committables: Sequence[Any]) -> None:
        await self._inner.abort(committables)

    async def close(self) -> None:
        await self._inner.close()
