"""Neither the cutting of the input into batches nor the parallelism shows in the results.

Random small pipelines over random inputs against plain Python: insert-only results as a multiset, rolling ones in order
per key, updating ones after folding; inputs merged by `union` too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta
from operator import itemgetter

from hypothesis import given, note
from hypothesis import strategies as st

from streamline import RowKind, StreamExecutionEnvironment, WatermarkStrategy
from streamline._core.elements import Batch
from streamline.functions import AggregateFunction, KeyedProcessFunction
from streamline.state import ValueStateDescriptor
from streamline.table import Schema, StreamTableEnvironment
from streamline.testing import ScriptedSource, VirtualClock
from streamline.windows import TumblingEventTimeWindows

SIZE = 10  # of windows, in ms
RECORD = tuple[int, int, int]

# A record is (key, value, event time). Steps are record by record: a function to 0..n records each.
STEPS = {
    "map": (lambda s: s.map(lambda r: (r[0], r[1] + 1, r[2]), output_type=RECORD), lambda r: [(r[0], r[1] + 1, r[2])]),
    "filter": (lambda s: s.filter(lambda r: r[1] % 3 != 0), lambda r: [r] if r[1] % 3 else []),
    "flat_map": (lambda s: s.flat_map(lambda r: [r] * (r[1] % 3), output_type=RECORD), lambda r: [r] * (r[1] % 3)),
    "rekey": (
        lambda s: s.map(lambda r: (r[0] % 2, r[1], r[2]), output_type=RECORD),
        lambda r: [(r[0] % 2, r[1], r[2])],
    ),
    "rebalance": (lambda s: s.rebalance(), lambda r: [r]),
}


class Total(AggregateFunction):
    def create_accumulator(self):
        return (None, 0, 0)

    def add(self, r, acc):
        return (r[0], acc[1] + 1, acc[2] + r[1])

    def get_result(self, acc):
        return acc

    def merge(self, a, b):
        return (a[0], a[1] + b[1], a[2] + b[2])


class Last(KeyedProcessFunction):
    """Emits each value with the number of the record within its key, and the final number by a timer."""

    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

    def process_element(self, r, ctx):
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        ctx.timer_service().register_event_time_timer(10_000)
        yield (r[0], n, r[1])

    def on_timer(self, timestamp, ctx):
        yield (ctx.get_current_key(), self.n.value(), "end")


records = st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 20), st.integers(0, 60)), max_size=40)


@st.composite
def cut(draw, values):
    """The values as batches, cut at random places."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(values) - 1)), max_size=8))) if values else []
    return [Batch(values[a:b]) for a, b in zip([0, *places], [*places, len(values)]) if a < b]


def apply(steps, values):
    for step in steps:
        values = [out for r in values for out in STEPS[step][1](r)]
    return values


def windows(values, bound, late_too=True):
    """Totals per key and window; a record is late when its window has been closed by the records before it."""
    found, newest = defaultdict(lambda: (0, 0)), None
    for key, value, ts in values:
        end = ts // SIZE * SIZE + SIZE
        if late_too or newest is None or end - 1 > newest - bound - 1:
            n, total = found[key, end]
            found[key, end] = (n + 1, total + value)
        newest = ts if newest is None else max(newest, ts)
    return Counter((key, n, total) for (key, _), (n, total) in found.items())


def strategy(bound):
    return (
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=bound))
        .with_timestamp_assigner(lambda r: r[2])
        .with_emit_on_event()
    )


def run(build, parallelism):
    async def main():
        env = StreamExecutionEnvironment.get_execution_environment(clock=VirtualClock())
        env.set_parallelism(parallelism)
        async with build(env).execute_and_collect() as results:
            return [r async for r in results]

    return asyncio.run(main())


def fold(rows):
    state = Counter()
    for row in rows:
        state[tuple(row)] += 1 if row.kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    assert all(n >= 0 for n in state.values())
    return +state


@st.composite
def plans(draw):
    inputs = draw(st.lists(records, min_size=1, max_size=2))
    return (
        inputs,
        [draw(cut(values)) for values in inputs],
        draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=3)),
        draw(st.integers(1, 4)),
    )


def stream_of(env, batches, steps, bound):
    streams = [env.from_source(ScriptedSource(b, output_type=RECORD), strategy(bound)) for b in batches]
    stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    for step in steps:
        stream = STEPS[step][0](stream)
    return stream


@given(plans())
def test_insert_only_results_are_the_same_multiset(plan):
    inputs, batches, steps, parallelism = plan
    expected = Counter(apply(steps, [r for values in inputs for r in values]))
    assert Counter(run(lambda env: stream_of(env, batches, steps, 100), parallelism)) == expected


@given(plans())
def test_windows_without_late_records(plan):
    inputs, batches, steps, parallelism = plan
    values = apply(steps, [r for part in inputs for r in part])
    got = run(
        lambda env: (
            stream_of(env, batches, steps, 100)
            .key_by(lambda r: r[0])
            .window(TumblingEventTimeWindows.of(timedelta(milliseconds=SIZE)))
            .aggregate(Total())
        ),
        parallelism,
    )
    assert Counter(got) == windows(values, 100)


@given(records.flatmap(lambda v: st.tuples(st.just(v), cut(v))), st.integers(0, 20), st.integers(1, 4))
def test_late_records_are_judged_by_the_watermark_before_them_however_the_input_is_cut(plan, bound, parallelism):
    values, batches = plan
    got = run(
        lambda env: (
            stream_of(env, [batches], [], bound)
            .key_by(lambda r: r[0])
            .window(TumblingEventTimeWindows.of(timedelta(milliseconds=SIZE)))
            .aggregate(Total())
        ),
        parallelism,
    )
    assert Counter(got) == windows(values, bound, late_too=False)


@given(plans())
def test_keyed_state_and_timers_keep_the_order_per_key(plan):
    inputs, batches, steps, parallelism = plan
    values, batches = inputs[0], batches[:1]
    if parallelism > 1:
        steps = []  # parallel steps spread the records of a key over subtasks, which have no common order
    expected, counts = defaultdict(list), Counter()
    for key, value, _ in apply(steps, values):
        counts[key] += 1
        expected[key].append((key, counts[key], value))
    for key, n in counts.items():
        expected[key].append((key, n, "end"))
    got = defaultdict(list)
    for r in run(
        lambda env: stream_of(env, batches, steps, 100).key_by(itemgetter(0)).process(Last()),
        parallelism,
    ):
        got[r[0]].append(r)
    assert got == expected


@given(plans())
def test_a_group_aggregate_in_sql_folds_to_the_batch_result(plan):
    inputs, batches, steps, parallelism = plan
    values = apply(steps, [r for part in inputs for r in part])
    totals = defaultdict(lambda: [0, 0, None])
    for key, value, _ in values:
        t = totals[key]
        t[0], t[1], t[2] = t[0] + 1, t[1] + value, value if t[2] is None else max(t[2], value)

    def build(env):
        t_env = StreamTableEnvironment.create(env)
        t_env.create_temporary_view("t", stream_of(env, batches, steps, 100))
        query = "SELECT f0, COUNT(*), SUM(f1), MAX(f1) FROM t GROUP BY f0"
        return t_env.to_changelog_stream(t_env.sql_query(query))

    rows = run(build, parallelism)
    note(str([str(r) for r in rows]))
    assert fold(rows) == Counter((key, *t) for key, t in totals.items())


@given(plans())
def test_a_window_in_sql_gives_each_result_once(plan):
    inputs, batches, steps, parallelism = plan
    values = apply(steps, [r for part in inputs for r in part])

    def build(env):
        t_env = StreamTableEnvironment.create(env)
        schema = (
            Schema.new_builder()
            .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
            .watermark("rowtime", "SOURCE_WATERMARK()")
            .build()
        )
        t_env.create_temporary_view("t", stream_of(env, batches, steps, 100), schema)
        query = """SELECT f0, COUNT(*), SUM(f1) FROM TABLE(
            TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '0.010' SECOND)) GROUP BY f0, window_start, window_end"""
        return t_env.to_data_stream(t_env.sql_query(query))

    assert Counter(tuple(r) for r in run(build, parallelism)) == windows(values, 100)
