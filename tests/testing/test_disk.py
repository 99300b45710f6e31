from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline.errors import CheckpointException
from streamline.testing import Delay, FailOnDisk, MiniJob, ScriptedSource, SlowDisk, faulty_disk


def ticking(env: StreamExecutionEnvironment) -> Any:
    steps = [step for n in range(20) for step in (n, Delay(100))]
    return env.from_source(ScriptedSource(steps), name="numbers").map(lambda n: n)


def options(path: Path) -> dict[str, Any]:
    return {"execution.checkpointing.interval": "500 ms", "execution.checkpointing.dir": str(path)}


async def counts(job: MiniJob) -> tuple[int, int]:
    return (
        await job.metric("job", "numberOfCompletedCheckpoints"),
        await job.metric("job", "numberOfFailedCheckpoints"),
    )


@pytest.mark.parametrize("operation", ["write", "publish"])
async def test_a_checkpoint_that_finds_no_space_fails_the_job_where_none_may_fail(
    tmp_path: Path, mini_job: Callable[..., MiniJob], operation: Any
) -> None:
    fault = FailOnDisk(operation, call=3)
    with faulty_disk(fault):
        configuration = options(tmp_path) | {"restart-strategy.type": "none"}
        async with mini_job(ticking, configuration=configuration) as job:
            with pytest.raises(CheckpointException, match="no space left on device"):
                await job.wait()
    assert fault.struck == 1


async def test_a_checkpoint_that_finds_no_space_is_counted_where_some_may_fail(
    tmp_path: Path, mini_job: Callable[..., MiniJob]
) -> None:
    configuration = options(tmp_path) | {"execution.checkpointing.tolerable-failed-checkpoints": 1}
    with faulty_disk(FailOnDisk("publish", call=2)):
        async with mini_job(ticking, configuration=configuration) as job:
            await job.wait()
            completed, failed = await counts(job)
    assert failed == 1
    assert completed >= 2
    job.assert_results(list(range(20)))


async def test_a_slow_disk_makes_checkpoints_time_out(tmp_path: Path, mini_job: Callable[..., MiniJob]) -> None:
    """300 ms for each file is slow beside a timeout of 100 ms; no real time passes."""
    configuration = options(tmp_path) | {
        "execution.checkpointing.timeout": "100 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": 99,
    }
    with faulty_disk(SlowDisk("write", "300 ms")):
        async with mini_job(ticking, configuration=configuration) as job:
            job.clock.autojump = False
            await job.settle()
            await job.advance("1900 ms")
            completed, failed = await counts(job)
            assert completed == 0
            assert failed >= 2
