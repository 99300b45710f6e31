"""Aggregate and window functions: arguments, coercion and result types. Accumulators live with the operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import common_type, sql_text
from streamline.table.expr.nodes import AggCall, Expr, Literal
from streamline.table.expr.registry import cast
from streamline.table.expr.signature import KINDS, is_null_literal

__all__ = ("Aggregate", "bind_aggregate", "is_aggregate", "lookup_aggregate", "names")

#: Options of a call by name, as `AggCall.options` holds them.
Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function as the binder sees it.

    Attributes:
        name: upper-case name.
        forms: as of `signature.Function`.
        result: result type from the types of the arguments; its nullability counts where `empty` is None.
        empty: whether the result is NULL for a group without values: True (then it is nullable as well where an
            argument is, or where groups can be empty), False (never NULL), None (as `result` says).
        window_only: whether it is only defined over an OVER window.
        ordered: whether the OVER window must have an ORDER BY.
        distinct: whether DISTINCT is allowed.
        constant: positions of arguments that must be literals; they become options by the names given.
    """

    name: str
    forms: tuple[str, ...]
    result: Callable[[Sequence[DataType]], DataType]
    empty: bool | None = True
    window_only: bool = False
    ordered: bool = False
    distinct: bool = True
    constant: tuple[tuple[int, str], ...] = ()


def _fixed(type_: DataType) -> Callable[[Sequence[DataType]], DataType]:
    return lambda _: type_


def _first(types: Sequence[DataType]) -> DataType:
    return types[0].materialized()


def _sum(types: Sequence[DataType]) -> DataType:
    return t.decimal(38, types[0].scale) if types[0].root == "DECIMAL" else types[0]


def _average(types: Sequence[DataType]) -> DataType:
    return t.decimal(38, max(6, types[0].scale)) if types[0].root == "DECIMAL" else types[0]


def _lag(types: Sequence[DataType]) -> DataType:
    if len(types) < 3:
        return types[0].materialized().null()
    common = common_type((types[0], types[2]))
    assert common is not None
    return common.with_nullable(types[2].nullable)


def _percentile(types: Sequence[DataType]) -> DataType:
    return t.array(t.DOUBLE) if types[1].root == "ARRAY" else t.DOUBLE


_BIGINT: Final = _fixed(t.BIGINT)
_BITMAP: Final = _fixed(DataType("BITMAP"))
_JSON: Final = _fixed(t.varchar(2000))


def _rank(name: str) -> Aggregate:
    return Aggregate(name, ("",), _BIGINT, empty=False, window_only=True, ordered=True, distinct=False)


_AGGREGATES: Final[dict[str, Aggregate]] = {
    a.name: a
    for a in (
        Aggregate("COUNT", ("ANY*",), _BIGINT, empty=False),
        Aggregate("APPROX_COUNT_DISTINCT", ("ANY",), _BIGINT, empty=False, distinct=False),
        Aggregate("SUM", ("NUMERIC",), _sum),
        Aggregate("SUM0", ("NUMERIC",), _sum, empty=False),
        Aggregate("AVG", ("NUMERIC",), _average),
        Aggregate("MIN", ("ANY",), _first),
        Aggregate("MAX", ("ANY",), _first),
        *(Aggregate(n, ("NUMERIC",), _average) for n in ("STDDEV_POP", "STDDEV_SAMP", "STDDEV")),
        *(Aggregate(n, ("NUMERIC",), _average) for n in ("VAR_POP", "VAR_SAMP", "VARIANCE")),
        Aggregate("LISTAGG", ("CHARACTER", "CHARACTER CHARACTER"), _first, constant=((1, "separator"),)),
        Aggregate("STRING_AGG", ("CHARACTER", "CHARACTER CHARACTER"), _fixed(t.STRING), constant=((1, "separator"),)),
        Aggregate("COLLECT", ("ANY",), lambda types: t.multiset(types[0].materialized()), empty=False),
        Aggregate("ARRAY_AGG", ("ANY",), lambda types: t.array(types[0].materialized()).null(), empty=None),
        Aggregate("FIRST_VALUE", ("ANY",), lambda types: _first(types).null(), empty=None),
        Aggregate("LAST_VALUE", ("ANY",), lambda types: _first(types).null(), empty=None),
        Aggregate("PERCENTILE", ("NUMERIC ANY", "NUMERIC ANY INTEGER"), _percentile, empty=None),
        Aggregate("JSON_OBJECTAGG", ("CHARACTER ANY",), _JSON, empty=False, distinct=False),
        Aggregate("JSON_ARRAYAGG", ("ANY",), _JSON, empty=False, distinct=False),
        Aggregate("BITMAP_BUILD_AGG", ("INTEGER",), _BITMAP, empty=None),
        *(Aggregate(f"BITMAP_{n}_AGG", ("ANY",), _BITMAP, empty=None) for n in ("AND", "OR", "XOR")),
        Aggregate("BITMAP_BUILD_CARDINALITY_AGG", ("INTEGER",), _BIGINT, empty=None),
        *(Aggregate(f"BITMAP_{n}_CARDINALITY_AGG", ("ANY",), _BIGINT, empty=None) for n in ("AND", "OR", "XOR")),
        *map(_rank, ("ROW_NUMBER", "RANK", "DENSE_RANK")),
        *(
            Aggregate(n, ("",), _fixed(t.DOUBLE), empty=False, window_only=True, ordered=True, distinct=False)
            for n in ("CUME_DIST", "PERCENT_RANK")
        ),
        Aggregate("NTILE", ("INTEGER",), _BIGINT, empty=False, window_only=True, ordered=True, distinct=False),
        *(
            Aggregate(
                n,
                ("ANY", "ANY INTEGER", "ANY INTEGER ANY"),
                _lag,
                empty=None,
                window_only=True,
                ordered=True,
                distinct=False,
                constant=((1, "offset"),),
            )
            for n in ("LAG", "LEAD")
        ),
    )
}

#: Types whose values have an order, for MIN and MAX.
_UNORDERED: Final = ("ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED", "RAW", "VARIANT")


def is_aggregate(name: str) -> bool:
    """Whether a built-in aggregate or window function has that name, in any case of letters."""
    return name.upper() in _AGGREGATES


def lookup_aggregate(name: str) -> Aggregate | None:
    """The built-in aggregate or window function of that name, in any case of letters."""
    return _AGGREGATES.get(name.upper())


def names() -> tuple[str, ...]:
    """Names of all built-in aggregate and window functions."""
    return tuple(_AGGREGATES)


def bind_aggregate(
    name: str,
    args: Sequence[Expr],
    *,
    distinct: bool = False,
    filter: Expr | None = None,
    options: Options = (),
    may_be_empty: bool = False,
) -> AggCall:
    """A typed call of a built-in aggregate function.

    Args:
        name: its name, in any case of letters.
        args: arguments; none for COUNT(*).
        distinct: whether DISTINCT was written.
        filter: the FILTER condition.
        options: name-value pairs that are no arguments (`nulls`: IGNORE or RESPECT; `on_null`: NULL or ABSENT).
        may_be_empty: whether it is computed over a group that can have no rows (no GROUP BY): then SUM and its kin
            are nullable whatever their argument is.

    Raises:
        ValidationException: if it cannot be applied to these arguments.
    """
    function = _AGGREGATES[name.upper()]
    _check(function, args, distinct)
    form = _form(function, args)
    fitted = [cast(a, _accepted(a, item)) for a, item in zip(args, form)]
    if function.name in ("LAG", "LEAD"):
        fitted = _fit_default(function, fitted)
    types = [a.type for a in fitted]
    result = function.result(types)
    if function.empty is not None:
        nullable = function.empty and (may_be_empty or filter is not None or types[0].nullable)
        result = result.with_nullable(nullable)
    constants: dict[str, Any] = dict(options)
    for position, key in function.constant:
        if len(fitted) > position:
            constants[key] = _constant(function, fitted[position], key)
    kept = [a for i, a in enumerate(fitted) if i not in {p for p, _ in function.constant}]
    if function.name in ("LAG", "LEAD") and len(kept) > 1:
        constants["default"] = _constant(function, kept.pop(), "default")
    called = "LISTAGG" if function.name == "STRING_AGG" else function.name
    return AggCall(called, tuple(kept), result, distinct, filter, tuple(sorted(constants.items())))


def _check(function: Aggregate, args: Sequence[Expr], distinct: bool) -> None:
    if any(map(is_null_literal, args)):
        raise ValidationException(
            f"Illegal use of 'NULL' as an argument of {function.name}: write CAST(NULL AS <type>) to give it a type."
        )
    if distinct and not function.distinct:
        raise ValidationException(f"DISTINCT is not allowed in {function.name}")
    if distinct and not args:
        raise ValidationException(f"{function.name}(DISTINCT) needs an argument")


def _form(function: Aggregate, args: Sequence[Expr]) -> Sequence[str]:
    forms = [f.split() for f in function.forms]
    counted = [f for f in forms if len(f) == len(args)]
    if forms[0] == ["ANY*"]:
        counted = [["ANY"] * len(args)]
    if not counted:
        counts = " or ".join(str(n) for n in sorted({len(f) for f in forms}))
        raise ValidationException(
            f"Invalid number of arguments to function '{function.name}'. Was expecting {counts} arguments"
        )
    ordered = function.name not in ("MIN", "MAX") or args[0].type.root not in _UNORDERED
    for form in counted:
        if ordered and all(KINDS[i].accept(a.type) is not None for a, i in zip(args, form)):
            return form
    given = ", ".join(f"<{sql_text(a.type)}>" for a in args)
    supported = " | ".join(f"'{function.name}({', '.join(f'<{i}>' for i in f)})'" for f in forms)
    raise ValidationException(
        f"Cannot apply '{function.name}' to arguments of type '{function.name}({given})'. "
        f"Supported form(s): {supported}"
    )


def _accepted(arg: Expr, item: str) -> DataType:
    accepted = KINDS[item].accept(arg.type)
    assert accepted is not None
    return accepted


def _fit_default(function: Aggregate, args: list[Expr]) -> list[Expr]:
    if len(args) < 3:
        return args
    common = common_type((args[0].type, args[2].type))
    if common is None:
        raise ValidationException(
            f"Cannot apply '{function.name}': the default is {args[2].type.null()}, the value {args[0].type.null()}"
        )
    return [cast(args[0], common), args[1], cast(args[2], common)]


def _constant(function: Aggregate, arg: Expr, key: str) -> Any:
    if not isinstance(arg, Literal):
        raise ValidationException(f"The {key} of {function.name} must be a literal")
    return arg.value
