"""Configuration: keys with values, checked against the options that exist.

An option that is known here has an effect. A key that Flink knows and that means nothing here gives one warning. Any
other key is an error that names the nearest one.
"""

from __future__ import annotations

import datetime as _dt
import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from streamline._core.options import ALIASES, FOREIGN, FOREIGN_PREFIXES, OPTIONS, Option
from streamline._core.time import to_millis
from streamline.errors import ValidationException

__all__ = ("Configuration", "parse_memory")

_MEMORY: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")
_MEMORY_UNITS: Final = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_TRUE_FALSE: Final = {"true": True, "false": False}


def parse_memory(text: str) -> int:
    """Bytes of text such as '64kb' or '128 mb'; a ValueError where it is none."""
    m = _MEMORY.fullmatch(text)
    if m is None or m[2].lower() not in _MEMORY_UNITS:
        raise ValueError(f"not an amount of memory: {text!r}; write e.g. '64kb', '128 mb'")
    return int(m[1]) * _MEMORY_UNITS[m[2].lower()]


def _text(value: Any) -> str:
    """A value as it stands in a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _dt.timedelta):
        return f"{to_millis(value)} ms"
    if isinstance(value, Mapping):
        return ",".join(f"{k}:{v}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ";".join(map(_text, value))
    if isinstance(value, Option):
        raise ValidationException(f"{value.key} is an option, not a value")
    return str(value)


def _parse(option: Option, text: str) -> Any:
    match option.type:
        case "bool":
            if text.strip().lower() in _TRUE_FALSE:
                return _TRUE_FALSE[text.strip().lower()]
            raise ValueError("has to be true or false")
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "duration":
            millis = to_millis(text if not text.strip().isdigit() else int(text), option.key)
            if millis < 0:
                raise ValidationException(f"{option.key}: a duration cannot be negative: {text!r}")
            return millis
        case "memory":
            return parse_memory(text)
        case "enum":
            wanted = text.strip().upper().replace("_", "-")
            for choice in option.choices:
                if choice.upper().replace("_", "-") == wanted:
                    return choice
            raise ValueError("has to be one of " + ", ".join(option.choices))
        case "list":
            return [part.strip() for part in text.split(";") if part.strip()]
        case "map":
            pairs = [part.split(":", 1) for part in text.split(",") if part.strip()]
            if any(len(p) != 2 for p in pairs):
                raise ValueError("has to be written key:value,key:value")
            return {k.strip(): v.strip() for k, v in pairs}
    return text


def find_option(key: str) -> Option | None:
    """The option of a key (or of one of its older names); None where the key is Flink's and means nothing here.

    Raises:
        ValidationException: nobody knows the key; the message names the nearest, where one is near.
    """
    option = OPTIONS.get(ALIASES.get(key, key))
    if option is not None:
        return option
    if key in FOREIGN or key.startswith(FOREIGN_PREFIXES):
        return None
    near = difflib.get_close_matches(key, [*OPTIONS, *ALIASES, *FOREIGN], 1, 0.7)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValidationException(f"unknown configuration key {key!r}{hint}")


class Configuration:
    """Options by key. Values may be given as text or as Python's own (bool, int, float, timedelta, list, dict)."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            values: keys and values to begin with.

        Raises:
            ValidationException: a key that nobody knows, or a value that is none of its option's type.
        """
        self._values: dict[str, str] = {}
        self._warned: dict[str, None] = {}
        #: Called with (key, text) behind every change: how an environment notices that one comes too late.
        self._observers: list[Callable[[str, str | None], None]] = []
        for key, value in (values or {}).items():
            self.set(key, value)

    # -- writing -------------------------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> Configuration:
        """Set an option; gives the configuration back.

        Raises:
            ValidationException: a key that nobody knows, or a value that is none of the option's type.
        """
        option = find_option(key)
        text = _text(value)
        if option is None:
            self._warn_idle(key)
            self._values[key] = text
            return self
        try:
            value = _parse(option, text)
        except (ValueError, ValidationException) as e:
            raise ValidationException(f"{key}: {text!r} is no value of type {option.type}: {e}") from None
        if option.reader == "nobody" and value != option.default:
            self._warn_idle(key)
        self._values[option.key] = text
        for observer in self._observers:
            observer(option.key, text)
        return self

    def _warn_idle(self, key: str) -> None:
        if key not in self._warned:
            self._warned[key] = None
            warnings.warn(
                f"configuration key {key!r} is known to Flink and has no meaning here; it is ignored",
                UserWarning,
                stacklevel=4,
            )

    set_string = set
    set_integer = set
    set_float = set
    set_boolean = set

    def add_all(self, other: Configuration | Mapping[str, Any], prefix: str = "") -> Configuration:
        """Set all options of another configuration."""
        for key, value in (other.to_dict() if isinstance(other, Configuration) else other).items():
            self.set(prefix + key, value)
        return self

    def remove_config(self, key: str) -> bool:
        """Take an option back to its default; whether it was set."""
        known = ALIASES.get(key, key)
        if self._values.pop(known, None) is None:
            return False
        for observer in self._observers:
            observer(known, None)
        return True

    def observe(self, observer: Callable[[str, str | None], None]) -> None:
        """Have `observer(key, text)` called behind every change; text is None where an option was removed."""
        self._observers.append(observer)

    # -- reading -------------------------------------------------------------------------------------------------

    def value(self, key: str) -> Any:
        """The option's value in its own type (durations in milliseconds, memory in bytes), else its default.

        Raises:
            ValidationException: there is no such option.
        """
        option = find_option(key)
        if option is None:
            return self._values.get(key)
        text = self._values.get(option.key)
        return option.default if text is None else _parse(option, text)

    def get(self, key: str, default: Any = None) -> Any:
        """The text that was set, else `default`, else the text of the option's own default."""
        option = find_option(key)
        text = self._values.get(option.key if option is not None else key)
        if text is not None or default is not None:
            return default if text is None else text
        return None if option is None or option.default is None else option.default_text

    get_string = get

    def get_integer(self, key: str, default: int | None = None) -> Any:
        """The value as a whole number."""
        return self._typed(key, default)

    def get_float(self, key: str, default: float | None = None) -> Any:
        """The value as a number."""
        found = self._typed(key, default)
        return None if found is None else float(found)

    def get_boolean(self, key: str, default: bool | None = None) -> Any:
        """The value as a bool."""
        return self._typed(key, default)

    def _typed(self, key: str, default: Any) -> Any:
        return self.value(key) if self.contains_key(key) or default is None else default

    def contains_key(self, key: str) -> bool:
        """Whether the option was set."""
        return ALIASES.get(key, key) in self._values

    def key_set(self) -> AbstractSet[str]:
        """Keys that were set."""
        return frozenset(self._values)

    def to_dict(self) -> dict[str, str]:
        """What was set, as text."""
        return dict(self._values)

    def copy(self) -> Configuration:
        """An independent copy, without observers."""
        new = Configuration()
        new._values = dict(self._values)
        new._warned = dict(self._warned)
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Configuration({self._values!r})"


def options(prefixes: Iterable[str] = ("",)) -> list[Option]:
    """All options whose keys begin with one of the prefixes."""
    starts = tuple(prefixes)
    return [o for k, o in sorted(OPTIONS.items()) if k.startswith(starts)]
