"""Loops of aggregates over windows that end with each row: `SUM(v) OVER (PARTITION BY k ORDER BY ts …)`.

A key's state is a list: the time fired last, the rows in the frame, counters for ranks, then the slots of aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamline._core.types import DataType
from streamline.table.codegen.aggregates import Aggregates
from streamline.table.codegen.calc import tuple_source
from streamline.table.codegen.rank import precedes
from streamline.table.codegen.rows import LoopReader, Rows
from streamline.table.codegen.writer import Generated, Writer
from streamline.table.expr.context import EvalContext
from streamline.table.expr.nodes import AggCall
from streamline.table.logical import OverFrame, SortKey

__all__ = ("OverLoop", "ordered_over", "over_loop")

RANKS: Final = ("ROW_NUMBER", "RANK", "DENSE_RANK")


@dataclass(frozen=True, slots=True)
class OverLoop:
    """Functions of an OVER aggregate.

    Attributes:
        fire: `fire(time, rows, state) -> rows`: the rows of one time (in order of arrival) with their results.
        new: `new()`: the state of a new key.
    """

    fire: Generated
    new: Generated


def over_loop(types: Sequence[DataType], calls: Sequence[AggCall], frame: OverFrame, context: EvalContext) -> OverLoop:
    """The loop over rows (tuples) that come ordered by time."""
    reader = LoopReader(Rows.of_tuples(types, True), context)
    plain = [c for c in calls if c.name not in RANKS and c.name != "LAG"]
    bounded = frame.preceding is not None
    aggregates = Aggregates(plain, reader, retracting=bounded, sparse=bounded, wraps=False)
    lags = [c for c in calls if c.name == "LAG"]
    names = aggregates.names
    w = Writer()
    with w.block("def fire(time, rows, state):"):
        w.line(f"_, frame, past, seen, peers{''.join(f', {n}' for n in names)} = state")
        w.line("out = []")
        w.line("peers += 1")
        w.line("before = seen")
        if not frame.rows:
            _range(w, aggregates, frame, bounded)
        with w.block("for r in rows:"):
            w.line("seen += 1")
            if frame.rows:
                _rows(w, aggregates, frame, bounded)
            results = iter(aggregates.results())
            values = [_special(c, reader, lags) or next(results) for c in calls]
            w.line(f"out.append(r + {tuple_source(values)})")
            for i, lag in enumerate(lags):
                w.line(f"past[{i}].append({reader.value(lag.args[0])})")
                with w.block(f"if len(past[{i}]) > {max(_offset(lag), 1)}:"):
                    w.line(f"del past[{i}][0]")
        w.line(f"state[:] = [time, frame, past, seen, peers{''.join(f', {n}' for n in names)}]")
        w.line("return out")
    new = Writer()
    with new.block("def new():"):
        initial = aggregates.initial_sources()
        past = "[" + ", ".join("[]" for _ in lags) + "]"
        new.line(f"return [0, [], {past}, 0, 0{''.join(f', {s}' for s in initial)}]")
    namespace = reader.finish()
    return OverLoop(Generated("fire", w.text(), namespace), Generated("new", new.text(), namespace))


def _offset(call: AggCall) -> int:
    return int(dict(call.options).get("offset", 1))


def _special(call: AggCall, reader: LoopReader, lags: Sequence[AggCall]) -> str | None:
    """Source of a rank or of a row before, None for an aggregate."""
    match call.name:
        case "ROW_NUMBER":
            return "seen"
        case "RANK":
            return "before + 1"
        case "DENSE_RANK":
            return "peers"
        case "LAG":
            place, offset = lags.index(call), _offset(call)
            if offset == 0:
                return reader.value(call.args[0])
            default = dict(call.options).get("default")
            otherwise = reader.compiler.constant(default)
            return f"(past[{place}][-{offset}] if len(past[{place}]) >= {offset} else {otherwise})"
    return None


def _range(w: Writer, aggregates: Aggregates, frame: OverFrame, bounded: bool) -> None:
    """All rows of the time count for each of them."""
    if bounded:
        with w.block(f"while frame and frame[0][0] < time - {frame.preceding}:"):
            w.line("r = frame.pop(0)[1]")
            aggregates.rebind(w)
            aggregates.retract(w)
    with w.block("for r in rows:"):
        aggregates.rebind(w)
        aggregates.add(w)
        if bounded:
            w.line("frame.append((time, r))")


def _rows(w: Writer, aggregates: Aggregates, frame: OverFrame, bounded: bool) -> None:
    if bounded:
        w.line("frame.append((time, r))")
        with w.block(f"if len(frame) > {(frame.preceding or 0) + 1}:"):
            w.line("current, r = r, frame.pop(0)[1]")
            aggregates.rebind(w)
            aggregates.retract(w)
            w.line("r = current")
    aggregates.rebind(w)
    aggregates.add(w)


def ordered_over(
    types: Sequence[DataType],
    calls: Sequence[AggCall],
    order: Sequence[SortKey],
    frame: OverFrame,
    context: EvalContext,
) -> tuple[Generated, Generated]:
    """For an order that is no time: `results(rows)`, and `position(rows, row)` behind its equals.

    `results` gives the results of all rows of a key, which are in order.
    """
    reader = LoopReader(Rows.of_tuples(types, True), context)
    plain = [c for c in calls if c.name not in RANKS]
    aggregates = Aggregates(plain, reader, retracting=False, sparse=True, wraps=False)
    w = Writer()
    text = precedes("precedes", order, types)
    with w.block("def results(rows):"):
        aggregates.initial(w)
        w.line("out = []")
        w.line("seen = peers = start = 0")
        w.line("size = len(rows)")
        with w.block("while start < size:"):
            w.line("stop = start + 1")
            with w.block("while stop < size and not precedes(rows[start], rows[stop]):"):
                w.line("stop += 1")
            w.line("before = start")
            w.line("peers += 1")
            if not frame.rows:
                with w.block("for r in rows[start:stop]:"):
                    aggregates.rebind(w)
                    aggregates.add(w)
            with w.block("for r in rows[start:stop]:"):
                w.line("seen += 1")
                if frame.rows:
                    aggregates.rebind(w)
                    aggregates.add(w)
                results = iter(aggregates.results())
                values = [_special(c, reader, ()) or next(results) for c in calls]
                w.line(f"out.append({tuple_source(values)})")
            w.line("start = stop")
        w.line("return out")
    position = Writer()
    with position.block("def position(rows, row):"):
        position.line("low, high = 0, len(rows)")
        with position.block("while low < high:"):
            position.line("middle = (low + high) // 2")
            with position.block("if precedes(row, rows[middle]):"):
                position.line("high = middle")
            with position.block("else:"):
                position.line("low = middle + 1")
        position.line("return low")
    namespace = reader.finish()
    return (
        Generated("results", text + w.text(), namespace),
        Generated("position", text + position.text(), {}),
    )
