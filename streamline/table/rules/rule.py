"""What a rule is, and what it may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from streamline.table.logical import Rel
from streamline.table.planner_config import PlannerConfig
from streamline.table.traits import Traits

__all__ = ("Context", "Rule")


@dataclass(frozen=True, slots=True)
class Context:
    """What rules may ask: the configuration and the traits of nodes."""

    config: PlannerConfig
    traits: Traits


#: Gives another node for one that it applies to, else None.
Rule: TypeAlias = Callable[[Rel, Context], "Rel | None"]
