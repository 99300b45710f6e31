"""Functions over numbers."""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.table.expr.coercion import MAX_PRECISION
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import first_type, integer_result, literal_value
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, register
from streamline.table.expr.runtime import maths, numbers
from streamline.table.expr.signature import Function, define

__all__ = ("round_type",)


def _fixed_integers(em: Emitter, call: Call, text: str) -> str:
    """An integer result that may lie outside of its type by one step."""
    return integer_result(em, call.type.root, text)


def _absolute(em: Emitter, call: Call, x: str) -> str:
    if call.type.root == "DECIMAL":
        return f"{x}.copy_abs()"
    return _fixed_integers(em, call, f"abs({x})") if call.type.is_integer else f"abs({x})"


def _sign(em: Emitter, call: Call, x: str) -> str:
    if call.type.root == "DECIMAL":
        return em.call(maths.decimal_sign, x, em.constant(numbers.decimal_unit(call.type.scale), "unit"))
    if call.type.is_approximate:
        return em.call(maths.double_sign, x)
    name = em.temp()
    return f"((({name} := {x}) > 0) - ({name} < 0))"


define("ABS", ["NUMERIC"], first_type, code=_absolute)
define("SIGN", ["NUMERIC"], first_type, code=_sign)


# -- rounding ----------------------------------------------------------------------------------------------------


def round_type(type_: DataType, places: int | None) -> DataType:
    """Type of a number rounded to so many places; rounding can need one digit more before the point."""
    if type_.root != "DECIMAL" or places is None or places >= type_.scale:
        return type_.materialized()
    whole = 1 + type_.precision - type_.scale
    if places < 0:
        return t.decimal(min(MAX_PRECISION, whole), 0)
    return t.decimal(min(MAX_PRECISION, whole + places), places)


class Rounding(ScalarFunction):
    """ROUND and TRUNCATE."""

    def __init__(
        self,
        name: str,
        integer: Callable[[int, int], int],
        approximate: Callable[[float, int], float],
        exact: Callable[..., Any],
    ) -> None:
        self.name = name
        self._integer = integer
        self._approximate = approximate
        self._exact = exact

    def supported(self) -> Sequence[str]:
        return (f"{self.name}(<NUMERIC>)", f"{self.name}(<NUMERIC>, <INTEGER>)")

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if not 1 <= len(operands) <= 2:
            raise self.wrong_count("1 or 2")
        number, *rest = operands
        places = rest[0] if rest else Literal(0, t.INT.not_null())
        constant = literal_value(_folded_sign(places))
        if not number.type.is_numeric or not places.type.is_integer:
            raise self.cannot_apply(operands)
        if constant is not None:
            places = Literal(constant, t.INT.not_null())
        result = round_type(number.type, constant)
        return Call(self, (number, places), result.with_nullable(number.type.nullable or places.type.nullable))

    def text(self, call: Call) -> str:
        number, places = call.operands
        return f"{self.name}({number})" if literal_value(places) == 0 else f"{self.name}({number}, {places})"

    def emit(self, call: Call, em: Emitter) -> str:
        number, places = call.operands
        x, n = em.value(number), em.value(places)
        if call.type.is_integer:
            if (literal_value(places) or 0) >= 0 and isinstance(places, Literal):
                return x
            return _fixed_integers(em, call, em.call(self._integer, x, n))
        if call.type.root == "DECIMAL":
            constant = literal_value(places)
            if constant is not None and constant >= number.type.scale:
                return x
            if constant is None:
                n = f"min({n}, {number.type.scale})"
            return em.call(self._exact, x, n, em.constant(numbers.decimal_unit(call.type.scale), "unit"))
        rounded = em.call(self._approximate, x, n)
        return em.call(numbers.float32, rounded) if call.type.root == "FLOAT" else rounded


def _folded_sign(places: Expr) -> Expr:
    """A literal behind a minus."""
    if isinstance(places, Call) and places.function.name == "-/1":
        inner = literal_value(places.operands[0])
        return Literal(-inner, places.type) if isinstance(inner, int) else places
    return places


register(Rounding("ROUND", maths.int_round, maths.double_round, maths.decimal_round))
register(Rounding("TRUNCATE", maths.int_truncate, maths.double_truncate, maths.decimal_cut))


# -- functions of real numbers -----------------------------------------------------------------------------------

for _name, _helper in (
    ("EXP", maths.exponential),
    ("LN", maths.natural_log),
    ("LOG10", maths.log_10),
    ("LOG2", maths.log_2),
    ("SQRT", maths.root),
    ("SIN", maths.sine),
    ("COS", maths.cosine),
    ("TAN", maths.tangent),
    ("COT", maths.cotangent),
    ("ASIN", maths.arc_sine),
    ("ACOS", maths.arc_cosine),
    ("ATAN", math.atan),
    ("SINH", maths.hyperbolic_sine),
    ("COSH", maths.hyperbolic_cosine),
    ("TANH", math.tanh),
    ("DEGREES", math.degrees),
    ("RADIANS", math.radians),
):
    define(_name, ["DOUBLE"], t.DOUBLE, helper=_helper)

define("POWER", ["DOUBLE DOUBLE"], t.DOUBLE, helper=maths.power)
define("ATAN2", ["DOUBLE DOUBLE"], t.DOUBLE, helper=math.atan2)
define("PI", [""], t.DOUBLE.not_null(), code=lambda em, call: em.constant(math.pi))
define("E", [""], t.DOUBLE.not_null(), code=lambda em, call: em.constant(math.e))


def _logarithm(em: Emitter, call: Call, *sources: str) -> str:
    return em.call(maths.natural_log if len(sources) == 1 else maths.log_of, *sources)


define("LOG", ["DOUBLE", "DOUBLE DOUBLE"], t.DOUBLE, code=_logarithm)


# -- random numbers ----------------------------------------------------------------------------------------------


def _random(em: Emitter, call: Call, *sources: str) -> str:
    """A constant seed makes one generator for all rows; any other, one for each row."""
    if not sources:
        return em.call(random.random)
    seed = literal_value(call.operands[0])
    if seed is None:
        return em.call(maths.seeded_double, *sources)
    return f"{em.cached((id(call), 'random'), lambda: maths.JavaRandom(seed), 'random')}.double()"


def _random_integer(em: Emitter, call: Call, *sources: str) -> str:
    if len(sources) == 1:
        return em.call(random.randrange, *sources)
    seed = literal_value(call.operands[0])
    if seed is None:
        return em.call(maths.seeded_integer, *sources)
    generator = em.cached((id(call), "random"), lambda: maths.JavaRandom(seed), "random")
    return f"{generator}.integer({sources[1]})"


def random_uuid() -> str:
    """A random UUID as text."""
    return str(uuid.uuid4())


define("RAND", ["", "INTEGER"], t.DOUBLE, code=_random, deterministic=False)
define("RAND_INTEGER", ["INTEGER", "INTEGER INTEGER"], t.INT, code=_random_integer, deterministic=False)
define("UUID", [""], t.char(36).not_null(), helper=random_uuid, deterministic=False)


# -- digits ------------------------------------------------------------------------------------------------------


def _hexadecimal(em: Emitter, call: Call, x: str) -> str:
    if call.operands[0].type.is_character:
        return f"{x}.encode().hex().upper()"
    return em.call(maths.hex_text, x)


def unhex(text: str) -> bytes | None:
    """The bytes of hexadecimal digits; None for other characters.

    Of an odd number of digits the first is replaced by a zero byte, as Flink documents it.
    """
    try:
        if " " in text:
            return None
        return bytes.fromhex(text) if len(text) % 2 == 0 else b"\0" + bytes.fromhex(text[1:])
    except ValueError:
        return None


define("BIN", ["INTEGER"], t.STRING, helper=maths.binary_text)
define("HEX", ["INTEGER", "CHARACTER"], t.STRING, code=_hexadecimal)
define("UNHEX", ["CHARACTER"], t.BYTES, helper=unhex, nullable=True, null_literal=True)


# -- CEIL and FLOOR, of numbers and of times ---------------------------------------------------------------------


class NumericLimit(Function):
    """CEIL and FLOOR of a number; `functions.temporal` adds the form with a unit."""

    def __init__(self, name: str, exact: Callable[..., Any], approximate: Callable[..., Any]) -> None:
        super().__init__(name, ["NUMERIC"], self._result)
        self._exact = exact
        self._approximate = approximate

    @staticmethod
    def _result(types: Sequence[DataType]) -> DataType:
        (type_,) = types
        return t.decimal(type_.precision, 0) if type_.root == "DECIMAL" else type_.materialized()

    def emit(self, call: Call, em: Emitter) -> str:
        x = em.value(call.operands[0])
        if call.type.is_integer:
            return x
        return em.call(self._exact if call.type.root == "DECIMAL" else self._approximate, x)


CEIL_NUMBER = NumericLimit("CEIL", maths.decimal_ceil, maths.double_ceil)
FLOOR_NUMBER = NumericLimit("FLOOR", maths.decimal_floor, maths.double_floor)
