"""The RocksDB backend: its mappings are dicts, its snapshots cuts, and what is unchanged is not written again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from streamline._core.changes import Row, RowKind
from streamline._core.declare import StateSpec
from streamline._state.classes import Classes
from streamline._state.files import LocalFiles
from streamline._state.format import Manifest
from streamline._state.rocks import RocksBackend, local_folder
from streamline._state.rows import RowCodec
from streamline._state.store import (
    Checkpoint,
    CheckpointStore,
    checkpoint_folder,
    open_checkpoint,
    operator_entry,
    publish,
    write_part,
)
from streamline._state.subtask import SubtaskState
from streamline.errors import CheckpointException, ValidationException
from streamline.state import MapStateDescriptor, ValueStateDescriptor
from tests._state.backends import Backends

pytest.importorskip("rocksdict")

KEYS = st.integers(0, 6)


class Mapping(RuleBasedStateMachine):
    """A flat table against a dict, written back and let go of at any time."""

    folder: Path

    @initialize()
    def start(self) -> None:
        self.backend = RocksBackend(local_folder(None), 1, 1)
        self.table = self.backend.table("t", StateSpec(list, copy=list.copy))
        self.model: dict[Any, list[int]] = {}

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.backend.close()

    @rule(key=KEYS, value=st.integers())
    def put(self, key: int, value: int) -> None:
        self.table.data[key] = [value]
        self.model[key] = [value]

    @rule(key=KEYS, value=st.integers())
    def change_in_place(self, key: int, value: int) -> None:
        found, expected = self.table.data.get(key), self.model.get(key)
        assert found == expected
        if found is not None and expected is not None:
            found.append(value)
            expected.append(value)

    @rule(key=KEYS, value=st.integers())
    def setdefault(self, key: int, value: int) -> None:
        assert self.table.data.setdefault(key, [value]) == self.model.setdefault(key, [value])

    @rule(key=KEYS)
    def pop(self, key: int) -> None:
        assert self.table.data.pop(key, None) == self.model.pop(key, None)

    @rule()
    def clear(self) -> None:
        self.table.data.clear()
        self.model.clear()

    @rule()
    def settle(self) -> None:
        self.backend.settle()

    @rule()
    def shrink(self) -> None:
        self.backend.settle()
        self.table.data.shrink()

    @rule()
    def hold(self) -> None:
        self.backend.settle()
        if self.backend.database._held is None:
            self.backend.database.hold()

    @rule(limit=st.integers(1, 5))
    def release(self, limit: int) -> None:
        self.backend.database.release(limit)

    @rule()
    def behaves_like_a_dict(self) -> None:
        data: Any = self.table.data
        assert dict(data.items()) == self.model and list(data.values()) == [v for _, v in data.items()]
        assert len(data) == len(self.model) and bool(data) == bool(self.model)
        assert sorted(data) == sorted(self.model)
        assert [k in data for k in range(7)] == [k in self.model for k in range(7)]
        assert data == self.model
        for missing in set(range(7)) - set(self.model):
            with pytest.raises(KeyError):
                data[missing]
            with pytest.raises(KeyError):
                del data[missing]


class Nested(RuleBasedStateMachine):
    """A namespaced table against a dict of dicts, as operators use it: a dict is put in and written to for a while."""

    @initialize()
    def start(self) -> None:
        self.backend = RocksBackend(local_folder(None), 1, 1)
        self.table = self.backend.table("t", StateSpec(list, namespaced=True, copy=list.copy))
        self.model: dict[int, dict[int, list[int]]] = {}

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.backend.close()

    @rule(space=st.integers(0, 3), keys=st.lists(KEYS, min_size=1), value=st.integers())
    def add(self, space: int, keys: list[int], value: int) -> None:
        inner = self.table.data.get(space)
        if inner is None:
            self.table.data[space] = inner = {}
        for key in keys:
            found = inner.get(key)
            if found is None:
                inner[key] = [value]
            else:
                found.append(value)
            self.model.setdefault(space, {}).setdefault(key, []).append(value)

    @rule(space=st.integers(0, 3), key=KEYS)
    def remove(self, space: int, key: int) -> None:
        if space in self.model:
            inner = self.table.data[space]
            assert inner.pop(key, None) == self.model[space].pop(key, None)
            if not self.model[space]:
                assert not inner
                del self.table.data[space], self.model[space]

    @rule(space=st.integers(0, 3))
    def drop(self, space: int) -> None:
        assert self.table.data.pop(space, None) == self.model.pop(space, None)

    @rule(old=st.integers(0, 3), new=st.integers(0, 3))
    def move(self, old: int, new: int) -> None:
        if old in self.model and old != new:
            self.table.data[new] = self.table.data.pop(old)
            self.model[new] = self.model.pop(old)

    @rule()
    def settle(self) -> None:
        self.backend.settle()

    @rule()
    def shrink(self) -> None:
        self.backend.settle()
        self.table.data.shrink()

    @rule()
    def hold(self) -> None:
        self.backend.settle()
        if self.backend.database._held is None:
            self.backend.database.hold()

    @rule(limit=st.integers(1, 5))
    def release(self, limit: int) -> None:
        self.backend.database.release(limit)

    @rule()
    def behaves_like_a_dict(self) -> None:
        data: Any = self.table.data
        assert {s: dict(inner.items()) for s, inner in data.items()} == self.model
        assert sorted(data) == sorted(self.model) and len(data) == len(self.model) and bool(data) == bool(self.model)
        assert [s in data for s in range(4)] == [s in self.model for s in range(4)]


TestMapping = Mapping.TestCase
TestNested = Nested.TestCase


def test_what_is_in_use_stays_in_memory(tmp_path: Path) -> None:
    """Fifty keys that come again and again among many that come once are not looked up a second time."""
    backend = RocksBackend(local_folder(str(tmp_path)), dirty=10, held=100)
    data = backend.table("t", StateSpec(int)).data
    asked: list[bytes] = []
    get = backend.database.get
    backend.database.get = lambda key: asked.append(key) or get(key)  # type: ignore[method-assign, func-returns-value]
    codec = RowCodec(Classes())
    often = {b"\x00\x00" + codec.encode_key(key) for key in range(50)}
    for turn in range(40):
        for key in [*range(50), *range(1000 + 10 * turn, 1010 + 10 * turn)]:
            data[key] = data.get(key, 0) + 1
            backend.maintain()
            assert len(data._cache) + len(data._old) <= 2 * (100 + 20)
    assert [data[key] for key in range(50)] == [40] * 50
    assert len([key for key in asked if key in often]) == 50
    assert len(asked) == 50 + 400
    backend.close()


async def test_rows_written_while_files_are_linked_are_not_in_the_cut(make: Any) -> None:
    """Held writes are seen by reads, go to the database later, and a delete among them stays one."""
    state = make()
    data = state.store.table("t", StateSpec(int)).data
    data.update({key: key for key in range(100)})
    capture = state.capture(1, True)
    database = state.backend.database
    assert database._held == {}
    data[0] = -1
    del data[1]
    data[200] = 200
    state.backend.settle()
    assert len(database._held) == 3
    state.backend.tables["t"].data.shrink()
    state.backend.tables["t"].data.shrink()
    assert (data.get(0), data.get(1), data.get(200), data.get(2)) == (-1, None, 200, 2)
    await capture.encode()
    assert database._held is None
    assert dict(data.items()) == {0: -1, **{key: key for key in range(2, 100)}, 200: 200}


# -- keys and values -----------------------------------------------------------------------------------------------


class Level(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    a: int
    b: int


class Key(msgspec.Struct, frozen=True):
    price: Decimal
    name: str


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (1, Decimal("1.00")),
        (1, Level.LOW),
        (0.5, Decimal("0.50")),
        (Decimal("1.10"), Decimal("1.1")),
        ((1, "a"), Pair(1, "a")),  # type: ignore[arg-type]
        ((1, 2.0), (1.0, 2)),
        (frozenset([1, 2, 3]), frozenset([3.0, 2, True])),
        (Key(Decimal("1.0"), "x"), Key(Decimal("1.00"), "x")),
        (Row(1, 2.0), Row(1.0, 2)),
        (10**30, float(10**30)),
    ],
)
def test_equal_keys_are_one(one: Any, other: Any) -> None:
    codec = RowCodec(Classes())
    if one != other:
        assert codec.encode_key(one) != codec.encode_key(other)
        return
    assert codec.encode_key(one) == codec.encode_key(other)
    assert codec.decode(codec.encode_key(one)) == one


def test_different_keys_are_not() -> None:
    codec = RowCodec(Classes())
    keys: list[Any] = [1, "1", b"1", None, (1,), ("1",), ((1,),), 1.5, Row(1), Row.of_kind(RowKind.DELETE, 1), 2**70]
    assert len({codec.encode_key(k) for k in keys}) == len(keys)


scalars = st.one_of(st.integers(), st.text(st.characters(exclude_categories=())), st.floats(allow_nan=False), st.none())


@given(st.recursive(scalars, lambda s: st.one_of(st.lists(s), st.lists(s).map(tuple), st.dictionaries(scalars, s))))
def test_values_come_back(value: Any) -> None:
    codec = RowCodec(Classes())
    found = codec.decode(codec.encode(value))
    assert found == value and type(found) is type(value)


def test_classes_are_written_once() -> None:
    codec = RowCodec(Classes())
    small = [codec.encode(Key(Decimal(i), "x")) for i in range(10)]
    assert len(codec.descriptions) == 1 and max(map(len, small)) < 40
    other = RowCodec(Classes())
    assert other.learn(codec.descriptions)
    assert other.decode(small[3]) == Key(Decimal(3), "x")
    other.encode(Pair(1, 2))
    assert codec.learn(other.descriptions) and len(codec.descriptions) == 2
    third = RowCodec(Classes())
    third.encode(Pair(1, 2))
    assert not third.learn(codec.descriptions)


# -- snapshots -----------------------------------------------------------------------------------------------------


def fill(state: SubtaskState, keys: range, value: int = 0) -> None:
    h = state.store.handle("n", ValueStateDescriptor("n", int).spec)
    m = state.store.handle("m", MapStateDescriptor("m", str, int).spec)
    for key in keys:
        state.store.key = key
        h.update(key + value)
        m.put("x", value)
        if key % 100 == 0:
            state.maintain()


def content(states: list[SubtaskState]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for state in states:
        h = state.store.handle("n", ValueStateDescriptor("n", int).spec)
        m = state.store.handle("m", MapStateDescriptor("m", str, int).spec)
        for key in list(state.store.keys("n")):
            state.store.key = key
            assert key not in found
            found[key] = (h.value(), dict(m.items()))
    return found


class Taker:
    """Takes incremental checkpoints of one operator, as a job does."""

    def __init__(self, root: Path, retained: int = 1, job: str = "j1") -> None:
        self.store = CheckpointStore(str(root), "job", retained)
        self.job = job

    async def take(self, n: int, state: SubtaskState, whole: bool = True) -> Checkpoint | None:
        snapshot = await state.capture(n, incremental=True).encode(0)
        folder = checkpoint_folder(n, self.job)
        part = await write_part(self.store.files, folder, "op", snapshot)
        self.store.note_uploaded(n, part.shared)
        if not whole:
            return None
        manifest = Manifest(
            checkpoint_id=n,
            job_name="job",
            job_id=self.job,
            timestamp=n,
            completed=n,
            operators=[operator_entry("op", "op", 1, 128, [part])],
        )
        location = await publish(self.store.files, folder, manifest)
        self.store.note_complete(folder, manifest)
        await self.store.tidy()
        return await open_checkpoint(location)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Backends]:
    backends = Backends("rocksdb", tmp_path / "local")
    yield backends
    backends.close()


def shared(root: Path) -> set[str]:
    return {p.name for p in root.glob("*/shared/*")}


async def test_only_new_files_are_written(make: Any, tmp_path: Path) -> None:
    root = tmp_path / "chk"
    taker, state = Taker(root), make(dirty=500, held=10_000)
    fill(state, range(3000))
    assert await taker.take(1, state) is not None
    first = shared(root)
    assert first
    fill(state, range(3000, 3100))
    second_checkpoint = await taker.take(2, state)
    assert second_checkpoint is not None
    assert first <= shared(root)  # nothing of it was compacted away yet, nothing written again
    assert len(shared(root)) == len(first) + 1
    same = make()
    await same.restore(second_checkpoint.operators["op"].snapshots)
    assert content([same]) == {k: (k, {"x": 0}) for k in range(3100)}
    # The restored database goes on with the same files.
    fill(same, range(1))
    assert await Taker(root, job="j2").take(3, same) is not None
    assert len(shared(root)) == len(first) + 2


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("parallelism", [1, 3])
async def test_restored_anywhere(make: Any, tmp_path: Path, kind: str, parallelism: int) -> None:
    """Incremental and full ones, at another parallelism, on the other backend."""
    state = make(dirty=50, held=200)
    fill(state, range(300))
    state.timers.register_event_time(5, 10)
    full = await state.capture(1).encode()
    incremental = await Taker(tmp_path / "chk").take(2, state)
    assert incremental is not None
    for snapshots in ([full], incremental.operators["op"].snapshots):
        states = [make(i, parallelism, kind=kind) for i in range(parallelism)]
        for s in states:
            await s.restore(snapshots)
        assert content(states) == {k: (k, {"x": 0}) for k in range(300)}
        assert [t.key for s in states for t in s.due_event_timers(100)] == [5]
        # and back
        parts = [await s.capture(3).encode() for s in states]
        whole = make(kind="rocksdb")
        await whole.restore(parts)
        assert content([whole]) == {k: (k, {"x": 0}) for k in range(300)}


async def test_writes_after_the_capture_are_not_in_it(make: Any, tmp_path: Path) -> None:
    for incremental in (False, True):
        state = make()
        fill(state, range(200))
        capture = state.capture(1, incremental)
        fill(state, range(100, 400), value=1)
        encoding = asyncio.create_task(capture.encode(0))
        for i in range(400, 600):
            fill(state, range(i, i + 1))
            await asyncio.sleep(0)
        snapshot = await encoding
        files = LocalFiles(tmp_path / str(incremental))
        await write_part(files, "chk", "op", snapshot)
        snapshot.fetch = lambda file, target, files=files: files.give(f"shared/{file.name}", target)
        other = make()
        await other.restore([snapshot])
        assert content([other]) == {k: (k, {"x": 0}) for k in range(200)}
        assert len(content([state])) == 600


async def test_what_aborted_checkpoints_leave_is_deleted(make: Any, tmp_path: Path) -> None:
    root = tmp_path / "chk"
    taker, state = Taker(root), make(dirty=500, held=10_000)
    for n in range(1, 12):
        fill(state, range(500), value=n)
        await taker.take(n, state, whole=n % 2 == 0)
    fill(state, range(500), value=20)
    last = await taker.take(12, state)
    assert last is not None
    needed = {f.name for s in last.operators["op"].snapshots for f in s.files.values()}
    assert shared(root) == needed
    await taker.store.delete_all()
    assert shared(root) == set()


async def test_a_damaged_shared_file_is_named(make: Any, tmp_path: Path) -> None:
    root = tmp_path / "chk"
    taker, state = Taker(root, retained=2), make(dirty=500, held=10_000)
    fill(state, range(500))
    assert await taker.take(1, state)
    before = shared(root)
    fill(state, range(500, 1000))
    assert await taker.take(2, state)
    (new,) = shared(root) - before
    path = next(root.glob(f"*/shared/{new}"))
    for damage, message in (
        (path.read_bytes()[:-5], "torn"),
        (b"x" * path.stat().st_size, "corrupt"),
        (None, "cannot"),
    ):
        if damage is None:
            path.unlink()
        else:
            path.unlink()
            path.write_bytes(damage)
        found = await CheckpointStore(str(root), "job").latest()
        assert found is not None and found.id == 1
        with pytest.raises(CheckpointException, match=message):
            await open_checkpoint(str(next(root.glob("*/chk-2-*"))))


async def test_another_capture_while_files_are_made(make: Any) -> None:
    state = make()
    fill(state, range(100))
    lost, kept = state.capture(1, True), state.capture(2, True)
    with pytest.raises(CheckpointException, match="later checkpoint"):
        await lost.encode()
    assert (await kept.encode()).files
    fill(state, range(100, 110))
    assert len(content([state])) == 110


async def test_cancelled_and_discarded(make: Any) -> None:
    state = make()
    fill(state, range(100))
    for incremental in (False, True):
        task = asyncio.create_task(state.capture(1, incremental).encode(0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        state.capture(2, incremental).discard()
        fill(state, range(100), value=5)
        assert content([state]) == {k: (k + 5, {"x": 5}) for k in range(100)}
        fill(state, range(100))


def test_without_rocksdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rocksdict", None)
    backend = RocksBackend(local_folder(str(tmp_path)))
    with pytest.raises(ValidationException, match=r'pip install "streamline\[rocksdb\]"'):
        backend.table("t", StateSpec())
    backend.close()


def test_folders_of_dead_processes_are_deleted(tmp_path: Path) -> None:
    stale = tmp_path / "streamline-state-999999999-0-x"
    stale.mkdir()
    mine = local_folder(str(tmp_path))
    assert mine.exists() and not stale.exists()
    assert local_folder(str(tmp_path)).exists() and mine.exists()
