"""The tables of a FROM clause and what names in expressions mean over them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sqlglot.expressions as exp

from streamline._core.types import DataType
from streamline.errors import ValidationException
from streamline.table.expr.nodes import Expr, InputRef, rewrite
from streamline.table.logical import Rel
from streamline.table.parse import error_at

__all__ = ("Named", "Relation", "shifted")


@dataclass(frozen=True, slots=True)
class Named:
    """A column that can be named.

    Attributes:
        name: of the column.
        expr: its value over the relation's rows.
        qualifier: path of the table it is of; empty where it has none.
        plain: whether its name alone means it (not so where USING has merged it with another).
        starred: whether `*` shows it.
        twice: whether its table is a query that has two columns of that name.
    """

    name: str
    expr: Expr
    qualifier: tuple[str, ...] = ()
    plain: bool = True
    starred: bool = True
    twice: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A plan with names for its columns."""

    rel: Rel
    columns: tuple[Named, ...]

    @classmethod
    def of(cls, rel: Rel, qualifier: tuple[str, ...] = ()) -> Relation:
        """The columns of a plan as a table of that name."""
        return cls(rel, tuple(Named(f.name, rel.schema.ref(i), qualifier) for i, f in enumerate(rel.schema)))

    def over(self, rel: Rel) -> Relation:
        """The same names over a plan whose first columns are the same."""
        return replace(self, rel=rel)

    def qualified(self, qualifier: tuple[str, ...]) -> list[Named]:
        """The columns of the tables of that name."""
        return [c for c in self.columns if c.qualifier[len(c.qualifier) - len(qualifier) :] == qualifier]

    def has_table(self, qualifier: tuple[str, ...]) -> bool:
        """Whether there is a table of that name."""
        return bool(qualifier) and any(self.qualified(qualifier))

    def find(self, parts: tuple[str, ...], node: exp.Expression) -> tuple[Expr, tuple[str, ...]] | None:
        """The column that a name means, and the names of fields in it that follow; None where there is none.

        Raises:
            ValidationException: the name is ambiguous, or its table has no such column.
        """
        for n in range(min(len(parts) - 1, 3), 0, -1):
            table = self.qualified(parts[:n])
            if not table:
                continue
            found = [c for c in table if c.name == parts[n]]
            if found:
                return _only(found, ".".join(parts[: n + 1]), node).expr, parts[n + 1 :]
            if not [c for c in self.columns if c.plain and c.name == parts[0]]:
                raise error_at(
                    node,
                    f"Column '{parts[n]}' not found in table '{'.'.join(parts[:n])}'"
                    + _hint(parts[n], (c.name for c in table)),
                )
        plain = [c for c in self.columns if c.plain and c.name == parts[0]]
        return (_only(plain, parts[0], node).expr, parts[1:]) if plain else None

    def missing(self, parts: tuple[str, ...], node: exp.Expression) -> ValidationException:
        """The error for a name that means nothing."""
        if len(parts) > 1 and not any(c.name == parts[0] for c in self.columns):
            return error_at(node, f"Table '{parts[0]}' not found")
        return error_at(
            node, f"Column '{parts[0]}' not found in any table" + _hint(parts[0], (c.name for c in self.columns))
        )

    def starred(self, qualifier: tuple[str, ...] = ()) -> list[Named]:
        """The columns that `*` or `t.*` stands for."""
        if qualifier:
            return self.qualified(qualifier)
        return [c for c in self.columns if c.starred]


def _only(found: Sequence[Named], name: str, node: exp.Expression) -> Named:
    if len(found) > 1:
        tables = ", ".join(".".join((*c.qualifier[-1:], c.name)) for c in found)
        raise error_at(node, f"Column '{name}' is ambiguous: it may be {tables}")
    return found[0]


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(dict.fromkeys(known))
    same = [n for n in names if n.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"; did you mean '{near[0]}'?" if near else ""


def shifted(expr: Expr, by: int, types: Sequence[DataType] | None = None) -> Expr:
    """The expression over a row in which its columns stand further right, and have other types where given."""

    def move(e: Expr) -> Expr | None:
        if not isinstance(e, InputRef):
            return None
        index = e.index + by
        return InputRef(index, e.type if types is None else types[index], e.name)

    return rewrite(expr, move)
