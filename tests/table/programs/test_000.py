"""The programs of the first document: conversions both ways, event time, aggregates, configuration, errors."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from decimal import Decimal as D
from typing import Any

import msgspec
import pytest

from streamline import Row, RowKind, StreamExecutionEnvironment, TableException, Types, ValidationException
from streamline.errors import StreamlineError
from streamline.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
)
from streamline.state import ValueStateDescriptor
from streamline.table import (
    Change,
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    Tumble,
    TypeConversions,
    call,
    col,
    lit,
)
from streamline.testing import Delay, ScriptedSource, VirtualClock
from streamline.windows import TumblingEventTimeWindows

from .common import (
    LATE,
    NAME_AGE,
    ORDER_SCHEMA,
    ORDERS,
    PEOPLE,
    Order,
    OrderSummary,
    at,
    bounded,
    envs,
    feed,
    marked,
    ms,
    paced,
    rows,
    source_time,
    texts,
)

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


def utc(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2024, 5, 1, hour, minute, second)


async def test_p01_one_graph_two_catalogs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    other = StreamTableEnvironment.create(env, EnvironmentSettings.new_instance().in_streaming_mode().build())
    assert t_env.get_stream_execution_environment() is env
    assert other.get_stream_execution_environment() is env
    t_env.create_temporary_view("v", t_env.from_data_stream(env.from_collection(PEOPLE)))
    assert "v" in t_env.list_tables()
    assert "v" not in other.list_tables()


async def p02(keys: dict[str, str]) -> list[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(4)
    env.enable_checkpointing(10_000)
    t_env = StreamTableEnvironment.create(env)
    for k, v in keys.items():
        t_env.get_config().get_configuration().set_string("table.exec.mini-batch." + k, v)
    orders = t_env.from_data_stream(env.from_collection(ORDERS), ORDER_SCHEMA)
    t_env.to_data_stream(orders.select(col("orderId")))
    totals = t_env.to_changelog_stream(
        orders.group_by(col("customerId")).select(col("customerId"), col("amount").sum.alias("total"))
    )
    return await rows(totals)


async def test_p02_as_written_names_every_missing_key(virtual_clock: VirtualClock) -> None:
    with pytest.raises(ValidationException) as e:
        await p02({"enabled": "true"})
    assert "table.exec.mini-batch.allow-latency" in str(e.value)
    assert "table.exec.mini-batch.size" in str(e.value)


async def test_p02_as_meant(virtual_clock: VirtualClock) -> None:
    found = await p02({"enabled": "true", "allow-latency": "1s", "size": "1000"})
    assert sorted(texts(found)) == ["+I[7, 320.25]", "+I[8, 100.00]", "+I[9, 100.00]"]


async def test_p03_schema_from_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env = envs()
    orders = t_env.from_data_stream(env.from_collection(ORDERS))
    orders.print_schema()
    found = await rows(t_env.to_data_stream(orders, Order))
    assert capsys.readouterr().out == (
        "(\n  `orderId` BIGINT NOT NULL,\n  `customerId` BIGINT NOT NULL,\n  `amount` DECIMAL(38, 18),\n"
        "  `orderTime` TIMESTAMP_LTZ(6)\n)\n"
    )
    assert len(found) == len(ORDERS)
    assert all(a is b for a, b in zip(found, ORDERS))


async def test_p04_fields() -> None:
    env, t_env = envs()
    t = t_env.from_data_stream(
        env.from_collection(ORDERS), col("orderId").alias("id"), col("customerId"), col("amount"), col("orderTime")
    )
    assert t.get_schema().get_field_names() == ["id", "customerId", "amount", "orderTime"]
    found = await rows(t_env.to_data_stream(t.select(col("id"), col("customerId"))))
    assert texts(found) == ["+I[1, 7]", "+I[2, 8]", "+I[3, 7]", "+I[4, 9]", "+I[5, 8]"]


TUMBLE_5 = """
    SELECT window_end, COUNT(*) AS n, SUM(amount) AS total
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR({}), INTERVAL '5' SECOND))
    GROUP BY window_start, window_end"""


async def test_p05_watermark_of_the_schema(virtual_clock: VirtualClock, capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env = envs()
    with paced():
        stream = feed(env, [*ORDERS, LATE])
    t_env.from_data_stream(stream, ORDER_SCHEMA).print_schema()
    shown = capsys.readouterr().out
    for line in (
        "`orderId` BIGINT,",
        "`customerId` BIGINT,",
        "`amount` DECIMAL(10, 2),",
        "`orderTime` TIMESTAMP_LTZ(3) *ROWTIME*,",
        "WATERMARK FOR `orderTime`",
    ):
        assert line in shown
    t_env.create_temporary_view("orders", stream, ORDER_SCHEMA)
    result = t_env.to_data_stream(t_env.sql_query(TUMBLE_5.format("orderTime")))
    found = await marked(result, virtual_clock, 6)
    assert found == [
        (4, Row(utc(10, 0, 5), 3, D("400.75"))),
        ("end", Row(utc(10, 0, 15), 2, D("119.50"))),
    ]


async def test_p05_a_decimal_is_rounded_as_declared() -> None:
    env, t_env = envs()
    stream = env.from_collection([Order(1, 7, D("80.505"), at(0))])
    (row,) = await rows(t_env.to_data_stream(t_env.from_data_stream(stream, ORDER_SCHEMA)))
    assert row.amount == D("80.51")


@pytest.mark.virtual_clock("2024-05-01T11:00:02Z")
async def test_p06_as_written(virtual_clock: VirtualClock, capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env = envs()
    t_env.create_temporary_view("orders", feed(env, ORDERS), ORDER_SCHEMA)
    result = await t_env.execute_sql(
        "SELECT customerId, SUM(amount) FROM orders "
        "WHERE orderTime > CURRENT_TIMESTAMP - INTERVAL '1' HOUR GROUP BY customerId"
    )
    await result.print()
    assert capsys.readouterr().out == (
        "+----+----------------------+------------------------------------------+\n"
        "| op |           customerId |                                   EXPR$1 |\n"
        "+----+----------------------+------------------------------------------+\n"
        "| +I |                    8 |                                    80.50 |\n"
        "| +I |                    7 |                                   200.25 |\n"
        "| +I |                    9 |                                   100.00 |\n"
        "| -U |                    8 |                                    80.50 |\n"
        "| +U |                    8 |                                   100.00 |\n"
        "+----+----------------------+------------------------------------------+\n"
        "5 rows in set\n"
    )


async def test_p06_as_meant(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    with paced():
        t_env.create_temporary_view("orders", feed(env, ORDERS), ORDER_SCHEMA)
    table = t_env.sql_query("""SELECT customerId, SUM(amount) OVER (PARTITION BY customerId ORDER BY orderTime
        RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS total FROM orders""")
    found = await marked(t_env.to_data_stream(table), virtual_clock, 5)
    assert [(n, str(r)) for n, r in found[:3]] == [(4, "+I[7, 120.00]"), (4, "+I[7, 320.25]"), (4, "+I[8, 80.50]")]
    assert [(n, str(r)) for n, r in found[3:]] == [("end", "+I[9, 100.00]"), ("end", "+I[8, 100.00]")]


class Times(ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield ctx.timestamp()


async def test_p07_rows_out() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("orders", env.from_collection(ORDERS), ORDER_SCHEMA)
    big = t_env.from_path("orders").filter(col("amount").is_greater(lit(100)))
    stream = t_env.to_data_stream(big)
    found = await rows(stream)
    assert found == [Row(1, 7, D("120.00"), at(0)), Row(3, 7, D("200.25"), at(3))]
    assert found[0]["orderTime"].tzinfo is not None
    assert await rows(stream.process(Times(), output_type=int)) == [ms(0), ms(3)]


def totals_of(t_env: StreamTableEnvironment, name: str = "total") -> Any:
    return (
        t_env.from_path("orders").group_by(col("customerId")).select(col("customerId"), col("amount").sum.alias(name))
    )


def with_orders(*, feeding: bool = False) -> tuple[Any, StreamTableEnvironment]:
    env, t_env = envs()
    t_env.create_temporary_view("orders", feed(env, ORDERS) if feeding else env.from_collection(ORDERS), ORDER_SCHEMA)
    return env, t_env


async def test_p08_as_written() -> None:
    _, t_env = with_orders()
    with pytest.raises(TableException) as e:
        t_env.to_data_stream(totals_of(t_env, "totalAmount"), OrderSummary)
    produced = "doesn't support consuming update changes which is produced by node GroupAggregate(groupBy=[customerId]"
    assert produced in str(e.value)
    assert "to_changelog_stream(table, OrderSummary)" in str(e.value)


async def test_p08_and_p11_all_changes_typed() -> None:
    _, t_env = with_orders()
    stream = t_env.to_changelog_stream(totals_of(t_env, "totalAmount"), OrderSummary)
    found = await rows(stream)
    s, i, b, a = OrderSummary, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    assert found == [
        Change(i, s(7, D("120.00"))),
        Change(i, s(8, D("80.50"))),
        Change(b, s(7, D("120.00"))),
        Change(a, s(7, D("320.25"))),
        Change(i, s(9, D("100.00"))),
        Change(b, s(8, D("80.50"))),
        Change(a, s(8, D("100.00"))),
    ]
    assert all(type(c.value) is OrderSummary for c in found)


async def test_p08_one_summary_a_window(virtual_clock: VirtualClock) -> None:
    with paced():
        _, t_env = with_orders(feeding=True)
    t = t_env.sql_query("""SELECT customerId, SUM(amount) AS totalAmount FROM TABLE(
        TUMBLE(TABLE orders, DESCRIPTOR(orderTime), INTERVAL '10' SECOND))
        GROUP BY customerId, window_start, window_end""")
    found = await marked(t_env.to_data_stream(t, OrderSummary), virtual_clock, 5)
    assert {n for n, _ in found} == {"end"}
    s = OrderSummary
    assert sorted([(x.customerId, x.totalAmount) for _, x in found]) == [
        (7, D("320.25")),
        (8, D("19.50")),
        (8, D("80.50")),
        (9, D("100.00")),
    ]
    assert all(type(x) is s for _, x in found)


async def test_p09_declared_types() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("orders", env.from_collection(ORDERS[:2]), ORDER_SCHEMA)
    t = t_env.from_path("orders").select(col("orderId").alias("id"), col("amount"))
    a = t_env.to_data_stream(t, Types.ROW_NAMED(["amount", "id"], [Types.BIG_DEC(), Types.LONG()]))
    b = t_env.to_data_stream(
        t,
        DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("sum", DataTypes.DECIMAL(12, 2))]),
    )
    first, second = await rows(a), await rows(b)
    assert first == [Row(D("120.00"), 1), Row(D("80.50"), 2)]
    assert first[0].get_field_names() == ["amount", "id"]
    assert second == [Row(1, D("120.00")), Row(2, D("80.50"))]
    assert second[0].get_field_names() == ["n", "sum"]


class Describe(ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        match row.kind:
            case RowKind.INSERT:
                yield f"New customer total: {row}"
            case RowKind.UPDATE_AFTER:
                yield f"Updated customer total: {row}"
            case RowKind.DELETE:
                yield f"Removed customer: {row}"


async def test_p10_switch_on_the_kind() -> None:
    _, t_env = with_orders()
    found = await rows(t_env.to_changelog_stream(totals_of(t_env)).process(Describe(), output_type=str))
    assert found == [
        "New customer total: +I[7, 120.00]",
        "New customer total: +I[8, 80.50]",
        "Updated customer total: +U[7, 320.25]",
        "New customer total: +I[9, 100.00]",
        "Updated customer total: +U[8, 100.00]",
    ]


async def test_p10_deletes() -> None:
    env, t_env = envs()
    log = env.from_elements(
        Row.of_kind(RowKind.INSERT, 1, 7, D("120.00")), Row.of_kind(RowKind.DELETE, 1, 7, D("120.00"))
    )
    t_env.create_temporary_view(
        "orders",
        t_env.from_changelog_stream(
            log,
            Schema.new_builder()
            .column("orderId", "BIGINT")
            .column("customerId", "BIGINT")
            .column("amount", "DECIMAL(10, 2)")
            .build(),
        ),
    )
    found = await rows(t_env.to_changelog_stream(totals_of(t_env)).process(Describe(), output_type=str))
    assert found == ["New customer total: +I[7, 120.00]", "Removed customer: -D[7, 120.00]"]


async def test_p12_as_written() -> None:
    _, t_env = with_orders()
    with (
        pytest.warns(DeprecationWarning, match="to_changelog_stream"),
        pytest.raises(ValidationException) as e,
    ):
        t_env.to_retract_stream(totals_of(t_env, "total"), OrderSummary)
    assert "total (DECIMAL(38, 2))" in str(e.value)
    assert "customerId, totalAmount" in str(e.value)
    assert "alias" in str(e.value)


async def test_p12_as_meant() -> None:
    _, t_env = with_orders()
    with pytest.warns(DeprecationWarning, match="to_changelog_stream"):
        stream = t_env.to_retract_stream(totals_of(t_env, "totalAmount"), OrderSummary)
    s = OrderSummary
    assert await rows(stream) == [
        (True, s(7, D("120.00"))),
        (True, s(8, D("80.50"))),
        (False, s(7, D("120.00"))),
        (True, s(7, D("320.25"))),
        (True, s(9, D("100.00"))),
        (False, s(8, D("80.50"))),
        (True, s(8, D("100.00"))),
    ]


def p13(env: Any, t_env: StreamTableEnvironment, schema: Schema) -> Any:
    with paced():
        stream = feed(env, [*ORDERS, LATE])
    timed = stream.assign_timestamps_and_watermarks(bounded(5, lambda order: order.orderTime))
    t_env.create_temporary_view("orders", timed, schema)
    time = "orderTime" if schema is ORDER_SCHEMA else "rowtime"
    return t_env.to_data_stream(t_env.sql_query(TUMBLE_5.format(time)))


P13 = [(4, Row(utc(10, 0, 5), 3, D("400.75"))), ("end", Row(utc(10, 0, 15), 2, D("119.50")))]


async def test_p13_as_written_warns_of_two_strategies(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    with pytest.warns(UserWarning) as caught:
        stream = p13(env, t_env, ORDER_SCHEMA)
    (warning,) = caught
    for part in ("5", "orderTime", "SOURCE_WATERMARK()"):
        assert part in str(warning.message)
    assert warning.filename == __file__
    assert await marked(stream, virtual_clock, 6) == P13


async def test_p13_as_meant(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    assert await marked(p13(env, t_env, source_time()), virtual_clock, 6) == P13


async def test_p13_a_naive_datetime_is_refused_with_its_record() -> None:
    env, t_env = envs()
    timed = env.from_collection(ORDERS).assign_timestamps_and_watermarks(
        bounded(5, lambda order: order.orderTime.replace(tzinfo=None))
    )
    t_env.create_temporary_view("orders", timed, source_time())
    with pytest.raises(StreamlineError) as e:
        await rows(t_env.to_data_stream(t_env.from_path("orders")))
    assert "naive" in str(e.value)
    assert "orderId=1" in "\n".join([str(e.value), *e.value.__notes__])


def test_p14_type_conversions() -> None:
    to, back = TypeConversions.from_legacy_info_to_data_type, TypeConversions.from_data_type_to_legacy_info
    t = DataTypes
    for info, data_type in (
        (Types.STRING(), t.STRING()),
        (Types.LONG(), t.BIGINT()),
        (Types.INT(), t.INT()),
        (Types.DOUBLE(), t.DOUBLE()),
        (Types.BOOLEAN(), t.BOOLEAN()),
        (Types.BIG_DEC(), t.DECIMAL(38, 18)),
        (Types.INSTANT(), t.TIMESTAMP_LTZ(3)),
        (Types.SQL_TIMESTAMP(), t.TIMESTAMP(3)),
        (Types.SQL_DATE(), t.DATE()),
        (Types.SQL_TIME(), t.TIME(0)),
        (
            Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()]),
            t.ROW([t.FIELD("name", t.STRING()), t.FIELD("age", t.INT())]),
        ),
        (Types.MAP(Types.STRING(), Types.LONG()), t.MAP(t.STRING(), t.BIGINT())),
        (Types.OBJECT_ARRAY(Types.LONG()), t.ARRAY(t.BIGINT())),
        (
            OrderSummary,
            t.STRUCTURED(
                OrderSummary,
                [t.FIELD("customerId", t.BIGINT().not_null()), t.FIELD("totalAmount", t.DECIMAL(38, 18))],
            ),
        ),
    ):
        assert to(info) == data_type, info
    for data_type, info in (
        (t.DECIMAL(10, 2), Types.BIG_DEC()),
        (t.TIMESTAMP_LTZ(3), Types.INSTANT()),
        (t.TIMESTAMP(3), Types.SQL_TIMESTAMP()),
        (t.STRING().not_null(), Types.STRING()),
        (t.VARCHAR(3), Types.STRING()),
        (t.ARRAY(t.BIGINT()), Types.OBJECT_ARRAY(Types.LONG())),
        (t.ROW([t.FIELD("a", t.INT())]), Types.ROW_NAMED(["a"], [Types.INT()])),
        (t.MAP(t.STRING(), t.INT()), Types.MAP(Types.STRING(), Types.INT())),
        (t.BYTES(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    ):
        assert back(data_type) == info, data_type


class CustomerInfo(msgspec.Struct):
    customerId: int
    name: str
    email: str


class OrderItem(msgspec.Struct):
    productId: str
    quantity: int
    price: D


class ComplexOrder(msgspec.Struct):
    orderId: int
    customer: CustomerInfo | None
    items: list[OrderItem] | None
    orderTime: datetime


ANN, BOB = CustomerInfo(7, "Ann", "ann@x"), CustomerInfo(8, "Bob", "bob@x")
COMPLEX = [
    ComplexOrder(1, ANN, [OrderItem("p1", 2, D("9.99")), OrderItem("p2", 1, D("5.00"))], at(0)),
    ComplexOrder(2, BOB, [], at(1)),
    ComplexOrder(3, ANN, [OrderItem("p1", 5, D("9.99"))], at(2)),
    ComplexOrder(4, None, None, at(3)),
]


def complex_orders(env: Any, t_env: StreamTableEnvironment, *more: Any) -> Any:
    return t_env.from_data_stream(
        env.from_collection(COMPLEX),
        col("orderId"),
        col("customer.customerId").alias("customerId"),
        col("customer.name").alias("customerName"),
        col("items").cardinality.alias("itemCount"),
        col("orderTime"),
        *more,
    )


async def test_p15_nested_fields() -> None:
    env, t_env = envs()
    found = await rows(t_env.to_data_stream(complex_orders(env, t_env).drop_columns(col("orderTime"))))
    assert texts(found) == ["+I[1, 7, Ann, 2]", "+I[2, 8, Bob, 0]", "+I[3, 7, Ann, 1]", "+I[4, null, null, null]"]


def exploded(table: Any, names: tuple[str, ...] = ("item",), left: bool = False) -> Any:
    join = table.left_outer_join_lateral if left else table.join_lateral
    prefix = "item." if len(names) == 1 else ""
    return join(call("EXPLODE", col("items")).alias(*names)).select(
        col("orderId"),
        col("customerId"),
        col(prefix + "productId").alias("product"),
        col(prefix + "quantity").alias("amount"),
    )


ITEMS = ["+I[1, 7, p1, 2]", "+I[1, 7, p2, 1]", "+I[3, 7, p1, 5]"]


async def test_p16_as_written() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException) as e:
        exploded(complex_orders(env, t_env))
    assert (
        "Cannot resolve field [items], input field list:[orderId, customerId, customerName, itemCount, orderTime]"
        in str(e.value)
    )


async def test_p16_as_meant() -> None:
    env, t_env = envs()
    flat = (
        complex_orders(env, t_env, col("items"))
        .join_lateral(call("EXPLODE", col("items")).alias("item"))
        .select(
            col("orderId"),
            col("customerId"),
            col("item.productId").alias("productId"),
            col("item.quantity").alias("quantity"),
        )
    )
    assert texts(await rows(t_env.to_data_stream(flat))) == ITEMS


async def test_p16_left_and_spread_and_sql() -> None:
    env, t_env = envs()
    co = complex_orders(env, t_env, col("items"))
    left = await rows(t_env.to_data_stream(exploded(co, left=True)))
    assert texts(left) == [*ITEMS[:2], "+I[2, 8, null, null]", ITEMS[2], "+I[4, null, null, null]"]
    spread = await rows(t_env.to_data_stream(exploded(co, ("productId", "quantity", "price"))))
    assert texts(spread) == ITEMS
    t_env.create_temporary_view("co", co)
    sql = t_env.sql_query(
        "SELECT orderId, customerId, item.productId, item.quantity FROM co, LATERAL TABLE(EXPLODE(items)) AS T(item)"
    )
    assert texts(await rows(t_env.to_data_stream(sql))) == ITEMS


class RawEvent(msgspec.Struct):
    eventId: str
    value: str | None
    timestamp: int


class Reference(msgspec.Struct):
    id: str
    category: str


class EnrichedEvent(msgspec.Struct):
    eventId: str
    cleanValue: str
    timestamp: int
    category: str


RAW = [
    RawEvent("e1", "a", ms(5)),
    RawEvent("e2", None, ms(10)),
    RawEvent("e3", "c", ms(20)),
    RawEvent("e4", "d", ms(75)),
    RawEvent("e5", "x", ms(40)),
]
REFERENCE = [Reference("e1", "A"), Reference("e2", "B"), Reference("e3", "A"), Reference("e4", "A")]


class EventAggregator(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ("", 0)

    def add(self, e: Any, acc: Any) -> Any:
        return (e.category, acc[1] + 1)

    def get_result(self, acc: Any) -> Any:
        return acc

    def merge(self, a: Any, b: Any) -> Any:
        return (a[0] or b[0], a[1] + b[1])


def cleaned_events(env: Any, t_env: StreamTableEnvironment) -> Any:
    t_env.create_temporary_view("reference_data", env.from_collection(REFERENCE))
    return (
        t_env.from_data_stream(env.from_collection(RAW))
        .filter(col("value").is_not_null)
        .select(col("eventId"), col("value").upper_case.alias("cleanValue"), col("timestamp"))
        .join(t_env.from_path("reference_data"), col("eventId").is_equal(col("reference_data.id")))
    )


async def test_p17_as_written() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException) as e:
        t_env.to_data_stream(cleaned_events(env, t_env), EnrichedEvent)
    assert "5 columns" in str(e.value)
    assert "4 fields" in str(e.value)
    assert "id" in str(e.value)


async def test_p17_with_a_select() -> None:
    env, t_env = envs()
    selected = cleaned_events(env, t_env).select(col("eventId"), col("cleanValue"), col("timestamp"), col("category"))
    enriched = t_env.to_data_stream(selected, EnrichedEvent)
    keyed = enriched.key_by(lambda e: e.category)
    with pytest.raises(ValidationException) as e:
        keyed.window(TumblingEventTimeWindows.of(timedelta(minutes=1))).aggregate(EventAggregator())
    assert "to_data_stream" in str(e.value)
    assert "assign_timestamps_and_watermarks" in str(e.value)


async def test_p17_as_meant(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    out: list[Any] = []
    enriched = t_env.to_data_stream(
        cleaned_events(env, t_env).select(col("eventId"), col("cleanValue"), col("timestamp"), col("category")),
        EnrichedEvent,
    ).assign_timestamps_and_watermarks(bounded(120, lambda e: e.timestamp))
    (
        enriched.key_by(lambda e: e.category)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
        .aggregate(EventAggregator())
        .add_sink(out.append)
    )
    seen: list[Any] = []
    enriched.add_sink(seen.append)
    await env.execute("pattern 1")
    assert out == [("A", 2), ("A", 1)]
    assert sorted((e.eventId, e.cleanValue, e.category) for e in seen) == [
        ("e1", "A", "A"),
        ("e3", "C", "A"),
        ("e4", "D", "A"),
    ]


class CategoryEvent(msgspec.Struct):
    category: str
    value: int
    ts: int


class WindowResult(msgspec.Struct):
    category: str
    windowStart: datetime
    total: int


CATS = [
    CategoryEvent("books", 10, ms(5)),
    CategoryEvent("toys", 4, ms(30)),
    CategoryEvent("books", 5, ms(50)),
    CategoryEvent("books", 20, ms(70)),
    CategoryEvent("toys", 1, ms(140)),
]


class Rising(KeyedProcessFunction):  # alert when a total exceeds the one before
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", int))

    def process_element(self, r: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(r.total)
        if before is not None and r.total > before:
            yield f"{r.category}: {before} -> {r.total}"


def windowed(env: Any, t_env: StreamTableEnvironment) -> Any:
    t_env.create_temporary_view(
        "event_stream",
        feed(env, CATS),
        Schema.new_builder()
        .column_by_expression("eventTime", "TO_TIMESTAMP_LTZ(ts, 3)")
        .watermark("eventTime", "eventTime")
        .build(),
    )
    return (
        t_env.from_path("event_stream")
        .window(Tumble.over(lit(1).minutes).on(col("eventTime")).alias("w"))
        .group_by(col("w"), col("category"))
        .select(col("category"), col("w").start.alias("windowStart"), col("value").sum.alias("total"))
    )


WINDOWS = [
    (4, WindowResult("books", utc(10), 15)),
    (4, WindowResult("toys", utc(10), 4)),
    (5, WindowResult("books", utc(10, 1), 20)),
    ("end", WindowResult("toys", utc(10, 2), 1)),
]


def by_record(found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return sorted(found, key=lambda x: (str(x[0]), x[1].category))


async def test_p18_state_behind_windows(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    alerts: list[str] = []
    with paced():
        results = t_env.to_data_stream(windowed(env, t_env), WindowResult)
    results.key_by(lambda r: r.category).process(Rising(), output_type=str).add_sink(alerts.append)
    found = await marked(results, virtual_clock, 5)
    assert by_record(found) == by_record(WINDOWS)
    assert alerts == ["books: 15 -> 20"]


async def test_p18_event_time_of_windows(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    t = windowed(env, t_env)
    assert await rows(t_env.to_data_stream(t).process(Times(), output_type=int)) == [None] * 4
    timed = (
        t_env.from_path("event_stream")
        .window(Tumble.over(lit(1).minutes).on(col("eventTime")).alias("w"))
        .group_by(col("w"), col("category"))
        .select(col("category"), col("w").rowtime.alias("rt"))
    )
    stamps = await rows(t_env.to_data_stream(timed).process(Times(), output_type=int))
    assert sorted(stamps) == [ms(60) - 1, ms(60) - 1, ms(120) - 1, ms(180) - 1]


BLOCK = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1s",
    "table.exec.mini-batch.size": "1000",
    "table.exec.state.backend": "rocksdb",
    "table.exec.state.checkpoint-interval": "10s",
    "table.exec.streaming.prefer-append-only": "true",
    "table.exec.emit.early-fire.enabled": "true",
    "table.exec.emit.early-fire.delay": "1000ms",
}


def p19(without: set[str] = frozenset()) -> tuple[Any, StreamTableEnvironment, Any]:  # type: ignore[assignment]
    env, t_env = envs()
    config = t_env.get_config().get_configuration()
    for k, v in BLOCK.items():
        if k not in without:
            config.set_string(k, v)
    with paced():
        return env, t_env, windowed(env, t_env)


async def test_p19_the_block(virtual_clock: VirtualClock) -> None:
    pytest.importorskip("rocksdict")
    env, t_env, table = p19()
    explained = table.explain()
    assert "prefer-append-only" in explained
    # The virtual clock goes on while threads write to the disk: here the rows count, not when they come.
    found = await marked(t_env.to_data_stream(table, WindowResult), virtual_clock, 5)
    assert [x for _, x in found] == [x for _, x in WINDOWS]
    assert env.get_checkpoint_config().get_checkpoint_interval() == 10_000


async def test_p19_early_firing_makes_updates() -> None:
    _, t_env, table = p19({"table.exec.streaming.prefer-append-only"})
    with pytest.raises(TableException) as e:
        t_env.to_data_stream(table, WindowResult)
    assert "doesn't support consuming update changes which is produced by node GroupWindowAggregate(" in str(e.value)
    assert "emit=[early delay 1000 millisecond]" in str(e.value)
    assert "to_changelog_stream" in str(e.value)


async def test_p19_early_firing_without_a_delay() -> None:
    _, t_env, table = p19(set(BLOCK) - {"table.exec.emit.early-fire.enabled"})
    with pytest.raises(TableException, match="Early-fire delay should not be null or negative value when"):
        t_env.to_data_stream(table, WindowResult)


async def test_p19_a_tvf_under_early_firing() -> None:
    _, t_env, _ = p19({"table.exec.streaming.prefer-append-only"})
    with pytest.raises(TableException) as e:
        t_env.to_data_stream(
            t_env.sql_query(
                "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE event_stream, DESCRIPTOR(eventTime), INTERVAL '1' MINUTE)) "
                "GROUP BY window_start, window_end"
            )
        )
    assert "table.exec.emit.early-fire.enabled" in str(e.value)
    assert "table.exec.emit.late-fire.enabled" in str(e.value)


def test_p19_unknown_key_and_backend() -> None:
    _, t_env = envs()
    config = t_env.get_config().get_configuration()
    with pytest.raises(ValidationException, match=r"table\.exec\.mini-batch\.allow-latency"):
        config.set_string("table.exec.mini-batch.latency", "1s")
    with pytest.raises(ValidationException, match="hashmap"):
        config.set_string("table.exec.state.backend", "forst")


async def test_p19_set_too_late() -> None:
    env, t_env = envs()
    t_env.create_temporary_view("people", env.from_collection(PEOPLE), NAME_AGE)
    t_env.to_data_stream(t_env.from_path("people"))
    with pytest.warns(UserWarning) as caught:
        t_env.get_config().set("table.exec.state.ttl", "1 h")
    assert "to_data_stream" in str(caught[0].message)
    assert "people" in str(caught[0].message)


async def test_p20_early_firing(virtual_clock: VirtualClock) -> None:
    env, t_env = envs()
    config = t_env.get_config()
    config.set("table.exec.emit.early-fire.enabled", "true")
    config.set("table.exec.emit.early-fire.delay", "1000ms")
    config.set("pipeline.auto-watermark-interval", "1 ms")
    steps = [
        CATS[0], Delay(500), CATS[1], Delay(1000), CATS[2], Delay(1000), CATS[3], Delay(500), CATS[4],
    ]  # fmt: skip
    t_env.create_temporary_view(
        "event_stream",
        env.from_source(ScriptedSource(steps, output_type=CategoryEvent)),
        Schema.new_builder()
        .column_by_expression("eventTime", "TO_TIMESTAMP_LTZ(ts, 3)")
        .watermark("eventTime", "eventTime")
        .build(),
    )
    table = (
        t_env.from_path("event_stream")
        .window(Tumble.over(lit(1).minutes).on(col("eventTime")).alias("w"))
        .group_by(col("w"), col("category"))
        .select(col("category"), col("w").start.alias("windowStart"), col("value").sum.alias("total"))
    )
    start = virtual_clock.now()
    async with t_env.to_changelog_stream(table).execute_and_collect() as it:
        found = [(round((virtual_clock.now() - start) / 1000, 1), r.kind.short_string, *r) async for r in it]
    assert found == [
        (1.0, "+I", "books", utc(10), 10),
        (1.5, "+I", "toys", utc(10), 4),
        (2.0, "-U", "books", utc(10), 10),
        (2.0, "+U", "books", utc(10), 15),
        (3.0, "+I", "books", utc(10, 1), 20),
        (3.0, "+I", "toys", utc(10, 2), 1),
    ]


async def p21(stream_of: Any, log: logging.Logger) -> Any:
    env, t_env = envs()
    try:
        t = t_env.from_data_stream(stream_of(env))
        if t.get_schema().get_field_names() == ["f0"]:
            t = t.group_by(col("f0")).select(col("f0"), col("f0").count.alias("n"))
        return await rows(t_env.to_data_stream(t))
    except ValidationException as e:
        log.error("Schema validation failed: %s", e)
    except TableException as e:
        log.error("Table operation failed: %s", e)
    return None


async def test_p21_errors_of_conversion(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("p21")
    assert texts(await p21(lambda env: env.from_collection(PEOPLE), log)) == ["+I[Alice, 25]", "+I[Bob, 30]"]
    assert not caplog.records
    await p21(lambda env: env.from_collection([], type_info=None), log)
    assert "Schema validation failed" in caplog.records[0].getMessage()
    assert "type_info=" in caplog.records[0].getMessage()
    await p21(lambda env: env.from_elements("a", "a"), log)
    assert "Table operation failed" in caplog.records[1].getMessage()
    assert "doesn't support consuming update changes" in caplog.records[1].getMessage()
    assert "GroupAggregate" in caplog.records[1].getMessage()
    assert issubclass(ValidationException, StreamlineError)
    assert issubclass(TableException, StreamlineError)


class Monitor(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.processed = runtime_context.get_metrics_group().counter("records_processed")

    def map(self, order: Any) -> Any:
        self.processed.inc()
        return order


async def test_p22_a_metric() -> None:
    env = envs()[0]
    out: list[Any] = []
    env.from_collection(ORDERS).map(Monitor()).name("monitored").add_sink(out.append)
    job = await env.execute_async("monitored orders")
    await job.get_job_execution_result()
    assert len(out) == len(ORDERS)
    assert all(a is b for a, b in zip(out, ORDERS))
    assert (await job.metrics())["monitored"]["records_processed"] == 5
