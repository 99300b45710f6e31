"""The Table API: what each method means, shown by rows, and the errors of each from its own line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, TableException, ValidationException
from streamline.table import (
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    AggregateFunction,
    AsyncScalarFunction,
    DataTypes,
    FunctionContext,
    Over,
    ScalarFunction,
    Schema,
    Session,
    Slide,
    StreamTableEnvironment,
    TableAggregateFunction,
    TableEnvironment,
    TableFunction,
    Tumble,
    call,
    call_sql,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    map_,
    null_of,
    range_,
    row,
    row_interval,
    udaf,
    udf,
    udtaf,
    udtf,
    with_all_columns,
    with_columns,
    without_columns,
)
from streamline.table import array as array_of

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


class Sale(msgspec.Struct):
    shop: str
    amount: int
    at: int  # seconds


SALES = [Sale("a", 1, 1), Sale("b", 5, 2), Sale("a", 3, 4), Sale("b", 2, 7), Sale("a", 9, 12)]


class Bench:
    """Two tables, and how to see rows."""

    def __init__(self) -> None:
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.t = StreamTableEnvironment.create(self.env)
        schema = (
            Schema.new_builder()
            .column_by_expression("rt", "TO_TIMESTAMP_LTZ(`at`, 0)")
            .column_by_expression("pt", "PROCTIME()")
            .watermark("rt", "rt")
            .build()
        )
        self.t.create_temporary_view("sales", self.env.from_collection(SALES), schema)
        self.sales = self.t.from_path("sales").select(col("shop"), col("amount"), col("rt"), col("pt"))
        self.plain = self.sales.select(col("shop"), col("amount"))
        cities = [("a", "Athens"), ("b", "Bonn"), ("c", "Cairo")]
        self.shops = self.t.from_data_stream(self.env.from_collection(cities), col("id"), col("city"))
        self.t.create_temporary_view("shops", self.shops)

    async def rows(self, table: Any) -> list[str]:
        async with self.t.to_changelog_stream(table).execute_and_collect() as it:
            return [str(r) async for r in it]

    async def final(self, table: Any) -> list[tuple[Any, ...]]:
        """The rows that are left when all changes are applied."""
        left: list[tuple[Any, ...]] = []
        async with self.t.to_changelog_stream(table).execute_and_collect() as it:
            async for r in it:
                if r.kind.is_retraction:
                    left.remove(tuple(r))
                else:
                    left.append(tuple(r))
        return sorted(left, key=str)


@pytest.fixture
def bench() -> Iterator[Bench]:
    yield Bench()


# -- columns -------------------------------------------------------------------------------------------------------


async def test_select_names(bench: Bench) -> None:
    t = bench.plain.select(
        col("shop"),
        col("amount") + 1,
        col("amount").alias("x"),
        col("amount").cast(DataTypes.STRING()),
        col("shop").upper_case,
    )
    assert t.get_schema().get_field_names() == ["shop", "_c1", "x", "amount", "_c4"]
    assert (await bench.rows(t))[0] == "+I[a, 2, 1, 1, A]"


async def test_select_star_and_choices(bench: Bench) -> None:
    names = lambda t: t.get_schema().get_field_names()  # noqa: E731
    s = bench.sales
    assert names(s.select(col("*"))) == ["shop", "amount", "rt", "pt"]
    assert names(s.select(with_all_columns())) == ["shop", "amount", "rt", "pt"]
    assert names(s.select(with_columns(range_("amount", "pt"), "shop"))) == ["amount", "rt", "pt", "shop"]
    assert names(s.select(with_columns(range_(1, 2)))) == ["shop", "amount"]
    assert names(s.select(without_columns("rt", "pt"))) == ["shop", "amount"]
    assert names(s.select("amount", "shop")) == ["amount", "shop"]
    assert str(s.amount) == "amount"
    with pytest.raises(AttributeError, match="no column"):
        s.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.select(col("nope")), r"Cannot resolve field \[nope\], input field list:\[shop, amount, rt, pt\]"),
        (lambda s: s.select(col("shop"), col("amount").alias("shop")), "Ambiguous column name: shop"),
        (lambda s: s.select(col("shop") - 1), "Cannot apply '-'"),
        (lambda s: s.where(col("shop")), "must be a condition"),
        (lambda s: s.where(col("amount").sum > 1), "Aggregate functions are not supported in where"),
        (lambda s: s.select(col("w").start), "start is a property of a group window"),
        (lambda s: s.select(call("nofunc", col("amount"))), "No match found for function signature nofunc"),
        (lambda s: s.alias("a", "b", "c", "d", "e"), "Aliasing more fields than we actually have"),
        (lambda s: s.add_columns(lit(1).alias("shop")), "Ambiguous column name: shop"),
        (lambda s: s.drop_columns(col("nope")), r"Cannot resolve field \[nope\]"),
        (lambda s: s.rename_columns(col("shop")), "rename_columns takes"),
        (lambda s: s.group_by(col("shop")).select(col("amount")), "Column 'amount' is neither grouped by"),
        (lambda s: s.fetch(-1), "FETCH should be greater than or equal 0"),
        (lambda s: s.select(with_columns(range_("pt", "shop"))), "comes after"),
    ],
)
def test_errors_come_from_the_method(bench: Bench, build: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message) as e:
        build(bench.sales)
    assert not str(e.value).startswith("SQL validation failed")


async def test_columns_added_renamed_dropped(bench: Bench) -> None:
    t = bench.plain.add_columns((col("amount") * 2).alias("twice"))
    assert (await bench.rows(t))[0] == "+I[a, 1, 2]"
    t = bench.plain.add_or_replace_columns(concat(col("shop"), "!").alias("shop"), lit("x").alias("y"))
    assert t.get_schema().get_field_names() == ["shop", "amount", "y"]
    assert (await bench.rows(t))[0] == "+I[a!, 1, x]"
    assert bench.plain.rename_columns(col("shop").alias("s")).get_schema().get_field_names() == ["s", "amount"]
    assert bench.sales.drop_columns(col("rt"), "pt").get_schema().get_field_names() == ["shop", "amount"]
    assert bench.plain.alias("s").get_schema().get_field_names() == ["s", "amount"]
    assert bench.plain.as_("s", "n").get_schema().get_field_names() == ["s", "n"]


async def test_values_of_many_kinds(bench: Bench) -> None:
    one = bench.plain.fetch(1)
    t = one.select(
        lit(1.5).alias("d"),
        lit(Decimal("1.50")).alias("c"),
        lit(None).alias("n") if False else null_of(DataTypes.INT()).alias("n"),
        lit(True).alias("b"),
        lit(datetime(2024, 5, 1, 10, 0, 0, 123000)).alias("ts"),
        lit(datetime(2024, 5, 1, 10, tzinfo=UTC)).alias("ltz"),
        lit(timedelta(hours=25, milliseconds=7)).alias("i"),
        array_of(1, 2).alias("a"),
        map_("k", col("amount")).alias("m"),
        row(1, "x").alias("r"),
        lit(3_000_000_000).alias("big"),
        lit(b"\x01\x02").alias("raw"),
    )
    async with bench.t.to_data_stream(t).execute_and_collect() as it:
        (found,) = [r async for r in it]
    values = tuple(found)
    assert values[:9] == (
        1.5,
        Decimal("1.50"),
        None,
        True,
        datetime(2024, 5, 1, 10, 0, 0, 123000),
        datetime(2024, 5, 1, 10, tzinfo=UTC),
        timedelta(hours=25, milliseconds=7),
        [1, 2],
        {"k": 1},
    )
    assert tuple(values[9]) == (1, "x")
    assert values[10:] == (3_000_000_000, b"\x01\x02")


async def test_operators_and_methods(bench: Bench) -> None:
    a, s = col("amount"), col("shop")
    t = bench.plain.fetch(1).select(
        (a + 1) * 3 - 2,
        7 % (a + 1),
        -a,
        a**2,
        (a > 0) & ~(a > 5) | (a == 7),
        a.between(1, 2),
        a.in_(3, 4),
        s + "-" + a,
        s.like("a%"),
        a.is_null.then("null", "there"),
        if_then_else(a > 3, "many", "few"),
        coalesce(null_of(DataTypes.BIGINT()), a),
        call_sql("amount + 10"),
        lit("2024-05-01").to_date,
    )
    (found,) = await bench.rows(t)
    assert found == "+I[4, 1, -1, 1.0, true, true, false, a-1, true, there, few, 1, 11, 2024-05-01]"


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(ValidationException, match="write & for and"):
        bool(col("a") > 1)


# -- rows ----------------------------------------------------------------------------------------------------------


async def test_where_distinct_fetch(bench: Bench) -> None:
    assert await bench.rows(bench.plain.filter(col("amount") >= 5)) == ["+I[b, 5]", "+I[a, 9]"]
    assert await bench.rows(bench.plain.select(col("shop")).distinct()) == ["+I[a]", "+I[b]"]
    assert await bench.rows(bench.plain.fetch(2)) == ["+I[a, 1]", "+I[b, 5]"]
    top = bench.plain.order_by(col("amount").desc).fetch(2)
    assert await bench.final(top) == [("a", 9), ("b", 5)]
    smallest = bench.plain.order_by(col("amount")).limit(1, 1)
    assert await bench.final(smallest) == [("b", 2)]
    in_time = bench.sales.order_by(col("rt")).select(col("amount"))
    assert await bench.rows(in_time) == ["+I[1]", "+I[5]", "+I[3]", "+I[2]", "+I[9]"]
    with pytest.raises(TableException, match="Sort on a non-time-attribute field is not supported"):
        bench.t.to_changelog_stream(bench.plain.order_by(col("amount")))


async def test_in_another_table(bench: Bench) -> None:
    cities = bench.shops.where(col("city") == "Bonn").select(col("id"))
    assert await bench.final(bench.plain.where(col("shop").in_(cities))) == [("b", 2), ("b", 5)]


async def test_tables_in_sql_text(bench: Bench) -> None:
    big = bench.plain.where(col("amount") > 4)
    assert await bench.rows(bench.t.sql_query(f"SELECT amount FROM {big}")) == ["+I[5]", "+I[9]"]


# -- groups --------------------------------------------------------------------------------------------------------


async def test_group_by(bench: Bench) -> None:
    t = bench.plain.group_by(col("shop")).select(
        col("shop"), col("amount").sum.alias("total"), col("amount").count, col("amount").max - col("amount").min
    )
    assert t.get_schema().get_field_names() == ["shop", "total", "EXPR$0", "_c3"]
    assert await bench.final(t) == [("a", 13, 3, 8), ("b", 7, 2, 3)]


async def test_global_aggregate_and_having(bench: Bench) -> None:
    t = bench.plain.select(col("amount").sum, col("amount").distinct.count.alias("n"), lit(1).count)
    assert await bench.final(t) == [(20, 5, 5)]
    having = (
        bench.plain.group_by(col("shop")).select(col("shop"), col("amount").sum.alias("total")).where(col("total") > 10)
    )
    assert await bench.final(having) == [("a", 13)]


async def test_group_by_an_expression(bench: Bench) -> None:
    t = bench.plain.group_by((col("amount") % 2).alias("odd")).select(col("odd"), col("amount").sum.alias("s"))
    assert await bench.final(t) == [(0, 2), (1, 18)]
    repeated = bench.plain.group_by(col("amount") % 2).select(col("amount") % 2, col("amount").sum.alias("s"))
    assert await bench.final(repeated) == [(0, 2), (1, 18)]


# -- windows -------------------------------------------------------------------------------------------------------


async def test_tumble(bench: Bench) -> None:
    t = (
        bench.sales.window(Tumble.over(lit(5).seconds).on(col("rt")).alias("w"))
        .group_by(col("w"), col("shop"))
        .select(col("shop"), col("w").start, col("w").end.alias("e"), col("amount").sum.alias("s"))
    )
    assert t.get_schema().get_field_names() == ["shop", "EXPR$0", "e", "s"]
    at = lambda s: datetime(1970, 1, 1, 0, 0, s)  # noqa: E731
    assert await bench.final(t) == [
        ("a", at(0), at(5), 4),
        ("a", at(10), at(15), 9),
        ("b", at(0), at(5), 5),
        ("b", at(5), at(10), 2),
    ]


async def test_slide_and_session(bench: Bench) -> None:
    slide = (
        bench.sales.window(Slide.over(lit(10).seconds).every(lit(5).seconds).on(col("rt")).alias("w"))
        .group_by(col("w"))
        .select(col("w").end, col("amount").sum)
    )
    assert sorted(await bench.final(slide)) == [
        (datetime(1970, 1, 1, 0, 0, end), n) for end, n in ((5, 9), (10, 11), (15, 11), (20, 9))
    ]
    session = (
        bench.sales.window(Session.with_gap(lit(4).seconds).on(col("rt")).alias("w"))
        .group_by(col("w"), col("shop"))
        .select(col("shop"), col("amount").sum)
    )
    assert await bench.final(session) == [("a", 4), ("a", 9), ("b", 2), ("b", 5)]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (Tumble.over(lit(5).seconds).on(col("rt")), "has no name"),
        (Tumble.over(lit(5).seconds).alias("w"), "has no time attribute"),
        (Tumble.over(lit(5).seconds).on(col("amount")).alias("w"), "is no time attribute"),
        (Tumble.over(lit(5)).on(col("rt")).alias("w"), "has to be an interval"),
        (Slide.over(lit(5).seconds).on(col("rt")).alias("w"), "has no slide"),
        (Tumble.over(row_interval(2)).on(col("rt")).alias("w"), "Event-time grouping windows on row intervals"),
    ],
)
def test_windows_that_are_none(bench: Bench, window: Any, message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        bench.sales.window(window)


def test_a_window_has_to_be_grouped_by(bench: Bench) -> None:
    windowed = bench.sales.window(Tumble.over(lit(5).seconds).on(col("rt")).alias("w"))
    with pytest.raises(ValidationException, match="window alias"):
        windowed.group_by(col("shop"))


async def test_over(bench: Bench) -> None:
    w = Over.partition_by(col("shop")).order_by(col("rt"))
    t = bench.sales.over_window(w.preceding(UNBOUNDED_RANGE).alias("w")).select(
        col("shop"), col("amount"), col("amount").sum.over(col("w")).alias("running")
    )
    assert sorted(await bench.rows(t)) == ["+I[a, 1, 1]", "+I[a, 3, 4]", "+I[a, 9, 13]", "+I[b, 2, 7]", "+I[b, 5, 5]"]
    two = bench.sales.over_window(w.preceding(row_interval(1)).following(CURRENT_ROW).alias("w")).select(
        col("shop"), col("amount").sum.over("w")
    )
    assert set(await bench.rows(two)) == {"+I[a, 1]", "+I[a, 4]", "+I[a, 12]", "+I[b, 5]", "+I[b, 7]"}
    with pytest.raises(ValidationException, match="there is no window x"):
        bench.sales.over_window(w.preceding(UNBOUNDED_ROW).alias("w")).select(col("amount").sum.over("x"))


# -- joins and sets ------------------------------------------------------------------------------------------------


async def test_joins(bench: Bench) -> None:
    on = col("shop") == col("id")
    inner = bench.plain.join(bench.shops, on).select(col("city"), col("amount"))
    assert await bench.final(inner) == [
        ("Athens", 1),
        ("Athens", 3),
        ("Athens", 9),
        ("Bonn", 2),
        ("Bonn", 5),
    ]
    crossed = bench.plain.join(bench.shops).where(on).select(col("city"), col("amount"))
    assert await bench.final(crossed) == await bench.final(inner)
    some = bench.plain.where(col("shop") == "a").fetch(1)
    left = bench.shops.left_outer_join(some, on).select(col("city"), col("amount"))
    assert await bench.final(left) == [("Athens", 1), ("Bonn", None), ("Cairo", None)]
    right = some.right_outer_join(bench.shops, on).select(col("city"), col("amount"))
    assert await bench.final(right) == await bench.final(left)
    full = some.full_outer_join(bench.shops, on).select(col("city"), col("amount"))
    assert await bench.final(full) == await bench.final(left)


def test_joined_tables_have_names(bench: Bench) -> None:
    joined = bench.plain.join(bench.t.from_path("shops"), col("shop") == col("shops.id"))
    assert joined.select(col("shops.city")).get_schema().get_field_names() == ["city"]
    with pytest.raises(ValidationException, match=r"join relations with ambiguous names: \[amount, shop\]"):
        bench.plain.join(bench.plain)


def test_a_name_that_means_two_things(bench: Bench) -> None:
    nested = bench.plain.select(
        row(1, 2)
        .cast(DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("x", DataTypes.INT())]))
        .alias("shops")
    )
    joined = nested.join(bench.t.from_path("shops"))
    with pytest.raises(ValidationException) as e:
        joined.select(col("shops.id"))
    assert "column id of table shops" in str(e.value)
    assert "field id of column shops" in str(e.value)
    assert joined.select(col("shops.x"), col("shops.city")).get_schema().get_field_names() == ["x", "city"]


async def test_sets(bench: Bench) -> None:
    a = bench.plain.select(col("shop"))
    b = bench.shops.select(col("id"))
    final = bench.final
    assert await final(a.union(b)) == [("a",), ("b",), ("c",)]
    assert len(await final(a.union_all(b))) == 8
    assert await final(a.intersect(b)) == [("a",), ("b",)]
    assert await final(a.intersect_all(b)) == [("a",), ("b",)]
    assert await final(b.minus(a)) == [("c",)]
    assert await final(a.minus_all(b)) == [("a",), ("a",), ("b",)]
    with pytest.raises(ValidationException, match="Column count mismatch"):
        a.union(bench.shops)


# -- functions of the user -----------------------------------------------------------------------------------------


@udf(result_type=DataTypes.BIGINT())
def double(n: int) -> int:
    return n * 2


class Greeting(ScalarFunction):
    def eval(self, name: str, when: datetime) -> str:
        return f"{name}@{when.second}"


async def test_scalar_functions(bench: Bench) -> None:
    t = bench.plain.select(double(col("amount")), call(double, col("amount") + 1))
    assert (await bench.rows(t))[1] == "+I[10, 12]"
    greet = udf(Greeting(), result_type="STRING")
    assert (await bench.rows(bench.sales.select(greet(col("shop"), col("rt")))))[0] == "+I[a@1]"
    bench.t.create_temporary_function("Twice", double)
    assert (await bench.rows(bench.t.sql_query("SELECT twice(amount) FROM sales")))[0] == "+I[2]"
    bench.t.create_temporary_system_function("thrice", udf(lambda n: n * 3, result_type=int))
    assert (await bench.rows(bench.plain.select(call("thrice", col("amount")))))[0] == "+I[3]"
    assert bench.t.list_user_defined_functions() == ["thrice", "twice"]
    with pytest.raises(ValidationException, match="Invalid number of arguments to function 'double"):
        bench.plain.select(double(col("amount"), 1))
    typed = udf(lambda n: n, input_types=[DataTypes.BIGINT()], result_type=int)
    with pytest.raises(ValidationException, match="argument 1 has to be BIGINT"):
        bench.plain.select(typed(col("shop")))


@udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
def letters(text: str) -> Any:
    for i, c in enumerate(text):
        yield c, i


class Repeat(TableFunction):
    def eval(self, text: str, n: int) -> Any:
        return [f"{text}{i}" for i in range(n)]


async def test_table_functions(bench: Bench) -> None:
    t = bench.shops.join_lateral(letters(col("city")).alias("c", "i")).where(col("i") == 0)
    assert await bench.rows(t.select(col("id"), col("c"))) == ["+I[a, A]", "+I[b, B]", "+I[c, C]"]
    repeat = udtf(Repeat(), result_types=DataTypes.STRING())
    left = bench.plain.fetch(2).left_outer_join_lateral(repeat(col("shop"), col("amount") - 1).alias("r"))
    assert await bench.rows(left.select(col("shop"), col("r"))) == [
        "+I[a, null]",
        "+I[b, b0]",
        "+I[b, b1]",
        "+I[b, b2]",
        "+I[b, b3]",
    ]
    flat = bench.shops.fetch(1).flat_map(letters(col("city")).alias("c", "i"))
    assert (await bench.rows(flat))[:2] == ["+I[A, 0]", "+I[t, 1]"]
    bench.t.create_temporary_function("letters", letters)
    sql = bench.t.sql_query("SELECT id, c FROM shops, LATERAL TABLE(letters(city)) AS T(c, i) WHERE i = 1")
    assert await bench.rows(sql) == ["+I[a, t]", "+I[b, o]", "+I[c, a]"]
    with pytest.raises(ValidationException, match="join relations with ambiguous names"):
        bench.shops.join_lateral(letters(col("city")).alias("id", "i"))


async def test_map(bench: Bench) -> None:
    pair = udf(
        lambda r: Row(r.shop + "!", r[1] + 1),
        result_type=DataTypes.ROW([DataTypes.FIELD("s", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT())]),
    )
    t = bench.plain.map(pair)
    assert t.get_schema().get_field_names() == ["s", "n"]
    assert (await bench.rows(t))[0] == "+I[a!, 2]"
    assert bench.plain.map(pair(row(1, 2)).alias("x", "y")).get_schema().get_field_names() == ["x", "y"]


class WeightedAverage(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0, 0]

    def accumulate(self, acc: Any, value: int, weight: int) -> None:
        acc[0] += value * weight
        acc[1] += weight

    def retract(self, acc: Any, value: int, weight: int) -> None:
        acc[0] -= value * weight
        acc[1] -= weight

    def get_value(self, acc: Any) -> float | None:
        return acc[0] / acc[1] if acc[1] else None


class NoRetract(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def accumulate(self, acc: Any, value: int) -> None:
        acc[0] += value

    def get_value(self, acc: Any) -> int:
        return acc[0]


async def test_aggregate_functions(bench: Bench) -> None:
    average = udaf(WeightedAverage(), result_type="DOUBLE")
    t = bench.plain.group_by(col("shop")).select(col("shop"), average(col("amount"), 2).alias("a"))
    assert await bench.final(t) == [("a", 13 / 3), ("b", 3.5)]
    bench.t.create_temporary_function("wavg", average)
    sql = bench.t.sql_query("SELECT wavg(amount, 1) AS a FROM sales")
    assert await bench.final(sql) == [(4.0,)]
    nested = bench.plain.group_by(col("shop")).select(col("amount").sum.alias("s")).select(average(col("s"), 1))
    assert await bench.final(nested) == [(10.0,)]
    plain = udaf(NoRetract())
    updating = bench.plain.group_by(col("shop")).select(col("amount").sum.alias("s")).select(plain(col("s")))
    with pytest.raises((TableException, ValidationException), match="retract"):
        bench.t.to_changelog_stream(updating)


class Top2(TableAggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def accumulate(self, acc: Any, value: int) -> None:
        acc.append(value)

    def emit_value(self, acc: Any) -> Any:
        for place, value in enumerate(sorted(acc, reverse=True)[:2]):
            yield Row(value, place + 1)


async def test_flat_aggregate(bench: Bench) -> None:
    top = udtaf(
        Top2(),
        result_type=DataTypes.ROW(
            [DataTypes.FIELD("value", DataTypes.BIGINT()), DataTypes.FIELD("place", DataTypes.INT())]
        ),
    )
    t = (
        bench.plain.group_by(col("shop"))
        .flat_aggregate(top(col("amount")).alias("v", "place"))
        .select(col("shop"), col("v"), col("place"))
    )
    assert await bench.final(t) == [("a", 3, 2), ("a", 9, 1), ("b", 2, 2), ("b", 5, 1)]


async def test_open_and_close(bench: Bench) -> None:
    log: list[str] = []

    class Counted(ScalarFunction):
        def open(self, function_context: Any) -> None:
            self.factor = 10
            self.counter = function_context.get_metric_group().counter("calls")
            log.append("open")

        def eval(self, n: int) -> int:
            self.counter.inc()
            return n * self.factor

        def close(self) -> None:
            log.append("close")

    counted = udf(Counted(), result_type=int)
    assert (await bench.rows(bench.plain.select(counted(col("amount")))))[0] == "+I[10]"
    assert log == ["open", "close"]


async def test_async_functions(bench: Bench) -> None:
    import asyncio

    running = 0
    most = 0

    @udf(result_type=DataTypes.BIGINT())
    async def slow(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10 - n):
            await asyncio.sleep(0)
        running -= 1
        return n * 2

    t = bench.plain.where(col("amount") > 1).select(col("shop"), slow(col("amount")).alias("d"))
    assert await bench.rows(t) == ["+I[b, 10]", "+I[a, 6]", "+I[b, 4]", "+I[a, 18]"]
    assert most > 1
    assert "AsyncCalc(select=[shop, amount, slow(amount) AS f2])" in t.explain()


async def test_async_functions_in_conditions(bench: Bench) -> None:
    asked: list[int] = []

    @udf(result_type=DataTypes.BIGINT())
    async def slow(n: int) -> int:
        asked.append(n)
        return n * 2

    bench.t.create_temporary_function("slow", slow)
    bench.t.create_temporary_view("plain", bench.plain)
    t = bench.t.sql_query(
        "SELECT shop, slow(amount) AS d, slow(slow(amount) + 1) AS e FROM plain WHERE amount < 9 AND slow(amount) > 4"
    )
    assert await bench.rows(t) == ["+I[b, 10, 22]", "+I[a, 6, 14]"]
    # Asked once for each row that the rest of the condition lets through, though the answer is used three times.
    assert sorted(asked) == [1, 2, 3, 5, 7, 11]


async def test_async_functions_with_a_life_and_attempts(bench: Bench) -> None:
    log: list[str] = []

    class Flaky(AsyncScalarFunction):
        def open(self, function_context: FunctionContext) -> None:
            self.seen: set[int] = set()
            log.append("open")

        async def eval(self, n: int) -> int:
            if n not in self.seen:
                self.seen.add(n)
                raise ValueError(f"not yet {n}")
            return n

        async def close(self) -> None:
            log.append("close")

    flaky = udf(Flaky(), result_type=DataTypes.BIGINT())
    t = bench.plain.select(flaky(col("amount")).alias("a"))
    assert await bench.rows(t) == ["+I[1]", "+I[5]", "+I[3]", "+I[2]", "+I[9]"]
    assert log == ["open", "close"]
    with pytest.warns(UserWarning, match="comes too late for what was planned before"):
        bench.t.get_config().set("table.exec.async-scalar.retry-strategy", "NO_RETRY")
    with pytest.raises(ValueError, match="not yet"):
        await bench.rows(bench.plain.select(flaky(col("amount")).alias("a")))


async def test_async_functions_take_their_time(bench: Bench) -> None:
    import asyncio

    @udf(result_type=DataTypes.BIGINT())
    async def never(n: int) -> int:
        await asyncio.Event().wait()
        return n

    bench.t.get_config().set("table.exec.async-scalar.timeout", "20 ms")
    with pytest.raises(TimeoutError, match="timed out after 20 ms"):
        await bench.rows(bench.plain.select(never(col("amount")).alias("a")))


async def test_async_functions_take_no_updates(bench: Bench) -> None:
    @udf(result_type=DataTypes.BIGINT())
    async def slow(n: int) -> int:
        return n

    sums = bench.plain.group_by(col("shop")).select(col("shop"), col("amount").sum.alias("s"))
    with pytest.raises(TableException, match="StreamPhysicalAsyncCalc doesn't support consuming update changes"):
        bench.t.to_changelog_stream(sums.select(slow(col("s")).alias("s")))
    on = (col("shop") == col("id")) & (slow(col("amount")) < col("city").char_length)
    joined = bench.plain.join(bench.shops, on)
    with pytest.raises(TableException, match="slow is an async function; it can be called in SELECT and WHERE"):
        bench.t.to_changelog_stream(joined)


# -- tables of values ----------------------------------------------------------------------------------------------


async def test_values(bench: Bench) -> None:
    t = bench.t.from_elements([(1, "a"), (2, None)], ["n", "s"])
    assert await bench.rows(t) == ["+I[1, a]", "+I[2, null]"]
    typed = bench.t.from_elements(
        [(1, "a")],
        DataTypes.ROW([DataTypes.FIELD("n", DataTypes.DECIMAL(5, 2)), DataTypes.FIELD("s", DataTypes.STRING())]),
    )
    assert [x.summary(True) for x in typed.get_schema().get_field_data_types()] == ["DECIMAL(5, 2)", "STRING"]
    expressions = bench.t.from_values(row(1, lit("x").upper_case), row(2, "y"))
    assert await bench.rows(expressions) == ["+I[1, X]", "+I[2, y]"]
    assert await bench.rows(bench.t.from_elements([1, 2])) == ["+I[1]", "+I[2]"]


async def test_a_table_environment_without_streams() -> None:
    t_env = TableEnvironment.create()
    table = t_env.from_elements([(1, "a"), (2, "b")], ["n", "s"]).where(col("n") > 1)
    async with table.collect() as it:
        assert [str(r) async for r in it] == ["+I[2, b]"]
    with pytest.raises(ValidationException, match="StreamTableEnvironment"):
        table.to_data_stream()
    kinds = [r.kind async for r in table.collect()]
    assert kinds == [RowKind.INSERT]
