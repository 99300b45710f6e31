"""Runs one recorded case: its tables are fed row by row, its query is planned and executed, its changelog collected."""

from __future__ import annotations

from typing import Any

import sqlglot.expressions as exp

from streamline._core import types as t
from streamline._core.changes import ChangelogMode, RowKind
from streamline._core.elements import Batch
from streamline._core.types import DataType
from streamline._graph.stream_graph import Edge, Node, StreamGraph
from streamline._runtime.execute import ExecutionOptions, launch
from streamline.abc import Operator, Output
from streamline.errors import SqlParserException, TableException, ValidationException
from streamline.table import logical as L
from streamline.table.bind.query import QueryBinder
from streamline.table.bind.query_names import Relation
from streamline.table.bind.query_scope import FromScope
from streamline.table.bind.query_select import SelectBinder
from streamline.table.parse import parse_data_type, parse_expression, parse_query, parse_statement
from streamline.table.planner import evaluation_context, plan_query, translate
from streamline.table.planner_config import PlannerConfig
from streamline.testing.clock import VirtualClock
from streamline.testing.scripted import Pace, ScriptedSource
from tests.conformance.values import decode, encode


class Tables:
    """The case's tables and views, as the binder asks for them."""

    def __init__(self) -> None:
        self.plans: dict[str, L.Rel] = {}

    def table(self, path: tuple[str, ...], options: Any) -> L.Rel | None:
        if path[:-1] not in ((), ("default_database",), ("default_catalog", "default_database")):
            return None
        return self.plans.get(path[-1])

    def function(self, path: tuple[str, ...]) -> Any:
        return None


class Collect(Operator):
    name = "collect"

    def __init__(self, into: list[Any]) -> None:
        self.into = into

    async def on_batch(self, batch: Batch, out: Output) -> None:
        kinds = batch.kinds or [RowKind.INSERT] * len(batch.values)
        self.into += zip(kinds, batch.values)


def scope_over(schema: L.RowSchema, config: PlannerConfig, tables: Tables) -> FromScope:
    query = QueryBinder(tables, config, evaluation_context(config))
    select = SelectBinder(query, exp.Select())
    rel = L.Values(schema, ())
    select.rel = rel
    return FromScope(select, Relation.of(rel), "a schema")


def make_table(
    name: str, spec: dict[str, Any], graph: StreamGraph, config: PlannerConfig, tables: Tables, pace: Pace | None
) -> L.Scan:
    key = spec.get("primary_key") or []
    physical = [(n, parse_data_type(x)) for n, x in spec["ddl_columns"] if not x.startswith("AS ")]
    physical = [(n, x.not_null() if n in key else x) for n, x in physical]
    place = {n: i for i, (n, _) in enumerate(physical)}
    base = L.RowSchema.of(*zip(*physical))
    scope = scope_over(base, config, tables)
    order = [n for n, _ in spec["ddl_columns"]]
    types: dict[str, DataType] = dict(physical)
    computed = {}
    for n, text in spec["ddl_columns"]:
        if text.startswith("AS "):
            computed[n] = scope.binder.bind(parse_expression(text[3:]).ast)
            types[n] = computed[n].type
    watermark = spec.get("watermark")
    if watermark:
        found = types[watermark[0]]
        if not found.is_timestamp or found.precision > 3:
            raise ValidationException("Invalid data type of time field for watermark definition")
        types[watermark[0]] = found.as_time_attribute("rowtime")
    columns = []
    moved = {base.names[i]: order.index(base.names[i]) for i in range(len(base))}

    def at_place(e: Any) -> Any:
        from streamline.table.expr.nodes import InputRef, rewrite

        def place_of(x: Any) -> Any:
            if isinstance(x, InputRef):
                n = base.names[x.index]
                return InputRef(moved[n], types[n], n)
            return None

        return rewrite(e, place_of)

    for n in order:
        if n in computed:
            columns.append(L.ShapeColumn(n, types[n], expression=at_place(computed[n])))
        else:
            columns.append(L.ShapeColumn(n, types[n], source=f"r[{place[n]}]"))
    mark = None
    if watermark:
        full = L.RowSchema.of(order, (types[n] for n in order))
        expression = scope_over(full, config, tables).binder.bind(parse_expression(watermark[1]).ast)
        mark = L.WatermarkSpec(order.index(watermark[0]), expression, on_event=True)
    mode = {
        False: ChangelogMode.insert_only(),
        "retract": ChangelogMode.all(),
        "upsert": ChangelogMode.upsert(),
        "lookup": ChangelogMode.insert_only(),
    }[spec["changelog"]]
    shape = L.RowShape(tuple(columns), mark, mode, tuple(order.index(k) for k in key))
    values, kinds = [], []
    for kind, *row in spec["rows"]:
        values.append(tuple(decode(v, x) for v, (_, x) in zip(row, physical)))
        kinds.append(RowKind.from_short_string(kind))
        for v, (n, x) in zip(values[-1], physical):
            if v is None and not x.nullable:
                values[-1] = _Broken(f"Column '{n}' is NOT NULL, however, a null value is being written into it.")
    if spec["changelog"] == "lookup":
        lookup = Lookup([n for n, _ in physical], values)
        return L.Scan(("default_catalog", "default_database", name), shape, L.GraphNode(0), lookup)
    source = ScriptedSource(
        [Batch(values, None, kinds if mode != ChangelogMode.insert_only() else None)] if values else [],
        paced=pace or False,
        name=name,
    )
    node = graph.add(Node(id=0, name=name, kind="source", source=source, parallelism=1))
    return L.Scan(("default_catalog", "default_database", name), shape, L.GraphNode(node.id))


class Lookup:
    """A table that is read by key; its own reader."""

    def __init__(self, names: list[str], rows: list[Any]) -> None:
        self.names = names
        self.rows = rows
        self.columns: list[int] = []

    def reader(self, columns: tuple[str, ...]) -> Lookup:
        found = Lookup(self.names, self.rows)
        found.columns = [self.names.index(c) for c in columns]
        return found

    async def open(self) -> None:
        return None

    async def lookup(self, keys: Any) -> Any:
        return [[r for r in self.rows if tuple(r[c] for c in self.columns) == key] for key in keys]

    async def close(self) -> None:
        return None


class _Broken(tuple):
    def __new__(cls, message: str) -> Any:
        self = super().__new__(cls)
        self.message = message
        return self

    def __getitem__(self, i: Any) -> Any:
        raise TableException(self.message)


def phase_of(error: Exception) -> str:
    if isinstance(error, SqlParserException):
        return "parse"
    if isinstance(error, ValidationException):
        return "validate"
    return "plan"


async def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """The answer to a case, in the judge's form."""
    graph = StreamGraph()
    tables = Tables()
    settings = dict(case.get("config", {}))
    settings.setdefault("table.local-time-zone", "UTC")
    rows: list[Any] = []
    arrival = case.get("arrival")
    paced = bool(arrival) or case.get("paced") or len(case["tables"]) > 1
    try:
        config = PlannerConfig.read(settings)
        if arrival is None:
            arrival = [n for n, spec in case["tables"].items() for _ in spec["rows"]]
        arrival = [n for n in arrival if case["tables"][n]["changelog"] != "lookup"]
        pace = Pace(arrival) if paced else None
        for name, spec in case["tables"].items():
            tables.plans[name] = make_table(name, spec, graph, config, tables, pace)
        for text in case.get("setup") or ():
            view = parse_statement(text)
            plan = plan_query(view.query.ast, tables, config)
            if view.columns:
                from streamline.table import build

                plan = build.rename(plan, view.columns)
            tables.plans[view.path[-1]] = plan
        rel = plan_query(parse_query(case["sql"]).ast, tables, config)
        mode = {None: ChangelogMode.all(), "append": ChangelogMode.insert_only(), "upsert": ChangelogMode.upsert()}[
            case.get("sink")
        ]
        keys = tuple(rel.schema.names.index(k) for k in case.get("sink_key") or ())
        sink = L.Sink(rel, "*anonymous_datastream_sink$1*", L.OutputShape(kinds=True), None, mode, keys)
        (out,) = translate([sink], graph, config)
    except Exception as error:
        if not isinstance(error, (SqlParserException, ValidationException, TableException)):
            raise
        return {"error": {"phase": phase_of(error), "message": str(error)}}
    collect = graph.add(
        Node(id=0, name="collect", kind="sink", operator=lambda: Collect(rows), parallelism=1),
        Edge(out.node, 0, side=out.side),
    )
    job = await launch(graph.above([collect.id]), ExecutionOptions(clock=VirtualClock()))
    try:
        await job.wait()
    except Exception as error:
        return {"error": {"phase": "runtime", "message": str(error)}}
    types = [f.type for f in rel.schema]
    changelog = [[k.short_string, *(encode(v, x) for v, x in zip(row, types))] for k, row in rows]
    schema = [[f.name, f.type.materialized().summary()] for f in rel.schema]
    return {"schema": schema, "changelog": changelog}


__all__ = ("run_case", "t")
