"""Subqueries in expressions become joins.

EXISTS, IN, = ANY          semi join
NOT EXISTS, NOT IN, <> ALL anti join
(SELECT one value)         left join with a single row, or with one row for each value of what it is correlated by
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline.table import build
from streamline.table.bind.query_names import shifted
from streamline.table.bind.query_scope import JOINED, OUTER, FromScope, GroupScope
from streamline.table.expr.aggregates import bind_aggregate
from streamline.table.expr.fold import evaluate
from streamline.table.expr.functions.logic import and_, or_
from streamline.table.expr.nodes import AggCall, Call, Expr, InputRef, Literal, input_refs, rewrite
from streamline.table.expr.registry import bind_call
from streamline.table.logical import Aggregate, Join, JoinKind, Project, Rel
from streamline.table.parse import error_at

if TYPE_CHECKING:
    from streamline.table.bind.query import QueryBinder
    from streamline.table.bind.query_select import Bound

__all__ = ("SubqueryBinder", "placed")

_COMPARISONS: Final[dict[type, str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


class SubqueryBinder:
    """The part of a SELECT's binder that turns subqueries into joins."""

    query: QueryBinder
    rel: Rel
    joined: list[Rel]
    correlations: list[Expr]

    # -- conditions of WHERE -------------------------------------------------------------------------------------

    def is_predicate(self, node: exp.Expression) -> bool:
        """Whether a condition of WHERE is a test of a subquery, which becomes a semi or anti join."""
        inner = node.this if isinstance(node, exp.Not) else node
        if isinstance(inner, exp.Exists):
            return True
        if isinstance(inner, exp.In):
            return inner.args.get("query") is not None
        right = inner.args.get("expression")
        return (
            type(inner) in _COMPARISONS
            and isinstance(right, (exp.Any, exp.All))
            and not isinstance(right.this, exp.Tuple)
        )

    def join_predicate(self, node: exp.Expression, scope: FromScope) -> None:
        """Join with the subquery of a condition, so that the rows are left for which it is TRUE."""
        negated = isinstance(node, exp.Not)
        inner = node.this if negated else node
        if isinstance(inner, exp.Exists):
            self._semi(_query(inner.this), (), negated, None, scope, inner)
            return
        if isinstance(inner, exp.In):
            left = _row(scope.binder.bind(inner.this))
            self._semi(_query(inner.args["query"]), left, negated, "=", scope, inner)
            return
        right = inner.args["expression"]
        left = _row(scope.binder.bind(inner.this))
        operator = _COMPARISONS[type(inner)]
        every = isinstance(right, exp.All) is not negated
        if negated:
            operator = _OPPOSITE[operator]
        if not every:
            self._semi(_query(right.this), left, False, operator, scope, inner)
        else:
            # x > ALL (q): no row of q for which x > y is not TRUE.
            self._semi(_query(right.this), left, True, _OPPOSITE[operator], scope, inner)

    def _semi(
        self,
        query: exp.Expression,
        left: Sequence[Expr],
        anti: bool,
        operator: str | None,
        scope: FromScope,
        node: exp.Expression,
    ) -> None:
        sub = self.query.bind(query, scope)
        width = len(self.rel.schema)
        tests = [placed(c, width) for c in sub.correlations]
        if operator is not None:
            if len(left) != len(sub.names):
                raise error_at(
                    node, f"Unequal number of entries: the left side has {len(left)}, the subquery {len(sub.names)}"
                )
            for x, column in zip(left, sub.result.refs()):
                test = bind_call(operator, (x, shifted(column, width)))
                if anti and test.type.nullable:
                    test = or_(test, bind_call("IS NULL", (test,)))
                tests.append(test)
        condition = and_(*tests) if len(tests) > 1 else tests[0] if tests else _TRUE
        kind: JoinKind = "ANTI" if anti else "SEMI"
        self.rel = Join(self.rel, sub.rel, kind, condition)

    # -- values --------------------------------------------------------------------------------------------------

    def bind_subquery(
        self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression, scope: FromScope
    ) -> Expr:
        """A subquery within an expression: the value of a scalar one."""
        if kind == "IN" and not isinstance(scope, GroupScope):
            return self._in_value(operands, query, node, scope)
        if kind == "EXISTS" and not isinstance(scope, GroupScope):
            return self._exists_value(query, node, scope)
        if kind != "SCALAR":
            raise error_at(
                node,
                f"{kind} with a subquery can only stand in WHERE, alone or joined with AND; rewrite it as a join, or "
                "as UNION of queries with one condition each",
            )
        sub = self.query.bind(query, scope)
        if len(sub.names) != 1:
            raise error_at(node, f"a scalar subquery has to give one column, not {len(sub.names)}")
        single, value = self._single(sub, node)
        nothing = self._of_nothing(sub)
        if isinstance(scope, GroupScope):
            if sub.correlations:
                raise error_at(node, "a correlated subquery over groups is not supported; put the grouping in FROM")
            self.joined.append(single)
            found: Expr = InputRef(JOINED + len(self.joined) - 1, value.type.null(), "EXPR$0")
            return found if nothing is None else bind_call("COALESCE", (found, nothing))
        marked = nothing is not None and value.type.nullable
        if marked:
            single = build.project(single, [*single.schema.refs(), _TRUE], [*single.schema.names, "found"])
        width = len(self.rel.schema)
        conditions = [placed(c, width) for c in sub.correlations]
        self.rel = build.join(
            self.rel,
            single,
            "LEFT",
            and_(*conditions) if len(conditions) > 1 else (conditions[0] if conditions else None),
        )
        found = self.rel.schema.ref(width)
        if nothing is None:
            return found
        if marked:
            some = bind_call("IS NOT NULL", (self.rel.schema.ref(len(self.rel.schema) - 1),))
            return bind_call("CASE", (some, found, nothing))
        made = bind_call("COALESCE", (found, nothing))
        return replace(made, type=made.type.null()) if isinstance(made, Call) else made

    def _of_nothing(self, sub: Bound) -> Literal | None:
        """The value of an aggregating subquery over no rows, where it is one: an aggregate without rows sends none."""
        rel = sub.rel
        value: Expr = rel.schema.ref(0)
        while isinstance(rel, Project):
            value = _over(value, rel.exprs)
            rel = rel.input
        if not sub.aggregated or not isinstance(rel, Aggregate) or rel.sets:
            return None
        calls, keys = rel.calls, len(rel.keys)
        if any(i < keys for i in input_refs(value)):
            return None

        def empty(e: Expr) -> Expr | None:
            if not isinstance(e, InputRef):
                return None
            counts = calls[e.index - keys].name in ("COUNT", "APPROX_COUNT_DISTINCT", "REGR_COUNT")
            return Literal(0 if counts else None, e.type)

        found = evaluate(rewrite(value, empty), self.query.context)
        return None if found is None else Literal(found, value.type.not_null())

    def _in_value(self, left: Sequence[Expr], query: exp.Expression, node: exp.Expression, scope: FromScope) -> Expr:
        """`x IN (q)` as a value: TRUE where q has x, unknown where x or a value of q is NULL, else FALSE."""
        sub = self.query.bind(query, scope)
        if sub.correlations or len(left) != 1 or len(sub.names) != 1:
            raise error_at(node, "IN with this subquery can only stand in WHERE, alone or joined with AND")
        column = sub.rel.schema.ref(0)
        counts = build.aggregate(
            sub.rel, [], [(bind_aggregate("COUNT", ()), "c"), (bind_aggregate("COUNT", (column,)), "ck")]
        )
        found = build.aggregate(sub.rel, [(column, sub.names[0])], [])
        marked = build.project(found, [found.schema.ref(0), _TRUE], [sub.names[0], "i"])
        width = len(self.rel.schema)
        self.rel = build.join(self.rel, counts, "LEFT")
        test = bind_call("=", (left[0], shifted(marked.schema.ref(0), width + 2)))
        self.rel = build.join(self.rel, marked, "LEFT", test)
        total, known = self.rel.schema.ref(width), self.rel.schema.ref(width + 1)
        zero = Literal(0, t.BIGINT.not_null())
        return bind_call(
            "CASE",
            (
                bind_call("OR", (bind_call("IS NULL", (total,)), bind_call("=", (total, zero)))),
                _FALSE,
                bind_call("IS NULL", (left[0],)),
                _UNKNOWN,
                bind_call("IS NOT NULL", (self.rel.schema.ref(width + 3),)),
                _TRUE,
                bind_call("<", (known, total)),
                _UNKNOWN,
                _FALSE,
            ),
        )

    def _exists_value(self, query: exp.Expression, node: exp.Expression, scope: FromScope) -> Expr:
        """`EXISTS (q)` as a value."""
        sub = self.query.bind(query, scope)
        width = len(self.rel.schema)
        keys = self._keys_of(sub, node)
        if keys:
            distinct = build.aggregate(sub.rel, [(k, sub.rel.schema.names[k.index]) for k in keys], [])
            found = build.project(distinct, [*distinct.schema.refs(), _TRUE], [*distinct.schema.names, "i"])
        else:
            found = build.aggregate(build.project(sub.rel, [_TRUE], ["i"]), [(_TRUE, "i")], [])
        tests = []
        for c, place in zip(sub.correlations, range(len(keys))):
            sides = _sides(c)
            assert sides is not None
            tests.append(bind_call("=", (placed(sides[1], 0), shifted(found.schema.ref(place), width))))
        condition = and_(*tests) if len(tests) > 1 else tests[0] if tests else None
        self.rel = build.join(self.rel, found, "LEFT", condition)
        return bind_call("IS NOT NULL", (self.rel.schema.ref(width + len(keys)),))

    def _keys_of(self, sub: Bound, node: exp.Expression) -> list[InputRef]:
        keys: list[InputRef] = []
        for c in sub.correlations:
            sides = _sides(c)
            if sides is None or not isinstance(sides[0], InputRef):
                raise error_at(
                    node, f"EXISTS outside of WHERE can only be correlated by equality of columns, not by {c}"
                )
            keys.append(sides[0])
        return keys

    def _single(self, sub: Bound, node: exp.Expression) -> tuple[Rel, Expr]:
        """The subquery as at most one row (one row for each key where it is correlated)."""
        value = sub.rel.schema.ref(0)
        if sub.aggregated:
            return sub.rel, value
        keys = self._inner_keys(sub, node)
        call = AggCall("SINGLE_VALUE", (value,), value.type.null())
        aggregate = build.aggregate(sub.rel, [(k, sub.rel.schema.names[k.index]) for k in keys], [(call, sub.names[0])])
        n = len(keys)
        order = [n, *range(n)]
        return build.project(
            aggregate, [aggregate.schema.ref(i) for i in order], [aggregate.schema.names[i] for i in order]
        ), value

    def _inner_keys(self, sub: Bound, node: exp.Expression) -> list[InputRef]:
        keys: list[InputRef] = []
        for c in sub.correlations:
            sides = _sides(c)
            if sides is None or not isinstance(sides[0], InputRef):
                raise error_at(node, f"a scalar subquery can only be correlated by equality of columns, not by {c}")
            keys.append(sides[0])
        expected = list(range(1, 1 + len(keys)))
        if [k.index for k in keys] != expected:
            raise error_at(node, "this correlated subquery is not supported; rewrite it as a join")
        return keys

    def correlated_keys(self, correlations: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """What an aggregating subquery has to be grouped by, and the conditions over those keys.

        The conditions' inner columns are numbered as the keys are.
        """
        keys: list[Expr] = []
        conditions: list[Expr] = []
        for c in correlations:
            sides = _sides(c)
            if sides is None:
                raise error_at(
                    self.query.node, f"an aggregating subquery can only be correlated by equality, not by {c}"
                )
            inner, outer = sides
            if inner not in keys:
                keys.append(inner)
            place = keys.index(inner)
            conditions.append(bind_call("=", (InputRef(place, inner.type, str(inner)), outer)))
        return keys, conditions


_TRUE: Final = Literal(True, t.BOOLEAN.not_null())
_FALSE: Final = Literal(False, t.BOOLEAN.not_null())
_UNKNOWN: Final = Literal(None, t.BOOLEAN)
_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _query(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Subquery) else node


def _row(expr: Expr) -> Sequence[Expr]:
    return expr.operands if isinstance(expr, Call) and expr.function.name == "ROW" else (expr,)


def placed(condition: Expr, width: int) -> Expr:
    """A correlation over the row of the query around followed by the subquery's."""

    def place(e: Expr) -> Expr | None:
        if not isinstance(e, InputRef):
            return None
        return InputRef(e.index - OUTER if e.index >= OUTER else e.index + width, e.type, e.name)

    return rewrite(condition, place)


def _over(expr: Expr, exprs: Sequence[Expr]) -> Expr:
    """An expression over what the expressions compute, written over their input."""
    return rewrite(expr, lambda e: exprs[e.index] if isinstance(e, InputRef) else None)


def _sides(condition: Expr) -> tuple[Expr, Expr] | None:
    """The inner and the outer side of an equality, None for another condition."""
    if not isinstance(condition, Call) or condition.function.name != "=":
        return None
    a, b = condition.operands
    for inner, outer in ((a, b), (b, a)):
        if (
            all(i < OUTER for i in input_refs(inner))
            and input_refs(outer)
            and all(i >= OUTER for i in input_refs(outer))
        ):
            return inner, outer
    return None
