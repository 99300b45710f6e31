"""Kafka -> DataStream -> SQL window -> DataStream -> Kafka: spending that rises from minute to minute.

    python -m examples.kafka_pipeline localhost:9092        (topics `orders` and `alerts` have to be there)

Orders are checked by a function, summed per customer and minute by SQL, compared with the minute before by a keyed
function with state, and written as alerts. All of it is one graph: between its parts is neither a task nor a copy.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from streamline import DataStream, StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.kafka import KafkaOffsetsInitializer, KafkaSink, KafkaSource
from streamline.functions import KeyedProcessFunction, RuntimeContext
from streamline.state import ValueStateDescriptor
from streamline.table import Schema, StreamTableEnvironment


class Order(msgspec.Struct):
    """What lies in topic `orders`, as JSON."""

    customer: str
    amount: float
    ts: int  # epoch milliseconds


class Spending(msgspec.Struct):
    """A row of the query."""

    customer: str
    window_end: datetime
    total: float


class Alert(msgspec.Struct):
    """What is written to topic `alerts`, as JSON."""

    customer: str
    until: datetime
    before: float
    now: float


class Rising(KeyedProcessFunction[str, Spending, Alert]):
    """An alert for each customer who has spent more than twice what they spent in the window before."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", float))

    def process_element(self, value: Spending, ctx: Any) -> Iterator[Alert]:
        before = self.last.value()
        self.last.update(value.total)
        if before is not None and value.total > 2 * before:
            yield Alert(value.customer, value.window_end, before, value.total)


def orders(env: StreamExecutionEnvironment, bootstrap: str, topic: str, *, bounded: bool) -> DataStream[Order]:
    """The orders, each partition with watermarks of its own; an idle partition does not hold the others back."""
    source: KafkaSource[Order] = KafkaSource(
        bootstrap_servers=bootstrap,
        topics=topic,
        group_id="rising",
        value_type=Order,
        starting_offsets=KafkaOffsetsInitializer.earliest(),
        bounded=KafkaOffsetsInitializer.latest() if bounded else None,
    )
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
        .with_timestamp_assigner(lambda order, _: order.ts)
        .with_idleness("30 s")
    )
    return env.from_source(source, strategy, "orders").filter(lambda order: order.amount > 0)


def pipeline(
    env: StreamExecutionEnvironment,
    bootstrap: str,
    *,
    source: str = "orders",
    target: str = "alerts",
    bounded: bool = False,
) -> None:
    """Add the pipeline to an environment."""
    t_env = StreamTableEnvironment.create(env)
    schema = (
        Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    t_env.create_temporary_view("orders", orders(env, bootstrap, source, bounded=bounded), schema)
    spending = t_env.sql_query("""
        SELECT customer, window_end, SUM(amount) AS total
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
        GROUP BY customer, window_start, window_end""")
    alerts = t_env.to_data_stream(spending, Spending).key_by(lambda s: s.customer).process(Rising(), output_type=Alert)
    alerts.sink_to(KafkaSink(bootstrap_servers=bootstrap, topic=target, key=lambda alert: alert.customer))


async def main(bootstrap: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    pipeline(env, bootstrap)
    await env.execute("rising")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*sys.argv[1:2] or ["localhost:9092"]))
