"""What users hand over, checked: functions, selectors, types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamline._core.typeinfo import returned
from streamline._operators.calls import style
from streamline._operators.function import Function, instance, method_of
from streamline.errors import ValidationException

__all__ = ("checked", "event_time_of", "event_time_of_any", "result_type", "selector_of")


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


#: From what is known of several streams to what is known of them together.
_ORDER: Final = {"no": 0, "ends": 1, "yes": 2}


def event_time_of(kinds: list[str]) -> str:
    """Whether records of several streams in one carry timestamps: only where all of them do."""
    return min(kinds, key=_ORDER.__getitem__) if kinds else "no"


def event_time_of_any(kinds: list[str]) -> str:
    """Whether what a function makes of several streams can carry timestamps: where one of them does."""
    return max(kinds, key=_ORDER.__getitem__) if kinds else "no"
