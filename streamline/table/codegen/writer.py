"""Lines of generated source with their indentation, and the function that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from streamline.table.codegen.source import compile_function
from streamline.table.expr.context import EvalContext
from streamline.table.function_life import own

__all__ = ("Generated", "Writer")


class Writer:
    """Collects lines; `with w.block("for r in rows:")` indents what is written inside."""

    __slots__ = ("_depth", "_lines", "_names")

    def __init__(self, depth: int = 0) -> None:
        self._lines: list[str] = []
        self._depth = depth
        self._names = 0

    def line(self, text: str) -> None:
        """One line, or several that are indented alike."""
        indent = "    " * self._depth
        self._lines.extend(indent + part for part in text.split("\n"))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A line that opens a block, and the block."""
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        try:
            yield
        finally:
            if len(self._lines) == before:
                self.line("pass")
            self._depth -= 1

    @contextmanager
    def guard(self, condition: str | None) -> Iterator[None]:
        """A block behind `if condition:`; no block where there is no condition."""
        if condition is None:
            yield
        else:
            with self.block(f"if {condition}:"):
                yield

    def fresh(self, hint: str) -> str:
        """A local name that was not given before."""
        self._names += 1
        return f"{hint}_{self._names}"

    def named(self, source: str, hint: str = "x") -> str:
        """The source itself where it is a name, else a fresh local that it is assigned to."""
        if source.isidentifier() or source == "None":
            return source
        name = self.fresh(hint)
        self.line(f"{name} = {source}")
        return name

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines) + "\n"


@dataclass(frozen=True, slots=True)
class Generated:
    """A function as source with its globals; `make` gives each subtask its own.

    Attributes:
        name: of the function.
        source: of a module that defines it.
        namespace: its globals; an `EvalContext` in it (`ctx`) and users' function objects are replaced by a subtask's
            own.
    """

    name: str
    source: str
    namespace: dict[str, Any]

    def make(self, now: Callable[[], int] | None = None) -> Callable[..., Any]:
        """The function; `now` gives the processing time in epoch milliseconds."""
        namespace = {name: own(value) for name, value in self.namespace.items()}
        context = namespace.get("ctx")
        if now is not None and isinstance(context, EvalContext):
            namespace["ctx"] = replace(context, now=now, watermark=None)
        return compile_function(self.name, self.source, namespace)

    @property
    def uses_context(self) -> bool:
        """Whether its result depends on the time or the watermark."""
        return "ctx" in self.namespace


def context_of(function: Callable[..., Any]) -> EvalContext | None:
    """The evaluation context that a generated function reads, None where it reads none."""
    found = function.__globals__.get("ctx")
    return found if isinstance(found, EvalContext) else None
