"""From declared columns to what a scan reads: row shapes of streams and of tables over connectors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.changes import ChangelogMode
from streamline._core.typeinfo import TypeInformation, element_text, to_data_type
from streamline._core.types import DataType, Field
from streamline.errors import TableException, ValidationException
from streamline.table.conversions import Inward, field_source, is_typed_dict
from streamline.table.expr.nodes import Expr, InputRef, rewrite
from streamline.table.logical import RowSchema, RowShape, ShapeColumn, WatermarkSpec
from streamline.table.parse.statements import ComputedColumn, MetadataColumn, PhysicalColumn, Watermark
from streamline.table.schema import ResolvedColumn, ResolvedSchema, Schema, WatermarkText, key_name
from streamline.table.table_scope import Names, Session, TableScope

__all__ = ("Column", "Element", "Physical", "Shape", "Timing", "build_shape", "element_of", "physical_columns")


# -- elements of a stream ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Element:
    """What the elements of a stream look like.

    Attributes:
        kind: "object" (attributes), "dict" (items), "tuple", "row" (a Row), "value" (the element is the only column).
        fields: the columns that the type tells.
        named: whether the fields have names of their own; f0, f1, … are none.
        marker: equal (by identity) for types whose elements can stand for one another.
        spec: the type as it was told.
    """

    kind: str
    fields: tuple[Field, ...]
    named: bool
    marker: Any
    spec: Any

    def access(self, index: int) -> str:
        """Python source of a field of the element `r`."""
        match self.kind:
            case "object" | "dict":
                return field_source("r", self.marker, self.fields[index].name)
            case "tuple":
                return f"r[{index}]"
            case "row":
                return f"r._values[{index}]"
        return "r"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)


_MARKERS: Final[dict[Any, Any]] = {}


def marker(*key: Any) -> Any:
    """An object that is the same for equal keys."""
    return _MARKERS.setdefault(key, key)


def element_of(spec: Any, what: str) -> Element:
    """What a stream's element type says about columns.

    Raises:
        ValidationException: no columns can be made of it; the message says how to declare it.
    """
    found = to_data_type(spec, what)
    if found.root == "STRUCTURED":
        kind = "dict" if is_typed_dict(found.cls) else "object"
        return Element(kind, found.fields, True, found.cls, spec)
    if found.root == "ROW":
        is_tuple = not isinstance(spec, (TypeInformation, DataType)) or (
            isinstance(spec, TypeInformation) and spec.kind == "TUPLE"
        )
        if is_tuple:
            return Element("tuple", found.fields, False, marker("tuple", len(found.fields)), spec)
        named = isinstance(spec, DataType) or spec.names is not None
        names = tuple(f.name for f in found.fields)
        return Element("row", found.fields, named, marker("row", names if named else None, len(names)), spec)
    if found.root == "RAW":
        raise ValidationException(
            f"{what} {element_text(spec)} has no known columns: declare it by type_info= or output_type=, or map the "
            "elements to an annotated class"
        )
    value = Field("f0", found)
    return Element("value", (value,), False, marker("value", found.null()), spec)


@dataclass(frozen=True)
class Physical:
    """A physical column as it is read: its declared type and the position of its field in the element."""

    name: str
    type: DataType
    field: int
    comment: str | None = None


def physical_columns(element: Element, schema: Schema | None) -> list[Physical]:
    """The physical columns of a schema over the elements: by name where they have field names, else by position.

    Raises:
        ValidationException: a name that is none of theirs, another number of columns, or a type that does not fit.
    """
    if schema is None or not schema.physical:
        taken = set() if schema is None else {c.name for c in schema.columns}
        return [Physical(f.name, f.type, i) for i, f in enumerate(element.fields) if f.name not in taken]
    declared = schema.physical
    names = element.names
    by_name = element.named or all(c.name in names for c in declared)
    if not by_name:
        if len(declared) != len(names):
            raise ValidationException(
                f"{len(declared)} columns are declared ([{', '.join(c.name for c in declared)}]), but the elements "
                f"({element_text(element.spec)}) have {len(names)} fields without names ([{', '.join(names)}]); "
                "declare one column for each, or use elements with field names"
            )
        return [_fitted(c, element, i) for i, c in enumerate(declared)]
    found = []
    for c in declared:
        if c.name not in names:
            raise ValidationException(
                f"Unable to find a field named '{c.name}' in the physical data type derived from the given type "
                "information for schema declaration. Make sure that the type information is not a generic raw type. "
                f"Currently available fields are: [{', '.join(names)}]"
            )
        found.append(_fitted(c, element, names.index(c.name)))
    return found


def _fitted(column: PhysicalColumn, element: Element, position: int) -> Physical:
    field = element.fields[position]
    if not _readable(column.type, field.type):
        raise ValidationException(
            f"column {column.name} is declared {column.type.summary(True)}, but the field {field.name} of "
            f"{element_text(element.spec)} is {field.type.summary(True)}; declare a type that its values fit"
        )
    return Physical(column.name, column.type, position, column.comment)


def _readable(declared: DataType, derived: DataType) -> bool:
    """Whether values of the one can be read as values of the other."""
    if derived.root == "RAW" or declared.root == derived.root == "RAW":
        return True
    if declared.is_integer:
        return derived.is_integer
    if declared.is_approximate:
        return derived.is_numeric
    if declared.root == "DECIMAL":
        return derived.root == "DECIMAL" or derived.is_integer
    if declared.is_character:
        return derived.is_character
    if declared.is_binary:
        return derived.is_binary
    if declared.is_timestamp:
        return derived.is_timestamp
    if declared.root in ("ARRAY", "MAP", "MULTISET"):
        return derived.root == declared.root or (declared.root == "MULTISET" and derived.root == "MAP")
    if declared.is_composite:
        return derived.is_composite and len(declared.fields) == len(derived.fields)
    return declared.root == derived.root


# -- shapes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column with its source, or (computed) without one.

    Attributes:
        name, type: of the column.
        source: Python source of its inner value over `r` and `t`.
        millis: as of `ShapeColumn`.
        extras: what DESCRIBE prints beside it.
    """

    name: str
    type: DataType
    source: str | None = None
    millis: str | None = None
    computed: exp.Expression | None = None
    extras: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Timing:
    """How watermarks of declared strategies come, and whether SOURCE_WATERMARK() means something here.

    Attributes:
        on_event: behind every record.
        interval: else each so many milliseconds.
        idle_timeout: milliseconds; 0: never idle.
        source_watermark: None, or why SOURCE_WATERMARK() is refused.
        alignment: group, largest drift (ms) and interval (ms) of watermark alignment; None: not aligned.
    """

    on_event: bool = False
    interval: int = 200
    idle_timeout: int = 0
    source_watermark: str | None = None
    alignment: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class Shape:
    """A row shape and the schema as it is printed."""

    row: RowShape
    resolved: ResolvedSchema


class SourceOf(Protocol):
    """Gives source and `millis` of a physical or metadata column."""

    def __call__(self, column: PhysicalColumn | MetadataColumn) -> tuple[str, str | None]: ...


def columns_of(schema: Schema, source_of: SourceOf) -> list[Column]:
    """The columns of a schema in their order."""
    columns: list[Column] = []
    for c in schema.columns:
        match c:
            case PhysicalColumn():
                source, millis = source_of(c)
                columns.append(Column(c.name, c.type, source, millis, comment=c.comment))
            case MetadataColumn():
                source, millis = source_of(c)
                key = "" if c.key is None else f" FROM '{c.key}'"
                extras = f"METADATA{key}{' VIRTUAL' if c.virtual else ''}"
                columns.append(Column(c.name, c.type, source, millis, extras=extras, comment=c.comment))
            case ComputedColumn():
                extras = f"AS {_sql(c.expression.text)}"
                columns.append(Column(c.name, t.NULL, computed=c.expression.ast, extras=extras, comment=c.comment))
    return columns


def _sql(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())


def build_shape(
    columns: Sequence[Column],
    schema: Schema,
    session: Session,
    *,
    namespace: Mapping[str, Any],
    timing: Timing,
    changelog: ChangelogMode | None = None,
    kind: str | None = None,
    checked_insert_only: bool = False,
    element: Any = None,
    not_null_key: bool = False,
) -> Shape:
    """The row shape of columns with their watermark and primary key.

    Args:
        columns: in the table's order.
        schema: for watermark and primary key.
        session: functions and constants, for expressions.
        namespace: what names in the sources stand for.
        timing: of declared watermarks.
        changelog, kind, checked_insert_only, element: as of `RowShape`.
        not_null_key: the columns of the primary key become NOT NULL (DDL) instead of having to be (Schema).

    Raises:
        ValidationException: an expression, watermark or key that does not fit.
    """
    _distinct([c.name for c in columns])
    key = _primary_key(columns, schema, not_null_key)
    typed = [c.type.not_null() if not_null_key and i in key else c.type for i, c in enumerate(columns)]
    exprs: list[Expr | None] = [None] * len(columns)
    given = [i for i, c in enumerate(columns) if c.computed is None]
    names = Names(RowSchema.of((columns[i].name for i in given), (typed[i] for i in given)))
    for i, c in enumerate(columns):
        if c.computed is not None:
            scope = TableScope(names, session, clause=f"computed column {c.name}")
            exprs[i] = rewrite(scope.bind(c.computed), lambda e: _moved(e, given))
            typed[i] = exprs[i].type  # type: ignore[union-attr]
    watermark = None
    if schema.watermarks:
        watermark = _watermark(schema.watermarks, columns, typed, session, timing)
        typed[watermark.column] = typed[watermark.column].as_time_attribute("rowtime")
    shape_columns = tuple(ShapeColumn(c.name, typed[i], c.source, exprs[i], c.millis) for i, c in enumerate(columns))
    row = RowShape(
        shape_columns,
        watermark,
        ChangelogMode.insert_only() if changelog is None else changelog,
        key,
        kind,
        checked_insert_only,
        tuple(namespace.items()),
        element,
    )
    resolved = ResolvedSchema(
        tuple(ResolvedColumn(c.name, typed[i], c.extras, c.comment) for i, c in enumerate(columns)),
        tuple(WatermarkText(".".join(w.column), _sql(w.expression.text)) for w in schema.watermarks),
        schema.primary_key,
    )
    return Shape(row, resolved)


def _moved(expr: Expr, positions: Sequence[int]) -> Expr | None:
    return InputRef(positions[expr.index], expr.type, expr.name) if isinstance(expr, InputRef) else None


def _distinct(names: Sequence[str]) -> None:
    twice = sorted({n for n in names if list(names).count(n) > 1})
    if twice:
        raise ValidationException(f"Schema must not contain duplicate column names. Found duplicates: {twice}")


def _primary_key(columns: Sequence[Column], schema: Schema, made_not_null: bool) -> tuple[int, ...]:
    key = schema.primary_key
    if key is None:
        return ()
    name = key.name or key_name(key.columns)
    known = [c.name for c in columns]
    positions = []
    for c in key.columns:
        if c not in known:
            raise ValidationException(f"Invalid primary key '{name}'. Column '{c}' does not exist.")
        found = columns[known.index(c)]
        if found.computed is not None or (found.extras or "").startswith("METADATA"):
            raise ValidationException(f"Invalid primary key '{name}'. Column '{c}' is not a physical column.")
        if found.type.nullable and not made_not_null:
            raise ValidationException(f"Invalid primary key '{name}'. Column '{c}' is nullable.")
        positions.append(known.index(c))
    if len(set(positions)) != len(positions):
        raise ValidationException(f"Invalid primary key '{name}'. A primary key must not contain duplicate columns.")
    return tuple(positions)


def _watermark(
    watermarks: Sequence[Watermark],
    columns: Sequence[Column],
    types: Sequence[DataType],
    session: Session,
    timing: Timing,
) -> WatermarkSpec:
    if len(watermarks) > 1:
        raise ValidationException("Multiple watermark definitions are not supported yet.")
    (declared,) = watermarks
    name = ".".join(declared.column)
    known = [c.name for c in columns]
    if declared.column[0] not in known:
        raise ValidationException(
            f"Invalid column name '{name}' for rowtime attribute in watermark declaration. Available columns are: "
            f"[{', '.join(known)}]"
        )
    if len(declared.column) > 1:
        raise ValidationException(
            f"Invalid column name '{name}' for rowtime attribute in watermark declaration: a nested field cannot be "
            "one; add a computed column for it"
        )
    position = known.index(name)
    type_ = types[position]
    if not type_.is_timestamp or type_.precision > 3:
        raise ValidationException(
            "Invalid data type of time field for watermark definition. The field must be of type TIMESTAMP(p) or "
            "TIMESTAMP_LTZ(p), the supported precision 'p' is from 0 to 3, but the time field type is "
            f"{type_.summary(True)}"
        )
    tree = declared.expression.ast
    if isinstance(tree, exp.Anonymous) and tree.name.upper() == "SOURCE_WATERMARK":
        if timing.source_watermark is not None:
            raise ValidationException(timing.source_watermark)
        return WatermarkSpec(position)
    # The column itself is not yet a time attribute in its own watermark.
    scope = TableScope(Names(RowSchema.of(known, types)), session, clause=f"the watermark of {name}")
    expression = scope.bind(tree)
    if not expression.type.is_timestamp:
        raise ValidationException(
            "Invalid data type of expression for watermark definition. The field must be of type TIMESTAMP(p) or "
            f"TIMESTAMP_LTZ(p), but the watermark expression {_sql(declared.expression.text)} is "
            f"{expression.type.summary(True)}"
        )
    return WatermarkSpec(position, expression, timing.on_event, timing.interval, timing.idle_timeout, timing.alignment)


# -- streams -------------------------------------------------------------------------------------------------------

#: Source of a record's timestamp in inner form.
TIMESTAMP_SOURCE: Final = "(None if t is None else t * 1000000)"


def stream_shape(
    element: Element,
    schema: Schema | None,
    session: Session,
    timing: Timing,
    *,
    changelog: ChangelogMode | None = None,
    table: str = "the table",
) -> Shape:
    """The row shape of a stream of such elements.

    Args:
        element: what the elements are.
        schema: as declared, None: all fields as columns.
        session: functions and constants.
        timing: of declared watermarks.
        changelog: the mode of a changelog stream; its kinds are those of the Rows. None: insert-only.
        table: for messages.
    """
    declared = Schema() if schema is None else schema
    physical = {p.name: p for p in physical_columns(element, schema)}
    front = tuple(PhysicalColumn(p.name, p.type, p.comment) for p in physical.values())
    if not declared.physical:
        declared = Schema(front + declared.columns, declared.watermarks, declared.primary_key)
    inward = Inward()

    def source_of(column: PhysicalColumn | MetadataColumn) -> tuple[str, str | None]:
        if isinstance(column, MetadataColumn):
            return _rowtime_metadata(column, table)
        found = physical[column.name]
        derived = element.fields[found.field].type
        return inward.source(element.access(found.field), column.type, derived, column.name), None

    columns = columns_of(declared, source_of)
    kind = None if changelog is None else "r.kind"
    shape = build_shape(
        columns,
        declared,
        session,
        namespace=inward.namespace,
        timing=timing,
        changelog=changelog,
        kind=kind,
        checked_insert_only=changelog is not None and changelog.is_insert_only,
        element=element.marker if _passes(element, declared, physical) else None,
    )
    if changelog is not None and not changelog.is_insert_only and not shape.row.primary_key:
        names = [k.name for k in changelog.kinds]
        if "UPDATE_AFTER" in names and "UPDATE_BEFORE" not in names:
            raise TableException(
                f"Table '{table}' produces a changelog stream that contains UPDATE_AFTER but no UPDATE_BEFORE. This "
                "requires defining a primary key constraint on the table."
            )
    return shape


def _passes(element: Element, schema: Schema, physical: Mapping[str, Physical]) -> bool:
    """Whether a record that is not changed can leave as it came: every field is a column, in order, as it is."""
    if len(schema.columns) != len(element.fields):
        return False
    for i, (column, field) in enumerate(zip(schema.columns, element.fields)):
        if not isinstance(column, PhysicalColumn):
            return False
        found = physical[column.name]
        if found.field != i or not column.type.same_type(field.type) or (element.named and column.name != field.name):
            return False
    return True


def _rowtime_metadata(column: MetadataColumn, table: str) -> tuple[str, str | None]:
    key = column.key or column.name
    if key != "rowtime":
        raise ValidationException(
            f"Invalid metadata key '{key}' in column '{column.name}' of table '{table}'. The DynamicTableSource class "
            "of a data stream supports the following metadata keys for reading: rowtime"
        )
    if column.type.root != "TIMESTAMP_LTZ":
        raise ValidationException(
            f"Invalid data type for metadata column '{column.name}' of table '{table}'. The metadata key 'rowtime' is "
            f"TIMESTAMP_LTZ(3), which cannot be read as {column.type.summary(True)}"
        )
    return TIMESTAMP_SOURCE, "t"
