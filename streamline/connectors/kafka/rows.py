"""Rows of tables: generated code between records of Kafka and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streamline.abc import Batch
from streamline.connectors.formats.base import RowEncoder
from streamline.connectors.kafka.encoding import Outgoing
from streamline.connectors.kafka.errors import KafkaException
from streamline.connectors.kafka.partitioning import KafkaPartitioner

__all__ = ("RowsEncoder", "fill_loop")


def fill_loop(
    fills: Sequence[tuple[str, str, Mapping[str, Any]]], with_keys: bool
) -> Callable[[list[Any], Sequence[Any], Sequence[Any]], None] | None:
    """One loop over a batch that sets attributes of rows from their records and keys; None where there are none.

    Args:
        fills: attribute, Python source over `rec` and `key`, and what its names stand for.
        with_keys: whether there are key rows.
    """
    if not fills:
        return None
    namespace: dict[str, Any] = {}
    lines = ["def fill(rows, records, keys):"]
    lines.append(
        "    for r, rec, key in zip(rows, records, keys):" if with_keys else "    for r, rec in zip(rows, records):"
    )
    for i, (attribute, source, names) in enumerate(fills):
        renamed = source
        for name, value in names.items():
            namespace[f"{name}_{i}"] = value
            renamed = renamed.replace(f"{name}(", f"{name}_{i}(")
        lines.append(f"        r.{attribute} = {renamed}")
    exec(compile("\n".join(lines), "<kafka metadata>", "exec"), namespace)
    return namespace["fill"]  # type: ignore[no-any-return]


def _encoding(encoder: RowEncoder, at: Sequence[int] | None) -> Callable[[Any], bytes | None]:
    """Bytes of a row; `at` says where the fields are in a tuple, None that the row is what the template built."""
    if at is None:
        return encoder.encode
    built = encoder.template.format(*[f"r[{i}]" for i in at])
    namespace = {**encoder.namespace, "encode_": encoder.encode}
    function: Callable[[Any], bytes | None] = eval(
        compile(f"lambda r: encode_({built})", "<kafka row>", "eval"), namespace
    )
    return function


class RowsEncoder:
    """Makes records of rows; see `RecordEncoder`.

    Args:
        topic: where all rows go, or None: the metadata column says it.
        value, key: encode the value and the key.
        value_at, key_at: where their fields are in a row; `value_at` None: rows are built by the value's template.
        metadata: where metadata columns are in a row.
        topic_allowed: whether a row may go to a topic.
        partitioner: chooses partitions; None: by key, or in turn.
    """

    def __init__(
        self,
        *,
        topic: str | None,
        value: RowEncoder,
        value_at: Sequence[int] | None,
        key: RowEncoder | None,
        key_at: Sequence[int],
        metadata: Mapping[str, int],
        topic_allowed: Callable[[str], bool],
        partitioner: KafkaPartitioner | None,
    ) -> None:
        self.topic: Final = topic
        self.partitioner: Final = partitioner
        self._value = _encoding(value, value_at)
        self._key = None if key is None else _encoding(key, key_at)
        self._timestamp = metadata.get("timestamp")
        self._headers = metadata.get("headers")
        self._header_list = metadata.get("header-list")
        self._topic_at = metadata.get("topic") if topic is None else None
        self._allowed: dict[str, bool] = {}
        self._topic_allowed = topic_allowed

    def encode(self, batch: Batch) -> Outgoing:
        """Records of a batch."""
        rows = batch.values
        out = Outgoing(list(map(self._value, rows)), records=rows)
        if self._key is not None:
            out.keys = list(map(self._key, rows))
        if self._timestamp is not None:
            at = self._timestamp
            out.timestamps = [None if r[at] is None else r[at] // 1_000_000 for r in rows]
        if self._headers is not None or self._header_list is not None:
            out.headers = [self._headers_of(r) for r in rows]
        if self._topic_at is not None:
            out.topics = [self._checked(r[self._topic_at]) for r in rows]
        return out

    def _headers_of(self, row: Any) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        if self._headers is not None:
            found += list((row[self._headers] or {}).items())
        if self._header_list is not None:
            found += [(h[0], h[1]) for h in row[self._header_list] or ()]
        return [h for h in found if h[0] is not None]

    def _checked(self, topic: str | None) -> str:
        if topic is None:
            raise KafkaException("a row says no topic to go to: its metadata column `topic` is NULL")
        if self._allowed.setdefault(topic, self._topic_allowed(topic)):
            return topic
        raise KafkaException(
            f"a row says topic {topic!r} in its metadata column `topic`, which is none of the table's topics"
        )
