"""Windows of the Table API: Tumble, Slide and Session to group by, Over to look around each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from streamline.errors import ValidationException
from streamline.table.expression import Expression
from streamline.table.expressions import UNBOUNDED_RANGE, col

__all__ = ("GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble")


def _column(given: Expression | str) -> Expression:
    return given if isinstance(given, Expression) else col(given)


@dataclass(frozen=True)
class GroupWindow:
    """A window to group by. `alias` is the name under which `group_by` and `select` know it."""

    kind: Literal["TUMBLE", "SLIDE", "SESSION"]
    size: Expression
    slide: Expression | None = None
    time: Expression | None = None
    name: str | None = None

    def on(self, time_field: Expression | str) -> GroupWindow:
        """The time attribute: event time or processing time."""
        return replace(self, time=_column(time_field))

    def every(self, slide: Expression) -> GroupWindow:
        """How far a sliding window moves: an interval, or a number of rows."""
        if self.kind != "SLIDE":
            raise ValidationException(f"a {self.kind.lower()} window has no slide; use Slide.over(...).every(...)")
        return replace(self, slide=slide)

    def alias(self, alias: Expression | str) -> GroupWindow:
        """The window's name."""
        return replace(self, name=alias.ast.name if isinstance(alias, Expression) else alias)

    def as_(self, alias: Expression | str) -> GroupWindow:
        """Another name of `alias`."""
        return self.alias(alias)


class Tumble:
    """Windows of one length, one after the other."""

    @staticmethod
    def over(size: Expression) -> GroupWindow:
        """Of a length: `lit(10).minutes`, or `row_interval(10)` rows."""
        return GroupWindow("TUMBLE", size)


class Slide:
    """Windows of one length that overlap: a row is in several."""

    @staticmethod
    def over(size: Expression) -> GroupWindow:
        """Of a length; `every` says how far apart they start."""
        return GroupWindow("SLIDE", size)


class Session:
    """Windows that end where nothing has come for a while."""

    @staticmethod
    def with_gap(gap: Expression) -> GroupWindow:
        """The time without a row that ends a session."""
        return GroupWindow("SESSION", gap)


@dataclass(frozen=True)
class OverWindow:
    """For each row the rows around it, for `over_window`."""

    partition: tuple[Expression, ...] = ()
    order: Expression | None = None
    start: Expression | None = None
    end: Expression | None = None
    name: str | None = None

    def order_by(self, order_by: Expression | str) -> OverWindow:
        """The time attribute (or another column) that puts the rows in order."""
        return replace(self, order=_column(order_by))

    def preceding(self, preceding: Expression) -> OverWindow:
        """How far back: an interval, `row_interval(n)`, UNBOUNDED_RANGE or UNBOUNDED_ROW."""
        return replace(self, start=preceding)

    def following(self, following: Expression) -> OverWindow:
        """How far ahead: CURRENT_RANGE or CURRENT_ROW."""
        return replace(self, end=following)

    def alias(self, alias: Expression | str) -> OverWindow:
        """The window's name."""
        name = alias.ast.name if isinstance(alias, Expression) else alias
        return replace(self, name=name, start=UNBOUNDED_RANGE if self.start is None else self.start)

    def as_(self, alias: Expression | str) -> OverWindow:
        """Another name of `alias`."""
        return self.alias(alias)


class Over:
    """Windows around each row."""

    @staticmethod
    def partition_by(*partition_by: Expression | str) -> OverWindow:
        """Rows of equal values see one another."""
        return OverWindow(tuple(map(_column, partition_by)))

    @staticmethod
    def order_by(order_by: Expression | str) -> OverWindow:
        """The time attribute that puts the rows in order."""
        return OverWindow(order=_column(order_by))
