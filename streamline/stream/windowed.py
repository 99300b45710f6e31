"""Windowed streams: keyed ones, and those over all records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, overload

from streamline._core.output_tag import OutputTag
from streamline._core.time import Duration, to_millis
from streamline._operators.fields import Rolling, by_field, extreme, field_sum
from streamline._operators.window.aligned import AlignedWindows
from streamline._operators.window.assign import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from streamline._operators.window.call import Shape, WindowCall
from streamline._operators.window.evict import CountEvictor, Evictor
from streamline._operators.window.general import GeneralWindows
from streamline._operators.window.incremental import Incremental, aggregating, reducing
from streamline._operators.window.sessions import SessionWindows
from streamline._operators.window.trigger import CountTrigger, PurgingTrigger, Trigger
from streamline.abc import Operator
from streamline.errors import ValidationException
from streamline.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from streamline.stream.adapt import check_field, checked, result_type

if TYPE_CHECKING:
    from streamline.stream.datastream import DataStream
    from streamline.stream.environment import StreamExecutionEnvironment
    from streamline.stream.keyed import KeyedStream

__all__ = ("AllWindowedStream", "WindowedStream", "count_windowed")

T = TypeVar("T")
R = TypeVar("R")
#: A function class that is called with the records of a window, by what it gives.
WindowCalled: TypeAlias = (
    ProcessWindowFunction[Any, R, Any, Any]
    | ProcessAllWindowFunction[Any, R, Any]
    | WindowFunction[Any, R, Any, Any]
    | AllWindowFunction[Any, R, Any]
)
Make = Callable[[], Incremental]
Win = TypeVar("Win", bound="_Windowed[Any]")


@dataclass(frozen=True)
class WindowPlan:
    """What a windowed stream has been told."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor | None = None
    lateness: int = 0
    late_tag: OutputTag[Any] | None = None


class _Windowed(Generic[T]):
    """What windowed streams have in common."""

    _shapes: tuple[Shape, Shape]

    def __init__(self, input_stream: KeyedStream[T], window_assigner: Any) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise ValidationException(f"a window assigner is needed (streamline.windows), not {window_assigner!r}")
        if window_assigner.is_event_time() and input_stream.event_time == "no":
            raise ValidationException(_no_event_time(input_stream, window_assigner))
        self._input = input_stream
        self._plan = WindowPlan(window_assigner)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment it belongs to."""
        return self._input.get_execution_environment()

    def get_input_type(self) -> Any:
        """Type of the records."""
        return self._input.element_type()

    # -- how ---------------------------------------------------------------------------------------------------------

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Fire when this trigger says so, instead of the assigner's own.

        Raises:
            ValidationException: it is no trigger, or cannot be used with windows that merge.
        """
        if not isinstance(trigger, Trigger):
            raise ValidationException(f"a trigger is needed (streamline.windows), not {trigger!r}")
        if isinstance(self._plan.assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ValidationException(
                f"{type(trigger).__name__} cannot be used with {self._plan.assigner}, whose windows merge: "
                "can_merge() says no"
            )
        self._plan = replace(self._plan, trigger=trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Have records removed before or after the window's function; all records of a window are kept for it.

        Raises:
            ValidationException: it is no evictor.
        """
        if not isinstance(evictor, Evictor):
            raise ValidationException(f"an evictor is needed (streamline.windows), not {evictor!r}")
        self._plan = replace(self._plan, evictor=evictor)
        return self

    def allowed_lateness(self, time: Duration) -> Self:
        """Keep windows for so long behind their end: a record that comes late until then fires them again.

        Args:
            time: timedelta, text or ms; default 0.

        Raises:
            ValidationException: negative.
        """
        lateness = to_millis(time, "allowed_lateness")
        if lateness < 0:
            raise ValidationException(f"the allowed lateness cannot be negative: {time!r}")
        self._plan = replace(self._plan, lateness=lateness)
        return self

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Send records that come too late to a side output of the result instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise ValidationException(f"side_output_late_data needs an OutputTag, not {output_tag!r}")
        self._plan = replace(self._plan, late_tag=output_tag)
        return self

    # -- what --------------------------------------------------------------------------------------------------------

    @overload
    def reduce(self, reduce_function: Any, window_function: None = None, output_type: Any = None) -> DataStream[T]: ...
    @overload
    def reduce(
        self, reduce_function: Any, window_function: WindowCalled[R], output_type: Any = None
    ) -> DataStream[R]: ...
    @overload
    def reduce(self, reduce_function: Any, window_function: Any, output_type: Any = None) -> DataStream[Any]: ...
    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Combine the records of a window as they come.

        Args:
            reduce_function: ReduceFunction, or a callable of (record, record).
            window_function: what is called with the one result: a process window function, a WindowFunction, or a
                callable of (key, context, results); `window_all`'s have no key.
            output_type: type of the results.
        """
        checked(reduce_function, "reduce", "reduce")
        reducing(reduce_function)
        return self._incremental(
            "reduce", lambda: reducing(reduce_function), window_function, output_type or self._input.element_type()
        )

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, R],
        window_function: None = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: Any,
        window_function: WindowCalled[R],
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[Any]: ...
    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Combine the records of a window in an accumulator as they come.

        Args:
            aggregate_function: AggregateFunction.
            window_function: what is called with the one result: a process window function, a WindowFunction, or a
                callable of (key, context, results); `window_all`'s have no key.
            accumulator_type: type of the accumulator, for its state.
            output_type: type of the results; by default from the annotation of `get_result`.

        Raises:
            ValidationException: it has not all four methods, or one of them is async.
        """
        for method in ("create_accumulator", "add", "get_result", "merge"):
            if not callable(getattr(aggregate_function, method, None)) or isinstance(aggregate_function, type):
                raise ValidationException(f"aggregate needs an AggregateFunction object, not {aggregate_function!r}")
        aggregating(aggregate_function)
        kind = output_type or (
            result_type(None, aggregate_function.get_result, "get_result") if window_function is None else None
        )
        return self._incremental("aggregate", lambda: aggregating(aggregate_function), window_function, kind)

    @overload
    def process(self, process_window_function: WindowCalled[R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]: ...
    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a function with all records of a window, with context.

        Args:
            process_window_function: a ProcessWindowFunction or a callable of (key, context, records); for `window_all`
                a ProcessAllWindowFunction or a callable of (context, records). It returns or yields results.
            output_type: type of the results; by default from the return annotation.
        """
        checked(process_window_function, "process", "process")
        kind = result_type(output_type, process_window_function, "process", elements=True)
        return self._build("process", None, process_window_function, self._shapes[0], kind)

    @overload
    def apply(self, window_function: WindowCalled[R], output_type: Any = None) -> DataStream[R]: ...
    @overload
    def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]: ...
    def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a function with all records of a window.

        Args:
            window_function: a WindowFunction or a callable of (key, window, records); for `window_all` an
                AllWindowFunction or a callable of (window, records). It returns or yields results.
            output_type: type of the results; by default from the return annotation.
        """
        checked(window_function, "apply", "apply")
        kind = result_type(output_type, window_function, "apply", elements=True)
        return self._build("apply", None, window_function, self._shapes[1], kind)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """The sum of a field over a window; the other fields are those of its first record."""
        return self._of_field("sum", position_to_sum, field_sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The minimum of a field over a window; the other fields are those of its first record."""
        return self._of_field("min", position_to_min, extreme(position_to_min, smallest=True))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The maximum of a field over a window; the other fields are those of its first record."""
        return self._of_field("max", position_to_max, extreme(position_to_max, smallest=False))

    def min_by(self, position_to_min_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record of a window with the smallest value of a field; of several the first (else the last)."""
        return self._of_field("min_by", position_to_min_by, by_field(position_to_min_by, smallest=True, first=first))

    def max_by(self, position_to_max_by: int | str = 0, first: bool = True) -> DataStream[T]:
        """The record of a window with the largest value of a field; of several the first (else the last)."""
        return self._of_field("max_by", position_to_max_by, by_field(position_to_max_by, smallest=False, first=first))

    def _of_field(self, name: str, field: int | str, func: Rolling) -> DataStream[Any]:
        kind = self._input.element_type()
        check_field(kind, field, name)
        # A window of one record never calls the function: its result is looked at.
        return self._incremental("reduce", lambda: replace(reducing(func), result=func.check), None, kind)

    # -- building ----------------------------------------------------------------------------------------------------

    def _incremental(self, name: str, make: Make, window_function: Any, output_type: Any) -> DataStream[Any]:
        if window_function is None:
            return self._build(name, make, None, self._shapes[0], output_type)
        applies = not callable(window_function) and not hasattr(window_function, "process")
        shape = self._shapes[1 if applies else 0]
        method = "apply" if applies else "process"
        checked(window_function, method, name)
        kind = result_type(output_type, window_function, method, elements=True)
        return self._build(name, make, window_function, shape, kind)

    def _build(self, name: str, make: Make | None, function: Any, shape: Shape, output_type: Any) -> DataStream[Any]:
        plan, selector, env = self._plan, self._input.key_selector, self._input.get_execution_environment()
        trigger = plan.trigger or plan.assigner.get_default_trigger(env)
        late = None if plan.late_tag is None else plan.late_tag.tag_id

        def operator() -> Operator:
            call = None if function is None else WindowCall(function, shape)
            assigner = plan.assigner
            if _fires_at_end_once(plan):
                if isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows)):
                    incremental = None if make is None else make()
                    return AlignedWindows(
                        selector, assigner.size, assigner.slide, assigner.offset, incremental, call, late
                    )
                if make is not None and type(assigner) in _SESSIONS:
                    return SessionWindows(selector, session_gap(assigner), make(), call, late)
            return GeneralWindows(
                selector,
                assigner,
                trigger,
                plan.evictor,
                plan.lateness,
                None if make is None else make(),
                call,
                late,
            )

        return self._input.window_result(
            "window", operator, output_type, f"{plan.assigner}, {name}", isinstance(self, AllWindowedStream)
        )


_SESSIONS = (EventTimeSessionWindows, DynamicEventTimeSessionWindows)


def _fires_at_end_once(plan: WindowPlan) -> bool:
    """Whether the fast forms do: event-time windows of ours that fire once, at their end."""
    assigner = plan.assigner
    if plan.trigger is not None or plan.evictor is not None or plan.lateness != 0:
        return False
    if type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows):
        regular = assigner.size % assigner.slide == 0  # type: ignore[attr-defined]
        return regular and assigner.stagger is WindowStagger.ALIGNED  # type: ignore[attr-defined]
    return type(assigner) in _SESSIONS


def session_gap(assigner: Any) -> int | Callable[[Any], int]:
    """The gap of session windows: milliseconds, or what gives them for a record."""
    gap: int | Callable[[Any], int] = assigner.gap if isinstance(assigner.gap, int) else assigner.gap_of
    return gap


class WindowedStream(_Windowed[T]):
    """The windows of a keyed stream. What is built of it has one result or more for each key and window."""

    _shapes = ("process", "apply")


class AllWindowedStream(_Windowed[T]):
    """Windows over all records, worked on by one subtask."""

    _shapes = ("process_all", "apply_all")


def count_windowed(windows: Win, size: int, slide: int) -> Win:
    """Windows of `size` records, or of the last `size` each `slide` records, made of global windows."""
    if type(size) is not int or type(slide) is not int or size <= 0 or slide < 0:
        raise ValidationException(f"count windows need a positive size and slide, not {size!r} and {slide!r}")
    if slide == 0:
        return windows.trigger(PurgingTrigger.of(CountTrigger.of(size)))
    return windows.trigger(CountTrigger.of(slide)).evictor(CountEvictor.of(size))


def _no_event_time(stream: KeyedStream[Any], assigner: WindowAssigner[Any, Any]) -> str:
    names = ", ".join(repr(n) for n in stream.sources_of_time())
    return (
        f"{assigner} follows event time, and the stream can carry no timestamps: it comes from {names}. Either use "
        "assign_timestamps_and_watermarks(...) before the window, or, behind a table, select a time attribute "
        "(e.g. window_time, or the rowtime column) in the conversion. To close windows at the end of the input only, "
        "assign WatermarkStrategy.no_watermarks() with a timestamp assigner"
    )
