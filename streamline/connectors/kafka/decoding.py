"""Records of Kafka to values of a stream or rows of a table, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from aiokafka.structs import ConsumerRecord

from streamline.abc import Counter
from streamline.connectors.formats.base import DeserializationException, DeserializationSchema, RowDecoder

__all__ = ("FullDecoder", "RecordDecoder", "RowsDecoder", "SkipCounts", "ValueDecoder", "place_of")


class SkipCounts:
    """What was left out: values that could not be read (where that is allowed), and tombstones."""

    def __init__(self, errors: Counter, tombstones: Counter) -> None:
        self.errors: Final = errors
        self.tombstones: Final = tombstones


class RecordDecoder(Protocol):
    """Makes values of records."""

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> tuple[list[Any], list[Any] | None, int]:
        """Values, their timestamps (epoch ms; None: none at all), and how many of the records they account for.

        Where a record is wrong, those before it are given out; it raises only if it is the first.
        """
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

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> tuple[list[Any], list[Any] | None, int]:
        if self._fast is not None:
            values = [r.value for r in records]
            if None not in values:
                try:
                    return list(map(self._fast, values)), _times(records), len(records)
                except Exception:  # the other way finds out which one it is and what is wrong with it
                    pass
        schema, way = self._schema, _OneByOne()
        way.run(records, lambda r: schema.deserialize(r.value), schema.ignore_parse_errors, skipped)
        return way.values, _times(way.kept), way.consumed


class FullDecoder:
    """By a function of the whole record, tombstones included; what it gives None for is left out."""

    def __init__(self, function: Callable[[ConsumerRecord], Any]) -> None:
        self._function = function

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> tuple[list[Any], list[Any] | None, int]:
        way = _OneByOne()
        way.run(records, self._function, False, skipped, keep_tombstones=True)
        return way.values, _times(way.kept), way.consumed


class RowsDecoder:
    """Rows of a table: value columns, key columns and metadata columns in one object.

    Args:
        value: decodes values.
        key: decodes keys, or None where no key column is asked for.
        fill: puts what comes from keys and metadata into rows: (rows, records, key rows).
    """

    def __init__(
        self,
        value: RowDecoder,
        key: RowDecoder | None = None,
        fill: Callable[[list[Any], Sequence[ConsumerRecord], Sequence[Any]], None] | None = None,
    ) -> None:
        self._value = value
        self._key = key
        self._fill = fill

    def decode(self, records: Sequence[ConsumerRecord], skipped: SkipCounts) -> tuple[list[Any], list[Any] | None, int]:
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
                return rows, None, len(records)
        way = _OneByOne()
        way.run(records, self._one, self._value.ignore_errors, skipped)
        if self._fill is not None:
            self._fill([row for row, _ in way.values], way.kept, [key for _, key in way.values])
        return [row for row, _ in way.values], None, way.consumed

    def _keys(self, records: Sequence[ConsumerRecord]) -> Sequence[Any]:
        if self._key is None:
            return ()
        present = iter(self._key.decode([r.key for r in records if r.key is not None]))
        return [None if r.key is None else next(present) for r in records]

    def _one(self, record: ConsumerRecord) -> tuple[Any, Any] | None:
        row = self._value.decode_one(record.value)
        if row is None:
            return None
        key = self._key.decode_one(record.key) if self._key is not None and record.key is not None else None
        return row, key
