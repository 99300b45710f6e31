"""Errors out of a user's function: which record it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any, Final

__all__ = ("NotNull", "note_position", "note_value", "stopped")

_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class NotNull:
    """Columns that generated code reads without looking for None: it is looked for where the code has failed.

    It stands among the globals of that code.

    Attributes:
        columns: name, type, and Python source of the value over the record `r`.
    """

    columns: tuple[tuple[str, str, str], ...]

    def missing(self, record: Any, names: Mapping[str, Any]) -> str | None:
        """What is wrong with a record, None where it is not that a column is None; `names`: the code's globals."""
        for name, type_, source in self.columns:
            try:
                value = eval(source, {**names, "r": record})
            except Exception:  # it is no such record
                return None
            if value is None:
                return f"None does not fit `{name} {type_}`"
        return None


def note_value(error: BaseException, value: Any, what: str = "record") -> None:
    """Say in the error's notes what it was working on."""
    try:
        text = repr(value)
    except Exception as e:  # a broken __repr__ must not hide the error that is being reported
        text = f"<{type(value).__name__} whose repr fails with {type(e).__name__}>"
    error.add_note(f"{what}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}")


def note_position(error: BaseException, values: Sequence[Any], rest: Iterator[Any]) -> int:
    """Say in the error's notes which record was taken last from `rest`, an iterator over `values`; gives its index.

    Loops over a batch need no counter for it: what an iterator has left tells how far it has come.
    """
    i = len(values) - length_hint(rest) - 1
    if 0 <= i < len(values):
        note_value(error, values[i])
    return i


def stopped(record: Any) -> RuntimeError:
    """What a StopIteration out of a function becomes: it would end a loop over the batch in silence."""
    error = RuntimeError("the function raised StopIteration")
    note_value(error, record)
    return error
