"""Local time of a zone in milliseconds, for windows over instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ("ZoneShift",)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HOUR = 3_600_000


class ZoneShift:
    """What is added to an instant (epoch ms) to get local milliseconds.

    A local time that occurs twice stands for the later instant, one that is skipped for the moment after the gap, as
    Flink fires windows.
    """

    __slots__ = ("_by_quarter", "_zone")

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._by_quarter: dict[int, int] = {}

    def of(self, ms: int) -> int:
        """The shift at an instant."""
        # Offsets change at most at quarters of an hour; quarters are what is remembered.
        quarter = ms // 900_000
        found = self._by_quarter.get(quarter)
        if found is None:
            offset = (_EPOCH + timedelta(milliseconds=quarter * 900_000)).astimezone(self._zone).utcoffset()
            found = 0 if offset is None else offset // _MILLISECOND
            if len(self._by_quarter) > 10_000:
                self._by_quarter.clear()
            self._by_quarter[quarter] = found
        return found

    def instant(self, local: int) -> int:
        """The instant (epoch ms) of local milliseconds."""
        early = local - self.of(local - 24 * _HOUR)
        late = local - self.of(local + 24 * _HOUR)
        if early == late:
            return early
        candidates = [i for i in (early, late) if i + self.of(i) == local]
        if candidates:
            return max(candidates)
        return min(early, late)

    def slice(self, low: int, high: int, moved: int) -> tuple[int, int]:
        """Local bounds as instants where the shift is `moved` throughout, else an empty range."""
        start, end = low - moved, high - moved
        if self.of(start) == moved and self.of(end - 1) == moved and high - low <= 12 * _HOUR:
            return start, end
        return 0, 0
