"""The graph as JSON, in the form of Flink's plan visualiser."""

from __future__ import annotations

import msgspec

from streamline._channel.partition import PartitionSpec
from streamline._graph.stream_graph import StreamGraph

__all__ = ("execution_plan",)


def _strategy(partition: PartitionSpec) -> str:
    return type(partition).__name__.upper()


def execution_plan(graph: StreamGraph, parallelism: int) -> str:
    """Nodes in order, each with its inputs and how their records are dealt out."""
    nodes = []
    for node in graph.topological():
        entry: dict[str, object] = {
            "id": node.id,
            "type": node.name,
            "pact": "Data Source" if node.kind == "source" else "Data Sink" if node.kind == "sink" else "Operator",
            "contents": node.description or node.name,
            "parallelism": node.parallelism_in(parallelism),
        }
        inputs = [
            {"id": e.source, "ship_strategy": _strategy(e.partition), "side": "second" if e.input else "first"}
            | ({} if e.side is None else {"side_output": e.side})
            for e in graph.inputs(node.id)
        ]
        if inputs:
            entry["predecessors"] = inputs
        nodes.append(entry)
    return msgspec.json.format(msgspec.json.encode({"nodes": nodes}), indent=2).decode()
