"""GROUPING SETS become one aggregate over rows that are sent once for each set.

GROUP BY GROUPING SETS ((a), (b))  ->  Aggregate[a, b, $e](Expand[(…, a, null, 0), (…, null, b, 1)])
"""

from __future__ import annotations

from streamline._core import types as t
from streamline._core.types import Field
from streamline.table.expr.nodes import Expr, InputRef, Literal
from streamline.table.logical import Aggregate, Expand, Project, Rel, RowSchema
from streamline.table.rules.rule import Context

__all__ = ("expand_grouping_sets",)

_BIGINT = t.BIGINT.not_null()

#: Calls that tell the grouping sets apart.
_MARKS = ("GROUPING", "GROUP_ID")


def expand_grouping_sets(rel: Rel, context: Context) -> Rel | None:
    if not isinstance(rel, Aggregate) or not rel.sets:
        return None
    schema = rel.input.schema
    width = len(schema)
    shared = tuple(dict.fromkeys(k for k in rel.keys if all(k in s for s in rel.sets)))
    keys = tuple(dict.fromkeys(k for k in rel.keys if k not in shared))
    grouping = [i for i, c in enumerate(rel.calls) if c.name in _MARKS]
    fields = [*schema.fields]
    fields += [Field(f"{schema[k].name}$k", schema[k].type.null()) for k in keys]
    fields.append(Field("$e", _BIGINT))
    fields += [Field(f"$g{i}", _BIGINT) for i in grouping]
    projections: list[tuple[Expr, ...]] = []
    for number, s in enumerate(rel.sets):
        row: list[Expr] = list(schema.refs())
        row += [schema.ref(k) if k in s else Literal(None, schema[k].type.null().materialized()) for k in keys]
        row.append(Literal(number, _BIGINT))
        row += [Literal(_mark(rel, i, number), _BIGINT) for i in grouping]
        projections.append(tuple(row))
    expanded = Expand(rel.input, tuple(projections), RowSchema(tuple(fields)))
    copies = [*shared, *(width + i for i in range(len(keys)))]
    marks = [width + len(keys), *(width + len(keys) + 1 + i for i in range(len(grouping)))]
    calls = [(c, n) for c, n in zip(rel.calls, rel.names[len(rel.keys) :]) if c.name not in _MARKS]
    inner = Aggregate(
        expanded,
        (*copies, *marks),
        tuple(c for c, _ in calls),
        (*(f"$k{i}" for i in range(len(copies) + len(marks))), *(n for _, n in calls)),
        state_ttl=rel.state_ttl,
    )
    order = [*shared, *keys]
    out: list[Expr] = [inner.schema.ref(order.index(k)) for k in rel.keys]
    plain = len(copies) + len(marks)
    for i, c in enumerate(rel.calls):
        if c.name in _MARKS:
            out.append(inner.schema.ref(len(copies) + 1 + grouping.index(i)))
        else:
            out.append(inner.schema.ref(plain))
            plain += 1
    return Project(inner, tuple(out), rel.names)


def _mark(rel: Aggregate, call: int, number: int) -> int:
    """GROUPING(a, b): a bit for each argument, 1 where it is rolled up; GROUP_ID(): which of equal sets it is."""
    grouping_set = rel.sets[number]
    if rel.calls[call].name == "GROUP_ID":
        return rel.sets[:number].count(grouping_set)
    value = 0
    for a in rel.calls[call].args:
        assert isinstance(a, InputRef)
        value = value * 2 + (a.index not in grouping_set)
    return value
