"""Watermark alignment: sources of one group that run ahead stop reading until the slowest has come near."""

from __future__ import annotations

from typing import final

from streamline._core.elements import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ("AlignmentGroups",)


@final
class AlignmentGroups:
    """The groups of a job: what each member has reached, and how far the others may go.

    A member that is idle or has ended reports None and holds nobody back. One that has not seen a record yet does not
    either: there is no event time to compare with.
    """

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, int]] = {}

    def report(self, group: str, member: object, watermark: int | None) -> None:
        """Member has reached `watermark` (epoch ms); None: it does not count."""
        members = self._groups.setdefault(group, {})
        if watermark is None or watermark == MIN_TIMESTAMP:
            members.pop(member, None)
        else:
            members[member] = watermark

    def limit(self, group: str, max_drift: int) -> int:
        """The watermark (epoch ms) that a member may reach before it has to wait."""
        members = self._groups.get(group)
        return min(members.values()) + max_drift if members else MAX_TIMESTAMP
