"""How programs are run: modes, restarts, parallelism, and what is accepted and has no effect. Defaults are Flink's."""

from __future__ import annotations

import asyncio
import json
import pathlib
import warnings
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import pytest

from streamline import (
    Configuration,
    DataStream,
    JobStatus,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    StreamlineError,
    ValidationException,
)
from streamline.functions import MapFunction, RuntimeContext
from streamline.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from streamline.testing import MiniJob, ScriptedSource, VirtualClock, settle
from streamline.windows import TumblingEventTimeWindows
from tests.recovery.ledger import Ledger


def environment(**options: Any) -> StreamExecutionEnvironment:
    values = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(Configuration(values))


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


# -- building and running --------------------------------------------------------------------------------------------


async def test_nothing_runs_before_it_is_executed() -> None:
    seen: list[int] = []

    async def source() -> AsyncIterator[int]:
        seen.append(0)
        yield 1

    env = environment()
    env.from_source(source).map(seen.append)
    await settle()
    assert seen == []
    await env.execute()
    assert seen == [0, 1]


async def test_every_environment_is_a_program_of_its_own() -> None:
    one, other, out = environment(), environment(), []
    one.from_elements(1).add_sink(out.append)
    other.from_elements(2).add_sink(out.append)
    await other.execute()
    assert out == [2]
    await one.execute()
    assert out == [2, 1]


async def test_a_failure_in_execute_async_comes_out_of_the_result_and_the_status_says_so() -> None:
    env = environment()
    env.from_elements(0).map(lambda v: 1 // v)
    client = await env.execute_async()
    with pytest.raises(ZeroDivisionError):
        await client.get_job_execution_result()
    assert await client.get_job_status() is JobStatus.FAILED


async def test_execute_async_returns_while_the_job_runs_and_the_result_waits_for_its_end(
    virtual_clock: VirtualClock,
) -> None:
    go = asyncio.Event()

    async def source() -> AsyncIterator[int]:
        yield 1
        await go.wait()

    env = environment()
    env.from_source(source).map(lambda v: v)
    client = await env.execute_async("named")
    await settle()
    assert await client.get_job_status() is JobStatus.RUNNING
    result = asyncio.ensure_future(client.get_job_execution_result())
    await settle()
    assert not result.done()
    go.set()
    assert (await result).job_name == "named" and (await result).job_id == await client.get_job_id()
    assert await client.get_job_status() is JobStatus.FINISHED


async def test_cancelling_commits_nothing_and_stopping_does(tmp_path: pathlib.Path) -> None:
    for stop in (False, True):
        ledger = Ledger()

        def build(env: StreamExecutionEnvironment, ledger: Ledger = ledger) -> None:
            env.from_source(ScriptedSource([1, 2], ends=False)).sink_to(ledger)

        job = MiniJob(build, configuration={"execution.checkpointing.savepoint-dir": str(tmp_path)})
        client = await job.start()
        await job.settle()
        await (client.stop_with_savepoint() if stop else client.cancel())
        assert ledger.committed == ([1, 2] if stop else [])


def test_the_plan_belongs_before_the_execution_and_is_that_of_what_waits() -> None:
    env = environment()
    with pytest.raises(StreamlineError, match="No operators defined"):
        env.get_execution_plan()
    env.from_elements(1).map(lambda v: v).name("first")
    assert [n["type"] for n in json.loads(env.get_execution_plan())["nodes"]] == ["collection", "first"]
    asyncio.run(env.execute())
    with pytest.raises(StreamlineError, match="No operators defined"):
        env.get_execution_plan()


# -- parallelism -----------------------------------------------------------------------------------------------------


class Parallel(MapFunction[int, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.of = (
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
        )

    def map(self, value: int) -> Any:
        return self.of


async def test_an_operators_parallelism_comes_before_the_environments() -> None:
    env = environment().set_parallelism(2)
    assert await rows(env.from_elements(1).map(Parallel())) == [(2, 128)]
    assert await rows(env.from_elements(1).map(Parallel()).set_parallelism(3)) == [(3, 128)]


async def test_parallelism_is_1_where_nothing_is_said() -> None:
    """Flink takes the number of cores: here all subtasks share one of them."""
    assert environment().get_parallelism() == 1
    assert await rows(environment().from_elements(1).map(Parallel())) == [(1, 128)]


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (200, 512)])
async def test_max_parallelism_follows_from_the_parallelism(parallelism: int, expected: int) -> None:
    """One and a half times as much, the next power of two, at least 128."""
    stream = environment().from_elements(1).map(Parallel()).set_parallelism(parallelism)
    assert await rows(stream) == [(parallelism, expected)]


async def test_max_parallelism_of_an_operator_comes_before_the_environments() -> None:
    env = environment().set_max_parallelism(64)
    assert await rows(env.from_elements(1).map(Parallel())) == [(1, 64)]
    assert await rows(env.from_elements(1).map(Parallel()).set_max_parallelism(32)) == [(1, 32)]
    for bad in (0, 32769, "8", True):
        with pytest.raises(ValidationException, match=r"1\.\.32768"):
            env.set_max_parallelism(bad)  # type: ignore[arg-type]
        with pytest.raises(ValidationException, match=r"1\.\.32768"):
            env.from_elements(1).map(Parallel()).set_max_parallelism(bad)  # type: ignore[arg-type]


def test_a_collection_is_bounded_and_not_parallel() -> None:
    env = environment().set_parallelism(4)
    node = env.from_collection([1, 2]).node
    assert node.source is not None and node.source.bounded and node.parallelism == 1


# -- runtime mode ----------------------------------------------------------------------------------------------------


async def test_streaming_is_the_default_mode() -> None:
    env = environment()
    assert env.configuration.value("execution.runtime-mode") == "STREAMING"
    keyed = env.from_elements(1, 2, 3).key_by(lambda v: 0)
    assert await rows(keyed.sum()) == [1, 3, 6]
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert await rows(keyed.sum()) == [6]


async def test_event_time_in_batch_mode_is_closed_once_at_the_end() -> None:
    seen: list[int] = []

    class Watermarks:
        def process_element(self, value: int, ctx: Any) -> None:
            seen.append(ctx.timer_service().current_watermark())
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            seen.append(ctx.timer_service().current_watermark())

    env = environment(execution_runtime__mode="BATCH")
    source = ScriptedSource("1 @ 1 | ~ 5 | 9 @ 9 | ~ 20", make=lambda v: int(v))
    stream = env.from_source(source)
    await rows(stream.key_by(lambda v: 0).process(Watermarks()))
    assert seen == [-(2**63)] * 2 + [2**63 - 1] * 2


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_sources_own_watermarks_make_nothing_late_in_batch_mode(keyed: bool) -> None:
    env = environment(execution_runtime__mode="BATCH")
    stream = env.from_source(ScriptedSource("a 1 @ 1 | ~ 20 | a 2 @ 2"))
    windows: Any = stream.key_by(lambda r: r[0]).window if keyed else stream.window_all
    assert await rows(windows(TumblingEventTimeWindows.of(10)).sum(1)) == [("a", 3)]


# -- restart strategies ----------------------------------------------------------------------------------------------


async def attempts(clock: VirtualClock, fail: Callable[[int], bool], **options: Any) -> tuple[list[int], bool]:
    """When a job was started (ms since the first time) whose function fails as told, and whether it came to its end."""
    started: list[int] = []

    class Failing(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            started.append(clock.now())

        def map(self, value: int) -> int:
            if fail(len(started)):
                raise OSError(f"attempt {len(started)}")
            return value

    env = environment(**options)
    env.from_elements(1).map(Failing())
    try:
        await env.execute()
        ended = True
    except OSError as e:
        assert str(e) == f"attempt {len(started)}", "the error is that of the last attempt"
        ended = False
    return [t - started[0] for t in started], ended


CHECKPOINTS = {"execution_checkpointing_interval": "1 h"}


async def test_without_checkpoints_nothing_is_restarted(virtual_clock: VirtualClock) -> None:
    assert await attempts(virtual_clock, lambda n: n < 2) == ([0], False)


async def test_with_checkpoints_restarts_follow_with_growing_delays(virtual_clock: VirtualClock) -> None:
    """From 1 s by 1.5 to 1 min, without an end; each up to 10 % longer or shorter, but none under 1 s."""
    times, ended = await attempts(virtual_clock, lambda n: n < 16, **CHECKPOINTS)
    assert ended and len(times) == 16
    delays = [b - a for a, b in pairwise(times)]
    expected = [min(1000 * 1.5**n, 60_000) for n in range(15)]
    assert all(max(0.9 * e - 1, 1000) <= d <= min(1.1 * e, 60_000) + 1 for d, e in zip(delays, expected)), delays


async def test_no_restart_though_there_are_checkpoints(virtual_clock: VirtualClock) -> None:
    for name in ("none", "off", "disable"):
        found = await attempts(virtual_clock, lambda n: n < 2, restart__strategy_type=name, **CHECKPOINTS)
        assert found == ([0], False)


async def test_fixed_delay_is_one_attempt_after_a_second(virtual_clock: VirtualClock) -> None:
    fixed = {"restart__strategy_type": "fixed-delay"}
    assert await attempts(virtual_clock, lambda n: n < 2, **fixed) == ([0, 1000], True)
    assert await attempts(virtual_clock, lambda n: True, **fixed) == ([0, 1000], False)


async def test_fixed_delay_as_configured(virtual_clock: VirtualClock) -> None:
    found = await attempts(
        virtual_clock,
        lambda n: True,
        restart__strategy_type="fixed-delay",
        restart__strategy_fixed__delay_attempts=3,
        restart__strategy_fixed__delay_delay="250 ms",
    )
    assert found == ([0, 250, 500, 750], False)


async def test_failure_rate_is_one_failure_a_minute_and_a_second_of_delay(virtual_clock: VirtualClock) -> None:
    rate = {"restart__strategy_type": "failure-rate"}
    assert await attempts(virtual_clock, lambda n: n < 2, **rate) == ([0, 1000], True)
    assert await attempts(virtual_clock, lambda n: True, **rate) == ([0, 1000], False)


async def test_failure_rate_as_configured(virtual_clock: VirtualClock) -> None:
    """At most 2 failures in any 1000 ms: failures 600 ms apart never are 3 of them, 500 ms apart they are."""
    rate = {
        "restart__strategy_type": "failure-rate",
        "restart__strategy_failure__rate_max__failures__per__interval": 2,
        "restart__strategy_failure__rate_failure__rate__interval": "1000 ms",
    }
    slow = await attempts(virtual_clock, lambda n: n < 6, restart__strategy_failure__rate_delay="600 ms", **rate)
    assert slow == ([0, 600, 1200, 1800, 2400, 3000], True)
    fast = await attempts(virtual_clock, lambda n: n < 6, restart__strategy_failure__rate_delay="500 ms", **rate)
    assert fast == ([0, 500, 1000], False)


async def test_exponential_delay_as_configured(virtual_clock: VirtualClock) -> None:
    prefix = "restart__strategy_exponential__delay_"
    found = await attempts(
        virtual_clock,
        lambda n: True,
        restart__strategy_type="exponential-delay",
        **{
            prefix + "initial__backoff": "100 ms",
            prefix + "max__backoff": "350 ms",
            prefix + "backoff__multiplier": 2.0,
            prefix + "jitter__factor": 0.0,
            prefix + "attempts__before__reset__backoff": 4,
        },
    )
    assert found == ([0, 100, 300, 650, 1000], False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restart__strategy_type": "sometimes"}, "none, fixed-delay, failure-rate, exponential-delay"),
        (
            {"restart__strategy_type": "fixed-delay", "restart__strategy_fixed__delay_attempts": -1},
            "neither is negative",
        ),
        (
            {
                "restart__strategy_type": "failure-rate",
                "restart__strategy_failure__rate_max__failures__per__interval": 0,
            },
            "has to be positive",
        ),
        (
            {
                "restart__strategy_type": "exponential-delay",
                "restart__strategy_exponential__delay_backoff__multiplier": 1,
            },
            "has to be above 1",
        ),
    ],
)
async def test_a_restart_strategy_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        env = environment(**options)
        env.from_elements(1).map(lambda v: v)
        await env.execute()


# -- accepted, without an effect -------------------------------------------------------------------------------------


async def same(env: StreamExecutionEnvironment, told: Callable[[Any], Any] = lambda s: s) -> None:
    """The program does what it does without, and hands on the very objects."""
    value = object()
    stream = told(told(env.from_elements(value).map(lambda v: v)).filter(lambda v: True))
    names = [n["type"] for n in json.loads(env.get_execution_plan())["nodes"]]
    assert names == ["collection", "map", "filter"], "every operator is a task of its own"
    (got,) = await rows(stream)
    assert got is value


async def test_disable_chaining_has_no_effect() -> None:
    await same(environment(), lambda s: s.disable_chaining())


async def test_start_new_chain_has_no_effect() -> None:
    await same(environment(), lambda s: s.start_new_chain())


async def test_disable_operator_chaining_has_no_effect() -> None:
    await same(environment().disable_operator_chaining())


async def test_enable_object_reuse_has_no_effect() -> None:
    env = environment()
    env.get_config().enable_object_reuse()
    await same(env)


async def test_disable_object_reuse_has_no_effect() -> None:
    env = environment()
    env.get_config().disable_object_reuse()
    await same(env)


@pytest.mark.parametrize("timeout", [-1, 0, 100, 3_600_000])
async def test_buffer_timeouts_have_no_effect_and_no_record_is_held_back(
    timeout: int, virtual_clock: VirtualClock
) -> None:
    await same(environment().set_buffer_timeout(timeout), lambda s: s.set_buffer_timeout(timeout))
    stream = environment().set_buffer_timeout(timeout).from_source(ScriptedSource([1], ends=False)).map(lambda v: v)
    started = virtual_clock.now()
    async with stream.set_buffer_timeout(timeout).execute_and_collect() as results:
        assert await anext(results) == 1
    assert virtual_clock.now() == started


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pipeline.operator-chaining.enabled", "false"),
        ("pipeline.object-reuse", "true"),
        ("execution.buffer-timeout.enabled", "false"),
        ("execution.buffer-timeout.interval", "5 ms"),
        ("jobmanager.execution.failover-strategy", "region"),
        ("jobmanager.scheduler", "adaptive"),
    ],
)
async def test_their_keys_warn_once_and_have_no_effect(key: str, value: str) -> None:
    with pytest.warns(UserWarning, match=f"{key}.* no meaning here"):
        env = StreamExecutionEnvironment(Configuration({key: value}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await same(env)


# -- options ---------------------------------------------------------------------------------------------------------


def test_configure_takes_over_what_is_set_and_leaves_the_rest() -> None:
    env = environment(parallelism_default=3, pipeline_name="old")
    env.configure(Configuration({"pipeline.name": "new"}))
    assert (env.get_parallelism(), env.configuration.value("pipeline.name")) == (3, "new")


def test_the_environments_own_configuration_is_a_copy() -> None:
    given = Configuration({"parallelism.default": 3})
    env = StreamExecutionEnvironment(given)
    given.set("parallelism.default", 5)
    assert env.get_parallelism() == 3


async def test_the_jobs_name_is_that_of_the_call_else_of_the_configuration() -> None:
    async def name(env: StreamExecutionEnvironment, *told: str) -> str:
        env.from_elements(1).map(lambda v: v)
        return (await env.execute(*told)).job_name

    assert await name(environment(), "mine") == "mine"
    assert await name(environment(pipeline_name="configured")) == "configured"
    assert await name(environment(pipeline_name="configured"), "mine") == "mine"
    assert await name(environment()) == "streamline job"


async def test_options_of_the_table_environment_are_those_of_its_stream_environment() -> None:
    env = environment(parallelism_default=2)
    t_env = StreamTableEnvironment.create(env)
    assert t_env.get_config().get("parallelism.default") == "2"
    env.set_parallelism(3)
    assert t_env.get_config().get("parallelism.default") == "3", "later changes are seen too"
    # What is set on the table side is the stream environment's from the next planning.
    t_env.get_config().set("pipeline.name", "from the table side").set("execution.checkpointing.interval", "1 h")
    assert env.get_checkpoint_interval() == -1
    t_env.to_data_stream(t_env.from_data_stream(env.from_elements((1, 2)))).add_sink(lambda row: None)
    assert env.get_checkpoint_interval() == 3_600_000
    assert (await env.execute()).job_name == "from the table side"


async def test_a_job_of_the_table_environment_has_its_options() -> None:
    t_env = StreamTableEnvironment.create(environment())
    await t_env.execute_sql("CREATE TABLE nowhere (a BIGINT) WITH ('connector' = 'blackhole')")

    async def run() -> tuple[str, str | None]:
        result = await t_env.execute_sql("INSERT INTO nowhere VALUES (1)")
        client = result.get_job_client()
        assert client is not None
        await result.wait()
        interval = client._job.options.checkpoints.settings.interval
        return (await client.get_job_execution_result()).job_name, None if interval is None else f"{interval} ms"

    assert await run() == ("insert-into_default_catalog.default_database.nowhere", None)
    t_env.get_config().set("pipeline.name", "mine").set("execution.checkpointing.interval", "1 h")
    assert await run() == ("mine", "3600000 ms")


def test_a_table_environment_without_streams_has_no_bridge() -> None:
    assert not hasattr(TableEnvironment.create(EnvironmentSettings.in_streaming_mode()), "from_data_stream")
    with pytest.raises(ValidationException, match="a view is made of a Table, not of DataStream"):
        TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).create_temporary_view(
            "v",
            environment().from_elements(1),  # type: ignore[arg-type]
        )


def test_settings_have_flinks_defaults_and_take_the_planners_of_old() -> None:
    settings = EnvironmentSettings.new_instance().build()
    assert settings.is_streaming_mode()
    assert settings.get_built_in_catalog_name() == "default_catalog"
    assert settings.get_built_in_database_name() == "default_database"
    assert not EnvironmentSettings.new_instance().in_batch_mode().build().is_streaming_mode()
    with pytest.warns(DeprecationWarning, match="has no effect: there is one planner"):
        assert EnvironmentSettings.new_instance().use_blink_planner().in_streaming_mode().build().is_streaming_mode()


async def test_closing_an_environment_ends_its_jobs(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.from_source(ScriptedSource([1], ends=False)).map(lambda v: v)
    client = await env.execute_async()
    await settle()
    assert await client.get_job_status() is JobStatus.RUNNING
    await env.close()
    assert await client.get_job_status() is JobStatus.CANCELED
    await env.close()
