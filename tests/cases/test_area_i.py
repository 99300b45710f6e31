"""Checkpoints and recovery: faults that others had, and what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamline import StreamExecutionEnvironment
from streamline.functions import KeyedProcessFunction
from streamline.state import ValueStateDescriptor
from streamline.testing import Delay, FailOnDisk, MiniJob, ScriptedSource, faulty_disk
from tests.recovery.ledger import Ledger


class Numbered(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield (value % 3, self.n.value())


RESULTS = sorted((n % 3, n // 3 + 1) for n in range(30))


def counting(ledger: Ledger) -> Any:
    def build(env: StreamExecutionEnvironment) -> None:
        source = ScriptedSource([step for n in range(30) for step in (n, Delay(100))])
        numbered = env.from_source(source, name="numbers").uid("numbers").key_by(lambda v: v % 3).process(Numbered())
        numbered.name("count").uid("count").sink_to(ledger).name("ledger").uid("ledger")

    return build


def job(ledger: Ledger, path: Path, **more: Any) -> MiniJob:
    options = {
        "execution.checkpointing.interval": "250 ms",
        "execution.checkpointing.dir": str(path),
        "execution.checkpointing.tolerable-failed-checkpoints": 100,
    }
    mini = MiniJob(counting(ledger), configuration={**options, **more}, parallelism=2)
    mini.clock.autojump = False
    return mini


async def test_c81_a_checkpoint_that_not_everybody_took_part_in_is_none(tmp_path: Path) -> None:
    """C81: a part of one subtask is written, the others' are not; then the crash: it starts from the beginning."""
    ledger = Ledger()
    mini = job(ledger, tmp_path)
    # Of the first checkpoint's parts the first is written; all later ones, and so the manifest, never are.
    with faulty_disk(FailOnDisk("write", call=2, times=10_000)):
        await mini.start()
        while not await mini.metric("job", "numberOfFailedCheckpoints"):
            await mini.advance("50 ms")
        assert await mini.metric("job", "numberOfCompletedCheckpoints") == 0
        await mini.crash()
    assert ledger.committed == []
    mini.clock.autojump = True
    await mini.start()
    await mini.wait()
    assert sorted(ledger.committed) == RESULTS


async def test_c82_what_a_restore_needs_is_never_swept_away(tmp_path: Path) -> None:
    """C82: three checkpoints are retained, a dozen pass; a crash at any of them finds what it needs."""
    ledger = Ledger()
    mini = job(ledger, tmp_path, **{"execution.checkpointing.num-retained": 3})
    for _ in range(3):
        await mini.start()
        done = await mini.metric("job", "numberOfCompletedCheckpoints")
        while await mini.metric("job", "numberOfCompletedCheckpoints") < done + 3:
            await mini.advance("50 ms")
        await mini.crash()
    mini.clock.autojump = True
    await mini.start()
    await mini.wait()
    assert sorted(ledger.committed) == RESULTS


async def test_c82_a_cleanup_that_fails_does_not_fail_the_job(tmp_path: Path) -> None:
    """C82: old checkpoints cannot be deleted: the job goes on, and its checkpoints complete."""
    ledger = Ledger()
    mini = job(ledger, tmp_path)
    mini.clock.autojump = True
    with faulty_disk(FailOnDisk("delete", times=10_000)):
        await mini.start()
        await mini.wait()
        assert await mini.metric("job", "numberOfFailedCheckpoints") == 0
    assert sorted(ledger.committed) == RESULTS
