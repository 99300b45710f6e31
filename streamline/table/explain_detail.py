"""What EXPLAIN shows beside the plans."""

from __future__ import annotations

from enum import Enum

__all__ = ("ExplainDetail",)


class ExplainDetail(Enum):
    """A further detail of an explanation (PyFlink's names).

    CHANGELOG_MODE prints which kinds of change each node sends. The others are known to Flink and add nothing here.
    """

    ESTIMATED_COST = "ESTIMATED_COST"
    CHANGELOG_MODE = "CHANGELOG_MODE"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"
    PLAN_ADVICE = "PLAN_ADVICE"
