"""Which record an error is about, where generated code was at work.

Loops that are generated for queries handle whole batches, and give their files names such as `<streamline calc 1f2e>`;
the record at hand is their local `r`. So the error's own traceback tells, and the loops pay nothing for it.
"""

from __future__ import annotations

from typing import Any, Final

from streamline._core.failure import NotNull
from streamline.errors import TableException

__all__ = ("explained", "note_record")

_LONGEST: Final = 500
_NOTHING: Final = object()


def note_record(error: BaseException) -> None:
    """Say in the error's notes which record generated code was working on, where that is known and not said yet."""
    if any(n.startswith("record: ") for n in getattr(error, "__notes__", ())):
        return
    found: Any = _NOTHING
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename.startswith("<streamline "):
            found = frame.f_locals.get("r", found)
        trace = trace.tb_next
    if found is _NOTHING:
        return
    try:
        text = repr(found)
    except Exception as e:  # a broken __repr__ must not hide the error that is being reported
        text = f"<{type(found).__name__} whose repr fails with {type(e).__name__}>"
    error.add_note(f"record: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}")


def explained(error: Exception) -> Exception:
    """The error to be told: where it comes from None in a column that is NOT NULL, one that says that, else itself."""
    if not isinstance(error, (TypeError, AttributeError)):
        return error
    said: str | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename.startswith("<streamline ") and "r" in frame.f_locals:
            for known in frame.f_globals.values():
                if isinstance(known, NotNull):
                    said = known.missing(frame.f_locals["r"], frame.f_globals) or said
        trace = trace.tb_next
    if said is None:
        return error
    told = TableException(said)
    for line in getattr(error, "__notes__", ()):
        told.add_note(line)
    return told
