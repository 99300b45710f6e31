"""docs/features.md says which test shows what; a row that names a test that is not there shows nothing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "features.md"
STATES = ("here", "open", "out", "accepted, no effect")


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))


def rows() -> list[tuple[str, str, list[str]]]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "feature":
            found.append((cells[0], cells[1], re.findall(r"`([^`]+)`", cells[2])))
    return found


def test_every_row_names_tests_that_exist() -> None:
    wrong = []
    assert len(rows()) > 100
    for feature, state, tests in rows():
        if not state.startswith(STATES):
            wrong.append(f"{feature}: {state!r} is no state")
        if state == "here" and not tests:
            wrong.append(f"{feature}: no test")
        for test in tests:
            module, _, name = test.partition("::")
            path = TESTS / f"{module}.py"
            if not path.exists() or name not in functions(path):
                wrong.append(f"{feature}: there is no test {test}")
    assert wrong == []
