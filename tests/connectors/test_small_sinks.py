"""The connectors print and blackhole, and how connectors are found."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from streamline._core import types as t
from streamline._core.changes import ChangelogMode, RowKind
from streamline._core.types import DataType, Field
from streamline.abc import Batch, TableColumn, TableContext, TableFactory, TableSink
from streamline.connectors import registry
from streamline.connectors.registry import connector, connector_names, format_factory
from streamline.errors import ValidationException

from .kafka.conftest import Context

TEN = int((dt.datetime(2024, 1, 1, 10) - dt.datetime(1970, 1, 1)).total_seconds()) * 10**9


def sink(columns: dict[str, DataType], **options: str) -> TableSink:
    found = tuple(TableColumn(n, x) for n, x in columns.items())
    given = {k.replace("_", "-"): v for k, v in options.items()}
    return connector(given["connector"]).sink(TableContext(("c", "d", "t"), found, given))


async def written(found: TableSink, batch: Batch, subtask: int = 0, parallelism: int = 1) -> None:
    context = Context()
    context.subtask_index, context.parallelism = subtask, parallelism
    writer = found.sink.writer()
    await writer.open(context)  # type: ignore[arg-type]
    await writer.write(batch)
    await writer.flush(end_of_input=True)
    await writer.close()


# -- print ---------------------------------------------------------------------------------------------------------


async def test_print_shows_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    found = sink({"k": t.STRING, "n": t.BIGINT}, connector="print")
    assert found.changelog == ChangelogMode.all() and not found.template
    rows = [("a", 1), ("a", 1), ("a", 2), ("b", None)]
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    await written(found, Batch(rows, None, kinds))
    await written(found, Batch([("c", 3)]))
    assert capsys.readouterr() == ("+I[a, 1]\n-U[a, 1]\n+U[a, 2]\n-D[b, null]\n+I[c, 3]\n", "")


@pytest.mark.parametrize(("options", "parallelism", "prefix"), [
    ({}, 1, ""),
    ({}, 2, "2> "),
    ({"print_identifier": "P"}, 1, "P> "),
    ({"print_identifier": "P"}, 2, "P:2> "),
])  # fmt: skip
async def test_prefix(
    capsys: pytest.CaptureFixture[str], options: dict[str, str], parallelism: int, prefix: str
) -> None:
    found = sink({"n": t.INT}, connector="print", standard_error="true", **options)
    await written(found, Batch([(1,)]), parallelism - 1, parallelism)
    assert capsys.readouterr() == ("", f"{prefix}+I[1]\n")


@pytest.mark.parametrize(("type_", "value", "text"), [  # the texts of Java's own types
    (t.BOOLEAN, True, "true"),
    (t.DOUBLE, 10.0, "10.0"),
    (t.DOUBLE, 12345678.9, "1.23456789E7"),
    (t.DOUBLE, 1e7, "1.0E7"),
    (t.DOUBLE, 9999999.0, "9999999.0"),
    (t.DOUBLE, 0.001, "0.001"),
    (t.DOUBLE, 0.00099, "9.9E-4"),
    (t.DOUBLE, -0.0, "-0.0"),
    (t.DOUBLE, float("nan"), "NaN"),
    (t.DOUBLE, float("-inf"), "-Infinity"),
    (t.FLOAT, 1.100000023841858, "1.1"),
    (t.decimal(5, 2), Decimal("12.50"), "12.50"),
    (t.STRING, "a, b", "a, b"),
    (t.BYTES, b"\x01\xff", "[1, -1]"),
    (t.DATE, 1, "1970-01-02"),
    (t.time(3), 36_000_000, "10:00"),
    (t.time(3), 36_001_000, "10:00:01"),
    (t.time(3), 36_000_120, "10:00:00.120"),
    (t.timestamp(3), TEN, "2024-01-01T10:00"),
    (t.timestamp(3), TEN + 10**9, "2024-01-01T10:00:01"),
    (t.timestamp(6), TEN + 1000, "2024-01-01T10:00:00.000001"),
    (t.timestamp(3), -1_000_000, "1969-12-31T23:59:59.999"),
    (t.timestamp_ltz(3), TEN, "2024-01-01T10:00:00Z"),
    (t.timestamp_ltz(3), TEN + 120_000_000, "2024-01-01T10:00:00.120Z"),
    (t.interval_day_time(), 3_723_500, "PT1H2M3.5S"),
    (t.interval_day_time(), 0, "PT0S"),
    (t.interval_year_month(), 14, "P1Y2M"),
    (t.array(t.INT), [1, None], "[1, null]"),
    (t.map_of(t.STRING, t.DATE), {"a": 1}, "{a=1970-01-02}"),
    (t.multiset(t.STRING), {"a": 2}, "{a=2}"),
    (t.row(Field("a", t.INT), Field("b", t.STRING)), (1, None), "+I[1, null]"),
])  # fmt: skip
async def test_texts_of_values(capsys: pytest.CaptureFixture[str], type_: DataType, value: Any, text: str) -> None:
    await written(sink({"v": type_}, connector="print"), Batch([(value,), (None,)]))
    assert capsys.readouterr().out == f"+I[{text}]\n+I[null]\n"


# -- blackhole -----------------------------------------------------------------------------------------------------


async def test_blackhole_takes_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = sink({"v": t.INT}, connector="blackhole", **{"sink.parallelism": "2"})
    assert (found.changelog, found.parallelism) == (ChangelogMode.all(), 2)
    await written(found, Batch([(1,)], None, [RowKind.DELETE]))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["print", "blackhole"])
def test_sinks_are_no_sources_and_know_their_options(name: str) -> None:
    context = TableContext(("c", "d", "t"), (), {"connector": name, "topic": "x"})
    with pytest.raises(ValidationException, match=f"Connector '{name}' can only be used as a sink"):
        connector(name).scan(context, [])
    with pytest.raises(
        ValidationException, match=f"Unsupported options found for '{name}'.\n\nUnsupported options:\n\nt"
    ):
        connector(name).sink(context)


# -- the registry --------------------------------------------------------------------------------------------------


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ValidationException) as e:
        connector("rabbit")
    assert "Could not find any factory for identifier 'rabbit'" in str(e.value)
    assert "blackhole\n" in str(e.value) and "kafka\n" in str(e.value)
    with pytest.raises(ValidationException, match="any format factory for identifier 'xml'"):
        format_factory("xml")


class Plugin(TableFactory):
    identifier = "plugin"


def test_plugins_come_by_entry_points_and_cannot_take_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        name: EntryPoint(name, f"{__name__}:{what}", "streamline.connectors")
        for name, what in (("plugin", "Plugin"), ("print", "Plugin"), ("broken", "dt"), ("missing", "no.such"))
    }
    found["absent"] = EntryPoint("absent", "no_such_package_here:X", "streamline.connectors")
    monkeypatch.setattr(registry, "_plugins", lambda group: found)
    assert type(connector("plugin")).__name__ == "Plugin"
    assert type(connector("print")).__name__ == "PrintFactory"
    assert "plugin" in connector_names()
    with pytest.raises(ValidationException, match="connector 'absent' needs a package that is not installed"):
        connector("absent")


def test_a_plugin_that_is_no_factory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("list", "builtins:list", "streamline.connectors")
    monkeypatch.setattr(registry, "_plugins", lambda group: {"list": entry})
    with pytest.raises(ValidationException, match="is no streamline.abc.TableFactory"):
        connector("list")
