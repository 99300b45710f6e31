"""What every test may use, and how many examples its properties get."""

from __future__ import annotations

import gc
import itertools
import os
import warnings
from importlib.metadata import distributions, entry_points

import pytest
from hypothesis import HealthCheck, settings

# An installed streamline has brought its plugin along; a checkout that is not installed names it here.
_INSTALLED = any(e.value == "streamline.testing.plugin" for e in entry_points(group="pytest11"))
pytest_plugins = [*(() if _INSTALLED else ("streamline.testing.plugin",)), "streamline.testing.kafka"]

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
#: `make test`: few examples, the same ones in every run.
settings.register_profile("sample", max_examples=25, derandomize=True, deadline=None, suppress_health_check=_SLOW)
#: `make prove`: the full count, other ones in every run; a failure prints how to reproduce it.
settings.register_profile("prove", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW)

PROFILE = os.environ.get("STREAMLINE_PROFILE", "sample")
settings.load_profile(PROFILE)


_FINISHED = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """What tests have loaded is there to stay: the collections behind later tests need not look at it."""
    if next(_FINISHED) % 100 == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
        gc.freeze()


def pytest_report_header() -> list[str]:
    compiled = any(d.name == "sqlglotc" for d in distributions())
    return [
        f"streamline: properties at the {PROFILE!r} profile, {settings().max_examples} examples each",
        f"streamline: the {'compiled' if compiled else 'pure'} build of sqlglot",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if PROFILE == "prove":
        return
    kept = [item for item in items if item.get_closest_marker("prove") is None]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
