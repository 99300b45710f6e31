"""What somebody who knows PyFlink types first, and what they get for a mistake."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from streamline import AsyncDataStream, StreamExecutionEnvironment
from streamline.functions import (
    AsyncRetryStrategy,
    NoRetryStrategy,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from streamline.testing import ScriptedSource, VirtualClock


class Service:
    """Gives what `answers` hold, one a call; notes when it was called (ms)."""

    def __init__(self, clock: VirtualClock, *answers: Any) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.calls: list[int] = []

    async def ask(self, value: int) -> list[int]:
        self.calls.append(self.clock.now())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


async def asked(service: Service, strategy: AsyncRetryStrategy) -> list[int]:
    # The end of the input cuts retries short, so this one stays open.
    stream = StreamExecutionEnvironment.get_execution_environment().from_source(ScriptedSource([1], ends=False))
    answers = AsyncDataStream.ordered_wait_with_retry(stream, service.ask, "1 h", strategy)
    async with answers.execute_and_collect(limit=1) as results:
        return [x async for x in results]


ON_ERROR = functools.partial(exception_type_predicate, expected_error_type=ConnectionError)


@pytest.mark.parametrize(
    ("strategy", "pauses"),
    [
        (AsyncRetryStrategy.fixed_delay(3, 500, empty_result_predicate, has_exception_predicate), [500, 500]),
        (AsyncRetryStrategy.fixed_delay(3, "2 s", empty_result_predicate, ON_ERROR), [2000, 2000]),
        (
            AsyncRetryStrategy.exponential_backoff(
                max_attempts=3,
                initial_delay="1 s",
                max_retry_delay="1 min",
                multiplier=3,
                result_predicate=empty_result_predicate,
                exception_predicate=ON_ERROR,
            ),
            [1000, 3000],
        ),
    ],
)
async def test_retry_strategies_by_pyflinks_names(
    virtual_clock: VirtualClock, strategy: AsyncRetryStrategy, pauses: list[int]
) -> None:
    service = Service(virtual_clock, ConnectionError("gone"), [], [7])
    assert await asked(service, strategy) == [7]
    assert [b - a for a, b in zip(service.calls, service.calls[1:])] == pauses


async def test_an_error_of_another_type_is_not_asked_again(virtual_clock: VirtualClock) -> None:
    service = Service(virtual_clock, KeyError("k"), [7])
    with pytest.raises(KeyError):
        await asked(service, AsyncRetryStrategy.fixed_delay(3, 500, None, ON_ERROR))
    assert len(service.calls) == 1


def test_no_restart_is_one_attempt() -> None:
    assert isinstance(AsyncRetryStrategy.no_restart(), NoRetryStrategy)
