"""The connector `filesystem`: folders as tables, partitions as folders below them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline._core import types as t
from streamline.connectors.files.partitions import CommitSettings, PartitionCommit, Partitions
from streamline.errors import StreamlineError, TableException, ValidationException
from streamline.table import StreamTableEnvironment
from streamline.testing import VirtualClock


class Tables:
    """A table environment with what tests ask of it."""

    def __init__(self, **configuration: str) -> None:
        self.env = StreamExecutionEnvironment.get_execution_environment()
        for key, value in configuration.items():
            self.env.configuration.set(key, value)
        self.t_env = StreamTableEnvironment.create(self.env)

    async def create(self, name: str, columns: str, path: Path, *options: str, tail: str = "") -> None:
        given = ", ".join(["'connector' = 'filesystem'", f"'path' = '{path}'", *options])
        await self.t_env.execute_sql(f"CREATE TABLE {name} ({columns}) {tail} WITH ({given})")

    async def insert(self, statement: str) -> None:
        await (await self.t_env.execute_sql(statement)).wait()

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        async with (await self.t_env.execute_sql(query)).collect() as found:
            return sorted([tuple(row) async for row in found], key=repr)


def files(folder: Path) -> dict[str, str]:
    """Contents by folder."""
    shown = [p for p in folder.rglob("*") if p.is_file() and ".staging" not in p.parts]
    return {str(p.parent.relative_to(folder)): p.read_text() for p in shown if p.name != "_SUCCESS"}


def marked(folder: Path) -> set[str]:
    return {str(p.parent.relative_to(folder)) for p in folder.rglob("_SUCCESS")}


@pytest.mark.parametrize(
    ("form", "content"),
    [("json", '{"a":1,"b":"x,y"}\n{"a":2,"b":null}\n'), ("csv", '1,"x,y"\n2,n/a\n')],
)
async def test_what_is_inserted_is_selected(tmp_path: Path, form: str, content: str) -> None:
    it = Tables()
    null = "'csv.null-literal' = 'n/a'" if form == "csv" else "'json.fail-on-missing-field' = 'true'"
    await it.create("t", "a INT, b STRING", tmp_path, f"'format' = '{form}'", null)
    await it.insert("INSERT INTO t VALUES (1, 'x,y'), (2, CAST(NULL AS STRING))")
    assert files(tmp_path) == {".": content}
    assert await it.rows("SELECT * FROM t") == [(1, "x,y"), (2, None)]
    assert await it.rows("SELECT b FROM t WHERE a = 1") == [("x,y",)]


async def test_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\r\n")
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("three\n")
    it = Tables()
    await it.create("t", "line STRING", tmp_path, "'format' = 'raw'")
    assert await it.rows("SELECT * FROM t") == [("",), ("one",), ("three",), ("two",)]


async def test_partitions_are_folders_and_not_in_the_files(tmp_path: Path) -> None:
    it = Tables()
    columns = "day_ DATE, n INT, place STRING"
    await it.create("t", columns, tmp_path, "'format' = 'csv'", tail="PARTITIONED BY (day_, place)")
    await it.insert("INSERT INTO t VALUES (DATE '2024-05-01', 1, 'a/b'), (DATE '2024-05-02', 2, CAST(NULL AS STRING))")
    assert files(tmp_path) == {
        "day_=2024-05-01/place=a%2Fb": "1\n",
        "day_=2024-05-02/place=__DEFAULT_PARTITION__": "2\n",
    }
    rows = await it.rows("SELECT CAST(day_ AS STRING), n, place FROM t")
    assert rows == [("2024-05-01", 1, "a/b"), ("2024-05-02", 2, None)]


async def test_where_a_row_comes_from(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1\n2\n")
    it = Tables()
    columns = """n INT, p STRING METADATA FROM 'file.path', f STRING METADATA FROM 'file.name',
        s BIGINT METADATA FROM 'file.size', m TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time'"""
    await it.create("t", columns, tmp_path, "'format' = 'csv'")
    rows = await it.rows("SELECT n, p, f, s, m IS NOT NULL FROM t")
    assert rows == [(n, f"{tmp_path}/x.csv", "x.csv", 4, True) for n in (1, 2)]


@pytest.mark.virtual_clock(autojump=False)
async def test_a_table_that_is_followed(tmp_path: Path, virtual_clock: VirtualClock) -> None:
    (tmp_path / "x.csv").write_text("1\n")
    it = Tables()
    await it.create("t", "n INT", tmp_path, "'format' = 'csv'", "'source.monitor-interval' = '1 s'")
    seen: list[int] = []
    it.t_env.to_data_stream(it.t_env.sql_query("SELECT n + 1 AS n FROM t")).add_sink(lambda row: seen.append(row.n))
    async with await it.env.execute_async("follow"):
        await virtual_clock.advance("1 s")
        assert seen == [2]
        with (tmp_path / "x.csv").open("a") as file:
            file.write("2\n3")
        (tmp_path / "y.csv").write_text("7\n")
        await virtual_clock.advance("3 s")
        assert sorted(seen) == [2, 3, 8]


async def test_a_complete_partition_is_marked(tmp_path: Path) -> None:
    it = Tables()
    policy = "'sink.partition-commit.policy.kind' = 'success-file'"
    await it.create("t", "n INT, p INT", tmp_path, "'format' = 'csv'", policy, tail="PARTITIONED BY (p)")
    await it.insert("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert marked(tmp_path) == {"p=1", "p=2"}


def test_when_partitions_are_complete(tmp_path: Path) -> None:
    by_time = PartitionCommit(CommitSettings(False, 1000, "_SUCCESS"), str(tmp_path))
    by_time.written("p=1", 5000)
    by_time.committed({"p=1"}, 5999, None, False)
    assert marked(tmp_path) == set()
    again = PartitionCommit(CommitSettings(False, 1000, "_SUCCESS"), str(tmp_path))
    again.restore(by_time.snapshot())
    again.committed(set(), 6000, None, False)
    assert marked(tmp_path) == {"p=1"}

    settings = CommitSettings(True, 3_600_000, "_SUCCESS", "$d $h:00:00", "%Y%m%d %H:%M:%S")
    by_watermark = PartitionCommit(settings, str(tmp_path))
    hour = 1_704_067_200_000  # 2024-01-01T00:00Z
    by_watermark.written("d=20240101/h=00", 0)
    by_watermark.committed({"d=20240101/h=00"}, 0, None, False)
    by_watermark.committed(set(), 0, hour + 3_600_000, False)
    assert "d=20240101/h=00" not in marked(tmp_path)
    by_watermark.committed(set(), 0, hour + 3_600_001, False)
    assert "d=20240101/h=00" in marked(tmp_path)

    by_watermark.written("d=x/h=00", 0)
    with pytest.raises(StreamlineError, match=r"partition 'd=x/h=00' has no time"):
        by_watermark.committed({"d=x/h=00"}, 0, hour, False)


def test_folders_without_the_partition_column(tmp_path: Path) -> None:
    partitions = Partitions([t.Field("p", t.INT)], "none")
    assert partitions.values("/base", "/base/p=7/x") == {"p": 7}
    assert partitions.values("/base", "/base/p=none/x") == {"p": None}
    with pytest.raises(StreamlineError, match="/base/x is in no folder of the partition column 'p'"):
        partitions.values("/base", "/base/x")
    with pytest.raises(StreamlineError, match="partition column 'p' is INT, but it is 'seven'"):
        partitions.values("/base", "/base/p=seven/x")


@pytest.mark.parametrize(
    ("columns", "options", "tail", "message"),
    [
        ("n INT", ["'format' = 'csv'", "'foo' = '1'"], "", "Unsupported options found for 'filesystem'"),
        ("n INT", [], "", "Could not find required scan format"),
        ("n INT", ["'format' = 'nope'"], "", "Could not find any format factory for identifier 'nope'"),
        ("n INT", ["'format' = 'csv'", "'csv.field-delimiter' = 'ab'"], "", "single character"),
        ("n INT", ["'format' = 'csv'", "'source.monitor-interval' = '0 s'"], "", "positive"),
        ("n INT", ["'format' = 'csv'"], "PARTITIONED BY (n)", "cannot consist of partition columns only"),
        ("n INT", ["'format' = 'raw'"], "", "lines of text"),
        ("n INT, s INT METADATA FROM 'file.size'", ["'format' = 'csv'"], "", "castable from metadata type 'BIGINT"),
        ("n INT, s INT METADATA FROM 'size'", ["'format' = 'csv'"], "", "Invalid metadata key 'size'"),
    ],
)
async def test_options_that_do_not_fit(
    tmp_path: Path, columns: str, options: list[str], tail: str, message: str
) -> None:
    it = Tables()
    await it.create("t", columns, tmp_path, *options, tail=tail)
    with pytest.raises(ValidationException, match=message):
        await it.rows("SELECT * FROM t")


async def test_a_missing_path_is_said_as_flink_says_it() -> None:
    it = Tables()
    await it.t_env.execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'filesystem')")
    message = "One or more required options are missing.\n\nMissing required options are:\n\npath"
    with pytest.raises(ValidationException, match=message):
        await it.rows("SELECT * FROM t")


async def test_updates_cannot_be_written(tmp_path: Path) -> None:
    it = Tables()
    await it.create("src", "n INT", tmp_path / "in", "'format' = 'csv'")
    await it.create("t", "n INT, c BIGINT", tmp_path / "out", "'format' = 'csv'")
    with pytest.raises(TableException, match="doesn't support consuming update changes which is produced by node"):
        await it.insert("INSERT INTO t SELECT n, COUNT(*) FROM src GROUP BY n")
