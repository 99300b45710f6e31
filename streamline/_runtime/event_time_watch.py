"""What of event time nobody would see: that records come too late for it, and who keeps it from beginning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from streamline._core.elements import Batch
from streamline._core.time import Clock
from streamline._runtime.metrics import Counter

__all__ = ("EventTimeWatch", "LateWatch", "held_back")

_log = logging.getLogger("streamline.watermarks")


@final
class EventTimeWatch:
    """Warns once where event time has not begun after many records and some seconds.

    Args:
        clock: the job's.
        where: who is watched.
        begun: whether there has been a watermark.
        reason: who or what holds it back, None where it cannot be said.
    """

    __slots__ = ("_begun", "_clock", "_due", "_reason", "_where", "over")

    #: So many records, and milliseconds since the first of them.
    RECORDS: Final = 1000
    MILLIS: Final = 10_000

    def __init__(self, clock: Clock, where: str, begun: Callable[[], bool], reason: Callable[[], str | None]) -> None:
        self._clock = clock
        self._where = where
        self._begun = begun
        self._reason = reason
        self._due: int | None = None
        #: Nothing is left to be watched.
        self.over = False

    def saw(self, records: int) -> None:
        """So many records have come in all."""
        if self._begun():
            self.over = True
            return
        now = self._clock.now()
        if self._due is None:
            self._due = now + self.MILLIS
        if records < self.RECORDS or now < self._due:
            return
        self._due = now + self.MILLIS
        reason = self._reason()
        if reason is not None:
            self.over = True
            _log.warning("%s: no watermark after %d records: %s", self._where, records, reason)


def held_back(by: Sequence[str], what: str) -> str | None:
    """The reason where some inputs have a watermark and others have not."""
    if not by:
        return None
    names = ", ".join(map(repr, by[:10])) + (", …" if len(by) > 10 else "")
    return (
        f"{what} {names} had none yet and holds the others back; windows and timers of event time wait. Where it may "
        "be silent, with_idleness(…) ('scan.watermark.idle-timeout' in SQL) lets the others go on"
    )


@final
class LateWatch:
    """Says once that an operator drops late records."""

    __slots__ = ("_before", "_counter", "_where", "over")

    def __init__(self, where: str, counter: Any) -> None:
        self._where = where
        self._counter = counter if isinstance(counter, Counter) else None
        self._before = self._counter.get_count() if self._counter is not None else 0
        #: Nothing is left to be watched.
        self.over = self._counter is None

    def saw(self, batch: Batch, watermark: int) -> None:
        """The operator was given a batch at this watermark (epoch ms)."""
        assert self._counter is not None
        dropped = self._counter.get_count() - self._before
        if not dropped:
            return
        self.over = True
        times = batch.timestamps
        known = [] if times is None else [(t, i) for i, t in enumerate(times) if t is not None]
        which = f"; of these the earliest: {batch.values[min(known)[1]]!r}"[:200] if known else ""
        _log.warning(
            "%s: records come too late for event time and are dropped: %d of the last %d, at watermark %d%s. They "
            "count in numLateRecordsDropped. To keep them: a larger bound in the watermark strategy, "
            "allowed_lateness or side_output_late_data; in SQL `WHERE ts <= CURRENT_WATERMARK(ts)` gives them",
            self._where,
            dropped,
            len(batch),
            watermark,
            which,
        )
