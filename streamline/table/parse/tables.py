"""What stands after FROM: tables, joins, functions, hints, aliases."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot.expressions as exp

from streamline.table.parse.expressions import AFTER_QUERY
from streamline.table.parse.functions import QUERY
from streamline.table.parse.match import MatchParser

__all__ = ("Hint", "TableParser", "name_of", "path_of")


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint of `/*+ … */`: a name with `arguments` (`BROADCAST(t1, t2)`) or with `options`
    (`OPTIONS('key' = 'value')`); the name in upper case."""

    name: str
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


def path_of(table: exp.Expression) -> tuple[str, ...]:
    """The parts of a table's name, catalog first."""
    return tuple(table.args[key].name for key in ("catalog", "db", "this") if table.args.get(key) is not None)


def name_of(node: exp.Expression) -> tuple[str, ...] | None:
    """The parts of a name `a.b.c`, in order; None for what is no name. The last part of `t.*` is `*`."""
    fields: list[str] = []
    while isinstance(node, exp.Dot):
        fields.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    parts = [node.args[key] for key in ("catalog", "db", "table", "this") if node.args.get(key) is not None]
    return tuple("*" if isinstance(p, exp.Star) else p.name for p in parts) + tuple(reversed(fields))


_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")


class TableParser(MatchParser):
    """Reads the FROM clause."""

    def from_clause(self) -> tuple[exp.Expression, list[exp.Expression]]:
        """The tables after FROM: the first one, and the joins over it in order."""
        first = self._table()
        joins: list[exp.Expression] = []
        while True:
            start = self.at
            if self.take(","):
                joins.append(self.mark(exp.Join(this=self._table(), kind="CROSS"), start))
            else:
                join = self._join()
                if join is None:
                    return first, joins
                joins.append(join)

    def _join(self) -> exp.Expression | None:
        start = self.at
        if self.token.key not in _JOINS and self.token.key not in ("OUTER", "ASOF"):
            self._wanted("JOIN")
            return None
        natural = "NATURAL" if self.take("NATURAL") else None
        side = kind = None
        if self.token.key in ("CROSS", "OUTER") and self.ahead(1).key == "APPLY":
            self.fail("APPLY is not part of this dialect", "Write JOIN LATERAL TABLE(f(x)) ON TRUE.")
        if self.take("CROSS"):
            kind = "CROSS"
        elif self.take("INNER"):
            kind = "INNER"
        else:
            side = self.take_one("LEFT", "RIGHT", "FULL")
            if side:
                self.take("OUTER")
            kind = "OUTER" if side else "INNER"
        self.need("JOIN")
        node = exp.Join(this=self._table(), side=side, kind=kind, method=natural)
        if self.take("ON"):
            node.set("on", self.expression())
        elif self.take("USING"):
            node.set("using", self.in_parens(self.read_identifier))
        return self.mark(node, start)

    # -- one table -------------------------------------------------------------------------------------------------

    def _table(self) -> exp.Expression:
        self.deeper()
        start = self.at
        node = self._table_primary(start)
        if self.token.key == "MATCH_RECOGNIZE":
            node = self._alias(self.match_recognize(node, start), start)
        if self.token.key == "TABLESAMPLE":
            self.refuse(self.at, "TABLESAMPLE is not supported.")
        self.depth -= 1
        return node

    def _table_primary(self, start: int) -> exp.Expression:
        if self.token.key == "(":
            return self._bracketed(start)
        if self.take("LATERAL"):
            return self._lateral(start)
        if self.next_is("UNNEST"):
            return self._unnest(start)
        if self.take("TABLE"):
            return self._table_function(start, lateral=False)
        if not self.at_name():
            self._wanted("a table")
            self._wanted("an identifier")
            self.fail()
        parts = self._parts()
        if self.token.key == "(":
            call = self.call(tuple(p.name for p in parts), start)
            return self._alias(exp.Lateral(this=call, lateral=False), start)
        node = self.table_name(parts, start)
        hints = self.table_hints()
        if hints:
            node.set("hints", hints)
        self._refuse_table_clauses()
        if self.take("FOR"):
            self.need("SYSTEM_TIME", "AS", "OF")
            node.set("version", exp.Version(this="SYSTEM_TIME", kind="AS OF", expression=self.expression()))
        return self._alias(node, start)

    def _refuse_table_clauses(self) -> None:
        if self.token.key == "EXTEND":
            self.refuse(self.at, "EXTEND is not supported.")
        if self.token.key in ("PIVOT", "UNPIVOT"):
            self.refuse(self.at, f"{self.token.key} is not supported.")

    def _parts(self) -> list[exp.Expression]:
        parts: list[exp.Expression] = [self.read_identifier()]
        while self.take("."):
            parts.append(self.read_identifier())
        return parts

    def table_name(self, parts: list[exp.Expression], start: int) -> exp.Expression:
        """A Table of up to three parts."""
        if len(parts) > 3:
            self.refuse(start, f"A table is named by catalog, database and table; this name has {len(parts)} parts.")
        args = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        return self.mark(exp.Table(**args), start)

    def _bracketed(self, start: int) -> exp.Expression:
        """A sub-query or a join in brackets."""
        self.need("(")
        if self.token.key in ("SELECT", "WITH", "VALUES"):
            node = exp.Subquery(this=self.query())
            self.need(")")
            return self._derived(node, start)
        first, joins = self.from_clause()
        if self.token.key in AFTER_QUERY and not joins and self._plain_query(first):
            node = exp.Subquery(this=self.continue_query(first.this))
            self.need(")")
            return self._derived(node, start)
        self.need(")")
        if not joins:
            if self._plain_query(first):
                return self._derived(first, start)
            self.fail_at(start, "brackets around a single table", "Brackets hold a query or a join.")
        if self.at_name() or self.token.key == "AS":
            self.fail("a join in brackets takes no alias", "Write (SELECT … FROM … JOIN …) AS name.")
        # The joins inside bind before those outside.
        first.set("joins", [*(first.args.get("joins") or []), *joins])
        return first

    def _plain_query(self, node: exp.Expression) -> bool:
        return isinstance(node, exp.Subquery) and not node.args.get("alias") and not node.args.get("joins")

    def _derived(self, node: exp.Expression, start: int) -> exp.Expression:
        if self.next_is("FOR"):
            self.fail(
                "FOR SYSTEM_TIME after a query", "Make a view of the query, and write FOR SYSTEM_TIME after its name."
            )
        return self._alias(node, start)

    def _lateral(self, start: int) -> exp.Expression:
        if self.take("TABLE"):
            return self._table_function(start, lateral=True)
        if self.next_is("UNNEST"):
            return self._unnest(start)
        at = self.at
        self.need("(")
        query = self.mark(exp.Subquery(this=self.query()), at)
        self.need(")")
        return self._alias(exp.Lateral(this=query, lateral=True), start)

    def _table_function(self, start: int, lateral: bool) -> exp.Expression:
        """`(f(…))` after TABLE."""
        self.need("(")
        at = self.at
        special = self.token
        path = (self.advance().value,) if special.key in ("UNNEST",) else self.path()
        if self.token.key != "(":
            self._wanted("(")
            self.fail("", "TABLE( … ) takes a call of a function; a table is named without TABLE.")
        call = self.call(path, at)
        self.need(")")
        return self._alias(exp.Lateral(this=call, lateral=lateral), start)

    def _unnest(self, start: int) -> exp.Expression:
        self.need("UNNEST")
        items = self.in_parens(self.expression)
        offset = False
        if self.take("WITH"):
            self.need("ORDINALITY")
            offset = True
        return self._alias(exp.Unnest(expressions=items, offset=offset), start)

    def _alias(self, node: exp.Expression, start: int) -> exp.Expression:
        """`[AS] name [(columns)]` after a table that was read from the token of index `start` on."""
        at = self.at
        if self.take("AS") or self.at_name():
            name = self.read_identifier()
            columns = self.in_parens(self.read_identifier) if self.token.key == "(" else []
            node.set("alias", self.mark(exp.TableAlias(this=name, columns=columns), at))
        return self.mark(node, start)

    # -- tables as arguments ---------------------------------------------------------------------------------------

    def table_argument(self) -> exp.Expression | None:
        """`TABLE t [PARTITION BY …] [ORDER BY …]`, or `(SELECT …) PARTITION BY …`."""
        start = self.at
        node: exp.Expression
        if self.token.key == "TABLE":
            self.at += 1
            at = self.at
            node = self.table_name(self._parts(), at)
        elif self.token.key == "(" and self.ahead(1).key in QUERY:
            node = self.expression()
            if not (isinstance(node, exp.Subquery) and (self.next_is("PARTITION") or self.next_are("ORDER", "BY"))):
                return node
        else:
            return None
        partition: list[exp.Expression] = []
        if self.take("PARTITION"):
            self.need("BY")
            if self.token.key == "(":
                partition = self.in_parens(self.expression)
            else:
                partition = [self.expression()]
        order = None
        if self.next_are("ORDER", "BY"):
            order = self._argument_order()
        return self.mark(exp.TableFromRows(this=node, partition_by=partition, order=order), start)

    def _argument_order(self) -> exp.Expression:
        """ORDER BY of a table argument: one key, or several in brackets, as a comma ends the argument."""
        start = self.at
        self.need("ORDER", "BY")
        keys = self.in_parens(self.order_item) if self.token.key == "(" else [self.order_item()]
        return self.mark(exp.Order(expressions=keys), start)

    def order_item(self) -> exp.Expression:
        """`a DESC NULLS LAST`."""
        start = self.at
        key = self.expression()
        direction = self.take_one("ASC", "DESC")
        nulls_first: bool | None = None
        if self.take("NULLS"):
            nulls_first = self.need_one("FIRST", "LAST") == "FIRST"
        return self.mark(exp.Ordered(this=key, desc=direction == "DESC", nulls_first=nulls_first), start)

    def order_by(self) -> exp.Expression:
        start = self.at
        self.need("ORDER", "BY")
        return self.mark(exp.Order(expressions=self.comma_list(self.order_item)), start)

    # -- hints -----------------------------------------------------------------------------------------------------

    def table_hints(self) -> tuple[Hint, ...]:
        """`/*+ … */`, if it comes next."""
        if self.token.key != "/*+":
            return ()
        self.at += 1
        hints = self.comma_list(self._hint)
        self.need("*/")
        return tuple(hints)

    def _hint(self) -> Hint:
        name = self.name().upper()
        if not self.take("("):
            return Hint(name)
        if self.take(")"):
            return Hint(name)
        if self.ahead(1).key == "=":
            options = self.comma_list(self._hint_option)
            self.need(")")
            return Hint(name, options=tuple(options))
        arguments = self.comma_list(self._hint_argument)
        self.need(")")
        return Hint(name, arguments=tuple(arguments))

    def _hint_option(self) -> tuple[str, str]:
        key = self.take_string() or ".".join(self.path())
        self.need("=")
        return key, self.string()

    def _hint_argument(self) -> str:
        if self.token.kind in ("string", "number"):
            return self.advance().value
        return ".".join(self.path())
