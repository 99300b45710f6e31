"""Classes in state: described when written, found again when read, built although fields came or went."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from itertools import repeat
from typing import Any, Final, get_args
from weakref import WeakValueDictionary

import msgspec

from streamline.errors import CheckpointException

__all__ = ("Classes", "fields_of")

_ABSENT: Final = object()


def fields_of(cls: Any) -> tuple[str, ...]:
    """Names of the fields of a Struct, dataclass or NamedTuple, in order."""
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if is_dataclass(cls):
        return tuple(f.name for f in fields(cls))
    return tuple(getattr(cls, "_fields", ()))


class Undeclared(CheckpointException):
    """A class cannot be found before the state that holds its values is declared."""


class Classes:
    """Finds classes by the name they were written under.

    Those that the state's declared type mentions come first, then what the program has loaded under that name, then
    what this process has written before (classes made inside functions). No module is imported for it.
    """

    _observed: WeakValueDictionary[tuple[str, str], type] = WeakValueDictionary()
    _described: dict[type, list[Any]] = {}

    def __init__(self, *hints: Any, wait: bool = False) -> None:
        """With `wait`, classes made inside functions are not guessed at: `Undeclared` is raised instead."""
        self._wait = wait
        self._declared: dict[tuple[str, str], type] = {}
        for hint in hints:
            for cls in _classes_in(hint, set()):
                self._declared[cls.__module__, cls.__qualname__] = cls
        self._found: dict[tuple[str, str], type] = {}
        #: Descriptions that values refer to by number.
        self.numbered: Sequence[Any] = ()

    @classmethod
    def describe(cls, kind: type) -> list[Any]:
        """Module, name, fields and their annotations: what is written with each column of a class."""
        found = cls._described.get(kind)
        if found is None:
            names = list(fields_of(kind))
            notes = [_annotation(kind, n) for n in names]
            found = [kind.__module__, kind.__qualname__, names, notes]
            if len(cls._described) > 4096:  # classes made in a loop
                cls._described.clear()
            cls._described[kind] = found
            cls._observed[kind.__module__, kind.__qualname__] = kind
        return found

    def resolve(self, description: Any) -> Any:
        """The class that a description (or its number in `numbered`) names.

        Raises:
            CheckpointException: the program has no such class.
        """
        if type(description) is int:
            description = self.numbered[description]
        module, name = description[0], description[1]
        found = self._found.get((module, name))
        if found is None:
            found = self._find(module, name)
            self._found[module, name] = found
        return found

    def _find(self, module: str, name: str) -> type:
        if (module, name) in self._declared:
            return self._declared[module, name]
        if self._wait and "<locals>" in name:
            raise Undeclared(name)
        target: Any = sys.modules.get(module)
        for part in name.split("."):
            target = getattr(target, part, None) if target is not None else None
        if _is_data(target):
            return typing.cast("type", target)
        if (module, name) in self._observed:
            return self._observed[module, name]
        moved = [c for c in self._declared.values() if c.__name__ == name.rpartition(".")[2]]
        if len(moved) == 1:
            return moved[0]
        if self._wait:
            raise Undeclared(name)
        raise CheckpointException(
            f"the state holds values of {module}.{name}, and the program has no such class (no Struct, dataclass, "
            "NamedTuple or enum of that name is loaded). Import its module before the job starts, or declare the "
            "class as the type of the state"
        )

    def build(self, description: Any, columns: list[list[Any]], n: int) -> list[Any]:
        """Values of a class from the columns of its fields as they were written."""
        if type(description) is int:
            description = self.numbered[description]
        cls = self.resolve(description)
        written, notes = description[2], description[3]
        now = fields_of(cls)
        by_name = dict(zip(written, columns))
        for name, note in zip(written, notes):
            if name in now and note != _annotation(cls, name):
                by_name[name] = _retype(cls, name, note, by_name[name])
        wanted: list[Any] = [by_name[f] if f in by_name else _default(cls, f, n) for f in now]
        if not issubclass(cls, msgspec.Struct) and is_dataclass(cls):
            return _build_dataclasses(cls, now, wanted, n)
        if not now:
            return [cls() for _ in range(n)]
        if not issubclass(cls, msgspec.Struct):
            return list(map(cls._make, zip(*wanted)))
        if _is_positional(cls, now):
            return list(map(cls, *wanted))
        return [cls(**dict(zip(now, values))) for values in zip(*wanted)]


def _is_data(cls: Any) -> bool:
    """Whether values of it may be made from a file."""
    if not isinstance(cls, type):
        return False
    if issubclass(cls, (msgspec.Struct, Enum, str, int, float, bytes)) or is_dataclass(cls):
        return True
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _classes_in(hint: Any, seen: set[Any]) -> Iterator[type]:
    """The data classes that an annotation mentions, down through their fields."""
    for arg in get_args(hint):
        yield from _classes_in(arg, seen)
    if not _is_data(hint) or hint in seen or hint in (str, int, float, bytes, bool):
        return
    seen.add(hint)
    yield hint
    if issubclass(hint, Enum):
        return
    try:
        hints = typing.get_type_hints(hint)
    except Exception:  # an annotation that cannot be evaluated from here mentions nothing we could find
        return
    for inner in hints.values():
        yield from _classes_in(inner, seen)


def _annotation(cls: type, name: str) -> str:
    """The annotation of a field as text, "" where there is none."""
    for base in cls.__mro__:
        note = inspect.get_annotations(base).get(name) if isinstance(base, type) else None
        if note is not None:
            text = note.__name__ if isinstance(note, type) else str(note)
            return text.replace("typing.", "")
    return ""


def _retype(cls: type, name: str, before: str, column: list[Any]) -> list[Any]:
    """A column whose field has another annotation now: fine where the values are of the new type too."""
    try:
        hint = typing.get_type_hints(cls)[name]
    except Exception:  # not to be evaluated from here: as good as not annotated
        return column
    wanted: Any = list[hint]  # type: ignore[valid-type]
    try:
        return typing.cast("list[Any]", msgspec.convert(column, wanted))
    except msgspec.ValidationError as e:
        raise CheckpointException(
            f"{cls.__qualname__}.{name} was {before} when the state was written and is {_annotation(cls, name)} now: "
            f"{e}. Keep the type, or give the field another name and a default"
        ) from None
    except TypeError:  # a type that msgspec cannot check
        return column


def _default(cls: Any, name: str, n: int) -> Any:
    """A column for a field that was not there when the state was written."""
    factory: Any = None
    default: Any = _ABSENT
    if issubclass(cls, msgspec.Struct):
        info = {f.name: f for f in msgspec.structs.fields(cls)}[name]
        if info.default is not msgspec.NODEFAULT:
            default = info.default
        elif info.default_factory is not msgspec.NODEFAULT:
            factory = info.default_factory
    elif is_dataclass(cls):
        field = {f.name: f for f in fields(cls)}[name]
        if field.default is not MISSING:
            default = field.default
        elif field.default_factory is not MISSING:
            factory = field.default_factory
    else:
        default = cls._field_defaults.get(name, _ABSENT)
    if factory is not None:
        return [factory() for _ in range(n)]
    if default is _ABSENT:
        raise CheckpointException(
            f"{cls.__module__}.{cls.__qualname__} has a new field {name!r} that the state was written without: "
            "give it a default"
        )
    return list(repeat(default, n))


def _is_positional(cls: Any, names: tuple[str, ...]) -> bool:
    """Whether the constructor takes the fields by position, in their order."""
    parameters = inspect.signature(cls).parameters.values()
    return tuple(p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY) == names


def _build_dataclasses(cls: Any, names: tuple[str, ...], columns: list[list[Any]], n: int) -> list[Any]:
    """Without their `__init__`: a dataclass comes back as it was, whatever its constructor takes or computes."""
    made = [cls.__new__(cls) for _ in range(n)]
    put = object.__setattr__
    for name, column in zip(names, columns):
        for value, field in zip(made, column):
            put(value, name, field)
    return made
