"""Definitions of tables and views as text: SHOW CREATE, DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable

from streamline._core import types as t
from streamline._core.types import Field
from streamline.errors import TableException
from streamline.table.catalog import CatalogTable, CatalogView, QueryView
from streamline.table.catalog_manager import Found, dotted, quoted_path
from streamline.table.parse.statements import Distribution
from streamline.table.result import TableResult, rows_result
from streamline.table.schema import ResolvedSchema, column_type_text, quoted
from streamline.table.session import TableSession

__all__ = ("describe_rows", "show_create_table", "show_create_view")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def describe_rows(schema: ResolvedSchema, wanted: Callable[[str], bool] | None = None) -> TableResult:
    """The columns of a table as DESCRIBE lists them."""
    watermarks = {w.column: w.expression for w in schema.watermarks}
    key = schema.primary_key.columns if schema.primary_key is not None else ()
    with_comments = any(c.comment for c in schema.columns)
    rows = []
    for c in schema.columns:
        if wanted is not None and not wanted(c.name):
            continue
        row: list[object] = [
            c.name,
            column_type_text(c.type.null()),
            c.type.nullable,
            f"PRI({', '.join(key)})" if c.name in key else None,
            c.extras,
            watermarks.get(c.name),
        ]
        rows.append([*row, c.comment] if with_comments else row)
    names = ("name", "type", "null", "key", "extras", "watermark", *(("comment",) if with_comments else ()))
    return rows_result([Field(n, t.BOOLEAN if n == "null" else t.STRING) for n in names], rows, width=64)


def show_create_table(session: TableSession, found: Found) -> str:
    """The statement that makes a table.

    Raises:
        TableException: it is a view.
    """
    table = found.object
    if not isinstance(table, CatalogTable):
        raise TableException(
            f"SHOW CREATE TABLE is only supported for tables, but {dotted(found.path)} is a view. Please use SHOW "
            "CREATE VIEW instead."
        )
    schema = session.resolved_of(found)
    lines = []
    for c in schema.columns:
        if c.extras is not None and c.extras.startswith("AS "):
            text = f"{quoted(c.name)} {c.extras}"
        else:
            text = f"{quoted(c.name)} {c.type.materialized().summary(True)}{f' {c.extras}' if c.extras else ''}"
        lines.append(text + (f" COMMENT {_text(c.comment)}" if c.comment else ""))
    lines += [f"WATERMARK FOR {quoted(w.column)} AS {w.expression}" for w in schema.watermarks]
    if schema.primary_key is not None:
        key = schema.primary_key
        name = key.name or "PK_" + "_".join(key.columns)
        lines.append(f"CONSTRAINT {quoted(name)} PRIMARY KEY ({', '.join(map(quoted, key.columns))}) NOT ENFORCED")
    head = f"CREATE {'TEMPORARY ' if found.temporary else ''}TABLE {quoted_path(found.path)} (\n"
    parts = [head + ",\n".join("  " + line for line in lines) + "\n)\n"]
    if table.comment:
        parts.append(f"COMMENT {_text(table.comment)}\n")
    if table.distribution is not None:
        parts.append(_distribution(table.distribution) + "\n")
    if table.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})\n")
    if table.options:
        options = ",\n".join(f"  {_text(k)} = {_text(v)}" for k, v in sorted(table.options.items()))
        parts.append(f"WITH (\n{options}\n)\n")
    return "".join(parts)


def _distribution(distribution: Distribution) -> str:
    kind = f" {distribution.kind}" if distribution.kind else ""
    columns = f"({', '.join(map(quoted, distribution.columns))})" if distribution.columns else ""
    by = f" BY{kind}{columns}" if columns else ""
    buckets = f" INTO {distribution.buckets} BUCKETS" if distribution.buckets is not None else ""
    return f"DISTRIBUTED{by}{buckets}"


def show_create_view(found: Found) -> str:
    """The statement that makes a view.

    Raises:
        TableException: it is a table, or a view without a text.
    """
    view = found.object
    if isinstance(view, CatalogTable):
        raise TableException(
            f"SHOW CREATE VIEW is only supported for views, but {dotted(found.path)} is a table. Please use SHOW "
            "CREATE TABLE instead."
        )
    if isinstance(view, QueryView):
        raise TableException("SHOW CREATE VIEW is not supported for views registered by Table API.")
    assert isinstance(view, CatalogView)
    columns = ",\n".join(f"  {quoted(c)}" for c in view.columns)
    comment = f"COMMENT {_text(view.comment)}\n" if view.comment else ""
    return (
        f"CREATE {'TEMPORARY ' if found.temporary else ''}VIEW {quoted_path(found.path)} (\n{columns}\n)\n{comment}"
        f"AS {view.text}\n"
    )
