"""A checkpoint that a job is started from by its path: never touched, or taken over."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamline import Configuration, StreamExecutionEnvironment
from streamline.errors import CheckpointException, ValidationException
from streamline.testing import MiniJob
from tests.recovery.ledger import Ledger
from tests.recovery.test_recovery import ROCKSDB, counting, expected, options, settled, whole
from tests.recovery.test_unsettled import until

INCREMENTAL = {**ROCKSDB, "execution.checkpointing.incremental": "true"}


def folders(root: Path) -> set[str]:
    """Whole checkpoints and savepoints below a folder, by name."""
    return {m.parent.name for m in manifests(root)}


def manifests(root: Path) -> list[Path]:
    return list(root.rglob("MANIFEST"))


async def crashed(root: Path, ledger: Ledger, name: str = "mini job", **more: Any) -> str:
    """Runs a job for a while; gives its last checkpoint."""
    job = MiniJob(counting(ledger, ends=False), configuration=options(root, **more), name=name)
    await job.start()
    await until(job, 1100)
    await job.crash()
    (found,) = manifests(root)
    return str(found.parent)


@pytest.mark.parametrize("more", [{}, INCREMENTAL])
async def test_a_fork_does_not_need_the_files_of_the_job_it_came_from(tmp_path: Path, more: dict[str, Any]) -> None:
    """Incremental checkpoints too: the first one of the fork copies what the other may delete."""
    if more:
        pytest.importorskip("rocksdict")
    ledger = Ledger()
    location = await crashed(tmp_path / "one", ledger, **more)
    fork = MiniJob(counting(ledger), configuration=options(tmp_path / "two", **more), name="fork")
    await fork.start(restore=location)
    await until(fork, 1100)
    await fork.crash()
    shutil.rmtree(tmp_path / "one")
    fork.clock.autojump = True
    await fork.start()
    await fork.wait()
    assert sorted(ledger.committed) == expected(30)


@pytest.mark.parametrize("where", ["one", "two"])
async def test_what_is_not_claimed_is_never_touched(tmp_path: Path, where: str) -> None:
    """In the job's own folder or in another one."""
    ledger = Ledger()
    location = await crashed(tmp_path / "one", ledger)
    job = MiniJob(counting(ledger), configuration=options(tmp_path / where))
    await job.start(restore=location)
    await until(job, 1500)
    assert whole(location) and len(folders(tmp_path)) == 2
    job.clock.autojump = True
    await job.wait()
    assert folders(tmp_path) == {Path(location).name}
    assert sorted(ledger.committed) == expected(30)


@pytest.mark.parametrize("more", [{}, INCREMENTAL])
@pytest.mark.parametrize("where", ["one", "two"])
async def test_what_is_claimed_goes_when_it_is_the_oldest_of_too_many(
    tmp_path: Path, where: str, more: dict[str, Any]
) -> None:
    if more:
        pytest.importorskip("rocksdict")
    ledger = Ledger()
    location = await crashed(tmp_path / "one", ledger, **more)
    configuration = options(tmp_path / where, **more)
    configuration |= {"execution.state-recovery.claim-mode": "CLAIM", "execution.checkpointing.num-retained": 2}
    job = MiniJob(counting(ledger), configuration=configuration)
    await job.start(restore=location)
    await until(job, 270)
    assert whole(location) and len(folders(tmp_path)) == 2
    await until(job, 260)
    assert not whole(location) and len(folders(tmp_path)) == 2
    await job.crash()
    if where == "two":
        assert not [p for p in (tmp_path / "one").rglob("*") if p.is_file()]
    job.clock.autojump = True
    await job.start()
    await job.wait()
    assert sorted(ledger.committed) == expected(30)
    assert folders(tmp_path) == set()


async def test_a_savepoint_can_be_claimed(tmp_path: Path) -> None:
    ledger = Ledger()
    job = MiniJob(counting(ledger), configuration=options(tmp_path / "checkpoints"))
    client = await job.start()
    await until(job, 550)
    asked = asyncio.create_task(client.stop_with_savepoint(savepoint_directory=str(tmp_path / "mine")))
    await settled()
    await until(job, 10)
    location = await asked
    configuration = options(tmp_path / "checkpoints", **{"execution.state-recovery.claim-mode": "CLAIM"})
    again = MiniJob(counting(ledger), configuration=configuration)
    await again.start(restore=location)
    assert whole(location)
    await until(again, 300)
    assert not whole(location)
    again.clock.autojump = True
    await again.wait()
    assert sorted(ledger.committed) == expected(30)


async def test_claimed_without_a_storage_it_is_kept_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger()
    location = await crashed(tmp_path, ledger)
    job = MiniJob(counting(ledger), configuration=options(**{"execution.state-recovery.claim-mode": "CLAIM"}))
    await job.start(restore=location)
    await job.wait()
    assert whole(location) and "is kept, as nothing that lasts follows it" in caplog.text


async def test_a_path_where_no_checkpoint_is(tmp_path: Path) -> None:
    async def told(path: Path) -> str:
        with pytest.raises(CheckpointException) as caught:
            await MiniJob(counting(Ledger()), configuration=options(tmp_path)).start(restore=str(path))
        return str(caught.value)

    nothing = "is no whole checkpoint: there is nothing, no MANIFEST. Give the path of a checkpoint or savepoint"
    assert nothing in await told(tmp_path / "nowhere")
    location = Path(await crashed(tmp_path / "one", Ledger()))
    assert f"There are {location.name} in it: give the path" in await told(location.parent)  # the job's folder
    assert f"There are {location.parent.name}/{location.name} in it" in await told(tmp_path / "one")  # the storage
    assert nothing in await told(location / "MANIFEST")
    (location / "MANIFEST").unlink()
    assert "is no whole checkpoint: it was never completed, no MANIFEST" in await told(location)


async def test_filesystem_storage_needs_a_folder(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment(
        Configuration({"execution.checkpointing.storage": "filesystem", "execution.checkpointing.interval": "1 s"})
    )
    env.from_collection([1]).print()
    with pytest.raises(ValidationException, match=r"there is no execution\.checkpointing\.dir: say where"):
        await env.execute()
    env.configuration.set("execution.checkpointing.dir", str(tmp_path))
    await env.execute()
