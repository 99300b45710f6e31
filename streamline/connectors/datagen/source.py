"""A source whose records are a function of their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from streamline._core.time import TimerHandle
from streamline.abc import Source, SourceContext, SourceReader, Split, SplitBatch
from streamline.connectors.builder import Builder
from streamline.errors import ValidationException

__all__ = ("DataGeneratorSource", "NumberSequenceSource", "RateLimiterStrategy")

T = TypeVar("T")

_SPLIT: Final = Split("0")
#: Milliseconds between two batches at a high rate.
_TICK: Final = 10
#: More records than anybody waits for.
_FOR_EVER: Final = 1 << 63


@dataclass(frozen=True)
class RateLimiterStrategy:
    """How fast records come.

    Attributes:
        rate: records a second; None: as fast as they are taken.
    """

    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise ValidationException(f"a rate has to be positive, not {self.rate}: records a second")

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """So many records a second, evenly."""
        return RateLimiterStrategy(records_per_second)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """As fast as they are taken."""
        return RateLimiterStrategy()


class DataGeneratorSource(Source[T], Generic[T]):
    """Gives `generator_function(0)`, `generator_function(1)`, …, in this order.

    The same records come again after a restart, from where the checkpoint was. One subtask makes them: in one process
    several would not be faster.

    Args:
        generator_function: gives a record of its number.
        count: how many records there are; None: no end.
        rate_limiter_strategy: how fast they come; a number is records a second; None: as fast as they are taken.
        type_info: type of the records; by default what the function is annotated to return.

    Raises:
        ValidationException: the arguments do not fit.
    """

    parallel = False

    def __init__(
        self,
        generator_function: Callable[[int], T],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | float | None = None,
        type_info: Any = None,
        *,
        _timed: bool = False,
    ) -> None:
        if not callable(generator_function):
            raise ValidationException(f"a function of a record's number is needed, not {generator_function!r}")
        if count is not None and count < 0:
            raise ValidationException(f"the count of records must not be negative: {count}")
        self._function: Final[Callable[..., T]] = generator_function
        self._timed = _timed
        self._count = count
        strategy = rate_limiter_strategy
        self._rate = (strategy if isinstance(strategy, RateLimiterStrategy) else RateLimiterStrategy(strategy)).rate
        self.bounded = count is not None
        returned = getattr(generator_function, "__annotations__", {}).get("return")
        self.output_type = type_info if type_info is not None else None if isinstance(returned, str) else returned

    @staticmethod
    def builder() -> Builder[DataGeneratorSource[Any]]:
        """The same by setters: `set_generator_function`, `set_count`, `set_rate_limiter_strategy`, `build`."""
        return Builder(DataGeneratorSource)

    async def discover(self) -> Sequence[Split]:
        return [_SPLIT]

    def reader(self) -> SourceReader[T]:
        return _Generating(self._function, self._count, self._rate, self._timed)


class NumberSequenceSource(DataGeneratorSource[int]):
    """The whole numbers from `start` to `end`, both included."""

    def __init__(self, start: int, end: int) -> None:
        if end < start:
            raise ValidationException(f"the end of a sequence of numbers, {end}, is before its start, {start}")
        super().__init__(lambda n: start + n, end - start + 1, type_info=int)


class _Generating(SourceReader[T]):
    def __init__(self, function: Callable[..., T], count: int | None, rate: float | None, timed: bool) -> None:
        self._function = function
        self._timed = timed
        self._end = _FOR_EVER if count is None else count
        self._rate = rate
        self._position = 0
        #: The number of the first record of this run, and when it was due (ms).
        self._first = 0
        self._since = 0
        self._alarm: TimerHandle | None = None

    async def open(self, ctx: SourceContext, splits: Sequence[tuple[Split, Any]]) -> None:
        self._ctx = ctx
        self._position = self._first = (splits[0][1] or 0) if splits else self._end
        self._since = ctx.clock.now()

    def poll(self, max_records: int) -> SplitBatch | None:
        start, function = self._position, self._function
        stop = min(start + max_records, self._end)
        if self._rate is not None and start < stop:
            stop = min(stop, self._due(self._ctx.clock.now(), self._rate))
            if stop <= start:
                self._wait(self._rate)
                return None
        if stop <= start:
            return None
        numbers = range(start, stop)
        if self._timed:
            now = self._ctx.clock.now()
            values = [function(n, now) for n in numbers]
        else:
            values = self._made(numbers)
        self._position = stop
        return SplitBatch("0", values)

    def _made(self, numbers: range) -> list[T]:
        rest = iter(numbers)
        try:
            return list(map(self._function, rest))
        except Exception as e:
            e.add_note(f"while record number {numbers[len(numbers) - len(list(rest)) - 1]} was made")
            raise

    def _due(self, now: int, rate: float) -> int:
        """The number of the first record that is not due yet: record k is due k/rate seconds after the start."""
        return self._first + int((now - self._since) * rate / 1000) + 1

    def _wait(self, rate: float) -> None:
        """Have `poll` called again when the next record is due, or a few later ones where they come thick."""
        now = self._ctx.clock.now()
        due = self._since + -int(-(self._position - self._first) * 1000 // rate)
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._ctx.clock.call_at(max(due, now + (_TICK if rate > 1000 / _TICK else 1)), self._ctx.wake)

    @property
    def finished(self) -> bool:
        return self._position >= self._end

    def positions(self) -> Mapping[str, Any]:
        return {"0": self._position}

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
