"""The builders of sources and sinks, made from the keywords of their constructors.

`X.builder().set_a(v).build()` is `X(a=v)`: a connector is described once, by its constructor.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ("Builder", "builder_of")

T = TypeVar("T")


class Builder(Generic[T]):
    """Collects keyword arguments. `set_x(v)` is the keyword x; several values become a list, none is True.

    Also: `set_property(key, value)` adds one entry to the keyword `properties`, `set_properties(mapping)` several.
    """

    def __init__(self, make: Callable[..., T], aliases: dict[str, Callable[..., dict[str, Any]]] | None = None) -> None:
        self._make = make
        self._keywords = [p for p in inspect.signature(make).parameters if not p.startswith("_")]
        self._aliases = aliases or {}
        self._given: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Builder[T]]:
        if name.startswith("_"):
            raise AttributeError(name)
        if not name.startswith("set_"):
            raise AttributeError(self._unknown(name))
        keyword = name[4:]
        alias = self._aliases.get(keyword)
        if alias is None and keyword not in self._keywords:
            raise AttributeError(self._unknown(name))

        def set_(*values: Any) -> Builder[T]:
            if alias is not None:
                self._given.update(alias(*values))
            else:
                self._given[keyword] = values[0] if len(values) == 1 else list(values) if values else True
            return self

        return set_

    def set_property(self, key: str, value: Any) -> Builder[T]:
        """Add one property of the client."""
        return self.set_properties({key: value})

    def set_properties(self, properties: dict[str, Any]) -> Builder[T]:
        """Add properties of the client."""
        self._given["properties"] = {**self._given.get("properties", {}), **properties}
        return self

    def build(self) -> T:
        """The object.

        Raises:
            ValidationException: something that is needed was not set, or does not fit.
        """
        return self._make(**self._given)

    def _unknown(self, name: str) -> str:
        setters = sorted(f"set_{k}" for k in {*self._keywords, *self._aliases})
        near = difflib.get_close_matches(name, setters, 1)
        made = getattr(self._make, "__name__", "object")
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(setters)}, build"
        return f"the builder of {made} has no {name!r}; {hint}"


def builder_of(
    make: Callable[..., T], aliases: dict[str, Callable[..., dict[str, Any]]] | None = None
) -> Callable[[], Builder[T]]:
    """The static method `builder` of a class; `aliases` are setters that are no keywords of their own."""
    return lambda: Builder(make, aliases)
