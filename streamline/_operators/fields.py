"""Rolling aggregations by field, as reduce functions: sum, min, max, min_by, max_by."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from streamline._core.changes import Row
from streamline.errors import ValidationException

__all__ = ("by_field", "extreme", "field_sum", "getter", "setter")

Reduce = Callable[[Any, Any], Any]


def getter(field: int | str) -> Callable[[Any], Any]:
    """Reads a field of a record: by number (tuples, Rows, lists; 0 of anything else is the record itself) or name."""
    if isinstance(field, bool) or not isinstance(field, (int, str)):
        raise ValidationException(f"a field is told by its number or its name, not by {field!r}")

    def get(value: Any) -> Any:
        if isinstance(field, int):
            if isinstance(value, (tuple, list, Row)):
                return value[field]
            if isinstance(value, msgspec.Struct):
                return getattr(value, value.__struct_fields__[field])
            if dataclasses.is_dataclass(value):
                return getattr(value, dataclasses.fields(value)[field].name)
            if field == 0:
                return value
            raise ValidationException(f"{type(value).__name__} has no field number {field}: {value!r}")
        return value[field] if isinstance(value, (dict, Row)) else getattr(value, field)

    return get


def setter(field: int | str) -> Callable[[Any, Any], Any]:
    """Gives a copy of a record with another value in a field."""

    def put(value: Any, part: Any) -> Any:
        if isinstance(value, Row):
            row = copy.copy(value)
            row[field] = part
            return row
        if isinstance(value, dict):
            return {**value, field: part}
        if isinstance(value, msgspec.Struct):
            name = value.__struct_fields__[field] if isinstance(field, int) else field
            return msgspec.structs.replace(value, **{name: part})
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            name = dataclasses.fields(value)[field].name if isinstance(field, int) else field
            return dataclasses.replace(value, **{name: part})
        if isinstance(value, tuple):
            if isinstance(field, str):
                return value._replace(**{field: part})  # type: ignore[attr-defined]
            parts = list(value)
            parts[field] = part
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            items = list(value)
            items[field] = part  # type: ignore[index]
            return items
        if isinstance(field, str):
            changed = copy.copy(value)
            setattr(changed, field, part)
            return changed
        return part

    return put


def field_sum(field: int | str) -> Reduce:
    """Adds up a field; the other fields stay those of the first record."""
    get, put = getter(field), setter(field)
    return lambda before, value: put(before, get(before) + get(value))


def extreme(field: int | str, smallest: bool) -> Reduce:
    """The smallest or largest value of a field; the other fields stay those of the first record."""
    get, put = getter(field), setter(field)
    choose = min if smallest else max
    return lambda before, value: put(before, choose(get(before), get(value)))


def by_field(field: int | str, smallest: bool, first: bool) -> Reduce:
    """The record with the smallest or largest value of a field; of equal ones the first, or the last."""
    get = getter(field)

    def reduce(before: Any, value: Any) -> Any:
        a, b = get(before), get(value)
        if a == b:
            return before if first else value
        return before if (a < b) == smallest else value

    return reduce
