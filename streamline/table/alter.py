"""ALTER TABLE and ALTER VIEW: definitions are changed, running jobs are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.catalog import CatalogTable, CatalogView, ObjectPath, QueryView, with_options
from streamline.table.catalog_manager import Found, dotted
from streamline.table.parse import statements as s
from streamline.table.parse import text_of
from streamline.table.schema import Schema, key_name
from streamline.table.session import TableSession
from streamline.table.sources import connector_shape

__all__ = ("alter_table", "alter_view")


def alter_table(session: TableSession, found: Found, actions: Sequence[s.AlterAction]) -> None:
    """Apply actions to a table, all or none.

    Raises:
        ValidationException: a column that is not there or is used elsewhere, or a schema that does not hold together.
    """
    table = found.object
    assert isinstance(table, CatalogTable)
    name = dotted(found.path)
    for action in actions:
        if isinstance(action, s.RenameTo):
            session.catalogs.rename(found, action.path)
            return
        if isinstance(action, (s.AddPartitions, s.DropPartitions)):
            _partitions(session, found, table, action)
            return
        change = _ACTIONS.get(type(action))
        if change is None:
            raise ValidationException(f"ALTER TABLE does not support {type(action).__name__}")
        table = change(table, action, name)
    connector_shape(session, table)
    session.catalogs.replace(found, table)


def _with(table: CatalogTable, **changes: Any) -> CatalogTable:
    return replace(table, schema=replace(table.schema, **changes))


def _position(schema: Schema, name: str, what: str) -> int:
    for i, c in enumerate(schema.columns):
        if c.name == name:
            return i
    raise ValidationException(f"{what}: The column `{name}` does not exist in the base table.")


def _placed(columns: list[s.ColumnDef], change: s.ColumnChange, schema: Schema) -> None:
    if change.first:
        columns.insert(0, change.column)
    elif change.after is not None:
        names = [c.name for c in columns]
        after = ".".join(change.after)
        if after not in names:
            raise ValidationException(
                f"Failed to execute ALTER TABLE statement.\nReferenced column `{after}` by 'AFTER' does not "
                "exist in the table."
            )
        columns.insert(names.index(after) + 1, change.column)
    else:
        columns.append(change.column)


def _add_columns(table: CatalogTable, action: s.AddColumns, name: str) -> CatalogTable:
    columns = list(table.schema.columns)
    for change in action.columns:
        if any(c.name == change.column.name for c in columns):
            raise ValidationException(
                "Failed to execute ALTER TABLE statement.\nTry to add a column "
                f"`{change.column.name}` which already exists in the table."
            )
        _placed(columns, change, table.schema)
    return _with(table, columns=tuple(columns))


def _modify_columns(table: CatalogTable, action: s.ModifyColumns, name: str) -> CatalogTable:
    columns = list(table.schema.columns)
    for change in action.columns:
        names = [c.name for c in columns]
        if change.column.name not in names:
            raise ValidationException(
                "Failed to execute ALTER TABLE statement.\nTry to modify a column "
                f"`{change.column.name}` which does not exist in the table."
            )
        place = names.index(change.column.name)
        before = columns[place]
        column = change.column if change.column.comment is not None else replace(change.column, comment=before.comment)
        if change.first or change.after is not None:
            del columns[place]
            _placed(columns, replace(change, column=column), table.schema)
        else:
            columns[place] = column
    return _with(table, columns=tuple(columns))


def _users(schema: Schema, table: CatalogTable, column: str) -> str | None:
    """What depends on a column, for a message; None where nothing does."""
    for c in schema.columns:
        if isinstance(c, s.ComputedColumn) and c.name != column and column in _read(c.expression):
            return f"is referenced by computed column `{c.name}`"
    for w in schema.watermarks:
        if w.column == (column,) or column in _read(w.expression):
            return "is referenced by watermark expression"
    if schema.primary_key is not None and column in schema.primary_key.columns:
        return "is used as the primary key"
    if column in table.partition_keys:
        return "is used as the partition keys"
    if table.distribution is not None and column in table.distribution.columns:
        return "is used as a distribution key"
    return None


def _read(expression: s.SqlExpression) -> set[str]:
    return {c.name for c in expression.ast.find_all(exp.Column)} | {
        str(c.table) for c in expression.ast.find_all(exp.Column) if c.table
    }


def _drop_columns(table: CatalogTable, action: s.DropColumns, name: str) -> CatalogTable:
    schema = table.schema
    gone = [".".join(c) for c in action.columns]
    for column in gone:
        _position(schema, column, "Failed to execute ALTER TABLE statement")
    kept = Schema(tuple(c for c in schema.columns if c.name not in gone), schema.watermarks, schema.primary_key)
    for column in gone:
        user = _users(kept, table, column)
        if user is not None:
            raise ValidationException(f"Failed to execute ALTER TABLE statement.\nThe column `{column}` {user}.")
    if not kept.columns:
        raise ValidationException("Failed to execute ALTER TABLE statement.\nA table needs at least one column.")
    return replace(table, schema=kept)


def _rename_column(table: CatalogTable, action: s.RenameColumn, name: str) -> CatalogTable:
    schema = table.schema
    old = ".".join(action.column)
    place = _position(schema, old, "Failed to execute ALTER TABLE statement")
    if any(c.name == action.new_name for c in schema.columns):
        raise ValidationException(
            f"Failed to execute ALTER TABLE statement.\nThe column `{action.new_name}` already existed in table schema."
        )
    others = replace(schema, primary_key=None)
    user = _users(others, replace(table, partition_keys=(), distribution=None), old)
    if user is not None:
        raise ValidationException(f"Failed to execute ALTER TABLE statement.\nThe column `{old}` {user}.")
    columns = list(schema.columns)
    columns[place] = replace(columns[place], name=action.new_name)
    key = schema.primary_key
    if key is not None:
        renamed = tuple(action.new_name if c == old else c for c in key.columns)
        own = key.name if key.name != key_name(key.columns) else None
        key = s.PrimaryKey(renamed, own or key_name(renamed))
    keys = tuple(action.new_name if k == old else k for k in table.partition_keys)
    return replace(table, schema=Schema(tuple(columns), schema.watermarks, key), partition_keys=keys)


def _add_key(table: CatalogTable, action: s.AddPrimaryKey, name: str) -> CatalogTable:
    if table.schema.primary_key is not None:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table has already defined the primary key constraint "
            f"{list(table.schema.primary_key.columns)}. You might want to drop it before adding a new one."
        )
    return _with(table, primary_key=action.key)


def _modify_key(table: CatalogTable, action: s.ModifyPrimaryKey, name: str) -> CatalogTable:
    if table.schema.primary_key is None:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table does not define any primary key constraint. You "
            "might want to add a new one."
        )
    return _with(table, primary_key=action.key)


def _drop_key(table: CatalogTable, action: s.DropConstraint, name: str) -> CatalogTable:
    key = table.schema.primary_key
    if key is None:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table does not define any primary key."
        )
    own = key.name or key_name(key.columns)
    if action.name is not None and action.name != own:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table does not define a primary key constraint named "
            f"'{action.name}'. Available constraint name: ['{own}']."
        )
    return _with(table, primary_key=None)


def _add_watermark(table: CatalogTable, action: s.AddWatermark, name: str) -> CatalogTable:
    if table.schema.watermarks:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table has already defined a watermark strategy. You "
            "might want to drop it before adding a new one."
        )
    return _with(table, watermarks=(action.watermark,))


def _modify_watermark(table: CatalogTable, action: s.ModifyWatermark, name: str) -> CatalogTable:
    _has_watermark(table)
    return _with(table, watermarks=(action.watermark,))


def _drop_watermark(table: CatalogTable, action: s.DropWatermark, name: str) -> CatalogTable:
    _has_watermark(table)
    return _with(table, watermarks=())


def _has_watermark(table: CatalogTable) -> None:
    if not table.schema.watermarks:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table does not define any watermark strategy."
        )


def _set_options(table: CatalogTable, action: s.SetOptions, name: str) -> CatalogTable:
    return with_options(table, dict(action.options))


def _reset_options(table: CatalogTable, action: s.ResetOptions, name: str) -> CatalogTable:
    if "connector" in action.keys:
        raise ValidationException("ALTER TABLE RESET does not support changing 'connector'.")
    if not action.keys:
        raise ValidationException("ALTER TABLE RESET does not support empty key.")
    return with_options(table, dict.fromkeys(action.keys))


def _distribution(table: CatalogTable, action: s.AddDistribution | s.ModifyDistribution, name: str) -> CatalogTable:
    adding = isinstance(action, s.AddDistribution)
    if adding and table.distribution is not None:
        raise ValidationException(
            "Failed to execute ALTER TABLE statement.\nThe base table has a distribution already."
        )
    if not adding and table.distribution is None:
        raise ValidationException("Failed to execute ALTER TABLE statement.\nThe base table has no distribution.")
    return replace(table, distribution=action.distribution)


def _drop_distribution(table: CatalogTable, action: s.DropDistribution, name: str) -> CatalogTable:
    if table.distribution is None:
        raise ValidationException("Failed to execute ALTER TABLE statement.\nThe base table has no distribution.")
    return replace(table, distribution=None)


_ACTIONS: Final[dict[type, Callable[[CatalogTable, Any, str], CatalogTable]]] = {
    s.AddColumns: _add_columns,
    s.ModifyColumns: _modify_columns,
    s.DropColumns: _drop_columns,
    s.RenameColumn: _rename_column,
    s.AddPrimaryKey: _add_key,
    s.ModifyPrimaryKey: _modify_key,
    s.DropConstraint: _drop_key,
    s.AddWatermark: _add_watermark,
    s.ModifyWatermark: _modify_watermark,
    s.DropWatermark: _drop_watermark,
    s.SetOptions: _set_options,
    s.ResetOptions: _reset_options,
    s.AddDistribution: _distribution,
    s.ModifyDistribution: _distribution,
    s.DropDistribution: _drop_distribution,
    s.SetComment: lambda table, action, name: replace(table, comment=action.comment),
}


# -- partitions ----------------------------------------------------------------------------------------------------


def _partitions(
    session: TableSession, found: Found, table: CatalogTable, action: s.AddPartitions | s.DropPartitions
) -> None:
    if not table.partition_keys:
        raise ValidationException(f"Table {dotted(found.path)} is not partitioned.")
    catalog = session.catalogs.catalog(found.path[0])
    path = ObjectPath(*found.path[1:])
    if isinstance(action, s.AddPartitions):
        for partition, options in action.partitions:
            catalog.create_partition(path, _spec(partition), options, action.if_not_exists)
    else:
        for dropped in action.partitions:
            catalog.drop_partition(path, _spec(dropped), action.if_exists)


def _spec(partition: s.Partition) -> dict[str, str]:
    return {k: v.name if isinstance(v, exp.Literal) else text_of(v) for k, v in partition if v is not None}


# -- views ---------------------------------------------------------------------------------------------------------


def alter_view(session: TableSession, found: Found, action: s.AlterAction) -> None:
    """Give a view another name, or another query.

    Raises:
        ValidationException: the query means nothing valid, or the view has no query of its own.
    """
    if isinstance(action, s.RenameTo):
        session.catalogs.rename(found, action.path)
        return
    if not isinstance(action, s.SetQuery):
        raise ValidationException(f"ALTER VIEW takes RENAME TO or AS query, not {type(action).__name__}")
    if isinstance(found.object, QueryView):
        raise ValidationException(f"{dotted(found.path)} is a view of a Table object; drop it and create it again")
    assert isinstance(found.object, CatalogView)
    rel = session.bind_query(action.query.ast)
    changed = replace(
        found.object,
        query=action.query.ast,
        text=action.query.text,
        columns=rel.schema.names,
        catalog=session.catalogs.current_catalog or "",
        database=session.catalogs.current_database or "",
    )
    session.catalogs.replace(found, changed)
