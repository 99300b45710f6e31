"""Functions over text and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from streamline._core import types as t
from streamline._core.types import MAX_LENGTH, DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import common_type, sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import first_type, literal_value
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast, register
from streamline.table.expr.runtime import casts, strings
from streamline.table.expr.signature import Function, define, is_null_literal

__all__ = ()


def _varying(types: Sequence[DataType]) -> DataType:
    """VARCHAR of the first operand's length."""
    return t.varchar(types[0].length)


def _joined_length(types: Sequence[DataType]) -> DataType:
    return t.varchar(min(MAX_LENGTH, types[0].length + types[1].length))


class _Length(Function):
    def bounds(self, call: Call) -> tuple[int, int] | None:
        return 0, MAX_LENGTH


register(_Length("CHAR_LENGTH", ["CHARACTER"], t.INT, code="len({0})"), "CHARACTER_LENGTH")
define("UPPER", ["CHARACTER"], first_type, code="{0}.upper()")
define("LOWER", ["CHARACTER"], first_type, code="{0}.lower()")
define("INITCAP", ["CHARACTER"], first_type, helper=strings.initcap)
define("REVERSE", ["CHARACTER"], t.STRING, nullable=True, total=True, code="{0}[::-1]")
define("REPEAT", ["CHARACTER INTEGER"], t.STRING, code="({0} * {1})")
define("REPLACE", ["CHARACTER CHARACTER CHARACTER"], t.STRING, code="{0}.replace({1}, {2})")
define(
    "OVERLAY",
    ["CHARACTER CHARACTER INTEGER", "CHARACTER CHARACTER INTEGER INTEGER"],
    _joined_length,
    helper=strings.overlay,
)
define("LPAD", ["CHARACTER INTEGER CHARACTER"], t.STRING, helper=strings.pad_left, total=False)
define("RPAD", ["CHARACTER INTEGER CHARACTER"], t.STRING, helper=strings.pad_right, total=False)
define("ASCII", ["CHARACTER"], t.INT, helper=strings.first_byte)
define("CHR", ["INTEGER"], t.STRING, helper=strings.character, nullable=True, total=True)


# -- parts -------------------------------------------------------------------------------------------------------


def _substring(em: Emitter, call: Call, text: str, start: str, length: str = "") -> str:
    first = literal_value(call.operands[1])
    count = literal_value(call.operands[2]) if length else None
    if first is not None and first >= 0 and (not length or (count is not None and count >= 0)):
        begin = max(first - 1, 0)
        end = begin + count if count is not None else None
        return f"{text}[{begin or ''}:{'' if end is None else end}]"
    return em.call(strings.substring, *filter(None, (text, start, length)))


def _end(name: str, helper: Callable[..., str], slice_: Callable[[int], str]) -> None:
    def code(em: Emitter, call: Call, text: str, length: str) -> str:
        count = literal_value(call.operands[1])
        if count is not None and count > 0:
            return f"{text}[{slice_(count)}]"
        return em.call(helper, text, length)

    define(name, ["CHARACTER INTEGER"], _varying, code=code, nullable=True, total=True)


for _name in ("SUBSTRING", "SUBSTR"):
    define(_name, ["CHARACTER INTEGER", "CHARACTER INTEGER INTEGER"], _varying, code=_substring, nullable=True)
_end("LEFT", strings.left, lambda n: f":{n}")
_end("RIGHT", strings.right, lambda n: f"-{n}:")


# -- trimming ----------------------------------------------------------------------------------------------------

_STRIP = {"BOTH": "strip", "LEADING": "lstrip", "TRAILING": "rstrip"}


class Trim(ScalarFunction):
    """TRIM([BOTH|LEADING|TRAILING] c FROM s): operands c and s, the side as option."""

    name = "TRIM"

    def supported(self) -> Sequence[str]:
        return ("TRIM([BOTH|LEADING|TRAILING] <CHARACTER> FROM <CHARACTER>)",)

    def text(self, call: Call) -> str:
        return f"TRIM({call.options[0]} {call.operands[0]} FROM {call.operands[1]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) == 1:
            operands = (Literal(" ", t.char(1).not_null()), operands[0])
        if any(map(is_null_literal, operands)):
            raise ValidationException("Illegal use of 'NULL' as an argument of TRIM.")
        if not all(o.type.is_character for o in operands):
            raise self.cannot_apply(operands)
        characters, text = operands
        nullable = characters.type.nullable or text.type.nullable
        side = options[0] if options else "BOTH"
        return Call(self, (characters, text), t.varchar(text.type.length).with_nullable(nullable), (side,))

    def emit(self, call: Call, em: Emitter) -> str:
        characters, text = call.operands
        return f"{em.value(text)}.{_STRIP[call.options[0]]}({em.value(characters)})"


def _strip(method: str) -> Callable[..., str]:
    def code(em: Emitter, call: Call, text: str, characters: str = "' '") -> str:
        return f"{text}.{method}({characters})"

    return code


register(Trim())
define("LTRIM", ["CHARACTER", "CHARACTER CHARACTER"], _varying, code=_strip("lstrip"))
define("RTRIM", ["CHARACTER", "CHARACTER CHARACTER"], _varying, code=_strip("rstrip"))
define("BTRIM", ["CHARACTER", "CHARACTER CHARACTER"], t.STRING, code=_strip("strip"), null_literal=True)


# -- searching ---------------------------------------------------------------------------------------------------


def _position(em: Emitter, call: Call, part: str, text: str, start: str = "") -> str:
    if not start:
        # Evaluation order does not matter: neither operand has effects.
        return f"({text}.find({part}) + 1)"
    return em.call(strings.locate, part, text, start)


for _name in ("POSITION", "LOCATE"):
    define(_name, ["CHARACTER CHARACTER", "CHARACTER CHARACTER INTEGER"], t.INT, code=_position)


def _instr(em: Emitter, call: Call, text: str, part: str, *place: str) -> str:
    if not place:
        return f"({text}.find({part}) + 1)"
    return em.call(strings.instr, text, part, *place)


_THREE = "CHARACTER CHARACTER INTEGER"
define("INSTR", ["CHARACTER CHARACTER", _THREE, f"{_THREE} INTEGER"], t.INT, code=_instr)
_PAIRS = ["CHARACTER CHARACTER", "BINARY BINARY"]
define("STARTSWITH", _PAIRS, t.BOOLEAN, code="{0}.startswith({1})", null_literal=True)
define("ENDSWITH", _PAIRS, t.BOOLEAN, code="{0}.endswith({1})", null_literal=True)


# -- joining -----------------------------------------------------------------------------------------------------


class Concatenation(ScalarFunction):
    """`a || b` of two texts or two binary strings."""

    name = "||"

    def supported(self) -> Sequence[str]:
        return ("<STRING> || <STRING>", "<EQUIVALENT_TYPE> || <EQUIVALENT_TYPE>")

    def call_text(self, types: Iterable[DataType]) -> str:
        return " || ".join(f"<{sql_text(x)}>" for x in types)

    def text(self, call: Call) -> str:
        return f"({call.operands[0]} || {call.operands[1]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        a, b = operands
        if is_null_literal(a) or is_null_literal(b):
            raise ValidationException("Illegal use of 'NULL' in '||': write CAST(NULL AS <type>) to give it a type.")
        nullable = a.type.nullable or b.type.nullable
        if a.type.root == b.type.root == "ARRAY":
            common = common_type((a.type, b.type))
            if common is not None:
                return Call(self, (cast(a, common), cast(b, common)), common.with_nullable(nullable))
        both = (a.type, b.type)
        if not (all(x.is_character for x in both) or all(x.is_binary for x in both)):
            raise self.cannot_apply(operands)
        fixed = a.type.root == b.type.root and a.type.root in ("CHAR", "BINARY")
        family = ("CHAR", "VARCHAR") if a.type.is_character else ("BINARY", "VARBINARY")
        length = min(MAX_LENGTH, a.type.length + b.type.length)
        result = DataType(family[0] if fixed else family[1], length=length)
        return Call(self, (a, b), result.with_nullable(nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        a, b = call.operands
        return f"({em.value(a)} + {em.value(b)})"


def _concat(em: Emitter, call: Call, *sources: str) -> str:
    return "(" + " + ".join(sources) + ")"


register(Concatenation())
define("CONCAT", ["CHARACTER CHARACTER*"], t.STRING, code=_concat)
define("CONCAT_WS", ["CHARACTER CHARACTER CHARACTER*"], t.STRING, helper=strings.concat_ws, strict=False)


class _Translate(Function):
    """TRANSLATE(s, from, to), which is only NULL where s is."""

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        bound = super().bind(operands, options)
        assert isinstance(bound, Call)
        return replace(bound, type=t.STRING.with_nullable(bound.operands[0].type.nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        text, source, target = call.operands
        return em.strict((text,), lambda x: em.call(strings.translate, x, em.value(source), em.value(target)))


register(
    _Translate("TRANSLATE", ["CHARACTER CHARACTER CHARACTER"], t.STRING, strict=False, null_literal=True),
    "TRANSLATE3",
)


# -- splitting ---------------------------------------------------------------------------------------------------

define(
    "SPLIT_INDEX",
    ["CHARACTER CHARACTER INTEGER", "CHARACTER INTEGER INTEGER"],
    t.STRING,
    helper=strings.split_index,
    nullable=True,
)
define("SPLIT", ["CHARACTER CHARACTER"], t.array(t.STRING), helper=strings.split, null_literal=True)


# -- encodings ---------------------------------------------------------------------------------------------------

define("FROM_BASE64", ["STRING"], t.STRING, helper=strings.from_base64)
define("TO_BASE64", ["STRING"], t.STRING, helper=strings.to_base64)
define("ENCODE", ["CHARACTER CHARACTER"], t.BYTES, helper=strings.encode)
define("DECODE", ["BINARY CHARACTER"], t.STRING, helper=strings.decode)
define("URL_ENCODE", ["CHARACTER"], t.STRING, helper=strings.url_encode, nullable=True, null_literal=True)
define(
    "URL_DECODE",
    ["CHARACTER", "CHARACTER BOOLEAN"],
    t.STRING,
    helper=strings.url_decode,
    nullable=True,
    null_literal=True,
)
define(
    "PARSE_URL",
    ["CHARACTER CHARACTER", "CHARACTER CHARACTER CHARACTER"],
    t.STRING,
    helper=strings.parse_url,
    nullable=True,
)
define("INET_ATON", ["CHARACTER"], t.BIGINT, helper=strings.inet_aton, nullable=True, null_literal=True)
define("INET_NTOA", ["INTEGER"], t.STRING, helper=strings.inet_ntoa, nullable=True, null_literal=True)


# -- what a text is ----------------------------------------------------------------------------------------------


def is_decimal_text(text: str | None) -> bool:
    """Whether a text can be read as a number."""
    return text is not None and casts.is_double(text)


def _is(test: str) -> Callable[..., str]:
    def code(em: Emitter, call: Call, x: str) -> str:
        operand = call.operands[0]
        if operand.type.is_numeric:
            counts = test == "decimal" or (test == "isdecimal" and operand.type.is_integer)
            return f"({x} is not None)" if counts else "False"
        if test == "decimal":
            return em.call(is_decimal_text, x)
        return f"({x} or '').{test}()" if em.can_be_null(operand) else f"{x}.{test}()"

    return code


for _name, _test in (("IS_ALPHA", "isalpha"), ("IS_DIGIT", "isdecimal"), ("IS_DECIMAL", "decimal")):
    define(_name, ["CHARACTER", "NUMERIC"], t.BOOLEAN, code=_is(_test), strict=False, nullable=False)


# -- choosing and printing ---------------------------------------------------------------------------------------


class Elt(ScalarFunction):
    """ELT(i, a, b, …): the i-th of the others, NULL where there is none."""

    name = "ELT"
    strict = False

    def supported(self) -> Sequence[str]:
        return ("ELT(<INTEGER>, <STRING>, …)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) < 2:
            raise self.wrong_count("at least 2")
        index, *items = operands
        common = common_type(i.type for i in items)
        if not index.type.is_integer or common is None or not (common.is_character or common.is_binary):
            raise self.cannot_apply(operands)
        typed = [Literal(None, common.null()) if is_null_literal(i) else i for i in items]
        return Call(self, (index, *typed), common.null())

    def emit(self, call: Call, em: Emitter) -> str:
        index, *items = call.operands
        values = ", ".join(map(em.value, items)) + ("," if len(items) == 1 else "")
        if isinstance(index, Literal):
            i = index.value
            return em.value(items[i - 1]) if i is not None and 1 <= i <= len(items) else "None"
        i = em.temp()
        test = f"({i} := {em.value(index)}) is not None and 1 <= {i} <= {len(items)}"
        if not em.can_be_null(index):
            test = f"1 <= ({i} := {em.value(index)}) <= {len(items)}"
        return f"(({values})[{i} - 1] if {test} else None)"


class Printf(ScalarFunction):
    """PRINTF(format, …); a NULL format gives NULL, other NULLs are printed."""

    name = "PRINTF"
    strict = False

    def supported(self) -> Sequence[str]:
        return ("PRINTF(<CHARACTER>, <ANY>, …)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not operands:
            raise self.wrong_count("at least 1")
        if not operands[0].type.is_character:
            raise self.cannot_apply(operands)
        typed = [Literal(None, t.STRING) if is_null_literal(o) else o for o in operands]
        return Call(self, tuple(typed), t.STRING)

    def emit(self, call: Call, em: Emitter) -> str:
        template, *values = call.operands
        sources = [self._value(v, em) for v in values]
        return em.strict((template,), lambda x: em.call(strings.printf, x, *sources))

    @staticmethod
    def _value(value: Expr, em: Emitter) -> str:
        type_ = value.type
        if type_.is_numeric or type_.is_character or type_.root == "BOOLEAN":
            return em.value(value)
        return em.value(cast(value, t.STRING))


register(Elt())
register(Printf())
