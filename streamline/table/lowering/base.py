"""What builders of graph nodes have in common: streams of rows that are read in place, and how operators are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from streamline._channel.partition import Forward, Global, PartitionSpec
from streamline._core.declare import TtlSpec
from streamline._graph.stream_graph import Edge, StreamGraph
from streamline._graph.stream_graph import Node as GraphNode
from streamline._operators.calc import Calc
from streamline.abc import Operator
from streamline.errors import TableException
from streamline.table import logical as L
from streamline.table import physical as P
from streamline.table.codegen.calc import calc, output
from streamline.table.codegen.group import key_function
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.writer import Generated, context_of
from streamline.table.explain import digest
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import Expr, InputRef
from streamline.table.function_life import alive

__all__ = ("Attached", "Builder", "Lowering", "Stream", "copier", "copy_rows", "observer", "refs")


@dataclass(frozen=True, slots=True)
class Attached:
    """Where the rows of a plan leave: a node of the graph, or one of its side outputs."""

    node: int
    side: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in the graph.

    Attributes:
        sources: nodes (and side outputs) that send objects, all alike.
        rows: how rows are read from them.
        partition: how they get to the next operator.
        keys: columns seen by which `partition` brings rows together; None: it does not.
    """

    sources: tuple[Attached, ...]
    rows: Rows
    partition: PartitionSpec = field(default_factory=Forward)
    keys: tuple[int, ...] | None = None


#: Makes the graph nodes of a physical node.
Builder: TypeAlias = "Callable[[Lowering, Any], Stream]"


class Lowering:
    """Adds plans to a graph. Parts that several plans have in common are added once."""

    def __init__(
        self,
        graph: StreamGraph,
        context: EvalContext,
        builders: Mapping[type[P.Node], Builder],
        event_time: bool = True,
        state_ttl: int = 0,
    ) -> None:
        """
        Args:
            graph: what plans are added to.
            context: of the evaluation of expressions.
            builders: by the class of node.
            event_time: whether some plan needs watermarks; where none does, declared ones are not computed.
            state_ttl: how long state is kept that no hint speaks of, ms; 0: for good.
        """
        self.graph = graph
        self.context = context
        self._builders = builders
        self.event_time = event_time
        self.ttl = TtlSpec(state_ttl) if state_ttl else None
        self._done: dict[P.Node, Stream] = {}

    def lower(self, node: P.Node) -> Stream:
        """The rows of a physical node."""
        found = self._done.get(node)
        if found is None:
            build = self._builders.get(type(node))
            if build is None:
                raise TableException(f"{type(node).__name__} has no operator")
            found = self._done[node] = build(self, node)
        return found

    def attach(self, sink: P.Sink) -> Attached:
        """Add a whole plan; gives the node that sends (or, with a target, takes) its objects."""
        stream = self._output(sink)
        if sink.sink.target is None:
            return stream
        return Attached(sink.sink.target.attach(self.graph, stream.node, stream.side))

    def operator(
        self,
        name: str,
        stream: Stream,
        make: Callable[[], Operator],
        *,
        keyed: Generated | None = None,
        description: str = "",
        event_time: str = "no",
    ) -> Attached:
        """Add an operator that consumes a stream."""
        parallelism, partition = self._placed(stream)
        key = () if keyed is None else (keyed.make(),)
        edges = [Edge(s.node, 0, 0, partition, s.side) for s in stream.sources]
        node = GraphNode(
            id=0,
            name=name,
            kind="operator",
            operator=alive(make),
            parallelism=parallelism,
            key=key,
            description=description,
            event_time=event_time,
        )
        return Attached(self.graph.add(node, *edges).id)

    def _placed(self, stream: Stream) -> tuple[int | None, PartitionSpec]:
        """Parallelism of a consumer, and how the rows get there."""
        if stream.keys == ():
            return 1, Global()
        if stream.keys is not None:
            return None, stream.partition
        found = {self.graph.nodes[s.node].parallelism for s in stream.sources}
        if len(found) == 1:
            return found.pop(), stream.partition
        return 1, Global()

    def materialized(self, stream: Stream) -> Stream:
        """The stream as tuples: with an operator that reads, filters and projects where that is needed."""
        if stream.rows.is_plain:
            return stream
        code = calc(stream.rows, self.context)
        names = ", ".join(map(str, stream.rows.exprs))
        node = self.operator("Calc", stream, partial(Calc, code.make, observer(code)), description=f"select=[{names}]")
        types = tuple(e.type for e in stream.rows.exprs)
        return Stream((node,), Rows.of_tuples(types, stream.rows.insert_only))

    def key(self, stream: Stream, keys: Sequence[int]) -> Generated:
        """The function that gives a record's key."""
        return key_function(stream.rows, refs(stream, keys), self.context)

    def two_inputs(
        self,
        name: str,
        streams: tuple[Stream, Stream],
        make: Callable[[], Operator],
        keyed: tuple[Generated, Generated],
        description: str,
    ) -> Attached:
        """Add an operator with two inputs."""
        single = streams[0].keys == ()
        edges = []
        for number, stream in enumerate(streams):
            partition = Global() if single else stream.partition
            edges += [Edge(s.node, 0, number, partition, s.side) for s in stream.sources]
        node = GraphNode(
            id=0,
            name=name,
            kind="operator",
            operator=alive(make),
            parallelism=1 if single else None,
            key=(keyed[0].make(), keyed[1].make()),
            description=description,
        )
        return Attached(self.graph.add(node, *edges).id)

    def _output(self, sink: P.Sink) -> Attached:
        stream = self.lower(sink.input)
        shape = sink.sink.shape
        if len(stream.sources) == 1 and self._leaves_as_is(stream, shape):
            return stream.sources[0]
        code = output(stream.rows, shape, self.context)
        return self.operator(
            "Output",
            stream,
            partial(Calc, code.make, observer(code)),
            description=digest(sink),
            event_time="no" if shape.timestamp is None else "yes",
        )

    def _leaves_as_is(self, stream: Stream, shape: L.OutputShape) -> bool:
        """Whether the objects can leave without an operator."""
        rows = stream.rows
        if rows.condition is not None or rows.check or not rows.is_untouched or stream.keys is not None:
            return False
        same = shape.element is not None and shape.element is rows.element
        if not same and (shape.template or not rows.is_plain):
            return False
        if not rows.insert_only and not shape.kinds:
            return False
        sends_time = self.graph.nodes[stream.sources[0].node].event_time != "no"
        if shape.timestamp is None:
            return not sends_time
        return rows.millis[shape.timestamp] == "t"


def refs(stream: Stream, keys: Sequence[int]) -> list[Expr]:
    return [InputRef(k, stream.rows.exprs[k].type) for k in keys]


def observer(code: Generated) -> Callable[[Any, int], None] | None:
    return _set_watermark if code.uses_context else None


def _set_watermark(function: Any, watermark: int) -> None:
    context = context_of(function)
    if context is not None:
        context.watermark = watermark


def copier(code: Generated) -> Callable[[Any], Any]:
    return code.make()


def copy_rows(rows: Any) -> Any:
    """An independent copy of the rows of a key."""
    return list(rows) if type(rows) is list else rows
