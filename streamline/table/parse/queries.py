"""Queries: WITH, SELECT and its clauses, VALUES, set operations, ORDER BY and LIMIT."""

from __future__ import annotations

import sqlglot.expressions as exp

from streamline.table.parse.expressions import balanced
from streamline.table.parse.source import SPAN, Span, locate
from streamline.table.parse.tables import TableParser

__all__ = ("QueryParser",)


class QueryParser(TableParser):
    """Reads queries."""

    def query(self) -> exp.Expression:
        self.deeper()
        start = self.at
        node = self._with() if self.token.key == "WITH" else self._ordered(self._set_operation())
        self.depth -= 1
        return self.mark(node, start)

    def continue_query(self, first: exp.Expression) -> exp.Expression:
        return self._ordered(self._set_operation(first))

    def _with(self) -> exp.Expression:
        start = self.at
        self.need("WITH")
        recursive = self.take("RECURSIVE")
        ctes = self.comma_list(self._cte)
        clause = self.mark(exp.With(expressions=ctes, recursive=recursive), start)
        node = self._ordered(self._set_operation())
        if node.args.get("with_") is not None:
            # WITH a AS (…) (WITH b AS (…) SELECT …): the outer names are seen inside.
            node = self._select_all(node)
        node.set("with_", clause)
        return node

    def _cte(self) -> exp.Expression:
        start = self.at
        name = self.read_identifier()
        columns = self.in_parens(self.read_identifier) if self.token.key == "(" else []
        alias = self.mark(exp.TableAlias(this=name, columns=columns), start)
        self.need("AS", "(")
        query = self.query()
        self.need(")")
        return self.mark(exp.CTE(this=query, alias=alias), start)

    # -- set operations --------------------------------------------------------------------------------------------

    def _set_operation(self, first: exp.Expression | None = None) -> exp.Expression:
        """UNION and EXCEPT from left to right; INTERSECT binds more tightly."""
        left = self._intersection(first)
        while True:
            if self.token.key == "UNION":
                operands = [left]
                distinct = False
                while not distinct and self.token.key == "UNION":
                    self.at += 1
                    distinct = self.take_one("ALL", "DISTINCT") != "ALL"
                    right = self._intersection()
                    if distinct:
                        left = self._combined(exp.Union, self._all(operands), right, True)
                    else:
                        operands.append(right)
                if not distinct:
                    left = self._all(operands)
            elif self.token.key == "EXCEPT":
                self.at += 1
                distinct = self.take_one("ALL", "DISTINCT") != "ALL"
                left = self._combined(exp.Except, left, self._intersection(), distinct)
            elif self.token.key == "MINUS":
                self.fail("MINUS is not part of this dialect", "Write EXCEPT.")
            else:
                return left

    def _all(self, operands: list[exp.Expression]) -> exp.Expression:
        return balanced(lambda a, b: self._combined(exp.Union, a, b, False), operands)

    def _intersection(self, first: exp.Expression | None = None) -> exp.Expression:
        left = self._simple_query() if first is None else first
        while self.token.key == "INTERSECT":
            self.at += 1
            distinct = self.take_one("ALL", "DISTINCT") != "ALL"
            left = self._combined(exp.Intersect, left, self._simple_query(), distinct)
        return left

    def _combined(
        self, kind: type[exp.Expression], left: exp.Expression, right: exp.Expression, distinct: bool
    ) -> exp.Expression:
        node = kind(this=left, expression=right, distinct=distinct)
        first, last = locate(left), locate(right)
        if first is not None and last is not None:
            node.meta[SPAN] = Span(self.source, first.start, last.end)
        return node

    def _simple_query(self) -> exp.Expression:
        """SELECT, VALUES, TABLE t, or a query in brackets."""
        start = self.at
        if self.token.key == "(":
            self.at += 1
            node = self.query()
            self.need(")")
            return node
        if self.take("SELECT"):
            return self._select(start)
        if self.take("VALUES"):
            return self.mark(exp.Values(expressions=self.comma_list(self._row_of_values)), start)
        if self.next_is("TABLE"):
            self.at += 1
            at = self.at
            table = self.table_name(self._parts(), at)
            node = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table), joins=[])
            return self.mark(node, start)
        self._wanted("a query")
        return self.fail()

    def _row_of_values(self) -> exp.Expression:
        start = self.at
        value = self.expression()
        return value if isinstance(value, exp.Tuple) else self.mark(exp.Tuple(expressions=[value]), start)

    # -- ORDER BY, LIMIT -------------------------------------------------------------------------------------------

    def _ordered(self, node: exp.Expression) -> exp.Expression:
        """ORDER BY, LIMIT, OFFSET and FETCH after a query."""
        order = self.order_by() if self.next_are("ORDER", "BY") else None
        limit = offset = None
        limited = False
        start = self.at
        if self.take("LIMIT"):
            limited = True
            if not self.take("ALL"):
                limit = self._count(start, exp.Limit)
                if self.next_is(","):
                    self.fail("LIMIT start, count is not part of this dialect", "Write LIMIT count OFFSET start.")
        at = self.at
        if self.take("OFFSET"):
            offset = self._count(at, exp.Offset)
            self.take_one("ROW", "ROWS")
            if not limited and self.next_is("LIMIT"):
                self.fail("LIMIT after OFFSET", "Write LIMIT count OFFSET start.")
        at = self.at
        if not limited and self.take("FETCH"):
            self.need_one("FIRST", "NEXT")
            limit = self._count(at, exp.Limit)
            self.need_one("ROW", "ROWS")
            self.need("ONLY")
        if order is None and limit is None and offset is None:
            return node
        if any(node.args.get(key) is not None for key in ("order", "limit", "offset")):
            node = self._select_all(node)
        for key, value in (("order", order), ("limit", limit), ("offset", offset)):
            if value is not None:
                node.set(key, value)
        return node

    def _count(self, start: int, kind: type[exp.Expression]) -> exp.Expression:
        at = self.at
        if self.token.kind != "number":
            if self.token.key == "?":
                self.atom()
            self._wanted("a number")
            self.fail()
        number = self.atom()
        if not number.name.isdigit():
            self.refuse(at, f"{kind.__name__.upper()} takes a whole number.")
        return self.mark(kind(expression=number), start)

    def _select_all(self, node: exp.Expression) -> exp.Expression:
        """`SELECT * FROM (query)`: for clauses around a query that has them already."""
        span = locate(node)
        inner = exp.Subquery(this=node)
        outer = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner), joins=[])
        if span is not None:
            inner.meta[SPAN] = outer.meta[SPAN] = span
        return outer

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, start: int) -> exp.Expression:
        hints = self.table_hints()
        if self.token.key == "STREAM":
            self.refuse(self.at, "SELECT STREAM is not supported: every query is a stream.")
        at = self.at
        distinct = None
        if self.take_one("DISTINCT", "ALL") == "DISTINCT":
            distinct = self.mark(exp.Distinct(), at)
        items = self.comma_list(self._select_item)
        node = exp.Select(expressions=items, distinct=distinct, joins=[])
        if hints:
            node.set("hints", hints)
        if self.take("FROM"):
            first, joins = self.from_clause()
            node.set("from_", exp.From(this=first))
            node.set("joins", joins)
            self._clauses(node)
        return self.mark(node, start)

    def _clauses(self, node: exp.Expression) -> None:
        """WHERE, GROUP BY, HAVING, WINDOW, QUALIFY, in this order."""
        if self.take("WHERE"):
            node.set("where", exp.Where(this=self.expression()))
        start = self.at
        if self.take("GROUP"):
            self.need("BY")
            distinct = self.take_one("DISTINCT", "ALL") == "DISTINCT"
            items = self.comma_list(self._group_item)
            node.set("group", self.mark(exp.Group(expressions=items, distinct=distinct), start))
        if self.take("HAVING"):
            node.set("having", exp.Having(this=self.expression()))
        if self.take("WINDOW"):
            node.set("windows", self.comma_list(self._named_window))
        if self.take("QUALIFY"):
            node.set("qualify", exp.Qualify(this=self.expression()))

    def _select_item(self) -> exp.Expression:
        start = self.at
        if self.take("*"):
            return self.mark(exp.Star(), start)
        value = self.expression()
        if self.take("AS"):
            return self.mark(exp.Alias(this=value, alias=self.read_identifier()), start)
        if self.at_name():
            return self.mark(exp.Alias(this=value, alias=self.read_identifier()), start)
        if self.token.kind == "string":
            self._wanted("an identifier")
            self.fail("a string as a name", "Names are quoted by backticks.")
        return value

    def _group_item(self) -> exp.Expression:
        start = self.at
        if self.take("GROUPING", "SETS"):
            return self.mark(exp.GroupingSets(expressions=self.in_parens(self._group_item)), start)
        if self.take("ROLLUP"):
            return self.mark(exp.Rollup(expressions=self.in_parens(self.expression)), start)
        if self.take("CUBE"):
            return self.mark(exp.Cube(expressions=self.in_parens(self.expression)), start)
        if self.take("(", ")"):
            return self.mark(exp.Tuple(expressions=[]), start)
        return self.expression()

    def _named_window(self) -> exp.Expression:
        start = self.at
        name = self.read_identifier()
        self.need("AS")
        return self.mark(self.window_specification(name), start)
