"""Types of state that are put together at run time, out of the types of columns."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

__all__ = ("dict_of", "list_of", "optional", "tuple_of")


def list_of(element: Any) -> Any:
    """`list[element]`."""
    return GenericAlias(list, (element,))


def dict_of(key: Any, value: Any) -> Any:
    """`dict[key, value]`."""
    return GenericAlias(dict, (key, value))


def tuple_of(*elements: Any) -> Any:
    """`tuple[a, b, …]`, of fixed length."""
    return GenericAlias(tuple, elements)


def optional(value: Any) -> Any:
    """`value | None`."""
    return value | None
