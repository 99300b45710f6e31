"""Async I/O: requests to other services that overlap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from streamline._core.time import Duration, to_millis
from streamline._operators.async_retry import AsyncRetryStrategy
from streamline._operators.async_wait import AsyncWait
from streamline.errors import ValidationException
from streamline.functions import AsyncFunction
from streamline.stream.adapt import checked, result_type
from streamline.stream.datastream import DataStream

__all__ = ("AsyncDataStream",)

T = TypeVar("T")
R = TypeVar("R")


class AsyncDataStream:
    """Calls an async function for many records at a time.

    A plain `async def` in `map` asks for one record after the other; here up to `capacity` requests are under way. They
    are part of checkpoints, and asked again after a restore. Results never cross a watermark.
    """

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R] | Callable[[T], Awaitable[list[R]]],
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]: ...
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Results leave as answers come.

        Args:
            data_stream: the records.
            async_function: an AsyncFunction, or an `async def` of (record); a list is many results, None is none.
            timeout: of one record's request (timedelta, text or ms); 0: none. When it is over, `timeout()` of an
                AsyncFunction gives the results; without one the job fails.
            capacity: requests under way at most; then records wait.
            output_type: type of the results.
        """
        return _wait(data_stream, async_function, timeout, capacity, output_type, False, None)

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R] | Callable[[T], Awaitable[list[R]]],
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]: ...
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Results leave in the order of their records; else as `unordered_wait`."""
        return _wait(data_stream, async_function, timeout, capacity, output_type, True, None)

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R] | Callable[[T], Awaitable[list[R]]],
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]: ...
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """As `unordered_wait`; a request is made again as the strategy says, within the timeout."""
        return _wait(data_stream, async_function, timeout, capacity, output_type, False, async_retry_strategy)

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R] | Callable[[T], Awaitable[list[R]]],
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]: ...
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: Any,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """As `ordered_wait`; a request is made again as the strategy says, within the timeout."""
        return _wait(data_stream, async_function, timeout, capacity, output_type, True, async_retry_strategy)


def _wait(
    stream: DataStream[Any],
    function: Any,
    timeout: Duration,
    capacity: int,
    output_type: Any,
    ordered: bool,
    retry: AsyncRetryStrategy | None,
) -> DataStream[Any]:
    if not isinstance(stream, DataStream):
        raise ValidationException(f"async I/O needs a stream, not {stream!r}")
    checked(function, "async_invoke", "async I/O")
    millis = to_millis(timeout, "timeout")
    if millis < 0:
        raise ValidationException(f"the timeout cannot be negative: {timeout!r}")
    if type(capacity) is not int or capacity <= 0:
        raise ValidationException(f"the capacity has to be positive (an int), not {capacity!r}")
    if retry is not None:
        for method in ("can_retry", "get_backoff_time_millis", "get_retry_predicate"):
            checked(getattr(retry, method, None), method, "a retry strategy")
    node = stream._attach(
        "ordered_wait" if ordered else "unordered_wait",
        lambda: AsyncWait(function, millis, capacity, ordered, retry),
        output_type=result_type(output_type, function, "async_invoke", elements=True),
    )
    return DataStream(stream._env, stream._new(node).origins, node.output_type)
