"""The options of a table over Kafka: declared, checked with Flink's messages, and what follows from them."""

from __future__ import annotations

import importlib
import re
from functools import cached_property
from typing import Any, Final

from streamline._core.types import Field
from streamline.abc import TableContext
from streamline.connectors.formats.base import FormatFactory
from streamline.connectors.kafka.partitioning import KafkaPartitioner
from streamline.connectors.options import Option, Options, choice, duration, integer, listed, text
from streamline.connectors.registry import format_factory
from streamline.errors import ValidationException

__all__ = ("KafkaTableOptions", "offsets_option", "option")

_OFFSETS: Final = re.compile(r"partition:(\d+),offset:(\d+)")


class option:
    """The options by name."""

    TOPIC: Final = listed("topic")
    TOPIC_PATTERN: Final = text("topic-pattern")
    BOOTSTRAP: Final = text("properties.bootstrap.servers")
    GROUP: Final = text("properties.group.id")
    FORMAT: Final = text("format")
    VALUE_FORMAT: Final = text("value.format")
    KEY_FORMAT: Final = text("key.format")
    KEY_FIELDS: Final = listed("key.fields")
    KEY_PREFIX: Final = text("key.fields-prefix", "")
    VALUE_FIELDS: Final = choice("value.fields-include", ("ALL", "EXCEPT_KEY"), "ALL")
    STARTUP_MODE: Final = choice(
        "scan.startup.mode",
        ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "group-offsets",
    )
    STARTUP_OFFSETS: Final = text("scan.startup.specific-offsets")
    STARTUP_TIMESTAMP: Final = integer("scan.startup.timestamp-millis")
    BOUNDED_MODE: Final = choice(
        "scan.bounded.mode",
        ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "unbounded",
    )
    BOUNDED_OFFSETS: Final = text("scan.bounded.specific-offsets")
    BOUNDED_TIMESTAMP: Final = integer("scan.bounded.timestamp-millis")
    DISCOVERY: Final = duration("scan.topic-partition-discovery.interval", 300_000)
    #: Ours: what to do where the offset of a checkpoint is no longer in the log.
    ON_OFFSET_LOST: Final = choice("scan.on-offset-lost", ("fail", "earliest", "latest"), "fail")
    SCAN_PARALLELISM: Final = integer("scan.parallelism")
    PARTITIONER: Final = text("sink.partitioner", "default")
    GUARANTEE: Final = choice("sink.delivery-guarantee", ("at-least-once", "exactly-once", "none"), "at-least-once")
    TRANSACTIONAL_PREFIX: Final = text("sink.transactional-id-prefix")
    #: Ours: what to do where a transaction that a checkpoint covers was aborted by its timeout.
    ON_TRANSACTION_LOST: Final = choice("sink.on-transaction-lost", ("fail", "skip"), "fail")
    SINK_PARALLELISM: Final = integer("sink.parallelism")
    BUFFER_ROWS: Final = integer("sink.buffer-flush.max-rows", 0)
    BUFFER_INTERVAL: Final = duration("sink.buffer-flush.interval", 0)


_o = option
_REQUIRED: Final[tuple[Option[Any], ...]] = (_o.BOOTSTRAP,)
_BUFFER: Final = (_o.BUFFER_ROWS, _o.BUFFER_INTERVAL)
_OPTIONAL: Final[tuple[Option[Any], ...]] = tuple(
    v for v in vars(option).values() if isinstance(v, Option) and v not in (*_REQUIRED, *_BUFFER)
)
_UPSERT_REQUIRED: Final[tuple[Option[Any], ...]] = (_o.BOOTSTRAP, _o.KEY_FORMAT, _o.VALUE_FORMAT)
#: A changelog is read from its beginning, and its key is the primary key.
_UPSERT_OPTIONAL: Final[tuple[Option[Any], ...]] = (
    *_BUFFER,
    *(o for o in _OPTIONAL if not o.key.startswith("scan.startup.") and o not in (_o.FORMAT, _o.KEY_FIELDS)),
)


class KafkaTableOptions:
    """The options of one table.

    Args:
        identifier: the connector's name.
        table: the table.
        direction: "scan" or "sink", for messages.
        upsert: the table is a changelog by its primary key.

    Raises:
        ValidationException: something is missing, not known, or does not fit.
    """

    def __init__(self, identifier: str, table: TableContext, direction: str, upsert: bool = False) -> None:
        self._table = table
        self._upsert = upsert
        self._options = Options(
            identifier,
            table.options,
            required=_UPSERT_REQUIRED if upsert else _REQUIRED,
            optional=_UPSERT_OPTIONAL if upsert else _OPTIONAL,
            prefixes=("properties.",),
        )
        get = self._options.get
        value_name, value_prefix = None if upsert else get(_o.FORMAT), ""
        if value_name is None:
            value_name, value_prefix = get(_o.VALUE_FORMAT), "value."
        if value_name is None:
            self._options.validate()
            raise ValidationException(f"Could not find required {direction} format 'value.format'.")
        self.value_format: Final[FormatFactory] = format_factory(value_name)
        self.value_options: Final[Options] = self._format_options(self.value_format, value_prefix)
        key_name = get(_o.KEY_FORMAT)
        self.key_format: Final[FormatFactory | None] = None if key_name is None else format_factory(key_name)
        self.key_options: Final[Options] = (
            self._options if self.key_format is None else self._format_options(self.key_format, "key.")
        )
        self._options.validate()
        if upsert and not table.primary_key:
            raise ValidationException(
                "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY KEY specifies which "
                "columns should be read from or write to the Kafka message key. The PRIMARY KEY also defines records "
                "in the 'upsert-kafka' table should update or delete on which keys."
            )
        if table.primary_key and not upsert:
            raise ValidationException(
                f"The Kafka table '{'.'.join(table.path)}' with '{value_name}' format doesn't support defining PRIMARY "
                "KEY constraint on the table, because it can't guarantee the semantic of primary key."
            )
        self._check_topics()
        self.properties: Final[dict[str, Any]] = dict(self._options.prefixed("properties."))

    def _format_options(self, factory: FormatFactory, prefix: str) -> Options:
        return self._options.also(factory.options, f"{prefix}{factory.identifier}.")

    def get(self, wanted: Option[Any]) -> Any:
        """The value of an option."""
        return self._options.get(wanted)

    # -- columns -------------------------------------------------------------------------------------------------

    @property
    def _physical(self) -> list[Field]:
        return [Field(c.name, c.type) for c in self._table.columns if c.metadata_key is None]

    @cached_property
    def key_fields(self) -> list[Field]:
        """The columns of the key, in the order of `key.fields`."""
        names = list(self._table.primary_key) if self._upsert else self.get(_o.KEY_FIELDS) or []
        if self.key_format is None:
            if names:
                raise ValidationException(
                    "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."
                )
            return []
        if not names:
            raise ValidationException(
                "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'."
            )
        physical, prefix = {f.name: f for f in self._physical}, self.get(_o.KEY_PREFIX)
        for name in names:
            if name not in physical:
                raise ValidationException(
                    f"Could not find the field '{name}' in the table schema for usage in the key format. A key field "
                    "must be a regular, physical column. The following columns can be selected in the 'key.fields' "
                    f"option:\n[{', '.join(physical)}]"
                )
            if not name.startswith(prefix):
                raise ValidationException(
                    f"All fields in 'key.fields' must be prefixed with '{prefix}' when option 'key.fields-prefix' is "
                    f"set but field '{name}' is not prefixed."
                )
        return [physical[name] for name in names]

    @cached_property
    def value_fields(self) -> list[Field]:
        """The columns of the value."""
        if self.get(_o.VALUE_FIELDS) == "ALL":
            if self.get(_o.KEY_PREFIX):
                raise ValidationException(
                    "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to "
                    "'EXCEPT_KEY' instead to avoid field overlaps."
                )
            return self._physical
        in_key = {f.name for f in self.key_fields}
        return [f for f in self._physical if f.name not in in_key]

    def without_prefix(self, name: str) -> str:
        """The name that a key column has in the key."""
        return name.removeprefix(self.get(_o.KEY_PREFIX))

    # -- topics and group ----------------------------------------------------------------------------------------

    def _check_topics(self) -> None:
        topic, pattern = self._options.has(_o.TOPIC), self._options.has(_o.TOPIC_PATTERN)
        if topic and pattern:
            raise ValidationException("Option 'topic' and 'topic-pattern' shouldn't be set together.")
        if not topic and not pattern:
            raise ValidationException("Either 'topic' or 'topic-pattern' must be set.")
        if pattern:
            try:
                re.compile(self.get(_o.TOPIC_PATTERN))
            except re.error as e:
                raise ValidationException(f"Option 'topic-pattern' is no regular expression: {e}") from None

    @property
    def topics(self) -> dict[str, Any]:
        """What a source reads, as its keywords."""
        if self._options.has(_o.TOPIC):
            return {"topics": self.get(_o.TOPIC)}
        return {"topic_pattern": self.get(_o.TOPIC_PATTERN)}

    @property
    def sink_topic(self) -> str | None:
        """Where all rows go; None where each says its own."""
        topics = self.get(_o.TOPIC) or []
        return topics[0] if len(topics) == 1 else None

    def allows_topic(self, name: str) -> bool:
        """Whether a row may say this topic."""
        pattern = self.get(_o.TOPIC_PATTERN)
        return name in (self.get(_o.TOPIC) or ()) or (pattern is not None and re.fullmatch(pattern, name) is not None)

    @property
    def group(self) -> str:
        """The group whose offsets are read and committed."""
        return self.get(_o.GROUP) or f"KafkaSource-{'.'.join(self._table.path)}"

    # -- checks --------------------------------------------------------------------------------------------------

    def check_source(self) -> None:
        """Modes that need another option have it."""
        modes: tuple[tuple[Option[str], str, Option[Any], Option[Any]], ...] = (
            (_o.STARTUP_MODE, "startup", _o.STARTUP_TIMESTAMP, _o.STARTUP_OFFSETS),
            (_o.BOUNDED_MODE, "bounded", _o.BOUNDED_TIMESTAMP, _o.BOUNDED_OFFSETS),
        )
        for mode, kind, at, offsets in modes:
            needed = {"timestamp": at, "specific-offsets": offsets}.get(self.get(mode))
            if needed is not None and not self._options.has(needed):
                raise ValidationException(f"'{needed.key}' is required in '{self.get(mode)}' {kind} mode but missing.")
            if self.get(mode) == "specific-offsets":
                offsets_option(self, offsets)

    def check_sink(self) -> None:
        """The partitioner and the guarantee fit the rest."""
        partitioner = self.get(_o.PARTITIONER)
        if partitioner == "round-robin" and self._options.has(_o.KEY_FIELDS):
            raise ValidationException(
                "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified."
            )
        if not partitioner:
            raise ValidationException("Option 'sink.partitioner' should be a non-empty string.")
        if self.get(_o.GUARANTEE) == "exactly-once" and not self.get(_o.TRANSACTIONAL_PREFIX):
            raise ValidationException(
                "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE."
            )

    @property
    def buffer(self) -> tuple[int, int]:
        """How many keys are held back, and for how many milliseconds; zeros for none."""
        rows, interval = self.get(_o.BUFFER_ROWS), self.get(_o.BUFFER_INTERVAL)
        if (rows > 0) != (interval > 0) or rows < 0:
            raise ValidationException(
                "'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval' must be set to be greater than zero "
                "together to enable sink buffer flushing."
            )
        return rows, interval

    @property
    def partitioner(self) -> KafkaPartitioner | None:
        """A partitioner that is named by its import path, `package.module.Class`."""
        name = self.get(_o.PARTITIONER)
        if name in ("default", "fixed", "round-robin"):
            return None
        module, _, attribute = name.replace(":", ".").rpartition(".")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as e:
            raise ValidationException(f"Could not find and instantiate partitioner class '{name}': {e}") from e
        made = found() if isinstance(found, type) else found
        if not callable(made):
            raise ValidationException(f"Sink partitioner class '{name}' should be callable like a KafkaPartitioner")
        return made  # type: ignore[no-any-return]


def offsets_option(options: KafkaTableOptions, wanted: Option[Any]) -> dict[tuple[str, int], int]:
    """The offsets by (topic, partition) of `partition:0,offset:42;partition:1,offset:300`.

    Raises:
        ValidationException: it is no such text, or there are several topics.
    """
    given = options.get(wanted)
    topic = options.sink_topic
    if topic is None:
        raise ValidationException("Currently Kafka source only supports specific offset for single topic.")
    parts = [_OFFSETS.fullmatch(part.strip()) for part in given.rstrip(";").split(";")]
    found = {(topic, int(m[1])): int(m[2]) for m in parts if m is not None}
    if None in parts:
        raise ValidationException(
            f"Invalid properties '{wanted.key}' should follow the format "
            f"'partition:0,offset:42;partition:1,offset:300', but is '{given}'."
        )
    return found
