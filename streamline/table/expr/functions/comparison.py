"""Comparisons, IS NULL, IS DISTINCT FROM, BETWEEN, IN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import common_type, comparable_type, sql_text
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.entry import without_guards
from streamline.table.expr.functions.logic import and_, not_, or_
from streamline.table.expr.nodes import Call, Expr, Literal, input_refs, is_deterministic
from streamline.table.expr.registry import ScalarFunction, bind_call, cast, register
from streamline.table.expr.runtime.collections import rows_equal
from streamline.table.expr.signature import is_null_literal

__all__ = ("Comparison", "In", "is_not_null")

_PYTHON: Final = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Types whose values have an order.
_ORDERED: Final = frozenset(
    (*t.NUMERICS, "BOOLEAN", "CHAR", "VARCHAR", "BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
) | {"INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}


def align(operands: Sequence[Expr], equality: bool = False) -> list[Expr] | None:
    """The operands in types whose Python values compare as SQL's do, None where they cannot be compared.

    Args:
        operands: what is compared.
        equality: whether it is compared for being equal: then text is no number, and text that is no date is NULL.

    Raises:
        ValidationException: for text against booleans, and for text equal to numbers.
    """
    types = [o.type for o in operands]
    if any(x.is_character for x in types):
        other = next((x for x in types if x.is_numeric or x.root == "BOOLEAN"), None)
        if other is not None and (equality or other.root == "BOOLEAN"):
            raise ValidationException(
                f"implicit type conversion between {_bare(types[0])} and {_bare(types[1])} is not supported: "
                f"write a CAST for one of the two, such as CAST(… AS {other.null().summary(short=True)})."
            )
        if other is not None:
            return [cast(o, other) if o.type.is_character else o for o in operands]
        if equality:
            operands = _dated(operands)
            types = [o.type for o in operands]
    roots = {x.root for x in types if x.is_temporal}
    if "DATE" in roots and len(roots) > 1:
        return None
    common = comparable_type(types)
    if common is None:
        return None
    return [_aligned(o, common) for o in operands]


def _dated(operands: Sequence[Expr]) -> Sequence[Expr]:
    """Text from columns, equal to a date or time, is read as one; NULL where it is none."""
    temporal = next((o.type for o in operands if o.type.is_temporal), None)
    if temporal is None:
        return operands
    return [
        bind_call("TRY_CAST", (o,), (temporal.materialized(),))
        if o.type.is_character and not isinstance(o, Literal)
        else o
        for o in operands
    ]


def _bare(type_: DataType) -> str:
    return "INTEGER" if type_.root == "INT" else type_.root


def _aligned(operand: Expr, common: DataType) -> Expr:
    type_ = operand.type
    if is_null_literal(operand):
        return Literal(None, common.null())
    if common.is_approximate:
        if type_.root == "DECIMAL":
            return cast(operand, t.DOUBLE)
        if isinstance(operand, Literal) and type_.is_integer and operand.value == float(operand.value):
            return Literal(float(operand.value), t.DOUBLE.not_null())  # CPython compares two floats faster
    if type_.is_numeric or type_.is_character or type_.is_binary:
        # Python compares ints, decimals and floats by value, texts and bytes by content.
        return cast(operand, common) if common.is_temporal else operand
    if type_.root == common.root and type_.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return operand  # the precision does not show in the value
    return cast(operand, common)


def _null_within(type_: DataType) -> bool:
    """Whether a comparison with a value of the type may be NULL: for a row also where a field is nullable."""
    return type_.nullable or _null_fields(type_)


def _null_fields(type_: DataType) -> bool:
    return type_.root == "ROW" and any(_null_within(f.type) for f in type_.fields)


class Comparison(ScalarFunction):
    """One of = <> < <= > >=; NULL where an operand is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def supported(self) -> Sequence[str]:
        kind = "EQUIVALENT_TYPE" if self.name in ("=", "<>") else "COMPARABLE_TYPE"
        return (f"<{kind}> {self.name} <{kind}>",)

    def call_text(self, types: Iterable[DataType]) -> str:
        return f" {self.name} ".join(f"<{sql_text(x)}>" for x in types)

    def text(self, call: Call) -> str:
        a, b = call.operands
        return f"({a} {self.name} {b})"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) != 2:
            raise self.wrong_count("2")
        aligned = align(operands, self.name in ("=", "<>"))
        if aligned is None:
            raise self.cannot_apply(operands)
        if self.name not in ("=", "<>") and not all(o.type.root in _ORDERED | {"NULL"} for o in aligned):
            raise self.cannot_apply(operands)
        nullable = any(_null_within(o.type) for o in aligned)
        return Call(self, tuple(aligned), t.BOOLEAN.with_nullable(nullable))

    def never_null(self, call: Call) -> bool:
        return not (self.name == "=" and any(_null_fields(o.type) for o in call.operands))

    def emit(self, call: Call, em: Emitter) -> str:
        a, b = call.operands
        if not self.never_null(call):
            return em.call(rows_equal, em.value(a), em.value(b))
        divided = self._divided(a, b, em) or self._divided(b, a, em)
        if divided is not None:
            return divided
        x, y = em.value(a), em.value(b)
        if a.type.is_numeric and b.type.is_numeric:  # right for numbers of any size
            x, y = without_guards(x), without_guards(y)
        return f"({x} {_PYTHON[self.name]} {y})"

    def _divided(self, rest: Expr, zero: Expr, em: Emitter) -> str | None:
        """`x % 3 = 0` needs no care for the sign of x."""
        if (
            self.name in ("=", "<>")
            and isinstance(zero, Literal)
            and zero.value == 0
            and isinstance(rest, Call)
            and rest.function.name in ("%", "MOD")
            and rest.type.is_integer
        ):
            x, divisor = rest.operands
            if x.type.is_integer and isinstance(divisor, Literal) and divisor.value and not em.can_be_null(rest):
                return f"({em.value(x)} % {em.value(divisor)} {_PYTHON[self.name]} 0)"
        return None


class IsDistinct(ScalarFunction):
    """IS [NOT] DISTINCT FROM: two NULLs are the same, and the answer is never NULL."""

    strict = False

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self._python = python

    def supported(self) -> Sequence[str]:
        return (f"<COMPARABLE_TYPE> {self.name} <COMPARABLE_TYPE>",)

    def text(self, call: Call) -> str:
        a, b = call.operands
        return f"{a} {self.name} {b}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        aligned = align(operands, equality=True)
        if aligned is None:
            raise self.cannot_apply(operands)
        return Call(self, tuple(aligned), t.BOOLEAN.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        a, b = (em.value(o) for o in call.operands)
        return f"({a} {self._python} {b})"


class IsNull(ScalarFunction):
    """IS [NOT] NULL."""

    strict = False

    def __init__(self, name: str, is_null: bool) -> None:
        self.name = name
        self._is_null = is_null

    def text(self, call: Call) -> str:
        return f"{call.operands[0]} {self.name}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        return Call(self, tuple(operands), t.BOOLEAN.not_null())

    def emit(self, call: Call, em: Emitter) -> str:
        (operand,) = call.operands
        if not em.can_be_null(operand):
            return str(not self._is_null)
        return f"({em.value(operand)} is {'' if self._is_null else 'not '}None)"

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        return None if self._is_null else em.assume_not_null(call.operands[0])

    def emit_false(self, call: Call, em: Emitter) -> str | None:
        return em.assume_not_null(call.operands[0]) if self._is_null else None


class In(ScalarFunction):
    """A value in a list of constants; where the list holds NULL, what is not found is NULL."""

    name = "IN"
    strict = False

    def text(self, call: Call) -> str:
        first, *items = map(str, call.operands)
        return f"{first} IN ({', '.join(items)})"

    def supported(self) -> Sequence[str]:
        return ("<COMPARABLE_TYPE> IN (<COMPARABLE_TYPE>, …)",)

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        if len(operands) < 2:
            raise self.wrong_count("at least 2")
        value, *items = operands
        if common_type([o.type for o in items]) is None:
            raise ValidationException("Values in expression list must have compatible types")
        items = [_as_text_or_not(i, value.type) for i in items]
        if comparable_type([value.type, *(i.type for i in items)]) is None:
            raise ValidationException("Values passed to IN operator must have compatible types")
        aligned = align((value, *items))
        if aligned is None:
            raise self.cannot_apply(operands)
        if value.type.root not in _ORDERED or not all(map(_is_constant, items)):
            return or_(*(bind_call("=", (value, i)) for i in items))
        nullable = any(o.type.nullable for o in aligned)
        return Call(self, tuple(aligned), t.BOOLEAN.with_nullable(nullable))

    def emit(self, call: Call, em: Emitter) -> str:
        value, *items = call.operands
        members, has_null = self._members(call, em)
        if members is None:
            return em.value(or_(*(bind_call("=", (value, i)) for i in items)))
        tail = " or None" if has_null else ""
        return em.strict((value,), lambda x: f"({x} in {members}{tail})")

    def emit_true(self, call: Call, em: Emitter) -> str | None:
        members, _ = self._members(call, em)
        # NULL is None, which is in no list.
        return None if members is None else f"({em.value(call.operands[0])} in {members})"

    def emit_false(self, call: Call, em: Emitter) -> str | None:
        members, has_null = self._members(call, em)
        if members is None:
            return None
        if has_null:
            return "False"
        value = call.operands[0]
        if not em.can_be_null(value):
            return f"({em.value(value)} not in {members})"
        tested = em.assume_not_null(value)
        return f"({tested} and {em.value(value)} not in {members})"

    @staticmethod
    def _members(call: Call, em: Emitter) -> tuple[str | None, bool]:
        """Source of the set of constants, None before they are folded, and whether NULL is among them."""
        items = call.operands[1:]
        values = [i.value for i in items if isinstance(i, Literal) and i.value is not None]
        if not all(isinstance(i, Literal) for i in items):
            return None, False
        has_null = len(values) < len(items)
        if not values:
            return "()", has_null
        if all(isinstance(v, (int, str, bytes)) for v in values):
            return "{" + ", ".join(map(repr, values)) + "}", has_null  # a constant to the Python compiler
        return em.cached((frozenset(values), "set"), lambda: frozenset(values), "values"), has_null


def _as_text_or_not(item: Expr, type_: DataType) -> Expr:
    """An item beside text becomes text, and text beside anything else becomes that."""
    if item.type.is_character == type_.is_character or is_null_literal(item) or type_.root == "NULL":
        return item
    return cast(item, t.STRING if type_.is_character else type_)


def _is_constant(expr: Expr) -> bool:
    """Whether the value depends on no column and is always the same."""
    return not input_refs(expr) and is_deterministic(expr)


class Between(ScalarFunction):
    """`a BETWEEN b AND c` is `a >= b AND a <= c`; SYMMETRIC takes the bounds in either order."""

    def __init__(self, name: str, symmetric: bool) -> None:
        self.name = name
        self._symmetric = symmetric

    def supported(self) -> Sequence[str]:
        return (f"<COMPARABLE_TYPE> {self.name} <COMPARABLE_TYPE> AND <COMPARABLE_TYPE>",)

    def call_text(self, types: Iterable[DataType]) -> str:
        a, b, c = (f"<{sql_text(x)}>" for x in types)
        return f"{a} {self.name} {b} AND {c}"

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        value, low, high = operands
        if align((value, low)) is None or align((value, high)) is None:
            raise self.cannot_apply(operands)
        inside = and_(bind_call(">=", (value, low)), bind_call("<=", (value, high)))
        if not self._symmetric:
            return inside
        return or_(inside, and_(bind_call(">=", (value, high)), bind_call("<=", (value, low))))


class NotBetween(Between):
    """The negation of BETWEEN."""

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        return not_(super().bind(operands))


def is_not_null(expr: Expr) -> Expr:
    """`expr IS NOT NULL`."""
    return bind_call("IS NOT NULL", (expr,))


for _name in _PYTHON:
    register(Comparison(_name))
register(IsDistinct("IS DISTINCT FROM", "!="))
register(IsDistinct("IS NOT DISTINCT FROM", "=="))
register(IsNull("IS NULL", True), "IS UNKNOWN")
register(IsNull("IS NOT NULL", False), "IS NOT UNKNOWN")
register(In())
register(Between("BETWEEN ASYMMETRIC", False), "BETWEEN")
register(Between("BETWEEN SYMMETRIC", True))
register(NotBetween("NOT BETWEEN ASYMMETRIC", False), "NOT BETWEEN")
register(NotBetween("NOT BETWEEN SYMMETRIC", True))
