"""TO_CHANGELOG and FROM_CHANGELOG: kinds of change as codes in a column, and back.

    SELECT * FROM TO_CHANGELOG(input => TABLE t, op_mapping => MAP['INSERT, UPDATE_AFTER', 'put', 'DELETE', 'drop'])

Every change of the input is a row that was inserted, with its code in a first column; kinds without a code are left
out. FROM_CHANGELOG is the inverse: the code says the kind, and its column goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streamline._core import types as t
from streamline._core.changes import RowKind
from streamline._core.types import Field
from streamline.errors import ValidationException
from streamline.table import logical as L

__all__ = ("FromChangelog", "ToChangelog", "from_changelog", "to_changelog")

#: Kinds in the order in which Flink names them.
KINDS: Final = {k.name: k for k in (RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)}


@dataclass(frozen=True)
class ToChangelog(L._Single):
    """Each change as a row that was inserted.

    Attributes:
        op: name of the first column, which holds the code.
        codes: of the kinds that are kept.
    """

    op: str
    codes: tuple[tuple[RowKind, str], ...]

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        return L.RowSchema((Field(self.op, t.STRING), *_materialized(self.input.schema.fields)))


@dataclass(frozen=True)
class FromChangelog(L._Single):
    """Rows that were inserted as the changes that a column says they are.

    Attributes:
        op: position of that column.
        codes: the kind that each code stands for.
    """

    op: int
    codes: tuple[tuple[str, RowKind], ...]

    @property
    def schema(self) -> L.RowSchema:  # type: ignore[override]
        fields = self.input.schema.fields
        return L.RowSchema((*_materialized(fields[: self.op]), *_materialized(fields[self.op + 1 :])))

    @property
    def kinds(self) -> frozenset[RowKind]:
        """The kinds that may come."""
        return frozenset(kind for _, kind in self.codes)


def _materialized(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(Field(f.name, f.type.materialized()) for f in fields)


def to_changelog(rel: L.Rel, op: str = "op", mapping: Iterable[tuple[str, str]] | None = None) -> L.Rel:
    """The changes of a plan as rows.

    Args:
        rel: the plan.
        op: name of the column with the code.
        mapping: kinds, several separated by commas, and their code; None: all kinds by their names.

    Raises:
        ValidationException: a kind is none, or the column's name is taken.
    """
    if op in rel.schema.names:
        raise ValidationException(f"Field names must be unique. Found duplicates: [{op}]; give TO_CHANGELOG another op")
    codes = {kind: name for name, kind in KINDS.items()}
    if mapping is not None:
        codes = {_kind(name): code for names, code in mapping for name in _split(names)}
    return ToChangelog(rel, op, tuple(codes.items()))


def from_changelog(rel: L.Rel, op: str = "op", mapping: Iterable[tuple[str, str]] | None = None) -> L.Rel:
    """Rows as the changes that a column says they are.

    Args:
        rel: the plan; its rows are only inserted.
        op: name of the column with the code, a STRING.
        mapping: codes, several separated by commas, and the kind they stand for; None: the kinds' names.

    Raises:
        ValidationException: there is no such column, it is no text, or the mapping makes no changelog.
    """
    found = rel.schema.find(op)
    if not found:
        raise ValidationException(f"The op column '{op}' does not exist in the input schema.")
    type_ = rel.schema[found[0]].type
    if not type_.is_character:
        raise ValidationException(f"The op column '{op}' must be of STRING type, but was '{type_.null()}'.")
    pairs = [(name, name) for name in KINDS] if mapping is None else list(mapping)
    names = [name for _, name in pairs]
    codes = [(code, _kind(name)) for texts, name in pairs for code in _split(texts)]
    for name in names:
        if names.count(name) > 1:
            raise ValidationException(
                f"Invalid target mapping for argument 'op_mapping'. Duplicate change operation: '{name}'. Use "
                f"comma-separated keys to map multiple codes to the same operation (e.g., MAP['c, r', '{name}'])."
            )
    if "UPDATE_AFTER" in names and "UPDATE_BEFORE" not in names:
        raise ValidationException(
            "The 'op_mapping' must include UPDATE_BEFORE for retract mode. Upsert mode (without UPDATE_BEFORE) is not "
            "supported in this version."
        )
    return FromChangelog(rel, found[0], tuple(codes))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _kind(name: str) -> RowKind:
    if name not in KINDS:
        raise ValidationException(
            f"Invalid target mapping for argument 'op_mapping'. Unknown change operation: '{name}'. Valid values are: "
            f"[{', '.join(KINDS)}]."
        )
    return KINDS[name]
