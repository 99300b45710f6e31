"""Checkpoints as they are configured: the defaults, what contradicts itself, and who hears of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streamline import CheckpointingMode, Configuration, ExternalizedCheckpointRetention, StreamExecutionEnvironment
from streamline.errors import ValidationException
from streamline.functions import CheckpointListener, KeyedProcessFunction, MapFunction
from streamline.testing import FailInSnapshot, FailOnRecord, MiniJob, ScriptedSource
from tests.recovery.ledger import Ledger
from tests.recovery.test_recovery import counting, expected, options, script, settled
from tests.recovery.test_unsettled import Hold, until


def test_the_defaults_are_flinks() -> None:
    env = StreamExecutionEnvironment(Configuration())
    config = env.get_checkpoint_config()
    assert not config.is_checkpointing_enabled() and env.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert not config.is_unaligned_checkpoints_enabled() and config.get_aligned_checkpoint_timeout() == 0
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert config.get_checkpoint_storage() is None
    for key, value in {
        "execution.checkpointing.num-retained": 1,
        "execution.checkpointing.incremental": False,
        "execution.state-recovery.claim-mode": "NO_CLAIM",
        "execution.state-recovery.ignore-unclaimed-state": False,
        "state.backend.type": "hashmap",
    }.items():
        assert env.configuration.value(key) == value


async def test_without_an_interval_there_are_none() -> None:
    job = MiniJob(counting(Ledger(), ends=False))
    await job.start()
    await until(job, 3000)
    assert await job.metric("job", "totalNumberOfCheckpoints") == 0
    await job.crash()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"execution.checkpointing.mode": "AT_LEAST_ONCE"}, "need execution.checkpointing.mode=EXACTLY_ONCE"),
        ({"execution.checkpointing.max-concurrent-checkpoints": 2}, "max-concurrent-checkpoints=1; it is 2"),
    ],
)
async def test_unaligned_checkpoints_need_exactly_once_and_one_at_a_time(more: dict[str, Any], message: str) -> None:
    configuration = options(**{"execution.checkpointing.unaligned.enabled": "true", **more})
    with pytest.raises(ValidationException, match=message):
        await MiniJob(counting(Ledger()), configuration=configuration).start()


@pytest.mark.parametrize(("during", "refused"), [("0 s", False), ("250 ms", False), ("249 ms", True), ("1 h", False)])
async def test_the_interval_during_a_backlog_is_no_shorter_one(during: str, refused: bool) -> None:
    configuration = options(**{"execution.checkpointing.interval-during-backlog": during})
    job = MiniJob(counting(Ledger()), configuration=configuration)
    if refused:
        with pytest.raises(ValidationException, match="is 249 ms, below the 250 ms between two checkpoints"):
            await job.start()
    else:
        await job.start()
        await job.wait()


async def test_a_checkpoint_that_takes_too_long_is_given_up_and_fails_the_job_by_default() -> None:
    configuration = options(**{"execution.checkpointing.timeout": "100 ms", "restart-strategy.type": "none"})
    hold = Hold("count", 2)
    async with MiniJob(counting(Ledger(), ends=False), configuration=configuration, faults=[hold]) as job:
        before = job.clock.now()
        with pytest.raises(
            Exception, match=r"checkpoint 2 failed: it expired after 100 ms; not acknowledged by count\[0\]"
        ):
            await job.wait()
        assert job.clock.now() - before == 600


@pytest.mark.parametrize(("pause", "times"), [(0, [250, 500, 750]), (400, [250, 650, 1050])])
async def test_a_pause_moves_the_next_one(pause: int, times: list[int]) -> None:
    heard: list[int] = []

    class Listen(MapFunction, CheckpointListener):
        def map(self, value: Any) -> Any:
            return value

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            heard.append(job.clock.now() - before)

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(ScriptedSource([1], ends=False), name="numbers").map(Listen()).sink_to(Ledger())

    job = MiniJob(build, configuration=options(**{"execution.checkpointing.min-pause": f"{pause} ms"}))
    job.clock.autojump = False
    before = job.clock.now()
    await job.start()
    await until(job, 1100)
    await job.crash()
    assert heard[:3] == times


class Hears(KeyedProcessFunction, CheckpointListener):
    """Tells what it hears."""

    def __init__(self, heard: list[tuple[str, int]]) -> None:
        self.heard = heard

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    async def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.heard.append(("aborted", checkpoint_id))


async def test_functions_hear_of_checkpoints_that_are_complete_or_given_up(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(ScriptedSource(script(30), ends=False), name="numbers").uid("numbers")
        numbers.map(lambda v: v).name("beside").uid("beside").sink_to(Ledger()).uid("other")
        numbers.key_by(lambda v: v[0]).process(Hears(heard)).uid("hears").sink_to(Ledger()).uid("ledger")

    more = {"execution.checkpointing.timeout": "100 ms", "execution.checkpointing.tolerable-failed-checkpoints": 5}
    hold = Hold("beside", 3)
    job = MiniJob(build, configuration=options(tmp_path, **more), faults=[hold])
    client = await job.start()
    await until(job, 260)
    assert heard == [("complete", 1)]
    asked = asyncio.create_task(client.trigger_savepoint(str(tmp_path / "mine")))
    await settled()
    await until(job, 10)
    assert await asked
    assert heard == [("complete", 1)], "a savepoint that the job goes on after is nothing to commit by"
    await until(job, 500)
    assert heard == [("complete", 1), ("aborted", 3)]
    await job.crash()


async def test_what_functions_do_outside_is_done_again_for_what_no_checkpoint_holds() -> None:
    done: list[int] = []
    ledger = Ledger()

    def build(env: StreamExecutionEnvironment) -> None:
        def outside(value: Any) -> Any:
            done.append(value[1])
            return (value[0], value[1])

        numbers = env.from_source(ScriptedSource(script(12)), name="numbers").uid("numbers")
        numbers.map(outside).name("outside").uid("outside").sink_to(ledger).name("ledger").uid("ledger")

    # The checkpoint at 500 ms holds 0 to 4 (5 comes at the same moment, behind or before it); the failure is at 7.
    async with MiniJob(build, configuration=options(), faults=[FailOnRecord("outside", 8)]) as job:
        await job.wait()
    assert sorted(n for _, n in ledger.committed) == list(range(12)), "results come once"
    assert done[:7] == list(range(7)) and done[7] in (5, 6) and done[-1] == 11
    assert sorted(set(done)) == list(range(12)) and len(done) > 12


async def test_the_first_failed_checkpoint_fails_the_job_and_a_restart_goes_on() -> None:
    ledger = Ledger()
    fault = FailInSnapshot("count", 2)
    async with MiniJob(counting(ledger), configuration=options(), faults=[fault]) as job:
        await job.wait()
        assert await job.metric("job", "numRestarts") == 1
    assert sorted(ledger.committed) == expected(30)
