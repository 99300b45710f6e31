"""State that is larger than memory may hold: written, saved, restored and read with a bounded part of it there."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamline._state import rocks, spill, store
from streamline._state.files import files_at
from streamline._state.format import Manifest
from streamline._state.snapshot import SubtaskSnapshot
from streamline._state.spill import Blocks, Spill, block_at
from streamline._state.store import (
    CheckpointStore,
    checkpoint_folder,
    open_checkpoint,
    operator_entry,
    publish,
    write_part,
)
from streamline._state.subtask import SubtaskState
from streamline.state import ValueStateDescriptor
from tests._state.backends import Backends

pytest.importorskip("rocksdict")

KEYS, SIZE = 12_000, 2_000
#: Of 24 MB.
ALLOWED = 8 << 20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room everywhere, as if the state were a hundred times as large."""
    monkeypatch.setattr(rocks, "_DIRTY_BYTES", 256 << 10)
    monkeypatch.setattr(rocks, "_HELD_BYTES", 1 << 20)
    monkeypatch.setattr(spill.Spill.__init__, "__defaults__", (1 << 20,))
    monkeypatch.setattr(store, "_WHOLE", 1 << 20)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Backends]:
    backends = Backends("rocksdb", tmp_path / "local")
    yield backends
    backends.close()
    assert not list((tmp_path / "local").iterdir())


class Peak:
    """`with Peak(): …` fails where Python had more in memory at any time than is allowed."""

    def __enter__(self) -> None:
        gc.collect()
        tracemalloc.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if kind is None:
            assert peak < ALLOWED, f"{peak >> 20} MB"


def value(key: int) -> bytes:
    return key.to_bytes(8, "big") * (SIZE // 8)


def write(state: SubtaskState) -> None:
    handle = state.store.handle("v", ValueStateDescriptor("v", bytes).spec)
    for key in range(KEYS):
        state.store.key = key
        handle.update(value(key))
        state.maintain()


def read(states: list[SubtaskState]) -> int:
    """Reads everything; gives how many keys there are."""
    found = 0
    for state in states:
        handle = state.store.handle("v", ValueStateDescriptor("v", bytes).spec)
        for key in list(state.store.keys("v")):
            state.store.key = key
            assert handle.value() == value(key)
            state.maintain()
            found += 1
    return found


async def save(root: Path, state: SubtaskState, incremental: bool) -> str:
    """A checkpoint of the state; gives its location."""
    folder, to = checkpoint_folder(1, "abcdef"), CheckpointStore(str(root), "job")
    part = await write_part(to.files, folder, "op", await state.capture(1, incremental).encode())
    entry = operator_entry("op", "op", 1, 128, [part])
    manifest = Manifest(checkpoint_id=1, job_name="job", job_id="abcdef", timestamp=0, completed=0, operators=[entry])
    return await publish(to.files, folder, manifest)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2])
async def test_only_a_part_of_it_is_in_memory(
    make: Backends, tmp_path: Path, incremental: bool, parallelism: int
) -> None:
    first = make(dirty=2000, held=50_000)
    with Peak():
        write(first)
    with Peak():
        location = await save(tmp_path / "checkpoints", first, incremental)
    states = [make(i, parallelism, dirty=2000, held=50_000) for i in range(parallelism)]
    with Peak():
        for state in states:
            checkpoint = await open_checkpoint(location)
            await state.restore(checkpoint.operators["op"].snapshots)
            del checkpoint
    with Peak():
        assert read(states) == KEYS


@pytest.mark.usefixtures("small")
def test_what_is_only_read_leaves_memory_too(make: Backends) -> None:
    state = make(dirty=2000, held=50_000)
    write(state)
    handle = state.store.handle("v", ValueStateDescriptor("v", bytes).spec)
    with Peak():
        for key in range(KEYS):
            state.store.key = key
            assert handle.value() is not None
            state.maintain()


def test_what_does_not_fit_goes_into_a_file_that_nobody_sees(tmp_path: Path) -> None:
    to = Spill(tmp_path / "here", room=10)
    blocks = Blocks(to.read)
    parts = [b"12345", b"6789", b"too much", b"x", b""]
    for part in parts:
        blocks.append(to.keep(part))
    assert list(blocks) == parts and blocks.lengths == [5, 4, 8, 1, 0]
    assert list(blocks[1:3]) == parts[1:3]
    assert list((tmp_path / "here").iterdir()) == []


async def test_blocks_come_one_at_a_time(tmp_path: Path) -> None:
    to = Spill(tmp_path, room=3)
    parts = [b"abc", b"def"]
    for blocks in (parts, Blocks(to.read, [to.keep(part) for part in parts])):
        assert [await block_at(blocks, i) for i in range(2)] == parts


@pytest.mark.usefixtures("small")
async def test_a_snapshot_that_is_kept_in_memory_is_taken_in(make: Backends) -> None:
    """Without a storage: the subtask that it came from may be gone when it is restored."""
    state = make(dirty=2000, held=50_000)
    write(state)
    snapshot: SubtaskSnapshot = await state.capture(1).encode()
    (table,) = [t for t in snapshot.tables if t.name == "v"]
    assert isinstance(table.blocks, Blocks) and snapshot.spilled and snapshot.size() > KEYS * SIZE
    snapshot.take_in()
    assert not snapshot.spilled
    make.close()
    again = make(dirty=2000, held=50_000)
    await again.restore([snapshot])
    assert read([again]) == KEYS


@pytest.mark.parametrize("place", ["directory", "fsspec"])
def test_a_piece_of_a_file_can_be_read(tmp_path: Path, place: str) -> None:
    if place == "fsspec":
        pytest.importorskip("fsspec")
    files = files_at(str(tmp_path) if place == "directory" else "memory://pieces")
    files.write("a/b", [b"0123", b"456789"])
    assert files.read_at("a/b", 3, 4) == b"3456" and files.read_at("a/b", 8, 10) == b"89"
    assert files.digest("a/b")[0] == 10
