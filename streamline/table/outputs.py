"""The way out: a query's columns fitted to a target, and the shape of the objects that leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from streamline._core import types as t
from streamline._core.changes import Change, Row, RowKind
from streamline._core.typeinfo import element_text
from streamline._core.types import DataType, Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.conversions import Outward, constructor
from streamline.table.expr.nodes import Expr, Literal
from streamline.table.expr.registry import bind_call, cast
from streamline.table.logical import OutputShape, Rel
from streamline.table.shapes import Element

__all__ = (
    "element_output",
    "fit_columns",
    "implicit",
    "retract_shape",
    "row_shape",
    "single_rowtime",
    "to_element",
)


# -- types ---------------------------------------------------------------------------------------------------------


def implicit(source: DataType, target: DataType) -> bool:
    """Whether values of one type become values of another without loss, so that no CAST has to be written."""
    if source.root == "NULL" or source.same_type(target):
        return True
    if target.is_integer:
        return source.is_integer and t.INTEGER_BITS[source.root] <= t.INTEGER_BITS[target.root]
    match target.root:
        case "CHAR" | "VARCHAR":
            return source.is_character
        case "BINARY" | "VARBINARY":
            return source.is_binary
        case "DECIMAL":
            return source.is_integer or source.root == "DECIMAL"
        case "FLOAT":
            return source.is_integer or source.root in ("FLOAT", "DECIMAL")
        case "DOUBLE":
            return source.is_numeric
        case "DATE" | "TIME":
            return source.root in (target.root, "TIMESTAMP")
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return source.is_timestamp
        case "ARRAY" | "MULTISET":
            return source.root == target.root and implicit(_element(source), _element(target))
        case "MAP":
            if source.root != "MAP" or source.key is None or target.key is None:
                return False
            return implicit(source.key, target.key) and implicit(_element(source), _element(target))
        case "ROW" | "STRUCTURED":
            return (
                source.is_composite
                and len(source.fields) == len(target.fields)
                and all(implicit(a.type, b.type) for a, b in zip(source.fields, target.fields))
            )
        case "RAW":
            return True
    return source.root == target.root


def _element(type_: DataType) -> DataType:
    assert type_.element is not None
    return type_.element


def _schema_text(fields: Sequence[Field]) -> str:
    return "[" + ", ".join(f"{f.name}: {f.type.summary(True)}" for f in fields) + "]"


def mismatch(name: str, cause: str, query: Sequence[Field], sink: Sequence[Field]) -> ValidationException:
    """The error for a query whose columns are not those of its target."""
    return ValidationException(
        f"Column types of query result and sink for '{name}' do not match.\nCause: {cause}\n\n"
        f"Query schema: {_schema_text(query)}\nSink schema:  {_schema_text(sink)}"
    )


def fit_columns(rel: Rel, target: Sequence[Field], name: str, *, exact_text: bool = False) -> Rel:
    """The query's columns in their order, converted to the types of the target's columns.

    Args:
        rel: the query.
        target: names and types; RAW takes anything as it is.
        name: of the target, for messages.
        exact_text: texts are padded or cut to the length of the target.

    Raises:
        ValidationException: another number of columns, or a type that loses something.
    """
    fields = rel.schema.fields
    if len(fields) != len(target):
        raise mismatch(name, "Different number of columns.", fields, target)
    exprs: list[Expr] = []
    for i, (have, want) in enumerate(zip(fields, target)):
        if not implicit(have.type, want.type):
            cause = f"Incompatible types for sink column '{want.name}' at position {i + 1}."
            raise mismatch(name, cause, fields, target)
        exprs.append(_converted(rel.schema.ref(i), want.type, exact_text))
    return build.project(rel, exprs, [f.name for f in target])


def _converted(expr: Expr, wanted: DataType, exact_text: bool) -> Expr:
    have = expr.type
    if wanted.root == "RAW" or have.same_type(wanted):
        return expr
    if (have.is_character or have.is_binary) and not exact_text:
        return expr
    if have.is_composite and wanted.is_composite:
        return _converted_row(expr, wanted, exact_text)
    if have.root == wanted.root and have.root in ("ARRAY", "MAP", "MULTISET") and _alike(have, wanted):
        return expr
    return cast(expr, wanted)


def _alike(a: DataType, b: DataType) -> bool:
    """Whether values of both types look the same inside."""
    if a.is_composite and b.is_composite:
        return len(a.fields) == len(b.fields) and all(_alike(x.type, y.type) for x, y in zip(a.fields, b.fields))
    if a.root == b.root and a.root in ("ARRAY", "MAP", "MULTISET"):
        keys = a.key is None or b.key is None or _alike(a.key, b.key)
        return keys and _alike(_element(a), _element(b))
    if a.is_character and b.is_character:
        return True
    if a.is_integer and b.is_integer:
        return True
    if a.is_timestamp and b.is_timestamp:
        return a.root == b.root
    return a.root == b.root


def _converted_row(expr: Expr, wanted: DataType, exact_text: bool) -> Expr:
    if _alike(expr.type, wanted):
        return expr
    parts = [
        _converted(bind_call(".", (expr,), (f.name,)), w.type, exact_text)
        for f, w in zip(expr.type.fields, wanted.fields)
    ]
    row = bind_call("ROW", parts)
    if not expr.type.nullable:
        return row
    return bind_call("CASE", (bind_call("IS NULL", (expr,)), Literal(None, row.type.null()), row))


# -- event time ----------------------------------------------------------------------------------------------------


def single_rowtime(rel: Rel, name: str) -> int | None:
    """The position of the column that becomes the records' timestamps, None where there is none.

    Raises:
        TableException: there are several.
    """
    found = rel.schema.rowtimes
    if len(found) > 1:
        names = ", ".join(rel.schema.names[i] for i in found)
        raise TableException(
            f"The query contains more than one rowtime attribute column [{names}] for writing into table '{name}'.\n"
            "Please select the column that should be used as the event-time timestamp for the table sink by casting "
            "all other columns to regular TIMESTAMP or TIMESTAMP_LTZ."
        )
    return found[0] if found else None


# -- rows ----------------------------------------------------------------------------------------------------------


def row_maker(names: tuple[str, ...]) -> Callable[[tuple[Any, ...], RowKind], Row]:
    """What makes a Row of a tuple of values."""
    new = Row.__new__

    def make_row(values: tuple[Any, ...], kind: RowKind = RowKind.INSERT) -> Row:
        row = new(Row)
        row._values = values
        row._names = names
        row.kind = kind
        return row

    return make_row


_MAKERS: Final[dict[tuple[str, ...], Callable[[tuple[Any, ...], RowKind], Row]]] = {}


def _values(rel: Rel, outward: Outward, types: Sequence[DataType] | None = None) -> list[str]:
    wanted = rel.schema.types if types is None else types
    return [outward.source(f"{{{i}}}", x) for i, x in enumerate(wanted)]


def row_template(
    rel: Rel,
    outward: Outward,
    types: Sequence[DataType] | None = None,
    kind: bool = True,
) -> str:
    """The template of a Row of the query's columns."""
    names = rel.schema.names
    maker = _MAKERS.get(names)
    if maker is None:
        maker = _MAKERS[names] = row_maker(names)
    made = outward.name(("row", names), "row", lambda: maker)
    values = f"({', '.join(_values(rel, outward, types))},)"
    return f"{made}({values}, {{kind}})" if kind else f"{made}({values})"


def row_shape(rel: Rel, timestamp: int | None, columns: Sequence[int] | None = None) -> OutputShape:
    """Rows with their kinds, of all columns or of some."""
    outward = Outward()
    chosen = range(len(rel.schema)) if columns is None else columns
    sources = _values(rel, outward)
    template = f"({', '.join(sources[i] for i in chosen)},)"
    names = tuple(rel.schema.names[i] for i in chosen)
    return OutputShape(template, outward.pairs, None, False, timestamp, names)


# -- other elements ------------------------------------------------------------------------------------------------


def to_element(rel: Rel, element: Element, name: str) -> Rel:
    """The query's columns in the order and of the types of an element's fields.

    By name where any column has the name of a field (then all must), else by position.

    Raises:
        ValidationException: columns and fields do not go together.
    """
    names, wanted = rel.schema.names, element.names
    by_name = element.named and any(n in wanted for n in names)
    if by_name:
        extra = [f for f in rel.schema.fields if f.name not in wanted]
        missing = [n for n in wanted if n not in names]
        if extra or missing:
            raise _wrong_fields(rel, element, extra, missing)
        rel = build.project(rel, [rel.schema.ref(names.index(n)) for n in wanted], wanted)
    elif len(names) != len(wanted):
        raise _wrong_fields(rel, element, list(rel.schema.fields), list(wanted))
    fields = element.fields
    if not isinstance(element.spec, DataType):
        fields = tuple(Field(f.name, _lenient(f.type, have)) for f, have in zip(fields, rel.schema.types))
    return fit_columns(rel, fields, name)


def _lenient(wanted: DataType, have: DataType) -> DataType:
    """The type that a field of a class takes: a Decimal of any scale, a datetime with or without a zone."""
    if (wanted.is_timestamp and have.is_timestamp) or wanted.root == have.root == "DECIMAL":
        return have
    if wanted.is_composite and have.is_composite and len(wanted.fields) == len(have.fields):
        fields = tuple(Field(w.name, _lenient(w.type, h.type)) for w, h in zip(wanted.fields, have.fields))
        return replace(wanted, fields=fields)
    if wanted.root == have.root and wanted.element is not None and have.element is not None:
        return replace(wanted, element=_lenient(wanted.element, have.element), key=have.key)
    return wanted


def _wrong_fields(rel: Rel, element: Element, extra: Sequence[Field], missing: Sequence[str]) -> ValidationException:
    what = element_text(element.spec)
    parts = [f"Different number of columns: {len(rel.schema)} columns for the {len(element.names)} fields of {what}."]
    if len(rel.schema) == len(element.names):
        parts = [f"The columns do not agree with the fields of {what}."]
    if extra and len(extra) < len(rel.schema):
        shown = ", ".join(f"{f.name} ({f.type.summary(True)})" for f in extra)
        parts.append(f"No field for column {shown}.")
    if missing and len(missing) < len(element.names):
        parts.append(f"No column for field {', '.join(missing)}.")
    parts.append(f"Its fields are {', '.join(element.names)}; the columns are {', '.join(rel.schema.names)}.")
    if extra and missing:
        parts.append(f"Rename a column: .alias('{missing[0]}')")
    elif extra:
        parts.append("Select only the columns that the target has.")
    return ValidationException(" ".join(parts))


def element_source(rel: Rel, element: Element, outward: Outward, kind: bool) -> str:
    """The template of an element of a stream; `kind` says whether a Row gets the row's kind."""
    types = [_shown(f.type, have) for f, have in zip(element.fields, rel.schema.types)]
    match element.kind:
        case "object" | "dict":
            fields = tuple(Field(f.name, x) for f, x in zip(element.fields, types))
            return constructor(outward, element.marker, fields, _values(rel, outward, types), template=True)
        case "tuple":
            return f"({', '.join(_values(rel, outward, types))},)"
        case "row":
            return row_template(rel, outward, types, kind)
    return _values(rel, outward, types)[0]


def _shown(wanted: DataType, have: DataType) -> DataType:
    """The type whose values leave: the query's, with the classes of the target where it has some."""
    if wanted.is_composite and have.is_composite:
        fields = tuple(Field(w.name, _shown(w.type, h.type)) for w, h in zip(wanted.fields, have.fields))
        return DataType(wanted.root, have.nullable, fields=fields, cls=wanted.cls)
    if wanted.root == have.root and wanted.root in ("ARRAY", "MULTISET") and wanted.element and have.element:
        return DataType(have.root, have.nullable, element=_shown(wanted.element, have.element))
    if wanted.root == have.root == "MAP" and wanted.element and have.element:
        return DataType("MAP", have.nullable, element=_shown(wanted.element, have.element), key=have.key)
    return have


def element_output(rel: Rel, element: Element, timestamp: int | None, change: bool = False) -> OutputShape:
    """Elements of a stream; with `change` each is inside of a `Change` with its kind."""
    outward = Outward()
    template = element_source(rel, element, outward, kind=False)
    if change:
        made = outward.name("change", "Change", lambda: Change)
        return OutputShape(f"{made}({{kind}}, {template})", outward.pairs, None, False, timestamp)
    return OutputShape(template, outward.pairs, element.marker, False, timestamp)


def retract_shape(rel: Rel, element: Element, timestamp: int | None) -> OutputShape:
    """(True, row) for what is added, (False, row) for what is taken back."""
    outward = Outward()
    template = element_source(rel, element, outward, kind=True)
    adding = outward.name("adding", "is_added", lambda: _is_added)
    return OutputShape(f"({adding}({{kind}}), {template})", outward.pairs, None, False, timestamp)


def _is_added(kind: RowKind) -> bool:
    return kind is RowKind.INSERT or kind is RowKind.UPDATE_AFTER
