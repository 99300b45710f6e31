"""CREATE TABLE ... LIKE: what a table takes over from another."""

from __future__ import annotations

from streamline.errors import ValidationException
from streamline.table.catalog import CatalogTable
from streamline.table.parse import statements as s
from streamline.table.schema import Schema

__all__ = ("merged_like",)


def merged_like(table: CatalogTable, base: CatalogTable, like: s.LikeClause) -> CatalogTable:
    """The table with what it takes over from another.

    Raises:
        ValidationException: both define a thing, and the clause does not say which one counts.
    """
    strategy = {
        "CONSTRAINTS": "INCLUDING",
        "DISTRIBUTION": "INCLUDING",
        "PARTITIONS": "INCLUDING",
        "GENERATED": "INCLUDING",
        "METADATA": "INCLUDING",
        "OPTIONS": "OVERWRITING",
        "WATERMARKS": "INCLUDING",
    }
    for option in like.options:
        for chosen in strategy if option.feature == "ALL" else (option.feature,):
            strategy[chosen] = option.action
    columns: list[s.ColumnDef] = []
    own = {c.name: c for c in table.schema.columns}
    for c in base.schema.columns:
        kinds: dict[type, str] = {s.ComputedColumn: "GENERATED", s.MetadataColumn: "METADATA"}
        feature = kinds.get(type(c))
        if feature is not None and strategy[feature] == "EXCLUDING":
            continue
        if c.name in own:
            if feature is None or strategy[feature] != "OVERWRITING":
                raise ValidationException(f"A column named '{c.name}' already exists in the base table.")
            columns.append(own.pop(c.name))
        else:
            columns.append(c)
    columns += own.values()
    key = table.schema.primary_key
    if strategy["CONSTRAINTS"] != "EXCLUDING" and base.schema.primary_key is not None:
        if key is not None and strategy["CONSTRAINTS"] != "OVERWRITING":
            raise ValidationException(
                "The base table already has a primary key. You might want to specify EXCLUDING CONSTRAINTS."
            )
        key = key or base.schema.primary_key
    watermarks = {w.column: w for w in base.schema.watermarks} if strategy["WATERMARKS"] != "EXCLUDING" else {}
    for w in table.schema.watermarks:
        if w.column in watermarks and strategy["WATERMARKS"] != "OVERWRITING":
            raise ValidationException(
                f"There already exists a watermark on column '{'.'.join(w.column)}' in the base table. You might want "
                "to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS."
            )
        watermarks[w.column] = w
    options = dict(base.options) if strategy["OPTIONS"] != "EXCLUDING" else {}
    for k, v in table.options.items():
        if k in options and strategy["OPTIONS"] == "INCLUDING":
            raise ValidationException(
                f"There already exists an option ['{k}' -> '{options[k]}'] in the base table. You might want to "
                "specify EXCLUDING OPTIONS or OVERWRITING OPTIONS."
            )
        options[k] = v
    partitions = table.partition_keys
    if not partitions and strategy["PARTITIONS"] != "EXCLUDING":
        partitions = base.partition_keys
    distribution = table.distribution
    if distribution is None and strategy["DISTRIBUTION"] != "EXCLUDING":
        distribution = base.distribution
    schema = Schema(tuple(columns), tuple(watermarks.values()), key)
    return CatalogTable(schema, options, partitions, table.comment or base.comment, distribution)
