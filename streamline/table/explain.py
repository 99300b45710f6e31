"""Plans as text: the tree of the query, of the optimised plan and of what is executed, as Flink prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline._core.changes import RowKind
from streamline.table import logical as L
from streamline.table import physical as P
from streamline.table.expr.nodes import AggCall, Expr, InputRef, rewrite
from streamline.table.parse.pattern import Pattern, Quantified, Variable

__all__ = ("append_only_notes", "digest", "logical_text", "physical_text")


def _named(expr: Expr, names: Sequence[str]) -> str:
    """An expression with the names of columns."""
    return str(rewrite(expr, lambda e: InputRef(e.index, e.type, names[e.index]) if isinstance(e, InputRef) else None))


def _call(call: AggCall, names: Sequence[str]) -> str:
    args = ", ".join(_named(a, names) for a in call.args) or ("*" if call.name == "COUNT" else "")
    text = f"{call.name}({'DISTINCT ' if call.distinct else ''}{args})"
    return text if call.filter is None else f"{text} FILTER {_named(call.filter, names)}"


def _select(exprs: Sequence[Expr], names: Sequence[str], inputs: Sequence[str]) -> str:
    parts = []
    for e, n in zip(exprs, names):
        text = _named(e, inputs)
        parts.append(text if text == n else f"{text} AS {n}")
    return ", ".join(parts)


def _duration(millis: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


def window_text(spec: L.WindowSpec, source: str) -> str:
    """A window as explain prints it."""
    inner = [source]
    match spec.kind:
        case "TUMBLE":
            inner.append(f"size=[{_duration(spec.size)}]")
        case "HOP":
            inner += [f"size=[{_duration(spec.size)}]", f"slide=[{_duration(spec.step)}]"]
        case "CUMULATE":
            inner += [f"max_size=[{_duration(spec.size)}]", f"step=[{_duration(spec.step)}]"]
        case "SESSION":
            inner.append(f"gap=[{_duration(spec.size)}]")
    if spec.offset:
        inner.append(f"offset=[{_duration(spec.offset)}]")
    return f"{spec.kind}({', '.join(inner)})"


# -- physical ------------------------------------------------------------------------------------------------------


def _in(node: P.Node) -> tuple[str, ...]:
    return node.inputs[0].schema.names


def _scan(node: P.TableSourceScan) -> str:
    shape = node.scan.shape
    source = ", watermark=[SOURCE_WATERMARK()]" if shape.watermark and shape.watermark.expression is None else ""
    path = ", ".join(node.scan.name)
    return f"TableSourceScan(table=[[{path}{source}]], fields=[{', '.join(node.schema.names)}])"


def _watermark(node: P.WatermarkAssigner) -> str:
    expression = node.spec.expression
    text = "SOURCE_WATERMARK()" if expression is None else _named(expression, _in(node))
    return f"WatermarkAssigner(rowtime=[{node.schema[node.spec.column].name}], watermark=[{text}])"


def _calc(node: P.Calc) -> str:
    where = "" if node.condition is None else f", where=[{_named(node.condition, _in(node))}]"
    return f"Calc(select=[{_select(node.exprs, node.schema.names, _in(node))}]{where})"


def _async_calc(node: P.AsyncCalc) -> str:
    names = node.schema.names
    return f"AsyncCalc(select=[{', '.join(names[:-1])}, {_named(node.call, _in(node))} AS {names[-1]}])"


def _exchange(node: P.Exchange) -> str:
    if not node.keys:
        return "Exchange(distribution=[single])"
    return f"Exchange(distribution=[hash[{', '.join(node.schema.names[k] for k in node.keys)}]])"


def _grouping(keys: Sequence[int], names: Sequence[str]) -> str:
    return f"groupBy=[{', '.join(names[k] for k in keys)}], " if keys else ""


def _group(node: P.GroupAggregate) -> str:
    inputs = _in(node)
    select = [inputs[k] for k in node.keys]
    for c, n in zip(node.calls, node.schema.names[len(node.keys) :]):
        select.append(f"{_call(c, inputs)} AS {n}")
    return f"GroupAggregate({_grouping(node.keys, inputs)}select=[{', '.join(select)}])"


def _window_aggregate(node: P.WindowAggregate) -> str:
    inputs, rel = _in(node), node.node
    select = [inputs[k] for k in rel.keys]
    select += [f"{_call(c, inputs)} AS {n}" for c, n in zip(rel.calls, rel.names[len(rel.keys) :])]
    for p, n in zip(rel.properties, rel.names[len(rel.keys) + len(rel.calls) :]):
        select.append(f"{p}('w$) AS {n}")
    if rel.attached:
        source = f"win_start=[{inputs[rel.start or 0]}], win_end=[{inputs[rel.time]}]"
    else:
        source = f"time_col=[{inputs[rel.time].removesuffix('$time')}]"
    return (
        f"WindowAggregate({_grouping(rel.keys, inputs)}window=[{window_text(rel.spec, source)}], "
        f"select=[{', '.join(select)}])"
    )


def _group_window(node: P.GroupWindowAggregate) -> str:
    inputs, rel = _in(node), node.node
    spec, options = rel.spec, rel.group_window
    assert options is not None
    kind = {"TUMBLE": "Tumbling", "HOP": "Sliding", "SESSION": "Session"}.get(spec.kind, spec.kind)
    sizes = f"{spec.size}, {spec.step}" if spec.kind == "HOP" else str(spec.size)
    select = [inputs[k] for k in rel.keys]
    names = rel.names[len(rel.keys) :]
    select += [f"{_call(c, inputs)} AS {n}" for c, n in zip(rel.calls, names)]
    shown = zip(rel.properties, names[len(rel.calls) :])
    select += [f"{p}('w$) AS {n}" for p, n in shown]
    emit = []
    if options.early is not None:
        emit.append(f"early delay {options.early} millisecond")
    if options.late is not None:
        emit.append(f"late delay {options.late} millisecond")
    properties = f"properties=[{', '.join(f'w${p}' for p in rel.properties)}], " if rel.properties else ""
    return (
        f"GroupWindowAggregate({_grouping(rel.keys, inputs)}"
        f"window=[{kind}GroupWindow('w$, {inputs[rel.time]}, {sizes})], "
        f"{properties}select=[{', '.join(select)}]{f', emit=[{chr(44).join(emit)}]' if emit else ''})"
    )


def _window_tvf(node: P.WindowTableFunction) -> str:
    inputs, rel = _in(node), node.node
    keys = f", partition keys=[{', '.join(inputs[k] for k in rel.keys)}]" if rel.keys else ""
    return f"WindowTableFunction(window=[{window_text(rel.spec, f'time_col=[{inputs[rel.time]}]')}{keys}])"


def _order(keys: Sequence[L.SortKey], names: Sequence[str]) -> str:
    return ", ".join(f"{names[k.column]} {'ASC' if k.ascending else 'DESC'}" for k in keys)


def _rank(node: P.Rank) -> str:
    inputs, rel = _in(node), node.node
    strategy = "AppendFastStrategy" if node.input.mode.is_insert_only else "RetractStrategy"
    number = f", {rel.number}" if rel.number is not None else ""
    return (
        f"Rank(strategy=[{strategy}], rankType=[ROW_NUMBER], rankRange=[rankStart={rel.first}, rankEnd={rel.last}], "
        f"partitionBy=[{', '.join(inputs[p] for p in rel.partition)}], orderBy=[{_order(rel.order, inputs)}], "
        f"select=[{', '.join(inputs)}{number}])"
    )


def _deduplicate(node: P.Deduplicate) -> str:
    inputs = _in(node)
    order = "ROWTIME" if node.schema[node.time].type.is_rowtime else "PROCTIME"
    return (
        f"Deduplicate(keep=[{'LastRow' if node.keep_last else 'FirstRow'}], "
        f"key=[{', '.join(inputs[p] for p in node.partition)}], order=[{order}])"
    )


def _window_rank(node: P.WindowRank) -> str:
    inputs, rel = _in(node), node.node
    return (
        f"WindowRank(rankType=[ROW_NUMBER], rankRange=[rankStart={rel.first}, rankEnd={rel.last}], "
        f"partitionBy=[{', '.join(inputs[p] for p in rel.partition)}], orderBy=[{_order(rel.order, inputs)}])"
    )


def _over(node: P.OverAggregate) -> str:
    inputs, rel = _in(node), node.node
    first = rel.calls[0]
    preceding = first.frame.preceding
    bound = "UNBOUNDED PRECEDING" if preceding is None else f"{preceding} PRECEDING"
    select = [*inputs, *(f"{_call(c.call, inputs)} AS {n}" for c, n in zip(rel.calls, rel.names))]
    partition = f"partitionBy=[{', '.join(inputs[p] for p in first.partition)}], " if first.partition else ""
    frame = "ROWS" if first.frame.rows else "RANGE"
    return (
        f"OverAggregate({partition}orderBy=[{_order(first.order, inputs)}], "
        f"window=[ {frame} BETWEEN {bound} AND CURRENT ROW], select=[{', '.join(select)}])"
    )


def _sort_limit(node: P.SortLimit) -> str:
    rel = node.node
    fetch = "" if rel.limit is None else f", fetch=[{rel.limit}]"
    if not rel.keys:
        return f"Limit(offset=[{rel.offset}]{fetch})"
    return f"SortLimit(orderBy=[{_order(rel.keys, _in(node))}], offset=[{rel.offset}]{fetch})"


def _correlate(node: P.Correlate) -> str:
    inputs = _in(node)
    arguments = ", ".join(_named(a, inputs) for a in node.call.args)
    condition = ""
    if node.condition is not None:
        condition = f", condition=[{_named(node.condition, node.schema.names)}]"
    return (
        f"Correlate(invocation=[{node.call.name}({arguments})], select=[{', '.join(node.schema.names)}], "
        f"joinType=[{'LEFT' if node.left else 'INNER'}]{condition})"
    )


_JOINS: Final = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


def _where(keys: Sequence[tuple[int, int, bool]], rest: Expr | None, left: Sequence[str], right: Sequence[str]) -> str:
    parts = [f"({left[a]} {'IS NOT DISTINCT FROM' if safe else '='} {right[b]})" for a, b, safe in keys]
    if rest is not None:
        parts.append(_named(rest, [*left, *right]))
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})" if parts else "true"


def _unique_text(key: tuple[int, ...] | None, keys: set[int]) -> str:
    if key is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if set(key) <= keys else "HasUniqueKey"


def _join(node: P.Join) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    where = _where(node.keys, node.condition, left, right)
    specs = (
        f"leftInputSpec=[{_unique_text(node.unique[0], {k[0] for k in node.keys})}], "
        f"rightInputSpec=[{_unique_text(node.unique[1], {k[1] for k in node.keys})}]"
    )
    return f"Join(joinType=[{_JOINS[node.kind]}], where=[{where}], select=[{', '.join(node.schema.names)}], {specs})"


def _window_join(node: P.WindowJoin) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    sides = ", ".join(
        f"{side}=[{window_text(node.spec, f'win_end=[{names[end]}]')}]"
        for side, names, end in (("leftWindow", left, node.ends[0]), ("rightWindow", right, node.ends[1]))
    )
    where = _where(node.keys, node.condition, left, right)
    return (
        f"WindowJoin({sides}, joinType=[{_JOINS[node.kind]}], where=[{where}], select=[{', '.join(node.schema.names)}])"
    )


def _interval_join(node: P.IntervalJoin) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    bounds = node.bounds
    where = _where(bounds.keys, node.condition, left, right)
    times = f"leftTime=[{left[bounds.left]}], rightTime=[{right[bounds.right]}]"
    return (
        f"IntervalJoin(joinType=[{_JOINS[node.kind]}], windowBounds=[isRowTime={str(not node.processing).lower()}, "
        f"leftLowerBound={bounds.lower}, leftUpperBound={bounds.upper}, {times}], where=[{where}], "
        f"select=[{', '.join(node.schema.names)}])"
    )


def _temporal_join(node: P.TemporalJoin) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    where = _where(node.keys, node.condition, left, right)
    kind = "LeftOuterJoin" if node.outer else "InnerJoin"
    times = f"leftTimeAttribute=[{left[node.times[0]]}], rightTimeAttribute=[{right[node.times[1]]}]"
    return f"TemporalJoin(joinType=[{kind}], where=[{where}], {times}, select=[{', '.join(node.schema.names)}])"


def _lookup_join(node: P.LookupJoin) -> str:
    inputs, columns = _in(node), node.table.schema.names
    keys = ", ".join(f"{columns[c]}={_named(e, inputs)}" for c, e in node.keys)
    where = "" if node.condition is None else f", where=[{_named(node.condition, [*inputs, *columns])}]"
    kind = "LeftOuterJoin" if node.outer else "InnerJoin"
    return (
        f"LookupJoin(table=[{'.'.join(node.table.name)}], joinType=[{kind}], lookup=[{keys}]{where}, "
        f"select=[{', '.join(node.schema.names)}])"
    )


def _match(node: P.Match) -> str:
    rel, names = node.node, _in(node)
    variables = [e.name for e in rel.elements]
    outputs = node.schema.names[len(rel.partition) :]
    measures = ", ".join(f"{_match_expr(m, variables, names)} AS {n}" for m, n in zip(rel.measures, outputs))
    define = ", ".join(
        f"{v}={_match_expr(c, variables, names)}" for v, c in zip(variables, rel.conditions) if c is not None
    )
    partition = ", ".join(names[p] for p in rel.partition)
    pattern = " ".join(str(_quantified(e)) for e in rel.elements)
    within = "" if rel.within is None else f", within=[{_duration(rel.within)}]"
    target = "" if rel.target is None else f" {variables[rel.target]}"
    return (
        f"Match({f'partitionBy=[{partition}], ' if partition else ''}orderBy=[{_order(rel.order, names)}], "
        f"measures=[{measures}], rowsPerMatch=[ONE ROW PER MATCH], after=[SKIP {rel.after}{target}], "
        f"pattern=[{pattern}]{within}, define=[{define}])"
    )


def _quantified(element: L.PatternElement) -> Pattern:
    variable = Variable(element.name)
    if (element.least, element.most) == (1, 1):
        return variable
    return Quantified(variable, element.least, element.most, element.greedy)


def _match_expr(match: L.MatchExpr, variables: Sequence[str], names: Sequence[str]) -> str:
    def text(value: L.MatchValue) -> str:
        prefix = "" if value.variable < 0 else f"{variables[value.variable]}."
        columns = [f"{prefix}{n}" for n in names]
        if value.call is not None:
            return _call(value.call, columns)
        assert value.expr is not None
        inner = _named(value.expr, columns)
        return f"{'LAST' if value.last else 'FIRST'}({inner}, {value.offset})"

    return _named(match.expr, [text(v) for v in match.values])


def _normalize(node: P.ChangelogNormalize) -> str:
    condition = "" if node.condition is None else f", condition=[{_named(node.condition, node.schema.names)}]"
    return f"ChangelogNormalize(key=[{', '.join(node.schema.names[k] for k in node.keys)}]{condition})"


def _materialize(node: P.UpsertMaterialize) -> str:
    key = ", ".join(node.schema.names[k] for k in node.keys)
    return f"SinkUpsertMaterialize(key=[{key}], conflict=[{node.conflict}])"


def _expand(node: P.Expand) -> str:
    inputs = _in(node)
    rows = ", ".join("{" + ", ".join(_named(e, inputs) for e in p) + "}" for p in node.projections)
    return f"Expand(projects=[{rows}])"


def _values(node: P.Values) -> str:
    rows = ", ".join("{ " + ", ".join(map(str, r)) + " }" for r in node.rows)
    return f"Values(tuples=[[{rows}]])"


def _union(node: P.UnionAll) -> str:
    return f"Union(all=[true], union=[{', '.join(node.schema.names)}])"


def _sink(node: P.Sink) -> str:
    return f"Sink(table=[{node.sink.name}], fields=[{', '.join(node.schema.names)}])"


_PHYSICAL: Final[dict[type[P.Node], Callable[[Any], str]]] = {
    P.TableSourceScan: _scan,
    P.WatermarkAssigner: _watermark,
    P.Calc: _calc,
    P.AsyncCalc: _async_calc,
    P.Exchange: _exchange,
    P.GroupAggregate: _group,
    P.WindowAggregate: _window_aggregate,
    P.GroupWindowAggregate: _group_window,
    P.WindowTableFunction: _window_tvf,
    P.Join: _join,
    P.TemporalJoin: _temporal_join,
    P.LookupJoin: _lookup_join,
    P.IntervalJoin: _interval_join,
    P.OverAggregate: _over,
    P.WindowJoin: _window_join,
    P.Rank: _rank,
    P.Deduplicate: _deduplicate,
    P.WindowRank: _window_rank,
    P.Match: _match,
    P.SortLimit: _sort_limit,
    P.TemporalSort: lambda n: f"TemporalSort(orderBy=[{_order(n.keys, _in(n))}])",
    P.Correlate: _correlate,
    P.ChangelogNormalize: _normalize,
    P.DropUpdateBefore: lambda _: "DropUpdateBefore",
    P.ToChangelog: lambda n: f"ToChangelog(op=[{n.schema.names[0]}])",
    P.FromChangelog: lambda n: f"FromChangelog(op=[{n.input.schema.names[n.op]}])",
    P.Upserts: lambda n: f"Upserts(key=[{', '.join(n.schema.names[k] for k in n.keys)}])",
    P.UpsertMaterialize: _materialize,
    P.Expand: _expand,
    P.Values: _values,
    P.UnionAll: _union,
    P.Sink: _sink,
}


def digest(node: P.Node) -> str:
    """One line for a physical node."""
    text = _PHYSICAL.get(type(node))
    return type(node).__name__ if text is None else text(node)


_SHORT: Final = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}


def physical_text(node: P.Node, changelog_mode: bool = False) -> str:
    """A physical plan as a tree."""

    def line(n: P.Node) -> str:
        text = digest(n)
        if not changelog_mode:
            return text
        kinds = f"changelogMode=[{','.join(_SHORT[k] for k in RowKind if k in n.mode.kinds)}]"
        return f"{text[:-1]}, {kinds})" if text.endswith(")") else f"{text}({kinds})"

    return _tree(node, line, lambda n: n.inputs)


def _tree(node: Any, line: Callable[[Any], str], inputs: Callable[[Any], Sequence[Any]], indent: str = "") -> str:
    lines = [line(node)]
    children = inputs(node)
    for i, child in enumerate(children):
        last = i == len(children) - 1
        inner = _tree(child, line, inputs).split("\n")
        lines.append(f"{indent}+- {inner[0]}" if last else f"{indent}:- {inner[0]}")
        lines += [f"{indent}{'   ' if last else ':  '}{rest}" for rest in inner[1:]]
    return "\n".join(lines)


# -- logical -------------------------------------------------------------------------------------------------------


def _position(expr: Expr) -> str:
    return str(rewrite(expr, lambda e: InputRef(e.index, e.type, f"${e.index}") if isinstance(e, InputRef) else None))


def _logical_call(call: AggCall) -> str:
    args = ", ".join(map(_position, call.args))
    text = f"{call.name}({'DISTINCT ' if call.distinct else ''}{args})"
    return text if call.filter is None else f"{text} FILTER {_position(call.filter)}"


def _logical_line(rel: L.Rel) -> str:
    match rel:
        case L.Scan():
            return f"LogicalTableScan(table=[[{', '.join(rel.name)}]])"
        case L.Values():
            rows = ", ".join("{ " + ", ".join(map(str, r)) + " }" for r in rel.rows)
            return f"LogicalValues(tuples=[[{rows}]])"
        case L.Project():
            return f"LogicalProject({', '.join(f'{n}=[{_position(e)}]' for n, e in zip(rel.names, rel.exprs))})"
        case L.Filter():
            return f"LogicalFilter(condition=[{_position(rel.condition)}])"
        case L.Aggregate():
            calls = zip(rel.names[len(rel.keys) :], rel.calls)
            sets = ", ".join("{" + ", ".join(map(str, s)) + "}" for s in rel.sets)
            parts = [f"group=[{{{', '.join(map(str, rel.keys))}}}]", *([f"groups=[[{sets}]]"] if sets else [])]
            parts += [f"{n}=[{_logical_call(c)}]" for n, c in calls]
            return f"Logical{'Window' if rel.window else ''}Aggregate({', '.join(parts)})"
        case L.Distinct():
            return f"LogicalAggregate(group=[{{{', '.join(map(str, range(len(rel.schema))))}}}])"
        case L.WindowTvf():
            spec = rel.spec
            numbers = ", ".join(f"{n}:INTERVAL MILLISECOND" for n in (spec.step, spec.size) if n)
            name = rel.input.schema.names[rel.time]
            return (
                f"LogicalTableFunctionScan(invocation=[{spec.kind}(TABLE(#0), DESCRIPTOR('{name}'), {numbers})], "
                f"rowType=[{rel.schema}])"
            )
        case L.Join():
            return f"LogicalJoin(condition=[{_position(rel.condition)}], joinType=[{rel.kind.lower()}])"
        case L.Union():
            return "LogicalUnion(all=[true])"
        case L.SetOperation():
            kind = "LogicalIntersect" if rel.kind == "INTERSECT" else "LogicalMinus"
            return f"{kind}(all=[{str(rel.all).lower()}])"
        case L.Sink():
            return f"LogicalSink(table=[{rel.name}], fields=[{', '.join(rel.schema.names)}])"
        case _:
            return f"Logical{type(rel).__name__}({rel.schema})"


def logical_text(rel: L.Rel) -> str:
    """A logical plan as a tree."""
    return _tree(rel, _logical_line, lambda r: r.inputs)


# -- notes ---------------------------------------------------------------------------------------------------------


def append_only_notes(nodes: Sequence[P.Node], early_or_late: bool) -> list[str]:
    """What 'table.exec.streaming.prefer-append-only' has changed, and which nodes still send updates."""
    notes: list[str] = []
    for node in _all(nodes):
        if isinstance(node, P.GroupWindowAggregate) and early_or_late:
            notes.append(
                "prefer-append-only: early and late firing are off, results are sent at the end of each window: "
                f"{digest(node)}"
            )
        makes = RowKind.UPDATE_AFTER in node.mode.kinds or RowKind.DELETE in node.mode.kinds
        if makes and not isinstance(node, P.PASSING) and node.inputs:
            notes.append(f"prefer-append-only: there is no insert-only variant of {digest(node)}")
    return list(dict.fromkeys(notes))


def _all(nodes: Sequence[P.Node]) -> list[P.Node]:
    found: list[P.Node] = []
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(node.inputs))
    return found
