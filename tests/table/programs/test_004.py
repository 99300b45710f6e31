"""The programs of the fifth document: changelogs out, event time in and out, who runs the job."""

from __future__ import annotations

import gc
import warnings
from datetime import datetime
from typing import Any

import pytest

from streamline import Row, RowKind, TableException, Types, ValidationException
from streamline.errors import StreamlineError
from streamline.functions import ProcessFunction
from streamline.table import ChangelogMode, Schema, StreamTableEnvironment
from streamline.testing import VirtualClock

from .common import PEOPLE, VIEWS, bounded, envs, feed, marked, ms, paced, rows, source_time, texts
from .test_001 import KEYED

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


def page_views(env: Any, t_env: StreamTableEnvironment, schema: Schema | None = None) -> Any:
    """The stream of the document, registered for SQL."""
    stream = feed(env, VIEWS).assign_timestamps_and_watermarks(bounded(5, lambda v: v.viewTsMs))
    t_env.create_temporary_view("page_views", t_env.from_data_stream(stream, schema or source_time()))
    return t_env.from_path("page_views")


COUNTS = "SELECT userId, COUNT(*) AS views FROM page_views GROUP BY userId"
PER_10S = """SELECT window_start, userId, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE page_views,
    DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, userId"""


async def test_p41_counts_as_a_changelog(capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env = envs()
    page_views(env, t_env)
    changes = t_env.to_changelog_stream(t_env.sql_query(COUNTS))
    changes.filter(lambda row: row.kind != RowKind.UPDATE_BEFORE).print()
    await env.execute("page-view-counts")
    assert capsys.readouterr().out == "+I[u1, 1]\n+I[u2, 1]\n+U[u1, 2]\n+I[u3, 1]\n+U[u2, 2]\n"


async def test_p41_without_the_filter() -> None:
    env, t_env = envs()
    page_views(env, t_env)
    found = texts(await rows(t_env.to_changelog_stream(t_env.sql_query(COUNTS))))
    assert found == [
        "+I[u1, 1]",
        "+I[u2, 1]",
        "-U[u1, 1]",
        "+U[u1, 2]",
        "+I[u3, 1]",
        "-U[u2, 1]",
        "+U[u2, 2]",
    ]
    quoted = t_env.sql_query(COUNTS.replace("views FROM", "`views` FROM"))
    assert quoted.get_schema().get_field_names() == ["userId", "views"]


async def test_p42_to_data_stream_on_the_counts() -> None:
    env, t_env = envs()
    page_views(env, t_env)
    with pytest.raises(TableException) as e:
        t_env.to_data_stream(t_env.sql_query(COUNTS))
    assert (
        "doesn't support consuming update changes which is produced by node "
        "GroupAggregate(groupBy=[userId], select=[userId, COUNT(*) AS views])" in str(e.value)
    )
    assert "to_changelog_stream" in str(e.value)
    home = t_env.sql_query("SELECT userId, pageUrl FROM page_views WHERE pageUrl = '/home'")
    assert texts(await rows(t_env.to_data_stream(home))) == ["+I[u1, /home]", "+I[u2, /home]", "+I[u3, /home]"]


async def p43(query: str, *columns: tuple[str, str], key: str | None = None) -> Any:
    env, t_env = envs()
    page_views(env, t_env)
    b = Schema.new_builder()
    for name, type_ in columns:
        b.column(name, type_)
    schema = (b.primary_key(key) if key else b).build()
    return texts(await rows(t_env.to_changelog_stream(t_env.sql_query(query), schema, ChangelogMode.upsert())))


U, V = ("userId", "STRING NOT NULL"), ("views", "BIGINT NOT NULL")
UPSERTS = ["+I[u1, 1]", "+I[u2, 1]", "+U[u1, 2]", "+I[u3, 1]", "+U[u2, 2]"]


async def test_p43_upserts() -> None:
    assert await p43(COUNTS, U, V, key="userId") == UPSERTS
    assert await p43(COUNTS, U, V) == UPSERTS
    total = await p43("SELECT COUNT(*) AS views FROM page_views", V)
    assert total == ["+I[1]", "+U[2]", "+U[3]", "+U[4]", "+U[5]"]


async def test_p43_no_key() -> None:
    with pytest.raises(TableException) as e:
        await p43("SELECT COUNT(*) AS views FROM page_views GROUP BY userId", V)
    for part in ("userId", "[views]", "ChangelogMode.all()"):
        assert part in str(e.value)


async def test_p43_another_key() -> None:
    with pytest.raises(ValidationException) as e:
        await p43(COUNTS, U, V, key="views")
    assert "primary key [views], upsert key [userId]" in str(e.value)


def own(watermark: str) -> Schema:
    return (
        Schema.new_builder()
        .column_by_expression("rowtime", "TO_TIMESTAMP_LTZ(viewTsMs, 3)")
        .watermark("rowtime", watermark)
        .build()
    )


def utc(second: int) -> datetime:
    return datetime(2024, 5, 1, 10, 0, second)


ON_TIME = [
    (5, Row(utc(0), "u1", 1)),
    (5, Row(utc(0), "u2", 1)),
    (5, Row(utc(0), "u3", 1)),
    ("end", Row(utc(10), "u1", 1)),
    ("end", Row(utc(20), "u2", 1)),
]


def ordered(found: Any) -> Any:
    return sorted((str(n), str(x)) for n, x in found)


async def p44(clock: VirtualClock, schema: Schema) -> Any:
    env, t_env = envs()
    with paced():
        page_views(env, t_env, schema)
    return ordered(await marked(t_env.to_data_stream(t_env.sql_query(PER_10S)), clock, 5))


async def test_p44_source_watermark(virtual_clock: VirtualClock) -> None:
    assert await p44(virtual_clock, source_time()) == ordered(ON_TIME)


async def test_p44_a_strategy_of_its_own(virtual_clock: VirtualClock) -> None:
    with pytest.warns(UserWarning, match="two watermark strategies"):
        found = await p44(virtual_clock, own("rowtime - INTERVAL '10' SECOND"))
    assert found == ordered(ON_TIME)


async def test_p44_a_stricter_strategy(virtual_clock: VirtualClock) -> None:
    with pytest.warns(UserWarning, match="two watermark strategies"):
        found = await p44(virtual_clock, own("rowtime"))
    assert found == ordered(
        [
            (3, Row(utc(0), "u1", 1)),
            (3, Row(utc(0), "u2", 1)),
            (5, Row(utc(10), "u1", 1)),
            ("end", Row(utc(20), "u2", 1)),
        ]
    )


async def test_p44_refused() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException, match="SOURCE_WATERMARK"):
        t_env.from_data_stream(env.from_collection(VIEWS), source_time())
    timed = env.from_collection(VIEWS).assign_timestamps_and_watermarks(bounded(5, lambda v: v.viewTsMs))
    wrong = Schema.new_builder().column_by_metadata("rt", "TIMESTAMP_LTZ(3)").build()
    with pytest.raises(ValidationException, match="Invalid metadata key 'rt'") as e:
        t_env.from_data_stream(timed, wrong)
    assert "rowtime" in str(e.value)
    right = Schema.new_builder().column_by_metadata("rt", "TIMESTAMP_LTZ(3)", metadata_key="rowtime").build()
    (first, *_) = await rows(t_env.to_data_stream(t_env.from_data_stream(timed, right)))
    assert round(first.rt.timestamp() * 1000) == ms(5)


async def test_p44_without_a_schema_time_is_not_carried() -> None:
    env, t_env = envs()
    timed = env.from_collection(VIEWS).assign_timestamps_and_watermarks(bounded(5, lambda v: v.viewTsMs))
    stream = t_env.to_data_stream(t_env.from_data_stream(timed))
    assert [t for _, t in await rows(stream.process(Stamp()))] == [None] * 5


class Stamp(ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row["userId"], None if ctx.timestamp() is None else ctx.timestamp() - ms(0)


class Watermarks(ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield ctx.timer_service().current_watermark() - ms(0)


async def p45(query: str, function: Any = None) -> Any:
    env, t_env = envs()
    with paced():
        page_views(env, t_env)
    return await rows(t_env.to_data_stream(t_env.sql_query(query)).process(function or Stamp()))


async def test_p45_event_time_out(virtual_clock: VirtualClock) -> None:
    everything = "SELECT * FROM page_views"
    assert await p45(everything) == [("u1", 5000), ("u2", 7000), ("u1", 12000), ("u3", 9000), ("u2", 21000)]
    assert (await p45(everything, Watermarks()))[2] == 1999
    users = await p45("SELECT userId FROM page_views")
    assert users == [("u1", None), ("u2", None), ("u1", None), ("u3", None), ("u2", None)]
    windows = await p45(
        "SELECT userId, window_time FROM TABLE(TUMBLE(TABLE page_views, DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end, window_time, userId"
    )
    assert sorted(windows) == [("u1", 9999), ("u1", 19999), ("u2", 9999), ("u2", 29999), ("u3", 9999)]


async def test_p45_two_time_attributes() -> None:
    with pytest.raises(TableException) as e:
        await p45("SELECT * FROM TABLE(TUMBLE(TABLE page_views, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))")
    assert "more than one rowtime attribute column [rowtime, window_time]" in str(e.value)
    assert "TIMESTAMP" in str(e.value)


async def test_p46_summing_after_images() -> None:
    env, t_env = envs()
    page_views(env, t_env)
    changes = t_env.to_changelog_stream(t_env.sql_query(COUNTS))
    wrong = (
        changes.filter(lambda row: row.kind != RowKind.UPDATE_BEFORE)
        .map(lambda r: r["views"], output_type=int)
        .key_by(lambda _: 0)
        .reduce(lambda a, b: a + b)
    )
    assert await rows(wrong) == [1, 2, 4, 5, 7]
    signed = (
        changes.map(
            lambda r: r["views"] if r.kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -r["views"],
            output_type=int,
        )
        .key_by(lambda _: 0)
        .reduce(lambda a, b: a + b)
    )
    assert await rows(signed) == [1, 2, 1, 3, 4, 3, 5]
    total = t_env.sql_query(f"SELECT SUM(`views`) AS s FROM ({COUNTS})")
    assert (await rows(t_env.to_changelog_stream(total)))[-1].s == 5


async def test_p47_who_runs_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    env, t_env = envs()
    people = t_env.from_data_stream(env.from_collection(PEOPLE))
    t_env.to_data_stream(people).map(lambda r: "a " + r.f0).print()
    t_env.to_changelog_stream(people).map(lambda r: "b " + r.f0).print()
    await (await t_env.execute_sql("SELECT 1")).print()
    assert "|           1 |" in capsys.readouterr().out
    await env.execute("both")
    out = capsys.readouterr().out.split()
    assert out[1::2] and [f"{a} {b}" for a, b in zip(out[::2], out[1::2]) if a == "a"] == ["a Alice", "a Bob"]
    assert [f"{a} {b}" for a, b in zip(out[::2], out[1::2]) if a == "b"] == ["b Alice", "b Bob"]
    with pytest.raises(StreamlineError, match=r"No operators defined in streaming topology. Cannot execute\."):
        await env.execute("again")


def test_p47_without_execute() -> None:
    env, t_env = envs()
    people = t_env.from_data_stream(env.from_collection(PEOPLE))
    t_env.to_data_stream(people)
    t_env.to_changelog_stream(people)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del env, t_env, people
        gc.collect()
    (warning,) = [w for w in caught if w.category is RuntimeWarning]
    assert "to_data_stream" in str(warning.message)
    assert "to_changelog_stream" in str(warning.message)


async def test_p48_the_old_retract_stream() -> None:
    env, t_env = envs()
    page_views(env, t_env)
    with pytest.warns(DeprecationWarning):
        stream = t_env.to_retract_stream(t_env.sql_query(COUNTS), Types.ROW([Types.STRING(), Types.LONG()]))
    found = [(flag, tuple(row)) for flag, row in await rows(stream)]
    assert found == [
        (True, ("u1", 1)),
        (True, ("u2", 1)),
        (False, ("u1", 1)),
        (True, ("u1", 2)),
        (True, ("u3", 1)),
        (False, ("u2", 1)),
        (True, ("u2", 2)),
    ]
    with pytest.raises(AttributeError):
        t_env.register_data_stream  # noqa: B018


async def test_p49_the_upsert_table_out() -> None:
    env, t_env = envs()
    log = env.from_elements(Row.of(RowKind.INSERT, "Alice", 25), Row.of(RowKind.UPDATE_AFTER, "Alice", 26))
    table = t_env.from_changelog_stream(log, KEYED, ChangelogMode.upsert())
    with pytest.raises(TableException) as e:
        t_env.to_data_stream(table)
    assert (
        "doesn't support consuming update and delete changes which is produced by node ChangelogNormalize(key=[name])"
        in str(e.value)
    )
