from __future__ import annotations

import pytest

from examples import quickstart

#: Worked out by hand: windows of ten seconds beginning at noon; bob's second click comes late but within the bound.
EXPECTED = """\
more than one click in ten seconds:
  ann: 2 until 12:00:10
  bob: 2 until 12:00:10
running totals, every change:
  +I ann 1
  +I bob 1
  -U ann 1
  +U ann 2
  -U ann 2
  +U ann 3
  -U bob 1
  +U bob 2
  -U ann 3
  +U ann 4
"""


async def test_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    await quickstart.main()
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(EXPECTED.splitlines())


def test_the_readme_runs(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """The program that the README shows, as it stands there."""
    text = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    program = next(block for block in text.split("```python\n")[1:] if "asyncio.run(main())" in block).split("```")[0]
    exec(compile(program, "README.md", "exec", dont_inherit=True), {"__name__": "readme"})
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "ann: 1 until 12:00:20",
        "ann: 2 until 12:00:10",
        "bob: 1 until 12:00:10",
    ]
