"""Queries over recorded tables give Flink's recorded changelogs.

`known_misses.txt` names the cases that give something else, with the reason; a case that is not among them has to
match, and one that matches has to leave the list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.compare import difference
from tests.conformance.runner import run_case

HERE = Path(__file__).parent
ANSWER = ("expected", "compare", "order", "order_note", "changelog_mode", "plan_nodes", "expect_error", "quirk")


def load(folder: str = "cases") -> list[dict[str, Any]]:
    """The recorded cases of a folder."""
    files = sorted((HERE / folder).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def known_misses() -> dict[str, str]:
    """Cases that give something else, and why."""
    lines = (HERE / "known_misses.txt").read_text("utf-8").splitlines()
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)


CASES = {case["name"]: case for case in load()}
MISSES = known_misses()


@pytest.mark.filterwarnings("ignore:configuration key .* is known to Flink")
@pytest.mark.parametrize("name", CASES)
async def test_recorded(name: str) -> None:
    case = CASES[name]
    got = await run_case({k: v for k, v in case.items() if k not in ANSWER})
    found = difference(case, got)
    if name in MISSES:
        assert found is not None, f"{name} matches: take it from known_misses.txt"
        pytest.xfail(MISSES[name])
    assert found is None, f"{case['sql']}\n{found}"


MORE = {case["name"]: case for case in load("more")}


@pytest.mark.filterwarnings("ignore:configuration key .* is known to Flink")
@pytest.mark.parametrize("name", MORE)
async def test_more(name: str) -> None:
    """Queries that were answered otherwise once."""
    case = MORE[name]
    found = difference(case, await run_case({k: v for k, v in case.items() if k not in ANSWER}))
    assert found is None, f"{case['sql']}\n{found}"


def test_every_miss_is_a_case() -> None:
    assert not MISSES.keys() - CASES.keys()
