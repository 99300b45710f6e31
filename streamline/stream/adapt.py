"""What users hand over, checked: functions, selectors, types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, get_args, get_origin

import msgspec

from streamline._core.typeinfo import TypeInformation, element_text, returned, to_data_type
from streamline._core.types import DataType
from streamline._operators.calls import style
from streamline._operators.function import Function, instance, method_of
from streamline.errors import ValidationException

__all__ = (
    "check_field",
    "checked",
    "differ",
    "event_time_of",
    "event_time_of_any",
    "projected",
    "result_type",
    "selector_of",
    "text_of",
    "unkeyed",
)


def checked(function: Any, method: str, what: str) -> Any:
    """A function object with the method, or a callable.

    Raises:
        ValidationException: it is neither; a class instead of an object counts as a mistake where it is one of ours.
    """
    if isinstance(function, type) and issubclass(function, Function):
        raise ValidationException(f"{what} needs an object: {function.__name__}(), not the class {function.__name__}")
    if isinstance(function, Function):
        if callable(getattr(function, method, None)):
            return function
        raise ValidationException(f"{what} needs a function with a method {method}; {type(function).__name__} has none")
    if callable(function) or callable(getattr(function, method, None)):
        return function
    raise ValidationException(f"{what} needs a callable or an object with a method {method}, not {function!r}")


def unkeyed(function: Any, keyed: type, what: str) -> Any:
    """A function for a stream without keys.

    Raises:
        ValidationException: it is one for a stream with keys.
    """
    if isinstance(function, keyed):
        raise ValidationException(
            f"{what}: {type(function).__name__} is a {keyed.__name__}, and the stream has no keys: use key_by(...) "
            "right before it"
        )
    return function


def text_of(text: Any, what: str) -> str:
    """A name that is one.

    Raises:
        ValidationException: it is no text, or empty.
    """
    if isinstance(text, str) and text.strip():
        return text
    raise ValidationException(f"the {what} has to be a text that is not empty, not {text!r}")


def selector_of(selector: Any, what: str = "key_by") -> Callable[[Any], Any]:
    """A key selector as a plain function of a record; a KeySelector object is asked for its key.

    Raises:
        ValidationException: it is none, or async.
    """
    checked(selector, "get_key", what)
    call = method_of(instance(selector), "get_key")
    if style(call) != "sync":
        raise ValidationException(f"{what}: a key selector returns at once and cannot be async or yield: {selector!r}")
    return call


def result_type(declared: Any, function: Any, method: str, elements: bool = False) -> Any:
    """The type of a function's results: as declared, else what its annotations tell, else None."""
    if declared is not None:
        return declared
    try:
        return returned(method_of(function, method), elements)
    except AttributeError:
        return None


def check_field(element_type: Any, field: int | str, what: str) -> None:
    """Whether records of a type have a field that an aggregation is about, as far as the type tells.

    Args:
        element_type: as it was declared or inferred; None: not known, the records will tell.
        field: its number or name.
        what: "sum", "min", …: for the message, and for what the field's type has to be.

    Raises:
        ValidationException: there is no such field, or nothing can be summed or compared there.
    """
    try:
        found = to_data_type(element_type)
    except ValidationException:
        return
    if found.is_composite:
        part = _part(element_type, found, field, what)
    elif element_type in (list, dict) or get_origin(element_type) is not None or isinstance(element_type, DataType):
        return
    elif isinstance(field, str) or field != 0:
        if found.root in ("RAW", "ARRAY", "MAP", "MULTISET"):
            return
        raise ValidationException(
            f"{what}: the records are {element_text(element_type)} and have no fields, so there is no field {field!r}; "
            f"use {what}() without an argument"
        )
    else:
        part = found
    if part is not None and what == "sum" and (part.is_character or part.is_binary or part.root == "BOOLEAN"):
        raise ValidationException(
            f"sum: field {field!r} of {element_text(element_type)} is {part.summary(True)}, and is no number"
        )


def _part(element_type: Any, found: DataType, field: int | str, what: str) -> DataType | None:
    """The type of a field of a composed type; None where only the records can tell."""
    names = [f.name for f in found.fields]
    positional = found.root == "ROW" and getattr(element_type, "names", None) is None
    if isinstance(field, int):
        if 0 <= field < len(names):
            return found.fields[field].type
        there = f"they have {len(names)} fields, counted from 0"
    elif field in names and not positional:
        return found.fields[names.index(field)].type
    elif positional:
        there = f"their fields have no names; tell it by its number, 0 to {len(names) - 1}"
    elif not isinstance(element_type, TypeInformation) and (not _closed(found.cls) or hasattr(found.cls, field)):
        return None
    else:
        there = f"they have {', '.join(names)}"
    which = f"number {field}" if isinstance(field, int) else repr(field)
    raise ValidationException(f"{what}: records of type {element_text(element_type)} have no field {which}: {there}")


def differ(one: Any, other: Any) -> bool:
    """Whether two element types are known, and not the same but for what may be NULL or is not known of a part."""
    if one is None or other is None or one == other:
        return False
    try:
        return _differ(to_data_type(one), to_data_type(other))
    except ValidationException:
        return False


def _differ(one: DataType, other: DataType) -> bool:
    if "RAW" in (one.root, other.root):
        return False
    if one.root != other.root or one.cls is not other.cls or len(one.fields) != len(other.fields):
        return True
    parts = [(a.type, b.type) for a, b in zip(one.fields, other.fields)]
    parts += [
        (a, b) for a, b in ((one.element, other.element), (one.key, other.key)) if a is not None and b is not None
    ]
    return any(_differ(a, b) for a, b in parts)


def projected(element_type: Any, indexes: tuple[int, ...]) -> Any:
    """The type of some fields of tuples; None where it is not known.

    Raises:
        ValidationException: the type is known to be another, or has fewer fields.
    """
    try:
        found = to_data_type(element_type)
    except ValidationException:
        return None
    is_tuple = found.root == "ROW" or (isinstance(found.cls, type) and issubclass(found.cls, tuple))
    if not is_tuple and found.root not in ("RAW", "ARRAY"):
        raise ValidationException(f"project keeps fields of tuples and Rows, and {element_text(element_type)} is none")
    if is_tuple and max(indexes) >= len(found.fields):
        raise ValidationException(
            f"project: there is no field number {max(indexes)}; {element_text(element_type)} has {len(found.fields)}, "
            "counted from 0"
        )
    parts = getattr(element_type, "parts", None) or (get_args(element_type) if is_tuple else ())
    if not parts or any(parts[i] is None for i in indexes):
        return None
    return tuple[tuple(parts[i] for i in indexes)]  # type: ignore[misc]


def _closed(cls: Any) -> bool:
    """Whether a class's records have no fields but those that are declared."""
    if dataclasses.is_dataclass(cls):
        return not hasattr(cls, "__post_init__")
    return isinstance(cls, type) and (issubclass(cls, msgspec.Struct) or hasattr(cls, "_fields"))


#: From what is known of several streams to what is known of them together.
_ORDER: Final = {"no": 0, "ends": 1, "yes": 2}


def event_time_of(kinds: list[str]) -> str:
    """Whether records of several streams in one carry timestamps: only where all of them do."""
    return min(kinds, key=_ORDER.__getitem__) if kinds else "no"


def event_time_of_any(kinds: list[str]) -> str:
    """Whether what a function makes of several streams can carry timestamps: where one of them does."""
    return max(kinds, key=_ORDER.__getitem__) if kinds else "no"
