"""How a user's function has to be called: it returns or yields, now or later."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from streamline.errors import ValidationException

__all__ = ("Kinds", "Style", "close_all", "plain", "run_of", "style")

#: "sync" returns, "generator" yields, "async" is awaited, "async generator" is iterated with `async for`.
Style: TypeAlias = Literal["sync", "generator", "async", "async generator"]


def style(function: Callable[..., Any]) -> Style:
    """How to call it, as far as its definition tells. A "sync" one may still return an awaitable or an iterator."""
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isroutine(function) or isinstance(function, type)):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    if inspect.isasyncgenfunction(function):
        return "async generator"
    if inspect.iscoroutinefunction(function):
        return "async"
    if inspect.isgeneratorfunction(function):
        return "generator"
    return "sync"


class Kinds:
    """What a function has returned so far, by class: which results are plain values and which need handling.

    Looking up the classes of a batch's results costs some 10 ns a record, so every batch is looked at.
    """

    __slots__ = ("awaitable", "nothing", "plain", "several", "stream")

    def __init__(self, several: tuple[type, ...] = ()) -> None:
        """`several`: classes whose instances stand for many results (besides iterators)."""
        self.nothing: Final = type(None)
        self.plain: set[type] = {int, float, str, bool, bytes, tuple, dict}
        self.several: set[type] = {types.GeneratorType, *several}
        self.awaitable: set[type] = {types.CoroutineType}
        self.stream: set[type] = {types.AsyncGeneratorType}

    def learn(self, kinds: set[type]) -> None:
        """Sort classes that were not seen before."""
        for kind in kinds:
            if kind in self.plain or kind in self.several or kind in self.awaitable or kind in self.stream:
                continue
            if kind is self.nothing:
                continue
            if issubclass(kind, Awaitable):
                self.awaitable.add(kind)
            elif issubclass(kind, AsyncIterator):
                self.stream.add(kind)
            elif issubclass(kind, Iterator):
                self.several.add(kind)
            else:
                self.plain.add(kind)


def plain(results: list[Any], kinds: Kinds) -> bool:
    """Whether all results are plain values (None among them counts as one)."""
    seen = set(map(type, results))
    if seen <= kinds.plain:
        return True
    seen.discard(kinds.nothing)
    kinds.learn(seen)
    return seen <= kinds.plain


def close_all(results: list[Any]) -> None:
    """Close coroutines that will not be awaited any more."""
    for result in results:
        if type(result) is types.CoroutineType:
            result.close()


def run_of(result: Any) -> list[Any]:
    """The records that a function of many results has returned.

    Raises:
        ValidationException: it is nothing that can be iterated.
    """
    try:
        records = iter(result)
    except TypeError:
        raise ValidationException(
            "flat_map takes an iterable of results (a list, a generator, or None for none); the function returned "
            f"{type(result).__name__}: {result!r}. For one result a record use map"
        ) from None
    return list(records)
