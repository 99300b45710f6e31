"""Schema: the columns, watermark and primary key of a table, as declared and as resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamline._core.types import DataType, Field
from streamline.errors import ValidationException
from streamline.table.data_types import type_of
from streamline.table.expression import Expression
from streamline.table.parse import parse_expression
from streamline.table.parse.statements import (
    ColumnDef,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    SqlExpression,
    Watermark,
)

__all__ = ("ResolvedColumn", "ResolvedSchema", "Schema", "WatermarkText", "quoted", "type_of")


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _expression(given: Expression | str) -> SqlExpression:
    if isinstance(given, Expression):
        return SqlExpression(given.ast, given.text)
    return parse_expression(given)


# -- as declared ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schema:
    """Columns, watermarks and a primary key, in declared order and not resolved yet.

    Over a stream or class whose columns can be derived, a schema without physical columns adds to the derived ones;
    with physical columns, just those are taken: by name where the elements have field names, else by position.
    """

    columns: tuple[ColumnDef, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    primary_key: PrimaryKey | None = None

    @staticmethod
    def new_builder() -> SchemaBuilder:
        """A builder; the order of its calls is the order of the columns."""
        return SchemaBuilder()

    @property
    def physical(self) -> tuple[PhysicalColumn, ...]:
        """The physical columns."""
        return tuple(c for c in self.columns if isinstance(c, PhysicalColumn))

    def with_derived(self, derived: Sequence[Field]) -> Schema:
        """The schema with derived physical columns in front, where it declares none itself."""
        if self.physical:
            return self
        names = {c.name for c in self.columns}
        front = tuple(PhysicalColumn(f.name, f.type) for f in derived if f.name not in names)
        return replace(self, columns=front + self.columns)

    def __str__(self) -> str:
        lines = [_column_text(c) for c in self.columns]
        lines += [f"WATERMARK FOR {_path(w.column)} AS [{w.expression.text}]" for w in self.watermarks]
        if self.primary_key is not None:
            lines.append(_key_text(self.primary_key))
        return "(\n" + ",\n".join("  " + line for line in lines) + "\n)"


def _path(parts: Sequence[str]) -> str:
    return ".".join(map(quoted, parts))


def key_name(columns: Iterable[str]) -> str:
    """The name of a primary key that was given none."""
    return "PK_" + "_".join(columns)


def _key_text(key: PrimaryKey) -> str:
    columns = ", ".join(map(quoted, key.columns))
    return f"CONSTRAINT {quoted(key.name or key_name(key.columns))} PRIMARY KEY ({columns}) NOT ENFORCED"


def _column_text(column: ColumnDef) -> str:
    name = quoted(column.name)
    match column:
        case PhysicalColumn():
            text = f"{name} {column.type.summary(True)}"
        case ComputedColumn():
            text = f"{name} AS [{column.expression.text}]"
        case MetadataColumn():
            key = "" if column.key is None else f" FROM '{column.key}'"
            text = f"{name} {column.type.summary(True)} METADATA{key}{' VIRTUAL' if column.virtual else ''}"
    return text if column.comment is None else f"{text} COMMENT '{column.comment}'"


class SchemaBuilder:
    """Collects columns, watermarks and a primary key."""

    def __init__(self) -> None:
        self._columns: list[ColumnDef] = []
        self._watermarks: list[Watermark] = []
        self._key: PrimaryKey | None = None

    def from_schema(self, origin_schema: Schema) -> SchemaBuilder:
        """Add all that another schema declares."""
        self._columns += origin_schema.columns
        self._watermarks += origin_schema.watermarks
        if origin_schema.primary_key is not None:
            self._set_key(origin_schema.primary_key)
        return self

    def from_resolved_schema(self, resolved_schema: ResolvedSchema) -> SchemaBuilder:
        """Add the columns of a table as physical ones, and its primary key."""
        self._columns += [PhysicalColumn(c.name, c.type.materialized(), c.comment) for c in resolved_schema.columns]
        if resolved_schema.primary_key is not None:
            self._set_key(resolved_schema.primary_key)
        return self

    def from_row_data_type(self, data_type: DataType) -> SchemaBuilder:
        """Add the fields of a row type as physical columns."""
        if not data_type.is_composite:
            raise ValidationException(f"from_row_data_type takes a ROW type, not {data_type.summary(True)}")
        return self.from_fields([f.name for f in data_type.fields], [f.type for f in data_type.fields])

    def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[Any]) -> SchemaBuilder:
        """Add physical columns: names and types in parallel."""
        if len(field_names) != len(field_data_types):
            raise ValidationException(f"from_fields: {len(field_names)} names for {len(field_data_types)} types")
        for name, given in zip(field_names, field_data_types):
            self.column(name, given)
        return self

    def column(self, column_name: str, data_type: Any) -> SchemaBuilder:
        """Add a physical column.

        Args:
            column_name: its name.
            data_type: a `DataTypes.…()`, SQL text (`"DECIMAL(10, 2) NOT NULL"`), or a Python type.
        """
        given = type_of(data_type, f"the type of column {column_name}")
        self._columns.append(PhysicalColumn(column_name, given))
        return self

    def column_by_expression(self, column_name: str, expr: Expression | str) -> SchemaBuilder:
        """Add a column that is computed from physical and metadata columns: an expression or SQL text."""
        self._columns.append(ComputedColumn(column_name, _expression(expr)))
        return self

    def column_by_metadata(
        self, column_name: str, data_type: Any, metadata_key: str | None = None, is_virtual: bool = False
    ) -> SchemaBuilder:
        """Add a column of metadata, such as a stream record's timestamp (key `rowtime`).

        Args:
            column_name: its name.
            data_type: its type, as for `column`.
            metadata_key: what to read; None: the column's own name.
            is_virtual: read only, not written by a sink.
        """
        given = type_of(data_type, f"the type of column {column_name}")
        self._columns.append(MetadataColumn(column_name, given, metadata_key, is_virtual))
        return self

    def with_comment(self, comment: str) -> SchemaBuilder:
        """Give the column before a comment."""
        if not self._columns:
            raise ValidationException("with_comment: there is no column yet that the comment could belong to")
        self._columns[-1] = replace(self._columns[-1], comment=comment)
        return self

    def watermark(self, column_name: str, watermark_expr: Expression | str) -> SchemaBuilder:
        """Make a column the event time, and say how far it has come.

        Args:
            column_name: a TIMESTAMP or TIMESTAMP_LTZ column of precision 3 at most.
            watermark_expr: the watermark as an expression over the columns, or SQL text; `SOURCE_WATERMARK()` takes
                over the watermarks of the stream.
        """
        self._watermarks.append(Watermark(tuple(column_name.split(".")), _expression(watermark_expr)))
        return self

    def primary_key(self, *column_names: str) -> SchemaBuilder:
        """Declare which columns identify a row; not enforced. The columns have to be NOT NULL."""
        return self.primary_key_named(key_name(column_names), *column_names)

    def primary_key_named(self, constraint_name: str, *column_names: str) -> SchemaBuilder:
        """Declare a primary key with a name of its own."""
        self._set_key(PrimaryKey(column_names, constraint_name))
        return self

    def _set_key(self, key: PrimaryKey) -> None:
        if self._key is not None:
            raise ValidationException("Multiple primary keys are not supported.")
        if not key.columns:
            raise ValidationException("Primary key constraint must be defined for at least a single column.")
        self._key = key

    def build(self) -> Schema:
        """The schema."""
        return Schema(tuple(self._columns), tuple(self._watermarks), self._key)


# -- as resolved ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResolvedColumn:
    """A column whose type is known.

    Attributes:
        name: of the column.
        type: with its time attribute where it is one.
        extras: what DESCRIBE prints beside it: `AS ...` of a computed, `METADATA FROM ...` of a metadata column.
        comment: of the column, or None.
    """

    name: str
    type: DataType
    extras: str | None = None
    comment: str | None = None

    def get_name(self) -> str:
        """The name."""
        return self.name

    def get_data_type(self) -> DataType:
        """The type."""
        return self.type


@dataclass(frozen=True)
class WatermarkText:
    """A watermark as it is printed: the column and the expression's text."""

    column: str
    expression: str


@dataclass(frozen=True)
class ResolvedSchema:
    """The columns of a table with their types. Holds the methods of PyFlink's TableSchema too."""

    columns: tuple[ResolvedColumn, ...]
    watermarks: tuple[WatermarkText, ...] = ()
    primary_key: PrimaryKey | None = None

    @classmethod
    def of(cls, fields: Iterable[Field]) -> ResolvedSchema:
        """Plain columns."""
        return cls(tuple(ResolvedColumn(f.name, f.type) for f in fields))

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[ResolvedColumn]:
        return iter(self.columns)

    def get_columns(self) -> list[ResolvedColumn]:
        """The columns in order."""
        return list(self.columns)

    def get_column_count(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def get_column_names(self) -> list[str]:
        """The names in order."""
        return [c.name for c in self.columns]

    def get_column_data_types(self) -> list[DataType]:
        """The types in order."""
        return [c.type for c in self.columns]

    def get_column(self, column_index_or_name: int | str) -> ResolvedColumn | None:
        """A column by position or name, None where there is none."""
        if isinstance(column_index_or_name, int):
            inside = 0 <= column_index_or_name < len(self.columns)
            return self.columns[column_index_or_name] if inside else None
        return next((c for c in self.columns if c.name == column_index_or_name), None)

    def get_primary_key(self) -> PrimaryKey | None:
        """The primary key, if one was declared."""
        return self.primary_key

    def get_primary_key_indexes(self) -> list[int]:
        """The positions of the columns of the primary key."""
        names = self.get_column_names()
        return [names.index(c) for c in self.primary_key.columns] if self.primary_key else []

    def get_watermark_specs(self) -> list[WatermarkText]:
        """The watermarks."""
        return list(self.watermarks)

    # -- the names of TableSchema --------------------------------------------------------------------------------

    def get_field_names(self) -> list[str]:
        """The names in order."""
        return self.get_column_names()

    def get_field_name(self, field_index: int) -> str | None:
        """The name of the column in a place."""
        found = self.get_column(field_index)
        return None if found is None else found.name

    def get_field_data_types(self) -> list[DataType]:
        """The types in order."""
        return self.get_column_data_types()

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """The type of a column by position or name."""
        found = self.get_column(field)
        return None if found is None else found.type

    def get_field_count(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def to_row_data_type(self) -> DataType:
        """All columns as one ROW type."""
        return DataType("ROW", False, fields=tuple(Field(c.name, c.type.materialized()) for c in self.columns))

    def to_physical_row_data_type(self) -> DataType:
        """The physical columns as one ROW type."""
        fields = tuple(Field(c.name, c.type.materialized()) for c in self.columns if c.extras is None)
        return DataType("ROW", False, fields=fields)

    def __str__(self) -> str:
        lines = []
        for c in self.columns:
            extras = f" {c.extras}" if c.extras else ""
            comment = f" COMMENT '{c.comment}'" if c.comment else ""
            lines.append(f"{quoted(c.name)} {column_type_text(c.type)}{extras}{comment}")
        for w in self.watermarks:
            found = self.get_column(w.column)
            shown = f": {found.type.materialized().summary(True)}" if found else ""
            lines.append(f"WATERMARK FOR {quoted(w.column)}{shown} AS {w.expression}")
        if self.primary_key is not None:
            lines.append(_key_text(self.primary_key))
        return "(\n" + ",\n".join("  " + line for line in lines) + "\n)"


def column_type_text(data_type: DataType) -> str:
    """A column's type as schemas print it: the time attribute behind NOT NULL."""
    text = data_type.summary(True)
    return f"{text} *{data_type.time_attribute.upper()}*" if data_type.time_attribute else text
