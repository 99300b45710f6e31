"""When a request of async I/O is made again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streamline._core.time import Duration, to_millis
from streamline.errors import ValidationException

__all__ = (
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
    "empty_result_predicate",
    "exception_type_predicate",
    "has_exception_predicate",
)


def empty_result_predicate(results: list[Any]) -> bool:
    """A result_predicate: ask again where nothing was found."""
    return not results


def has_exception_predicate(exception: Exception) -> bool:
    """An exception_predicate: ask again after every error."""
    return True


def exception_type_predicate(exception: Exception, expected_error_type: type[Exception]) -> bool:
    """An exception_predicate when its type is bound: `functools.partial(…, expected_error_type=ConnectionError)`."""
    return isinstance(exception, expected_error_type)


class AsyncRetryPredicate(ABC):
    """What makes a request be made again."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[Any]], bool] | None:
        """Tells of the results whether to ask again; None: never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Tells of an error whether to ask again; None: never."""


class AsyncRetryStrategy(ABC):
    """How often and when a request is made again; one object serves all requests."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Milliseconds to wait after so many attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """What makes a request be made again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """One attempt."""
        return NoRetryStrategy()

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: Duration,
        result_predicate: Callable[[list[Any]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy:
        """A FixedDelayRetryStrategy."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: Duration,
        max_retry_delay: Duration,
        multiplier: float,
        result_predicate: Callable[[list[Any]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy:
        """An ExponentialBackoffDelayRetryStrategy."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """Made of two callables."""

    def __init__(
        self,
        result_predicate: Callable[[list[Any]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[Any]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """One attempt."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate()


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """Up to `max_attempts` further attempts, at equal distances."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: Duration,
        result_predicate: Callable[[list[Any]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> None:
        """
        Args:
            max_attempts: attempts after the first.
            backoff_time_millis: the pause before each; a bare number is milliseconds.
            result_predicate, exception_predicate: what makes a request be made again.

        Raises:
            ValidationException: a number is not positive.
        """
        backoff = to_millis(backoff_time_millis, "backoff_time_millis")
        _positive(max_attempts=max_attempts, backoff_time_millis=backoff)
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """Up to `max_attempts` further attempts, at growing distances."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: Duration,
        max_retry_delay: Duration,
        multiplier: float,
        result_predicate: Callable[[list[Any]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> None:
        """
        Args:
            max_attempts: attempts after the first.
            initial_delay: the pause before the second attempt; a bare number is milliseconds.
            max_retry_delay: the longest pause; a bare number is milliseconds.
            multiplier: by which the delay grows each time.
            result_predicate, exception_predicate: what makes a request be made again.

        Raises:
            ValidationException: a number is not positive.
        """
        initial = to_millis(initial_delay, "initial_delay")
        longest = to_millis(max_retry_delay, "max_retry_delay")
        _positive(
            max_attempts=max_attempts,
            initial_delay=initial,
            max_retry_delay=longest,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial = initial
        self._longest = longest
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return int(min(self._initial * self._multiplier ** max(0, current_attempts - 1), self._longest))

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ValidationException(f"{name} has to be positive, not {number}")
