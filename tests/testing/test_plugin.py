"""The plugin as users meet it: a test session of its own."""

from __future__ import annotations

import textwrap
from importlib.metadata import entry_points

import pytest

from streamline.testing.leaks import LeakError, no_leaks

pytest_plugins = ["pytester"]

LEAKING = """
import asyncio

async def test_leaks():
    asyncio.create_task(asyncio.Event().wait(), name="forgotten")

async def test_clean():
    task = asyncio.create_task(asyncio.sleep(0))
    await task

async def test_unretrieved():
    async def fails():
        raise ValueError("nobody looked")
    asyncio.create_task(fails())
    await asyncio.sleep(0)

async def test_that_fails_anyway():
    asyncio.create_task(asyncio.Event().wait())
    assert 1 == 2
"""


def session(pytester: pytest.Pytester, code: str, *, leaks: bool) -> pytest.RunResult:
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        f"streamline_leaks = {str(leaks).lower()}\n"
    )
    pytester.makepyfile(code)
    installed = any(e.value == "streamline.testing.plugin" for e in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "streamline.testing.plugin")
    return pytester.runpytest_subprocess(*plugin, "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def _find_streamline(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))


def test_leaks_fail_a_test_and_say_what_was_left(pytester: pytest.Pytester) -> None:
    result = session(pytester, LEAKING, leaks=True)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*task 'forgotten' (Event.wait) at *", "*never retrieved*nobody looked*"])
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


def test_leaks_are_not_looked_for_unless_asked(pytester: pytest.Pytester) -> None:
    session(pytester, LEAKING, leaks=False).assert_outcomes(passed=3, failed=1)


def test_the_clock_is_the_default_one_only_within_the_test(pytester: pytest.Pytester) -> None:
    code = """
    import pytest
    from streamline._core.time import default_clock
    from streamline.testing import VirtualClock

    @pytest.mark.virtual_clock("2024-05-01T11:00:02Z")
    async def test_virtual(virtual_clock):
        assert default_clock() is virtual_clock
        before = virtual_clock.now()
        assert before == 1714561202000
        await virtual_clock.sleep("1 h")
        assert virtual_clock.now() == before + 3600000

    def test_real():
        assert not isinstance(default_clock(), VirtualClock)
    """
    session(pytester, textwrap.dedent(code), leaks=True).assert_outcomes(passed=2)


def test_properties_are_checked_too(pytester: pytest.Pytester) -> None:
    code = "\n".join(
        [
            "import asyncio",
            "from hypothesis import given, strategies as st",
            "@given(st.integers())",
            "async def test_leaks(n):",
            "    asyncio.create_task(asyncio.Event().wait(), name='forgotten')",
        ]
    )
    result = session(pytester, code, leaks=True)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*task 'forgotten'*"])


async def test_open_files_and_threads_are_found(tmp_path) -> None:
    with pytest.raises(LeakError, match=r"open file \d+: .*left.txt"):
        async with no_leaks(files=True):
            left = (tmp_path / "left.txt").open("w")
    left.close()
    async with no_leaks(files=True, threads=True):
        with (tmp_path / "closed.txt").open("w"):
            pass
