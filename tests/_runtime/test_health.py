"""What a job tells of itself: health, and the metrics of checkpoints, restarts, state, watermarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamline import JobHealth, JobStatus, StreamExecutionEnvironment
from streamline.functions import KeyedProcessFunction
from streamline.state import ValueStateDescriptor
from streamline.testing import FailOnDisk, FailOnRecord, InjectedFault, MiniJob, ScriptedSource, faulty_disk


class Last(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value)
        yield value


def build(env: StreamExecutionEnvironment) -> Any:
    source = env.from_source(ScriptedSource([1, 2, 3], ends=False), name="numbers").uid("numbers")
    return source.key_by(lambda v: v).process(Last()).name("last").uid("last")


def job(*faults: Any, **options: Any) -> MiniJob:
    found = MiniJob(build, faults=faults, configuration=options)
    found.clock.autojump = False
    return found


def size_of_parts(folder: Path, names: str = "*") -> int:
    return sum(p.stat().st_size for p in folder.rglob(names) if p.is_file() and p.name != "MANIFEST")


async def health(mini: MiniJob) -> JobHealth:
    assert mini.client is not None
    return await mini.client.health()


async def test_a_job_that_runs_is_healthy_and_one_that_was_cancelled_is_not() -> None:
    async with job() as mini:
        await mini.settle()
        assert await health(mini) == JobHealth(JobStatus.RUNNING, True, (), 0, None, 0)
    assert await health(mini) == JobHealth(JobStatus.CANCELED, False, ("the job is CANCELED",), 0, None, 0)


async def test_while_it_waits_to_restart_the_reason_is_there() -> None:
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "5 s"}
    async with job(FailOnRecord("last", 2), **options) as mini:
        await mini.advance("1 s")
        found = await health(mini)
        assert found.status is JobStatus.RESTARTING and not found.healthy
        assert found.reasons == ("the job is RESTARTING", "InjectedFault: FailOnRecord('last', 2)")
        await mini.advance("5 s")
        assert await health(mini) == JobHealth(JobStatus.RUNNING, True, (), 1, None, 0)
        assert await mini.metric("job", "numRestarts") == 1


async def test_a_job_that_failed_says_why() -> None:
    async with job(FailOnRecord("last", 2)) as mini:
        with pytest.raises(InjectedFault):
            await mini.wait()
        found = await health(mini)
        assert found.reasons == ("the job is FAILED", "InjectedFault: FailOnRecord('last', 2)")


async def test_failed_checkpoints_count_until_one_is_complete(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.tolerable-failed-checkpoints": 10,
    }
    with faulty_disk(FailOnDisk("publish", times=2)):
        async with job(**options) as mini:
            while not (found := await health(mini)).failed_checkpoints:
                await mini.advance("100 ms")
            assert (found.healthy, found.failed_checkpoints, found.checkpoint_age) == (False, 1, None)
            assert found.reasons[0].startswith("the last checkpoint failed: ")
            while (await health(mini)).checkpoint_age is None:
                await mini.advance("100 ms")
            found = await health(mini)
            assert (found.healthy, found.failed_checkpoints, found.restarts) == (True, 0, 0)
            assert await mini.metric("job", "numberOfFailedCheckpoints") == 2


async def test_metrics_of_checkpoints_and_state(tmp_path: Path) -> None:
    async with job(**{"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": str(tmp_path)}) as mini:
        await mini.advance("500 ms")
        assert await mini.metric("job", "lastCheckpointAge") is None
        assert await mini.metric("job", "lastCheckpointSize") == 0
        assert await mini.metric("last", "numStateEntries") == 3, "one value for each of three keys"
        assert await mini.metric("numbers", "numRecordsOut") == 3
        assert await mini.metric("last", "numRecordsIn") == 3
        assert await mini.metric("last", "backPressuredTimeMs") == 0
        while not await mini.metric("job", "numberOfCompletedCheckpoints"):
            await mini.advance("100 ms")
        written = size_of_parts(tmp_path)
        assert await mini.metric("job", "lastCheckpointSize") == written > 0
        age = await mini.metric("job", "lastCheckpointAge")
        await mini.advance("50 ms")
        assert await mini.metric("job", "lastCheckpointAge") == age + 50
        assert await mini.metric("job", "totalNumberOfCheckpoints") == 1
        assert await mini.metric("job", "numberOfFailedCheckpoints") == 0
        assert await mini.metric("job", "lastCheckpointDuration") >= 0


async def test_size_of_an_incremental_checkpoint_is_what_it_has_written(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    options: dict[str, Any] = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.incremental": True,
        "state.backend.type": "rocksdb",
    }
    async with job(**options) as mini:
        while not await mini.metric("job", "numberOfCompletedCheckpoints"):
            await mini.advance("100 ms")
        everything = size_of_parts(tmp_path)
        assert await mini.metric("job", "lastCheckpointSize") == everything
        assert await mini.metric("job", "lastCheckpointFullSize") == everything
        files = size_of_parts(tmp_path, "*.sst")
        assert files > 0
        while await mini.metric("job", "numberOfCompletedCheckpoints") < 2:
            await mini.advance("100 ms")
        # Nothing has come since: the files that are shared were not written again.
        full = await mini.metric("job", "lastCheckpointFullSize")
        assert await mini.metric("job", "lastCheckpointSize") == full - files


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
async def test_metrics_can_be_read_when_the_job_has_ended(tmp_path: Path, backend: str) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    options = {"state.backend.type": backend, "state.backend.rocksdb.localdir": str(tmp_path)}
    async with job(**options) as mini:
        await mini.settle()
    assert await mini.metric("last", "numRecordsIn") == 3
    assert await mini.metric("last", "numStateEntries") >= 0
