"""Every option that exists is read by somebody, or says when it is set that it has no effect."""

from __future__ import annotations

import ast
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import streamline
from streamline._core.config import Configuration
from streamline._core.options import ALIASES, FOREIGN, OPTIONS, Option

ROOT = Path(streamline.__file__).parent
#: Where options are only listed, set or shown again: nobody reads them there for what they do.
NOT_READERS = {ROOT / "_core" / "options.py", ROOT / "stream" / "config.py"}


@cache
def texts_of_modules() -> list[frozenset[str]]:
    """Of every module that may read options, the texts in it, those within f-strings too."""
    found = []
    for path in ROOT.rglob("*.py"):
        if path not in NOT_READERS:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found.append(frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)))
    return found


def is_read(key: str) -> bool:
    """Whether a module has the key, in one piece or as the beginning that it puts before its options and the rest."""
    parts = key.split(".")
    cuts = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(2, len(parts))]
    return any(
        key in texts or any({a, f"{a}."} & texts and {b, f".{b}"} & texts for a, b in cuts)
        for texts in texts_of_modules()
    )


def another_value(option: Option) -> Any:
    match option.type:
        case "bool":
            return not option.default
        case "enum":
            return next(c for c in option.choices if c != option.default)
        case "int" | "duration" | "memory":
            return (option.default or 0) + 7
        case "float":
            return option.default + 7.5
        case "list":
            return ["a", "b"]
        case "map":
            return {"a": "b"}
    return "something else"


@pytest.mark.parametrize("key", sorted(k for k, o in OPTIONS.items() if o.reader != "nobody"))
def test_who_is_said_to_read_it_does(key: str) -> None:
    assert OPTIONS[key].reader in ("stream", "table")
    assert is_read(key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Configuration({key: another_value(OPTIONS[key])})


@pytest.mark.parametrize("key", sorted([k for k, o in OPTIONS.items() if o.reader == "nobody"]))
def test_what_nobody_reads_says_so_once_when_it_is_set(key: str) -> None:
    option = OPTIONS[key]
    configuration = Configuration()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is so anyway needs no warning
        if option.default_text is not None and option.type != "list":
            configuration.set(key, option.default_text)
    with pytest.warns(UserWarning, match=f"'{key}' is known to Flink and has no meaning here; it is ignored"):
        configuration.set(key, another_value(option))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configuration.set(key, another_value(option))


@pytest.mark.parametrize("key", sorted(FOREIGN))
def test_keys_of_a_cluster_say_so_too(key: str) -> None:
    assert key not in OPTIONS and key not in ALIASES
    with pytest.warns(UserWarning, match="has no meaning here"):
        Configuration({key: "x"})


def test_older_names_are_those_of_options() -> None:
    assert set(ALIASES.values()) <= OPTIONS.keys()
    assert not ALIASES.keys() & OPTIONS.keys()
    assert Configuration({"execution.checkpointing.checkpoints-after-tasks-finish.enabled": "true"}).value(
        "execution.checkpointing.checkpoints-after-tasks-finish"
    )
