"""Expression: what `col(...)`, `lit(...)` and their kin give, with operators and PyFlink's methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, Self, runtime_checkable

import sqlglot.expressions as nodes

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expression_base import Unary, call_node, cast_node, identifier
from streamline.table.expression_text import TextFunctions
from streamline.table.expression_values import ValueFunctions

__all__ = ("Expression", "QuerySource")


@runtime_checkable
class QuerySource(Protocol):
    """A table, as the right side of `in_`."""

    def as_query(self) -> nodes.Expression:
        """A query of its rows."""
        ...


class Expression(TextFunctions, ValueFunctions):
    """A value that is computed for each row, or for each group of rows.

    Operators work as in SQL: comparisons with NULL give NULL, `&`, `|` and `~` are AND, OR and NOT of three-valued
    logic, `+` joins texts. Python's `and`, `or`, `not` and chained comparisons cannot be overloaded and are refused.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise ValidationException(
            f"the expression {self.text} has no truth value of its own: write & for and, | for or, ~ for not, and put "
            "comparisons in parentheses"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the expression {self.text} cannot be iterated over")

    # -- comparison ----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._node(nodes.EQ, "equals", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._node(nodes.NEQ, "notEquals", other)

    def __lt__(self, other: Any) -> Self:
        return self._node(nodes.LT, "lessThan", other)

    def __le__(self, other: Any) -> Self:
        return self._node(nodes.LTE, "lessThanOrEqual", other)

    def __gt__(self, other: Any) -> Self:
        return self._node(nodes.GT, "greaterThan", other)

    def __ge__(self, other: Any) -> Self:
        return self._node(nodes.GTE, "greaterThanOrEqual", other)

    def is_equal(self, other: Any) -> Self:
        """`==`"""
        return self._node(nodes.EQ, "equals", other)

    def is_not_equal(self, other: Any) -> Self:
        """`!=`"""
        return self._node(nodes.NEQ, "notEquals", other)

    def is_less(self, other: Any) -> Self:
        """`<`"""
        return self._node(nodes.LT, "lessThan", other)

    def is_less_or_equal(self, other: Any) -> Self:
        """`<=`"""
        return self._node(nodes.LTE, "lessThanOrEqual", other)

    def is_greater(self, other: Any) -> Self:
        """`>`"""
        return self._node(nodes.GT, "greaterThan", other)

    def is_greater_or_equal(self, other: Any) -> Self:
        """`>=`"""
        return self._node(nodes.GTE, "greaterThanOrEqual", other)

    def between(self, lower_bound: Any, upper_bound: Any) -> Self:
        """Whether the value is in a range, bounds included."""
        low, high = self._of(lower_bound), self._of(upper_bound)
        node = nodes.Between(this=self.ast.copy(), low=low.ast.copy(), high=high.ast.copy(), symmetric=False)
        return type(self)(node, f"between({self.text}, {low.text}, {high.text})")

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Self:
        """Whether the value is outside of a range."""
        inside = self.between(lower_bound, upper_bound)
        return type(self)(nodes.Not(this=inside.ast), "notB" + inside.text[1:])

    def in_(self, first: Any, *others: Any) -> Self:
        """Whether the value is one of those given, or in the only column of a table."""
        if isinstance(first, QuerySource):
            node = nodes.In(this=self.ast.copy(), query=first.as_query())
            return type(self)(node, f"in({self.text}, {first})")
        values = [self._of(v) for v in (first, *others)]
        node = nodes.In(this=self.ast.copy(), expressions=[v.ast.copy() for v in values])
        return type(self)(node, f"in({', '.join(v.text for v in (self, *values))})")

    # -- logic ---------------------------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Self:
        return self._node(nodes.And, "and", other)

    def __rand__(self, other: Any) -> Self:
        return self._of(other) & self

    def __or__(self, other: Any) -> Self:
        return self._node(nodes.Or, "or", other)

    def __ror__(self, other: Any) -> Self:
        return self._of(other) | self

    def __invert__(self) -> Self:
        return self._node(nodes.Not, "not")

    def _is(self, text: str, what: nodes.Expression, negate: bool = False) -> Self:
        node: nodes.Expression = nodes.Is(this=self.ast.copy(), expression=what)
        return type(self)(nodes.Not(this=node) if negate else node, f"{text}({self.text})")

    @property
    def is_null(self) -> Self:
        """Whether the value is NULL."""
        return self._is("isNull", nodes.Null())

    @property
    def is_not_null(self) -> Self:
        """Whether the value is not NULL."""
        return self._is("isNotNull", nodes.Null(), negate=True)

    @property
    def is_true(self) -> Self:
        """Whether the condition is TRUE."""
        return self._is("isTrue", nodes.Boolean(this=True))

    @property
    def is_false(self) -> Self:
        """Whether the condition is FALSE."""
        return self._is("isFalse", nodes.Boolean(this=False))

    @property
    def is_not_true(self) -> Self:
        """Whether the condition is FALSE or NULL."""
        return self._is("isNotTrue", nodes.Boolean(this=True), negate=True)

    @property
    def is_not_false(self) -> Self:
        """Whether the condition is TRUE or NULL."""
        return self._is("isNotFalse", nodes.Boolean(this=False), negate=True)

    def then(self, if_true: Any, if_false: Any) -> Self:
        """One value where the condition is TRUE, another where it is FALSE or NULL."""
        return self._call("IF", if_true, if_false, text="ifThenElse")

    def if_null(self, null_replacement: Any) -> Self:
        """Another value where this one is NULL."""
        return self._call("IFNULL", null_replacement)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Self:
        return self._call("$PLUS", other, text="plus")

    def __radd__(self, other: Any) -> Self:
        return self._of(other) + self

    def __sub__(self, other: Any) -> Self:
        return self._node(nodes.Sub, "minus", other)

    def __rsub__(self, other: Any) -> Self:
        return self._of(other) - self

    def __mul__(self, other: Any) -> Self:
        return self._node(nodes.Mul, "times", other)

    def __rmul__(self, other: Any) -> Self:
        return self._of(other) * self

    def __truediv__(self, other: Any) -> Self:
        return self._node(nodes.Div, "divide", other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._of(other) / self

    def __mod__(self, other: Any) -> Self:
        return self._node(nodes.Mod, "mod", other)

    def __rmod__(self, other: Any) -> Self:
        return self._of(other) % self

    def __pow__(self, other: Any) -> Self:
        return self.power(other)

    def __rpow__(self, other: Any) -> Self:
        return self._of(other) ** self

    def __neg__(self) -> Self:
        return self._node(nodes.Neg, "minusPrefix")

    def __abs__(self) -> Self:
        return self.abs

    def __getitem__(self, index: Any) -> Self:
        return self.at(index)

    def plus(self, other: Any) -> Self:
        """`+`"""
        return self._call("$PLUS", other, text="plus")

    def minus(self, other: Any) -> Self:
        """`-`"""
        return self._node(nodes.Sub, "minus", other)

    def times(self, other: Any) -> Self:
        """`*`"""
        return self._node(nodes.Mul, "times", other)

    def divided_by(self, other: Any) -> Self:
        """`/`"""
        return self._node(nodes.Div, "divide", other)

    def mod(self, other: Any) -> Self:
        """`%`"""
        return self._node(nodes.Mod, "mod", other)

    # -- types and names -----------------------------------------------------------------------------------------

    def cast(self, data_type: DataType) -> Self:
        """The value as one of another type; an error at run time where it cannot be."""
        return type(self)(cast_node(self.ast.copy(), data_type), f"cast({self.text}, {data_type.summary(True)})")

    def try_cast(self, data_type: DataType) -> Self:
        """The value as one of another type; NULL where it cannot be."""
        node = cast_node(self.ast.copy(), data_type, nodes.TryCast)
        return type(self)(node, f"TRY_CAST({self.text}, {data_type.summary(True)})")

    def alias(self, name: str, *extra_names: str) -> Self:
        """Give the value a name; a table function takes one for each column."""
        shown = ", ".join(repr(n) for n in (name, *extra_names))
        node: nodes.Expression = nodes.Alias(this=self.ast.copy(), alias=identifier(name))
        if extra_names:
            names = [identifier(n) for n in (name, *extra_names)]
            node = nodes.Aliases(this=self.ast.copy(), expressions=names)
        return type(self)(node, f"as({self.text}, {shown})")

    def as_(self, name: str, *extra_names: str) -> Self:
        """Another name of `alias`."""
        return self.alias(name, *extra_names)

    def as_argument(self, name: str) -> Self:
        """The value as an argument that is passed by name."""
        node = nodes.Kwarg(this=identifier(name), expression=self.ast.copy())
        return type(self)(node, f"ASSIGNMENT('{name}', {self.text})")

    @property
    def asc(self) -> Self:
        """Smallest first, in `order_by`."""
        return self._node(nodes.Ordered, "asc", desc=False)

    @property
    def desc(self) -> Self:
        """Largest first, in `order_by`."""
        return self._node(nodes.Ordered, "desc", desc=True)

    # -- aggregates ----------------------------------------------------------------------------------------------

    def _aggregate(self, name: str, text: str, *arguments: Any) -> Self:
        operands = [self, *(self._of(a) for a in arguments)]
        shown = f"{text}({', '.join(o.text for o in operands)})"
        node = call_node(name, *(o.ast for o in operands))
        first = node.expressions[0]
        if isinstance(first, nodes.Anonymous) and first.name == "$DISTINCT":
            node.set("expressions", [nodes.Distinct(expressions=[*first.expressions, *node.expressions[1:]])])
        return type(self)(node, shown)

    @property
    def distinct(self) -> Self:
        """Equal values count once: `col("a").distinct.count` and `col("a").count.distinct` are the same."""
        node = self.ast.copy()
        if isinstance(node, nodes.Anonymous) and node.name in _AGGREGATES and node.expressions:
            node.set("expressions", [nodes.Distinct(expressions=node.expressions)])
        else:
            node = call_node("$DISTINCT", node)
        return type(self)(node, f"distinct({self.text})")

    @property
    def sum(self) -> Self:
        """The sum; NULL where there is no value."""
        return self._aggregate("SUM", "sum")

    @property
    def sum0(self) -> Self:
        """The sum; 0 where there is no value."""
        return self._aggregate("SUM0", "sum0")

    @property
    def min(self) -> Self:
        """The smallest value."""
        return self._aggregate("MIN", "min")

    @property
    def max(self) -> Self:
        """The largest value."""
        return self._aggregate("MAX", "max")

    @property
    def count(self) -> Self:
        """How many values are not NULL."""
        return self._aggregate("COUNT", "count")

    @property
    def avg(self) -> Self:
        """The mean; of integers an integer."""
        return self._aggregate("AVG", "avg")

    @property
    def first_value(self) -> Self:
        """The value that came first."""
        return self._aggregate("FIRST_VALUE", "first_value")

    @property
    def last_value(self) -> Self:
        """The value that came last."""
        return self._aggregate("LAST_VALUE", "last_value")

    @property
    def stddev_pop(self) -> Self:
        """The standard deviation of the population."""
        return self._aggregate("STDDEV_POP", "stddevPop")

    @property
    def stddev_samp(self) -> Self:
        """The standard deviation of the sample."""
        return self._aggregate("STDDEV_SAMP", "stddevSamp")

    @property
    def var_pop(self) -> Self:
        """The variance of the population."""
        return self._aggregate("VAR_POP", "varPop")

    @property
    def var_samp(self) -> Self:
        """The variance of the sample."""
        return self._aggregate("VAR_SAMP", "varSamp")

    @property
    def collect(self) -> Self:
        """The values as a multiset."""
        return self._aggregate("COLLECT", "collect")

    @property
    def array_agg(self) -> Self:
        """The values as an array."""
        return self._aggregate("ARRAY_AGG", "ARRAY_AGG")

    def list_agg(self, separator: str | None = None) -> Self:
        """The texts as one, with a separator (default: a comma) between them."""
        return self._aggregate("LISTAGG", "listAgg", "," if separator is None else separator)

    def percentile(self, percentage: Any, frequency: Any = None) -> Self:
        """The exact percentile, interpolated; of an array of percentages an array."""
        extra = () if frequency is None else (frequency,)
        return self._aggregate("PERCENTILE", "PERCENTILE", percentage, *extra)

    def over(self, alias: Any) -> Self:
        """The aggregate over a window that `over_window` has defined."""
        name = alias.ast.name if isinstance(alias, Expression) else str(alias)
        return type(self)(call_node("$OVER", self.ast, identifier(name)), f"over({self.text}, '{name}')")

    # -- windows and time attributes -----------------------------------------------------------------------------

    start = Unary("$START", "The start of a window, included.", "start")
    end = Unary("$END", "The end of a window, excluded.", "end")
    rowtime = Unary("$ROWTIME", "The event time of a window's result, or a field that becomes event time.", "rowtime")
    proctime = Unary("$PROCTIME", "The processing time of a window's result, or a field that becomes it.", "proctime")


def texts(expressions: Sequence[Expression]) -> str:
    """The texts of expressions in a row."""
    return ", ".join(e.text for e in expressions)


_AGGREGATES = frozenset(
    {
        "ARRAY_AGG",
        "AVG",
        "COLLECT",
        "COUNT",
        "FIRST_VALUE",
        "LAST_VALUE",
        "LISTAGG",
        "MAX",
        "MIN",
        "PERCENTILE",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "SUM",
        "SUM0",
        "VAR_POP",
        "VAR_SAMP",
    }
)
