"""Makes logical nodes from less: names filled in, keys projected, types brought together.

SQL and the Table API both build their plans with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.coercion import union_type
from streamline.table.expr.nodes import AggCall, Call, Expr, InputRef, Literal
from streamline.table.expr.registry import cast
from streamline.table.logical import (
    Aggregate,
    Distinct,
    Filter,
    GroupWindow,
    Join,
    JoinKind,
    Project,
    Rel,
    RowSchema,
    SetOperation,
    Union,
    Values,
)

__all__ = (
    "aggregate",
    "distinct",
    "filter_",
    "join",
    "project",
    "rename",
    "set_operation",
    "unify",
    "union_all",
    "unique_names",
    "values",
)


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, with a number behind those that were there before (`a`, `a0`, `a1`)."""
    names = tuple(names)
    taken = set(names)
    seen: set[str] = set()
    result: list[str] = []
    for name in names:
        new, number = name, 0
        while new in seen or (new != name and new in taken):
            new, number = f"{name}{number}", number + 1
        seen.add(new)
        result.append(new)
    return tuple(result)


def project(input: Rel, exprs: Sequence[Expr], names: Sequence[str]) -> Rel:
    """The expressions as columns; the input itself where they are its columns, unchanged and in order."""
    schema = input.schema
    if len(exprs) == len(schema) and all(
        isinstance(e, InputRef) and e.index == i and e.type == schema[i].type and n == schema[i].name
        for i, (e, n) in enumerate(zip(exprs, names))
    ):
        return input
    return Project(input, tuple(exprs), tuple(names))


def rename(input: Rel, names: Sequence[str]) -> Rel:
    """The input with other column names; as many as it has columns."""
    if len(names) != len(input.schema):
        raise ValidationException(
            f"{len(names)} names ({', '.join(names)}) for {len(input.schema)} columns ({', '.join(input.schema.names)})"
        )
    return project(input, input.schema.refs(), names)


def filter_(input: Rel, condition: Expr) -> Rel:
    """The rows for which the condition is TRUE."""
    if isinstance(condition, Literal) and condition.value is True:
        return input
    return Filter(input, condition)


def _embeds(call: AggCall) -> bool:
    """Whether a JSON aggregate is given JSON, which it embeds as it is."""
    if call.name not in ("JSON_ARRAYAGG", "JSON_OBJECTAGG"):
        return False
    value = call.args[-1]
    return isinstance(value, Call) and value.function.name in ("JSON_OBJECT", "JSON_ARRAY", "JSON")


def aggregate(
    input: Rel,
    keys: Sequence[tuple[Expr, str]],
    calls: Sequence[tuple[AggCall, str]],
    *,
    sets: Sequence[Sequence[int]] = (),
    window: GroupWindow | None = None,
    window_names: Sequence[str] = (),
    state_ttl: int | None = None,
) -> Aggregate:
    """Grouping by expressions: keys that are no plain columns, and arguments, are projected below.

    Args:
        input: what is grouped.
        keys: grouping expressions over `input`, with the names of their columns.
        calls: aggregates over `input`, with the names of their columns.
        sets: grouping sets, as positions in `keys`.
        window: a legacy group window over `input`.
        window_names: names of its properties' columns.
        state_ttl: milliseconds from a hint.
    """
    schema = input.schema
    exprs: list[Expr] = list(schema.refs())
    names: list[str] = list(schema.names)

    def column(expr: Expr, name: str) -> InputRef:
        if isinstance(expr, InputRef):
            return expr
        for i, known in enumerate(exprs):
            if known == expr:
                return InputRef(i, expr.type, names[i])
        exprs.append(expr)
        names.append(name)
        return InputRef(len(exprs) - 1, expr.type, name)

    positions = [column(e, n).index for e, n in keys]
    bound = [
        AggCall(
            c.name,
            tuple(a if isinstance(a, Literal) else column(a, f"$f{len(exprs)}") for a in c.args),
            c.type,
            c.distinct,
            None if c.filter is None else column(c.filter, f"$f{len(exprs)}"),
            (*c.options, ("embedded", True)) if _embeds(c) else c.options,
            c.udaf,
        )
        for c, _ in calls
    ]
    # Two equal key expressions are one column; the output still has both.
    below = project(input, exprs, unique_names(names))
    return Aggregate(
        below,
        tuple(positions),
        tuple(bound),
        (*(n for _, n in keys), *(n for _, n in calls), *window_names),
        tuple(tuple(positions[i] for i in s) for s in sets),
        window,
        state_ttl,
    )


def distinct(input: Rel) -> Rel:
    """Each row once."""
    return Distinct(input)


def unify(inputs: Sequence[Rel], what: str) -> list[Rel]:
    """The inputs with their columns cast to common types; names of the first.

    Raises:
        ValidationException: different numbers of columns, or columns without a common type.
    """
    width = len(inputs[0].schema)
    for i in inputs[1:]:
        if len(i.schema) != width:
            raise ValidationException(f"Column count mismatch in {what}: {width} and {len(i.schema)}")
    types: list[DataType] = []
    for c in range(width):
        columns = [i.schema[c].type for i in inputs]
        common = union_type(columns)
        if common is None:
            raise ValidationException(
                f"Type mismatch in column {c + 1} of {what}: " + ", ".join(str(x.null()) for x in columns)
            )
        types.append(common)
    return [_cast_columns(i, types) for i in inputs]


def _cast_columns(input: Rel, types: Sequence[DataType]) -> Rel:
    exprs = [cast(r, x) for r, x in zip(input.schema.refs(), types)]
    return project(input, exprs, input.schema.names)


def union_all(inputs: Sequence[Rel]) -> Rel:
    """All rows of all inputs."""
    flat: list[Rel] = []
    for i in unify(inputs, "UNION"):
        flat.extend(i.all_inputs if isinstance(i, Union) else (i,))
    return Union(tuple(flat)) if len(flat) > 1 else flat[0]


def set_operation(left: Rel, right: Rel, kind: str, all: bool) -> Rel:
    """UNION, INTERSECT or EXCEPT of two inputs, their columns cast to common types."""
    if kind == "UNION":
        union = union_all((left, right))
        return union if all else Distinct(union)
    sides = unify((left, right), kind)
    return SetOperation(tuple(sides), "INTERSECT" if kind == "INTERSECT" else "EXCEPT", all)


def join(left: Rel, right: Rel, kind: JoinKind = "INNER", condition: Expr | None = None) -> Rel:
    """A join; without a condition every pair."""
    true = Literal(True, DataType("BOOLEAN", False))
    return Join(left, right, kind, true if condition is None else condition)


def values(rows: Sequence[Sequence[Expr]], names: Sequence[str] = ()) -> Rel:
    """Rows of constants; columns have the common type of their values, and are named EXPR$0, … where not given.

    Raises:
        ValidationException: rows of different width, or columns without a common type.
    """
    width = len(rows[0])
    if any(len(r) != width for r in rows):
        raise ValidationException("VALUES: the rows have different numbers of values")
    types: list[DataType] = []
    for c in range(width):
        common = union_type([r[c].type for r in rows])
        if common is None:
            raise ValidationException(
                f"Values passed to VALUES operator must have compatible types; column {c + 1} has "
                + ", ".join(dict.fromkeys(str(r[c].type.null()) for r in rows))
            )
        types.append(common)
    fitted = tuple(tuple(cast(e, x) for e, x in zip(r, types)) for r in rows)
    if not names:
        names = [f"EXPR${i}" for i in range(width)]
    return Values(RowSchema.of(names, types), fitted)
