"""The same tests on both backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._state.backends import Backends


@pytest.fixture(params=["hashmap", "rocksdb"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict")
    backends = Backends(request.param, tmp_path / "local")
    yield backends
    backends.close()
    assert not (tmp_path / "local").exists() or not list((tmp_path / "local").iterdir())
