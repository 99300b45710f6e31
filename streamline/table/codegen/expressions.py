"""Bound expressions become Python source.

What the source relies on stands in the namespace it is executed with: helper functions under their own names, constants
as `k1`, `k2`, …, and the `EvalContext` as `ctx`. NULL is None. A function that is strict in NULL is written with one
guard over all nullable columns below it, and without any where the types, or a condition that was tested before, say
that none of them is NULL. Values that are needed twice are bound with `:=` to locals `_1`, `_2`, …; so a source must
not stand where `:=` is forbidden (the iterable of a comprehension, a class body).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from typing import Any

from streamline.table.codegen.source import compile_function
from streamline.table.expr.context import EvalContext
from streamline.table.expr.entry import without_guards
from streamline.table.expr.nodes import Call, Expr, InputRef, Literal

__all__ = ("Column", "ExpressionCompiler", "compile_condition", "compile_scalar")

#: Gives the source that reads a column of the current row.
Column = Callable[[int], str]

_MILLIS = 1_000_000


class ExpressionCompiler:
    """Writes expressions as Python source over one namespace.

    One compiler may write many expressions of one generated function: helpers, constants and names of locals are
    shared, and never clash.

    Args:
        namespace: globals of the function to be; filled as expressions are written.
        context: session and moment of evaluation, put into the namespace as `ctx`.
    """

    def __init__(self, namespace: dict[str, Any] | None = None, context: EvalContext | None = None) -> None:
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        self._context = context or EvalContext()
        self._column: Column = _no_column
        self._temps = 0
        self._known: dict[Expr, str] = {}
        self._cache: dict[Any, str] = {}

    # -- for who writes loops ------------------------------------------------------------------------------------

    def emit(self, expr: Expr, column: Column) -> str:
        """Source of the value of `expr`, None for NULL.

        Args:
            expr: the expression.
            column: gives the source that reads column i of the row, such as `r[0]` or `r.amount`.
        """
        with self._over(column):
            return self.value(expr)

    def emit_condition(self, expr: Expr, column: Column) -> str:
        """Source that is truthy exactly where the BOOLEAN `expr` is TRUE."""
        with self._over(column):
            return self.true(expr)

    def emit_filtered(
        self, condition: Expr | None, exprs: Sequence[Expr], column: Column
    ) -> tuple[str | None, list[str]]:
        """Sources of a condition, and of values that are only computed where it is TRUE and after it.

        What the condition has read and tested is not read and tested again: for `f"[({', '.join(values)},) for r in
        rows if {condition}]"`.
        """
        with self._over(column):
            tested = None if condition is None else self.assume(condition)
            return tested, [self.value(e) for e in exprs]

    def emit_millis(self, expr: Expr, column: Column, millis: Callable[[int], str | None] | None = None) -> str:
        """Source of epoch milliseconds of a TIMESTAMP or TIMESTAMP_LTZ expression, None for NULL.

        The detour over nanoseconds is left out where the expression starts from milliseconds.

        Args:
            expr: the expression.
            column: as for `emit`.
            millis: gives the source of a column's epoch milliseconds where it is at hand in that form, else None.
        """
        with self._over(column):
            return self._millis(expr, millis)

    # -- for functions (the Emitter protocol) --------------------------------------------------------------------

    @property
    def context(self) -> EvalContext:
        return self._context

    def value(self, expr: Expr) -> str:
        known = self._known.get(expr)
        if known is not None:
            return known
        if isinstance(expr, Literal):
            return self._literal(expr)
        if isinstance(expr, InputRef):
            return self._column(expr.index)
        function = expr.function
        if not function.strict:
            with self.scope():
                return function.emit(expr, self)
        return self.strict(expr.operands, lambda *_: function.emit(expr, self), sources=False)

    def true(self, expr: Expr) -> str:
        with self.scope():
            return self.assume(expr)

    def false(self, expr: Expr) -> str:
        if isinstance(expr, Literal):
            return str(expr.value is False)
        with self.scope():
            if isinstance(expr, Call) and expr not in self._known:
                special = expr.function.emit_false(expr, self)
                if special is not None:
                    return special
                if expr.function.strict and expr.function.never_null(expr):
                    return self._tested(expr, negate=True)
            return f"(not {self.value(expr)})" if not self.can_be_null(expr) else f"({self.value(expr)} is False)"

    def assume(self, expr: Expr) -> str:
        if isinstance(expr, Literal):
            return str(expr.value is True)
        if isinstance(expr, Call) and expr not in self._known:
            special = expr.function.emit_true(expr, self)
            if special is not None:
                return special
            if expr.function.strict and expr.function.never_null(expr):
                return self._tested(expr)
        return self.value(expr)

    def assume_not_null(self, expr: Expr) -> str:
        if not self.can_be_null(expr):
            return "True"
        return f"({self._named(expr)} is not None)"

    @contextmanager
    def scope(self) -> Iterator[None]:
        saved = self._known
        self._known = dict(saved)
        try:
            yield
        finally:
            self._known = saved

    def strict(self, operands: Sequence[Expr], body: Callable[..., str], sources: bool = True) -> str:
        leaves = self._nullable_leaves(operands)
        if any(isinstance(leaf, Literal) for leaf in leaves):
            return "None"
        with self.scope():
            guards = [self._is_none(leaf) for leaf in leaves]
            text = body(*map(self.value, operands)) if sources else body()
        return f"(None if {' or '.join(guards)} else {text})" if guards else text

    def can_be_null(self, expr: Expr) -> bool:
        if isinstance(expr, Literal):
            return expr.value is None
        if not expr.type.nullable or expr in self._known:
            return False
        if isinstance(expr, Call) and expr.function.strict and expr.function.never_null(expr):
            return any(map(self.can_be_null, expr.operands))
        return True

    def null_sources(self, expr: Expr) -> frozenset[Expr]:
        return frozenset(self._nullable_leaves((expr,)))

    def call(self, function: Callable[..., Any], *arguments: str) -> str:
        return f"{self.helper(function)}({', '.join(arguments)})"

    def helper(self, function: Callable[..., Any]) -> str:
        name = str(getattr(function, "__name__", "helper")).lstrip("_")
        return self._bind(name, function)

    def constant(self, value: Any, hint: str = "k") -> str:
        if value is None or isinstance(value, (bool, str, bytes)):
            return repr(value)
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        if isinstance(value, float) and isfinite(value):
            return repr(value) if value >= 0 and not repr(value).startswith("-") else f"({value!r})"
        try:
            return self.cached((type(value), value, repr(value)), lambda: value, hint)
        except TypeError:  # unhashable
            return self.cached((type(value), repr(value)), lambda: value, hint)

    def cached(self, key: Any, make: Callable[[], Any], hint: str) -> str:
        name = self._cache.get(key)
        if name is None:
            name = self._cache[key] = self._bind(f"{hint}1", make())
        return name

    def temp(self) -> str:
        self._temps += 1
        return f"_{self._temps}"

    def ctx(self) -> str:
        self.namespace["ctx"] = self._context
        return "ctx"

    # -- inside --------------------------------------------------------------------------------------------------

    @contextmanager
    def _over(self, column: Column) -> Iterator[None]:
        saved, self._column = self._column, column
        try:
            with self.scope():
                yield
        finally:
            self._column = saved

    def _bind(self, name: str, value: Any) -> str:
        """Put an object into the namespace under this name, or under a numbered one where that is taken."""
        stem = name.rstrip("0123456789") or name
        number = 1
        while name in self.namespace and self.namespace[name] is not value:
            number += 1
            name = f"{stem}{number}"
        self.namespace[name] = value
        return name

    def _literal(self, literal: Literal) -> str:
        hint = "dec" if isinstance(literal.value, Decimal) else "k"
        return self.constant(literal.value, hint)

    def _nullable_leaves(self, operands: Sequence[Expr]) -> list[Expr]:
        """The expressions below that decide whether a strict function over these operands is NULL."""
        leaves: dict[Expr, None] = {}
        stack = list(reversed(operands))
        while stack:
            expr = stack.pop()
            if expr in self._known or not expr.type.nullable:
                continue
            if isinstance(expr, Literal) and expr.value is not None:
                continue
            if isinstance(expr, Call) and expr.function.strict and expr.function.never_null(expr):
                stack.extend(reversed(expr.operands))
            else:
                leaves[expr] = None
        return list(leaves)

    def _is_none(self, leaf: Expr) -> str:
        return f"{self._named(leaf)} is None"

    def _named(self, leaf: Expr) -> str:
        """Source that reads the value and gives it a name, by which it is known from here on not to be NULL."""
        source = self.value(leaf)
        if source.isidentifier():
            self._known[leaf] = source
            return source
        name = self.temp()
        self._known[leaf] = name
        return f"({name} := {source})"

    def _tested(self, expr: Call, negate: bool = False) -> str:
        """A strict BOOLEAN call as a condition: `a is not None and a > 10`."""
        leaves = self._nullable_leaves(expr.operands)
        if any(isinstance(leaf, Literal) for leaf in leaves):
            return "False"
        guards = [f"{self._named(leaf)} is not None" for leaf in leaves]
        source = expr.function.emit(expr, self)
        if negate:
            source = f"(not {source})"
        return f"({' and '.join((*guards, source))})" if guards else source

    def _millis(self, expr: Expr, millis: Callable[[int], str | None] | None) -> str:
        if isinstance(expr, Literal):
            return repr(None if expr.value is None else expr.value // _MILLIS)
        if isinstance(expr, InputRef):
            direct = millis(expr.index) if millis is not None else None
            if direct is not None:
                return direct
        elif isinstance(expr, Call):
            special = self._millis_call(expr, millis)
            if special is not None:
                return special
        source = self.value(expr)
        if not self.can_be_null(expr):
            return f"{source} // {_MILLIS}"
        name = source if source.isidentifier() else self.temp()
        bound = name if source.isidentifier() else f"({name} := {source})"
        return f"(None if {bound} is None else {name} // {_MILLIS})"

    def _millis_call(self, expr: Call, millis: Callable[[int], str | None] | None) -> str | None:
        name, operands = expr.function.name, expr.operands
        if name == "TO_TIMESTAMP_LTZ" and operands[0].type.is_integer:
            precision = operands[1].value if len(operands) > 1 and isinstance(operands[1], Literal) else 3
            if len(operands) == 1 or (isinstance(operands[1], Literal) and precision in (0, 3)):
                if precision == 3:
                    return without_guards(self.value(operands[0]))
                return self.strict(operands[:1], lambda x: f"{x} * 1000")
        if name == "CAST" and operands[0].type.root == expr.type.root and expr.type.precision >= 3:
            return self._millis(operands[0], millis)
        if name in ("+", "-") and len(operands) == 2:
            time, interval = operands if operands[0].type.is_timestamp else (operands[1], operands[0])
            if time.type.is_timestamp and interval.type.root == "INTERVAL_DAY_TIME" and isinstance(interval, Literal):
                return self._shifted(time, name, interval, millis)
        return None

    def _shifted(
        self, time: Expr, sign: str, interval: Literal, millis: Callable[[int], str | None] | None
    ) -> str | None:
        if interval.value is None:
            return "None"
        inner = self._millis(time, millis)
        if inner == "None":
            return inner
        if not time.type.nullable or not self._millis_nullable(time):
            return f"{inner} {sign} {interval.value}"
        name = inner if inner.isidentifier() else self.temp()
        bound = inner if inner.isidentifier() else f"({name} := {inner})"
        return f"(None if {bound} is None else {name} {sign} {interval.value})"

    def _millis_nullable(self, time: Expr) -> bool:
        """Whether the milliseconds of a nullable timestamp can be NULL; TO_TIMESTAMP_LTZ is nullable in name only."""
        if isinstance(time, Call) and time.function.name == "TO_TIMESTAMP_LTZ" and time.operands[0].type.is_integer:
            return self.can_be_null(time.operands[0])
        return self.can_be_null(time)


def _no_column(index: int) -> str:
    raise ValueError("the expression reads a column, but is evaluated without a row")


def compile_scalar(expr: Expr, context: EvalContext | None = None) -> Callable[[Sequence[Any]], Any]:
    """The expression as a function of a row (a tuple in inner form)."""
    compiler = ExpressionCompiler({}, context)
    source = compiler.emit(expr, lambda i: f"r[{i}]")
    return compile_function("scalar", f"def scalar(r):\n    return {source}\n", compiler.namespace)


def compile_condition(expr: Expr, context: EvalContext | None = None) -> Callable[[Sequence[Any]], bool]:
    """The condition as a function of a row, true exactly where the expression is TRUE."""
    compiler = ExpressionCompiler({}, context)
    source = compiler.emit_condition(expr, lambda i: f"r[{i}]")
    return compile_function("condition", f"def condition(r):\n    return bool({source})\n", compiler.namespace)
