"""What sinks have prepared when a job ends: nothing is left that nobody will ever commit or abort."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline._core.elements import Barrier
from streamline._state.files import LocalFiles
from streamline.abc import Operator, Output
from streamline.connectors.files import FileSink
from streamline.testing import FailInCommit, FailInOpen, FailOnRecord, InjectedFault, MiniJob, ScriptedSource, no_leaks
from tests.recovery.ledger import Ledger
from tests.recovery.test_recovery import counting, expected, options, script, settled, whole

DELETED = {"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"}
NEVER_KEPT = {"execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS"}
NO_RESTART = {"restart-strategy.type": "none"}


@dataclass
class Hold(FailInCommit):
    """The operator waits for ever with the barrier of this checkpoint: that is never complete."""

    held: list[int] = field(default_factory=list, init=False)

    def into(self, operator: Operator) -> None:
        inner = operator.on_barrier

        async def on_barrier(barrier: Barrier, out: Output) -> None:
            await inner(barrier, out)
            if barrier.checkpoint_id == self.checkpoint:
                self.held.append(barrier.checkpoint_id)
                await asyncio.get_running_loop().create_future()

        operator.on_barrier = on_barrier  # type: ignore[method-assign]


def two_ways(sink: Any) -> Any:
    """Numbers, written by a sink, and passed through an operator beside it."""

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(ScriptedSource(script(30), ends=False), name="numbers").uid("numbers")
        numbers.sink_to(sink).name("sink").uid("sink")
        numbers.map(lambda v: v).name("beside").uid("beside").sink_to(Ledger()).uid("other")

    return build


def folders(tmp_path: Path) -> list[Path]:
    return list(tmp_path.rglob("chk-*"))


async def until(job: MiniJob, millis: int) -> None:
    job.clock.autojump = False
    for _ in range(millis // 10):
        await job.advance(10)
        await settled()
    await settled()


async def test_a_job_whose_checkpoints_are_never_complete_leaves_no_files(tmp_path: Path) -> None:
    for place in (None, tmp_path / "checkpoints"):
        hold = Hold("beside", 1)
        job = MiniJob(two_ways(FileSink(path=tmp_path / "out")), configuration=options(place), faults=[hold])
        async with no_leaks(files=True, threads=True):
            await job.start()
            await until(job, 400)
            staged = [p.name for p in (tmp_path / "out").rglob("*.1")]
            assert hold.held == [1] and len(staged) == 1, "the sink has prepared"
            await job.crash()
        assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("retention", [None, DELETED, NEVER_KEPT])
async def test_what_came_after_the_last_complete_checkpoint_is_aborted(tmp_path: Path, retention: Any) -> None:
    """Retained or not: nobody can restore a checkpoint that was never complete."""
    ledger, hold = Ledger(), Hold("beside", 3)
    configuration = options(tmp_path, **(retention or {}))
    job = MiniJob(two_ways(ledger), configuration=configuration, faults=[hold])
    await job.start()
    await until(job, 900)
    assert hold.held == [3] and len(ledger.committed) == 5 and len(ledger.prepared) == 1
    await job.crash()
    assert ledger.prepared == {} and ledger.aborted == [("k2", 5), ("k0", 6), ("k1", 7)]
    assert len(ledger.committed) == 5


@pytest.mark.parametrize("stored", [False, True])
async def test_a_complete_checkpoint_that_nobody_can_restore_is_committed(tmp_path: Path, stored: bool) -> None:
    """Its positions may have been handed on already: what it holds belongs to the output."""
    ledger = Ledger()
    configuration = options(tmp_path if stored else None, **NO_RESTART, **NEVER_KEPT)
    job = MiniJob(two_ways(ledger), configuration=configuration, faults=[FailInCommit("sink", 2)])
    await job.start()
    with pytest.raises(InjectedFault):
        await job.wait()
    assert ledger.committed == [("k0", 0), ("k1", 1), ("k2", 2), ("k0", 3), ("k1", 4)]
    assert ledger.prepared == {}
    assert not folders(tmp_path)


async def test_what_a_retained_checkpoint_holds_is_left_to_whoever_restores_it(tmp_path: Path) -> None:
    ledger = Ledger()
    configuration = options(tmp_path, **NO_RESTART)
    job = MiniJob(counting(ledger), configuration=configuration, faults=[FailInCommit("ledger", 2)])
    await job.start()
    with pytest.raises(InjectedFault):
        await job.wait()
    assert len(ledger.committed) == 3 and len(ledger.prepared) == 1 and ledger.aborted == []
    await job.start()
    await job.wait()
    assert sorted(ledger.committed) == expected(30) and ledger.prepared == {}


async def test_what_a_savepoint_holds_is_left_to_whoever_restores_it(tmp_path: Path) -> None:
    ledger = Ledger()
    configuration = options(tmp_path / "checkpoints", **DELETED)
    job = MiniJob(counting(ledger), configuration=configuration)
    client = await job.start()
    await until(job, 600)
    asked = asyncio.create_task(client.trigger_savepoint(str(tmp_path / "mine")))
    await settled()
    await until(job, 10)
    location = await asked
    assert whole(location) and len(ledger.prepared) == 1
    held = dict(ledger.prepared)
    await job.crash()
    assert not folders(tmp_path)
    assert ledger.prepared == held and ledger.aborted == []
    job.clock.autojump = True
    await job.start(restore=location)
    await job.wait()
    assert sorted(ledger.committed) == expected(30)


async def test_a_savepoint_commits_nothing_and_a_failure_behind_it_doubles_nothing(tmp_path: Path) -> None:
    ledger = Ledger()
    configuration = options(tmp_path, **{"execution.checkpointing.interval": "600 ms"})
    fault = FailOnRecord("count", 9)
    job = MiniJob(counting(ledger), configuration=configuration, faults=[fault])
    client = await job.start()
    await until(job, 680)
    before = list(ledger.committed)
    asked = asyncio.create_task(client.trigger_savepoint(str(tmp_path / "mine")))
    await settled()
    await until(job, 10)
    assert whole(await asked)
    assert ledger.committed == before and len(before) in (6, 7)
    job.clock.autojump = True
    await job.wait()
    assert fault.struck == 1
    assert sorted(ledger.committed) == expected(30)


async def test_without_checkpoints_the_end_commits_what_a_savepoint_holds_too(tmp_path: Path) -> None:
    ledger = Ledger()
    job = MiniJob(counting(ledger))
    client = await job.start()
    await until(job, 550)
    asked = asyncio.create_task(client.trigger_savepoint(str(tmp_path)))
    await settled()
    await until(job, 10)
    assert whole(await asked) and ledger.committed == []
    job.clock.autojump = True
    await job.wait()
    assert sorted(ledger.committed) == expected(30) and ledger.prepared == {}


async def test_a_restart_from_nothing_aborts_what_the_attempt_before_has_prepared(tmp_path: Path) -> None:
    hold, fault = Hold("beside", 1), FailOnRecord("sink", 4)
    ledger = Ledger()
    job = MiniJob(two_ways(ledger), configuration=options(tmp_path), faults=[hold, fault])
    await job.start()
    await until(job, 290)
    assert hold.held == [1] and list(ledger.prepared.values()) == [[("k0", 0), ("k1", 1), ("k2", 2)]]
    hold.checkpoint = None
    await until(job, 100)
    assert fault.struck == 1
    assert ledger.aborted == [("k0", 0), ("k1", 1), ("k2", 2)] and ledger.prepared == {}
    await until(job, 3000)
    await job.crash()
    assert len(ledger.committed) == len(set(ledger.committed)) > 5


async def test_nothing_is_aborted_where_a_checkpoint_could_not_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is away when the job ends: whether a checkpoint is whole there, nobody knows."""
    ledger, hold = Ledger(), Hold("beside", 3)
    job = MiniJob(two_ways(ledger), configuration=options(tmp_path, **DELETED), faults=[hold])
    await job.start()
    await until(job, 900)
    prepared = dict(ledger.prepared)
    assert hold.held == [3] and len(prepared) == 1

    def away(self: LocalFiles, name: str) -> None:
        raise OSError("the place is away")

    monkeypatch.setattr(LocalFiles, "delete", away)
    await job.crash()
    assert ledger.prepared == prepared and ledger.aborted == []


class Broken(Ledger):
    """Cannot abort."""

    def writer(self) -> Any:
        writer = super().writer()

        async def abort(committables: Any) -> None:
            raise ConnectionError("nobody there")

        writer.abort = abort  # type: ignore[method-assign]
        return writer


async def test_an_abort_that_fails_is_told_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hold = Hold("beside", 1)
    job = MiniJob(two_ways(Broken()), configuration=options(tmp_path), faults=[hold])
    client = await job.start()
    await until(job, 400)
    await job.crash()
    assert (await client.get_job_status()).name == "CANCELED"
    assert "what was prepared in operator 'sink' of job 'mini job' could not be ended: nobody there" in caplog.text


async def test_cancelled_again_and_again_it_still_ends_in_order(tmp_path: Path) -> None:
    hold = Hold("beside", 1)
    job = MiniJob(two_ways(FileSink(path=tmp_path / "out")), configuration=options(tmp_path), faults=[hold])
    client = await job.start()
    await until(job, 400)
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(client.cancel())
            await asyncio.sleep(0)
    assert (await client.get_job_status()).name == "CANCELED"
    assert list((tmp_path / "out").iterdir()) == []


async def test_cancelled_while_it_settles_it_begins_again(tmp_path: Path) -> None:
    """The job was about to restart from nothing; cancelled meanwhile, it still aborts."""

    class Slow(Ledger):
        def writer(self) -> Any:
            writer = super().writer()
            abort = writer.abort

            async def slowly(committables: Any) -> None:
                asked.append(len(committables))
                if len(asked) == 1:
                    await asyncio.sleep(3600)
                await abort(committables)

            writer.abort = slowly  # type: ignore[method-assign]
            return writer

    asked: list[int] = []
    ledger = Slow()
    faults = [Hold("beside", 1), FailOnRecord("sink", 4)]
    job = MiniJob(two_ways(ledger), configuration=options(tmp_path), faults=faults)
    client = await job.start()
    await until(job, 400)
    assert asked == [1] and len(ledger.prepared) == 1
    await client.cancel()
    assert (await client.get_job_status()).name == "CANCELED"
    assert asked == [1, 1] and ledger.prepared == {}


async def test_attempts_that_cannot_begin_leave_nothing_but_what_was_prepared(tmp_path: Path) -> None:
    """A sink that cannot be opened for long, after one attempt has prepared something that was complete."""
    ledger = Ledger()
    faults = [FailInCommit("sink", 2), FailInOpen("sink", times=40)]
    more = {"restart-strategy.fixed-delay.attempts": 20, **NEVER_KEPT}
    faults[1].struck = 40  # not yet
    job = MiniJob(two_ways(ledger), configuration=options(tmp_path, **more), faults=faults)
    client = await job.start()
    faults[1].struck = 0
    with pytest.raises(InjectedFault):
        await job.wait()
    assert faults[1].struck == 20
    assert ledger.committed == [("k0", 0), ("k1", 1), ("k2", 2), ("k0", 3), ("k1", 4)] and ledger.prepared == {}
    assert len(client._job._unsettled) == 0


def test_a_program_that_ends_while_its_job_is_being_cancelled_leaves_nothing() -> None:
    """asyncio.run cancels every task there is, those too that end the job, at whatever step they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in range(20):
            ledger, hold, seen = Ledger(), Hold("beside", 1), []

            async def program() -> None:
                job = MiniJob(two_ways(ledger), configuration=options(None), faults=[hold])  # noqa: B023
                client = await job.start()
                await until(job, 400)
                assert hold.held == [1] and len(ledger.prepared) == 1  # noqa: B023
                client._job.cancel_nowait()  # as results do that are dropped
                for _ in range(steps):  # noqa: B023
                    await asyncio.sleep(0)
                seen.append(client)  # noqa: B023

            unraisable, sys.unraisablehook = sys.unraisablehook, seen.append
            try:
                asyncio.run(program())
                gc.collect()
            finally:
                sys.unraisablehook = unraisable
            (client,) = seen
            assert client._job.status.name == "CANCELED", steps
            assert ledger.prepared == {} and len(ledger.aborted) == 3, steps
