"""`from_data_stream(stream, *fields)`: fields as expressions that select, order, rename and compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.typeinfo import element_text
from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.conversions import Inward
from streamline.table.expr.nodes import Expr
from streamline.table.expression import Expression
from streamline.table.logical import Scan
from streamline.table.parse.statements import SqlExpression, Watermark
from streamline.table.schema import ResolvedSchema, Schema
from streamline.table.selection import alias_names, as_expressions, name_of_item, unaliased
from streamline.table.shapes import TIMESTAMP_SOURCE, Column, Element, Timing, build_shape
from streamline.table.table_scope import Names, TableScope, names_of

if TYPE_CHECKING:
    from streamline.table.bridge import DataStream, StreamHost
    from streamline.table.stream_environment import StreamTableEnvironment
    from streamline.table.table import Table

__all__ = ("fields_table",)


class _Field:
    """A field as written: its expression, its name, and whether it is a time attribute."""

    def __init__(self, expression: Expression) -> None:
        node = unaliased(expression.ast)
        names = alias_names(expression.ast)
        self.text = expression.text
        self.time: str | None = None
        if isinstance(node, exp.Anonymous) and node.name in ("$ROWTIME", "$PROCTIME"):
            self.time = node.name[1:].lower()
            node = unaliased(node.expressions[0])
        self.node = node
        self.reference = node.name if isinstance(node, exp.Column) and not node.table else None
        self.name = names[0] if names else None


def fields_table(
    env: StreamTableEnvironment,
    host: StreamHost,
    stream: DataStream[Any],
    element: Element,
    given: Sequence[Any],
    path: tuple[str, ...],
) -> Table:
    """The table of a stream's fields.

    Raises:
        ValidationException: a field that the elements do not have, or event time of a stream without timestamps.
    """
    fields = [_Field(e) for e in as_expressions(given)]
    plain = [f for f in fields if f.time is None]
    by_name = element.named or any(f.reference in element.names for f in plain)
    for f in fields:
        if f.time == "rowtime" and stream.event_time == "no":
            raise ValidationException(
                f"{f.text}: the records of the stream carry no timestamps; call assign_timestamps_and_watermarks(...) "
                "on it first"
            )
    if by_name:
        return _by_name(env, host, stream, element, fields, path)
    return _by_position(env, host, stream, element, fields, path)


def _time_column(field: _Field, session: Any) -> Column:
    name = field.name or field.reference or ""
    if field.time == "rowtime":
        return Column(name, t.timestamp(3), TIMESTAMP_SOURCE, "t")
    call = exp.Anonymous(this="PROCTIME", expressions=[])
    return Column(name, t.NULL, computed=call)


def _scan(
    env: StreamTableEnvironment,
    host: StreamHost,
    stream: DataStream[Any],
    columns: Sequence[Column],
    inward: Inward,
    path: tuple[str, ...],
    element: Any,
    rowtime: str | None,
) -> tuple[Scan, ResolvedSchema]:
    watermarks: tuple[Watermark, ...] = ()
    if rowtime is not None:
        tree = exp.Anonymous(this="SOURCE_WATERMARK", expressions=[])
        watermarks = (Watermark((rowtime,), SqlExpression(tree, "SOURCE_WATERMARK()")),)
    shape = build_shape(
        columns,
        Schema(watermarks=watermarks),
        env.session,
        namespace=inward.namespace,
        timing=Timing(),
        element=element,
    )
    return Scan(path, shape.row, host.source(stream)), ResolvedSchema(shape.resolved.columns)


def _by_position(
    env: StreamTableEnvironment,
    host: StreamHost,
    stream: DataStream[Any],
    element: Element,
    fields: Sequence[_Field],
    path: tuple[str, ...],
) -> Table:
    plain = [f for f in fields if f.time is None]
    if len(plain) > len(element.fields):
        raise ValidationException(
            f"{len(plain)} fields ({', '.join(f.text for f in plain)}) for elements of {len(element.fields)} "
            f"({element_text(element.spec)})"
        )
    inward = Inward()
    columns: list[Column] = []
    position = 0
    rowtime = None
    for f in fields:
        if f.time is not None:
            columns.append(_time_column(f, env.session))
            rowtime = columns[-1].name if f.time == "rowtime" else rowtime
            # A time attribute in the place of a field stands for it; behind the last one it is added.
            if position < len(element.fields) and len(fields) <= len(element.fields):
                position += 1
            continue
        if f.reference is None:
            raise ValidationException(
                f"{f.text}: the elements ({element_text(element.spec)}) have no field names, so fields rename them by "
                "position; name them first, then select(...)"
            )
        derived = element.fields[position].type
        source = inward.source(element.access(position), derived, derived, f.name or f.reference)
        columns.append(Column(f.name or f.reference, derived, source))
        position += 1
    whole = len(plain) == len(element.fields) == len(fields)
    rel, resolved = _scan(env, host, stream, columns, inward, path, element.marker if whole else None, rowtime)
    return _table(env, rel, resolved, path)


def _by_name(
    env: StreamTableEnvironment,
    host: StreamHost,
    stream: DataStream[Any],
    element: Element,
    fields: Sequence[_Field],
    path: tuple[str, ...],
) -> Table:
    """The fields are a projection of all fields of the elements, and of time attributes."""
    inward = Inward()
    columns: list[Column] = []
    rowtime = None
    times = {(f.name or f.reference): f for f in fields if f.time is not None}
    for i, f in enumerate(element.fields):
        if f.name not in times:
            source = inward.source(element.access(i), f.type, f.type, f.name)
            columns.append(Column(f.name, f.type, source))
    for name, field in times.items():
        if not name:
            raise ValidationException(f"{field.text}: a time attribute has to be named by a single column")
        columns.append(_time_column(field, env.session))
        rowtime = name if field.time == "rowtime" else rowtime
    rel, _ = _scan(env, host, stream, columns, inward, path, None if times else element.marker, rowtime)
    scope = TableScope(Names(rel.schema), env.session, clause="from_data_stream")
    exprs: list[Expr] = []
    names: list[str] = []
    for i, field in enumerate(fields):
        if field.time is not None:
            name = field.name or field.reference or ""
            exprs.append(rel.schema.ref(rel.schema.names.index(name)))
        else:
            exprs.append(scope.bind(field.node))
            name = field.name or name_of_item(field.node) or f"_c{i}"
        names.append(name)
    projected = build.project(rel, exprs, names)
    return _table(env, projected, ResolvedSchema.of(projected.schema), path)


def _table(env: Any, rel: Any, resolved: ResolvedSchema, path: tuple[str, ...]) -> Table:
    made: Table = env.make_table(rel, names_of(rel, path[-1] if not path[-1].startswith("*") else None), resolved)
    return made
