"""Independent copies of values that may be changed in place."""

from __future__ import annotations

import copy
import datetime as _dt
import types
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

__all__ = ("copier", "copy_value")

Copy: TypeAlias = Callable[[Any], Any]

_ATOMS: Final = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range, Decimal, UUID),
        *(_dt.date, _dt.datetime, _dt.time, _dt.timedelta, _dt.timezone),
    }
)


def copy_value(value: Any) -> Any:
    """A copy that shares nothing changeable with the original; values that cannot change are given back."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [v if type(v) in _ATOMS else copy_value(v) for v in value]
    if kind is dict:
        return {k: v if type(v) in _ATOMS else copy_value(v) for k, v in value.items()}
    if kind is tuple:
        return value if _ATOMS.issuperset(map(type, value)) else tuple(map(copy_value, value))
    if kind is set:
        return value.copy()
    if isinstance(value, (Enum, frozenset, type)):
        return value
    return copy.deepcopy(value)


def copier(hint: Any) -> Copy | None:
    """What copies values of a type; None where they can never be changed in place.

    Args:
        hint: a type or annotation; what cannot be understood is copied value by value.
    """
    return _copier(hint, frozenset())


def _copier(hint: Any, above: frozenset[Any]) -> Copy | None:
    if hint is None or (isinstance(hint, type) and (hint in _ATOMS or issubclass(hint, (Enum, type)))):
        return None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _copier(args[0], above)
    if origin is typing.Literal:
        return None
    if origin in (typing.Union, types.UnionType):
        return copy_value if any(_copier(a, above) for a in args) else None
    if origin is tuple:
        return copy_value if any(_copier(a, above) for a in args if a is not Ellipsis) else None
    if origin is frozenset or hint is frozenset:
        return None
    if origin is list and len(args) == 1:
        return list.copy if _copier(args[0], above) is None else copy_value
    if origin is dict and len(args) == 2:
        return dict.copy if _copier(args[1], above) is None else copy_value
    if origin is set or hint is set:
        return set.copy
    if isinstance(hint, type) and hint not in above:
        return _of_class(hint, above | {hint})
    return copy_value


def _of_class(cls: type, above: frozenset[Any]) -> Copy | None:
    """Of a Struct, dataclass or NamedTuple: nothing, a shallow copy or a deep one."""
    named = issubclass(cls, tuple) and hasattr(cls, "_fields")
    if not (issubclass(cls, msgspec.Struct) or is_dataclass(cls) or named):
        return copy_value
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # a name in an annotation that cannot be found from here
        return copy_value
    names = cls._fields if named else hints  # type: ignore[attr-defined]
    if any(_copier(hints.get(n, Any), above) is not None for n in names):
        return copy_value
    if named or _is_frozen(cls):
        return None
    return copy.copy


def _is_frozen(cls: Any) -> bool:
    if issubclass(cls, msgspec.Struct):
        return bool(cls.__struct_config__.frozen)
    return bool(cls.__dataclass_params__.frozen)
