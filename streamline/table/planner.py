"""The planner's front door: from a query's tree to a plan, and from plans to the graph or to text."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot.expressions as exp

from streamline._core.changes import ChangelogMode
from streamline._graph.stream_graph import StreamGraph
from streamline.table import build
from streamline.table import logical as L
from streamline.table import physical as P
from streamline.table.bind.context import Catalog
from streamline.table.bind.query import QueryBinder
from streamline.table.event_time import needs_watermarks
from streamline.table.explain import append_only_notes, logical_text, physical_text
from streamline.table.expr.context import EvalContext
from streamline.table.lower import Attached, lowering
from streamline.table.optimize import optimize
from streamline.table.physical_planner import Planner
from streamline.table.planner_config import ConfigReader, PlannerConfig
from streamline.table.traits import Traits

__all__ = ("changelog_mode", "evaluation_context", "explain", "plan_query", "translate", "upsert_keys")


def plan_query(
    query: exp.Expression, catalog: Catalog, config: ConfigReader | PlannerConfig, *, inserted: bool = False
) -> L.Rel:
    """The logical plan of a query's tree; names, types and functions are resolved.

    Args:
        query: as `table.parse` gives it.
        catalog: the session's tables and functions.
        config: the session's configuration.
        inserted: the rows go into a table, whose columns give a bare NULL its type.

    Raises:
        ValidationException: a name is unknown, types do not fit; the message underlines the place.
    """
    settings = _read(config)
    bound = QueryBinder(catalog, settings, evaluation_context(settings), untyped_nulls=inserted).bind(query)
    return build.rename(bound.rel, build.unique_names(bound.names))


def evaluation_context(config: PlannerConfig) -> EvalContext:
    """What expressions depend on in a session."""
    return EvalContext(
        zone=config.zone, database=config.database, catalog=config.catalog, legacy_cast=config.legacy_cast
    )


def _read(config: ConfigReader | PlannerConfig) -> PlannerConfig:
    return config if isinstance(config, PlannerConfig) else PlannerConfig.read(config)


def _physical(rel: L.Rel, config: PlannerConfig, traits: Traits) -> P.Node:
    optimized = optimize(rel, config, traits)
    return Planner(config, traits).plan(optimized, before=False, by_key=True)


def translate(
    sinks: Sequence[L.Sink], graph: StreamGraph, config: ConfigReader | PlannerConfig
) -> tuple[Attached, ...]:
    """Add plans to a graph; what they have in common is added once.

    Args:
        sinks: the plans, each with a sink.
        graph: what is added to; nothing is where a plan is refused.
        config: the session's configuration.

    Returns:
        For each sink the node it has become: of its target, or without one the node that sends its objects.

    Raises:
        TableException: a plan cannot be executed as a stream, or its sink cannot take its changes.
    """
    settings = _read(config)
    traits = Traits()
    physical = [_physical(s, settings, traits) for s in sinks]
    event_time = any(map(needs_watermarks, physical))
    target = lowering(graph, evaluation_context(settings), event_time, settings.state_ttl)
    result = []
    for node in physical:
        assert isinstance(node, P.Sink)
        result.append(target.attach(node))
    return tuple(result)


def changelog_mode(rel: L.Rel, config: ConfigReader | PlannerConfig) -> ChangelogMode:
    """Which kinds of change a query gives, -U included where there are updates."""
    settings = _read(config)
    traits = Traits()
    return P.mode_of(traits.changes(optimize(rel, settings, traits)), before=True)


def upsert_keys(rel: L.Rel, config: ConfigReader | PlannerConfig) -> tuple[tuple[int, ...], ...]:
    """Sets of columns that each identify a row of the result; an empty one: there is a single row."""
    settings = _read(config)
    traits = Traits()
    return tuple(tuple(sorted(k)) for k in traits.keys(optimize(rel, settings, traits)))


def explain(rels: Sequence[L.Rel], config: ConfigReader | PlannerConfig, details: Sequence[str] = ()) -> str:
    """The plans as text: as they were asked for, and as they are executed.

    Args:
        rels: plans, with or without sinks.
        config: the session's configuration.
        details: CHANGELOG_MODE shows which kinds of change each node sends.
    """
    settings = _read(config)
    traits = Traits()
    physical = [_physical(r, settings, traits) for r in rels]
    with_modes = "CHANGELOG_MODE" in {str(getattr(d, "name", d)).upper() for d in details}
    sections = [
        ("Abstract Syntax Tree", [logical_text(r) for r in rels]),
        ("Optimized Physical Plan", [physical_text(p, with_modes) for p in physical]),
        ("Optimized Execution Plan", [physical_text(p) for p in physical]),
    ]
    if settings.prefer_append_only:
        fires = settings.early_fire is not None or settings.late_fire is not None
        notes = append_only_notes(physical, fires)
        if notes:
            sections.append(("Notes", notes))
    return "\n".join(f"== {title} ==\n" + "\n\n".join(parts) + "\n" for title, parts in sections)
