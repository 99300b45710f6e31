"""TO_CHANGELOG and FROM_CHANGELOG in FROM: their arguments."""

from __future__ import annotations

from typing import Final

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.logical import Rel
from streamline.table.op_codes import from_changelog, to_changelog
from streamline.table.parse import error_at

__all__ = ("CHANGELOG_FUNCTIONS", "bind_changelog", "changelog_input")

CHANGELOG_FUNCTIONS: Final = ("TO_CHANGELOG", "FROM_CHANGELOG")

_PARAMETERS: Final = ("INPUT", "OP", "OP_MAPPING")


def _arguments(call: exp.Anonymous) -> dict[str, exp.Expression]:
    placed = zip(_PARAMETERS, call.expressions)
    found: dict[str, exp.Expression] = {p: a for p, a in placed if not isinstance(a, exp.Kwarg)}
    for argument in call.expressions:
        if isinstance(argument, exp.Kwarg):
            name = argument.this.name.upper()
            if name not in (*_PARAMETERS, "UID"):
                raise error_at(argument, f"{call.name} has no parameter {name}; it has input, op and op_mapping")
            found[name] = argument.args["expression"]
    if "INPUT" not in found or len(call.expressions) > len(_PARAMETERS) + 1:
        raise error_at(call, f"No match found for function signature {call.name}(); it takes input, op and op_mapping")
    return found


def changelog_input(call: exp.Anonymous) -> exp.Expression:
    """The table, or the query in brackets, that the function reads."""
    data = _arguments(call)["INPUT"]
    if isinstance(data, exp.TableFromRows):
        if data.args.get("partition_by"):
            raise error_at(
                data, f"Only tables with set semantics may be partitioned. {call.name} takes its rows as they come"
            )
        data = data.this
    if not isinstance(data, (exp.Table, exp.Subquery)):
        raise error_at(data, f"the input of {call.name} has to be a table: TABLE t, or a query in brackets")
    return data


def bind_changelog(call: exp.Anonymous, rel: Rel) -> Rel:
    """The function over the rows of its input."""
    arguments = _arguments(call)
    op = _descriptor(arguments["OP"]) if "OP" in arguments else "op"
    mapping = _mapping(arguments["OP_MAPPING"]) if "OP_MAPPING" in arguments else None
    make = to_changelog if call.name.upper() == "TO_CHANGELOG" else from_changelog
    try:
        return make(rel, op, mapping)
    except ValidationException as e:
        raise error_at(call, str(e)) from None


def _descriptor(node: exp.Expression) -> str:
    if not isinstance(node, exp.Anonymous) or node.name.upper() != "DESCRIPTOR" or len(node.expressions) != 1:
        raise error_at(node, "The descriptor for argument 'op' must contain exactly one column name.")
    return str(node.expressions[0].name)


def _mapping(node: exp.Expression) -> list[tuple[str, str]]:
    keys = node.args["keys"].expressions if isinstance(node, exp.Map) else []
    values = node.args["values"].expressions if isinstance(node, exp.Map) else []
    if not keys or not all(isinstance(e, exp.Literal) and e.is_string for e in (*keys, *values)):
        raise error_at(node, "op_mapping takes a MAP of texts, e.g. MAP['INSERT, UPDATE_AFTER', 'put']")
    return [(k.name, v.name) for k, v in zip(keys, values)]
