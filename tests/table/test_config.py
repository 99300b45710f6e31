"""Settings: what each is called, when it counts, and that none is silently without effect."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import streamline
from streamline import Configuration, StreamExecutionEnvironment, ValidationException
from streamline._core.options import OPTIONS
from streamline.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment, col

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")

ROOT = Path(streamline.__file__).parent


def test_every_option_is_read() -> None:
    """An option of tables is in the code that reads it; one that nobody reads says so when it is set."""
    source = "".join(p.read_text("utf-8") for p in (ROOT / "table").rglob("*.py"))
    for key, option in OPTIONS.items():
        if option.reader == "table":
            family = key.rpartition(".")[0]
            assert f'"{key}"' in source or f'"{family}"' in source, f"{key} has no effect: its reader is 'nobody'"


def test_options_without_effect_warn_once() -> None:
    config = TableEnvironment.create().get_config()
    with pytest.warns(UserWarning, match="'table.optimizer.agg-phase-strategy' is known to Flink and has no meaning"):
        config.set("table.optimizer.agg-phase-strategy", "TWO_PHASE")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.set("table.optimizer.agg-phase-strategy", "TWO_PHASE")
        config.set("table.optimizer.reuse-source-enabled", "true")  # what is the case anyway


def test_unknown_options() -> None:
    config = TableEnvironment.create().get_config()
    with pytest.raises(ValidationException, match=re.escape("'table.exec.mini-batch.allow-latency'")):
        config.set("table.exec.mini-batch.latency", "1 s")
    with pytest.raises(ValidationException, match="no value of type"):
        config.set("table.exec.mini-batch.enabled", "perhaps")
    with pytest.raises(ValidationException, match="hashmap"):
        config.set("table.exec.state.backend", "forst")


def test_values() -> None:
    t_env = TableEnvironment.create()
    config = t_env.get_config()
    assert config.set("table.exec.state.ttl", "1 h") is config
    assert config.get("table.exec.state.ttl", "") == "1 h"
    assert config.get_idle_state_retention() == timedelta(hours=1)
    config.set_idle_state_retention(timedelta(minutes=2))
    assert config.value("table.exec.state.ttl") == 120_000
    config.get_configuration().set_string("table.display.max-column-width", "7")
    assert config.value("table.display.max-column-width") == 7
    assert config.get("pipeline.name", "none") == "none"
    config.add_configuration(Configuration({"pipeline.name": "x"}))
    assert config.get("pipeline.name", "none") == "x"
    assert config.remove("pipeline.name")
    assert config.get_local_timezone() == "UTC"
    config.set_local_timezone("Europe/Berlin")
    assert config.get_local_timezone() == "Europe/Berlin"
    config.set_local_timezone("Nowhere/There")
    with pytest.raises(ValidationException, match="Nowhere/There"):
        t_env.sql_query("SELECT NOW()").explain()


def test_options_of_the_stream_environment_count() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration({"table.local-time-zone": "Asia/Tokyo"}))
    t_env = StreamTableEnvironment.create(env)
    assert t_env.get_config().get_local_timezone() == "Asia/Tokyo"
    t_env.get_config().set("table.local-time-zone", "UTC")
    assert t_env.get_config().get_local_timezone() == "UTC"


def test_settings_of_the_environment() -> None:
    settings = (
        EnvironmentSettings.new_instance()
        .in_streaming_mode()
        .with_built_in_catalog_name("c")
        .with_built_in_database_name("d")
        .with_configuration(Configuration({"table.display.max-column-width": "12"}))
        .build()
    )
    t_env = TableEnvironment.create(settings)
    assert (t_env.get_current_catalog(), t_env.get_current_database()) == ("c", "d")
    assert t_env.list_catalogs() == ["c"]
    assert t_env.get_config().value("table.display.max-column-width") == 12
    assert settings.is_streaming_mode()
    assert not EnvironmentSettings.in_batch_mode().is_streaming_mode()
    assert StreamTableEnvironment.create(
        StreamExecutionEnvironment.get_execution_environment(), settings
    ).list_databases() == ["d"]


async def test_the_time_zone_counts(memory: Any) -> None:
    t_env = TableEnvironment.create()
    t_env.get_config().set("table.local-time-zone", "Asia/Tokyo")
    table = t_env.sql_query("SELECT CAST(TO_TIMESTAMP_LTZ(0, 0) AS STRING)")
    async with table.collect() as rows:
        assert [tuple(r) async for r in rows] == [("1970-01-01 09:00:00.000",)]


async def test_parallelism_of_tables(memory: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.exec.resource.default-parallelism", 3)
    numbers = t_env.from_data_stream(env.from_collection([1, 2, 3]).map(lambda x: x + 1, output_type=int), "n")
    counts = numbers.group_by("n").select("n", col("n").count.alias("c")).where(col("c") > 0)
    rows = t_env.to_changelog_stream(counts)
    async with rows.execute_and_collect() as it:
        assert sorted([tuple(r) async for r in it]) == [(2, 1), (3, 1), (4, 1)]
    of = {n.name: n.parallelism for n in env.graph.nodes.values()}
    # The stream keeps its own, up to the first exchange; what reads from it without one does as well.
    assert (of["map"], of["GroupAggregate"], of["to_changelog_stream(*anonymous_datastream_source$1*)"]) == (None, 3, 3)


def test_too_late() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    t_env.create_temporary_view("numbers", env.from_collection([1, 2]))
    t_env.to_data_stream(t_env.from_path("numbers"))
    with pytest.warns(UserWarning, match=r"table.exec.state.ttl = 1 h comes too late for .*to_data_stream"):
        t_env.get_config().set("table.exec.state.ttl", "1 h")
    with pytest.warns(UserWarning, match=r"table.exec.state.ttl \(taken back\) comes too late"):
        t_env.get_config().remove("table.exec.state.ttl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t_env.get_config().set("pipeline.name", "x")  # not an option of planning
