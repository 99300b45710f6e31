"""Options of a table or format: declared once, then read with their types and checked with Flink's messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast, overload

from streamline._core.config import parse_memory
from streamline._core.time import to_millis
from streamline.errors import ValidationException

__all__ = ("Option", "Options", "boolean", "choice", "duration", "integer", "listed", "memory", "text")

T = TypeVar("T")
D = TypeVar("D")

#: Options that the planner reads by itself; every table may have them.
PLANNER_OPTIONS: Final = frozenset(
    {
        "connector",
        "property-version",
        "scan.watermark.alignment.group",
        "scan.watermark.alignment.max-drift",
        "scan.watermark.alignment.update-interval",
        "scan.watermark.emit.strategy",
        "scan.watermark.emit.on-event.gap",
        "scan.watermark.idle-timeout",
    }
)

_TRUE_FALSE: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option.

    Attributes:
        key: as written in WITH.
        kind: "text", "integer", "boolean", "duration", "memory", "list" or "choice".
        default: what it is when it is not set; None where it has no default.
        choices: the values of a "choice".
        separator: of a "list".
    """

    key: str
    kind: str = "text"
    default: T | None = None
    choices: tuple[str, ...] = ()
    separator: str = ";"

    def parse(self, value: str) -> T:
        """The typed value of its text.

        Raises:
            ValidationException: it is not of the option's type.
        """
        try:
            return cast(T, self._parse(value.strip()))
        except ValueError as e:
            raise ValidationException(
                f"Invalid value for option '{self.key}'.\n\nCould not parse value '{value}' for key '{self.key}'. {e}"
            ) from None

    def _parse(self, value: str) -> Any:
        match self.kind:
            case "integer":
                try:
                    return int(value)
                except ValueError:
                    raise ValueError("A whole number is expected.") from None
            case "boolean":
                if value.lower() not in _TRUE_FALSE:
                    raise ValueError("Expected one of: [true, false]")
                return _TRUE_FALSE[value.lower()]
            case "duration":
                try:
                    return to_millis(value, f"option '{self.key}'")
                except ValidationException as e:
                    raise ValueError(str(e)) from None
            case "memory":
                return parse_memory(value)
            case "list":
                return [part.strip() for part in value.split(self.separator) if part.strip()]
            case "choice":
                for c in self.choices:
                    if c.lower().replace("_", "-") == value.lower().replace("_", "-"):
                        return c
                raise ValueError(f"Expected one of: [{', '.join(self.choices)}]")
        return value


@overload
def text(key: str, default: str) -> Option[str]: ...
@overload
def text(key: str) -> Option[str | None]: ...
def text(key: str, default: str | None = None) -> Option[Any]:
    """An option that is taken as it is written."""
    return Option(key, "text", default)


@overload
def integer(key: str, default: int) -> Option[int]: ...
@overload
def integer(key: str) -> Option[int | None]: ...
def integer(key: str, default: int | None = None) -> Option[Any]:
    """A whole number."""
    return Option(key, "integer", default)


def boolean(key: str, default: bool = False) -> Option[bool]:
    """`true` or `false`."""
    return Option(key, "boolean", default)


@overload
def duration(key: str, default: int) -> Option[int]: ...
@overload
def duration(key: str) -> Option[int | None]: ...
def duration(key: str, default: int | None = None) -> Option[Any]:
    """A duration such as `10 s`; its value is milliseconds."""
    return Option(key, "duration", default)


def memory(key: str, default: int) -> Option[int]:
    """An amount such as `128 mb`; its value is bytes."""
    return Option(key, "memory", default)


def choice(key: str, choices: Iterable[str], default: str) -> Option[str]:
    """One of several words."""
    return Option(key, "choice", default, tuple(choices))


def listed(key: str, separator: str = ";") -> Option[list[str]]:
    """Words with a separator between them."""
    return Option(key, "list", None, (), separator)


class Options:
    """The options of one table, read through the declarations of its connector and formats.

    Args:
        identifier: the connector's name, for messages.
        given: key to text.
        required, optional: the connector's own options.
        prefixes: any key that begins with one of these is accepted (`properties.`).
    """

    def __init__(
        self,
        identifier: str,
        given: Mapping[str, str],
        *,
        required: Iterable[Option[Any]] = (),
        optional: Iterable[Option[Any]] = (),
        prefixes: tuple[str, ...] = (),
    ) -> None:
        self._identifier = identifier
        self.given: Final = given
        self._required = list(required)
        self._known = {o.key for o in (*self._required, *optional)}
        self._prefixes = prefixes

    def also(self, options: Iterable[Option[Any]], prefix: str = "") -> Options:
        """Accept the options of a format too; gives them as options of their own, their keys without the prefix."""
        found = list(options)
        self._known.update(prefix + o.key for o in found)
        inner = {k[len(prefix) :]: v for k, v in self.given.items() if k.startswith(prefix)} if prefix else self.given
        return Options(self._identifier, inner, optional=found)

    def validate(self) -> None:
        """Check that all that is required is there, and nothing else than is known.

        Raises:
            ValidationException: with Flink's text, listing what is missing, or what is not supported and what is.
        """
        missing = sorted(o.key for o in self._required if o.key not in self.given)
        if missing:
            raise ValidationException(
                "One or more required options are missing.\n\nMissing required options are:\n\n" + "\n".join(missing)
            )
        unknown = sorted(
            k
            for k in self.given
            if k not in self._known and k not in PLANNER_OPTIONS and not k.startswith(self._prefixes or ("\0",))
        )
        if unknown:
            supported = sorted({"connector", *self._known})
            near = {k: difflib.get_close_matches(k, supported, 1) for k in unknown}
            hints = "".join(f"\n\nDid you mean '{found[0]}' where '{k}' is set?" for k, found in near.items() if found)
            raise ValidationException(
                f"Unsupported options found for '{self._identifier}'.\n\nUnsupported options:\n\n"
                + "\n".join(unknown)
                + "\n\nSupported options:\n\n"
                + "\n".join(supported)
                + hints
            )

    def get(self, option: Option[T]) -> T:
        """The option's value, its default where it is not set.

        Raises:
            ValidationException: the value is not of the option's type.
        """
        found = self.given.get(option.key)
        return cast(T, option.default) if found is None else option.parse(found)

    def has(self, option: Option[Any]) -> bool:
        """Whether it is set."""
        return option.key in self.given

    def prefixed(self, prefix: str) -> dict[str, str]:
        """All that begin with the prefix, without it."""
        return {k[len(prefix) :]: v for k, v in self.given.items() if k.startswith(prefix)}
