"""Table functions in FROM: UNNEST, EXPLODE and those of the user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.types import Field
from streamline.errors import ValidationException
from streamline.table.bind.context import Catalog
from streamline.table.bind.query_changelog import CHANGELOG_FUNCTIONS
from streamline.table.expr.nodes import Expr
from streamline.table.expr.registry import unknown_function
from streamline.table.logical import RowSchema, TableFunctionCall
from streamline.table.parse import error_at
from streamline.table.user_functions import bind_table_function as bind_user_function

if TYPE_CHECKING:
    from streamline.table.bind.query_scope import FromScope

__all__ = ("bind_table_function",)

#: Functions of tables, which are no functions of rows.
_OF_TABLES = ("TUMBLE", "HOP", "CUMULATE", "SESSION", *CHANGELOG_FUNCTIONS)


def bind_table_function(node: exp.Expression, scope: FromScope, catalog: Catalog) -> TableFunctionCall | None:
    """The call of a table function, None where the node is no such call.

    Args:
        node: a table of FROM.
        scope: what the arguments may refer to: the tables before it.
        catalog: functions of the user.

    Raises:
        ValidationException: there is no such function, or it does not take the arguments.
    """
    if isinstance(node, exp.Unnest):
        argument = scope.binder.bind(node.expressions[0])
        call = _spread(argument, node, "UNNEST", None)
        if node.args.get("offset"):
            ordinality = Field("ORDINALITY", t.INT.not_null())
            call = replace(call, schema=RowSchema((*call.schema.fields, ordinality)), ordinality=True)
        return _renamed(call, node)
    if not isinstance(node, exp.Lateral) or not isinstance(node.this, exp.Anonymous):
        return None
    function = node.this
    path = (*(function.args.get("path") or ()), function.this)
    found = catalog.function(path)
    name = function.name.upper()
    if found is None and len(path) == 1 and name in _OF_TABLES:
        return None
    operands = [scope.binder.bind(a) for a in function.expressions]
    if found is not None:
        if found.kind != "table":
            raise error_at(function, f"{'.'.join(path)} is a {found.kind} function; a table function is needed here")
        try:
            return _renamed(bind_user_function(found, operands), node)
        except ValidationException as e:
            raise error_at(function, str(e)) from None
    if len(path) == 1 and name in ("EXPLODE", "UNNEST"):
        if len(operands) != 1:
            raise error_at(function, f"Invalid number of arguments to function '{name}'. Was expecting 1 arguments")
        alias = node.args.get("alias")
        names = len(alias.args.get("columns") or ()) if alias is not None else 0
        return _renamed(_spread(operands[0], function, name, names), node)
    raise error_at(function, str(unknown_function(".".join(path), operands, ("EXPLODE", "UNNEST"))))


def _spread(argument: Expr, node: exp.Expression, name: str, names: int | None) -> TableFunctionCall:
    """UNNEST: the fields of elements that are rows are columns; EXPLODE: only where several names are given."""
    type_ = argument.type
    if type_.root == "MAP" and type_.key is not None and type_.element is not None:
        pair = (Field("KEY", type_.key), Field("VALUE", type_.element))
        return TableFunctionCall("EXPLODE", (argument,), RowSchema(pair))
    if type_.root not in ("ARRAY", "MULTISET") or type_.element is None:
        raise error_at(node, f"{name} takes an array, a multiset or a map, not {type_.null()}")
    element = type_.element
    if element.is_composite and (names is None or names > 1):
        fields = tuple(Field(f.name, f.type.null() if element.nullable else f.type) for f in element.fields)
        return TableFunctionCall("UNNEST", (argument,), RowSchema(fields))
    return TableFunctionCall("EXPLODE", (argument,), RowSchema((Field("EXPR$0", element),)))


def _renamed(call: TableFunctionCall, node: exp.Expression) -> TableFunctionCall:
    alias = node.args.get("alias")
    columns = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    if not columns and alias is not None and isinstance(node, exp.Unnest) and call.schema.names == ("EXPR$0",):
        columns = [alias.this.name]  # A table of one value is named like it.
    if not columns:
        return call
    if len(columns) != len(call.schema):
        shown = ", ".join(f"'{n}'" for n in call.schema.names)
        raise error_at(
            node,
            f"List of column aliases must have same degree as table; table has {len(call.schema)} columns ({shown}), "
            f"whereas alias list has {len(columns)} columns",
        )
    return replace(call, schema=RowSchema.of(columns, call.schema.types))
