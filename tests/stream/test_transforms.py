"""map, flat_map, filter, process, reduce, union, side outputs: every way of calling, and what errors say."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from streamline import DataStream, OutputTag, Row, StreamExecutionEnvironment, Types, ValidationException
from streamline.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
)
from streamline.state import ValueStateDescriptor


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


async def later(value: Any) -> Any:
    return value * 10


def sometimes_later(value: int) -> Any:
    return later(value) if value % 2 else value * 10


class Times(MapFunction[int, int]):
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def map(self, value: int) -> int:
        return value * self.factor


class CallableTimes:
    async def __call__(self, value: int) -> int:
        return value * 10


# -- map -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v * 10,
        later,
        lambda v: later(v),
        sometimes_later,
        functools.partial(later),
        Times(10),
        CallableTimes(),
    ],
    ids=["lambda", "async", "returns awaitable", "sometimes awaitable", "partial", "MapFunction", "callable object"],
)
async def test_map_takes_every_kind_of_function(function: Any) -> None:
    assert await rows(environment().from_elements(1, 2, 3).map(function)) == [10, 20, 30]


async def test_map_keeps_none_lists_and_generators_as_values() -> None:
    results = await rows(environment().from_elements(1, 2).map(lambda v: None if v == 1 else [v]))
    assert results == [None, [2]]


async def test_map_hands_on_the_very_object() -> None:
    value = object()
    assert (await rows(environment().from_elements(value).map(lambda v: v).filter(lambda v: True)))[0] is value


@pytest.mark.parametrize("function", [lambda v: (yield v), lambda v: None], ids=["generator", "none"])
def test_map_refuses_a_generator_when_built(function: Any) -> None:
    stream = environment().from_elements(1)
    if function(1) is None:
        stream.map(function)
    else:
        with pytest.raises(ValidationException, match="flat_map"):
            stream.map(function)


@pytest.mark.parametrize("bad", [7, "map", Times, KeySelector])
def test_what_is_no_function_is_refused_when_built(bad: Any) -> None:
    stream = environment().from_elements(1)
    if bad is KeySelector or bad is Times:
        with pytest.raises(ValidationException, match=r"not the class"):
            stream.map(bad)
    else:
        with pytest.raises(ValidationException, match="map needs a callable"):
            stream.map(bad)


def test_the_wrong_function_class_is_refused_when_built() -> None:
    with pytest.raises(ValidationException, match="method filter; Times has none"):
        environment().from_elements(1).filter(Times(2))


# -- flat_map and filter -------------------------------------------------------------------------------------------


def twice(value: int) -> Iterator[int]:
    yield value
    yield value


async def twice_later(value: int) -> AsyncIterator[int]:
    yield value
    yield value


async def listed_later(value: int) -> list[int]:
    return [value, value]


class Twice(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> Iterator[int]:
        yield from (value, value)


@pytest.mark.parametrize(
    "function",
    [twice, twice_later, listed_later, lambda v: (v, v), lambda v: twice(v), lambda v: twice_later(v), Twice()],
    ids=["generator", "async generator", "async", "tuple", "returns generator", "returns async generator", "class"],
)
async def test_flat_map_takes_every_kind_of_function(function: Any) -> None:
    assert await rows(environment().from_elements(1, 2).flat_map(function)) == [1, 1, 2, 2]


async def test_flat_map_takes_none_for_nothing() -> None:
    assert await rows(environment().from_elements(1, 2, 3).flat_map(lambda v: None if v == 2 else [v])) == [1, 3]


async def async_odd(value: int) -> bool:
    return value % 2 == 1


class Odd(FilterFunction[int]):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


@pytest.mark.parametrize(
    "predicate",
    [lambda v: v % 2, lambda v: v % 2 == 1, async_odd, lambda v: async_odd(v), Odd()],
    ids=["truthy", "bool", "async", "returns awaitable", "class"],
)
async def test_filter_takes_every_kind_of_predicate(predicate: Any) -> None:
    assert await rows(environment().from_elements(1, 2, 3, 4).filter(predicate)) == [1, 3]


# -- errors --------------------------------------------------------------------------------------------------------


def failing(value: int) -> Any:
    if value == 3:
        raise ZeroDivisionError("three")
    return [value]


async def failing_later(value: int) -> Any:
    return failing(value)


def failing_generator(value: int) -> Iterator[Any]:
    yield from failing(value)


def with_context(function: Any) -> Any:
    if function is failing_generator:
        return lambda value, ctx: failing_generator(value)
    return lambda value, ctx: function(value)


@pytest.mark.parametrize("function", [failing, failing_later, failing_generator, lambda v: failing_later(v)])
@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "process", "keyed process", "add_sink"])
async def test_an_error_reaches_the_caller_with_operator_and_record(method: str, function: Any) -> None:
    if function is failing_generator and method in ("map", "filter", "add_sink"):
        return
    env = environment()
    stream: DataStream[int] = env.from_collection([1, 2, 3, 4])
    if method == "keyed process":
        stream = stream.key_by(lambda v: v % 2)
    if "process" in method:
        out: Any = stream.process(with_context(function))
    else:
        out = getattr(stream, method)(function)
    out.name("troubled")
    with pytest.raises(ZeroDivisionError, match="three") as caught:
        await env.execute("job")
    assert "record: 3" in caught.value.__notes__
    assert "in operator 'troubled' of job 'job'" in caught.value.__notes__


async def test_a_stop_iteration_does_not_end_the_batch_in_silence() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await rows(environment().from_elements(1, 2, 3).map(lambda v: next(iter(())) if v == 2 else v))
    assert "record: 2" in caught.value.__notes__


async def test_a_record_whose_repr_fails_does_not_hide_the_error() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    with pytest.raises(ZeroDivisionError) as caught:
        await rows(environment().from_elements(Broken()).map(lambda v: 1 // 0))
    assert any("Broken whose repr fails" in n for n in caught.value.__notes__)


# -- process -------------------------------------------------------------------------------------------------------


class Echo(ProcessFunction[int, int]):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield value
        yield value


async def process_later(value: int, ctx: Any) -> list[int]:
    return [value, value]


async def process_stream(value: int, ctx: Any) -> AsyncIterator[int]:
    yield value
    yield value


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        Echo(),
        lambda v, ctx: [v, v],
        lambda v, ctx: iter((v, v)),
        process_later,
        process_stream,
        lambda v, ctx: process_later(v, ctx),
        lambda v, ctx: process_stream(v, ctx),
    ],
    ids=["yields", "list", "iterator", "async", "async generator", "returns awaitable", "returns async generator"],
)
async def test_process_takes_every_kind_of_function(function: Any, keyed: bool) -> None:
    stream = environment().from_elements(1, 2)
    assert await rows((stream.key_by(lambda v: v) if keyed else stream).process(function)) == [1, 1, 2, 2]


async def test_what_process_returns() -> None:
    returned = {1: None, 2: (2, 2), 3: [3, 3], 4: "four", 5: {"five": 5}}
    results = await rows(environment().from_elements(1, 2, 3, 4, 5).process(lambda v, ctx: returned[v]))
    assert results == [(2, 2), 3, 3, "four", {"five": 5}]


class Count(KeyedProcessFunction[str, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return (ctx.get_current_key(), n)


class AsyncCount(Count):
    async def process_element(self, value: Any, ctx: Any) -> Any:
        return super().process_element(value, ctx)


@pytest.mark.parametrize("function", [Count(), AsyncCount()], ids=["sync", "async"])
@pytest.mark.parametrize("parallelism", [1, 3])
async def test_keyed_state_belongs_to_the_key(function: Any, parallelism: int) -> None:
    words = ["a", "b", "a", "c", "a", "b"]
    stream = environment(parallelism).from_collection(words).key_by(lambda w: w).process(function)
    results = await rows(stream)
    assert sorted(results) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)]


async def test_every_subtask_has_its_own_copy_of_a_function() -> None:
    opened: list[int] = []

    class Index(MapFunction[int, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            assert not hasattr(self, "index")
            self.index = runtime_context.get_index_of_this_subtask()
            opened.append(self.index)

        def map(self, value: int) -> Any:
            return self.index

    function = Index()
    results = await rows(environment(4).from_collection(range(8)).map(function))
    assert sorted(results) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(opened) == [0, 1, 2, 3] and not hasattr(function, "index")


async def test_open_and_close_are_called_once_also_when_the_job_fails() -> None:
    calls: list[str] = []

    class Watched(MapFunction[int, int]):
        async def open(self, runtime_context: RuntimeContext) -> None:
            calls.append("open " + runtime_context.get_task_name_with_subtasks())

        def close(self) -> None:
            calls.append("close")

        def map(self, value: int) -> int:
            return 1 // value

    with pytest.raises(ZeroDivisionError):
        await rows(environment().from_elements(1, 0).map(Watched()).name("watched"))
    assert calls == ["open watched (1/1)#0", "close"]


async def test_keyed_state_without_a_key_is_refused() -> None:
    class Wrong(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("n", int))

        def map(self, value: int) -> int:
            return value

    with pytest.raises(ValidationException, match=r"use key_by\(\) before it"):
        await rows(environment().from_elements(1).map(Wrong()))


async def test_keyed_map_flat_map_and_filter_have_state() -> None:
    class Seen:
        def open(self, runtime_context: RuntimeContext) -> None:
            self.n = runtime_context.get_state(ValueStateDescriptor("n", int))

        def seen(self) -> int:
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            return n

    class Numbered(Seen, MapFunction[str, Any]):
        def map(self, value: str) -> Any:
            return (value, self.seen())

    class Repeated(Seen, FlatMapFunction[str, str]):
        def flat_map(self, value: str) -> Any:
            return (value,) * self.seen()

    class First(Seen, FilterFunction[str]):
        def filter(self, value: str) -> bool:
            return self.seen() == 1

    words = ["a", "b", "a"]
    keyed = environment().from_collection(words).key_by(lambda w: w)
    assert await rows(keyed.map(Numbered())) == [("a", 1), ("b", 1), ("a", 2)]
    assert await rows(keyed.flat_map(Repeated())) == ["a", "b", "a", "a"]
    assert await rows(keyed.filter(First())) == ["a", "b"]


# -- rolling aggregations ------------------------------------------------------------------------------------------


class Add(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


async def add_later(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("function", [lambda a, b: a + b, Add(), add_later, lambda a, b: add_later(a, b)])
async def test_reduce_gives_the_running_value_and_the_first_record_as_it_is(function: Any) -> None:
    keyed = environment().from_elements(1, 2, 3, 4, 5).key_by(lambda v: v % 2)
    assert await rows(keyed.reduce(function)) == [1, 2, 4, 6, 9]


async def test_reduce_that_changes_its_first_argument_sends_independent_results() -> None:
    def append(before: list[int], value: list[int]) -> list[int]:
        before.extend(value)
        return before

    results = await rows(environment().from_elements([1], [2], [3]).key_by(lambda v: 0).reduce(append))
    assert results[1:] == [[1, 2], [1, 2, 3]]


class Trade(msgspec.Struct):
    symbol: str
    price: int
    venue: str


class Named(NamedTuple):
    symbol: str
    price: int
    venue: str


DATA = [("a", 5, "x"), ("a", 3, "y"), ("b", 7, "x"), ("a", 3, "z"), ("a", 9, "w")]


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("sum", (1,), [("a", 5, "x"), ("a", 8, "x"), ("b", 7, "x"), ("a", 11, "x"), ("a", 20, "x")]),
        ("min", (1,), [("a", 5, "x"), ("a", 3, "x"), ("b", 7, "x"), ("a", 3, "x"), ("a", 3, "x")]),
        ("max", (1,), [("a", 5, "x"), ("a", 5, "x"), ("b", 7, "x"), ("a", 5, "x"), ("a", 9, "x")]),
        ("min_by", (1,), [("a", 5, "x"), ("a", 3, "y"), ("b", 7, "x"), ("a", 3, "y"), ("a", 3, "y")]),
        ("min_by", (1, False), [("a", 5, "x"), ("a", 3, "y"), ("b", 7, "x"), ("a", 3, "z"), ("a", 3, "z")]),
        ("max_by", (1,), [("a", 5, "x"), ("a", 5, "x"), ("b", 7, "x"), ("a", 5, "x"), ("a", 9, "w")]),
    ],
)
@pytest.mark.parametrize("make", [tuple, lambda t: Named(*t), lambda t: Trade(*t), lambda t: Row(*t)])
async def test_rolling_aggregations_by_field(
    method: str, arguments: tuple[Any, ...], expected: list[Any], make: Any
) -> None:
    data = [make(t) for t in DATA]
    key = (lambda t: t[0]) if isinstance(data[0], (tuple, Row)) else (lambda t: t.symbol)
    keyed = environment().from_collection(data).key_by(key)
    assert await rows(getattr(keyed, method)(*arguments)) == [make(t) for t in expected]


async def test_rolling_aggregations_by_name_and_of_plain_numbers() -> None:
    trades = environment().from_collection([Trade(*t) for t in DATA]).key_by(lambda t: t.symbol)
    assert [t.price for t in await rows(trades.sum("price"))] == [5, 8, 7, 11, 20]
    assert await rows(environment().from_elements(3, 1, 2).key_by(lambda v: 0).max()) == [3, 3, 3]


# -- streams together, side outputs --------------------------------------------------------------------------------


async def test_union_has_all_records_and_with_itself_each_twice() -> None:
    env = environment()
    a, b = env.from_elements(1, 2), env.from_elements(3)
    assert sorted(await rows(a.union(b, a))) == [1, 1, 2, 2, 3]
    with pytest.raises(ValidationException, match="no operator of its own"):
        a.union(b).name("x")
    with pytest.raises(ValidationException, match="different environments"):
        a.union(environment().from_elements(1))


async def test_side_outputs_by_context_and_by_yield() -> None:
    odd, big = OutputTag("odd", Types.LONG()), OutputTag("big")

    def split(value: int, ctx: Any) -> Iterator[Any]:
        if value % 2:
            ctx.output(odd, value)
        if value > 3:
            yield big, value
        yield value

    out: dict[str, list[int]] = {"main": [], "odd": [], "big": []}
    env = environment()
    stream = env.from_elements(1, 2, 3, 4, 5).process(split)
    stream.add_sink(out["main"].append)
    stream.get_side_output(odd).add_sink(out["odd"].append)
    stream.get_side_output(OutputTag("big")).map(lambda v: v).add_sink(out["big"].append)
    await env.execute()
    assert out == {"main": [1, 2, 3, 4, 5], "odd": [1, 3, 5], "big": [4, 5]}


async def test_a_side_output_that_nobody_reads_is_dropped() -> None:
    tag = OutputTag("unread")
    assert await rows(environment().from_elements(1).process(lambda v, ctx: [(tag, v), v])) == [1]


async def test_output_needs_a_tag() -> None:
    with pytest.raises(ValidationException, match="OutputTag"):
        await rows(environment().from_elements(1).process(lambda v, ctx: ctx.output("tag", v)))
    with pytest.raises(ValidationException, match="needs a name"):
        OutputTag("")


async def test_project_keeps_fields_in_the_given_order() -> None:
    stream = environment().from_elements((1, "a", 2.5), (2, "b", 3.5))
    projected = stream.project(2, 0)
    assert await rows(projected) == [(2.5, 1), (3.5, 2)]
    assert projected.element_type() == tuple[float, int]
    with pytest.raises(ValidationException, match="numbers of fields"):
        stream.project()


# -- keys ----------------------------------------------------------------------------------------------------------


class BySign(KeySelector[int, bool]):
    def get_key(self, value: int) -> bool:
        return value < 0


async def test_a_key_selector_object() -> None:
    keyed = environment().from_elements(1, -2, 3, -4).key_by(BySign())
    assert await rows(keyed.reduce(lambda a, b: a + b)) == [1, -2, 4, -6]


def test_an_async_key_selector_is_refused_when_built() -> None:
    with pytest.raises(ValidationException, match="cannot be async"):
        environment().from_elements(1).key_by(later)


@pytest.mark.parametrize("parallelism", [1, 2])
async def test_a_key_without_a_value_of_its_own_is_refused(parallelism: int) -> None:
    stream = environment(parallelism).from_elements(1).key_by(lambda v: [v])
    with pytest.raises(ValidationException, match="list cannot be a key") as caught:
        await rows(stream.reduce(lambda a, b: a))
    assert parallelism > 1 or "record: 1" in caught.value.__notes__


@pytest.mark.parametrize("method", ["rebalance", "rescale", "shuffle", "forward", "global_", "broadcast"])
def test_a_keyed_stream_keeps_its_partitioning(method: str) -> None:
    with pytest.raises(ValidationException, match="Cannot override partitioning for KeyedStream"):
        getattr(environment().from_elements(1).key_by(lambda v: v), method)()


# -- ends ----------------------------------------------------------------------------------------------------------


async def test_print_has_a_prefix_where_it_tells_something(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_elements(1, None, Row("a", None)).print()
    env.from_elements("x").print("id")
    env.from_elements("e").print_to_err()
    await env.execute()
    wide = environment(2)
    wide.from_elements("y").map(lambda v: v).set_parallelism(1).print("id")
    wide.from_elements("z").map(lambda v: v).set_parallelism(1).print()
    await wide.execute()
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert set(lines[:4]) == {"1", "None", "+I[a, null]", "id> x"}
    assert {line.replace("1>", "N>").replace("2>", "N>") for line in lines[4:]} == {"id:N> y", "N> z"}
    assert captured.err == "e\n"


async def test_sinks_take_every_kind_of_function() -> None:
    out: dict[str, list[Any]] = {"method": [], "async": [], "awaitable": [], "class": []}

    async def put(value: int) -> None:
        out["async"].append(value)

    async def put_too(value: int) -> None:
        out["awaitable"].append(value)

    class Into(SinkFunction[int]):
        def invoke(self, value: int, context: SinkFunction.Context) -> None:
            out["class"].append((value, context.timestamp()))

    env = environment()
    stream = env.from_elements(1, 2)
    stream.add_sink(out["method"].append)
    stream.add_sink(put)
    stream.add_sink(lambda v: put_too(v))
    stream.add_sink(Into())
    await env.execute()
    assert out == {"method": [1, 2], "async": [1, 2], "awaitable": [1, 2], "class": [(1, None), (2, None)]}


# -- types ---------------------------------------------------------------------------------------------------------


def test_element_types_are_declared_annotated_or_seen() -> None:
    def named(value: int) -> Named: ...

    def many(value: int) -> Iterator[str]: ...

    stream = environment().from_elements(("a", 1))
    assert stream.element_type() == Types.TUPLE([str, int])
    assert stream.map(named).element_type() is Named
    assert stream.map(lambda v: v).element_type() is None
    assert stream.map(lambda v: v, output_type=Types.LONG()).element_type() == Types.LONG()
    assert stream.flat_map(many).element_type() is str
    assert stream.process(lambda v, ctx: v, output_type=str).element_type() is str
    assert stream.filter(lambda v: True).element_type() == Types.TUPLE([str, int])
    assert stream.key_by(lambda v: v[0]).reduce(lambda a, b: a).element_type() == Types.TUPLE([str, int])
    assert environment().from_collection([], type_info=int).element_type() is int
    assert environment().from_collection([]).element_type() is None
    assert stream.map(Times(2)).element_type() is int


# -- errors out of key selectors and sinks -----------------------------------------------------------------------------


def stop_at_two(value: int) -> int:
    return value if value != 2 else next(iter(()))


@pytest.mark.parametrize("parallelism", [1, 2])
async def test_a_stop_iteration_out_of_a_key_selector_is_an_error(parallelism: int) -> None:
    keyed = environment(parallelism).from_collection([1, 2, 3]).key_by(stop_at_two)
    with pytest.raises(RuntimeError, match="raised StopIteration") as failure:
        await rows(keyed.reduce(lambda a, b: a + b))
    assert failure.value.__notes__.count("record: 2") == 1


async def test_a_stop_iteration_out_of_a_sink_is_an_error() -> None:
    env, out = environment(), []
    env.from_collection([1, 2, 3]).add_sink(lambda value: out.append(stop_at_two(value)))
    with pytest.raises(RuntimeError, match="raised StopIteration") as failure:
        await env.execute()
    assert "record: 2" in failure.value.__notes__


@pytest.mark.parametrize("parallelism", [1, 2])
async def test_a_record_whose_key_is_none_is_named(parallelism: int) -> None:
    keyed = environment(parallelism).from_collection([(1, "a"), ([2], "b")]).key_by(lambda r: (r[0],))
    with pytest.raises((ValidationException, TypeError)) as failure:
        await rows(keyed.reduce(lambda a, b: a))
    assert "([2], 'b')" in " ".join(failure.value.__notes__)
