"""A key selector that fails is told at any parallelism, also where nothing behind it asks for keys."""

from __future__ import annotations

from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline.errors import ValidationException


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("selector", "error"), [(lambda v: v.nothing, AttributeError), (lambda v: [v], ValidationException)]
)
async def test_a_selector_that_fails(parallelism: int, selector: Any, error: type[Exception]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    stream = env.from_collection([1, 2, 3]).key_by(selector).map(lambda v: v)
    with pytest.raises(error) as failure:
        async with stream.execute_and_collect() as it:
            assert [x async for x in it] == []
    assert any("in operator" in note or "in source" in note for note in failure.value.__notes__)
    assert any(note == "record: 1" for note in failure.value.__notes__)


async def test_it_is_asked_once() -> None:
    asked: list[int] = []
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stream = env.from_collection(list(range(5000))).key_by(asked.append).map(lambda v: v)
    async with stream.execute_and_collect() as it:
        assert len([x async for x in it]) == 5000
    assert asked == [0]
