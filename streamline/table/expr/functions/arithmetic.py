"""The operators + - * / % over numbers, and over times and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr import coercion
from streamline.table.expr.coercion import as_decimal, common_type, integer_range, sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.functions.support import bounds_of, decimal_result, integer_result, not_null
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast, register
from streamline.table.expr.runtime import numbers, temporal
from streamline.table.expr.signature import is_null_literal

__all__ = ("Arithmetic", "Negate")

_INTERVAL: Final = "<DATETIME_INTERVAL>"


_EXACT: Final = {
    "+": ("add", numbers.decimal_add),
    "-": ("subtract", numbers.decimal_subtract),
    "*": ("multiply", numbers.decimal_multiply),
}


class Arithmetic(ScalarFunction):
    """A binary operator over numbers."""

    total = False

    def __init__(self, name: str, *extra_forms: tuple[str, str]) -> None:
        self.name = name
        self._forms = (("<NUMERIC>", "<NUMERIC>"), *extra_forms)

    def supported(self) -> Sequence[str]:
        return [f"{a} {self.name} {b}" for a, b in self._forms]

    def call_text(self, types: Iterable[DataType]) -> str:
        return f" {self.name} ".join(f"<{sql_text(x)}>" for x in types)

    def text(self, call: Call) -> str:
        a, b = call.operands
        return f"({a} {self.name} {b})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 2:
            raise self.wrong_count("2")
        if any(map(is_null_literal, operands)):
            raise ValidationException(
                f"Illegal use of 'NULL' in '{self.name}': write CAST(NULL AS <type>) to give it a type."
            )
        a, b = operands
        if a.type.is_numeric and b.type.is_numeric:
            return self._bind_numbers(a, b)
        return self._bind_other(a, b)

    def _bind_other(self, a: Expr, b: Expr) -> Expr:
        raise self.cannot_apply((a, b))

    def _bind_numbers(self, a: Expr, b: Expr) -> Expr:
        nullable = a.type.nullable or b.type.nullable
        if not (a.type.is_approximate or b.type.is_approximate) and "DECIMAL" in (a.type.root, b.type.root):
            result = self._decimal_type(as_decimal(a.type), as_decimal(b.type))
        else:
            result = self._plain_type(a.type, b.type)
            if result.is_approximate:
                a, b = (cast(x, t.DOUBLE) if x.type.root == "DECIMAL" else x for x in (a, b))
        return Call(self, (a, b), result.with_nullable(nullable))

    def _decimal_type(self, a: DataType, b: DataType) -> DataType:
        return coercion.decimal_add(a, b)

    def _plain_type(self, a: DataType, b: DataType) -> DataType:
        common = common_type((a, b))
        assert common is not None
        return common

    def never_null(self, call: Call) -> bool:
        if call.type.root != "DECIMAL" or not call.type.nullable:
            return True
        a, b = (as_decimal(o.type) for o in call.operands)
        return self._exact(a, b, call.type)

    def _exact(self, a: DataType, b: DataType, result: DataType) -> bool:
        """Whether the decimal result has room for all digits."""
        return a.scale <= result.scale and b.scale <= result.scale and result.precision < coercion.MAX_PRECISION

    def bounds(self, call: Call) -> tuple[int, int] | None:
        exact = self._exact_bounds(call)
        if exact is None:
            return None
        low, high = integer_range(call.type.root)
        return exact if low <= exact[0] and exact[1] <= high else None

    def _exact_bounds(self, call: Call) -> tuple[int, int] | None:
        """Bounds of the mathematical result, which may be wider than the type."""
        if not call.type.is_integer:
            return None
        (a, b), (c, d) = (bounds_of(o) for o in call.operands)
        return self._combine_bounds(a, b, c, d)

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        return None

    def emit(self, call: Call, em: Emitter) -> str:
        root = call.type.root
        if root == "DECIMAL":
            return self._emit_decimal(call, em, *map(em.value, call.operands))
        text = self.emit_unwrapped(call, em)
        if root == "FLOAT":
            return em.call(numbers.float32, text)
        if call.type.is_integer:
            exact = self._exact_bounds(call)
            low, high = integer_range(root)
            if exact is None or exact[0] < low or exact[1] > high:
                return integer_result(em, root, text)
        return text

    def emit_unwrapped(self, call: Call, em: Emitter) -> str:
        """Source of the result before it is fitted to the type: an integer may lie outside of it."""
        return self._emit_plain(call, em, *map(em.value, call.operands))

    def _emit_plain(self, call: Call, em: Emitter, a: str, b: str) -> str:
        return f"({a} {self.name} {b})"

    def _emit_decimal(self, call: Call, em: Emitter, a: str, b: str) -> str:
        word, function = _EXACT[self.name]
        text = f"{em.cached(('decimal', word), lambda: function, f'decimal_{word}')}({a}, {b})"
        x, y = (as_decimal(o.type) for o in call.operands)
        return text if self._exact(x, y, call.type) else decimal_result(em, call.type, text, self.name)


class _Ring(Arithmetic):
    """Sum, difference, product: wrapping once at the end gives the same as wrapping at each step."""

    def emit_unwrapped(self, call: Call, em: Emitter) -> str:
        a, b = (self._unwrapped_operand(o, call, em) for o in call.operands)
        return self._emit_plain(call, em, a, b)

    @staticmethod
    def _unwrapped_operand(operand: Expr, call: Call, em: Emitter) -> str:
        if isinstance(operand, Call) and operand.type.root == call.type.root and call.type.is_integer:
            function = operand.function
            if isinstance(function, _Ring) and not em.can_be_null(operand):
                return function.emit_unwrapped(operand, em)
        return em.value(operand)


class Plus(_Ring):
    """Sum; a time and an interval; two intervals."""

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        return a + c, b + d

    def _bind_other(self, a: Expr, b: Expr) -> Expr:
        if a.type.is_interval and b.type.root == a.type.root:
            return Call(self, (a, b), a.type.with_nullable(a.type.nullable or b.type.nullable))
        if a.type.is_interval and b.type.is_temporal:
            a, b = b, a
        if a.type.is_temporal and b.type.is_interval:
            return _shift(self, a, b)
        raise self.cannot_apply((a, b))

    def emit(self, call: Call, em: Emitter) -> str:
        return _emit_shift(call, em, "+") or super().emit(call, em)


class Minus(_Ring):
    """Difference; a time less an interval; two intervals. The difference of two times is TIMESTAMPDIFF."""

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        return a - d, b - c

    def _bind_other(self, a: Expr, b: Expr) -> Expr:
        if a.type.is_interval and b.type.root == a.type.root:
            return Call(self, (a, b), a.type.with_nullable(a.type.nullable or b.type.nullable))
        if a.type.is_temporal and b.type.is_interval:
            return _shift(self, a, b)
        error = self.cannot_apply((a, b))
        if a.type.is_temporal and b.type.is_temporal:
            error.add_note("The difference of two times is TIMESTAMPDIFF(unit, from, to).")
        raise error

    def emit(self, call: Call, em: Emitter) -> str:
        return _emit_shift(call, em, "-") or super().emit(call, em)


class Times(_Ring):
    """Product; a number and an interval."""

    def _decimal_type(self, a: DataType, b: DataType) -> DataType:
        return coercion.decimal_multiply(a, b)

    def _exact(self, a: DataType, b: DataType, result: DataType) -> bool:
        return a.scale + b.scale <= result.scale and a.precision + b.precision < coercion.MAX_PRECISION

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)

    def _bind_other(self, a: Expr, b: Expr) -> Expr:
        number, interval = (b, a) if a.type.is_interval else (a, b)
        if interval.type.is_interval and (number.type.is_integer or number.type.root == "DECIMAL"):
            nullable = a.type.nullable or b.type.nullable
            return Call(self, (a, b), interval.type.with_nullable(nullable))
        raise self.cannot_apply((a, b))

    def emit(self, call: Call, em: Emitter) -> str:
        if call.type.is_interval:
            a, b = (em.value(o) for o in call.operands)
            whole = all(o.type.is_interval or o.type.is_integer for o in call.operands)
            return f"({a} * {b})" if whole else f"int({a} * {b})"
        return super().emit(call, em)


class Divide(Arithmetic):
    """Quotient: cut toward zero for integers, of a derived scale for decimals."""

    def _decimal_type(self, a: DataType, b: DataType) -> DataType:
        return coercion.decimal_divide(a, b)

    def _exact(self, a: DataType, b: DataType, result: DataType) -> bool:
        return result.precision < coercion.MAX_PRECISION

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        # Only a divisor of -1 leads out of the dividend's range.
        return (a, b) if c > 0 else (min(a, -b), max(b, -a))

    def _emit_plain(self, call: Call, em: Emitter, a: str, b: str) -> str:
        divisor = call.operands[1]
        known = divisor.value if isinstance(divisor, Literal) else None
        if call.type.is_integer:
            if known is None or known <= 0:
                return em.call(numbers.int_divide, a, b)
            if bounds_of(call.operands[0])[0] >= 0:
                return f"({a} // {b})"
            x = em.temp()
            return f"({x} // {b} if ({x} := {a}) >= 0 else -(-{x} // {b}))"
        return f"({a} / {b})" if known else em.call(numbers.float_divide, a, b)

    def _emit_decimal(self, call: Call, em: Emitter, a: str, b: str) -> str:
        text = em.call(numbers.decimal_divide, _as_decimal(call.operands[0], em, a), b, *_shape(call, em))
        return not_null(em, call.type, text, self.name, not self._exact(call.type, call.type, call.type))


class Remainder(Arithmetic):
    """Remainder with the sign of the dividend; its type is the divisor's."""

    def __init__(self, name: str, infix: bool) -> None:
        super().__init__(name)
        self._infix = infix

    def supported(self) -> Sequence[str]:
        kind = "<EXACT_NUMERIC>"
        return [f"{kind} {self.name} {kind}" if self._infix else f"{self.name}({kind}, {kind})"]

    def _bind_numbers(self, a: Expr, b: Expr) -> Expr:
        if a.type.is_approximate or b.type.is_approximate:
            raise self.cannot_apply((a, b))
        return super()._bind_numbers(a, b)

    def call_text(self, types: Iterable[DataType]) -> str:
        return super().call_text(types) if self._infix else ScalarFunction.call_text(self, types)

    def text(self, call: Call) -> str:
        return super().text(call) if self._infix else ScalarFunction.text(self, call)

    def _decimal_type(self, a: DataType, b: DataType) -> DataType:
        return coercion.decimal_modulo(a, b)

    def _plain_type(self, a: DataType, b: DataType) -> DataType:
        return b if b.is_integer and a.is_integer else super()._plain_type(a, b)

    def _exact(self, a: DataType, b: DataType, result: DataType) -> bool:
        return result.precision < coercion.MAX_PRECISION

    def _combine_bounds(self, a: int, b: int, c: int, d: int) -> tuple[int, int] | None:
        most = max(abs(c), abs(d)) - 1
        return -min(most, max(0, -a)), min(most, max(0, b))

    def _emit_plain(self, call: Call, em: Emitter, a: str, b: str) -> str:
        divisor = call.operands[1]
        if not isinstance(divisor, Literal) or divisor.value <= 0:
            return em.call(numbers.int_remainder, a, b)
        if bounds_of(call.operands[0])[0] >= 0:
            return f"({a} % {b})"
        x = em.temp()
        return f"({x} % {b} if ({x} := {a}) >= 0 else -(-{x} % {b}))"

    def _emit_decimal(self, call: Call, em: Emitter, a: str, b: str) -> str:
        text = em.call(numbers.decimal_remainder, _as_decimal(call.operands[0], em, a), b, *_shape(call, em))
        return not_null(em, call.type, text, self.name, not self._exact(call.type, call.type, call.type))


class Negate(ScalarFunction):
    """The prefix minus."""

    name = "-/1"

    def call_text(self, types: Iterable[DataType]) -> str:
        return "-" + "".join(f"<{sql_text(x)}>" for x in types)

    def supported(self) -> Sequence[str]:
        return ("-<NUMERIC>", "-<DATETIME_INTERVAL>")

    def text(self, call: Call) -> str:
        return f"-({call.operands[0]})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        (operand,) = operands
        if not (operand.type.is_numeric or operand.type.is_interval):
            raise self.cannot_apply(operands)
        return Call(self, (operand,), operand.type.materialized())

    def bounds(self, call: Call) -> tuple[int, int] | None:
        if not call.type.is_integer:
            return None
        low, high = bounds_of(call.operands[0])
        return (-high, -low) if -low <= integer_range(call.type.root)[1] else None

    def emit(self, call: Call, em: Emitter) -> str:
        text = f"(-{em.value(call.operands[0])})"
        if call.type.is_integer and self.bounds(call) is None:
            return integer_result(em, call.type.root, text)
        if call.type.root == "DECIMAL":
            negate = em.cached(("decimal", "-/1"), lambda: numbers.decimal_negate, "decimal_negate")
            return f"{negate}({em.value(call.operands[0])})"
        return text


class Positive(Negate):
    """The prefix plus, which changes nothing."""

    name = "+/1"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        super().bind(operands)
        return operands[0]


def _as_decimal(operand: Expr, em: Emitter, source: str) -> str:
    """Context methods take int operands too, but not two of them with a decimal result; the first is made decimal."""
    if operand.type.root == "DECIMAL":
        return source
    return em.call(Decimal, source)


def _shape(call: Call, em: Emitter) -> tuple[str, str]:
    unit = numbers.decimal_unit(call.type.scale)
    limit = numbers.decimal_limit(call.type.precision, call.type.scale)
    return em.constant(unit, "unit"), em.constant(limit, "limit")


# -- times and intervals -----------------------------------------------------------------------------------------


def _shift(function: ScalarFunction, time: Expr, interval: Expr) -> Expr:
    """A time moved by an interval; a DATE moved by less than days stays a DATE."""
    nullable = time.type.nullable or interval.type.nullable
    if time.type.root == "TIME" and interval.type.root == "INTERVAL_YEAR_MONTH":
        raise function.cannot_apply((time, interval))
    return Call(function, (time, interval), time.type.materialized().with_nullable(nullable))


def _emit_shift(call: Call, em: Emitter, sign: str) -> str | None:
    time, interval = call.operands
    if not (call.type.is_temporal and interval.type.is_interval):
        return None
    x, y = em.value(time), em.value(interval)
    root = call.type.root
    if interval.type.root == "INTERVAL_YEAR_MONTH":
        months = y if sign == "+" else f"-{y}"
        if root == "DATE":
            return em.call(temporal.add_months_to_day, x, months)
        return em.call(temporal.add_months, x, months)
    constant = interval.value if isinstance(interval, Literal) else None
    if root == "DATE":
        days = em.constant(constant // temporal.DAY_MS) if constant is not None else f"{y} // {temporal.DAY_MS}"
        return f"({x} {sign} {days})"
    if root == "TIME":
        return f"(({x} {sign} {y}) % {temporal.DAY_MS})"
    nanos = em.constant(constant * temporal.MS) if constant is not None else f"{y} * {temporal.MS}"
    return f"({x} {sign} {nanos})"


_SHIFT: Final = (("<DATETIME_INTERVAL>", "<DATETIME_INTERVAL>"), ("<DATETIME>", "<DATETIME_INTERVAL>"))

register(Plus("+", *_SHIFT, ("<DATETIME_INTERVAL>", "<DATETIME>")))
register(Minus("-", *_SHIFT))
register(Times("*", ("<NUMERIC>", "<DATETIME_INTERVAL>"), ("<DATETIME_INTERVAL>", "<NUMERIC>")))
register(Divide("/"))
register(Remainder("%", infix=True))
register(Remainder("MOD", infix=False))
register(Negate())
register(Positive())
