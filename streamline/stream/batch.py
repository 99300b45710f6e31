"""Batch mode: the graph of a job over bounded inputs of which only final results are wanted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from streamline._channel.partition import Forward, Hash
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._operators.batch_sort import BatchSort, HoldWatermarks
from streamline.errors import ValidationException

__all__ = ("as_batch", "is_batch")


def is_batch(mode: str, graph: StreamGraph) -> bool:
    """Whether a job runs in batch mode.

    Raises:
        ValidationException: batch mode was asked for, and a source has no end.
    """
    unbounded = [n.name for n in graph.nodes.values() if n.source is not None and not n.source.bounded]
    if mode == "BATCH" and unbounded:
        raise ValidationException(
            f"Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH': "
            f"{', '.join(map(repr, unbounded))}. Set it to STREAMING or AUTOMATIC"
        )
    return mode == "BATCH" or (mode == "AUTOMATIC" and not unbounded)


def as_batch(graph: StreamGraph) -> StreamGraph:
    """The graph for batch mode.

    Event time is closed once, at the end; rolling aggregations send their last value; inputs with keys come key by key,
    in order of time.
    """
    batch = StreamGraph()
    ids: dict[int, int] = {}
    for node in graph.topological():
        edges = [replace(e, source=ids[e.source]) for e in graph.inputs(node.id)]
        if any(node.key):
            edges = [_sorted(batch, node, edge) for edge in edges]
        added = batch.add(_for_batch(node), *edges)
        ids[node.id] = _without_watermarks(batch, added).id
    return batch


def _for_batch(node: Node) -> Node:
    variant = dict(node.options).get("batch")
    if variant is not None:
        node = replace(node, operator=variant)
    if node.strategy is not None:
        node = replace(node, strategy=node.strategy.without_watermarks())
    return node


def _without_watermarks(batch: StreamGraph, source: Node) -> Node:
    """An operator behind a source that may make watermarks by itself: they count no more than those of a strategy."""
    if source.kind != "source" or source.event_time == "no":
        return source
    hold = Node(
        0,
        f"hold watermarks of {source.name}",
        "operator",
        HoldWatermarks,
        parallelism=source.parallelism,
        event_time=source.event_time,
        output_type=source.output_type,
        options=source.options,
    )
    return batch.add(hold, Edge(source.id, 0, 0, Forward()))


def _sorted(batch: StreamGraph, node: Node, edge: Edge) -> Edge:
    """The edge from a sort of what comes along an edge, where that input has keys."""
    selector = node.key[edge.input] if edge.input < len(node.key) else None
    if selector is None or not isinstance(edge.partition, Hash):
        return edge
    sort = Node(
        0,
        f"sort for {node.name}",
        "operator",
        partial(BatchSort, selector),
        parallelism=node.parallelism,
        max_parallelism=node.max_parallelism,
        event_time=node.event_time,
    )
    added = batch.add(sort, replace(edge, input=0))
    return Edge(added.id, 0, edge.input, Forward())
