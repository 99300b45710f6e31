"""Builders of nodes that change only which kinds of change there are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from streamline._channel.partition import Hash
from streamline._core.declare import StateSpec
from streamline._operators.aggregate.group import GroupAggregate
from streamline._operators.calc import Calc
from streamline._operators.materialize import UpsertMaterialize, Upserts
from streamline._operators.state_types import dict_of, tuple_of
from streamline.table import physical as P
from streamline.table.codegen.aggregates import needs_key_function
from streamline.table.codegen.changelog import drop_before, normalize_loop
from streamline.table.codegen.op_codes import coded, decoded
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.state_types import row_type, state_type
from streamline.table.explain import digest
from streamline.table.lowering.base import Lowering, Stream

__all__ = ("drop_update_before", "from_changelog", "normalize", "to_changelog", "upsert_materialize", "upserts")


def drop_update_before(low: Lowering, node: P.DropUpdateBefore) -> Stream:
    stream = low.lower(node.input)
    code = drop_before(stream.rows, low.context)
    added = low.operator("DropUpdateBefore", stream, partial(Calc, code.make))
    types = tuple(e.type for e in stream.rows.exprs)
    return Stream((added,), Rows.of_tuples(types, False))


def to_changelog(low: Lowering, node: P.ToChangelog) -> Stream:
    stream = low.lower(node.input)
    code = coded(stream.rows, node.codes, low.context)
    added = low.operator("ToChangelog", stream, partial(Calc, code.make), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def from_changelog(low: Lowering, node: P.FromChangelog) -> Stream:
    stream = low.lower(node.input)
    code = decoded(stream.rows, node.op, node.codes, node.emit_before, low.context)
    added = low.operator("FromChangelog", stream, partial(Calc, code.make), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, False))


def upserts(low: Lowering, node: P.Upserts) -> Stream:
    stream = low.materialized(low.lower(node.input))
    key = low.key(stream, node.keys)
    added = low.operator("Upserts", stream, lambda: Upserts(key.make()), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, False))


def upsert_materialize(low: Lowering, node: P.UpsertMaterialize) -> Stream:
    assert isinstance(node.input, P.Exchange)
    stream = low.materialized(low.lower(node.input.input))
    partition = Hash(low.key(stream, node.keys).make())
    stream = replace(stream, partition=partition, keys=node.keys)
    key, identity = low.key(stream, node.keys), low.key(stream, node.identity)
    types = node.schema.types
    known = [types[i] for i in node.identity]
    kind = state_type(known[0]) if len(known) == 1 else row_type(tuple(known))
    if any(map(needs_key_function, known)):
        kind = Any
    spec = StateSpec(type=dict_of(kind, tuple_of(row_type(types), int)), ttl=low.ttl, copy=dict.copy)
    names = ", ".join(node.schema.names[k] for k in node.keys)
    of_key = key.make()

    def explain(first: Any, second: Any) -> str:
        return (
            f"ON CONFLICT DO ERROR: two rows have the primary key ({names}) = {of_key(first)!r} of table "
            f"'{node.table}': {first!r} and {second!r}"
        )

    added = low.operator(
        "UpsertMaterialize",
        stream,
        lambda: UpsertMaterialize(key.make(), identity.make(), spec, node.conflict, explain),
        keyed=key,
        description=digest(node),
    )
    return Stream((added,), Rows.of_tuples(types, False))


def normalize(low: Lowering, node: P.ChangelogNormalize) -> Stream:
    stream = low.lower(node.input)
    loop = normalize_loop(stream.rows, node.keys, node.condition, low.context, node.emit_before)
    spec = StateSpec(type=loop.state, ttl=low.ttl)
    make = partial(GroupAggregate, loop.function.make, spec)
    added = low.operator("ChangelogNormalize", stream, make, keyed=low.key(stream, node.keys), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, False))
