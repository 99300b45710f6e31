"""Physical nodes become nodes of the stream graph: a table from class to builder.

What a node gives is a `Stream`: graph nodes that send objects, and how rows are read from these (`codegen.rows.Rows`).
So a scan adds no operator, and projections and filters wait until an operator consumes the rows: its loop has them
written in.
"""

from __future__ import annotations

from typing import Final

from streamline._graph.stream_graph import StreamGraph
from streamline.table import physical as P
from streamline.table.expr.context import EvalContext
from streamline.table.lowering import aggregates, changelogs, joins, ranks, rows
from streamline.table.lowering.base import Attached, Builder, Lowering

__all__ = ("Attached", "lowering")


_BUILDERS: Final[dict[type[P.Node], Builder]] = {
    P.TableSourceScan: rows.scan,
    P.WatermarkAssigner: rows.watermark,
    P.Calc: rows.calc,
    P.AsyncCalc: rows.async_calc,
    P.Exchange: rows.exchange,
    P.Values: rows.values,
    P.DropUpdateBefore: changelogs.drop_update_before,
    P.Upserts: changelogs.upserts,
    P.ToChangelog: changelogs.to_changelog,
    P.FromChangelog: changelogs.from_changelog,
    P.UpsertMaterialize: changelogs.upsert_materialize,
    P.ChangelogNormalize: changelogs.normalize,
    P.Expand: rows.expand,
    P.GroupAggregate: aggregates.group,
    P.WindowAggregate: aggregates.window,
    P.GroupWindowAggregate: aggregates.group_window,
    P.WindowTableFunction: aggregates.window_table,
    P.UnionAll: rows.union,
    P.Join: joins.join,
    P.TemporalJoin: joins.temporal_join,
    P.LookupJoin: joins.lookup_join,
    P.IntervalJoin: joins.interval_join,
    P.OverAggregate: ranks.over,
    P.WindowJoin: joins.window_join,
    P.Correlate: rows.correlate,
    P.Rank: ranks.rank,
    P.SortLimit: ranks.sort_limit,
    P.Deduplicate: ranks.deduplicate,
    P.WindowRank: ranks.window_rank,
    P.Match: ranks.match,
    P.TemporalSort: ranks.temporal_sort,
}


def lowering(graph: StreamGraph, context: EvalContext, event_time: bool = True, state_ttl: int = 0) -> Lowering:
    """What adds physical plans to a graph (see `Lowering`)."""
    return Lowering(graph, context, _BUILDERS, event_time, state_ttl)
