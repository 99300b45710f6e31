"""Arrays, maps and rows: constructors, access, functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.errors import ValidationException
from streamline.table.expr.coercion import common_type, implicitly, sql_text, union_type
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.guards import not_null
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast, register
from streamline.table.expr.runtime import collections
from streamline.table.expr.signature import Function, define, illegal_null, is_null_literal

__all__ = ()


def _element(type_: DataType) -> DataType:
    assert type_.element is not None
    return type_.element


def _key(type_: DataType) -> DataType:
    assert type_.key is not None
    return type_.key


def _typed(expr: Expr, type_: DataType) -> Expr:
    return Literal(None, type_.null()) if is_null_literal(expr) else cast(expr, type_)


def _common(function: ScalarFunction, operands: Sequence[Expr], what: str) -> DataType:
    common = union_type(o.type for o in operands)
    if common is None:
        given = ", ".join(f"<{sql_text(o.type)}>" for o in operands)
        raise ValidationException(f"Parameters of {function.name} must have compatible types: {what} are {given}")
    if common.root == "NULL":
        raise ValidationException(f"{function.name} of NULLs alone has no type: give one of them a type with a CAST")
    return common


# -- constructors ------------------------------------------------------------------------------------------------


class Array(ScalarFunction):
    """ARRAY[a, b, …]."""

    name = "ARRAY"
    strict = False

    def text(self, call: Call) -> str:
        return f"ARRAY[{', '.join(map(str, call.operands))}]"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            raise ValidationException("Require at least 1 argument in ARRAY[]")
        common = _common(self, operands, "the elements")
        return Call(self, tuple(_typed(o, common) for o in operands), t.array(common).not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        return f"[{', '.join(map(em.value, call.operands))}]"


class Map(ScalarFunction):
    """MAP[k, v, …]."""

    name = "MAP"
    strict = False

    def text(self, call: Call) -> str:
        return f"MAP[{', '.join(map(str, call.operands))}]"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            raise ValidationException("Map requires at least 2 arguments: MAP[key, value, …]")
        if len(operands) % 2:
            raise ValidationException("Map requires an even number of arguments: MAP[key, value, …]")
        key = _common(self, operands[::2], "the keys")
        value = _common(self, operands[1::2], "the values")
        typed = [_typed(o, value if i % 2 else key) for i, o in enumerate(operands)]
        return Call(self, tuple(typed), t.map_of(key, value).not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        pairs = zip(call.operands[::2], call.operands[1::2])
        return "{" + ", ".join(f"{em.value(k)}: {em.value(v)}" for k, v in pairs) + "}"


class Row(ScalarFunction):
    """ROW(a, b, …); its fields are named EXPR$0, EXPR$1, …"""

    name = "ROW"
    strict = False

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            raise ValidationException("ROW needs at least one field")
        if any(map(is_null_literal, operands)):
            raise illegal_null("ROW")
        fields = tuple(Field(f"EXPR${i}", o.type.materialized()) for i, o in enumerate(operands))
        return Call(self, tuple(operands), t.row(*fields).not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        values = [em.value(o) for o in call.operands]
        return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


register(Array())
register(Map())
register(Row())


# -- access ------------------------------------------------------------------------------------------------------


class FieldAccess(ScalarFunction):
    """`row.field`: the name or position as option."""

    name = "."
    total = False

    def text(self, call: Call) -> str:
        return f"{call.operands[0]}.{call.operands[0].type.fields[call.options[0]].name}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (row,) = operands
        wanted = options[0]
        fields = row.type.fields
        if not row.type.is_composite:
            raise ValidationException(f"{row} is {row.type.null()}: it has no field '{wanted}'")
        names = [f.name for f in fields]
        index = wanted if isinstance(wanted, int) else names.index(wanted) if wanted in names else -1
        if not 0 <= index < len(fields):
            raise ValidationException(f"Field '{wanted}' not found in {row}; it has the fields {', '.join(names)}")
        type_ = fields[index].type
        return Call(self, (row,), type_.with_nullable(type_.nullable or row.type.nullable), (index,))

    def never_null(self, call: Call) -> bool:
        return not call.operands[0].type.fields[call.options[0]].type.nullable

    def emit(self, call: Call, em: Emitter) -> str:
        (row,) = call.operands
        index = call.options[0]
        if isinstance(row, Call) and row.function.name == "ROW":
            return em.value(row.operands[index])
        return f"{em.value(row)}[{index}]"


class Item(ScalarFunction):
    """`array[i]`, `map[k]`, `row['f']`, `row[i]`, `variant[…]`."""

    name = "ITEM"
    total = False
    forms = (
        "<ARRAY>[<INTEGER>]",
        "<MAP>[<ANY>]",
        "<ROW>[<CHARACTER>|<INTEGER>]",
        "<VARIANT>[<CHARACTER>|<INTEGER>]",
    )

    def text(self, call: Call) -> str:
        return f"{call.operands[0]}[{call.operands[1]}]"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        container, index = operands
        match container.type.root:
            case "ARRAY" if index.type.is_integer:
                self._check_index(index)
                return Call(self, (container, index), _element(container.type).null())
            case "MAP" if common_type((_key(container.type), index.type)) is not None:
                wanted = _key(container.type)
                key = index if index.type.is_character else _typed(index, wanted.null())
                return Call(self, (container, key), _element(container.type).null())
            case "ROW" | "STRUCTURED" if isinstance(index, Literal):
                place = index.value - 1 if index.type.is_integer else index.value
                return FIELD.bind((container,), (place,))
            case "VARIANT" if index.type.is_integer or index.type.is_character:
                return Call(self, (container, index), container.type.null())
        raise self.cannot_apply(operands)

    @staticmethod
    def _check_index(index: Expr) -> None:
        if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 1:
            raise ValidationException(f"Array element access needs an index starting at 1 but was {index.value}.")

    def emit(self, call: Call, em: Emitter) -> str:
        container, index = call.operands
        x, i = em.value(container), em.value(index)
        if container.type.root == "MAP":
            return f"{x}.get({i})"
        if container.type.root == "VARIANT":
            return em.call(_variant_item, x, i)
        return em.call(collections.array_item, x, i)


def _variant_item(value: Any, index: Any) -> Any:
    return value.item(index)


FIELD = register(FieldAccess())
register(Item())


# -- functions ---------------------------------------------------------------------------------------------------

_INT = t.INT
define("CARDINALITY", ["ARRAY", "MAP"], _INT, code="len({0})")


class _Element(ScalarFunction):
    """ELEMENT(array): its only element."""

    name = "ELEMENT"
    total = False
    forms = ("ELEMENT(<ARRAY>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 1:
            raise self.wrong_count("1")
        (array,) = operands
        if array.type.root != "ARRAY":
            raise self.cannot_apply(operands)
        element = _element(array.type)
        return Call(self, (array,), element.with_nullable(element.nullable or array.type.nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        text = em.call(collections.element, em.value(call.operands[0]))
        return not_null(em, call.type, text, self.name, True)


register(_Element())


class ArrayAndElement(ScalarFunction):
    """A function of an array and an element, which may be NULL."""

    strict = False

    def __init__(
        self,
        name: str,
        helper: Callable[..., Any],
        returns: Callable[[DataType], DataType],
        *,
        inserts: bool = False,
        null_element: bool = True,
        nullable_with_element: bool = False,
    ) -> None:
        self.name = name
        self._helper = helper
        self._returns = returns
        self._inserts = inserts
        self._null_element = null_element
        self._nullable_with_element = nullable_with_element

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<ARRAY>, <ELEMENT>)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 2:
            raise self.wrong_count("2")
        array, element = operands
        if array.type.root != "ARRAY":
            raise self.cannot_apply(operands)
        own = _element(array.type)
        common = common_type((own, element.type))
        if common is None or not implicitly(element.type, own):
            raise self.cannot_apply(operands)
        converted = not element.type.same_type(own) and own.root != "VARCHAR"
        may_be_null = element.type.nullable or (own.nullable and converted)
        if own.root == "CHAR" and element.type.root == "VARCHAR":
            own = common
            array = cast(array, t.array(own.with_nullable(_element(array.type).nullable)))
        if self._inserts:
            own = own.with_nullable(own.nullable or element.type.nullable)
            array = cast(array, t.array(own))
            element = _typed(element, own)
            if converted and isinstance(element, Call):
                element = replace(element, type=own)  # what does not fit is NULL
        elif is_null_literal(element) or not (own.is_character or own.root == "DECIMAL"):
            element = _typed(element, own)  # else the values compare as they are
        nullable = array.type.nullable or (self._nullable_with_element and may_be_null)
        return Call(self, (array, element), self._returns(own).with_nullable(nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        array, element = call.operands
        if self._null_element:
            return em.strict((array,), lambda x: em.call(self._helper, x, em.value(element)))
        return em.strict(call.operands, lambda x, y: em.call(self._helper, x, y))


register(ArrayAndElement("ARRAY_APPEND", collections.array_append, t.array, inserts=True, nullable_with_element=True))
register(ArrayAndElement("ARRAY_PREPEND", collections.array_prepend, t.array, inserts=True, nullable_with_element=True))
register(ArrayAndElement("ARRAY_REMOVE", collections.array_remove, t.array))
register(ArrayAndElement("ARRAY_CONTAINS", collections.array_contains, lambda _: t.BOOLEAN))
register(
    ArrayAndElement(
        "ARRAY_POSITION",
        collections.array_position,
        lambda _: _INT,
        null_element=False,
        nullable_with_element=True,
    )
)


class ArrayFunction(Function):
    """A function of arrays of one type."""

    def __init__(self, name: str, count: tuple[int, int | None], helper: Callable[..., Any]) -> None:
        forms = ["ARRAY " * count[0] + ("ARRAY*" if count[1] is None else "")]
        super().__init__(name, forms, lambda types: types[0], helper=helper, null_literal=True)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        bound = super().bind(operands, options)
        assert isinstance(bound, Call)
        common = common_type(o.type for o in operands)
        if common is None or common.root == "NULL":
            raise self.cannot_apply(operands)
        return replace(bound, operands=tuple(_typed(o, common) for o in operands), type=common)


for _name, _helper in (
    ("ARRAY_DISTINCT", collections.array_distinct),
    ("ARRAY_REVERSE", None),
    ("ARRAY_UNION", collections.array_union),
    ("ARRAY_EXCEPT", collections.array_except),
    ("ARRAY_INTERSECT", collections.array_intersect),
    ("ARRAY_CONCAT", collections.array_concat),
):
    if _helper is None:
        define(_name, ["ARRAY"], lambda types: types[0], code="{0}[::-1]", null_literal=True)
    elif _name == "ARRAY_CONCAT":
        register(ArrayFunction(_name, (1, None), _helper))
    else:
        register(ArrayFunction(_name, (1 if _name == "ARRAY_DISTINCT" else 2, 0), _helper))

define(
    "ARRAY_SLICE",
    ["ARRAY INTEGER", "ARRAY INTEGER INTEGER"],
    lambda types: types[0],
    helper=collections.array_slice,
    null_literal=True,
)


def _ordered(operands: Sequence[Expr]) -> None:
    element = _element(operands[0].type)
    if element.is_composite or element.root in ("ARRAY", "MAP", "MULTISET"):
        raise ValidationException(f"Elements of type {element} have no order: {sql_text(operands[0].type)}")


define(
    "ARRAY_SORT",
    ["ARRAY", "ARRAY BOOLEAN", "ARRAY BOOLEAN BOOLEAN"],
    lambda types: types[0],
    helper=collections.array_sort,
    null_literal=True,
    check=_ordered,
)
for _name, _helper in (("ARRAY_MAX", collections.array_max), ("ARRAY_MIN", collections.array_min)):
    define(
        _name,
        ["ARRAY"],
        lambda types: _element(types[0]),
        helper=_helper,
        nullable=True,
        null_literal=True,
        check=_ordered,
    )


def _texts(operands: Sequence[Expr]) -> None:
    if operands[0].type.root == "ARRAY" and not _element(operands[0].type).is_character:
        raise ValidationException(
            f"Cannot apply 'ARRAY_JOIN' to arguments of type 'ARRAY_JOIN(<{sql_text(operands[0].type)}>, …)'. "
            "Supported form(s): 'ARRAY_JOIN(<ARRAY<STRING>>, <CHARACTER>[, <CHARACTER>])'"
        )


define(
    "ARRAY_JOIN",
    ["ARRAY CHARACTER", "ARRAY CHARACTER CHARACTER"],
    t.STRING,
    helper=collections.array_join,
    null_literal=True,
    check=_texts,
)


def _entries(types: Sequence[DataType]) -> DataType:
    return t.array(t.row(Field("key", _key(types[0])), Field("value", _element(types[0]))))


def _entry_type(types: Sequence[DataType]) -> DataType:
    # The rows themselves are nullable by type, as Flink has them.
    return _entries(types)


define("MAP_KEYS", ["MAP"], lambda types: t.array(_key(types[0])), helper=collections.map_keys, null_literal=True)
define(
    "MAP_VALUES", ["MAP"], lambda types: t.array(_element(types[0])), helper=collections.map_values, null_literal=True
)
define("MAP_ENTRIES", ["MAP"], _entry_type, helper=collections.map_entries, null_literal=True)
define(
    "MAP_FROM_ARRAYS",
    ["ARRAY ARRAY"],
    lambda types: t.map_of(_element(types[0]), _element(types[1])),
    helper=collections.map_from_arrays,
    null_literal=True,
)


class _MapUnion(Function):
    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        bound = super().bind(operands, options)
        assert isinstance(bound, Call)
        common = common_type(o.type for o in operands)
        if common is None or common.root == "NULL":
            raise self.cannot_apply(operands)
        return replace(bound, operands=tuple(_typed(o, common) for o in operands), type=common)


register(_MapUnion("MAP_UNION", ["MAP MAP*"], lambda types: types[0], helper=collections.map_union, null_literal=True))
