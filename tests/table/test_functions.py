"""Users' functions: how they are made, what they take and give, and accumulators with lists and maps."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamline import Configuration, Row, StreamExecutionEnvironment, TableException, Types, ValidationException
from streamline.table import (
    AggregateFunction,
    DataTypes,
    FunctionContext,
    ListView,
    MapView,
    ScalarFunction,
    StreamTableEnvironment,
    TableEnvironment,
    TableFunction,
    col,
    lit,
    udaf,
    udf,
    udtaf,
    udtf,
)

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


@pytest.fixture
def t_env() -> TableEnvironment:
    return TableEnvironment.create()


async def one(t: TableEnvironment, *expressions: Any, of: Any = None) -> tuple[Any, ...]:
    table = (t.from_elements([(1,)], ["n"]) if of is None else of).select(*expressions)
    async with table.collect() as it:
        (row,) = [tuple(r) async for r in it]
        return row


# -- making --------------------------------------------------------------------------------------------------------


async def test_ways_to_make_a_scalar_function(t_env: TableEnvironment) -> None:
    @udf(result_type=DataTypes.BIGINT())
    def a(n):  # type: ignore[no-untyped-def]
        return n + 1

    @udf
    def b(n: int) -> int:
        return n + 2

    class C(ScalarFunction):
        def eval(self, n: int) -> int:
            return n + 3

    class D:
        def __call__(self, n: int) -> int:
            return n + 4

    c, d = udf(C()), udf(C, result_type="BIGINT")
    e = udf(lambda n: n + 5, result_type=int)
    f = udf(D(), result_type=Types.LONG())
    g = udf(functools.partial(lambda k, n: k + n, 6), result_type="BIGINT", name="g")
    n = col("n")
    assert await one(t_env, a(n), b(n), c(n), d(n), e(n), f(n), g(n)) == (2, 3, 4, 4, 6, 5, 7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: udf(lambda n: n), "the result type of function <lambda> is not known: give result_type="),
        (lambda: udf(3, result_type=int), "udf takes a function or a ScalarFunction, not 3"),
        (lambda: udf(Top, result_type=int), "Top is no ScalarFunction, which udf takes"),
        (lambda: udf(len, result_type=int, func_type="pandas"), "func_type='pandas' is not supported"),
        (lambda: udf(Random(), result_type=int, deterministic=True), "Inconsistent deterministic: True and False"),
        (lambda: udaf(Sum(), result_type=int, func_type="pandas"), "func_type='pandas' is not supported"),
        (lambda: udtf(lambda n: [n]), "result"),
        (lambda: udf(len, result_type=[]), "the result type of len"),
        (lambda: udaf(len, result_type=int), "AggregateFunction"),
        (lambda: udtaf(Sum(), result_type=int), "TableAggregateFunction"),
    ],
)
def test_what_is_no_function(make: Any, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        make()


class Random(ScalarFunction):
    def eval(self, *args: Any) -> int:
        return 4

    def is_deterministic(self) -> bool:
        return False


class Top(TableFunction):
    def eval(self, text: str) -> Iterator[tuple[str, int]]:
        for word in text.split():
            yield word, len(word)


class Sum(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], n: int | None) -> None:
        accumulator[0] += n or 0

    def retract(self, accumulator: list[int], n: int | None) -> None:
        accumulator[0] -= n or 0

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


async def test_numbers_of_arguments(t_env: TableEnvironment) -> None:
    two = udf(lambda a, b=10: a + b, result_type=int)
    many = udf(lambda *args: sum(args), result_type=int)
    typed = udf(lambda a: a, input_types=[DataTypes.INT()], result_type=int, name="typed")
    assert await one(t_env, two(col("n")), two(col("n"), 1), many(), many(1, 2, 3)) == (11, 2, 0, 6)
    for call, message in [
        (lambda: two(), r"function '<lambda>\(a, b=10\)': 0 given"),
        (lambda: two(1, 2, 3), "3 given"),
        (lambda: typed(1, 2), r"Was expecting 1 arguments: typed\(INT\)"),
    ]:
        with pytest.raises(ValidationException, match=message):
            t_env.from_elements([(1,)], ["n"]).select(call())


# -- values --------------------------------------------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int
    y: float


async def test_what_a_function_sees(t_env: TableEnvironment) -> None:
    seen: list[Any] = []

    @udf(result_type=int)
    def look(*args: Any) -> int:
        seen.extend(args)
        return 0

    t = t_env.sql_query(
        """SELECT DATE '2024-05-01' AS d, TIME '01:02:03' AS t, TIMESTAMP '2024-05-01 01:02:03.5' AS ts,
             TO_TIMESTAMP_LTZ(1000, 3) AS ltz, INTERVAL '1' DAY AS i, 1.50 AS n, ARRAY[1, 2] AS a,
             MAP['k', DATE '2024-05-01'] AS m, ROW(1, DATE '2024-05-01') AS r, CAST(NULL AS DATE) AS z, X'01' AS b,
             CAST(1 AS TINYINT) AS s, CAST(1.5 AS FLOAT) AS f, TRUE AS o, 'x' AS c,
             INTERVAL '1-2' YEAR TO MONTH AS ym"""
    )
    await one(t_env, look(*[col(n) for n in t.get_schema().get_field_names()]), of=t)
    day = date(2024, 5, 1)
    assert seen[:3] == [day, datetime(2024, 5, 1, 1, 2, 3).time(), datetime(2024, 5, 1, 1, 2, 3, 500_000)]
    assert seen[3:6] == [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), timedelta(days=1), Decimal("1.50")]
    assert seen[6:8] == [[1, 2], {"k": day}]
    assert (isinstance(seen[8], Row), tuple(seen[8])) == (True, (1, day))
    assert seen[9:] == [None, b"\x01", 1, 1.5, True, "x", 14]


async def test_what_a_function_may_give(t_env: TableEnvironment) -> None:
    def gives(value: Any, type_: Any) -> Any:
        return udf(lambda: value, result_type=type_, deterministic=False)()

    moment = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)
    found = await one(
        t_env,
        gives(moment, datetime),
        gives(moment.replace(tzinfo=None), DataTypes.TIMESTAMP(3)),
        gives(date(2024, 5, 1), DataTypes.DATE()),
        gives(Decimal("1.239"), DataTypes.DECIMAL(5, 2)),
        gives([1, None], DataTypes.ARRAY(DataTypes.INT())),
        gives({"a": date(2024, 5, 1)}, DataTypes.MAP(DataTypes.STRING(), DataTypes.DATE())),
        gives((1, "x"), DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", "STRING")])),
        gives(Row(b="x", a=1), DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", "STRING")])),
        gives(Point(1, 2.0), Point),
        gives(None, DataTypes.INT()),
        gives(timedelta(seconds=5), timedelta),
    )
    assert found[:4] == (moment, moment.replace(tzinfo=None), date(2024, 5, 1), Decimal("1.24"))
    assert found[4:6] == ([1, None], {"a": date(2024, 5, 1)})
    assert [tuple(r) for r in found[6:8]] == [(1, "x"), (1, "x")]
    assert found[8:] == (Point(1, 2.0), None, timedelta(seconds=5))


async def test_what_does_not_fit_says_where(t_env: TableEnvironment) -> None:
    narrow = udf(lambda n: n * 300, result_type=DataTypes.TINYINT(), name="narrow")
    with pytest.raises(Exception, match="narrow") as info:
        await one(t_env, narrow(col("n")))
    assert "300" in str(info.value)
    failing = udf(lambda n: 1 // (n - 1), result_type=int, name="failing")
    with pytest.raises(ZeroDivisionError) as raised:
        await one(t_env, failing(col("n")))
    assert any("record" in note for note in raised.value.__notes__)


async def test_arguments_are_converted(t_env: TableEnvironment) -> None:
    seen: list[Any] = []
    takes = udf(lambda x: seen.append(x) or 0, input_types=[DataTypes.DOUBLE()], result_type=int, name="takes")
    assert await one(t_env, takes(col("n")), takes(lit(2).cast(DataTypes.SMALLINT()))) == (0, 0)
    assert (seen, [type(x) for x in seen]) == ([1.0, 2.0], [float, float])
    with pytest.raises(ValidationException, match=r"Cannot apply 'takes' to arguments of type .*VARCHAR|'takes'"):
        t_env.from_elements([("x",)], ["s"]).select(takes(col("s")))
    with pytest.raises(ValidationException, match="Illegal use of 'NULL'"):
        t_env.sql_query("SELECT 1 AS n").select(udf(lambda x: 0, result_type=int)(None))


async def test_in_every_clause(t_env: TableEnvironment) -> None:
    double = udf(lambda n: n * 2, result_type=int, name="double")
    t = t_env.from_elements([(1,), (2,), (3,), (3,)], ["n"])
    t_env.create_temporary_function("double_", double)
    t_env.create_temporary_view("t", t)
    found = t_env.sql_query(
        "SELECT double_(n) AS d, SUM(double_(n + 1)) AS s FROM t WHERE double_(n) > 2 GROUP BY double_(n) "
        "HAVING double_(COUNT(*)) > 2"
    )
    async with found.collect() as it:
        rows = [r async for r in it]
    assert tuple(rows[-1]) == (6, 16)
    same = t.where(double(col("n")) > 4).group_by(double(col("n")).alias("d")).select("d")
    async with same.distinct().collect() as it:
        assert [tuple(r) async for r in it] == [(6,)]


async def test_the_context(t_env: TableEnvironment) -> None:
    found: list[Any] = []

    class Where(ScalarFunction):
        def open(self, function_context: FunctionContext) -> None:
            found.append(function_context.get_job_parameter("who", "nobody"))
            found.append(function_context.get_index_of_this_subtask())
            found.append(function_context.get_number_of_parallel_subtasks())

        def eval(self, n: int) -> int:
            return n

    await one(t_env, udf(Where(), result_type=int)(col("n")))
    assert found == ["nobody", 0, 1]


# -- registered ----------------------------------------------------------------------------------------------------


async def test_registered_functions(t_env: TableEnvironment) -> None:
    plus = lambda k: udf(lambda n: n + k, result_type=int)  # noqa: E731
    t_env.create_temporary_system_function("f", plus(1))
    t_env.create_temporary_function("g", plus(2))
    t_env.create_function("h", plus(3))
    assert t_env.list_user_defined_functions() == ["f", "g", "h"]
    query = t_env.sql_query("SELECT F(1), g(1), h(1), default_database.g(1), default_catalog.default_database.h(1)")
    async with query.collect() as it:
        assert [tuple(r) async for r in it] == [(2, 3, 4, 3, 4)]
    with pytest.raises(ValidationException, match="f"):
        t_env.create_temporary_system_function("f", plus(1))
    assert t_env.drop_temporary_system_function("f")
    assert not t_env.drop_temporary_system_function("f")
    t_env.drop_temporary_function("g")
    t_env.drop_function("h")
    assert t_env.list_user_defined_functions() == []


async def test_a_temporary_function_hides_one_that_is_built_in(t_env: TableEnvironment) -> None:
    t_env.create_temporary_system_function("upper", udf(lambda s: "mine", result_type=str))
    async with t_env.sql_query("SELECT UPPER('x')").collect() as it:
        assert [tuple(r) async for r in it] == [("mine",)]


# -- accumulators --------------------------------------------------------------------------------------------------


class Collects(AggregateFunction):
    """The values of a group in order, and how often each was there."""

    def create_accumulator(self) -> Row:
        return Row(ListView(), MapView())

    def accumulate(self, accumulator: Row, value: int) -> None:
        values: ListView[int] = accumulator[0]
        counts: MapView[int, int] = accumulator[1]
        values.add(value)
        counts.put(value, (counts.get(value) or 0) + 1)

    def get_value(self, accumulator: Row) -> str:
        return f"{list(accumulator[0])} {dict(accumulator[1].items())}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
async def test_lists_and_maps_in_accumulators(backend: str, tmp_path: Path) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"state.backend.type": backend}))
    env.enable_checkpointing(5, storage=f"file:{tmp_path}")
    t_env = StreamTableEnvironment.create(env)
    data = [("a", 1), ("b", 2), ("a", 3), ("a", 1)]
    t = t_env.from_data_stream(env.from_collection(data), col("k"), col("v"))
    collects = udaf(Collects(), result_type=DataTypes.STRING(), accumulator_type=DataTypes.ROW([]))
    found = t.group_by(col("k")).select(col("k"), collects(col("v")).alias("c"))
    async with t_env.to_changelog_stream(found).execute_and_collect() as it:
        rows = [str(r) async for r in it]
    assert rows[-1] == "+U[a, [1, 3, 1] {1: 2, 3: 1}]"


def test_views() -> None:
    values: ListView[int] = ListView(1, 2)
    values.add(3)
    values.add_all([4])
    assert (list(values.get()), len(values), values == ListView(1, 2, 3, 4)) == ([1, 2, 3, 4], 4, True)
    assert repr(values) == "ListView(1, 2, 3, 4)"
    values.clear()
    assert list(values) == []
    found: MapView[str, int] = MapView(a=1)
    found.put("b", 2)
    found.put_all({"c": 3})
    found["d"] = 4
    del found["a"]
    found.remove("b")
    found.remove("nope")
    assert (found["c"], found.get("nope"), found.contains("d"), "a" in found) == (3, None, True, False)
    assert (sorted(found), sorted(found.keys()), sorted(found.values())) == (["c", "d"], ["c", "d"], [3, 4])
    assert (found.is_empty(), len(found), found == MapView({"c": 3, "d": 4})) == (False, 2, True)
    assert repr(found) == "MapView({'c': 3, 'd': 4})"
    found.clear()
    assert found.is_empty()


async def test_an_aggregate_that_cannot_take_back(t_env: TableEnvironment) -> None:
    class Last(AggregateFunction):
        def create_accumulator(self) -> list[int]:
            return []

        def accumulate(self, accumulator: list[int], n: int) -> None:
            accumulator[:] = [n]

        def get_value(self, accumulator: list[int]) -> int | None:
            return accumulator[0] if accumulator else None

    t = t_env.from_elements([(1, "a"), (2, "a")], ["n", "k"])
    counts = t.group_by("k").select("k", col("n").count.alias("c"))
    last = udaf(Last(), result_type=int, name="last")
    with pytest.raises(TableException, match="last has no retract"):
        counts.select(last(col("c"))).collect()
    summed = counts.select(udaf(Sum(), result_type=int)(col("c")).alias("s"))
    async with summed.collect() as it:
        assert [str(r) async for r in it] == ["+I[1]", "-D[1]", "+I[2]"]


async def test_distinct_and_filter_of_aggregates(t_env: TableEnvironment) -> None:
    t_env.create_temporary_view("t", t_env.from_elements([(1,), (2,), (2,)], ["n"]))
    t_env.create_temporary_function("total", udaf(Sum(), result_type=int))
    query = t_env.sql_query("SELECT total(n), total(DISTINCT n), total(n) FILTER (WHERE n > 1) FROM t")
    async with query.collect() as it:
        rows = [tuple(r) async for r in it]
    assert rows[-1] == (5, 3, 4)


# -- functions that give rows --------------------------------------------------------------------------------------


async def test_table_functions_in_sql(t_env: TableEnvironment) -> None:
    words = udtf(Top(), result_types=[DataTypes.STRING(), DataTypes.BIGINT()])
    t_env.create_temporary_function("words", words)
    t_env.create_temporary_view("t", t_env.from_elements([(1, "a bb"), (2, "")], ["n", "s"]))
    for sql, expected in {
        "SELECT n, w, l FROM t, LATERAL TABLE(words(s)) AS x(w, l)": [(1, "a", 1), (1, "bb", 2)],
        "SELECT n, w FROM t LEFT JOIN LATERAL TABLE(words(s)) AS x(w, l) ON TRUE": [(1, "a"), (1, "bb"), (2, None)],
        "SELECT n, x.f0 FROM t, LATERAL TABLE(words(s)) AS x WHERE x.f1 > 1": [(1, "bb")],
    }.items():
        async with t_env.sql_query(sql).collect() as it:
            assert [tuple(r) async for r in it] == expected
    with pytest.raises(ValidationException):
        t_env.sql_query("SELECT words(s) FROM t")


@pytest.mark.parametrize(
    ("gives", "expected"),
    [
        (lambda s: s.split(), ["a", "b"]),
        (lambda s: iter(s.split()), ["a", "b"]),
        (lambda s: [Row(x) for x in s.split()], ["a", "b"]),
        (lambda s: [(x,) for x in s.split()], ["a", "b"]),
        (lambda s: None, []),
        (lambda s: "whole", ["whole"]),
    ],
)
async def test_shapes_of_rows(t_env: TableEnvironment, gives: Any, expected: Iterable[str]) -> None:
    one_column = udtf(gives, result_types=DataTypes.STRING())
    t = t_env.from_elements([("a b",)], ["s"]).join_lateral(one_column(col("s")).alias("w")).select("w")
    async with t.collect() as it:
        assert [r[0] async for r in it] == expected
