"""Functions that are described by data: the forms they are called in, a result type, and their code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.emitter import Emitter
from streamline.table.expr.guards import not_null
from streamline.table.expr.nodes import Call, Expr, Literal
from streamline.table.expr.registry import ScalarFunction, cast, register

__all__ = ("KINDS", "Function", "Kind", "Returns", "define", "illegal_null", "is_null_literal")


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of operand types.

    Attributes:
        name: as error messages write it.
        accept: gives the type to which an operand is converted, its own where it fits; None where it does not fit.
        default: the type of a bare NULL in this place.
    """

    name: str
    accept: Callable[[DataType], DataType | None]
    default: DataType


def _root(name: str, default: DataType, *roots: str) -> Kind:
    return Kind(name, lambda x: x if x.root in roots else None, default)


def _to_double(x: DataType) -> DataType | None:
    return t.DOUBLE if x.is_numeric else None


_NUMERIC_ROOTS: Final = tuple(t.NUMERICS)

#: Classes of operands by the name under which forms use them.
KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        _root("CHARACTER", t.STRING, "CHAR", "VARCHAR"),
        _root("BINARY", t.BYTES, "BINARY", "VARBINARY"),
        _root("STRING", t.STRING, "CHAR", "VARCHAR", "BINARY", "VARBINARY"),
        _root("INTEGER", t.INT, *t.INTEGERS),
        _root("NUMERIC", t.INT, *_NUMERIC_ROOTS),
        Kind("DOUBLE", _to_double, t.DOUBLE),
        _root("BOOLEAN", t.BOOLEAN, "BOOLEAN"),
        _root("DATE", t.DATE, "DATE"),
        _root("TIME", t.time(), "TIME"),
        _root("DATETIME", t.timestamp(3), "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
        _root("TIMESTAMP", t.timestamp(3), "TIMESTAMP", "TIMESTAMP_LTZ"),
        _root("DATETIME_INTERVAL", t.interval_day_time(), "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"),
        _root("ARRAY", t.array(t.INT), "ARRAY"),
        _root("MAP", t.map_of(t.STRING, t.STRING), "MAP"),
        _root("ROW", t.row(), "ROW", "STRUCTURED"),
        _root("RAW", t.raw(), "RAW"),
        _root("VARIANT", DataType("VARIANT"), "VARIANT"),
        _root("BITMAP", DataType("BITMAP"), "BITMAP"),
        Kind("ANY", lambda x: x, t.NULL),
    )
}


def is_null_literal(expr: Expr) -> bool:
    """Whether the expression is a bare NULL, which has no type yet."""
    return isinstance(expr, Literal) and expr.type.root == "NULL"


def illegal_null(function: str = "") -> ValidationException:
    """The error for a bare NULL where its type must be known."""
    place = f" as an argument of {function}" if function else ""
    return ValidationException(f"Illegal use of 'NULL'{place}: write CAST(NULL AS <type>) to give it a type.")


#: How the result type is found: a type, or a function of the operands' types (nullability is added by the caller).
Returns = DataType | Callable[[Sequence[DataType]], DataType]

#: How the code is written: a template over {0}, {1}, …; or a function of the emitter, the call and the sources.
Code = str | Callable[..., str]


class Function(ScalarFunction):
    """A function described by data.

    Args:
        name: upper-case name.
        forms: the forms it is called in: names of `KINDS` separated by blanks; a last name with `*` may stand any
            number of times, none included.
        returns: result type.
        helper: Python function that computes it from the operands' values.
        code: source, where it is better than a call of a helper.
        strict: NULL where an operand is NULL.
        nullable: None: as the operands are; else whether the result is nullable, whatever they are.
        total: False for a strict function that can give NULL of operands that are not.
        deterministic: whether equal operands give equal results.
        null_literal: whether a bare NULL is taken as an operand.
        check: raises for operands that the forms cannot describe.
    """

    def __init__(
        self,
        name: str,
        forms: Sequence[str],
        returns: Returns,
        *,
        helper: Callable[..., Any] | None = None,
        code: Code | None = None,
        strict: bool = True,
        nullable: bool | None = None,
        total: bool | None = None,
        deterministic: bool = True,
        null_literal: bool = False,
        check: Callable[[Sequence[Expr]], None] | None = None,
    ) -> None:
        self.name = name
        self._forms = tuple(tuple(form.split()) for form in forms)
        self._returns = returns
        self._helper = helper
        self._code = code
        self._nullable = nullable
        self.strict = strict
        self.total = strict and (nullable is not True if total is None else total)
        self.deterministic = deterministic
        self._null_literal = null_literal
        self._check = check

    def supported(self) -> Sequence[str]:
        return [f"{self.name}({', '.join(_form_item(item) for item in form)})" for form in self._forms]

    def bind(self, operands: Sequence[Expr], options: tuple[Any, ...] = ()) -> Expr:
        form = self._form(operands)
        fitted = [self._fit(o, KINDS[item.rstrip("*")]) for o, item in zip(operands, form)]
        if self._check is not None:
            self._check(fitted)
        types = [o.type for o in fitted]
        result = self._returns(types) if callable(self._returns) else self._returns
        nullable = any(x.nullable for x in types) if self._nullable is None else self._nullable
        return Call(self, tuple(fitted), result.with_nullable(nullable), options)

    def _form(self, operands: Sequence[Expr]) -> Sequence[str]:
        expanded = [e for form in self._forms if (e := _expand(form, len(operands))) is not None]
        if not expanded:
            raise self.wrong_count(_counts(self._forms))
        if not self._null_literal and any(map(is_null_literal, operands)):
            raise illegal_null(self.name)
        for form in expanded:
            if all(
                is_null_literal(o) or KINDS[item.rstrip("*")].accept(o.type) is not None
                for o, item in zip(operands, form)
            ):
                return form
        raise self.cannot_apply(operands)

    def _fit(self, operand: Expr, kind: Kind) -> Expr:
        if is_null_literal(operand):
            return Literal(None, kind.default.null())
        wanted = kind.accept(operand.type)
        assert wanted is not None
        return cast(operand, wanted)

    def emit(self, call: Call, em: Emitter) -> str:
        sources = [em.value(o) for o in call.operands]
        if self._code is None:
            assert self._helper is not None
            text = em.call(self._helper, *sources)
        elif isinstance(self._code, str):
            text = self._code.format(*sources)
        else:
            text = self._code(em, call, *sources)
        return self.checked(em, call, text)

    def checked(self, em: Emitter, call: Call, text: str) -> str:
        """`text`, with a check where it may be NULL against its type."""
        return not_null(em, call.type, text, self.name, self.strict and not self.total)


def _form_item(item: str) -> str:
    return f"<{item.rstrip('*')}>" + ("…" if item.endswith("*") else "")


def _expand(form: Sequence[str], count: int) -> Sequence[str] | None:
    """The form stretched to `count` operands, None where it cannot be."""
    if form and form[-1].endswith("*"):
        fixed = form[:-1]
        return (*fixed, *[form[-1]] * (count - len(fixed))) if count >= len(fixed) else None
    return form if len(form) == count else None


def _counts(forms: Sequence[Sequence[str]]) -> str:
    counts = sorted({len(f) - (1 if f and f[-1].endswith("*") else 0) for f in forms})
    if any(f and f[-1].endswith("*") for f in forms):
        return f"at least {counts[0]}"
    return " or ".join(map(str, counts))


def define(name: str, forms: Sequence[str], returns: Returns, *aliases: str, **keywords: Any) -> ScalarFunction:
    """Register a function described by data: see `Function`."""
    return register(Function(name, forms, returns, **keywords), *aliases)
