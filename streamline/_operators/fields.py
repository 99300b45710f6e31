"""Rolling aggregations by field, as reduce functions: sum, min, max, min_by, max_by."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from streamline._core.changes import Row
from streamline.errors import ValidationException

__all__ = ("Rolling", "by_field", "extreme", "field_names", "field_sum", "getter", "setter")

Reduce = Callable[[Any, Any], Any]


class Rolling:
    """A reduce function of two records that looks at one field, and `check`, which looks at a single record.

    A reduce function is not called for the first record of a key: `check` says there whether the field is there.
    """

    __slots__ = ("_reduce", "check")

    def __init__(self, reduce: Reduce, check: Callable[[Any], Any]) -> None:
        self._reduce = reduce
        #: Gives the record back; raises what the reduce function would.
        self.check = check

    def __call__(self, before: Any, value: Any) -> Any:
        return self._reduce(before, value)


def field_names(value: Any) -> list[str]:
    """Names of a record's fields, as far as it tells them."""
    if isinstance(value, Row):
        return value.get_field_names() or []
    if isinstance(value, dict):
        return [str(k) for k in value]
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        return [f.name for f in dataclasses.fields(value)]
    return list(getattr(value, "_fields", ()) or getattr(value, "__dict__", ()))


def _no_field(value: Any, field: int | str) -> ValidationException:
    names = field_names(value)
    if names:
        there = f"it has {', '.join(names)}"
    elif isinstance(value, (tuple, list, Row)):
        there = f"its fields are told by number, 0 to {len(value) - 1}" if len(value) else "it is empty"
    else:
        there = "it is no record of fields"
    which = f"number {field}" if isinstance(field, int) else repr(field)
    return ValidationException(f"{type(value).__name__} has no field {which}: {there}")


def getter(field: int | str) -> Callable[[Any], Any]:
    """Reads a field of a record: by number (tuples, Rows, lists; 0 of anything else is the record itself) or name.

    Raises:
        ValidationException: it is neither a number from 0 nor a name; when reading: the record has no such field.
    """
    if isinstance(field, bool) or not isinstance(field, (int, str)) or (isinstance(field, int) and field < 0):
        raise ValidationException(f"a field is told by its number (from 0) or its name, not by {field!r}")

    def read(value: Any) -> Any:
        if isinstance(field, int):
            if isinstance(value, (tuple, list, Row)):
                return value[field]
            if isinstance(value, msgspec.Struct):
                return getattr(value, value.__struct_fields__[field])
            if dataclasses.is_dataclass(value):
                return getattr(value, dataclasses.fields(value)[field].name)
            if field == 0:
                return value
            raise IndexError(field)
        return value[field] if isinstance(value, (dict, Row)) else getattr(value, field)

    def get(value: Any) -> Any:
        try:
            return read(value)
        except (AttributeError, LookupError):
            raise _no_field(value, field) from None

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


def _addable(get: Callable[[Any], Any], field: int | str) -> Callable[[Any], Any]:
    """Whether a record's field is something that a sum can be made of."""

    def check(value: Any) -> Any:
        part = get(value)
        if isinstance(part, (str, bytes, list, tuple)) or not hasattr(part, "__add__"):
            raise ValidationException(f"{type(part).__name__} cannot be summed: {part!r} in field {field!r}")
        return value

    return check


def _comparable(get: Callable[[Any], Any], field: int | str) -> Callable[[Any], Any]:
    """Whether a record's field is something that has an order."""

    def check(value: Any) -> Any:
        part = get(value)
        try:
            part < part  # noqa: B015 (only whether it can be asked)
        except TypeError:
            raise ValidationException(f"{type(part).__name__} has no order: {part!r} in field {field!r}") from None
        return value

    return check


def field_sum(field: int | str) -> Rolling:
    """Adds up a field; the other fields stay those of the first record."""
    get, put = getter(field), setter(field)
    return Rolling(lambda before, value: put(before, get(before) + get(value)), _addable(get, field))


def extreme(field: int | str, smallest: bool) -> Rolling:
    """The smallest or largest value of a field; the other fields stay those of the first record."""
    get, put = getter(field), setter(field)
    choose = min if smallest else max
    return Rolling(lambda before, value: put(before, choose(get(before), get(value))), _comparable(get, field))


def by_field(field: int | str, smallest: bool, first: bool) -> Rolling:
    """The record with the smallest or largest value of a field; of equal ones the first, or the last."""
    get = getter(field)

    def reduce(before: Any, value: Any) -> Any:
        a, b = get(before), get(value)
        if a == b:
            return before if first else value
        return before if (a < b) == smallest else value

    return Rolling(reduce, _comparable(get, field))
