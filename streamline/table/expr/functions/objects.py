"""VARIANT, bitmaps, and objects of structured types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.errors import ValidationException
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import literal_value
from streamline.table.expr.nodes import Call, Expr
from streamline.table.expr.registry import ScalarFunction, cast, register
from streamline.table.expr.runtime import bitmap, variant
from streamline.table.expr.signature import define, is_null_literal

__all__ = ()

# -- VARIANT -----------------------------------------------------------------------------------------------------

VARIANT: Final = DataType("VARIANT")
_TEXT: Final = ["CHARACTER", "CHARACTER BOOLEAN"]
define("PARSE_JSON", _TEXT, VARIANT, helper=variant.parse_variant, null_literal=True)
define("TRY_PARSE_JSON", _TEXT, VARIANT, helper=variant.try_parse_variant, nullable=True, null_literal=True)


# -- bitmaps -----------------------------------------------------------------------------------------------------

BITMAP: Final = DataType("BITMAP")


def _integers(operands: Sequence[Expr]) -> None:
    element = operands[0].type.element
    if element is None or element.root not in ("TINYINT", "SMALLINT", "INT"):
        raise ValidationException(f"BITMAP_BUILD takes ARRAY<INT>, but was given {operands[0].type.null()}")


define("BITMAP_BUILD", ["ARRAY"], BITMAP, helper=bitmap.build, check=_integers, null_literal=True)
for _name, _code in (
    ("BITMAP_AND", "({0} & {1})"),
    ("BITMAP_OR", "({0} | {1})"),
    ("BITMAP_XOR", "({0} ^ {1})"),
    ("BITMAP_ANDNOT", "({0} - {1})"),
):
    define(_name, ["BITMAP BITMAP"], BITMAP, code=_code, null_literal=True)
define("BITMAP_CARDINALITY", ["BITMAP"], t.BIGINT, code="len({0})", null_literal=True)
define("BITMAP_TO_ARRAY", ["BITMAP"], t.array(t.INT), helper=bitmap.to_array, null_literal=True)
define("BITMAP_TO_STRING", ["BITMAP"], t.STRING, helper=bitmap.to_text, null_literal=True)
define("BITMAP_TO_BYTES", ["BITMAP"], t.BYTES, helper=bitmap.to_bytes, null_literal=True)
define("BITMAP_FROM_BYTES", ["BINARY"], BITMAP, helper=bitmap.from_bytes, null_literal=True)


# -- structured types --------------------------------------------------------------------------------------------


def _pairs(function: ScalarFunction, operands: Sequence[Expr]) -> dict[str, Expr]:
    """Field names (literals) and values in turn."""
    if len(operands) % 2:
        raise ValidationException(f"{function.name} takes names and values in turn after its first argument")
    found: dict[str, Expr] = {}
    for name, value in zip(operands[::2], operands[1::2]):
        text = literal_value(name)
        if not isinstance(text, str) or text in found:
            raise ValidationException(f"{function.name}: field names must be distinct string literals, not {name}")
        if is_null_literal(value):
            raise ValidationException(
                f"{function.name}: the value of '{text}' is a bare NULL; give it a type with a CAST"
            )
        found[text] = value
    return found


class ObjectOf(ScalarFunction):
    """OBJECT_OF('class', name, value, …): an object of a structured type."""

    name = "OBJECT_OF"
    strict = False

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands or not isinstance(literal_value(operands[0]), str):
            raise ValidationException("OBJECT_OF takes the name of a class as string literal, then names and values")
        fields = _pairs(self, operands[1:])
        described = tuple(Field(n, e.type.materialized()) for n, e in fields.items())
        type_ = t.structured(literal_value(operands[0]), described)
        return Call(self, tuple(fields.values()), type_)

    def emit(self, call: Call, em: Emitter) -> str:
        values = "".join(f"{em.value(o)}, " for o in call.operands)
        return f"({values.rstrip()})" if values else "()"


class ObjectUpdate(ScalarFunction):
    """OBJECT_UPDATE(object, name, value, …): a copy with some fields replaced."""

    name = "OBJECT_UPDATE"
    strict = False

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands or operands[0].type.root != "STRUCTURED":
            raise ValidationException("OBJECT_UPDATE takes an object of a structured type, then names and values")
        subject = operands[0]
        type_ = subject.type
        names = [f.name for f in type_.fields]
        updates = _pairs(self, operands[1:])
        unknown = next((n for n in updates if n not in names), None)
        if unknown is not None:
            raise ValidationException(f"The object has no field '{unknown}'; it has {', '.join(names)}")
        places = tuple(names.index(n) for n in updates)
        values = [cast(e, type_.fields[i].type) for i, e in zip(places, updates.values())]
        fields = list(type_.fields)
        for i, value in zip(places, values):
            fields[i] = Field(fields[i].name, fields[i].type.with_nullable(value.type.nullable))
        return Call(self, (subject, *values), replace(type_, fields=tuple(fields)).null(), places)

    def emit(self, call: Call, em: Emitter) -> str:
        subject, *values = call.operands
        changed = dict(zip(call.options, values))
        x = em.temp()
        items = [em.value(changed[i]) if i in changed else f"{x}[{i}]" for i in range(len(call.type.fields))]
        row = f"({', '.join(items)},)"
        return f"(None if ({x} := {em.value(subject)}) is None else {row})"


register(ObjectOf())
register(ObjectUpdate())
