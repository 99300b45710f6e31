"""JSON functions; keywords of a call (`ON EMPTY`, `WRAPPER`, …) are its options, as pairs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import TableException, ValidationException
from streamline.table.expr.coercion import sql_text
from streamline.table.expr.context import EvalContext
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import literal_value
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast, register
from streamline.table.expr.runtime import json, temporal
from streamline.table.expr.signature import define, is_null_literal

__all__ = ("json_form",)


# -- tests -------------------------------------------------------------------------------------------------------


class IsJson(ScalarFunction):
    """IS [NOT] JSON [VALUE|OBJECT|ARRAY|SCALAR]: never NULL."""

    strict = False

    def __init__(self, kind: str, negated: bool) -> None:
        self.name = f"IS {'NOT ' if negated else ''}JSON {kind}"
        self._kind = kind
        self._negated = negated

    def text(self, call: Call) -> str:
        return f"{call.operands[0]} {self.name}"

    def supported(self) -> Sequence[str]:
        return (f"<CHARACTER> {self.name}",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        if is_null_literal(operand):
            operand = Literal(None, t.STRING)
        if not operand.type.is_character:
            raise self.cannot_apply(operands)
        return Call(self, (operand,), t.BOOLEAN.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        text = em.call(json.is_json, em.value(call.operands[0]), repr(self._kind))
        return f"(not {text})" if self._negated else text


for _kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
    register(IsJson(_kind, False), *(["IS JSON"] if _kind == "VALUE" else []))
    register(IsJson(_kind, True), *(["IS NOT JSON"] if _kind == "VALUE" else []))


# -- paths -------------------------------------------------------------------------------------------------------


class _Path(ScalarFunction):
    """A function of JSON text and a path."""

    total = False
    _type: DataType
    _known: tuple[str, ...] = ()

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<CHARACTER>, <CHARACTER>)",)

    def text(self, call: Call) -> str:
        words = "".join(f" {k}: {v}" for k, v in call.options)
        return f"{self.name}({call.operands[0]}, {call.operands[1]}{words})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 2:
            raise self.wrong_count("2")
        typed = tuple(Literal(None, t.STRING) if is_null_literal(o) else o for o in operands)
        if not all(o.type.is_character for o in typed):
            raise self.cannot_apply(operands)
        return Call(self, typed, self._result(dict(options)).null(), options)

    def _result(self, options: dict[str, Any]) -> DataType:
        return self._type


class JsonExists(_Path):
    """JSON_EXISTS(j, path [TRUE|FALSE|UNKNOWN|ERROR ON ERROR])."""

    name = "JSON_EXISTS"
    _type = t.BOOLEAN

    def emit(self, call: Call, em: Emitter) -> str:
        on_error = dict(call.options).get("ON ERROR", "FALSE")
        return em.call(json.json_exists, *map(em.value, call.operands), repr(on_error))


_RETURNED: Final = ("VARCHAR", "CHAR", "BOOLEAN", "INT", "DOUBLE")


class JsonValue(_Path):
    """JSON_VALUE(j, path [RETURNING T] [… ON EMPTY] [… ON ERROR]); defaults follow the two operands."""

    name = "JSON_VALUE"
    strict = False

    def _result(self, options: dict[str, Any]) -> DataType:
        wanted: DataType = options.get("RETURNING", t.STRING)
        if wanted.root not in _RETURNED:
            raise ValidationException(
                f"JSON_VALUE cannot return {wanted.null()}; it returns STRING, BOOLEAN, INTEGER or DOUBLE"
            )
        return wanted

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        bound = super().bind(operands, options)
        assert isinstance(bound, Call)
        given = dict(options)
        defaults: list[Expr] = []
        for word in ("ON EMPTY", "ON ERROR"):
            default = given.get(word)
            if default is not None and not isinstance(default, str):
                given[word] = "DEFAULT"
                defaults.append(Literal(None, bound.type) if is_null_literal(default) else cast(default, bound.type))
        return Call(self, (*bound.operands, *defaults), bound.type, tuple(sorted(given.items())))

    def emit(self, call: Call, em: Emitter) -> str:
        text, path, *defaults = call.operands
        options = dict(call.options)
        convert = _scalar_conversion(call.type)
        name = em.cached(("json", call.type), lambda: convert, "scalar")
        behaviours: list[str] = []
        for word in ("ON EMPTY", "ON ERROR"):
            behaviour = options.get(word, "NULL")
            value = em.value(defaults.pop(0)) if behaviour == "DEFAULT" else "None"
            behaviours.append(f"({behaviour!r}, {value})")
        return em.strict((text, path), lambda x, y: em.call(json.json_value, x, y, name, *behaviours))


def _scalar_conversion(type_: DataType) -> Callable[[Any], Any]:
    match type_.root:
        case "BOOLEAN":
            return json.scalar_boolean
        case "DOUBLE":
            return lambda x: float(json.scalar_number(x))
        case "CHAR" | "VARCHAR":
            return lambda x: json.scalar_text(x)[: type_.length]
    return lambda x: int(json.scalar_number(x))


class JsonQuery(_Path):
    """JSON_QUERY(j, path [RETURNING ARRAY<STRING>] [… WRAPPER] [… ON EMPTY] [… ON ERROR])."""

    name = "JSON_QUERY"

    def _result(self, options: dict[str, Any]) -> DataType:
        wanted: DataType = options.get("RETURNING", t.STRING)
        texts = wanted.root == "ARRAY" and wanted.element is not None and wanted.element.is_character
        if not (wanted.is_character or texts):
            raise ValidationException(f"JSON_QUERY cannot return {wanted.null()}; it returns STRING or ARRAY<STRING>")
        if wanted.root == "ARRAY" and "EMPTY OBJECT" in (options.get("ON EMPTY"), options.get("ON ERROR")):
            raise ValidationException("JSON_QUERY cannot return an EMPTY OBJECT as ARRAY<STRING>")
        return wanted

    def emit(self, call: Call, em: Emitter) -> str:
        options = dict(call.options)
        words = (options.get("WRAPPER", "WITHOUT"), options.get("ON EMPTY", "NULL"), options.get("ON ERROR", "NULL"))
        as_array = str(call.type.root == "ARRAY")
        return em.call(json.json_query, *map(em.value, call.operands), *map(repr, words), as_array)


register(JsonExists())
register(JsonValue())
register(JsonQuery())


# -- constructors ------------------------------------------------------------------------------------------------


def json_form(type_: DataType, context: EvalContext) -> Callable[[Any], Any] | None:
    """How a value of a type is put into JSON: a function of a value that is not NULL; None: as it is.

    Raises:
        ValidationException: if values of the type are not put into JSON.
    """
    match type_.root:
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "DOUBLE" | "DECIMAL" | "CHAR" | "VARCHAR" | "NULL":
            return None
        case "FLOAT":
            return float
        case "BINARY" | "VARBINARY":
            return lambda x: base64.b64encode(x).decode()
        case "TIMESTAMP":
            return _iso
        case "TIMESTAMP_LTZ":
            return lambda x: _iso(x) + "Z"
        case "VARIANT":
            return lambda x: json.RawJson(str(x))
        case "ARRAY":
            assert type_.element is not None
            item = _nullable_form(type_.element, context)
            return None if item is None else lambda items: [item(x) for x in items]
        case "MAP" | "MULTISET":
            return _map_form(type_, context)
        case "ROW" | "STRUCTURED":
            names = [f.name for f in type_.fields]
            forms = [_nullable_form(f.type, context) or _identity for f in type_.fields]
            return lambda row: {n: form(x) for n, form, x in zip(names, forms, row)}
    raise ValidationException(
        f"Type '{type_.null()}' is not scalar or cannot be converted into JSON. Cast it to STRING or TIMESTAMP first."
    )


def _identity(value: Any) -> Any:
    return value


def _iso(nanos: int) -> str:
    """A timestamp as ISO 8601, with as many digits of the second as it needs."""
    text = temporal.format_timestamp(nanos, 9).replace(" ", "T")
    return text.rstrip("0").rstrip(".") if not text.endswith(".000000000") else text[:-10]


def _nullable_form(type_: DataType, context: EvalContext) -> Callable[[Any], Any] | None:
    form = json_form(type_, context)
    return None if form is None else lambda x: None if x is None else form(x)


def _map_form(type_: DataType, context: EvalContext) -> Callable[[Any], Any]:
    key = type_.key or type_.element
    assert key is not None and type_.element is not None
    if not key.is_character:
        raise ValidationException(
            f"Unsupported type '{type_.null()}' for a JSON object: its keys must be strings, but are {sql_text(key)}"
        )
    item = (_nullable_form(type_.element, context) if type_.root == "MAP" else None) or _identity

    def form(entries: dict[Any, Any]) -> dict[str, Any]:
        if None in entries:
            raise TableException("A key of a map is NULL, which is not supported in JSON.")
        return {k: item(v) for k, v in entries.items()}

    return form


def _embedded(operand: Expr) -> bool:
    """Whether the operand gives JSON text that is embedded as it is."""
    return isinstance(operand, Call) and operand.function.name in ("JSON_OBJECT", "JSON_ARRAY", "JSON")


def _put(operand: Expr, em: Emitter) -> str:
    """Source of the form in which an operand is put into JSON."""
    form = json_form(operand.type, em.context)
    if form is None:
        return em.value(operand)
    name = em.cached(("json form", operand.type), lambda: form, "form")
    return em.strict((operand,), lambda x: f"{name}({x})")


class _Constructor(ScalarFunction):
    """JSON_OBJECT and JSON_ARRAY."""

    strict = False

    def __init__(self, name: str, keyed: bool, default: str) -> None:
        self.name = name
        self._keyed = keyed
        self._default = default

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        for i, operand in enumerate(operands):
            if self._keyed and i % 2 == 0:
                if not (operand.type.is_character and isinstance(literal_value(operand), str)):
                    raise ValidationException("The keys of JSON_OBJECT must be non-NULL string literals")
            elif is_null_literal(operand):
                raise ValidationException(f"Illegal use of 'NULL' in {self.name}: write CAST(NULL AS <type>).")
            elif not _embedded(operand):
                json_form(operand.type, EvalContext())  # refuses what has no form
        # Folding may turn an embedded call into a text like any other, so its place is noted here.
        embedded = tuple(i for i, o in enumerate(operands) if _embedded(o))
        return Call(self, tuple(operands), t.STRING.not_null(), (*options, ("EMBEDDED", embedded)))

    def emit(self, call: Call, em: Emitter) -> str:
        options = dict(call.options)
        absent = options.get("ON NULL", self._default) == "ABSENT"
        if self._keyed:
            function = json.json_object_absent if absent else json.json_object
        else:
            function = json.json_array_absent if absent else json.json_array
        sources: list[str] = []
        for i, operand in enumerate(call.operands):
            if self._keyed and i % 2 == 0:
                sources.append(em.value(operand))
            elif i in options["EMBEDDED"]:
                sources.append(em.strict((operand,), lambda x: em.call(json.RawJson, x)))
            else:
                sources.append(_put(operand, em))
        return em.call(function, *sources)


register(_Constructor("JSON_OBJECT", True, "NULL"))
register(_Constructor("JSON_ARRAY", False, "ABSENT"))


class _JsonString(ScalarFunction):
    """JSON_STRING(v): any value as JSON text."""

    name = "JSON_STRING"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 1:
            raise self.wrong_count("1")
        (operand,) = operands
        if is_null_literal(operand):
            operand = Literal(None, t.STRING)
        json_form(operand.type, EvalContext())
        return Call(self, (operand,), t.STRING.with_nullable(operand.type.nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        return em.call(json.dumps, _put(call.operands[0], em))


register(_JsonString())
define("JSON", ["CHARACTER"], t.STRING, helper=json.raw, nullable=True, null_literal=True)
define("JSON_QUOTE", ["CHARACTER"], t.STRING, helper=json.quote, null_literal=True)
define("JSON_UNQUOTE", ["CHARACTER"], t.STRING, helper=json.unquote, null_literal=True)
