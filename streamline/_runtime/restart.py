"""What happens after a failure: Flink's restart strategies, with its defaults. Times in milliseconds."""

from __future__ import annotations

import random
from collections import deque
from typing import Final, Protocol

from streamline.errors import ValidationException

__all__ = ("ExponentialDelay", "FailureRate", "FixedDelay", "NoRestart", "RestartStrategy")


class RestartStrategy(Protocol):
    """Decides what happens after a failure."""

    def delay_after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the next attempt, or None: give up."""
        ...


class NoRestart:
    """The first failure is the end."""

    def delay_after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the next attempt, or None: give up."""
        return None

    def __repr__(self) -> str:
        return "no restart"


class FixedDelay:
    """So many attempts, always after the same delay."""

    def __init__(self, attempts: int = 1, delay: int = 1000) -> None:
        """
        Args:
            attempts: how often the job is restarted; at least 0.
            delay: milliseconds before each.
        """
        if attempts < 0 or delay < 0:
            raise ValidationException(
                f"fixed-delay restart: attempts={attempts}, delay={delay} ms; neither is negative"
            )
        self._left = attempts
        self._delay = delay

    def delay_after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the next attempt, or None: give up."""
        if self._left <= 0:
            return None
        self._left -= 1
        return self._delay

    def __repr__(self) -> str:
        return f"fixed delay of {self._delay} ms, {self._left} attempts left"


class FailureRate:
    """Restart as long as there are not more than so many failures within an interval."""

    def __init__(self, max_failures_per_interval: int = 1, interval: int = 60_000, delay: int = 1000) -> None:
        """
        Args:
            max_failures_per_interval: how many are tolerated; at least 1.
            interval: over how many milliseconds they are counted.
            delay: milliseconds before each restart.
        """
        if max_failures_per_interval < 1 or interval <= 0 or delay < 0:
            raise ValidationException(
                f"failure-rate restart: max-failures-per-interval={max_failures_per_interval} has to be positive, "
                f"interval={interval} ms too, delay={delay} ms not negative"
            )
        self._failures: deque[int] = deque(maxlen=max_failures_per_interval + 1)
        self._max = max_failures_per_interval
        self._interval = interval
        self._delay = delay

    def delay_after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the next attempt, or None: give up."""
        self._failures.append(now)
        if len(self._failures) > self._max and now - self._failures[0] <= self._interval:
            return None
        return self._delay

    def __repr__(self) -> str:
        return f"at most {self._max} failures in {self._interval} ms, delay {self._delay} ms"


class ExponentialDelay:
    """Restart for ever (or so many times in a row), after delays that grow; they start anew after a quiet time."""

    def __init__(
        self,
        initial_backoff: int = 1000,
        max_backoff: int = 60_000,
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: int = 3_600_000,
        jitter_factor: float = 0.1,
        attempts_before_reset_backoff: int = 2**31 - 1,
        seed: int | None = None,
    ) -> None:
        """
        Args:
            initial_backoff: the first delay, ms.
            max_backoff: the longest, ms.
            backoff_multiplier: by what a delay grows from one failure to the next; above 1.
            reset_backoff_threshold: after that many ms without a failure the delays start anew.
            jitter_factor: a delay is made longer or shorter by up to this share of it, not below the first.
            attempts_before_reset_backoff: give up after so many failures in a row.
            seed: makes the jitter repeatable.
        """
        if initial_backoff < 1 or max_backoff < initial_backoff:
            raise ValidationException(
                f"exponential-delay restart: initial-backoff {initial_backoff} ms has to be positive and not above "
                f"max-backoff {max_backoff} ms"
            )
        if backoff_multiplier <= 1.0 or not 0 <= jitter_factor <= 1:
            raise ValidationException(
                f"exponential-delay restart: backoff-multiplier {backoff_multiplier} has to be above 1, jitter-factor "
                f"{jitter_factor} between 0 and 1"
            )
        self._initial: Final = initial_backoff
        self._max: Final = max_backoff
        self._multiplier: Final = backoff_multiplier
        self._threshold: Final = reset_backoff_threshold
        self._jitter: Final = jitter_factor
        self._attempts: Final = attempts_before_reset_backoff
        self._random = random.Random(seed)
        self._backoff = float(initial_backoff)
        self._in_a_row = 0
        self._quiet_from: float | None = None

    def delay_after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the next attempt, or None: give up."""
        if self._quiet_from is not None and now - self._quiet_from >= self._threshold:
            self._backoff = float(self._initial)
            self._in_a_row = 0
        self._in_a_row += 1
        if self._in_a_row > self._attempts:
            return None
        spread = self._backoff * self._jitter
        delay = min(self._backoff + self._random.uniform(-spread, spread), float(self._max))
        delay = max(delay, float(self._initial))
        self._backoff = min(self._backoff * self._multiplier, float(self._max))
        self._quiet_from = now + delay
        return max(0, round(delay))

    def __repr__(self) -> str:
        return f"exponential delay from {self._initial} to {self._max} ms, next {round(self._backoff)} ms"
