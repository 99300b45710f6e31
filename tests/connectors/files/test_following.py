"""Files that are followed: new ones, growth up to the last line end, and files that turn into others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.connectors.files import CsvDeserializationSchema, FileChangedError, FileSource, SimpleStringSchema
from streamline.testing import VirtualClock
from tests.connectors.files.conftest import reading


def lines(path: Path, **arguments: Any) -> FileSource[str]:
    return FileSource(paths=path, format=SimpleStringSchema(), monitor_interval="1 s", **arguments)


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=12), max_size=12), st.integers(1, 9))
async def test_however_it_is_written_each_line_comes_once_and_whole(
    tmp_path: Path, writes: list[str], chunk: int
) -> None:
    path = tmp_path / "log"
    path.write_text("")
    clock, written = VirtualClock(autojump=False), ""
    async with reading(lines(path, _chunk_size=chunk), clock) as it:
        for text in writes:
            append(path, text)
            written += text
            await clock.advance("1 s")
            await it.drain()
            assert it.values == written.split("\n")[:-1]
        assert not it.reader.finished


async def test_what_grows_is_seen_at_the_interval(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb")
    clock = VirtualClock(autojump=False)
    async with reading(lines(path), clock) as it:
        assert await it.drain() == ["a"]
        append(path, "c\n")
        await clock.advance("999 ms")
        assert await it.drain() == ["a"]
        await clock.advance("1 ms")
        assert await it.drain() == ["a", "bc"]
        await clock.advance("20 s")  # nothing comes, nothing happens
        assert await it.drain() == ["a", "bc"]


async def test_a_restored_reader_follows_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\nc")
    async with reading(lines(path)) as it:
        await it.drain()
        positions = dict(it.reader.positions())
    append(path, "d\ne\n")
    async with reading(lines(path), positions=positions) as it:
        assert await it.drain() == ["cd", "e"]


async def test_a_header_that_comes_late(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("")
    clock = VirtualClock(autojump=False)
    schema = CsvDeserializationSchema(dict[str, str], header=True)
    async with reading(FileSource(paths=path, format=schema, monitor_interval=1000), clock) as it:
        for text in ("a,", "b\n1", ',"2\n', '3"\n'):
            assert await it.drain() == []
            append(path, text)
            await clock.advance(1000)
        assert await it.drain() == [{"a": "1", "b": "2\n3"}]


@pytest.mark.parametrize(
    ("again", "message"),
    [("x\n", "it was truncated, or replaced"), ("different\nand longer\n", "begins differently now")],
)
async def test_a_file_that_is_written_anew_is_an_error(tmp_path: Path, again: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text("first\nsecond\n")
    clock = VirtualClock(autojump=False)
    with pytest.raises(FileChangedError, match=message):
        async with reading(lines(path), clock) as it:
            await it.drain()
            path.write_text(again)
            await clock.advance("1 s")
            await it.drain()


async def test_a_file_that_is_rotated_away_and_made_anew_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\nsecond\n")
    clock = VirtualClock(autojump=False)
    with pytest.raises(FileChangedError, match="begins differently now: it was replaced by another one of this name"):
        async with reading(lines(path), clock) as it:
            await it.drain()
            os.rename(path, tmp_path / "log.1")
            path.write_text("third\n and it is longer\n")
            await clock.advance("1 s")
            await it.drain()


async def test_a_copy_that_takes_its_place_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\nsecond\n")
    clock = VirtualClock(autojump=False)
    async with reading(lines(path), clock) as it:
        await it.drain()
        (tmp_path / ".new").write_text("first\nsecond\nthird\n")
        os.rename(tmp_path / ".new", path)
        await clock.advance("1 s")
        assert await it.drain() == ["first", "second", "third"]


async def test_a_file_that_goes_away_has_ended_unless_in_the_middle_of_a_line(tmp_path: Path) -> None:
    for name, text in (("a", "1\n2\n"), ("b", "3\n4")):
        (tmp_path / name).write_text(text)
    clock = VirtualClock(autojump=False)
    with pytest.raises(FileChangedError, match=r"/b is gone, and ended in the middle of line 2, at byte 2"):
        async with reading(lines(tmp_path), clock) as it:
            await it.drain()
            (tmp_path / "a").unlink()
            await clock.advance("1 s")
            await it.drain()
            assert it.ended == {str(tmp_path / "a")}
            assert not it.reader.finished
            (tmp_path / "b").unlink()
            await clock.advance("1 s")
            await it.drain()


async def test_a_job_finds_new_files_and_each_has_a_watermark(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    class Event(msgspec.Struct):
        ts: int

    def write(name: str, *times: int) -> None:
        append(tmp_path / name, "".join(f'{{"ts":{t}}}\n' for t in times))

    write("a", 1000, 2000)
    virtual_clock.autojump = False
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e.ts)
    seen: list[int] = []
    source = FileSource(paths=tmp_path, value_type=Event, monitor_interval="10 s")
    env.from_source(source, strategy, "events").map(lambda e: seen.append(e.ts) or e).name("see").print()
    async with await env.execute_async("following") as job:
        await virtual_clock.advance("1 s")
        assert seen == [1000, 2000]
        assert (await job.metrics())["see"]["currentInputWatermark"] == 1999
        write("b", 1500)
        write("a", 9000)
        await virtual_clock.advance("12 s")
        assert sorted(seen) == [1000, 1500, 2000, 9000]
        # The new file is behind: the watermark stays where it was until it has caught up.
        write("b", 5000)
        await virtual_clock.advance("12 s")
        assert (await job.metrics())["see"]["currentInputWatermark"] == 4999


async def test_a_folder_that_is_empty_at_first(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    virtual_clock.autojump = False
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: int(line))
    env.from_source(lines(tmp_path), strategy, "lines").map(lambda line: line).name("see").print()
    async with await env.execute_async("following") as job:
        await virtual_clock.advance("5 s")
        append(tmp_path / "a", "1000\n")
        await virtual_clock.advance("2 s")
        # A source without a split is idle; with its first one it is active again.
        assert (await job.metrics())["see"]["currentInputWatermark"] == 999
