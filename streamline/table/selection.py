"""The items of a `select`: stars and choices of columns expanded, aliases taken off, names found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp

from streamline.table.expression import Expression
from streamline.table.expression_base import identifier
from streamline.table.expressions import col
from streamline.table.logical import RowSchema
from streamline.table.parse import name_of
from streamline.table.table_scope import Names, TableScope, refused

__all__ = ("Item", "alias_names", "as_expressions", "items_of", "name_of_item", "unaliased")


@dataclass(frozen=True)
class Item:
    """An expression without its alias, and the alias or None."""

    node: exp.Expression
    name: str | None = None


def as_expressions(fields: Iterable[Expression | str]) -> list[Expression]:
    """Names as columns."""
    return [f if isinstance(f, Expression) else col(f) for f in fields]


def unaliased(node: exp.Expression) -> exp.Expression:
    """The expression without its alias."""
    return node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node


def alias_names(node: exp.Expression) -> list[str]:
    """The aliases of an expression; empty where it has none."""
    if isinstance(node, exp.Aliases):
        return [i.name for i in node.expressions]
    return [node.alias] if isinstance(node, exp.Alias) else []


def name_of_item(node: exp.Expression) -> str | None:
    """The name that an expression brings along: of a column, or of one that is only cast."""
    while isinstance(node, (exp.Cast, exp.TryCast)):
        node = node.this
    if isinstance(node, exp.Ordered):
        return name_of_item(node.this)
    if not isinstance(node, (exp.Column, exp.Dot)):
        return None
    parts = name_of(node)
    return None if parts is None else parts[-1]


def items_of(
    fields: Sequence[Expression | str],
    names: Names,
    scope: TableScope,
    keys: Sequence[str] | None = None,
) -> list[Item]:
    """The items of a list of expressions.

    Args:
        fields: the expressions; text is the name of a column.
        names: the columns that stars and ranges are about.
        scope: of the expressions, for those whose type has to be known.
        keys: names of grouping keys, which a star over groups stands for.
    """
    items: list[Item] = []
    for field in as_expressions(fields):
        items += _items(field, names, scope, keys)
    return items


def _items(field: Expression, names: Names, scope: TableScope, keys: Sequence[str] | None) -> list[Item]:
    given = alias_names(field.ast)
    node = unaliased(field.ast)
    word = node.name if isinstance(node, exp.Anonymous) else ""
    many: list[exp.Expression] | None = None
    if isinstance(node, exp.Star):
        many = [column(n) for n in (names.schema.names if keys is None else keys)]
    elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        many = _columns_of(node.table, names)
    elif word == "$WITH_COLUMNS":
        many = [column(names.schema.names[i]) for i in positions(node.expressions, names.schema)]
    elif word == "$WITHOUT_COLUMNS":
        out = set(positions(node.expressions, names.schema))
        many = [column(n) for i, n in enumerate(names.schema.names) if i not in out]
    elif word == "$FLATTEN":
        return _flattened(node.expressions[0], given, scope)
    if many is None:
        if len(given) > 1:
            raise refused(f"{field.text}: only a table function takes several names")
        return [Item(node, given[0] if given else None)]
    if given and len(given) != len(many):
        raise refused(f"{field.text}: {len(given)} names for {len(many)} columns")
    return [Item(n, given[i] if given else None) for i, n in enumerate(many)]


def column(name: str) -> exp.Column:
    """The node of a column, whatever characters its name has."""
    return exp.Column(this=identifier(name))


def _columns_of(table: str, names: Names) -> list[exp.Expression]:
    if table in names.tables:
        return [column(n) for n in names.tables[table]]
    found = names.schema.find(table)
    if len(found) == 1 and names.schema[found[0]].type.is_composite:
        fields = names.schema[found[0]].type.fields
        return [exp.Column(this=identifier(f.name), table=identifier(table)) for f in fields]
    raise refused(f"Cannot resolve [{table}.*], input field list:[{names.list()}].")


def _flattened(node: exp.Expression, given: list[str], scope: TableScope) -> list[Item]:
    bound = scope.bind(node)
    if not bound.type.is_composite:
        return [Item(node, given[0] if given else None)]
    fields = bound.type.fields
    if given and len(given) != len(fields):
        raise refused(f"flatten: {len(given)} names for the {len(fields)} fields of {bound.type.summary(True)}")
    prefix = name_of_item(node) or str(bound)
    return [
        Item(exp.Dot(this=node.copy(), expression=identifier(f.name)), given[i] if given else f"{prefix}${f.name}")
        for i, f in enumerate(fields)
    ]


def positions(nodes: Sequence[exp.Expression], schema: RowSchema) -> list[int]:
    """The columns that names, positions (from 1) and ranges name, in the order given."""
    found: list[int] = []
    for node in nodes:
        if isinstance(node, exp.Anonymous) and node.name == "$RANGE":
            start, end = (_position(e, schema) for e in node.expressions)
            if start > end:
                raise refused(f"range_: column {schema.names[start]} comes after column {schema.names[end]}")
            found += range(start, end + 1)
        elif isinstance(node, exp.Star):
            found += range(len(schema))
        else:
            found.append(_position(node, schema))
    return found


def _position(node: exp.Expression, schema: RowSchema) -> int:
    if isinstance(node, exp.Literal) and not node.args.get("is_string"):
        place = int(node.name)
        if not 1 <= place <= len(schema):
            raise refused(f"there is no column {place}: the table has {len(schema)} columns")
        return place - 1
    name = node.name
    found = schema.find(name)
    if len(found) != 1:
        raise refused(f"Cannot resolve field [{name}], input field list:[{', '.join(schema.names)}].")
    return found[0]
