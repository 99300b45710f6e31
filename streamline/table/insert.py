"""INSERT: a query on its way into a table over a connector."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot.expressions as exp

from streamline._core.types import DataType, Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.catalog import CatalogTable
from streamline.table.catalog_manager import Found, dotted
from streamline.table.expr.nodes import Expr, Literal
from streamline.table.expr.registry import bind_call, cast
from streamline.table.logical import OutputShape, Rel, Sink
from streamline.table.outputs import fit_columns, single_rowtime
from streamline.table.parse.statements import MetadataColumn, Partition, PhysicalColumn
from streamline.table.schema import quoted
from streamline.table.session import TableSession
from streamline.table.sources import SinkNode, sink_of
from streamline.table.table_scope import Names, TableScope

__all__ = ("InsertTarget", "insert_sink")


@dataclass(frozen=True)
class InsertTarget:
    """What INSERT says about its table.

    Attributes:
        columns: the columns that the query gives, empty: all.
        partition: columns with constants, of the static partition.
        overwrite: INSERT OVERWRITE.
        on_conflict: DEDUPLICATE, ERROR, NOTHING or None.
        options: of a hint.
    """

    columns: Sequence[tuple[str, ...]] = ()
    partition: Partition = ()
    overwrite: bool = False
    on_conflict: str | None = None
    options: Mapping[str, str] | None = None


def insert_sink(session: TableSession, found: Found, rel: Rel, target: InsertTarget) -> Sink:
    """The plan that writes a query into a table.

    Raises:
        ValidationException: the object is no table, its connector takes no rows, or the columns do not fit.
        TableException: several event-time columns, or OVERWRITE of a table that cannot be overwritten.
    """
    if not isinstance(found.object, CatalogTable):
        raise TableException(
            f"Cannot find a table sink for '{dotted(found.path)}': it is a view, and rows can only be written into "
            "tables."
        )
    name = dotted(found.path)
    session.check_hint(target.options)
    context, sink = sink_of(session, found.path, found.object, target.options or {})
    if target.overwrite and not getattr(sink.sink, "supports_overwrite", False):
        raise ValidationException(
            f"INSERT OVERWRITE requires that the underlying table sink of table '{name}' supports overwriting, which "
            f"connector '{context.options['connector']}' does not."
        )
    fields = [Field(c.name, c.type) for c in context.columns if not c.virtual]
    rel = _arranged(session, rel, found.object, fields, target, name)
    timestamp = single_rowtime(rel, name)
    enforcer = str(session.config.value("table.exec.sink.type-length-enforcer") or "IGNORE")
    fitted = fit_columns(rel, fields, name, exact_text=enforcer == "TRIM_PAD")
    nullable = [i for i, (f, x) in enumerate(zip(fields, fitted.schema.types)) if x.nullable and not f.type.nullable]
    if nullable and str(session.config.value("table.exec.sink.not-null-enforcer")) == "DROP":
        fitted = build.filter_(fitted, _all_not_null(fitted, nullable))
        nullable = []
    checks: dict[int, list[Callable[[Any], Any]]] = {i: [_not_null(fields[i].name)] for i in nullable}
    if enforcer == "ERROR":
        for i, f in enumerate(fields):
            if f.type.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
                checks.setdefault(i, []).append(_length(f))
    stamp = timestamp if timestamp is not None and fitted.schema[timestamp].type.is_rowtime else None
    if session.config.value("table.exec.sink.rowtime-inserter") == "DISABLED":
        stamp = None
    shape = _shape(sink.template, dict(sink.namespace), checks, len(fields), stamp)
    key = tuple(i for i, f in enumerate(fields) if f.name in context.primary_key)
    return Sink(
        fitted,
        name,
        shape,
        SinkNode(sink.sink, f"Sink: {found.path[-1]}", sink.parallelism),
        sink.changelog,
        key,
        target.on_conflict,
    )


def _shape(
    template: str,
    namespace: dict[str, Any],
    checks: Mapping[int, Sequence[Callable[[Any], Any]]],
    width: int,
    timestamp: int | None,
) -> OutputShape:
    if checks:
        sources = [f"{{{i}}}" for i in range(width)]
        for i, found in checks.items():
            for check in found:
                name = f"check_{len(namespace)}"
                namespace[name] = check
                sources[i] = f"{name}({sources[i]})"
        template = _filled(template or f"({', '.join(f'{{{i}}}' for i in range(width))},)", sources)
    return OutputShape(template, tuple(namespace.items()), None, True, timestamp)


def _filled(template: str, sources: Sequence[str]) -> str:
    """The template with other sources in the places of its values."""
    parts = []
    for text, field, _, _ in string.Formatter().parse(template):
        parts.append(text.replace("{", "{{").replace("}", "}}"))
        if field is not None:
            parts.append(sources[int(field)] if field.isdigit() else f"{{{field}}}")
    return "".join(parts)


# -- columns -------------------------------------------------------------------------------------------------------


def _arranged(
    session: TableSession,
    rel: Rel,
    table: CatalogTable,
    fields: Sequence[Field],
    target: InsertTarget,
    name: str,
) -> Rel:
    """The query with a column for each of the table's, in the table's order."""
    if not target.columns and not target.partition:
        return rel
    known = [f.name for f in fields]
    constants: dict[str, Expr] = {}
    for column, value in target.partition:
        if column not in table.partition_keys:
            raise ValidationException(
                f"Partition column '{column}' not found in the partition columns "
                f"[{', '.join(table.partition_keys)}] of table '{name}'."
            )
        if value is not None:
            constants[column] = _constant(session, value, fields[known.index(column)].type)
    given = [c for c in known if c not in constants]
    if target.columns:
        given = []
        for path in target.columns:
            column = ".".join(path)
            if column not in known:
                raise ValidationException(_unknown(column, table, known, name))
            if column in given or column in constants:
                raise ValidationException(f"Target column '{column}' is assigned more than once")
            given.append(column)
    if len(given) != len(rel.schema):
        raise ValidationException(
            f"Number of INSERT target columns ({len(given)}) does not equal number of source items ({len(rel.schema)}) "
            f"for table '{name}'"
        )
    exprs: list[Expr] = []
    for f in fields:
        if f.name in constants:
            exprs.append(constants[f.name])
        elif f.name in given:
            exprs.append(rel.schema.ref(given.index(f.name)))
        elif f.type.nullable:
            exprs.append(Literal(None, f.type))
        else:
            raise ValidationException(
                f"Column '{f.name}' has no default value and does not allow NULLs; name it among the columns of INSERT"
            )
    return build.project(rel, exprs, known)


def _unknown(column: str, table: CatalogTable, known: Sequence[str], name: str) -> str:
    for c in table.schema.columns:
        if c.name == column:
            kind = "a computed column" if not isinstance(c, (PhysicalColumn, MetadataColumn)) else "a virtual column"
            return f"Column '{column}' of table '{name}' is {kind}; it cannot be written"
    return f"Unknown target column '{column}'; the columns of table '{name}' are {', '.join(map(quoted, known))}"


def _constant(session: TableSession, value: exp.Expression, wanted: DataType) -> Expr:
    scope = TableScope(Names(build.values([[Literal(0, wanted)]]).schema), session, clause="PARTITION")
    return cast(scope.bind(value), wanted)


# -- what a table holds its rows to --------------------------------------------------------------------------------


def _all_not_null(rel: Rel, columns: Sequence[int]) -> Expr:
    tests = [bind_call("IS NOT NULL", (rel.schema.ref(i),)) for i in columns]
    condition = tests[0]
    for test in tests[1:]:
        condition = bind_call("AND", (condition, test))
    return condition


def _not_null(column: str) -> Callable[[Any], Any]:
    def not_null(value: Any) -> Any:
        if value is None:
            raise TableException(
                f"Column '{column}' is NOT NULL, however, a null value is being written into it. You can set job "
                "configuration 'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop such "
                "records silently."
            )
        return value

    return not_null


def _length(field: Field) -> Callable[[Any], Any]:
    exact = field.type.root in ("CHAR", "BINARY")
    most = field.type.length

    def fits(value: Any) -> Any:
        if value is not None and (len(value) > most or (exact and len(value) < most)):
            raise TableException(
                f"Column '{field.name}' is {field.type.null().summary(True)}, however, a value of length {len(value)} "
                "is being written into it. You can set job configuration 'table.exec.sink.type-length-enforcer' to "
                "control this behaviour."
            )
        return value

    return fits
