"""The connector `filesystem` of SQL: a table is a folder of files of lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.abc import TableColumn, TableContext, TableFactory, TableScan, TableSink
from streamline.connectors.files.chunks import OpenFile
from streamline.connectors.files.decoding import rows_format
from streamline.connectors.files.listing import local_path
from streamline.connectors.files.partitions import CommitSettings, PartitionCommit, Partitions
from streamline.connectors.files.policy import OutputFileConfig, RollingPolicy, strftime_of
from streamline.connectors.files.sink import FileSink
from streamline.connectors.files.source import FileSource
from streamline.connectors.files.writer import AfterCommit
from streamline.connectors.formats.base import FormatFactory, RowEncoder
from streamline.connectors.options import Option, Options, boolean, choice, duration, integer, memory, text
from streamline.connectors.registry import format_factory
from streamline.errors import ValidationException

__all__ = ("FilesystemTableFactory",)


class _o:
    """The options by name."""

    PATH: Final = text("path")
    FORMAT: Final = text("format")
    MONITOR: Final = duration("source.monitor-interval")
    PATTERN: Final = text("source.path.regex-pattern")
    STATISTICS: Final = choice("source.report-statistics", ("NONE", "ALL"), "ALL")
    DEFAULT_NAME: Final = text("partition.default-name", "__DEFAULT_PARTITION__")
    FILE_SIZE: Final = memory("sink.rolling-policy.file-size", 128 << 20)
    ROLLOVER: Final = duration("sink.rolling-policy.rollover-interval", 1_800_000)
    INACTIVITY: Final = duration("sink.rolling-policy.inactivity-interval", 1_800_000)
    CHECK: Final = duration("sink.rolling-policy.check-interval", 60_000)
    SHUFFLE: Final = boolean("sink.shuffle-by-partition.enable")
    EXTRACTOR: Final = choice("partition.time-extractor.kind", ("default",), "default")
    TIME_PATTERN: Final = text("partition.time-extractor.timestamp-pattern")
    TIME_FORMAT: Final = text("partition.time-extractor.timestamp-formatter")
    TRIGGER: Final = choice("sink.partition-commit.trigger", ("process-time", "partition-time"), "process-time")
    DELAY: Final = duration("sink.partition-commit.delay", 0)
    COMMIT_ZONE: Final = text("sink.partition-commit.watermark-time-zone", "UTC")
    POLICY: Final = text("sink.partition-commit.policy.kind")
    SUCCESS_FILE: Final = text("sink.partition-commit.success-file.name", "_SUCCESS")
    PARALLELISM: Final = integer("sink.parallelism")


_REQUIRED: Final[tuple[Option[Any], ...]] = (_o.PATH,)
_OPTIONAL: Final[tuple[Option[Any], ...]] = tuple(
    v for v in vars(_o).values() if isinstance(v, Option) and v is not _o.PATH
)

#: What a table can know of the file that a row comes from.
_METADATA: Final[Mapping[str, DataType]] = {
    "file.path": t.STRING.not_null(),
    "file.name": t.STRING.not_null(),
    "file.size": t.BIGINT.not_null(),
    "file.modification-time": t.timestamp_ltz(3).not_null(),
}


class FilesystemTableFactory(TableFactory):
    """See the module. Partition columns are folders, and not in the files.

    Rows are only appended; with `source.monitor-interval` the files are followed.
    """

    identifier: ClassVar[str] = "filesystem"

    # -- reading -------------------------------------------------------------------------------------------------

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        options, format_, format_options = _options(self.identifier, table, "scan")
        partitions, fields = _partitions(table, options)
        in_file = [f for f in fields if f.name not in table.partition_keys]
        metadata = [c for c in table.columns if c.metadata_key is not None and c.name in columns]
        extra_names = [*table.partition_keys, *[c.name for c in metadata]]
        extras = {name: f"e{i}" for i, name in enumerate(extra_names)}
        decoder = format_.decoder(format_options, in_file, list(extras.values()))
        base = os.path.abspath(local_path(options.get(_o.PATH) or ""))
        readers = {extras[c.name]: _metadata_reader(c, ".".join(table.path)) for c in metadata}

        def constants(file: OpenFile) -> Mapping[str, Any]:
            found = {name: read(file) for name, read in readers.items()}
            if partitions is not None:
                found.update({extras[n]: v for n, v in partitions.values(base, file.path).items()})
            return found

        source = FileSource[Any](
            paths=base,
            monitor_interval=options.get(_o.MONITOR),
            pattern=options.get(_o.PATTERN),
            _format=rows_format(
                decoder, keep_blank=format_.identifier == "raw", constants=constants if extras else None
            ),
        )
        sources = {**decoder.sources, **{name: f"r.{attribute}" for name, attribute in extras.items()}}
        return TableScan(source, {c: sources[c] for c in columns}, dict(decoder.namespace))

    # -- writing -------------------------------------------------------------------------------------------------

    def sink(self, table: TableContext) -> TableSink:
        options, format_, format_options = _options(self.identifier, table, "sink")
        partitions, fields = _partitions(table, options)
        taken = [c for c in table.columns if not c.virtual]
        for c in taken:
            if c.metadata_key is not None:
                raise ValidationException(
                    f"Metadata column '{c.name}' of table '{'.'.join(table.path)}' cannot be written: declare it as "
                    "VIRTUAL."
                )
        encoder = format_.encoder(format_options, [f for f in fields if f.name not in table.partition_keys])
        sink = FileSink(
            path=options.get(_o.PATH) or "",
            bucket_assigner=None if partitions is None else (lambda row, _: partitions.folder(row[1])),
            rolling_policy=RollingPolicy(
                options.get(_o.FILE_SIZE), options.get(_o.ROLLOVER), options.get(_o.INACTIVITY)
            ),
            output_file_config=OutputFileConfig(part_suffix=f".{format_.identifier}"),
            bucket_check_interval=options.get(_o.CHECK),
            _encoder=_Rows(encoder, partitions is not None),
            _after_commit=_after_commit(options, partitions),
        )
        template = encoder.template
        if partitions is not None:
            template = _renumbered(template, [i for i, c in enumerate(taken) if c.name not in table.partition_keys])
            position = {c.name: i for i, c in enumerate(taken)}
            keys = ", ".join(f"{{{position[k]}}}" for k in table.partition_keys)
            template = f"({template}, ({keys},))"
        return TableSink(sink, template, encoder.namespace, parallelism=options.get(_o.PARALLELISM))


class _Rows:
    """Rows of a table to bytes; of a partitioned one they come with the values of the partition."""

    header: Final = None

    def __init__(self, encoder: RowEncoder, partitioned: bool) -> None:
        self._encode = encoder.encode
        self._partitioned = partitioned

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        rows = [v[0] for v in values] if self._partitioned else values
        return [b"" if r is None else r for r in map(self._encode, rows)]


def _renumbered(template: str, positions: Sequence[int]) -> str:
    """A template of some columns as one of all: `{0}` is what stands at `positions[0]`."""
    return re.sub(r"\{(\d+)\}", lambda m: f"{{{positions[int(m[1])]}}}", template)


# -- options -------------------------------------------------------------------------------------------------------


def _options(identifier: str, table: TableContext, direction: str) -> tuple[Options, FormatFactory, Options]:
    """The options of the table, its format, and the options of that."""
    options = Options(identifier, table.options, required=_REQUIRED, optional=_OPTIONAL)
    name = options.get(_o.FORMAT)
    if name is None:
        options.validate()
        raise ValidationException(
            f"Could not find required {direction} format 'format'. A table over files says what they are: "
            "'format' = 'json' or 'csv'."
        )
    format_ = format_factory(name)
    inner = options.also(format_.options, f"{format_.identifier}.")
    options.validate()
    if name == "raw" and not all(c.type.is_character for c in table.columns if c.name not in table.partition_keys):
        raise ValidationException("Files of the format raw are lines of text: the column has to be a STRING.")
    interval = options.get(_o.MONITOR)
    if interval is not None and interval <= 0:
        raise ValidationException(f"'source.monitor-interval' has to be positive, not {interval} ms")
    return options, format_, inner


def _partitions(table: TableContext, options: Options) -> tuple[Partitions | None, list[Field]]:
    """What the partition columns are, and all physical columns."""
    fields = [Field(c.name, c.type) for c in table.columns if c.metadata_key is None]
    if not table.partition_keys:
        return None, fields
    known = {f.name: f for f in fields}
    missing = [k for k in table.partition_keys if k not in known]
    if missing:
        raise ValidationException(f"Partition column '{missing[0]}' not defined in the table schema.")
    if len(table.partition_keys) == len(fields):
        raise ValidationException("A table cannot consist of partition columns only.")
    return Partitions([known[k] for k in table.partition_keys], options.get(_o.DEFAULT_NAME)), fields


def _metadata_reader(column: TableColumn, table: str) -> Callable[[OpenFile], Any]:
    """Reads metadata of a file in the inner form of the declared type."""
    key = column.metadata_key or column.name
    if key not in _METADATA:
        raise ValidationException(
            f"Invalid metadata key '{key}' in column '{column.name}' of table '{table}'. The filesystem connector "
            "supports the following metadata keys for reading:\n" + "\n".join(_METADATA)
        )
    given, wanted = _METADATA[key], column.type
    fits = given.same_type(wanted) or (given.is_character and wanted.is_character and wanted.length >= given.length)
    if key == "file.modification-time":
        fits = wanted.root == "TIMESTAMP_LTZ"
    if not fits:
        raise ValidationException(
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The column cannot be declared "
            f"as '{wanted}' because the type must be castable from metadata type '{given}'."
        )
    match key:
        case "file.path":
            return lambda file: file.path
        case "file.name":
            return lambda file: os.path.basename(file.path)
        case "file.size":
            return lambda file: file.size
    unit = 10 ** max(0, 3 - wanted.precision)
    return lambda file: (file.modified - file.modified % unit) * 1_000_000


def _after_commit(options: Options, partitions: Partitions | None) -> Callable[[str], AfterCommit] | None:
    """What is done when a partition is complete."""
    kind = options.get(_o.POLICY)
    if kind is None or partitions is None:
        return None
    if kind.strip() != "success-file":
        raise ValidationException(
            f"Invalid value for option '{_o.POLICY.key}': '{kind}'. Expected: success-file (there is no metastore "
            "here, and no custom policy)."
        )
    time_format = options.get(_o.TIME_FORMAT)
    zone = options.get(_o.COMMIT_ZONE)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValidationException(
            f"Invalid value for option '{_o.COMMIT_ZONE.key}': '{zone}' is no time zone"
        ) from None
    settings = CommitSettings(
        by_watermark=options.get(_o.TRIGGER) == "partition-time",
        delay=options.get(_o.DELAY),
        success_file=options.get(_o.SUCCESS_FILE),
        pattern=options.get(_o.TIME_PATTERN),
        time_format=None if time_format is None else strftime_of(time_format),
        zone=zone,
    )
    return partial(PartitionCommit, settings)
