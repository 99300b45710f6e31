"""JSON paths: `$.a['b'][0][*]..c[?(@.d > 1)]`."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

__all__ = ("JsonPath", "PathError", "compile_path")


class PathError(Exception):
    """A path that is not one, or that leads nowhere."""


#: Gives, for a value, the values that a step leads to; if `must`, a value that the step cannot start from is an error;
#: `last` says that no further step follows.
Step = Callable[[Any, bool, bool], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled path.

    Attributes:
        steps: each with whether all before it lead to one value at most.
        definite: whether it leads to one value at most; else its result is the list of all.
        text: as written.
    """

    steps: tuple[tuple[Step, bool], ...]
    definite: bool
    text: str

    def read(self, document: Any, lax: bool) -> Any:
        """What the path leads to; where it leads nowhere, None or an empty list if lax.

        Raises:
            PathError: if it is definite, or was so up to where it ended, and leads nowhere.
        """
        found = self.all(document, not lax)
        if not self.definite:
            return found
        if not found and not lax:
            raise PathError(f"No results for path: {self.text}")
        return found[0] if found else None

    def all(self, document: Any, strict: bool = False) -> list[Any]:
        """All values that the path leads to.

        Raises:
            PathError: if `strict`, and a step cannot start from the one value that those before it lead to.
        """
        values = [document]
        last = len(self.steps)
        for place, (step, definite) in enumerate(self.steps, 1):
            values = [v for value in values for v in step(value, strict and definite, place == last)]
        return values


@functools.lru_cache(maxsize=512)
def compile_path(text: str) -> JsonPath:
    """A path as text, compiled.

    Raises:
        PathError: if it is not one.
    """
    reader = _Reader(text if text[:1] in ("$", "@") else f"$.{text}")
    path = reader.path(top=True)
    if reader.at < len(reader.text):
        raise PathError(f"Could not compile the JSON path '{text}' at {reader.at + 1}")
    return path


# -- steps -------------------------------------------------------------------------------------------------------


def _refuse(must: bool, what: str) -> None:
    if must:
        raise PathError(f"Missing in path: {what}")


def _property(name: str) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if not isinstance(value, dict):
            _refuse(must, f"an object with property ['{name}']")
        elif name in value:
            yield value[name]
        elif not last:
            _refuse(must, f"property ['{name}']")

    return step


def _properties(names: Sequence[str]) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if not isinstance(value, dict):
            _refuse(must, f"an object with properties {', '.join(names)}")
        elif last:
            yield {n: value[n] for n in names if n in value}
        else:
            yield from (value[n] for n in names if n in value)

    return step


def _indexes(indexes: Sequence[int]) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if not isinstance(value, list):
            _refuse(must, "an array")
            return
        for i in indexes:
            if -len(value) <= i < len(value):
                yield value[i]

    return step


def _slice(start: int | None, end: int | None) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:end]
        else:
            _refuse(must, "an array")

    return step


def _children(value: Any, must: bool = False, last: bool = False) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Any, must: bool = False, last: bool = False) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _descendants(child)


def _filter(test: Callable[[Any], bool]) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if not isinstance(value, (list, dict)):
            _refuse(must, "an object or array to filter")
            return
        for item in value if isinstance(value, list) else (value,):
            if test(item):
                yield item

    return step


def _function(name: str) -> Step:
    def step(value: Any, must: bool, last: bool) -> Iterator[Any]:
        if name in ("length", "size"):
            if isinstance(value, (dict, list)):
                yield len(value)
        elif name == "keys":
            if isinstance(value, dict):
                yield list(value)
        elif isinstance(value, list):
            numbers = [float(v) for v in value if isinstance(v, (int, Decimal)) and not isinstance(v, bool)]
            if numbers:
                total = sum(numbers)
                yield {"min": min(numbers), "max": max(numbers), "sum": total, "avg": total / len(numbers)}[name]

    return step


_FUNCTIONS: Final = ("length", "size", "keys", "min", "max", "sum", "avg")


# -- reading -----------------------------------------------------------------------------------------------------


class _Reader:
    """Reads paths, and the paths and conditions within them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self) -> PathError:
        return PathError(f"Could not compile the JSON path '{self.text}' at {self.at + 1}")

    def match(self, pattern: str) -> re.Match[str] | None:
        match = re.compile(pattern).match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def path(self, top: bool) -> JsonPath:
        """A path from `$` or `@` on; within a condition it ends where it cannot go on."""
        start = self.at
        if self.match(r"\s*[$@]") is None:
            raise self.fail()
        steps: list[tuple[Step, bool]] = []
        definite = True
        while self.at < len(self.text):
            one = True
            if self.take(".."):
                steps.append((_descendants, definite))
                definite = False
                if self.text[self.at : self.at + 1] == "[":
                    continue
                step = self._name()
            elif self.take("."):
                one = not self.take("*")
                step = self._name() if one else _children
            elif self.take("["):
                step, one = self._bracket()
            else:
                if top:
                    self.match(r"\s+$")
                break
            steps.append((step, definite))
            definite = definite and one
        return JsonPath(tuple(steps), definite, self.text[start : self.at])

    def _name(self) -> Step:
        function = self.match(rf"({'|'.join(_FUNCTIONS)})\(\)")
        if function is not None:
            return _function(function[1])
        if self.take("*"):
            return _children
        name = self.match(r"[^\s.\[\]()=<>!&|,?*]+")
        if name is None:
            raise self.fail()
        return _property(name[0])

    def _bracket(self) -> tuple[Step, bool]:
        """What stands in `[…]`, and whether it leads to one value at most."""
        if self.match(r"\s*\*\s*\]"):
            return _children, False
        if self.match(r"\s*\?\s*\("):
            test = self._condition()
            if self.match(r"\s*\)\s*\]") is None:
                raise self.fail()
            return _filter(test), False
        sliced = self.match(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*\]")
        if sliced is not None:
            start, end = (int(g) if g else None for g in sliced.groups())
            return _slice(start, end), False
        numbers = self.match(r"\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]")
        if numbers is not None:
            indexes = [int(n) for n in numbers[1].split(",")]
            return _indexes(indexes), len(indexes) == 1
        names = [self._quoted()]
        while self.match(r"\s*,\s*"):
            names.append(self._quoted())
        if self.match(r"\s*\]") is None:
            raise self.fail()
        if len(names) == 1:
            return _property(names[0]), True
        return _properties(names), self.at == len(self.text)

    def _quoted(self) -> str:
        match = self.match(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""")
        if match is None:
            raise self.fail()
        text = match[1] if match[1] is not None else match[2]
        return re.sub(r"\\(.)", r"\1", text)

    # -- conditions ----------------------------------------------------------------------------------------------

    def _condition(self) -> Callable[[Any], bool]:
        tests = [self._conjunction()]
        while self.match(r"\s*\|\|\s*"):
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def _conjunction(self) -> Callable[[Any], bool]:
        tests = [self._test()]
        while self.match(r"\s*&&\s*"):
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else lambda item: all(test(item) for test in tests)

    def _test(self) -> Callable[[Any], bool]:
        if self.match(r"\s*!\s*(?!=)"):
            inner = self._test()
            return lambda item: not inner(item)
        if self.match(r"\s*\("):
            grouped = self._condition()
            if self.match(r"\s*\)") is None:
                raise self.fail()
            return grouped
        left, exists = self._operand()
        sign = self.match(r"\s*(==|!=|<=|>=|<|>|=~|in\b|nin\b|contains\b|size\b|empty\b)\s*")
        if sign is None:
            return exists
        if sign[1] == "=~":
            return self._regex(left)
        right, _ = self._operand()
        return _comparison(sign[1], left, right)

    def _operand(self) -> tuple[Callable[[Any], Any], Callable[[Any], bool]]:
        """A value within a condition, and the test whether it is there."""
        if self.match(r"\s*(?=[@$])"):
            path = self.path(top=False)

            def read(item: Any) -> Any:
                found = path.all(item)
                return found if not path.definite else found[0] if found else _MISSING

            return read, lambda item: bool(path.all(item))
        constant = self._constant()
        return (lambda item: constant), (lambda item: bool(constant))

    def _constant(self) -> Any:
        if self.match(r"\s*\["):
            items: list[Any] = []
            while self.match(r"\s*\]") is None:
                items.append(self._constant())
                self.match(r"\s*,")
            return items
        number = self.match(r"\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
        if number is not None:
            return int(number[1]) if re.fullmatch(r"-?\d+", number[1]) else Decimal(number[1])
        word = self.match(r"\s*(true|false|null)\b")
        if word is not None:
            return {"true": True, "false": False, "null": None}[word[1]]
        return self._quoted()

    def _regex(self, left: Callable[[Any], Any]) -> Callable[[Any], bool]:
        match = self.match(r"/((?:[^/\\]|\\.)*)/([a-z]*)")
        if match is None:
            raise self.fail()
        flags = re.IGNORECASE if "i" in match[2] else 0
        try:
            pattern = re.compile(match[1], flags)
        except re.error:
            raise self.fail() from None
        return lambda item: isinstance(left(item), str) and pattern.fullmatch(left(item)) is not None


_MISSING: Final = object()
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    if a is _MISSING or b is _MISSING:
        return False
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _comparison(sign: str, left: Callable[[Any], Any], right: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def test(item: Any) -> bool:
        a, b = left(item), right(item)
        match sign:
            case "==":
                return _equal(a, b)
            case "!=":
                return not _equal(a, b)
            case "in":
                return isinstance(b, list) and any(_equal(a, x) for x in b)
            case "nin":
                return isinstance(b, list) and not any(_equal(a, x) for x in b)
            case "contains":
                return (isinstance(a, str) and isinstance(b, str) and b in a) or (
                    isinstance(a, list) and any(_equal(x, b) for x in a)
                )
            case "size":
                return isinstance(a, (str, list, dict)) and len(a) == b
            case "empty":
                return isinstance(a, (str, list, dict)) and (not a) is b
        if not ((_is_number(a) and _is_number(b)) or (isinstance(a, str) and isinstance(b, str))):
            return False
        return _ORDER[sign](a, b)

    return test
