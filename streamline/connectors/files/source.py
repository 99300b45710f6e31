"""A source of the records of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Any, Generic, Literal, TypeVar, get_args

from anyio import to_thread

from streamline._core.time import Duration, to_millis
from streamline.abc import Source, SourceReader, Split
from streamline.connectors.builder import Builder
from streamline.connectors.files.decoding import FileFormat, format_of
from streamline.connectors.files.listing import Listing, local_path
from streamline.connectors.files.reader import CHUNK, FileReader, ReaderSettings
from streamline.connectors.formats import JsonDeserializationSchema, SimpleStringSchema
from streamline.connectors.formats.base import DeserializationSchema
from streamline.connectors.formats.csv import CsvDeserializationSchema
from streamline.errors import ValidationException

__all__ = ("FileSource", "FileSourceBuilder", "OnError", "StreamFormat")

T = TypeVar("T")

Path = str | os.PathLike[str]
OnError = Literal["fail", "skip"]


class FileSource(Source[T], Generic[T]):
    """Reads files line by line; each file is a split with a watermark of its own.

    Files are read once and to their end, or followed: new files, and what is written to the end of known ones, up to
    the last line end. Positions are byte offsets, kept in checkpoints. Files in folders whose names begin with `.` or
    `_` are left out. A file that ends in `.gz` is decompressed; it is not followed. Files may only grow: one that is
    truncated, or replaced by another one under its name, is an error.

    Args:
        paths: of files, of folders (with all below) or globs (`**` for any depth); one or several.
        value_type: lines are JSON of this Python class (a msgspec Struct, dataclass, TypedDict, …); or
        format: a `DeserializationSchema` such as `CsvDeserializationSchema(Click, header=True)`, or a function of a
            line's bytes; what it gives None for is left out.
        monitor_interval: follow the files, and look for more each interval (timedelta, text or ms); None: read the
            files that there are now; the stream is then bounded.
        pattern: a regular expression that the whole absolute path of a file has to match.
        file_filter: a function of the absolute path; files for which it is false are left out.
        on_error: "fail", or "skip" and count (`numRecordsInErrors`) records that cannot be read.
        max_record_size: bytes that a record may have.

    Raises:
        ValidationException: the arguments do not fit together.
    """

    def __init__(
        self,
        *,
        paths: Path | Iterable[Path],
        value_type: type[T] | UnionType | None = None,
        format: DeserializationSchema[T] | Callable[[bytes], T | None] | None = None,
        monitor_interval: Duration | None = None,
        pattern: str | re.Pattern[str] | None = None,
        file_filter: Callable[[str], bool] | None = None,
        on_error: OnError = "fail",
        max_record_size: int = 16 << 20,
        _format: FileFormat | None = None,
        _chunk_size: int = CHUNK,
    ) -> None:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if not given:
            raise ValidationException("a FileSource needs paths: of files, folders, or globs")
        if sum(x is not None for x in (value_type, format, _format)) != 1:
            raise ValidationException(
                "say how lines become values: value_type (JSON of a class) or format; one of them"
            )
        if on_error not in get_args(OnError):
            raise ValidationException(f"on_error is one of {', '.join(get_args(OnError))}, not {on_error!r}")
        if max_record_size <= 0:
            raise ValidationException(f"max_record_size has to be positive, not {max_record_size}")
        interval = None if monitor_interval is None else to_millis(monitor_interval, "monitor_interval")
        if interval is not None and interval <= 0:
            raise ValidationException(f"monitor_interval has to be positive, not {monitor_interval!r}")
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as e:
            raise ValidationException(f"{pattern!r} is no regular expression: {e}") from None
        if value_type is not None:
            format = JsonDeserializationSchema(value_type)
        found = _format if _format is not None else format_of(format)
        self._listing = Listing(
            [local_path(p) for p in given], pattern=compiled, keep=file_filter, must_exist=interval is None
        )
        self._settings = ReaderSettings(
            format=found,
            interval=interval,
            ignore_errors=found.ignore_errors or on_error == "skip",
            max_record=max_record_size,
            chunk=_chunk_size,
        )
        self.bounded = interval is None
        self.discovery_interval = interval
        self.output_type = found.output_type

    @staticmethod
    def builder() -> Builder[FileSource[Any]]:
        """The same by setters: `set_paths`, `set_format`, `set_monitor_interval`, …, `build`."""
        return FileSourceBuilder(FileSource)

    @staticmethod
    def for_record_stream_format(stream_format: Any, *paths: Path) -> FileSourceBuilder:
        """A builder of a source of these paths, as in PyFlink; see `StreamFormat`."""
        made = FileSourceBuilder(FileSource)
        made.set_paths(list(paths)).set_format(stream_format)
        return made

    async def discover(self) -> Sequence[Split]:
        """The files there are now.

        Raises:
            StreamlineError: a path is not there.
        """
        return [Split(path, path) for path in await to_thread.run_sync(self._listing.files)]

    def reader(self) -> SourceReader[T]:
        return FileReader(self._settings)


class FileSourceBuilder(Builder[FileSource[Any]]):
    """The builder of a FileSource, with PyFlink's names besides."""

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Follow the files and look for more each interval (timedelta, text or ms)."""
        self.set_monitor_interval(discovery_interval)
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that there are when the job starts, and then end."""
        self.set_monitor_interval(None)
        return self


class StreamFormat:
    """Formats of lines, by PyFlink's name and two more."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> DeserializationSchema[str]:
        """Every line is a text."""
        return SimpleStringSchema(charset_name)

    @staticmethod
    def json_lines(type_: type[T] | Any, **options: Any) -> DeserializationSchema[T]:
        """Every line is JSON of a class; see `JsonDeserializationSchema`."""
        return JsonDeserializationSchema(type_, **options)

    @staticmethod
    def csv(type_: type[T] | Any, **options: Any) -> DeserializationSchema[T]:
        """Every record is CSV of a class; see `CsvDeserializationSchema`."""
        return CsvDeserializationSchema(type_, **options)
