"""Declared types of state: written with it, and compared where it is restored under another one."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias, final
from uuid import UUID

import msgspec

from streamline._core.declare import StateSpec
from streamline.errors import StateMigrationException

__all__ = ("Migration", "Shape", "Written", "check_key", "key_shapes", "type_text")

#: What a key is as far as equality goes: a word, or those of a tuple's parts.
Shape: TypeAlias = Any

_UNKNOWN: Final = ("", "object")
#: What is not made of texts and numbers.
_NEVER_FROM_TEXT: Final = (bytes, bytearray, datetime, date, time, timedelta, UUID)


@final
class Written:
    """Stands for the type of a restored state that nobody has declared yet."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def type_text(hint: Any) -> str:
    """A declared type as text, classes with their modules; "" where nothing is declared."""
    if isinstance(hint, Written):
        return hint.text
    if hint is Any or hint is None or isinstance(hint, typing.TypeVar):
        return ""
    if isinstance(hint, type) and not typing.get_args(hint):
        module = hint.__module__
        return hint.__qualname__ if module == "builtins" else f"{module}.{hint.__qualname__}"
    return str(hint).replace("typing.", "")


def _shown(text: str) -> str:
    return text.rpartition(".")[2] if "[" not in text else text


@final
class Migration:
    """What becomes of values that were written under other types than those that are declared now.

    They have to fit: what is wider (a float where there was an int, X | None where there was X) takes them. A class is
    looked at by its values, for it may have moved.

    Attributes:
        value, key: conversions of a value and of a map's key, which raise StateMigrationException where one does not
            fit; None: the type is what it was, or is not declared.
    """

    __slots__ = ("key", "value")

    def __init__(self, before: str, key_before: str, spec: StateSpec, what: str) -> None:
        """
        Args:
            before, key_before: the types of a value and of a map's key when it was written, as text.
            spec: as it is declared now.
            what: the state, for messages.
        """
        self.value = _conversion(before, spec.type, what)
        self.key = _conversion(key_before, spec.map_key, f"{what}: the key of its map")

    def __bool__(self) -> bool:
        return self.value is not None or self.key is not None

    def entry(self, kind: str, stamped: bool) -> Callable[[Any], Any]:
        """The conversion of a whole entry of a table; `stamped` ones carry the times of their writes."""
        one, of_key = self.value or _same, self.key or _same
        inner: Callable[[Any], Any] = (lambda pair: (pair[0], one(pair[1]))) if stamped else one
        if kind == "list":
            return lambda entry: [inner(v) for v in entry]
        if kind == "map":
            return lambda entry: {of_key(k): inner(v) for k, v in entry.items()}
        return inner


def _same(value: Any) -> Any:
    return value


def _conversion(before: str, hint: Any, what: str) -> Callable[[Any], Any] | None:
    now = type_text(hint)
    if before in _UNKNOWN or now in _UNKNOWN or before == now:
        return None
    plain = hint if isinstance(hint, type) and not typing.get_args(hint) else None
    if plain is not None and issubclass(plain, dict) and hasattr(plain, "__required_keys__"):
        plain = None  # a TypedDict: isinstance does not take it
    exact = plain is not None and plain is not float

    def convert(value: Any) -> Any:
        if exact and _is_a(value, plain):
            return value
        try:
            return msgspec.convert(value, hint, builtin_types=_NEVER_FROM_TEXT)
        except msgspec.ValidationError as e:
            raise StateMigrationException(
                f"{what} was written as {_shown(before)} and is declared as {_shown(now)} now, and what it "
                f"holds does not fit: {e}. Keep the type, or give the state another name"
            ) from None
        except TypeError:  # a type that msgspec cannot check
            return value

    return convert


def _is_a(value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


# -- keys ----------------------------------------------------------------------------------------------------------


def _shape(key: Any) -> Shape:
    """What a key is: keys that may be equal have the same shape, a number or text whatever its class. None: any."""
    kind = type(key)
    if kind is str or kind is int or key is None:
        return None if key is None else "str" if kind is str else "int"
    if isinstance(key, tuple):
        return tuple(map(_shape, key))
    if isinstance(key, str):
        return "str"
    if isinstance(key, (int, float, Decimal)):
        return "int" if isinstance(key, int) else "float"
    return "bytes" if isinstance(key, bytes) else kind.__qualname__


def _alike(a: Shape, b: Shape) -> bool:
    if a is None or b is None:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return bool(a == b) or {a, b} == {"int", "float"}


def key_shapes(keys: Iterable[Any]) -> set[Shape]:
    """The shapes of keys: of one of each class."""
    return set(map(_shape, {type(key): key for key in keys}.values()))


def check_key(stored: set[Shape], key: Any) -> None:
    """Refuse a key that is of another type than all that state was stored under: it would never be found again.

    Raises:
        StateMigrationException: it is.
    """
    shape = _shape(key)
    if not stored or any(_alike(shape, s) for s in stored):
        return
    before = " or ".join(sorted(map(_name, stored)))
    raise StateMigrationException(
        f"the state that was restored has keys of type {before}, and the stream is keyed by {_name(shape)} now (by "
        f"{key!r}): what is stored would never be found again. Keep the type of the key, or give the operator a new uid"
    )


def _name(shape: Shape) -> str:
    if isinstance(shape, tuple):
        return f"tuple[{', '.join(map(_name, shape))}]"
    return "None" if shape is None else str(shape)
