from __future__ import annotations

import datetime as dt
import warnings

import pytest

from streamline._core.config import Configuration
from streamline.errors import ValidationException


def test_values_are_read_in_the_type_of_their_option() -> None:
    c = Configuration()
    c.set("execution.checkpointing.interval", dt.timedelta(seconds=10))
    c.set_string("table.exec.mini-batch.allow-latency", "1s")
    c.set_boolean("table.exec.mini-batch.enabled", True)
    c.set("execution.runtime-mode", "batch")
    c.set("pipeline.global-job-parameters", {"a": "1", "b": "x"})
    assert c.value("execution.checkpointing.interval") == 10_000
    assert c.value("table.exec.mini-batch.allow-latency") == 1000
    assert c.value("table.exec.mini-batch.enabled") is True
    assert c.value("execution.runtime-mode") == "BATCH"
    assert c.value("pipeline.global-job-parameters") == {"a": "1", "b": "x"}
    assert c.get("table.exec.mini-batch.allow-latency") == "1s"


@pytest.mark.parametrize("text", ["1s", "1 s", "1000ms", "PT1S", "1000", 1000])
def test_durations_are_written_in_several_ways(text: object) -> None:
    assert Configuration({"table.exec.state.ttl": text}).value("table.exec.state.ttl") == 1000


def test_defaults_and_unset() -> None:
    c = Configuration()
    assert c.value("pipeline.auto-watermark-interval") == 200
    assert c.get("table.exec.mini-batch.size") == "-1"
    assert c.get("table.exec.mini-batch.size", "7") == "7"
    assert not c.contains_key("table.exec.mini-batch.size")
    assert c.value("execution.checkpointing.interval") is None


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ValidationException, match=r"table\.exec\.mini-batch\.allow-latency"):
        Configuration().set("table.exec.mini-batch.latency", "1s")


def test_a_bad_value_names_key_and_choices() -> None:
    with pytest.raises(ValidationException, match=r"table\.exec\.state\.backend.*hashmap, rocksdb"):
        Configuration().set("table.exec.state.backend", "forst")
    with pytest.raises(ValidationException, match="true or false"):
        Configuration().set("table.exec.mini-batch.enabled", "yes")


def test_a_key_without_meaning_here_warns_once() -> None:
    c = Configuration()
    with pytest.warns(UserWarning, match="no meaning here"):
        c.set("taskmanager.memory.process.size", "1g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c.set("taskmanager.memory.process.size", "2g")


def test_older_names_are_the_same_option() -> None:
    c = Configuration({"restart-strategy": "fixed-delay", "state.checkpoints.dir": "file:/x"})
    assert c.value("restart-strategy.type") == "fixed-delay"
    assert c.value("execution.checkpointing.dir") == "file:/x"
    assert c.remove_config("restart-strategy") and not c.remove_config("restart-strategy")


def test_observers_hear_of_changes() -> None:
    c, heard = Configuration(), []
    c.observe(lambda key, text: heard.append((key, text)))
    c.set("table.exec.state.ttl", "1 h")
    c.remove_config("table.exec.state.ttl")
    assert heard == [("table.exec.state.ttl", "1 h"), ("table.exec.state.ttl", None)]


def test_a_key_that_is_near_none_gets_no_suggestion() -> None:
    with pytest.raises(ValidationException) as failure:
        Configuration({"my.own.thing": 1})
    assert str(failure.value) == "unknown configuration key 'my.own.thing'"
    with pytest.raises(ValidationException, match="did you mean 'parallelism.default'"):
        Configuration({"paralelism.default": 1})
