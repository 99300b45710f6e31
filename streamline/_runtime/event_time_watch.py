"""What of event time nobody would see: that records come too late for it, and who keeps it from beginning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from streamline._core.elements import MIN_TIMESTAMP, Batch
from streamline._core.time import Clock
from streamline._runtime.metrics import Counter

__all__ = ("EventTimeWatch", "LateWatch", "held_back", "other_unit")

_log = logging.getLogger("streamline.watermarks")

_YEAR: Final = 366 * 86_400_000


@final
class EventTimeWatch:
    """Warns once where event time has not begun after many records and some seconds, or has begun in another unit.

    Args:
        clock: the job's.
        where: who is watched.
        reached: the watermark, epoch ms.
        reason: who or what holds it back, None where it cannot be said.
        said: what all that watch in a job have said that one of them says for all.
    """

    __slots__ = ("_clock", "_due", "_reached", "_reason", "_said", "_where", "over")

    #: So many records, and milliseconds since the first of them.
    RECORDS: Final = 1000
    MILLIS: Final = 10_000

    def __init__(
        self, clock: Clock, where: str, reached: Callable[[], int], reason: Callable[[], str | None], said: set[str]
    ) -> None:
        self._clock = clock
        self._where = where
        self._reached = reached
        self._reason = reason
        self._said = said
        self._due: int | None = None
        #: Nothing is left to be watched.
        self.over = False

    def saw(self, records: int) -> None:
        """So many records have come in all."""
        now, reached = self._clock.now(), self._reached()
        if reached != MIN_TIMESTAMP:
            self.over = True
            unit = other_unit(reached, now)
            if unit is not None and "unit" not in self._said:
                self._said.add("unit")
                _log.warning(
                    "%s: event time begins at %d: the timestamps look like %s, and are taken for milliseconds since "
                    "1970 (in SQL, TO_TIMESTAMP_LTZ(ts, 0) takes seconds)",
                    self._where,
                    reached,
                    unit,
                )
            return
        if self._due is None:
            self._due = now + self.MILLIS
        if records < self.RECORDS or now < self._due:
            return
        self._due = now + self.MILLIS
        reason = self._reason()
        if reason is not None:
            self.over = True
            _log.warning("%s: no watermark after %d records: %s", self._where, records, reason)


def other_unit(timestamp: int, now: int) -> str | None:
    """The unit in which a timestamp would be of these years; None: milliseconds, or it is of any other time."""
    if now - 10 * _YEAR <= timestamp <= now + _YEAR:
        return None
    for name, millis in (("seconds", timestamp * 1000), ("microseconds", timestamp // 1000)):
        if now - 10 * _YEAR <= millis <= now + _YEAR:
            return name
    return "nanoseconds" if now - 10 * _YEAR <= timestamp // 1_000_000 <= now + _YEAR else None


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
