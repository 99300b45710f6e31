"""MATCH_RECOGNIZE: rows of a key that follow each other as a pattern says."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

from streamline._core.declare import StateSpec
from streamline._core.elements import MIN_TIMESTAMP, Barrier, Batch
from streamline._operators.calc import MakeFunction
from streamline._operators.state_types import dict_of, list_of, tuple_of
from streamline.abc import PAUSE_EVERY, Operator, OperatorContext, Output
from streamline.errors import TableException

__all__ = ("Element", "MatchRecognize", "Pattern")

#: Rows of each element of the pattern.
_Rows: TypeAlias = "list[list[Any]]"
#: A match that has begun: number and time of its first row, its element, how many rows this one has, its rows.
_Partial: TypeAlias = "tuple[int, int, int, int, _Rows]"
#: A match that waits until no earlier one can come: number of its first row, its rows.
_Complete: TypeAlias = "tuple[int, _Rows]"

_NOTHING: tuple[int, list[Any], list[Any]] = (0, [], [])


@dataclass(frozen=True, slots=True)
class Element:
    """A variable with how often it matches.

    Attributes:
        name: for messages.
        least, most: how often; None: any number of times.
        loops: a row that it could take is no row of the next element.
        condition: gives `matches(m, row)`; None: every row.
    """

    name: str
    least: int
    most: int | None
    loops: bool
    condition: MakeFunction | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for.

    Attributes:
        elements: which follow each other directly.
        after: PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST.
        target: the element that TO FIRST and TO LAST mean.
        within: milliseconds that a match is shorter than, or None.
    """

    elements: tuple[Element, ...]
    after: str
    target: int | None
    within: int | None


class _Matcher:
    """The automaton of a pattern. It goes on with every match that has begun, and tries to begin one at every row."""

    def __init__(self, pattern: Pattern, now: Callable[[], int]) -> None:
        self._pattern = pattern
        self._elements = pattern.elements
        self._empty: _Rows = [[] for _ in pattern.elements]
        self._tests = [None if e.condition is None else e.condition(now) for e in pattern.elements]

    def take(
        self, number: int, time: int, row: Any, partials: list[_Partial]
    ) -> tuple[list[_Partial], list[_Complete]]:
        """What has begun after a row, and the matches that end with it."""
        begun: list[_Partial] = []
        complete: list[_Complete] = []
        start: _Partial = (number, time, 0, 0, self._empty)
        for first, began, element, count, rows in (*partials, start):
            moves = self._moves(element, count, rows, row)
            for i, (to, n) in enumerate(moves):
                own = i == len(moves) - 1 and rows is not self._empty
                taken = rows if own else [list(part) for part in rows]
                taken[to].append(row)
                if self._may_end(to, n):
                    goes_on = self._goes_on(to, n)
                    complete.append((first, [list(part) for part in taken] if goes_on else taken))
                    if not goes_on:
                        continue
                begun.append((first, began, to, n, taken))
        return begun, complete

    def _test(self, element: int, rows: _Rows, row: Any) -> bool:
        test = self._tests[element]
        return True if test is None else bool(test(rows, row))

    def _moves(self, element: int, count: int, rows: _Rows, row: Any) -> list[tuple[int, int]]:
        """Which elements can take the row, with how many rows they have then."""
        found = []
        elements = self._elements
        while element < len(elements):
            e = elements[element]
            full = e.most is not None and count >= e.most
            takes = (not full or e.loops) and self._test(element, rows, row)
            if takes and not full:
                found.append((element, count + 1))
            if count < e.least or (takes and e.loops):
                break
            element, count = element + 1, 0
        return found

    def _may_end(self, element: int, count: int) -> bool:
        e = self._elements[element]
        return (
            count >= e.least
            and not e.loops
            and all(x.least == 0 and not x.loops for x in self._elements[element + 1 :])
        )

    def _goes_on(self, element: int, count: int) -> bool:
        most = self._elements[element].most
        return element + 1 < len(self._elements) or most is None or count < most

    def released(
        self, partials: list[_Partial], complete: list[_Complete]
    ) -> tuple[list[_Partial], list[_Complete], list[_Rows]]:
        """Matches that no earlier one can come before any more; what they overlap with is dropped."""
        found: list[_Rows] = []
        complete = sorted(complete, key=_first)
        while complete and (not partials or complete[0][0] <= partials[0][0]):
            first, rows = complete[0]
            found.append(rows)
            least = self._goes_on_from(first, rows)
            partials = [p for p in partials if p[0] >= least]
            complete = [c for c in complete[1:] if c[0] >= least]
        return partials, complete, found

    def _goes_on_from(self, first: int, rows: _Rows) -> int:
        """The first row that another match may begin with.

        Raises:
            TableException: there is no row to skip to, or it is the first one, so that the match would come again.
        """
        after, target = self._pattern.after, self._pattern.target
        if after == "TO NEXT ROW":
            return first + 1
        if target is None:
            return first + sum(map(len, rows))
        name = self._elements[target].name
        if not rows[target]:
            raise TableException(
                f"Could not skip to {name}. No such element in the found match "
                f"{ {e.name: part for e, part in zip(self._elements, rows) if part} }. Skip to a variable that always "
                "matches a row, or use SKIP TO NEXT ROW"
            )
        place = first + sum(map(len, rows[:target])) + (0 if after == "TO FIRST" else len(rows[target]) - 1)
        if place == first:
            raise TableException(
                f"Could not skip to first element of a match: with SKIP {after} {name} it would be found again and "
                "again. Use SKIP TO NEXT ROW"
            )
        return place


def _first(match: _Complete) -> int:
    return match[0]


@final
class MatchRecognize(Operator):
    """Send a row for each match of a pattern, as the watermark passes its last row (or, by processing time, at once).

    Changelog: insert-only in and out. State: for each key the rows that wait for the watermark, the matches that have
    begun, and those that wait for an earlier one. Rows at or before the watermark are dropped and counted. Watermarks:
    passed on behind the rows. Order: by event time.
    """

    name = "Match"
    state: ClassVar[Mapping[str, StateSpec]] = {"waiting": StateSpec(), "matches": StateSpec()}

    def __init__(
        self,
        read: MakeFunction,
        measures: MakeFunction,
        pattern: Pattern,
        row: Any,
        sort: Callable[[list[Any]], None] | None,
        by_arrival: bool,
    ) -> None:
        """
        Args:
            read: gives `read(batch)`: (event time in ms, or anything by arrival, key, row) triples.
            measures: gives `measures(m)`, the row of a match.
            pattern: what is looked for.
            row: Python type of a row.
            sort: puts rows of one time in order; None: as they came.
            by_arrival: rows count as they come, at processing time.
        """
        self._make = read, measures
        self._pattern = pattern
        self._row = row
        self._sort = sort
        self._by_arrival = by_arrival

    async def open(self, ctx: OperatorContext) -> None:
        self._now = ctx.clock.now
        self._read: Callable[[Batch], list[tuple[Any, Any, Any]]] = self._make[0](self._now)
        self._measures: Callable[[_Rows], Any] = self._make[1](self._now)
        self._matcher = _Matcher(self._pattern, self._now)
        rows = list_of(list_of(self._row))
        partial, complete = tuple_of(int, int, int, int, rows), tuple_of(int, rows)
        matches = tuple_of(int, list_of(partial), list_of(complete))
        self._matches = ctx.store.table("matches", StateSpec(type=matches, copy=deepcopy))
        waiting = dict_of(int, list_of(self._row))
        self._waiting = ctx.store.table("waiting", StateSpec(type=waiting, copy=deepcopy))
        self._dropped = ctx.metrics.counter("numLateRecordsDropped")
        self._marks = ctx.operator_store.union_state("watermark", StateSpec(int))
        self._watermark = min(self._marks, default=MIN_TIMESTAMP)
        #: Times at which keys have something to do: rows to look at, or matches that are too long.
        self._due: list[tuple[int, int, Any]] = []
        self._order = 0
        for n, key in enumerate(list(self._waiting.data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            for time in self._waiting.data[key]:
                self._arm(time, key)
        for n, key in enumerate(list(self._matches.data)):
            if n % PAUSE_EVERY == 0:
                await ctx.pause()
            _, partials, held = self._matches.data[key]
            self._arm_end(key, partials, held)

    def _arm(self, time: int, key: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (time, self._order, key))

    def _arm_end(self, key: Any, partials: Sequence[_Partial], held: Sequence[_Complete]) -> None:
        """A match that is held back is free when those before it have become too long."""
        if held and partials and self._pattern.within is not None and not self._by_arrival:
            self._arm(partials[0][1] + self._pattern.within, key)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if self._by_arrival:
            result: list[Any] = []
            now = self._now()
            for _, key, row in self._read(batch):
                self._advance(key, now, [row], result)
            await out.send(Batch(result))
            return
        waiting, late = self._waiting.data, 0
        for time, key, row in self._read(batch):
            if time <= self._watermark:
                late += 1
                continue
            times = waiting.get(key)
            if times is None:
                times = {}
            rows = times.get(time)
            if rows is None:
                times[time] = [row]
                self._arm(time, key)
            else:
                rows.append(row)
            waiting[key] = times
        if late:
            self._dropped.inc(late)

    async def on_watermark(self, watermark: int, out: Output) -> int | None:
        if self._by_arrival:
            return watermark
        self._watermark = watermark
        due, result, looks = self._due, list[Any](), 0
        while due and due[0][0] <= watermark:
            looks += 1
            if looks % PAUSE_EVERY == 0:
                await out.pause()
            time, _, key = heapq.heappop(due)
            waiting = self._waiting.data
            times = waiting.get(key)
            rows: list[Any] = []
            if times is not None and time in times:
                rows = times.pop(time)
                if times:
                    waiting[key] = times
                else:
                    del waiting[key]
                if self._sort is not None:
                    self._sort(rows)
            self._advance(key, time, rows, result)
            if len(result) >= 1024:
                await out.send(Batch(result))
                result = []
        await out.send(Batch(result))
        return watermark

    def _advance(self, key: Any, time: int, rows: Sequence[Any], result: list[Any]) -> None:
        """Bring a key to a time, with its rows of that time."""
        data = self._matches.data
        number, partials, held = data.get(key, _NOTHING)
        within, matcher, measures = self._pattern.within, self._matcher, self._measures
        if within is not None and partials:
            kept = [p for p in partials if time - p[1] < within]
            if len(kept) != len(partials):
                partials, held, found = matcher.released(kept, held)
                result += map(measures, found)
        for row in rows:
            partials, complete = matcher.take(number, time, row, partials)
            number += 1
            if complete or held:
                partials, held, found = matcher.released(partials, [*held, *complete])
                result += map(measures, found)
        if partials or held:
            data[key] = (number, partials, held)
            self._arm_end(key, partials, held)
        else:
            data.pop(key, None)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        self._marks[:] = [self._watermark]
