"""What runs when, what comes of it, and the options of an environment."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from typing import Any

import pytest

from streamline import (
    CheckpointException,
    CheckpointingMode,
    Configuration,
    DataStream,
    ExternalizedCheckpointRetention,
    JobStatus,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    StreamlineError,
    ValidationException,
    WatermarkStrategy,
)
from streamline.connectors.generator import DataGeneratorSource
from streamline.functions import MapFunction, RuntimeContext, SourceFunction
from streamline.testing import Quiet, ScriptedSource, VirtualClock, settle
from streamline.windows import TumblingEventTimeWindows, TumblingProcessingTimeWindows


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


# -- what execute runs ---------------------------------------------------------------------------------------------


async def test_execute_runs_all_branches_once_and_then_nothing_is_left() -> None:
    env, out = environment(), []
    numbers = env.from_elements(1, 2)
    numbers.add_sink(out.append)
    numbers.map(lambda v: -v).add_sink(out.append)
    result = await env.execute("both")
    assert sorted(out) == [-2, -1, 1, 2]
    assert result.job_name == "both" and result.get_net_runtime() >= 0
    with pytest.raises(StreamlineError, match=r"No operators defined in streaming topology\. Cannot execute\."):
        await env.execute()


async def test_an_empty_environment_and_a_source_alone_cannot_be_executed() -> None:
    env = environment()
    with pytest.raises(StreamlineError, match="No operators defined"):
        await env.execute()
    env.from_elements(1)
    with pytest.raises(StreamlineError, match="No operators defined"):
        await env.execute_async()


async def test_a_branch_without_a_sink_runs_too() -> None:
    env, seen = environment(), []
    env.from_elements(1, 2).map(seen.append)
    await env.execute()
    assert seen == [1, 2]


async def test_what_is_added_to_an_executed_stream_runs_its_sources_again() -> None:
    env, out = environment(), []
    stream = env.from_elements(1, 2).map(lambda v: v * 10)
    stream.add_sink(out.append)
    await env.execute()
    stream.filter(lambda v: v > 10).add_sink(out.append)
    await env.execute()
    assert out == [10, 20, 20]


async def test_collecting_runs_waiting_sinks_in_the_same_job_and_other_streams_not() -> None:
    env, out, seen = environment(), [], []
    stream = env.from_elements(1, 2)
    stream.add_sink(out.append)
    env.from_elements(7).map(seen.append)
    assert await rows(stream.map(lambda v: v + 1)) == [2, 3]
    assert out == [1, 2] and seen == []
    await env.execute()
    assert seen == [7] and out == [1, 2]


async def test_conversions_that_never_ran_are_warned_of() -> None:
    env = environment()
    node = env.from_elements(1).map(lambda v: v).node
    env.note_conversion(node.id, "to_data_stream(people)")
    with pytest.warns(RuntimeWarning, match=r"never ran: to_data_stream\(people\)"):
        del env
        gc.collect()
    env = environment()
    env.note_conversion(env.from_elements(1).map(lambda v: v).node.id, "to_data_stream(people)")
    await env.execute()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del env
        gc.collect()


# -- collected results ---------------------------------------------------------------------------------------------


async def test_leaving_early_cancels_the_job(virtual_clock: VirtualClock) -> None:
    source = ScriptedSource([1, 2, 3], ends=False)
    stream = environment().from_source(source)
    async with stream.execute_and_collect("early") as results:
        assert await anext(results) == 1
        job = results.job
        assert job is not None and job.status is JobStatus.RUNNING and job.name == "early"
    assert job.status is JobStatus.CANCELED
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_a_limit_ends_the_results(virtual_clock: VirtualClock) -> None:
    stream = environment().from_source(ScriptedSource(range(10), ends=False))
    results = stream.execute_and_collect(limit=3)
    assert [x async for x in results] == [0, 1, 2]
    assert results.job is not None and results.job.status is JobStatus.CANCELED


async def test_iterating_without_a_context_manager_starts_the_job() -> None:
    assert [x async for x in environment().from_elements(1, 2).execute_and_collect()] == [1, 2]


async def test_the_reader_gets_what_came_before_the_failure_and_then_the_failure(virtual_clock: VirtualClock) -> None:
    stream = environment().from_source(ScriptedSource([1, 2, Quiet(), 0])).map(lambda v: 10 // v)
    got = []
    with pytest.raises(ZeroDivisionError):
        async for x in stream.execute_and_collect():
            got += [x]
    assert got == [10, 5]


async def test_another_task_may_read_and_close(virtual_clock: VirtualClock) -> None:
    results = environment().from_source(ScriptedSource([1, 2], ends=False)).execute_and_collect()
    assert await asyncio.create_task(anext(results)) == 1
    await asyncio.create_task(results.aclose())
    assert results.job is not None and results.job.status is JobStatus.CANCELED


async def test_a_slow_reader_slows_the_job() -> None:
    made = []

    def count(v: int) -> int:
        made.append(v)
        return v

    async with environment().from_collection(range(100_000)).map(count).execute_and_collect() as results:
        await anext(results)
        await settle()
        assert len(made) < 20_000
        assert [x async for x in results][-1] == 99_999


# -- jobs ----------------------------------------------------------------------------------------------------------


async def test_a_job_client_asks_and_cancels(virtual_clock: VirtualClock) -> None:
    env = environment()
    env.from_source(ScriptedSource([1, 2], ends=False)).map(lambda v: v).name("same").print("x")
    async with await env.execute_async("client") as client:
        await settle()
        assert await client.get_job_status() is JobStatus.RUNNING
        assert await client.get_job_id() == client.job_id
        assert (await client.metrics())["same"]["numRecordsIn"] == 2
    assert await client.get_job_status() is JobStatus.CANCELED
    with pytest.raises(StreamlineError, match="cancelled"):
        await client.get_job_execution_result()


async def test_cancelling_execute_cancels_the_job(virtual_clock: VirtualClock) -> None:
    closed = []

    class Watched(MapFunction[int, int]):
        def map(self, value: int) -> int:
            return value

        def close(self) -> None:
            closed.append(True)

    env = environment()
    env.from_source(ScriptedSource([1], ends=False)).map(Watched())
    task = asyncio.create_task(env.execute())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]


async def test_user_metrics_and_parameters() -> None:
    class Monitor(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            group = runtime_context.get_metrics_group()
            self.processed = group.counter("records_processed")
            self.sizes = group.distribution("sizes")
            group.gauge("constant", lambda: 7)
            self.factor = int(runtime_context.get_job_parameter("factor", "1") or 1)
            assert runtime_context.get_job_parameter("none", "default") == "default"

        def map(self, value: int) -> int:
            self.processed.inc()
            self.sizes.update(value)
            return value * self.factor

    env, out = environment().set_parallelism(2), []
    env.get_config().set_global_job_parameters({"factor": 10})
    env.from_elements(1, 2, 3, 4, 5).map(Monitor()).name("monitored").add_sink(out.append)
    job = await env.execute_async("monitored")
    await job.get_job_execution_result()
    assert sorted(out) == [10, 20, 30, 40, 50]
    values = (await job.metrics())["monitored"]
    assert values["records_processed"] == 5 and values["numRecordsIn"] == 5


# -- sources -------------------------------------------------------------------------------------------------------


async def numbers() -> Any:
    for n in (1, 2, 3):
        yield n


class Emitting(SourceFunction[int]):
    async def run(self, ctx: Any) -> None:
        for n in (1, 2, 3):
            await ctx.collect_with_timestamp(n, n * 10)
            await ctx.emit_watermark(n * 10 - 1)


class Yielding(SourceFunction[int]):
    async def run(self, ctx: Any) -> Any:
        for n in (1, 2, 3):
            yield n


@pytest.mark.parametrize("origin", [numbers, numbers(), lambda: [1, 2, 3], lambda: iter((1, 2, 3)), [1, 2, 3]])
async def test_from_source_and_add_source_take_iterables_and_functions(origin: Any) -> None:
    assert await rows(environment().from_source(origin, name="numbers")) == [1, 2, 3]
    if origin is numbers:
        assert await rows(environment().add_source(numbers)) == [1, 2, 3]


async def test_add_source_takes_source_functions() -> None:
    assert await rows(environment().add_source(Yielding())) == [1, 2, 3]
    stamped = (
        environment()
        .add_source(Emitting())
        .process(lambda v, ctx: (v, ctx.timestamp(), max(0, ctx.timer_service().current_watermark())))
    )
    assert await rows(stamped) == [(1, 10, 0), (2, 20, 9), (3, 30, 19)]


async def test_sequences() -> None:
    assert await rows(environment().from_sequence(3, 6)) == [3, 4, 5, 6]
    assert await rows(environment().generate_sequence(0, 2)) == [0, 1, 2]


@pytest.mark.parametrize("bad", ["text", 7, None])
def test_a_collection_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match="iterable of elements"):
        environment().from_collection(bad)


@pytest.mark.parametrize("bad", [7, None])
def test_a_source_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match="has to be a Source"):
        environment().from_source(bad)
    with pytest.raises(ValidationException, match="WatermarkStrategy is needed"):
        environment().from_source(numbers, "no strategy")  # type: ignore[arg-type]


async def test_an_error_in_a_source_names_it() -> None:
    async def broken() -> Any:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone") as caught:
        await rows(environment().from_source(broken, name="broken"))
    assert "in source 'broken' of job 'streamline job'" in caught.value.__notes__


# -- event time that is not there ----------------------------------------------------------------------------------


def test_an_event_time_window_on_a_stream_without_timestamps_is_refused_when_built() -> None:
    keyed = environment().from_elements(("a", 1)).map(lambda v: v).name("same").key_by(lambda v: v[0])
    with pytest.raises(ValidationException, match="it comes from 'collection'") as caught:
        keyed.window(TumblingEventTimeWindows.of(10))
    assert "assign_timestamps_and_watermarks" in str(caught.value) and "window_time" in str(caught.value)
    keyed.window(TumblingProcessingTimeWindows.of(10))
    with pytest.raises(ValidationException, match="can carry no timestamps"):
        environment().from_elements(1).window_all(TumblingEventTimeWindows.of(10))


async def test_no_watermarks_said_explicitly_closes_windows_at_the_end() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v: v[1])
    keyed = environment().from_elements(("a", 1), ("a", 2)).assign_timestamps_and_watermarks(strategy)
    assert keyed.event_time == "ends"
    windows = keyed.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(10))
    assert await rows(windows.reduce(lambda a, b: (a[0], a[1] + b[1]))) == [("a", 3)]


def test_event_time_is_lost_and_found_along_the_graph() -> None:
    env = environment()
    timed = env.from_source(numbers, WatermarkStrategy.for_monotonous_timestamps(), "timed")
    plain = env.from_source(numbers, name="plain")
    assert timed.map(lambda v: v).filter(lambda v: v).event_time == "yes"
    assert plain.event_time == "no" and timed.union(plain).event_time == "no"
    assert plain.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()).event_time == "yes"


def test_a_second_watermark_strategy_warns_and_names_both() -> None:
    env = environment()
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda v: v)
    monotonous = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v: v)
    once = env.from_source(numbers, bounded, "timed").map(lambda v: v)
    with pytest.warns(UserWarning, match=r"\(monotonous timestamps\) over .* \(bounded out of orderness by 5 ms\)"):
        once.assign_timestamps_and_watermarks(monotonous)


async def test_an_event_time_timer_on_a_stream_without_timestamps_fails_at_the_call() -> None:
    def register(value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)

    with pytest.raises(StreamlineError, match="an event-time timer in 'process', on a stream without timestamps"):
        await rows(environment().from_elements(1).key_by(lambda v: v).process(register))


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_names_uids_and_parallelism() -> None:
    env = environment()
    stream = env.from_elements(1).map(lambda v: v).name("first").uid("one").set_parallelism(3).set_max_parallelism(64)
    node = stream.set_description("what it does").disable_chaining().start_new_chain().set_buffer_timeout(5).node
    assert (node.name, node.uid, node.parallelism, node.max_parallelism) == ("first", "one", 3, 64)
    assert node.description == "what it does" and stream.get_name() == "first"
    with pytest.raises(ValidationException, match="two operators have the uid 'one'"):
        stream.map(lambda v: v).uid("one")
    with pytest.raises(ValidationException, match="non parallel operator 'collection' must be 1"):
        env.from_elements(1).set_parallelism(2)
    with pytest.raises(ValidationException, match="has to be positive"):
        stream.set_parallelism(0)
    with pytest.raises(ValidationException, match=r"1\.\.32768"):
        stream.set_max_parallelism(0)
    assert stream.force_non_parallel().node.parallelism == 1
    with pytest.raises(ValidationException, match="must be 1"):
        stream.set_parallelism(2)


async def test_forward_needs_equal_parallelism() -> None:
    env = environment()
    env.from_elements(1).map(lambda v: v).set_parallelism(2).forward().map(lambda v: v).set_parallelism(3)
    with pytest.raises(ValidationException, match="Forward partitioning does not allow change of parallelism"):
        await env.execute()


async def test_partitioning_says_which_subtask_gets_which_records() -> None:
    class Where(MapFunction[int, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value: int) -> Any:
            return (self.index, value)

    async def placed(part: Any) -> dict[int, list[int]]:
        env = environment().set_parallelism(2)
        found: dict[int, list[int]] = {}
        for index, value in sorted(await rows(part(env.from_elements(0, 1, 2, 3)).map(Where()))):
            found.setdefault(index, []).append(value)
        return found

    assert await placed(lambda s: s.rebalance()) == {0: [0, 2], 1: [1, 3]}
    assert await placed(lambda s: s.rescale()) == {0: [0, 2], 1: [1, 3]}
    assert await placed(lambda s: s.global_()) == {0: [0, 1, 2, 3]}
    assert await placed(lambda s: s.broadcast()) == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}
    assert await placed(lambda s: s.partition_custom(lambda k, n: k % n, lambda v: v // 2)) == {0: [0, 1], 1: [2, 3]}
    assert sorted(v for vs in (await placed(lambda s: s.shuffle())).values() for v in vs) == [0, 1, 2, 3]
    with pytest.raises(StreamlineError, match=r"custom partitioner gave 9 for 0"):
        await placed(lambda s: s.partition_custom(lambda k, n: 9, lambda v: v))


# -- options -------------------------------------------------------------------------------------------------------


def test_options_by_method_and_by_key() -> None:
    env = StreamExecutionEnvironment(Configuration({"parallelism.default": 3}))
    assert env.get_parallelism() == 3 and env.get_max_parallelism() == -1 and env.get_checkpoint_interval() == -1
    env.set_max_parallelism(256).set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.configure(Configuration({"pipeline.auto-watermark-interval": "50 ms"}))
    assert env.get_max_parallelism() == 256 and env.get_config().get_auto_watermark_interval() == 50
    assert env.configuration.value("execution.runtime-mode") == "BATCH"
    env.enable_checkpointing("10 s", CheckpointingMode.AT_LEAST_ONCE, "file:/somewhere")
    config = env.get_checkpoint_config()
    assert config.is_checkpointing_enabled() and config.get_checkpoint_interval() == 10_000
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_storage() == "file:/somewhere"
    config.set_checkpoint_timeout("1 min").set_min_pause_between_checkpoints(500).set_max_concurrent_checkpoints(2)
    config.set_tolerable_checkpoint_failure_number(3).enable_unaligned_checkpoints()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    assert (config.get_checkpoint_timeout(), config.get_min_pause_between_checkpoints()) == (60_000, 500)
    assert (config.get_max_concurrent_checkpoints(), config.get_tolerable_checkpoint_failure_number()) == (2, 3)
    assert config.is_unaligned_checkpoints_enabled() and not config.disable_unaligned_checkpoints()._get(
        "unaligned.enabled"
    )
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    with pytest.raises(ValidationException, match="has to be positive"):
        env.enable_checkpointing(0)
    with pytest.raises(ValidationException, match="did you mean"):
        env.configure(Configuration({"parallelism.defualt": 2}))


async def test_the_watermark_interval_in_force_is_that_at_execution(virtual_clock: VirtualClock) -> None:
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v: v)
    source = ScriptedSource([1], ends=False)
    stream = env.from_source(source).assign_timestamps_and_watermarks(strategy)
    env.get_config().set_auto_watermark_interval("7 s")
    started = virtual_clock.now()

    def due(value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(0)

    class Fired:
        def process_element(self, value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(0)

        def on_timer(self, timestamp: int, ctx: Any) -> int:
            return ctx.timer_service().current_processing_time() - started

    async with stream.key_by(lambda v: v).process(Fired()).execute_and_collect(limit=1) as it:
        assert [x async for x in it] == [7000]


async def test_with_checkpoints_collected_records_come_once_and_when_they_are_safe(virtual_clock: VirtualClock) -> None:
    failed = []

    def fail_once(value: int) -> int:
        if value == 25 and not failed:
            failed.append(virtual_clock.now())
            raise OSError("once")
        return value

    def collected(mode: str) -> Any:
        env = StreamExecutionEnvironment(
            Configuration(
                {
                    "execution.checkpointing.interval": "1 s",
                    "execution.checkpointing.mode": mode,
                    "restart-strategy.type": "fixed-delay",
                }
            )
        )
        source = DataGeneratorSource(lambda n: n, count=40, rate_per_second=10)
        return env.from_source(source, name="made").map(fail_once).execute_and_collect()

    assert [x async for x in collected("EXACTLY_ONCE")] == list(range(40))
    failed.clear()
    again = [x async for x in collected("AT_LEAST_ONCE")]
    assert len(again) > 40 and set(again) == set(range(40))
    failed.append(0)
    started = virtual_clock.now()
    async with collected("EXACTLY_ONCE") as results:
        assert await anext(results) == 0
        assert virtual_clock.now() - started >= 1000


async def test_an_environment_as_context_manager_ends_its_jobs(virtual_clock: VirtualClock) -> None:
    async with environment() as env:
        env.from_source(ScriptedSource([1], ends=False)).map(lambda v: v)
        client = await env.execute_async()
        await settle()
        assert await client.get_job_status() is JobStatus.RUNNING
    assert await client.get_job_status() is JobStatus.CANCELED


def test_the_execution_plan_is_json() -> None:
    env = environment().set_parallelism(2)
    env.from_elements(1).map(lambda v: v).name("same").key_by(lambda v: v).reduce(lambda a, b: a).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [(n["type"], n["pact"], n["parallelism"]) for n in nodes] == [
        ("collection", "Data Source", 1),
        ("same", "Operator", 2),
        ("reduce", "Operator", 2),
        ("print", "Data Sink", 2),
    ]
    assert [p["ship_strategy"] for n in nodes for p in n.get("predecessors", ())] == ["FORWARD", "HASH", "FORWARD"]


async def test_collecting_leaves_nothing_in_the_program() -> None:
    env, out = environment(), []
    stream = env.from_elements(1, 2)
    before = len(env.graph.nodes)
    assert await rows(stream) == await rows(stream) == [1, 2]
    assert len(env.graph.nodes) == before
    stream.add_sink(out.append).name("collect")
    await env.execute()
    assert out == [1, 2]


@pytest.mark.parametrize("bad", ["3", 1.5, True, 0, None])
def test_a_parallelism_that_is_none_is_refused_at_the_call(bad: Any) -> None:
    env = environment()
    with pytest.raises(ValidationException, match="has to be positive"):
        env.set_parallelism(bad)
    with pytest.raises(ValidationException, match="has to be positive"):
        env.from_elements(1).map(lambda v: v).set_parallelism(bad)


def test_a_mode_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValidationException, match="CheckpointingMode.EXACTLY_ONCE, CheckpointingMode.AT_LEAST_ONCE"):
        environment().enable_checkpointing(100, mode="exactly")  # type: ignore[arg-type]
    with pytest.raises(ValidationException, match="RuntimeExecutionMode.BATCH"):
        environment().set_runtime_mode("fast")  # type: ignore[arg-type]


async def test_a_place_where_no_checkpoint_can_be_stored_is_refused_at_once(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    env = environment()
    env.enable_checkpointing(100, storage=f"file:{tmp_path}/file")
    env.from_elements(1).print()
    with pytest.raises(CheckpointException, match="is no folder. Give another place"):
        await env.execute()

    env = environment()
    env.enable_checkpointing(100, storage="s4:bucket")
    env.from_elements(1).print()
    with pytest.raises(ValidationException, match="a URL is written s4://"):
        await env.execute()


async def test_a_timestamp_beyond_64_bits_is_refused_with_its_record() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    with pytest.raises(ValidationException, match=f"has to fit 64 bits.*record: {1 << 70}"):
        await rows(environment().from_elements(1, 1 << 70).assign_timestamps_and_watermarks(strategy))
