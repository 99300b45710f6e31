"""Builders of nodes that read, compute, move and unite rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from streamline._channel.partition import Global, Hash
from streamline._graph.stream_graph import Node as GraphNode
from streamline._operators.assign_watermarks import AssignWatermarks
from streamline._operators.calc import Calc
from streamline.table import physical as P
from streamline.table.async_calls import async_calls
from streamline.table.codegen.changelog import expand as expand_code
from streamline.table.codegen.correlate import correlate as correlate_code
from streamline.table.codegen.rows import Rows
from streamline.table.codegen.watermark import watermark_cuts, watermark_newest
from streamline.table.explain import digest
from streamline.table.expr.fold import evaluate
from streamline.table.expr.functions.logic import and_
from streamline.table.expr.nodes import input_refs, is_deterministic
from streamline.table.lowering.base import Attached, Lowering, Stream, observer, refs
from streamline.table.rules.merge_projections import may_inline
from streamline.table.source_watermarks import RowWatermarks
from streamline.table.sources import SourceNode
from streamline.table.values import ConstantRows

__all__ = ("async_calc", "calc", "correlate", "exchange", "expand", "scan", "union", "values", "watermark")


def scan(low: Lowering, node: P.TableSourceScan) -> Stream:
    scan = node.scan
    sources = tuple(Attached(*found) for found in scan.source.attach(low.graph))
    return Stream(sources, Rows.of_shape(scan.shape))


def watermark(low: Lowering, node: P.WatermarkAssigner) -> Stream:
    stream = low.lower(node.input)
    spec = node.spec
    assert spec.expression is not None
    if not low.event_time:
        return stream
    write = watermark_cuts if spec.on_event else watermark_newest
    name = node.schema[spec.column].name
    code = write(stream.rows, spec.column, name, spec.expression, low.context)
    if isinstance(node.input, P.TableSourceScan) and isinstance(node.input.scan.source, SourceNode):
        for source in stream.sources:
            low.graph.update(source.node, strategy=RowWatermarks(code.make, spec))
        return stream
    make = partial(AssignWatermarks, code.make, spec.on_event, spec.interval, spec.idle_timeout)
    added = low.operator("WatermarkAssigner", stream, make, description=digest(node), event_time="yes")
    return Stream((added,), stream.rows)


def calc(low: Lowering, node: P.Calc) -> Stream:
    stream = low.lower(node.input)
    below = stream.rows.exprs
    conditions = () if node.condition is None else (node.condition,)
    # A condition that is inlined may be evaluated where its columns are read again.
    fixed = all(is_deterministic(below[i]) for c in conditions for i in input_refs(c))
    if not may_inline((*node.exprs, *conditions), below) or not fixed:
        stream = low.materialized(stream)
    rows = stream.rows
    if node.condition is not None:
        rows = rows.where(node.condition, and_)
    result = Stream(stream.sources, rows.project(node.exprs), stream.partition, None)
    # What is not deterministic is computed once, here, and not wherever it is used.
    return result if all(map(is_deterministic, result.rows.exprs)) else low.materialized(result)


def async_calc(low: Lowering, node: P.AsyncCalc) -> Stream:
    stream = low.materialized(low.lower(node.input))
    make = partial(async_calls, node.call, node.options)
    added = low.operator("AsyncCalc", stream, make, description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, True))


def exchange(low: Lowering, node: P.Exchange) -> Stream:
    stream = low.lower(node.input)
    fixed = all(is_deterministic(stream.rows.exprs[k]) for k in node.keys)
    if not fixed or stream.rows.reads_timestamp(refs(stream, node.keys)):
        stream = low.materialized(stream)
    if not node.keys:
        return replace(stream, partition=Global(), keys=())
    key = low.key(stream, node.keys)
    return replace(stream, partition=Hash(key.make()), keys=node.keys)


def values(low: Lowering, node: P.Values) -> Stream:
    source = ConstantRows(tuple(tuple(evaluate(e, low.context) for e in r) for r in node.rows))
    added = low.graph.add(
        GraphNode(id=0, name="Values", kind="source", source=source, parallelism=1, description=digest(node))
    )
    return Stream((Attached(added.id),), Rows.of_tuples(node.schema.types, True))


def union(low: Lowering, node: P.UnionAll) -> Stream:
    streams = [low.materialized(low.lower(i)) for i in node.inputs]
    insert_only = all(s.rows.insert_only for s in streams)
    sources = tuple(s for stream in streams for s in stream.sources)
    return Stream(sources, Rows.of_tuples(node.schema.types, insert_only))


def correlate(low: Lowering, node: P.Correlate) -> Stream:
    stream = low.lower(node.input)
    code = correlate_code(stream.rows, node.call, node.condition, node.left, low.context)
    added = low.operator("Correlate", stream, partial(Calc, code.make, observer(code)), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))


def expand(low: Lowering, node: P.Expand) -> Stream:
    stream = low.lower(node.input)
    code = expand_code(stream.rows, node.projections, low.context)
    added = low.operator("Expand", stream, partial(Calc, code.make), description=digest(node))
    return Stream((added,), Rows.of_tuples(node.schema.types, stream.rows.insert_only))
