"""How plans are run: as jobs of their own, or as part of the stream environment's graph."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from typing import Any, Final

from streamline._channel.partition import Forward
from streamline._core import types as t
from streamline._core.changes import ChangelogMode, Row
from streamline._core.options import OPTIONS
from streamline._core.types import Field
from streamline._graph.stream_graph import StreamGraph
from streamline.errors import StreamlineError, ValidationException
from streamline.table.bridge import StreamHost
from streamline.table.logical import Rel, Sink
from streamline.table.lower import Attached
from streamline.table.outputs import row_shape
from streamline.table.planner import explain, translate
from streamline.table.planner_config import PlannerConfig
from streamline.table.result import CloseableIterator, ResultKind, TableResult
from streamline.table.schema import ResolvedSchema
from streamline.table.session import TableSession

__all__ = ("Execution",)

#: Options of the table API that are other names of the stream environment's.
_PASSED_ON: Final = {
    "table.exec.state.backend": "state.backend.type",
    "table.exec.state.checkpoint-interval": "execution.checkpointing.interval",
}


class Execution:
    """Runs the plans of one table environment.

    Args:
        host: the stream environment.
        session: names and settings.
        streaming: False in batch mode.
    """

    def __init__(self, host: StreamHost, session: TableSession, streaming: bool) -> None:
        self.host = host
        self.session = session
        self.streaming = streaming
        self._numbers = itertools.count(1)

    def anonymous(self, what: str) -> str:
        """A name for what was given none."""
        return f"*anonymous_{what}${next(self._numbers)}*"

    def settings(self) -> PlannerConfig:
        """The settings of a plan that is made now; what is the stream environment's is handed to it."""
        config = self.session.config
        for key, target in _PASSED_ON.items():
            if config.get_configuration().contains_key(key):
                value = config.value(key)
                if value == "rocksdb" and importlib.util.find_spec("rocksdict") is None:
                    raise ValidationException(
                        f"{key} = rocksdb needs the package rocksdict: install streamline[rocksdb]"
                    )
                text = f"{value} ms" if key.endswith("interval") else value
                self._hand_on(target, text)
        for key, text in config.get_configuration().to_dict().items():
            option = OPTIONS.get(key)
            # The mode is the table environment's own: it is told when it is made.
            if option is not None and option.reader == "stream" and key != "execution.runtime-mode":
                self._hand_on(key, text)
        return self.session.planner_config

    def _hand_on(self, key: str, text: str) -> None:
        if self.host.configuration.get(key, None) != text:
            self.host.configuration.set(key, text)

    def explain(self, rels: Sequence[Rel], details: Sequence[Any]) -> str:
        """The plans as text."""
        return explain(rels, self.settings(), [str(getattr(d, "name", d)) for d in details])

    def _add(self, sinks: Sequence[Sink], graph: StreamGraph) -> tuple[Attached, ...]:
        """Plans as part of a graph."""
        before = set(graph.nodes)
        attached = translate(sinks, graph, self.settings())
        parallelism = self.session.config.value("table.exec.resource.default-parallelism")
        if parallelism > 0:
            _set_parallelism(graph, before, parallelism)
        return attached

    # -- in the stream environment -------------------------------------------------------------------------------

    def translate(self, sinks: Sequence[Sink], what: str) -> tuple[tuple[Attached, ...], set[int]]:
        """Add plans to the stream environment's graph; gives their nodes, and those that were there before."""
        before = set(self.host.graph.nodes)
        attached = self._add(sinks, self.host.graph)
        self.session.config.planned(what)
        return attached, before

    def attach(self, sinks: Sequence[Sink]) -> None:
        """Add inserts to the stream environment's graph, whose `execute` runs them."""
        if not sinks:
            return
        what = "attach_as_datastream of " + ", ".join(s.name for s in sinks)
        attached, _ = self.translate(sinks, what)
        for sink, node in zip(sinks, attached):
            self.host.env.note_conversion(node.node, f"attach_as_datastream of {sink.name}")

    # -- jobs of their own ---------------------------------------------------------------------------------------

    def _collecting(self, rel: Rel) -> tuple[CloseableIterator, Any]:
        name = self.anonymous("collect")
        sink = Sink(rel, name, row_shape(rel, None), None, ChangelogMode.all())
        graph = self.host.copied_graph()
        (attached,) = self._add([sink], graph)
        results = self.host.collected(graph, attached, "collect")
        return CloseableIterator(results), results

    def collect(self, rel: Rel) -> CloseableIterator:
        """The rows of a query; its job starts with the first that is asked for."""
        return self._collecting(rel)[0]

    async def select(self, rel: Rel) -> TableResult:
        """Run a query; returns when its job runs."""
        rows, results = self._collecting(rel)
        await results.__aenter__()
        return TableResult(
            ResultKind.SUCCESS_WITH_CONTENT,
            ResolvedSchema.of(Field(f.name, f.type.materialized()) for f in rel.schema),
            rows,
            self.host.client(results.job),
            running=True,
            width=self.display_width(),
            context=self.session.eval_context,
            with_kinds=self.streaming,
        )

    def display_width(self) -> int:
        """Width of columns of no fixed width, where results are printed."""
        return int(self.session.config.value("table.display.max-column-width") or 30)

    async def insert(self, sinks: Sequence[Sink]) -> TableResult:
        """Run inserts as one job; returns when it runs, with `table.dml-sync` when it has ended."""
        if not sinks:
            raise StreamlineError("No operators defined in streaming topology. Cannot execute.")
        graph = self.host.copied_graph()
        attached = self._add(sinks, graph)
        name = self.session.config.value("pipeline.name") or "insert-into_" + ",".join(s.name for s in sinks)
        job = await self.host.run(graph, [a.node for a in attached], name)
        schema = ResolvedSchema.of(Field(s.name, t.BIGINT) for s in sinks)
        result = TableResult(
            ResultKind.SUCCESS_WITH_CONTENT,
            schema,
            CloseableIterator(None, [_affected(s.name for s in sinks)]),
            job,
            width=self.display_width(),
        )
        if self.session.config.value("table.dml-sync"):
            await result.wait()
        return result


def _affected(names: Any) -> Any:
    columns = tuple(names)
    return Row.with_names(columns, [-1] * len(columns))


def _set_parallelism(graph: StreamGraph, before: set[int], parallelism: int) -> None:
    """Give the nodes that were added a parallelism, but those that belong to a stream without an exchange between."""
    for number in sorted(set(graph.nodes) - before):
        node = graph.nodes[number]
        joined = [graph.nodes[e.source] for e in graph.inputs(number) if isinstance(e.partition, Forward)]
        if node.parallelism is None and all(n.parallelism == parallelism for n in joined):
            graph.update(number, parallelism=parallelism)
