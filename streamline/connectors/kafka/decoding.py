"""Records of Kafka to values of a stream or rows of a table, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from aiokafka.structs import ConsumerRecord

from streamline._core.changes import RowKind
from streamline.abc import Counter
from streamline.connectors.formats.base import DeserializationException, DeserializationSchema, RowDecoder

_UPDATE: Final = RowKind.UPDATE_AFTER
_DELETE: Final = RowKind.DELETE

__all__ = ("Decoded", "FullDecoder", "RecordDecoder", "RowsDecoder", "SkipCounts", "ValueDecoder", "place_of")


class SkipCounts:
    """What was left out: values that could not be read (where that is allowed), and tombstones."""

    def __init__(self, errors: Counter, tombstones: Counter) -> None:
        self.errors: Final = errors
        self.tombstones: Final = tombstones


class Decoded(msgspec.Struct, gc=False):
    """What records became.

    Attributes:
        values: of the records that have one.
        consumed: how many records they account for.
        timestamps: of the values, epoch ms; None where there are none at all.
        kinds: of the values; None: all INSERT.
    """

    values: list[Any]
    consumed: int
    timestamps: list[int | None] | None = None
    kinds: list[RowKind] | None = None


class RecordDecoder(Protocol):
    """Makes values of records."""

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> Decoded:
        """Values of records. Where one is wrong, those before it are given out; it raises only if it is the first."""
        ...


def place_of(record: ConsumerRecord) -> str:
    """Where a record is, for messages."""
    return f"topic {record.topic!r}, partition {record.partition}, offset {record.offset}"


def _times(records: Sequence[ConsumerRecord]) -> list[int | None]:
    times = [r.timestamp for r in records]
    return [None if t == -1 else t for t in times] if -1 in times else times  # -1: the record has none


class _OneByOne:
    """The way of a batch in which something is not as usual: record by record, up to the first that is wrong."""

    def __init__(self) -> None:
        self.kept: Final[list[ConsumerRecord]] = []
        self.values: Final[list[Any]] = []
        self.consumed = 0

    def run(
        self,
        records: Sequence[ConsumerRecord],
        one: Callable[[ConsumerRecord], Any],
        ignore_errors: bool,
        skipped: SkipCounts,
        keep_tombstones: bool = False,
    ) -> None:
        """Read them; what `one` gives None for is left out."""
        for record in records:
            if record.value is None and not keep_tombstones:
                skipped.tombstones.inc()
                self.consumed += 1
                continue
            try:
                value = one(record)
            except Exception as e:
                if ignore_errors:
                    skipped.errors.inc()
                    self.consumed += 1
                    continue
                if self.values:
                    return
                if isinstance(e, DeserializationException):
                    raise e.at(place_of(record)) from e.__cause__
                e.add_note(f"in the deserializer, at {place_of(record)}")
                raise
            self.consumed += 1
            if value is not None:
                self.kept.append(record)
                self.values.append(value)


class ValueDecoder:
    """By a schema for values; records without a value are left out and counted."""

    def __init__(self, schema: DeserializationSchema[Any]) -> None:
        self._schema = schema
        #: A schema whose values are never None may have a faster way that raises whatever it likes.
        self._fast: Callable[[bytes], Any] | None = getattr(schema, "decode_fast", None)

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> Decoded:
        if self._fast is not None:
            values = [r.value for r in records]
            if None not in values:
                try:
                    return Decoded(list(map(self._fast, values)), len(records), _times(records))
                except Exception:  # the other way finds out which one it is and what is wrong with it
                    pass
        schema, way = self._schema, _OneByOne()
        way.run(records, lambda r: schema.deserialize(r.value), schema.ignore_parse_errors, skipped)
        return Decoded(way.values, way.consumed, _times(way.kept))


class FullDecoder:
    """By a function of the whole record, tombstones included; what it gives None for is left out."""

    def __init__(self, function: Callable[[ConsumerRecord], Any]) -> None:
        self._function = function

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> Decoded:
        way = _OneByOne()
        way.run(records, self._function, False, skipped, keep_tombstones=True)
        return Decoded(way.values, way.consumed, _times(way.kept))


class RowsDecoder:
    """Rows of a table: value columns, key columns and metadata columns in one object.

    Args:
        value: decodes values.
        key: decodes keys, or None where no key column is asked for.
        fill: puts what comes from keys and metadata into rows: (rows, records, key rows).
        upsert: a record without a value deletes its key; the others insert or update it.
    """

    def __init__(
        self,
        value: RowDecoder,
        key: RowDecoder | None = None,
        fill: Callable[[list[Any], Sequence[ConsumerRecord], Sequence[Any]], None] | None = None,
        *,
        upsert: bool = False,
    ) -> None:
        self._value = value
        self._key = key
        self._fill = fill
        self._upsert = upsert

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> Decoded:
        values = [r.value for r in records]
        if None not in values:
            try:
                rows = self._value.decode(values)
                keys = self._keys(records)
            except Exception:  # the other way finds out which one it is and what is wrong with it
                pass
            else:
                if self._fill is not None:
                    self._fill(rows, records, keys)
                return Decoded(rows, len(records), kinds=self._kinds(len(rows)))
        way = _OneByOne()
        way.run(records, self._one, self._value.ignore_errors, skipped, keep_tombstones=self._upsert)
        if self._fill is not None:
            self._fill([row for row, _ in way.values], way.kept, [key for _, key in way.values])
        rows = [row for row, _ in way.values]
        if not self._upsert:
            return Decoded(rows, way.consumed)
        return Decoded(rows, way.consumed, kinds=[_DELETE if r.value is None else _UPDATE for r in way.kept])

    def _kinds(self, count: int) -> list[RowKind] | None:
        return [_UPDATE] * count if self._upsert else None

    def _keys(self, records: Sequence[ConsumerRecord]) -> Sequence[Any]:
        if self._key is None:
            return ()
        present = iter(self._key.decode([r.key for r in records if r.key is not None]))
        return [None if r.key is None else next(present) for r in records]

    def _one(self, record: ConsumerRecord) -> tuple[Any, Any] | None:
        row = self._value.empty() if record.value is None else self._value.decode_one(record.value)
        if row is None:
            return None
        key = self._key.decode_one(record.key) if self._key is not None and record.key is not None else None
        return row, key
