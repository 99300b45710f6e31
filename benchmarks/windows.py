"""Windows and timers beyond the tumbling ones: sessions, sliding windows, an interval join, timers of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from benchmarks.data import BATCH, InMemory, Trade, drop, rate, trades
from benchmarks.loops import Loop, records_per_second
from benchmarks.report import Figure, best
from benchmarks.sql import tables
from benchmarks.stream import CountSumMax, trades_of
from streamline import WatermarkStrategy
from streamline.functions import KeyedProcessFunction
from streamline.windows import EventTimeSessionWindows, SlidingEventTimeWindows

SQL_HOP = """SELECT symbol, window_start, COUNT(*) AS n, SUM(amount) AS total, MAX(amount) AS largest
    FROM TABLE(HOP(TABLE trades, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY symbol, window_start, window_end"""
SQL_SESSION = """SELECT symbol, window_start, window_end, COUNT(*) AS n, SUM(amount) AS total
    FROM TABLE(SESSION(TABLE trades PARTITION BY symbol, DESCRIPTOR(rowtime), INTERVAL '1' SECOND))
    GROUP BY symbol, window_start, window_end"""


def sliding_by_hand(records: Any) -> int:
    """Count, sum and max per symbol over 10 s each 2 s: five additions a record."""
    windows: dict[int, dict[str, list[int]]] = {}
    count = newest = 0
    for at in range(0, len(records), BATCH):
        for r in records[at : at + BATCH]:
            first = r.ts - r.ts % 2000 + 2000
            for end in range(first, first + 10_000, 2000):
                totals = windows.setdefault(end, {})
                total = totals.get(r.symbol)
                if total is None:
                    totals[r.symbol] = [1, r.amount, r.amount]
                else:
                    total[0] += 1
                    total[1] += r.amount
                    if r.amount > total[2]:
                        total[2] = r.amount
            newest = max(newest, r.ts)
        for end in [e for e in windows if e <= newest - 1000]:
            count += len(windows.pop(end))
    return count


def sessions_by_hand(records: Any) -> int:
    """Count and sum per symbol and session of 1 s; records are in order, so one session a symbol is open."""
    open_: dict[str, list[int]] = {}
    count = 0
    for at in range(0, len(records), BATCH):
        for r in records[at : at + BATCH]:
            session = open_.get(r.symbol)
            if session is None or r.ts > session[1] + 1000:
                count += session is not None
                open_[r.symbol] = [r.ts, r.ts, 1, r.amount]
            else:
                session[1] = r.ts
                session[2] += 1
                session[3] += r.amount
    return count + len(open_)


class Alarm(KeyedProcessFunction[str, Any, Any]):
    """A timer of event time per key and second: registered with every record, one of many is new."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value.ts - value.ts % 1000 + 1000)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp


def timed(source: InMemory) -> Any:
    env, stream = trades_of(source)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)).with_timestamp_assigner(
        lambda trade, _: trade.ts
    )
    return env, stream.assign_timestamps_and_watermarks(strategy)


async def sliding(source: InMemory) -> None:
    env, stream = timed(source)
    windows = SlidingEventTimeWindows.of(timedelta(seconds=10), timedelta(seconds=2))
    stream.key_by(lambda t: t.symbol).window(windows).aggregate(CountSumMax()).add_sink(drop)
    await env.execute("sliding")


async def sessions(source: InMemory) -> None:
    env, stream = timed(source)
    windows = EventTimeSessionWindows.with_gap(timedelta(seconds=1))
    stream.key_by(lambda t: t.symbol).window(windows).aggregate(CountSumMax()).add_sink(drop)
    await env.execute("sessions")


async def alarms(source: InMemory) -> None:
    env, stream = timed(source)
    stream.key_by(lambda t: t.symbol).process(Alarm()).add_sink(drop)
    await env.execute("timers")


async def interval_join(source: InMemory) -> None:
    env, stream = timed(source)
    left = stream.filter(lambda t: t.amount < 50).key_by(lambda t: t.symbol)
    right = stream.filter(lambda t: t.amount >= 50).key_by(lambda t: t.symbol)
    joined = left.interval_join(right).between(timedelta(0), timedelta(seconds=2))
    joined.process(lambda a, b, _: (a.symbol, a.amount, b.amount)).add_sink(drop)
    await env.execute("interval join")


async def as_rows(source: InMemory, query: str) -> None:
    t_env = tables(source)
    t_env.to_data_stream(t_env.sql_query(query)).add_sink(drop)
    await t_env.get_stream_execution_environment().execute("windows")


def run(scale: float) -> Iterator[Figure]:
    source = InMemory(trades(int(500_000 * scale)), Trade)

    def job(make: Callable[..., Any], *more: Any) -> float:
        return best(lambda: rate(source, lambda: make(source, *more)), runs=2)

    def by_hand(loop: Loop) -> float:
        return best(lambda: records_per_second(loop, source.values), runs=2)

    slide, session = by_hand(sliding_by_hand), by_hand(sessions_by_hand)
    yield Figure("sliding 10 s / 2 s, DataStream", job(sliding), "records/s", slide)
    yield Figure("sliding 10 s / 2 s, SQL to Rows", job(as_rows, SQL_HOP), "records/s", slide)
    yield Figure("sessions of 1 s, DataStream", job(sessions), "records/s", session)
    yield Figure("sessions of 1 s, SQL to Rows", job(as_rows, SQL_SESSION), "records/s", session)
    yield Figure("keyed process with event-time timers", job(alarms), "records/s")
    yield Figure("interval join, 2 s", job(interval_join), "records/s")
