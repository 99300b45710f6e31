"""StreamGraph: what both APIs build and the runtime runs.

A node is a factory of operators (or a source) with a parallelism; an edge says which records go to which subtask of its
consumer. Nodes and edges are values; a graph only ever grows, so a job is the part of it that is above the nodes it was
asked to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from streamline._channel.partition import Forward, PartitionSpec
from streamline._core.keys import default_max_parallelism
from streamline._core.watermarks import WatermarkStrategy
from streamline.abc import Operator, Source
from streamline.errors import StreamlineError

__all__ = ("Edge", "Node", "StreamGraph")


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the graph.

    Attributes:
        id: unique in the graph, rising in order of creation.
        name: shown in explain, errors, logs and metrics.
        kind: "source" (has `source` and perhaps `strategy`), "operator", or "sink" (an operator without consumers).
        operator: makes the operator of one subtask.
        source: what a source node reads.
        strategy: timestamps and watermarks made at the source, per split.
        parallelism: number of subtasks; None: the environment's at execution.
        max_parallelism: number of key groups; None: derived from the parallelism.
        uid: stable name that maps state on restore; None: derived from the place in the graph.
        key: gives the key of a record, per input; None for an input that is not keyed.
        description: what explain prints below the name.
        output_type: type of the elements it sends, where known.
        event_time: whether its records carry timestamps: "yes", "no", or "ends" where the program said
            `no_watermarks()`.
        options: what only certain runtimes look at (e.g. "batch").
    """

    id: int
    name: str
    kind: Literal["source", "operator", "sink"]
    operator: Callable[[], Operator] | None = None
    source: Source[Any] | None = None
    strategy: WatermarkStrategy[Any] | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    key: tuple[Callable[[Any], Any] | None, ...] = ()
    description: str = ""
    output_type: Any = None
    event_time: str = "no"
    options: tuple[tuple[str, Any], ...] = ()

    def parallelism_in(self, default: int) -> int:
        """Its number of subtasks where the environment's parallelism is `default`."""
        return self.parallelism or default

    def max_parallelism_in(self, default: int, default_max: int | None = None) -> int:
        """Its number of key groups."""
        return self.max_parallelism or default_max or default_max_parallelism(self.parallelism_in(default))


@dataclass(frozen=True, slots=True)
class Edge:
    """Records from `source` to input number `input` of `target`; `side` names a side output, None is the main one."""

    source: int
    target: int
    input: int = 0
    partition: PartitionSpec = field(default_factory=Forward)
    side: str | None = None


class StreamGraph:
    """Nodes by id and the edges between them."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.edges: list[Edge] = []

    def add(self, node: Node, *edges: Edge) -> Node:
        """Add a node (its id is given here) with the edges into it (their target is filled in)."""
        node = replace(node, id=len(self.nodes) + 1)
        self.nodes[node.id] = node
        for edge in edges:
            if edge.source not in self.nodes:
                raise StreamlineError(f"{node.name}: its input belongs to another environment")
            self.edges.append(replace(edge, target=node.id))
        return node

    def update(self, node_id: int, **changes: Any) -> Node:
        """Change attributes of a node, e.g. its name or parallelism."""
        self.nodes[node_id] = replace(self.nodes[node_id], **changes)
        return self.nodes[node_id]

    def inputs(self, node_id: int) -> list[Edge]:
        """Edges into a node, in order of input and creation."""
        return sorted((e for e in self.edges if e.target == node_id), key=lambda e: e.input)

    def outputs(self, node_id: int) -> list[Edge]:
        """Edges out of a node."""
        return [e for e in self.edges if e.source == node_id]

    def above(self, roots: Iterable[int]) -> StreamGraph:
        """The part of the graph that feeds the given nodes, and they themselves; ids are kept."""
        wanted: set[int] = set()
        stack = list(roots)
        into: dict[int, list[int]] = {}
        for e in self.edges:
            into.setdefault(e.target, []).append(e.source)
        while stack:
            n = stack.pop()
            if n not in wanted:
                wanted.add(n)
                stack.extend(into.get(n, ()))
        part = StreamGraph()
        part.nodes = {i: n for i, n in self.nodes.items() if i in wanted}
        part.edges = [e for e in self.edges if e.source in wanted and e.target in wanted]
        return part

    def topological(self) -> list[Node]:
        """Nodes, producers before consumers."""
        return [self.nodes[i] for i in sorted(self.nodes)]

    def uid_of(self, node: Node) -> str:
        """The name under which a node's state is kept: its uid, else one derived from its place in the graph."""
        if node.uid:
            return node.uid
        position = [n.id for n in self.topological()].index(node.id)
        return f"{position}-{node.name}"
