"""Changes: the kind of a row, rows themselves, and which kinds a changelog may carry."""

from __future__ import annotations

import datetime as _dt
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

from streamline.errors import ValidationException

__all__ = ("Change", "ChangelogMode", "Row", "RowKind")

T = TypeVar("T")


class RowKind(Enum):
    """What a row does to the table that its changelog describes (Flink's RowKind, same codes)."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    # Members are compared by identity on hot paths and hashed seldom; the default hash of Enum is a Python call.
    __hash__ = object.__hash__

    @property
    def short_string(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return _SHORT[self.value]

    @property
    def is_retraction(self) -> bool:
        """Whether the row takes back one sent before (-U, -D)."""
        return self is RowKind.UPDATE_BEFORE or self is RowKind.DELETE

    def to_byte_value(self) -> int:
        """0 to 3, as Flink encodes it."""
        return int(self.value)

    def __str__(self) -> str:
        return f"RowKind.{self.name}"

    @classmethod
    def from_short_string(cls, text: str) -> RowKind:
        """The kind of `+I`, `-U`, `+U` or `-D`; anything else is a ValueError."""
        try:
            return _BY_SHORT[text]
        except KeyError:
            raise ValueError(f"not a row kind: {text!r}; one of +I -U +U -D") from None


_SHORT: Final = ("+I", "-U", "+U", "-D")
_BY_SHORT: Final = {
    "+I": RowKind.INSERT,
    "-U": RowKind.UPDATE_BEFORE,
    "+U": RowKind.UPDATE_AFTER,
    "-D": RowKind.DELETE,
}


def _text(value: Any) -> str:
    """A value as Flink prints it inside a row: null for None, ISO times, nested rows without their kind."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Row):
        return str(value)
    if isinstance(value, (_dt.datetime, _dt.date, _dt.time)):
        text = value.isoformat()
        return text[:-6] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}={_text(v)}" for k, v in value.items()) + "}"
    return str(value)


class Row:
    """A row with a kind: fields by position, by name where it has names, and as attributes.

    `Row(1, "a")` has positions only, `Row(id=1, name="a")` has names too. Two rows are equal when their kinds and
    their values are.
    """

    __slots__ = ("_names", "_values", "kind")

    kind: RowKind
    #: A tuple, which rows may share, until a field is set; a list from then on.
    _values: Sequence[Any]

    def __init__(self, *values: Any, **named: Any) -> None:
        if values and named:
            raise TypeError("a Row takes values by position or by name, not both")
        self._values = values or tuple(named.values())
        self._names: tuple[str, ...] | None = tuple(named) if named else None
        self.kind = RowKind.INSERT

    @classmethod
    def of(cls, *values: Any) -> Row:
        """A row of positional values; with a RowKind first it is `of_kind`."""
        if values and isinstance(values[0], RowKind):
            return cls.of_kind(values[0], *values[1:])
        return cls(*values)

    @classmethod
    def of_kind(cls, kind: RowKind, *values: Any) -> Row:
        """A row of positional values with the given kind.

        Raises:
            ValidationException: `kind` is no RowKind.
        """
        row = cls(*values)
        row.set_row_kind(kind)
        return row

    @classmethod
    def with_names(cls, names: tuple[str, ...], values: Iterable[Any], kind: RowKind = RowKind.INSERT) -> Row:
        """A row whose fields have the given names; `names` is shared between rows, not copied."""
        row = cls.__new__(cls)
        row._values = tuple(values)
        row._names = names
        row.kind = kind
        return row

    def get_row_kind(self) -> RowKind:
        """The row's kind."""
        return self.kind

    def set_row_kind(self, kind: RowKind) -> None:
        """Change the row's kind.

        Raises:
            ValidationException: `kind` is no RowKind.
        """
        if not isinstance(kind, RowKind):
            raise ValidationException(f"the kind of a row is a RowKind, such as RowKind.INSERT, not {kind!r}")
        self.kind = kind

    def get_field_names(self, names_as_set: bool = False) -> list[str] | None:
        """The names of the fields, or None for a row that has positions only."""
        return None if self._names is None else list(self._names)

    def set_field_names(self, names: Iterable[str]) -> None:
        """Give the fields names; as many as there are fields."""
        given = tuple(names)
        if len(given) != len(self._values):
            raise ValueError(f"{len(given)} names for a row of {len(self._values)} fields")
        self._names = given

    def get_arity(self) -> int:
        """How many fields it has."""
        return len(self._values)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name; a row without names is a TypeError."""
        if self._names is None:
            raise TypeError(f"{self!r} has no field names; use tuple(row)")
        values = self._values
        if recursive:
            values = [v.as_dict(True) if isinstance(v, Row) and v._names is not None else v for v in values]
        return dict(zip(self._names, values))

    def _position(self, name: str) -> int:
        if self._names is None:
            raise KeyError(f"this row has positions only, no field {name!r}; its values are {list(self._values)!r}")
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(f"no field {name!r}; the row has {', '.join(self._names)}") from None

    def __getitem__(self, key: int | str | slice) -> Any:
        if isinstance(key, slice):
            return list(self._values[key])
        return self._values[self._position(key) if isinstance(key, str) else key]

    def __setitem__(self, key: int | str, value: Any) -> None:
        values = self._values
        if type(values) is not list:
            self._values = values = list(values)
        values[self._position(key) if isinstance(key, str) else key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._values[self._position(name)]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        if self.kind is not other.kind:
            return False
        mine, theirs = self._values, other._values
        return mine == theirs if type(mine) is type(theirs) else tuple(mine) == tuple(theirs)

    def __hash__(self) -> int:
        return hash((self.kind.value, tuple(self._values)))

    def __str__(self) -> str:
        return f"{self.kind.short_string}[{', '.join(map(_text, self._values))}]"

    def __repr__(self) -> str:
        if self._names is None:
            inner = ", ".join(map(repr, self._values))
        else:
            inner = ", ".join(f"{n}={v!r}" for n, v in zip(self._names, self._values))
        return f"Row({inner})" if self.kind is RowKind.INSERT else f"<{self.kind.short_string} Row({inner})>"

    def __copy__(self) -> Row:
        row = Row.__new__(Row)
        row._values, row._names, row.kind = tuple(self._values), self._names, self.kind
        return row

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._names, self._values, self.kind))


def _restore(names: tuple[str, ...] | None, values: Sequence[Any], kind: RowKind) -> Row:
    row = Row(*values)
    row._names, row.kind = names, kind
    return row


class Change(msgspec.Struct, Generic[T], frozen=True):
    """A value of a user's class with the kind of change it stands for."""

    kind: RowKind
    value: T


class ChangelogMode:
    """Which kinds of change a changelog carries."""

    __slots__ = ("kinds",)

    def __init__(self, kinds: Iterable[RowKind]) -> None:
        self.kinds: Final = frozenset(kinds)

    @classmethod
    def insert_only(cls) -> ChangelogMode:
        """Only INSERT."""
        return cls({RowKind.INSERT})

    @classmethod
    def upsert(cls) -> ChangelogMode:
        """INSERT, UPDATE_AFTER and DELETE, by key; no UPDATE_BEFORE."""
        return cls({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})

    @classmethod
    def all(cls) -> ChangelogMode:
        """All four kinds."""
        return cls(RowKind)

    def contains(self, kind: RowKind) -> bool:
        """Whether rows of this kind may come."""
        return kind in self.kinds

    @property
    def is_insert_only(self) -> bool:
        """Whether only INSERT may come."""
        return self.kinds == {RowKind.INSERT}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangelogMode) and self.kinds == other.kinds

    def __hash__(self) -> int:
        return hash(tuple(sorted(k.value for k in self.kinds)))

    def __repr__(self) -> str:
        names = {0: "I", 1: "UB", 2: "UA", 3: "D"}
        return "[" + ",".join(names[k.value] for k in RowKind if k in self.kinds) + "]"
