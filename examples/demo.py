"""The demo: every flight that left New York in 2013, through a Kafka broker, into hourly delays by SQL, live.

    make demo
    python -m examples.demo [--flights N]

It starts a broker, loads the flights into a topic in the order in which they were reported (up to 20 minutes late),
runs one windowed INSERT INTO a second topic, and shows what arrives there. It ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from time import perf_counter

import anyio
import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from examples.flights import Flight, replay
from streamline import StreamExecutionEnvironment
from streamline.table import StreamTableEnvironment
from streamline.testing.broker import open_broker

PARTITIONS = 3
FLIGHTS, DELAYS = "flights", "delays-per-hour"

SOURCE = """
    CREATE TABLE flights (
        carrier STRING, flight INT, origin STRING, dest STRING, tail STRING, distance INT,
        scheduled BIGINT, departure BIGINT, delay INT,
        departed AS TO_TIMESTAMP_LTZ(departure, 3),
        WATERMARK FOR departed AS departed - INTERVAL '20' MINUTE
    ) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
        'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json')"""

SINK = """
    CREATE TABLE delays_per_hour (
        origin STRING, window_start TIMESTAMP(3), flights BIGINT, cancelled BIGINT, late BIGINT,
        mean_delay DOUBLE, worst INT
    ) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
        'scan.startup.mode' = 'earliest-offset', 'format' = 'json')"""

QUERY = """
    INSERT INTO delays_per_hour
    SELECT origin, window_start,
           COUNT(*)                                          AS flights,
           SUM(CASE WHEN delay IS NULL THEN 1 ELSE 0 END)    AS cancelled,
           SUM(CASE WHEN delay > 15 THEN 1 ELSE 0 END)       AS late,
           AVG(CAST(delay AS DOUBLE))                        AS mean_delay,
           MAX(delay)                                        AS worst
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departed), INTERVAL '1' HOUR))
    GROUP BY origin, window_start, window_end"""


class Hour(msgspec.Struct):
    """One row of the result."""

    origin: str
    window_start: datetime
    flights: int
    cancelled: int
    late: int
    mean_delay: float | None
    worst: int | None


async def load(bootstrap: str, flights: Sequence[Flight]) -> None:
    """Both topics, and the flights in the first: keyed by origin, so each airport's flights keep their order."""
    kept = {"retention.ms": "-1"}  # the records are of 2013: by default a broker would delete them at once
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics(
            [NewTopic(FLIGHTS, PARTITIONS, 1, topic_configs=kept), NewTopic(DELAYS, 1, 1, topic_configs=kept)]
        )
    finally:
        await admin.close()
    encode = msgspec.json.Encoder().encode
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, max_batch_size=1 << 18) as producer:
        for flight in flights:
            await producer.send(FLIGHTS, encode(flight), key=flight.origin.encode(), timestamp_ms=flight.departure)
        await producer.flush()


async def results_written(bootstrap: str) -> int:
    """How many rows the sink has written."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        (end,) = (await consumer.end_offsets([TopicPartition(DELAYS, 0)])).values()
        return int(end)


class Board:
    """The live view: in a terminal a table that is drawn anew, else a line a month."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._drawn = 0.0
        self._lines = 0
        self._latest: dict[str, Hour] = {}
        self._month: tuple[int, int] | None = None
        self._totals: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
        self.worst: Hour | None = None
        self.rows = 0
        self.changed = asyncio.Event()

    def add(self, hour: Hour) -> None:
        """Take in a row, and show it where it is time."""
        self.rows += 1
        self.changed.set()
        month = (hour.window_start.year, hour.window_start.month)
        if self._month is not None and month > self._month and not self._live:
            self.draw()
        self._month = max(month, self._month or month)
        self._latest[hour.origin] = hour
        total = self._totals[hour.origin]
        total[0] += hour.flights
        total[1] += hour.cancelled
        total[2] += hour.late
        total[3] += (hour.mean_delay or 0.0) * (hour.flights - hour.cancelled)
        if self.worst is None or (hour.worst or 0) > (self.worst.worst or 0):
            self.worst = hour
        if self._live and perf_counter() - self._drawn > 0.1:
            self.draw()

    def draw(self) -> None:
        """Print what there is now."""
        self._drawn = perf_counter()
        if not self._live:
            assert self._month is not None
            parts = [f"{o} {int(t[0]):6d} flights {share(t[2], t[0])} late" for o, t in sorted(self._totals.items())]
            print(f"  until {self._month[0]}-{self._month[1]:02d}   " + "   ".join(parts), flush=True)
            return
        lines = ["  hour (New York)    from   flights  late   mean delay"]
        for origin, hour in sorted(self._latest.items()):
            mean = hour.mean_delay or 0.0
            bar = "#" * min(40, max(0, round(mean)))
            figures = f"{hour.flights:7d} {hour.late:5d} {mean:7.1f} min"
            lines.append(f"  {hour.window_start:%Y-%m-%d %H:%M}   {origin}    {figures} {bar}")
        up = f"\033[{self._lines}A" if self._lines else ""
        print(up + "\n".join(f"\033[2K{line}" for line in lines), flush=True)
        self._lines = len(lines)

    def summary(self) -> str:
        """What the year was like."""
        lines = ["  from   flights   cancelled   late    mean delay"]
        for origin, (flights, cancelled, late, delay) in sorted(self._totals.items()):
            mean = delay / max(1, flights - cancelled)
            lines.append(
                f"  {origin}  {int(flights):9d} {int(cancelled):9d}   {share(late, flights):>6s}   {mean:7.1f} min"
            )
        if self.worst is not None:
            lines.append(
                f"  the worst delay: {(self.worst.worst or 0) / 60:.1f} hours, "
                f"{self.worst.origin}, {self.worst.window_start:%d %B %H:%M}"
            )
        return "\n".join(lines)


def share(part: float, whole: float) -> str:
    return f"{part / max(1, whole):.1%}"


async def watch(t_env: StreamTableEnvironment, board: Board) -> None:
    """Read the results out of their topic, as another service would."""
    stream = t_env.to_data_stream(t_env.from_path("delays_per_hour"), Hour)
    async with stream.execute_and_collect("watch") as rows:
        async for hour in rows:
            board.add(hour)


async def main(limit: int | None = None) -> Board:
    """Run the demo; gives what was shown."""
    began = perf_counter()
    print("streamline demo: every flight that left New York in 2013")
    flights = replay()[:limit]
    async with open_broker() as broker:
        print(f"broker: {broker.describe()}")
        started = perf_counter()
        await load(broker.bootstrap, flights)
        took = perf_counter() - started
        print(f"loaded: {len(flights):,} flights into topic {FLIGHTS!r} in {took:.1f} s")

        env = StreamExecutionEnvironment.get_execution_environment()
        t_env = StreamTableEnvironment.create(env)
        t_env.get_config().set("table.local-time-zone", "America/New_York")
        await t_env.execute_sql(SOURCE.format(topic=FLIGHTS, bootstrap=broker.bootstrap))
        await t_env.execute_sql(SINK.format(topic=DELAYS, bootstrap=broker.bootstrap))

        board = Board(live=sys.stdout.isatty())
        started = perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(watch, t_env, board)
            result = await t_env.execute_sql(QUERY)
            await result.wait()
            took = perf_counter() - started
            expected = await results_written(broker.bootstrap)
            while board.rows < expected:
                board.changed.clear()
                await board.changed.wait()
            group.cancel_scope.cancel()
        board.draw()
        print(f"done: {expected:,} hourly rows in topic {DELAYS!r}, {len(flights) / took:,.0f} flights/s\n")
        print(board.summary())
    print(f"\nall in {perf_counter() - began:.1f} s; the job ended with its input, the broker is stopped")
    return board


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, help="only so many of them")
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it reports each retry against a broker that is starting
    asyncio.run(main(parser.parse_args().flights))
