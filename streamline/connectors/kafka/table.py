"""The connector `kafka` of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from streamline._core.types import Field
from streamline.abc import TableColumn, TableContext, TableFactory, TableScan, TableSink
from streamline.connectors.formats.base import RowDecoder, RowEncoder
from streamline.connectors.kafka.decoding import RowsDecoder
from streamline.connectors.kafka.metadata import reader_of, writable
from streamline.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from streamline.connectors.kafka.rows import RowsEncoder, fill_loop
from streamline.connectors.kafka.sink import DeliveryGuarantee, KafkaSink
from streamline.connectors.kafka.source import KafkaSource
from streamline.connectors.kafka.table_options import KafkaTableOptions, offsets_option
from streamline.connectors.kafka.table_options import option as o
from streamline.errors import ValidationException

__all__ = ("KafkaTableFactory", "extra_columns", "stopping", "written_metadata")


class KafkaTableFactory(TableFactory):
    """Tables over topics: append-only, by the formats of key and value."""

    identifier: ClassVar[str] = "kafka"

    # -- reading -------------------------------------------------------------------------------------------------

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        options = KafkaTableOptions(self.identifier, table, "scan")
        options.check_source()
        key_fields, value_fields = options.key_fields, options.value_fields
        wanted = [c for c in table.columns if c.name in columns]
        # Key columns that the value has too are read from it: it is decoded anyway.
        from_value = [f for f in value_fields if f.name in columns]
        in_value = {f.name for f in from_value}
        from_key = [f for f in key_fields if f.name in columns and f.name not in in_value]
        metadata = [c for c in wanted if c.metadata_key is not None]
        extras = [f"e{i}" for i in range(len(from_key) + len(metadata))]
        value = options.value_format.decoder(options.value_options, from_value, extras)
        key: RowDecoder | None = None
        inner: list[Field] = []
        if from_key:
            assert options.key_format is not None
            inner = [Field(options.without_prefix(f.name), f.type) for f in from_key]
            key = options.key_format.decoder(options.key_options, inner)
        fills, sources = extra_columns(table, from_key, inner, key, metadata, extras)
        found = {**value.sources, **sources}
        source = KafkaSource[Any](
            **options.topics,
            group_id=options.group,
            starting_offsets=self._starting(options),
            bounded=stopping(options),
            partition_discovery_interval=options.get(o.DISCOVERY),
            on_offset_lost=options.get(o.ON_OFFSET_LOST),
            properties=options.properties,
            _decoder=RowsDecoder(value, key, fill_loop(fills, key is not None)),
        )
        return TableScan(
            source,
            {c: found[c] for c in columns},
            dict(value.namespace),
            parallelism=options.get(o.SCAN_PARALLELISM),
        )

    def _starting(self, options: KafkaTableOptions) -> KafkaOffsetsInitializer:
        match options.get(o.STARTUP_MODE):
            case "earliest-offset":
                return KafkaOffsetsInitializer.earliest()
            case "latest-offset":
                return KafkaOffsetsInitializer.latest()
            case "timestamp":
                return KafkaOffsetsInitializer.timestamp(options.get(o.STARTUP_TIMESTAMP))
            case "specific-offsets":
                return KafkaOffsetsInitializer.offsets(offsets_option(options, o.STARTUP_OFFSETS))
        reset = str(options.properties.get("auto.offset.reset", "none")).lower()
        try:
            return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy(reset))
        except ValueError:
            raise ValidationException(
                f"Invalid value for option 'properties.auto.offset.reset': '{reset}'. "
                "Expected one of: [earliest, latest, none]"
            ) from None

    # -- writing -------------------------------------------------------------------------------------------------

    def sink(self, table: TableContext) -> TableSink:
        options = KafkaTableOptions(self.identifier, table, "sink")
        options.check_sink()
        taken = [c for c in table.columns if not c.virtual]
        at = {c.name: i for i, c in enumerate(taken)}
        metadata = written_metadata(table, options)
        value = options.value_format.encoder(options.value_options, options.value_fields)
        key: RowEncoder | None = None
        if options.key_format is not None:
            inner = [Field(options.without_prefix(f.name), f.type) for f in options.key_fields]
            key = options.key_format.encoder(options.key_options, inner)
        plain = key is None and not metadata and len(taken) == len(options.value_fields)
        encoder = RowsEncoder(
            topic=options.sink_topic,
            value=value,
            value_at=None if plain else [at[f.name] for f in options.value_fields],
            key=key,
            key_at=[at[f.name] for f in options.key_fields],
            metadata=metadata,
            topic_allowed=options.allows_topic,
            partitioner=options.partitioner,
        )
        sink = KafkaSink(
            delivery_guarantee=DeliveryGuarantee(options.get(o.GUARANTEE)),
            transactional_id_prefix=options.get(o.TRANSACTIONAL_PREFIX),
            on_transaction_lost=options.get(o.ON_TRANSACTION_LOST),
            properties=options.properties,
            _encoder=encoder,
            _fixed_partition=options.get(o.PARTITIONER) == "fixed",
        )
        parallelism = options.get(o.SINK_PARALLELISM)
        if plain:
            return TableSink(sink, value.template, value.namespace, parallelism=parallelism)
        return TableSink(sink, parallelism=parallelism)


# -- what the connectors over topics have in common ----------------------------------------------------------------


def extra_columns(
    table: TableContext,
    key_fields: Sequence[Field],
    inner: Sequence[Field],
    key: RowDecoder | None,
    metadata: Sequence[TableColumn],
    extras: Sequence[str],
) -> tuple[list[tuple[str, str, Mapping[str, Any]]], dict[str, str]]:
    """How columns of the key and of metadata get into attributes of the rows, and how they are read from there.

    Args:
        table: the table.
        key_fields, inner: columns that come from the key, by their names in the table and in the key.
        key: decodes the key.
        metadata: metadata columns.
        extras: the attributes.

    Raises:
        ValidationException: there is no such metadata, or not of that type.
    """
    fills: list[tuple[str, str, Mapping[str, Any]]] = []
    sources: dict[str, str] = {}
    for f, i in zip(key_fields, inner):
        assert key is not None
        read = key.sources[i.name].replace("r.", "key.", 1)
        fills.append((extras[len(fills)], f"(None if key is None else {read})", key.namespace))
        sources[f.name] = f"r.{fills[-1][0]}"
    for c in metadata:
        reader = reader_of(c, ".".join(table.path), table.time_zone)
        fills.append((extras[len(fills)], reader.source, reader.namespace))
        sources[c.name] = f"r.{fills[-1][0]}"
    return fills, sources


def stopping(options: KafkaTableOptions) -> KafkaOffsetsInitializer | None:
    """Where reading ends, by `scan.bounded.mode`."""
    match options.get(o.BOUNDED_MODE):
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "group-offsets":
            return KafkaOffsetsInitializer.committed_offsets()
        case "timestamp":
            return KafkaOffsetsInitializer.timestamp(options.get(o.BOUNDED_TIMESTAMP))
        case "specific-offsets":
            return KafkaOffsetsInitializer.offsets(offsets_option(options, o.BOUNDED_OFFSETS))
    return None


def written_metadata(table: TableContext, options: KafkaTableOptions) -> dict[str, int]:
    """The metadata that rows set, by key, with the positions of their columns.

    Raises:
        ValidationException: a column sets what cannot be set, or none says the topic where there are several.
    """
    topic_is_open = options.sink_topic is None
    name, taken = ".".join(table.path), [c for c in table.columns if not c.virtual]
    found = {writable(c, name, topic_is_open): i for i, c in enumerate(taken) if c.metadata_key is not None}
    if topic_is_open and "topic" not in found:
        raise ValidationException(
            "The sink has several topics, or a pattern: declare the metadata column `topic` to say where each row goes."
        )
    return found
