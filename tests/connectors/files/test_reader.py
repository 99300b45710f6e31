"""Files read once: every record once, from any position, however the bytes are cut."""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline.connectors.files import (
    CsvDeserializationSchema,
    DeserializationException,
    FileChangedError,
    FileSource,
    JsonDeserializationSchema,
    SimpleStringSchema,
    StreamFormat,
)
from streamline.errors import StreamlineError, ValidationException
from streamline.testing import settle
from tests.connectors.files.conftest import reading


class Click(msgspec.Struct):
    n: int
    who: str = ""


def clicks(*numbers: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in numbers)


async def read_all(source: FileSource[Any], max_records: int = 1024) -> list[Any]:
    async with reading(source) as it:
        await it.drain(max_records)
        assert it.reader.finished
        return it.values


# -- whatever the cuts -----------------------------------------------------------------------------------------------

LINES = st.lists(
    st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=30), max_size=40
)


@given(LINES, st.booleans(), st.integers(1, 64), st.integers(1, 7))
async def test_any_chunks_give_the_same_lines(
    tmp_path: Path, lines: list[str], last_ended: bool, chunk: int, polled: int
) -> None:
    text = "\n".join(lines) + ("\n" if last_ended and lines else "")
    path = tmp_path / "lines.txt"
    path.write_bytes(text.encode())
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()  # nothing stands behind the last line end
    expected = [e.removeprefix("\ufeff") if i == 0 else e for i, e in enumerate(expected)]
    if expected == [""] and text == "\ufeff":
        expected = []
    source = FileSource(paths=path, format=SimpleStringSchema(), _chunk_size=chunk)
    assert await read_all(source, polled) == expected


@given(LINES, st.integers(1, 64), st.integers(1, 7), st.lists(st.integers(0, 4), max_size=8))
async def test_a_restored_reader_goes_on_exactly_there(
    tmp_path: Path, lines: list[str], chunk: int, polled: int, crashes: list[int]
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i} {line}\n" for i, line in enumerate(lines)), encoding="utf-8", newline="")
    source = FileSource(paths=path, format=SimpleStringSchema(), _chunk_size=chunk)
    seen: list[str] = []
    positions: dict[str, Any] = {}
    splits = await source.discover()
    for polls in crashes:
        async with reading(source, positions=positions, splits=splits) as it:
            for _ in range(polls):
                await settle()
                it.poll(polled)
            seen += it.values
            # What lies in a checkpoint is plain data.
            positions = msgspec.msgpack.decode(msgspec.msgpack.encode(dict(it.reader.positions())))
            splits = [s for s in splits if s.id not in it.ended]  # the runtime does not give them again
    async with reading(source, positions=positions, splits=splits) as it:
        seen += await it.drain(polled)
    assert seen == [f"{i} {line}" for i, line in enumerate(lines)]


FIELD = st.text(st.sampled_from('ab ,"\n\r;é#'), max_size=6)


@given(st.lists(st.tuples(FIELD, FIELD), max_size=25), st.integers(1, 50), st.integers(1, 7), st.booleans())
async def test_csv_with_line_ends_inside_of_quotes(
    tmp_path: Path, rows: list[tuple[str, str]], chunk: int, polled: int, all_quoted: bool
) -> None:
    written = io.StringIO()
    how = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(written, lineterminator="\n", quoting=how)
    writer.writerow(("a", "b"))
    # Older versions of the module leave a carriage return without quotes, which is no field of RFC 4180.
    rows = rows if all_quoted else [(a.replace("\r", ""), b.replace("\r", "")) for a, b in rows]
    writer.writerows(rows)
    path = tmp_path / "rows.csv"
    path.write_bytes(written.getvalue().encode())
    schema = CsvDeserializationSchema(dict[str, str], header=True)
    source = FileSource(paths=path, format=schema, _chunk_size=chunk)
    assert await read_all(source, polled) == [{"a": a, "b": b} for a, b in rows]


# -- the shapes of files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        (b"", []),
        (b'{"n":1}', [1]),
        (b'{"n":1}\n{"n":2}\n', [1, 2]),
        (b'{"n":1}\r\n{"n":2}\r\n', [1, 2]),
        (b'\n\n{"n":1}\n  \n{"n":2}\n\n', [1, 2]),
        (b'\xef\xbb\xbf{"n":1}\n{"n":2}', [1, 2]),
    ],
    ids=["empty", "no last line end", "lines", "carriage returns", "blank lines", "byte order mark"],
)
async def test_json_lines(tmp_path: Path, content: bytes, numbers: list[int]) -> None:
    (tmp_path / "clicks.jsonl").write_bytes(content)
    source = FileSource(paths=tmp_path / "clicks.jsonl", value_type=Click)
    assert [c.n for c in await read_all(source)] == numbers


async def test_compressed_files_go_on_at_a_position(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "clicks.jsonl.gz", "wb") as file:
        file.write(clicks(*range(100)))
    source = FileSource(paths=tmp_path, value_type=Click, _chunk_size=50)
    async with reading(source) as it:
        for _ in range(5):
            await settle()
            it.poll(3)
        first, positions = it.values, dict(it.reader.positions())
    async with reading(source, positions=positions) as it:
        rest = await it.drain()
    assert [c.n for c in first + rest] == list(range(100))
    assert 0 < len(first) < 100


async def test_a_torn_compressed_file_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(clicks(*range(1000)))
    (tmp_path / "a.gz").write_bytes(whole[:-20])
    with pytest.raises(StreamlineError, match=r"a\.gz is no whole gzip file.*Is it still being written"):
        await read_all(FileSource(paths=tmp_path, value_type=Click))


async def test_dataclasses_and_functions(tmp_path: Path) -> None:
    @dataclass
    class Point:
        x: int
        y: float = 0.5

    (tmp_path / "points.csv").write_text("y,x,other\n1.5,1,_\n,2,_\n")
    source = FileSource(paths=tmp_path, format=StreamFormat.csv(Point, header=True))
    assert await read_all(source) == [Point(1, 1.5), Point(2, 0.5)]
    assert source.output_type is Point

    (tmp_path / "points.csv").write_text("1\n2\n\n3\n")
    source = FileSource(paths=tmp_path, format=lambda line: int(line) if line else None)
    assert await read_all(source) == [1, 2, 3]


# -- which files -----------------------------------------------------------------------------------------------------


def tree(folder: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "deep/er/c.jsonl", "deep/.hidden.jsonl", "_done/d.jsonl", "e.txt", ".f.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"n":1}\n')


async def names(source: FileSource[Any], folder: Path) -> list[str]:
    return [s.id.removeprefix(f"{folder}/") for s in await source.discover()]


async def test_folders_globs_and_filters(tmp_path: Path) -> None:
    tree(tmp_path)
    of = lambda **kw: names(FileSource(value_type=Click, **kw), tmp_path)  # noqa: E731
    assert await of(paths=tmp_path) == ["a.jsonl", "b.jsonl", "deep/er/c.jsonl", "e.txt"]
    assert await of(paths=f"file://{tmp_path}") == ["a.jsonl", "b.jsonl", "deep/er/c.jsonl", "e.txt"]
    assert await of(paths=f"{tmp_path}/*.jsonl") == ["a.jsonl", "b.jsonl"]
    assert await of(paths=f"{tmp_path}/**/*.jsonl") == ["a.jsonl", "b.jsonl", "deep/er/c.jsonl"]
    assert await of(paths=[tmp_path / "b.jsonl", f"{tmp_path}/*.jsonl"]) == ["a.jsonl", "b.jsonl"]
    assert await of(paths=tmp_path / ".f.jsonl") == [".f.jsonl"]
    assert await of(paths=tmp_path, pattern=rf"{re.escape(str(tmp_path))}/[be].*") == ["b.jsonl", "e.txt"]
    assert await of(paths=tmp_path, file_filter=lambda path: "er/" in path) == ["deep/er/c.jsonl"]


async def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StreamlineError, match="there is no file or folder 'nowhere'"):
        await FileSource(paths="nowhere", value_type=Click).discover()
    with pytest.raises(StreamlineError, match="no file matches"):
        await FileSource(paths=f"{tmp_path}/*.x", value_type=Click).discover()
    assert await FileSource(paths=f"{tmp_path}/*.x", value_type=Click, monitor_interval="1 s").discover() == []
    assert await FileSource(paths=tmp_path, value_type=Click).discover() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paths": [], "value_type": Click}, "needs paths"),
        ({"paths": "x"}, "value_type"),
        ({"paths": "x", "value_type": Click, "format": SimpleStringSchema()}, "value_type"),
        ({"paths": "x", "format": 3}, "DeserializationSchema"),
        ({"paths": "x", "format": Click}, "DeserializationSchema"),
        ({"paths": "s3://bucket/x", "value_type": Click}, "this machine only"),
        ({"paths": "file://host/x", "value_type": Click}, "another machine"),
        ({"paths": "x", "value_type": Click, "on_error": "ignore"}, "fail, skip"),
        ({"paths": "x", "value_type": Click, "monitor_interval": 0}, "positive"),
        ({"paths": "x", "value_type": Click, "max_record_size": 0}, "positive"),
        ({"paths": "x", "value_type": Click, "pattern": "("}, "regular expression"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        FileSource(**arguments)


def test_builders(tmp_path: Path) -> None:
    schema = JsonDeserializationSchema(Click)
    built = FileSource.builder().set_paths(tmp_path).set_format(schema).set_monitor_interval("2 s").build()
    assert not built.bounded and built.discovery_interval == 2000
    built = FileSource.for_record_stream_format(schema, tmp_path).monitor_continuously(500).build()
    assert built.discovery_interval == 500
    built = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "a", "b").process_static_file_set().build()
    )
    assert built.bounded and built.output_type is str


# -- what is wrong ---------------------------------------------------------------------------------------------------


async def test_an_error_names_its_place_and_comes_behind_the_records_before_it(tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl"
    path.write_bytes(clicks(1, 2) + b'{"n":"x"}\n' + clicks(3))
    async with reading(FileSource(paths=path, value_type=Click)) as it:
        with pytest.raises(DeserializationException) as e:
            await it.drain()
    assert [c.n for c in it.values] == [1, 2]
    assert e.value.where == f"{path}, line 3, byte 16"
    assert e.value.column == "n"
    assert str(e.value).startswith(f"{path}, line 3, byte 16: ")


async def test_places_in_csv_count_lines_inside_of_quotes(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('n,who\n1,"a\nb"\nx,c\n')
    schema = CsvDeserializationSchema(Click, header=True)
    async with reading(FileSource(paths=path, format=schema, _chunk_size=9)) as it:
        with pytest.raises(DeserializationException) as e:
            await it.drain()
    assert (e.value.where, e.value.column) == (f"{path}, line 4, byte 14", "n")


async def test_skipping_counts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(clicks(1) + b"{\n" + b'{"n":null}\n' + clicks(2))
    for source in (
        FileSource(paths=tmp_path, value_type=Click, on_error="skip"),
        FileSource(paths=tmp_path, format=JsonDeserializationSchema(Click, ignore_parse_errors=True)),
    ):
        async with reading(source) as it:
            assert [c.n for c in await it.drain()] == [1, 2]
            assert it.context.count("numRecordsInErrors") == 2


async def test_a_function_that_fails_says_where(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\nthree\n")
    with pytest.raises(ValueError, match="three") as e:
        await read_all(FileSource(paths=tmp_path, format=lambda line: int(line)))
    assert e.value.__notes__ == [f"in the deserializer, at {tmp_path}/a.txt, line 3, byte 4"]


async def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('n,who\n1,"a\n2,b\n')
    with pytest.raises(DeserializationException, match="a quote is opened and never closed") as e:
        await read_all(FileSource(paths=path, format=CsvDeserializationSchema(Click, header=True)))
    assert (e.value.where, e.value.column) == (f"{path}, line 2, byte 6", "who")


async def test_a_header_without_a_column_that_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("m,who\n1,a\n")
    with pytest.raises(DeserializationException, match="there is no column n; the columns are m, who") as e:
        await read_all(FileSource(paths=path, format=CsvDeserializationSchema(Click, header=True)))
    assert e.value.where == f"the header of {path}"


async def test_a_record_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(clicks(1) + b"x" * 2000 + b"\n")
    with pytest.raises(StreamlineError, match=r"a\.jsonl, line 2, byte 8: a record is longer than 1000 bytes"):
        await read_all(FileSource(paths=path, value_type=Click, max_record_size=1000, _chunk_size=64))


async def test_a_file_that_is_gone_before_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(clicks(*range(100)))
    source = FileSource(paths=path, value_type=Click, _chunk_size=64)
    async with reading(source) as it:
        await settle()
        it.poll()
        positions, splits = dict(it.reader.positions()), await source.discover()
    path.unlink()
    with pytest.raises(FileChangedError, match="is gone, and was read up to byte"):
        async with reading(source, positions=positions, splits=splits) as it:
            await it.drain()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:20], "it was truncated, or replaced"),
        (lambda data: data.replace(b'{"n":0}', b'{"n":7}'), "begins differently now"),
        (lambda data: data[:300] + b" " * 20 + data[300:], "no line begins there now"),
    ],
    ids=["truncated", "replaced", "changed inside"],
)
async def test_a_file_that_is_another_one_after_a_restart(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(clicks(*range(100)))
    source = FileSource(paths=path, value_type=Click, _chunk_size=400)
    async with reading(source) as it:
        await settle()
        it.poll()
        positions = dict(it.reader.positions())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FileChangedError, match=message):
        async with reading(source, positions=positions) as it:
            await it.drain()


# -- several files ---------------------------------------------------------------------------------------------------


async def test_files_take_turns_and_end_one_by_one(tmp_path: Path) -> None:
    for name, size in (("a", 300), ("b", 30), ("c", 300)):
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(size)))
    async with reading(FileSource(paths=tmp_path, format=SimpleStringSchema(), _chunk_size=100)) as it:
        await it.drain()
        assert it.reader.finished
        assert {Path(p).name for p in it.ended} == {"a", "b", "c"}
        assert dict(it.reader.positions()) == {}  # a split without a position has been read to its end
    assert it.of == {n: [f"{n}{i}" for i in range(size)] for n, size in (("a", 300), ("b", 30), ("c", 300))}
    assert it.values.index("b0") < it.values.index("a299")


async def test_more_files_than_are_read_in_turn(tmp_path: Path) -> None:
    for i in range(150):
        (tmp_path / f"{i:03}").write_text(f"{i}a\n{i}b\n")
    values = await read_all(FileSource(paths=tmp_path, format=SimpleStringSchema(), _chunk_size=3))
    assert sorted(values) == sorted([f"{i}{c}" for i in range(150) for c in "ab"])


async def test_a_file_that_is_held_back_waits_and_the_others_go_on(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(100)))
    source = FileSource(paths=tmp_path, format=SimpleStringSchema(), _chunk_size=50)
    async with reading(source) as it:
        it.reader.pause([str(tmp_path / "a")], [])
        await it.drain()
        assert set(it.of) == {"b"} and len(it.of["b"]) == 100
        assert not it.reader.finished
        it.reader.pause([], [str(tmp_path / "a")])
        await it.drain()
        assert len(it.of["a"]) == 100 and it.reader.finished


async def test_only_a_bounded_piece_is_read_ahead(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n" * 20_000)
    source = FileSource(paths=tmp_path, format=SimpleStringSchema(), _chunk_size=256 << 10)
    async with reading(source) as it:
        await settle()
        waiting = sum(f.chunk.end - f.chunk.offset for f in it.reader._files.values() if f.chunk is not None)
        assert waiting <= (1 << 20) + (256 << 10)
        await it.drain()
    assert len(it.values) == 8 * (2 + 19_999)
