"""Where tables and streams meet: the only module of the table API that knows the stream API.

A conversion splices: it adds no task and copies no record. A scan reads a stream's own objects in place, and a plan's
last operator (or, where nothing is to be done, the stream itself) is where the stream that leaves comes from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamline._core.config import Configuration
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._operators.collect import Collect, Handover
from streamline._runtime.execute import Job, launch
from streamline.errors import StreamlineError, ValidationException
from streamline.stream.base import Origin
from streamline.stream.datastream import DataStream
from streamline.stream.environment import StreamExecutionEnvironment
from streamline.stream.job_client import JobClient
from streamline.stream.options import execution_options
from streamline.stream.results import CollectedResults
from streamline.table.logical import GraphNode, ScanSource
from streamline.table.lower import Attached

__all__ = (
    "CollectedResults",
    "DataStream",
    "GraphNodes",
    "JobClient",
    "StreamExecutionEnvironment",
    "StreamHost",
    "new_environment",
)


@dataclass(frozen=True, slots=True)
class GraphNodes:
    """A scan source that is several nodes of the graph: a union of streams."""

    origins: tuple[tuple[int, str | None], ...]

    def attach(self, graph: StreamGraph) -> tuple[tuple[int, str | None], ...]:
        """The nodes that send the records."""
        for node, _ in self.origins:
            if node not in graph.nodes:
                raise ValidationException("the table was made of a stream of another environment")
        return self.origins


def new_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
    """A stream environment for a table environment that was made without one."""
    return StreamExecutionEnvironment(configuration)


class StreamHost:
    """What a table environment asks of the stream environment below it."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self.env = env

    @property
    def configuration(self) -> Configuration:
        """The options of the stream environment."""
        return self.env.configuration

    @property
    def graph(self) -> StreamGraph:
        """The graph that `execute` runs."""
        return self.env.graph

    # -- streams in ----------------------------------------------------------------------------------------------

    def check(self, stream: Any, method: str) -> DataStream[Any]:
        """The stream, where it is one of this environment.

        Raises:
            ValidationException: it is not.
        """
        if not isinstance(stream, DataStream):
            raise ValidationException(f"{method} takes a DataStream, not {type(stream).__name__}")
        if stream.get_execution_environment() is not self.env:
            raise ValidationException(
                "The DataStream's StreamExecutionEnvironment must be identical to the one that has been passed to the "
                "StreamTableEnvironment during instantiation."
            )
        return stream

    def source(self, stream: DataStream[Any]) -> ScanSource:
        """Where a scan finds the stream's records."""
        origins = tuple((o.node, o.side) for o in stream.origins)
        return GraphNode(*origins[0]) if len(origins) == 1 else GraphNodes(origins)

    def strategies(self, stream: DataStream[Any]) -> str | None:
        """The watermark strategies that a stream's event time comes from, as text; None where it has none."""
        if stream.event_time == "no":
            return None
        found: dict[str, None] = {}
        seen: set[int] = set()
        stack = [o.node for o in stream.origins]
        while stack:
            node = self.graph.nodes[stack.pop()]
            if node.id in seen or node.event_time == "no":
                continue
            seen.add(node.id)
            strategy = dict(node.options).get("strategy", node.strategy)
            if strategy is not None:
                found[str(strategy.text)] = None
            elif node.kind == "source":
                found[f"watermarks of {node.name}"] = None
            else:
                stack += [e.source for e in self.graph.inputs(node.id)]
        return " and ".join(found) or "watermarks of its own"

    # -- streams out ---------------------------------------------------------------------------------------------

    def stream(self, attached: Attached, element_type: Any, what: str, before: set[int]) -> DataStream[Any]:
        """The stream of a plan's objects.

        Args:
            attached: the node that sends them.
            element_type: their type.
            what: the conversion, for the warning where it never runs.
            before: nodes that were there before: where none was added, the objects are another stream's.
        """
        if attached.node not in before:
            node = self.graph.nodes[attached.node]
            options = (*node.options, ("conversion", what))
            self.graph.update(attached.node, name=what, output_type=element_type, options=options)
        self.env.note_conversion(attached.node, what)
        return DataStream(self.env, [Origin(attached.node, attached.side)], element_type)

    # -- jobs of tables ------------------------------------------------------------------------------------------

    def copied_graph(self) -> StreamGraph:
        """A graph with all that there is, for plans that run as a job of their own."""
        return self.graph.above(self.graph.nodes)

    async def _launch(self, graph: StreamGraph, roots: Sequence[int], name: str) -> Job:
        if not roots:
            raise StreamlineError("No operators defined in streaming topology. Cannot execute.")
        part = graph.above(roots)
        options = execution_options(self.configuration, self.env.clock, name, part, "latest")
        return await launch(part, options)

    async def run(self, graph: StreamGraph, roots: Sequence[int], name: str) -> JobClient:
        """Run a part of a graph as a job; returns when it runs."""
        return JobClient(await self._launch(graph, roots, name))

    def client(self, job: Job | None) -> JobClient | None:
        """What a program sees of a job."""
        return None if job is None else JobClient(job)

    def collected(self, graph: StreamGraph, attached: Attached, name: str) -> CollectedResults[Any]:
        """The objects that a node of a graph sends, as an async iterator; its job starts when it is entered."""
        handover = Handover()
        node = graph.add(
            Node(0, "collect", "sink", lambda: Collect(handover), parallelism=1),
            Edge(attached.node, 0, side=attached.side),
        )
        start: Callable[[], Awaitable[Job]] = lambda: self._launch(graph, [node.id], name)  # noqa: E731
        return CollectedResults(start, handover)
