"""Scalar expressions: operators by precedence, and what stands between them.

Powers, from loose to tight, are Flink's:

| power | operators |
|---|---|
| 22 | OR |
| 24 | AND |
| 26 | NOT |
| 28 | IS NULL and its kin, after their operand |
| 30 | = <> < <= > >=, IS [NOT] DISTINCT FROM, OVERLAPS |
| 32 | BETWEEN, IN, LIKE, SIMILAR TO, = ANY |
| 40 | + - |
| 60 | * / % and the concatenation of texts |
| 80 | + - before their operand |
| 100 | [ ] and . |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import sqlglot.expressions as exp

from streamline._core import types
from streamline.table.parse.functions import QUERY, FunctionParser
from streamline.table.parse.intervals import UNITS
from streamline.table.parse.keywords import CALLABLE, CONTEXT, RESERVED
from streamline.table.parse.lexer import Token
from streamline.table.parse.source import SPAN, Span, locate

__all__ = ("AFTER_QUERY", "ExpressionParser", "balanced")

_BINARY: Final[dict[str, tuple[int, type[exp.Expression]]]] = {
    "OR": (22, exp.Or),
    "AND": (24, exp.And),
    "=": (30, exp.EQ),
    "<>": (30, exp.NEQ),
    "<": (30, exp.LT),
    "<=": (30, exp.LTE),
    ">": (30, exp.GT),
    ">=": (30, exp.GTE),
    "OVERLAPS": (30, exp.Overlaps),
    "+": (40, exp.Add),
    "-": (40, exp.Sub),
    "*": (60, exp.Mul),
    "/": (60, exp.Div),
    "%": (60, exp.Mod),
    "||": (60, exp.DPipe),
}
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
#: Associative ones: a chain is one balanced tree, so that long ones stay shallow.
_BALANCED: Final = ("OR", "AND", "||")
_NOT: Final = 26
_IS: Final = 28
_COMPARISON: Final = 30
_RANGE: Final = 32
_UNARY: Final = 80

#: Operators that Flink's grammar knows and its validator or planner refuses.
_UNSUPPORTED: Final = {
    "ILIKE": "No match found for function signature ILIKE; use LOWER(a) LIKE pattern.",
    "RLIKE": "No match found for function signature RLIKE; use REGEXP(text, pattern).",
    "MEMBER": "MEMBER OF is not supported; use ARRAY_CONTAINS.",
    "SUBMULTISET": "SUBMULTISET OF is not supported.",
    "CONTAINS": "The period predicate CONTAINS is not supported.",
    "EQUALS": "The period predicate EQUALS is not supported.",
    "PRECEDES": "The period predicate PRECEDES is not supported.",
    "SUCCEEDS": "The period predicate SUCCEEDS is not supported.",
    "IMMEDIATELY": "The period predicates IMMEDIATELY PRECEDES and SUCCEEDS are not supported.",
    "MULTISET": "MULTISET UNION, INTERSECT and EXCEPT are not supported.",
}

_SET_OPERATORS: Final = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
#: Words that go on with a query after one in brackets.
AFTER_QUERY: Final = (*_SET_OPERATORS, "ORDER", "LIMIT", "OFFSET", "FETCH")


def balanced(
    kind: Callable[[exp.Expression, exp.Expression], exp.Expression], parts: list[exp.Expression]
) -> exp.Expression:
    """The parts, in order, joined by a binary node into a tree as shallow as can be."""
    while len(parts) > 1:
        pairs = [kind(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


class ExpressionParser(FunctionParser):
    """Reads scalar expressions."""

    def expression(self, power: int = 0) -> exp.Expression:
        self.deeper()
        left = self._operand()
        while True:
            token = self.token
            key = token.key
            found = _BINARY.get(key)
            if found is not None:
                binds, kind = found
                if key in _COMPARISONS and self.ahead(1).key in ("SOME", "ANY", "ALL") and self.ahead(2).key == "(":
                    binds = _RANGE
                if binds < power:
                    break
                self.at += 1
                if key in _BALANCED:
                    parts = [left, self.expression(binds + 1)]
                    while self.token.key == key:
                        self.at += 1
                        parts.append(self.expression(binds + 1))
                    left = balanced(lambda a, b: self._binary(kind, a, b), parts)  # noqa: B023
                elif binds == _RANGE:
                    left = self._binary(kind, left, self._quantified())
                else:
                    left = self._binary(kind, left, self.expression(binds + 1))
                continue
            if token.kind != "word":
                if key == "!=":
                    self.fail("the operator != is not part of this dialect", "Not equal is written <>.")
                break
            if key == "IS":
                distinct = self.ahead(2 if self.ahead(1).key == "NOT" else 1).key == "DISTINCT"
                if (_COMPARISON if distinct else _IS) < power:
                    break
                left = self._is(left)
            elif key == "NOT" or key in ("BETWEEN", "IN", "LIKE", "SIMILAR", "ILIKE", "RLIKE"):
                if key == "NOT" and self.ahead(1).key not in ("BETWEEN", "IN", "LIKE", "SIMILAR", "ILIKE", "RLIKE"):
                    break
                if power > _RANGE:
                    break
                left = self._range(left)
            elif key in _UNSUPPORTED and self._unsupported_operator(key):
                self.at += 1
                self.refuse(self.at - 1, _UNSUPPORTED[key])
            else:
                break
        self.depth -= 1
        return left

    def _unsupported_operator(self, key: str) -> bool:
        """Whether the word stands here as an operator: some of them are names elsewhere."""
        follows = self.ahead(1)
        if key == "MULTISET":
            return follows.key in _SET_OPERATORS
        if key == "IMMEDIATELY":
            return follows.key in ("PRECEDES", "SUCCEEDS")
        if key in ("MEMBER", "SUBMULTISET"):
            return True
        return follows.kind != "end" and follows.key not in (")", ",")

    def _binary(self, kind: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> exp.Expression:
        node = kind(this=left, expression=right)
        first, last = locate(left), locate(right)
        if first is not None and last is not None:
            node.meta[SPAN] = Span(self.source, first.start, last.end)
        return node

    # -- operators that are more than a sign -----------------------------------------------------------------------

    def _negated(self, node: exp.Expression, negate: bool, left: exp.Expression) -> exp.Expression:
        self._from(node, left)
        return self._from(exp.Not(this=node), left) if negate else node

    def _from(self, node: exp.Expression, left: exp.Expression) -> exp.Expression:
        """Note that a node reaches from its left operand to the token last read."""
        first = locate(left)
        start = first.start if first is not None else self.tokens[self.at - 1].start
        node.meta[SPAN] = Span(self.source, start, self.tokens[self.at - 1].end)
        return node

    def _is(self, left: exp.Expression) -> exp.Expression:
        self.need("IS")
        negate = self.take("NOT")
        if self.take("DISTINCT"):
            self.need("FROM")
            kind = exp.NullSafeEQ if negate else exp.NullSafeNEQ
            return self._binary(kind, left, self.expression(_COMPARISON + 1))
        start = self.at
        word = self.need_one("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON", "A", "EMPTY")
        right: exp.Expression
        match word:
            case "NULL":
                right = exp.Null()
            case "TRUE" | "FALSE":
                right = exp.Boolean(this=word == "TRUE")
            case "UNKNOWN":
                right = exp.Var(this="UNKNOWN")
            case "JSON":
                right = exp.JSON(this=self.take_one("VALUE", "OBJECT", "ARRAY", "SCALAR") or "VALUE")
            case _:
                if word == "A":
                    self.need("SET")
                self.refuse(start, "IS A SET and IS EMPTY are not supported.")
        self.mark(right, start)
        return self._negated(exp.Is(this=left, expression=right), negate, left)

    def _range(self, left: exp.Expression) -> exp.Expression:
        """BETWEEN, IN, LIKE, SIMILAR TO, with NOT before it or not."""
        start = self.at
        negate = self.take("NOT")
        word = self.advance().key
        match word:
            case "BETWEEN":
                symmetric = self.take_one("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
                # AND between the bounds is part of BETWEEN; binding looser than it, only OR could follow, which a
                # bound does not hold without brackets.
                low = self.expression(_NOT)
                self.need("AND")
                high = self.expression(_RANGE + 1)
                return self._negated(exp.Between(this=left, low=low, high=high, symmetric=symmetric), negate, left)
            case "IN":
                return self._negated(self._in(left), negate, left)
            case "LIKE" | "SIMILAR":
                if word == "SIMILAR":
                    self.need("TO")
                kind = exp.Like if word == "LIKE" else exp.SimilarTo
                node = self._binary(kind, left, self.expression(_RANGE))  # to the right
                if self.take("ESCAPE"):
                    node = self._from(exp.Escape(this=node, expression=self.expression(_RANGE + 1)), left)
                return self._negated(node, negate, left)
            case _:
                self.refuse(start, _UNSUPPORTED[word])

    def _in(self, left: exp.Expression) -> exp.Expression:
        start = self.at
        inside = self._query_or_list()
        if isinstance(inside, exp.Subquery):
            return exp.In(this=left, query=inside.this)
        if not inside:
            self.fail_at(start, "IN without values")
        return exp.In(this=left, expressions=inside)

    def _quantified(self) -> exp.Expression:
        """`ANY (…)` after a comparison."""
        start = self.at
        word = self.advance().key
        inside = self._query_or_list()
        operand = inside if isinstance(inside, exp.Subquery) else self.mark(exp.Tuple(expressions=inside), start + 1)
        kind = exp.All if word == "ALL" else exp.Any
        return self.mark(kind(this=operand), start)

    def _query_or_list(self) -> exp.Subquery | list[exp.Expression]:
        """`(SELECT …)` or `(a, b)` where both are possible."""
        start = self.at
        self.need("(")
        if self.token.key in QUERY:
            query = self.query()
            self.need(")")
            return self.mark(exp.Subquery(this=query), start)
        first = self.expression()
        if isinstance(first, exp.Subquery) and self.token.key in AFTER_QUERY:
            query = self.continue_query(first.this)
            self.need(")")
            return self.mark(exp.Subquery(this=query), start)
        items = [first]
        while self.take(","):
            items.append(self.expression())
        self.need(")")
        return items[0] if len(items) == 1 and isinstance(items[0], exp.Subquery) else items

    # -- operands --------------------------------------------------------------------------------------------------

    def _operand(self) -> exp.Expression:
        """An atom with the operators before it and the subscripts after it."""
        start = self.at
        key = self.token.key
        if key == "NOT":
            self.at += 1
            return self.mark(exp.Not(this=self.expression(_NOT)), start)
        if key == "-" or key == "+":
            self.at += 1
            operand = self.expression(_UNARY)
            return self.mark((exp.Neg if key == "-" else exp.Paren)(this=operand), start)
        node = self.atom()
        while True:
            if self.token.key == "[":
                self.at += 1
                index = self.expression()
                self.need("]")
                node = self.mark(exp.Bracket(this=node, expressions=[index]), start)
            elif self.token.key == ".":
                self.at += 1
                node = self._field_or_method(node, start)
            else:
                return node

    def _field_or_method(self, node: exp.Expression, start: int) -> exp.Expression:
        at = self.at
        if self.take("*"):
            self.refuse(start, "All fields of an expression cannot be selected by .*; name them.")
        name = self.name()
        if self.next_is("("):
            self.refuse(at, "Functions of a value, written after a point, are not supported.")
        return self.mark(exp.Dot(this=node, expression=self.identifier(name, at)), start)

    def atom(self) -> exp.Expression:
        token = self.token
        start = self.at
        match token.kind:
            case "number":
                self.at += 1
                return self.mark(exp.Literal(this=token.value, is_string=False), start)
            case "string":
                return self._text(start)
            case "binary":
                self.at += 1
                if len(token.value) % 2:
                    self.refuse(start, "Binary literal string must contain an even number of hexits.")
                return self.mark(exp.HexString(this=token.value), start)
            case "quoted":
                return self._name(start)
            case "word":
                return self._word(token, start)
        if token.key == "(":
            return self._brackets()
        if token.key == "?":
            self.at += 1
            self.refuse(start, "Parameters (?) are not supported; put the value into the text.")
        return self._no_expression()

    def _no_expression(self) -> NoReturn:
        self._wanted("an expression")
        if self.token.kind == "word" and self.token.key in RESERVED:
            self._wanted("an identifier")
        self.fail()

    def _text(self, start: int) -> exp.Expression:
        value = self.advance().value
        while self.token.kind == "string":
            between = self.source.text[self.tokens[self.at - 1].end : self.token.start]
            if "\n" not in between:
                self.fail("a string right after another", "Texts are joined by ||.")
            value += self.advance().value
        return self.mark(exp.Literal(this=value, is_string=True), start)

    def _word(self, token: Token, start: int) -> exp.Expression:
        key = token.key
        special = self.special(key)
        if special is not None:
            return special
        match key:
            case "NULL":
                self.at += 1
                return self.mark(exp.Null(), start)
            case "TRUE" | "FALSE":
                self.at += 1
                return self.mark(exp.Boolean(this=key == "TRUE"), start)
            case "UNKNOWN":
                self.at += 1
                return self.cast(exp.Cast, self.mark(exp.Null(), start), types.BOOLEAN, start)
            case "CASE":
                return self._case()
            case "INTERVAL":
                return self._interval()
            case "DATE" | "TIME" | "TIMESTAMP" if self.ahead(1).kind == "string":
                self.at += 2
                text = self.mark(exp.Literal(this=self.tokens[start + 1].value, is_string=True), start + 1)
                kind = {"DATE": exp.Date, "TIME": exp.Time, "TIMESTAMP": exp.Timestamp}[key]
                return self.mark(kind(this=text), start)
            case "TIMESTAMP" | "TIME" | "DATETIME" if self.ahead(1).key == "WITH" or self.ahead(1).kind == "string":
                self.refuse(
                    start, f"A literal of {key} of this kind is not supported; write CAST('…' AS TIMESTAMP_LTZ(3))."
                )
            case "ROW" if self.ahead(1).key == "(":
                self.at += 1
                return self.mark(exp.Tuple(expressions=self.in_parens(self.expression)), start)
            case "PERIOD" if self.ahead(1).key == "(":
                self.at += 1
                return self.mark(exp.Tuple(expressions=self.in_parens(self.expression)), start)
            case "ARRAY" | "MAP" | "MULTISET" if self.ahead(1).key in ("[", "("):
                return self._collection(key)
            case "EXISTS" | "UNIQUE" if self.ahead(1).key == "(":
                return self._exists(key)
            case "RUNNING" | "FINAL" if key == "RUNNING" or self._call_ahead(1):
                self.at += 1
                return self.mark(exp.Anonymous(this=key, expressions=[self.atom()]), start)
            case "NEXT" if self.ahead(1).key == "VALUE":
                self.refuse(start, "NEXT VALUE FOR is not supported: there are no sequences.")
            case "CURSOR" | "NEW" if self.ahead(1).kind == "word" or self.ahead(1).key == "(":
                self.refuse(start, f"{key} is not supported.")
        if key not in RESERVED:
            return self._name(start)
        if key in CALLABLE and self.ahead(1).key == "(":
            self.at += 1
            return self.call((token.value,), start)
        if key in CONTEXT:
            self.at += 1
            return self.function(key, [], start)
        return self._no_expression()

    def _call_ahead(self, distance: int) -> bool:
        return self.ahead(distance).kind == "word" and self.ahead(distance + 1).key == "("

    def _name(self, start: int) -> exp.Expression:
        """A column, or a call of a function with a name that is not reserved."""
        parts = [self.read_identifier()]
        while self.token.key == ".":
            self.at += 1
            if self.token.key == "*":
                star = self.at
                self.at += 1
                return self._column([*parts, self.mark(exp.Star(), star)], start)
            parts.append(self.read_identifier())
        if self.token.key == "(":
            return self.call(tuple(p.name for p in parts), start)
        return self._column(parts, start)

    def _column(self, parts: list[exp.Expression], start: int) -> exp.Expression:
        """A column of up to four parts; further ones are fields of it."""
        head, fields = parts[:4], parts[4:]
        args = dict(zip(("this", "table", "db", "catalog"), reversed(head), strict=False))
        node: exp.Expression = self.mark(exp.Column(**args), start)
        for field in fields:
            node = self._binary(exp.Dot, node, field)
        return node

    def _brackets(self) -> exp.Expression:
        """`(a)`, `(a, b)`, `(SELECT …)`."""
        start = self.at
        inside = self._query_or_list()
        if isinstance(inside, exp.Subquery):
            return inside
        if len(inside) == 1:
            if isinstance(inside[0], exp.Sub) and self.token.key in UNITS:
                name = "$MONTHS_BETWEEN" if self.qualifier().year_month else "$MILLIS_BETWEEN"
                return self.function(name, [inside[0].this, inside[0].expression], start)
            return self.mark(inside[0], start)
        return self.mark(exp.Tuple(expressions=inside), start)

    def _case(self) -> exp.Expression:
        start = self.at
        self.need("CASE")
        operand = None if self.next_is("WHEN") else self.expression()
        branches: list[exp.Expression] = []
        while not branches or self.token.key == "WHEN":
            at = self.at
            self.need("WHEN")
            conditions = self.comma_list(self.expression)
            if len(conditions) > 1 and operand is None:
                self.fail_at(
                    at, "several conditions in one WHEN", "Only CASE x WHEN 1, 2 THEN … takes several; use OR."
                )
            condition = conditions[0]
            if len(conditions) > 1:
                condition = self.mark(exp.Tuple(expressions=conditions), at + 1)
            self.need("THEN")
            branches.append(self.mark(exp.If(this=condition, true=self.expression()), at))
        default = self.expression() if self.take("ELSE") else None
        self.need("END")
        return self.mark(exp.Case(this=operand, ifs=branches, default=default), start)

    def _interval(self) -> exp.Expression:
        start = self.at
        self.need("INTERVAL")
        negative = self.take_one("+", "-") == "-"
        at = self.at
        value: exp.Expression
        if self.token.kind == "string":
            value = self._text(at)
        elif self.token.kind == "number":
            value = self.atom()
        elif at > start + 1:
            self._wanted("a string")
            self.fail()
        elif self.token.key == "(":
            value = self._brackets()
        else:
            parts: list[exp.Expression] = [self.read_identifier()]
            while self.take("."):
                parts.append(self.read_identifier())
            value = self._column(parts, at)
        unit = self.at
        qualifier = self.mark(exp.Var(this=str(self.qualifier())), unit)
        return self.mark(exp.Interval(this=value, unit=qualifier, negative=negative), start)

    def _collection(self, key: str) -> exp.Expression:
        start = self.at
        self.at += 1
        close = {"[": "]", "(": ")"}[self.advance().key]
        if close == ")" and self.token.key in QUERY:
            self.refuse(start, f"{key} of a query is not supported; use ARRAY_AGG in it.")
        items: list[exp.Expression] = []
        if self.token.key != close:
            items = self.comma_list(self.expression)
        self.need(close)
        if key == "MULTISET":
            self.refuse(start, "MULTISET[…] is not supported; the aggregate COLLECT makes multisets.")
        if key == "ARRAY":
            return self.mark(exp.Array(expressions=items), start)
        if len(items) % 2:
            self.refuse(start, "Map requires an even number of arguments.")
        keys, values = exp.Array(expressions=items[::2]), exp.Array(expressions=items[1::2])
        return self.mark(exp.Map(keys=keys, values=values), start)

    def _exists(self, key: str) -> exp.Expression:
        start = self.at
        self.at += 1
        if key == "UNIQUE":
            self.refuse(start, "UNIQUE (query) is not supported.")
        inside = self._query_or_list()
        if not isinstance(inside, exp.Subquery):
            self.fail_at(start, "EXISTS takes a query in brackets")
        return self.mark(exp.Exists(this=inside.this), start)
