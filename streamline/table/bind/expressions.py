"""Expressions of a parsed tree become bound expressions: names, types and functions are settled here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline.errors import StreamlineError, ValidationException
from streamline.table.expr import aggregates, literals
from streamline.table.expr.context import EvalContext
from streamline.table.expr.fold import fold
from streamline.table.expr.functions.logic import and_, not_, or_
from streamline.table.expr.nodes import AggCall, Expr
from streamline.table.expr.registry import bind_call, lookup, unknown_function
from streamline.table.parse import cast_type, error_at, interval_of, name_of

__all__ = ("AggregateSyntax", "ExpressionBinder", "Scope")


class Scope(Protocol):
    """What names mean at the place of an expression; the binder of queries implements it.

    Errors raised as `ValidationException` without a place get the place of the node that was being bound.
    """

    def intercept(self, node: exp.Expression) -> Expr | None:
        """What a node stands for before anything else is tried (a grouping key, a window property), else None."""

    def resolve_column(self, parts: tuple[str, ...], node: exp.Expression) -> Expr:
        """A column, or a field of one: `a`, `t.a`, `t.a.b`; use `ExpressionBinder.fields` for what follows."""

    def resolve_function(
        self, path: tuple[str, ...], operands: Callable[[], Sequence[Expr]], node: exp.Expression
    ) -> Expr | None:
        """A call of a function of the user, or None: then it is a built-in one.

        Args:
            path: the name as written, qualified or not.
            operands: binds the arguments; to be called only where there is such a function.
            node: the call.
        """

    def bind_aggregate(self, syntax: AggregateSyntax, node: exp.Expression) -> Expr:
        """A call of an aggregate function, built-in or (where `is_aggregate`) of the user."""

    def is_aggregate(self, path: tuple[str, ...]) -> bool:
        """Whether the user's function of that name is an aggregate."""

    def bind_window(self, node: exp.Window) -> Expr:
        """A function over a window (`… OVER (…)`)."""

    def bind_subquery(self, kind: str, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr:
        """A subquery in an expression.

        Args:
            kind: SCALAR, EXISTS, IN, or a comparison with a quantifier, such as `> ANY`.
            operands: the left side of IN and of comparisons, a ROW taken apart into its fields.
            query: the query.
            node: the whole construct.
        """


@dataclass(frozen=True, slots=True)
class AggregateSyntax:
    """An aggregate call as written.

    Attributes:
        path: the name, qualified or not.
        arguments: nodes of the arguments; without DISTINCT and `*`.
        distinct: whether DISTINCT was written.
        star: whether the argument is `*`.
        condition: node of the FILTER condition, or None.
        nulls: IGNORE, RESPECT, or None.
        order: the ordering in WITHIN GROUP or in the brackets, or None.
        modifiers: keyword arguments (`ON NULL`, keys and values of JSON functions) as nodes.
    """

    path: tuple[str, ...]
    arguments: tuple[exp.Expression, ...]
    distinct: bool = False
    star: bool = False
    condition: exp.Expression | None = None
    nulls: str | None = None
    order: exp.Expression | None = None
    modifiers: tuple[exp.Expression, ...] = field(default=())


_BINARY: Final[dict[type, str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")

#: Functions whose first or second argument is a unit or a keyword; it becomes an option of the call.
_KEYWORD_FIRST: Final = frozenset(("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "TRIM"))


class ExpressionBinder:
    """Binds the expressions of one scope.

    Args:
        scope: what names mean.
        context: the session, for constants that depend on it.
    """

    def __init__(self, scope: Scope, context: EvalContext | None = None) -> None:
        self.scope = scope
        self.context = context

    def bind(self, node: exp.Expression) -> Expr:
        """The bound expression, constants folded.

        Raises:
            ValidationException: if the expression means nothing valid; the message names and underlines the place.
        """
        bound = self.bind_raw(node)
        with _Place(node):
            return fold(bound, self.context)

    def bind_condition(self, node: exp.Expression, clause: str) -> Expr:
        """A bound condition.

        Args:
            node: the condition.
            clause: WHERE, HAVING, ON, …, for the message where it is none.

        Raises:
            ValidationException: if it is not BOOLEAN.
        """
        bound = self.bind(node)
        if bound.type.root not in ("BOOLEAN", "NULL"):
            raise error_at(node, f"{clause} clause must be a condition, but this is {bound.type.null()}")
        return bound

    def bind_raw(self, node: exp.Expression) -> Expr:
        """As `bind`, without folding: for parts of an expression."""
        with _Place(node):
            found = self.scope.intercept(node)
            if found is not None:
                return found
            name = _BINARY.get(type(node))
            if name is not None:
                return self._binary(name, node)
            handler = _HANDLERS.get(type(node))
            if handler is None:
                raise error_at(node, f"{type(node).__name__.upper()} is not an expression here")
            return handler(self, node)

    def bind_all(self, nodes: Sequence[exp.Expression]) -> list[Expr]:
        """`bind_raw` of each."""
        return [self.bind_raw(n) for n in nodes]

    def fields(self, expr: Expr, names: Sequence[str]) -> Expr:
        """`expr.a.b`: fields within fields."""
        for name in names:
            expr = bind_call(".", (expr,), (name,))
        return expr

    # -- operators -----------------------------------------------------------------------------------------------

    def _binary(self, name: str, node: exp.Expression) -> Expr:
        right = node.args["expression"]
        if isinstance(right, (exp.Any, exp.All)):
            return self._quantified(name, node, right)
        if name in ("AND", "OR"):
            # The parser balances chains; binding flattens them.
            return bind_call(name, (self.bind_raw(node.this), self.bind_raw(right)))
        return bind_call(name, (self.bind_raw(node.this), self.bind_raw(right)))

    def _quantified(self, name: str, node: exp.Expression, right: exp.Expression) -> Expr:
        left = self.bind_raw(node.this)
        word = "ANY" if isinstance(right, exp.Any) else "ALL"
        if isinstance(right.this, exp.Tuple):
            tests = [bind_call(name, (left, self.bind_raw(item))) for item in right.this.expressions]
            return or_(*tests) if word == "ANY" else and_(*tests)
        query = right.this.this if isinstance(right.this, exp.Subquery) else right.this
        return self.scope.bind_subquery(f"{name} {word}", _row_items(left), query, node)

    def _not(self, node: exp.Expression) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is):
            return self._is(inner, negated=True)
        if isinstance(inner, exp.Between):
            return self._between(inner, negated=True)
        return not_(self.bind_raw(inner))

    def _is(self, node: exp.Expression, negated: bool = False) -> Expr:
        what = node.args["expression"]
        if isinstance(what, exp.Null):
            word = "NULL"
        elif isinstance(what, exp.Boolean):
            word = str(what.this).upper()
        elif isinstance(what, exp.JSON):
            word = f"JSON {what.this or 'VALUE'}"
        else:
            word = what.name
        return bind_call(f"IS {'NOT ' if negated else ''}{word}", (self.bind_raw(node.this),))

    def _between(self, node: exp.Expression, negated: bool = False) -> Expr:
        kind = "SYMMETRIC" if node.args.get("symmetric") else "ASYMMETRIC"
        operands = self.bind_all((node.this, node.args["low"], node.args["high"]))
        return bind_call(f"{'NOT ' if negated else ''}BETWEEN {kind}", operands)

    def _in(self, node: exp.Expression) -> Expr:
        left = self.bind_raw(node.this)
        query = node.args.get("query")
        if query is not None:
            query = query.this if isinstance(query, exp.Subquery) else query
            return self.scope.bind_subquery("IN", _row_items(left), query, node)
        return bind_call("IN", (left, *(fold(self.bind_raw(i), self.context) for i in node.expressions)))

    def _like(self, node: exp.Expression, escape: Sequence[Expr] = ()) -> Expr:
        name = "LIKE" if isinstance(node, exp.Like) else "SIMILAR TO"
        operands = self.bind_all((node.this, node.args["expression"]))
        return bind_call(name, (*operands, *escape))

    def _escape(self, node: exp.Expression) -> Expr:
        return self._like(node.this, (self.bind_raw(node.args["expression"]),))

    def _negative(self, node: exp.Expression) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return literals.number_literal(inner.name, negative=True)
        return bind_call("-/1", (self.bind_raw(inner),))

    def _case(self, node: exp.Expression) -> Expr:
        operands: list[Expr] = []
        subject = self.bind_raw(node.this) if node.this is not None else None
        for branch in node.args["ifs"]:
            operands += [self._when(subject, branch.this), self.bind_raw(branch.args["true"])]
        default = node.args.get("default")
        operands.append(literals.null_literal() if default is None else self.bind_raw(default))
        return bind_call("CASE", operands)

    def _when(self, subject: Expr | None, node: exp.Expression) -> Expr:
        if subject is None:
            return self.bind_raw(node)
        values = node.expressions if isinstance(node, exp.Tuple) and not subject.type.is_composite else [node]
        return or_(*(bind_call("=", (subject, self.bind_raw(v))) for v in values))

    def _cast(self, node: exp.Expression) -> Expr:
        target = cast_type(node)
        name = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        return bind_call(name, (self.bind_raw(node.this),), (target,))

    def _overlaps(self, node: exp.Expression) -> Expr:
        left, right = node.this, node.args["expression"]
        operands = self.bind_all((*left.expressions, *right.expressions))
        return bind_call("OVERLAPS", operands)

    # -- names and literals --------------------------------------------------------------------------------------

    def _column(self, node: exp.Expression) -> Expr:
        parts = name_of(node)
        assert parts is not None
        if len(parts) == 1 and parts[0].upper() == "PI":
            return self._pi(node)
        return self.scope.resolve_column(parts, node)

    def _pi(self, node: exp.Expression) -> Expr:
        """PI is a function without brackets, unless a column has that name."""
        try:
            return self.scope.resolve_column((node.name,), node)
        except ValidationException:
            return bind_call("PI", ())

    def _dot(self, node: exp.Expression) -> Expr:
        parts = name_of(node)
        if parts is not None:
            return self.scope.resolve_column(parts, node)
        return self.fields(self.bind_raw(node.this), (node.args["expression"].name,))

    def _literal(self, node: exp.Expression) -> Expr:
        if node.args.get("is_string"):
            return literals.text_literal(node.this)
        return literals.number_literal(node.this)

    def _interval(self, node: exp.Expression) -> Expr:
        if isinstance(node.this, exp.Literal) and node.this.args.get("is_string"):
            value = interval_of(node)
            return literals.interval_literal(value.amount, value.year_month)
        unit = node.args["unit"].name.upper()
        one = _UNIT_INTERVALS.get(unit) or _UNIT_INTERVALS.get(unit.removesuffix("S"))
        if one is None:
            raise error_at(node, f"INTERVAL of an expression takes one unit, not {unit}")
        product = bind_call("*", (self.bind_raw(node.this), literals.interval_literal(*one)))
        return bind_call("-/1", (product,)) if node.args.get("negative") else product

    # -- constructors and access ---------------------------------------------------------------------------------

    def _map(self, node: exp.Expression) -> Expr:
        keys, values = node.args["keys"].expressions, node.args["values"].expressions
        operands = [self.bind_raw(n) for pair in zip(keys, values) for n in pair]
        return bind_call("MAP", operands)

    def _bracket(self, node: exp.Expression) -> Expr:
        return bind_call("ITEM", self.bind_all((node.this, *node.expressions)))

    # -- subqueries and windows ----------------------------------------------------------------------------------

    def _subquery(self, node: exp.Expression) -> Expr:
        return self.scope.bind_subquery("SCALAR", (), node.this, node)

    def _exists(self, node: exp.Expression) -> Expr:
        query = node.this.this if isinstance(node.this, exp.Subquery) else node.this
        return self.scope.bind_subquery("EXISTS", (), query, node)

    def _window(self, node: exp.Expression) -> Expr:
        assert isinstance(node, exp.Window)
        return self.scope.bind_window(node)

    # -- functions -----------------------------------------------------------------------------------------------

    def aggregate(self, node: exp.Expression) -> AggregateSyntax | None:
        """The aggregate call that a node writes, with its FILTER and other additions; None where it is none.

        Raises:
            ValidationException: for an addition to a function that is no aggregate.
        """
        condition = order = nulls = None
        inner = node
        while not isinstance(inner, exp.Anonymous):
            if isinstance(inner, exp.Filter):
                condition = inner.args["expression"].this
            elif isinstance(inner, exp.WithinGroup):
                order = inner.args["expression"]
            elif isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
                nulls = "IGNORE" if isinstance(inner, exp.IgnoreNulls) else "RESPECT"
            else:
                return None
            inner = inner.this
        path = _path(inner)
        if not self._is_aggregate(path):
            if inner is not node:
                word = "FILTER" if condition is not None else "WITHIN GROUP" if order is not None else f"{nulls} NULLS"
                raise error_at(node, f"{word} must be applied to aggregate function, and {path[-1]} is none")
            return None
        arguments = list(inner.expressions)
        distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = list(arguments[0].expressions)
        elif arguments and isinstance(arguments[0], exp.Anonymous) and arguments[0].name == "$DISTINCT":
            distinct = True
            arguments[0:1] = arguments[0].expressions
        star = len(arguments) == 1 and isinstance(arguments[0], exp.Star)
        modifiers = tuple(a for a in arguments if isinstance(a, exp.Kwarg))
        plain = tuple(a for a in arguments if not isinstance(a, (exp.Kwarg, exp.Star)))
        return AggregateSyntax(path, plain, distinct, star, condition, nulls, order, modifiers)

    def bind_aggregate_call(self, syntax: AggregateSyntax, may_be_empty: bool = False) -> AggCall:
        """A built-in aggregate function with its arguments bound in this binder's scope.

        Args:
            syntax: the call as written.
            may_be_empty: as of `aggregates.bind_aggregate`.

        Raises:
            ValidationException: if it cannot be applied to these arguments.
        """
        name = syntax.path[-1].upper()
        if syntax.star and name != "COUNT":
            raise ValidationException(f"{name}(*) is not an aggregate; only COUNT takes a star")
        if name == "COUNT" and not syntax.star and not syntax.arguments:
            raise ValidationException("Invalid number of arguments to function 'COUNT'. Was expecting 1 arguments")
        args: list[Expr] = []
        for node in syntax.arguments:
            pair = (node.this, node.args["expression"]) if isinstance(node, exp.JSONKeyValue) else (node,)
            args += map(self.bind, pair)
        options: dict[str, Any] = {}
        for modifier in syntax.modifiers:
            options[modifier.this.name.lower().replace(" ", "_")] = self._modifier(modifier.args["expression"])
        if syntax.nulls is not None:
            options["nulls"] = syntax.nulls
        if syntax.order is not None:
            raise ValidationException(f"{name} with ORDER BY is not supported")
        condition = None if syntax.condition is None else self.bind_condition(syntax.condition, "FILTER")
        return aggregates.bind_aggregate(
            name,
            args,
            distinct=syntax.distinct,
            filter=condition,
            options=tuple(options.items()),
            may_be_empty=may_be_empty,
        )

    def _is_aggregate(self, path: tuple[str, ...]) -> bool:
        if self.scope.is_aggregate(path):
            return True
        return len(path) == 1 and aggregates.is_aggregate(path[0])

    def _aggregate(self, node: exp.Expression) -> Expr:
        syntax = self.aggregate(node)
        assert syntax is not None
        return self.scope.bind_aggregate(syntax, node)

    def _function(self, node: exp.Expression) -> Expr:
        path = _path(node)
        name = path[-1].upper()
        arguments: list[exp.Expression] = list(node.expressions)
        found = self.scope.resolve_function(path, lambda: self._arguments(arguments), node)
        if found is not None:
            return found
        if self._is_aggregate(path):
            return self._aggregate(node)
        if len(path) > 1:
            raise unknown_function(".".join(path), self._arguments(arguments))
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, arguments)
        if lookup(name) is None:
            raise unknown_function(path[-1], self._arguments(arguments), aggregates.names())
        if name in _KEYWORD_FIRST and arguments and isinstance(arguments[0], exp.Var):
            unit, *rest = arguments
            return bind_call(name, self.bind_all(rest), (unit.name,))
        if len(arguments) > 1 and isinstance(arguments[-1], exp.Var):  # FLOOR(x TO DAY)
            *first, unit = arguments
            return bind_call(name, self.bind_all(first), (unit.name,))
        plain = [a for a in arguments if not isinstance(a, (exp.Kwarg, exp.JSONKeyValue))]
        if len(plain) == len(arguments):
            return bind_call(name, self.bind_all(arguments))
        return self._with_modifiers(name, arguments)

    def _arguments(self, nodes: Sequence[exp.Expression]) -> Sequence[Expr]:
        named = next((n for n in nodes if isinstance(n, exp.Kwarg)), None)
        if named is not None:
            raise error_at(named, "Named arguments are not supported for this function; pass them by position")
        return self.bind_all(nodes)

    def _with_modifiers(self, name: str, arguments: Sequence[exp.Expression]) -> Expr:
        """Calls with keywords after the arguments, as JSON_VALUE has them; see `functions.json` for the options."""
        operands: list[Expr] = []
        options: dict[str, Any] = {}
        for argument in arguments:
            if isinstance(argument, exp.JSONKeyValue):
                operands += self.bind_all((argument.this, argument.args["expression"]))
            elif not isinstance(argument, exp.Kwarg):
                operands.append(self.bind_raw(argument))
            elif isinstance(argument.this, exp.Var):
                options[argument.this.name] = self._modifier(argument.args["expression"])
            else:
                raise error_at(argument, f"{name} has no named arguments; pass them by position")
        return bind_call(name, operands, tuple(sorted(options.items())))

    def _modifier(self, node: exp.Expression) -> Any:
        if isinstance(node, exp.Cast):
            return cast_type(node)
        if isinstance(node, exp.Kwarg):  # DEFAULT value
            return self.bind(node.args["expression"])
        return node.name

    def _positive(self, node: exp.Expression) -> Expr:
        """`+x`, which the parser gives as brackets."""
        bound = self.bind_raw(node.this)
        if not (bound.type.is_numeric or bound.type.is_interval):
            raise ValidationException(f"Cannot apply '+' to arguments of type '+<{bound.type.null()}>'")
        return bound

    def _plus(self, arguments: Sequence[exp.Expression]) -> Expr:
        """`+` of the Table API: also joins texts."""
        operands = self.bind_all(arguments)
        text = any(o.type.is_character for o in operands)
        if text and not any(o.type.is_temporal or o.type.is_interval for o in operands):
            return bind_call("||", [o if o.type.is_character else _as_text(o) for o in operands])
        return bind_call("+", operands)

    def _get(self, arguments: Sequence[exp.Expression]) -> Expr:
        """A field of a row by position, from 0."""
        row = self.bind_raw(arguments[0])
        return bind_call(".", (row,), (int(arguments[1].name),))


def _as_text(expr: Expr) -> Expr:
    return bind_call("CAST", (expr,), (t.STRING,))


def _path(node: exp.Expression) -> tuple[str, ...]:
    return (*(node.args.get("path") or ()), node.this)


def _row_items(expr: Expr) -> Sequence[Expr]:
    """The fields of a ROW constructor, else the expression."""
    function = getattr(expr, "function", None)
    return expr.operands if function is not None and function.name == "ROW" else (expr,)  # type: ignore[union-attr]


class _Place:
    """Gives errors that were raised without a place the place of a node."""

    def __init__(self, node: exp.Expression) -> None:
        self._node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValidationException):
            text = str(error)
            if text.startswith("SQL validation failed"):
                return
            placed = error_at(self._node, text)
            for note in getattr(error, "__notes__", ()):
                placed.add_note(note)
            raise placed from (error.__cause__ if isinstance(error.__cause__, StreamlineError) else None)


_UNIT_INTERVALS: Final[dict[str, tuple[int, bool]]] = {
    "YEAR": (12, True),
    "QUARTER": (3, True),
    "MONTH": (1, True),
    "WEEK": (604_800_000, False),
    "DAY": (86_400_000, False),
    "HOUR": (3_600_000, False),
    "MINUTE": (60_000, False),
    "SECOND": (1000, False),
    "MILLISECOND": (1, False),
    "MILLI": (1, False),
}

_HANDLERS: Final[dict[type, Callable[[ExpressionBinder, exp.Expression], Expr]]] = {
    exp.Column: ExpressionBinder._column,
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: ExpressionBinder._literal,
    exp.HexString: lambda _, n: literals.bytes_literal(bytes.fromhex(n.this)),
    exp.Null: lambda _, n: literals.null_literal(),
    exp.Boolean: lambda _, n: literals.boolean_literal(bool(n.this)),
    exp.Date: lambda _, n: literals.date_literal(n.this.name),
    exp.Time: lambda _, n: literals.time_literal(n.this.name),
    exp.Timestamp: lambda _, n: literals.timestamp_literal(n.this.name),
    exp.Interval: ExpressionBinder._interval,
    exp.Neg: ExpressionBinder._negative,
    exp.Paren: ExpressionBinder._positive,
    exp.Not: ExpressionBinder._not,
    exp.Is: ExpressionBinder._is,
    exp.Between: ExpressionBinder._between,
    exp.In: ExpressionBinder._in,
    exp.Like: ExpressionBinder._like,
    exp.SimilarTo: ExpressionBinder._like,
    exp.Escape: ExpressionBinder._escape,
    exp.Case: ExpressionBinder._case,
    exp.Cast: ExpressionBinder._cast,
    exp.TryCast: ExpressionBinder._cast,
    exp.Overlaps: ExpressionBinder._overlaps,
    exp.Tuple: lambda b, n: bind_call("ROW", b.bind_all(n.expressions)),
    exp.Array: lambda b, n: bind_call("ARRAY", b.bind_all(n.expressions)),
    exp.Map: ExpressionBinder._map,
    exp.Bracket: ExpressionBinder._bracket,
    exp.Subquery: ExpressionBinder._subquery,
    exp.Exists: ExpressionBinder._exists,
    exp.Window: ExpressionBinder._window,
    exp.Filter: ExpressionBinder._aggregate,
    exp.WithinGroup: ExpressionBinder._aggregate,
    exp.IgnoreNulls: ExpressionBinder._aggregate,
    exp.RespectNulls: ExpressionBinder._aggregate,
    exp.Anonymous: ExpressionBinder._function,
}

_SPECIAL: Final[dict[str, Callable[[ExpressionBinder, Sequence[exp.Expression]], Expr]]] = {
    "$PLUS": ExpressionBinder._plus,
    "$GET": ExpressionBinder._get,
}
