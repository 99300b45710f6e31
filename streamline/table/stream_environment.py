"""StreamTableEnvironment: a table environment over a stream environment, with the conversions between both."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.changes import Change, ChangelogMode, Row
from streamline._core.config import Configuration
from streamline._core.typeinfo import Types, element_text
from streamline._core.types import DataType, Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.bridge import DataStream, StreamExecutionEnvironment, StreamHost
from streamline.table.catalog import QueryView
from streamline.table.environment import TableEnvironment, settings_of
from streamline.table.field_forms import fields_table
from streamline.table.logical import OutputShape, Rel, Scan, Sink
from streamline.table.outputs import (
    element_output,
    fit_columns,
    retract_shape,
    row_shape,
    single_rowtime,
    to_element,
)
from streamline.table.parse import parse_path
from streamline.table.parse.statements import ComputedColumn, MetadataColumn
from streamline.table.schema import ResolvedSchema, Schema
from streamline.table.settings import EnvironmentSettings
from streamline.table.shapes import Element, Timing, element_of, marker, stream_shape
from streamline.table.statement_set import StreamStatementSet
from streamline.table.table import Table
from streamline.table.table_scope import Names, names_of
from streamline.table.upsert import check_upsert

__all__ = ("StreamTableEnvironment",)

T = TypeVar("T")


class StreamTableEnvironment(TableEnvironment):
    """Tables over the streams of one stream environment; both make one graph.

    A conversion adds no task and copies no record: table operators read the stream's own objects, and what leaves a
    table is built by its last operator. Errors come from the conversion's line.
    """

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | Configuration | None = None,
    ) -> StreamTableEnvironment:
        """An environment over a stream environment.

        Args:
            stream_execution_environment: whose streams are used; None: a new one.
            environment_settings: settings, or only options; None: streaming mode.
        """
        env = stream_execution_environment
        if env is None:
            env = StreamExecutionEnvironment.get_execution_environment()
        if not isinstance(env, StreamExecutionEnvironment):
            raise ValidationException(f"a StreamExecutionEnvironment is needed, not {type(env).__name__}")
        return StreamTableEnvironment(StreamHost(env), settings_of(environment_settings))

    def get_stream_execution_environment(self) -> StreamExecutionEnvironment:
        """The stream environment."""
        return self._host.env

    def create_statement_set(self) -> StreamStatementSet:
        """Inserts that run as one job, or as part of the stream environment's."""
        return StreamStatementSet(self)

    # -- streams in ----------------------------------------------------------------------------------------------

    def from_data_stream(self, data_stream: DataStream[Any], *fields_or_schema: Any) -> Table:
        """A table of the records of a stream, all of them inserts.

        Args:
            data_stream: of this environment's stream environment.
            fields_or_schema: nothing: a column for each field; a `Schema`; or fields as expressions, which select,
                order and rename (`col("id")`, `col("name").alias("n")`, `col("ts").rowtime`, `col("pt").proctime`).

        Raises:
            ValidationException: the element type is not known, or the schema or the fields do not fit it.
        """
        return self._from_stream(data_stream, fields_or_schema, "from_data_stream", None)

    def _from_stream(
        self, data_stream: Any, how: Sequence[Any], method: str, path: tuple[str, ...] | None, depth: int = 4
    ) -> Table:
        stream = self._host.check(data_stream, method)
        name = path or (self._execution.anonymous("datastream_source"),)
        element = element_of(stream.element_type(), f"{method}: the element type of the stream")
        if len(how) == 1 and (isinstance(how[0], Schema) or how[0] is None):
            schema = how[0]
        elif how:
            return fields_table(self, self._host, stream, element, how, name)
        else:
            schema = None
        timing = self._timing(stream, method, schema)
        shape = stream_shape(element, schema, self._session, timing, table=".".join(name))
        self._warn_of_two(stream, schema, depth)
        rel = Scan(name, shape.row, self._host.source(stream))
        return Table(self, rel, names_of(rel, path[-1] if path else None), shape.resolved)

    def _timing(self, stream: DataStream[Any], method: str, schema: Schema | None) -> Timing:
        interval = self._config.value("pipeline.auto-watermark-interval")
        refused = None
        if stream.event_time == "no":
            refused = (
                f"{method}: SOURCE_WATERMARK() takes over the watermarks of the stream, but the stream has none; call "
                "assign_timestamps_and_watermarks(...) on it first, or declare a watermark over a column"
            )
        on_event = False
        idle = self._config.value("table.exec.source.idle-timeout") or 0
        return Timing(on_event, 200 if interval is None else interval, idle, refused)

    def _warn_of_two(self, stream: DataStream[Any], schema: Schema | None, depth: int) -> None:
        if schema is None or not schema.watermarks:
            return
        declared = schema.watermarks[0]
        tree = declared.expression.ast
        if isinstance(tree, exp.Anonymous) and tree.name.upper() == "SOURCE_WATERMARK":
            return
        strategy = self._host.strategies(stream)
        if strategy is not None:
            warnings.warn(
                f"two watermark strategies: the stream has {strategy}, and the Schema declares "
                f"{'.'.join(declared.column)} AS {declared.expression.text}, which counts in the table; "
                "SOURCE_WATERMARK() takes over the stream's",
                UserWarning,
                stacklevel=depth,
            )

    def from_changelog_stream(
        self, data_stream: DataStream[Any], schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """A table of the changes of a stream of Rows with kinds.

        Args:
            data_stream: a stream of Rows.
            schema: columns and primary key; None: derived from the type of the Rows.
            changelog_mode: which kinds come; None: all. Without -U a primary key is needed.

        Raises:
            ValidationException: the elements are no Rows, or the schema does not fit them.
            TableException: an upsert changelog without a primary key.
        """
        stream = self._host.check(data_stream, "from_changelog_stream")
        name = (self._execution.anonymous("datastream_source"),)
        element = element_of(stream.element_type(), "from_changelog_stream: the element type of the stream")
        if element.kind != "row":
            raise ValidationException(
                "from_changelog_stream takes a stream of Row, which carry the kind of a change, but its elements are "
                f"{element_text(element.spec)}; use from_data_stream, or map them to Row.of_kind(kind, ...)"
            )
        mode = ChangelogMode.all() if changelog_mode is None else changelog_mode
        timing = self._timing(stream, "from_changelog_stream", schema)
        shape = stream_shape(element, schema, self._session, timing, changelog=mode, table=name[0])
        self._warn_of_two(stream, schema, 3)
        return Table(self, Scan(name, shape.row, self._host.source(stream)), None, shape.resolved)

    def create_temporary_view(self, view_path: str, values_or_table: Any, *how: Any) -> None:
        """Register a table, or a stream as a table, under a name.

        Args:
            view_path: the name.
            values_or_table: a Table, or a DataStream.
            how: for a stream what `from_data_stream` takes.

        Raises:
            ValidationException: the name is taken by another temporary object, or what `from_data_stream` raises.
        """
        if not isinstance(values_or_table, DataStream):
            super().create_temporary_view(view_path, values_or_table)
            return
        path = self._catalogs.qualify(parse_path(view_path))
        table = self._from_stream(values_or_table, how, "create_temporary_view", path)
        self._catalogs.create(path, QueryView(table), temporary=True)

    # -- streams out ---------------------------------------------------------------------------------------------

    @overload
    def to_data_stream(self, table: Table, target: None = None) -> DataStream[Row]: ...
    @overload
    def to_data_stream(self, table: Table, target: type[T]) -> DataStream[T]: ...
    @overload
    def to_data_stream(self, table: Table, target: Any) -> DataStream[Any]: ...
    def to_data_stream(self, table: Table, target: Any = None) -> DataStream[Any]:
        """The rows of an insert-only table as a stream.

        The only event-time column, if there is one, becomes the records' timestamps, with its watermarks.

        Args:
            table: of this environment.
            target: None: Rows. A class (Struct, dataclass, NamedTuple, TypedDict), type information or a data type:
                columns become its fields by name where any name agrees, else by position.

        Raises:
            TableException: the table has updates, or several event-time columns.
            ValidationException: its columns do not fit the target.
        """
        rel = self._own(table, "to_data_stream")
        name = self._execution.anonymous("datastream_sink")
        timestamp = single_rowtime(rel, name)
        if target is None or target is Row:
            fitted, element_type = rel, _row_type(rel)
            shape = _with_rows(row_shape(rel, timestamp), rel)
        else:
            element = self._element(target, rel)
            fitted, timestamp = self._fit(rel, element, name)
            shape, element_type = element_output(fitted, element, timestamp), target
        asked = "table" if target is None else f"table, {element_text(target)}"
        remedies = (
            f"Use to_changelog_stream({asked}), or make the query insert-only, e.g. by grouping by a window "
            "(window_start and window_end of TUMBLE, HOP or CUMULATE)."
        )
        sink = Sink(fitted, name, shape, None, ChangelogMode.insert_only(), remedies=remedies)
        return self._spliced(sink, element_type, f"to_data_stream({_source_of(rel)})")

    @overload
    def to_changelog_stream(  # type: ignore[overload-overlap]  # Row is a class, and is not wrapped
        self, table: Table, target_schema: Schema | type[Row] | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream[Row]: ...
    @overload
    def to_changelog_stream(
        self, table: Table, target_schema: type[T], changelog_mode: ChangelogMode | None = None
    ) -> DataStream[Change[T]]: ...
    def to_changelog_stream(
        self,
        table: Table,
        target_schema: Schema | type[Any] | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> DataStream[Any]:
        """The changes of a table as a stream.

        Args:
            table: of this environment.
            target_schema: None: Rows with their kind. A `Schema`: Rows of the declared types; its metadata column
                `rowtime` takes the event-time column. A class: `Change(kind, value)` with a value of the class.
            changelog_mode: which kinds are wanted; None: all. Upsert mode needs a key.

        Raises:
            TableException: the table has changes that the mode does not have.
            ValidationException: its columns do not fit.
        """
        rel = self._own(table, "to_changelog_stream")
        name = self._execution.anonymous("datastream_sink")
        mode = ChangelogMode.all() if changelog_mode is None else changelog_mode
        key: tuple[int, ...] = ()
        element_type: Any
        timestamp = single_rowtime(rel, name)
        if target_schema is None or target_schema is Row:
            fitted, element_type = rel, _row_type(rel)
            shape = _with_rows(row_shape(rel, timestamp), rel)
        elif isinstance(target_schema, Schema):
            fitted, timestamp, columns, key = self._declared(rel, target_schema, name)
            shape, element_type = row_shape(fitted, timestamp, columns), _row_type(fitted, columns)
        else:
            element = self._element(target_schema, rel)
            fitted, timestamp = self._fit(rel, element, name)
            shape = element_output(fitted, element, timestamp, change=True)
            element_type = Change[target_schema]  # type: ignore[valid-type]
        if not mode.is_insert_only and mode == ChangelogMode.upsert():
            check_upsert(self._execution.settings(), fitted, key)
        sink = Sink(fitted, name, shape, None, mode, key)
        return self._spliced(sink, element_type, f"to_changelog_stream({_source_of(rel)})")

    def to_append_stream(self, table: Table, type_info: Any) -> DataStream[Any]:
        """The rows of an insert-only table. Deprecated: `to_data_stream(table, target)`."""
        _deprecated("to_append_stream(table, type)", "to_data_stream(table, type)")
        rel = self._own(table, "to_append_stream")
        name = self._execution.anonymous("datastream_sink")
        element = self._element(type_info, rel)
        fitted, timestamp = self._fit(rel, element, name)
        shape = element_output(fitted, element, timestamp)
        sink = Sink(fitted, name, shape, None, ChangelogMode.insert_only(), remedies="Use to_changelog_stream(table).")
        try:
            return self._spliced(sink, type_info, f"to_append_stream({_source_of(rel)})")
        except TableException as e:
            raise TableException(str(e).replace(f"Table sink '{name}'", "toAppendStream")) from None

    def to_retract_stream(self, table: Table, type_info: Any) -> DataStream[Any]:
        """Pairs of True and an added row, of False and a row taken back. Deprecated: `to_changelog_stream(table)`."""
        _deprecated("to_retract_stream(table, type)", "to_changelog_stream(table)")
        rel = self._own(table, "to_retract_stream")
        name = self._execution.anonymous("datastream_sink")
        element = self._element(type_info, rel)
        fitted, timestamp = self._fit(rel, element, name)
        sink = Sink(fitted, name, retract_shape(fitted, element, timestamp), None, ChangelogMode.all())
        pair = Types.TUPLE([Types.BOOLEAN(), type_info])
        return self._spliced(sink, pair, f"to_retract_stream({_source_of(rel)})")

    def make_table(self, rel: Rel, names: Names, resolved: ResolvedSchema) -> Table:
        """A table of this environment."""
        return Table(self, rel, names, resolved)

    # -- what they have in common --------------------------------------------------------------------------------

    def _own(self, table: Any, method: str) -> Rel:
        if not isinstance(table, Table):
            raise ValidationException(f"{method} takes a Table, not {type(table).__name__}")
        if table.host is not self:
            raise ValidationException(f"{method}: the table belongs to another TableEnvironment")
        return table.rel

    def _element(self, target: Any, rel: Rel) -> Element:
        if target is tuple or target is dict:
            kind = "tuple" if target is tuple else "dict"
            fields = tuple(Field(f.name, f.type.materialized()) for f in rel.schema)
            return Element(
                kind, fields, kind == "dict", dict if kind == "dict" else marker("tuple", len(fields)), target
            )
        return element_of(target, "the target type")

    def _fit(self, rel: Rel, element: Element, name: str) -> tuple[Rel, int | None]:
        """The query fitted to an element, and the position of its event time."""
        single_rowtime(rel, name)
        fitted = to_element(rel, element, name)
        return fitted, single_rowtime(fitted, name)

    def _declared(self, rel: Rel, schema: Schema, name: str) -> tuple[Rel, int | None, Sequence[int], tuple[int, ...]]:
        """The query fitted to a schema: its plan, its event time, the columns that leave, the primary key."""
        for c in schema.columns:
            if isinstance(c, ComputedColumn):
                raise ValidationException(f"column {c.name} is computed; the schema of a sink has no computed columns")
            if isinstance(c, MetadataColumn) and (c.key or c.name) != "rowtime":
                raise ValidationException(
                    f"Invalid metadata key '{c.key or c.name}' in column '{c.name}' of table '{name}'. A data stream "
                    "supports the following metadata keys for writing: rowtime"
                )
        timestamp = single_rowtime(rel, name)
        columns = list(range(len(rel.schema)))
        if any(isinstance(c, MetadataColumn) for c in schema.columns):
            if timestamp is None:
                raise ValidationException(
                    f"the metadata column rowtime of table '{name}' takes an event-time column, and the query has none"
                )
            columns.remove(timestamp)
        if not schema.physical:
            return rel, timestamp, columns, _key_of(schema, rel)
        fields = [Field(c.name, c.type) for c in schema.physical]
        if len(columns) == len(rel.schema):
            fitted = fit_columns(rel, fields, name)
            return fitted, single_rowtime(fitted, name), range(len(fields)), _key_of(schema, fitted)
        assert timestamp is not None
        order = [*columns, timestamp]
        moved = build.project(rel, [rel.schema.ref(i) for i in order], [rel.schema.names[i] for i in order])
        fitted = fit_columns(moved, [*fields, rel.schema[timestamp]], name)
        return fitted, len(fields), range(len(fields)), _key_of(schema, fitted)

    def _spliced(self, sink: Sink, element_type: Any, what: str) -> DataStream[Any]:
        (attached,), before = self._execution.translate([sink], what)
        return self._host.stream(attached, element_type, what, before)


def _with_rows(shape: OutputShape, rel: Rel) -> OutputShape:
    """Rows leave as they came in where nothing has changed them."""
    names = rel.schema.names
    element = marker("row", names, len(names))
    return replace(shape, element=element)


def _row_type(rel: Rel, columns: Sequence[int] | None = None) -> DataType:
    """The type of the Rows that leave."""
    fields = rel.schema.fields if columns is None else [rel.schema[i] for i in columns]
    return t.row(*(Field(f.name, f.type.materialized()) for f in fields))


def _key_of(schema: Schema, fitted: Rel) -> tuple[int, ...]:
    key = schema.primary_key
    if key is None:
        return ()
    names = fitted.schema.names
    declared = {c.name: c for c in schema.physical}
    for c in key.columns:
        if c not in names:
            raise ValidationException(f"Invalid primary key '{key.name}'. Column '{c}' does not exist.")
        if c in declared and declared[c].type.nullable:
            raise ValidationException(f"Invalid primary key '{key.name}'. Column '{c}' is nullable.")
    return tuple(names.index(c) for c in key.columns)


def _source_of(rel: Rel) -> str:
    """What a table is made of, for messages."""
    while rel.inputs:
        rel = rel.inputs[0]
    return ".".join(rel.name) if isinstance(rel, Scan) else "values"


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=3)
