"""Partitions of a table as folders: `dt=2024-05-01/hour=10`, and what is done when one is complete."""

from __future__ import annotations

import datetime as _dt
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from streamline._core.types import Field
from streamline.connectors.formats.csv.options import CsvOptions
from streamline.connectors.formats.csv.values import parser_of, writer_of
from streamline.errors import StreamlineError, ValidationException

__all__ = ("CommitSettings", "PartitionCommit", "Partitions")

#: Characters that cannot stand in the name of a folder, as Hive has it.
_SPECIAL: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda m: f"%{ord(m[0]):02X}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)


class Partitions:
    """The partition columns of a table.

    Args:
        fields: the columns in their order.
        default_name: the folder's value for NULL and the empty text.

    Raises:
        ValidationException: a column's type cannot be the name of a folder.
    """

    def __init__(self, fields: Sequence[Field], default_name: str) -> None:
        self._fields = fields
        self._default = default_name
        for f in fields:
            if f.type.root in ("ARRAY", "ROW", "STRUCTURED", "MAP", "MULTISET", "BINARY", "VARBINARY", "RAW"):
                raise ValidationException(f"Column '{f.name}' of type {f.type} cannot be a partition column.")
        options = CsvOptions()
        self._writers = [writer_of(f.type, options) or str for f in fields]
        self._parsers = [parser_of(f.type, options) or str for f in fields]
        self._known: dict[tuple[Any, ...], str] = {}

    def folder(self, values: tuple[Any, ...]) -> str:
        """The folder of rows with these values, in the inner form."""
        found = self._known.get(values)
        if found is None:
            parts = zip(self._fields, self._writers, values)
            found = "/".join([f"{_escape(f.name)}={self._name(write, value)}" for f, write, value in parts])
            if len(self._known) >= 10_000:
                self._known.clear()
            self._known[values] = found
        return found

    def _name(self, write: Callable[[Any], str], value: Any) -> str:
        return _escape(write(value)) if value not in (None, "") else self._default

    def values(self, base: str, path: str) -> dict[str, Any]:
        """The values of a file's rows by column, in the inner form.

        Raises:
            StreamlineError: it is not in folders of these columns, or a value is not of its column's type.
        """
        texts = self.texts(os.path.relpath(os.path.dirname(path), base))
        found: dict[str, Any] = {}
        for f, parse in zip(self._fields, self._parsers):
            text = texts.get(f.name)
            if text is None:
                raise StreamlineError(
                    f"{path} is in no folder of the partition column '{f.name}': {f.name}=… is expected below {base}"
                )
            if text == self._default:
                found[f.name] = None
                continue
            try:
                found[f.name] = parse(text)
            except (LookupError, ValueError, ArithmeticError) as e:
                kind = f.type.summary(short=True)
                raise StreamlineError(f"{path}: partition column '{f.name}' is {kind}, but it is {text!r} ({e})") from e
        return found

    @staticmethod
    def texts(folder: str) -> dict[str, str]:
        """Names and values of a folder."""
        found = {}
        for part in folder.split("/"):
            name, equal, value = part.partition("=")
            if equal:
                found[_unescape(name)] = _unescape(value)
        return found


# -- complete partitions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitSettings:
    """When a partition counts as complete, and what is done then.

    Attributes:
        by_watermark: by the time in its name and event time; else by the time that has passed since its first record.
        delay: milliseconds to wait.
        success_file: the name of an empty file to be put into it.
        pattern: how its time is made of its columns: `$dt $hour:00:00`; None: the first column.
        time_format: of strptime.
        zone: of the watermark.
    """

    by_watermark: bool
    delay: int
    success_file: str
    pattern: str | None = None
    time_format: str | None = None
    zone: str = "UTC"


class PartitionCommit:
    """Marks folders as complete; see `AfterCommit`.

    Args:
        settings: when, and how.
        base: the table's folder.
    """

    def __init__(self, settings: CommitSettings, base: str) -> None:
        self._settings = settings
        self._base = base
        self._zone = ZoneInfo(settings.zone)
        #: Folders with records that are not committed yet, and since when (epoch ms).
        self._written: dict[str, int] = {}
        #: Folders with committed files that are not marked yet, and since when they are written to.
        self._pending: dict[str, int] = {}

    def written(self, bucket: str, now: int) -> None:
        self._written.setdefault(bucket, now)

    def committed(self, buckets: set[str], now: int, watermark: int | None, ended: bool) -> None:
        for bucket in buckets:
            self._pending.setdefault(bucket, self._written.pop(bucket, now))
        due = [b for b, since in self._pending.items() if ended or self._is_due(b, since, now, watermark)]
        for bucket in due:
            path = os.path.join(self._base, bucket, self._settings.success_file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666))
            del self._pending[bucket]

    def _is_due(self, bucket: str, since: int, now: int, watermark: int | None) -> bool:
        settings = self._settings
        if not settings.by_watermark:
            return now >= since + settings.delay
        return watermark is not None and watermark > self._time_of(bucket) + settings.delay

    def _time_of(self, bucket: str) -> int:
        """The time in a partition's name, epoch ms."""
        texts = Partitions.texts(bucket)
        settings = self._settings
        text = next(iter(texts.values()), "")
        if settings.pattern is not None:
            text = re.sub(r"\$(\w+)", lambda m: texts.get(m[1], m[0]), settings.pattern)
        try:
            if settings.time_format is not None:
                time = _dt.datetime.strptime(text, settings.time_format)
            else:
                time = _dt.datetime.fromisoformat(text)
        except ValueError as e:
            raise StreamlineError(
                f"partition {bucket!r} has no time: {text!r} is none ({e}); say how it is made by "
                "'partition.time-extractor.timestamp-pattern' and 'partition.time-extractor.timestamp-formatter'"
            ) from e
        return round(time.replace(tzinfo=self._zone).timestamp() * 1000)

    def snapshot(self) -> Any:
        """Written folders too: their files are in the checkpoint, and are committed when it is restored."""
        return [list(self._pending.items()), list(self._written.items())]

    def restore(self, state: Sequence[Any]) -> None:
        pending, written = state
        for found, into in ((pending, self._pending), (written, self._written)):
            for bucket, since in found:
                into[bucket] = min(since, into.get(bucket, since))
