"""A sink into files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from streamline._core.time import Duration, to_millis
from streamline.abc import Sink, SinkWriter
from streamline.connectors.builder import Builder
from streamline.connectors.files.encoding import Encoder, RecordEncoder
from streamline.connectors.files.listing import local_path
from streamline.connectors.files.policy import OutputFileConfig, RollingPolicy, bucket_function
from streamline.connectors.files.writer import AfterCommit, BatchEncoder, FileWriter, WriterSettings
from streamline.errors import ValidationException

__all__ = ("FileSink", "FileSinkBuilder")


class FileSink(Sink[Any]):
    """Writes values to files in a folder, each of them once whatever fails.

    A file is complete when the rolling policy says so, and at every checkpoint; it appears under its name, whole, when
    the checkpoint is complete that it belongs to. Without checkpoints all files appear at the end of the input. Until
    then they are in `.staging` below the folder. Subtasks never share a file, and no name is used twice.

    Args:
        path: the folder; it is made where it is not there.
        encoder: how values are written: a `SerializationSchema`, or a function of a value that gives bytes or text;
            lines of JSON by default. See `Encoder`.
        bucket_assigner: a function of (value) or (value, context) that gives the folder of a value below `path`, such
            as "2024-05-01"; by default all files are in `path` itself (Flink's own default is a folder an hour). See
            `BucketAssigner`.
        rolling_policy: when a file is complete; after 128 MiB, a minute, or a minute without a record by default.
        output_file_config: what names begin and end with; `part`, and `.jsonl` or `.csv` where that is what they are.
        delimiter: what follows each record.
        bucket_check_interval: how often folders that nothing is written to are looked at (timedelta, text or ms).

    Raises:
        ValidationException: the arguments do not fit together.
    """

    two_phase = True

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        encoder: Any = None,
        bucket_assigner: Any = None,
        rolling_policy: RollingPolicy | None = None,
        output_file_config: OutputFileConfig | None = None,
        delimiter: bytes = b"\n",
        bucket_check_interval: Duration = 60_000,
        _encoder: BatchEncoder | None = None,
        _after_commit: Callable[[str], AfterCommit] | None = None,
    ) -> None:
        if not os.fspath(path):
            raise ValidationException("a FileSink needs the path of a folder")
        interval = to_millis(bucket_check_interval, "bucket_check_interval")
        if interval <= 0:
            raise ValidationException(f"bucket_check_interval has to be positive, not {bucket_check_interval!r}")
        made = RecordEncoder(encoder if encoder is not None else Encoder.json_lines())
        self._settings = WriterSettings(
            base=os.path.abspath(local_path(path)),
            encoder=_encoder if _encoder is not None else made,
            names=output_file_config or OutputFileConfig(part_suffix=made.suffix),
            rolling=rolling_policy or RollingPolicy(),
            assign=bucket_function(bucket_assigner),
            delimiter=delimiter,
            check_interval=interval,
            after_commit=_after_commit,
        )

    @staticmethod
    def builder() -> Builder[FileSink]:
        """The same by setters: `set_path`, `set_encoder`, …, `build`."""
        return FileSinkBuilder(FileSink)

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Any = None) -> FileSinkBuilder:
        """A builder of a sink into this folder, as in PyFlink; see `Encoder`."""
        made = FileSinkBuilder(FileSink)
        made.set_path(base_path).set_encoder(encoder)
        return made

    def writer(self) -> SinkWriter[Any]:
        return FileWriter(self._settings)


class FileSinkBuilder(Builder[FileSink]):
    """The builder of a FileSink, with PyFlink's names besides."""

    def with_bucket_assigner(self, bucket_assigner: Any) -> FileSinkBuilder:
        """How folders are chosen."""
        self.set_bucket_assigner(bucket_assigner)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """When a file is complete."""
        self.set_rolling_policy(rolling_policy)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """What names begin and end with."""
        self.set_output_file_config(output_file_config)
        return self

    def with_bucket_check_interval(self, interval: Duration) -> FileSinkBuilder:
        """How often folders that nothing is written to are looked at."""
        self.set_bucket_check_interval(interval)
        return self
