"""Checkpoints on disk: whole or not there, verified, tidied; matched to programs by uid."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from streamline._core.declare import StateSpec
from streamline._state.files import FsspecFiles, LocalFiles, files_at
from streamline._state.format import MANIFEST, Manifest, join_file, split_file
from streamline._state.mapping import Target, match
from streamline._state.store import (
    CheckpointStore,
    checkpoint_folder,
    drop,
    folder_name,
    open_checkpoint,
    operator_entry,
    publish,
    savepoint_folder,
    write_part,
)
from streamline._state.subtask import SubtaskState
from streamline.errors import CheckpointException, ValidationException
from streamline.testing import VirtualClock


async def snapshot(n: int, subtask: int = 0, parallelism: int = 1) -> Any:
    state = SubtaskState(
        key_groups=range(subtask * 128 // parallelism, (subtask + 1) * 128 // parallelism),
        max_parallelism=128,
        clock=VirtualClock(0, autojump=False),
        wake_at=lambda t: None,
        subtask_index=subtask,
        parallelism=parallelism,
    )
    h = state.store.handle("n", StateSpec(int))
    state.store.key = "k"
    h.update(n)
    state.operator_store.list_state("l", StateSpec()).append(n)
    return await state.capture(n).encode()


async def write(store: CheckpointStore, n: int, *, uids: str = "ab", job: str = "j1", whole: bool = True) -> str:
    folder = checkpoint_folder(n, job)
    entries = []
    for uid in uids:
        part = await write_part(store.files, folder, uid, await snapshot(n))
        entries.append(operator_entry(uid, f"op {uid}", 1, 128, [part]))
    if whole:
        manifest = Manifest(
            checkpoint_id=n, job_name="job", job_id=job, timestamp=n, completed=n + 1, operators=entries
        )
        location = await publish(store.files, folder, manifest)
        store.note_complete(folder, manifest)
        return location
    return folder


def value(operator: Any) -> int:
    return int(operator.snapshots[0].checkpoint_id)


@pytest.fixture(params=["path", "file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://{tmp_path.name}"
    return str(tmp_path / "chk") if request.param == "path" else (tmp_path / "with space").as_uri()


async def test_written_and_read(root: str) -> None:
    store = CheckpointStore(root, "my job")
    assert await store.latest() is None
    assert await store.next_id() == 1
    location = await write(store, 1)
    for found in (await CheckpointStore(root, "my job").latest(), await open_checkpoint(location)):
        assert found is not None
        assert found.id == 1 and found.manifest.job_id == "j1" and set(found.operators) == {"a", "b"}
        state = SubtaskState(key_groups=range(128), max_parallelism=128, clock=VirtualClock(0), wake_at=lambda t: None)
        await state.restore(found.operators["a"].snapshots)
        assert state.store.handle("n", StateSpec()) is not None and state.store.read("n", "k") == 1
        assert state.operator_store.list_state("l", StateSpec()) == [1]
    assert await CheckpointStore(root, "another job").latest() is None
    assert await store.next_id() == 2


async def test_only_the_retained_stay(root: str) -> None:
    store = CheckpointStore(root, "job", retained=2)
    for n in (1, 2, 3, 4):
        await write(store, n)
        await store.tidy()
    assert [n for n, _ in await store.folders()] == [3, 4]
    again = CheckpointStore(root, "job", retained=2)  # another run goes on from there
    await write(again, 5, job="j2")
    await again.tidy()
    assert [n for n, _ in await store.folders()] == [4, 5]
    await again.delete_all()
    assert await store.folders() == []


async def test_what_is_being_written_while_another_one_completes_is_no_garbage(tmp_path: Path) -> None:
    await write(CheckpointStore(str(tmp_path), "job"), 1, job="crashed", whole=False)
    store = CheckpointStore(str(tmp_path), "job")
    assert await store.next_id() == 2
    await write(store, 2, whole=False)  # its parts are there, its manifest is not yet
    await write(store, 3)
    await store.tidy()
    assert [n for n, _ in await store.folders()] == [2, 3]


async def test_what_was_not_completed_does_not_count(root: str) -> None:
    """A crash after one subtask has written its part, in the very first epoch and later."""
    store = CheckpointStore(root, "job")
    folder = await write(store, 1, whole=False)
    assert await CheckpointStore(root, "job").latest() is None
    with pytest.raises(CheckpointException, match="no whole checkpoint: it was never completed, no MANIFEST"):
        await open_checkpoint(f"{store.location}/{folder}")
    with pytest.raises(CheckpointException, match="there is nothing"):
        await open_checkpoint(f"{store.location}/nonsense")
    again = CheckpointStore(root, "job")
    assert await again.next_id() == 2
    await write(again, 2)
    found = await again.latest()
    assert found is not None and found.id == 2
    await again.tidy()
    assert [n for n, _ in await again.folders()] == [2]


DAMAGE = {
    "a byte of a part": (lambda folder: next(folder.glob("a-*.state")), lambda d: d[:-3] + b"X" + d[-2:], "corrupt"),
    "half of a part": (lambda folder: next(folder.glob("a-*.state")), lambda d: d[: len(d) // 2], "is torn"),
    "no part": (lambda folder: next(folder.glob("a-*.state")), None, "cannot be read"),
    "half of the manifest": (lambda folder: folder / MANIFEST, lambda d: d[: len(d) // 2], "torn or corrupt"),
    "empty manifest": (lambda folder: folder / MANIFEST, lambda d: b"", "torn"),
    "a byte of the manifest": (lambda folder: folder / MANIFEST, lambda d: d.replace(b'"job"', b'"jab"'), "corrupt"),
    "a later format": (
        lambda folder: folder / MANIFEST,
        lambda d: d.replace(b"checkpoint 1 ", b"checkpoint 9 ", 1),
        "format 9, of a later version",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_one_is_named_and_the_one_before_used(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    pick, change, message = DAMAGE[damage]
    store = CheckpointStore(str(tmp_path), "job", retained=3)
    await write(store, 1)
    await write(store, 2)
    folder = tmp_path / folder_name("job") / checkpoint_folder(2, "j1")
    target = pick(folder)
    if change is None:
        target.unlink()
    else:
        target.write_bytes(change(target.read_bytes()))
    with pytest.raises(CheckpointException, match=message):
        await open_checkpoint(str(folder))
    with caplog.at_level(logging.WARNING):
        found = await CheckpointStore(str(tmp_path), "job").latest()
    assert found is not None and found.id == 1
    assert str(folder) in caplog.text and message in caplog.text
    # Where none is left that can be used, nothing starts from nothing.
    await drop(store.files, checkpoint_folder(1, "j1"))
    with pytest.raises(CheckpointException, match=r"no checkpoint in .* can be used.*restore=None"):
        await CheckpointStore(str(tmp_path), "job").latest()


async def test_two_runs_never_write_over_each_other(tmp_path: Path) -> None:
    """An old process is still there when the new one starts."""
    one, two = CheckpointStore(str(tmp_path), "job"), CheckpointStore(str(tmp_path), "job")
    await write(one, 1, job="aaaaaa")
    await one.tidy()
    await two.latest()
    await write(two, 2, job="bbbbbb")
    await two.tidy()
    await write(one, 2, job="aaaaaa")
    await one.tidy()
    found = await two.latest()
    assert found is not None and found.id == 2
    assert len(await two.folders()) == 2


async def test_a_part_that_cannot_be_written_is_the_checkpoints_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = CheckpointStore(str(tmp_path / "file"), "job")
    with pytest.raises(CheckpointException, match="cannot be written"):
        await write(store, 1)


async def test_deleting_never_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    await write(store, 1)
    await write(store, 2)

    def refuse(name: str) -> None:
        raise OSError("no permission")

    store.files.delete = refuse  # type: ignore[method-assign]
    await store.tidy()
    assert "could not be deleted: no permission" in caplog.text


async def test_savepoints_are_left_alone(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    elsewhere = LocalFiles(tmp_path / "sp")
    folder = savepoint_folder(7, "j1xxxxxxxx")
    part = await write_part(elsewhere, folder, "a", await snapshot(7))
    manifest = Manifest(
        checkpoint_id=7,
        kind="savepoint",
        job_name="job",
        job_id="j1",
        timestamp=0,
        completed=0,
        operators=[operator_entry("a", "op", 1, 128, [part])],
    )
    location = await publish(elsewhere, folder, manifest)
    await store.delete_all()
    found = await open_checkpoint(location)
    assert found.manifest.kind == "savepoint" and value(found.operators["a"]) == 7


async def test_a_missing_part_of_an_operator(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    part = await write_part(store.files, "chk-1-x", "a", await snapshot(1, 0, 2))
    manifest = Manifest(
        checkpoint_id=1,
        job_name="j",
        job_id="j",
        timestamp=0,
        completed=0,
        operators=[operator_entry("a", "op", 2, 128, [part])],
    )
    location = await publish(store.files, "chk-1-x", manifest)
    with pytest.raises(CheckpointException, match="operator 'a' has 1 of 2 parts"):
        await open_checkpoint(location)


async def test_files_of_state_are_recognised() -> None:
    data = b"".join(split_file(await snapshot(1)))

    def read(start: int, length: int) -> bytes:
        return data[start : start + length]

    assert join_file(read, len(data), "x").checkpoint_id == 1
    assert join_file(read, len(data), "x", whole=False).checkpoint_id == 1
    with pytest.raises(CheckpointException, match="no file of state"):
        join_file(lambda start, length: b"something else"[start : start + length], 14, "x")
    with pytest.raises(CheckpointException, match="cannot be read"):
        join_file(lambda start, length: data[:30][start : start + length], 30, "x")


def test_places() -> None:
    assert isinstance(files_at("/a/b"), LocalFiles)
    assert isinstance(files_at("file:///a/b"), LocalFiles)
    assert files_at("file:///a%20b").location == "file:///a%20b"
    assert isinstance(files_at("memory://x"), FsspecFiles)
    with pytest.raises(ValidationException, match="is empty"):
        files_at("")
    with pytest.raises(ValidationException, match="cannot be opened"):
        files_at("nosuchprotocol://x")


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(ValidationException, match=r'pip install "streamline\[fsspec\]"'):
        files_at("s3://bucket/x")


def test_folders_of_jobs() -> None:
    assert folder_name("my job/1") != folder_name("my job-1")
    assert folder_name("my job/1").startswith("my-job-1-")
    assert os.sep not in folder_name("../../x") and not folder_name("...").startswith(".")


# -- mapping -------------------------------------------------------------------------------------------------------


async def test_matched_by_uid(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    checkpoint = await open_checkpoint(await write(store, 1))
    both = [Target("b", "op b", 3, 128), Target("a", "op a", 1, 256), Target("c", "op c", 1, 128)]
    mapped = match(checkpoint, both)
    assert set(mapped.operators) == {"a", "b"}
    assert mapped.report == [
        "a: restored state of 'op a', key groups 128 -> 256",
        "b: restored state of 'op b', parallelism 1 -> 3",
        "c: new, starts without state (op c)",
    ]


async def test_state_that_nobody_takes(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    checkpoint = await open_checkpoint(await write(store, 1))
    program = [Target("a", "op a", 1, 128), Target("x", "op x", 1, 128)]
    with pytest.raises(CheckpointException) as e:
        match(checkpoint, program)
    text = str(e.value)
    assert text.startswith("Failed to rollback to checkpoint/savepoint file:")
    assert "nobody takes the state of 'b' (op b)" in text and "no state there for 'x'" in text
    assert match(checkpoint, program, True).report[-1] == "b: dropped, no such operator any more (op b)"
