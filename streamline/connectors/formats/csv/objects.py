"""What a Python class is in CSV: its columns, what msgspec converts into it, and the texts of its values."""

from __future__ import annotations

import base64
import datetime as _dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect

from streamline._core.changes import Row
from streamline.connectors.formats.csv.dialect import MalformedRecord
from streamline.errors import ValidationException

__all__ = ("Shape", "fields_writer", "shape_of")

#: Makes what msgspec converts of the texts of a record.
Build = Callable[[list[str]], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a class.

    Attributes:
        names: of its fields in their order; None: any (`dict`).
        required: those without a default.
        empty: what an empty text stands for, by name: None, or `...`: the default.
        positional: it is made of a list and not of a mapping.
    """

    names: tuple[str, ...] | None
    required: frozenset[str] = frozenset()
    empty: Mapping[str, Any] | None = None
    positional: bool = False

    def builder(self, columns: tuple[str, ...] | None, null: str | None) -> tuple[Build, tuple[str, ...]]:
        """What makes the convertible form of the texts of these columns, and the columns.

        Raises:
            ValidationException: a field is among no columns.
        """
        names = self.names if columns is None else columns
        assert names is not None
        if len(set(names)) < len(names):
            raise ValidationException(f"two columns have one name: {', '.join(names)}")
        if self.names is not None:
            missing = [n for n in self.names if n not in names and n in self.required]
            if missing:
                raise ValidationException(
                    f"there is no column {', '.join(missing)}; the columns are {', '.join(names)}"
                )
        if self.positional:
            return self._positional(names, null), self.names or names
        return self._by_name(names, null), names

    def _by_name(self, columns: tuple[str, ...], null: str | None) -> Build:
        wanted = None if self.names is None else set(self.names)
        extra = [] if wanted is None else [c for c in columns if c not in wanted]
        empties = [(n, e) for n, e in (self.empty or {}).items() if n in columns]
        count = len(columns)

        def build(texts: list[str]) -> dict[str, Any]:
            if len(texts) != count:
                raise _wrong_count(texts, columns)
            found: dict[str, Any] = dict(zip(columns, texts))
            for name in extra:
                del found[name]
            for name, empty in empties:
                if not found[name]:
                    if empty is ...:
                        del found[name]
                    else:
                        found[name] = empty
            if null is not None:
                for name, text in found.items():
                    if text == null:
                        found[name] = None
            return found

        return build

    def _positional(self, columns: tuple[str, ...], null: str | None) -> Build:
        assert self.names is not None
        order = [columns.index(n) for n in self.names if n in columns]
        nones = {i for i, n in enumerate(self.names) if (self.empty or {}).get(n, "") is None}
        count = len(columns)

        def build(texts: list[str]) -> list[Any]:
            if len(texts) != count:
                raise _wrong_count(texts, columns)
            picked = [texts[i] for i in order]
            return [
                None if (null is not None and text == null) or (not text and i in nones) else text
                for i, text in enumerate(picked)
            ]

        return build


def _wrong_count(texts: list[str], columns: tuple[str, ...]) -> MalformedRecord:
    what = f"it has {len(texts)} fields, and there are {len(columns)} columns"
    missing = f": '{columns[len(texts)]}' is missing" if len(texts) < len(columns) else ""
    return MalformedRecord(what + missing, len(texts))


def shape_of(type_: Any) -> Shape:
    """The columns of a class.

    Raises:
        ValidationException: CSV cannot be read as it.
    """
    if type_ is Row:
        raise ValidationException("a Row does not say the types of its fields: read a class, or a table")
    try:
        info = inspect.type_info(type_)
    except TypeError as e:
        raise ValidationException(f"CSV cannot be read as {type_!r}: {e}") from None
    match info:
        case inspect.StructType() if not info.array_like:
            return _of_fields(info.fields)
        case inspect.DataclassType() | inspect.TypedDictType():
            return _of_fields(info.fields)
        case inspect.NamedTupleType() | inspect.StructType():
            return _of_fields(info.fields, positional=True)
        case inspect.TupleType():
            names = tuple(f"field{i + 1}" for i in range(len(info.item_types)))
            empty = {n: None for n, t in zip(names, info.item_types) if _empty_is_none(t)}
            return Shape(names, frozenset(names), empty, positional=True)
        case inspect.DictType():
            return Shape(None)
    raise ValidationException(
        f"CSV cannot be read as {type_!r}: a Struct, dataclass, NamedTuple, TypedDict, tuple[…] or dict is needed"
    )


def _of_fields(found: Sequence[inspect.Field], positional: bool = False) -> Shape:
    empty: dict[str, Any] = {}
    for f in found:
        if _empty_is_none(f.type):
            empty[f.encode_name] = None
        elif not f.required and not _takes_text(f.type) and not positional:
            empty[f.encode_name] = ...
    required = frozenset(f.encode_name for f in found if f.required)
    return Shape(tuple(f.encode_name for f in found), required, empty, positional)


def _parts(type_: inspect.Type) -> tuple[inspect.Type, ...]:
    return tuple(type_.types) if isinstance(type_, inspect.UnionType) else (type_,)


def _takes_text(type_: inspect.Type) -> bool:
    return any(isinstance(t, (inspect.StrType, inspect.AnyType, inspect.BytesType)) for t in _parts(type_))


def _empty_is_none(type_: inspect.Type) -> bool:
    return any(isinstance(t, inspect.NoneType) for t in _parts(type_)) and not _takes_text(type_)


# -- writing -------------------------------------------------------------------------------------------------------


def fields_writer(columns: tuple[str, ...] | None, null: str, array_delimiter: str) -> Callable[[Any], list[str]]:
    """Gives the texts of the fields of values of any class."""
    getters: dict[type, Callable[[Any], Sequence[Any]]] = {}
    texts: dict[type, Callable[[Any], str]] = {**_TEXTS, type(None): lambda v: null}

    def text(value: Any) -> str:
        write = texts.get(type(value))
        if write is not None:
            return write(value)
        if isinstance(value, Enum):
            return text(value.value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return array_delimiter.join(map(text, value))
        for known, write in _TEXTS.items():
            if isinstance(value, known):
                return write(value)
        plain = msgspec.to_builtins(value)
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()

    def write_fields(value: Any) -> list[str]:
        getter = getters.get(type(value))
        if getter is None:
            getter = getters[type(value)] = _getter(type(value), columns)
        return list(map(text, getter(value)))

    return write_fields


def _getter(cls: type, columns: tuple[str, ...] | None) -> Callable[[Any], Sequence[Any]]:
    """Takes a value of the class apart."""
    if issubclass(cls, dict):
        return lambda v: list(v.values()) if columns is None else [v.get(c) for c in columns]
    if issubclass(cls, Row):
        return tuple if columns is None else lambda v: [v[c] for c in columns]
    if issubclass(cls, msgspec.Struct):
        attributes = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__))
    elif is_dataclass(cls):
        attributes = {f.name: f.name for f in fields(cls)}
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        attributes = {f: f for f in cls._fields}
    elif issubclass(cls, (tuple, list)):
        return tuple
    else:
        return lambda v: (v,) if columns is None else [getattr(v, c) for c in columns]
    names = [attributes.get(c, c) for c in (attributes if columns is None else columns)]
    return lambda v: [getattr(v, n) for n in names]


def _float_text(value: float) -> str:
    if value - value == 0.0:
        return repr(value)
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    str: str,
    bool: lambda v: "true" if v else "false",
    int: str,
    float: _float_text,
    Decimal: str,
    bytes: lambda v: base64.b64encode(v).decode(),
    _dt.datetime: lambda v: v.isoformat(),
    _dt.date: lambda v: v.isoformat(),
    _dt.time: lambda v: v.isoformat(),
}
