"""Random jobs whose results do not depend on how they are run: by stages, described as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from streamline import DataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline.functions import KeyedProcessFunction
from streamline.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from streamline.testing import Delay, ScriptedSource
from streamline.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

#: A record: (key, number, event time in ms).
Record = tuple[str, int, int]


class RunningCount(KeyedProcessFunction):
    """How many of a key so far, the largest number, how many different ones, all of them."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))
        self.largest = ctx.get_reducing_state(ReducingStateDescriptor("largest", max, int))
        self.different = ctx.get_map_state(MapStateDescriptor("different", int, int))
        self.all = ctx.get_list_state(ListStateDescriptor("all", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        self.largest.add(value[1])
        self.different.put(value[1], (self.different.get(value[1]) or 0) + 1)
        self.all.add(value[1])
        if len(self.all.get()) > 4:
            self.all.clear()
        yield (value[0], n + self.largest.get() + 10 * len(self.different) + 100 * sum(self.all.get()), value[2])


class Reminder(KeyedProcessFunction):
    """Says at the next full second of event time, and once more a second later, what a key's numbers add up to."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", list))

    def process_element(self, value: Any, ctx: Any) -> Any:
        # By the record's own time, not by what is in it: a window's result is never behind the watermark, its content
        # is, and a timer in the past fires as often as watermarks happen to come.
        time = ctx.timestamp()
        seen = self.seen.value() or []
        seen.append((time, value[1]))
        self.seen.update(seen)
        at = time // 1000 * 1000 + 1000
        ctx.timer_service().register_event_time_timer(at)
        ctx.timer_service().delete_event_time_timer(at + 1000)
        ctx.timer_service().register_event_time_timer(at + 1000)
        return None

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        # What is ahead of its time is left out: it may or may not have come.
        yield (ctx.get_current_key(), sum(n for at, n in self.seen.value() if at <= timestamp), timestamp)


def key(value: Any) -> str:
    return str(value[0])


def add(a: Any, b: Any) -> Any:
    return (a[0], a[1] + b[1], max(a[2], b[2]))


class Stage:
    """A step of a pipeline; `ordered` ones give other results where records of a key come in another order."""

    ordered = False
    #: Whether it needs event time.
    timed = False
    #: It joins its input with itself: in which order results come, and what is late, depends on which side is ahead.
    joins = False

    def __init__(self, name: str, apply: Callable[[DataStream[Any]], DataStream[Any]], **flags: bool) -> None:
        self.name = name
        self.apply = apply
        for flag, value in flags.items():
            setattr(self, flag, value)

    def __repr__(self) -> str:
        return self.name


def windowed(assigner: Callable[[], Any]) -> Callable[[DataStream[Any]], DataStream[Any]]:
    return lambda s: s.key_by(key).window(assigner()).reduce(add)


def pair(left: Any, right: Any, ctx: Any = None) -> Any:
    return (left[0], left[1] + 7 * right[1], max(left[2], right[2]))


def interval_join(s: DataStream[Any]) -> DataStream[Any]:
    other = s.map(lambda v: (v[0], v[1] + 1, v[2]))
    return s.key_by(key).interval_join(other.key_by(key)).between(-200, 400).process(pair)


def window_join(s: DataStream[Any]) -> DataStream[Any]:
    other = s.filter(lambda v: v[1] % 2 == 0)
    return s.join(other).where(key).equal_to(key).window(TumblingEventTimeWindows.of(1000)).apply(pair)


STAGES = [
    Stage("map", lambda s: s.map(lambda v: (v[0], v[1] * 3 + 1, v[2]))),
    Stage("filter", lambda s: s.filter(lambda v: v[1] % 3 != 0)),
    Stage("flat map", lambda s: s.flat_map(lambda v: [v, (v[0] + "'", v[1], v[2])] if v[1] % 2 else [v])),
    Stage("rebalance", lambda s: s.rebalance().map(lambda v: v)),
    Stage("count", lambda s: s.key_by(key).process(RunningCount()), ordered=True),
    Stage("remind", lambda s: s.key_by(key).process(Reminder()), timed=True),
    Stage("reduce", lambda s: s.key_by(key).reduce(add), ordered=True),
    Stage("tumbling", windowed(lambda: TumblingEventTimeWindows.of(1000)), timed=True),
    Stage("sliding", windowed(lambda: SlidingEventTimeWindows.of(2000, 1000)), timed=True),
    Stage("session", windowed(lambda: EventTimeSessionWindows.with_gap(700)), timed=True),
    Stage("interval join", interval_join, timed=True, joins=True),
    Stage("window join", window_join, timed=True, joins=True),
]
BY_NAME = {stage.name: stage for stage in STAGES}


KEYED = ("count", "remind", "reduce", "tumbling", "sliding", "session", "interval join", "window join")


def is_sound(names: Sequence[str], sources: int, late: bool) -> bool:
    """Whether the result is the same at any parallelism, however records are interleaved."""
    mixed, keyed = sources > 1, False
    for name in names:
        stage = BY_NAME[name]
        if mixed and stage.ordered:
            return False
        if late and stage.timed and (mixed or keyed or stage.joins):
            return False  # behind several subtasks, what is late depends on which of them is ahead
        keyed = keyed or name in KEYED
        # A source is one subtask: what follows it has its records dealt out, until they are brought together by key.
        mixed = mixed or name == "rebalance" or stage.joins or not keyed
    return sum(BY_NAME[n].timed for n in names) <= 2 and not (late and sources > 1)


class Case:
    """A job as data."""

    def __init__(self, stages: list[str], inputs: list[list[Record]], late: bool, delay: int) -> None:
        self.stages, self.inputs, self.late, self.delay = stages, inputs, late, delay

    def __repr__(self) -> str:
        return f"Case({self.stages!r}, {self.inputs!r}, late={self.late!r}, delay={self.delay!r})"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    late = draw(st.booleans())
    spread = st.integers(0, 6000) if late else st.integers(0, 900)
    one = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), spread), min_size=1, max_size=20)
    inputs = draw(st.lists(one, min_size=1, max_size=1 if late else 2))
    names = st.lists(st.sampled_from(list(BY_NAME)), min_size=1, max_size=4)
    stages = draw(names.filter(lambda n: is_sound(n, len(inputs), late)))
    if not late:
        inputs = [[(k, n, i * 300 + at) for i, (k, n, at) in enumerate(records)] for records in inputs]
    return Case(stages, inputs, late, draw(st.sampled_from([0, 1, 40])))


def build(env: StreamExecutionEnvironment, case: Case, sink: Any) -> None:
    """The job: sources, their union, the stages, the sink."""
    streams = []
    for i, records in enumerate(case.inputs):
        steps = [step for r in records for step in ((r, Delay(case.delay)) if case.delay else (r,))]
        # What is late is told by the records alone, or nothing is.
        bound = WatermarkStrategy.for_bounded_out_of_orderness(100 if case.late else 1000)
        strategy: Any = bound.with_timestamp_assigner(lambda v, _: v[2])
        if case.late:
            strategy = strategy.with_emit_on_event()
        streams.append(env.from_source(ScriptedSource(steps), strategy, f"source{i}").uid(f"source{i}"))
    stream: DataStream[Any] = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    for n, name in enumerate(case.stages):
        stream = BY_NAME[name].apply(stream).name(f"stage{n}").uid(f"stage{n}")
    stream.sink_to(sink).name("ledger").uid("ledger")


def fold(results: Sequence[Any]) -> Counter[Any]:
    return Counter(map(tuple, results))
