"""Files of state that are written compressed: smaller, and read whatever the setting is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamline._core.declare import StateSpec
from streamline._state import store as stores
from streamline._state.format import Manifest
from streamline._state.store import (
    CheckpointStore,
    checkpoint_folder,
    open_checkpoint,
    operator_entry,
    publish,
    write_part,
)
from streamline.errors import CheckpointException
from streamline.testing import MiniJob
from tests._state.backends import Backends
from tests.recovery.ledger import Ledger
from tests.recovery.test_recovery import counting, expected, options
from tests.recovery.test_unsettled import until

KEYS = 5000


@pytest.fixture(params=["hashmap", "rocksdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict")
    made = Backends(request.param, tmp_path / "local")
    yield made
    made.close()


def fill(state: Any) -> None:
    handle = state.store.handle("v", StateSpec(str))
    for key in range(KEYS):
        state.store.key = key
        handle.update(f"the value of key {key}")
    state.operator_store.list_state("l", StateSpec()).append("x" * 10_000)


def check(state: Any) -> None:
    handle = state.store.handle("v", StateSpec(str))
    for key in range(KEYS):
        state.store.key = key
        assert handle.value() == f"the value of key {key}"
    assert list(state.operator_store.list_state("l", StateSpec())) == ["x" * 10_000]


async def save(root: Path, state: Any, compress: bool, incremental: bool = False) -> tuple[str, Any]:
    folder, store = checkpoint_folder(1, "abcdef"), CheckpointStore(str(root), "job")
    part = await write_part(store.files, folder, "op", await state.capture(1, incremental).encode(), compress)
    entry = operator_entry("op", "op", 1, 128, [part])
    manifest = Manifest(checkpoint_id=1, job_name="job", job_id="abcdef", timestamp=0, completed=0, operators=[entry])
    return await publish(store.files, folder, manifest), part


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("incremental", [False, True])
async def test_smaller_and_read_as_it_was(
    make: Backends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool, incremental: bool
) -> None:
    if not whole:
        monkeypatch.setattr(stores, "_WHOLE", 100)  # a block at a time
    sizes = {}
    for compress in (False, True):
        state = make()
        fill(state)
        location, part = await save(tmp_path / str(compress), state, compress, incremental)
        sizes[compress] = part.size
        other = make()
        await other.restore((await open_checkpoint(location)).operators["op"].snapshots)
        check(other)
    assert sizes[True] < sizes[False] / 2 or part.shared


async def test_a_compressed_file_that_is_damaged_is_told(make: Backends, tmp_path: Path) -> None:
    state = make()
    fill(state)
    location, part = await save(tmp_path, state, True)
    path = Path(location.removeprefix("file://")) / part.file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointException, match="is corrupt: its checksum does not match"):
        await open_checkpoint(location)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("settings", [(True, False), (False, True), (True, True)])
async def test_a_job_goes_on_with_another_setting(tmp_path: Path, backend: str, settings: tuple[bool, bool]) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    ledger = Ledger()
    clock = None
    for run, compress in enumerate(settings):
        more = {"execution.checkpointing.snapshot-compression": compress, "state.backend.type": backend}
        job = MiniJob(counting(ledger), configuration=options(tmp_path / "checkpoints", **more), clock=clock)
        clock = job.clock
        await job.start()
        if run == 0:
            await until(job, 1000)
            await job.crash()
            (file,) = (tmp_path / "checkpoints").glob("*/chk-*/count-*.state")
            head = file.read_bytes()[17 + 4 :]
            assert head[1] == (2 if compress else 1)  # the version, behind the mark of a list
            assert 0 < len(ledger.committed) < 30
        else:
            clock.autojump = True
            await job.wait()
    assert sorted(ledger.committed) == expected(30)
