"""Timers of process functions: when they fire, once per key and time, deleted, at the end of the input, without end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from streamline import DataStream, StreamExecutionEnvironment, StreamlineError, ValidationException, WatermarkStrategy
from streamline._core.elements import MAX_TIMESTAMP
from streamline._operators.process import KeyedProcess
from streamline._operators.window.general import GeneralWindows
from streamline._operators.window.incremental import reducing
from streamline._state import timers as timers_module
from streamline.functions import KeyedProcessFunction
from streamline.testing import OperatorHarness, changelog
from streamline.windows import ContinuousEventTimeTrigger, GlobalWindows

BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r: r[1]).with_emit_on_event()


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


def key(record: Any) -> Any:
    return record[0]


class Told(KeyedProcessFunction[str, Any, Any]):
    """Does what a record says: `key op time`; tells of every timer that fires."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        _, op, at = value
        getattr(ctx.timer_service(), op)(at)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return (ctx.get_current_key(), timestamp, ctx.time_domain().name, ctx.timestamp())


EVENT, NO_EVENT = "register_event_time_timer", "delete_event_time_timer"
CLOCK, NO_CLOCK = "register_processing_time_timer", "delete_processing_time_timer"


async def told(*scripts: str) -> list[list[Any]]:
    """What fires behind each script."""
    found = []
    async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
        for script in scripts:
            await harness.send(*changelog(script))
            found.append([(k, t) for k, t, *_ in harness.extract_values()])
    return found


async def test_an_event_timer_fires_when_the_watermark_has_reached_it() -> None:
    assert await told(f"a {EVENT} 10 @ 0", "~ 9", "~ 10", "~ 11") == [[], [], [("a", 10)], []]


async def test_timers_of_one_key_and_time_are_one() -> None:
    script = f"a {EVENT} 10 @ 0 | a {EVENT} 10 @ 1 | b {EVENT} 10 @ 1 | a {EVENT} 9 @ 1"
    assert await told(script, "~ 20") == [[], [("a", 9), ("a", 10), ("b", 10)]]


async def test_a_deleted_timer_does_not_fire_and_that_of_another_key_does() -> None:
    script = f"a {EVENT} 10 @ 0 | b {EVENT} 10 @ 0 | a {NO_EVENT} 10 @ 0 | a {NO_EVENT} 77 @ 0"
    assert await told(script, "~ 20") == [[], [("b", 10)]]


async def test_an_event_timer_for_the_past_fires_with_the_next_watermark() -> None:
    assert await told("~ 100", f"a {EVENT} 10 @ 200", "~ 101") == [[], [], [("a", 10)]]


async def test_a_processing_timer_for_the_past_fires_at_once() -> None:
    async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
        now = harness.clock.now()
        await harness.process_element(("a", CLOCK, now - 5))
        assert harness.extract_values() == [("a", now - 5, "PROCESSING_TIME", now - 5)]


async def test_processing_timers_fire_at_their_instant_once_and_not_where_deleted() -> None:
    async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
        now = harness.clock.now()
        for record in [
            ("a", CLOCK, now + 10),
            ("a", CLOCK, now + 10),
            ("b", CLOCK, now + 10),
            ("b", NO_CLOCK, now + 10),
        ]:
            await harness.process_element(record)
        await harness.advance(9)
        assert harness.extract_values() == []
        await harness.advance(1)
        assert harness.extract_values() == [("a", now + 10, "PROCESSING_TIME", now + 10)]
        await harness.advance("1 h")
        assert harness.extract_values() == []


async def test_a_timer_knows_its_key_time_and_domain() -> None:
    async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
        await harness.send(*changelog(f"a {EVENT} 10 @ 0 | ~ 10"))
        assert harness.extract_values() == [("a", 10, "EVENT_TIME", 10)]


async def test_time_domain_belongs_to_timers() -> None:
    stream = environment().from_elements(("a", 1)).key_by(key).process(lambda v, ctx: ctx.time_domain())
    with pytest.raises(StreamlineError, match="belongs to on_timer"):
        await rows(stream)


async def test_a_timer_may_be_told_by_an_aware_datetime_and_not_by_a_naive_one() -> None:
    async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
        await harness.process_element(("a", EVENT, datetime.fromtimestamp(2, UTC)), 0)
        await harness.send(*changelog("~ 2000"))
        assert [v[1] for v in harness.extract_values()] == [2000]
    with pytest.raises(ValidationException, match="naive"):
        async with OperatorHarness(KeyedProcess(Told(), key), key=key) as harness:
            await harness.process_element(("a", EVENT, datetime(2024, 1, 1)), 0)


# -- at the end of the input -----------------------------------------------------------------------------------------


class AtEnd(KeyedProcessFunction[str, Any, Any]):
    def __init__(self, register: Callable[[Any, Any], Any], again: Callable[[int, Any], Any]) -> None:
        self.register = register
        self.again = again

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.register(value, ctx.timer_service())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.again(timestamp, ctx.timer_service())
        return (ctx.get_current_key(), timestamp)


def at_end(register: Callable[[Any, Any], Any], again: Callable[[int, Any], Any] = lambda t, timers: None) -> Any:
    keyed = environment().from_elements(("a", 1), ("b", 5)).assign_timestamps_and_watermarks(BY_VALUE).key_by(key)
    return rows(keyed.process(AtEnd(register, again)))


async def test_the_end_of_the_input_fires_all_event_timers_and_no_processing_timer() -> None:
    def both(value: Any, timers: Any) -> None:
        timers.register_event_time_timer(value[1] + 10**12)
        timers.register_processing_time_timer(timers.current_processing_time() + 3_600_000)

    assert await at_end(both) == [("a", 10**12 + 1), ("b", 10**12 + 5)]


async def test_timers_that_timers_set_at_the_end_fire_too() -> None:
    def until_ten(timestamp: int, timers: Any) -> None:
        if timestamp < 10:
            timers.register_event_time_timer(timestamp + 3)

    fired = await at_end(lambda v, timers: timers.register_event_time_timer(v[1] + 1), until_ten)
    assert fired == [("a", 2), ("a", 5), ("b", 6), ("a", 8), ("b", 9), ("a", 11), ("b", 12)]


@pytest.mark.parametrize("step", [1, 60_000, 10**13])
async def test_timers_that_never_end_at_the_end_of_the_input_are_an_error(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the next timer is always due: Flink goes on for ever."""
    if step > 1:
        monkeypatch.setattr(timers_module, "_ENDLESS", 1000)  # the same sooner
    with pytest.raises(StreamlineError, match="timers that fire go on setting later ones") as failure:
        await at_end(
            lambda v, timers: timers.register_event_time_timer(v[1]),
            lambda t, timers: timers.register_event_time_timer(t + step),
        )
    assert "in operator 'process' of job 'streamline job'" in failure.value.__notes__


async def test_a_timer_for_the_end_of_time_does_not_hide_those_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers_module, "_ENDLESS", 1000)

    def register(value: Any, timers: Any) -> None:
        timers.register_event_time_timer(value[1])
        timers.register_event_time_timer(MAX_TIMESTAMP)

    with pytest.raises(StreamlineError, match="go on setting later ones"):
        await at_end(register, lambda t, timers: timers.register_event_time_timer(t + 1))


async def test_who_stops_at_the_last_watermark_ends() -> None:
    def again(timestamp: int, timers: Any) -> None:
        if timers.current_watermark() < MAX_TIMESTAMP:
            timers.register_event_time_timer(timestamp + 1)

    function = AtEnd(lambda v, timers: timers.register_event_time_timer(v[1]), again)
    async with OperatorHarness(KeyedProcess(function, key), key=key) as harness:
        await harness.send(*changelog("a 1 @ 1 | b 5 @ 5 | ~ 4 | ~ max"))
        assert harness.extract_values() == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5), ("a", 5)]


async def test_a_long_chain_of_timers_that_ends_is_no_error() -> None:
    def again(timestamp: int, timers: Any) -> None:
        if timestamp < 50_000:
            timers.register_event_time_timer(timestamp + 1)

    fired = await at_end(lambda v, timers: timers.register_event_time_timer(v[1]), again)
    assert len(fired) == 50_000 + 49_996


async def test_behind_the_end_of_time_there_is_no_timer() -> None:
    def register(value: Any, timers: Any) -> None:
        timers.register_event_time_timer(MAX_TIMESTAMP)
        timers.register_event_time_timer(2**70)
        timers.delete_event_time_timer(2**70)
        timers.register_processing_time_timer(2**70)
        timers.delete_processing_time_timer(2**70)

    fired = await at_end(register, lambda t, timers: timers.register_event_time_timer(t + 1))
    assert fired == [("a", MAX_TIMESTAMP), ("b", MAX_TIMESTAMP)]
    with pytest.raises(ValidationException, match="has to fit 64 bits"):
        await at_end(lambda v, timers: timers.register_event_time_timer(-(2**70)))


async def test_a_timer_that_sets_itself_again_is_an_error_at_any_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers_module, "_ENDLESS", 1000)
    with pytest.raises(StreamlineError, match="a timer for 3 ms sets itself again"):
        async with OperatorHarness(KeyedProcess(AtEnd(
            lambda v, timers: timers.register_event_time_timer(3),
            lambda t, timers: timers.register_event_time_timer(t),
        ), key), key=key) as harness:  # fmt: skip
            await harness.send(*changelog("a 1 @ 1 | ~ 10"))


async def test_a_processing_timer_that_sets_itself_again_while_time_stands_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers_module, "_ENDLESS", 1000)

    def now(_: Any, timers: Any) -> None:
        timers.register_processing_time_timer(timers.current_processing_time())

    with pytest.raises(StreamlineError, match="sets itself again for that time"):
        async with OperatorHarness(KeyedProcess(AtEnd(now, now), key), key=key) as harness:
            await harness.process_element(("a", 1))


async def test_a_continuous_trigger_of_a_window_without_an_end_fires_once_more_at_the_end() -> None:
    windows = GeneralWindows(
        key, GlobalWindows.create(), ContinuousEventTimeTrigger.of(4), None, 0,
        reducing(lambda a, b: (a[0], a[1] + b[1])), None, None,
    )  # fmt: skip
    async with OperatorHarness(windows, key=key) as harness:
        await harness.send(*changelog("a 1 @ 1 | a 2 @ 2 | ~ 4"))
        assert harness.extract_values() == [("a", 3)]
        await harness.send(*changelog("a 4 @ 5 | ~ max"))
        assert harness.extract_values() == [("a", 7), ("a", 7)]
