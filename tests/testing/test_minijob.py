from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamline import DataStream, StreamExecutionEnvironment
from streamline.errors import ValidationException
from streamline.testing import Delay, FailOnRecord, InjectedFault, MiniJob, ScriptedSource


def doubled(env: StreamExecutionEnvironment) -> DataStream[Any]:
    source = ScriptedSource([1, 2, Delay.of("1 h"), 3])
    return env.from_source(source, name="numbers").map(lambda n: n * 2).name("double")


async def test_a_job_runs_to_its_end(mini_job: Callable[..., MiniJob]) -> None:
    async with mini_job(doubled) as job:
        assert (await job.status()).name == "RUNNING"
        await job.wait()
        assert (await job.status()).name == "FINISHED"
        assert await job.metric("double", "numRecordsIn") == 3
        with pytest.raises(ValidationException, match="no metric 'nonsense' of 'double'; there are .*numRecordsIn"):
            await job.metric("double", "nonsense")
    job.assert_results("2 | 4 | 6")


async def test_crash_and_start_again(mini_job: Callable[..., MiniJob]) -> None:
    """Without a checkpoint there is nothing to go on from: the second start begins anew."""
    async with mini_job(doubled) as job:
        job.clock.autojump = False
        await job.settle()
        with pytest.raises(ValidationException, match="runs already"):
            await job.start()
        await job.crash()
        job.assert_results("2 | 4")
        assert (await job.status()).name == "CANCELED"
        await job.start(parallelism=2)
        await job.settle()
        await job.advance("1 h")
        await job.wait()
    assert job.starts == 2
    job.assert_results("2 | 4 | 2 | 4 | 6", order="multiset")


async def test_faults_strike_in_it(mini_job: Callable[..., MiniJob]) -> None:
    async with mini_job(doubled, faults=[FailOnRecord("double", 3)]) as job:
        with pytest.raises(InjectedFault):
            await job.wait()
        await job.start()
        await job.wait()
    job.assert_results("2 | 4 | 2 | 4 | 6")


async def test_it_has_to_be_started() -> None:
    with pytest.raises(ValidationException, match="has not been started"):
        await MiniJob(doubled).crash()
