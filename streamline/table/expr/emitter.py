"""What a function sees of the code generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr

__all__ = ("Emitter",)


class Emitter(Protocol):
    """Turns expressions into Python source; a function uses it for its operands and for what its code refers to."""

    @property
    def context(self) -> EvalContext:
        """The evaluation context; its `zone` and what follows it are constants of the source."""

    def value(self, expr: Expr) -> str:
        """Source of the value, None for NULL. Can stand as an operand of any operator, and is to be used once."""

    def true(self, expr: Expr) -> str:
        """Source that is truthy exactly where the BOOLEAN expression is TRUE."""

    def false(self, expr: Expr) -> str:
        """Source that is truthy exactly where the BOOLEAN expression is FALSE."""

    def assume(self, expr: Expr) -> str:
        """As `true`, and from here to the end of the `scope` the code is taken to run only where that holds."""

    def assume_not_null(self, expr: Expr) -> str:
        """Source that is truthy where the value is not NULL; the rest of the `scope` is taken to run only there."""

    def scope(self) -> AbstractContextManager[None]:
        """What is assumed within ends here."""

    def strict(self, operands: Sequence[Expr], body: Callable[..., str]) -> str:
        """Source of `body`, called with the sources of the operands, and NULL where an operand is NULL."""

    def can_be_null(self, expr: Expr) -> bool:
        """Whether the expression may be NULL at this place of the code."""

    def null_sources(self, expr: Expr) -> frozenset[Expr]:
        """The expressions of which one must be NULL for the expression to be NULL, and by which it then is."""

    def call(self, function: Callable[..., Any], *arguments: str) -> str:
        """Source of a call of a helper function, which becomes known to the code by its name."""

    def helper(self, function: Callable[..., Any]) -> str:
        """The name under which the code knows a helper function."""

    def constant(self, value: Any, hint: str = "k") -> str:
        """A name for a constant, or its literal where that is as good."""

    def cached(self, key: Any, make: Callable[[], Any], hint: str) -> str:
        """A name for an object that is made once per compiled function and shared by equal keys."""

    def temp(self) -> str:
        """A fresh local name, to be bound with `:=`."""

    def ctx(self) -> str:
        """The name of the `EvalContext`."""
