"""The operator of SQL's session windows, with loops of its own in place of generated ones."""

from __future__ import annotations

from typing import Any

from streamline._core.declare import StateSpec
from streamline._operators.aggregate.session import SessionWindows
from streamline.testing.harness import OperatorHarness

GAP = 10


def assign(batch: Any, data: Any, watermark: int, opened: list[Any], now: Any) -> int:
    """Sessions [start, end, rows]; records are (key, ms), in order."""
    for key, ms in batch.values:
        sessions = data.get(key) or []
        if sessions and ms <= sessions[-1][1]:
            sessions[-1][1] = ms + GAP
            sessions[-1][2] += 1
        else:
            sessions.append([ms, ms + GAP, 1])
            opened.append((ms + GAP, key))
        data[key] = sessions
    return 0


async def test_every_session_fires_once_and_a_key_is_looked_at_once_a_session() -> None:
    operator = SessionWindows(lambda now: assign, lambda now: lambda session: [tuple(session)], StateSpec())
    async with OperatorHarness(operator, key=lambda r: r[0]) as harness:
        for i in range(50):
            await harness.process_element(("a", i * 100))  # a session of one record
            await harness.process_element(("a", i * 100 + 5))  # grows
            assert len(operator._due) <= 1 + i, "what is due does not pile up"
            if i % 10 == 9:
                await harness.process_watermark(i * 100)
                assert len(operator._due) <= 2
        await harness.process_watermark(10_000)
        found = [v for batch in harness.extract_output() for v in getattr(batch, "values", ())]
    assert found == [(i * 100, i * 100 + 5 + GAP, 2) for i in range(50)]
    assert operator._due == [] and operator._looks == {}
