"""What the value of an expression depends on beside its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

__all__ = ("EvalContext",)


def _no_clock() -> int:
    raise RuntimeError("This expression reads the current time, but was compiled without a clock.")


@dataclass(slots=True)
class EvalContext:
    """The session and the moment in which expressions are evaluated.

    Generated code reaches it under the name `ctx` of its namespace. `zone` and what follows it are in force from
    planning on and may be written into the source; the others are read at each evaluation.

    Attributes:
        now: current processing time in epoch milliseconds, from the injected clock.
        watermark: current event-time watermark of the operator in epoch milliseconds, None before the first; the
            operator sets it.
        query_start: in batch mode, epoch milliseconds of the query's start, which the CURRENT_* functions then return;
            None in streaming mode, where they read the clock for each record.
        zone: the session time zone, `table.local-time-zone`.
        database: name of the current database.
        catalog: name of the current catalog.
        legacy_cast: whether a failing CAST gives NULL, `table.exec.legacy-cast-behaviour`.
    """

    now: Callable[[], int] = _no_clock
    watermark: int | None = None
    query_start: int | None = None
    zone: tzinfo = field(default=UTC)
    database: str = "default_database"
    catalog: str = "default_catalog"
    legacy_cast: bool = False

    def __post_init__(self) -> None:
        # One object for UTC, by which code that needs no conversion is told.
        if str(self.zone) in ("UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT"):
            self.zone = UTC

    def time(self) -> int:
        """The time of CURRENT_TIMESTAMP and its kin, in epoch milliseconds."""
        return self.now() if self.query_start is None else self.query_start
