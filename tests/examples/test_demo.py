from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from examples import demo
from examples.flights import replay

COUNT = 6000
replayed = cache(replay)  # three seconds of reading


@pytest.mark.kafka
async def test_the_demo_shows_every_flight(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No flight is lost on the way through two topics, three partitions and a window: late ones would be."""
    monkeypatch.setattr(demo, "replay", replayed)
    board = await demo.main(COUNT)
    out = capsys.readouterr().out
    expected = Counter(flight.origin for flight in replayed()[:COUNT])
    assert {origin: total[0] for origin, total in board._totals.items()} == expected
    assert f"loaded: {COUNT:,} flights" in out
    assert out.count("broker: ") == 1 and "the broker is stopped" in out
    for origin, n in expected.items():
        assert f"  {origin}  {n:9d}" in out


def test_flights_are_replayed_whole_with_bounded_disorder() -> None:
    assert len(replayed()) == 336_776
    behind = 0
    newest = 0
    for flight in replayed():
        newest = max(newest, flight.departure)
        behind = max(behind, newest - flight.departure)
    assert 0 < behind < 20 * 60_000
