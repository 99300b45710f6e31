"""The optimiser: an ordered tuple of named rule lists. That is all of it.

Within a stage every node is offered to each rule, inputs first, again and again until none applies.
"""

from __future__ import annotations

from typing import Final

from streamline.table.logical import Rel
from streamline.table.planner_config import PlannerConfig
from streamline.table.rules.async_calls import await_calls
from streamline.table.rules.expand_grouping_sets import expand_grouping_sets
from streamline.table.rules.join_conditions import compute_join_keys, push_filter_into_join, push_join_condition
from streamline.table.rules.merge_projections import merge_projections
from streamline.table.rules.name_columns import name_columns
from streamline.table.rules.prune_columns import prune_columns
from streamline.table.rules.push_filter import merge_filters, push_filter_through_projection
from streamline.table.rules.rank import rank, sort
from streamline.table.rules.rule import Context, Rule
from streamline.table.rules.set_operations import set_operation
from streamline.table.rules.unique_groups import unique_groups
from streamline.table.rules.window_aggregate import group_window, window_aggregate
from streamline.table.traits import Traits

__all__ = ("STAGES", "optimize")

#: Names of stages with their rules.
STAGES: Final[tuple[tuple[str, tuple[Rule, ...]], ...]] = (
    ("expand", (expand_grouping_sets, set_operation)),
    ("merge", (merge_projections, push_filter_through_projection, merge_filters, push_filter_into_join)),
    ("ranks", (rank, sort)),
    ("joins", (push_join_condition, compute_join_keys)),
    ("single rows", (unique_groups,)),
    ("windows", (window_aggregate, group_window)),
    ("merge again", (merge_projections, push_filter_through_projection, merge_filters)),
    ("names", (merge_projections, push_filter_through_projection, merge_filters, name_columns)),
)

#: No query needs more rewrites of one node; more means that two rules undo each other.
_LIMIT: Final = 200


def optimize(rel: Rel, config: PlannerConfig, traits: Traits | None = None) -> Rel:
    """The plan that is executed for a query, still logical."""
    context = Context(config, traits or Traits())
    for name, rules in STAGES:
        if name == "names":
            rel = prune_columns(rel)
        rel = _rewrite(rel, rules, context, name)
    return await_calls(rel)


def _rewrite(rel: Rel, rules: tuple[Rule, ...], context: Context, stage: str) -> Rel:
    for _ in range(_LIMIT):
        rel = rel.with_inputs([_rewrite(i, rules, context, stage) for i in rel.inputs])
        for rule in rules:
            found = rule(rel, context)
            if found is not None:
                rel = found
                break
        else:
            return rel
    raise RuntimeError(f"the rules of stage {stage!r} do not come to an end")
