"""Table functions over the rows of a table: `join_lateral` and `flat_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import sqlglot.expressions as exp

from streamline._core.types import DataType, Field
from streamline.table.expr.nodes import Expr
from streamline.table.expr.registry import unknown_function
from streamline.table.expression import Expression
from streamline.table.logical import Correlate, Rel, RowSchema, TableFunctionCall
from streamline.table.selection import alias_names, unaliased
from streamline.table.table_scope import Names, TableScope, plain_errors, refused
from streamline.table.user_functions import bind_table_function

if TYPE_CHECKING:
    from streamline.table.table import Table

__all__ = ("exploded", "lateral")


def exploded(argument: Expr, names: list[str]) -> TableFunctionCall:
    """EXPLODE of an array, multiset or map: a column of the element, or its fields where more names are given.

    Raises:
        ValidationException: the argument is no collection, or the names do not fit.
    """
    type_ = argument.type
    if type_.root == "MAP" and type_.key is not None and type_.element is not None:
        pair = (Field("key", type_.key), Field("value", type_.element))
        return TableFunctionCall("EXPLODE", (argument,), _named(pair, names, "EXPLODE"))
    if type_.root not in ("ARRAY", "MULTISET") or type_.element is None:
        raise refused(f"EXPLODE takes an array, a multiset or a map, not {type_.summary(True)}: {argument}")
    element = type_.element
    if len(names) > 1 and element.is_composite:
        fields = tuple(Field(f.name, _nullable(f.type, element)) for f in element.fields)
        return TableFunctionCall("UNNEST", (argument,), _named(fields, names, "EXPLODE"))
    return TableFunctionCall("EXPLODE", (argument,), _named((Field("f0", element),), names, "EXPLODE"))


def _nullable(type_: DataType, outer: DataType) -> DataType:
    return type_.null() if outer.nullable else type_


def _named(fields: tuple[Field, ...], names: list[str], what: str) -> RowSchema:
    if names and len(names) != len(fields):
        raise refused(
            f"{what} gives {len(fields)} columns ({', '.join(f.name for f in fields)}), but {len(names)} names were "
            f"given: {', '.join(names)}"
        )
    return RowSchema(tuple(Field(n, f.type) for n, f in zip(names, fields)) if names else fields)


def _unnested(argument: Expr, names: list[str]) -> TableFunctionCall:
    element = argument.type.element
    if argument.type.root in ("ARRAY", "MULTISET") and element is not None and element.is_composite:
        fields = tuple(Field(f.name, _nullable(f.type, element)) for f in element.fields)
        return TableFunctionCall("UNNEST", (argument,), _named(fields, names, "UNNEST"))
    call = exploded(argument, names)
    return TableFunctionCall("UNNEST", call.args, call.schema)


def _call(scope: TableScope, expression: Expression) -> TableFunctionCall:
    node, names = unaliased(expression.ast), alias_names(expression.ast)
    if not isinstance(node, exp.Anonymous):
        raise refused(f"a table function is expected, not {expression.text}")
    path = (*(node.args.get("path") or ()), node.name)
    arguments: list[Expr] = []
    for argument in node.expressions:
        if isinstance(argument, exp.Star):
            arguments += scope.names.schema.refs()
        else:
            arguments.append(scope.bind(argument))
    found = scope.function(path)
    if found is not None:
        if found.kind != "table":
            raise refused(f"{found.name} is no table function, but {found.kind}")
        with plain_errors():
            call = bind_table_function(found, arguments)
        return TableFunctionCall(call.name, call.args, _named(call.schema.fields, names, found.name), call.function)
    word = node.name.upper()
    if len(path) == 1 and word in ("EXPLODE", "UNNEST"):
        if len(arguments) != 1:
            raise refused(f"{word} takes one argument, not {len(arguments)}")
        return exploded(arguments[0], names) if word == "EXPLODE" else _unnested(arguments[0], names)
    raise unknown_function(".".join(path), arguments, ("EXPLODE", "UNNEST"))


def lateral(
    table: Table,
    expression: Expression,
    kind: Literal["INNER", "LEFT"],
    predicate: Expression | None,
    disjoint: bool = True,
) -> Rel:
    """The table's rows, each with the rows of a table function.

    Args:
        table: the left side.
        expression: the call, perhaps with names for its columns.
        kind: whether rows without a result are kept.
        predicate: over the columns of both; None: all pairs.
        disjoint: whether the function's columns must have other names than the table's.
    """
    scope = table.scope("join_lateral")
    scope.adopt((expression.ast,))
    call = _call(scope, expression)
    both = sorted(set(call.schema.names) & set(table.rel.schema.names))
    if both and disjoint:
        raise refused(
            f"join relations with ambiguous names: [{', '.join(both)}]; give the columns of {expression.text} other "
            "names with .alias(...)"
        )
    condition = None
    if predicate is not None:
        names = table.names.joined(Names(call.schema))
        condition = TableScope(names, table.host, clause="a join predicate").bind_condition(predicate.ast)
    with plain_errors():
        return Correlate(table.rel, call, kind, condition)
