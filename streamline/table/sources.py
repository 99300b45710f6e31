"""Tables over connectors: their scans and sinks, asked for when a statement is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamline._core.time import to_millis
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._operators.sink import WriterSink
from streamline.abc import Sink, Source, TableColumn, TableContext, TableScan, TableSink
from streamline.connectors.registry import connector
from streamline.errors import TableException, ValidationException
from streamline.table.catalog import CatalogTable
from streamline.table.config import TableConfig
from streamline.table.logical import Scan
from streamline.table.parse.statements import ComputedColumn, MetadataColumn, PhysicalColumn
from streamline.table.shapes import Shape, Timing, build_shape, columns_of
from streamline.table.table_scope import Session

__all__ = ("SinkNode", "SourceNode", "connector_shape", "scan_of", "sink_of", "table_context")


class TableHostSession(Session, Protocol):
    """What a table over a connector asks of the session."""

    config: TableConfig
    #: What connectors have said about tables, by table and options.
    scans: dict[Any, tuple[CatalogTable, TableScan]]


@dataclass(frozen=True)
class SourceNode:
    """A scan source that becomes a source node of the graph; the same source becomes one node."""

    source: Source[Any] = field(hash=False)
    name: str
    parallelism: int | None = None
    event_time: str = "yes"
    strategy: Any = None

    def attach(self, graph: StreamGraph) -> tuple[tuple[int, str | None], ...]:
        for node in graph.nodes.values():
            if node.source is self.source:
                return ((node.id, None),)
        parallelism = self.parallelism
        if parallelism is None and not self.source.parallel:
            parallelism = 1
        added = graph.add(
            Node(
                0,
                self.name,
                "source",
                source=self.source,
                strategy=self.strategy,
                parallelism=parallelism,
                event_time=self.event_time,
                options=() if self.source.parallel else (("non_parallel", True),),
            )
        )
        return ((added.id, None),)


@dataclass(frozen=True)
class SinkNode:
    """The end of an INSERT: a sink's writer."""

    sink: Sink[Any] = field(hash=False)
    name: str
    parallelism: int | None = None

    def attach(self, graph: StreamGraph, node: int, side: str | None) -> int:
        sink = self.sink
        parallelism = self.parallelism if self.parallelism is not None else graph.nodes[node].parallelism
        added = graph.add(
            Node(0, self.name, "sink", lambda: WriterSink(sink), parallelism=parallelism, description=self.name),
            Edge(node, 0, side=side),
        )
        return added.id


# -- what a connector is told --------------------------------------------------------------------------------------


def _identifier(path: tuple[str, ...], options: Mapping[str, str], direction: str) -> str:
    found = options.get("connector")
    if found is None:
        raise ValidationException(
            f"{_unable(path, direction)}\n\nTable options do not contain an option key 'connector' for discovering a "
            "connector."
        )
    return found


def _unable(path: tuple[str, ...], direction: str) -> str:
    return f"Unable to create a {direction} table '{'.'.join(path)}'."


def _options_text(options: Mapping[str, str]) -> str:
    hidden = ("password", "secret", "token", "sasl.jaas.config")
    return "\n".join(
        f"'{k}'='{'******' if any(h in k.lower() for h in hidden) else v}'" for k, v in sorted(options.items())
    )


def table_context(
    session: TableHostSession, path: tuple[str, ...], table: CatalogTable, options: Mapping[str, str]
) -> TableContext:
    """The table as its connector sees it."""
    columns = []
    key = table.schema.primary_key
    for c in table.schema.columns:
        match c:
            case PhysicalColumn():
                in_key = key is not None and c.name in key.columns
                columns.append(TableColumn(c.name, c.type.not_null() if in_key else c.type))
            case MetadataColumn():
                columns.append(TableColumn(c.name, c.type, c.key or c.name, c.virtual))
            case ComputedColumn():
                pass
    return TableContext(
        path,
        tuple(columns),
        {**table.options, **options},
        () if key is None else key.columns,
        table.partition_keys,
        session.config.get_local_timezone(),
    )


# -- reading -------------------------------------------------------------------------------------------------------


def _timing(session: TableHostSession, options: Mapping[str, str]) -> Timing:
    strategy = options.get("scan.watermark.emit.strategy", "on-periodic").lower()
    if strategy not in ("on-event", "on-periodic"):
        raise ValidationException(
            f"Invalid value for option 'scan.watermark.emit.strategy': {strategy!r}; one of on-event, on-periodic"
        )
    gap = options.get("scan.watermark.emit.on-event.gap", "1")
    if gap.strip() != "1":
        raise ValidationException(
            f"'scan.watermark.emit.on-event.gap' is {gap!r}: with 'on-event' a watermark follows each record that "
            "advances it; use 'on-periodic' for fewer"
        )
    idle = options.get("scan.watermark.idle-timeout")
    configured = session.config.value("table.exec.source.idle-timeout") or 0
    interval = session.config.value("pipeline.auto-watermark-interval")
    return Timing(
        strategy == "on-event",
        200 if interval is None else interval,
        configured if idle is None else to_millis(idle, "option 'scan.watermark.idle-timeout'"),
        alignment=_alignment(options),
    )


def _alignment(options: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Group, largest drift and interval of watermark alignment."""
    prefix = "scan.watermark.alignment"
    group, drift = options.get(f"{prefix}.group"), options.get(f"{prefix}.max-drift")
    if group is None and drift is None:
        return None
    if group is None or drift is None:
        there, missing = ("group", "max-drift") if drift is None else ("max-drift", "group")
        raise ValidationException(f"'{prefix}.{there}' is set, and '{prefix}.{missing}' is not: alignment needs both")
    interval = options.get(f"{prefix}.update-interval", "1 s")
    return (
        group,
        to_millis(drift, f"option '{prefix}.max-drift'"),
        to_millis(interval, f"option '{prefix}.update-interval'"),
    )


def connector_shape(session: TableHostSession, table: CatalogTable) -> Shape:
    """The schema of a table, without its connector being asked: types, time attributes and key are checked.

    Raises:
        ValidationException: an expression, watermark or key that does not fit.
    """
    columns = columns_of(table.schema, lambda _: ("r", None))
    timing = _timing(session, {})
    return build_shape(columns, table.schema, session, namespace={}, timing=timing, not_null_key=True)


def scan_of(session: TableHostSession, path: tuple[str, ...], table: CatalogTable, options: Mapping[str, str]) -> Scan:
    """The scan of a table, over what its connector makes of the options.

    Raises:
        ValidationException: there is no such connector, or its options do not fit.
    """
    context = table_context(session, path, table, options)
    # The same table with the same options is the same source, which a job reads once.
    key = (path, id(table), tuple(sorted(context.options.items())), context.time_zone)
    known = session.scans.get(key)
    if known is None:
        try:
            factory = connector(_identifier(path, context.options, "source for reading"))
            known = session.scans[key] = (table, factory.scan(context, [c.name for c in context.columns]))
        except ValidationException as e:
            raise _explained(e, path, context.options, "source for reading") from e
    found = known[1]
    return Scan(path, _row_shape(session, path, table, context, found).row, _source_node(path, found), found.lookup)


def _source_node(path: tuple[str, ...], found: TableScan) -> SourceNode:
    return SourceNode(found.source, f"Source: {path[-1]}", found.parallelism)


def _row_shape(
    session: TableHostSession, path: tuple[str, ...], table: CatalogTable, context: TableContext, found: TableScan
) -> Shape:
    def source_of(column: PhysicalColumn | MetadataColumn) -> tuple[str, str | None]:
        source = found.columns.get(column.name)
        if source is None:
            raise TableException(f"connector '{context.options['connector']}' says not how to read {column.name}")
        return source, None

    return build_shape(
        columns_of(table.schema, source_of),
        table.schema,
        session,
        namespace=found.namespace,
        timing=_timing(session, context.options),
        changelog=found.changelog,
        not_null_key=True,
    )


def _explained(
    error: ValidationException, path: tuple[str, ...], options: Mapping[str, str], direction: str
) -> ValidationException:
    if str(error).startswith("Unable to create"):
        return error
    text = f"{_unable(path, direction)}\n\nTable options are:\n\n{_options_text(options)}\n\n{error}"
    made = ValidationException(text)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


# -- writing -------------------------------------------------------------------------------------------------------


def sink_of(
    session: TableHostSession, path: tuple[str, ...], table: CatalogTable, options: Mapping[str, str]
) -> tuple[TableContext, TableSink]:
    """How a table is written.

    Raises:
        ValidationException: there is no such connector, or its options do not fit.
    """
    context = table_context(session, path, table, options)
    try:
        return context, connector(_identifier(path, context.options, "sink for writing")).sink(context)
    except ValidationException as e:
        raise _explained(e, path, context.options, "sink for writing") from e
