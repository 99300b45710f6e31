"""The pytest plugin: virtual time and leak checks. Installed packages load it by themselves.

Fixtures:
    virtual_clock: a VirtualClock, which every environment made in the test uses. `@pytest.mark.virtual_clock(start=...,
        autojump=...)` sets it up.
    mini_job: makes a MiniJob on that clock: `async with mini_job(build, faults=[...]) as job`.

Options:
    `streamline_leaks = true` in the ini file: every async test fails that leaves a task or an unretrieved error.
    `--asyncio-debug` (pytest-asyncio's) runs the loop in asyncio's debug mode.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from streamline.testing.clock import VirtualClock
from streamline.testing.leaks import no_leaks
from streamline.testing.minijob import MiniJob

__all__ = ("mini_job", "virtual_clock")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini("streamline_leaks", "fail async tests that leave tasks or unretrieved errors", "bool", False)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "virtual_clock(start, autojump): how the fixture of that name is set up")
    config.addinivalue_line("markers", "leaks: this test may leave tasks behind")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Everything imported so far is there to stay: the collector need not look at it after every test."""
    if session.config.getini("streamline_leaks"):
        gc.collect()
        gc.freeze()


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """A clock that jumps, as the default clock of every environment made in this test."""
    marker = request.node.get_closest_marker("virtual_clock")
    with VirtualClock(*(marker.args if marker else ()), **(marker.kwargs if marker else {})).as_default() as clock:
        yield clock


@pytest.fixture
def mini_job(virtual_clock: VirtualClock) -> Callable[..., MiniJob]:
    """Makes MiniJobs on the test's clock."""
    return functools.partial(MiniJob, clock=virtual_clock)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Put a leak check around the coroutine of an async test."""
    wanted = item.config.getini("streamline_leaks") and not item.get_closest_marker("leaks")
    if not wanted or not isinstance(item, pytest.Function):
        return (yield)
    hypothesis = getattr(item.obj, "hypothesis", None)
    holder, name = (item, "obj") if hypothesis is None else (hypothesis, "inner_test")
    test = getattr(holder, name)
    if not inspect.iscoroutinefunction(test):
        return (yield)
    setattr(holder, name, _checked(test, collect=hypothesis is None))
    try:
        return (yield)
    finally:
        setattr(holder, name, test)


def _checked(
    test: Callable[..., Coroutine[Any, Any, None]], *, collect: bool
) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        async with no_leaks(collect=collect):
            await test(*args, **kwargs)

    return checked
