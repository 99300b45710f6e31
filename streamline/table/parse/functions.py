"""Calls: arguments, what may follow a call, and the functions that have a syntax of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import sqlglot.expressions as exp

from streamline._core.types import DataType
from streamline.table.parse.types import TypeParser

__all__ = ("QUERY", "TYPE", "FunctionParser", "cast_type")

#: Key in the meta of a Cast under which its type stands.
TYPE: Final = "type"

#: Words that begin a query.
QUERY: Final = ("SELECT", "WITH", "VALUES", "TABLE")

_TRIM_SIDES = ("BOTH", "LEADING", "TRAILING")


def cast_type(node: exp.Expression) -> DataType:
    """The target type of a Cast or TryCast."""
    found = node.meta[TYPE]
    assert isinstance(found, DataType)
    return found


class FunctionParser(TypeParser):
    """Reads function calls."""

    @abstractmethod
    def expression(self, power: int = 0) -> exp.Expression:
        """An expression whose operators bind at least as tightly as `power`."""

    @abstractmethod
    def atom(self) -> exp.Expression:
        """An operand without operators, subscripts or field access."""

    @abstractmethod
    def query(self) -> exp.Expression:
        """A query with all its clauses."""

    @abstractmethod
    def continue_query(self, first: exp.Expression) -> exp.Expression:
        """What follows a query in brackets that turns out to be the first of several, or to have an ORDER BY."""

    @abstractmethod
    def order_by(self) -> exp.Expression:
        """`ORDER BY …`, the words not yet read."""

    @abstractmethod
    def table_argument(self) -> exp.Expression | None:
        """`TABLE t PARTITION BY …` where a table is passed to a function; None if none comes next."""

    # -- ordinary calls --------------------------------------------------------------------------------------------

    def call(self, path: tuple[str, ...], start: int) -> exp.Expression:
        """The rest of a call, from the opening bracket on."""
        self.need("(")
        arguments = self._arguments()
        order = None
        nulls: type[exp.Expression] | None = None
        if arguments and self.take("IGNORE", "NULLS"):
            nulls = exp.IgnoreNulls
        elif arguments and self.take("RESPECT", "NULLS"):
            nulls = exp.RespectNulls
        if arguments and self.next_are("ORDER", "BY"):
            if path[-1].upper() != "ARRAY_AGG":
                self.fail("ORDER BY inside the brackets of a call", "Write f(x) WITHIN GROUP (ORDER BY y).")
            order = self.order_by()
        self.need(")")
        if path[-1].upper() == "DESCRIPTOR":
            # Names of columns, not their values.
            arguments = [a.this if isinstance(a, exp.Column) and len(a.parts) == 1 else a for a in arguments]
        node = self.function(path[-1], arguments, start)
        if len(path) > 1:
            node.set("path", path[:-1])
        if nulls is not None:
            node = self.mark(nulls(this=node), start)
        if order is not None:
            node = self.mark(exp.WithinGroup(this=node, expression=order), start)
        return self.after_call(node, start)

    def function(self, name: str, arguments: list[exp.Expression], start: int) -> exp.Expression:
        return self.mark(exp.Anonymous(this=name, expressions=arguments), start)

    def _arguments(self) -> list[exp.Expression]:
        """What stands between the brackets of an ordinary call."""
        if self.token.key == ")":
            return []
        start = self.at
        if self.token.key == "*" and self.ahead(1).key == ")":
            self.at += 1
            return [self.mark(exp.Star(), start)]
        distinct = self.take_one("DISTINCT", "ALL") == "DISTINCT"
        found = [self._argument()]
        while self.take(","):
            found.append(self._argument())
        return [self.mark(exp.Distinct(expressions=found), start)] if distinct else found

    def _argument(self) -> exp.Expression:
        start = self.at
        name = None
        if self.at_name() and self.ahead(1).key == "=>":
            name = self.read_identifier()
            self.need("=>")
        at = self.at
        value: exp.Expression
        if self.token.key == "DEFAULT":
            self.at += 1
            value = self.var("DEFAULT", at)
        elif self.token.key in QUERY and self.token.key != "TABLE":
            value = self.mark(exp.Subquery(this=self.query()), at)
        else:
            value = self.table_argument() or self.expression()
        return value if name is None else self.mark(exp.Kwarg(this=name, expression=value), start)

    def var(self, word: str, start: int) -> exp.Expression:
        return self.mark(exp.Var(this=word), start)

    # -- after a call ----------------------------------------------------------------------------------------------

    def after_call(self, node: exp.Expression, start: int) -> exp.Expression:
        """IGNORE NULLS, WITHIN GROUP, FILTER, OVER."""
        if self.token.kind != "word":
            return node
        if self.take("IGNORE", "NULLS"):
            node = self.mark(exp.IgnoreNulls(this=node), start)
        elif self.take("RESPECT", "NULLS"):
            node = self.mark(exp.RespectNulls(this=node), start)
        if self.next_are("WITHIN", "DISTINCT"):
            self.refuse(self.at, "WITHIN DISTINCT is not supported.")
        if self.take("WITHIN", "GROUP"):
            self.need("(")
            order = self.order_by()
            self.need(")")
            node = self.mark(exp.WithinGroup(this=node, expression=order), start)
        if self.take("FILTER"):
            self.need("(", "WHERE")
            condition = exp.Where(this=self.expression())
            self.need(")")
            node = self.mark(exp.Filter(this=node, expression=condition), start)
        if self.take("OVER"):
            node = self._over(node, start)
        return node

    def _over(self, node: exp.Expression, start: int) -> exp.Expression:
        if self.at_name():
            return self.mark(exp.Window(this=node, partition_by=[], alias=self.read_identifier()), start)
        return self.mark(self.window_specification(node), start)

    def window_specification(self, this: exp.Expression) -> exp.Expression:
        """`([name] [PARTITION BY …] [ORDER BY …] [frame])` as a Window over `this`."""
        self.need("(")
        base = None
        if self.at_name():
            base = self.read_identifier()
        partition = []
        if self.take("PARTITION"):
            self.need("BY")
            partition = self.comma_list(self.expression)
        order = self.order_by() if self.next_are("ORDER", "BY") else None
        spec = self._frame()
        self.need(")")
        return exp.Window(this=this, partition_by=partition, order=order, spec=spec, alias=base)

    def _frame(self) -> exp.Expression | None:
        start = self.at
        kind = self.take_one("ROWS", "RANGE")
        if kind is None:
            return None
        if self.take("BETWEEN"):
            low, low_side = self._bound()
            self.need("AND")
            high, high_side = self._bound()
        else:
            low, low_side = self._bound()
            high, high_side = "CURRENT ROW", None
        partial: bool | None = None
        if self.take("DISALLOW"):
            self.need("PARTIAL")
            partial = False
        elif self.take("ALLOW"):
            self.need("PARTIAL")
        spec = exp.WindowSpec(
            kind=kind, start=low, start_side=low_side, end=high, end_side=high_side, allow_partial=partial
        )
        return self.mark(spec, start)

    def _bound(self) -> tuple[str | exp.Expression, str | None]:
        if self.take("CURRENT", "ROW"):
            return "CURRENT ROW", None
        bound: str | exp.Expression = "UNBOUNDED" if self.take("UNBOUNDED") else self.expression()
        return bound, self.need_one("PRECEDING", "FOLLOWING")

    # -- functions with a syntax of their own ----------------------------------------------------------------------

    def special(self, key: str) -> exp.Expression | None:
        """A call of a function with its own syntax, if `key` and the bracket that comes next begin one."""
        reader = _SPECIAL.get(key)
        if reader is None or self.ahead(1).key != "(":
            return None
        start = self.at
        self.at += 2
        return reader(self, key, start)

    def _close(self, name: str, arguments: list[exp.Expression], start: int) -> exp.Expression:
        self.need(")")
        return self.function(name, arguments, start)

    def _unknown(self, key: str, start: int) -> exp.Expression:
        """Flink's grammar knows these, its catalog of functions does not."""
        self.at = start + 1
        self.refuse(start, f"No match found for function signature {key}.")

    def _cast(self, key: str, start: int) -> exp.Expression:
        value = self.expression()
        self.need("AS")
        target = self.data_type(top=False)
        self.need(")")
        return self.cast(exp.Cast if key == "CAST" else exp.TryCast, value, target, start)

    def cast(self, kind: type[exp.Expression], value: exp.Expression, target: DataType, start: int) -> exp.Expression:
        # sqlglot's own DataType cannot say all of ours, so it only carries the text.
        written = exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=str(target))
        node = self.mark(kind(this=value, to=written), start)
        node.meta[TYPE] = target
        return node

    def _extract(self, key: str, start: int) -> exp.Expression:
        unit = self._unit()
        self.need("FROM")
        return self._close(key, [unit, self.expression()], start)

    def _unit(self) -> exp.Expression:
        """A time unit: any word, which binding checks."""
        start = self.at
        if self.token.kind not in ("word", "quoted"):
            self._wanted("a time unit")
            self.fail()
        word = self.advance().value.upper()
        return self.var(word.removeprefix("SQL_TSI_"), start)

    def _rounding(self, key: str, start: int) -> exp.Expression:
        value = self.expression()
        name = "FLOOR" if key == "FLOOR" else "CEIL"
        if self.take("TO"):
            return self._close(name, [value, self._unit()], start)
        return self.after_call(self._close(name, [value], start), start)

    def _timestamp_add(self, key: str, start: int) -> exp.Expression:
        unit = self._unit()
        self.need(",")
        first = self.expression()
        self.need(",")
        return self._close(key, [unit, first, self.expression()], start)

    def _trim(self, key: str, start: int) -> exp.Expression:
        at = self.at
        side = self.take_one(*_TRIM_SIDES)
        flag = self.var(side or "BOTH", at)
        blank = exp.Literal(this=" ", is_string=True)
        if side is not None and self.take("FROM"):
            return self._close(key, [flag, blank, self.expression()], start)
        if self.next_are("FROM"):
            self.fail("FROM without anything before it")
        first = self.expression()
        if self.take("FROM"):
            return self._close(key, [flag, first, self.expression()], start)
        return self._close(key, [flag, blank, first], start)

    def _position(self, key: str, start: int) -> exp.Expression:
        found = [self.atom()]  # IN would be taken for the operator
        self.need("IN")
        found.append(self.expression())
        if self.take("FROM"):
            found.append(self.expression())
        return self._close(key, found, start)

    def _substring(self, key: str, start: int) -> exp.Expression:
        found = [self.expression()]
        if self.need_one("FROM", ",") == "FROM":
            found.append(self.expression())
            if self.take("FOR"):
                found.append(self.expression())
        else:
            found.append(self.expression())
            if self.take(","):
                found.append(self.expression())
        return self._close(key, found, start)

    def _overlay(self, key: str, start: int) -> exp.Expression:
        found = [self.expression()]
        self.need("PLACING")
        found.append(self.expression())
        self.need("FROM")
        found.append(self.expression())
        if self.take("FOR"):
            found.append(self.expression())
        return self._close(key, found, start)

    def _translate(self, key: str, start: int) -> exp.Expression:
        found = [self.expression()]
        if self.next_are("USING"):
            self.refuse(self.at, "TRANSLATE with USING is not supported; TRANSLATE(text, from, to) is.")
        while self.take(","):
            found.append(self.expression())
        return self._close(key, found, start)

    # -- JSON ------------------------------------------------------------------------------------------------------

    def _json_path_call(self, key: str, start: int) -> exp.Expression:
        """JSON_EXISTS, JSON_VALUE, JSON_QUERY."""
        found = [self._json_value()]
        self.need(",")
        found.append(self.expression())
        if self.take("PASSING"):
            self.refuse(self.at - 1, "PASSING is not supported.")
        if key != "JSON_EXISTS":
            at = self.at
            if self.take("RETURNING"):
                target = self.data_type(top=False)
                typed = self.cast(exp.Cast, self.mark(exp.Null(), at), target, at)
                found.append(self._option("RETURNING", typed, at))
        if key == "JSON_QUERY":
            found.extend(self._json_wrapper())
        found.extend(self._json_behaviours(key))
        return self._close(key, found, start)

    def _option(self, name: str, value: exp.Expression, start: int) -> exp.Expression:
        return self.mark(exp.Kwarg(this=self.var(name, start), expression=value), start)

    def _json_value(self) -> exp.Expression:
        start = self.at
        value = self.expression()
        if self.take("FORMAT"):
            self.need("JSON")
            value = self.mark(exp.FormatJson(this=value), start)
        return value

    def _json_wrapper(self) -> list[exp.Expression]:
        at = self.at
        if self.take("WITHOUT"):
            kind = "WITHOUT"
            self.take("ARRAY")
        elif self.take("WITH"):
            kind = self.take_one("CONDITIONAL", "UNCONDITIONAL") or "UNCONDITIONAL"
            self.take("ARRAY")
        else:
            return []
        flag = self.var(kind, at)
        self.need("WRAPPER")
        return [self._option("WRAPPER", flag, at)]

    def _json_behaviours(self, key: str) -> list[exp.Expression]:
        """`… ON EMPTY`, `… ON ERROR`, each at most once."""
        found: list[exp.Expression] = []
        said: set[str] = set()
        allowed = _JSON_BEHAVIOURS[key]
        while self.token.key != ")":
            at = self.at
            value: exp.Expression
            if key == "JSON_VALUE" and self.take("DEFAULT"):
                value = self._option("DEFAULT", self.expression(), at)
            elif "EMPTY ARRAY" in allowed and self.take("EMPTY"):
                kind = self.need_one("ARRAY", "OBJECT")
                value = self.var(f"EMPTY {kind}", at)
            else:
                word = self.take_one(*(w for w in allowed if " " not in w)) or self._unfinished()
                value = self.var(word, at)
            self.need("ON")
            name = "ON " + (self.need_one("ERROR") if key == "JSON_EXISTS" else self.need_one("EMPTY", "ERROR"))
            if name in said:
                self.fail_at(at, f"{name} is said twice")
            said.add(name)
            found.append(self._option(name, value, at))
        return found

    def _unfinished(self) -> str:
        self._wanted(")")
        self.fail()

    def _json_object(self, key: str, start: int) -> exp.Expression:
        """JSON_OBJECT and JSON_OBJECTAGG."""
        found: list[exp.Expression] = []
        if key == "JSON_OBJECTAGG":
            found.append(self._json_pair())
        elif not (self.next_is(")") or self._at_null_clause()):
            found.extend(self.comma_list(self._json_pair))
        found.extend(self._null_clause())
        return self._close(key, found, start)

    def _json_pair(self) -> exp.Expression:
        start = self.at
        if self.token.key == "KEY" and self.ahead(1).key not in ("VALUE", ",", ":"):
            self.at += 1
        name = self.expression()
        if not self.take(":"):
            self.need("VALUE")
        return self.mark(exp.JSONKeyValue(this=name, expression=self._json_value()), start)

    def _json_array(self, key: str, start: int) -> exp.Expression:
        """JSON_ARRAY and JSON_ARRAYAGG."""
        found: list[exp.Expression] = []
        if key == "JSON_ARRAYAGG":
            found.append(self._json_value())
            if self.next_are("ORDER", "BY"):
                self.refuse(self.at, "ORDER BY in JSON_ARRAYAGG is not supported.")
        elif self.token.key != ")":
            found.extend(self.comma_list(self._json_value))
        found.extend(self._null_clause())
        return self._close(key, found, start)

    def _at_null_clause(self) -> bool:
        return self.next_are("NULL", "ON", "NULL") or self.next_are("ABSENT", "ON", "NULL")

    def _null_clause(self) -> list[exp.Expression]:
        if not self._at_null_clause():
            return []
        at = self.at
        flag = self.var(self.advance().key, at)
        self.need("ON", "NULL")
        return [self._option("ON NULL", flag, at)]


_JSON_BEHAVIOURS: Final[Mapping[str, tuple[str, ...]]] = {
    "JSON_EXISTS": ("TRUE", "FALSE", "UNKNOWN", "ERROR"),
    "JSON_VALUE": ("NULL", "ERROR"),
    "JSON_QUERY": ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"),
}

_SPECIAL: Final[Mapping[str, Callable[[FunctionParser, str, int], exp.Expression]]] = {
    "CAST": FunctionParser._cast,
    "TRY_CAST": FunctionParser._cast,
    "SAFE_CAST": FunctionParser._unknown,
    "CONVERT": FunctionParser._unknown,
    "CONTAINS_SUBSTR": FunctionParser._unknown,
    "DATE_TRUNC": FunctionParser._unknown,
    "TIME_TRUNC": FunctionParser._unknown,
    "DATETIME_TRUNC": FunctionParser._unknown,
    "TIMESTAMP_TRUNC": FunctionParser._unknown,
    "DATE_DIFF": FunctionParser._unknown,
    "TIME_DIFF": FunctionParser._unknown,
    "DATETIME_DIFF": FunctionParser._unknown,
    "TIMESTAMP_DIFF": FunctionParser._unknown,
    "EXTRACT": FunctionParser._extract,
    "FLOOR": FunctionParser._rounding,
    "CEIL": FunctionParser._rounding,
    "CEILING": FunctionParser._rounding,
    "TIMESTAMPADD": FunctionParser._timestamp_add,
    "TIMESTAMPDIFF": FunctionParser._timestamp_add,
    "TRIM": FunctionParser._trim,
    "POSITION": FunctionParser._position,
    "SUBSTRING": FunctionParser._substring,
    "OVERLAY": FunctionParser._overlay,
    "TRANSLATE": FunctionParser._translate,
    "JSON_EXISTS": FunctionParser._json_path_call,
    "JSON_VALUE": FunctionParser._json_path_call,
    "JSON_QUERY": FunctionParser._json_path_call,
    "JSON_OBJECT": FunctionParser._json_object,
    "JSON_OBJECTAGG": FunctionParser._json_object,
    "JSON_ARRAY": FunctionParser._json_array,
    "JSON_ARRAYAGG": FunctionParser._json_array,
}
