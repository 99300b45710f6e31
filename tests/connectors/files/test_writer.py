"""Each record once in committed files, wherever the writer dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamline.abc import Batch
from streamline.connectors.files import Encoder, FileSink, OutputFileConfig, RollingPolicy
from streamline.errors import StreamlineError
from streamline.testing import VirtualClock
from tests.connectors.contexts import Context
from tests.connectors.files.crashes import Job

SCRIPT = [
    ("write", 3),
    ("checkpoint", "complete"),
    ("write", 2),
    ("write", 4),
    ("checkpoint", "fails"),
    ("write", 1),
    ("checkpoint", "unheard"),
    ("write", 2),
    ("checkpoint", "complete"),
    ("write", 2),
]


def job(folder: Path, total: int = 17, **arguments: Any) -> Job:
    arguments.setdefault("rolling_policy", RollingPolicy(part_size=8))
    return Job(lambda: FileSink(path=folder, **arguments), folder, total)


def listed(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def assert_exactly_once(it: Job) -> None:
    assert Counter(it.committed()) == Counter(range(it.total))
    if not it.fresh_crashes:
        assert it.left() == []
        assert not (it.folder / ".staging").exists()


async def test_without_a_crash(tmp_path: Path) -> None:
    it = job(tmp_path)
    assert await it.run(1, SCRIPT)
    assert_exactly_once(it)
    names = listed(tmp_path)
    assert all(n.startswith("part-0-") and n.endswith(".jsonl") for n in names)
    assert len(names) > 4  # eight bytes are four numbers


@pytest.mark.parametrize("parallelism", [(1, 1), (2, 1), (1, 2)])
async def test_a_crash_at_every_call(tmp_path: Path, parallelism: tuple[int, int]) -> None:
    before, after = parallelism
    every = 1 if settings().max_examples > 1000 else 5
    at = 1 - every
    while True:
        at += every
        folder = tmp_path / str(at)
        it = job(folder, bucket_assigner=lambda n: f"b{n % 2}")
        if await it.run(before, SCRIPT, at):
            break
        done = 0 if it.checkpoint is None else it.checkpoint.position
        seen = it.committed()
        assert len(seen) == len(set(seen)) and all(n < done for n in seen), f"crash at {at}"
        assert await it.run(after, [("write", 1), ("checkpoint", "complete")])
        assert_exactly_once(it)
    assert at > 100


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 6)),
    st.tuples(st.just("checkpoint"), st.sampled_from(["complete", "complete", "fails", "unheard"])),
    st.tuples(st.just("wait"), st.sampled_from(["1 s", "70 s"])),
)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.lists(STEPS, max_size=8), st.integers(1, 120)), max_size=5),
    st.integers(1, 3),
    st.sampled_from([None, lambda n: f"b{n % 3}"]),
    st.integers(0, 1 << 60),
)
async def test_crashes_at_random(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[Any], last: int, buckets: Any, _: int
) -> None:
    it = job(tmp_path_factory.mktemp("out"), total=25, bucket_assigner=buckets)
    for parallelism, script, at in crashes:
        if await it.run(parallelism, script, at):
            break
        done = 0 if it.checkpoint is None else it.checkpoint.position
        seen = it.committed()
        assert len(seen) == len(set(seen)) and all(n < done for n in seen)
    else:
        assert await it.run(last, [])
    assert_exactly_once(it)


# -- one writer, step by step ------------------------------------------------------------------------------------------


class Writing:
    def __init__(self, folder: Path, clock: VirtualClock | None = None, **arguments: Any) -> None:
        self.folder = folder
        self.context = Context(clock or VirtualClock(autojump=False))
        self.writer: Any = FileSink(path=folder, **arguments).writer()

    async def __aenter__(self) -> Writing:
        await self.writer.open(self.context)
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.writer.close()

    async def write(self, *values: Any, timestamps: list[int] | None = None) -> None:
        await self.writer.write(Batch(list(values), timestamps))

    async def commit(self, n: int = 1) -> list[str]:
        """Take a checkpoint; gives what is in the folder then: the contents of the files."""
        await self.writer.flush()
        await self.writer.commit(await self.writer.prepare_commit(n))
        return self.contents()

    def files(self) -> list[Path]:
        shown = [p for p in self.folder.rglob("*") if p.is_file() and ".staging" not in p.parts]
        return sorted(shown, key=lambda p: (str(p.parent), int(p.stem.rpartition("-")[2])))

    def contents(self) -> list[str]:
        return [p.read_text() for p in self.files()]


async def test_nothing_is_seen_before_the_commit(tmp_path: Path) -> None:
    async with Writing(tmp_path) as it:
        await it.write(1, 2)
        await it.writer.flush()
        committables = await it.writer.prepare_commit(1)
        assert it.contents() == []
        await it.writer.commit(committables)
        assert it.contents() == ["1\n2\n"]
        await it.writer.commit(committables)  # a second time has no effect
        assert it.contents() == ["1\n2\n"]
        assert await it.commit(2) == ["1\n2\n"]  # nothing was written: no empty file
        assert it.context.count("numRecordsSend") == 2
        assert it.context.count("numFilesCommitted") == 1
    assert listed(tmp_path) == [it.files()[0].name]


async def test_what_was_not_committed_is_gone_after_closing(tmp_path: Path) -> None:
    async with Writing(tmp_path) as it:
        await it.write(1)
    assert listed(tmp_path) == []


async def test_what_a_checkpoint_may_ask_for_stays_and_can_be_aborted(tmp_path: Path) -> None:
    async with Writing(tmp_path) as it:
        await it.write(1)
        committables = await it.writer.prepare_commit(7)
    assert it.contents() == [] and (tmp_path / ".staging").exists()
    async with Writing(tmp_path) as it:
        await it.writer.abort(committables)
        await it.writer.abort(committables)
        await it.writer.recover([], [{"checkpoint": 7}])
    assert listed(tmp_path) == []


async def test_a_file_that_a_reader_has_taken_away_is_not_missed_by_a_restored_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Writing(tmp_path) as it:
        await it.write(1)
        committables = await it.writer.prepare_commit(1)
        await it.writer.commit(committables)
        it.files()[0].unlink()
        with pytest.raises(StreamlineError, match=r"cannot be committed: .*/0\.1 is gone"):
            await it.writer.commit(committables)
    async with Writing(tmp_path) as it:
        await it.writer.recover(committables, [{"checkpoint": 1}])
        assert it.context.count("numFilesMissing") == 1
    assert "moved away since" in caplog.text


async def test_a_run_that_is_alive_is_left_alone(tmp_path: Path) -> None:
    async with Writing(tmp_path) as one:
        await one.write(1)
        await one.writer.flush()
        pending = await one.writer.prepare_commit(5)
        await one.write(2)
        async with Writing(tmp_path) as other:  # the same job once more
            await other.writer.recover([], [{"checkpoint": 1}])
            assert await other.commit(2) == []
        await one.writer.commit(pending)
        assert await one.commit(6) == ["1\n", "2\n"]


@pytest.mark.parametrize("size", [1, 4, 5, 1000])
async def test_rolling_by_size(tmp_path: Path, size: int) -> None:
    async with Writing(tmp_path, rolling_policy=RollingPolicy(part_size=size), encoder=str) as it:
        await it.write(*range(6))
        await it.write(*range(6, 10))
        found = await it.commit()
    assert "".join(found) == "".join(f"{n}\n" for n in range(10))
    per_file = -(-size // 2)  # records of two bytes, until the size is reached
    assert [c.count("\n") for c in found] == [per_file] * (10 // per_file) + [10 % per_file] * (10 % per_file > 0)


async def test_rolling_by_time_and_inactivity(tmp_path: Path) -> None:
    clock = VirtualClock(autojump=False)
    policy = RollingPolicy(rollover_interval=10_000, inactivity_interval=4_000)
    async with Writing(tmp_path, clock, rolling_policy=policy) as it:
        for n in range(5):  # at 0, 3, 6, 9 and 12 s
            await it.write(n)
            await clock.advance("3 s")
        await clock.advance("1 s")  # 4 s after the last one
        await it.write(5)
        assert await it.commit() == ["0\n1\n2\n3\n", "4\n", "5\n"]


async def test_files_of_other_folders_are_closed_at_the_check(tmp_path: Path) -> None:
    clock = VirtualClock(autojump=False)
    async with Writing(tmp_path, clock, bucket_assigner=str, bucket_check_interval="5 min") as it:
        await it.write("a")
        await clock.advance("4 min")
        await it.write("b")
        assert list(it.writer._parts) == ["a", "b"]
        await clock.advance("1 min")
        await it.write("c")
        assert list(it.writer._parts) == ["c"]
        assert await it.commit() == ['"a"\n', '"b"\n', '"c"\n']


async def test_not_too_many_files_are_open(tmp_path: Path) -> None:
    async with Writing(tmp_path, bucket_assigner=lambda n: f"b{n}") as it:
        await it.write(*range(300))
        assert len(it.writer._parts) == 128
        assert sorted(await it.commit()) == sorted(f"{n}\n" for n in range(300))


async def test_much_data_does_not_gather_in_memory(tmp_path: Path) -> None:
    async with Writing(tmp_path, encoder=Encoder.simple_string_encoder()) as it:
        for _ in range(20):
            await it.write(*["x" * 1000] * 100)
            assert sum(p.gathered for p in it.writer._parts.values()) < 512 << 10
        (content,) = await it.commit()
        assert len(content) == 2000 * 1001


async def test_headers_stand_in_every_file(tmp_path: Path) -> None:
    encoder = Encoder.csv(columns=["n", "text"], header=True)
    async with Writing(tmp_path, encoder=encoder, rolling_policy=RollingPolicy(part_size=14)) as it:
        await it.write({"n": 1, "text": "a,b"}, {"n": 2, "text": None})
        await it.write({"n": 3, "text": 'say "x"'})
        assert await it.commit() == ['n,text\n1,"a,b"\n', 'n,text\n2,\n3,"say ""x"""\n']
        assert all(p.suffix == ".csv" for p in it.files())


async def test_names_are_as_asked_for(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("sales").with_part_suffix(".log").build()
    async with Writing(tmp_path, output_file_config=config) as it:
        await it.write(1)
        await it.commit()
        assert [p.name[:8] + p.suffix for p in it.files()] == ["sales-0-.log"]


async def test_an_encoder_that_fails_names_the_value(tmp_path: Path) -> None:
    async with Writing(tmp_path, encoder=lambda v: f"{1 / v}") as it:
        with pytest.raises(ZeroDivisionError) as e:
            await it.write(1, 0, 2)
    assert e.value.__notes__ == ["while it was encoded: 0"]


@pytest.mark.parametrize("bucket", ["../x", "/x", "a//b", "a/./b", ".hidden", "a/.hidden"])
async def test_folders_outside_of_the_sinks(tmp_path: Path, bucket: str) -> None:
    async with Writing(tmp_path, bucket_assigner=lambda v: bucket) as it:
        with pytest.raises(StreamlineError, match="a folder below the sink's is needed"):
            await it.write(1)


async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamlineError, match="files cannot be written to"):
        async with Writing(tmp_path / "file"):
            pass
