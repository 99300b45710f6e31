"""What a table can know of a record besides its key and value, and what it can set."""

from __future__ import annotations

import datetime as _dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from aiokafka.structs import ConsumerRecord

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.abc import TableColumn
from streamline.errors import ValidationException

__all__ = ("READABLE", "WRITABLE", "reader_of", "writable")

_HEADER: Final = t.row(Field("key", t.STRING.not_null()), Field("value", t.BYTES)).not_null()
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}

#: Metadata keys with their types.
READABLE: Final[Mapping[str, DataType]] = {
    "topic": t.STRING.not_null(),
    "partition": t.INT.not_null(),
    "headers": t.map_of(t.STRING, t.BYTES).not_null(),
    "header-list": t.array(_HEADER).not_null(),
    "leader-epoch": t.INT,
    "offset": t.BIGINT.not_null(),
    "timestamp": t.timestamp_ltz(3).not_null(),
    "timestamp-type": t.STRING.not_null(),
}
#: Those that a sink can set; `topic` only where the table has more topics than one.
WRITABLE: Final = ("headers", "header-list", "timestamp", "topic")

#: Python source of a metadata value, where `rec` is the record; the inner form.
_SOURCES: Final = {
    "topic": "rec.topic",
    "partition": "rec.partition",
    "headers": "dict(rec.headers)",
    "header-list": "list(rec.headers)",
    "leader-epoch": "None",  # the client does not tell it
    "offset": "rec.offset",
    "timestamp": "rec.timestamp * 1000000",
    "timestamp-type": "timestamp_type(rec)",
}


@dataclass(frozen=True)
class MetadataReader:
    """How a metadata column is read: Python source over `rec`, and what its names stand for."""

    source: str
    namespace: Mapping[str, Any]


def _timestamp_type(record: ConsumerRecord) -> str:
    return "NoTimestampType" if record.timestamp < 0 else _TIMESTAMP_TYPES.get(record.timestamp_type, "CreateTime")


def reader_of(column: TableColumn, table: str, time_zone: str) -> MetadataReader:
    """How to read a metadata column in its declared type.

    Raises:
        ValidationException: there is no such metadata, or it cannot be read as that type.
    """
    key = column.metadata_key or column.name
    if key not in READABLE:
        raise _unknown(key, column, table, READABLE, "reading")
    source, namespace = _SOURCES[key], {"timestamp_type": _timestamp_type}
    convert = _conversion(READABLE[key], column.type, time_zone)
    if convert is None:
        raise ValidationException(
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The column cannot be declared "
            f"as '{column.type}' because the type must be castable from metadata type '{READABLE[key]}'."
        )
    if convert is _same:
        return MetadataReader(source, namespace)
    return MetadataReader(f"convert({source})", {**namespace, "convert": convert})


def _same(value: Any) -> Any:
    return value


def _conversion(given: DataType, wanted: DataType, time_zone: str) -> Callable[[Any], Any] | None:
    """Makes a value of the metadata's type one of the declared type; None where there is no cast."""
    if given.same_type(wanted):
        return _same
    if given.is_integer and wanted.is_integer:
        bits = t.INTEGER_BITS[wanted.root]
        if bits >= t.INTEGER_BITS[given.root]:
            return _same
        half = 1 << (bits - 1)
        return lambda v: None if v is None else (v + half) % (2 * half) - half
    if given.is_integer and wanted.is_character:
        return lambda v: None if v is None else str(v)
    if given.is_character and wanted.is_character:
        return lambda v: v[: wanted.length]
    if given.root == "TIMESTAMP_LTZ" and wanted.is_timestamp:
        unit: int = 10 ** (9 - wanted.precision)
        if wanted.root == "TIMESTAMP_LTZ":
            return lambda v: v - v % unit
        zone = ZoneInfo(time_zone)

        def local(nanos: int) -> int:
            offset = _dt.datetime.fromtimestamp(nanos // 1_000_000_000, zone).utcoffset()
            shifted = nanos + (0 if offset is None else int(offset.total_seconds()) * 1_000_000_000)
            return shifted - shifted % unit

        return local
    # Nullability and names within maps, arrays and rows are of no account.
    if given.root == wanted.root and given.root in ("MAP", "ARRAY"):
        return _same if _loose(given) == _loose(wanted) else None
    return None


def _loose(type_: DataType) -> Any:
    parts = [p for p in (type_.key, type_.element) if p is not None] + [f.type for f in type_.fields]
    return type_.root, type_.length, [_loose(p) for p in parts]


def writable(column: TableColumn, table: str, topic_is_open: bool) -> str:
    """The metadata key that a column sets.

    Raises:
        ValidationException: it cannot be set, or not with that type.
    """
    key = column.metadata_key or column.name
    keys = [k for k in WRITABLE if k != "topic" or topic_is_open]
    if key not in keys:
        raise _unknown(key, column, table, keys, "writing")
    if _conversion(READABLE[key], column.type, "UTC") is not _same:
        raise ValidationException(
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The column cannot be declared "
            f"as '{column.type}' because the type must be castable to metadata type '{READABLE[key]}'."
        )
    return key


def _unknown(
    key: str, column: TableColumn, table: str, keys: Sequence[str] | Mapping[str, Any], doing: str
) -> ValidationException:
    advice = ""
    if doing == "writing" and key in READABLE:
        advice = f" Declare the column '{column.name}' as VIRTUAL if it is only read."
    return ValidationException(
        f"Invalid metadata key '{key}' in column '{column.name}' of table '{table}'. The Kafka connector supports the "
        f"following metadata keys for {doing}:\n" + "\n".join(keys) + advice
    )
