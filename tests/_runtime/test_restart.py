"""Restart strategies: how long until the next attempt, and when to give up."""

from __future__ import annotations

import pytest

from streamline._runtime.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart
from streamline.errors import ValidationException


def test_none() -> None:
    assert NoRestart().delay_after_failure(0) is None


def test_fixed_delay() -> None:
    strategy = FixedDelay(2, 500)
    assert [strategy.delay_after_failure(t) for t in (0, 10_000, 10**9)] == [500, 500, None]
    assert FixedDelay().delay_after_failure(0) == 1000  # Flink's: 1 attempt, 1 s
    with pytest.raises(ValidationException):
        FixedDelay(-1)


def test_failure_rate() -> None:
    strategy = FailureRate(2, 1000, 50)
    assert [strategy.delay_after_failure(t) for t in (0, 600, 1100, 1700)] == [50, 50, 50, 50]
    assert strategy.delay_after_failure(1800) is None  # three within 1000 ms
    default = FailureRate()
    assert default.delay_after_failure(0) == 1000
    assert default.delay_after_failure(60_000) is None  # the minute itself is within it
    again = FailureRate()
    assert [again.delay_after_failure(t) for t in (0, 60_001, 120_002, 180_003)] == [1000] * 4
    assert again.delay_after_failure(180_003) is None
    with pytest.raises(ValidationException):
        FailureRate(0)


def test_exponential_delay_grows_to_its_limit() -> None:
    strategy = ExponentialDelay(jitter_factor=0)
    delays = [strategy.delay_after_failure(0) for _ in range(13)]
    assert delays[:4] == [1000, 1500, 2250, 3375]
    assert delays[-1] == 60_000 and None not in delays


def test_exponential_delay_starts_anew_after_a_quiet_hour() -> None:
    strategy = ExponentialDelay(jitter_factor=0)
    assert strategy.delay_after_failure(0) == 1000
    assert strategy.delay_after_failure(1000) == 1500
    assert strategy.delay_after_failure(2500 + 3_600_000 - 1) == 2250
    assert strategy.delay_after_failure(2 * 3_600_000 + 5000) == 1000


def test_exponential_delay_gives_up_after_so_many_in_a_row() -> None:
    strategy = ExponentialDelay(jitter_factor=0, attempts_before_reset_backoff=2, reset_backoff_threshold=100)
    assert strategy.delay_after_failure(0) == 1000
    assert strategy.delay_after_failure(2000) == 1000  # quiet for 1000 ms: reset
    assert strategy.delay_after_failure(3050) == 1500
    assert strategy.delay_after_failure(4560) is None


def test_jitter_stays_within_its_share() -> None:
    strategies = [ExponentialDelay(jitter_factor=0.1, seed=seed) for seed in range(200)]
    first, second = ([s.delay_after_failure(0) or 0 for s in strategies] for _ in range(2))
    # Never below the initial backoff: about half of the first delays are it.
    assert all(1000 <= d <= 1100 for d in first) and 50 < first.count(1000) < 150 and len(set(first)) > 20
    assert all(1350 <= d <= 1650 for d in second) and len(set(second)) > 100
    longest = ExponentialDelay(max_backoff=1001, seed=1)
    assert all(1000 <= (longest.delay_after_failure(0) or 0) <= 1001 for _ in range(50))
    with pytest.raises(ValidationException):
        ExponentialDelay(backoff_multiplier=1.0)
    with pytest.raises(ValidationException):
        ExponentialDelay(initial_backoff=10, max_backoff=5)
