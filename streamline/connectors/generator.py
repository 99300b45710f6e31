"""Sources of made-up records: sequences, and what a function makes of them, at a rate.

orders = env.from_source(DataGeneratorSource(make_order, count=1_000_000, rate_per_second=1000), name="orders")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from streamline._core.time import TimerHandle
from streamline._core.typeinfo import returned
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.connectors.builder import Builder
from streamline.errors import ValidationException

__all__ = ("DataGeneratorSource", "NumberSequenceSource")

T = TypeVar("T")

#: Milliseconds between two batches at a high rate.
_TICK: Final = 10


class DataGeneratorSource(Source[T]):
    """Records made of their numbers: `generator_function(0)`, `generator_function(1)`, … The same ones in every run.

    Args:
        generator_function: makes a record of its number; it returns at once.
        count: how many; None: without an end.
        rate_per_second: how many a second at most, over all subtasks; None: as fast as they are taken.
        type_info: type of the records; by default from the function's return annotation.
        splits: in how many parts the numbers are dealt out, so how many subtasks can share the work.

    Raises:
        ValidationException: a number that makes no sense.
    """

    def __init__(
        self,
        generator_function: Callable[[int], T],
        count: int | None = None,
        rate_per_second: float | None = None,
        type_info: Any = None,
        splits: int = 1,
        *,
        _timed: bool = False,
    ) -> None:
        if not callable(generator_function):
            raise ValidationException(f"a generator function is needed, not {generator_function!r}")
        if count is not None and count < 0:
            raise ValidationException(f"the count cannot be negative: {count}")
        if rate_per_second is not None and rate_per_second <= 0:
            raise ValidationException(f"the rate has to be positive, not {rate_per_second}")
        if splits < 1:
            raise ValidationException(f"there has to be at least one split, not {splits}")
        self._make: Callable[..., T] = generator_function
        #: It is given the time, in epoch ms, too.
        self._timed = _timed
        self._count = count
        self._rate = rate_per_second
        self._splits = splits
        self.bounded = count is not None
        self.parallel = splits > 1
        self.output_type = type_info if type_info is not None else returned(generator_function)

    async def discover(self) -> Sequence[Split]:
        return [Split(str(i), [i, self._count]) for i in range(self._splits)]

    def reader(self) -> SourceReader[T]:
        rate = None if self._rate is None else self._rate / self._splits
        return _Reader(self._make, self._splits, rate, self._timed)

    @classmethod
    def builder(cls) -> Builder[Any]:
        """`set_` and the name of an argument, then `build()`."""
        return Builder(cls)


class NumberSequenceSource(DataGeneratorSource[int]):
    """The whole numbers from `start` to `end`, both included.

    Args:
        start, end: the first and the last number; an end below the start gives none.
        splits: in how many parts they are dealt out, so how many subtasks can share the work.
    """

    def __init__(self, start: int, end: int, splits: int = 1) -> None:
        super().__init__(lambda i: start + i, max(0, end - start + 1), None, int, splits)


class _Reader(SourceReader[T]):
    """Every split has the numbers that leave its own remainder."""

    def __init__(self, make: Callable[..., T], stride: int, rate: float | None, timed: bool) -> None:
        self._make = make
        self._timed = timed
        self._stride: Final = stride
        self._rate = rate
        #: By split: the next number, and where it ends.
        self._next: dict[str, int] = {}
        self._end: dict[str, int | None] = {}
        self._ctx: SourceContext
        self._started = 0
        self._given = 0
        self._alarm: TimerHandle | None = None

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        self._started = ctx.clock.now()
        for split, position in splits:
            first, end = split.payload
            self._next[split.id] = first if position is None else position
            self._end[split.id] = end

    def _allowed(self) -> int | None:
        """How many more the rate allows by now; None: any number."""
        if self._rate is None:
            return None
        return 1 + int((self._ctx.clock.now() - self._started) * self._rate * len(self._next) / 1000) - self._given

    def poll(self, max_records: int) -> SplitBatch | None:
        allowed = self._allowed()
        if allowed is not None and allowed <= 0:
            self._wait()
            return None
        limit = max_records if allowed is None else min(max_records, allowed)
        for split in list(self._next):
            start, end, stride = self._next[split], self._end[split], self._stride
            stop = start + limit * stride if end is None else min(start + limit * stride, end)
            numbers = range(start, stop, stride)
            if not numbers:
                continue
            self._next[split] = self._next.pop(split) + len(numbers) * stride  # splits take turns
            self._given += len(numbers)
            return SplitBatch(split, self._made(numbers))
        return None

    def _made(self, numbers: range) -> list[T]:
        make, rest = self._make, iter(numbers)
        try:
            if self._timed:
                now = self._ctx.clock.now()
                return [make(n, now) for n in rest]
            return list(map(make, rest))
        except Exception as e:
            e.add_note(f"while record number {numbers[len(numbers) - len(list(rest)) - 1]} was made")
            raise

    def _wait(self) -> None:
        """Be woken when the rate allows one more."""
        if self._alarm is None and not self.finished and self._rate is not None:
            when = self._started + -int(-self._given * 1000 // (self._rate * len(self._next)))
            pause = 1 if self._rate * len(self._next) <= 1000 / _TICK else _TICK
            self._alarm = self._ctx.clock.call_at(max(when, self._ctx.clock.now() + pause), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._ctx.wake()

    @property
    def finished(self) -> bool:
        return all((end := self._end[split]) is not None and at >= end for split, at in self._next.items())

    def finished_splits(self) -> Sequence[str]:
        return [split for split, at in self._next.items() if (end := self._end[split]) is not None and at >= end]

    def positions(self) -> Mapping[str, Any]:
        return dict(self._next)

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
